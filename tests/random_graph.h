/* tests/random_graph.h - random level-1 functions: graphs with fan-out, diamonds and loops over all kinds of
 * operations.
 *
 * A graph grows from a few inputs: every step takes a random operation and operands of the pool, and puts the result
 * into the pool.  Functions are continuous and tame, so that doubles stay comparable for any order of sums; integers
 * are exact, so only they are sorted, compared and used as indices, some of which lie outside their tables. */
#ifndef APC_TESTS_RANDOM_GRAPH_H
#define APC_TESTS_RANDOM_GRAPH_H

#include "base/random.h"
#include "ir/loops.h"
#include "ir/window.h"
#include "tests/guard.h"

enum { MAX_POOL = 200 };

typedef struct Random {
  uint64_t seed, drawn;
} Random;

static int below(Random *r, int n) { return (int)random_below(r->seed, 9, r->drawn++, (uint64_t)n); }

/* A loop that has begun; its carries are the first values that it added to the pool. */
typedef struct Open {
  Val round;
  int first, ncarries, integers; /* sizes of the pools when it began */
} Open;

enum { MAX_OPEN = 2 };

typedef struct Making {
  Module *m;
  Builder b;
  Random *r;
  Val pool[MAX_POOL]; /* floats */
  int n;
  Val integers[MAX_POOL]; /* exact in both domains, so they may be sorted and compared; as indices some lie outside */
  int nintegers;
  Open open[MAX_OPEN]; /* the innermost last */
  int nopen;
  const Expr *extents[5]; /* the extents that dimensions are made of */
  bool looks;             /* uses indices */
} Making;

static const Expr *any_extent(Making *k) { return k->extents[below(k->r, 5)]; }
static Val any(Making *k) { return k->pool[below(k->r, k->n)]; }
static Val any_number(Making *k) {
  return k->nintegers && below(k->r, 4) == 0 ? k->integers[below(k->r, k->nintegers)] : any(k);
}
static const Type *type(const Making *k, Val v) { return type_of(k->b.f, v); }

static int rank_of(const Making *k, Val v) { return type(k, v)->rank; }

/* Another value of v's type; v itself if there is none. */
static Val alike(Making *k, Val v) {
  int start = below(k->r, k->n);
  for (int i = 0; i < k->n; i++) {
    Val c = k->pool[(start + i) % k->n];
    if (c != v && type(k, c) == type(k, v)) return c;
  }
  return v;
}

static Val fresh_input(Making *k, int rank, DType t) {
  const Expr *dims[MAX_RANK];
  for (int d = 0; d < rank; d++) dims[d] = any_extent(k);
  return build_input(&k->b, arena_printf(k->m->arena, "in%d", (int)k->b.f->ops.n), type_get(k->m, t, rank, dims));
}

static Val of_type(Making *k, const Val *list, int n, const Type *t) {
  for (int i = 0, start = n ? below(k->r, n) : 0; i < n; i++)
    if (type(k, list[(start + i) % n]) == t) return list[(start + i) % n];
  return 0;
}

static Val input_of(Making *k, const Type *t) {
  return build_input(&k->b, arena_printf(k->m->arena, "in%d", (int)k->b.f->ops.n), t);
}

/* A float value of that shape: one of the pool, or a new input. */
static Val operand(Making *k, int rank, const Expr *const *dims) {
  const Type *t = type_get(k->m, DT_f64, rank, dims);
  Val v = of_type(k, k->pool, k->n, t);
  return v ? v : input_of(k, t);
}

/* An addition to the scores of attention, over some of their dimensions; sets the attribute that lists them. */
static inline Val make_bias(Making *k, const Expr *const scores[5], Attr *bias) {
  static const char *const some[] = {"t", "bt", "st", "bst", "grt", "bgrst"};
  const Expr *dims[5];
  int n = 0;
  *bias = attr_s(k->m, AT_bias, some[below(k->r, 6)]);
  for (int d = 0; d < 5; d++)
    if (strchr(bias->u.s, "bgrst"[d])) dims[n++] = scores[d];
  return operand(k, n, dims);
}

