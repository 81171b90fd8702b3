/* frontend/dsl/statement.c - statements: assignments, weights, states, loops, outputs. */
#include <string.h>

#include "base/hash.h"
#include "frontend/dsl/eval.h"

/* True if the variable is from before the innermost loop, which does not carry it. */
static bool belongs_outside(const DslEval *ev, const char *name) {
  const LoopScope *l = ev->frame->loop;
  const Variable *v = l ? dsl_variable_find(&ev->frame->variables, name) : NULL;
  if (!v || (size_t)(v - ev->frame->variables.items) >= l->nvariables) return false;
  for (const DslNode *c = l->carried; c; c = c->next)
    if (strcmp(c->s, name) == 0) return false;
  return true;
}

static void assign_name(DslEval *ev, DslNode *name, DslValue v) {
  if (belongs_outside(ev, name->s)) {
    bool fresh = !name->reported;
    dsl_fail(ev, name, DIAG_dsl_structure, "'%s' is a variable from outside the loop, which does not carry it",
             name->s);
    if (fresh)
      diag_help(ev->diags, "write loop ... carrying %s to change it from round to round, or use another name", name->s);
    return;
  }
  dsl_variable_set(ev, &ev->frame->variables, name->s, v, NULL);
}

static void run_assign(DslEval *ev, DslNode *n) {
  size_t mark = ev->b.f->ops.n;
  bool one = n->a->next == NULL;
  if (one) ev->frame->hint = n->a->s;
  DslValue v = dsl_expression(ev, n->b);
  ev->frame->hint = NULL;
  if (one) {
    dsl_label(ev, v, mark, dsl_scope_join(ev, ev->frame->ops, n->a->s), false);
    if (v.kind == V_NONE) v = dsl_fail(ev, n->b, DIAG_dsl_type, "this call returns nothing to assign");
    assign_name(ev, n->a, v);
    return;
  }
  int count = 0;
  for (const DslNode *name = n->a; name; name = name->next) count++;
  if (v.kind != V_ERROR && (v.kind != V_LIST || v.n != count)) {
    const char *what = v.kind == V_LIST ? arena_printf(ev->arena, "a list of %d", v.n) : dsl_value_describe(ev, v);
    v = dsl_fail(ev, n->b, DIAG_dsl_type, "%d names are assigned, but the value is %s", count, what);
  }
  int i = 0;
  for (DslNode *name = n->a; name; name = name->next, i++) {
    DslValue item = v.kind == V_LIST ? v.u.items[i] : value_error();
    dsl_label(ev, item, mark, dsl_scope_join(ev, ev->frame->ops, name->s), false);
    assign_name(ev, name, item);
  }
}

/* Records a declaration; weights of one entry need different names, and so do states.  `index` is that in the
 * module's list. */
static bool declare(DslEval *ev, DslNode *n, DeclaredList *list, size_t index, const char *name) {
  while (list->n <= index) ARENA_PUSH(ev->arena, list, (Declared){0});
  Declared *d = &list->items[index];
  if (!d->node) {
    *d = (Declared){n, ev->frame->unit->file, false};
    return true;
  }
  if (n->reported) return false;
  dsl_fail(ev, n, DIAG_dsl_duplicate, "\"%s\" is declared twice", name);
  diag_note(ev->diags, (Loc){d->file, NULL, d->node->line, d->node->col}, "previous declaration is here");
  diag_help(ev->diags,
            "name the call, as in f(...) as \"name\", or put it in a scope; to share a weight, pass its variable");
  return false;
}

/* The full name of the weight or state that a statement declares. */
static const char *declared_name(DslEval *ev, DslNode *n) {
  const char *name = n->a ? dsl_scope_name(ev, n->a) : n->s;
  return name ? module_string(ev->m, dsl_scope_join(ev, ev->frame->weights, name)) : NULL;
}

static const Type *declared_type(DslEval *ev, DslNode *n) {
  DslValue v = dsl_expression(ev, n);
  if (v.kind == V_TYPE) return v.u.type;
  if (v.kind != V_ERROR)
    dsl_fail(ev, n, DIAG_dsl_type, "a type such as f32[4, 8] is expected, not %s", dsl_value_describe(ev, v));
  return NULL;
}

