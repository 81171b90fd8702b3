/* ir/opaque.c - see opaque.h. */
#include "ir/opaque.h"

#include <string.h>

#include "ir/opaque_rule.h"

/* ---- kernels */

void opaque_kernel_add(Module *m, const OpaqueKernel *k) { ARENA_PUSH(m->arena, &m->kernels, *k); }

const OpaqueKernel *opaque_kernel(const Module *m, const char *kind) {
  for (size_t i = 0; i < m->kernels.n; i++)
    if (strcmp(m->kernels.items[i].kind, kind) == 0) return &m->kernels.items[i];
  return NULL;
}

/* ---- reports */

enum { PLACES = 3 };

/* An operator that cannot be computed.  Nodes without a rule are distinguished by name, so that several results of a
 * node count once. */
typedef struct Unknown {
  const char *kind, *last; /* the last node seen: results of a node are adjacent */
  const char *rule;        /* NULL if it has none */
  size_t nodes, assumed, places;
  const Op *first[PLACES];
} Unknown;

typedef struct Unknowns {
  Unknown *items;
  size_t n, cap;
} Unknowns;

bool opaque_any(const Module *m) {
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++)
      if (m->funcs.items[k]->ops.items[i].kind == OP_opaque) return true;
  return false;
}

static bool is_missing(const Module *m, const Op *op) {
  return op->kind == OP_opaque && !(op_attr(op, AT_rule) && opaque_kernel(m, op_str(op, AT_kind)));
}

bool opaque_unruled(const Module *m) {
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) {
      const Op *op = &m->funcs.items[k]->ops.items[i];
      if (op->kind == OP_opaque && !op_attr(op, AT_rule)) return true;
    }
  return false;
}

bool opaque_missing(const Module *m) {
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++)
      if (is_missing(m, &m->funcs.items[k]->ops.items[i])) return true;
  return false;
}

const char *opaque_ruled(Arena *a, const Module *m) {
  Unknowns list = {0};
  Text t = {.arena = a};
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) {
      const Op *op = &m->funcs.items[k]->ops.items[i];
      if (op->kind != OP_opaque || !op_attr(op, AT_rule)) continue;
      size_t at = 0;
      while (at < list.n && strcmp(list.items[at].kind, op_str(op, AT_kind)) != 0) at++;
      if (at < list.n) continue;
      ARENA_PUSH(a, &list, ((Unknown){.kind = op_str(op, AT_kind)}));
      text_printf(&t, "%s%s", t.n ? ", " : "", op_str(op, AT_kind));
    }
  return t.n ? text_str(&t) : NULL;
}

static void count(Arena *a, Unknowns *list, const Op *op) {
  const char *kind = op_str(op, AT_kind), *name = op_str(op, AT_name), *rule = op_str(op, AT_rule);
  size_t at = 0;
  while (at < list->n && strcmp(list->items[at].kind, kind) != 0) at++;
  if (at == list->n) ARENA_PUSH(a, list, ((Unknown){.kind = kind, .rule = rule}));
  Unknown *u = &list->items[at];
  bool again = name && u->last && strcmp(u->last, name) == 0;
  u->last = name;
  u->assumed += op_int(op, AT_assumed, 0) != 0;
  if (again) return;
  if (u->places < PLACES) u->first[u->places++] = op;
  u->nodes++;
}

static Loc place(const Op *op) { return op->loc.node || op->loc.file ? op->loc : (Loc){.node = op->name}; }

static void help(const Unknown *u, Diags *d) {
  if (u->rule)
    diag_help(d, "--op-library FILE.so names a library with the function %s (docs/guide/operators.md)",
              opaque_function(d->arena, u->kind, opaque_rule_parse(d->arena, u->rule, &(OpaqueFault){0})));
  else
    diag_help(d, "--op '%s: RULE' gives its sharding rule, --op-library FILE.so its kernel (docs/guide/operators.md)",
              u->kind);
}

static void report(const Unknown *u, bool refuse, Diags *d) {
  const char *s = u->nodes == 1 ? "" : "s", *what = u->rule ? "has no kernel" : "is not known";
  if (refuse) diag_error(d, DIAG_opaque, (Loc){0}, "operator %s %s (%zu node%s)", u->kind, what, u->nodes, s);
  else
    diag_warning(d, DIAG_opaque, (Loc){0},
                 "operator %s is not known (%zu node%s): planned as replicated, priced by its bytes", u->kind, u->nodes,
                 s);
  diag_operator(d, u->kind, u->nodes);
  for (size_t i = 0; i < u->places; i++)
    diag_note(d, place(u->first[i]), "%s", i == 0 ? "first used here" : "and here");
  if (u->assumed && !refuse)
    diag_note(d, (Loc){0},
              "the file does not give the type of %zu result%s in full; missing parts are taken from the first input",
              u->assumed, u->assumed == 1 ? "" : "s");
  if (refuse) help(u, d);
}

/* A plan needs no kernels. */
void opaque_report(const Module *m, bool refuse, Diags *diags) {
  Unknowns list = {0};
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; m->funcs.items[k]->level == 1 && i < m->funcs.items[k]->ops.n; i++) {
      const Op *op = &m->funcs.items[k]->ops.items[i];
      if (is_missing(m, op) && (refuse || !op_attr(op, AT_rule))) count(diags->arena, &list, op);
    }
  for (size_t i = 0; i < list.n; i++) report(&list.items[i], refuse, diags);
}
