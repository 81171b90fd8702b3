/* tools/convert_trained.h - apc convert MODEL.onnx OUT.onnx --weights TRAINED.safetensors: writes trained weights into
 * the model that they come from. */
#ifndef APC_TOOLS_CONVERT_TRAINED_H
#define APC_TOOLS_CONVERT_TRAINED_H

#include "tools/tool.h"

/* Writes the model with the trained weights.  False after diagnostics, which list all tensors without a place in the
 * model and all missing weights at once. */
bool tool_convert_trained(Tool *t, const char *in, const char *weights, const char *out);

#endif