static Val sort(Making *k, Val x, int axis) {
  Attr a[] = {attr_i(AT_axis, axis), attr_i(AT_descending, below(k->r, 2))};
  return build_op(&k->b, &(OpSpec){.kind = OP_argsort, .nin = 1, .in = &x, .nattrs = 2, .attrs = a});
}

/* The first elements along the axis, and their indices. */
static Val first_of(Making *k, Val x, int axis, const Expr *count) {
  Attr a[] = {attr_i(AT_axis, axis), attr_i(AT_descending, below(k->r, 2)), attr_e(AT_k, count)};
  return build_op(&k->b, &(OpSpec){.kind = OP_topk, .nin = 1, .in = &x, .nattrs = 3, .attrs = a});
}

static Val scan(Making *k, Reduction op, Val x, int axis) {
  Attr a[] = {attr_red(AT_op, op), attr_i(AT_axis, axis), attr_i(AT_exclusive, below(k->r, 2)),
              attr_i(AT_reverse, below(k->r, 2))};
  return build_op(&k->b, &(OpSpec){.kind = OP_scan, .nin = 1, .in = &x, .nattrs = 4, .attrs = a});
}

/* Indices of that shape, existing or new. */
static Val index_of(Making *k, int rank, const Expr *const *dims) {
  const Type *t = type_get(k->m, DT_i64, rank, dims);
  Val v = below(k->r, 3) ? of_type(k, k->integers, k->nintegers, t) : 0;
  if (v || k->nintegers == MAX_POOL) return v;
  int how = below(k->r, 6), axis = rank ? below(k->r, rank) : 0;
  if (rank && how == 0) v = build_iota(&k->b, t, axis);
  else v = input_of(k, t); /* 0 to 3 */
  if (how == 1) v = build_binary(&k->b, OP_sub, v, build_splat(&k->b, t, 1));
  if (rank && how == 2) v = sort(k, v, axis);
  if (rank && how == 3) v = scan(k, RED_SUM, v, axis);
  if (rank && how == 4) v = first_of(k, v, axis, dims[axis]) + (Val)below(k->r, 2);
  if (k->looks) v = build_within(&k->b, v, ex_const(k->m, INT64_C(1) << 40), true);
  return k->integers[k->nintegers++] = v;
}

/* ---- one random operation on values of the pool; 0 if it does not apply.  Functions are continuous and tame, so that
 * doubles stay comparable for any order of sums. */

static Val make_unary(Making *k) {
  static const OpKind kinds[] = {OP_neg, OP_tanh, OP_sin, OP_relu, OP_sigmoid, OP_abs, OP_copy, OP_cos};
  return build_unary(&k->b, kinds[below(k->r, 8)], any(k));
}

static Val make_binary(Making *k) {
  static const OpKind kinds[] = {OP_add, OP_sub, OP_mul, OP_max, OP_min, OP_add};
  Val x = any(k);
  OpKind kind = kinds[below(k->r, 6)];
  Val y = build_binary(&k->b, kind, x, alike(k, x));
  return kind == OP_mul && below(k->r, 2) ? build_unary(&k->b, OP_tanh, y) : y;
}

static Val make_select(Making *k) {
  Val x = any(k), y = alike(k, x);
  Val c = build_binary(&k->b, OP_lt, x, y); /* continuous: the smaller of the two */
  return build_op(&k->b, &(OpSpec){.kind = OP_select, .nin = 3, .in = (Val[]){c, x, y}});
}

static Val make_reduce(Making *k) {
  static const Reduction kinds[] = {RED_SUM, RED_SUM, RED_MAX, RED_MIN, RED_PRODUCT};
  Val x = any(k);
  int axes[MAX_RANK], n = 0;
  for (int d = 0; d < rank_of(k, x); d++)
    if (below(k->r, 2)) axes[n++] = d;
  Reduction r = kinds[below(k->r, 5)];
  Val y = build_reduce(&k->b, r, x, n, axes);
  if (r == RED_PRODUCT) y = build_unary(&k->b, OP_tanh, y); /* keeps the numbers small: large ones cancel badly later */
  return below(k->r, 2) ? y : build_keepdims(&k->b, y, x, n, axes);
}

