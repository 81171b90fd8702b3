/* frontend/onnx/import_scatter.c - ScatterElements and ScatterND as put and scatter; TensorScatter as a lookup.
 *
 * Both operations of the IR start from the identity of their reduction.  The data is combined with the result
 * afterwards: by the reduction itself or, without one, where a second put (of true) marks an element as written.
 * ONNX does not specify the effect of duplicates without a reduction; here the largest wins, so the result does not
 * depend on the order of writes.
 */
#include <string.h>

#include "frontend/onnx/import_private.h"

typedef struct Scatter {
  OpKind kind; /* OP_put, OP_scatter */
  int axis;
  const Type *into; /* the shape that is written to */
} Scatter;

static Val scattered(ImportNode *n, const Scatter *s, Reduction r, Val updates, Val index) {
  if (!updates || !index) return 0;
  Attr a[3] = {attr_red(AT_op, r), attr_i(AT_axis, s->axis), attr_e(AT_start, ex_const(n->m, 0))};
  const Type *type = type_with_dtype(n->m, s->into, type_of(n->b->f, updates)->dtype);
  return build_op(
      n->b, &(OpSpec){.kind = s->kind, .nin = 2, .in = (Val[]){updates, index}, .nattrs = 3, .attrs = a, .type = type});
}

static const struct {
  const char *name;
  Reduction reduction;
  OpKind combine;
} reductions[] = {
    {"add", RED_SUM, OP_add}, {"mul", RED_PRODUCT, OP_mul}, {"max", RED_MAX, OP_max}, {"min", RED_MIN, OP_min}};

/* `data` (of type s->into) with the updates written or reduced into it. */
static Val combined(ImportNode *n, const Scatter *s, Val data, Val updates, Val index) {
  const char *how = node_string(n, "reduction", "none");
  bool is_bool = s->into->dtype == DT_bool;
  if (!data || !updates || !index) return 0;
  for (size_t i = 0; i < sizeof reductions / sizeof *reductions; i++) {
    if (strcmp(how, reductions[i].name) != 0) continue;
    if (is_bool) break;
    return binary(n, reductions[i].combine, data, scattered(n, s, reductions[i].reduction, updates, index));
  }
  if (strcmp(how, "none") != 0) {
    node_error(n, "reduction \"%s\" of %s", how, dtype_name(s->into->dtype));
    return 0;
  }
  Val yes = build_splat(n->b, type_with_dtype(n->m, type_of(n->b->f, updates), DT_bool), 1);
  Val written = scattered(n, s, is_bool ? RED_OR : RED_MAX, updates, index);
  return select3(n, scattered(n, s, RED_OR, yes, index), written, data);
}

/* Pads updates and indices to the size of the data in all dimensions but the axis; added indices address no element. */
static Val filled_up(ImportNode *n, Val x, const Type *t, int axis, double value) {
  const Expr *low[MAX_RANK] = {0}, *high[MAX_RANK] = {0};
  bool any = false;
  if (!x) return 0;
  const Type *tx = type_of(n->b->f, x);
  for (int d = 0; d < t->rank; d++) {
    low[d] = ex_const(n->m, 0);
    high[d] = d == axis ? low[d] : ex_sub(n->m, t->dims[d], tx->dims[d]);
    any = any || !ex_is_const(high[d], 0);
  }
  Attr a[3] = {attr_exprs(n->m, AT_low, t->rank, low), attr_exprs(n->m, AT_high, t->rank, high),
               attr_f(AT_value, value)};
  return any ? build_op(n->b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &x, .nattrs = 3, .attrs = a}) : x;
}

bool import_scatter_elements(ImportNode *n) {
  const Type *t = input_type(n, 0), *ti = input_type(n, 1);
  Scatter s = {OP_put, 0, t};
  if (t->rank != ti->rank || ti->rank != input_type(n, 2)->rank)
    return node_error(n, "%s and %s do not have the rank of %s", import_type_string(n->m, ti),
                      import_type_string(n->m, input_type(n, 2)), import_type_string(n->m, t));
  if (!node_axis(n, node_int(n, "axis", 0), t->rank, &s.axis)) return false;
  if (!indices_are_inside(n, 1, 1, &t->dims[s.axis])) return false;
  Val index = filled_up(n, wrap_checked_index(n, input(n, 1), t->dims[s.axis]), t, s.axis, -1);
  return import_set_output(n, 0, combined(n, &s, input(n, 0), filled_up(n, input(n, 2), t, s.axis, 0), index));
}

