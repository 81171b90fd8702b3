/* passes/rewrite/dce.c - drops operations without used results.
 *
 * Inputs stay (they are the function's interface), and writes stay (they are its effect).  A loop stays if one of its
 * leaves does, with those carries and their next values that its body and its leaves need; a bind if an operation that
 * stays uses its size.  Weights that no function
 * reads any more stay in the module: they cost nothing, because their bytes are in files.
 */
#include "ir/loops.h"
#include "passes/rewrite/passes.h"
#include "passes/rewrite/rewrite.h"

typedef struct Dce {
  const Module *m;
  const Func *f;
  bool *live; /* by value */
  bool *used; /* by symbol: a computed size that a live operation uses */
  bool more;  /* a later operation became live */
} Dce;

static bool stays(const Dce *d, const Op *op) {
  if (op->kind == OP_repeat) return d->live[op->in[0]];
  bool live = !op->out || op->kind == OP_input;
  for (Val v = op->out; v < op_end(op); v++) live |= d->live[v];
  return live || (op->kind == OP_bind && d->used[op_expr(op, AT_expr)->value]);
}

static void mark_sizes(Dce *d, const Op *op) {
  for (size_t s = 0; s < d->m->symbols.n; s++)
    if (d->m->symbols.items[s].most && !d->used[s])
      d->used[s] = op->kind != OP_bind && op_uses_symbol(d->f, op, (int)s);
}

/* A live leave needs its loop; a live carry needs its leave, from which it gets its next value. */
static void mark_loop(Dce *d, const Loops *loops, size_t i) {
  const Op *ops = d->f->ops.items;
  if (ops[i].kind == OP_leave) d->live[ops[loops->items[loops_reads_in(loops, d->f, i)].begin].out] = true;
  if (ops[i].kind != OP_carry) return;
  const Loop *l = &loops->items[loops->of[i]];
  Val leave = ops[l->repeat + i - l->begin].out;
  d->more |= !d->live[leave];
  d->live[leave] = true;
}

/* True if the operation has optional results and none is used. */
static bool asks_too_much(const Dce *d, const Op *op) {
  return op->kind == OP_attention && op->nout > 1 && !d->live[op->out + 1] && !d->live[op->out + 2];
}

/* Returns the operation without these results; `attrs` has room for its other attributes. */
static Op asked_for(const Op *op, Attr *attrs) {
  Op out = *op;
  out.nout = 1, out.nattrs = 0, out.attrs = attrs, out.names = NULL;
  for (int i = 0; i < op->nattrs; i++)
    if (op->attrs[i].key != AT_sums) attrs[out.nattrs++] = op->attrs[i];
  return out;
}

static Func *dce(Module *m, const Func *f, Diags *diags) {
  Dce d = {m, f, ARENA_ARRAY(m->arena, bool, f->values.n), ARENA_ARRAY(m->arena, bool, m->symbols.n + 1), true};
  Loops loops = loops_of(m->arena, f);
  for (size_t i = 0; i < f->outputs.n; i++) d.live[f->outputs.items[i].value] = true;
  while (d.more) {
    d.more = false;
    for (size_t i = f->ops.n; i-- > 0;) {
      const Op *op = &f->ops.items[i];
      if (!stays(&d, op)) continue;
      for (int k = 0; k < op->nin; k++) d.live[op->in[k]] = true;
      mark_sizes(&d, op);
      mark_loop(&d, &loops, i);
    }
  }
  Rewrite r = rewrite_start(m, f, diags);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (!stays(&d, op)) continue;
    Attr attrs[AT_COUNT];
    Op asked;
    if (asks_too_much(&d, op)) asked = asked_for(op, attrs), op = &asked;
    if (!rewrite_copy(&r, op)) return NULL;
  }
  return rewrite_finish(&r);
}

bool pass_dce(Module *m, Diags *diags) {
  for (size_t k = 0; k < m->funcs.n; k++)
    if (!dce(m, m->funcs.items[k], diags)) return false;
  return true;
}
