/* frontend/dsl/eval.c - errors, names, expressions and calls of the model language. */
#include "frontend/dsl/eval.h"

#include <stdarg.h>
#include <string.h>

enum { MAX_DEPTH = 1200 }; /* nested expressions and calls: limits the depth of the C stack */

/* ---- errors */

Loc dsl_loc(const DslEval *ev, const DslNode *n) { return (Loc){ev->frame->unit->file, NULL, n->line, n->col}; }

static void note_calls(DslEval *ev) {
  enum { SHOWN = 6 };
  int shown = 0;
  for (const DslFrame *f = ev->frame; f->call && shown < SHOWN; f = f->caller, shown++)
    diag_note(ev->diags, (Loc){f->caller->unit->file, NULL, f->call->line, f->call->col}, "in the call of %s",
              f->function);
}

DslValue dsl_fail(DslEval *ev, DslNode *n, DiagCode code, const char *format, ...) {
  if (n->reported || ev->stopped) return value_error();
  n->reported = true;
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(ev->arena, format, args);
  va_end(args);
  diag_error(ev->diags, code, dsl_loc(ev, n), "%s", text);
  note_calls(ev);
  return value_error();
}

static DslValue size_fault(DslEval *ev, DslNode *n) {
  const char *why = ev->m->expr_fault;
  ev->m->expr_fault = NULL;
  return dsl_fail(ev, n, DIAG_dsl_value, "%s", why);
}

const char *dsl_type_text(DslEval *ev, const Type *t) {
  Text text = {.arena = ev->arena};
  type_print(ev->m, &text, t);
  return text_str(&text);
}

const char *dsl_expr_text(DslEval *ev, const Expr *e) {
  Text text = {.arena = ev->arena};
  ex_print(ev->m, &text, e);
  return text_str(&text);
}

const char *dsl_value_describe(DslEval *ev, DslValue v) {
  int64_t i;
  switch (v.kind) {
    case V_INT:
      return ex_get_const(v.u.e, &i) ? "an integer" : arena_printf(ev->arena, "the size %s", dsl_expr_text(ev, v.u.e));
    case V_FLOAT: return "a number";
    case V_STRING: return "a string";
    case V_LIST: return "a list";
    case V_DTYPE: return "an element type";
    case V_TYPE: return arena_printf(ev->arena, "the type %s", dsl_type_text(ev, v.u.type));
    case V_INIT: return "an initialiser";
    case V_TENSOR: return arena_printf(ev->arena, "a tensor %s", dsl_type_text(ev, type_of(ev->b.f, v.u.t)));
    case V_NONE: return "nothing";
    case V_ERROR: break;
  }
  return "an error";
}

void dsl_nearest_help(DslEval *ev, const Nearest *n) {
  if (n->best) diag_help(ev->diags, "did you mean '%s'?", n->best);
}

/* ---- building */

const char *dsl_scope_join(DslEval *ev, const char *scope, const char *name) {
  if (!name || !*name) return scope;
  dsl_spend_text(ev, strlen(scope) + strlen(name));
  return *scope ? arena_printf(ev->arena, "%s.%s", scope, name) : name;
}

Loc dsl_user_loc(const DslEval *ev, const DslNode *n) {
  const DslFrame *f = ev->frame;
  while (f->unit->library && f->call) {
    n = f->call;
    f = f->caller;
  }
  return (Loc){f->unit->file, NULL, n->line, n->col};
}

void dsl_begin(DslEval *ev, const DslNode *n) { ev->b.loc = dsl_loc(ev, n); }

DslValue dsl_built(DslEval *ev, DslNode *n, Val v) {
  Func *f = ev->b.f;
  const char *scope = dsl_scope_join(ev, ev->frame->ops, ev->frame->hint);
  for (size_t i = ev->labels.n; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const char *symbol = op_str(op, AT_name);
    const char *name = op->kind == OP_write     ? arena_printf(ev->arena, "%s.write", symbol)
                       : symbol && op->nin == 0 ? symbol
                                                : dsl_scope_join(ev, scope, op_name(op->kind));
    ARENA_PUSH(ev->arena, &ev->labels, ((OpLabel){.name = name, .loc = dsl_user_loc(ev, n), .fixed = symbol != NULL}));
  }
  if (ev->m->expr_fault) return size_fault(ev, n);
  if (v) return (DslValue){.kind = V_TENSOR, .u.t = v};
  if (!n->reported) note_calls(ev); /* the builder has reported the error */
  n->reported = true;
  return value_error();
}

