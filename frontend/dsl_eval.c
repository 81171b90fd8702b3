/* frontend/dsl_eval.c - statements, names, scopes and calls of the model language. */
#include "frontend/dsl_eval.h"

#include <stdarg.h>
#include <string.h>

#include "base/hash.h"

enum { MAX_DEPTH = 1200 }; /* nested expressions and calls: keeps our own stack small */

/* ---- errors */

Loc eval_loc(const Eval *ev, const Node *n) { return (Loc){ev->frame->unit->file, NULL, n->line, n->col}; }

static void note_calls(Eval *ev) {
  enum { SHOWN = 6 };
  int shown = 0;
  for (const Frame *f = ev->frame; f->call && shown < SHOWN; f = f->caller, shown++)
    diag_note(ev->diags, (Loc){f->caller->unit->file, NULL, f->call->line, f->call->col}, "in the call of %s", f->function);
}

DslValue eval_fail(Eval *ev, Node *n, DiagCode code, const char *format, ...) {
  if (n->reported || ev->stopped) return value_error();
  n->reported = true;
  va_list args;
  va_start(args, format);
  const char *text = arena_vprintf(ev->arena, format, args);
  va_end(args);
  diag_error(ev->diags, code, eval_loc(ev, n), "%s", text);
  note_calls(ev);
  return value_error();
}

const char *type_text(Eval *ev, const Type *t) {
  Text text = {.arena = ev->arena};
  type_print(ev->m, &text, t);
  return text_str(&text);
}

const char *expr_text(Eval *ev, const Expr *e) {
  Text text = {.arena = ev->arena};
  ex_print(ev->m, &text, e);
  return text_str(&text);
}

const char *value_describe(Eval *ev, DslValue v) {
  int64_t i;
  switch (v.kind) {
    case V_INT: return ex_get_const(v.u.e, &i) ? "an integer" : arena_printf(ev->arena, "the size %s", expr_text(ev, v.u.e));
    case V_FLOAT: return "a number";
    case V_STRING: return "a string";
    case V_LIST: return "a list";
    case V_DTYPE: return "an element type";
    case V_TYPE: return arena_printf(ev->arena, "the type %s", type_text(ev, v.u.type));
    case V_INIT: return "an initialiser";
    case V_TENSOR: return arena_printf(ev->arena, "a tensor %s", type_text(ev, type_of(ev->b.f, v.u.t)));
    case V_NONE: return "nothing";
    case V_ERROR: break;
  }
  return "an error";
}

void nearest_help(Eval *ev, const Nearest *n) {
  if (n->best) diag_help(ev->diags, "did you mean '%s'?", n->best);
}

/* ---- building */

const char *scope_join(Eval *ev, const char *scope, const char *name) {
  if (!name || !*name) return scope;
  return *scope ? arena_printf(ev->arena, "%s.%s", scope, name) : name;
}

/* The user's line an operation comes from: libraries stand for the line that calls them. */
static Loc user_loc(const Eval *ev, const Node *n) {
  const Frame *f = ev->frame;
  while (f->unit->library && f->call) {
    n = f->call;
    f = f->caller;
  }
  return (Loc){f->unit->file, NULL, n->line, n->col};
}

void eval_begin(Eval *ev, const Node *n) { ev->b.loc = eval_loc(ev, n); }

DslValue eval_built(Eval *ev, Node *n, Val v) {
  Func *f = ev->b.f;
  const char *scope = scope_join(ev, ev->frame->ops, ev->frame->hint);
  for (size_t i = ev->labels.n; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const char *symbol = op_str(op, AT_name);
    const char *name = op->kind == OP_write ? arena_printf(ev->arena, "%s.write", symbol)
                       : symbol && op->nin == 0 ? symbol : scope_join(ev, scope, op_name(op->kind));
    ARENA_PUSH(ev->arena, &ev->labels, ((OpLabel){name, user_loc(ev, n), symbol != NULL}));
  }
  if (ev->m->expr_overflow) {
    ev->m->expr_overflow = false;
    return eval_fail(ev, n, DIAG_dsl_value, "a size does not fit 64 bits");
  }
  if (v) return (DslValue){.kind = V_TENSOR, .u.t = v};
  if (!n->reported) note_calls(ev); /* the builder has said what is wrong */
  n->reported = true;
  return value_error();
}

