/* frontend/onnx/number.c - see number.h.
 *
 * Comparisons are decided by the bounds of a difference; if these are not sufficient, the answer is an expression
 * that is 0 or 1.  Float arithmetic is exact where that of the types is: a numerator is assumed to stay below 2^24,
 * so that f32 holds it.  A quotient by a number that is not a power of two may only be rounded to an integer or
 * compared; below 2^24 its own rounding then makes no difference.
 */
#include "frontend/onnx/number.h"

#include <math.h>

#include "frontend/onnx/assume.h"

static const Number unknown = {NULL, 1};
enum { MAX_COEFFICIENT = 64, MAX_EXACT = 1 << 24, MAX_DENOMINATOR = 1 << 16 };

static Number whole(const Expr *e) { return (Number){e, 1}; }
static Number constant(Module *m, int64_t v) { return whole(ex_const(m, v)); }

static bool get_constant(Number x, int64_t *v) {
  return x.numerator && x.denominator == 1 && ex_get_const(x.numerator, v);
}
static bool is_constant(Number x, int64_t v) {
  return x.numerator && x.denominator == 1 && ex_is_const(x.numerator, v);
}
static bool power_of_two(int64_t x) { return x > 0 && (x & (x - 1)) == 0; }

Number import_number_of_double(Module *m, double v) {
  int64_t denominator = 1;
  while (v != floor(v) && denominator < MAX_DENOMINATOR) v *= 2, denominator *= 2;
  if (!(v == floor(v) && fabs(v) <= MAX_EXACT)) return unknown;
  return (Number){ex_const(m, (int64_t)v), denominator};
}

/* ---- truth */

/* 1 if e, which is not negative, is above 0; else 0. */
static const Expr *above_zero(Module *m, const Expr *e) {
  return known_bounds(m, e).high <= 1 ? e : ex_min(m, e, ex_const(m, 1));
}
static const Expr *not_below_zero(Module *m, const Expr *e) {
  return known_bounds(m, e).low >= 0 ? e : ex_max(m, e, ex_const(m, 0));
}

static const Expr *magnitude(Module *m, const Expr *e) {
  Bounds b = known_bounds(m, e);
  const Expr *negative = ex_muli(m, e, -1);
  return b.low >= 0    ? e
         : b.high <= 0 ? negative
                       : not_below_zero(m, ex_max(m, e, negative)); /* its bound would not be found otherwise */
}

static Number opposite(Module *m, const Expr *truth) { return whole(ex_sub(m, ex_const(m, 1), truth)); }

static Number differ(Module *m, const Expr *x, const Expr *y) {
  if (x == y || known_ne(m, x, y)) return constant(m, x != y);
  return whole(above_zero(m, magnitude(m, ex_sub(m, x, y))));
}

static Number greater(Module *m, const Expr *x, const Expr *y) {
  if (known_gt(m, x, y) || known_ge(m, y, x)) return constant(m, known_gt(m, x, y));
  return whole(above_zero(m, not_below_zero(m, ex_sub(m, x, y))));
}

static Number compare(Module *m, OpKind kind, const Expr *x, const Expr *y) {
  switch (kind) {
    case OP_eq: return opposite(m, differ(m, x, y).numerator);
    case OP_ne: return differ(m, x, y);
    case OP_lt: return greater(m, y, x);
    case OP_le: return opposite(m, greater(m, x, y).numerator);
    case OP_gt: return greater(m, x, y);
    case OP_ge: return opposite(m, greater(m, y, x).numerator);
    default: return unknown;
  }
}

/* Results that one operand alone decides. */
static Number absorbed(Module *m, OpKind kind, DType t, Number x, Number y) {
  bool zero = is_constant(x, 0) || is_constant(y, 0), one = is_constant(x, 1) || is_constant(y, 1);
  if (kind == OP_and && zero) return constant(m, 0);
  if (kind == OP_or && one && t == DT_bool) return constant(m, 1);
  return kind == OP_mul && zero && !dtype_is_float(t) ? constant(m, 0) : unknown;
}

static bool is_truth(Module *m, const Expr *e) {
  Bounds b = known_bounds(m, e);
  return b.low >= 0 && b.high <= 1;
}

static Number logic(Module *m, OpKind kind, Number x, Number y) {
  int64_t a, b;
  if (get_constant(x, &a) && get_constant(y, &b))
    return constant(m, kind == OP_and ? a & b : kind == OP_or ? a | b : a ^ b);
  if (!is_truth(m, x.numerator) || !is_truth(m, y.numerator)) return unknown;
  return kind == OP_and  ? whole(ex_min(m, x.numerator, y.numerator))
         : kind == OP_or ? whole(ex_max(m, x.numerator, y.numerator))
                         : differ(m, x.numerator, y.numerator);
}

