/* frontend/dsl/operators.c - operators on numbers, sizes, strings, lists and tensors. */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "frontend/dsl/eval.h"

static const char *const operator_text[] = {"-",  "not", "+", "-",  "*", "/",  "//",  "%",
                                            "==", "!=",  "<", "<=", ">", ">=", "and", "or"};

bool dsl_value_const(DslValue v, int64_t *out) { return v.kind == V_INT && ex_get_const(v.u.e, out); }

bool dsl_value_number(DslValue v, double *out) {
  int64_t i;
  if (v.kind == V_FLOAT) *out = v.u.f;
  else if (dsl_value_const(v, &i)) *out = (double)i;
  else return false;
  return true;
}

static DslValue value_bool(DslEval *ev, bool b) { return value_expr(ex_const(ev->m, b)); }

static DslValue wrong_operands(DslEval *ev, DslNode *n, NodeOp op, DslValue a, DslValue b) {
  const char *left = dsl_value_describe(ev, a);
  return dsl_fail(ev, n, DIAG_dsl_type, "'%s' is not defined between %s and %s", operator_text[op], left,
                  dsl_value_describe(ev, b));
}

/* ---- sizes */

static DslValue divide_sizes(DslEval *ev, DslNode *n, NodeOp op, const Expr *a, const Expr *b) {
  int64_t divisor;
  if (ex_get_const(b, &divisor) && divisor <= 0)
    return dsl_fail(ev, n, DIAG_dsl_value,
                    divisor == 0 ? "division by zero" : "integers are divided by positive numbers only");
  if (op == NO_FLOORDIV) return value_expr(ex_div(ev->m, a, b));
  if (op == NO_MOD) return value_expr(ex_mod(ev->m, a, b));
  const Expr *q = ex_exact_div(ev->m, a, b);
  if (q) return value_expr(q);
  bool fresh = !n->reported;
  const char *left = dsl_expr_text(ev, a);
  dsl_fail(ev, n, DIAG_dsl_value, "%s / %s is not a whole number", left, dsl_expr_text(ev, b));
  if (fresh) diag_help(ev->diags, "write // to round down, or make one side a decimal number");
  return value_error();
}

/* Sizes are comparable if their difference is a constant. */
static DslValue compare_sizes(DslEval *ev, DslNode *n, NodeOp op, const Expr *a, const Expr *b) {
  int64_t x, y = 0;
  if (!ex_get_const(a, &x) || !ex_get_const(b, &y)) {
    const char *left = dsl_expr_text(ev, a);
    y = 0;
    if (!ex_get_const(ex_sub(ev->m, a, b), &x))
      return dsl_fail(ev, n, DIAG_dsl_symbolic, "%s %s %s is not known before the dimensions are", left,
                      operator_text[op], dsl_expr_text(ev, b));
  }
  switch (op) {
    case NO_EQ: return value_bool(ev, x == y);
    case NO_NE: return value_bool(ev, x != y);
    case NO_LT: return value_bool(ev, x < y);
    case NO_LE: return value_bool(ev, x <= y);
    case NO_GT: return value_bool(ev, x > y);
    default: return value_bool(ev, x >= y);
  }
}

static DslValue logic(DslEval *ev, DslNode *n, NodeOp op, DslValue a, DslValue b) {
  int64_t x, y;
  if (!dsl_value_const(a, &x) || !dsl_value_const(b, &y)) return wrong_operands(ev, n, op, a, b);
  return value_bool(ev, op == NO_AND ? x && y : x || y);
}

static DslValue binary_sizes(DslEval *ev, DslNode *n, NodeOp op, const Expr *a, const Expr *b) {
  ev->steps += (a->size + b->size) / 16; /* long expressions take longer */
  switch (op) {
    case NO_ADD: return value_expr(ex_add(ev->m, a, b));
    case NO_SUB: return value_expr(ex_sub(ev->m, a, b));
    case NO_MUL: return value_expr(ex_mul(ev->m, a, b));
    case NO_DIV:
    case NO_FLOORDIV:
    case NO_MOD: return divide_sizes(ev, n, op, a, b);
    case NO_AND:
    case NO_OR: return logic(ev, n, op, value_expr(a), value_expr(b));
    default: return compare_sizes(ev, n, op, a, b);
  }
}

/* ---- numbers */