static bool weight_type_fits(DslEval *ev, DslNode *n, const Type *type) {
  int64_t total = 1, extent;
  for (int d = 0; d < type->rank; d++) {
    if (!ex_get_const(type->dims[d], &extent)) {
      dsl_fail(ev, n, DIAG_dsl_symbolic, "a weight needs constant sizes, but %s has the dimension %s",
               dsl_type_text(ev, type), dsl_expr_text(ev, type->dims[d]));
      return false;
    }
    if (extent < 1 || __builtin_mul_overflow(total, extent, &total) || total > INT64_MAX / 16) {
      dsl_fail(ev, n, DIAG_dsl_value, "%s is not a size a weight can have", dsl_type_text(ev, type));
      return false;
    }
  }
  return true;
}

static bool same_param(const Param *p, const Type *type, DslValue init, bool trainable) {
  return p->type == type && p->init == init.init && p->trainable == trainable &&
         (p->value == init.u.f || (p->value != p->value && init.u.f != init.u.f));
}

static const Param *new_param(DslEval *ev, const DslNode *n, const char *name, const Type *type, DslValue init) {
  Param *p = module_param_add(ev->m, name, type);
  p->init = init.init;
  p->value = init.u.f;
  p->trainable = n->i != WEIGHT_BUFFER;
  p->loc = dsl_user_loc(ev, n);
  p->loc.file = module_string(ev->m, p->loc.file);
  if (p->init == INIT_NORMAL || p->init == INIT_UNIFORM) p->seed = (int64_t)(hash64(name, strlen(name), 0) >> 1);
  return p;
}

static DslValue weight_value(DslEval *ev, DslNode *n, const char *name, const Type *type, DslValue init) {
  const Param *p = module_param(ev->m, name);
  if (!p) p = new_param(ev, n, name, type, init);
  if (!declare(ev, n, &ev->weights, (size_t)(p - ev->m->params.items), name)) return value_error();
  if (!same_param(p, type, init, n->i != WEIGHT_BUFFER))
    return dsl_fail(ev, n, DIAG_dsl_duplicate, "\"%s\" is declared differently in another entry, as %s", name,
                    dsl_type_text(ev, p->type));
  dsl_begin(ev, n);
  Attr attrs[] = {attr_s(ev->m, AT_name, name), attr_i(AT_experts, 0)};
  OpSpec of_experts = {.kind = OP_param, .name = name, .type = type, .nattrs = 2, .attrs = attrs};
  return dsl_built(ev, n, n->i == WEIGHT_OF_EXPERTS ? build_op(&ev->b, &of_experts) : build_param(&ev->b, name));
}

static void run_weight(DslEval *ev, DslNode *n) {
  const char *name = declared_name(ev, n);
  const Type *type = declared_type(ev, n->b);
  DslValue init = dsl_expression(ev, n->c), v = value_error();
  if (init.kind != V_INIT && init.kind != V_ERROR)
    dsl_fail(ev, n->c, DIAG_dsl_type, "an initialiser such as normal(0.02) or zeros is expected, not %s",
             dsl_value_describe(ev, init));
  if (init.kind == V_INIT && type && init.init != INIT_ZEROS && init.init != INIT_CONSTANT &&
      !dtype_is_float(type->dtype))
    init = dsl_fail(ev, n->c, DIAG_dsl_type, "random initialisers are for floats, not %s", dtype_name(type->dtype));
  if (type && n->i == WEIGHT_OF_EXPERTS && type->rank == 0)
    init = dsl_fail(ev, n->b, DIAG_dsl_shape, "the first dimension of an expert weight is the expert; %s has none",
                    dsl_type_text(ev, type));
  if (name && type && init.kind == V_INIT && weight_type_fits(ev, n->b, type))
    v = weight_value(ev, n, name, type, init);
  const char *written = n->i == WEIGHT_BUFFER && ev->training && v.kind == V_TENSOR ? name : NULL;
  dsl_variable_set(ev, &ev->frame->variables, n->s, v, written);
}

static DslValue state_value(DslEval *ev, DslNode *n, const char *name, const Type *type, double start) {
  const State *s = module_state(ev->m, name);
  if (!s) s = module_state_add(ev->m, name, type, start);
  if (!declare(ev, n, &ev->states, (size_t)(s - ev->m->states.items), name)) return value_error();
  if (s->type != type || s->value != start)
    return dsl_fail(ev, n, DIAG_dsl_duplicate, "\"%s\" is declared differently in another entry, as %s", name,
                    dsl_type_text(ev, s->type));
  Attr a = attr_s(ev->m, AT_name, name);
  dsl_begin(ev, n);
  return dsl_built(ev, n,
                   build_op(&ev->b, &(OpSpec){.kind = OP_read, .name = name, .type = type, .nattrs = 1, .attrs = &a}));
}

