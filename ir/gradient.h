/* ir/gradient.h - derivatives of operations (reverse mode): each builds the gradients of its operands.
 *
 * The gradient of a value says how a scalar that depends on it, the loss, changes with each of its elements, and has
 * its type.  A rule is the field `gradient` of an operation's record (ir/ops/record.h); passes/train asks for them,
 * last operation first.  Rules use operations of the IR alone, so that nothing behind training knows of derivatives:
 * planner, prover, interpreter and code see one flat function (D38).
 *
 * Where a derivative does not exist the rules say what PyTorch says: 0 for relu at 0, for rounding and for
 * comparisons; equal maxima share.
 */
#ifndef APC_IR_GRADIENT_H
#define APC_IR_GRADIENT_H

#include "ir/ir.h"

typedef struct Gradient {
  Builder *b;            /* builds in the function of the operation, behind all of the forward pass */
  const Op *op;          /* a copy: building moves the list of operations */
  const Val *of_results; /* per result; 0: the loss does not depend on it */
  const bool *wanted;    /* per operand: does what is trained lead to it? */
  Val *of_operands;      /* out, per operand that is wanted; left 0: the loss does not change with it */
  const char *refused;   /* out: what of the operation has no rule, "reduce by product"; NULL */
} Gradient;

/* Has the operation a rule at all?  Operations of integers need none: no gradient comes to them. */
bool gradient_known(OpKind k);

/* Builds them.  False after a diagnostic of the builder; `refused` is no diagnostic yet. */
bool gradient_build(Gradient *g);

/* Sums dimensions away, and those that were stretched to 1: what `broadcast` with `dims` from type `from` made of x. */
Val gradient_of_broadcast(Builder *b, Val of_result, const Type *from, int n, const int64_t *dims);

#endif
