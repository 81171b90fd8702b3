/* frontend/onnx/assume.h - constraints on the symbolic dimensions of a graph that its shapes require: seq <= 64
 * where a table of 64 positions meets a tensor of seq, total = past + seq where a mask meets keys, batch_1 = batch
 * where two inputs are added.
 *
 * By the standard such a model would fail at run time for other sizes; apc checks the sizes when they are bound.  An
 * assumption is made if two extents that must be equal differ, or if an extent could be negative.  It changes
 * existing expressions, so the import starts again with it.  Four kinds of equations are solved: a linear one, for
 * the dimension declared last; one that becomes true by choosing an operand of a minimum or maximum, which bounds
 * one dimension; one that is linear for one such choice and then holds for every choice; and one that holds once
 * dimensions are multiples of their divisors, so that "h" becomes 8*h_div_8.
 */
#ifndef APC_FRONTEND_ONNX_ASSUME_H
#define APC_FRONTEND_ONNX_ASSUME_H

#include "ir/ir.h"

typedef struct OnnxAssumption {
  const char *name;
  int64_t min, max; /* max 0: unbounded */
  const char *is;   /* a sum as in dims.c that replaces the dimension; NULL if none */
  const char *node; /* the node that needs it; NULL if it is not reported */
  bool or_one;      /* a size of 1 would also do, since it is broadcast */
} OnnxAssumption;

typedef struct OnnxAssumptions {
  Arena *arena; /* outlives the module of one attempt */
  OnnxAssumption *items;
  size_t n, cap;
  bool news; /* new assumptions were made, so another attempt is needed */
} OnnxAssumptions;

const OnnxAssumption *assumption_of(const OnnxAssumptions *a, const char *name); /* NULL if none */

/* Records the ranges that the module's dimensions now have, from the functions here or from known_need; true if one
 * is new. */
bool assume_learn(const Module *m, OnnxAssumptions *a);

/* Makes an assumption under which x and y are equal; false if there is none.  `node` is the node that needs it; NULL:
 * the user asked for it, so it is not reported. */
bool assume_equal(Module *m, OnnxAssumptions *a, const Expr *x, const Expr *y, const char *node);

/* Records that the node would also broadcast a size of 1, in an assumption made for x and y. */
void assume_or_one(const Module *m, OnnxAssumptions *a, const Expr *x, const Expr *y, const char *node);

/* Assumes that a dimension, the one declared last, is a multiple of a number that makes e / by exact. */
bool assume_divisible(Module *m, OnnxAssumptions *a, const Expr *e, const Expr *by, const char *node);

/* Assumes that e, which is 0 or 1, is 1: min(1, batch), as in x[:1]. */
bool assume_one(Module *m, const Expr *e);

/* Restricts a dimension to a range (max 0: unbounded); false if the range becomes empty. */
bool assume_range(Module *m, int symbol, int64_t min, int64_t max);

/* Assumes that e is not negative, if it is a constant plus one term. */
bool assume_positive(Module *m, const Expr *e);

/* Raises the minimum of a dimension until the extent is not negative, if the extent increases with that dimension
 * and depends on no other. */
void assume_extent(Module *m, const Expr *extent);

#endif