/* ---- integers */

/* True if truncating and flooring division agree because nothing is negative: (h - 1) / 4 assumes that h is at least
 * 1. */
static bool divides_plainly(Module *m, const Expr *x, const Expr *y) {
  assume_extent(m, x);
  return known_bounds(m, x).low >= 0 && known_need(m, y, 1);
}

static Number integers(Module *m, OpKind kind, const Expr *x, const Expr *y) {
  switch (kind) {
    case OP_add: return whole(ex_add(m, x, y));
    case OP_sub: return whole(ex_sub(m, x, y));
    case OP_mul: return whole(ex_mul(m, x, y));
    case OP_div: return divides_plainly(m, x, y) ? whole(ex_div_joined(m, x, y)) : unknown;
    case OP_mod: return divides_plainly(m, x, y) ? whole(ex_mod_joined(m, x, y)) : unknown;
    case OP_max: return whole(known_ge(m, x, y) ? x : known_ge(m, y, x) ? y : ex_max(m, x, y));
    case OP_min: return whole(known_ge(m, x, y) ? y : known_ge(m, y, x) ? x : ex_min(m, x, y));
    case OP_and:
    case OP_or:
    case OP_xor: return logic(m, kind, whole(x), whole(y));
    default: return compare(m, kind, x, y);
  }
}

/* For integers and numerators. */
static Number unary(Module *m, OpKind kind, Number x) {
  const Expr *zero = ex_const(m, 0), *e = x.numerator;
  switch (kind) {
    case OP_neg: return (Number){ex_sub(m, zero, e), x.denominator};
    case OP_not: return compare(m, OP_eq, e, zero);
    case OP_abs: return (Number){magnitude(m, e), x.denominator};
    case OP_relu: return (Number){ex_max(m, e, zero), x.denominator};
    case OP_sign: return whole(ex_sub(m, greater(m, e, zero).numerator, greater(m, zero, e).numerator));
    default: return unknown;
  }
}

/* True if the value fits type t.  Wrapping is not modelled: sizes are accepted only for types of 32 bits or more. */
static bool fits(Module *m, DType t, const Expr *e) {
  Bounds b = known_bounds(m, e);
  if (dtype_class(t) == DTC_B) return true;
  int bits = dtype_bits(t);
  if (bits == 64) return dtype_class(t) == DTC_I || b.low >= 0;
  int64_t span = (int64_t)1 << (dtype_class(t) == DTC_I ? bits - 1 : bits);
  if (e->kind != EX_CONST) return bits >= 32; /* sizes are assumed to be below 2^31, as by the exporter */
  return b.high < span && b.low >= (dtype_class(t) == DTC_I ? -span : 0);
}

/* ---- floats */

static bool holds_integers(DType t) { return t == DT_f32 || t == DT_f64; }

static bool few_bits(const Expr *e) {
  bool sum = e->kind == EX_ADD,
       few = e->kind == EX_CONST || sum ? e->value >= -MAX_EXACT && e->value <= MAX_EXACT : true;
  if (e->kind == EX_MUL) few = e->value >= -MAX_COEFFICIENT && e->value <= MAX_COEFFICIENT;
  for (int i = 0; sum && i < e->n; i++) few = few && few_bits(e->args[i]);
  return few;
}

static Number quotient(Module *m, const Expr *numerator, int64_t denominator) {
  const Expr *exact = denominator == 1 ? numerator : ex_exact_div(m, numerator, ex_const(m, denominator));
  if (exact) numerator = exact, denominator = 1;
  return denominator <= MAX_DENOMINATOR && few_bits(numerator) ? (Number){numerator, denominator} : unknown;
}

static Number divided(Module *m, Number x, Number y) {
  int64_t c;
  if (ex_get_const(y.numerator, &c)) {
    if (c == 0 || c < -MAX_DENOMINATOR || c > MAX_DENOMINATOR) return unknown;
    return quotient(m, ex_muli(m, x.numerator, c < 0 ? -y.denominator : y.denominator),
                    x.denominator * (c < 0 ? -c : c));
  }
  const Expr *q = ex_exact_div(m, ex_muli(m, x.numerator, y.denominator), y.numerator);
  return q && known_need(m, y.numerator, 1) ? quotient(m, q, x.denominator) : unknown;
}