static DslValue binary_floats(DslEval *ev, DslNode *n, NodeOp op, double a, double b) {
  bool divides = op == NO_DIV || op == NO_FLOORDIV || op == NO_MOD;
  if (divides && b == 0) return dsl_fail(ev, n, DIAG_dsl_value, "division by zero");
  switch (op) {
    case NO_ADD: return value_float(a + b);
    case NO_SUB: return value_float(a - b);
    case NO_MUL: return value_float(a * b);
    case NO_DIV: return value_float(a / b);
    case NO_FLOORDIV: return value_float(floor(a / b));
    case NO_MOD: return value_float(a - b * floor(a / b));
    case NO_EQ: return value_bool(ev, a == b);
    case NO_NE: return value_bool(ev, a != b);
    case NO_LT: return value_bool(ev, a < b);
    case NO_LE: return value_bool(ev, a <= b);
    case NO_GT: return value_bool(ev, a > b);
    case NO_GE: return value_bool(ev, a >= b);
    default: return wrong_operands(ev, n, op, value_float(a), value_float(b));
  }
}

static DslValue binary_strings(DslEval *ev, DslNode *n, NodeOp op, DslValue a, DslValue b) {
  if (op == NO_ADD) {
    dsl_spend_text(ev, strlen(a.u.s) + strlen(b.u.s));
    return value_string(arena_printf(ev->arena, "%s%s", a.u.s, b.u.s));
  }
  if (op == NO_EQ || op == NO_NE) return value_bool(ev, (strcmp(a.u.s, b.u.s) == 0) == (op == NO_EQ));
  return wrong_operands(ev, n, op, a, b);
}

static DslValue binary_lists(DslEval *ev, DslNode *n, NodeOp op, DslValue a, DslValue b) {
  if (op != NO_ADD) return wrong_operands(ev, n, op, a, b);
  DslValue *items = ARENA_ARRAY(ev->arena, DslValue, a.n + b.n);
  if (a.n) memcpy(items, a.u.items, sizeof *items * (size_t)a.n);
  if (b.n) memcpy(items + a.n, b.u.items, sizeof *items * (size_t)b.n);
  ev->steps += a.n + b.n;
  return value_list(a.n + b.n, items);
}

/* ---- tensors */

/* A constant tensor of an integer: a double is exact up to 2^53, a size holds the others of 64 bits. */
Val dsl_whole_number(DslEval *ev, DslNode *n, const Expr *e, const Type *type) {
  int64_t v, bits = 8 * (int64_t)dtype_bytes(type->dtype);
  bool is_signed = dtype_class(type->dtype) == DTC_I;
  if (!ex_get_const(e, &v)) return build_size(&ev->b, type, e);
  int64_t high = bits == 64 ? INT64_MAX : (INT64_C(1) << (bits - is_signed)) - 1, low = is_signed ? -high - 1 : 0;
  if (v < low || v > high) {
    dsl_fail(ev, n, DIAG_dsl_type, "%" PRId64 " does not fit %s", v, dtype_name(type->dtype));
    return 0;
  }
  return v >= -(INT64_C(1) << 53) && v <= INT64_C(1) << 53 ? build_splat(&ev->b, type, (double)v)
                                                           : build_size(&ev->b, type, e);
}

Val dsl_operand(DslEval *ev, DslNode *n, DslValue v, const Type *like) {
  if (v.kind == V_TENSOR) return v.u.t;
  DType dtype = like->dtype;
  double number;
  if (dtype == DT_bool || (v.kind != V_INT && v.kind != V_FLOAT)) {
    const char *what = dsl_value_describe(ev, v);
    dsl_fail(ev, n, DIAG_dsl_type, "%s cannot be used with a tensor of %s", what, dtype_name(dtype));
    return 0;
  }
  if (v.kind == V_INT && !dtype_is_float(dtype)) return dsl_whole_number(ev, n, v.u.e, like);
  if (!dsl_value_number(v, &number)) return build_size(&ev->b, like, v.u.e);
  if (!dtype_is_float(dtype) && !(number == floor(number) && fabs(number) <= 0x1p53)) {
    dsl_fail(ev, n, DIAG_dsl_type, "the number %g cannot be used with a tensor of %s; cast(x, f32) makes it decimal",
             number, dtype_name(dtype));
    return 0;
  }
  return build_splat(&ev->b, like, number);
}

/* Computes the shape that both broadcast to, as NumPy does; false after reporting. */
static bool shapes_fit(DslEval *ev, DslNode *n, const Type *a, const Type *b) {
  for (int i = 1; i <= a->rank && i <= b->rank; i++) {
    const Expr *x = a->dims[a->rank - i], *y = b->dims[b->rank - i];
    if (x == y || ex_is_const(x, 1) || ex_is_const(y, 1)) continue;
    const char *left = dsl_type_text(ev, a), *xt = dsl_expr_text(ev, x);
    dsl_fail(ev, n, DIAG_dsl_shape, "shapes do not fit: %s and %s differ in size %s and %s", left, dsl_type_text(ev, b),
             xt, dsl_expr_text(ev, y));
    return false;
  }
  return true;
}

