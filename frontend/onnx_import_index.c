/* frontend/onnx_import_index.c - ONNX operators about the places of single elements.
 *
 * The place of an extreme element is found by two reductions: the extreme value, then the smallest (or
 * largest) index of the elements that equal it; so that it can be sharded like any reduction.  Gathering
 * by element is one gather from the flattened tensor at computed places.
 */
#include "frontend/onnx_import_private.h"

/* i64 indices along `axis`, that dimension kept with extent 1. */
static Val extreme_index(Node *n, Val x, int axis, Reduction how, bool last) {
  if (!x) return 0;
  const Type *t = type_of(n->b->f, x);
  Val is_best = binary(n, OP_eq, x, reduce_axes(n, how, x, 1u << axis, true));
  Val place = iota_i64(n, t->rank, t->dims, axis);
  Val none = last ? splat_like(n, place, -1) : build_size(n->b, type_with_dtype(n->m, t, DT_i64), t->dims[axis]);
  return reduce_axes(n, last ? RED_MAX : RED_MIN, select3(n, is_best, place, none), 1u << axis, true);
}

bool import_arg(Node *n) {
  int axis = 0;
  if (!node_axis(n, node_int(n, "axis", 0), input_type(n, 0)->rank, &axis)) return false;
  Val y = extreme_index(n, input(n, 0), axis, (Reduction)n->op->arg, node_int(n, "select_last_index", 0) != 0);
  return set_output(n, 0, node_int(n, "keepdims", 1) ? y : drop_dims(n, y, 1u << axis));
}

/* 1 at the first largest element along the axis (before 13: of all dimensions from the axis on), else 0. */
bool import_hardmax(Node *n) {
  const Type *t = input_type(n, 0);
  int axis = 0;
  if (!node_axis(n, node_int(n, "axis", n->opset < 13 ? 1 : -1), t->rank, &axis)) return false;
  const Expr *dims[MAX_RANK];
  bool flatten = n->opset < 13;
  for (int d = 0; d < axis; d++) dims[d] = t->dims[d];
  dims[axis] = extent_product(n->m, t, axis, t->rank);
  Val x = flatten ? build_reshape(n->b, input(n, 0), axis + 1, dims) : input(n, 0);
  if (!x) return false;
  const Type *tx = type_of(n->b->f, x);
  Val hit = binary(n, OP_eq, iota_i64(n, tx->rank, tx->dims, axis), extreme_index(n, x, axis, RED_MAX, false));
  return set_output(n, 0, build_reshape(n->b, build_cast(n->b, hit, t->dtype), t->rank, t->dims));
}

/* ---- gathering by element */

/* Negative indices count from the end of an extent. */
static Val wrapped(Node *n, Val index, const Expr *extent) {
  index = build_cast(n->b, index, DT_i64);
  if (!index) return 0;
  Val from_end = build_binary(n->b, OP_add, index, build_size(n->b, type_of(n->b->f, index), extent));
  return select3(n, binary_number(n, OP_lt, index, 0), from_end, index);
}

/* index * extent of dimension d + place in it: one step of row-major addressing. */
static Val step_into(Node *n, Val at, const Expr *extent, Val place) {
  if (!at || !place) return place;
  return binary(n, OP_add, build_binary(n->b, OP_mul, at, build_size(n->b, type_of(n->b->f, at), extent)), place);
}

bool import_gather_elements(Node *n) {
  const Type *t = input_type(n, 0), *ti = input_type(n, 1);
  int axis = 0;
  if (t->rank != ti->rank) return node_error(n, "%s has not the rank of %s", type_string(n->m, ti), type_string(n->m, t));
  if (!node_axis(n, node_int(n, "axis", 0), t->rank, &axis)) return false;
  Val index = wrapped(n, input(n, 1), t->dims[axis]), at = 0;
  for (int d = 0; d < t->rank && index; d++) {
    Val place = d == axis ? index : iota_i64(n, ti->rank, ti->dims, d);
    at = d == 0 ? place : step_into(n, at, t->dims[d], place);
  }
  const Expr *all = type_elements(n->m, t);
  Val flat = build_reshape(n->b, input(n, 0), 1, &all);
  return set_output(n, 0, at ? build_gather(n->b, flat, at, 0) : 0);
}

/* The last dimension of the indices, of constant extent k, addresses k dimensions after the batch dimensions. */
bool import_gather_nd(Node *n) {
  const Type *t = input_type(n, 0), *ti = input_type(n, 1);
  int64_t batch = node_int(n, "batch_dims", 0), k;
  if (batch < 0 || batch >= ti->rank || batch >= t->rank) return node_error(n, "batch_dims is %lld", (long long)batch);
  if (!ex_get_const(ti->dims[ti->rank - 1], &k) || k < 1 || batch + k > t->rank)
    return node_error(n, "indices %s do not address %s", type_string(n->m, ti), type_string(n->m, t));
  Val index = input(n, 1), at = 0;
  for (int d = 0; d < batch; d++) {
    Val place = iota_i64(n, ti->rank - 1, ti->dims, d);
    at = d == 0 ? place : step_into(n, at, t->dims[d], place);
  }
  for (int d = 0; d < k && index; d++) {
    const Expr *extent = t->dims[batch + d];
    Val one = build_slice(n->b, index, ti->rank - 1, ex_const(n->m, d), ex_const(n->m, 1), 1);
    Val place = wrapped(n, drop_dims(n, one, 1u << (ti->rank - 1)), extent);
    at = at ? step_into(n, at, extent, place) : place;
  }
  int joined = (int)(batch + k);
  const Expr *dims[MAX_RANK] = {extent_product(n->m, t, 0, joined)};
  for (int d = joined; d < t->rank; d++) dims[d - joined + 1] = t->dims[d];
  if (ti->rank - 1 + t->rank - joined > MAX_RANK) return node_error(n, "the result has too many dimensions");
  Val flat = build_reshape(n->b, input(n, 0), t->rank - joined + 1, dims);
  return set_output(n, 0, at ? build_gather(n->b, flat, at, 0) : 0);
}
