/* ir/legal_join.h - which elementwise operations a kind of device does in the product or convolution before them.
 *
 * In: a function of level 1 or 2.  Out: by operation, whether it joins what makes one of its operands.  Nobody else
 * decides this: code generation writes the joined operation down (codegen/rows/work_join.c), the cost model leaves out
 * the launch and the traffic that it saves (passes/cost/cost.h).
 *
 * Behind a convolution or product of the device's library, where the value has no other use, in this order: + bias
 * along the innermost dimension, + a value of the same shape, an activation.  Reshapes that keep a convolution's
 * channels innermost may stand between.  At level 2 a conversion between two operations is an operation as well, so
 * they are apart there.
 *
 * Only f32 operations are joined: 16-bit results would otherwise be rounded at other places than level 2 says.
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
  JOIN_ACTIVATION, /* relu, sigmoid, tanh */
  JOIN_GATE,       /* the sigmoid of x sigmoid(x) */
  JOIN_SILU        /* the product of x sigmoid(x) */
} JoinKind;

typedef struct LegalJoin {
  JoinKind kind;
  int operand; /* which operand the product's or convolution's value is */
  Val other;   /* BIAS: the vector; RESIDUAL: the value that is added */
  int next;    /* operation that joins this one, a product or convolution too; -1: none */
} LegalJoin;

/* By operation; lives in the arena. */
const LegalJoin *legal_joins(Arena *a, Module *m, const DeviceTraits *d, const Func *f);

/* What joins it saves it: does it compute where it would else read and write all there is? */
static inline bool join_is_computed(JoinKind k) { return k == JOIN_BIAS || k == JOIN_RESIDUAL || k == JOIN_ACTIVATION; }

#endif