DslValue dsl_tensor_binary(DslEval *ev, DslNode *n, OpKind k, DslValue a, DslValue b) {
  const Func *f = ev->b.f;
  const Type *like = type_of(f, a.kind == V_TENSOR ? a.u.t : b.u.t);
  dsl_begin(ev, n);
  Val x = dsl_operand(ev, n, a, like), y = x ? dsl_operand(ev, n, b, like) : 0;
  if (!x || !y) return dsl_built(ev, n, 0);
  const Type *tx = type_of(f, x), *ty = type_of(f, y);
  if (tx->dtype != ty->dtype) {
    bool fresh = !n->reported;
    dsl_fail(ev, n, DIAG_dsl_type, "element types differ: %s and %s", dtype_name(tx->dtype), dtype_name(ty->dtype));
    if (fresh) diag_help(ev->diags, "convert one side: cast(x, %s)", dtype_name(tx->dtype));
    return value_error();
  }
  if (!shapes_fit(ev, n, tx, ty)) return value_error();
  return dsl_built(ev, n, build_binary_bcast(&ev->b, k, x, y));
}

static DslValue binary_tensors(DslEval *ev, DslNode *n, NodeOp op, DslValue a, DslValue b) {
  static const OpKind kinds[] = {
      [NO_ADD] = OP_add, [NO_SUB] = OP_sub, [NO_MUL] = OP_mul, [NO_DIV] = OP_div, [NO_EQ] = OP_eq,   [NO_NE] = OP_ne,
      [NO_LT] = OP_lt,   [NO_LE] = OP_le,   [NO_GT] = OP_gt,   [NO_GE] = OP_ge,   [NO_AND] = OP_and, [NO_OR] = OP_or};
  const DslValue *t = a.kind == V_TENSOR ? &a : &b;
  DType dtype = type_of(ev->b.f, t->u.t)->dtype;
  if (op == NO_FLOORDIV || op == NO_MOD)
    return dsl_fail(ev, n, DIAG_dsl_type,
                    "'%s' is for sizes; on tensors write floor(x / y), truncdiv(x, y) or remainder(x, y)",
                    operator_text[op]);
  if (op == NO_DIV && !dtype_is_float(dtype))
    return dsl_fail(ev, n, DIAG_dsl_type,
                    "'/' is not defined for tensors of %s; write truncdiv(x, y) or cast to floats", dtype_name(dtype));
  if ((op == NO_AND || op == NO_OR) && dtype != DT_bool) return wrong_operands(ev, n, op, a, b);
  return dsl_tensor_binary(ev, n, kinds[op], a, b);
}

/* ---- entry */

DslValue dsl_unary(DslEval *ev, DslNode *n, NodeOp op, DslValue a) {
  int64_t i;
  if (a.kind == V_TENSOR) {
    bool is_bool = type_of(ev->b.f, a.u.t)->dtype == DT_bool;
    if (is_bool == (op == NO_NOT)) {
      dsl_begin(ev, n);
      return dsl_built(ev, n, build_unary(&ev->b, op == NO_NOT ? OP_not : OP_neg, a.u.t));
    }
  } else if (op == NO_NEG) {
    if (a.kind == V_INT) return value_expr(ex_muli(ev->m, a.u.e, -1));
    if (a.kind == V_FLOAT) return value_float(-a.u.f);
  } else if (dsl_value_const(a, &i)) {
    return value_bool(ev, i == 0);
  }
  return dsl_fail(ev, n, DIAG_dsl_type, "'%s' is not defined for %s", operator_text[op], dsl_value_describe(ev, a));
}

DslValue dsl_binary(DslEval *ev, DslNode *n, NodeOp op, DslValue a, DslValue b) {
  double x, y;
  if (a.kind == V_TENSOR || b.kind == V_TENSOR) return binary_tensors(ev, n, op, a, b);
  if (a.kind == V_INT && b.kind == V_INT) return binary_sizes(ev, n, op, a.u.e, b.u.e);
  if (dsl_value_number(a, &x) && dsl_value_number(b, &y)) return binary_floats(ev, n, op, x, y);
  if (a.kind == V_STRING && b.kind == V_STRING) return binary_strings(ev, n, op, a, b);
  if (a.kind == V_LIST && b.kind == V_LIST) return binary_lists(ev, n, op, a, b);
  if (a.kind == V_DTYPE && b.kind == V_DTYPE && (op == NO_EQ || op == NO_NE))
    return value_bool(ev, (a.u.dtype == b.u.dtype) == (op == NO_EQ));
  return wrong_operands(ev, n, op, a, b);
}