void eval_label(Eval *ev, DslValue v, size_t mark, const char *name, bool fixed) {
  if (v.kind != V_TENSOR || !*name) return;
  size_t i = (size_t)ev->b.f->values.items[v.u.t].op;
  if (i < mark || ev->labels.items[i].fixed) return;
  ev->labels.items[i].name = name;
  ev->labels.items[i].fixed = fixed;
}

void eval_apply_labels(Eval *ev) {
  Func *f = ev->b.f;
  Func *empty = ARENA_NEW(ev->arena, Func);
  Builder names = builder_new(ev->m, empty, ev->diags);
  for (size_t i = 0; i < f->ops.n; i++) {
    Op *op = &f->ops.items[i];
    const OpLabel *label = &ev->labels.items[i];
    op->name = op->group = builder_unique_name(&names, label->name);
    op->loc = label->loc;
    op->loc.file = module_string(ev->m, label->loc.file);
  }
}

/* ---- variables */

Variable *variable_find(const Variables *vs, const char *name) {
  for (size_t i = 0; i < vs->n; i++)
    if (strcmp(vs->items[i].name, name) == 0) return &vs->items[i];
  return NULL;
}

void variable_set(Eval *ev, Variables *vs, const char *name, DslValue value, const char *state) {
  Variable *found = variable_find(vs, name);
  if (found) *found = (Variable){name, value, state};
  else ARENA_PUSH(ev->arena, vs, ((Variable){name, value, state}));
}

const Node *unit_function(const Unit *u, const char *name) {
  for (const Node *n = u->items; n; n = n->next)
    if (n->kind == N_FUNCTION && strcmp(n->s, name) == 0) return n;
  return NULL;
}

static void nearest_function(const Eval *ev, Nearest *near) {
  const Unit *u = ev->frame->unit;
  for (const Node *n = u->items; n; n = n->next)
    if (n->kind == N_FUNCTION) nearest_try(near, n->s);
  for (size_t i = 0; i < u->imports.n; i++)
    for (const Node *n = u->imports.items[i]->items; n; n = n->next)
      if (n->kind == N_FUNCTION) nearest_try(near, n->s);
  builtin_nearest(near);
}

static DslValue eval_name(Eval *ev, Node *n) {
  const Variable *v = variable_find(&ev->frame->variables, n->s);
  if (!v) v = variable_find(&ev->frame->unit->globals, n->s);
  if (v) return v->value;
  DslValue c = builtin_constant(ev, n->s);
  if (c.kind != V_NONE) return c;
  bool fresh = !n->reported;
  if (unit_function(ev->frame->unit, n->s) || builtin_exists(n->s))
    return eval_fail(ev, n, DIAG_dsl_name, "'%s' is a function: call it with (...)", n->s);
  eval_fail(ev, n, DIAG_dsl_name, "unknown name '%s'", n->s);
  Nearest near = nearest_to(n->s);
  for (size_t i = 0; i < ev->frame->variables.n; i++) nearest_try(&near, ev->frame->variables.items[i].name);
  for (size_t i = 0; i < ev->frame->unit->globals.n; i++) nearest_try(&near, ev->frame->unit->globals.items[i].name);
  if (fresh) nearest_help(ev, &near);
  return value_error();
}

/* ---- strings: {name} stands for the value of a variable */

