/* codegen/program_away.c - states whose home is outside the memory of the device (State.away).
 *
 * In: the units of a body.  Out: a `bring` before the first unit that reads such a state, into memory of the body, and
 * a `stow` directly after the unit that computes its new value; so that the state takes memory only between them.  If a
 * later unit still reads the old value, the stow comes at the end of the body.  Every body, and every output, brings
 * the state again.
 */
#include "codegen/program_body.h"

#include <string.h>

static const Op *op_at(const EmitBody *b, int op) { return &b->spec->l2->ops.items[op]; }

/* Returns the read that declares the layout of the state that the operation writes. */
static const Op *read_of(const EmitBody *b, const Unit *write) {
  const StateOps *states = &b->e->facts.states;
  for (size_t i = states->first[write->op]; i != SIZE_MAX; i = states->next[i]) {
    const Op *read = op_at(b, (int)i);
    if (read->kind == OP_read && read->stage == op_at(b, write->op)->stage) return read;
  }
  return NULL;
}

static bool is_away(const EmitBody *b, Val v) { return b->away && b->away[v] != PROGRAM_NONE; }

bool emit_find_away(EmitBody *b, size_t n) {
  const Func *l2 = b->spec->l2;
  if (offload_of(b->e->m) == OFFLOAD_none) return true;
  b->away = ARENA_ARRAY(b->scratch, uint32_t, n);
  b->stow = ARENA_ARRAY(b->scratch, int, n);
  memset(b->away, 0xff, n * sizeof *b->away); /* PROGRAM_NONE */
  for (size_t i = 0; i < l2->ops.n; i++) {
    const Op *op = &l2->ops.items[i];
    if (op->kind != OP_read || op->stage != b->stage || !state_is_away(b->e->m, op)) continue;
    const Layout *layout = l2->values.items[op->out].layout;
    if (!emit_state(b->e, op, layout, type_of(l2, op->out), &b->away[op->out])) return false;
    b->tensor[op->out] = PROGRAM_NONE, b->given[op->out] = b->handed[op->out] = false;
  }
  for (size_t i = 0; i < b->units->n; i++) {
    const Unit *u = &b->units->items[i];
    const Op *read = u->kind == UNIT_WRITE ? read_of(b, u) : NULL;
    if (read && is_away(b, read->out)) b->stow[b->root[u->in[0]]] = (int)i + 1;
  }
  return true;
}

bool emit_is_away(const EmitBody *b, const Op *op) { return op->kind == OP_read && is_away(b, op->out); }

void emit_bring(EmitBody *b, Val v, const char *where) {
  Val root = b->away ? b->root[v] : v;
  if (!is_away(b, root) || b->tensor[root] != PROGRAM_NONE) return;
  emit_fresh_tensor(b, root, PC_workspace);
  emit_instr(b, PI_bring, where, PROGRAM_NONE, 2, (uint32_t[]){b->away[root], b->tensor[root]},
             program_list_of(b->e->b, 0, NULL));
}

void emit_bring_operands(EmitBody *b, const Unit *u, const char *where) {
  for (int i = 0; b->away && i < u->nin && u->kind != UNIT_WRITE; i++) emit_bring(b, u->in[i], where);
}

void emit_send_back(EmitBody *b, Val v) {
  if (is_away(b, b->root[v])) b->tensor[b->root[v]] = PROGRAM_NONE;
}

/* Stows the value that a write names; predicted: the seconds of the write. */
static void stow(EmitBody *b, const Unit *write) {
  const Op *op = op_at(b, write->op);
  const uint32_t tensors[2] = {emit_body_tensor(b, write->in[0]), b->away[read_of(b, write)->out]};
  uint32_t at = emit_instr(b, PI_stow, op->name, PROGRAM_NONE, 2, tensors, program_list_of(b->e->b, 0, NULL));
  if (write->seconds > 0) emit_predicted(b, at, write->seconds);
}

static void stow_value(EmitBody *b, Val v) {
  Val root = b->root[v];
  if (!b->stow[root]) return;
  const Unit *write = &b->units->items[b->stow[root] - 1];
  const Val old = read_of(b, write)->out;
  if (b->last_use[old] > b->at || b->tensor[write->in[0]] == PROGRAM_NONE) return;
  stow(b, write);
  b->stow[root] = 0;
}

void emit_stow_results(EmitBody *b, const Unit *u) {
  if (!b->away || u->kind == UNIT_WRITE) return;
  if (u->kind == UNIT_SOURCE && op_at(b, u->op)->kind != OP_read) stow_value(b, op_at(b, u->op)->out);
  for (int i = 0; u->kind != UNIT_SOURCE && i < u->nout; i++) stow_value(b, u->out[i]);
}

bool emit_stow_last(EmitBody *b, const Unit *write) {
  const Op *read = b->away ? read_of(b, write) : NULL;
  if (!read || !is_away(b, read->out)) return false;
  if (b->stow[b->root[write->in[0]]]) emit_bring(b, write->in[0], op_at(b, write->op)->name), stow(b, write);
  b->stow[b->root[write->in[0]]] = 0;
  return true;
}
