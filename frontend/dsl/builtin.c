/* frontend/dsl/builtin.c - the table of built-in functions, binding of their arguments, and functions of numbers. */
#include "frontend/dsl/builtin.h"

#include <float.h>
#include <math.h>
#include <string.h>

typedef struct Builtin {
  const char *name, *parameters;
  BuiltinFunction *function;
} Builtin;

static const Builtin builtins[] = {
#define BUILTIN(name, parameters, function, doc) {#name, parameters, function},
#include "frontend/dsl/builtin.def"
#undef BUILTIN
};
enum { NBUILTINS = sizeof builtins / sizeof builtins[0] };

/* Functions of one tensor, from the table of operations; folded for floats if the argument is a number. */
typedef struct UnaryRow {
  const char *name;
  OpKind kind;
  bool floats;
  double (*fold)(double);
} UnaryRow;

#define UNARY(name, classes, linear, cost, f, i, doc) \
  static double fold_##name(double x) { \
    (void)x; \
    return (double)(f); \
  }
#include "ir/ops.def"

static const UnaryRow unary_rows[] = {
#define UNARY(name, classes, linear, cost, f, i, doc) {#name, OP_##name, classes[0] == 'F', fold_##name},
#include "ir/ops.def"
};
enum { NUNARY = sizeof unary_rows / sizeof unary_rows[0] };

static const Builtin *builtin_find(const char *name) {
  for (int i = 0; i < NBUILTINS; i++)
    if (strcmp(builtins[i].name, name) == 0) return &builtins[i];
  return NULL;
}

static const UnaryRow *unary_find(const char *name) {
  for (int i = 0; i < NUNARY; i++)
    if (strcmp(unary_rows[i].name, name) == 0) return &unary_rows[i];
  return NULL;
}

bool dsl_builtin_exists(const char *name) { return builtin_find(name) || unary_find(name); }

void dsl_builtin_nearest(Nearest *n) {
  for (int i = 0; i < NBUILTINS; i++) nearest_try(n, builtins[i].name);
  for (int i = 0; i < NUNARY; i++) nearest_try(n, unary_rows[i].name);
}

DslValue dsl_builtin_constant(DslEval *ev, const char *name) {
  DType dtype;
  if (dtype_find(name, &dtype)) return (DslValue){.kind = V_DTYPE, .u.dtype = dtype};
  if (strcmp(name, "zeros") == 0) return (DslValue){.kind = V_INIT, .init = INIT_ZEROS};
  if (strcmp(name, "ones") == 0) return (DslValue){.kind = V_INIT, .init = INIT_CONSTANT, .u.f = 1};
  if (strcmp(name, "true") == 0) return value_expr(ex_const(ev->m, 1));
  if (strcmp(name, "false") == 0) return value_expr(ex_const(ev->m, 0));
  if (strcmp(name, "training") == 0) {
    ev->asked = true;
    return value_expr(ex_const(ev->m, ev->training));
  }
  if (strcmp(name, "pi") == 0) return value_float(3.14159265358979323846);
  if (strcmp(name, "infinity") == 0) return value_float(INFINITY);
  return value_none();
}

/* ---- binding of parameters such as "x, axis?, **" */

typedef struct Parameters {
  int n;
  const char *names[MAX_ARGUMENTS];
  bool optional[MAX_ARGUMENTS], extra;
} Parameters;

static Parameters parse_parameters(DslEval *ev, const char *text) {
  Parameters p = {0};
  while (*text) {
    size_t length = strcspn(text, ",");
    bool optional = text[length - 1] == '?';
    if (text[0] == '*') p.extra = true;
    else {
      p.names[p.n] = arena_strndup(ev->arena, text, length - optional);
      p.optional[p.n++] = optional;
    }
    text += length;
    text += strspn(text, ", ");
  }
  return p;
}

static bool unknown_argument(Args *a, DslNode *argument, const Parameters *p) {
  if (argument->reported) return false;
  if (!argument->s) {
    dsl_fail(a->ev, argument, DIAG_dsl_argument, "too many arguments for %s", a->call->s);
    return false;
  }
  dsl_fail(a->ev, argument, DIAG_dsl_argument, "%s has no parameter '%s'", a->call->s, argument->s);
  Nearest near = nearest_to(argument->s);
  for (int i = 0; i < p->n; i++) nearest_try(&near, p->names[i]);
  dsl_nearest_help(a->ev, &near);
  return false;
}