static bool interpolate(Eval *ev, Node *n, Text *t, const char *name, size_t length) {
  Node *place = ARENA_NEW(ev->arena, Node);
  *place = (Node){.kind = N_NAME, .line = n->line, .col = n->col, .s = arena_strndup(ev->arena, name, length)};
  DslValue v = eval_name(ev, place);
  if (v.kind == V_ERROR) n->reported = true;
  else if (v.kind == V_INT) ex_print(ev->m, t, v.u.e);
  else if (v.kind == V_FLOAT) text_double(t, v.u.f);
  else if (v.kind == V_STRING) text_add(t, v.u.s);
  else if (v.kind == V_DTYPE) text_add(t, dtype_name(v.u.dtype));
  else eval_fail(ev, n, DIAG_dsl_type, "'%s' is %s and cannot be written into a string", place->s, value_describe(ev, v));
  return !n->reported;
}

static DslValue eval_string(Eval *ev, Node *n) {
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
    if (!close) return eval_fail(ev, n, DIAG_dsl_value, "'{' in a string without a '}'");
    if (!interpolate(ev, n, &t, open + 1, (size_t)(close - open - 1))) return value_error();
    s = close + 1;
  }
  return value_string(text_str(&t));
}

/* ---- expressions */

static DslValue eval_list(Eval *ev, Node *n) {
  int count = 0;
  bool ok = true;
  for (const Node *i = n->a; i; i = i->next) count++;
  DslValue *items = ARENA_ARRAY(ev->arena, DslValue, count);
  int k = 0;
  for (Node *i = n->a; i; i = i->next) {
    items[k] = eval_expression(ev, i);
    ok = ok && items[k++].kind != V_ERROR;
  }
  return ok ? value_list(count, items) : value_error();
}

/* `and` and `or` of compile-time conditions leave out the right side when the left decides. */
static DslValue eval_two(Eval *ev, Node *n) {
  DslValue a = eval_expression(ev, n->a);
  int64_t i;
  if ((n->op == NO_AND || n->op == NO_OR) && value_const(a, &i) && (i != 0) == (n->op == NO_OR))
    return value_expr(ex_const(ev->m, i != 0));
  DslValue b = eval_expression(ev, n->b);
  if (a.kind == V_ERROR || b.kind == V_ERROR) return value_error();
  return eval_binary(ev, n, n->op, a, b);
}

static DslValue eval_any_call(Eval *ev, Node *n) {
  Unit *unit = ev->frame->unit;
  const Node *function = unit_function(unit, n->s);
  if (function) return eval_call(ev, n, unit, function);
  for (size_t i = 0; i < unit->imports.n; i++) {
    function = unit_function(unit->imports.items[i], n->s);
    if (function) return eval_call(ev, n, unit->imports.items[i], function);
  }
  if (builtin_exists(n->s)) return eval_builtin(ev, n);
  bool fresh = !n->reported;
  eval_fail(ev, n, DIAG_dsl_name, "unknown function '%s'", n->s);
  Nearest near = nearest_to(n->s);
  nearest_function(ev, &near);
  if (!fresh) return value_error();
  for (int i = 0; i < dsl_nlibraries; i++)
    if (strstr(dsl_libraries[i].text, arena_printf(ev->arena, "\nfn %s(", n->s))) {
      diag_help(ev->diags, "it is in the library: import %s", dsl_libraries[i].name);
      return value_error();
    }
  nearest_help(ev, &near);
  return value_error();
}

static DslValue eval_kind(Eval *ev, Node *n) {
  switch (n->kind) {
    case N_INT: return value_expr(ex_const(ev->m, n->i));
    case N_FLOAT: return value_float(n->f);
    case N_STRING: return eval_string(ev, n);
    case N_NAME: return eval_name(ev, n);
    case N_LIST: return eval_list(ev, n);
    case N_UNARY: {
      DslValue a = eval_expression(ev, n->a);
      return a.kind == V_ERROR ? a : eval_unary(ev, n, n->op, a);
    }
    case N_BINARY: return eval_two(ev, n);
    case N_CALL: return eval_any_call(ev, n);
    case N_INDEX: return eval_index(ev, n);
    case N_FIELD: return eval_field(ev, n);
    default: return eval_fail(ev, n, DIAG_dsl_syntax, "a value is expected here");
  }
}

