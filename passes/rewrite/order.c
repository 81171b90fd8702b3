/* passes/rewrite/order.c - gives sources and writes one place each; see order.h.
 *
 * In: a function in any legal order.  Out: the same operations; the place of a source, a cast of a source or a write
 * depends only on the order of the others.  So a block may move them to its caller and get them back when it is
 * inlined, byte for byte.
 *
 * Sources that a loop uses come before it, so that several bodies and later operations can use the same one; a write
 * waits for the end of a loop.
 *
 * A write waits for all uses of the value read from the state, because the state may be overwritten in place.  Uses by
 * other writes do not count: two states that are swapped would wait for each other.
 */
#include "passes/rewrite/order.h"

#include "ir/loops.h"
#include "ir/states.h"
#include "passes/facts/blocks.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

typedef struct Order {
  Rewrite r;
  Arena *scratch;
  const Func *f;
  Loops loops;
  StateOps states;
  bool *done; /* by operation */
  struct IndexList {
    uint32_t *items;
    size_t n, cap;
  } * due;            /* by operation: writes that come after it */
  uint32_t *last_use; /* by value: the last use that is not a write */
} Order;

static size_t maker(const Order *w, Val v) { return (size_t)w->f->values.items[v].op; }

/* True for casts of sources.  If a model lists its weights first, such a cast and its pipeline stage would otherwise
 * come before the first layer. */
static bool casts_source(const Order *w, size_t i) {
  const Op *op = &w->f->ops.items[i];
  return op->kind == OP_cast && w->loops.of[i] < 0 && blocks_is_source(w->f->ops.items[maker(w, op->in[0])].kind);
}

static bool moves(const Order *w, size_t i) {
  OpKind kind = w->f->ops.items[i].kind;
  return kind == OP_write || blocks_is_source(kind) || casts_source(w, i);
}

static bool emit(Order *w, size_t i) {
  if (w->done[i]) return true;
  w->done[i] = true;
  return rewrite_copy(&w->r, &w->f->ops.items[i]) != 0;
}

static bool emit_source(Order *w, Val v) {
  size_t i = maker(w, v);
  if (casts_source(w, i) && !emit(w, maker(w, w->f->ops.items[i].in[0]))) return false;
  return !moves(w, i) || emit(w, i);
}

static bool tool_emit_write(Order *w, size_t i) {
  for (size_t k = w->states.first[i]; k < i; k = w->states.next[k])
    if (w->f->ops.items[k].kind == OP_read && !emit(w, k)) return false;
  return emit_source(w, w->f->ops.items[i].in[0]) && emit(w, i);
}

static void find_last_uses(Order *w) {
  w->last_use = ARENA_ARRAY(w->scratch, uint32_t, w->f->values.n);
  for (size_t i = 0; i < w->f->ops.n; i++) {
    const Op *op = &w->f->ops.items[i];
    for (int k = 0; op->kind != OP_write && k < op->nin; k++)
      w->last_use[op->in[k]] = (uint32_t)loops_behind(&w->loops, w->f, i);
  }
  for (size_t i = 0; i < w->f->ops.n; i++) { /* a cast moves to its first use */
    const Op *op = &w->f->ops.items[i];
    if (casts_source(w, i) && w->last_use[op->out] > w->last_use[op->in[0]])
      w->last_use[op->in[0]] = w->last_use[op->out];
  }
}

/* Returns the operation after which a write is placed; SIZE_MAX: at the end, because nothing holds it. */
static size_t due_behind(const Order *w, size_t i) {
  const Op *write = &w->f->ops.items[i];
  size_t made = maker(w, write->in[0]), at = moves(w, made) ? SIZE_MAX : loops_behind(&w->loops, w->f, made);
  for (size_t k = w->states.first[i]; k < i; k = w->states.next[k]) {
    const Op *op = &w->f->ops.items[k];
    if (op->kind != OP_read) continue;
    size_t use = w->last_use[op->out];
    if (use && (at == SIZE_MAX || use > at)) at = use;
  }
  return at;
}

static void find_due(Order *w) {
  w->due = arena_alloc(w->scratch, sizeof *w->due * w->f->ops.n);
  for (size_t i = 0; i < w->f->ops.n; i++) {
    size_t at = w->f->ops.items[i].kind == OP_write ? due_behind(w, i) : SIZE_MAX;
    if (at != SIZE_MAX) ARENA_PUSH(w->scratch, &w->due[at], (uint32_t)i);
  }
}

static bool emit_sources(Order *w, size_t i) {
  size_t end = w->f->ops.items[i].kind == OP_loop ? w->loops.items[w->loops.of[i]].end : i + 1;
  for (; i < end; i++)
    for (int k = 0; k < w->f->ops.items[i].nin; k++)
      if (!emit_source(w, w->f->ops.items[i].in[k])) return false;
  return true;
}

static bool emit_all(Order *w) {
  for (size_t i = 0; i < w->f->ops.n; i++) {
    if (moves(w, i)) continue;
    if (!emit_sources(w, i) || !emit(w, i)) return false;
    for (size_t k = 0; k < w->due[i].n; k++)
      if (!tool_emit_write(w, w->due[i].items[k])) return false;
  }
  for (size_t i = 0; i < w->f->ops.n; i++)
    if (!emit(w, i)) return false;
  return true;
}

Func *rewrite_order_sources(Module *m, const Func *f, Diags *diags) {
  Arena *scratch = arena_new();
  Order w = {.r = rewrite_start(m, f, diags),
             .scratch = scratch,
             .f = f,
             .loops = loops_of(scratch, f),
             .states = state_ops(scratch, f),
             .done = ARENA_ARRAY(scratch, bool, f->ops.n)};
  find_last_uses(&w);
  find_due(&w);
  bool ok = emit_all(&w);
  arena_free(scratch);
  return ok ? rewrite_finish(&w.r) : NULL;
}

bool pass_order(Module *m, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++)
    if (m->funcs.items[k]->level == 1 && !rewrite_order_sources(m, m->funcs.items[k], diags)) return false;
  return true;
}
