/* frontend/onnx/import_quantize.c - quantised tensors: integers with a scale and a zero point.
 *
 * Products and convolutions of quantised operands are exact: they subtract the zero points and use an i32 dot or an
 * f64 convolution (the IR convolves only floats; f64 holds these sums up to 2^53).  Scales are applied in f32: a
 * rounded quotient (ties to even), plus the zero point, saturated by the cast to the narrow type.  In f32 the sums
 * of QLinear* are exact up to 2^24, and larger ones have 24 bits.  Floats of 8 and 4 bits are quotients, converted as
 * Cast does; their zero points are usually 0, which is not added, so that -0 stays.
 */
#include "frontend/onnx/import_private.h"

/* Broadcasts a scale or zero point against a tensor of that rank: one per tensor (one element), or one per index of
 * `axis`. */
static Val spread(ImportNode *n, Val v, int axis, int rank) {
  if (!v) return 0;
  const Type *t = type_of(n->b->f, v);
  if (t->rank == 0) return v;
  if (ex_is_const(type_elements(n->m, t), 1)) return build_reshape(n->b, v, 0, NULL);
  if (t->rank != 1 || axis < 0 || axis >= rank) {
    node_error(n, "a scale or zero point cannot be %s", import_type_string(n->m, t));
    return 0;
  }
  return insert_dims(n, v, ((1u << rank) - 1) & ~(1u << axis), rank);
}

/* Repeats a scale or zero point per block of `size` along the axis over its block, cropped to the operand. */
static Val spread_blocks(ImportNode *n, Val v, const Type *like, int axis, int64_t size) {
  if (!v) return 0;
  const Type *t = type_of(n->b->f, v);
  const Expr *split[MAX_RANK], *wide[MAX_RANK], *dims[MAX_RANK];
  bool fits = t->rank == like->rank && t->rank < MAX_RANK && size >= 1 && size <= INT32_MAX;
  for (int d = 0; fits && d < t->rank; d++)
    fits = d == axis ? equal_extents(n, t->dims[d], ex_ceil_div(n->m, like->dims[d], ex_const(n->m, size)))
                     : equal_extents(n, t->dims[d], like->dims[d]);
  if (!fits) {
    node_error(n, "%s does not fit blocks of %lld of %s", import_type_string(n->m, t), (long long)size,
               import_type_string(n->m, like));
    return 0;
  }
  for (int d = 0; d <= t->rank; d++) split[d] = wide[d] = t->dims[d <= axis ? d : d - 1];
  split[axis + 1] = ex_const(n->m, 1), wide[axis + 1] = ex_const(n->m, size);
  for (int d = 0; d < t->rank; d++) dims[d] = t->dims[d];
  dims[axis] = ex_muli(n->m, t->dims[axis], size);
  v = build_reshape(n->b, broadcast(n, build_reshape(n->b, v, t->rank + 1, split), t->rank + 1, wide), t->rank, dims);
  return dims[axis] == like->dims[axis] ? v : build_slice(n->b, v, axis, ex_const(n->m, 0), like->dims[axis], 1);
}

/* Broadcasts input i, a scale or zero point, against input 0; 0 if absent. */
static Val factor(ImportNode *n, size_t i, int axis) {
  int64_t size = node_int(n, "block_size", 0);
  const Type *t = input_type(n, 0);
  if (!has_input(n, i)) return 0;
  return size ? spread_blocks(n, input(n, i), t, axis, size) : spread(n, input(n, i), axis, t->rank);
}

/* round(x) + zero, saturated to `to`; x is f32, zero has type `to` or is 0. */
static Val rounded(ImportNode *n, Val x, Val zero, DType to) {
  Val q = build_unary(n->b, OP_round, x);
  if (zero) q = binary(n, OP_add, q, build_cast(n->b, zero, DT_f32));
  return q ? build_cast(n->b, q, to) : 0;
}

static Val quantized(ImportNode *n, Val x, Val scale, Val zero, DType to) {
  return rounded(n, binary(n, OP_div, x, scale), zero, to);
}

static bool scaled_axis(ImportNode *n, int *axis) {
  int rank = input_type(n, 0)->rank;
  int64_t at = node_int(n, "axis", 1);
  bool whole = ex_is_const(type_elements(n->m, input_type(n, 1)), 1);
  *axis = 0;
  return (whole && !node_int(n, "block_size", 0)) || node_axis(n, at, rank, axis);
}

/* True for a zero point that is 0 everywhere. */
static bool is_zero(ImportNode *n, size_t i) {
  const ImportFact *f = input_fact(n, i);
  bool floats = dtype_is_float(input_type(n, i)->dtype), zero = f && f->kind == FACT_CONSTANT;
  for (int64_t k = 0; zero && k < f->n; k++) zero = floats ? f->cells[k].f == 0 : f->cells[k].i == 0;
  return zero;
}

/* x / scale in the precision of the attribute, else of the scale, in f32.  Narrow floats are divided in f32, whose
 * rounding changes no quotient of theirs, and rounded. */