/* Counts a step of evaluation; false when a limit is hit, after reporting it. */
static bool step(Eval *ev, Node *n) {
  if (ev->stopped) return false;
  bool deep = ev->depth > MAX_DEPTH;
  if (!deep && ++ev->steps <= ev->max_steps) return true;
  if (deep) eval_fail(ev, n, DIAG_dsl_limit, "expressions and calls are nested too deeply; is a function calling itself?");
  else eval_fail(ev, n, DIAG_dsl_limit, "the model takes more than %lld steps to build", (long long)ev->max_steps);
  ev->stopped = true;
  return false;
}

DslValue eval_expression(Eval *ev, Node *n) {
  if (n->reported || !step(ev, n)) return value_error();
  ev->depth++;
  DslValue v = eval_kind(ev, n);
  ev->depth--;
  if (ev->m->expr_overflow) {
    ev->m->expr_overflow = false;
    return eval_fail(ev, n, DIAG_dsl_value, "a size does not fit 64 bits");
  }
  return v;
}

bool eval_condition(Eval *ev, Node *n, bool *out) {
  DslValue v = eval_expression(ev, n);
  int64_t i;
  if (v.kind == V_ERROR) return false;
  if (value_const(v, &i)) {
    *out = i != 0;
    return true;
  }
  eval_fail(ev, n, DIAG_dsl_symbolic, "a condition must be known at compile time, not %s", value_describe(ev, v));
  if (v.kind == V_TENSOR) diag_help(ev->diags, "to choose per element write where(condition, a, b)");
  return false;
}

/* ---- calls */

static const Node *function_parameter(const Node *function, const char *name) {
  for (const Node *p = function->a; p; p = p->next)
    if (strcmp(p->s, name) == 0) return p;
  return NULL;
}

static void unknown_keyword(Eval *ev, Node *argument, const Node *function) {
  if (argument->reported) return;
  eval_fail(ev, argument, DIAG_dsl_argument, "%s has no parameter '%s'", function->s, argument->s);
  Nearest near = nearest_to(argument->s);
  for (const Node *p = function->a; p; p = p->next) nearest_try(&near, p->s);
  nearest_help(ev, &near);
}

/* Evaluates the arguments in the caller's frame into `callee`. */
static bool bind_given(Eval *ev, Node *call, const Node *function, Frame *callee) {
  const Node *next = function->a;
  bool ok = true, keywords = false;
  for (Node *a = call->a; a; a = a->next) {
    const Node *p = next;
    if (a->s) p = function_parameter(function, a->s);
    else if (next) next = next->next;
    if (!p && a->s) unknown_keyword(ev, a, function);
    else if (!p) eval_fail(ev, a, DIAG_dsl_argument, "too many arguments for %s", function->s);
    else if (!a->s && keywords) eval_fail(ev, a, DIAG_dsl_argument, "a positional argument after a keyword");
    else if (variable_find(&callee->variables, p->s)) eval_fail(ev, a, DIAG_dsl_argument, "'%s' is given twice", p->s);
    else {
      DslValue v = eval_expression(ev, a->a);
      ok = ok && v.kind != V_ERROR;
      variable_set(ev, &callee->variables, p->s, v, NULL);
      keywords = keywords || a->s;
      continue;
    }
    return false;
  }
  return ok;
}

/* Defaults are evaluated in the callee's frame, so they may use earlier parameters. */
static bool bind_defaults(Eval *ev, Node *call, const Node *function, Frame *callee) {
  for (const Node *p = function->a; p; p = p->next) {
    if (variable_find(&callee->variables, p->s)) continue;
    if (!p->a) {
      eval_fail(ev, call, DIAG_dsl_argument, "%s needs an argument for '%s'", function->s, p->s);
      return false;
    }
    Frame *caller = ev->frame;
    ev->frame = callee;
    DslValue v = eval_expression(ev, p->a);
    ev->frame = caller;
    if (v.kind == V_ERROR) return false;
    variable_set(ev, &callee->variables, p->s, v, NULL);
  }
  return true;
}