static Val make_dot(Making *k) {
  Val x = any(k), y = below(k->r, 2) ? any(k) : 0;
  const Type *t = type(k, x);
  char spec[32] = {0}, right[MAX_RANK + 1] = {0}, result[2 * MAX_RANK + 1] = {0};
  const Expr *dims[MAX_RANK];
  int n = 0, shared = 0;
  if (t->rank == 0 || t->rank > 3) return 0;
  if (y && rank_of(k, y) <= 3) { /* letters of y: those of x with an equal extent */
    for (int d = 0; d < rank_of(k, y); d++) {
      right[d] = (char)('p' + d);
      for (int e = 0; e < t->rank; e++)
        if (type(k, y)->dims[d] == t->dims[e] && !strchr(right, 'a' + e) && below(k->r, 3))
          right[d] = (char)('a' + e), shared++, e = t->rank;
    }
  } else { /* a fresh weight */
    int e = below(k->r, t->rank);
    right[0] = (char)('a' + e), right[1] = 'p';
    dims[0] = t->dims[e], dims[1] = any_extent(k);
    y = build_input(&k->b, arena_printf(k->m->arena, "w%d", (int)k->b.f->ops.n), type_get(k->m, t->dtype, 2, dims));
    shared = 1;
  }
  for (int d = 0; d < t->rank; d++) /* a shared letter is kept or summed */
    if (!strchr(right, 'a' + d) || !below(k->r, 3)) result[n++] = (char)('a' + d);
  for (char *c = right; *c; c++)
    if (*c >= 'p') result[n++] = *c;
  if (n > 4 || (!shared && n > 3)) return 0;
  for (int d = 0; d < t->rank; d++) spec[d] = (char)('a' + d);
  return build_dot(&k->b, x, y, arena_printf(k->m->arena, "%s,%s->%s", spec, right, result));
}

static Val make_transpose(Making *k) {
  Val x = any(k);
  int perm[MAX_RANK], n = rank_of(k, x);
  for (int i = 0; i < n; i++) perm[i] = i;
  for (int i = n - 1; i > 0; i--) {
    int j = below(k->r, i + 1), t = perm[i];
    perm[i] = perm[j], perm[j] = t;
  }
  return build_transpose(&k->b, x, perm);
}

static Val make_broadcast(Making *k) {
  Val x = any(k);
  const Type *t = type(k, x);
  const Expr *dims[MAX_RANK];
  if (t->rank > 3) return 0;
  int at = below(k->r, t->rank + 1);
  int64_t map[MAX_RANK];
  for (int d = 0; d < t->rank; d++) {
    map[d] = d < at ? d : d + 1;
    dims[map[d]] = t->dims[d];
  }
  dims[at] = any_extent(k);
  Attr a = attr_ints(k->m, AT_dims, t->rank, map);
  return build_op(&k->b, &(OpSpec){.kind = OP_broadcast,
                                   .nin = 1,
                                   .in = &x,
                                   .nattrs = 1,
                                   .attrs = &a,
                                   .type = type_get(k->m, t->dtype, t->rank + 1, dims)});
}

/* Joins two neighbours, or splits a dimension that is a product. */
static Val make_reshape(Making *k) {
  Val x = any(k);
  const Type *t = type(k, x);
  const Expr *dims[MAX_RANK];
  if (t->rank == 0) return 0;
  int at = below(k->r, t->rank), n = 0;
  bool split = below(k->r, 2) && t->rank < 4;
  const Expr *by = any_extent(k), *rest = split ? ex_exact_div(k->m, t->dims[at], by) : NULL;
  for (int d = 0; d < t->rank; d++) {
    if (d == at && rest) dims[n++] = by, dims[n++] = rest;
    else if (d == at && !split && d + 1 < t->rank) dims[n++] = ex_mul(k->m, t->dims[d], t->dims[d + 1]), d++;
    else dims[n++] = t->dims[d];
  }
  return build_reshape(&k->b, x, n, dims);
}

