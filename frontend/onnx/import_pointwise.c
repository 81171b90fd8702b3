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

static bool cast_to(ImportNode *n, DType to) {
  ImportKnown k = input_known(n, 0);
  double value;
  if (k.items && dtype_is_float(to) && dtype_class(k.type->dtype) != DTC_B) {
    Val v = k.n == 1 && input_number(n, 0, &value) ? build_splat(n->b, type_with_dtype(n->m, k.type, to), value)
                                                   : cast_known(n, &k, to);
    if (v) return import_set_output(n, 0, v);
  }
  if (input_type(n, 0)->dtype == to) {
    import_set_alias(n, 0, n->in[0]);
    return true;
  }
  Val x = input(n, 0);
  return x && import_set_output(n, 0, to == DT_bool ? to_bool(n, x) : build_cast(n->b, x, to));
}

bool import_cast(ImportNode *n) {
  DType to;
  return node_dtype(n, "to", &to) && cast_to(n, to);
}

bool import_cast_like(ImportNode *n) { return cast_to(n, input_type(n, 1)->dtype); }

/* The same bits as an integer of another sign, or a bool as an integer.  Not done: bits of floats. */
bool import_bitcast(ImportNode *n) {
  const Type *t = input_type(n, 0);
  DType to;
  if (!node_dtype(n, "to", &to)) return false;
  bool same = t->dtype == to, floats = dtype_is_float(t->dtype) || dtype_is_float(to);
  if (dtype_bytes(t->dtype) != dtype_bytes(to) || (!same && (floats || to == DT_bool)))
    return node_error(n, "the bits of %s as %s are not supported", dtype_name(t->dtype), dtype_name(to));
  return cast_to(n, to);
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
