/* tests/random_shapes.h - operations for random graphs (tests/random_graph.h) whose sizes, types and values are awkward
 * for a prover.
 *
 * Dimensions of extent 1 that come and go, sizes that depend on symbols everywhere, casts between all float types,
 * reduced booleans and integers, tables of equal rows, listed constants, states. */
#ifndef APC_TESTS_RANDOM_SHAPES_H
#define APC_TESTS_RANDOM_SHAPES_H

#include "tests/random_graph.h"

static DType any_float(Making *k) {
  static const DType types[] = {DT_f64, DT_f32, DT_f16, DT_bf16};
  return types[below(k->r, 4)];
}

/* A cast; or a cast, a linear operation, and another cast. */
static Val make_cast(Making *k) {
  Val x = build_cast(&k->b, any(k), any_float(k));
  if (!x || below(k->r, 3) == 0) return x;
  int rank = rank_of(k, x), axis = rank ? below(k->r, rank) : 0;
  if (rank && below(k->r, 2)) x = build_reduce(&k->b, below(k->r, 4) ? RED_SUM : RED_MAX, x, 1, &axis);
  else x = build_unary(&k->b, OP_neg, x);
  if (x) x = build_cast(&k->b, x, any_float(k));
  return x && below(k->r, 2) ? build_cast(&k->b, x, DT_f64) : x;
}

/* Drops dimensions of extent 1 and inserts one. */
static Val make_ones(Making *k) {
  Val x = any(k);
  const Expr *dims[MAX_RANK + 1];
  int n = 0, at = below(k->r, 8), rank = rank_of(k, x);
  for (int d = 0; d < rank; d++) {
    if (d == at) dims[n++] = ex_const(k->m, 1);
    if (!ex_is_const(type(k, x)->dims[d], 1) || below(k->r, 3) == 0) dims[n++] = type(k, x)->dims[d];
  }
  if (rank == at && n < 4) dims[n++] = ex_const(k->m, 1);
  return n > 4 ? 0 : build_reshape(&k->b, x, n, dims);
}

/* A ramp along a dimension of extent 1, or else along any. */
static Val make_ramp(Making *k) {
  const Expr *dims[MAX_RANK];
  int rank = 1 + below(k->r, 3);
  for (int d = 0; d < rank; d++) dims[d] = below(k->r, 3) ? any_extent(k) : ex_const(k->m, 1);
  return build_iota(&k->b, type_get(k->m, below(k->r, 3) ? DT_f64 : DT_i64, rank, dims), below(k->r, rank));
}

/* A value of extent 1 that depends on its place, whose dimension is then dropped: a step of a ramp, an element, one
 * window. */
static Val make_dropped(Making *k) {
  Module *m = k->m;
  const Expr *one = ex_const(m, 1), *dims[MAX_RANK], *left[MAX_RANK];
  Val x = any(k), y = 0;
  int rank = rank_of(k, x), at = rank ? below(k->r, rank) : 0, n = 0, how = below(k->r, 3);
  if (rank == 0) return 0;
  dims_with(k, x, at, one, dims);
  for (int d = 0; d < rank; d++)
    if (d != at) left[n++] = dims[d];
  if (how == 0) y = build_iota(&k->b, type_get(m, DT_f64, rank, dims), at);
  int64_t extent, whole = ex_get_const(type(k, x)->dims[at], &extent) ? extent : 1;
  if (how == 1 && whole > 0) y = build_slice(&k->b, x, at, ex_const(m, below(k->r, (int)whole)), one, 1);
  if (how == 2) {
    int64_t axis = at, unit = 1;
    const Expr *window = ex_const(m, 1 + below(k->r, 3)), *start = ex_const(m, below(k->r, 4) - 1);
    Attr a[] = {attr_red(AT_op, RED_SUM),
                attr_ints(m, AT_axes, 1, &axis),
                attr_exprs(m, AT_window, 1, &window),
                attr_exprs(m, AT_starts, 1, &start),
                attr_ints(m, AT_strides, 1, &unit),
                attr_ints(m, AT_dilations, 1, &unit)};
    y = build_op(&k->b, &(OpSpec){.kind = OP_pool,
                                  .nin = 1,
                                  .in = &x,
                                  .nattrs = 6,
                                  .attrs = a,
                                  .type = type_get(m, type(k, x)->dtype, rank, dims)});
  }
  return y ? build_reshape(&k->b, y, n, left) : 0;
}

