/* ir/legal_join.h - the elementwise operations that a kind of device fuses into the product or convolution before them.
 *
 * Input: a function of level 1 or 2.  Output: by operation, whether it is fused into the one that makes an operand.
 * This is the only place that decides it: code generation writes the fused operation (codegen/rows/work_join.c), the
 * cost model omits the launch and the traffic that it saves (passes/cost/cost.h).
 *
 * After a convolution or product of the device's library, if the value has no other use, the library applies in this
 * order: + bias along the innermost dimension, + a value of the same shape, an activation.  Reshapes that keep a
 * convolution's channels innermost may come in between.  At level 1 the value must be used as it was made; at level 2,
 * where conversions are operations, an operation with a conversion before it is apart.  Operations after an addition
 * that is apart are fused into its kernel.
 *
 * Results of f32 products and convolutions are joined, and of 16-bit products that the library computes: those are
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
  JOIN_BOUND,      /* min with 6, after a relu */
  JOIN_GATE,       /* the sigmoid of x sigmoid(x) */
  JOIN_SILU        /* the product of x sigmoid(x) */
} JoinKind;

typedef struct LegalJoin {
  JoinKind kind;
  int operand;     /* number of the operand that is the product's or convolution's value */
  Val other;       /* BIAS: the vector, unless it is apart; RESIDUAL: the value that is added */
  int next;        /* operation that joins this one, which may be a product or convolution; -1 if none */
  bool of_weights; /* BIAS: the vector is a weight, which can be stored in any layout */
  bool apart;      /* its vector has one element; level 2: its value or vector is converted or sent first */
} LegalJoin;

/* By operation; lives in the arena. */
const LegalJoin *legal_joins(Arena *a, Module *m, const DeviceTraits *d, const Func *f);

/* True if the join saves a kernel that would read and write the whole value. */
static inline bool join_is_computed(JoinKind k) {
  return k == JOIN_BIAS || k == JOIN_RESIDUAL || k == JOIN_ACTIVATION || k == JOIN_BOUND;
}

/* True if prices count it: not for a computed vector, which does not join if its broadcast is converted. */
static inline bool join_is_counted(const LegalJoin *j) {
  return join_is_computed(j->kind) && (j->kind != JOIN_BIAS || j->of_weights);
}

#endif
