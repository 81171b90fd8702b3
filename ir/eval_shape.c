/* ir/eval_shape.c - operations that make or move elements without computing: const, iota, random, broadcast, slice
 * ... */
#include <stdlib.h>
#include <string.h>

#include "base/random.h"
#include "ir/eval.h"

/* ---- sources of numbers */

bool eval_const(Eval *e) {
  const Attr *value = op_attr(e->op, AT_value), *ints = op_attr(e->op, AT_ints), *floats = op_attr(e->op, AT_floats);
  bool modp = e->run->modp;
  if (value) {
    cells_fill(e->out, cell_of_double(modp, e->out->dtype, value->u.f));
    return true;
  }
  int64_t n = interp_elements(e->out);
  if (n != (ints ? ints->n : floats->n))
    return eval_fail(e, "lists %d elements for %lld", ints ? ints->n : floats->n, (long long)n);
  for (int64_t i = 0; i < n; i++)
    e->out->cells[i] = ints ? cell_of_int(modp, e->out->dtype, ints->u.ints[i])
                            : cell_of_double(modp, e->out->dtype, floats->u.floats[i]);
  return true;
}

bool eval_size(Eval *e) {
  int64_t v; /* an element, not an index: it may be any number of 64 bits */
  if (!ex_eval(op_expr(e->op, AT_expr), e->run->symbols[e->rank], &v))
    return eval_fail(e, "the expression has no value here (overflow or division by zero)");
  cells_fill(e->out, cell_of_int(e->run->modp, e->out->dtype, v));
  return true;
}

bool eval_iota(Eval *e) {
  int64_t start, axis = op_int(e->op, AT_axis, 0), *dims = e->out->dims;
  if (!eval_expr(e, op_expr(e->op, AT_start), &start)) return false;
  int64_t outer = count_cells((int)axis, dims), inner = count_cells(e->out->rank - (int)axis - 1, dims + axis + 1);
  Cell *y = e->out->cells;
  for (int64_t i = 0; i < outer; i++)
    for (int64_t j = 0; j < dims[axis]; j++)
      for (int64_t k = 0; k < inner; k++) *y++ = cell_of_int(e->run->modp, e->out->dtype, start + j);
  return true;
}

/* Numbers of stream 0 of base/random.h at the row-major index in the whole tensor. */
bool eval_random(Eval *e) {
  const char *kind = op_str(e->op, AT_kind);
  bool normal = strcmp(kind, "normal") == 0;
  if (!normal && strcmp(kind, "uniform") != 0) return eval_fail(e, "no kind \"%s\"", kind);
  const Attr *starts = op_attr(e->op, AT_starts), *extents = op_attr(e->op, AT_extents);
  uint64_t seed = (uint64_t)op_int(e->op, AT_seed, 0);
  int64_t start[MAX_RANK], extent[MAX_RANK], stride[MAX_RANK], index[MAX_RANK] = {0}, n = interp_elements(e->out);
  int rank = e->out->rank;
  for (int d = 0; d < rank; d++) {
    if (!eval_expr(e, starts->u.exprs[d], &start[d]) || !eval_expr(e, extents->u.exprs[d], &extent[d])) return false;
    if (start[d] < 0 || start[d] + e->out->dims[d] > extent[d])
      return eval_fail(e, "[%lld, %lld) leaves dimension %d of extent %lld", (long long)start[d],
                       (long long)(start[d] + e->out->dims[d]), d, (long long)extent[d]);
  }
  int64_t total = 1;
  for (int d = 0; d < rank; d++)
    if (__builtin_mul_overflow(total, extent[d] > 1 ? extent[d] : 1, &total))
      return eval_fail(e, "the whole tensor is too large");
  row_major(rank, extent, stride);
  for (int64_t i = 0; i < n; i++) {
    int64_t element = 0;
    for (int d = 0; d < rank; d++) element += (start[d] + index[d]) * stride[d];
    double v = normal ? random_normal(seed, 0, (uint64_t)element) : (double)random_uniform(seed, 0, (uint64_t)element);
    e->out->cells[i] = cell_of_double(e->run->modp, e->out->dtype, v);
    for (int d = rank - 1; d >= 0 && ++index[d] == e->out->dims[d]; d--) index[d] = 0;
  }
  return true;
}

/* ---- moving elements */

bool eval_broadcast(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  const Attr *map = op_attr(e->op, AT_dims);
  int64_t xs[MAX_RANK], ys[MAX_RANK], step[MAX_RANK] = {0};
  Nest nest = {0};
  row_major(x->rank, x->dims, xs);
  row_major(y->rank, y->dims, ys);
  for (int i = 0; i < x->rank; i++) {
    int64_t d = map->u.ints[i];
    if (x->dims[i] == y->dims[d]) step[d] = xs[i];
    else if (x->dims[i] != 1)
      return eval_fail(e, "extent %lld does not stretch to %lld", (long long)x->dims[i], (long long)y->dims[d]);
  }
  for (int d = 0; d < y->rank; d++) nest_add(&nest, y->dims[d], ys[d], step[d], 0);
  nest_close(&nest);
  nest_copy(&nest, y->cells, x->cells);
  return true;
}

