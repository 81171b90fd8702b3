/* frontend/onnx/build.c - small builders shared by the importers of operators. */
#include <inttypes.h>
#include <string.h>

#include "base/tensor.h"
#include "frontend/onnx/import_private.h"
#include "ir/index_bound.h"

Val splat_like(ImportNode *n, Val like, double value) {
  return like ? build_splat(n->b, type_of(n->b->f, like), value) : 0;
}

bool extents_broadcast(ImportNode *n, const Expr *p, const Expr *q) {
  if (p == q || ex_is_const(p, 1) || ex_is_const(q, 1)) return true;
  if (assume_one(n->m, p) || assume_one(n->m, q)) return false; /* a new assumption: fail this attempt */
  return equal_or_one(n, p, q);
}

bool broadcast_extents(ImportNode *n, const Type *x, const Type *y, int *rank, const Expr **dims) {
  *rank = x->rank > y->rank ? x->rank : y->rank;
  for (int i = 0; i < *rank; i++) {
    int xi = i - (*rank - x->rank), yi = i - (*rank - y->rank);
    const Expr *p = xi >= 0 ? x->dims[xi] : ex_const(n->m, 1), *q = yi >= 0 ? y->dims[yi] : ex_const(n->m, 1);
    if (!extents_broadcast(n, p, q)) return false;
    dims[i] = ex_is_const(p, 1) ? q : p;
  }
  return true;
}

Val broadcast(ImportNode *n, Val x, int rank, const Expr *const *dims) { return build_bcast_to(n->b, x, rank, dims); }

Val binary(ImportNode *n, OpKind k, Val x, Val y) {
  const Expr *dims[MAX_RANK];
  int rank;
  if (!x || !y) return 0;
  const Type *tx = type_of(n->b->f, x), *ty = type_of(n->b->f, y);
  if (!broadcast_extents(n, tx, ty, &rank, dims)) {
    node_error(n, "shapes %s and %s do not broadcast", import_type_string(n->m, tx), import_type_string(n->m, ty));
    return 0;
  }
  return build_binary(n->b, k, broadcast(n, x, rank, dims), broadcast(n, y, rank, dims));
}

Val binary_number(ImportNode *n, OpKind k, Val x, double y) {
  return x ? build_binary(n->b, k, x, splat_like(n, x, y)) : 0;
}

Val select3(ImportNode *n, Val condition, Val x, Val y) {
  const Expr *dims[MAX_RANK];
  int rank;
  if (!condition || !x || !y) return 0;
  const Func *f = n->b->f;
  const Type *tx = type_of(f, x), *ty = type_of(f, y), *tc = type_of(f, condition), *t = NULL;
  if (broadcast_extents(n, tx, ty, &rank, dims)) {
    t = type_get(n->m, tx->dtype, rank, dims);
    if (!broadcast_extents(n, t, tc, &rank, dims)) t = NULL;
  }
  if (!t) {
    node_error(n, "shapes %s, %s and %s do not broadcast", import_type_string(n->m, tc), import_type_string(n->m, tx),
               import_type_string(n->m, ty));
    return 0;
  }
  Val in[] = {broadcast(n, condition, rank, dims), broadcast(n, x, rank, dims), broadcast(n, y, rank, dims)};
  return build_op(n->b, &(OpSpec){.kind = OP_select, .nin = 3, .in = in});
}

/* Clips on one side.  Its gradient is 0 for clipped numbers and at the bound, whereas max and min would share it
 * between equal operands. */
static Val bounded(ImportNode *n, Val x, Val bound, bool low) {
  if (!x || !bound) return x;
  if (!import_trains(n->im) || !dtype_is_float(type_of(n->b->f, x)->dtype))
    return binary(n, low ? OP_max : OP_min, x, bound);
  return select3(n, binary(n, low ? OP_le : OP_ge, x, bound), bound, x);
}

Val clamp(ImportNode *n, Val x, Val low, Val high) { return bounded(n, bounded(n, x, low, true), high, false); }

