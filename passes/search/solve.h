/* passes/search/solve.h - the cheapest joint choice of values for variables whose costs meet in small groups (a cost
 * network).
 *
 * Minimises the sum of one cost per variable and of one table per factor, subject to a limit on a sum of memory, by
 * bucket elimination (Bertele and Brioschi; Dechter 1999) in min-weight order.  With a binding limit the buckets carry
 * exact (time, memory) frontiers, after a Lagrangian sweep that gives a lower bound and prunes them.  When a table or
 * frontier would pass the caps, buckets are split (mini-buckets: a lower bound; what the parts cost at least is shared
 * out evenly among them first) and the assignment is improved by coordinate descent: then `exact` is false and the
 * lower bound says how good it is.
 */
#ifndef APC_PASSES_SEARCH_SOLVE_H
#define APC_PASSES_SEARCH_SOLVE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct SearchWatch;

/* A cost that depends on the classes of the values of its variables: table[class_0][class_1]..., the last fastest. */
typedef struct SolveFactor {
  int n;
  const int *vars;        /* distinct */
  const int *const *maps; /* by place in vars: class of each value */
  const int *classes;     /* by place in vars: number of classes */
  const double *table;    /* >= 0, INFINITY forbids */
} SolveFactor;

typedef struct SolveProblem {
  double constant; /* seconds that every choice takes */
  int nvars;
  const int *domain;           /* number of values, at least 1 */
  const double *const *time;   /* by variable and value; equal pointers let repeated blocks share work */
  const double *const *memory; /* by variable and value; an entry may be NULL: none */
  const SolveFactor *factors;
  size_t nfactors;
  double memory_limit;       /* INFINITY: none */
  double memory_aim;         /* choices are looked for within this, the bound holds for memory_limit; 0: the same */
  double memory_weight;      /* seconds per byte to try first when memory is limited; 0: no idea */
  double stop_above;         /* give up, with the bound, once it is known that the time is above; 0 or INFINITY:
                              * never */
  double table_cap;          /* most sums computed for one bucket */
  bool settle;               /* larger buckets where splitting left it open whether the bound can be reached */
  double frontier_cap;       /* most frontier points kept; 32 times that many are formed at most */
  struct SearchWatch *watch; /* when its time is over, what is known by then is the result; NULL: nobody watches */
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
  bool exact; /* the values are a cheapest choice, or there is none at all */
  double time, memory;
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