void dsl_label(DslEval *ev, DslValue v, size_t mark, const char *name, bool fixed) {
  if (v.kind != V_TENSOR || !*name) return;
  size_t i = (size_t)ev->b.f->values.items[v.u.t].op;
  if (i < mark || ev->labels.items[i].fixed) return;
  int which = value_index(ev->b.f, v.u.t);
  if (which) {
    ev->labels.items[i].further[which - 1] = name;
    return;
  }
  ev->labels.items[i].name = name;
  ev->labels.items[i].fixed = fixed;
}

/* Names the further results; those without their own name are numbered. */
static void label_further(DslEval *ev, Builder *names, Op *op, const OpLabel *label) {
  const char **list = ARENA_ARRAY(ev->m->arena, const char *, op->nout - 1);
  for (int k = 1; k < op->nout; k++) {
    const char *own = label->further[k - 1];
    list[k - 1] = builder_unique_name(names, own ? own : arena_printf(ev->arena, "%s.%d", op->name, k));
  }
  op->names = list;
}

void dsl_apply_labels(DslEval *ev) {
  Func *f = ev->b.f;
  Func *empty = ARENA_NEW(ev->arena, Func);
  Builder names = builder_new(ev->m, empty, ev->diags);
  for (size_t i = 0; i < f->ops.n; i++) {
    Op *op = &f->ops.items[i];
    const OpLabel *label = &ev->labels.items[i];
    op->name = op->group = builder_unique_name(&names, label->name);
    if (op->nout > 1) label_further(ev, &names, op, label);
    op->loc = label->loc;
    op->loc.file = module_string(ev->m, label->loc.file);
  }
}

/* ---- variables */

Variable *dsl_variable_find(const Variables *vs, const char *name) {
  for (size_t i = 0; i < vs->n; i++)
    if (strcmp(vs->items[i].name, name) == 0) return &vs->items[i];
  return NULL;
}

void dsl_variable_set(DslEval *ev, Variables *vs, const char *name, DslValue value, const char *state) {
  Variable *found = dsl_variable_find(vs, name);
  if (found) *found = (Variable){name, value, state};
  else ARENA_PUSH(ev->arena, vs, ((Variable){name, value, state}));
}

const DslNode *dsl_unit_function(const DslUnit *u, const char *name) {
  for (const DslNode *n = u->items; n; n = n->next)
    if (n->kind == N_FUNCTION && strcmp(n->s, name) == 0) return n;
  return NULL;
}

static void nearest_function(const DslEval *ev, Nearest *near) {
  const DslUnit *u = ev->frame->unit;
  for (const DslNode *n = u->items; n; n = n->next)
    if (n->kind == N_FUNCTION) nearest_try(near, n->s);
  for (size_t i = 0; i < u->imports.n; i++)
    for (const DslNode *n = u->imports.items[i]->items; n; n = n->next)
      if (n->kind == N_FUNCTION) nearest_try(near, n->s);
  dsl_builtin_nearest(near);
}

static DslValue eval_name(DslEval *ev, DslNode *n) {
  const Variable *v = dsl_variable_find(&ev->frame->variables, n->s);
  if (!v) v = dsl_variable_find(&ev->frame->unit->globals, n->s);
  if (v) return v->value;
  DslValue c = dsl_builtin_constant(ev, n->s);
  if (c.kind != V_NONE) return c;
  bool fresh = !n->reported;
  if (dsl_unit_function(ev->frame->unit, n->s) || dsl_builtin_exists(n->s))
    return dsl_fail(ev, n, DIAG_dsl_name, "'%s' is a function: call it with (...)", n->s);
  dsl_fail(ev, n, DIAG_dsl_name, "unknown name '%s'", n->s);
  Nearest near = nearest_to(n->s);
  for (size_t i = 0; i < ev->frame->variables.n; i++) nearest_try(&near, ev->frame->variables.items[i].name);
  for (size_t i = 0; i < ev->frame->unit->globals.n; i++) nearest_try(&near, ev->frame->unit->globals.items[i].name);
  if (fresh) dsl_nearest_help(ev, &near);
  return value_error();
}

/* ---- strings: {name} is replaced by the value of a variable */

static bool interpolate(DslEval *ev, DslNode *n, Text *t, const char *name, size_t length) {
  DslNode *place = ARENA_NEW(ev->arena, DslNode);
  *place = (DslNode){.kind = N_NAME, .line = n->line, .col = n->col, .s = arena_strndup(ev->arena, name, length)};
  DslValue v = eval_name(ev, place);
  if (v.kind == V_ERROR) n->reported = true;
  else if (v.kind == V_INT) ex_print(ev->m, t, v.u.e);
  else if (v.kind == V_FLOAT) text_double(t, v.u.f);
  else if (v.kind == V_STRING) text_add(t, v.u.s);
  else if (v.kind == V_DTYPE) text_add(t, dtype_name(v.u.dtype));
  else
    dsl_fail(ev, n, DIAG_dsl_type, "'%s' is %s and cannot be written into a string", place->s,
             dsl_value_describe(ev, v));
  return !n->reported;
}

