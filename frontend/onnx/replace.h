/* frontend/onnx/replace.h - writes an ONNX model with other weights.
 *
 * The graph is unchanged, with all nodes, names and parts that apc does not know: only the bytes of initializers
 * change.  Weights from other files are stored in this one.  A weight that the file does not store separately
 * (ir/training.h) becomes an initializer that its nodes read; an Identity that gave it its name is removed.
 */
#ifndef APC_FRONTEND_ONNX_REPLACE_H
#define APC_FRONTEND_ONNX_REPLACE_H

#include "base/tensor.h"
#include "frontend/onnx/file.h"
#include "ir/training.h"

/* Provides the new values of an initializer, in memory that lives until the model is packed: true with data NULL if
 * it is unchanged, false after a diagnostic. */
typedef bool OnnxReplacement(void *context, const char *name, const OnnxData *old, Tensor *out);

/* Provides the values of a weight that the file does not store separately; false after a diagnostic. */
typedef bool OnnxAddition(void *context, const char *name, Tensor *out);

/* Extends the model before it is packed; false after a diagnostic. */
typedef bool OnnxReplaced(void *context, Onnx__ModelProto *model);

typedef struct OnnxReplacing {
  OnnxReplacement *replacement;
  OnnxAddition *addition;
  OnnxReplaced *finish;       /* NULL if there is nothing to add */
  const TrainingReads *reads; /* the reads of those weights; NULL if none */
  void *context;
} OnnxReplacing;

/* Returns the bytes of the new model, in the arena of the diagnostics; NULL after diagnostics. */
uint8_t *onnx_replace(const char *path, const OnnxReplacing *how, size_t *bytes, Diags *diags);

#endif
