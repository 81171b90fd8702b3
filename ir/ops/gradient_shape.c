/* ir/ops/gradient_shape.c - derivatives of operations that move elements: the gradients move back. */
#include "ir/ops/gradient.h"
#include "ir/ops/record.h"

void gradient_broadcast(Gradient *g) {
  const Attr *dims = op_attr(g->op, AT_dims);
  g->of_operands[0] =
      gradient_of_broadcast(g->b, g->of_results[0], gradient_type(g, g->op->in[0]), dims->n, dims->u.ints);
}

void gradient_reshape(Gradient *g) {
  const Type *t = gradient_type(g, g->op->in[0]);
  g->of_operands[0] = build_reshape(g->b, g->of_results[0], t->rank, t->dims);
}

void gradient_transpose(Gradient *g) {
  const Attr *perm = op_attr(g->op, AT_perm);
  int back[MAX_RANK];
  for (int i = 0; i < perm->n; i++) back[perm->u.ints[i]] = i;
  g->of_operands[0] = build_transpose(g->b, g->of_results[0], back);
}

static Val padded(const Gradient *g, Val x, int rank, const Expr *const *low, const Expr *const *high) {
  Module *m = g->b->m;
  bool none = true;
  for (int d = 0; d < rank; d++) none &= ex_is_const(low[d], 0) && ex_is_const(high[d], 0);
  if (none || !x) return x;
  Attr a[] = {attr_exprs(m, AT_low, rank, low), attr_exprs(m, AT_high, rank, high), attr_f(AT_value, 0)};
  return build_op(g->b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &x, .nattrs = 3, .attrs = a});
}

/* Puts elements of dimension d `stride` apart: stride - 1 zeros after each one, except at the end. */
static Val spread(const Gradient *g, Val x, int d, int64_t stride) {
  Module *m = g->b->m;
  if (!x || stride == 1) return x;
  const Type *t = gradient_type(g, x);
  const Expr *dims[MAX_RANK], *none[MAX_RANK], *high[MAX_RANK];
  if (t->rank == MAX_RANK) return 0;
  for (int i = 0; i <= t->rank; i++) {
    dims[i] = i <= d ? t->dims[i] : i == d + 1 ? ex_const(m, 1) : t->dims[i - 1];
    none[i] = ex_const(m, 0), high[i] = ex_const(m, i == d + 1 ? stride - 1 : 0);
  }
  Val apart = padded(g, build_reshape(g->b, x, t->rank + 1, dims), t->rank + 1, none, high);
  for (int i = 0; i < t->rank; i++) dims[i] = i == d ? ex_mul(m, t->dims[i], ex_const(m, stride)) : t->dims[i];
  Val y = build_reshape(g->b, apart, t->rank, dims);
  const Expr *n = ex_sub(m, dims[d], ex_const(m, stride - 1));
  return build_slice(g->b, y, d, ex_const(m, 0), n, 1);
}

/* Puts zeros back around the slice and between its elements. */
void gradient_slice(Gradient *g) {
  Module *m = g->b->m;
  const Attr *starts = op_attr(g->op, AT_starts), *strides = op_attr(g->op, AT_strides);
  const Type *t = gradient_type(g, g->op->in[0]);
  const Expr *high[MAX_RANK];
  Val x = g->of_results[0];
  for (int d = 0; d < t->rank; d++) {
    if (strides->u.ints[d] > 1 && t->rank == MAX_RANK) {
      g->refused = "slice with strides of 8 dimensions";
      return;
    }
    x = spread(g, x, d, strides->u.ints[d]);
  }
  if (!x) return;
  for (int d = 0; d < t->rank; d++)
    high[d] = ex_sub(m, ex_sub(m, t->dims[d], starts->u.exprs[d]), gradient_type(g, x)->dims[d]);
  g->of_operands[0] = padded(g, x, t->rank, starts->u.exprs, high);
}

static Val sliced(const Gradient *g, Val x, const Type *like, const Expr *const *starts) {
  Module *m = g->b->m;
  int64_t ones[MAX_RANK];
  for (int d = 0; d < like->rank; d++) ones[d] = 1;
  Attr a[] = {attr_exprs(m, AT_starts, like->rank, starts), attr_ints(m, AT_strides, like->rank, ones)};
  return build_op(g->b, &(OpSpec){.kind = OP_slice, .nin = 1, .in = &x, .type = like, .nattrs = 2, .attrs = a});
}

void gradient_pad(Gradient *g) {
  const Attr *low = op_attr(g->op, AT_low);
  g->of_operands[0] = sliced(g, g->of_results[0], gradient_type(g, g->op->in[0]), low->u.exprs);
}

