/* bench/iopddl/tighten.h - moves costs between variables and pairs so that local costs reveal more of the total.
 *
 * The error of elimination at split joins is the disagreement of the parts.  Costs moved along the pairs (sequential
 * tree-reweighted message passing: Kolmogorov 2006) agree as well as a linear relaxation can, and the sum of the least
 * cost of every variable and pair is itself a bound.
 */
#ifndef APC_BENCH_IOPDDL_TIGHTEN_H
#define APC_BENCH_IOPDDL_TIGHTEN_H

#include "solver/solve.h"

typedef struct Tighten {
  const SolveProblem *p; /* its pairs must not merge values into classes */
  Arena *arena;
  struct {
    int *items;
    size_t n, cap;
  } * pairs_of;        /* by variable, pairs with earlier variables first */
  double **moved[2];   /* by side and pair: cost moved from the pair to that variable, by value */
  double *sums, *left; /* of one variable */
} Tighten;

Tighten *tighten_new(const SolveProblem *p, Arena *a);

/* Sweeps that many times forth and back, with these costs of the variables. */
void tighten_sweep(Tighten *t, const double *const *time, int sweeps);

/* Chooses by the moved costs, one variable after the other. */
void tighten_choose(const Tighten *t, const double *const *time, int *value);

/* Returns the same problem with its moved costs; its constant is a bound. */
SolveProblem tighten_moved(const Tighten *t, const double *const *time, Arena *a);

#endif
