/* tools/weights_dtype.h - the option --weights-dtype. */
#ifndef APC_TOOLS_WEIGHTS_DTYPE_H
#define APC_TOOLS_WEIGHTS_DTYPE_H

#include "driver/model.h"
#include "ir/target.h"
#include "tools/tool.h"

/* Sets the form of packed weights; false after diagnostics: of its text, or of an option that it cannot be combined
 * with. */
bool tool_weights_dtype(Tool *t, ModelOptions *o);

/* False after a diagnostic if the target's devices have no kernels for it. */
bool tool_weights_dtype_runs(Tool *t, const Target *target);

/* False after a diagnostic if a form of --emit cannot have such weights: ONNX, or IR text, which would name them in a
 * file that the command removes. */
bool tool_weights_dtype_emits(Tool *t, bool onnx, bool ir);

#endif
