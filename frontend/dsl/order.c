/* frontend/dsl/order.c - built-in functions that place elements by index or by order: take, scatter, put, argsort,
 * top_k and running reductions.
 *
 * Each is one operation of the IR; top_k returns both its results.
 */
#include "frontend/dsl/builtin.h"

static DslValue operation(Args *a, OpSpec spec) {
  dsl_begin(a->ev, a->call);
  return dsl_built(a->ev, a->call, build_op(&a->ev->b, &spec));
}

static bool arg_index(Args *a, int i, Val *out) {
  if (!dsl_arg_tensor(a, i, out)) return false;
  return dtype_class(arg_type_of(a, *out)->dtype) == DTC_I || dsl_arg_fail(a, i, "a tensor of signed integers");
}

/* A tensor of numbers with at least one dimension. */
static bool arg_numbers(Args *a, int i, Val *out) {
  if (!dsl_arg_tensor(a, i, out)) return false;
  const Type *t = arg_type_of(a, *out);
  return (t->dtype != DT_bool && t->rank > 0) || dsl_arg_fail(a, i, "a tensor of numbers with at least one dimension");
}

/* Reports that the shape of `index` does not fit `other`. */
static DslValue misfit(Args *a, const Type *other, const Type *index) {
  const char *left = dsl_type_text(a->ev, other);
  return dsl_fail(a->ev, a->call, DIAG_dsl_shape, "an index %s does not fit %s", dsl_type_text(a->ev, index), left);
}

/* True if the extents are equal except in dimension `axis`; -1: in all. */
static bool aligned(const Type *x, const Type *index, int axis) {
  bool same = x->rank == index->rank;
  for (int d = 0; same && d < x->rank; d++) same = d == axis || x->dims[d] == index->dims[d];
  return same;
}

/* ---- by index */

DslValue dsl_fn_take(Args *a) {
  Val in[2];
  int axis;
  if (!dsl_arg_tensor(a, 0, &in[0]) || !arg_index(a, 1, &in[1])) return value_error();
  const Type *x = arg_type_of(a, in[0]), *index = arg_type_of(a, in[1]);
  if (!dsl_arg_axis(a, 2, x->rank, 0, &axis)) return value_error();
  if (!aligned(x, index, axis)) return misfit(a, x, index);
  Attr attrs[] = {attr_i(AT_axis, axis), attr_e(AT_start, ex_const(a->ev->m, 0))};
  return operation(a, (OpSpec){.kind = OP_take, .nin = 2, .in = in, .nattrs = 2, .attrs = attrs});
}

/* Reads the reduction that argument i names, a sum if omitted. */
static bool arg_reduction(Args *a, int i, DType dtype, Reduction *out) {
  const char *name = "sum";
  if (arg_given(a, i) && !dsl_arg_string(a, i, &name)) return false;
  bool known = reduction_find(name, out) && *out != RED_ONE && *out != RED_NONE && reduction_defined(*out, dtype);
  if (!known) dsl_fail(a->ev, a->at[i], DIAG_dsl_value, "\"%s\" is not a reduction of %s", name, dtype_name(dtype));
  return known;
}

/* Arguments that scatter and put share: tensors, a size, an axis of the result and a reduction. */
typedef struct Scattering {
  Val in[2];
  const Type *x, *index;
  const Expr *size;
  int axis;
  Reduction op;
} Scattering;

static bool scattering(Args *a, bool by_row, Scattering *s) {
  if (!dsl_arg_tensor(a, 0, &s->in[0]) || !arg_index(a, 1, &s->in[1]) || !dsl_arg_size(a, 2, &s->size)) return false;
  s->x = arg_type_of(a, s->in[0]), s->index = arg_type_of(a, s->in[1]);
  int rank = by_row ? s->x->rank - s->index->rank + 1 : s->x->rank;
  if (rank < 1 || rank > MAX_RANK) return misfit(a, s->x, s->index), false;
  return dsl_arg_axis(a, 3, rank, 0, &s->axis) && arg_reduction(a, 4, s->x->dtype, &s->op);
}

static DslValue scattered(Args *a, OpKind k, const Scattering *s, int rank, const Expr *const *dims) {
  Attr attrs[] = {attr_red(AT_op, s->op), attr_i(AT_axis, s->axis), attr_e(AT_start, ex_const(a->ev->m, 0))};
  return operation(a, (OpSpec){.kind = k,
                               .nin = 2,
                               .in = s->in,
                               .type = type_get(a->ev->m, s->x->dtype, rank, dims),
                               .nattrs = 3,
                               .attrs = attrs});
}