static const Expr *small_expr(Making *k) {
  Module *m = k->m;
  const Expr *e = any_extent(k);
  switch (below(k->r, 6)) {
    case 0: return ex_min(m, ex_const(m, 1 + below(k->r, 2)), e);
    case 1: return ex_min(m, ex_const(m, 1), ex_div(m, e, ex_const(m, 8 + below(k->r, 40))));
    case 2: return ex_div(m, e, ex_const(m, 2 + below(k->r, 2)));
    case 3: return ex_sub(m, e, ex_min(m, e, ex_const(m, 2)));
    default: return ex_const(m, below(k->r, 3));
  }
}

static Val make_far_pad(Making *k) {
  Val x = any(k);
  const Expr *low[MAX_RANK], *high[MAX_RANK];
  int rank = rank_of(k, x);
  if (rank == 0) return 0;
  for (int d = 0, at = below(k->r, rank); d < rank; d++) {
    low[d] = d == at ? small_expr(k) : ex_const(k->m, 0);
    high[d] = d == at ? small_expr(k) : ex_const(k->m, 0);
  }
  Attr a[] = {attr_exprs(k->m, AT_low, rank, low), attr_exprs(k->m, AT_high, rank, high),
              attr_f(AT_value, below(k->r, 2) ? 0 : 0.5)};
  return build_op(&k->b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &x, .nattrs = 3, .attrs = a});
}

/* A slice from a small start to a small distance before the end. */
static Val make_far_slice(Making *k) {
  Val x = any(k);
  int rank = rank_of(k, x);
  if (rank == 0) return 0;
  int at = below(k->r, rank);
  const Expr *extent = type(k, x)->dims[at], *start = small_expr(k),
             *behind = below(k->r, 2) ? small_expr(k) : ex_const(k->m, 0);
  const Expr *left = ex_sub(k->m, ex_sub(k->m, extent, start), behind);
  int64_t stride = 1 + below(k->r, 2);
  return build_slice(&k->b, x, at, start, ex_ceil_div(k->m, left, ex_const(k->m, stride)), stride);
}

/* A table whose rows are all equal, so that it does not depend on the place of a row. */
static Val make_flat_table(Making *k) {
  const Expr *dims[2] = {below(k->r, 2) ? any_extent(k) : ex_const(k->m, 4), any_extent(k)}, *one[1] = {any_extent(k)};
  const Type *t = type_get(k->m, DT_f64, 2, dims);
  Val table = build_splat(&k->b, t, 0.75), index = index_of(k, below(k->r, 2), one);
  if (below(k->r, 2)) {
    Attr a = attr_ints(k->m, AT_dims, 1, (int64_t[]){1});
    Val row = operand(k, 1, dims + 1);
    table = build_op(&k->b, &(OpSpec){.kind = OP_broadcast, .nin = 1, .in = &row, .nattrs = 1, .attrs = &a, .type = t});
  }
  return table && index ? build_gather(&k->b, table, index, 0) : 0;
}

static Val make_listed(Making *k) {
  int64_t n = 1 + below(k->r, 6);
  double list[8];
  for (int i = 0; i < n; i++) list[i] = below(k->r, 9) - 4;
  Attr a = attr_floats(k->m, AT_floats, (int)n, list);
  const Expr *dims[] = {ex_const(k->m, n)};
  return build_op(&k->b,
                  &(OpSpec){.kind = OP_const, .nattrs = 1, .attrs = &a, .type = type_get(k->m, DT_f64, 1, dims)});
}

/* Booleans that are reduced, integers that are added; floats again. */
static Val make_logical(Making *k) {
  if (below(k->r, 2) && k->nintegers) {
    Val x = k->integers[below(k->r, k->nintegers)], y = of_type(k, k->integers, k->nintegers, type(k, x));
    int axis = 0;
    x = build_binary(&k->b, below(k->r, 2) ? OP_add : OP_max, x, y);
    if (x && rank_of(k, x)) x = build_reduce(&k->b, any_reduction(k), x, 1, &axis);
    return x && below(k->r, 2) ? build_cast(&k->b, x, DT_f64) : x;
  }
  Val x = any(k), truth = build_binary(&k->b, below(k->r, 2) ? OP_lt : OP_ge, x, alike(k, x));
  int rank = rank_of(k, x), axis = rank ? below(k->r, rank) : 0;
  if (truth && rank) truth = build_reduce(&k->b, below(k->r, 2) ? RED_OR : RED_AND, truth, 1, &axis);
  return truth ? build_cast(&k->b, truth, DT_f64) : 0;
}