static void run_state(DslEval *ev, DslNode *n) {
  const char *name = declared_name(ev, n);
  const Type *type = declared_type(ev, n->b);
  DslValue start = n->c ? dsl_expression(ev, n->c) : value_float(0), v = value_error();
  double number = 0;
  if (start.kind != V_ERROR && !dsl_value_number(start, &number))
    start = dsl_fail(ev, n->c, DIAG_dsl_type, "the initial value of a state must be a number, not %s",
                     dsl_value_describe(ev, start));
  if (name && type && start.kind != V_ERROR) v = state_value(ev, n, name, type, number);
  dsl_variable_set(ev, &ev->frame->variables, n->s, v, v.kind == V_TENSOR ? name : NULL);
}

/* Reports statements that run once per request but stand in a loop. */
static bool outside_loops(DslEval *ev, DslNode *n, const char *what) {
  if (ev->loops) dsl_fail(ev, n, DIAG_dsl_structure, "%s in a loop; carry the value and do it after the loop", what);
  return ev->loops == 0;
}

/* A buffer that training writes becomes a state that starts as the buffer; dsl_load makes all functions read the
 * state. */
static const State *state_written(DslEval *ev, const char *name) {
  const State *s = module_state(ev->m, name);
  if (s) return s;
  State *fresh = module_state_add(ev->m, name, module_param(ev->m, name)->type, 0);
  fresh->param = fresh->name;
  return fresh;
}

static void run_write(DslEval *ev, DslNode *n) {
  const Variable *variable = dsl_variable_find(&ev->frame->variables, n->s);
  if (!outside_loops(ev, n, "a state is written")) return;
  if (!variable || (!variable->state && variable->value.kind != V_ERROR)) {
    dsl_fail(ev, n, DIAG_dsl_name, "'%s' is not a state of this function; <- writes a state, or in training a buffer",
             n->s);
    return;
  }
  const char *name = variable->state;
  size_t mark = ev->b.f->ops.n;
  ev->frame->hint = n->s;
  DslValue v = dsl_expression(ev, n->a);
  ev->frame->hint = NULL;
  if (v.kind == V_ERROR || !name) return;
  const State *state = state_written(ev, name);
  while (ev->states.n <= (size_t)(state - ev->m->states.items)) ARENA_PUSH(ev->arena, &ev->states, (Declared){0});
  Declared *declared = &ev->states.items[state - ev->m->states.items];
  if (v.kind != V_TENSOR || type_of(ev->b.f, v.u.t) != state->type) {
    dsl_fail(ev, n->a, DIAG_dsl_shape, "state \"%s\" is %s, not %s", name, dsl_type_text(ev, state->type),
             dsl_value_describe(ev, v));
    return;
  }
  if (declared->written) {
    dsl_fail(ev, n, DIAG_dsl_duplicate, "state \"%s\" is written twice; write its final value once", name);
    return;
  }
  declared->written = true;
  dsl_label(ev, v, mark, dsl_scope_join(ev, ev->frame->ops, n->s), false);
  Attr a = attr_s(ev->m, AT_name, name);
  dsl_begin(ev, n);
  dsl_built(
      ev, n,
      build_op(&ev->b, &(OpSpec){.kind = OP_write, .name = name, .nin = 1, .in = &v.u.t, .nattrs = 1, .attrs = &a}));
  dsl_variable_set(ev, &ev->frame->variables, n->s, v, name);
}

/* Runs a block with `name` as a scope of the names inside it. */
static void run_scoped(DslEval *ev, const char *name, DslNode *body) {
  DslFrame *f = ev->frame;
  const char *weights = f->weights, *ops = f->ops;
  if (name) {
    f->weights = dsl_scope_join(ev, weights, name);
    f->ops = dsl_scope_join(ev, ops, name);
  }
  dsl_statements(ev, body);
  f->weights = weights;
  f->ops = ops;
}

static bool run_round(DslEval *ev, DslNode *n, DslValue item) {
  const char *name = NULL;
  if (!dsl_step(ev, n)) return false;
  dsl_variable_set(ev, &ev->frame->variables, n->s, item, NULL);
  if (n->d && !(name = dsl_scope_name(ev, n->d))) return false;
  run_scoped(ev, name, n->c);
  return !ev->stopped && !ev->frame->returned;
}