static bool bind_argument(Args *a, const Parameters *p, DslNode *argument, int *next) {
  int i = 0;
  if (argument->s)
    while (i < p->n && strcmp(p->names[i], argument->s) != 0) i++;
  else i = (*next)++;
  bool extra = i >= p->n && p->extra && argument->s && a->nextra < MAX_EXTRA;
  if (i >= p->n && !extra) return unknown_argument(a, argument, p);
  if (!extra && arg_given(a, i)) {
    dsl_fail(a->ev, argument, DIAG_dsl_argument, "'%s' is given twice", p->names[i]);
    return false;
  }
  DslValue v = dsl_expression(a->ev, argument->a);
  if (v.kind == V_NONE) v = dsl_fail(a->ev, argument->a, DIAG_dsl_type, "this call returns nothing");
  if (extra) {
    a->extra[a->nextra] = argument;
    a->extra_values[a->nextra++] = v;
  } else {
    a->v[i] = v;
    a->at[i] = argument->a;
  }
  return v.kind != V_ERROR;
}

static bool bind(Args *a, const Builtin *b) {
  Parameters p = parse_parameters(a->ev, b->parameters);
  int next = 0;
  bool ok = true;
  a->n = p.n;
  for (int i = 0; i < p.n; i++) {
    a->names[i] = p.names[i];
    a->v[i] = value_none();
    a->at[i] = a->call;
  }
  for (DslNode *argument = a->call->a; argument; argument = argument->next)
    ok = bind_argument(a, &p, argument, &next) && ok;
  for (int i = 0; ok && i < p.n; i++)
    if (!arg_given(a, i) && !p.optional[i]) {
      dsl_fail(a->ev, a->call, DIAG_dsl_argument, "%s needs an argument for '%s'", a->call->s, p.names[i]);
      ok = false;
    }
  return ok;
}

static DslValue apply_unary(DslEval *ev, DslNode *n, const UnaryRow *row, DslValue v) {
  double x;
  int64_t i;
  if (v.kind == V_TENSOR) {
    dsl_begin(ev, n);
    return dsl_built(ev, n, build_unary(&ev->b, row->kind, v.u.t));
  }
  if (row->kind == OP_abs && v.kind == V_INT) return value_expr(ex_max(ev->m, v.u.e, ex_muli(ev->m, v.u.e, -1)));
  bool test = row->kind == OP_isnan || row->kind == OP_isinf;
  if (!row->floats || test || !dsl_value_number(v, &x))
    return dsl_fail(ev, n, DIAG_dsl_type, "%s is not defined for %s", row->name, dsl_value_describe(ev, v));
  double y = row->fold(x);
  bool whole = row->kind == OP_floor || row->kind == OP_ceil || row->kind == OP_round;
  if (y != y) return dsl_fail(ev, n, DIAG_dsl_value, "%s(%g) is not a number", row->name, x);
  if ((whole || (dsl_value_const(v, &i) && (row->kind == OP_sign || row->kind == OP_relu))) && fabs(y) < 0x1p62)
    return value_expr(ex_const(ev->m, (int64_t)y));
  return value_float(y);
}

DslValue dsl_builtin(DslEval *ev, DslNode *call) {
  const Builtin *b = builtin_find(call->s);
  const UnaryRow *row = b ? NULL : unary_find(call->s);
  Builtin unary = {call->s, "x", NULL};
  Args a = {.ev = ev, .call = call};
  if (!bind(&a, b ? b : &unary)) return value_error();
  const char *ops = ev->frame->ops, *hint = ev->frame->hint;
  if (call->b) { /* f(...) as "name" */
    DslValue name = dsl_expression(ev, call->b);
    if (name.kind == V_ERROR) return name;
    if (name.kind != V_STRING || !*name.u.s)
      return dsl_fail(ev, call->b, DIAG_dsl_type, "a name must be a non-empty string");
    ev->frame->ops = dsl_scope_join(ev, ev->frame->weights, name.u.s);
    ev->frame->hint = NULL;
  }
  size_t mark = ev->b.f->ops.n;
  DslValue v = b ? b->function(&a) : apply_unary(ev, call, row, a.v[0]);
  if (call->b) dsl_label(ev, v, mark, ev->frame->ops, true);
  ev->frame->ops = ops;
  ev->frame->hint = hint;
  return v;
}

