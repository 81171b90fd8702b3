/* solver/solve.h - the cheapest joint choice of values for variables whose costs meet in small groups (a cost
 * network).
 *
 * Minimises the sum of one cost per variable and of one table per factor, subject to a limit on a sum of memory, by
 * bucket elimination (Bertele and Brioschi; Dechter 1999) in min-weight order.  With a binding limit the buckets carry
 * exact (time, memory) frontiers, after a Lagrangian sweep that gives a lower bound and prunes them.  When a table or
 * frontier would pass the caps, buckets are split (mini-buckets: a lower bound; what the parts cost at least is shared
 * out evenly among them first) and the assignment is improved by coordinate descent.  Factors too large for a table are
 * rests.  What splitting and rests leave out can be counted entry by entry; where that comes to no end either, `exact`
 * is false and the lower bound says how good the values are.
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
  const double *table;    /* >= 0, INFINITY forbids; NULL: it would be too large, and entries are computed: */
  double (*cost)(const void *of, const int *at); /* by place the class */
  const void *of;                                /* equal ones are one table */
} SolveFactor;

typedef struct SolveProblem {
  double constant; /* seconds that every choice takes */
  int nvars;
  const int *domain;           /* number of values, at least 1 */
  const double *const *time;   /* by variable and value; equal pointers let repeated blocks share work */
  const double *const *memory; /* by variable and value; an entry may be NULL: none */
  const SolveFactor *factors;
  size_t nfactors;
  /* What choices cost besides, entries of it being computed: the tables alone are a bound. */
  const SolveFactor *rests;
  size_t nrests;
  /* Moves costs between tables and rests, so far (0 to 1) towards tables that leave nothing out of this choice; what
   * both cost together stays.  NULL: there is nothing to move. */
  void (*share)(void *of, const int *values, double step);
  void *share_of;
  int rounds, split_rounds; /* how often, where all joins are whole, and where some are split */
  double whole_work;        /* sums that may be formed to count all that tables leave out; with `split_rounds` 0 not
                             * where joins are split */
  double memory_limit;      /* INFINITY: none */
  double memory_aim;        /* choices are looked for within this, the bound holds for memory_limit; 0: the same */
  double memory_weight;     /* seconds per byte to try first when memory is limited; 0: no idea */
  double stop_above;        /* give up, with the bound, once it is known that the time is above; 0 or INFINITY:
                             * never */
  double table_cap;         /* most sums computed for one bucket */
  double frontier_cap;      /* most frontier points kept; 32 times that many are formed at most */
  struct SolveWatch *watch; /* when its time is over, what is known by then is the result; NULL: nobody watches */
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
  bool exact;           /* the values are a cheapest choice, or there is none at all */
  bool split;           /* some join was too large */
  double time, memory;  /* of the values, with the rests */
  double lower_bound;   /* of time, over all choices within the limit */
  int *values;          /* by variable */
  double memory_weight; /* seconds per byte at the limit; 0 when it does not bind */
  double work;          /* sums formed for tables: the effort, whatever the machine */
  int width;            /* the most other variables in one join */
  int njoins;
  SolveJoin joins[SOLVE_JOINS];      /* the largest, different ones */
  double order_seconds, sum_seconds; /* of the processor: for the order and compiling it; for the sums */
} SolveResult;

/* The result lives in `arena`. */
SolveResult solve(const SolveProblem *p, Arena *arena);

#endif
