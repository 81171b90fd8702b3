/* tools/reference.h - a model's outputs by the reference interpreter (ir/interp.h), in double. */
#ifndef APC_TOOLS_REFERENCE_H
#define APC_TOOLS_REFERENCE_H

#include "tools/execute.h"

/* Runs the level-1 function on the inputs; weights are read from their files.  Outputs are rounded to their own type.
 * False after diagnostics. */
bool reference_run(Tool *t, const Build *b, const Tensors *inputs, Tensors *outputs);

/* Is the model small enough for the interpreter to end within seconds? */
bool reference_is_small(const Build *b);

#endif
