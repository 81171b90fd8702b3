/* ir/states.c - see states.h. */
#include "ir/states.h"

#include <string.h>

#include "base/hash.h"

StateOps state_ops(Arena *a, const Func *f) {
  StateOps s = {ARENA_ARRAY(a, size_t, f->ops.n + 1), ARENA_ARRAY(a, size_t, f->ops.n + 1)};
  Arena *scratch = arena_new();
  size_t cap = 16;
  while (cap < 2 * (f->ops.n + 1)) cap *= 2;
  size_t *last = ARENA_ARRAY(scratch, size_t, cap); /* by name: operation + 1 */
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    s.first[i] = i;
    s.next[i] = SIZE_MAX;
    if (!op_is_state(op->kind)) continue;
    const char *name = op_str(op, AT_name);
    size_t at = (size_t)hash64(name, strlen(name), 0) & (cap - 1);
    while (last[at] && strcmp(op_str(&f->ops.items[last[at] - 1], AT_name), name) != 0) at = (at + 1) & (cap - 1);
    if (last[at]) s.first[i] = s.first[last[at] - 1], s.next[last[at] - 1] = i;
    last[at] = i + 1;
  }
  arena_free(scratch);
  return s;
}

size_t state_first_read(const StateOps *s, const Func *f, size_t op) {
  size_t i = s->first[op];
  while (i != SIZE_MAX && f->ops.items[i].kind != OP_read) i = s->next[i];
  return i;
}

bool state_is_away(Module *m, const Op *op) {
  const State *s = op_is_state(op->kind) ? module_state(m, op_str(op, AT_name)) : NULL;
  return s && s->away;
}

/* ---- homes */

static const char *const offload_names[] = {
#define OFFLOAD(name, text) #name,
#include "ir/offload.def"
#undef OFFLOAD
};

const char *offload_name(Offload o) { return offload_names[o]; }

bool offload_find(const char *name, size_t n, Offload *out) {
  for (int i = 0; i < OFFLOAD_COUNT; i++) {
    if (strlen(offload_names[i]) != n || memcmp(offload_names[i], name, n) != 0) continue;
    return *out = (Offload)i, true;
  }
  return false;
}

/* A state that starts as a number is a moment of the optimizer; others are weights and statistics. */
void offload_apply(Module *m, Offload o) {
  for (size_t i = 0; i < m->states.n; i++) m->states.items[i].away = o == OFFLOAD_moments && !m->states.items[i].param;
}

Offload offload_of(const Module *m) {
  for (size_t i = 0; i < m->states.n; i++)
    if (m->states.items[i].away) return OFFLOAD_moments;
  return OFFLOAD_none;
}
