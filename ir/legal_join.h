/* ir/legal_join.h - which elementwise operations a kind of device does in the product or convolution before them.
 *
 * In: a function of level 1 or 2.  Out: by operation, whether it joins what makes one of its operands.  Nobody else
 * decides this: code generation writes the joined operation down (codegen/rows/work_join.c), the cost model leaves out
 * the launch and the traffic that it saves (passes/cost/cost.h).
 *
 * Behind a convolution or product of the device's library, where the value has no other use, in this order: + bias
 * along the innermost dimension, + a value of the same shape, an activation.  Reshapes that keep a convolution's
 * channels innermost may stand between.  At level 1 this is so where the value comes as it was made; at level 2, where
 * conversions are operations, what has one before it is apart.  What joins an addition that is apart is part of its
 * kernel.
 *
 * Results of f32 products and convolutions are joined, and of 16-bit products that the library does itself: these are
 * rounded once, at the end, as in a kernel (docs/ir.md).
 */
#ifndef APC_IR_LEGAL_JOIN_H
#define APC_IR_LEGAL_JOIN_H

#include "ir/device.h"
#include "ir/ir.h"

typedef enum JoinKind {
  JOIN_NONE,
  JOIN_VIEW,       /* a reshape */
  JOIN_BIAS,       /* adds a vector */
  JOIN_RESIDUAL,   /* adds a value of the same shape */
  JOIN_ACTIVATION, /* relu, max with 0, sigmoid, tanh */
  JOIN_BOUND,      /* min with 6, of a relu */
  JOIN_GATE,       /* the sigmoid of x sigmoid(x) */
  JOIN_SILU        /* the product of x sigmoid(x) */
} JoinKind;

typedef struct LegalJoin {
  JoinKind kind;
  int operand;     /* which operand the product's or convolution's value is */
  Val other;       /* BIAS: the vector, if it is not apart; RESIDUAL: the value that is added */
  int next;        /* operation that joins this one, a product or convolution too; -1: none */
  bool of_weights; /* BIAS: the vector is a weight, which may be had in any layout */
  bool apart;      /* its vector has one element; level 2: its value, or its vector, is converted or sent before */
} LegalJoin;

/* By operation; lives in the arena. */
const LegalJoin *legal_joins(Arena *a, Module *m, const DeviceTraits *d, const Func *f);

/* Is a kernel saved, which would read and write all there is? */
static inline bool join_is_computed(JoinKind k) {
  return k == JOIN_BIAS || k == JOIN_RESIDUAL || k == JOIN_ACTIVATION || k == JOIN_BOUND;
}

/* Is that counted on?  Not of a vector that is computed: where its picture is converted, it does not join. */
static inline bool join_is_counted(const LegalJoin *j) {
  return join_is_computed(j->kind) && (j->kind != JOIN_BIAS || j->of_weights);
}

#endif
