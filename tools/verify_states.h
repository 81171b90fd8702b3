/* tools/verify_states.h - one more entry that reads all states, so that apc verify compares what the runs leave in
 * them.
 *
 * It is made behind the plan and lowered as any other entry: states lie where the plan puts them, and the proof covers
 * how they are put together.
 */
#ifndef APC_TOOLS_VERIFY_STATES_H
#define APC_TOOLS_VERIFY_STATES_H

#include "tools/build.h"
#include "tools/execute.h"

/* Adds a function with one output per state, of its name; NULL when the module has no states. */
Func *states_function(Module *m, Diags *diags);

/* The same as the last entry of a build that is lowered, lowered too.  False after diagnostics; nothing is done when
 * there are no states. */
bool states_entry_add(Tool *t, Build *b);

/* Gives the program the sizes that states have: those of the inputs of the entries that ran.  An exit code. */
int states_bind(Tool *t, const Build *b, ApcModel *program, const int64_t *symbols);

#endif
