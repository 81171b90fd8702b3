/* frontend/dsl/loop.c - `loop t < n carrying h, c while condition { ... }`: a loop that runs in the compiled
 * program.
 *
 * The body is evaluated once.  Carried variables are tensors from before the loop.  In the body they have their
 * value of the previous round, after the loop that of the last round.  A condition is checked before every round:
 * for the first one with the values from before the loop, for the others at the end of the body.  Other variables of
 * the body end with it.
 */
#include <string.h>

#include "frontend/dsl/eval.h"
#include "frontend/loop_build.h"
#include "frontend/known.h"

/* ---- number of rounds */

static const Type *scalar_type(DslEval *ev, DType t) { return type_get(ev->m, t, 0, NULL); }

/* A size, with 0 in place of negative values. */
static const Expr *at_least_0(DslEval *ev, const Expr *e) {
  return known_bounds(ev->m, e).low < 0 ? ex_max(ev->m, e, ex_const(ev->m, 0)) : e;
}

/* Checks a tensor that is a number of rounds; 0 after reporting. */
static Val counted(DslEval *ev, DslNode *n, Val v) {
  const Type *t = type_of(ev->b.f, v);
  if (t->rank != 0 || dtype_class(t->dtype) != DTC_I) {
    dsl_fail(ev, n, DIAG_dsl_type, "the number of rounds must be a size or an i64[] tensor, not a tensor %s",
             dsl_type_text(ev, t));
    return 0;
  }
  return build_cast(&ev->b, v, DT_i64);
}

/* Evaluates `n`, or `n <= most` with a tensor n.  0 after reporting. */
static Val rounds(DslEval *ev, DslNode *limit, const Expr **trips) {
  DslNode *most = limit->kind == N_BINARY && limit->op == NO_LE ? limit->b : NULL;
  DslNode *count = most ? limit->a : limit;
  DslValue c = dsl_expression(ev, count), m = most ? dsl_expression(ev, most) : value_none();
  *trips = NULL;
  if (c.kind == V_ERROR || m.kind == V_ERROR) return 0;
  if (most && m.kind != V_INT) {
    dsl_fail(ev, most, DIAG_dsl_type, "the maximum number of rounds must be a size, not %s", dsl_value_describe(ev, m));
    return 0;
  }
  if (m.kind == V_INT) *trips = at_least_0(ev, m.u.e);
  if (c.kind == V_TENSOR) return counted(ev, count, c.u.t);
  if (c.kind != V_INT) {
    dsl_fail(ev, count, DIAG_dsl_type, "the number of rounds must be a size or an i64[] tensor, not %s",
             dsl_value_describe(ev, c));
    return 0;
  }
  const Expr *size = at_least_0(ev, c.u.e);
  *trips = *trips ? ex_min(ev->m, *trips, size) : size;
  return build_size(&ev->b, scalar_type(ev, DT_i64), size);
}

/* Evaluates the condition with the current variables; 0 after reporting. */
static Val condition(DslEval *ev, DslNode *n) {
  DslValue v = dsl_expression(ev, n);
  if (v.kind == V_ERROR) return 0;
  if (v.kind == V_TENSOR && type_of(ev->b.f, v.u.t) == scalar_type(ev, DT_bool)) return v.u.t;
  dsl_fail(ev, n, DIAG_dsl_type, "the condition of a loop must be a bool[] tensor, not %s", dsl_value_describe(ev, v));
  if (v.kind == V_TENSOR) diag_help(ev->diags, "any(x) and all(x) reduce a tensor to one bool");
  return 0;
}

/* ---- variables */

static Variable *variable(DslEval *ev, const char *name) { return dsl_variable_find(&ev->frame->variables, name); }

static bool check_carried(DslEval *ev, DslNode *n) {
  bool ok = true;
  if (variable(ev, n->s))
    ok = dsl_fail(ev, n, DIAG_dsl_duplicate,
                  "'%s' is a variable already; the number of the round needs a name of its own", n->s)
             .kind != V_ERROR;
  for (DslNode *c = n->b; c; c = c->next) {
    const Variable *v = variable(ev, c->s);
    for (const DslNode *d = n->b; d != c; d = d->next)
      if (strcmp(c->s, d->s) == 0)
        ok = dsl_fail(ev, c, DIAG_dsl_duplicate, "'%s' is carried twice", c->s).kind != V_ERROR;
    if (!v) {
      bool fresh = !c->reported;
      ok = dsl_fail(ev, c, DIAG_dsl_name,
                    "'%s' is not a variable here; a carried variable needs a value before the loop", c->s)
               .kind != V_ERROR;
      Nearest near = nearest_to(c->s);
      for (size_t i = 0; i < ev->frame->variables.n; i++) nearest_try(&near, ev->frame->variables.items[i].name);
      if (fresh) dsl_nearest_help(ev, &near);
    } else if (v->value.kind != V_TENSOR) {
      if (v->value.kind != V_ERROR)
        dsl_fail(ev, c, DIAG_dsl_type, "a loop carries tensors, and '%s' is %s", c->s,
                 dsl_value_describe(ev, v->value));
      ok = false;
    }
  }
  return ok;
}

