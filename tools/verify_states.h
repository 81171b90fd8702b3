/* tools/verify_states.h - adds an entry that reads all states, so that apc verify compares the final states of runs.
 *
 * It is added after planning and lowered like any other entry: states are where the plan places them, and the proof
 * covers how they are assembled.
 */
#ifndef APC_TOOLS_VERIFY_STATES_H
#define APC_TOOLS_VERIFY_STATES_H

#include "tools/build.h"
#include "tools/execute.h"

/* Adds a function with one output per state, of its name; NULL if the module has no states. */
Func *states_function(Module *m, Diags *diags);

/* Adds that function as the last entry of a lowered build, and lowers it.  Does nothing without states.  False after
 * diagnostics. */
bool states_entry_add(Tool *t, Build *b);

/* Gives the program the sizes of states: those of the inputs of the entries that ran.  Returns an exit code. */
int states_bind(Tool *t, const Build *b, ApcModel *program, const int64_t *symbols);

#endif
