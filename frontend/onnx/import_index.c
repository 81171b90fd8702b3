/* frontend/onnx/import_index.c - ONNX operators on the indices of single elements.
 *
 * The index of an extreme element takes two reductions, so that it can be sharded like any reduction: the extreme
 * value, then the smallest (or largest) index of the elements that equal it.  NaN is larger and smaller than all
 * numbers, as in NumPy.  GatherND is one gather from the flattened tensor at computed indices.
 */
#include "frontend/onnx/counted.h"

/* Returns i64 indices along `axis`, which is kept with extent 1. */
static Val extreme_index(ImportNode *n, Val x, int axis, Reduction how, bool last) {
  if (!x) return 0;
  const Type *t = type_of(n->b->f, x);
  Val is_best = binary(n, OP_eq, x, import_reduce_axes(n, how, x, 1u << axis, true));
  if (dtype_is_float(t->dtype)) /* if there is a NaN, the extreme is NaN and equals nothing */
    is_best = binary(n, OP_or, is_best, build_unary(n->b, OP_isnan, x));
  Val place = iota_i64(n, t->rank, t->dims, axis);
  Val none = last ? splat_like(n, place, -1) : build_size(n->b, type_with_dtype(n->m, t, DT_i64), t->dims[axis]);
  return import_reduce_axes(n, last ? RED_MAX : RED_MIN, select3(n, is_best, place, none), 1u << axis, true);
}

bool import_arg(ImportNode *n) {
  int axis = 0;
  if (!node_axis(n, node_int(n, "axis", 0), input_type(n, 0)->rank, &axis)) return false;
  Val y = extreme_index(n, input(n, 0), axis, (Reduction)n->op->arg, node_int(n, "select_last_index", 0) != 0);
  return import_set_output(n, 0, node_int(n, "keepdims", 1) ? y : drop_dims(n, y, 1u << axis));
}

/* 1 at the first largest element along the axis (before 13: over all dimensions from the axis on), else 0. */
bool import_hardmax(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int axis = 0;
  if (!node_axis(n, node_int(n, "axis", n->opset < 13 ? 1 : -1), t->rank, &axis)) return false;
  const Expr *dims[MAX_RANK];
  bool flatten = n->opset < 13;
  for (int d = 0; d < axis; d++) dims[d] = t->dims[d];
  dims[axis] = type_product(n->m, t, axis, t->rank);
  Val x = flatten ? build_reshape(n->b, input(n, 0), axis + 1, dims) : input(n, 0);
  if (!x) return false;
  const Type *tx = type_of(n->b->f, x);
  Val hit = binary(n, OP_eq, iota_i64(n, tx->rank, tx->dims, axis), extreme_index(n, x, axis, RED_MAX, false));
  return import_set_output(n, 0, build_reshape(n->b, build_cast(n->b, hit, t->dtype), t->rank, t->dims));
}

/* ---- gathering by element */

/* index * extent of dimension d + index in it: one step of row-major addressing. */
static Val step_into(ImportNode *n, Val at, const Expr *extent, Val place) {
  if (!at || !place) return place;
  return binary(n, OP_add, build_binary(n->b, OP_mul, at, build_size(n->b, type_of(n->b->f, at), extent)), place);
}

/* The indices may be shorter than the data in dimensions other than the axis: data beyond them is dropped. */
bool import_gather_elements(ImportNode *n) {
  const Type *t = input_type(n, 0), *ti = input_type(n, 1);
  int axis = 0;
  if (t->rank != ti->rank)
    return node_error(n, "%s does not have the rank of %s", import_type_string(n->m, ti), import_type_string(n->m, t));
  if (!node_axis(n, node_int(n, "axis", 0), t->rank, &axis)) return false;
  if (!indices_are_inside(n, 1, 1, &t->dims[axis])) return false;
  Val x = input(n, 0);
  for (int d = 0; d < t->rank; d++)
    if (d != axis && t->dims[d] != ti->dims[d]) x = x ? build_slice(n->b, x, d, ex_const(n->m, 0), ti->dims[d], 1) : 0;
  return import_set_output(n, 0,
                           build_checked_gather(n->b, OP_take, x, wrap_index(n, input(n, 1), t->dims[axis]), axis));
}

/* The last dimension of the indices, of constant extent k, addresses k dimensions after the batch dimensions. */
bool import_gather_nd(ImportNode *n) {
  const Type *t = input_type(n, 0), *ti = input_type(n, 1);
  int64_t batch = node_int(n, "batch_dims", 0), k;
  if (batch < 0 || batch >= ti->rank || batch >= t->rank) return node_error(n, "batch_dims is %lld", (long long)batch);
  if (!ex_get_const(ti->dims[ti->rank - 1], &k) || k < 1 || k > t->rank - batch)
    return node_error(n, "indices %s do not address %s", import_type_string(n->m, ti), import_type_string(n->m, t));
  if (!indices_are_inside(n, 1, (int)k, t->dims + batch)) return false;
  Val index = input(n, 1), at = 0;
  for (int d = 0; d < batch; d++) {
    Val place = iota_i64(n, ti->rank - 1, ti->dims, d);
    at = d == 0 ? place : step_into(n, at, t->dims[d], place);
  }
  for (int d = 0; d < k && index; d++) {
    const Expr *extent = t->dims[batch + d];
    Val one = build_slice(n->b, index, ti->rank - 1, ex_const(n->m, d), ex_const(n->m, 1), 1);
    Val place = wrap_checked_index(n, build_cast(n->b, drop_dims(n, one, 1u << (ti->rank - 1)), DT_i64), extent);
    at = at ? step_into(n, at, extent, place) : place;
  }
  int joined = (int)(batch + k);
  const Expr *dims[MAX_RANK] = {type_product(n->m, t, 0, joined)};
  for (int d = joined; d < t->rank; d++) dims[d - joined + 1] = t->dims[d];
  if (ti->rank - 1 + t->rank - joined > MAX_RANK) return node_error(n, "the result has too many dimensions");
  Val flat = build_reshape(n->b, input(n, 0), t->rank - joined + 1, dims);
  return import_set_output(n, 0, at ? build_gather(n->b, flat, at, 0) : 0);
}

