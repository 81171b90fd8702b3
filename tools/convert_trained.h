/* tools/convert_trained.h - apc convert MODEL.onnx OUT.onnx --weights TRAINED.safetensors: trained weights go back into
 * the model that they come from. */
#ifndef APC_TOOLS_CONVERT_TRAINED_H
#define APC_TOOLS_CONVERT_TRAINED_H

#include "tools/tool.h"

/* False after diagnostics: all tensors that the model has no place for, and all weights that are missing, at once. */
bool tool_convert_trained(Tool *t, const char *in, const char *weights, const char *out);

#endif
