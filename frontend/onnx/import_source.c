/* frontend/onnx/import_source.c - ONNX operators that create values from attributes, shapes or positions.
 *
 * Masks and positions are iota, compare and select over symbolic extents, so no tensor of the size of an activation
 * is stored.
 */
#include <math.h>
#include <string.h>

#include "frontend/onnx/counted.h"

static const int64_t EXACT = INT64_C(1) << 53; /* integers up to here are exact as doubles, which splats store */

/* ---- constants */

static Val float_list(ImportNode *n, const Type *type, size_t count, const float *list) {
  double *copy = ARENA_ARRAY(n->m->arena, double, count);
  for (size_t i = 0; i < count; i++) copy[i] = (double)list[i];
  if (count == 1) return build_splat(n->b, type, copy[0]);
  Attr a = {.key = AT_floats, .n = (int)count, .u.floats = copy};
  return build_op(n->b, &(OpSpec){.kind = OP_const, .type = type, .nattrs = 1, .attrs = &a});
}

static bool constant_tensor(ImportNode *n, const Onnx__TensorProto *t) {
  bool ok;
  const char *name = n->out[0] ? n->out[0]->name : n->name;
  ImportItem item = item_of_tensor(n, t, name, &ok);
  if (ok) import_set_tensor(n, 0, &item);
  return ok;
}

static bool constant_int_list(ImportNode *n, int rank, int count, const int64_t *list) {
  if (count <= KNOWN_MAX) return import_set_known(n, 0, known_ints(n->m, DT_i64, rank, (int64_t[]){count}, list));
  Attr a = attr_ints(n->m, AT_ints, count, list);
  const Type *type = type_of_ints(n->m, DT_i64, 1, (int64_t[]){count});
  return import_set_output(n, 0, build_op(n->b, &(OpSpec){.kind = OP_const, .type = type, .nattrs = 1, .attrs = &a}));
}

bool import_constant(ImportNode *n) {
  if (n->proto->n_attribute != 1) return node_error(n, "%zu attributes; one value is expected", n->proto->n_attribute);
  const Onnx__AttributeProto *a = n->proto->attribute[0];
  if (strcmp(a->name, "value") == 0) {
    const Onnx__TensorProto *t = node_tensor(n, "value");
    return t && constant_tensor(n, t);
  }
  if (strcmp(a->name, "value_int") == 0) return constant_int_list(n, 0, 1, (int64_t[]){node_int(n, "value_int", 0)});
  if (strcmp(a->name, "value_ints") == 0) {
    int count;
    const int64_t *list = node_ints(n, "value_ints", &count);
    return count >= 0 && constant_int_list(n, 1, count, list);
  }
  bool scalar = strcmp(a->name, "value_float") == 0;
  size_t count = scalar ? 1 : a->n_floats;
  const Type *type = type_of_ints(n->m, DT_f32, scalar ? 0 : 1, (int64_t[]){(int64_t)count});
  return import_set_output(n, 0, float_list(n, type, count, scalar ? &a->f : a->floats));
}

/* Reads the only element of a tensor attribute as a splat; f32 zero if absent. */
static bool fill_value(ImportNode *n, DType *dtype, double *f, int64_t *i) {
  const Onnx__TensorProto *t = node_tensor(n, "value");
  *dtype = DT_f32, *f = 0, *i = 0;
  if (!t) return !n->failed;
  bool ok;
  ImportItem item = item_of_tensor(n, t, n->name, &ok);
  if (!ok) return false;
  if (item.data.elements != 1)
    return node_error(n, "value has %llu elements, not 1", (unsigned long long)item.data.elements);
  const uint8_t *p = onnx_file_bytes(import_file(n->im), &item.data);
  *dtype = item.data.dtype;
  if (dtype_is_float(*dtype)) *f = dtype_load_f(*dtype, p);
  else *f = (double)(*i = dtype_load_i(*dtype, p));
  return true;
}

bool import_constant_of_shape(ImportNode *n) {
  ImportKnown shape;
  DType dtype;
  double f;
  int64_t i, elements;
  if (!input_shape(n, 0, "the shape", &shape) || !fill_value(n, &dtype, &f, &i)) return false;
  const Type *type = type_get(n->m, dtype, shape.n, shape.items);
  bool exact = dtype_is_float(dtype) || (i >= (dtype_class(dtype) == DTC_U ? 0 : -EXACT) && i <= EXACT);
  if (!exact) return import_set_output(n, 0, build_size(n->b, type, ex_const(n->m, i)));
  if (!dtype_is_float(dtype) && ex_get_const(type_elements(n->m, type), &elements) && elements <= KNOWN_MAX) {
    const Expr *items[KNOWN_MAX];
    for (int k = 0; k < elements; k++) items[k] = ex_const(n->m, i);
    return import_set_known(n, 0, known_make(n->m, type, items));
  }
  return import_set_output(n, 0, build_splat(n->b, type, f));
}

