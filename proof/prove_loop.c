/* proof/prove_loop.c - loops in the prover: induction over the rounds.
 *
 * A level-2 loop with the rounds and initial values of a level-1 loop computes the leaves of that loop if the carries
 * keep their boxes.  Assume that before a round every carry is the level-1 carry on the box of its initial value.  The
 * body is proved like any operations, and the next value of each carry must equal its next value at level 1, on the
 * same box.  The values that control the loop must have the same bits on all ranks, or ranks would execute different
 * rounds: they are computed exactly from values that all ranks have (constants, sizes, integer inputs and weights), or
 * one rank sends them to the others.
 *
 * An initial value that does not vary along a dimension has a free span there.  The carry is first assumed free as
 * well; if its next value has a place, the induction starts again with that place.
 */
#include <string.h>

#include "proof/prove_relation.h"

/* ---- control of loops */

static uint32_t spatial_axes(const Module *m) {
  uint32_t axes = 0;
  for (int a = 0; a < m->mesh.naxes; a++)
    if (!m->mesh.axes[a].temporal && m->mesh.axes[a].size > 1) axes |= 1u << a;
  return axes;
}

static uint32_t axes_of(const Op *op) {
  const Attr *a = op_attr(op, AT_mesh_axes);
  uint32_t axes = 0;
  for (int i = 0; i < a->n; i++) axes |= 1u << a->u.ints[i];
  return axes;
}

/* True if the value is one rank's, broadcast by a mask and a reduction over all axes (in one or more steps). */
static bool is_broadcast(const Module *m, const Func *f, const Op *op) {
  uint32_t reduced = 0, masked = 0;
  for (;; op = op_of(f, op->in[0])) {
    if (op->kind == OP_all_reduce) reduced |= axes_of(op);
    else if (op->kind == OP_mask_partial) masked |= axes_of(op);
    else if (op->kind != OP_copy) break;
  }
  return (spatial_axes(m) & ~(reduced & masked)) == 0;
}

/* True for float products: a library may add their terms in different orders on different ranks. */
static bool is_float_product(const Func *f, const Op *op) {
  bool product = op->kind == OP_dot || op->kind == OP_attention || op->kind == OP_attention_grad ||
                 op->kind == OP_conv || op->kind == OP_conv_transpose || op->kind == OP_conv_filter;
  return product && dtype_is_float(type_of(f, op->out)->dtype);
}

static bool is_exact(const Module *m, const Func *f, const Op *op, const bool *exact) {
  if (op->kind == OP_loop || op->kind == OP_bind || is_broadcast(m, f, op)) return true;
  if (op->kind == OP_input || op->kind == OP_param) return !dtype_is_float(type_of(f, op->out)->dtype);
  if (!op->nin) return op->kind == OP_const || op->kind == OP_size || op->kind == OP_iota;
  bool all = op->kind != OP_call && op->kind != OP_result && op->kind != OP_opaque && !is_float_product(f, op);
  for (int k = 0; k < op->nin; k++) all &= exact[op->in[k]];
  return all;
}

const bool *controls_of(Module *m, const Func *f, const Loops *loops) {
  if (!loops->n && !func_binds(f)) return NULL;
  bool *exact = ARENA_ARRAY(m->arena, bool, f->values.n), *spoiled = ARENA_ARRAY(m->arena, bool, f->values.n);
  for (bool more = true; more;) { /* a carry is exact until its next value is found not to be */
    more = false;
    for (size_t i = 0; i < f->ops.n; i++) {
      const Op *op = &f->ops.items[i];
      for (Val v = op->out; v < op_end(op); v++) exact[v] = !spoiled[v] && is_exact(m, f, op, exact);
      if (op->kind == OP_leave && !exact[op->in[1]] && !spoiled[op->in[0]]) spoiled[op->in[0]] = more = true;
    }
  }
  return exact;
}

static bool prove_control(Prover *p, const ProveWalk *w, Val v, const char *what) {
  if (w->known[v].relation.axes) return prove_fail(p, "%s is a partial result", what);
  return w->controls[v] || prove_fail(p, "%s is computed by every rank for itself", what);
}

/* Level 1 binds the same size to the same value. */
bool prove_bind(Prover *p, const ProveWalk *w, const Op *op) {
  const Terms *t = p->terms;
  if (!prove_control(p, w, op->in[0], "the size")) return false;
  w->known[op->out] = w->known[op->in[0]];
  for (size_t i = 0; i < t->binds.n; i++)
    if (t->binds.items[i].size == op_expr(op, AT_expr))
      return t->binds.items[i].term == w->known[op->in[0]].term || prove_fail(p, "not the size that level 1 binds");
  return prove_fail(p, "level 1 does not bind this size");
}

/* ---- a level-1 loop that begins alike */

static bool begins_alike(const Prover *p, const ProveWalk *w, const Loop *l, const LoopTerms *g) {
  const Op *begin = &w->f->ops.items[l->begin];
  if (g->depth != p->depth || g->ncarries != l->ncarries || g->trips != op_expr(begin, AT_trips) ||
      g->count != w->known[begin->in[0]].term)
    return false;
  for (int k = 0; k < l->ncarries; k++)
    if (g->inits[k] != w->known[begin[1 + k].in[0]].term) return false;
  return true;
}

