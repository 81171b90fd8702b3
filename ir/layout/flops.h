/* ir/layout/flops.h - model FLOPs: the floating-point operations that a function needs, as expressions of its sizes.
 *
 * Counted as for the utilisation of devices in training (MFU; Chowdhery et al., PaLM, arXiv:2204.02311, appendix B):
 * matrix products, convolutions and attention, forward and backward, each once, whatever a plan recomputes; a
 * multiply-add is two.  A causal mask does not lower the count.  The gradient of attention counts as two attentions,
 * though each of its three operations computes the scores again.  Elementwise work, reductions, lookups and unknown
 * operations do not count.
 *
 * The sum of a large step exceeds 64 bits, so it remains a list: equal expressions of many layers are one term.
 */
#ifndef APC_IR_LAYOUT_FLOPS_H
#define APC_IR_LAYOUT_FLOPS_H

#include "ir/ir.h"

typedef struct FlopTerm {
  double times; /* a whole number, except in a joint function (ir/joint.h) */
  const Expr *each;
} FlopTerm;

typedef struct ModelFlops {
  int n;
  FlopTerm *items; /* in the order of the first operation of each */
} ModelFlops;

/* Returns the terms of a level-1 function, in the arena; none if an operation's count exceeds 64 bits. */
ModelFlops flops_of(Arena *a, Module *m, const Func *f);

/* Returns the sum under symbol values, indexed as Module.symbols; NaN if a term has no value. */
double flops_at(const ModelFlops *x, const int64_t *symbol_values);

#endif
