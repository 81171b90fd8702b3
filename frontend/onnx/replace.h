/* frontend/onnx/replace.h - an ONNX model with other weights.
 *
 * The graph stays as it is, nodes and names and whatever apc knows nothing of: only the bytes of initializers change.
 * Weights that lay in other files come into this one.  A weight that the file has not by itself (ir/training.h) becomes
 * an initializer that its nodes read; an Identity that gave it its name goes.
 */
#ifndef APC_FRONTEND_ONNX_REPLACE_H
#define APC_FRONTEND_ONNX_REPLACE_H

#include "base/tensor.h"
#include "frontend/onnx/file.h"
#include "ir/training.h"

/* The new values of an initializer, in memory that lives until the model was packed: true with data NULL when it stays
 * what it is, false after a diagnostic. */
typedef bool OnnxReplacement(void *context, const char *name, const OnnxData *old, Tensor *out);

/* The values of a weight that the file has not by itself; false after a diagnostic. */
typedef bool OnnxAddition(void *context, const char *name, Tensor *out);

typedef struct OnnxReplacing {
  OnnxReplacement *replacement;
  OnnxAddition *addition;
  const TrainingReads *reads; /* of those weights */
  void *context;
} OnnxReplacing;

/* The bytes of the new model, in the arena of the diagnostics; NULL after diagnostics. */
uint8_t *onnx_replace(const char *path, const OnnxReplacing *how, size_t *bytes, Diags *diags);

#endif
