/* solver/solve.h - the cheapest joint choice of values for variables whose costs are tables over small groups of them
 * (a cost network).
 *
 * Minimises the sum of one cost per variable and one table per factor, subject to a limit on a sum of memory, by bucket
 * elimination (Bertele and Brioschi; Dechter 1999) in min-weight order.  With a binding limit the buckets carry exact
 * (time, memory) frontiers, after a Lagrangian sweep that gives a lower bound and prunes them.  If a table or frontier
 * would exceed the caps, buckets are split (mini-buckets: a lower bound; the parts' least costs are first shared
 * equally among them) and the assignment is improved by coordinate descent.  Factors too large for a table are rests.
 * A best-first search can count the costs that splits and rests leave out, entry by entry.  If it does not finish
 * either, `exact` is false and the lower bound shows how good the values are.
 */
#ifndef APC_SOLVER_SOLVE_H
#define APC_SOLVER_SOLVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct SolveWatch;

/* A cost that depends on the classes of the values of its variables: table[class_0][class_1]..., the last fastest. */
typedef struct SolveFactor {
  int n;
  const int *vars;        /* distinct */
  const int *const *maps; /* by place in vars: class of each value */
  const int *classes;     /* by place in vars: number of classes */
  const double *table;    /* >= 0, INFINITY forbids; NULL if it would be too large, then `cost` computes entries */
  double (*cost)(const void *of, const int *at); /* at: class by place */
  const void *of;                                /* equal pointers mean equal tables */
} SolveFactor;

typedef struct SolveProblem {
  double constant; /* seconds common to all choices */
  int nvars;
  const int *domain;           /* number of values, at least 1 */
  const double *const *time;   /* by variable and value; equal pointers let repeated blocks share work */
  const double *const *memory; /* by variable and value; NULL entries mean no memory */
  const SolveFactor *factors;
  size_t nfactors;
  /* Further costs, whose entries are computed; the tables alone give a lower bound. */
  const SolveFactor *rests;
  size_t nrests;
  /* Moves costs between tables and rests by `step` (0 to 1), towards tables that leave out nothing of this choice.  The
   * sum of both stays the same.  NULL if there is nothing to move. */
  void (*share)(void *of, const int *values, double step);
  void *share_of;
  int rounds, split_rounds; /* number of calls to `share` if all joins are whole, and if some are split */
  double whole_work;        /* limit of sums formed to count costs that tables leave out; skipped for split joins if
                               `split_rounds` is 0 */
  double memory_limit;      /* INFINITY if none */
  double memory_aim;        /* limit for choices, while the bound holds for memory_limit; 0 if the same */
  double memory_weight;     /* seconds per byte to try first if memory is limited; 0 if unknown */
  double stop_above;        /* stop, with the bound, once the time is known to be above; 0 or INFINITY: never */
  double table_cap;         /* limit of sums computed for one bucket */
  double frontier_cap;      /* limit of frontier points kept; 32 times as many may be formed */
  struct SolveWatch *watch; /* stops the solver, which returns its best result so far; NULL if there is no limit */
} SolveProblem;

/* One of the largest eliminations. */
enum { SOLVE_JOINS = 4 };
typedef struct SolveJoin {
  int var, nscope;
  const int *scope; /* the other variables */
  double work;      /* sums formed */
} SolveJoin;

typedef struct SolveResult {
  bool feasible;
  bool exact;           /* the values are optimal, or no choice exists */
  bool split;           /* some join was too large */
  double time, memory;  /* of the values, with the rests */
  double lower_bound;   /* of time, over all choices within the limit */
  int *values;          /* by variable */
  double memory_weight; /* seconds per byte at the limit; 0 when it does not bind */
  double work;          /* sums formed for tables: a measure of effort that does not depend on the machine */
  int width;            /* largest number of other variables in one join */
  int njoins;
  SolveJoin joins[SOLVE_JOINS];      /* the largest, different ones */
  double order_seconds, sum_seconds; /* CPU time: order and compilation; sums */
} SolveResult;

/* Solves the problem.  The result lives in `arena`. */
SolveResult solve(const SolveProblem *p, Arena *arena);

#endif
