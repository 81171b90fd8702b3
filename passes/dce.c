/* passes/dce.c - drops operations whose results nobody uses.
 *
 * Inputs stay (they are the function's interface), writes stay (they are its effect).  Weights that no function reads any more
 * stay in the module: they cost nothing, since their bytes are in files.
 */
#include "passes/passes.h"
#include "passes/rewrite.h"

static Func *dce(Module *m, const Func *f, Diags *diags) {
  bool *live = ARENA_ARRAY(m->arena, bool, f->values.n);
  for (size_t i = 0; i < f->outputs.n; i++) live[f->outputs.items[i].value] = true;
  for (size_t i = f->ops.n; i-- > 0;) {
    const Op *op = &f->ops.items[i];
    if (op->out && !live[op->out] && op->kind != OP_input) continue;
    for (int k = 0; k < op->nin; k++) live[op->in[k]] = true;
  }
  Rewrite r = rewrite_start(m, f, diags);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->out && !live[op->out] && op->kind != OP_input) continue;
    if (!rewrite_copy(&r, op)) return NULL;
  }
  return rewrite_finish(&r);
}

bool pass_dce(Module *m, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++)
    if (!dce(m, m->funcs.items[k], diags)) return false;
  return true;
}