DslValue dsl_fn_scatter(Args *a) {
  Scattering s;
  const Expr *dims[MAX_RANK];
  if (!scattering(a, true, &s)) return value_error();
  int rank = s.x->rank - s.index->rank + 1;
  for (int d = 0; d < s.index->rank; d++)
    if (s.x->dims[s.axis + d] != s.index->dims[d]) return misfit(a, s.x, s.index);
  for (int d = 0; d < rank; d++) dims[d] = d == s.axis ? s.size : s.x->dims[d < s.axis ? d : d + s.index->rank - 1];
  return scattered(a, OP_scatter, &s, rank, dims);
}

DslValue dsl_fn_put(Args *a) {
  Scattering s;
  const Expr *dims[MAX_RANK];
  if (!scattering(a, false, &s)) return value_error();
  if (!aligned(s.x, s.index, -1)) return misfit(a, s.x, s.index);
  for (int d = 0; d < s.x->rank; d++) dims[d] = d == s.axis ? s.size : s.x->dims[d];
  return scattered(a, OP_put, &s, s.x->rank, dims);
}

/* ---- by order */

DslValue dsl_fn_argsort(Args *a) {
  Val x;
  int axis;
  bool descending;
  if (!arg_numbers(a, 0, &x)) return value_error();
  int rank = arg_type_of(a, x)->rank;
  if (!dsl_arg_axis(a, 1, rank, rank - 1, &axis) || !dsl_arg_flag(a, 2, false, &descending)) return value_error();
  Attr attrs[] = {attr_i(AT_axis, axis), attr_i(AT_descending, descending)};
  return operation(a, (OpSpec){.kind = OP_argsort, .nin = 1, .in = &x, .nattrs = 2, .attrs = attrs});
}

/* Returns [values, indices] of the k largest elements; equal elements keep their order. */
DslValue dsl_fn_top_k(Args *a) {
  Val x;
  int axis;
  int64_t k, extent;
  if (!arg_numbers(a, 0, &x) || !dsl_arg_int(a, 1, 1, &k)) return value_error();
  const Type *t = arg_type_of(a, x);
  if (!dsl_arg_axis(a, 2, t->rank, t->rank - 1, &axis)) return value_error();
  if (!ex_get_const(t->dims[axis], &extent))
    return dsl_fail(a->ev, a->call, DIAG_dsl_symbolic, "top_k needs a constant size, but dimension %d of %s is not",
                    axis, dsl_type_text(a->ev, t));
  if (k < 1 || k > extent)
    return dsl_fail(a->ev, a->at[1], DIAG_dsl_value, "'k' must be between 1 and %lld, not %lld", (long long)extent,
                    (long long)k);
  Attr attrs[] = {attr_i(AT_axis, axis), attr_i(AT_descending, 1), attr_e(AT_k, ex_const(a->ev->m, k))};
  dsl_begin(a->ev, a->call);
  Val v = build_op(&a->ev->b, &(OpSpec){.kind = OP_topk, .nin = 1, .in = &x, .nattrs = 3, .attrs = attrs});
  DslValue *items = ARENA_ARRAY(a->ev->arena, DslValue, 2);
  items[0] = dsl_built(a->ev, a->call, v);
  items[1] = dsl_built(a->ev, a->call, v ? v + 1 : 0);
  return items[0].kind == V_ERROR ? items[0] : value_list(2, items);
}

static DslValue running(Args *a, Reduction r) {
  Val x;
  int axis;
  bool exclusive, reverse;
  if (!arg_numbers(a, 0, &x)) return value_error();
  int rank = arg_type_of(a, x)->rank;
  if (!dsl_arg_axis(a, 1, rank, rank - 1, &axis) || !dsl_arg_flag(a, 2, false, &exclusive) ||
      !dsl_arg_flag(a, 3, false, &reverse))
    return value_error();
  Attr attrs[] = {attr_red(AT_op, r), attr_i(AT_axis, axis), attr_i(AT_exclusive, exclusive),
                  attr_i(AT_reverse, reverse)};
  return operation(a, (OpSpec){.kind = OP_scan, .nin = 1, .in = &x, .nattrs = 4, .attrs = attrs});
}

DslValue dsl_fn_cumsum(Args *a) { return running(a, RED_SUM); }
DslValue dsl_fn_cumprod(Args *a) { return running(a, RED_PRODUCT); }
DslValue dsl_fn_cummax(Args *a) { return running(a, RED_MAX); }
DslValue dsl_fn_cummin(Args *a) { return running(a, RED_MIN); }