Val clamp_numbers(ImportNode *n, Val x, double low, double high) {
  return x ? clamp(n, x, splat_like(n, x, low), splat_like(n, x, high)) : 0;
}

Val insert_dims(ImportNode *n, Val x, unsigned at, int rank) {
  if (!x) return 0;
  const Type *t = type_of(n->b->f, x);
  const Expr *dims[MAX_RANK];
  int expected = rank - __builtin_popcount(at & ((1u << rank) - 1));
  if (t->rank != expected) {
    node_error(n, "%s where a tensor of rank %d is expected", import_type_string(n->m, t), expected);
    return 0;
  }
  for (int d = 0, from = 0; d < rank; d++) dims[d] = at >> d & 1 ? ex_const(n->m, 1) : t->dims[from++];
  return build_reshape(n->b, x, rank, dims);
}

Val drop_dims(ImportNode *n, Val x, unsigned at) {
  if (!x) return 0;
  const Type *t = type_of(n->b->f, x);
  const Expr *dims[MAX_RANK];
  int rank = 0;
  for (int d = 0; d < t->rank; d++)
    if (!(at >> d & 1)) dims[rank++] = t->dims[d];
  return build_reshape(n->b, x, rank, dims);
}

Val import_reduce_axes(ImportNode *n, Reduction r, Val x, unsigned axes, bool keepdims) {
  int list[MAX_RANK], count = 0;
  if (!x) return 0;
  int rank = type_of(n->b->f, x)->rank;
  for (int d = 0; d < rank; d++)
    if (axes >> d & 1) list[count++] = d;
  Val y = count ? build_reduce(n->b, r, x, count, list) : x;
  return keepdims ? insert_dims(n, y, axes, rank) : y;
}

Val mean_axes(ImportNode *n, Val x, unsigned axes, bool keepdims) {
  Val sum = import_reduce_axes(n, RED_SUM, x, axes, keepdims);
  if (!sum) return 0;
  const Type *t = type_of(n->b->f, x);
  const Expr *count = ex_const(n->m, 1);
  for (int d = 0; d < t->rank; d++)
    if (axes >> d & 1) count = ex_mul(n->m, count, t->dims[d]);
  return build_binary(n->b, OP_div, sum, build_size(n->b, type_of(n->b->f, sum), count));
}

/* True if the operation is the number of a loop's round, counted from the end. */
static bool counts_down(const ImportNode *n, const Op *op) {
  const Op *loop = op_of(n->b->f, op->in[1]);
  const Expr *from = uniform_integer(n->m, n->b->f, op->in[0]),
             *trips = loop->kind == OP_loop ? op_expr(loop, AT_trips) : NULL;
  return from && trips && known_gt(n->m, ex_addi(n->m, from, 2), trips);
}

enum { MAX_VISITS = 1000 }; /* operations to visit for one index; shared ones count once per use */

/* True if the operations that compute the value show that every element is >= 0. */
static bool never_negative(const ImportNode *n, Val v, int *visits) {
  const Func *f = n->b->f;
  const Op *op = op_of(f, v);
  if (dtype_class(type_of(f, v)->dtype) != DTC_I) return true;
  if ((*visits)++ > MAX_VISITS) return false;
  const Attr *ints = op_attr(op, AT_ints);
  switch (op->kind) {
    case OP_iota:
    case OP_loop: return true;
    case OP_sub: return counts_down(n, op);
    case OP_size: return known_bounds(n->m, op_expr(op, AT_expr)).low >= 0;
    case OP_const:
      for (int i = 0; ints && i < ints->n; i++)
        if (ints->u.ints[i] < 0) return false;
      return ints || op_float(op, AT_value, 0) >= 0;
    case OP_add:
    case OP_mul:
    case OP_within:
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice:
    case OP_concat:
      for (int i = 0; i < op->nin; i++)
        if (!never_negative(n, op->in[i], visits)) return false;
      return true;
    default: return false;
  }
}

