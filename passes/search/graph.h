/* passes/search/graph.h - the planner graph of a level-1 function on a mesh: the strategies of each operation, their
 * costs, and the costs of the conversions between them.
 *
 * Variables are operations, together with their followers (mirror.h); values are their strategies.  The walk decides
 * which versions are made (passes/lower/walk.h): the conversions of a value with several uses are one factor over its
 * producer and all its users, because each (value, layout) is converted from the original, and paid, once (D3).  With
 * many users a variable for the set of layouts stands between them (set.h).  If the tables would be too large, users
 * pay shares, and a rest is counted separately (shares.h). Constants, sizes, iotas and random numbers have no variable:
 * they are made in the wanted layout.
 */
#ifndef APC_PASSES_SEARCH_GRAPH_H
#define APC_PASSES_SEARCH_GRAPH_H

#include "passes/cost/cost.h"
#include "passes/plan/plan.h"
#include "passes/search/shape.h"
#include "solver/solve.h"
#include "passes/search/symmetry.h"
#include "solver/watch.h"

/* The factors that a mesh axis may split, and whether it must. */
typedef struct AxisUse {
  uint32_t labels; /* bit set of Label */
  bool forced;     /* contractions must be split as far as possible; with `weights`, matrices of weights too */
  bool weights;
  bool batch_too; /* may also split the batch, except in contractions over a factor of `labels`: ranks of experts share
                   * the other work */
  bool data;      /* ranks of data parallelism */
  int degree;     /* the only degree that it counts for; -1 if free */
} AxisUse;

typedef struct GraphInput {
  Module *m; /* its mesh is set; a temporal axis is the first */
  const Func *f;
  const Rule *const *rules;
  const OpLabels *labels;
  const Shape *shape; /* of f */
  CostModel *cost;    /* of that mesh; layouts are those of cost_layout */
  CostModel *few;     /* for bounds over several numbers of micro-batches: the model of a number that divides them all,
                       * or of the whole batch; NULL */
  double share;       /* with `few`: an operation counts at least `share` times its price there */
  Symmetry *symmetry; /* for bounds: axes may be exchanged at every operation, and `cost` has unordered axes; NULL */
  AxisUse uses[MAX_AXES];
  const PlanPin *pins;    /* forced layouts */
  const uint64_t *pinned; /* by operation, as a bit set; NULL if none */
  const PlanSaid *said;   /* PlanOptions.said */
  int zero;               /* PlanOptions.zero */
  double repeat;          /* weight of a micro-batch's cost */
  CostModel *moves;       /* prices conversions: `cost` or `few` */
  double moves_repeat;    /* and their weight */
  double before;          /* and of work done once before all micro-batches */
  int micro;              /* micro-batches for which parts of a batch must not be empty; in bounds not the mesh's */
  double memory_limit;    /* of weights and state; INFINITY if none */
  double table_cap, frontier_cap;
  int rounds, split_rounds;
  double whole_work;
  double fan_out_cap;   /* maximum entries of a value's table of conversions */
  int set_cap;          /* maximum values of a variable for a set of layouts */
  double prune_above;   /* give up if the cheapest strategies alone cost more */
  SearchReport *report; /* gets the seconds; NULL if not needed */
  SolveWatch *watch;    /* NULL if not needed */
} GraphInput;

typedef struct Graph Graph;

/* *why if the operations have strategies, but none that fits the gradients of their results. */
extern const char graph_no_choice[];

/* Makes the graph.  NULL if some operation has no strategy: *why then names it (in the module's arena) or is
 * graph_no_choice.  Also NULL, with *why unchanged, after pruning and if the time is over. */
Graph *graph_new(const GraphInput *in, const char **why);
void graph_free(Graph *g);
/* Returns the sum of the cheapest strategies of all operations, without conversions: a lower bound that is fast to
 * compute.  INFINITY if some operation has no strategy; 0 if the time is over.  The sums of the layers are added to
 * `by_layer`, if not NULL; `layer`: by operation, -1 if none. */
double graph_cheapest(const GraphInput *in, const int *layer, double *by_layer);
const SolveProblem *graph_problem(const Graph *g);
/* Fills the strategies of all operations for a choice of values. */
void graph_strategies(const Graph *g, const int *values, Strategy *out);

/* Fills, by operation, the seconds, weighted as in the sum, and the bytes of the results (of a micro-batch).  `sent`:
 * the least bytes of these in a layout in which they can be sent to a reader of the forward pass; INFINITY if no
 * reader. */
void graph_operations(const Graph *g, const int *values, double *seconds, double *bytes, double *sent);

/* Returns the name of a variable: that of an operation, or of a value whose layouts it chooses. */
const char *graph_variable_name(const Graph *g, int variable, Arena *a);
/* Describes fan-out number i as modelled; false after the last one. */
bool graph_fan(const Graph *g, size_t i, SearchFan *out);

#endif
