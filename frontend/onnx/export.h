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

/* A model that is written: its message, and the places of the function in it. */
typedef struct OnnxWritten {
  struct Onnx__ModelProto *model;
  const int *operations;    /* by node: the operation of the function that it is written for; -1 if none */
  const char *const *names; /* by value of the function: its name in the graph; NULL if it has none */
} OnnxWritten;

/* Extends a model before it is packed; false after a diagnostic. */
typedef bool OnnxFinish(void *context, const OnnxWritten *w);

typedef struct OnnxExporting {
  OnnxWeight *weight;
  OnnxFinish *finish; /* NULL if there is nothing to add */
  void *context;      /* of both */
  const char *producer, *version;
} OnnxExporting;

/* Returns the bytes of the model, in the arena of the diagnostics; NULL after diagnostics.  The function must not
 * call others. */
uint8_t *onnx_export(Module *m, const Func *f, const OnnxExporting *how, size_t *bytes, Diags *diags);

#endif