/* ---- shapes */

bool import_shape(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int64_t start = node_int(n, "start", 0), end = node_int(n, "end", t->rank);
  start = start < 0 ? start + t->rank : start;
  end = end < 0 ? end + t->rank : end;
  start = start < 0 ? 0 : start > t->rank ? t->rank : start;
  end = end < start ? start : end > t->rank ? t->rank : end;
  const Type *type = type_of_ints(n->m, DT_i64, 1, (int64_t[]){end - start});
  return import_set_known(n, 0, known_make(n->m, type, t->dims + start));
}

bool import_size(ImportNode *n) {
  const Expr *elements = type_elements(n->m, input_type(n, 0));
  return import_set_known(n, 0, known_make(n->m, type_of_ints(n->m, DT_i64, 0, NULL), &elements));
}

/* ---- positions */

/* start + indices * step, over one dimension. */
static Val progression(ImportNode *n, const Type *type, Val start, Val step) {
  Val i = build_cast(n->b, iota_i64(n, 1, type->dims, 0), type->dtype);
  return binary(n, OP_add, binary(n, OP_mul, i, step), start);
}

static bool known_range(ImportNode *n, const ImportKnown *start, const ImportKnown *limit, const ImportKnown *step) {
  Module *m = n->m;
  int64_t by, count;
  if (!ex_get_const(step->items[0], &by) || by == 0 || by == INT64_MIN) return false;
  const Expr *length =
      by > 0 ? ex_sub(m, limit->items[0], start->items[0]) : ex_sub(m, start->items[0], limit->items[0]);
  length = ex_ceil_div(m, length, ex_const(m, by > 0 ? by : -by));
  if (known_bounds(m, length).low < 0) length = ex_max(m, length, ex_const(m, 0));
  const Type *type = type_get(m, start->type->dtype, 1, &length);
  if (ex_get_const(length, &count) && count <= KNOWN_MAX) {
    const Expr *items[KNOWN_MAX];
    for (int i = 0; i < count; i++) items[i] = ex_add(m, start->items[0], ex_const(m, i * by));
    return import_set_known(n, 0, known_make(m, type, items));
  }
  if (by == 1 && ex_is_const(start->items[0], 0)) return import_set_output(n, 0, build_iota(n->b, type, 0));
  return import_set_output(n, 0, progression(n, type, input(n, 0), input(n, 2)));
}

bool import_range(ImportNode *n) {
  ImportKnown start = input_known(n, 0), limit = input_known(n, 1), step = input_known(n, 2);
  double f[3];
  if (start.n == 1 && limit.n == 1 && step.n == 1 && known_range(n, &start, &limit, &step)) return true;
  for (size_t i = 0; i < 3; i++)
    if (!input_number(n, i, &f[i]))
      return input_refused(n, i, i == 0 ? "the start" : i == 1 ? "the limit" : "the step");
  double count = f[2] != 0 ? ceil((f[1] - f[0]) / f[2]) : -1;
  if (!(count >= 0)) count = f[2] != 0 && !isnan(count) ? 0 : -1;
  if (count < 0) return node_error(n, "there is no range from %g to %g by %g", f[0], f[1], f[2]);
  int64_t extent;
  if (!node_extent(n, count, &extent)) return false;
  const Type *type = type_of_ints(n->m, input_type(n, 0)->dtype, 1, &extent);
  return import_set_output(n, 0, progression(n, type, input(n, 0), input(n, 2)));
}

/* Row and column numbers of the last two dimensions; k is subtracted from the column. */
static bool rows_and_columns(ImportNode *n, const Type *t, int64_t k, Val *row, Val *column) {
  *row = iota_i64(n, 2, t->dims + t->rank - 2, 0);
  *column = iota_i64(n, 2, t->dims + t->rank - 2, 1);
  if (k) *column = binary_number(n, OP_sub, *column, (double)k);
  return *row && *column;
}

