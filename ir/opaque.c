/* ir/opaque.c - see opaque.h. */
#include "ir/opaque.h"

#include <string.h>

enum { PLACES = 3 };

/* An unknown operator.  Nodes are distinguished by name, so that several results of a node count once. */
typedef struct Unknown {
  const char *kind, *last; /* the last node seen: results of a node are adjacent */
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

static void count(Arena *a, Unknowns *list, const Op *op) {
  const char *kind = op_str(op, AT_kind), *name = op_str(op, AT_name);
  size_t at = 0;
  while (at < list->n && strcmp(list->items[at].kind, kind) != 0) at++;
  if (at == list->n) ARENA_PUSH(a, list, ((Unknown){.kind = kind}));
  Unknown *u = &list->items[at];
  bool again = u->last && strcmp(u->last, name) == 0;
  u->last = name;
  u->assumed += op_int(op, AT_assumed, 0) != 0;
  if (again) return;
  if (u->places < PLACES) u->first[u->places++] = op;
  u->nodes++;
}

static Loc place(const Op *op) { return op->loc.node || op->loc.file ? op->loc : (Loc){.node = op->name}; }

static void report(const Unknown *u, bool refuse, Diags *d) {
  const char *s = u->nodes == 1 ? "" : "s";
  if (refuse) diag_error(d, DIAG_opaque, (Loc){0}, "operator %s is not known (%zu node%s)", u->kind, u->nodes, s);
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
}

void opaque_report(const Module *m, bool refuse, Diags *diags) {
  Unknowns list = {0};
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; m->funcs.items[k]->level == 1 && i < m->funcs.items[k]->ops.n; i++)
      if (m->funcs.items[k]->ops.items[i].kind == OP_opaque)
        count(diags->arena, &list, &m->funcs.items[k]->ops.items[i]);
  for (size_t i = 0; i < list.n; i++) report(&list.items[i], refuse, diags);
}
