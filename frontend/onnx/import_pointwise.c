/* frontend/onnx/import_pointwise.c - elementwise ONNX operators. */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import_private.h"

bool import_unary(ImportNode *n) { return import_set_output(n, 0, build_unary(n->b, (OpKind)n->op->arg, input(n, 0))); }

bool import_binary(ImportNode *n) {
  return import_set_output(n, 0, binary(n, (OpKind)n->op->arg, input(n, 0), input(n, 1)));
}

bool import_variadic(ImportNode *n) {
  OpKind kind = (OpKind)n->op->arg;
  if (n->proto->n_input == 1) {
    import_set_alias(n, 0, n->in[0]);
    return true;
  }
  Val x = input(n, 0);
  for (size_t i = 1; i < n->proto->n_input; i++) x = binary(n, kind, x, input(n, i));
  return import_set_output(n, 0, x);
}

bool import_mean(ImportNode *n) {
  Val x = input(n, 0);
  for (size_t i = 1; i < n->proto->n_input; i++) x = binary(n, OP_add, x, input(n, i));
  return import_set_output(n, 0, binary_number(n, OP_div, x, (double)n->proto->n_input));
}

bool import_bitwise_not(ImportNode *n) {
  Val x = input(n, 0), ones = 0;
  if (!x) return false;
  const Type *t = input_type(n, 0);
  if (dtype_class(t->dtype) == DTC_I) ones = build_splat(n->b, t, -1);
  else if (dtype_class(t->dtype) == DTC_U) ones = build_unary(n->b, OP_neg, build_splat(n->b, t, 1));
  else return node_error(n, "not defined for %s", dtype_name(t->dtype));
  return import_set_output(n, 0, build_binary(n->b, OP_xor, x, ones));
}

bool import_bit_shift(ImportNode *n) {
  const char *direction = node_string(n, "direction", "");
  bool left = strcmp(direction, "LEFT") == 0;
  if (!left && strcmp(direction, "RIGHT") != 0)
    return node_error(n, "direction is \"%s\", not LEFT or RIGHT", direction);
  return import_set_output(n, 0, binary(n, left ? OP_shl : OP_shr, input(n, 0), input(n, 1)));
}

/* fmod 0: the result has the sign of the divisor, as in Python; fmod 1: of the dividend, as in C. */
bool import_mod(ImportNode *n) {
  bool like_c = node_int(n, "fmod", 0) != 0;
  DType t = input_type(n, 0)->dtype;
  if (!like_c && dtype_is_float(t) && n->opset < 28) return node_error(n, "fmod must be 1 for %s", dtype_name(t));
  Val x = input(n, 0), y = input(n, 1), r = binary(n, OP_mod, x, y);
  if (like_c || dtype_class(t) == DTC_U) return import_set_output(n, 0, r);
  Val other_sign = binary(n, OP_ne, binary_number(n, OP_lt, r, 0), binary_number(n, OP_lt, y, 0));
  Val wrap = binary(n, OP_and, binary_number(n, OP_ne, r, 0), other_sign);
  r = select3(n, wrap, binary(n, OP_add, r, y), r);
  if (r && dtype_is_float(t)) { /* a zero also has the sign of the divisor */
    Val zero = select3(n, binary_number(n, OP_lt, y, 0), splat_like(n, r, -0.0), splat_like(n, r, 0.0));
    r = select3(n, binary_number(n, OP_eq, r, 0), zero, r);
  }
  return import_set_output(n, 0, r);
}

/* Powers of integers are computed in f64: exact up to 2^53. */
static Val power(ImportNode *n, Val x, Val y) {
  DType t = type_of(n->b->f, x)->dtype, through = dtype_is_float(t) ? t : DT_f64;
  x = build_cast(n->b, x, through);
  return build_cast(n->b, binary(n, OP_pow, x, build_cast(n->b, y, through)), t);
}

bool import_pow(ImportNode *n) {
  double exponent;
  Val x = input(n, 0);
  if (!x) return false;
  if (input_number(n, 1, &exponent) && input_type(n, 1)->rank <= input_type(n, 0)->rank) {
    Val square = exponent == 2 || exponent == 3 ? build_binary(n->b, OP_mul, x, x) : 0;
    if (exponent == 1) return import_set_output(n, 0, x);
    if (exponent == 2) return import_set_output(n, 0, square);
    if (exponent == 3) return import_set_output(n, 0, build_binary(n->b, OP_mul, square, x));
  }
  Val y = input(n, 1);
  return y && import_set_output(n, 0, power(n, x, y));
}

bool import_where(ImportNode *n) { return import_set_output(n, 0, select3(n, input(n, 0), input(n, 1), input(n, 2))); }

/* Converts known integers to floats without a cast. */
static Val cast_known(ImportNode *n, const ImportKnown *k, DType to) {
  int64_t items[KNOWN_MAX];
  double floats[KNOWN_MAX];
  const Type *type = type_with_dtype(n->m, k->type, to);
  if (k->n == 1) return build_size(n->b, type, k->items[0]);
  if (k->n == 0 || !known_constants(k, items)) return 0;
  for (int i = 0; i < k->n; i++) floats[i] = (double)items[i];
  Attr a = attr_floats(n->m, AT_floats, k->n, floats);
  return build_op(n->b, &(OpSpec){.kind = OP_const, .type = type, .nattrs = 1, .attrs = &a});
}

/* ---- casts */