static Val make_concat(Making *k) {
  Val x = any(k), y = alike(k, x);
  if (rank_of(k, x) == 0) return 0;
  return build_concat(&k->b, 2, (Val[]){x, y}, below(k->r, rank_of(k, x)));
}

static Val make_pad(Making *k) {
  Val x = any(k);
  const Expr *low[MAX_RANK], *high[MAX_RANK];
  int rank = rank_of(k, x);
  if (rank == 0) return 0;
  for (int d = 0; d < rank; d++) low[d] = high[d] = ex_const(k->m, 0);
  int at = below(k->r, rank);
  low[at] = ex_const(k->m, below(k->r, 3));
  high[at] = ex_const(k->m, below(k->r, 3));
  Attr a[] = {attr_exprs(k->m, AT_low, rank, low), attr_exprs(k->m, AT_high, rank, high),
              attr_f(AT_value, below(k->r, 2) ? 0 : 0.5)};
  return build_op(&k->b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &x, .nattrs = 3, .attrs = a});
}

/* Undoes a join or a pad: the first part of a sum of extents. */
static Val make_slice(Making *k) {
  Val x = any(k);
  int rank = rank_of(k, x);
  if (rank == 0) return 0;
  int at = below(k->r, rank);
  const Expr *extent = type(k, x)->dims[at];
  int64_t v;
  if (!ex_get_const(extent, &v)) return 0;
  if (v < 2) return 0;
  int64_t stride = 1 + below(k->r, 2), start = below(k->r, (int)v), most = (v - 1 - start) / stride + 1;
  return build_slice(&k->b, x, at, ex_const(k->m, start), ex_const(k->m, 1 + below(k->r, (int)most)), stride);
}

static Val make_composite(Making *k) {
  Val x = any(k);
  int rank = rank_of(k, x);
  if (rank == 0) return 0;
  if (below(k->r, 2)) {
    Attr a = attr_i(AT_axis, below(k->r, rank));
    return build_op(&k->b, &(OpSpec){.kind = OP_softmax, .nin = 1, .in = &x, .nattrs = 1, .attrs = &a});
  }
  Attr a[] = {attr_s(k->m, AT_kind, below(k->r, 2) ? "layer" : "rms"), attr_f(AT_eps, 0.5)};
  return build_op(&k->b, &(OpSpec){.kind = OP_norm, .nin = 1, .in = &x, .nattrs = 2, .attrs = a});
}

/* The values are continuous; their indices are not, and stay unused. */
static Val make_topk(Making *k) {
  Val x = any(k);
  int64_t extent;
  if (rank_of(k, x) == 0) return 0;
  int axis = below(k->r, rank_of(k, x));
  const Expr *all = type(k, x)->dims[axis];
  if (ex_get_const(all, &extent) && extent > 1) all = ex_const(k->m, 1 + below(k->r, (int)extent));
  return first_of(k, x, axis, all);
}

/* ---- indexing, order */

static Reduction any_reduction(Making *k) {
  static const Reduction kinds[] = {RED_SUM, RED_SUM, RED_MAX, RED_MIN, RED_PRODUCT};
  return kinds[below(k->r, 5)];
}

/* Bounds products, and makes elements that nothing was reduced into finite. */
static Val tame(Making *k, Reduction r, Val v) {
  if (!v || type(k, v)->dtype != DT_f64 || r == RED_SUM) return v;
  if (r == RED_PRODUCT) return build_unary(&k->b, OP_tanh, v);
  return build_binary(&k->b, r == RED_MAX ? OP_max : OP_min, v, build_splat(&k->b, type(k, v), r == RED_MAX ? -2 : 2));
}

/* The dims of a value, dimension `at` replaced. */
static void dims_with(const Making *k, Val v, int at, const Expr *extent, const Expr **dims) {
  for (int d = 0; d < rank_of(k, v); d++) dims[d] = d == at ? extent : type(k, v)->dims[d];
}

