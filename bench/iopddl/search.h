/* bench/iopddl/search.h - a cheap choice within the limit at every time, and a bound of all of them.
 *
 * solve() knows one sum of memory, and here there is one for each time.  So times have prices (a Lagrangian
 * relaxation): with them solve() gives a choice and a bound, after costs were moved along pairs (tighten.h); prices
 * rise where the choice uses too much and fall where it uses less (subgradients with Polyak's step).  Then choices are
 * made better a neighbourhood at a time, by solve() too: some groups choose again, the others stay.  What uses too much
 * pays a penalty, which rises and falls so that the limit is crossed again and again.
 */
#ifndef APC_BENCH_IOPDDL_SEARCH_H
#define APC_BENCH_IOPDDL_SEARCH_H

#include "bench/iopddl/contract.h"

typedef struct SearchResult {
  bool feasible;
  int *strategy; /* by node */
  double cost, lower_bound;
  double bound_seconds; /* of the processor */
  long rounds, moves;   /* prices tried; neighbourhoods that chose again */
} SearchResult;

/* Ends after so many seconds of the processor. */
SearchResult search_run(const Instance *in, const Groups *g, double seconds, uint64_t seed, Arena *a);

#endif
