/* ir/ops/gradient_sums.c - derivatives of sums, matrix products, and operations that divide by sums. */
#include <stdio.h>
#include <string.h>

#include "ir/ops/gradient.h"
#include "ir/ops/record.h"

/* ---- reduce */

/* Equal maxima share the gradient. */
static void of_extremum(Gradient *g, int n, const int *axes) {
  Val x = g->op->in[0], y = g->op->out;
  Val best = build_binary(g->b, OP_eq, x, build_keepdims(g->b, y, x, n, axes));
  Val ones = build_cast(g->b, best, gradient_type(g, x)->dtype);
  Val share = gradient_div(g, g->of_results[0], build_reduce(g->b, RED_SUM, ones, n, axes));
  g->of_operands[0] = gradient_where(g, best, build_keepdims(g->b, share, x, n, axes), 0);
}

void gradient_reduce(Gradient *g) {
  const Attr *list = op_attr(g->op, AT_axes);
  Reduction r = op_attr(g->op, AT_op)->u.reduction;
  int axes[MAX_RANK];
  for (int i = 0; i < list->n; i++) axes[i] = (int)list->u.ints[i];
  if (r == RED_SUM) g->of_operands[0] = build_keepdims(g->b, g->of_results[0], g->op->in[0], list->n, axes);
  else if (r == RED_MAX || r == RED_MIN) of_extremum(g, list->n, axes);
  else g->refused = arena_printf(g->b->m->arena, "reduce by %s", reduction_name(r));
}

/* ---- dot */

/* The gradient of operand i: that of the result times the other operand.  Letters that only this operand has were
 * summed alone: all their elements get the same gradient. */
static Val of_factor(const Gradient *g, int i) {
  const char *part[3];
  int length[3], n = 0, at = 0;
  int64_t dims[MAX_RANK];
  char spec[3 * MAX_RANK + 4];
  infer_spec(op_str(g->op, AT_spec), part, length);
  const char *own = part[i], *other = part[1 - i];
  at += snprintf(spec, sizeof spec, "%.*s,%.*s->", length[2], part[2], length[1 - i], other);
  for (int d = 0; d < length[i]; d++) {
    if (!memchr(other, own[d], (size_t)length[1 - i]) && !memchr(part[2], own[d], (size_t)length[2])) continue;
    dims[n++] = d, spec[at++] = own[d];
  }
  spec[at] = 0;
  Val product = build_dot(g->b, g->of_results[0], g->op->in[1 - i], spec);
  if (n == length[i]) return product;
  Attr a = attr_ints(g->b->m, AT_dims, n, dims);
  const Type *t = gradient_type(g, g->op->in[i]);
  return build_op(g->b, &(OpSpec){.kind = OP_broadcast, .nin = 1, .in = &product, .type = t, .nattrs = 1, .attrs = &a});
}

void gradient_dot(Gradient *g) {
  for (int i = 0; i < 2; i++)
    if (g->wanted[i]) g->of_operands[i] = of_factor(g, i);
}

/* ---- softmax, norm, cross_entropy: from their results, so that only a row's scale is computed again */

/* y (dy - sum(dy y)) */
void gradient_softmax(Gradient *g) {
  int axis = (int)op_int(g->op, AT_axis, 0);
  Val y = g->op->out, dy = g->of_results[0];
  Val sum = gradient_sum(g, gradient_mul(g, dy, y), axis);
  g->of_operands[0] = gradient_mul(g, y, gradient_sub(g, dy, gradient_back(g, sum, y, axis)));
}

/* Mean over the last dimension, per row. */
static Val row_mean(const Gradient *g, Val x) {
  const Type *t = gradient_type(g, x);
  Val sum = gradient_sum(g, x, t->rank - 1);
  return gradient_div(g, sum, build_size(g->b, gradient_type(g, sum), t->dims[t->rank - 1]));
}

static Val less_mean(const Gradient *g, Val x) {
  return gradient_sub(g, x, gradient_back(g, row_mean(g, x), x, gradient_type(g, x)->rank - 1));
}

/* With y = scale * v, v = x or x minus its mean: scale (dy - y mean(dy y)), minus its mean if v is. */
void gradient_norm(Gradient *g) {
  bool layer = strcmp(op_str(g->op, AT_kind), "layer") == 0;
  Val x = g->op->in[0], y = g->op->out, dy = g->of_results[0];
  int last = gradient_type(g, x)->rank - 1;
  Val v = layer ? less_mean(g, x) : x;
  Val square = row_mean(g, gradient_mul(g, v, v));
  Val biased = gradient_add(g, square, gradient_number(g, square, op_float(g->op, AT_eps, 0)));
  Val scale = gradient_back(g, build_unary(g->b, OP_rsqrt, biased), x, last);
  Val along = gradient_back(g, row_mean(g, gradient_mul(g, dy, y)), x, last);
  Val across = layer ? less_mean(g, dy) : dy;
  g->of_operands[0] = gradient_mul(g, scale, gradient_sub(g, across, gradient_mul(g, y, along)));
}

/* dy (exp(x - max - log(sum(exp(x - max)))) - hit), where hit is 1 for the label.  The sum is computed again: a loss of
 * 1e9, of a row that masks only its label's class, has no bits for it, nor has a log-sum-exp of -1e9.  It is no
 * softmax, which would keep a value of the size of x if ranks share the classes (D48). */
void gradient_cross_entropy(Gradient *g) {
  Builder *b = g->b;
  Val x = g->op->in[0], label = g->op->in[1], dy = g->of_results[0];
  const Type *t = gradient_type(g, x);
  int last = t->rank - 1;
  Val most = build_reduce(b, RED_MAX, x, 1, &last), below = gradient_sub(g, x, gradient_back(g, most, x, last));
  Val sum = gradient_sum(g, build_unary(b, OP_exp, below), last), log = build_unary(b, OP_log, sum);
  Val share = build_unary(b, OP_exp, gradient_sub(g, below, gradient_back(g, log, x, last)));
  Val class = build_iota(b, type_with_dtype(b->m, t, DT_i64), last);
  Val hit = build_cast(b, build_binary(b, OP_eq, class, gradient_back(g, label, x, last)), t->dtype);
  Val rows_dy = gradient_back(g, dy, x, last), slope = gradient_sub(g, share, hit);
  g->of_operands[0] = gradient_mul(g, rows_dy, slope);
}
