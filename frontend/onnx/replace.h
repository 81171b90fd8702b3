/* frontend/onnx/replace.h - an ONNX model with other weights.
 *
 * The graph stays as it is, nodes and names and whatever apc knows nothing of: only the bytes of initializers change.
 * Weights that lay in other files come into this one.
 */
#ifndef APC_FRONTEND_ONNX_REPLACE_H
#define APC_FRONTEND_ONNX_REPLACE_H

#include "base/tensor.h"
#include "frontend/onnx/file.h"

/* The new values of an initializer, in memory that lives until the model was packed: true with data NULL when it stays
 * what it is, false after a diagnostic. */
typedef bool OnnxReplacement(void *context, const char *name, const OnnxData *old, Tensor *out);

/* The bytes of the new model, in the arena of the diagnostics; NULL after diagnostics. */
uint8_t *onnx_replace(const char *path, OnnxReplacement *replacement, void *context, size_t *bytes, Diags *diags);

#endif