/* Row-major index, in the first k dimensions of t, of the indices along their last dimension. */
static Val joined_index(ImportNode *n, Val index, const Type *t, int k) {
  Val at = 0;
  if (!index) return 0;
  int last = type_of(n->b->f, index)->rank - 1;
  for (int d = 0; d < k; d++) {
    Val one = build_slice(n->b, index, last, ex_const(n->m, d), ex_const(n->m, 1), 1);
    Val place = wrap_checked_index(n, build_cast(n->b, drop_dims(n, one, 1u << last), DT_i64), t->dims[d]);
    if (!place) return 0;
    if (at) at = build_binary(n->b, OP_mul, at, build_size(n->b, type_of(n->b->f, at), t->dims[d]));
    at = at ? build_binary(n->b, OP_add, at, place) : place;
  }
  return at;
}

/* The last dimension of the indices, of constant extent k, addresses the first k dimensions of the data, which are
 * flattened. */
bool import_scatter_nd(ImportNode *n) {
  const Type *t = input_type(n, 0), *ti = input_type(n, 1);
  int64_t k;
  if (ti->rank < 1 || !ex_get_const(ti->dims[ti->rank - 1], &k) || k < 1 || k > t->rank)
    return node_error(n, "indices %s do not address %s", import_type_string(n->m, ti), import_type_string(n->m, t));
  if (!indices_are_inside(n, 1, (int)k, t->dims)) return false;
  const Expr *dims[MAX_RANK] = {type_product(n->m, t, 0, (int)k)};
  for (int d = (int)k; d < t->rank; d++) dims[d - k + 1] = t->dims[d];
  Scatter s = {OP_scatter, 0, type_get(n->m, t->dtype, t->rank - (int)k + 1, dims)};
  Val data = build_reshape(n->b, input(n, 0), s.into->rank, s.into->dims);
  Val y = combined(n, &s, data, input(n, 2), joined_index(n, input(n, 1), t, (int)k));
  return import_set_output(n, 0, build_reshape(n->b, y, t->rank, t->dims));
}

/* Element m of the cache is element m - start of the update, if that exists: a lookup, in which no two elements can
 * conflict. */
bool import_tensor_scatter(ImportNode *n) {
  const Type *t = input_type(n, 0), *tu = input_type(n, 1);
  const char *mode = node_string(n, "mode", "linear");
  bool circular = strcmp(mode, "circular") == 0;
  int axis = 0;
  if (!node_axis(n, node_int(n, "axis", -2), t->rank, &axis)) return false;
  if (axis == 0 || tu->rank != t->rank)
    return node_error(n, "%s cannot be written along axis %d of %s", import_type_string(n->m, tu), axis,
                      import_type_string(n->m, t));
  if (!circular && strcmp(mode, "linear") != 0) return node_error(n, "mode \"%s\"", mode);
  for (int d = 0; d < t->rank; d++)
    if (d != axis && !equal_extents(n, t->dims[d], tu->dims[d]))
      return node_error(n, "%s cannot be written into %s", import_type_string(n->m, tu), import_type_string(n->m, t));
  Val past = input(n, 0), update = input(n, 1), extent = import_scalar_i64(n, t->dims[axis]),
      zero = import_scalar_i64(n, ex_const(n->m, 0));
  unsigned others = ((1u << t->rank) - 1) & ~(1u << axis);
  Val at = insert_dims(n, iota_i64(n, 1, &t->dims[axis], 0), others, t->rank);
  if (has_input(n, 2)) {
    if (input_type(n, 2)->rank != 1)
      return node_error(n, "the write indices cannot be %s", import_type_string(n->m, input_type(n, 2)));
    at = binary(n, OP_sub, at,
                insert_dims(n, build_cast(n->b, input(n, 2), DT_i64), ((1u << t->rank) - 1) & ~1u, t->rank));
  }
  if (circular) at = binary(n, OP_mod, binary(n, OP_add, binary(n, OP_mod, at, extent), extent), extent);
  if (!past || !update || !at) return false;
  const Expr *dims[MAX_RANK];
  for (int d = 0; d < t->rank; d++) dims[d] = t->dims[d];
  at = broadcast(n, at, t->rank, dims);
  Val written =
      binary(n, OP_and, binary(n, OP_ge, at, zero), binary(n, OP_lt, at, import_scalar_i64(n, tu->dims[axis])));
  return import_set_output(n, 0, select3(n, written, take(n, update, at, axis), past));
}
