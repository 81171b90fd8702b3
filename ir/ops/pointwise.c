/* ir/ops/pointwise.c - elementwise operations: unary, binary, compare, select, cast, copy.
 *
 * The first three are defined by their row of ir/ops.def: one record for each class, and one loop per row and domain,
 * generated from the row's expressions.
 */
#include <math.h>
#include <string.h>

#include "ir/ops/record.h"

/* ---- result types */

/* The classes a row accepts: "FI" and so on. */
static bool class_accepted(const char *classes, DType t) {
  DTypeClass k = dtype_class(t);
  return strchr(classes, k == DTC_F ? 'F' : k == DTC_B ? 'B' : 'I') != NULL;
}

static const struct {
  const char *classes, *linear;
} rows[OP_COUNT] = {
#define UNARY(name, classes, linear, cost, f, i, doc) [OP_##name] = {classes, linear},
#define BINARY(name, classes, linear, cost, f, i, doc) [OP_##name] = {classes, linear},
#include "ir/ops.def"
};

static const Type *infer_unary(const Infer *c) {
  if (!class_accepted(rows[c->spec->kind].classes, c->in[0]->dtype))
    return infer_fail(c, "not defined for %s", dtype_name(c->in[0]->dtype));
  if (c->spec->kind == OP_isnan || c->spec->kind == OP_isinf) return type_with_dtype(c->m, c->in[0], DT_bool);
  return c->in[0];
}

static const Type *infer_binary(const Infer *c) {
  if (c->in[0] != c->in[1])
    return infer_fail(c, "operands differ: %s and %s", infer_text(c, c->in[0]), infer_text(c, c->in[1]));
  if (!class_accepted(rows[c->spec->kind].classes, c->in[0]->dtype))
    return infer_fail(c, "not defined for %s", dtype_name(c->in[0]->dtype));
  return c->in[0];
}

static const Type *infer_compare(const Infer *c) {
  if (c->in[0] != c->in[1])
    return infer_fail(c, "operands differ: %s and %s", infer_text(c, c->in[0]), infer_text(c, c->in[1]));
  return type_with_dtype(c->m, c->in[0], DT_bool);
}