/* ---- arguments */

bool dsl_arg_fail(Args *a, int i, const char *wanted) {
  dsl_fail(a->ev, a->at[i], DIAG_dsl_type, "argument '%s' of %s must be %s, not %s", a->names[i], a->call->s, wanted,
           dsl_value_describe(a->ev, a->v[i]));
  return false;
}

bool dsl_arg_tensor(Args *a, int i, Val *out) {
  if (a->v[i].kind != V_TENSOR) return dsl_arg_fail(a, i, "a tensor");
  *out = a->v[i].u.t;
  return true;
}

bool dsl_arg_floats(Args *a, int i, Val *out) {
  if (!dsl_arg_tensor(a, i, out)) return false;
  return dtype_is_float(arg_type_of(a, *out)->dtype) || dsl_arg_fail(a, i, "a tensor of floats");
}

bool dsl_arg_size(Args *a, int i, const Expr **out) {
  if (a->v[i].kind != V_INT) return dsl_arg_fail(a, i, "an integer");
  *out = a->v[i].u.e;
  return true;
}

bool dsl_arg_int(Args *a, int i, int64_t otherwise, int64_t *out) {
  *out = otherwise;
  return !arg_given(a, i) || dsl_value_const(a->v[i], out) || dsl_arg_fail(a, i, "an integer known at compile time");
}

bool dsl_arg_flag(Args *a, int i, bool otherwise, bool *out) {
  int64_t v;
  if (!dsl_arg_int(a, i, otherwise, &v)) return false;
  *out = v != 0;
  return true;
}

bool dsl_arg_number(Args *a, int i, double otherwise, double *out) {
  *out = otherwise;
  return !arg_given(a, i) || dsl_value_number(a->v[i], out) || dsl_arg_fail(a, i, "a number known at compile time");
}

bool dsl_arg_string(Args *a, int i, const char **out) {
  if (a->v[i].kind != V_STRING) return dsl_arg_fail(a, i, "a string");
  *out = a->v[i].u.s;
  return true;
}

static bool axis_of(Args *a, int i, DslValue v, int rank, int *out) {
  int64_t axis;
  if (!dsl_value_const(v, &axis)) return dsl_arg_fail(a, i, "an integer known at compile time");
  if (axis < -rank || axis >= rank) {
    dsl_fail(a->ev, a->at[i], DIAG_dsl_value, "axis %lld is outside a tensor of rank %d", (long long)axis, rank);
    return false;
  }
  *out = (int)(axis < 0 ? axis + rank : axis);
  return true;
}

bool dsl_arg_axis(Args *a, int i, int rank, int otherwise, int *out) {
  DslValue v = arg_given(a, i) ? a->v[i] : value_expr(ex_const(a->ev->m, otherwise));
  return axis_of(a, i, v, rank, out);
}

bool dsl_arg_axes(Args *a, int i, int rank, int *n, int axes[MAX_RANK]) {
  bool chosen[MAX_RANK] = {false};
  DslValue v = a->v[i];
  int axis = 0, count = v.kind == V_LIST ? v.n : 1;
  const DslValue *items = v.kind == V_LIST ? v.u.items : &v;
  for (int k = 0; arg_given(a, i) && k < count; k++) {
    if (!axis_of(a, i, items[k], rank, &axis)) return false;
    chosen[axis] = true;
  }
  *n = 0;
  for (int d = 0; d < rank; d++)
    if (chosen[d] || !arg_given(a, i)) axes[(*n)++] = d;
  return true;
}

bool dsl_arg_sizes(Args *a, int i, int *n, const Expr *sizes[MAX_RANK]) {
  DslValue v = a->v[i];
  if (v.kind != V_LIST) return dsl_arg_fail(a, i, "a list of sizes");
  if (v.n > MAX_RANK) {
    dsl_fail(a->ev, a->at[i], DIAG_dsl_value, "a tensor has at most %d dimensions", MAX_RANK);
    return false;
  }
  *n = v.n;
  for (int k = 0; k < v.n; k++) {
    if (v.u.items[k].kind != V_INT) {
      dsl_fail(a->ev, a->at[i], DIAG_dsl_type, "item %d of '%s' must be an integer, not %s", k, a->names[i],
               dsl_value_describe(a->ev, v.u.items[k]));
      return false;
    }
    sizes[k] = v.u.items[k].u.e;
  }
  return true;
}