static Val quotient(ImportNode *n, Val scale) {
  DType of_scale = input_type(n, 1)->dtype, precision = of_scale;
  if (node_int(n, "precision", 0) != 0 && !node_dtype(n, "precision", &precision)) return 0;
  if (!dtype_is_float(precision) || !dtype_computes(precision)) precision = DT_f32;
  const DType in = precision == DT_f64 ? DT_f64 : DT_f32;
  Val x = build_cast(n->b, build_cast(n->b, input(n, 0), precision), in);
  x = binary(n, OP_div, x, build_cast(n->b, build_cast(n->b, scale, precision), in));
  return x ? build_cast(n->b, build_cast(n->b, x, precision), DT_f32) : 0;
}

bool import_quantize_linear(ImportNode *n) {
  int axis;
  DType to = DT_u8;
  if (!scaled_axis(n, &axis)) return false;
  if (node_int(n, "output_dtype", 0) != 0 && !node_dtype(n, "output_dtype", &to)) return false;
  if (has_input(n, 2)) to = input_type(n, 2)->dtype;
  Val x = quotient(n, factor(n, 1, axis)), zero = factor(n, 2, axis);
  if (!x || (has_input(n, 2) && !zero)) return false;
  if (!dtype_is_float(to)) return import_set_output(n, 0, rounded(n, x, zero, to));
  if (zero && !is_zero(n, 2)) x = binary(n, OP_add, x, build_cast(n->b, zero, DT_f32));
  return import_set_output(n, 0, import_cast_value(n, x, to));
}

/* x - zero as i32, exactly. */
static Val centred(ImportNode *n, Val x, Val zero) {
  x = build_cast(n->b, x, DT_i32);
  return zero ? binary(n, OP_sub, x, build_cast(n->b, zero, DT_i32)) : x;
}

/* The result has the type of the scale, or `output_dtype`.  The product is computed in f32, for f64 in f64, and rounded
 * once: a factor need not fit a narrower type. */
bool import_dequantize_linear(ImportNode *n) {
  int axis;
  DType to = input_type(n, 1)->dtype;
  const bool floats = dtype_is_float(input_type(n, 0)->dtype);
  if (!scaled_axis(n, &axis)) return false;
  if (node_int(n, "output_dtype", 0) != 0 && !node_dtype(n, "output_dtype", &to)) return false;
  if (!dtype_computes(to)) return node_error(n, "a result of %s: output_dtype is missing", dtype_name(to));
  Val zero = factor(n, 2, axis), scale = factor(n, 1, axis), x = input(n, 0);
  if (has_input(n, 2) && !zero) return false;
  if (!floats) x = centred(n, x, zero);
  else if (zero && !is_zero(n, 2)) x = binary(n, OP_sub, build_cast(n->b, x, DT_f32), build_cast(n->b, zero, DT_f32));
  const DType in = to == DT_f64 ? DT_f64 : DT_f32;
  x = x ? binary(n, OP_mul, build_cast(n->b, x, in), build_cast(n->b, scale, in)) : 0;
  return import_set_output(n, 0, x ? build_cast(n->b, x, to) : 0);
}

/* Quantises to u8 over the range of the data, extended to contain 0; a tensor of zeros has the scale 1. */
bool import_dynamic_quantize_linear(ImportNode *n) {
  Val x = input(n, 0);
  unsigned all = (1u << input_type(n, 0)->rank) - 1;
  Val high = binary_number(n, OP_max, import_reduce_axes(n, RED_MAX, x, all, false), 0);
  Val low = binary_number(n, OP_min, import_reduce_axes(n, RED_MIN, x, all, false), 0);
  Val scale = binary_number(n, OP_div, binary(n, OP_sub, high, low), 255);
  if (!scale) return false;
  scale = select3(n, binary_number(n, OP_eq, scale, 0), splat_like(n, scale, 1), scale);
  Val zero = quantized(n, build_unary(n->b, OP_neg, low), scale, 0, DT_u8);
  return import_set_output(n, 0, quantized(n, x, scale, zero, DT_u8)) && import_set_output(n, 1, scale) &&
         import_set_output(n, 2, zero);
}

/* ---- products */

/* The zero point of a matrix operand: one for all of it, or one per row (left operand) or column (right). */
static Val zero_of(ImportNode *n, size_t i, const Type *of, bool rows) {
  if (!has_input(n, i)) return 0;
  Val zero = input(n, i);
  const Type *t = input_type(n, i);
  if (t->rank == 1 && !ex_is_const(t->dims[0], 1)) return spread(n, zero, rows ? of->rank - 2 : of->rank - 1, of->rank);
  return t->rank == 1 ? build_reshape(n->b, zero, 0, NULL) : zero;
}

bool import_matmul_integer(ImportNode *n) {
  Val x = centred(n, input(n, 0), zero_of(n, 2, input_type(n, 0), true));
  return import_set_output(n, 0, matmul(n, x, centred(n, input(n, 1), zero_of(n, 3, input_type(n, 1), false))));
}

/* Convolves i32 operands exactly, with an i32 result. */
static Val exact_convolution(ImportNode *n, Val x, Val weights) {
  Val sums = x && weights ? convolution(n, build_cast(n->b, x, DT_f64), build_cast(n->b, weights, DT_f64)) : 0;
  return sums ? build_cast(n->b, sums, DT_i32) : 0;
}

