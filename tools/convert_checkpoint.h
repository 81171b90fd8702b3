/* tools/convert_checkpoint.h - the weights of a training program's checkpoint. */
#ifndef APC_TOOLS_CONVERT_CHECKPOINT_H
#define APC_TOOLS_CONVERT_CHECKPOINT_H

#include "tools/tool.h"

/* Returns the checkpoint that a path names: that of a folder, or the file itself; NULL if it is none. */
const char *tool_checkpoint(Tool *t, const char *path);

/* Checks a checkpoint against its checksums; a file without any passes.  False after a diagnostic. */
bool tool_checkpoint_whole(Tool *t, const char *path);

/* Writes the weights, without the optimizer's states, to a .safetensors or .npz file.  False after a diagnostic. */
bool tool_convert_checkpoint(Tool *t, const char *in, const char *out);

#endif