static double largest_of(DType t) {
  switch (t) {
    case DT_f8e4m3fn: return 448;
    case DT_f8e4m3fnuz: return 240;
    case DT_f8e5m2:
    case DT_f8e5m2fnuz: return 57344;
    case DT_f8e8m0: return 0x1p127;
    default: return 0; /* conversions saturate, or have no attribute */
  }
}

/* Rounds f64 to a power of two, away from zero or towards it: the bits of its exponent. */
static Val power_of_two(ImportNode *n, Val x, bool up) {
  const double mantissa = 0x1p52 - 1;
  Val bits = build_bitcast(n->b, x, DT_u64);
  if (up) bits = binary_number(n, OP_add, bits, mantissa);
  Val y = build_bitcast(n->b, binary_number(n, OP_and, bits, 0x1p64 - 0x1p52), DT_f64);
  return select3(n, build_unary(n->b, OP_isnan, x), x, y);
}

/* To powers of two; numbers below the smallest become it, or NaN without saturation. */
static Val cast_to_power(ImportNode *n, Val x, bool saturate) {
  const char *mode = node_string(n, "round_mode", "up");
  const double least = 0x1p-127;
  bool nearest = strcmp(mode, "nearest") == 0, up = strcmp(mode, "up") == 0;
  if (!nearest && !up && strcmp(mode, "down") != 0) return node_error(n, "round_mode \"%s\" is not supported", mode), 0;
  x = build_cast(n->b, x, DT_f64);
  if (!nearest) x = power_of_two(n, x, up);
  if (saturate) x = clamp(n, x, splat_like(n, x, least), splat_like(n, x, largest_of(DT_f8e8m0)));
  else x = select3(n, binary_number(n, OP_lt, x, least), splat_like(n, x, (double)NAN), x);
  return build_cast(n->b, x, DT_f8e8m0);
}

Val import_cast_value(ImportNode *n, Val x, DType to) {
  if (!x) return 0;
  DType from = type_of(n->b->f, x)->dtype;
  const bool saturate = node_int(n, "saturate", 1) != 0;
  const double largest = largest_of(to);
  if (from == to) return x;
  if (to == DT_bool) return to_bool(n, build_cast(n->b, x, dtype_computes(from) ? from : dtype_held(from)));
  /* Out of range is undefined, and 4 and 2 bits are usually made by wrapping, as ml_dtypes does. */
  if (dtype_is_float(from) && !dtype_is_float(to) && dtype_bits(to) < 8) x = build_cast(n->b, x, DT_i32);
  if (to == DT_f8e8m0) return cast_to_power(n, x, saturate);
  if (largest == 0 || !saturate) return build_cast(n->b, x, to);
  if (!dtype_is_float(from)) x = build_cast(n->b, x, DT_f64);
  else if (!dtype_computes(from)) x = build_cast(n->b, x, DT_f32);
  return build_cast(n->b, clamp(n, x, splat_like(n, x, -largest), splat_like(n, x, largest)), to);
}

static bool cast_to(ImportNode *n, DType to) {
  ImportKnown k = input_known(n, 0);
  double value;
  if (k.items && dtype_is_float(to) && dtype_computes(to) && dtype_class(k.type->dtype) != DTC_B) {
    Val v = k.n == 1 && input_number(n, 0, &value) ? build_splat(n->b, type_with_dtype(n->m, k.type, to), value)
                                                   : cast_known(n, &k, to);
    if (v) return import_set_output(n, 0, v);
  }
  if (input_type(n, 0)->dtype == to) {
    import_set_alias(n, 0, n->in[0]);
    return true;
  }
  return import_set_output(n, 0, import_cast_value(n, input(n, 0), to));
}

bool import_cast(ImportNode *n) {
  DType to;
  return node_dtype(n, "to", &to) && cast_to(n, to);
}

bool import_cast_like(ImportNode *n) { return cast_to(n, input_type(n, 1)->dtype); }

/* Integers of another sign stay known. */
bool import_bitcast(ImportNode *n) {
  const DType from = input_type(n, 0)->dtype;
  DType to;
  if (!node_dtype(n, "to", &to)) return false;
  if (dtype_bits(from) != dtype_bits(to))
    return node_error(n, "an element of %s has not as many bits as one of %s", dtype_name(from), dtype_name(to));
  if (from == to || (!dtype_is_float(from) && !dtype_is_float(to) && to != DT_bool)) return cast_to(n, to);
  return import_set_output(n, 0, build_bitcast(n->b, input(n, 0), to));
}

bool import_clip(ImportNode *n) {
  Val x = input(n, 0), low = 0, high = 0;
  if (!x) return false;
  if (n->opset < 11) {
    low = has_attr(n, "min") ? splat_like(n, x, node_float(n, "min", 0)) : 0;
    high = has_attr(n, "max") ? splat_like(n, x, node_float(n, "max", 0)) : 0;
  } else {
    if (has_input(n, 1) && !(low = input(n, 1))) return false;
    if (has_input(n, 2) && !(high = input(n, 2))) return false;
  }
  return import_set_output(n, 0, clamp(n, x, low, high));
}

bool import_is_inf(ImportNode *n) {
  bool negative = node_int(n, "detect_negative", 1) != 0, positive = node_int(n, "detect_positive", 1) != 0;
  Val x = input(n, 0);
  if (!x) return false;
  if (negative && positive) return import_set_output(n, 0, build_unary(n->b, OP_isinf, x));
  if (!negative && !positive)
    return import_set_output(n, 0, build_splat(n->b, type_with_dtype(n->m, input_type(n, 0), DT_bool), 0));
  return import_set_output(n, 0, binary_number(n, OP_eq, x, positive ? INFINITY : -INFINITY));
}
