/* codegen/program_classes.c - the purpose of a training step's buffers, so that its memory can be reported by class
 * (program/program.def): gradients, saved values, weights assembled from their shards.
 *
 * Derived from level 2 alone, except the beginning of gradients, which the phases of level 1 give.  A buffer that
 * several values use in turn has the class of the first of them that has one.  Inputs and outputs keep their own.
 */
#include <string.h>

#include "codegen/program_body.h"
#include "codegen/rows/row_work.h"

/* True for an operation that moves its operand, or writes it in another type or order. */
static bool only_moves(OpKind k) {
  return op_level2_only(k) || k == OP_cast || k == OP_transpose || k == OP_reshape || k == OP_copy;
}

/* Gives moved gradients and weights their operand's class. */
static void follow_moves(const Func *l2, ProgramClass *of, const bool *weight) {
  for (size_t i = 0; i < l2->ops.n; i++) {
    const Op *op = &l2->ops.items[i];
    if (!op->nin || !op->out) continue;
    Val in = op->in[0];
    if (op_level2_only(op->kind) && of[in] == PC_gradient) of[op->out] = PC_gradient;
    if (only_moves(op->kind) && op->nin == 1 && (weight[in] || of[in] == PC_gathered)) of[op->out] = PC_gathered;
  }
}

/* True if the operation is named `name`, or belongs to its decomposition. */
static bool is_made_for(const Op *op, const char *name) {
  size_t n = strlen(name);
  return strncmp(op->name, name, n) == 0 && (!op->name[n] || op->name[n] == '/');
}

/* Returns the first operation of level 2 that computes gradients; ops.n if none. */
static size_t first_gradient(const Func *l1, const Func *l2) {
  for (size_t i = 0; i < l1->ops.n; i++) {
    if (!op_makes_gradients(&l1->ops.items[i])) continue;
    for (size_t k = 0; k < l2->ops.n; k++)
      if (is_made_for(&l2->ops.items[k], l1->ops.items[i].name)) return k;
  }
  return l2->ops.n;
}

static bool trains(const Func *l1) {
  for (size_t i = 0; i < l1->ops.n; i++)
    if (l1->ops.items[i].kind == OP_accumulate && l1->ops.items[i].phase == PH_wgt) return true;
  return false;
}

/* Returns the classes by value.  `root`: by value the value whose memory a view shares; NULL: each its own. */
static const ProgramClass *classes_of(Arena *a, Module *m, const Func *l2, const Val *root) {
  ProgramClass *of = ARENA_ARRAY(a, ProgramClass, l2->values.n);
  Arena *scratch = arena_new();
  bool *weight = ARENA_ARRAY(scratch, bool, l2->values.n);
  for (size_t v = 0; v < l2->values.n; v++) of[v] = PC_activation;
  for (size_t i = 0; i < l2->ops.n; i++) {
    const Op *op = &l2->ops.items[i];
    if (op->kind == OP_read && op_is_of_weight(m, op)) weight[op->out] = true;
    if (op->kind != OP_accumulate) continue;
    of[op->out] = PC_gradient;
    if (root && root[op->in[0]] < l2->values.n) of[op->in[0]] = of[root[op->in[0]]] = PC_gradient;
  }
  follow_moves(l2, of, weight);
  arena_free(scratch);
  return of;
}

/* True if there is one micro-batch.  A sum over micro-batches is then its only summand, in that summand's memory, so
 * each body has its own classes. */
static bool sums_one(const Module *m) { return mesh_micro_batches(&m->mesh) == 1; }

void emit_find_entry_classes(Emitting *e, const ProgramEntrySpec *spec) {
  e->facts.trains = trains(spec->l1);
  if (!e->facts.trains) return;
  e->facts.first_gradient = first_gradient(spec->l1, spec->l2);
  if (!sums_one(e->m)) e->facts.classes = classes_of(e->m->arena, e->m, spec->l2, NULL);
}

void emit_find_classes(EmitBody *b) {
  const EmitFacts *x = &b->e->facts;
  if (!x->trains) return;
  b->classes = x->classes ? x->classes : classes_of(b->scratch, b->e->m, b->spec->l2, b->root);
  b->first_gradient = x->first_gradient;
}

/* True for a value computed in the forward pass and read by gradients. */
static bool is_saved(const EmitBody *b, Val v) {
  int last = b->last_use[b->root[v]];
  if (b->units->work->in_turns && b->handed[b->root[v]] && b->at < (int)b->units->n)
    return b->units->items[b->at].phase == PH_fwd;
  if (b->at >= (int)b->units->n || last < 0) return false;
  if (last >= (int)b->units->n) last = (int)b->units->n - 1; /* a later body reads it as well */
  return (size_t)b->units->items[b->at].op < b->first_gradient && (size_t)b->units->items[last].op >= b->first_gradient;
}

ProgramClass emit_class_of(const EmitBody *b, Val v) {
  if (!b->classes || v >= b->spec->l2->values.n) return PC_activation;
  if (b->classes[v] != PC_activation) return b->classes[v];
  return is_saved(b, v) ? PC_saved : PC_activation;
}
