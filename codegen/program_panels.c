/* codegen/program_panels.c - @prepare packs weights into panels (codegen/panels.h). */
#include "codegen/program_body.h"

void emit_pack(EmitBody *b, const EmitKnown *weight, uint32_t from) {
  const PanelWeight *w = weight->panels;
  Emitting *e = b->e;
  Module *m = e->m;
  const Expr *numbers[4] = {ex_const(m, w->k), ex_const(m, w->n), ex_const(m, w->transposed ? 1 : w->n),
                            ex_const(m, w->transposed ? w->k : 1)};
  uint32_t tensors[2] = {from, weight->tensor};
  emit_instr(b, PI_pack, w->name, PROGRAM_NONE, 2, tensors, emit_exprs(e, 4, numbers));
}

static bool is_stored(const Emitting *e, const EmitKnown *k) {
  return k->panels && module_param(e->m, k->name)->init != INIT_PREPARED;
}

bool emit_has_panels(const Emitting *e) {
  for (size_t i = 0; i < e->params.n; i++)
    if (is_stored(e, &e->params.items[i])) return true;
  return false;
}

bool emit_panels(EmitBody *b) {
  Emitting *e = b->e;
  for (size_t i = 0; i < e->params.n; i++) {
    const EmitKnown *k = &e->params.items[i];
    ProgramParam r;
    if (k->stage != b->stage || !is_stored(e, k)) continue;
    if (!emit_param_record(e, k->name, k->stage, k->layout, &r)) return false;
    uint32_t whole = emit_scratch(b, k->local);
    uint32_t load =
        emit_instr(b, PI_load, k->name, program_add_params(e->b, &r), 1, &whole, program_list_of(e->b, 0, NULL));
    program_at_instrs(e->b, load)->dim = 1;
    emit_pack(b, k, whole);
  }
  return true;
}