static DslValue eval_string(DslEval *ev, DslNode *n) {
  if (!strchr(n->s, '{')) return value_string(n->s);
  Text t = {.arena = ev->arena};
  for (const char *s = n->s; *s;) {
    const char *open = strchr(s, '{');
    if (!open) {
      text_add(&t, s);
      break;
    }
    text_addn(&t, s, (size_t)(open - s));
    const char *close = strchr(open, '}');
    if (!close) return dsl_fail(ev, n, DIAG_dsl_value, "'{' in a string without a '}'");
    if (!interpolate(ev, n, &t, open + 1, (size_t)(close - open - 1))) return value_error();
    s = close + 1;
  }
  dsl_spend_text(ev, t.n);
  return value_string(text_str(&t));
}

/* ---- expressions */

static DslValue eval_list(DslEval *ev, DslNode *n) {
  int count = 0;
  bool ok = true;
  for (const DslNode *i = n->a; i; i = i->next) count++;
  DslValue *items = ARENA_ARRAY(ev->arena, DslValue, count);
  int k = 0;
  for (DslNode *i = n->a; i; i = i->next) {
    items[k] = dsl_expression(ev, i);
    ok = ok && items[k++].kind != V_ERROR;
  }
  return ok ? value_list(count, items) : value_error();
}

/* `and` and `or` of compile-time conditions skip the right side if the left one decides. */
static DslValue eval_two(DslEval *ev, DslNode *n) {
  DslValue a = dsl_expression(ev, n->a);
  int64_t i;
  if ((n->op == NO_AND || n->op == NO_OR) && dsl_value_const(a, &i) && (i != 0) == (n->op == NO_OR))
    return value_expr(ex_const(ev->m, i != 0));
  DslValue b = dsl_expression(ev, n->b);
  if (a.kind == V_ERROR || b.kind == V_ERROR) return value_error();
  return dsl_binary(ev, n, n->op, a, b);
}

static DslValue eval_any_call(DslEval *ev, DslNode *n) {
  DslUnit *unit = ev->frame->unit;
  const DslNode *function = dsl_unit_function(unit, n->s);
  if (function) return dsl_call(ev, n, unit, function);
  for (size_t i = 0; i < unit->imports.n; i++) {
    function = dsl_unit_function(unit->imports.items[i], n->s);
    if (function) return dsl_call(ev, n, unit->imports.items[i], function);
  }
  if (dsl_builtin_exists(n->s)) return dsl_builtin(ev, n);
  bool fresh = !n->reported;
  dsl_fail(ev, n, DIAG_dsl_name, "unknown function '%s'", n->s);
  Nearest near = nearest_to(n->s);
  nearest_function(ev, &near);
  if (!fresh) return value_error();
  for (const DslLibrary *l = dsl_libraries; l->name; l++)
    if (strstr(l->text, arena_printf(ev->arena, "\nfn %s(", n->s))) {
      diag_help(ev->diags, "it is in the library: import %s", l->name);
      return value_error();
    }
  dsl_nearest_help(ev, &near);
  return value_error();
}

static DslValue eval_kind(DslEval *ev, DslNode *n) {
  switch (n->kind) {
    case N_INT: return value_expr(ex_const(ev->m, n->i));
    case N_FLOAT: return value_float(n->f);
    case N_STRING: return eval_string(ev, n);
    case N_NAME: return eval_name(ev, n);
    case N_LIST: return eval_list(ev, n);
    case N_UNARY: {
      DslValue a = dsl_expression(ev, n->a);
      return a.kind == V_ERROR ? a : dsl_unary(ev, n, n->op, a);
    }
    case N_BINARY: return eval_two(ev, n);
    case N_CALL: return eval_any_call(ev, n);
    case N_INDEX: return dsl_index(ev, n);
    case N_FIELD: return dsl_field(ev, n);
    default: return dsl_fail(ev, n, DIAG_dsl_syntax, "a value is expected here");
  }
}

bool dsl_step(DslEval *ev, DslNode *n) {
  if (ev->stopped) return false;
  bool deep = ev->depth > MAX_DEPTH;
  if (!deep && ++ev->steps <= ev->max_steps) return true;
  if (deep)
    dsl_fail(ev, n, DIAG_dsl_limit, "expressions, lists or calls are nested too deeply; is a function calling itself?");
  else dsl_fail(ev, n, DIAG_dsl_limit, "the model takes more than %lld steps to build", (long long)ev->max_steps);
  ev->stopped = true;
  return false;
}

DslValue dsl_expression(DslEval *ev, DslNode *n) {
  if (n->reported || !dsl_step(ev, n)) return value_error();
  ev->depth++;
  DslValue v = eval_kind(ev, n);
  ev->depth--;
  if (ev->m->expr_fault) return size_fault(ev, n);
  return v;
}

