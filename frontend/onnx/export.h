/* frontend/onnx/export.h - a level-1 function as an ONNX model.
 *
 * Every operation is written as standard operators that compute the same for all inputs; composites (norm, rope,
 * attention, cross-entropy) as their decompositions.  What has no ONNX form is reported, every kind of operation once.
 * Sizes of symbolic dimensions are computed in the graph from the shapes of the inputs.
 */
#ifndef APC_FRONTEND_ONNX_EXPORT_H
#define APC_FRONTEND_ONNX_EXPORT_H

#include "base/tensor.h"
#include "ir/ir.h"

/* The values of a weight, in memory that lives until the model was packed; false after a diagnostic. */
typedef bool OnnxWeight(void *context, const Param *p, Tensor *out);

/* The bytes of the model, in the arena of the diagnostics; NULL after diagnostics.  The function must not call
 * others. */
uint8_t *onnx_export(Module *m, const Func *f, OnnxWeight *weight, void *context, const char *producer,
                     const char *version, size_t *bytes, Diags *diags);

#endif
