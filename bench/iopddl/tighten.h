/* bench/iopddl/tighten.h - moves costs between variables and pairs so that each by itself says more about all.
 *
 * What elimination leaves out where it splits joins is what the parts do not agree on.  Costs that are moved along the
 * pairs (sequential tree-reweighted message passing: Kolmogorov 2006) agree as well as a linear relaxation can, and the
 * sum of what every variable and pair costs at least is a bound itself.
 */
#ifndef APC_BENCH_IOPDDL_TIGHTEN_H
#define APC_BENCH_IOPDDL_TIGHTEN_H

#include "solver/solve.h"

typedef struct Tighten {
  const SolveProblem *p; /* of pairs in which values are their own classes */
  Arena *arena;
  struct {
    int *items;
    size_t n, cap;
  } * pairs_of;        /* by variable, those with earlier variables first */
  double **moved[2];   /* by side and pair: what was moved from the pair to that variable, by value */
  double *sums, *left; /* of one variable */
} Tighten;

Tighten *tighten_new(const SolveProblem *p, Arena *a);

/* So many times forth and back, for these costs of the variables. */
void tighten_sweep(Tighten *t, const double *const *time, int sweeps);

/* A choice by the costs as they were moved, one variable after the other. */
void tighten_choose(const Tighten *t, const double *const *time, int *value);

/* The same problem with its costs where they are now; its constant is a bound. */
SolveProblem tighten_moved(const Tighten *t, const double *const *time, Arena *a);

#endif
