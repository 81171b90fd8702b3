/* passes/search/shape.h - the part of the planner graph that does not depend on the mesh: computed once for all
 * candidates of a search.
 *
 * Operations that the planner cannot distinguish form one class: equal kind, types, rule, labels and runs, and, if they
 * share a variable with others, others of equal classes.  Values whose producer and users have equal classes form one
 * class of fan-outs.  A model of many equal layers has as many classes as one layer.
 */
#ifndef APC_PASSES_SEARCH_SHAPE_H
#define APC_PASSES_SEARCH_SHAPE_H

#include "passes/cost/loops.h"
#include "passes/facts/labels.h"
#include "passes/facts/same_weight.h"
#include "passes/facts/mirror.h"

/* A value with its users: distinct operations, each with a bit set of the operands that take it. */
typedef struct FanOut {
  size_t producer; /* operation */
  int result;      /* number of the result */
  int nusers;
  const size_t *users;
  const int *masks;
  bool output; /* also a result of the function */
  int class;
  double times; /* number of values whose users have the same variables */
} FanOut;

/* An operand that an operation's own kernel makes (KernelPart.inside); `times`: number of such operations. */
typedef struct InsideUse {
  size_t user;
  int operand;
  double times;
} InsideUse;

/* Two operations, in program order, with one layout: reads and writes of one state, a carry and its leave; or the maker
 * of a value and a sum of its gradients (mirror.h). */
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
  const bool *before; /* by operation: runs once before or after all micro-batches, in layouts that they do not split */
  const bool *form;   /* by operation: a form of a trained weight (passes/facts/zero.h), outside loops; not its read */
  const int *time_factor; /* by operation: the factor that micro-batches split, or one of TIME_* */
  const bool *small; /* by operation: a small value of constants with many users, which every rank computes whole */
  int nclasses;
  const int *class;    /* by operation; -1: no variable */
  const size_t *first; /* by class: its first operation */
  const size_t *owner; /* by operation: the head of all operations with its variable */
  const double *times; /* by owner: number of heads with its variable */
  size_t nfans, npairs, nsums, ninsides;
  const FanOut *fans;
  int nfan_classes;
  const LayoutPair *pairs, *sums;
  const InsideUse *insides;
} Shape;

/* Computes the shape, in the module's arena. */
const Shape *shape_of(Module *m, const CostModel *c, const Func *f, const Rule *const *rules, const OpLabels *labels,
                      const LoopCosts *loops);
/* The same with marks by operation: operations of one class also have equal marks; NULL: all are equal. */
const Shape *shape_of_marked(Module *m, const CostModel *c, const Func *f, const Rule *const *rules,
                             const OpLabels *labels, const LoopCosts *loops, const uint64_t *marks);

/* Returns the same shape with one choice for all instances of a repeated block (blocks.h) except the first and the
 * last: operations of equal place and class share a variable, which counts as often as there are such operations.  A
 * weight that several blocks read is placed where the first of them reads it.  So a graph of many layers is as small as
 * one of three layers; its optimum is a plan, and the best of this kind.  NULL if nothing repeats often enough. */
const Shape *shape_alike(Module *m, const CostModel *c, const Shape *s);

/* True if partial sums may pass through the linear pseudo-factor: one of its operands can be a partial sum. */
bool shape_linear_is_useful(const Shape *s, const Op *op, const Factor *k);

#endif
