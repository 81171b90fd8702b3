/* ir/eval_index.c - indexing by element, scattering, sorting and prefix reductions. */
#define _GNU_SOURCE /* qsort_r */
#include <stdlib.h>
#include <string.h>

#include "ir/eval.h"

/* Lines along `axis`: element i of line l is at line_start(l) + i * inner. */
typedef struct Lines {
  int64_t outer, n, inner;
} Lines;

static Lines lines_of(const InterpTensor *t, int axis) {
  return (Lines){count_cells(axis, t->dims), t->dims[axis], count_cells(t->rank - axis - 1, t->dims + axis + 1)};
}

static int64_t line_start(const Lines *l, int64_t line) { return line / l->inner * l->n * l->inner + line % l->inner; }

static int64_t axis_of(const Eval *e) { return op_int(e->op, AT_axis, 0); }

/* index - start in [0, n), or -1. */
static int64_t row_of(int64_t index, int64_t start, int64_t n) {
  int64_t row;
  return !__builtin_sub_overflow(index, start, &row) && row >= 0 && row < n ? row : -1;
}

static bool aligned(const Eval *e, const InterpTensor *a, const InterpTensor *b, int64_t axis) {
  for (int d = 0; d < a->rank; d++)
    if (d != axis && a->dims[d] != b->dims[d]) return eval_fail(e, "extents of dimension %d do not fit", d);
  return true;
}

bool eval_take(Eval *e) {
  const InterpTensor *x = e->in[0], *index = e->in[1], *y = e->out;
  int axis = (int)axis_of(e);
  int64_t start;
  if (!eval_expr(e, op_expr(e->op, AT_start), &start) || !aligned(e, x, index, axis) || !aligned(e, index, y, -1))
    return false;
  Lines from = lines_of(x, axis), to = lines_of(y, axis);
  for (int64_t l = 0; l < to.outer * to.inner; l++)
    for (int64_t i = 0; i < to.n; i++) {
      int64_t at = line_start(&to, l) + i * to.inner, row = row_of(index->cells[at].i, start, from.n);
      y->cells[at] = row < 0 ? cell_i(0) : x->cells[line_start(&from, l) + row * from.inner];
    }
  return true;
}

static void reduce_one(const Eval *e, Reduction r, Cell *to, const Cell *from) {
  cells_reduce(e->run->modp, e->out->dtype, r, 1, to, 0, from, 0);
}

bool eval_put(Eval *e) {
  const InterpTensor *x = e->in[0], *index = e->in[1], *y = e->out;
  int axis = (int)axis_of(e);
  Reduction r = op_attr(e->op, AT_op)->u.reduction;
  int64_t start;
  if (!eval_expr(e, op_expr(e->op, AT_start), &start) || !aligned(e, x, index, -1) || !aligned(e, y, index, axis))
    return false;
  cells_fill(y, cell_identity(e->run->modp, y->dtype, r));
  Lines from = lines_of(x, axis), to = lines_of(y, axis);
  for (int64_t l = 0; l < from.outer * from.inner; l++)
    for (int64_t i = 0; i < from.n; i++) {
      int64_t at = line_start(&from, l) + i * from.inner, row = row_of(index->cells[at].i, start, to.n);
      if (row >= 0) reduce_one(e, r, &y->cells[line_start(&to, l) + row * to.inner], &x->cells[at]);
    }
  return true;
}

bool eval_scatter(Eval *e) {
  const InterpTensor *x = e->in[0], *index = e->in[1], *y = e->out;
  int axis = (int)axis_of(e);
  Reduction r = op_attr(e->op, AT_op)->u.reduction;
  int64_t start, n = interp_elements(index);
  if (!eval_expr(e, op_expr(e->op, AT_start), &start)) return false;
  Lines to = lines_of(y, axis);
  if (interp_elements(x) != to.outer * n * to.inner) return eval_fail(e, "the updates do not fit");
  cells_fill(y, cell_identity(e->run->modp, y->dtype, r));
  for (int64_t o = 0; o < to.outer; o++)
    for (int64_t i = 0; i < n; i++) {
      int64_t row = row_of(index->cells[i].i, start, to.n);
      if (row >= 0)
        cells_reduce(e->run->modp, y->dtype, r, to.inner, y->cells + (o * to.n + row) * to.inner, 1,
                     x->cells + (o * n + i) * to.inner, 1);
    }
  return true;
}

/* ---- order */

typedef struct Sorting {
  const Cell *line;
  int64_t step;
  bool floats, is_unsigned, descending;
} Sorting;

/* -1, 0, 1; NaN is the largest. */
static int order(const Sorting *s, int64_t a, int64_t b) {
  const Cell *x = &s->line[a * s->step], *y = &s->line[b * s->step];
  if (!s->floats) {
    if (s->is_unsigned) return ((uint64_t)x->i > (uint64_t)y->i) - ((uint64_t)x->i < (uint64_t)y->i);
    return (x->i > y->i) - (x->i < y->i);
  }
  if (x->f != x->f || y->f != y->f) return (x->f != x->f) - (y->f != y->f);
  return (x->f > y->f) - (x->f < y->f);
}

static int by_element(const void *p, const void *q, void *context) {
  const Sorting *s = context;
  int64_t a = *(const int64_t *)p, b = *(const int64_t *)q;
  int c = order(s, a, b);
  if (s->descending) c = -c;
  return c ? c : (a > b) - (a < b);
}

bool eval_argsort(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  Lines l = lines_of(x, (int)axis_of(e));
  if (!aligned(e, x, y, -1)) return false;
  int64_t *places = arena_alloc(e->run->arena, sizeof *places * (size_t)(l.n + 1));
  for (int64_t line = 0; line < l.outer * l.inner; line++) {
    int64_t start = line_start(&l, line);
    Sorting s = {x->cells + start, l.inner, dtype_is_float(x->dtype) && !e->run->modp, dtype_class(x->dtype) == DTC_U,
                 op_int(e->op, AT_descending, 0) != 0};
    for (int64_t i = 0; i < l.n; i++) places[i] = i;
    qsort_r(places, (size_t)l.n, sizeof *places, by_element, &s);
    for (int64_t i = 0; i < l.n; i++) y->cells[start + i * l.inner] = cell_of_int(e->run->modp, DT_i64, places[i]);
  }
  return true;
}

bool eval_scan(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  Lines l = lines_of(x, (int)axis_of(e));
  Reduction r = op_attr(e->op, AT_op)->u.reduction;
  bool exclusive = op_int(e->op, AT_exclusive, 0) != 0, reverse = op_int(e->op, AT_reverse, 0) != 0;
  if (!aligned(e, x, y, -1)) return false;
  for (int64_t line = 0; line < l.outer * l.inner; line++) {
    Cell sum = cell_identity(e->run->modp, y->dtype, r);
    for (int64_t k = 0; k < l.n; k++) {
      int64_t at = line_start(&l, line) + (reverse ? l.n - 1 - k : k) * l.inner;
      Cell before = sum;
      reduce_one(e, r, &sum, &x->cells[at]);
      y->cells[at] = exclusive ? before : sum;
    }
  }
  return true;
}