bool eval_reshape(Eval *e) {
  int64_t n = interp_elements(e->in[0]);
  if (n != interp_elements(e->out))
    return eval_fail(e, "%lld elements do not become %lld", (long long)n, (long long)interp_elements(e->out));
  memcpy(e->out->cells, e->in[0]->cells, sizeof(Cell) * (size_t)n);
  return true;
}

bool eval_transpose(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  const Attr *perm = op_attr(e->op, AT_perm);
  int64_t xs[MAX_RANK], ys[MAX_RANK];
  Nest nest = {0};
  row_major(x->rank, x->dims, xs);
  row_major(y->rank, y->dims, ys);
  for (int d = 0; d < y->rank; d++) {
    int64_t p = perm->u.ints[d];
    if (x->dims[p] != y->dims[d])
      return eval_fail(e, "extents %lld and %lld", (long long)x->dims[p], (long long)y->dims[d]);
    nest_add(&nest, y->dims[d], ys[d], xs[p], 0);
  }
  nest_close(&nest);
  nest_copy(&nest, y->cells, x->cells);
  return true;
}

bool eval_slice(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  const Attr *starts = op_attr(e->op, AT_starts), *strides = op_attr(e->op, AT_strides);
  int64_t xs[MAX_RANK], ys[MAX_RANK], first = 0;
  bool empty = interp_elements(y) == 0;
  Nest nest = {0};
  row_major(x->rank, x->dims, xs);
  row_major(y->rank, y->dims, ys);
  for (int d = 0; d < y->rank; d++) {
    int64_t start, step = strides->u.ints[d], last;
    if (!eval_expr(e, starts->u.exprs[d], &start)) return false;
    bool far = __builtin_mul_overflow(y->dims[d] - 1, step, &last) || __builtin_add_overflow(start, last, &last);
    if (y->dims[d] > 0 && (start < 0 || far || last >= x->dims[d]))
      return eval_fail(e, "reads %lld .. %lld of dimension %d of extent %lld", (long long)start, (long long)last, d,
                       (long long)x->dims[d]);
    if (empty) continue;
    first += start * xs[d];
    nest_add(&nest, y->dims[d], ys[d], y->dims[d] > 1 ? xs[d] * step : 0, 0);
  }
  nest_close(&nest);
  if (!empty) nest_copy(&nest, y->cells, x->cells + first);
  return true;
}

bool eval_shard_slice(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  int axis = (int)op_int(e->op, AT_axis, 0);
  int64_t at[MAX_RANK] = {0}, to[MAX_RANK] = {0};
  if (!eval_same_kind(e) || !eval_expr(e, op_expr(e->op, AT_start), &at[axis])) return false;
  for (int d = 0; d < x->rank; d++)
    if (d == axis ? at[d] < 0 || at[d] + y->dims[d] > x->dims[d] : x->dims[d] != y->dims[d])
      return eval_fail(e, "[%lld, %lld) of dimension %d of extent %lld", (long long)at[d],
                       (long long)(at[d] + y->dims[d]), d, (long long)x->dims[d]);
  box_copy(x->rank, y->dims, y->cells, y->dims, to, x->cells, x->dims, at);
  return true;
}

bool eval_pad(Eval *e) {
  const InterpTensor *x = e->in[0], *y = e->out;
  const Attr *low = op_attr(e->op, AT_low), *high = op_attr(e->op, AT_high);
  int64_t to[MAX_RANK], at[MAX_RANK] = {0};
  for (int d = 0; d < x->rank; d++) {
    int64_t after;
    if (!eval_expr(e, low->u.exprs[d], &to[d]) || !eval_expr(e, high->u.exprs[d], &after)) return false;
    if (to[d] < 0 || after < 0 || to[d] + x->dims[d] + after != y->dims[d])
      return eval_fail(e, "dimension %d: %lld + %lld + %lld is not %lld", d, (long long)to[d], (long long)x->dims[d],
                       (long long)after, (long long)y->dims[d]);
  }
  cells_fill(y, cell_of_double(e->run->modp, y->dtype, op_float(e->op, AT_value, 0)));
  box_copy(x->rank, x->dims, y->cells, y->dims, to, x->cells, x->dims, at);
  return true;
}

bool eval_concat(Eval *e) {
  int axis = (int)op_int(e->op, AT_axis, 0);
  int64_t to[MAX_RANK] = {0}, at[MAX_RANK] = {0};
  for (int i = 0; i < e->op->nin; i++) {
    const InterpTensor *x = e->in[i];
    for (int d = 0; d < x->rank; d++)
      if (d == axis ? to[d] + x->dims[d] > e->out->dims[d] : x->dims[d] != e->out->dims[d])
        return eval_fail(e, "operand %d does not fit: extent %lld of dimension %d", i, (long long)x->dims[d], d);
    box_copy(x->rank, x->dims, e->out->cells, e->out->dims, to, x->cells, x->dims, at);
    to[axis] += x->dims[axis];
  }
  if (to[axis] != e->out->dims[axis])
    return eval_fail(e, "the operands have extent %lld together, not %lld", (long long)to[axis],
                     (long long)e->out->dims[axis]);
  return true;
}