/* A name given by `as` or `scope`. */
static const char *scope_name(Eval *ev, Node *n) {
  DslValue v = eval_expression(ev, n);
  if (v.kind == V_ERROR) return NULL;
  if (v.kind == V_STRING && *v.u.s) return v.u.s;
  eval_fail(ev, n, DIAG_dsl_type, "a name must be a string that is not empty, not %s", value_describe(ev, v));
  return NULL;
}

DslValue eval_call(Eval *ev, Node *call, Unit *unit, const Node *function) {
  Frame *caller = ev->frame;
  Frame callee = {.unit = unit, .caller = caller, .call = call, .function = function->s, .weights = caller->weights,
                  .result = value_none()};
  callee.ops = scope_join(ev, caller->ops, caller->hint);
  if (call->b) {
    const char *name = scope_name(ev, call->b);
    if (!name) return value_error();
    callee.weights = callee.ops = scope_join(ev, caller->weights, name);
    callee.named = true;
  }
  if (!bind_given(ev, call, function, &callee) || !bind_defaults(ev, call, function, &callee)) return value_error();
  ev->frame = &callee;
  eval_statements(ev, function->b);
  ev->frame = caller;
  if (callee.result.kind == V_NONE && ev->diags->errors) return value_error(); /* its return may have been missed */
  return callee.result;
}

/* ---- statements */

static void assign_name(Eval *ev, const Node *name, DslValue v) {
  variable_set(ev, &ev->frame->variables, name->s, v, NULL);
}

static void eval_assign(Eval *ev, Node *n) {
  size_t mark = ev->b.f->ops.n;
  bool one = n->a->next == NULL;
  if (one) ev->frame->hint = n->a->s;
  DslValue v = eval_expression(ev, n->b);
  ev->frame->hint = NULL;
  if (one) {
    eval_label(ev, v, mark, scope_join(ev, ev->frame->ops, n->a->s), false);
    if (v.kind == V_NONE) v = eval_fail(ev, n->b, DIAG_dsl_type, "this call returns nothing to assign");
    assign_name(ev, n->a, v);
    return;
  }
  int count = 0;
  for (const Node *name = n->a; name; name = name->next) count++;
  if (v.kind != V_ERROR && (v.kind != V_LIST || v.n != count)) {
    const char *what = v.kind == V_LIST ? arena_printf(ev->arena, "a list of %d", v.n) : value_describe(ev, v);
    v = eval_fail(ev, n->b, DIAG_dsl_type, "%d names are assigned, but the value is %s", count, what);
  }
  int i = 0;
  for (const Node *name = n->a; name; name = name->next, i++) {
    DslValue item = v.kind == V_LIST ? v.u.items[i] : value_error();
    eval_label(ev, item, mark, scope_join(ev, ev->frame->ops, name->s), false);
    assign_name(ev, name, item);
  }
}

/* Weights of one entry have different names, and states.  `index` is that of the module's list. */
static bool declare(Eval *ev, Node *n, DeclaredList *list, size_t index, const char *name) {
  while (list->n <= index) ARENA_PUSH(ev->arena, list, (Declared){0});
  Declared *d = &list->items[index];
  if (!d->node) {
    *d = (Declared){n, ev->frame->unit->file, false};
    return true;
  }
  if (n->reported) return false;
  eval_fail(ev, n, DIAG_dsl_duplicate, "\"%s\" is declared twice", name);
  diag_note(ev->diags, (Loc){d->file, NULL, d->node->line, d->node->col}, "declared here before");
  diag_help(ev->diags, "name the call, as in f(...) as \"name\", or put it in a scope; to share a weight, pass its variable");
  return false;
}

/* The full name of the weight or state a statement declares. */
static const char *declared_name(Eval *ev, Node *n) {
  const char *name = n->a ? scope_name(ev, n->a) : n->s;
  return name ? module_string(ev->m, scope_join(ev, ev->frame->weights, name)) : NULL;
}