/* ---- selection along one axis */

/* Selects along the axis (of the flattened tensor if absent) where a constant condition holds. */
bool import_known_compress(ImportNode *n, int axis) {
  const Type *t = input_type(n, 0);
  int64_t condition[KNOWN_MAX], picked[KNOWN_MAX], extent;
  int count, kept = 0;
  ImportKnown known = input_known(n, 1);
  if (!known.items || known.type->rank != 1 || !known_constants(&known, condition)) {
    diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc, "%s: the condition is not a constant of at most %d elements",
               n->op->type, KNOWN_MAX);
    say_origin(n, 1);
    return false;
  }
  count = known.n;
  Val x = input(n, 0);
  if (!has_attr(n, "axis")) {
    const Expr *all = type_elements(n->m, t);
    x = build_reshape(n->b, x, 1, &all);
  }
  for (int i = 0; i < count; i++)
    if (condition[i]) picked[kept++] = i;
  if (kept && x && ex_get_const(type_of(n->b->f, x)->dims[axis], &extent) && picked[kept - 1] >= extent)
    return node_error(n, "the condition picks element %lld of %lld", (long long)picked[kept - 1], (long long)extent);
  ImportKnown index = known_ints(n->m, DT_i64, 1, (int64_t[]){kept}, picked);
  return import_set_output(n, 0, x ? build_gather(n->b, x, import_known_value(n, &index), axis) : 0);
}

/* Reverses the first lens[b] elements of the time axis; the rest is unchanged. */
bool import_reverse_sequence(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int batch = 0, time = 0;
  if (!node_axis(n, node_int(n, "batch_axis", 1), t->rank, &batch) ||
      !node_axis(n, node_int(n, "time_axis", 0), t->rank, &time))
    return false;
  if (batch == time || batch > 1 || time > 1)
    return node_error(n, "batch_axis %d and time_axis %d must be 0 and 1, in either order", batch, time);
  Val lens = insert_dims(n, build_cast(n->b, input(n, 1), DT_i64), 1u << time, 2),
      step = iota_i64(n, 1, &t->dims[time], 0);
  step = insert_dims(n, step, 1u << batch, 2);
  Val reversed = binary(n, OP_sub, binary_number(n, OP_sub, lens, 1), step);
  Val at = select3(n, binary(n, OP_lt, step, lens), reversed, step);
  at = at ? insert_dims(n, at, ((1u << t->rank) - 1) & ~3u, t->rank) : 0;
  return import_set_output(n, 0, at ? take(n, input(n, 0), broadcast(n, at, t->rank, t->dims), time) : 0);
}

/* True if e is a minimum with the extent as an operand, such as min(8, extent), so that it cannot exceed the extent. */
static bool is_operand(const Expr *e, const Expr *extent) {
  bool found = false;
  for (int i = 0; e->kind == EX_MIN && i < e->n; i++) found = found || e->args[i] == extent;
  return found;
}

/* The number of elements to take: a number, or an expression of sizes that is at most the extent; NULL after an
 * error. */
static const Expr *top_count(ImportNode *n, const Expr *extent) {
  ImportKnown k;
  int64_t number, all;
  bool data = n->op->max_in > 1 && !input_known(n, 1).items && input_fact(n, 1)->kind == FACT_DATA;
  if (data) return counted_size(n, build_cast(n->b, build_reshape(n->b, input(n, 1), 0, NULL), DT_i64), extent);
  if (n->op->max_in == 1) k = (ImportKnown){.n = 1, .items = (const Expr *[]){ex_const(n->m, node_int(n, "k", 0))}};
  else if (!input_exprs(n, 1, "k", &k)) return NULL;
  const Expr *e = k.n == 1 ? k.items[0] : NULL;
  bool fits = e == extent;
  if (e && ex_get_const(e, &number)) fits = number >= 0 && (!ex_get_const(extent, &all) || number <= all);
  else if (e && !fits)
    fits = known_need(n->m, e, 0) && (is_operand(e, extent) || known_need(n->m, ex_sub(n->m, extent, e), 0));
  if (fits) return e;
  Text t = {.arena = n->m->arena};
  if (e) ex_print(n->m, &t, e);
  node_error(n, "k is %s", e ? text_str(&t) : "a list");
  return NULL;
}

/* The k largest (or smallest) elements along the axis and their indices, always sorted. */
bool import_top_k(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int axis = 0;
  if (!node_axis(n, node_int(n, "axis", -1), t->rank, &axis)) return false;
  const Expr *k = top_count(n, t->dims[axis]);
  Val x = k ? input(n, 0) : 0;
  Attr a[3] = {attr_i(AT_axis, axis), attr_i(AT_descending, node_int(n, "largest", 1) != 0), attr_e(AT_k, k)};
  Val v = x ? build_op(n->b, &(OpSpec){.kind = OP_topk, .nin = 1, .in = &x, .nattrs = 3, .attrs = a}) : 0;
  return import_set_output(n, 0, v) && import_set_output(n, 1, v ? v + 1 : 0);
}
