/* ir/eval_reduce.c - reductions, contractions, and operations that index. */
#include <string.h>

#include "ir/eval.h"

bool eval_reduce(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  const Attr *axes = op_attr(e->op, AT_axes);
  Reduction r = op_attr(e->op, AT_op)->u.reduction;
  int64_t xs[MAX_RANK], ys[MAX_RANK];
  Nest nest = {0};
  int next = 0, out = 0;
  row_major(x->rank, x->dims, xs);
  row_major(y->rank, y->dims, ys);
  for (int d = 0; d < x->rank; d++) {
    bool reduced = next < axes->n && axes->u.ints[next] == d;
    if (reduced) next++;
    else if (y->dims[out++] != x->dims[d]) return eval_fail(e, "extent %lld of dimension %d", (long long)x->dims[d], d);
    nest_add(&nest, x->dims[d], reduced ? 0 : ys[out - 1], xs[d], 0);
  }
  cells_fill(y, cell_identity(e->run->modp, y->dtype, r));
  nest_close(&nest);
  for (NestAt at = nest_begin(&nest); at.more; nest_next(&nest, &at))
    cells_reduce(e->run->modp, y->dtype, r, nest.inner, y->cells + at.offset[0], nest.step[0], x->cells + at.offset[1],
                 nest.step[1]);
  return true;
}

/* ---- dot */

/* One row of the innermost loop: y += a * b along it. */
static void multiply_add(bool modp, DType t, const Nest *n, Cell *y, const Cell *a, const Cell *b) {
  const int64_t ys = n->step[0], as = n->step[1], bs = n->step[2], count = n->inner;
  if (!dtype_is_float(t)) {
    for (int64_t i = 0; i < count; i++)
      y[i * ys].i = (int64_t)((uint64_t)y[i * ys].i + (uint64_t)a[i * as].i * (uint64_t)b[i * bs].i);
  } else if (modp) {
    for (int64_t i = 0; i < count; i++)
      y[i * ys].i = (int64_t)modp_add((uint64_t)y[i * ys].i, modp_mul((uint64_t)a[i * as].i, (uint64_t)b[i * bs].i));
  } else if (ys == 0) {
    double sum = y->f;
    for (int64_t i = 0; i < count; i++) sum += a[i * as].f * b[i * bs].f;
    y->f = sum;
  } else {
    for (int64_t i = 0; i < count; i++) y[i * ys].f += a[i * as].f * b[i * bs].f;
  }
}

/* Loops over the result's letters, then over the summed ones; the result's last letter goes innermost when that walks
 * all three tensors in order.  Every element's sum runs in the same order either way. */