static const Type *declared_type(Eval *ev, Node *n) {
  DslValue v = eval_expression(ev, n);
  if (v.kind == V_TYPE) return v.u.type;
  if (v.kind != V_ERROR)
    eval_fail(ev, n, DIAG_dsl_type, "a type such as f32[4, 8] is expected, not %s", value_describe(ev, v));
  return NULL;
}

static bool weight_type_fits(Eval *ev, Node *n, const Type *type) {
  int64_t total = 1, extent;
  for (int d = 0; d < type->rank; d++) {
    if (!ex_get_const(type->dims[d], &extent)) {
      eval_fail(ev, n, DIAG_dsl_symbolic, "a weight needs constant sizes, but %s has the dimension %s", type_text(ev, type),
                expr_text(ev, type->dims[d]));
      return false;
    }
    if (extent < 1 || __builtin_mul_overflow(total, extent, &total) || total > INT64_MAX / 16) {
      eval_fail(ev, n, DIAG_dsl_value, "%s is not a size a weight can have", type_text(ev, type));
      return false;
    }
  }
  return true;
}

static bool same_param(const Param *p, const Type *type, DslValue init, bool trainable) {
  return p->type == type && p->init == init.init && p->trainable == trainable &&
         (p->value == init.u.f || (p->value != p->value && init.u.f != init.u.f));
}

static const Param *new_param(Eval *ev, const Node *n, const char *name, const Type *type, DslValue init) {
  Param *p = module_param_add(ev->m, name, type);
  p->init = init.init;
  p->value = init.u.f;
  p->trainable = n->i == 0;
  p->loc = user_loc(ev, n);
  p->loc.file = module_string(ev->m, p->loc.file);
  if (p->init == INIT_NORMAL || p->init == INIT_UNIFORM) p->seed = (int64_t)(hash64(name, strlen(name), 0) >> 1);
  return p;
}

static DslValue weight_value(Eval *ev, Node *n, const char *name, const Type *type, DslValue init) {
  const Param *p = module_param(ev->m, name);
  if (!p) p = new_param(ev, n, name, type, init);
  if (!declare(ev, n, &ev->weights, (size_t)(p - ev->m->params.items), name)) return value_error();
  if (!same_param(p, type, init, n->i == 0))
    return eval_fail(ev, n, DIAG_dsl_duplicate, "\"%s\" is declared differently in another entry, as %s", name, type_text(ev, p->type));
  eval_begin(ev, n);
  return eval_built(ev, n, build_param(&ev->b, name));
}

static void eval_weight(Eval *ev, Node *n) {
  const char *name = declared_name(ev, n);
  const Type *type = declared_type(ev, n->b);
  DslValue init = eval_expression(ev, n->c), v = value_error();
  if (init.kind != V_INIT && init.kind != V_ERROR)
    eval_fail(ev, n->c, DIAG_dsl_type, "an initialiser such as normal(0.02) or zeros is expected, not %s", value_describe(ev, init));
  if (init.kind == V_INIT && type && init.init != INIT_ZEROS && init.init != INIT_CONSTANT && !dtype_is_float(type->dtype))
    init = eval_fail(ev, n->c, DIAG_dsl_type, "random initialisers are for floats, not %s", dtype_name(type->dtype));
  if (name && type && init.kind == V_INIT && weight_type_fits(ev, n->b, type)) v = weight_value(ev, n, name, type, init);
  variable_set(ev, &ev->frame->variables, n->s, v, NULL);
}

static DslValue state_value(Eval *ev, Node *n, const char *name, const Type *type, double start) {
  const State *s = module_state(ev->m, name);
  if (!s) s = module_state_add(ev->m, name, type, start);
  if (!declare(ev, n, &ev->states, (size_t)(s - ev->m->states.items), name)) return value_error();
  if (s->type != type || s->value != start)
    return eval_fail(ev, n, DIAG_dsl_duplicate, "\"%s\" is declared differently in another entry, as %s", name, type_text(ev, s->type));
  Attr a = attr_s(ev->m, AT_name, name);
  eval_begin(ev, n);
  return eval_built(ev, n, build_op(&ev->b, &(OpSpec){.kind = OP_read, .name = name, .type = type, .nattrs = 1, .attrs = &a}));
}

