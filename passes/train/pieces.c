/* passes/train/pieces.c - the gradient of a value that several slices read is their gradients side by side.
 *
 *   pad(a) + pad(b), with zeros exactly where the other has elements   becomes   concat(a, b), padded to the rest
 *
 * So no zeros are added, and kernels can write the parts in place (codegen/rows/work_place.c).  In: two gradients of
 * one value.  Both must be padded with zeros along one dimension only, and adjoin there.
 */
#include <string.h>

#include "passes/train/train.h"

/* Elements [from, to) of dimension `dim` of a value; zeros elsewhere. */
typedef struct Piece {
  Val part;
  int dim;
  const Expr *from, *to, *after; /* after: zeros that follow */
} Piece;

static bool find_piece(const Builder *b, Val v, Piece *p) {
  const Op *op = op_of(b->f, v);
  if (op->kind != OP_pad || op_float(op, AT_value, 0) != 0) return false;
  const Type *t = type_of(b->f, op->in[0]);
  const Expr *const *low = op_attr(op, AT_low)->u.exprs, *const *high = op_attr(op, AT_high)->u.exprs;
  *p = (Piece){.part = op->in[0], .dim = -1};
  for (int d = 0; d < t->rank; d++) {
    if (ex_is_const(low[d], 0) && ex_is_const(high[d], 0)) continue;
    if (p->dim >= 0) return false;
    p->dim = d, p->from = low[d], p->to = ex_add(b->m, low[d], t->dims[d]), p->after = high[d];
  }
  return p->dim >= 0;
}

/* Appends a piece, or the parts of a concatenation that it already is. */
static int append(const Builder *b, const Piece *p, Val *list, int n) {
  const Op *op = op_of(b->f, p->part);
  bool joined = op->kind == OP_concat && op_int(op, AT_axis, 0) == p->dim && n + op->nin <= op_max_operands(OP_concat);
  if (!joined) return list[n] = p->part, n + 1;
  memcpy(list + n, op->in, sizeof *list * (size_t)op->nin);
  return n + op->nin;
}

static Val pad_piece(Builder *b, const Piece *p, int rank) {
  const Expr *low[MAX_RANK], *high[MAX_RANK], *zero = ex_const(b->m, 0);
  if (ex_is_const(p->from, 0) && ex_is_const(p->after, 0)) return p->part;
  for (int d = 0; d < rank; d++) low[d] = high[d] = zero;
  low[p->dim] = p->from, high[p->dim] = p->after;
  Attr a[] = {attr_exprs(b->m, AT_low, rank, low), attr_exprs(b->m, AT_high, rank, high), attr_f(AT_value, 0)};
  return build_op(b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &p->part, .nattrs = 3, .attrs = a});
}

Val train_join_pieces(Builder *b, Val one, Val other) {
  Piece p, q;
  Val list[MAX_OPERANDS + 1];
  if (!find_piece(b, one, &p) || !find_piece(b, other, &q) || p.dim != q.dim) return 0;
  if (q.to == p.from) {
    Piece first = q;
    q = p, p = first;
  }
  int n = append(b, &p, list, 0);
  if (p.to != q.from || n == op_max_operands(OP_concat)) return 0;
  n = append(b, &q, list, n);
  Attr axis = attr_i(AT_axis, p.dim);
  const int rank = type_of(b->f, one)->rank;
  Val both = build_op(b, &(OpSpec){.kind = OP_concat, .nin = n, .in = list, .nattrs = 1, .attrs = &axis});
  return both ? pad_piece(b, &(Piece){.part = both, .dim = p.dim, .from = p.from, .after = q.after}, rank) : 0;
}
