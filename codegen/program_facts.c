/* codegen/program_facts.c - facts of an entry for all its bodies, found once: there may be a hundred bodies, each of
 * which writes a small part of the function. */
#include <string.h>

#include "codegen/program_body.h"

static void find_inputs(EmitFacts *x, Arena *a, const Func *l1) {
  x->inputs = ARENA_ARRAY(a, EmitInput, l1->ops.n);
  for (size_t i = 0; i < l1->ops.n; i++) {
    const Op *op = &l1->ops.items[i];
    if (op->kind == OP_input) x->inputs[x->ninputs++] = (EmitInput){op_str(op, AT_name), type_of(l1, op->out)};
  }
}

void emit_find_facts(Emitting *e, const ProgramEntrySpec *spec) {
  Arena *a = e->m->arena;
  e->facts = (EmitFacts){.level1 = loops_of(a, spec->l1), .states = state_ops(a, spec->l2)};
  find_inputs(&e->facts, a, spec->l1);
  emit_find_entry_classes(e, spec);
}

const Type *emit_input(const Emitting *e, const char *name, uint32_t *port) {
  const EmitFacts *x = &e->facts;
  for (size_t i = 0; i < x->ninputs; i++)
    if (x->inputs[i].name == name) return *port = (uint32_t)i, x->inputs[i].type; /* names are interned */
  return NULL;
}