static Val make_gather(Making *k) {
  Val x = any_number(k);
  const Expr *dims[2] = {any_extent(k), any_extent(k)};
  return rank_of(k, x) == 0 ? 0 : build_gather(&k->b, x, index_of(k, below(k->r, 3), dims), below(k->r, rank_of(k, x)));
}

/* The common start of indexed accesses: a dimension of x, sizes with another extent there, and the attributes that name
 * it. */
typedef struct Access {
  Val x;
  int rank, axis;
  const Expr *dims[MAX_RANK];
  Attr attrs[2];
} Access;

/* False for a scalar. */
static bool access_of(Making *k, Val x, Access *a) {
  *a = (Access){.x = x, .rank = rank_of(k, x)};
  if (a->rank == 0) return false;
  a->axis = below(k->r, a->rank);
  dims_with(k, x, a->axis, any_extent(k), a->dims);
  a->attrs[0] = attr_i(AT_axis, a->axis);
  a->attrs[1] = attr_e(AT_start, ex_const(k->m, 0));
  return true;
}

static Val make_take(Making *k) {
  Access a;
  if (!access_of(k, any_number(k), &a)) return 0;
  Val in[] = {a.x, index_of(k, a.rank, a.dims)};
  return build_op(&k->b, &(OpSpec){.kind = OP_take, .nin = 2, .in = in, .nattrs = 2, .attrs = a.attrs});
}

static Val scatter(Making *k, OpKind kind, Val x, Val index, int axis, int rank, const Expr *const *dims) {
  Reduction op = any_reduction(k);
  Attr a[] = {attr_red(AT_op, op), attr_i(AT_axis, axis), attr_e(AT_start, ex_const(k->m, 0))};
  return tame(k, op,
              build_op(&k->b, &(OpSpec){.kind = kind,
                                        .nin = 2,
                                        .in = (Val[]){x, index},
                                        .nattrs = 3,
                                        .attrs = a,
                                        .type = type_get(k->m, type(k, x)->dtype, rank, dims)}));
}

static Val make_put(Making *k) {
  Access a;
  if (!access_of(k, any_number(k), &a)) return 0;
  return scatter(k, OP_put, a.x, index_of(k, a.rank, type(k, a.x)->dims), a.axis, a.rank, a.dims);
}

static Val make_scatter(Making *k) {
  Val x = any_number(k);
  int rank = rank_of(k, x), axis = below(k->r, rank + 1), n = below(k->r, 3), out = 0;
  const Expr *dims[MAX_RANK];
  if (axis + n > rank) return 0;
  for (int d = 0; d < axis; d++) dims[out++] = type(k, x)->dims[d];
  dims[out++] = any_extent(k);
  for (int d = axis + n; d < rank; d++) dims[out++] = type(k, x)->dims[d];
  return scatter(k, OP_scatter, x, index_of(k, n, type(k, x)->dims + axis), axis, out, dims);
}

static Val make_update(Making *k) {
  Access a;
  if (!access_of(k, any(k), &a)) return 0;
  const Expr *const *rows = type(k, a.x)->dims; /* of dimension 0 */
  bool first = a.axis == 0, counted = below(k->r, 3) == 0;
  Val in[4] = {a.x, operand(k, a.rank, a.dims)};
  for (int i = 2; i < 3 + counted; i++)
    if (!(in[i] = index_of(k, !first && below(k->r, 2), rows))) return 0;
  return build_op(&k->b, &(OpSpec){.kind = OP_update, .nin = 3 + counted, .in = in, .nattrs = 2, .attrs = a.attrs});
}

/* Floats are sorted; their indices are not continuous. */
static Val make_sort(Making *k) {
  Val x = any_number(k);
  if (rank_of(k, x) == 0) return 0;
  int axis = below(k->r, rank_of(k, x));
  Val places = sort(k, x, axis);
  Attr a[] = {attr_i(AT_axis, axis), attr_e(AT_start, ex_const(k->m, 0))};
  return build_op(&k->b, &(OpSpec){.kind = OP_take, .nin = 2, .in = (Val[]){x, places}, .nattrs = 2, .attrs = a});
}

