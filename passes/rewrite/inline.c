/* passes/rewrite/inline.c - replaces calls by the callee's operations (level 1).
 *
 * Names become "call/name"; groups are kept so that the planner still sees which operations belong together.  A call of
 * a block has labels for the holes in the block's names (docs/ir.md): its operations get back the names they had before
 * pass outline, sources and writes get back their places (order.h), and the block is deleted.  The verifier has
 * excluded cycles (V14).
 */
#include "base/die.h"
#include "ir/holes.h"
#include "passes/rewrite/order.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

#include <string.h>

typedef struct Inline {
  Rewrite r;
  const Val **outputs; /* by value of the old function: for calls, the outputs in the new one */
  const char *prefix;  /* of names; "" in the function itself */
  const Attr *labels;  /* of the current call; NULL if none */
} Inline;

static bool inline_call(Inline *w, const Op *call);

static Inline inline_start(Rewrite r, const char *prefix, const Attr *labels) {
  return (Inline){r, ARENA_ARRAY(r.m->arena, const Val *, r.old->values.n), prefix, labels};
}

/* Returns the caller's name for a name in the callee. */
static const char *outer_name(const Inline *w, const char *name) {
  if (!name || !w->labels) return name;
  const char *filled = holes_fill(w->r.m->arena, name, w->labels->n, w->labels->u.strs);
  if (!filled) die("inline: no label for \"%s\" in @%s", name, w->r.old->name);
  return filled;
}

static bool copy_op(Inline *w, const Op *op) {
  Module *m = w->r.m;
  if (op->kind == OP_call) return inline_call(w, op);
  if (op->kind == OP_result) {
    w->r.map[op->out] = w->outputs[op->in[0]][op_int(op, AT_index, 0)];
    return true;
  }
  OpSpec spec = op_spec_of(w->r.old, op);
  Val in[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) in[i] = w->r.map[op->in[i]];
  spec.in = in;
  spec.name = arena_printf(m->arena, "%s%s", w->prefix, outer_name(w, op->name));
  spec.group = op->group == op->name ? spec.name : arena_printf(m->arena, "%s%s", w->prefix, outer_name(w, op->group));
  if (op->mirror.name) spec.mirror.name = arena_printf(m->arena, "%s%s", w->prefix, outer_name(w, op->mirror.name));
  spec.loc.file = outer_name(w, op->loc.file);
  spec.loc.node = outer_name(w, op->loc.node);
  const char *names[MAX_RESULTS];
  for (int i = 1; i < op->nout; i++)
    names[i - 1] = arena_printf(m->arena, "%s%s", w->prefix, outer_name(w, op->names[i - 1]));
  spec.names = op->nout > 1 ? names : NULL;
  Val v = build_op(&w->r.b, &spec);
  rewrite_map(&w->r, op, v);
  return v != 0;
}

static bool inline_call(Inline *w, const Op *call) {
  Module *m = w->r.m;
  const Func *callee = module_func(m, op_str(call, AT_name));
  const Attr *labels = op_attr(call, AT_labels);
  const char *prefix = labels ? w->prefix : arena_printf(m->arena, "%s%s/", w->prefix, outer_name(w, call->name));
  Inline inner =
      inline_start((Rewrite){.m = m, .old = callee, .b = w->r.b, .map = ARENA_ARRAY(m->arena, Val, callee->values.n)},
                   prefix, labels);
  int operand = 0;
  for (size_t i = 0; i < callee->ops.n; i++) {
    const Op *op = &callee->ops.items[i];
    if (op->kind == OP_input) inner.r.map[op->out] = w->r.map[call->in[operand++]];
    else if (!copy_op(&inner, op)) return false;
  }
  w->r.b = inner.r.b;
  Val *outputs = ARENA_ARRAY(m->arena, Val, callee->outputs.n);
  for (size_t i = 0; i < callee->outputs.n; i++) outputs[i] = inner.r.map[callee->outputs.items[i].value];
  w->outputs[call->out] = outputs;
  w->r.map[call->out] = outputs[0];
  return true;
}

/* Counts calls; *blocks: calls of blocks. */
static size_t count_calls(const Func *f, size_t *blocks) {
  size_t n = 0;
  *blocks = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    n += f->ops.items[i].kind == OP_call;
    *blocks += op_attr(&f->ops.items[i], AT_labels) != NULL;
  }
  return n;
}

static bool inline_calls(Module *m, const Func *f, Diags *diags) {
  size_t blocks, calls = count_calls(f, &blocks);
  if (!calls || f->level != 1) return true;
  Inline w = inline_start(rewrite_start(m, f, diags), "", NULL);
  for (size_t i = 0; i < f->ops.n; i++)
    if (!copy_op(&w, &f->ops.items[i])) return false;
  const Func *flat = rewrite_finish(&w.r);
  return !blocks || rewrite_order_sources(m, flat, diags) != NULL;
}

static bool is_block(const Module *m, const Func *callee) {
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) {
      const Op *op = &m->funcs.items[k]->ops.items[i];
      if (op->kind == OP_call && op_attr(op, AT_labels) && strcmp(op_str(op, AT_name), callee->name) == 0) return true;
    }
  return false;
}

bool pass_inline(Module *m, Diags *diags) {
  bool *block = ARENA_ARRAY(m->arena, bool, m->funcs.n);
  for (size_t k = 0; k < m->funcs.n; k++) block[k] = is_block(m, m->funcs.items[k]);
  for (size_t k = 0; k < m->funcs.n; k++)
    if (!inline_calls(m, m->funcs.items[k], diags)) return false;
  size_t kept = 0;
  for (size_t k = 0; k < m->funcs.n; k++)
    if (!block[k]) m->funcs.items[kept++] = m->funcs.items[k];
  m->funcs.n = kept;
  return true;
}
