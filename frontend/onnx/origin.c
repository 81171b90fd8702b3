/* frontend/onnx/origin.c - the origin of a value, for the message that refuses it as a size: the nodes between it
 * and the input of the graph, the round of a loop, or the node whose result is not an expression of dimensions. */
#include <inttypes.h>
#include <string.h>

#include "frontend/onnx/import_graph.h"

enum { SHOWN = 5 }; /* nodes at either end of a long chain */

typedef struct Chain {
  const char **items; /* names of nodes, from the value to its origin */
  size_t n, cap;
} Chain;

/* The type of the node with that path, in this graph or an outer one; NULL if none. */
static const char *node_type(const Import *im, const char *name) {
  for (const ImportGraph *g = im->g; g; g = g->outer)
    for (size_t i = 0; i < g->nodes.n; i++)
      if (strcmp(g->names[i], name) == 0) return onnx_text(g->nodes.items[i]->op_type);
  return NULL;
}

/* Follows operands that are not known; returns the operation at the end. */
static const Op *follow(ImportNode *n, Val v, Chain *chain) {
  const Func *f = n->b->f;
  for (;;) {
    const Op *op = op_of(f, v);
    Val cause = evaluate(import_evaluation(n->im), v)->cause;
    if (!op_is_at_entry(op->kind) && op->loc.node &&
        (!chain->n || strcmp(chain->items[chain->n - 1], op->loc.node) != 0))
      ARENA_PUSH(n->m->arena, chain, op->loc.node);
    if (!cause) return op;
    v = cause;
  }
}

static void say_chain(ImportNode *n, const char *origin, const Chain *chain) {
  Text t = {.arena = n->m->arena};
  text_printf(&t, "it comes from %s", origin);
  for (size_t i = chain->n; i-- > 0;) {
    if (chain->n > 2 * SHOWN + 1 && i >= SHOWN && i < chain->n - SHOWN) {
      if (i == SHOWN) text_printf(&t, " -> ... %zu more", chain->n - 2 * SHOWN);
      continue;
    }
    const char *type = node_type(n->im, chain->items[i]);
    text_printf(&t, " -> %s\"%s\"", type ? arena_printf(n->m->arena, "%s ", type) : "", chain->items[i]);
  }
  text_printf(&t, " -> %s \"%s\"", n->op->type, n->name);
  diag_note(n->b->diags, (Loc){0}, "%s", text_str(&t));
}

static void say_dimensions(ImportNode *n) {
  Text t = {.arena = n->m->arena};
  for (size_t i = 0; i < n->m->symbols.n && i < 8; i++)
    text_printf(&t, "%s--dim %s=N", i ? " " : "", n->m->symbols.items[i].name);
  if (n->m->symbols.n) diag_help(n->b->diags, "give the dimensions it depends on a size: %s", text_str(&t));
}

static const char *origin_of(ImportNode *n, const Op *op, FactKind missing) {
  const char *name = op_str(op, AT_name);
  switch (op->kind) {
    case OP_input: return arena_printf(n->m->arena, "the input \"%s\"", name);
    case OP_read: return arena_printf(n->m->arena, "the state \"%s\"", name);
    case OP_loop: return "the number of a loop's round";
    case OP_carry:
    case OP_leave: return "a value that a loop changes";
    default: return missing == FACT_OPEN ? "dimensions" : missing == FACT_LARGE ? "constants" : "an operation on data";
  }
}

void say_origin(ImportNode *n, size_t i) {
  const ImportFact *f = input_fact(n, i);
  FactKind missing = f->kind == FACT_SIZES ? f->missing : f->kind;
  if (missing == FACT_NONE || missing == FACT_CONSTANT || !n->in[i]->val) return;
  Chain chain = {0};
  const Op *op = follow(n, n->in[i]->val, &chain);
  say_chain(n, origin_of(n, op, missing), &chain);
}

const char *import_origin(ImportNode *n, size_t i) {
  const ImportFact *f = input_fact(n, i);
  FactKind missing = f->kind == FACT_SIZES ? f->missing : f->kind;
  Chain chain = {0};
  if (missing != FACT_DATA || !n->in[i]->val) return NULL;
  const Op *op = follow(n, n->in[i]->val, &chain);
  return op->kind == OP_input ? op_str(op, AT_name) : NULL;
}

bool input_refused(ImportNode *n, size_t i, const char *what) {
  const char *name = n->proto->input[i];
  const ImportFact *f = input_fact(n, i);
  FactKind missing = f->kind == FACT_SIZES ? f->missing : f->kind;
  const char *why = missing == FACT_DATA    ? "is computed from data"
                    : missing == FACT_OPEN  ? "is computed from dimensions, but is not an expression of them"
                    : missing == FACT_LARGE ? "is computed from more constants than apc evaluates"
                    : f->kind == FACT_SIZES ? "depends on a symbolic dimension"
                                            : NULL;
  if (!why) return node_error(n, "%s has %" PRId64 " elements of %s", what, f->n, dtype_name(f->type->dtype));
  if (missing == FACT_DATA) import_bind_origin(n, i);
  diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc, "%s: %s (input \"%s\") %s", n->op->type, what, name, why);
  say_origin(n, i);
  if (missing != FACT_DATA && missing != FACT_LARGE) say_dimensions(n);
  return false;
}
