/* passes/search/shape.h - what of the planner graph does not depend on the mesh: computed once for all candidates of a
 * search.
 *
 * Operations that the planner cannot tell apart (equal kind, types, rule, labels and runs; those that share a variable
 * with others, as these) form one class, and values
 * whose producer and users are of equal classes form one class of fan-outs.  A model of many equal layers has as many
 * classes as one layer.
 */
#ifndef APC_PASSES_SEARCH_SHAPE_H
#define APC_PASSES_SEARCH_SHAPE_H

#include "passes/cost/loops.h"
#include "passes/facts/labels.h"
#include "passes/facts/same_weight.h"
#include "passes/facts/mirror.h"

/* A value with its users: distinct operations, with a bit set of the operands that take it. */
typedef struct FanOut {
  size_t producer; /* operation */
  int result;      /* which of its results */
  int nusers;
  const size_t *users;
  const int *masks;
  bool output; /* also a result of the function */
  int class;
} FanOut;

/* Two operations, in program order, with one layout: reads and writes of one state, a carry and its leave. */
typedef struct LayoutPair {
  size_t first, second;
} LayoutPair;

enum { TIME_NONE = -1, TIME_IMPOSSIBLE = -2 };

typedef struct Shape {
  const Func *f;
  const Rule *const *rules;
  const OpLabels *labels;
  const LoopCosts *loops;
  SameWeight same;
  Mirrors mirrors;
  const bool *before; /* by operation: done once before or behind all micro-batches, in layouts that they do not cut */
  const int *time_factor; /* by operation: the factor that micro-batches cut, or one of these */
  int nclasses;
  const int *class;    /* by operation; -1: no variable */
  const size_t *first; /* by class: its first operation */
  size_t nfans, npairs;
  const FanOut *fans;
  int nfan_classes;
  const LayoutPair *pairs;
} Shape;

/* Lives in the module's arena. */
const Shape *shape_of(Module *m, const CostModel *c, const Func *f, const Rule *const *rules, const OpLabels *labels,
                      const LoopCosts *loops);

/* Whether partial sums may pass through the linear pseudo-factor: one of its operands can be a partial sum. */
bool shape_linear_is_useful(const Shape *s, const Op *op, const Factor *k);

#endif
