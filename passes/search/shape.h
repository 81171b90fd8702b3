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
  double times; /* so many values, with users that have the same variables as these */
} FanOut;

/* An operand that an operation's own kernel makes (KernelPart.inside), of so many operations. */
typedef struct InsideUse {
  size_t user;
  int operand;
  double times;
} InsideUse;

/* Two operations, in program order, with one layout: reads and writes of one state, a carry and its leave; or what
 * makes a value and a sum of its gradients (mirror.h). */
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
  const bool *form; /* by operation: of a trained weight (passes/facts/zero.h), outside of loops; not the read of it */
  const int *time_factor; /* by operation: the factor that micro-batches cut, or one of these */
  int nclasses;
  const int *class;    /* by operation; -1: no variable */
  const size_t *first; /* by class: its first operation */
  const size_t *owner; /* by operation: whose variable it has, which is the head of all that have it */
  const double *times; /* by owner: so many heads have its variable */
  size_t nfans, npairs, nsums, ninsides;
  const FanOut *fans;
  int nfan_classes;
  const LayoutPair *pairs, *sums;
  const InsideUse *insides;
} Shape;

/* Lives in the module's arena. */
const Shape *shape_of(Module *m, const CostModel *c, const Func *f, const Rule *const *rules, const OpLabels *labels,
                      const LoopCosts *loops);
/* Operations of one class have one mark as well; `marks`: by operation; NULL: all have the same. */
const Shape *shape_of_marked(Module *m, const CostModel *c, const Func *f, const Rule *const *rules,
                             const OpLabels *labels, const LoopCosts *loops, const uint64_t *marks);

/* The same where all instances of a repeated block (blocks.h) but the first and the last make one choice: operations of
 * equal place and class have one variable, which counts as often as there are of them; the place of a weight that
 * several blocks read is where the first of them reads it.  So a graph of many layers is as small as that of three, and
 * what it chooses is a plan, and the best of those.  NULL: nothing repeats often enough. */
const Shape *shape_alike(Module *m, const CostModel *c, const Shape *s);

/* Whether partial sums may pass through the linear pseudo-factor: one of its operands can be a partial sum. */
bool shape_linear_is_useful(const Shape *s, const Op *op, const Factor *k);

#endif