static Number floats(Module *m, OpKind kind, Number x, Number y) {
  const Expr *a = ex_muli(m, x.numerator, y.denominator), *b = ex_muli(m, y.numerator, x.denominator);
  int64_t both = x.denominator * y.denominator;
  bool exact = power_of_two(x.denominator) && power_of_two(y.denominator);
  if (op_class(kind) == OC_COMPARE) return compare(m, kind, a, b);
  if (x.denominator == y.denominator) a = x.numerator, b = y.numerator, both = x.denominator;
  if (!exact) return unknown;
  switch (kind) {
    case OP_add: return quotient(m, ex_add(m, a, b), both);
    case OP_sub: return quotient(m, ex_sub(m, a, b), both);
    case OP_max: return quotient(m, ex_max(m, a, b), both);
    case OP_min: return quotient(m, ex_min(m, a, b), both);
    case OP_mul: return quotient(m, ex_mul(m, x.numerator, y.numerator), x.denominator * y.denominator);
    case OP_div: return divided(m, x, y);
    default: return unknown;
  }
}

static Number rounded(Module *m, OpKind kind, Number x) {
  const Expr *d = ex_const(m, x.denominator);
  switch (kind) {
    case OP_floor: return whole(ex_div_joined(m, x.numerator, d));
    case OP_ceil: return whole(ex_ceil_div_joined(m, x.numerator, d));
    case OP_round: return x.denominator == 1 ? x : unknown;
    case OP_isnan:
    case OP_isinf: return constant(m, 0);
    case OP_recip: return power_of_two(x.denominator) ? divided(m, constant(m, 1), x) : unknown;
    default: return power_of_two(x.denominator) ? unary(m, kind, x) : unknown;
  }
}

static Number cast(Module *m, DType from, DType to, Number x) {
  if (to == DT_bool) return compare(m, OP_ne, x.numerator, ex_const(m, 0));
  if (dtype_is_float(to)) return holds_integers(to) && few_bits(x.numerator) ? x : unknown;
  if (!dtype_is_float(from) || x.denominator == 1) return x;
  return known_bounds(m, x.numerator).low >= 0 ? rounded(m, OP_floor, x) : unknown; /* truncation */
}

/* ---- all of them */

/* y + condition * (x - y) if the condition is undecided. */
static Number chosen(Module *m, Number condition, Number x, Number y) {
  int64_t c;
  if (get_constant(condition, &c)) return c ? x : y;
  if (x.numerator == y.numerator && x.denominator == y.denominator) return x;
  if (!condition.numerator || !x.numerator || !y.numerator || x.denominator != 1 || y.denominator != 1) return unknown;
  return whole(ex_add(m, y.numerator, ex_mul(m, condition.numerator, ex_sub(m, x.numerator, y.numerator))));
}

static Number computed(Module *m, OpKind kind, DType from, DType to, const Number *x) {
  OpClass class = op_class(kind);
  if (kind == OP_select) return chosen(m, x[0], x[1], x[2]);
  if (class == OC_BINARY && (!x[0].numerator || !x[1].numerator)) return absorbed(m, kind, to, x[0], x[1]);
  if (!x[0].numerator || ((class == OC_BINARY || class == OC_COMPARE) && !x[1].numerator)) return unknown;
  if (kind == OP_cast) return cast(m, from, to, x[0]);
  if (dtype_is_float(from)) {
    if (!holds_integers(from)) return unknown;
    return class == OC_UNARY ? rounded(m, kind, x[0]) : floats(m, kind, x[0], x[1]);
  }
  if (class == OC_UNARY) return unary(m, kind, x[0]);
  Number decided = class == OC_BINARY ? absorbed(m, kind, to, x[0], x[1]) : unknown;
  return decided.numerator ? decided : integers(m, kind, x[0].numerator, x[1].numerator);
}

Number import_number_pointwise(Module *m, OpKind kind, DType from, DType to, const Number *x) {
  Number y = computed(m, kind, from, to, x);
  return !y.numerator || dtype_is_float(to) || fits(m, to, y.numerator) ? y : unknown;
}

Number import_number_reduce(Module *m, Reduction r, DType t, Number x, Number y) {
  static const OpKind kinds[] = {[RED_SUM] = OP_add, [RED_PRODUCT] = OP_mul, [RED_MAX] = OP_max,
                                 [RED_MIN] = OP_min, [RED_OR] = OP_or,       [RED_AND] = OP_and};
  if (r == RED_NONE || r == RED_ONE) return unknown;
  return import_number_pointwise(m, kinds[r], t, t, (Number[]){x, y});
}