static Val make_scan(Making *k) {
  Val x = any_number(k);
  Reduction op = any_reduction(k);
  return rank_of(k, x) == 0 ? 0 : tame(k, op, scan(k, op, x, below(k->r, rank_of(k, x))));
}

/* ---- windows */

/* The places of windows: padded or not, strided, dilated. */
static int windows(Making *k, int n, Attr *a) {
  const Expr *starts[MAX_WINDOWED];
  int64_t strides[MAX_WINDOWED], dilations[MAX_WINDOWED];
  for (int i = 0; i < n; i++) {
    starts[i] = below(k->r, 8) ? ex_const(k->m, below(k->r, 5) - 3) : ex_muli(k->m, any_extent(k), -1);
    strides[i] = 1 + below(k->r, 3);
    dilations[i] = 1 + below(k->r, 2);
  }
  a[0] = attr_exprs(k->m, AT_starts, n, starts);
  a[1] = attr_ints(k->m, AT_strides, n, strides);
  a[2] = attr_ints(k->m, AT_dilations, n, dilations);
  return 3;
}

static const Expr *window_extent(Making *k) {
  return below(k->r, 6) ? ex_const(k->m, 1 + below(k->r, 3)) : any_extent(k);
}

static Val make_pool(Making *k) {
  Val x = any(k);
  const Expr *dims[MAX_RANK], *window[MAX_WINDOWED];
  int64_t axes[MAX_WINDOWED];
  int n = 0, rank = rank_of(k, x);
  Reduction op = any_reduction(k);
  Attr a[6];
  for (int d = 0; d < rank; d++) {
    dims[d] = type(k, x)->dims[d];
    if (n == MAX_WINDOWED || below(k->r, 2)) continue;
    window[n] = window_extent(k);
    axes[n++] = d;
    dims[d] = any_extent(k);
  }
  if (n == 0) return 0;
  int nattrs = windows(k, n, a);
  a[nattrs++] = attr_red(AT_op, op);
  a[nattrs++] = attr_ints(k->m, AT_axes, n, axes);
  a[nattrs++] = attr_exprs(k->m, AT_window, n, window);
  return tame(k, op,
              build_op(&k->b, &(OpSpec){.kind = OP_pool,
                                        .nin = 1,
                                        .in = &x,
                                        .nattrs = nattrs,
                                        .attrs = a,
                                        .type = type_get(k->m, DT_f64, rank, dims)}));
}

/* Adds a letter somewhere in a part of a convolution. */
static void place(Making *k, char *part, const Expr **dims, char letter, const Expr *extent) {
  int n = (int)strlen(part), at = below(k->r, n + 1);
  memmove(part + at + 1, part + at, (size_t)(n - at + 1));
  memmove(dims + at + 1, dims + at, sizeof *dims * (size_t)(n - at));
  part[at] = letter;
  dims[at] = extent;
}

/* Every dimension of the first operand is windowed, kept, summed with the second operand, or common to all three. */
static Val make_conv(Making *k) {
  static const OpKind kinds[] = {OP_conv, OP_conv, OP_conv_transpose, OP_conv_filter};
  OpKind kind = kinds[below(k->r, 4)];
  Val x = any(k);
  char first[8] = {0}, second[8] = {0}, result[8] = {0};
  const Expr *dims[8], *out[8];
  int n = 0;
  Attr a[4];
  for (int d = 0; d < rank_of(k, x); d++) {
    int how = below(k->r, 5);
    bool windowed = n < 2 && how < 2;
    const Expr *extent = type(k, x)->dims[d];
    first[d] = (char)((windowed ? 'A' : 'a') + d);
    if (windowed) {
      n++;
      place(k, second, dims, first[d], kind == OP_conv_filter ? any_extent(k) : window_extent(k));
      place(k, result, out, first[d], kind == OP_conv_filter ? window_extent(k) : any_extent(k));
      continue;
    }
    if (how != 2) place(k, second, dims, first[d], extent);
    if (how != 3) place(k, result, out, first[d], extent);
  }
  if (n == 0) return 0;
  if (below(k->r, 3) && strlen(result) < 4) {
    const Expr *extent = any_extent(k);
    place(k, second, dims, 'p', extent);
    place(k, result, out, 'p', extent);
  }
  int nattrs = windows(k, n, a);
  a[nattrs++] = attr_s(k->m, AT_spec, arena_printf(k->m->arena, "%s,%s->%s", first, second, result));
  Val y = build_op(&k->b, &(OpSpec){.kind = kind,
                                    .nin = 2,
                                    .in = (Val[]){x, operand(k, (int)strlen(second), dims)},
                                    .nattrs = nattrs,
                                    .attrs = a,
                                    .type = type_get(k->m, DT_f64, (int)strlen(result), out)});
  return below(k->r, 2) ? y : build_unary(&k->b, OP_tanh, y);
}

