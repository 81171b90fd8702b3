/* passes/rewrite/bind.c - see bind.h. */
#include "passes/rewrite/bind.h"

#include <inttypes.h>

#include "passes/rewrite/rewrite.h"

typedef struct Binding {
  Module *m;
  int symbol;
  const Expr *value;
} Binding;

static const Expr *bind_expr(const Binding *b, const Expr *e) { return ex_subst(b->m, e, b->symbol, b->value); }

static const Type *bind_type(const Binding *b, const Type *t) {
  if (!t) return NULL;
  const Expr *dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = bind_expr(b, t->dims[i]);
  return type_get(b->m, t->dtype, t->rank, dims);
}

static Attr bind_attr(const Binding *b, const Attr *a) {
  Attr out = *a;
  if (attr_kind(a->key) == AK_EXPR) out.u.e = bind_expr(b, a->u.e);
  if (attr_kind(a->key) == AK_EXPRS) {
    const Expr **list = ARENA_ARRAY(b->m->arena, const Expr *, a->n);
    for (int i = 0; i < a->n; i++) list[i] = bind_expr(b, a->u.exprs[i]);
    out.u.exprs = list;
  }
  return out;
}

/* Returns the operation with bound type and attributes, in the old function's memory; rewrite_copy copies it. */
static Op bind_op(const Binding *b, const Op *op) {
  Attr *attrs = ARENA_ARRAY(b->m->arena, Attr, op->nattrs);
  for (int i = 0; i < op->nattrs; i++) attrs[i] = bind_attr(b, &op->attrs[i]);
  Op out = *op;
  out.attrs = attrs;
  return out;
}

/* False after a diagnostic if a size cannot be computed with this value; `op`: the operation with that size, NULL if
 * none. */
static bool computable(const Binding *b, const Op *op, Diags *diags) {
  if (!b->m->expr_fault) return true;
  return diag_error(diags, DIAG_dimension, op ? op->loc : (Loc){0}, "dimension '%s' cannot be %" PRId64 ": %s",
                    b->m->symbols.items[b->symbol].name, b->value->value, b->m->expr_fault);
}

static bool bind_func(const Binding *b, Func *f, Diags *diags) {
  for (size_t v = 1; v < f->values.n; v++) {
    f->values.items[v].type = bind_type(b, f->values.items[v].type);
    if (!computable(b, op_of(f, (Val)v), diags)) return false;
  }
  Rewrite r = rewrite_start(b->m, f, diags);
  bool ok = true;
  for (size_t i = 0; ok && i < f->ops.n; i++) {
    Op op = bind_op(b, &f->ops.items[i]);
    ok = (rewrite_copy(&r, &op) || !op.out) && computable(b, &op, diags);
  }
  if (ok) rewrite_finish(&r);
  return ok && diags->errors == 0;
}

/* "1 to 64", for messages */
static const char *range_text(Arena *a, const Symbol *s) {
  if (s->max == 0) return arena_printf(a, "at least %" PRId64, s->min);
  return s->min == s->max ? arena_printf(a, "%" PRId64 " already", s->min)
                          : arena_printf(a, "%" PRId64 " to %" PRId64, s->min, s->max);
}

bool check_dimension(const Module *m, int symbol, int64_t value, Diags *diags) {
  const Symbol *s = &m->symbols.items[symbol];
  if (s->most)
    return diag_error(diags, DIAG_dimension, (Loc){0}, "dimension '%s' cannot be chosen: the model computes it",
                      s->name);
  if (value < s->min || (s->max && value > s->max))
    return diag_error(diags, DIAG_dimension, (Loc){0}, "dimension '%s' cannot be %" PRId64 ": it is %s", s->name, value,
                      range_text(diags->arena, s));
  if (value % s->multiple)
    return diag_error(diags, DIAG_dimension, (Loc){0},
                      "dimension '%s' cannot be %" PRId64 ": it must be a multiple of %" PRId64, s->name, value,
                      s->multiple);
  return true;
}

bool bind_dimension(Module *m, int symbol, int64_t value, Diags *diags) {
  if (!check_dimension(m, symbol, value, diags)) return false;
  const Binding b = {m, symbol, ex_const(m, value)};
  for (size_t i = 0; i < m->funcs.n; i++)
    if (!bind_func(&b, m->funcs.items[i], diags)) return false;
  for (size_t i = 0; i < m->states.n; i++) m->states.items[i].type = bind_type(&b, m->states.items[i].type);
  for (size_t i = 0; i < m->symbols.n; i++)
    if (m->symbols.items[i].most) m->symbols.items[i].most = bind_expr(&b, m->symbols.items[i].most);
  if (!computable(&b, NULL, diags)) return false;
  Symbol *s = &m->symbols.items[symbol];
  s->min = s->max = s->hint = value;
  s->multiple = 1;
  return true;
}
