/* passes/rewrite/recognise.h - the patterns of passes/rewrite/recognise.c; private to its files.
 *
 * A pattern is tried at the operation that ends it.  It reads the old function only, and either builds its composite
 * into the new one and returns its value, under the name of the operation it replaces, or returns 0 without building
 * anything.
 */
#ifndef APC_PASSES_REWRITE_RECOGNISE_H
#define APC_PASSES_REWRITE_RECOGNISE_H

#include "ir/loops.h"
#include "passes/rewrite/rewrite.h"

typedef struct Recognise {
  Rewrite r;
  const int *uses; /* by old value: reads by operations and outputs */
  Loops loops;
  const bool *derived; /* by operation: of constants alone */
} Recognise;

Val recognise_norm(Recognise *w, const Op *op);
Val recognise_attention(Recognise *w, const Op *op);
Val recognise_moved(Recognise *w, const Op *op); /* may be a value that is there already */

/* Do both operations of the old function stand in the same body of a loop, or outside of all? */
bool recognise_together(const Recognise *w, const Op *x, const Op *y);
/* All that makes `op` from these values stands together with it, but what constants alone determine: its work is not
 * moved into a body. */
bool recognise_is_whole(const Recognise *w, const Op *op, int n, const Val *from);

/* The one number that every element of an old value has; computed from constants. */
bool recognise_number(const Func *f, Val v, double *out);
/* An operation of an old value; NULL unless of that kind. */
const Op *recognise_op(const Func *f, Val v, OpKind kind);
/* An operation of the composite that replaces `op`: named after it when `part` is NULL, else op.part. */
Val recognise_build(Recognise *w, const Op *op, const char *part, OpSpec spec);
Val recognise_reshape(Recognise *w, const Op *op, const char *part, Val x, int rank, const Expr *const *dims);
Val recognise_transpose(Recognise *w, const Op *op, const char *part, Val x, const int *perm);

#endif