static void eval_state(Eval *ev, Node *n) {
  const char *name = declared_name(ev, n);
  const Type *type = declared_type(ev, n->b);
  DslValue start = n->c ? eval_expression(ev, n->c) : value_float(0), v = value_error();
  double number = 0;
  if (start.kind != V_ERROR && !value_number(start, &number))
    start = eval_fail(ev, n->c, DIAG_dsl_type, "a state starts as a number, not %s", value_describe(ev, start));
  if (name && type && start.kind != V_ERROR) v = state_value(ev, n, name, type, number);
  variable_set(ev, &ev->frame->variables, n->s, v, v.kind == V_TENSOR ? name : NULL);
}

static void eval_write(Eval *ev, Node *n) {
  const Variable *variable = variable_find(&ev->frame->variables, n->s);
  if (!variable || (!variable->state && variable->value.kind != V_ERROR)) {
    eval_fail(ev, n, DIAG_dsl_name, "'%s' is not a state of this function; <- writes a state", n->s);
    return;
  }
  const char *name = variable->state;
  size_t mark = ev->b.f->ops.n;
  ev->frame->hint = n->s;
  DslValue v = eval_expression(ev, n->a);
  ev->frame->hint = NULL;
  if (v.kind == V_ERROR || !name) return;
  const State *state = module_state(ev->m, name);
  Declared *declared = &ev->states.items[state - ev->m->states.items];
  if (v.kind != V_TENSOR || type_of(ev->b.f, v.u.t) != state->type) {
    eval_fail(ev, n->a, DIAG_dsl_shape, "state \"%s\" is %s, not %s", name, type_text(ev, state->type), value_describe(ev, v));
    return;
  }
  if (declared->written) {
    eval_fail(ev, n, DIAG_dsl_duplicate, "state \"%s\" is written twice; write its final value once", name);
    return;
  }
  declared->written = true;
  eval_label(ev, v, mark, scope_join(ev, ev->frame->ops, n->s), false);
  Attr a = attr_s(ev->m, AT_name, name);
  eval_begin(ev, n);
  eval_built(ev, n, build_op(&ev->b, &(OpSpec){.kind = OP_write, .name = name, .nin = 1, .in = &v.u.t, .nattrs = 1, .attrs = &a}));
  variable_set(ev, &ev->frame->variables, n->s, v, name);
}

/* Runs a block with the names inside it put under `name`. */
static void eval_scoped(Eval *ev, const char *name, Node *body) {
  Frame *f = ev->frame;
  const char *weights = f->weights, *ops = f->ops;
  if (name) {
    f->weights = scope_join(ev, weights, name);
    f->ops = scope_join(ev, ops, name);
  }
  eval_statements(ev, body);
  f->weights = weights;
  f->ops = ops;
}

static bool eval_round(Eval *ev, Node *n, DslValue item) {
  const char *name = NULL;
  if (!step(ev, n)) return false;
  variable_set(ev, &ev->frame->variables, n->s, item, NULL);
  if (n->d && !(name = scope_name(ev, n->d))) return false;
  eval_scoped(ev, name, n->c);
  return !ev->stopped && !ev->frame->returned;
}