/* Reads a state, adds to it or updates it, and writes it. */
static Val make_state(Making *k) {
  Val x = any(k);
  if (k->nopen || k->m->states.n || type(k, x)->dtype != DT_f64) return 0;
  Attr name = attr_s(k->m, AT_name, "s");
  module_state_add(k->m, "s", type(k, x), 0.5);
  Val old = build_op(&k->b, &(OpSpec){.kind = OP_read, .nattrs = 1, .attrs = &name, .type = type(k, x)});
  Val next = build_binary(&k->b, OP_add, old, x);
  build_op(&k->b, &(OpSpec){.kind = OP_write, .nin = 1, .in = &next, .nattrs = 1, .attrs = &name});
  return next;
}

/* The composites whose operands have several shapes. */
static Val make_composite_of_several(Making *k) {
  Module *m = k->m;
  const Expr *b = any_extent(k), *g = any_extent(k), *s = any_extent(k), *t = any_extent(k), *two = ex_const(m, 2),
             *four = ex_const(m, 4);
  int own = below(k->r, 3) ? 0 : 1 + below(k->r, 7); /* bits: queries, keys, lengths of each row of the batch */
  const bool each[] = {own & 1, own & 2, own & 4};
  if (k->nintegers + 7 > MAX_POOL) return 0;
  Val rows = index_of(k, 1, &s), columns = index_of(k, 1, &t), limit = index_of(k, 0, NULL);
  switch (below(k->r, 3)) {
    case 0: {
      Val x = operand(k, 4, (const Expr *[]){b, s, g, four});
      if (each[0]) rows = index_of(k, 2, (const Expr *[]){b, s});
      Attr a[] = {attr_f(AT_base, 100), attr_i(AT_interleaved, below(k->r, 2))};
      return build_op(&k->b, &(OpSpec){.kind = OP_rope, .nin = 2, .in = (Val[]){x, rows}, .nattrs = 2, .attrs = a});
    }
    case 1: {
      Val x = operand(k, 2, (const Expr *[]){s, t});
      return build_op(&k->b, &(OpSpec){.kind = OP_cross_entropy, .nin = 2, .in = (Val[]){x, rows}});
    }
    default: {
      Val q = operand(k, 5, (const Expr *[]){b, g, two, s, two}), key = operand(k, 4, (const Expr *[]){b, g, t, two}),
          v = operand(k, 4, (const Expr *[]){b, g, t, four});
      Attr a[4] = {attr_f(AT_scale, 0.5), attr_i(AT_causal, below(k->r, 2))};
      int which = below(k->r, 4), n = 2, more = below(k->r, 2); /* which: 3: it has one result only */
      if (each[0]) rows = index_of(k, 2, (const Expr *[]){b, s});
      if (each[1]) columns = index_of(k, 2, (const Expr *[]){b, t});
      if (each[2]) limit = index_of(k, 1, &b);
      Val in[] = {q, key, v, rows, columns, limit, 0};
      if (more) in[6] = make_bias(k, (const Expr *[]){b, g, two, s, t}, &a[n++]);
      if (which < 3) a[n++] = attr_i(AT_sums, 1);
      Val y = build_op(&k->b, &(OpSpec){.kind = OP_attention, .nin = 6 + more, .in = in, .nattrs = n, .attrs = a});
      return which % 3 ? y + (Val)which : y;
    }
  }
}

static Val make_awkward(Making *k) {
  static Val (*const makers[])(Making *) = {make_cast,
                                            make_cast,
                                            make_ones,
                                            make_ones,
                                            make_ramp,
                                            make_ramp,
                                            make_far_pad,
                                            make_far_pad,
                                            make_far_slice,
                                            make_far_slice,
                                            make_flat_table,
                                            make_flat_table,
                                            make_flat_table,
                                            make_dropped,
                                            make_dropped,
                                            make_listed,
                                            make_logical,
                                            make_state,
                                            make_composite_of_several};
  return makers[below(k->r, (int)(sizeof makers / sizeof *makers))](k);
}

#endif
