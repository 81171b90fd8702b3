/* tools/verify_states.c - see verify_states.h. */
#include "tools/verify_states.h"

static const char *free_name(const Module *m) {
  const char *name = "states";
  for (int k = 1; module_func(m, name); k++) name = arena_printf(m->arena, "states.%d", k);
  return name;
}

Func *states_function(Module *m, Diags *diags) {
  if (!m->states.n) return NULL;
  Func *f = module_func_add(m, free_name(m), 1);
  Builder b = builder_new(m, f, diags);
  for (size_t i = 0; i < m->states.n; i++) {
    const State *s = &m->states.items[i];
    Val v = build_read(&b, s->name);
    if (!v) return NULL;
    build_output(&b, s->name, v, NULL);
  }
  return f;
}

bool states_entry_add(Tool *t, Build *b) {
  if (!b->model.m->states.n) return true;
  Func *f = states_function(b->model.m, t->diags);
  return f && driver_lower_also(b, f);
}

int states_bind(Tool *t, const Build *b, ApcModel *program, const int64_t *symbols) {
  const Module *m = b->model.m;
  ApcStatus status = APC_OK;
  for (size_t i = 0; i < m->symbols.n && status == APC_OK; i++) {
    bool used = false;
    for (size_t k = 0; k < m->states.n; k++)
      for (int d = 0; d < m->states.items[k].type->rank; d++) used |= ex_uses(m->states.items[k].type->dims[d], (int)i);
    if (used) status = apc_bind_dim(program, m->symbols.items[i].name, symbols[i]);
  }
  return tool_program_status(t, program, status);
}
