/* tests/hand_task.h - one operation that is written by hand: its operands, which of them may be partial, and how it is
 * finished.
 *
 * The operations that let partial sums through are listed here anew, by what they compute; a slip lets through what
 * must not pass. */
#ifndef APC_TESTS_HAND_TASK_H
#define APC_TESTS_HAND_TASK_H

#include "tests/hand_pieces.h"

static const Type *l1_type(const Hand *h, Val v) { return type_of(h->l1, v); }

/* ---- which operands may be partial results */

/* Operands that may be partial alone (bits), and those that may be together. */
static void linear_in(const Op *op, uint32_t *alone, uint32_t *together) {
  *alone = *together = 0;
  switch (op->kind) {
    case OP_neg:
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice:
    case OP_copy:
    case OP_gather:
    case OP_take:
    case OP_pad:
    case OP_reduce:
    case OP_pool:
    case OP_scan:
    case OP_scatter:
    case OP_put:
    case OP_cast:
    case OP_div: *alone = 1; return;
    case OP_pool_grad: *alone = 2; return;
    case OP_mul:
    case OP_dot:
    case OP_conv:
    case OP_conv_transpose:
    case OP_conv_filter: *alone = 3; return;
    case OP_grouped_dot: *alone = 5; return;
    case OP_grouped_mlp: *alone = 16; return;
    case OP_add:
    case OP_sub:
    case OP_update: *together = 3; return;
    case OP_select: *together = 6; return;
    case OP_concat: *together = (1u << op->nin) - 1u; return;
    default: return;
  }
}

/* Padding with zeros, sums of sums, maxima of maxima: a careful author lets no other operation pass. */
static bool linear_enough(const Hand *h, const Op *op, Reduction r) {
  const Attr *kind = op_attr(op, AT_op), *fill = op_attr(op, AT_value);
  if (op->kind == OP_pad) return fill->u.f == 0;
  if (kind)
    return (kind->u.reduction == r && (r == RED_SUM || op->kind != OP_scan)) ||
           (r == RED_ONE && kind->u.reduction == RED_SUM);
  if (op->kind == OP_cast)
    return dtype_is_float(op_attr(op, AT_to)->u.dtype) && dtype_is_float(l1_type(h, op->in[0])->dtype);
  return r == RED_SUM || r == RED_ONE;
}

/* Resolves partial operands that cannot pass; sets what the result is partial by. */
static void settle_partials(Hand *h, const Op *op, Piece *in, Piece *out) {
  uint32_t alone, together, have = 0;
  linear_in(op, &alone, &together);
  for (int i = 0; i < op->nin; i++) have |= in[i].axes ? 1u << i : 0;
  if (!have || h->failed) return;
  int first = __builtin_ctz(have);
  bool pass = (alone & have) == have && (have & (have - 1)) == 0;
  if ((together & have) == have && together) {
    pass = true;
    for (int i = 0; i < op->nin; i++)
      if ((together >> i) & 1u && !in[i].axes && !(used_axes(h, &in[i]) & in[first].axes))
        make_partial(h, &in[i], in[first].partial, in[first].axes);
    for (int i = 0; i < op->nin; i++)
      if ((together >> i) & 1u) pass = pass && in[i].axes == in[first].axes && in[i].partial == in[first].partial;
  }
  pass = pass && linear_enough(h, op, in[first].partial) && below(h->r, 4);
  int wrong = slip(h);
  if (wrong) pass = !pass;
  if (pass) {
    out->partial = in[first].partial;
    out->axes = in[first].axes;
    bool moves = op->kind == OP_copy || op->kind == OP_broadcast || op->kind == OP_reshape ||
                 op->kind == OP_transpose || op->kind == OP_slice;
    if (out->partial == RED_ONE && !(moves && below(h->r, 3) == 0)) out->partial = RED_SUM;
    h->adds |= out->partial != RED_ONE;
    return;
  }
  for (int i = 0; i < op->nin; i++) resolve(h, &in[i]);
}

/* ---- operations: `in` are the pieces of the operands; the result's place goes to `y` */

typedef struct Task {
  Hand *h;
  const Op *op; /* of level 1 */
  Piece *in;
  Piece *y;
  const Type *t; /* of the result at level 1 */
} Task;

static uint32_t taken_by(const Task *k) {
  uint32_t axes = k->y->axes;
  for (int i = 0; i < k->op->nin; i++) axes |= used_axes(k->h, &k->in[i]);
  return axes;
}

/* The part of one dimension of the result that this rank shall have. */
static void want_part(const Task *k, const Expr *extent, uint32_t *taken, const Expr **lo, const Expr **hi) {
  const Expr *e;
  box_any(k->h, 1, &extent, taken, lo, &e);
  *hi = ex_add(k->h->m, *lo, e);
}

static void finish(const Task *k, int nattrs, const Attr *attrs, const Type *t) {
  Val in[MAX_OPERANDS];
  for (int i = 0; i < k->op->nin; i++) in[i] = k->in[i].v;
  k->y->v = emit(k->h, k->op->kind, k->op->nin, in, nattrs, attrs, t);
}

/* The attributes of level 1, one of them replaced. */
static int attrs_with(const Task *k, Attr *out, const Attr *replaced, int n) {
  int have = 0;
  for (int i = 0; i < k->op->nattrs; i++) {
    out[have] = k->op->attrs[i];
    for (int j = 0; j < n; j++)
      if (replaced[j].key == out[have].key) out[have] = replaced[j];
    have++;
  }
  return have;
}

static void finish_with(const Task *k, const Attr *replaced, int n, const Type *t) {
  Attr attrs[16];
  if (!k->h->failed) finish(k, attrs_with(k, attrs, replaced, n), attrs, t);
}

static const Type *local_of(const Task *k, const Expr *const *dims) {
  return type_get(k->h->m, k->t->dtype, k->t->rank, dims);
}

/* The sum (or other reduction) over a cut dimension of a piece is partial. */
static void sum_over(const Task *k, const Piece *p, int d, Reduction r) {
  uint32_t axes = cut_axes(k->h, p, d);
  if (!axes) return;
  k->y->axes |= axes;
  k->y->partial = r;
  k->h->adds |= r != RED_ONE;
}

#endif