static Val make_grouped(Making *k) {
  Val x = any(k);
  const Type *t = type(k, x);
  int last = t->rank - 1;
  if (last < 0) return 0;
  const Expr *groups = any_extent(k), *width = t->dims[last], *inner = any_extent(k), *n = any_extent(k);
  Val in[5] = {x, index_of(k, last, t->dims)};
  bool mlp = below(k->r, 2);
  if (!in[1]) return 0;
  for (int i = 2; i < (mlp ? 5 : 3); i++)
    in[i] = operand(k, 3, (const Expr *[]){groups, i == 4 ? inner : width, mlp && i < 4 ? inner : n});
  Attr a[] = {attr_e(AT_start, ex_const(k->m, 0)), attr_s(k->m, AT_kind, below(k->r, 2) ? "silu" : "relu")};
  Val y = build_op(&k->b, &(OpSpec){.kind = mlp ? OP_grouped_mlp : OP_grouped_dot,
                                    .nin = mlp ? 5 : 3,
                                    .in = in,
                                    .nattrs = mlp ? 2 : 1,
                                    .attrs = a});
  return below(k->r, 2) ? y : build_unary(&k->b, OP_tanh, y);
}

static Val make_source(Making *k) {
  const Type *t = type(k, any(k));
  switch (below(k->r, 4)) {
    case 0: return build_splat(&k->b, t, 0.25);
    case 1: return t->rank ? build_iota(&k->b, t, below(k->r, t->rank)) : 0;
    case 2: return fresh_input(k, 1 + below(k->r, 3), DT_f64);
    default: {
      if (k->nopen) return 0; /* no random numbers in loops */
      const Expr *zeros[MAX_RANK];
      for (int d = 0; d < t->rank; d++) zeros[d] = ex_const(k->m, 0);
      Attr a[] = {attr_s(k->m, AT_kind, "uniform"), attr_i(AT_seed, below(k->r, 100)),
                  attr_exprs(k->m, AT_starts, t->rank, zeros), attr_exprs(k->m, AT_extents, t->rank, t->dims)};
      return build_op(&k->b, &(OpSpec){.kind = OP_random, .nattrs = 4, .attrs = a, .type = t});
    }
  }
}

static Val make_any(Making *k) {
  static Val (*const makers[])(Making *) = {
      make_unary,  make_unary,   make_binary, make_binary,    make_binary,    make_select,  make_reduce,
      make_reduce, make_dot,     make_dot,    make_transpose, make_broadcast, make_reshape, make_reshape,
      make_concat, make_pad,     make_slice,  make_composite, make_gather,    make_source,  make_take,
      make_put,    make_scatter, make_update, make_sort,      make_scan,      make_scan,    make_pool,
      make_conv,   make_conv,    make_conv,   make_grouped,   make_topk,      make_topk};
  return makers[below(k->r, (int)(sizeof makers / sizeof *makers))](k);
}

/* ---- loops: the values of a body leave the pool at its end, the leaves enter it */

static Val any_count(Making *k) {
  const Type *scalar = type_get(k->m, DT_i64, 0, NULL);
  if (below(k->r, 2)) return build_size(&k->b, scalar, any_extent(k));
  Val x = any(k);
  if (below(k->r, 2) || !rank_of(k, x)) return build_splat(&k->b, scalar, below(k->r, 4));
  int axes[MAX_RANK];
  for (int d = 0; d < rank_of(k, x); d++) axes[d] = d;
  Val sum = build_reduce(&k->b, RED_MAX, x, rank_of(k, x), axes), two = build_splat(&k->b, type(k, sum), 2);
  return build_cast(&k->b, build_binary(&k->b, OP_mul, sum, two), DT_i64);
}