/* Reads element e of a constant list, from the file or known otherwise; false if it is not constant. */
static bool constant_element(ImportNode *n, size_t i, int64_t e, int64_t *out) {
  const ImportItem *item = n->in[i];
  ImportKnown known = input_known(n, i);
  if (known.items) return ex_get_const(known.items[e], out);
  if (!item->tensor || item->is_trained || item->data.packed) return false;
  size_t size = dtype_bytes(item->data.dtype);
  char element[8];
  memcpy(element, onnx_file_bytes(import_file(n->im), &item->data) + (size_t)e * size, size);
  *out = dtype_load_i(item->data.dtype, element);
  return true;
}

bool indices_are_inside(ImportNode *n, size_t i, int k, const Expr *const *extents) {
  const Type *t = input_type(n, i);
  int64_t dims[MAX_RANK], index[MAX_RANK], count = 1, v, extent;
  char why[320];
  if (!type_constant_dims(t, dims) || dtype_is_float(t->dtype)) return true;
  for (int d = 0; d < t->rank; d++) count *= dims[d];
  for (int64_t e = 0; e < count; e++) {
    if (!ex_get_const(extents[e % k], &extent)) continue;
    if (!constant_element(n, i, e, &v) || (v >= -extent && v < extent)) continue;
    tensor_index(t->rank, dims, e, index);
    return node_error(n, "%s", tensor_index_refused(t->rank, index, v, -extent, extent - 1, why, sizeof why));
  }
  return true;
}

Val wrap_index(ImportNode *n, Val index, const Expr *extent) {
  int visits = 0;
  if (!index || never_negative(n, index, &visits)) return index;
  Val wrapped = build_binary(n->b, OP_add, index, build_size(n->b, type_of(n->b->f, index), extent));
  return select3(n, binary_number(n, OP_lt, index, 0), wrapped, index);
}

Val gather_wrapped(ImportNode *n, Val table, Val index, int axis) {
  if (!table || !index) return 0;
  if (dtype_class(type_of(n->b->f, index)->dtype) != DTC_I) index = build_cast(n->b, index, DT_i64);
  index = wrap_index(n, index, type_of(n->b->f, table)->dims[axis]);
  return index ? build_checked_gather(n->b, OP_gather, table, index, axis) : 0;
}

Val take(ImportNode *n, Val x, Val index, int axis) {
  if (!x || !index) return 0;
  Attr a[2] = {attr_i(AT_axis, axis), attr_e(AT_start, ex_const(n->m, 0))};
  return build_op(n->b, &(OpSpec){.kind = OP_take, .nin = 2, .in = (Val[]){x, index}, .nattrs = 2, .attrs = a});
}

Val wrap_checked_index(ImportNode *n, Val index, const Expr *extent) {
  return wrap_index(n, build_within(n->b, index, extent, true), extent);
}

Val scan(ImportNode *n, Reduction r, Val x, int axis, bool exclusive, bool reverse) {
  if (!x) return 0;
  Attr a[4] = {attr_red(AT_op, r), attr_i(AT_axis, axis), attr_i(AT_exclusive, exclusive), attr_i(AT_reverse, reverse)};
  return build_op(n->b, &(OpSpec){.kind = OP_scan, .nin = 1, .in = &x, .nattrs = 4, .attrs = a});
}

Val to_bool(ImportNode *n, Val x) {
  if (!x || type_of(n->b->f, x)->dtype == DT_bool) return x;
  return binary_number(n, OP_ne, x, 0);
}

Val import_scalar_i64(ImportNode *n, const Expr *value) {
  return build_size(n->b, type_of_ints(n->m, DT_i64, 0, NULL), value);
}

Val iota_i64(ImportNode *n, int rank, const Expr *const *dims, int axis) {
  return build_iota(n->b, type_get(n->m, DT_i64, rank, dims), axis);
}