bool eval_dot(Eval *e) {
  const InterpTensor *a = e->in[0], *b = e->in[1], *y = e->out;
  const char *spec = op_str(e->op, AT_spec), *sa = spec, *sb = strchr(spec, ',') + 1, *sy = strstr(spec, "->") + 2;
  int64_t as[MAX_RANK], bs[MAX_RANK], ys[MAX_RANK], extent[128];
  Nest nest = {0};
  row_major(a->rank, a->dims, as);
  row_major(b->rank, b->dims, bs);
  row_major(y->rank, y->dims, ys);
  memset(extent, -1, sizeof extent);
  for (int d = 0; d < a->rank; d++) extent[(int)sa[d]] = a->dims[d];
  for (int d = 0; d < b->rank; d++) {
    if (extent[(int)sb[d]] >= 0 && extent[(int)sb[d]] != b->dims[d])
      return eval_fail(e, "'%c' is %lld and %lld", sb[d], (long long)extent[(int)sb[d]], (long long)b->dims[d]);
    extent[(int)sb[d]] = b->dims[d];
  }
  for (int d = 0; d < y->rank; d++)
    if (extent[(int)sy[d]] != y->dims[d]) return eval_fail(e, "'%c' is %lld", sy[d], (long long)extent[(int)sy[d]]);
  int last = y->rank - 1;
  bool last_inside =
      last >= 0 && letter_stride(sa, a->rank, as, sy[last]) <= 1 && letter_stride(sb, b->rank, bs, sy[last]) <= 1;
  for (int d = 0; d < y->rank - last_inside; d++)
    nest_add(&nest, y->dims[d], ys[d], letter_stride(sa, a->rank, as, sy[d]), letter_stride(sb, b->rank, bs, sy[d]));
  for (int d = 0; d < a->rank + b->rank; d++) {
    char letter = d < a->rank ? sa[d] : sb[d - a->rank];
    if (memchr(sy, letter, (size_t)y->rank) || (d >= a->rank && memchr(sa, letter, (size_t)a->rank))) continue;
    nest_add(&nest, extent[(int)letter], 0, letter_stride(sa, a->rank, as, letter),
             letter_stride(sb, b->rank, bs, letter));
  }
  if (last_inside)
    nest_add(&nest, y->dims[last], ys[last], letter_stride(sa, a->rank, as, sy[last]),
             letter_stride(sb, b->rank, bs, sy[last]));
  cells_fill(y, cell_i(0));
  nest_close(&nest);
  for (NestAt at = nest_begin(&nest); at.more; nest_next(&nest, &at))
    multiply_add(e->run->modp, y->dtype, &nest, y->cells + at.offset[0], a->cells + at.offset[1],
                 b->cells + at.offset[2]);
  if (!dtype_is_float(y->dtype) && dtype_bytes(y->dtype) < 8) {
    int64_t n = interp_elements(y);
    for (int64_t i = 0; i < n; i++) y->cells[i].i = wrap_int(y->dtype, y->cells[i].i);
  }
  return true;
}

/* ---- indexing */

bool eval_gather(Eval *e) {
  const InterpTensor *table = e->in[0], *index = e->in[1], *y = e->out;
  int axis = (int)op_int(e->op, AT_axis, 0);
  int64_t start, n = interp_elements(index), rows = table->dims[axis];
  if (!eval_expr(e, op_expr(e->op, AT_start), &start)) return false;
  int64_t outer = count_cells(axis, table->dims), inner = count_cells(table->rank - axis - 1, table->dims + axis + 1);
  if (interp_elements(y) != outer * n * inner) return eval_fail(e, "the result does not fit");
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < n; i++) {
      int64_t row;
      bool known = !__builtin_sub_overflow(index->cells[i].i, start, &row) && row >= 0 && row < rows;
      Cell *to = y->cells + (o * n + i) * inner;
      if (known) memcpy(to, table->cells + (o * rows + row) * inner, sizeof(Cell) * (size_t)inner);
      else memset(to, 0, sizeof(Cell) * (size_t)inner); /* zero bits are the number 0 in both domains */
    }
  return true;
}

bool eval_update(Eval *e) {
  const InterpTensor *x = e->in[0], *u = e->in[1], *y = e->out;
  int axis = (int)op_int(e->op, AT_axis, 0);
  int64_t start, first, rows = x->dims[axis];
  if (!eval_expr(e, op_expr(e->op, AT_start), &start)) return false;
  bool far = __builtin_sub_overflow(e->in[2]->cells[0].i, start, &first);
  for (int d = 0; d < x->rank; d++)
    if (x->dims[d] != y->dims[d] || (d != axis && u->dims[d] != x->dims[d]))
      return eval_fail(e, "extents of dimension %d do not fit", d);
  int64_t outer = count_cells(axis, x->dims), inner = count_cells(x->rank - axis - 1, x->dims + axis + 1);
  memcpy(y->cells, x->cells, sizeof(Cell) * (size_t)interp_elements(y));
  for (int64_t o = 0; o < outer; o++)
    for (int64_t i = 0; i < u->dims[axis]; i++) {
      int64_t row;
      if (far || __builtin_add_overflow(first, i, &row) || row < 0 || row >= rows) continue;
      memcpy(y->cells + (o * rows + row) * inner, u->cells + (o * u->dims[axis] + i) * inner,
             sizeof(Cell) * (size_t)inner);
    }
  return true;
}
