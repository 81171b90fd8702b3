/* passes/rewrite/hoist.c - moves loop-invariant work before the loop.
 *
 * In: flat level-1 functions.  Out: the same operations; an operation with invariant operands is computed once, before
 * the outermost loop in which they are invariant, with its operands.  Not moved: values made of constants alone (they
 * are made where they are used), views, unless work that moves needs them, and results larger than all operands, which
 * would live through the loop and be read in every round.  Nothing leaves a loop of at most one round: that is a
 * branch, which may not be taken.  Loops do not move.
 */
#include "ir/layout/convert.h"
#include "ir/loops.h"
#include "passes/facts/derived.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

typedef struct Hoist {
  Module *m;
  const Func *f;
  Loops loops;
  const bool *derived;
  int *home;  /* by operation: the innermost loop in whose rounds it changes; -1 if none */
  int *place; /* by operation: the loop whose body it will be in */
} Hoist;

static bool is_branch(const Hoist *h, int loop) {
  const Expr *trips = op_expr(&h->f->ops.items[h->loops.items[loop].begin], AT_trips);
  int64_t most;
  return trips && ex_get_const(trips, &most) && most <= 1;
}

static int depth_of(const Hoist *h, int loop) { return loop < 0 ? -1 : h->loops.items[loop].depth; }

static int deeper(const Hoist *h, int a, int b) { return depth_of(h, a) > depth_of(h, b) ? a : b; }

static bool may_move(const Op *op) {
  return op->out && !op_is_loop_part(op->kind) && !op_acts(op->kind) && !op_is_call(op->kind) &&
         op->kind != OP_opaque && op->kind != OP_within; /* there may be no round */
}

static void find_home(Hoist *h, size_t i) {
  const Op *op = &h->f->ops.items[i];
  int at = h->loops.of[i], needed = -1;
  h->home[i] = h->place[i] = at;
  if (!may_move(op)) return;
  for (int k = 0; k < op->nin; k++) needed = deeper(h, needed, h->home[h->f->values.items[op->in[k]].op]);
  while (at != needed && !is_branch(h, at)) at = h->loops.items[at].parent;
  h->home[i] = at;
}

static double size_of(const Hoist *h, Val v) {
  return layout_bytes(h->m, type_of(h->f, v), layout_replicated(h->m, type_of(h->f, v)->rank));
}

/* True if the result is worth keeping in memory while the loop runs. */
static bool is_work(const Hoist *h, size_t i) {
  const Op *op = &h->f->ops.items[i];
  if (op_is_source(op->kind) || h->derived[i] || op_is_view(op->kind)) return false;
  double largest = 0, made = 0;
  for (int k = 0; k < op->nin; k++) largest = size_of(h, op->in[k]) > largest ? size_of(h, op->in[k]) : largest;
  for (Val v = op->out; v < op_end(op); v++) made += size_of(h, v);
  return made <= largest;
}

/* Moving operations take their operands along. */
static bool find_places(Hoist *h) {
  bool moved = false;
  for (size_t i = 0; i < h->f->ops.n; i++) find_home(h, i);
  for (size_t i = h->f->ops.n; i-- > 0;) {
    const Op *op = &h->f->ops.items[i];
    if (depth_of(h, h->home[i]) < depth_of(h, h->place[i]) && is_work(h, i)) h->place[i] = h->home[i];
    if (h->place[i] == h->loops.of[i]) continue;
    moved = true;
    for (int k = 0; k < op->nin; k++) {
      int *operand = &h->place[h->f->values.items[op->in[k]].op];
      if (depth_of(h, *operand) > depth_of(h, h->place[i])) *operand = h->place[i];
    }
  }
  return moved;
}

/* Emits all operations that move before the loop that begins here, in the old order. */
static bool emit_before(const Hoist *h, Rewrite *r, int loop) {
  const Loop *l = &h->loops.items[loop];
  for (size_t i = l->begin; i < l->end; i++) {
    bool moves = h->place[i] != h->loops.of[i] && loops_entered(&h->loops, h->loops.of[i], h->place[i]) == loop;
    if (moves && !rewrite_copy(r, &h->f->ops.items[i])) return false;
  }
  return true;
}

static bool hoist(Module *m, const Func *f, Diags *diags) {
  Arena *scratch = arena_new();
  Hoist h = {m,
             f,
             loops_of(scratch, f),
             derived_ops(scratch, f),
             ARENA_ARRAY(scratch, int, f->ops.n),
             ARENA_ARRAY(scratch, int, f->ops.n)};
  bool ok = true;
  if (h.loops.n && find_places(&h)) {
    Rewrite r = rewrite_start(m, f, diags);
    for (size_t i = 0; i < f->ops.n && ok; i++) {
      const Op *op = &f->ops.items[i];
      if (op->kind == OP_loop) ok = emit_before(&h, &r, h.loops.of[i]);
      if (ok && h.place[i] == h.loops.of[i]) ok = rewrite_copy(&r, op) != 0;
    }
    if (ok) rewrite_finish(&r);
  }
  arena_free(scratch);
  return ok;
}

bool pass_hoist(Module *m, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++)
    if (m->funcs.items[k]->level == 1 && !hoist(m, m->funcs.items[k], diags)) return false;
  return true;
}
