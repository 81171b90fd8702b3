/* ir/ops/gradient.h - helpers of the rules for gradients; private to ir/ops/. */
#ifndef APC_IR_OPS_GRADIENT_H
#define APC_IR_OPS_GRADIENT_H

#include "ir/gradient.h"

/* The type of a value. */
static inline const Type *gradient_type(const Gradient *g, Val v) { return type_of(g->b->f, v); }

/* A splat with the type of x. */
static inline Val gradient_number(const Gradient *g, Val x, double value) {
  return x ? build_splat(g->b, gradient_type(g, x), value) : 0;
}
/* Elementwise arithmetic. */
static inline Val gradient_scaled(const Gradient *g, Val x, double by) {
  return build_binary(g->b, OP_mul, x, gradient_number(g, x, by));
}
static inline Val gradient_add(const Gradient *g, Val x, Val y) { return build_binary(g->b, OP_add, x, y); }
static inline Val gradient_sub(const Gradient *g, Val x, Val y) { return build_binary(g->b, OP_sub, x, y); }
static inline Val gradient_mul(const Gradient *g, Val x, Val y) { return build_binary(g->b, OP_mul, x, y); }
static inline Val gradient_div(const Gradient *g, Val x, Val y) { return build_binary(g->b, OP_div, x, y); }

/* x where the condition holds, else y; y 0: zero. */
Val gradient_where(const Gradient *g, Val condition, Val x, Val y);

/* Sum over dimension `axis`, and a sum broadcast back over it. */
Val gradient_sum(const Gradient *g, Val x, int axis);
Val gradient_back(const Gradient *g, Val sum, Val like, int axis);

#endif
