/* tools/emit_onnx.h - --emit=onnx: the model and its plan as one ONNX file. */
#ifndef APC_TOOLS_EMIT_ONNX_H
#define APC_TOOLS_EMIT_ONNX_H

#include "tools/build.h"

/* Returns the bytes of the file, in the tool's arena: the model with sharding annotations of the plan, and apc's notes
 * (frontend/onnx/notes.h).  `file` is for messages.  NULL after diagnostics. */
const uint8_t *tool_onnx(Tool *t, const Build *b, const char *file, size_t *bytes);

#endif
