/* tests/hand_write.h - a whole level-2 function by hand (tests/hand_shaped.h): stages, loops, outputs. */
#ifndef APC_TESTS_HAND_WRITE_H
#define APC_TESTS_HAND_WRITE_H

#include "tests/hand_shaped.h"

/* ---- loops: no operation stands between a loop and its carries, or a repeat and its leaves, so their operands are
 * made before */

/* The first rank decides on rounds, unless all ranks compute the condition from sizes. */
static void decide(Hand *h, Piece *p, const Op *from) {
  uint32_t axes = 0;
  resolve(h, p);
  for (int a = 0; a < h->m->mesh.naxes; a++) axes |= is_time(h, a) ? 0 : 1u << a;
  if (h->failed || !axes || from->kind == OP_size || from->kind == OP_const || slip(h)) return;
  make_partial(h, p, RED_ONE, axes);
  resolve(h, p);
}

static void before_loop(Hand *h, const Loop *l) {
  const Func *f = h->l1;
  for (size_t i = l->begin; i < l->end && !h->failed; i++)
    for (int o = 0; o < f->ops.items[i].nin && !h->failed; o++) {
      Val v = f->ops.items[i].in[o];
      bool outside = f->values.items[v].op < (int)l->begin,
           resolved = i == l->begin || f->ops.items[i].kind == OP_carry;
      if (!outside) continue;
      Piece p = use(h, v);
      if (resolved && i > l->begin) resolve(h, &p);
      if (i == l->begin) decide(h, &p, op_of(f, v));
      h->of[v] = p;
    }
}

static void hand_repeat(Hand *h, const Op *op, const Loop *l, Piece *next) {
  const Op *leave = op + 1;
  Val in[2] = {h->of[op->in[0]].v, 0};
  for (int k = 0; k < l->ncarries && !h->failed; k++) {
    const Piece *carry = &h->of[leave[k].in[0]];
    next[k] = use(h, leave[k].in[1]);
    resolve(h, &next[k]);
    for (int d = 0; d < l1_type(h, leave[k].out)->rank; d++) hold_as(h, &next[k], d, carry, d);
  }
  if (op->nin > 1 && !h->failed) {
    Piece again = use(h, op->in[1]);
    decide(h, &again, op);
    in[1] = again.v;
  }
  if (!h->failed) build_op(&h->b, &(OpSpec){.kind = OP_repeat, .nin = op->nin, .in = in});
}

static void hand_loop_part(Hand *h, const Op *op, const Loop *l, Piece *next) {
  Piece y = {.stage = h->b.stage};
  if (op->kind == OP_repeat) {
    hand_repeat(h, op, l, next);
    return;
  }
  const Piece *p = op->kind == OP_leave ? &h->of[op->in[0]] : &h->of[op->in[0]];
  Val in[2] = {p->v, op->kind == OP_leave ? next[op - &h->l1->ops.items[l->repeat] - 1].v : 0};
  memcpy(y.lo, p->lo, sizeof y.lo);
  y.v = emit(h, op->kind, op->nin, in, op->nattrs, op->attrs, NULL);
  h->of[op->out] = y;
}

/* ---- outputs */

/* Does the cut say where dimension d of the piece lies?  A careless author compares the length only. */
static bool says(Hand *h, const DimLayout *cut, const Expr *extent, const Piece *p, int d, bool careless) {
  const Expr *lo, *hi;
  part_of_dim(h, cut, extent, &lo, &hi);
  return ex_sub(h->m, hi, lo) == extent_of(h, p, d) && (careless || lo == p->lo[d]);
}

static bool find_cut(Hand *h, const Expr *extent, const Piece *p, int d, bool careless, DimLayout *cut) {
  int n = h->m->mesh.naxes;
  for (int unit = 1; unit <= 4; unit++)
    for (int code = 0; code < 1 + n + n * n; code++) { /* none, one axis, two axes */
      *cut = (DimLayout){.unit = number(h, unit)};
      if (code > 0) cut->axes[cut->n++] = (uint8_t)(code <= n ? code - 1 : (code - 1 - n) / n);
      if (code > n) cut->axes[cut->n++] = (uint8_t)((code - 1 - n) % n);
      if (cut->n == 2 && cut->axes[0] == cut->axes[1]) continue;
      if (says(h, cut, extent, p, d, careless)) return true;
    }
  return false;
}

static void hand_output(Hand *h, const Output *o) {
  Piece p = h->of[o->value];
  const Type *t = l1_type(h, o->value);
  Layout l = {.rank = t->rank};
  if (!p.v || h->failed) {
    h->failed = true;
    return;
  }
  h->b.stage = p.stage;
  resolve(h, &p);
  for (int d = 0; d < t->rank && !h->failed; d++) {
    if (find_cut(h, t->dims[d], &p, d, slip(h) != 0, &l.dims[d])) continue;
    hold_whole(h, &p, d, t->dims[d]);
    l.dims[d] = (DimLayout){0};
  }
  uint32_t seen = 0;
  for (int d = 0; d < t->rank; d++)
    for (int i = 0; i < l.dims[d].n; i++) {
      h->failed |= ((seen >> l.dims[d].axes[i]) & 1u) != 0;
      seen |= 1u << l.dims[d].axes[i];
    }
  if (!h->failed) build_output(&h->b, o->name, p.v, layout_get(h->m, &l));
}

/* ---- the function */

typedef struct HandResult {
  int decisions, slips;
  bool adds; /* the order of some sum differs from level 1 */
} HandResult;

/* Returns NULL if the text is no valid function. */
static Func *hand_write(Module *m, const Func *l1, Random *r, int rate, const bool *held, Arena *arena,
                        HandResult *result) {
  Func *f = module_func_add(m, "rank", 2);
  Hand *h = ARENA_NEW(arena, Hand);
  Loops loops = loops_of(arena, l1);
  Piece *next[MAX_OPEN + 1];
  *h = (Hand){.m = m,
              .l1 = l1,
              .b = builder_new(m, f, diags_new(arena)),
              .r = r,
              .rate = rate,
              .of = ARENA_ARRAY(arena, Piece, l1->values.n)};
  if (held) memcpy(h->held, held, sizeof h->held);
  for (int i = 0; i <= MAX_OPEN; i++) next[i] = ARENA_ARRAY(arena, Piece, 8);
  for (size_t i = 0; i < l1->ops.n && !h->failed; i++) {
    const Op *op = &l1->ops.items[i];
    const Loop *l = NULL;
    for (int k = 0; k < loops.n; k++)
      if (loops.items[k].begin <= i && i < loops.items[k].end) l = &loops.items[k]; /* the innermost */
    h->in_loop = l != NULL;
    if (!l && h->b.stage + 1 < m->mesh.stages && below(r, (int)l1->ops.n / 2 + 1) == 0) h->b.stage++;
    if (l && op->kind == OP_loop) before_loop(h, l);
    if (h->failed) break;
    if (l && op_is_loop_part(op->kind)) hand_loop_part(h, op, l, next[l->depth]);
    else hand_op(h, op);
  }
  for (size_t i = 0; i < l1->outputs.n && !h->failed; i++) hand_output(h, &l1->outputs.items[i]);
  *result = (HandResult){h->decisions, h->slips, h->adds};
  return h->failed || h->b.diags->errors ? NULL : f;
}

#endif
