/* frontend/onnx/export.h - writes a level-1 function as an ONNX model.
 *
 * Every operation becomes standard operators that compute the same for all inputs; composites (norm, rope,
 * attention, cross-entropy) become their decompositions.  Operations without an ONNX form are reported, one
 * diagnostic per kind.  The graph computes sizes of symbolic dimensions from the shapes of its inputs.
 */
#ifndef APC_FRONTEND_ONNX_EXPORT_H
#define APC_FRONTEND_ONNX_EXPORT_H

#include "base/tensor.h"
#include "ir/ir.h"

/* Provides the values of a weight, in memory that lives until the model is packed; false after a diagnostic. */
typedef bool OnnxWeight(void *context, const Param *p, Tensor *out);

/* Returns the bytes of the model, in the arena of the diagnostics; NULL after diagnostics.  The function must not
 * call others. */
uint8_t *onnx_export(Module *m, const Func *f, OnnxWeight *weight, void *context, const char *producer,
                     const char *version, size_t *bytes, Diags *diags);

#endif
