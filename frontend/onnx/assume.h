/* frontend/onnx/assume.h - what a graph needs of its symbolic dimensions so that its shapes fit: seq <= 64 where a
 * table of 64 positions meets a tensor of seq, total = past + seq where a mask meets keys, batch_1 = batch where two
 * inputs are added.
 *
 * The standard would let such a model fail when it runs with other sizes; here the sizes are checked when they are
 * bound.  An assumption is made when two extents that must be equal are not, or an extent could be negative.  It
 * changes expressions that exist, so the import begins again with it.  Four equations are solved: a linear one for the
 * dimension declared last, one made true by choosing an operand of a minimum or maximum, which bounds one dimension,
 * one that is linear for one such choice and then holds for every one, and one that holds once dimensions are multiples
 * of what they are divided by; "h" is 8*h_div_8 then.
 */
#ifndef APC_FRONTEND_ONNX_ASSUME_H
#define APC_FRONTEND_ONNX_ASSUME_H

#include "ir/ir.h"

typedef struct OnnxAssumption {
  const char *name;
  int64_t min, max; /* max 0: none */
  const char *is;   /* a sum as in dims.c that stands for the dimension; NULL: none */
  const char *node; /* that needs it; NULL: not worth a word */
  bool or_one;      /* a size of 1 would do as well, as it is stretched */
} OnnxAssumption;

typedef struct OnnxAssumptions {
  Arena *arena; /* outlives the module of one attempt */
  OnnxAssumption *items;
  size_t n, cap;
  bool news; /* the next attempt begins with more than this one did */
} OnnxAssumptions;

const OnnxAssumption *assumption_of(const OnnxAssumptions *a, const char *name); /* NULL: none */

/* Takes over the ranges the module's dimensions have got, by the functions here or otherwise (known_need); true when
 * there is news. */
bool assume_learn(const Module *m, OnnxAssumptions *a);

/* Assumes what makes the two equal; false when nothing does.  `node` needs it. */
bool assume_equal(Module *m, OnnxAssumptions *a, const Expr *x, const Expr *y, const char *node);

/* The node that the two are assumed to be equal for would also stretch one of 1. */
void assume_or_one(const Module *m, OnnxAssumptions *a, const Expr *x, const Expr *y, const char *node);

/* Assumes that a dimension is a multiple by which e / by has no rest: the one declared last. */
bool assume_divisible(Module *m, OnnxAssumptions *a, const Expr *e, const Expr *by, const char *node);

/* Assumes that e, which is 0 or 1, is 1: min(1, batch), as x[:1] has it. */
bool assume_one(Module *m, const Expr *e);

/* From here on a dimension lies in this range (max 0: no limit); false when no size is left. */
bool assume_range(Module *m, int symbol, int64_t min, int64_t max);

/* Assumes that e is not negative, when it is a number and one term. */
bool assume_positive(Module *m, const Expr *e);

/* Raises the least value of a dimension so far that the extent is not negative, if it rises with that dimension
 * alone. */
void assume_extent(Module *m, const Expr *extent);

#endif
