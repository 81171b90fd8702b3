/* passes/rewrite/recognise.h - the patterns of passes/rewrite/recognise.c; private to its files.
 *
 * A pattern is tried at the operation that ends it.  It reads only the old function.  If it matches, it builds its
 * composite in the new function and returns the value, under the name of the replaced operation; else it returns 0 and
 * builds nothing.
 */
#ifndef APC_PASSES_REWRITE_RECOGNISE_H
#define APC_PASSES_REWRITE_RECOGNISE_H

#include "ir/loops.h"
#include "passes/rewrite/rewrite.h"

typedef struct Recognise {
  Rewrite r;
  const int *uses; /* by old value: reads by operations and outputs */
  Loops loops;
  const bool *derived; /* by operation: derived from constants alone */
  const bool *trained; /* by operation: depends on a trained weight; NULL without training */
} Recognise;

/* The patterns; passes/rewrite/recognise_norm.c, recognise_attention.c and recognise_moved.c. */
Val recognise_norm(Recognise *w, const Op *op);
Val recognise_attention(Recognise *w, const Op *op);
Val recognise_moved(Recognise *w, const Op *op); /* may return an existing value */

/* True if both operations of the old function are in the same loop body, or both outside all loops. */
bool recognise_together(const Recognise *w, const Op *x, const Op *y);
/* True if all operations between these values and `op` are in the same body as `op`, except those that constants alone
 * determine: so no work moves into a body. */
bool recognise_is_whole(const Recognise *w, const Op *op, int n, const Val *from);

/* True if every element of an old value is one number, computed from constants. */
bool recognise_number(const Func *f, Val v, double *out);
/* Returns the operation of an old value; NULL if it has another kind. */
const Op *recognise_op(const Func *f, Val v, OpKind kind);
/* Builds an operation of the composite that replaces `op`; its name is that of `op`, or op.part if `part` is not
 * NULL. */
Val recognise_build(Recognise *w, const Op *op, const char *part, OpSpec spec);
Val recognise_reshape(Recognise *w, const Op *op, const char *part, Val x, int rank, const Expr *const *dims);
Val recognise_transpose(Recognise *w, const Op *op, const char *part, Val x, const int *perm);

#endif