static void open_loop(Making *k) {
  Val inits[3], count = any_count(k);
  int n = 1 + below(k->r, 3);
  if (k->nopen == MAX_OPEN || k->n + n > MAX_POOL || k->nintegers == MAX_POOL || !count) return;
  for (int i = 0; i < n; i++) inits[i] = any(k);
  k->open[k->nopen++] = (Open){build_loop(&k->b, count, ex_const(k->m, 1 + below(k->r, 3))), k->n, n, k->nintegers};
  k->integers[k->nintegers++] = k->open[k->nopen - 1].round;
  for (int i = 0; i < n; i++) k->pool[k->n++] = build_carry(&k->b, inits[i]);
}

static void close_loop(Making *k) {
  Open o = k->open[--k->nopen];
  Val next[3], again = 0;
  for (int i = 0; i < o.ncarries; i++) next[i] = alike(k, k->pool[o.first + i]);
  if (below(k->r, 3) == 0) {
    Val limit = build_splat(&k->b, type_get(k->m, DT_i64, 0, NULL), 1);
    again = build_binary(&k->b, OP_lt, o.round, limit);
  }
  build_repeat(&k->b, o.round, again);
  for (int i = 0; i < o.ncarries; i++) k->pool[o.first + i] = build_leave(&k->b, k->pool[o.first + i], next[i]);
  k->n = o.first + o.ncarries;
  k->nintegers = o.integers;
}

/* Unused values, and some others, are outputs. */
static void make_outputs(Making *k) {
  Loops loops = loops_of(k->m->arena, k->b.f);
  Func *f = k->b.f;
  for (Val v = 1; v < f->values.n; v++) {
    bool used = false;
    for (size_t i = 0; i < f->ops.n; i++)
      for (int o = 0; o < f->ops.items[i].nin; o++) used |= f->ops.items[i].in[o] == v;
    bool computed = op_of(f, v)->nin > 0 && loops.of[f->values.items[v].op] < 0;
    if (computed && (!used || below(k->r, 8) == 0)) build_output(&k->b, arena_printf(k->m->arena, "out%u", v), v, NULL);
  }
}

/* The shape of a random graph. */
typedef struct GraphShape {
  int least, most; /* operations */
  bool loops;
  bool looks;                /* uses indices: `within` */
  const Expr *extents[5];    /* the extents that dimensions are made of */
  Val (*further)(Making *k); /* makes operations of other kinds; NULL if none */
} GraphShape;

static Func *make_graph(Module *m, Random *r, const GraphShape *shape, Diags *diags) {
  Func *f = module_func_add(m, "main", 1);
  Making k = {.m = m, .b = builder_new(m, f, diags), .r = r, .looks = shape->looks};
  memcpy(k.extents, shape->extents, sizeof k.extents);
  int inputs = 2 + below(r, 2), wanted = shape->least + below(r, shape->most - shape->least);
  for (int i = 0; i < inputs; i++) k.pool[k.n++] = fresh_input(&k, 1 + below(r, 3), DT_f64);
  for (int made = 0, tries = 0; made < wanted && tries < 400; tries++) {
    if (shape->loops && below(r, 5) == 0) open_loop(&k);
    else if (k.nopen && below(r, 5) == 0) close_loop(&k);
    Val v = shape->further && below(r, 2) ? shape->further(&k) : make_any(&k);
    if (!v || k.n == MAX_POOL || k.nintegers == MAX_POOL || rank_of(&k, v) > 4) continue;
    if (type(&k, v)->dtype == DT_i64) k.integers[k.nintegers++] = v;
    else k.pool[k.n++] = v;
    made++;
  }
  while (k.nopen) close_loop(&k);
  make_outputs(&k);
  return f;
}

#endif
