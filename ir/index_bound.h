/* ir/index_bound.h - which integers an input may hold when it serves as an index. */
#ifndef APC_IR_INDEX_BOUND_H
#define APC_IR_INDEX_BOUND_H

#include "ir/ir.h"

/* Below which an integer input is drawn when a model is tried with any numbers: the smallest extent that values
 * computed from it index (tables, what a scatter writes, places of states that are updated, cross-entropy classes,
 * groups), at level 1; NULL when it indexes nothing.  Follows operations on integers only, through loops.  What does
 * not index as it is, but shifted, scaled or added up, is at most 1. */
const Expr *index_bound(Module *m, const Func *f, Val v);

/* Is the expression at least `bound` for all sizes?  False: not found; only what grows with every size is looked at. */
bool size_never_below(const Module *m, const Expr *e, int64_t bound);

/* The integer every element of the value has, seen through broadcasts; NULL when they differ or it is not known. */
const Expr *uniform_integer(Module *m, const Func *f, Val v);

/* What the elements of an input must be, because each of them indexes as it is: a gather or a take, a scatter or a put,
 * the update of a state, the classes of a cross-entropy. */
typedef struct IndexRange {
  const Expr *below;   /* NULL: nothing is known */
  bool negative;       /* -below ... -1 are meant to count from the end */
  const Expr *ignored; /* a number that may be anywhere: another one takes its place; NULL: none */
} IndexRange;

/* Follows copies, casts to i32 and i64, reshapes, transposes, broadcasts and joins, and the idioms index < 0 ? index +
 * extent : index and index != number ? index : other; whatever else is done to an index on the way leaves it to the
 * model what it may be, and so does a loop, whose body may not run. */
IndexRange index_range(Module *m, const Func *f, Val v);

/* Are the elements of the result elements of operand 0, all of them, and integers as wide as indices? */
bool index_is_moved(const Func *f, const Op *op);

/* The x of x < 0 ? x + below : x; 0 for anything else. */
Val index_unwrapped(Module *m, const Func *f, const Op *op, const Expr *below);

/* Where an operation's indices may lie. */
typedef enum IndexPlace {
  INDEX_ANYWHERE, /* nothing is known: a kernel has to look */
  INDEX_CHECKED,  /* inside, once the inputs and sizes were checked (index_range, index_spans) */
  INDEX_INSIDE    /* inside for all sizes */
} IndexPlace;

/* By operation; INDEX_INSIDE where it indexes nothing. */
IndexPlace *index_places(Module *m, const Func *f);

/* A gather or the update of a state whose indices follow from the sizes alone: all of first ... last occur, and 0 ...
 * below - 1 are there. */
typedef struct IndexSpan {
  size_t op; /* index into Func.ops */
  const Expr *first, *last, *below;
  const Expr *any; /* 1 where there are indices, 0 where a dimension of theirs is empty; NULL: there always are */
} IndexSpan;

/* All of them, in order.  Indices are followed from iota, sizes and numbers through copies, reshapes, broadcasts, sums
 * with a number that is the same everywhere, and the idiom above where nothing is negative; not in loops. */
IndexSpan *index_spans(Module *m, const Func *f, size_t *n);

/* 0 <= value <= most has to hold. */
typedef struct SizeCondition {
  const Expr *value, *most;
} SizeCondition;

/* When a slice lies in dimension `d` of its operand, and has an extent, without what holds for all sizes; at most 2.
 * (What has constant bounds was checked by its type.) */
int slice_conditions(Module *m, const Func *f, const Op *op, int d, SizeCondition out[2]);
/* The same of a topk, which takes at most what there is; 0 or 1. */
int topk_conditions(Module *m, const Func *f, const Op *op, SizeCondition *out);

#endif
