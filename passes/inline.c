/* passes/inline.c - replaces calls by the callee's operations (level 1).
 *
 * Names become "call/name"; groups are kept so that the planner still sees which operations belong together.  The verifier
 * has excluded cycles (V14).
 */
#include "passes/passes.h"
#include "passes/rewrite.h"

#include <string.h>

static bool inline_call(Rewrite *r, const Op *call, const char *prefix);

static bool copy_op(Rewrite *r, const Op *op, const char *prefix) {
  if (op->kind == OP_call) return inline_call(r, op, prefix);
  OpSpec spec = op_spec_of(r->old, op);
  Val in[MAX_OPERANDS];
  for (int i = 0; i < op->nin; i++) in[i] = r->map[op->in[i]];
  spec.in = in;
  if (*prefix) {
    spec.name = arena_printf(r->m->arena, "%s%s", prefix, op->name);
    spec.group = strcmp(op->group, op->name) == 0 ? spec.name : arena_printf(r->m->arena, "%s%s", prefix, op->group);
  }
  Val v = build_op(&r->b, &spec);
  if (op->out) r->map[op->out] = v;
  return v != 0;
}

static bool inline_call(Rewrite *r, const Op *call, const char *prefix) {
  const Func *callee = module_func(r->m, op_str(call, AT_name));
  Rewrite inner = {r->m, callee, r->b, ARENA_ARRAY(r->m->arena, Val, callee->values.n)};
  const char *name = arena_printf(r->m->arena, "%s%s/", prefix, call->name);
  int operand = 0;
  for (size_t i = 0; i < callee->ops.n; i++) {
    const Op *op = &callee->ops.items[i];
    if (op->kind == OP_input) inner.map[op->out] = r->map[call->in[operand++]];
    else if (!copy_op(&inner, op, name)) return false;
  }
  r->b = inner.b;
  r->map[call->out] = inner.map[callee->outputs.items[0].value];
  return true;
}

bool pass_inline(Module *m, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++) {
    const Func *f = m->funcs.items[k];
    bool any = false;
    for (size_t i = 0; i < f->ops.n; i++) any |= f->ops.items[i].kind == OP_call;
    if (!any || f->level != 1) continue;
    Rewrite r = rewrite_start(m, f, diags);
    for (size_t i = 0; i < f->ops.n; i++)
      if (!copy_op(&r, &f->ops.items[i], "")) return false;
    rewrite_finish(&r);
  }
  return true;
}