static void eval_for(Eval *ev, Node *n) {
  DslValue from = eval_expression(ev, n->a);
  DslValue to = n->b ? eval_expression(ev, n->b) : value_none();
  int64_t lo, hi;
  if (from.kind == V_ERROR || to.kind == V_ERROR) return;
  if (!n->b) {
    if (from.kind != V_LIST) {
      eval_fail(ev, n->a, DIAG_dsl_type, "'for' runs over a range such as 0..n or a list, not %s", value_describe(ev, from));
      return;
    }
    for (int i = 0; i < from.n; i++)
      if (!eval_round(ev, n, from.u.items[i])) return;
    return;
  }
  if (!value_const(from, &lo) || !value_const(to, &hi)) {
    bool first = !value_const(from, &lo);
    eval_fail(ev, first ? n->a : n->b, DIAG_dsl_symbolic, "the range of a loop must be integers known at compile time, not %s",
              value_describe(ev, first ? from : to));
    return;
  }
  for (int64_t i = lo; i < hi; i++)
    if (!eval_round(ev, n, value_expr(ex_const(ev->m, i)))) return;
}

static void eval_return(Eval *ev, Node *n) {
  Frame *f = ev->frame;
  if (f->is_entry) {
    eval_fail(ev, n->a ? n->a : n, DIAG_dsl_structure, "an entry does not return: write output name = value");
    return;
  }
  size_t mark = ev->b.f->ops.n;
  f->result = n->a ? eval_expression(ev, n->a) : value_none();
  f->returned = true;
  eval_label(ev, f->result, mark, f->ops, f->named);
}

static void eval_output(Eval *ev, Node *n) {
  Func *f = ev->b.f;
  if (!ev->frame->is_entry) {
    eval_fail(ev, n, DIAG_dsl_structure, "only an entry has outputs; a function returns a value");
    return;
  }
  size_t mark = f->ops.n;
  ev->frame->hint = n->s;
  DslValue v = eval_expression(ev, n->a);
  ev->frame->hint = NULL;
  if (v.kind == V_ERROR) return;
  if (v.kind != V_TENSOR) {
    eval_fail(ev, n->a, DIAG_dsl_type, "an output is a tensor, not %s", value_describe(ev, v));
    return;
  }
  for (size_t i = 0; i < f->outputs.n; i++)
    if (strcmp(f->outputs.items[i].name, n->s) == 0) {
      eval_fail(ev, n, DIAG_dsl_duplicate, "output '%s' is given twice", n->s);
      return;
    }
  eval_label(ev, v, mark, scope_join(ev, ev->frame->ops, n->s), false);
  build_output(&ev->b, n->s, v.u.t, NULL);
}

static void eval_check(Eval *ev, Node *n) {
  bool holds;
  if (!eval_condition(ev, n->a, &holds) || holds) return;
  DslValue text = eval_expression(ev, n->b);
  if (text.kind == V_ERROR) return;
  eval_fail(ev, n, DIAG_dsl_check, "%s", text.kind == V_STRING ? text.u.s : "a check does not hold");
}

static void eval_if(Eval *ev, Node *n) {
  bool holds;
  if (eval_condition(ev, n->a, &holds)) eval_statements(ev, holds ? n->b : n->c);
}

static void eval_statement(Eval *ev, Node *n) {
  const char *name;
  switch (n->kind) {
    case N_ASSIGN: eval_assign(ev, n); break;
    case N_WRITE: eval_write(ev, n); break;
    case N_EXPRESSION:
      if (n->a->kind != N_CALL) eval_fail(ev, n, DIAG_dsl_syntax, "this value is not used; did you mean to assign it?");
      else eval_expression(ev, n->a);
      break;
    case N_WEIGHT: eval_weight(ev, n); break;
    case N_STATE: eval_state(ev, n); break;
    case N_FOR: eval_for(ev, n); break;
    case N_IF: eval_if(ev, n); break;
    case N_SCOPE:
      if ((name = scope_name(ev, n->a))) eval_scoped(ev, name, n->b);
      break;
    case N_RETURN: eval_return(ev, n); break;
    case N_OUTPUT: eval_output(ev, n); break;
    case N_CHECK: eval_check(ev, n); break;
    default: eval_fail(ev, n, DIAG_dsl_syntax, "a statement is expected here");
  }
}

void eval_statements(Eval *ev, Node *list) {
  ev->depth++;
  for (Node *n = list; n && !ev->frame->returned && step(ev, n); n = n->next) eval_statement(ev, n);
  ev->depth--;
}