static bool equal_dims(const Type *a, const Type *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

static const Type *infer_select(const Infer *c) {
  if (c->in[0]->dtype != DT_bool) return infer_fail(c, "the condition is %s, not bool", dtype_name(c->in[0]->dtype));
  if (c->in[1] != c->in[2] || !equal_dims(c->in[0], c->in[1]))
    return infer_fail(c, "operands differ: %s, %s and %s", infer_text(c, c->in[0]), infer_text(c, c->in[1]),
                      infer_text(c, c->in[2]));
  return c->in[1];
}

static const Type *infer_cast(const Infer *c) { return type_with_dtype(c->m, c->in[0], infer_attr(c, AT_to)->u.dtype); }

static const Type *infer_bitcast(const Infer *c) {
  DType from = c->in[0]->dtype, to = infer_attr(c, AT_to)->u.dtype;
  if (dtype_bytes(from) != dtype_bytes(to))
    return infer_fail(c, "an element of %s has not as many bytes as one of %s", dtype_name(from), dtype_name(to));
  return type_with_dtype(c->m, c->in[0], to);
}

/* ---- sharding */

/* "0", "0,1", "01": groups of operands in which the function is linear.  Integer division truncates: 1/2 + 1/2 is not
 * 2/2. */
static void linear_groups(const RuleMaking *k, const char *s) {
  if (!*s || dtype_class(rule_out(k)->dtype) == DTC_B) return;
  if (k->op->kind == OP_div && !dtype_is_float(rule_out(k)->dtype)) return;
  while (*s) {
    uint32_t mask = 0;
    for (; *s && *s != ','; s++) mask |= 1u << (*s - '0');
    rule_linear(k, mask, RED_SUM);
    if (*s == ',') s++;
  }
}

static void rule_pointwise(const RuleMaking *k) {
  rule_parse(k, k->op->nin == 1 ? "x.. -> x.." : "x.., x.. -> x..", NULL);
  if (rows[k->op->kind].linear) linear_groups(k, rows[k->op->kind].linear);
}

/* Linear in both choices together; if one is zeros, which are a sum of zeros, also in the other alone. */
static void rule_select(const RuleMaking *k) {
  bool first = op_is_zeros(op_of(k->f, k->op->in[1])), second = op_is_zeros(op_of(k->f, k->op->in[2]));
  rule_same_dims(k);
  rule_moves_sums(k, second ? 2 : first ? 4 : 6);
}

/* Linear only if no information is lost (D7). */
static void rule_cast(const RuleMaking *k) {
  rule_same_dims(k);
  DType from = rule_in(k, 0)->dtype, to = rule_out(k)->dtype;
  bool floats = dtype_is_float(from) && dtype_is_float(to) && dtype_computes(from) && dtype_computes(to);
  bool widens = floats && dtype_bytes(to) > dtype_bytes(from);
  if (widens || (from == to && from != DT_bool)) rule_linear(k, 1, RED_SUM);
}

/* ---- meaning */

/* Integer helpers of the rows.  Operands are already wrapped to the type; the caller wraps results. */
#define ev_wrap_neg(x) ((int64_t)(0 - (uint64_t)(x)))
#define ev_wrap_add(x, y) ((int64_t)((uint64_t)(x) + (uint64_t)(y)))
#define ev_wrap_sub(x, y) ((int64_t)((uint64_t)(x) - (uint64_t)(y)))
#define ev_wrap_mul(x, y) ((int64_t)((uint64_t)(x) * (uint64_t)(y)))
#define ev_shl(x, y) ((y) < 0 || (y) >= bits ? 0 : (int64_t)((uint64_t)(x) << (y)))

static inline int64_t signed_div(int64_t x, int64_t y) { return y == 0 ? 0 : y == -1 ? ev_wrap_neg(x) : x / y; }
static inline int64_t signed_mod(int64_t x, int64_t y) { return y == 0 || y == -1 ? (y == 0 ? x : 0) : x % y; }

typedef struct Elements {
  OpKind kind;
  DType dtype; /* of the operands */
  int64_t n, bits;
  const Cell *a, *b;
  Cell *y;
} Elements;

/* Rows that are not defined for a class still have an expression, which may ignore its operands. */
#define EACH(op, type_, field, expression) \
  case op: \
    for (int64_t i = 0; i < l->n; i++) { \
      const type_ x = (type_)l->a[i].field; \
      (void)x; \
      l->y[i].field = (expression); \
    } \
    return;
#define EACH2(op, type_, field, out, expression) \
  case op: \
    for (int64_t i = 0; i < l->n; i++) { \
      const type_ x = (type_)l->a[i].field, y = (type_)l->b[i].field; \
      (void)x, (void)y; \
      l->y[i].out = (expression); \
    } \
    return;

/* The integer rows are instantiated for unsigned operands too, where x < 0 is never true. */
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wsign-conversion"

static void unary_float(const Elements *l) {
  switch (l->kind) {
#define UNARY(name, classes, linear, cost, FX, IX, doc) EACH(OP_##name, double, f, FX)
#include "ir/ops.def"
    default: return;
  }
}

static void unary_int(const Elements *l) {
  switch (l->kind) {
#define UNARY(name, classes, linear, cost, FX, IX, doc) EACH(OP_##name, int64_t, i, (int64_t)(IX))
#include "ir/ops.def"
    default: return;
  }
}

static void unary_u64(const Elements *l) {
  switch (l->kind) {
#define UNARY(name, classes, linear, cost, FX, IX, doc) EACH(OP_##name, uint64_t, i, (int64_t)(IX))
#include "ir/ops.def"
    default: return;
  }
}

static void binary_float(const Elements *l) {
  switch (l->kind) {
#define BINARY(name, classes, linear, cost, FX, IX, doc) EACH2(OP_##name, double, f, f, FX)
#include "ir/ops.def"
    default: return;
  }
}

#define ev_div(x, y) signed_div(x, y)
#define ev_mod(x, y) signed_mod(x, y)
#define ev_shr(x, y) ((y) < 0 || (y) >= bits ? ((x) < 0 ? -1 : 0) : (x) >> (y))
static void binary_int(const Elements *l) {
  const int64_t bits = l->bits;
  switch (l->kind) {
#define BINARY(name, classes, linear, cost, FX, IX, doc) EACH2(OP_##name, int64_t, i, i, (int64_t)(IX))
#include "ir/ops.def"
    default: return;
  }
}
#undef ev_div
#undef ev_mod
#undef ev_shl
#undef ev_shr

#define ev_div(x, y) ((y) == 0 ? 0 : (x) / (y))
#define ev_mod(x, y) ((y) == 0 ? (x) : (x) % (y))
#define ev_shl(x, y) ((y) >= 64 ? 0 : (x) << (y))
#define ev_shr(x, y) ((y) >= 64 ? 0 : (x) >> (y))
static void binary_u64(const Elements *l) {
  switch (l->kind) {
#define BINARY(name, classes, linear, cost, FX, IX, doc) EACH2(OP_##name, uint64_t, i, i, (int64_t)(IX))
#include "ir/ops.def"
    default: return;
  }
}

static void compare_float(const Elements *l) {
  switch (l->kind) {
#define COMPARE(name, expr, doc) EACH2(OP_##name, double, f, i, expr)
#include "ir/ops.def"
    default: return;
  }
}

/* Integers, bool and residues. */
static void compare_int(const Elements *l) {
  switch (l->kind) {
#define COMPARE(name, expr, doc) EACH2(OP_##name, int64_t, i, i, expr)
#include "ir/ops.def"
    default: return;
  }
}

static void compare_u64(const Elements *l) {
  switch (l->kind) {
#define COMPARE(name, expr, doc) EACH2(OP_##name, uint64_t, i, i, expr)
#include "ir/ops.def"
    default: return;
  }
}

/* ---- modulo p: exact operations stay exact, the others are a hash of the operands */

static void unary_modp(const Elements *l) {
  for (int64_t i = 0; i < l->n; i++) {
    uint64_t x = (uint64_t)l->a[i].i;
    uint64_t v = l->kind == OP_neg ? modp_neg(x) : l->kind == OP_recip ? modp_inverse(x) : modp_hash(l->kind, x, 0);
    l->y[i].i = (int64_t)v;
  }
}

static void binary_modp(const Elements *l) {
  for (int64_t i = 0; i < l->n; i++) {
    uint64_t x = (uint64_t)l->a[i].i, y = (uint64_t)l->b[i].i, v;
    switch (l->kind) {
      case OP_add: v = modp_add(x, y); break;
      case OP_sub: v = modp_add(x, modp_neg(y)); break;
      case OP_mul: v = modp_mul(x, y); break;
      case OP_div: v = modp_mul(x, modp_inverse(y)); break;
      case OP_max: v = x > y ? x : y; break;
      case OP_min: v = x < y ? x : y; break;
      default: v = modp_hash(l->kind, x, y);
    }
    l->y[i].i = (int64_t)v;
  }
}

/* ---- entries of the interpreter */

static Elements elements_of(const Eval *e) {
  return (Elements){.kind = e->op->kind,
                    .dtype = e->in[0]->dtype,
                    .n = interp_elements(e->out),
                    .bits = 8 * (int64_t)dtype_bytes(e->in[0]->dtype),
                    .a = e->in[0]->cells,
                    .b = e->op->nin > 1 ? e->in[1]->cells : NULL,
                    .y = e->out->cells};
}

static void wrap_all(const Eval *e) {
  if (dtype_bytes(e->out->dtype) == 8) return;
  int64_t n = interp_elements(e->out);
  for (int64_t i = 0; i < n; i++) e->out->cells[i].i = wrap_int(e->out->dtype, e->out->cells[i].i);
}

static void classify(const Elements *l, bool modp) {
  for (int64_t i = 0; i < l->n; i++) {
    bool nan = l->kind == OP_isnan;
    if (modp) l->y[i].i = (int64_t)(modp_hash(l->kind, (uint64_t)l->a[i].i, 0) & 1);
    else l->y[i].i = nan ? isnan(l->a[i].f) : isinf(l->a[i].f) != 0;
  }
}

static bool eval_unary(Eval *e) {
  if (!eval_same_shape(e, 0)) return false;
  Elements l = elements_of(e);
  if (l.kind == OP_isnan || l.kind == OP_isinf) classify(&l, e->run->modp);
  else if (!dtype_is_float(l.dtype)) {
    if (l.dtype == DT_u64) unary_u64(&l);
    else unary_int(&l);
    wrap_all(e);
  } else if (e->run->modp) unary_modp(&l);
  else unary_float(&l);
  return true;
}

static bool eval_binary(Eval *e) {
  if (!eval_same_shape(e, 0) || !eval_same_shape(e, 1)) return false;
  Elements l = elements_of(e);
  if (!dtype_is_float(l.dtype)) {
    if (l.dtype == DT_u64) binary_u64(&l);
    else binary_int(&l);
    wrap_all(e);
  } else if (e->run->modp) binary_modp(&l);
  else binary_float(&l);
  return true;
}

static bool eval_compare(Eval *e) {
  if (!eval_same_shape(e, 0) || !eval_same_shape(e, 1)) return false;
  Elements l = elements_of(e);
  if (dtype_is_float(l.dtype) && !e->run->modp) compare_float(&l);
  else if (l.dtype == DT_u64) compare_u64(&l);
  else compare_int(&l);
  return true;
}

static bool eval_select(Eval *e) {
  if (!eval_same_shape(e, 0) || !eval_same_shape(e, 1) || !eval_same_shape(e, 2)) return false;
  int64_t n = interp_elements(e->out);
  for (int64_t i = 0; i < n; i++) e->out->cells[i] = e->in[0]->cells[i].i ? e->in[1]->cells[i] : e->in[2]->cells[i];
  return true;
}

bool eval_copy(Eval *e) {
  if (!eval_same_shape(e, 0)) return false;
  memcpy(e->out->cells, e->in[0]->cells, sizeof(Cell) * (size_t)interp_elements(e->out));
  return true;
}

/* ---- cast */

/* True if every value of `from` is a value of `to`. */
static bool holds(DType to, DType from) {
  if (to == from) return true;
  bool rounds = from == DT_f8e8m0 && to == DT_f16; /* which has fewer exponents */
  if (dtype_is_float(from)) return dtype_is_float(to) && dtype_bytes(to) > dtype_bytes(from) && !rounds;
  return false;
}

static double round_to(DType t, double v) {
  unsigned char bytes[8];
  dtype_store_f(t, bytes, v);
  return dtype_load_f(t, bytes);
}

static double as_double(DType t, int64_t v) { return t == DT_u64 ? (double)(uint64_t)v : (double)v; }

/* Truncates, saturates at the limits of the type; NaN gives 0. */
static int64_t saturate(DType t, double v) {
  if (isnan(v)) return 0;
  int bits = dtype_bits(t);
  bool is_unsigned = dtype_class(t) == DTC_U;
  double top = ldexp(1, is_unsigned ? bits : bits - 1), bottom = is_unsigned ? 0 : -top;
  v = trunc(v);
  if (v >= top) return cell_identity(false, t, RED_MIN).i;
  if (v <= bottom) return cell_identity(false, t, RED_MAX).i;
  return t == DT_u64 ? (int64_t)(uint64_t)v : (int64_t)v;
}

static Cell cast_float(DType to, DType from, Cell x) {
  if (!dtype_is_float(from)) {
    if (!dtype_is_float(to)) return cell_i(wrap_int(to, x.i));
    return cell_f(round_to(to, as_double(from, x.i)));
  }
  if (dtype_is_float(to)) return cell_f(holds(to, from) ? x.f : round_to(to, x.f));
  return cell_i(to == DT_bool ? x.f != 0 : saturate(to, x.f));
}

/* Residues: integers embed; in the other direction they become the nearest to zero; losing precision is a hash. */
static Cell cast_modp(DType to, DType from, Cell x) {
  if (!dtype_is_float(from)) {
    if (!dtype_is_float(to)) return cell_i(wrap_int(to, x.i));
    if (from == DT_u64) return cell_i((int64_t)modp_fold((uint64_t)x.i));
    return cell_i((int64_t)modp_of_int(x.i));
  }
  if (dtype_is_float(to)) return holds(to, from) ? x : cell_i((int64_t)modp_hash(OP_cast, (uint64_t)x.i, (uint64_t)to));
  return cell_i(wrap_int(to, x.i > INTERP_P / 2 ? x.i - INTERP_P : x.i));
}

static bool eval_cast(Eval *e) {
  if (!eval_same_shape(e, 0)) return false;
  int64_t n = interp_elements(e->out);
  DType from = e->in[0]->dtype, to = e->out->dtype;
  for (int64_t i = 0; i < n; i++)
    e->out->cells[i] =
        e->run->modp ? cast_modp(to, from, e->in[0]->cells[i]) : cast_float(to, from, e->in[0]->cells[i]);
  return true;
}

/* ---- bits */

static Cell bitcast_float(DType to, DType from, Cell x) {
  unsigned char element[8] = {0};
  if (dtype_is_float(from)) dtype_store_f(from, element, x.f);
  else dtype_store_i(from, element, x.i);
  return dtype_is_float(to) ? cell_f(dtype_load_f(to, element)) : cell_i(dtype_load_i(to, element));
}

/* Integers keep their bits; the bits of a residue are unknown. */
static Cell bitcast_modp(DType to, DType from, Cell x) {
  if (from == to) return x;
  if (!dtype_is_float(from) && !dtype_is_float(to)) return bitcast_float(to, from, x);
  uint64_t hash = modp_hash(OP_bitcast, (uint64_t)x.i, (uint64_t)to);
  return cell_i(dtype_is_float(to) ? (int64_t)hash : wrap_int(to, (int64_t)hash));
}

static bool eval_bitcast(Eval *e) {
  if (!eval_same_shape(e, 0)) return false;
  int64_t n = interp_elements(e->out);
  DType from = e->in[0]->dtype, to = e->out->dtype;
  for (int64_t i = 0; i < n; i++)
    e->out->cells[i] =
        e->run->modp ? bitcast_modp(to, from, e->in[0]->cells[i]) : bitcast_float(to, from, e->in[0]->cells[i]);
  return true;
}

/* ---- records */

const OpRecord record_unary = {
    .infer = infer_unary, .rule = rule_pointwise, .eval = eval_unary, .gradient = gradient_unary};
const OpRecord record_binary = {
    .infer = infer_binary, .rule = rule_pointwise, .eval = eval_binary, .gradient = gradient_binary};
const OpRecord record_compare = {
    .infer = infer_compare, .rule = rule_pointwise, .eval = eval_compare, .gradient = gradient_compare};
const OpRecord record_select = {
    .infer = infer_select, .rule = rule_select, .eval = eval_select, .gradient = gradient_select};
const OpRecord record_cast = {.infer = infer_cast, .rule = rule_cast, .eval = eval_cast, .gradient = gradient_cast};
const OpRecord record_bitcast = {.infer = infer_bitcast, .space = "x.. -> x..", .kinds = "", .eval = eval_bitcast};
const OpRecord record_copy = {
    .infer = infer_same, .space = "x.. -> x..", .kinds = "linear:0", .eval = eval_copy, .gradient = gradient_copy};
