/* ir/ops/gradient_pointwise.c - derivatives of elementwise operations. */
#include <math.h>

#include "ir/ops/gradient.h"
#include "ir/ops/record.h"

/* ---- one operand: the factor of the result's gradient, from operand x and result y */

typedef Val SlopeFn(const Gradient *g, Val x, Val y);

static Val plus(const Gradient *g, Val x, double c) { return gradient_add(g, x, gradient_number(g, x, c)); }
static Val square(const Gradient *g, Val x) { return gradient_mul(g, x, x); }
static Val minus_square(const Gradient *g, Val x, double c) { /* c - x * x */
  Val all = gradient_number(g, x, c);
  return gradient_sub(g, all, square(g, x));
}
static Val unary(const Gradient *g, OpKind k, Val x) { return build_unary(g->b, k, x); }

#define SLOPE(name, value) \
  static Val slope_##name(const Gradient *g, Val x, Val y) { \
    (void)g, (void)x, (void)y; \
    return value; \
  }
SLOPE(neg, gradient_number(g, x, -1))
SLOPE(abs, unary(g, OP_sign, x))
SLOPE(exp, y)
SLOPE(exp2, gradient_scaled(g, y, M_LN2))
SLOPE(expm1, plus(g, y, 1))
SLOPE(log, unary(g, OP_recip, x))
SLOPE(log1p, unary(g, OP_recip, plus(g, x, 1)))
SLOPE(sqrt, gradient_div(g, gradient_number(g, y, 0.5), y))
SLOPE(rsqrt, gradient_scaled(g, gradient_mul(g, y, square(g, y)), -0.5))
SLOPE(recip, unary(g, OP_neg, square(g, y)))
SLOPE(sin, unary(g, OP_cos, x))
SLOPE(cos, unary(g, OP_neg, unary(g, OP_sin, x)))
SLOPE(tan, plus(g, square(g, y), 1))
SLOPE(asin, unary(g, OP_rsqrt, minus_square(g, x, 1)))
SLOPE(acos, unary(g, OP_neg, unary(g, OP_rsqrt, minus_square(g, x, 1))))
SLOPE(atan, unary(g, OP_recip, plus(g, square(g, x), 1)))
SLOPE(sinh, unary(g, OP_cosh, x))
SLOPE(cosh, unary(g, OP_sinh, x))
SLOPE(asinh, unary(g, OP_rsqrt, plus(g, square(g, x), 1)))
SLOPE(acosh, unary(g, OP_rsqrt, plus(g, square(g, x), -1)))
SLOPE(atanh, unary(g, OP_recip, minus_square(g, x, 1)))
SLOPE(tanh, minus_square(g, y, 1))
SLOPE(erf, gradient_scaled(g, unary(g, OP_exp, unary(g, OP_neg, square(g, x))), M_2_SQRTPI))
SLOPE(sigmoid, gradient_mul(g, y, gradient_sub(g, gradient_number(g, y, 1), y)))

static SlopeFn *const slopes[OP_COUNT] = {
#define ROW(name) [OP_##name] = slope_##name
    ROW(neg),   ROW(abs),   ROW(exp),   ROW(exp2),  ROW(expm1), ROW(log),  ROW(log1p), ROW(sqrt),
    ROW(rsqrt), ROW(recip), ROW(sin),   ROW(cos),   ROW(tan),   ROW(asin), ROW(acos),  ROW(atan),
    ROW(sinh),  ROW(cosh),  ROW(asinh), ROW(acosh), ROW(atanh), ROW(tanh), ROW(erf),   ROW(sigmoid),
#undef ROW
};

void gradient_unary(Gradient *g) {
  OpKind k = g->op->kind;
  Val x = g->op->in[0], dy = g->of_results[0];
  if (k == OP_floor || k == OP_ceil || k == OP_round || k == OP_sign) return; /* the gradient is 0 */
  if (k == OP_relu) {
    Val positive = build_binary(g->b, OP_gt, x, gradient_number(g, x, 0));
    g->of_operands[0] = gradient_where(g, positive, dy, 0);
  } else if (slopes[k]) g->of_operands[0] = gradient_mul(g, dy, slopes[k](g, x, g->op->out));
  else g->refused = op_name(k);
}

/* ---- two operands */