static void set_round(DslEval *ev, DslNode *n, Val round) {
  dsl_variable_set(ev, &ev->frame->variables, n->s, (DslValue){.kind = V_TENSOR, .u.t = round}, NULL);
}

/* The value of a carried variable at the end of the body; 0 after reporting. */
static Val next_value(DslEval *ev, DslNode *c, const Type *before) {
  DslValue v = variable(ev, c->s)->value;
  if (v.kind == V_ERROR) return 0;
  if (v.kind == V_TENSOR && type_of(ev->b.f, v.u.t) == before) return v.u.t;
  const char *was = dsl_type_text(ev, before);
  dsl_fail(ev, c, DIAG_dsl_shape,
           "'%s' is a tensor %s before the loop and %s at the end of its body; it must stay the same", c->s, was,
           dsl_value_describe(ev, v));
  return 0;
}

/* ---- the loop */

/* Names operation `i` and those after it, one per carried variable, in order. */
static void label_carried(DslEval *ev, size_t i, DslNode *n, const char *suffix) {
  for (const DslNode *c = n->b; c && i < ev->labels.n; c = c->next, i++)
    ev->labels.items[i].name = arena_printf(ev->arena, "%s%s", dsl_scope_join(ev, ev->frame->ops, c->s), suffix);
}

/* Opens the loop and its carries; afterwards the variables are those of the body. */
static bool open_loop(DslEval *ev, DslNode *n, LoopBuild *l) {
  const Expr *trips;
  dsl_begin(ev, n);
  Val count = rounds(ev, n->a, &trips), first = 0;
  if (!count) return false;
  if (n->d) {
    Val zero = build_splat(&ev->b, scalar_type(ev, DT_i64), 0);
    set_round(ev, n, zero);
    dsl_built(ev, n, zero);
    if (!(first = condition(ev, n->d))) return false;
    dsl_begin(ev, n);
    count = build_op(&ev->b, &(OpSpec){.kind = OP_select, .nin = 3, .in = (Val[]){first, count, zero}});
  }
  dsl_built(ev, n, count);
  dsl_begin(ev, n);
  *l = frontend_loop_open(&ev->b, count, trips);
  for (DslNode *c = n->b; c; c = c->next)
    if (!frontend_loop_carry(l, variable(ev, c->s)->value.u.t)) return false;
  dsl_built(ev, n, l->round);
  ev->labels.items[l->at].name = dsl_scope_join(ev, ev->frame->ops, n->s);
  label_carried(ev, l->at + 1, n, "");
  set_round(ev, n, l->round);
  size_t i = 0;
  for (DslNode *c = n->b; c; c = c->next) variable(ev, c->s)->value.u.t = l->carries.items[i++].value;
  return true;
}

/* Evaluates the condition with the values that the next round would start with; *again is 0 if there is none. */
static bool look_again(DslEval *ev, DslNode *n, const LoopBuild *l, Val *again) {
  *again = 0;
  if (!n->d) return true;
  dsl_begin(ev, n);
  Val next = build_binary(&ev->b, OP_add, l->round, build_splat(&ev->b, scalar_type(ev, DT_i64), 1));
  dsl_built(ev, n, next);
  set_round(ev, n, next);
  return (*again = condition(ev, n->d)) != 0;
}

static bool close_loop(DslEval *ev, DslNode *n, LoopBuild *l) {
  Val again;
  size_t i = 0;
  for (DslNode *c = n->b; c; c = c->next, i++)
    if (!(l->carries.items[i].next = next_value(ev, c, type_of(ev->b.f, l->carries.items[i].value)))) return false;
  if (!look_again(ev, n, l, &again)) return false;
  dsl_begin(ev, n);
  size_t repeat = ev->b.f->ops.n;
  bool ok = frontend_loop_close(l, again);
  dsl_built(ev, n, l->round);
  ev->labels.items[repeat].name = arena_printf(ev->arena, "%s.repeat", dsl_scope_join(ev, ev->frame->ops, n->s));
  label_carried(ev, repeat + 1, n, ".last");
  return ok;
}

void dsl_loop(DslEval *ev, DslNode *n) {
  DslFrame *f = ev->frame;
  LoopBuild l = {0};
  size_t before = f->variables.n, errors = ev->diags->errors;
  if (!check_carried(ev, n)) return;
  Variable *saved = ARENA_ARRAY(ev->arena, Variable, before);
  memcpy(saved, f->variables.items, before * sizeof *saved);
  LoopScope scope = {f->loop, before, n->b};
  bool ok = open_loop(ev, n, &l);
  if (ok) {
    f->loop = &scope;
    ev->loops++;
    dsl_statements(ev, n->c);
    f->loop = scope.outer;
    ok = ev->diags->errors == errors && !ev->stopped && close_loop(ev, n, &l);
    ev->loops--;
  }
  memcpy(f->variables.items, saved, before * sizeof *saved);
  f->variables.n = before;
  size_t i = 0;
  for (DslNode *c = n->b; ok && c; c = c->next, i++)
    variable(ev, c->s)->value.u.t = l.carries.items[i].last; /* after an error, the old value, to continue */
}
