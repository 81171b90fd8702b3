/* bench/iopddl/search.h - finds a cheap choice within the limit at every time, and a bound on all such choices.
 *
 * solve() handles one sum of memory, but here there is one per time.  Times therefore have prices (a Lagrangian
 * relaxation): with them solve() gives a choice and a bound, after costs are moved along pairs (tighten.h); prices rise
 * where the choice uses too much and fall where it uses less (subgradients with Polyak's step).  Then solve() improves
 * the choice one neighbourhood at a time: some groups choose again, the others stay.  Usage above the limit pays a
 * penalty, which rises and falls so that the search crosses the limit again and again.
 */
#ifndef APC_BENCH_IOPDDL_SEARCH_H
#define APC_BENCH_IOPDDL_SEARCH_H

#include "bench/iopddl/contract.h"

typedef struct SearchResult {
  bool feasible;
  int *strategy; /* by node */
  double cost, lower_bound;
  double bound_seconds; /* processor time */
  long rounds, moves;   /* prices tried; neighbourhoods chosen again */
} SearchResult;

/* Ends after that many seconds of processor time. */
SearchResult search_run(const Instance *in, const Groups *g, double seconds, uint64_t seed, Arena *a);

#endif