bool import_conv_integer(ImportNode *n) {
  Val x = centred(n, input(n, 0), has_input(n, 2) ? spread(n, input(n, 2), 1, input_type(n, 0)->rank) : 0);
  Val weights = centred(n, input(n, 1), has_input(n, 3) ? spread(n, input(n, 3), 0, input_type(n, 1)->rank) : 0);
  return import_set_output(n, 0, exact_convolution(n, x, weights));
}

/* Applies the scales of both operands to i32 sums and quantises them like the output. */
static Val requantized(ImportNode *n, Val sums, Val scale_x, Val scale_w, size_t output) {
  Val scale = binary(n, OP_div, binary(n, OP_mul, scale_x, scale_w), spread(n, input(n, output), 0, 0));
  Val x = sums ? binary(n, OP_mul, build_cast(n->b, sums, DT_f32), build_cast(n->b, scale, DT_f32)) : 0;
  return rounded(n, x, spread(n, input(n, output + 1), 0, 0), input_type(n, output + 1)->dtype);
}

bool import_qlinear_matmul(ImportNode *n) {
  const Type *ta = input_type(n, 0), *tb = input_type(n, 3);
  Val x = centred(n, input(n, 0), zero_of(n, 2, ta, true)), y = centred(n, input(n, 3), zero_of(n, 5, tb, false));
  return import_set_output(n, 0, requantized(n, matmul(n, x, y), zero_of(n, 1, ta, true), zero_of(n, 4, tb, false), 6));
}

bool import_qlinear_conv(ImportNode *n) {
  int rank = input_type(n, 0)->rank;
  Val x = centred(n, input(n, 0), spread(n, input(n, 2), 1, rank));
  Val weights = centred(n, input(n, 3), spread(n, input(n, 5), 0, rank));
  Val sums = exact_convolution(n, x, weights);
  if (has_input(n, 8)) sums = binary(n, OP_add, sums, spread(n, input(n, 8), 1, rank));
  return import_set_output(n, 0,
                           requantized(n, sums, spread(n, input(n, 1), 0, rank), spread(n, input(n, 4), 1, rank), 6));
}

/* ---- operators of ONNX Runtime */

/* Input i with its scale and zero point, the next two inputs, in f32. */
static Val dequantized(ImportNode *n, size_t i) {
  Val x = centred(n, input(n, i), has_input(n, i + 2) ? spread(n, input(n, i + 2), 0, 0) : 0);
  return x ? binary(n, OP_mul, build_cast(n->b, x, DT_f32), spread(n, input(n, i + 1), 0, 0)) : 0;
}

/* Inputs: scale and zero point of the result, then tensors, each followed by its own. */
bool import_qlinear_concat(ImportNode *n) {
  size_t count = (n->proto->n_input - 2) / 3;
  int axis = 0;
  if (n->proto->n_input != 2 + 3 * count || !count || !has_input(n, 1))
    return node_error(n, "%zu inputs", n->proto->n_input);
  Val *parts = ARENA_ARRAY(n->m->arena, Val, count);
  for (size_t i = 0; i < count; i++)
    if (!has_input(n, 2 + 3 * i) || !has_input(n, 3 + 3 * i) || !(parts[i] = dequantized(n, 2 + 3 * i)))
      return node_error(n, "tensor %zu has no scale", i);
  if (!node_axis(n, node_int(n, "axis", 0), input_type(n, 2)->rank, &axis)) return false;
  Val x = count > MAX_OPERANDS ? 0 : build_concat(n->b, (int)count, parts, axis);
  if (!x) return node_error(n, "%zu tensors", count);
  return import_set_output(
      n, 0, quantized(n, x, spread(n, input(n, 0), 0, 0), spread(n, input(n, 1), 0, 0), input_type(n, 1)->dtype));
}

/* Before operator set 13 the softmax is over all dimensions from `axis` on, as for Softmax. */
bool import_qlinear_softmax(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int64_t set = node_int(n, "opset", 0);
  int axis = 0;
  if (set < 1) return node_error(n, "opset cannot be %lld", (long long)set);
  if (!node_axis(n, node_int(n, "axis", set < 13 ? 1 : -1), t->rank, &axis)) return false;
  const Expr *flat[] = {type_product(n->m, t, 0, axis), type_product(n->m, t, axis, t->rank)};
  Val x = dequantized(n, 0);
  if (set < 13 && x) x = build_reshape(n->b, x, 2, flat);
  Attr over = attr_i(AT_axis, set < 13 ? 1 : axis);
  x = x ? build_op(n->b, &(OpSpec){.kind = OP_softmax, .nin = 1, .in = &x, .nattrs = 1, .attrs = &over}) : 0;
  x = x ? build_reshape(n->b, x, t->rank, t->dims) : 0;
  return import_set_output(n, 0, quantized(n, x, spread(n, input(n, 3), 0, 0), spread(n, input(n, 4), 0, 0), t->dtype));
}