/* x to the power y: y x^(y-1), 0 where y is 0, and ln(x) x^y, 0 where x is 0. */
static Val unless(const Gradient *g, Val number, Val gradient) { /* 0 where `number` is 0 */
  Val zero = build_binary(g->b, OP_eq, number, gradient_number(g, number, 0)), none = gradient_number(g, number, 0);
  return gradient_where(g, zero, none, gradient);
}

static void of_pow(Gradient *g, Val x, Val y, Val dy) {
  if (g->wanted[0]) {
    Val slope = gradient_mul(g, y, build_binary(g->b, OP_pow, x, plus(g, y, -1)));
    g->of_operands[0] = unless(g, y, gradient_mul(g, dy, slope));
  }
  if (g->wanted[1]) {
    Val slope = gradient_mul(g, g->op->out, unary(g, OP_log, x));
    g->of_operands[1] = unless(g, x, gradient_mul(g, dy, slope));
  }
}

/* The larger (or smaller) operand gets the whole gradient; equal ones get half each. */
static void of_larger(Gradient *g, Val x, Val y, Val dy, OpKind wins) {
  Val equal = build_binary(g->b, OP_eq, x, y), half = gradient_scaled(g, dy, 0.5);
  for (int i = 0; i < 2; i++) {
    if (!g->wanted[i]) continue;
    Val all = build_binary(g->b, wins, g->op->in[i], g->op->in[1 - i]);
    g->of_operands[i] = gradient_where(g, equal, half, gradient_where(g, all, dy, 0));
  }
}

/* The angle of the point (y, x): x / (x x + y y) and -y / (x x + y y). */
static void of_atan2(Gradient *g, Val y, Val x, Val dy) {
  Val xx = square(g, x), yy = square(g, y), part = gradient_div(g, dy, gradient_add(g, xx, yy));
  if (g->wanted[0]) g->of_operands[0] = gradient_mul(g, part, x);
  if (g->wanted[1]) g->of_operands[1] = unary(g, OP_neg, gradient_mul(g, part, y));
}

void gradient_binary(Gradient *g) {
  Val x = g->op->in[0], y = g->op->in[1], dy = g->of_results[0], *dx = g->of_operands;
  const bool *w = g->wanted;
  switch (g->op->kind) {
    case OP_add: dx[0] = dx[1] = dy; break;
    case OP_sub: dx[0] = dy, dx[1] = w[1] ? unary(g, OP_neg, dy) : 0; break;
    case OP_mul: dx[0] = w[0] ? gradient_mul(g, dy, y) : 0, dx[1] = w[1] ? gradient_mul(g, dy, x) : 0; break;
    case OP_div:
      dx[0] = w[0] || w[1] ? gradient_div(g, dy, y) : 0;
      dx[1] = w[1] ? unary(g, OP_neg, gradient_mul(g, dx[0], g->op->out)) : 0;
      break;
    case OP_pow: of_pow(g, x, y, dy); break;
    case OP_max: of_larger(g, x, y, dy, OP_gt); break;
    case OP_min: of_larger(g, x, y, dy, OP_lt); break;
    case OP_atan2: of_atan2(g, x, y, dy); break;
    default: g->refused = op_name(g->op->kind);
  }
}

/* ---- the others */

void gradient_compare(Gradient *g) { (void)g; } /* 0: a truth value has no gradient */

void gradient_select(Gradient *g) {
  Val condition = g->op->in[0], dy = g->of_results[0];
  if (g->wanted[1]) g->of_operands[1] = gradient_where(g, condition, dy, 0);
  if (g->wanted[2]) g->of_operands[2] = gradient_where(g, condition, gradient_number(g, dy, 0), dy);
}

/* A gradient has the type of its value.  Types without arithmetic are too coarse for it (of f8e8m0 there is not even
 * a 0), so nothing is trained through them. */
void gradient_cast(Gradient *g) {
  DType from = gradient_type(g, g->op->in[0])->dtype, to = gradient_type(g, g->op->out)->dtype;
  if (!dtype_computes(from) || !dtype_computes(to)) {
    g->refused = arena_printf(g->b->m->arena, "a cast from %s to %s", dtype_name(from), dtype_name(to));
    return;
  }
  g->of_operands[0] = build_cast(g->b, g->of_results[0], from);
}

void gradient_copy(Gradient *g) { g->of_operands[0] = g->of_results[0]; }
