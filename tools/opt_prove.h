/* tools/opt_prove.h - apc-opt --prove=L1,L2: does the level-2 function compute the level-1 function? */
#ifndef APC_TOOLS_OPT_PROVE_H
#define APC_TOOLS_OPT_PROVE_H

#include "proof/prove.h"

enum { EXIT_PROVED = 0, EXIT_NOTHING_TO_PROVE = 1, EXIT_UNKNOWN = 3, EXIT_REFUTED = 4 };

/* True if the text has the form NAME,NAME[,NAME,NAME]... */
bool opt_prove_is_list(const char *list);

/* `refuted` needs numbers that differ (trial_counterexample), unless it concerns the placement of states or prepared
 * weights.  Prints `proved`, `refuted: why` or `unknown: why` on standard output and returns the exit code;
 * EXIT_NOTHING_TO_PROVE after a diagnostic if the module, which satisfies the verifier, lacks the named functions or
 * they have other levels. */
int opt_prove(Module *m, const char *list, Diags *diags);

#endif