void gradient_concat(Gradient *g) {
  Module *m = g->b->m;
  int axis = (int)op_int(g->op, AT_axis, 0);
  const Expr *starts[MAX_RANK], *at = ex_const(m, 0);
  for (int i = 0; i < g->op->nin; i++) {
    const Type *t = gradient_type(g, g->op->in[i]);
    for (int d = 0; d < t->rank; d++) starts[d] = d == axis ? at : ex_const(m, 0);
    if (g->wanted[i]) g->of_operands[i] = sliced(g, g->of_results[0], t, starts);
    at = ex_add(m, at, t->dims[axis]);
  }
}

/* ---- by index: gather is reversed by scatter, take by put, update by both its parts */

static Val indexed(const Gradient *g, OpKind k, Val x, Val index, const Type *type, bool sums) {
  Attr a[3] = {attr_i(AT_axis, op_int(g->op, AT_axis, 0)), attr_e(AT_start, ex_const(g->b->m, 0)),
               attr_red(AT_op, RED_SUM)};
  return build_op(
      g->b, &(OpSpec){.kind = k, .nin = 2, .in = (Val[]){x, index}, .type = type, .nattrs = sums ? 3 : 2, .attrs = a});
}

void gradient_gather(Gradient *g) {
  const Op *op = g->op;
  g->of_operands[0] = indexed(g, OP_scatter, g->of_results[0], op->in[1], gradient_type(g, op->in[0]), true);
}

void gradient_take(Gradient *g) {
  const Op *op = g->op;
  g->of_operands[0] = indexed(g, OP_put, g->of_results[0], op->in[1], gradient_type(g, op->in[0]), true);
}

static bool adds(Gradient *g) {
  if (op_attr(g->op, AT_op)->u.reduction == RED_SUM) return true;
  g->refused = arena_printf(g->b->m->arena, "%s by %s", op_name(g->op->kind),
                            reduction_name(op_attr(g->op, AT_op)->u.reduction));
  return false;
}

void gradient_scatter(Gradient *g) {
  if (adds(g)) g->of_operands[0] = indexed(g, OP_gather, g->of_results[0], g->op->in[1], NULL, false);
}

void gradient_put(Gradient *g) {
  if (adds(g)) g->of_operands[0] = indexed(g, OP_take, g->of_results[0], g->op->in[1], NULL, false);
}

/* The sum of all elements that depend on one: a scan in the other direction. */
void gradient_scan(Gradient *g) {
  const Op *op = g->op;
  Attr a[] = {attr_i(AT_axis, op_int(op, AT_axis, 0)), attr_red(AT_op, RED_SUM),
              attr_i(AT_exclusive, op_int(op, AT_exclusive, 0)), attr_i(AT_reverse, !op_int(op, AT_reverse, 0))};
  if (adds(g))
    g->of_operands[0] =
        build_op(g->b, &(OpSpec){.kind = OP_scan, .nin = 1, .in = &g->of_results[0], .nattrs = 4, .attrs = a});
}

/* Gradients at the updated place belong to operand 1, all others to operand 0. */
void gradient_update(Gradient *g) {
  Builder *b = g->b;
  const Op *op = g->op;
  Val dy = g->of_results[0], at = op->in[2];
  const Type *part = gradient_type(g, op->in[1]);
  int axis = (int)op_int(op, AT_axis, 0);
  if (op->nin > 3 || gradient_type(g, at)->rank) {
    g->refused = "an update with positions or counts per row";
    return;
  }
  if (g->wanted[0]) {
    Attr a[] = {attr_i(AT_axis, axis), attr_e(AT_start, ex_const(b->m, 0))};
    g->of_operands[0] = build_op(
        b, &(OpSpec){
               .kind = OP_update, .nin = 3, .in = (Val[]){dy, build_splat(b, part, 0), at}, .nattrs = 2, .attrs = a});
  }
  if (g->wanted[1]) {
    const Type *places = type_get(b->m, DT_i64, 1, &part->dims[axis]);
    Val place = gradient_add(g, build_iota(b, places, 0), build_bcast_to(b, at, 1, &part->dims[axis]));
    g->of_operands[1] = build_gather(b, dy, place, axis);
  }
}

/* Elements came from the places in the second result. */
void gradient_topk(Gradient *g) {
  if (!g->of_results[0]) return;
  g->of_operands[0] = indexed(g, OP_put, g->of_results[0], g->op->out + 1, gradient_type(g, g->op->in[0]), true);
}