/* True if an earlier level-1 loop begins alike with carries of the same types: then the body has been tried with it. */
static bool tried_before(const Prover *p, const ProveWalk *w, const Loop *l, size_t g) {
  const LoopTerms *all = p->terms->loops.items;
  for (size_t i = 0; i < g; i++)
    if (begins_alike(p, w, l, &all[i]) &&
        memcmp(all[i].types, all[g].types, sizeof *all[g].types * (size_t)l->ncarries) == 0)
      return true;
  return false;
}

/* ---- induction */

/* Gives a free carry the place of its next value; false if the two have different places. */
static bool keeps_box(Prover *p, Relation *carry, const Relation *next, bool *moved) {
  if (next->axes) return prove_fail(p, "the next value of a carry is a partial result");
  for (int d = 0; d < carry->rank; d++) {
    *moved |= carry->dims[d].free && !next->dims[d].free;
    if (!span_unify(p, &carry->dims[d], &next->dims[d], &carry->dims[d]))
      return prove_fail(p, "the next value of a carry holds another part of dimension %d", d);
  }
  return true;
}

/* Proves the body once with the carries on these boxes. */
static bool prove_round(Prover *p, const ProveWalk *w, const Loop *l, const LoopTerms *g, Relation *boxes,
                        bool *moved) {
  const Op *begin = &w->f->ops.items[l->begin], *repeat = &w->f->ops.items[l->repeat];
  w->known[begin->out] = (Fact2){.term = term_of_round(p->terms, p->depth)};
  for (int k = 0; k < l->ncarries; k++) {
    if (!prove_extents(p, type_of(w->f, begin[1 + k].out), &boxes[k])) return false;
    w->known[begin[1 + k].out] = (Fact2){term_of_carry(p->terms, p->depth, k, g->types[k]), boxes[k]};
  }
  p->depth++;
  bool ok = prove_range(p, w, l->body, l->repeat);
  p->depth--;
  if (!ok) return false;
  p->op = repeat->name;
  if (repeat->nin > 1 && !prove_control(p, w, repeat->in[1], "the condition")) return false;
  if (!prove_operands(p, w, l->repeat)) return false;
  for (int k = 0; k < l->ncarries; k++) {
    p->op = repeat[1 + k].name;
    if (!prove_operands(p, w, l->repeat + 1 + (size_t)k)) return false;
    if (!keeps_box(p, &boxes[k], &w->known[repeat[1 + k].in[1]].relation, moved)) return false;
  }
  return true;
}

/* Returns the level-1 loop whose carries have the same next values; NULL if none. */
static const LoopTerms *ends_alike(const Prover *p, const ProveWalk *w, const Loop *l, const LoopTerms *like) {
  const Op *repeat = &w->f->ops.items[l->repeat];
  Term again = repeat->nin > 1 ? w->known[repeat->in[1]].term : 0;
  for (size_t i = 0; i < p->terms->loops.n; i++) {
    const LoopTerms *g = &p->terms->loops.items[i];
    bool same = begins_alike(p, w, l, g) && g->again == again;
    for (int k = 0; k < l->ncarries && same; k++)
      same = g->types[k] == like->types[k] && g->nexts[k] == w->known[repeat[1 + k].in[1]].term;
    if (same) return g;
  }
  return NULL;
}

static bool prove_rounds(Prover *p, const ProveWalk *w, const Loop *l, const LoopTerms *like) {
  const Op *begin = &w->f->ops.items[l->begin], *repeat = &w->f->ops.items[l->repeat];
  Relation *boxes = ARENA_ARRAY(p->m->arena, Relation, l->ncarries);
  for (int k = 0; k < l->ncarries; k++) {
    boxes[k] = w->known[begin[1 + k].in[0]].relation;
    p->op = begin[1 + k].name;
    if (!prove_operands(p, w, l->begin + 1 + (size_t)k)) return false;
    if (boxes[k].axes) return prove_fail(p, "the initial value of a carry is a partial result");
  }
  for (bool moved = true; moved;) {
    moved = false;
    if (!prove_round(p, w, l, like, boxes, &moved)) return false;
  }
  p->op = repeat->name;
  const LoopTerms *g = ends_alike(p, w, l, like);
  if (!g) return prove_fail(p, "level 1 has no loop whose carries have these next values");
  for (int k = 0; k < l->ncarries; k++) w->known[repeat[1 + k].out] = (Fact2){g->leaves[k], boxes[k]};
  return true;
}

bool prove_loop(Prover *p, const ProveWalk *w, const Loop *l) {
  const Op *begin = &w->f->ops.items[l->begin];
  const char *best = NULL, *at = begin->name;
  if (!prove_control(p, w, begin->in[0], "the number of rounds")) return false;
  for (size_t i = 0; i < p->terms->loops.n; i++) {
    const LoopTerms *g = &p->terms->loops.items[i];
    if (!begins_alike(p, w, l, g) || tried_before(p, w, l, i)) continue;
    if (prove_rounds(p, w, l, g)) return true;
    if (!best) best = p->reason, at = p->op;
  }
  p->op = at;
  return best ? (p->reason = best, false) : prove_fail(p, "level 1 has no loop with these rounds and initial values");
}
