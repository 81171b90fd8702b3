/* passes/search/graph.h - the planner graph of a level-1 function on a mesh: which strategies each operation may use,
 * what they cost, and what the conversions between them cost.
 *
 * Variables are operations, with those that follow them (mirror.h); values are their strategies.  What is made of them
 * is for the walk to say (passes/lower/walk.h): the conversions of a value with several uses are one factor over its
 * producer and all its users, because each (value, layout) is converted from the original, and paid, once (D3).  With
 * many users a variable for the set of layouts stands between them (set.h).  When the tables would be too large, users
 * pay shares, and a rest is counted apart (shares.h).
 * Constants, sizes, iotas and random numbers have no variable: they are made in the layout that is asked for.
 */
#ifndef APC_PASSES_SEARCH_GRAPH_H
#define APC_PASSES_SEARCH_GRAPH_H

#include "passes/cost/cost.h"
#include "passes/plan/plan.h"
#include "passes/search/shape.h"
#include "solver/solve.h"
#include "passes/search/symmetry.h"
#include "solver/watch.h"

/* What a mesh axis may split, and whether it has to. */
typedef struct AxisUse {
  uint32_t labels; /* bit set of Label */
  bool forced;     /* contractions must be cut as far as they can; with `weights`, matrices of weights too */
  bool weights;
  bool batch_too; /* may cut the batch as well, but for contractions over a factor of `labels`: ranks of experts share
                   * the other work */
  bool data;      /* ranks of data parallelism */
  int degree;     /* the only one that it counts for; -1: free */
} AxisUse;

typedef struct GraphInput {
  Module *m; /* its mesh is set; a temporal axis is the first one */
  const Func *f;
  const Rule *const *rules;
  const OpLabels *labels;
  const Shape *shape; /* of f */
  CostModel *cost;    /* of that mesh; layouts are those of cost_layout */
  CostModel *whole;   /* for a bound of several numbers of micro-batches: of the mesh with one; an operation that
                       * depends on them counts the larger of */
  double share;       /* `repeat` times its price and `share` times that of the whole batch.  NULL: only the
                       * former */
  Symmetry *symmetry; /* for a bound: axes may be exchanged at every operation; `cost` knows no order of axes.  NULL:
                       * they may not */
  AxisUse uses[MAX_AXES];
  const PlanPin *pins;    /* layouts that are forced, */
  const uint64_t *pinned; /* by operation, as a bit set; NULL: none are */
  const PlanSaid *said;   /* PlanOptions.said */
  int zero;               /* PlanOptions.zero */
  double repeat;          /* weight of what a micro-batch costs, */
  double before;          /* and of what is done once before all of them */
  int micro;              /* micro-batches that no part of a batch may be empty with: for a bound, other than the mesh
                           * has */
  double memory_limit;    /* of weights and state; INFINITY: none */
  double table_cap, frontier_cap;
  int rounds, split_rounds;
  double whole_work;
  double fan_out_cap;   /* a value's conversions are one table up to so many entries */
  int set_cap;          /* values of a variable for a set of layouts */
  double prune_above;   /* give up when the cheapest strategies alone cost more */
  SearchReport *report; /* gets the seconds; NULL: nobody asks */
  SolveWatch *watch;    /* NULL: nobody watches */
} GraphInput;

typedef struct Graph Graph;

/* *why where the operations have strategies, but none that the gradients of what they make have as well. */
extern const char graph_no_choice[];

/* NULL when some operation has no strategy; *why names it (arena of the module) or is graph_no_choice, or stays as it
 * is after pruning and when the time is over. */
Graph *graph_new(const GraphInput *in, const char **why);
void graph_free(Graph *g);
/* The sum of the cheapest strategies of all operations, without conversions: a lower bound that takes little time.
 * INFINITY if some operation has no strategy; 0 if the time is over. */
double graph_cheapest(const GraphInput *in);
const SolveProblem *graph_problem(const Graph *g);
/* The strategies of all operations for a choice of values. */
void graph_strategies(const Graph *g, const int *values, Strategy *out);

/* By operation, its seconds, weighed as in the sum, and the bytes of what it makes (of a micro-batch).  `sent`: the
 * least bytes of that in a layout in which a reader of the forward pass can be sent it; INFINITY: nobody reads it. */
void graph_operations(const Graph *g, const int *values, double *seconds, double *bytes, double *sent);

/* What a variable is about: the name of an operation, or of a value whose layouts it chooses. */
const char *graph_variable_name(const Graph *g, int variable, Arena *a);
/* Fan-out number i, as it was modelled; false behind the last one. */
bool graph_fan(const Graph *g, size_t i, SearchFan *out);

#endif