static void run_for(DslEval *ev, DslNode *n) {
  DslValue from = dsl_expression(ev, n->a);
  DslValue to = n->b ? dsl_expression(ev, n->b) : value_none();
  int64_t lo, hi;
  if (from.kind == V_ERROR || to.kind == V_ERROR) return;
  if (!n->b) {
    if (from.kind != V_LIST) {
      dsl_fail(ev, n->a, DIAG_dsl_type, "'for' runs over a range such as 0..n or a list, not %s",
               dsl_value_describe(ev, from));
      return;
    }
    for (int i = 0; i < from.n; i++)
      if (!run_round(ev, n, from.u.items[i])) return;
    return;
  }
  if (!dsl_value_const(from, &lo) || !dsl_value_const(to, &hi)) {
    bool first = !dsl_value_const(from, &lo);
    dsl_fail(ev, first ? n->a : n->b, DIAG_dsl_symbolic,
             "the range of a loop must be integers known at compile time, not %s",
             dsl_value_describe(ev, first ? from : to));
    return;
  }
  for (int64_t i = lo; i < hi; i++)
    if (!run_round(ev, n, value_expr(ex_const(ev->m, i)))) return;
}

static void run_return(DslEval *ev, DslNode *n) {
  DslFrame *f = ev->frame;
  if (f->is_entry) {
    dsl_fail(ev, n->a ? n->a : n, DIAG_dsl_structure, "an entry cannot return a value; write output name = value");
    return;
  }
  if (f->loop) {
    dsl_fail(ev, n, DIAG_dsl_structure, "a return in the body of a loop; carry the value and return it after the loop");
    return;
  }
  size_t mark = ev->b.f->ops.n;
  f->result = n->a ? dsl_expression(ev, n->a) : value_none();
  f->returned = true;
  dsl_label(ev, f->result, mark, f->ops, f->named);
}

static void run_output(DslEval *ev, DslNode *n) {
  Func *f = ev->b.f;
  if (!ev->frame->is_entry) {
    dsl_fail(ev, n, DIAG_dsl_structure, "only an entry has outputs; a function returns a value");
    return;
  }
  if (!outside_loops(ev, n, "an output")) return;
  size_t mark = f->ops.n;
  ev->frame->hint = n->s;
  DslValue v = dsl_expression(ev, n->a);
  ev->frame->hint = NULL;
  if (v.kind == V_ERROR) return;
  if (v.kind != V_TENSOR) {
    dsl_fail(ev, n->a, DIAG_dsl_type, "an output must be a tensor, not %s", dsl_value_describe(ev, v));
    return;
  }
  for (size_t i = 0; i < f->outputs.n; i++)
    if (strcmp(f->outputs.items[i].name, n->s) == 0) {
      dsl_fail(ev, n, DIAG_dsl_duplicate, "output '%s' is given twice", n->s);
      return;
    }
  dsl_label(ev, v, mark, dsl_scope_join(ev, ev->frame->ops, n->s), false);
  build_output(&ev->b, n->s, v.u.t, NULL);
}

static void run_check(DslEval *ev, DslNode *n) {
  bool holds;
  if (!dsl_condition(ev, n->a, &holds) || holds) return;
  DslValue text = dsl_expression(ev, n->b);
  if (text.kind == V_ERROR) return;
  dsl_fail(ev, n, DIAG_dsl_check, "%s", text.kind == V_STRING ? text.u.s : "a check does not hold");
}

static void run_if(DslEval *ev, DslNode *n) {
  bool holds;
  if (dsl_condition(ev, n->a, &holds)) dsl_statements(ev, holds ? n->b : n->c);
}

static void run_statement(DslEval *ev, DslNode *n) {
  const char *name;
  switch (n->kind) {
    case N_ASSIGN: run_assign(ev, n); break;
    case N_WRITE: run_write(ev, n); break;
    case N_EXPRESSION:
      if (n->a->kind != N_CALL) dsl_fail(ev, n, DIAG_dsl_syntax, "this value is not used; did you mean to assign it?");
      else dsl_expression(ev, n->a);
      break;
    case N_WEIGHT: run_weight(ev, n); break;
    case N_STATE: run_state(ev, n); break;
    case N_FOR: run_for(ev, n); break;
    case N_LOOP: dsl_loop(ev, n); break;
    case N_IF: run_if(ev, n); break;
    case N_SCOPE:
      if ((name = dsl_scope_name(ev, n->a))) run_scoped(ev, name, n->b);
      break;
    case N_RETURN: run_return(ev, n); break;
    case N_OUTPUT: run_output(ev, n); break;
    case N_CHECK: run_check(ev, n); break;
    default: dsl_fail(ev, n, DIAG_dsl_syntax, "a statement is expected here");
  }
}

void dsl_statements(DslEval *ev, DslNode *list) {
  ev->depth++;
  for (DslNode *n = list; n && !ev->frame->returned && dsl_step(ev, n); n = n->next) run_statement(ev, n);
  ev->depth--;
}