bool dsl_condition(DslEval *ev, DslNode *n, bool *out) {
  DslValue v = dsl_expression(ev, n);
  int64_t i;
  if (v.kind == V_ERROR) return false;
  if (dsl_value_const(v, &i)) {
    *out = i != 0;
    return true;
  }
  dsl_fail(ev, n, DIAG_dsl_symbolic, "a condition must be known at compile time, not %s", dsl_value_describe(ev, v));
  if (v.kind == V_TENSOR) diag_help(ev->diags, "to choose per element write where(condition, a, b)");
  return false;
}

/* ---- calls */

static const DslNode *function_parameter(const DslNode *function, const char *name) {
  for (const DslNode *p = function->a; p; p = p->next)
    if (strcmp(p->s, name) == 0) return p;
  return NULL;
}

static void unknown_keyword(DslEval *ev, DslNode *argument, const DslNode *function) {
  if (argument->reported) return;
  dsl_fail(ev, argument, DIAG_dsl_argument, "%s has no parameter '%s'", function->s, argument->s);
  Nearest near = nearest_to(argument->s);
  for (const DslNode *p = function->a; p; p = p->next) nearest_try(&near, p->s);
  dsl_nearest_help(ev, &near);
}

/* Evaluates the arguments in the caller's frame and binds them in `callee`. */
static bool bind_given(DslEval *ev, DslNode *call, const DslNode *function, DslFrame *callee) {
  const DslNode *next = function->a;
  bool ok = true, keywords = false;
  for (DslNode *a = call->a; a; a = a->next) {
    const DslNode *p = next;
    if (a->s) p = function_parameter(function, a->s);
    else if (next) next = next->next;
    if (!p && a->s) unknown_keyword(ev, a, function);
    else if (!p) dsl_fail(ev, a, DIAG_dsl_argument, "too many arguments for %s", function->s);
    else if (!a->s && keywords) dsl_fail(ev, a, DIAG_dsl_argument, "a positional argument after a keyword");
    else if (dsl_variable_find(&callee->variables, p->s))
      dsl_fail(ev, a, DIAG_dsl_argument, "'%s' is given twice", p->s);
    else {
      DslValue v = dsl_expression(ev, a->a);
      ok = ok && v.kind != V_ERROR;
      dsl_variable_set(ev, &callee->variables, p->s, v, NULL);
      keywords = keywords || a->s;
      continue;
    }
    return false;
  }
  return ok;
}

/* Evaluates defaults in the callee's frame, so that they may use earlier parameters. */
static bool bind_defaults(DslEval *ev, DslNode *call, const DslNode *function, DslFrame *callee) {
  for (const DslNode *p = function->a; p; p = p->next) {
    if (dsl_variable_find(&callee->variables, p->s)) continue;
    if (!p->a) {
      dsl_fail(ev, call, DIAG_dsl_argument, "%s needs an argument for '%s'", function->s, p->s);
      return false;
    }
    DslFrame *caller = ev->frame;
    ev->frame = callee;
    DslValue v = dsl_expression(ev, p->a);
    ev->frame = caller;
    if (v.kind == V_ERROR) return false;
    dsl_variable_set(ev, &callee->variables, p->s, v, NULL);
  }
  return true;
}

const char *dsl_scope_name(DslEval *ev, DslNode *n) {
  DslValue v = dsl_expression(ev, n);
  if (v.kind == V_ERROR) return NULL;
  if (v.kind == V_STRING && *v.u.s) return v.u.s;
  dsl_fail(ev, n, DIAG_dsl_type, "a name must be a non-empty string, not %s", dsl_value_describe(ev, v));
  return NULL;
}

DslValue dsl_call(DslEval *ev, DslNode *call, DslUnit *unit, const DslNode *function) {
  DslFrame *caller = ev->frame;
  DslFrame callee = {.unit = unit,
                     .caller = caller,
                     .call = call,
                     .function = function->s,
                     .weights = caller->weights,
                     .result = value_none()};
  callee.ops = dsl_scope_join(ev, caller->ops, caller->hint);
  if (call->b) {
    const char *name = dsl_scope_name(ev, call->b);
    if (!name) return value_error();
    callee.weights = callee.ops = dsl_scope_join(ev, caller->weights, name);
    callee.named = true;
  }
  if (!bind_given(ev, call, function, &callee) || !bind_defaults(ev, call, function, &callee)) return value_error();
  ev->frame = &callee;
  dsl_statements(ev, function->b);
  ev->frame = caller;
  if (callee.result.kind == V_NONE && ev->diags->errors) return value_error(); /* its return was perhaps skipped */
  return callee.result;
}
