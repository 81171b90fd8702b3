/* ir/calls.c - see calls.h.
 *
 * Depth first, each function once, so that functions with many calls of each other cost no more than their text.
 * Modules may be invalid: calls may form cycles and name missing functions.
 */
#include "ir/calls.h"

#include <string.h>

typedef enum Visit { NEW, OPEN, DONE } Visit;

typedef struct Walk {
  Calls calls;
  Visit *states;
  size_t n_symbols;
} Walk;

static bool find(const Calls *c, const char *name, size_t *at) {
  for (*at = 0; *at < c->n; ++*at)
    if (strcmp(c->items[*at].f->name, name) == 0) return true;
  return false;
}

const Called *calls_find(const Calls *c, const char *name) {
  size_t at;
  return find(c, name, &at) ? &c->items[at] : NULL;
}

/* Facts of a function that is still being visited, or is too deep. */
static Called unbounded(bool cyclic) {
  return (Called){.cyclic = cyclic, .acts = false, .depth = MAX_CALL_DEPTH + 1, .ops = MAX_WRITTEN_OUT + 1};
}

static Called visit(Walk *w, size_t at, int depth) {
  Called *c = &w->calls.items[at];
  if (w->states[at] == DONE) return *c;
  if (w->states[at] == OPEN) return unbounded(true);
  if (depth > MAX_CALL_DEPTH) return unbounded(false); /* it is visited by itself later */
  w->states[at] = OPEN;
  c->ops = (int64_t)c->f->ops.n;
  for (size_t i = 0; i < c->f->ops.n; i++) {
    const Op *op = &c->f->ops.items[i];
    size_t callee;
    c->acts |= op_acts(op->kind);
    const Expr *size = op->kind == OP_bind ? op_expr(op, AT_expr) : NULL;
    if (size && size->kind == EX_SYM) c->binds[size->value] = true;
    if (op->kind != OP_call || !find(&w->calls, op_str(op, AT_name), &callee)) continue;
    Called inner = visit(w, callee, depth + 1);
    c->cyclic |= inner.cyclic;
    c->acts |= inner.acts;
    for (size_t s = 0; inner.binds && s < w->n_symbols; s++) c->binds[s] |= inner.binds[s];
    c->ops += inner.ops;
    if (c->ops > MAX_WRITTEN_OUT) c->ops = MAX_WRITTEN_OUT + 1;
    if (inner.depth >= c->depth) c->depth = inner.depth < MAX_CALL_DEPTH ? inner.depth + 1 : MAX_CALL_DEPTH + 1;
  }
  w->states[at] = DONE;
  return *c;
}

Calls calls_of(Arena *a, const Module *m) {
  Walk w = {{m->funcs.n, ARENA_ARRAY(a, Called, m->funcs.n)}, ARENA_ARRAY(a, Visit, m->funcs.n), m->symbols.n};
  for (size_t i = 0; i < m->funcs.n; i++)
    w.calls.items[i] = (Called){.f = m->funcs.items[i], .binds = ARENA_ARRAY(a, bool, m->symbols.n + 1)};
  for (size_t i = 0; i < m->funcs.n; i++) visit(&w, i, 0);
  return w.calls;
}
