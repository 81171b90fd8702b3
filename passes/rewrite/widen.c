/* passes/rewrite/widen.c - computes products with f16 and bf16 weights in f32, with explicit casts.
 *
 * The CPU multiplies matrices in f32 (oneDNN has f16 only on some processors).  Without this pass the generated code
 * would widen a 16-bit weight in every request: 2 bytes read, 4 written and 4 read again per element, in a step that
 * does little else if it generates one token.  The explicit cast of a weight depends on the weight alone, so
 * passes/rewrite/prepare.c moves it to loading; the planner counts the resulting f32 weight on each rank.
 *
 *   dot(x, w) : f16   becomes   cast(dot(cast(x), cast(w))) : f16
 *
 * Measured for eight products with 2048 x 2048 weights on one rank: 5.0 ms of processor time instead of 7.1 for one
 * row, 14.3 instead of 20.2 for 32 (medians of three); 128 MiB of private memory instead of 64 MiB in place, shared
 * with the file, and 16 MiB of arena.  A sum over ranks is in f32, which is more exact and sends twice the bytes.
 *
 * The product keeps its name, because plans refer to it.  Products of two activations stay as they are: their casts are
 * temporary either way.  Other devices multiply 16-bit numbers themselves.
 */
#include "ir/loops.h"
#include "passes/facts/fixed.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

typedef struct Widen {
  Rewrite r;
  const Fixed *fixed;
  Loops loops;
  Val *wide; /* by old value: its cast to f32; 0 until needed */
} Widen;

static bool narrow(const Type *t) { return t->dtype == DT_f16 || t->dtype == DT_bf16; }

static Val wide(Widen *w, Val v) {
  if (w->wide[v]) return w->wide[v];
  const Op *op = op_of(w->r.old, v);
  Attr to = attr_dtype(AT_to, DT_f32);
  Val in = w->r.map[v];
  return w->wide[v] = build_op(&w->r.b, &(OpSpec){.kind = OP_cast,
                                                  .name = arena_printf(w->r.m->arena, "%s.f32", op->name),
                                                  .loc = op->loc,
                                                  .nin = 1,
                                                  .in = &in,
                                                  .nattrs = 1,
                                                  .attrs = &to});
}

static Val widen_dot(Widen *w, const Op *op) {
  Val in[2] = {wide(w, op->in[0]), wide(w, op->in[1])};
  OpSpec spec = op_spec_of(w->r.old, op);
  const Type *type = type_of(w->r.old, op->out);
  spec.in = in;
  spec.type = NULL;
  Val product = build_op(&w->r.b, &spec);
  Attr to = attr_dtype(AT_to, type->dtype);
  return build_op(&w->r.b, &(OpSpec){.kind = OP_cast,
                                     .name = arena_printf(w->r.m->arena, "%s.%s", op->name, dtype_name(type->dtype)),
                                     .loc = op->loc,
                                     .nin = 1,
                                     .in = &product,
                                     .nattrs = 1,
                                     .attrs = &to});
}

static bool widens(const Widen *w, const Op *op) {
  if (op->kind != OP_dot || !narrow(type_of(w->r.old, op->out))) return false;
  return fixed_by_weights(w->fixed[op->in[0]]) || fixed_by_weights(w->fixed[op->in[1]]);
}

/* Casts values that a loop reads from outside before it: once, and later operations may use the cast. */
static void widen_entering(Widen *w, const Loop *l) {
  int loop = (int)(l - w->loops.items);
  for (size_t i = l->body; i < l->repeat; i++) {
    const Op *op = &w->r.old->ops.items[i];
    for (int k = 0; k < 2 && widens(w, op); k++)
      if (!loops_within(&w->loops, w->loops.of[w->r.old->values.items[op->in[k]].op], loop)) wide(w, op->in[k]);
  }
}

static bool widen(Module *m, const Func *f, Diags *diags) {
  Widen w = {rewrite_start(m, f, diags), fixed_values(m->arena, f), loops_of(m->arena, f),
             ARENA_ARRAY(m->arena, Val, f->values.n)};
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op->kind == OP_loop) widen_entering(&w, &w.loops.items[w.loops.of[i]]);
    if (widens(&w, op)) w.r.map[op->out] = widen_dot(&w, op);
    else if (!rewrite_copy(&w.r, op)) return false;
  }
  rewrite_finish(&w.r);
  return diags->errors == 0;
}

bool pass_widen(Module *m, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++)
    if (m->funcs.items[k]->level == 1 && !widen(m, m->funcs.items[k], diags)) return false;
  return true;
}
