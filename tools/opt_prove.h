/* tools/opt_prove.h - apc-opt --prove=L1,L2: is the level-2 function the level-1 function? */
#ifndef APC_TOOLS_OPT_PROVE_H
#define APC_TOOLS_OPT_PROVE_H

#include "proof/prove.h"

enum { EXIT_PROVED = 0, EXIT_NOTHING_TO_PROVE = 1, EXIT_UNKNOWN = 3, EXIT_REFUTED = 4 };

/* Is the text of the form NAME,NAME[,NAME,NAME]...? */
bool opt_prove_is_list(const char *list);

/* `refuted` needs numbers that differ (trial_counterexample), unless it is about how states or prepared weights lie.
 * Prints `proved`, `refuted: why` or `unknown: why` on standard output and returns the exit code; EXIT_NOTHING_TO_PROVE
 * after a diagnostic when the module, which keeps the rules of the verifier, lacks the functions that are named, or
 * they are of other levels. */
int opt_prove(Module *m, const char *list, Diags *diags);

#endif
