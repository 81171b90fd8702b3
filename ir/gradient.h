/* ir/gradient.h - derivatives of operations (reverse mode): each builds the gradients of its operands.
 *
 * The gradient of a value says how the loss, a scalar that depends on it, changes with each of its elements; it has the
 * value's type.  A rule is the field `gradient` of an operation's record (ir/ops/record.h); passes/train applies the
 * rules, last operation first.  Rules build IR operations only, so nothing after training handles derivatives: planner,
 * prover, interpreter and code generation see one flat function (D38).
 *
 * Where a derivative does not exist, rules follow PyTorch: 0 for relu at 0, for rounding and for comparisons; equal
 * maxima share the gradient.
 */
#ifndef APC_IR_GRADIENT_H
#define APC_IR_GRADIENT_H

#include "ir/ir.h"

typedef struct Gradient {
  Builder *b;            /* builds in the operation's function, after the whole forward pass */
  const Op *op;          /* a copy, because building moves the list of operations */
  const Val *of_results; /* per result; 0 if the loss does not depend on it */
  const bool *wanted;    /* per operand: it depends on a trained weight */
  Val *of_operands;      /* out, per wanted operand; stays 0 if the loss does not change with it */
  const char *refused;   /* out: the reason if there is no rule, "reduce by product"; else NULL */
} Gradient;

/* True if the operation has a rule.  Integer operations need none: they get no gradients. */
bool gradient_known(OpKind k);

/* Builds the gradients.  False after a diagnostic of the builder, or with `refused` set and no diagnostic. */
bool gradient_build(Gradient *g);

/* The gradient of x through `broadcast` with `dims` from type `from`: sums the added and the stretched dimensions. */
Val gradient_of_broadcast(Builder *b, Val of_result, const Type *from, int n, const int64_t *dims);

#endif
