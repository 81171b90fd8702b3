/* proof/prove_entries.c - several entries: joins their proofs, and checks their shared states: an entry reads the state
 * that another entry has left.
 *
 * Each entry is proved for states with the layout that its reads declare; together they are right if all declare the
 * same.
 */
#include <string.h>

#include "proof/prove.h"

Proof proof_join(Module *m, Proof a, Proof b) {
  static const int rank[] = {[PROVED] = 0, [UNKNOWN] = 1, [REFUTED] = 2};
  if (rank[a.verdict] != rank[b.verdict]) return rank[a.verdict] > rank[b.verdict] ? a : b;
  if (a.verdict == PROVED && a.over_reals && b.over_reals)
    a.over_reals = arena_printf(m->arena, "%s; %s", a.over_reals, b.over_reals);
  else if (!a.over_reals) a.over_reals = b.over_reals;
  return a;
}

static const Op *declaration(const Func *f, const char *state) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_read && strcmp(op_str(&f->ops.items[i], AT_name), state) == 0)
      return &f->ops.items[i];
  return NULL;
}

static Proof state_is_one(Module *m, const char *state, int n, const Func *const *entries) {
  const Func *first = NULL;
  const Op *at = NULL;
  for (int i = 0; i < n; i++) {
    const Op *op = declaration(entries[i], state);
    if (!op) continue;
    if (!at) first = entries[i], at = op;
    else if (op->stage != at->stage || entries[i]->values.items[op->out].layout != first->values.items[at->out].layout)
      return (Proof){.verdict = REFUTED,
                     .op = op->name,
                     .reason = arena_printf(m->arena, "the state \"%s\" has another layout or stage than in @%s", state,
                                            first->name)};
  }
  return (Proof){.verdict = PROVED};
}

Proof prove_states(Module *m, int n, const Func *const *entries) {
  for (size_t i = 0; i < m->states.n; i++) {
    Proof proof = state_is_one(m, m->states.items[i].name, n, entries);
    if (proof.verdict != PROVED) return proof;
  }
  return (Proof){.verdict = PROVED};
}