bool import_trilu(ImportNode *n) {
  Val x = input(n, 0), row, column;
  const Type *t = input_type(n, 0);
  int64_t k[KNOWN_MAX] = {0};
  int count = 1;
  if (!x) return false;
  if (t->rank < 2) return node_error(n, "needs a matrix, not %s", import_type_string(n->m, t));
  if (has_input(n, 1) && !input_ints(n, 1, "k", k, &count)) return false;
  if (count != 1) return node_error(n, "k has %d elements", count);
  if (!rows_and_columns(n, t, k[0], &row, &column)) return false;
  Val keep = build_binary(n->b, node_int(n, "upper", 1) ? OP_ge : OP_le, column, row);
  return import_set_output(n, 0, select3(n, keep, x, splat_like(n, x, 0)));
}

bool import_eye_like(ImportNode *n) {
  const Type *t = input_type(n, 0);
  DType dtype = t->dtype;
  Val row, column;
  if (has_attr(n, "dtype") && !node_dtype(n, "dtype", &dtype)) return false;
  if (t->rank != 2) return node_error(n, "needs a matrix, not %s", import_type_string(n->m, t));
  if (!rows_and_columns(n, t, node_int(n, "k", 0), &row, &column)) return false;
  Val on = build_binary(n->b, OP_eq, column, row);
  return import_set_output(n, 0, dtype == DT_bool ? on : build_cast(n->b, on, dtype));
}

/* values = [off, on]; negative indices count from the end. */
bool import_one_hot(ImportNode *n) {
  ImportKnown depth;
  int axis = 0;
  Val index = input(n, 0), values = input(n, 2);
  const Type *t = input_type(n, 0);
  double number;
  int64_t rounded;
  if (!index || !values) return false;
  if (t->rank == MAX_RANK) return node_error(n, "a result of %d dimensions", t->rank + 1);
  if (!input_known(n, 1).items && input_number(n, 1, &number)) {
    if (!node_extent(n, number, &rounded)) return false;
    depth = known_ints(n->m, DT_i64, 0, NULL, &rounded);
  } else if (!input_shape(n, 1, "the depth", &depth)) {
    return false;
  }
  if (depth.n != 1 || !node_axis(n, node_int(n, "axis", -1), t->rank + 1, &axis)) return false;
  const Expr *dims[MAX_RANK];
  for (int d = 0; d <= t->rank; d++) dims[d] = d == axis ? depth.items[0] : t->dims[d - (d > axis)];
  index = build_cast(n->b, index, DT_i64);
  const Type *ti = type_of(n->b->f, index);
  Val wrapped = build_binary(n->b, OP_add, index, build_size(n->b, ti, depth.items[0]));
  index = select3(n, binary_number(n, OP_lt, index, 0), wrapped, index);
  Val wide = broadcast(n, insert_dims(n, index, 1u << axis, t->rank + 1), t->rank + 1, dims);
  Val hit = binary(n, OP_eq, wide, iota_i64(n, t->rank + 1, dims, axis));
  const Expr *one = ex_const(n->m, 1), *zero = ex_const(n->m, 0);
  Val off = build_reshape(n->b, build_slice(n->b, values, 0, zero, one, 1), 0, NULL);
  Val on = build_reshape(n->b, build_slice(n->b, values, 0, one, one, 1), 0, NULL);
  return import_set_output(n, 0, select3(n, hit, on, off));
}

bool import_known_non_zero(ImportNode *n) {
  const Type *t = input_type(n, 0);
  const ImportFact *f = input_fact(n, 0);
  bool floats = dtype_is_float(t->dtype);
  int64_t count = 0, c = 0, rank = t->rank;
  for (int64_t i = 0; i < f->n; i++) count += floats ? f->cells[i].f != 0 : f->cells[i].i != 0;
  int64_t *out = ARENA_ARRAY(n->m->arena, int64_t, count * rank);
  for (int64_t i = 0; i < f->n; i++) {
    if (floats ? f->cells[i].f == 0 : f->cells[i].i == 0) continue;
    int64_t at = i;
    for (int64_t d = rank - 1; d >= 0; d--) {
      out[d * count + c] = at % t->dims[d]->value;
      at /= t->dims[d]->value;
    }
    c++;
  }
  const Type *type = type_of_ints(n->m, DT_i64, 2, (int64_t[]){rank, count});
  if (count * rank <= KNOWN_MAX)
    return import_set_known(n, 0, known_ints(n->m, DT_i64, 2, (int64_t[]){rank, count}, out));
  Attr a = attr_ints(n->m, AT_ints, (int)(count * rank), out);
  return import_set_output(n, 0, build_op(n->b, &(OpSpec){.kind = OP_const, .type = type, .nattrs = 1, .attrs = &a}));
}
