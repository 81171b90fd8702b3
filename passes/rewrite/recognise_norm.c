/* passes/rewrite/recognise_norm.c - layer and rms norms over the last dimension, as exporters write them:
 *
 *   layer   d / sqrt(mean(d * d) + eps)  with  d = x - mean(x)
 *   rms     x / sqrt(mean(x * x) + eps), x * (1 / sqrt(...)), x * recip(sqrt(...))
 *
 * mean(y) is a sum over the last dimension divided by its extent; statistics keep it as an extent of 1.
 */
#include "passes/rewrite/recognise.h"

/* Returns the value that a broadcast repeats only along the last dimension; 0 if `v` is no such broadcast. */
static Val stretched(const Func *f, Val v) {
  const Op *op = recognise_op(f, v, OP_broadcast);
  if (!op) return 0;
  const Type *t = type_of(f, v), *from = type_of(f, op->in[0]);
  const Attr *dims = op_attr(op, AT_dims);
  if (t->rank < 1 || from->rank != t->rank || !ex_is_const(from->dims[t->rank - 1], 1)) return 0;
  for (int d = 0; d < t->rank; d++)
    if (dims->u.ints[d] != d || (d < t->rank - 1 && from->dims[d] != t->dims[d])) return 0;
  return op->in[0];
}

/* Looks through a reshape that adds or removes a last extent of 1. */
static Val unkept(const Func *f, Val v) {
  const Op *op = recognise_op(f, v, OP_reshape);
  if (!op) return v;
  const Type *t = type_of(f, v), *from = type_of(f, op->in[0]);
  const Type *longer = t->rank > from->rank ? t : from, *shorter = longer == t ? from : t;
  if (longer->rank != shorter->rank + 1 || !ex_is_const(longer->dims[longer->rank - 1], 1)) return v;
  for (int d = 0; d < shorter->rank; d++)
    if (longer->dims[d] != shorter->dims[d]) return v;
  return op->in[0];
}

static bool is_extent(const Func *f, Val v, const Expr *extent) {
  const Op *op = op_of(f, v);
  int64_t n;
  double number;
  if (op->kind == OP_broadcast || op->kind == OP_reshape) return is_extent(f, op->in[0], extent);
  if (op->kind == OP_size) return op_expr(op, AT_expr) == extent;
  return ex_get_const(extent, &n) && recognise_number(f, v, &number) && number == (double)n;
}

/* If v is the mean of a value over its last dimension, returns that value; else 0. */
static Val mean_of(const Func *f, Val v) {
  const Op *div = recognise_op(f, unkept(f, v), OP_div);
  const Op *sum = div ? recognise_op(f, unkept(f, div->in[0]), OP_reduce) : NULL;
  if (!sum || op_attr(sum, AT_op)->u.reduction != RED_SUM) return 0;
  const Type *t = type_of(f, sum->in[0]);
  const Attr *axes = op_attr(sum, AT_axes);
  bool last = axes->n == 1 && axes->u.ints[0] == t->rank - 1;
  return last && is_extent(f, div->in[1], t->dims[t->rank - 1]) ? sum->in[0] : 0;
}

/* If v is sqrt(mean(x * x) + eps), returns x; else 0. */
static Val root_of(const Func *f, Val v, double *eps) {
  const Op *root = recognise_op(f, v, OP_sqrt), *add = root ? recognise_op(f, root->in[0], OP_add) : NULL;
  if (!add) return 0;
  int at = recognise_number(f, add->in[1], eps) ? 0 : recognise_number(f, add->in[0], eps) ? 1 : -1;
  const Op *square = at >= 0 ? recognise_op(f, mean_of(f, add->in[at]), OP_mul) : NULL;
  return square && square->in[0] == square->in[1] ? square->in[0] : 0;
}

/* If v is the reciprocal of such a root, returns x; else 0. */
static Val inverse_root_of(const Func *f, Val v, double *eps) {
  const Op *op = v ? op_of(f, v) : NULL;
  double one;
  if (op && op->kind == OP_recip) return root_of(f, op->in[0], eps);
  if (op && op->kind == OP_div && recognise_number(f, op->in[0], &one) && one == 1) return root_of(f, op->in[1], eps);
  return 0;
}

/* If v = x - mean(x), returns x; else 0. */
static Val centred_of(const Func *f, Val v) {
  const Op *sub = recognise_op(f, v, OP_sub);
  Val x = sub ? mean_of(f, stretched(f, sub->in[1])) : 0;
  return x && x == sub->in[0] ? x : 0;
}

static Val norm(Recognise *w, const Op *op, const char *kind, Val x, double eps) {
  Attr a[2] = {attr_s(w->r.m, AT_kind, kind), attr_f(AT_eps, eps)};
  return recognise_build(w, op, NULL, (OpSpec){.kind = OP_norm, .nin = 1, .in = &w->r.map[x], .nattrs = 2, .attrs = a});
}

Val recognise_norm(Recognise *w, const Op *op) {
  const Func *f = w->r.old;
  double eps = 0;
  for (int i = 0; i < (op->kind == OP_mul ? 2 : 1); i++) { /* the operand that is normalised */
    Val factor = stretched(f, op->in[1 - i]), top = op->in[i];
    if (!factor) continue;
    Val of = op->kind == OP_div ? root_of(f, factor, &eps) : inverse_root_of(f, factor, &eps);
    if (!of || of != top || !(eps >= 0)) continue;
    Val x = centred_of(f, top), from = x ? x : top;
    if (!recognise_is_whole(w, op, 1, &from)) continue;
    return norm(w, op, x ? "layer" : "rms", from, eps);
  }
  return 0;
}