bool dsl_arg_type(Args *a, int i, const Type **out) {
  if (a->v[i].kind != V_TYPE) return dsl_arg_fail(a, i, "a type such as f32[4, 8]");
  *out = a->v[i].u.type;
  return true;
}

/* ---- functions of two operands */

static DslValue two(Args *a, OpKind k) {
  if (a->v[0].kind == V_TENSOR || a->v[1].kind == V_TENSOR)
    return dsl_tensor_binary(a->ev, a->call, k, a->v[0], a->v[1]);
  dsl_arg_fail(a, 0, "a tensor");
  return value_error();
}

DslValue dsl_fn_pow(Args *a) {
  double x, y;
  if (!dsl_value_number(a->v[0], &x) || !dsl_value_number(a->v[1], &y)) return two(a, OP_pow);
  double z = pow(x, y);
  if (z != z || isinf(z)) return dsl_fail(a->ev, a->call, DIAG_dsl_value, "pow(%g, %g) is not a finite number", x, y);
  bool whole = a->v[0].kind == V_INT && a->v[1].kind == V_INT && y >= 0 && fabs(z) <= 0x1p53;
  return whole ? value_expr(ex_const(a->ev->m, (int64_t)z)) : value_float(z);
}

static DslValue extreme(Args *a, bool larger) {
  double x, y;
  if (a->v[0].kind == V_INT && a->v[1].kind == V_INT)
    return value_expr((larger ? ex_max : ex_min)(a->ev->m, a->v[0].u.e, a->v[1].u.e));
  if (dsl_value_number(a->v[0], &x) && dsl_value_number(a->v[1], &y)) return value_float((x > y) == larger ? x : y);
  return two(a, larger ? OP_max : OP_min);
}

DslValue dsl_fn_maximum(Args *a) { return extreme(a, true); }
DslValue dsl_fn_minimum(Args *a) { return extreme(a, false); }

static DslValue two_integers(Args *a, OpKind k) {
  for (int i = 0; i < 2; i++)
    if (a->v[i].kind == V_TENSOR && dtype_class(arg_type_of(a, a->v[i].u.t)->dtype) == DTC_F) {
      dsl_arg_fail(a, i, "a tensor of integers");
      return value_error();
    }
  return two(a, k);
}

DslValue dsl_fn_truncdiv(Args *a) { return two_integers(a, OP_div); }
DslValue dsl_fn_remainder(Args *a) { return two_integers(a, OP_mod); }

/* ---- numbers */

DslValue dsl_fn_int(Args *a) {
  double x;
  if (a->v[0].kind == V_INT) return a->v[0];
  if (!dsl_value_number(a->v[0], &x)) return dsl_arg_fail(a, 0, "a number"), value_error();
  if (!(fabs(x) < 0x1p62)) return dsl_fail(a->ev, a->at[0], DIAG_dsl_value, "%g does not fit an integer", x);
  return value_expr(ex_const(a->ev->m, (int64_t)x));
}

DslValue dsl_fn_float(Args *a) {
  double x;
  return dsl_arg_number(a, 0, 0, &x) ? value_float(x) : value_error();
}

DslValue dsl_fn_len(Args *a) {
  if (a->v[0].kind != V_LIST) return dsl_arg_fail(a, 0, "a list"), value_error();
  return value_expr(ex_const(a->ev->m, a->v[0].n));
}

/* ---- initialisers */

static DslValue initialiser(Args *a, ParamInit init, double least) {
  double x;
  if (!dsl_arg_number(a, 0, 0, &x)) return value_error();
  if (!(x >= least && x < INFINITY))
    return dsl_fail(a->ev, a->at[0], DIAG_dsl_value, "'%s' of %s must be a finite number%s", a->names[0], a->call->s,
                    least == 0 ? " that is not negative" : "");
  return (DslValue){.kind = V_INIT, .init = init, .u.f = x};
}

DslValue dsl_fn_normal(Args *a) { return initialiser(a, INIT_NORMAL, 0); }
DslValue dsl_fn_uniform(Args *a) { return initialiser(a, INIT_UNIFORM, 0); }
DslValue dsl_fn_constant(Args *a) { return initialiser(a, INIT_CONSTANT, -DBL_MAX); }
