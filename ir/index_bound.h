/* ir/index_bound.h - the integers that an input may hold when it serves as an index. */
#ifndef APC_IR_INDEX_BOUND_H
#define APC_IR_INDEX_BOUND_H

#include "ir/ir.h"

/* Exclusive upper bound for random values of an integer input in trials: the smallest extent at level 1 indexed by
 * values computed from it (tables, results of a scatter, places of updated states, cross-entropy classes, groups); NULL
 * if it indexes nothing.  Follows operations on integers only, through loops.  An index that is shifted, scaled or
 * summed on the way limits values to at most 1. */
const Expr *index_bound(Module *m, const Func *f, Val v);

/* True if the expression is at least `bound` for all sizes; false if unknown: only expressions that grow with every
 * size are analysed. */
bool size_never_below(const Module *m, const Expr *e, int64_t bound);

/* The integer that all elements of the value have, seen through broadcasts; NULL if they differ or are unknown. */
const Expr *uniform_integer(Module *m, const Func *f, Val v);

/* The range of an input whose elements are used as indices unchanged: by a gather or a take, a scatter or a put, the
 * update of a state, the classes of a cross-entropy. */
typedef struct IndexRange {
  const Expr *below;   /* NULL if unknown */
  bool negative;       /* -below ... -1 count from the end */
  const Expr *ignored; /* a number that may be anywhere, because the model replaces it; NULL if none */
} IndexRange;

/* The range of an input.  Follows copies, casts to i32 and i64, reshapes, transposes, broadcasts and joins, and the
 * idioms index < 0 ? index + extent : index and index != number ? index : other.  Any other operation on an index
 * leaves its range to the model, and so does a loop, whose body may not run. */
IndexRange index_range(Module *m, const Func *f, Val v);

/* True if the result has exactly the elements of operand 0, as integers as wide as indices. */
bool index_is_moved(const Func *f, const Op *op);

/* Returns x of x < 0 ? x + below : x; 0 for anything else. */
Val index_unwrapped(Module *m, const Func *f, const Op *op, const Expr *below);

/* Known ranges of an operation's indices. */
typedef enum IndexPlace {
  INDEX_ANYWHERE, /* unknown: a kernel must check */
  INDEX_CHECKED,  /* inside, once inputs and sizes are checked (index_range, index_spans) */
  INDEX_INSIDE    /* inside for all sizes */
} IndexPlace;

/* By operation; INDEX_INSIDE if it indexes nothing. */
IndexPlace *index_places(Module *m, const Func *f);

/* A gather or the update of a state whose indices follow from sizes alone: first ... last all occur, and 0 ... below -
 * 1 are valid. */
typedef struct IndexSpan {
  size_t op; /* index into Func.ops */
  const Expr *first, *last, *below;
  const Expr *any; /* 1 if there are indices, 0 if one of their dimensions is empty; NULL if there always are */
} IndexSpan;

/* Lists them in order.  Follows indices from iota, sizes and numbers through copies, reshapes, broadcasts, sums with a
 * uniform number, and the idiom above where nothing is negative; not in loops. */
IndexSpan *index_spans(Module *m, const Func *f, size_t *n);

/* A condition 0 <= value <= most. */
typedef struct SizeCondition {
  const Expr *value, *most;
} SizeCondition;

/* Conditions under which a slice lies in dimension `d` of its operand, and has an extent; those that hold for all sizes
 * are left out.  Returns their number, at most 2.  (Constant bounds were checked with the type.) */
int slice_conditions(Module *m, const Func *f, const Op *op, int d, SizeCondition out[2]);
/* The same for a topk, which takes at most all elements; 0 or 1. */
int topk_conditions(Module *m, const Func *f, const Op *op, SizeCondition *out);

#endif
