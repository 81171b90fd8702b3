/* proof/prove_window.c - the prover's cases of the windowed operations (ir/window.h).
 *
 * The first local window follows from the start of the operand's part and the two `starts`.  It remains to show that
 * the part holds all elements that the local windows reach.  That is arithmetic over the coordinates; where extents are
 * symbols it is proved by bounds (prove_bound.c), and else unknown.  The only code shared with lowering is the
 * definition of a window (window_of).
 */
#include "proof/prove_relation.h"
#include "ir/window.h"

typedef struct Reach {
  const Window *g;    /* level 1 */
  int i;              /* windowed dimension */
  Span held;          /* of the operand */
  const Expr *lo, *n; /* of the result: first index and extent */
} Reach;

/* Extent from the first element of a window to its end. */
static const Expr *reach_of(Module *m, const Window *w, int i) {
  return ex_addi(m, ex_muli(m, ex_addi(m, w->extent[WINDOW_WEIGHTS][i], -1), w->dilation[i]), 1);
}

/* The numbers by which a reach is decided. */
enum { HELD_LO, HELD_HI, FIRST, COUNT, START, REACH, IMAGE, OUTPUT, REACH_NUMBERS };

/* For windows that read an image: all elements they reach inside [0, image) are held. */
static bool images_held(const int64_t *v, const void *stride) {
  __int128 step = *(const int64_t *)stride, lo = v[START] + v[FIRST] * step,
           hi = v[START] + (v[FIRST] + v[COUNT] - 1) * step + v[REACH];
  if (lo < 0) lo = 0;
  if (hi > v[IMAGE]) hi = v[IMAGE];
  return v[COUNT] == 0 || lo >= hi || (v[HELD_LO] <= lo && hi <= v[HELD_HI]);
}

/* For images that gather from outputs: no output outside the part reaches into [first, first + count). */
static bool outputs_held(const int64_t *v, const void *stride) {
  __int128 step = *(const int64_t *)stride;
  bool below = v[HELD_LO] <= 0 || v[START] + (v[HELD_LO] - 1) * step + v[REACH] <= v[FIRST];
  bool above = v[HELD_HI] >= v[OUTPUT] || v[START] + v[HELD_HI] * step >= v[FIRST] + v[COUNT];
  return v[COUNT] == 0 || (below && above);
}

/* The same for all sizes.  Windows: from max(first, 0) to min(end, image).  Images: the first output that reaches
 * beyond lo is floor((lo - start - reach) / stride) + 1, the first that begins at or after hi is ceil((hi - start) /
 * stride). */
static bool held_at_all_sizes(Prover *p, const Reach *r, bool transposed) {
  Module *m = p->m;
  const Window *w = r->g;
  const Expr *start = w->start[r->i], *reach = reach_of(m, w, r->i), *stride = ex_const(m, w->stride[r->i]),
             *zero = ex_const(m, 0);
  const Expr *end = ex_add(m, r->lo, r->n), *from, *to;
  if (transposed) {
    from = ex_max(m, ex_addi(m, ex_div(m, ex_sub(m, ex_sub(m, r->lo, start), reach), stride), 1), zero);
    to = ex_min(m, ex_ceil_div(m, ex_sub(m, end, start), stride), w->extent[WINDOW_OUTPUT][r->i]);
  } else {
    from = ex_max(m, ex_add(m, start, ex_mul(m, r->lo, stride)), zero);
    to = ex_min(m, ex_add(m, ex_add(m, start, ex_mul(m, ex_addi(m, end, -1), stride)), reach),
                w->extent[WINDOW_IMAGE][r->i]);
  }
  return expr_at_most(p, r->held.lo, from) && expr_at_most(p, to, r->held.hi);
}

static bool all_held(Prover *p, const Reach *r, bool transposed) {
  const Window *w = r->g;
  const Expr *const all[REACH_NUMBERS] = {r->held.lo,
                                          r->held.hi,
                                          r->lo,
                                          r->n,
                                          w->start[r->i],
                                          reach_of(p->m, w, r->i),
                                          w->extent[WINDOW_IMAGE][r->i],
                                          w->extent[WINDOW_OUTPUT][r->i]};
  Decision d = decide(p, REACH_NUMBERS, all, transposed ? outputs_held : images_held, &w->stride[r->i]);
  if (d == HOLDS) return true;
  if (d == FAILS) return prove_fail(p, "windows reach beyond this rank's part");
  if (held_at_all_sizes(p, r, transposed)) return true;
  p->uncertain = true;
  return prove_fail(p, "windows may reach beyond this rank's part at some sizes");
}

/* Handles one windowed dimension of conv, conv_transpose or pool. */
static bool windowed_dim(Prover *p, const Window *g, const Window *l, int i, const Relation *in, const Expr *extent,
                         Span *out) {
  Module *m = p->m;
  bool transposed = g->role[WINDOW_OUTPUT] == 0;
  int role = transposed ? WINDOW_OUTPUT : WINDOW_IMAGE;
  Span held = in[0].dims[g->dim[role][i]];
  bool whole = span_is_whole(p, &held, g->extent[role][i]);
  if (whole) held = span_at(ex_const(m, 0), g->extent[role][i]);
  if (held.free) return p->uncertain = true, prove_fail(p, "the place of the windowed dimension is unknown");
  const Expr *lo;
  if (transposed) {
    lo = ex_sub(m, ex_add(m, g->start[i], ex_muli(m, held.lo, g->stride[i])), l->start[i]);
  } else {
    lo = expr_quotient(p, ex_sub(m, ex_add(m, held.lo, l->start[i]), g->start[i]), ex_const(m, g->stride[i]));
    if (!lo) return prove_fail(p, "the first window begins between two steps");
  }
  *out = span_at(lo, ex_add(m, lo, extent));
  if (!span_within(p, out, g->extent[transposed ? WINDOW_IMAGE : WINDOW_OUTPUT][i]))
    return prove_fail(p, "windows beyond those of level 1");
  Reach r = {g, i, held, lo, extent};
  return whole || all_held(p, &r, transposed);
}

/* True if every windowed dimension is whole. */
static bool whole_along(Prover *p, const Window *g, int role, const Relation *in) {
  for (int i = 0; i < g->n; i++)
    if (!span_is_whole(p, &in[g->role[role]].dims[g->dim[role][i]], g->extent[role][i]))
      return prove_fail(p, "a windowed dimension is cut");
  return true;
}

static bool same_starts(Prover *p, const Window *g, const Window *l) {
  for (int i = 0; i < g->n; i++)
    if (!expr_equal(p, g->start[i], l->start[i])) return prove_fail(p, "windows do not begin where level 1 has them");
  return true;
}

static bool pool_dims(Prover *p, const WindowCase *c, const Window *g, const Window *l) {
  int next = 0;
  for (int d = 0; d < c->out->rank; d++) {
    if (next < g->n && g->dim[WINDOW_IMAGE][next] == d) {
      if (!windowed_dim(p, g, l, next++, c->in, type_of(c->f, c->op->out)->dims[d], &c->out->dims[d])) return false;
    } else {
      c->out->dims[d] = c->in[0].dims[d];
    }
  }
  return true;
}

/* Gradient of a pool: images and outputs must be whole along the windows, and hold the same parts of all other
 * dimensions. */
static bool pool_gradient(Prover *p, const WindowCase *c, const Window *g, const Window *l) {
  if (!whole_along(p, g, WINDOW_IMAGE, c->in) || !whole_along(p, g, WINDOW_OUTPUT, c->in) || !same_starts(p, g, l))
    return false;
  for (int d = 0, next = 0; d < c->out->rank; d++) {
    if (next < g->n && g->dim[WINDOW_IMAGE][next] == d)
      c->out->dims[d] = span_at(ex_const(p->m, 0), g->extent[WINDOW_IMAGE][next++]);
    else if (!span_unify(p, &c->in[0].dims[d], &c->in[1].dims[d], &c->out->dims[d]))
      return prove_fail(p, "operands hold different parts of dimension %d", d);
  }
  return true;
}

bool prove_window(Prover *p, const WindowCase *c) {
  Window g = window_of(c->gf, c->g), l = window_of(c->f, c->op);
  if (c->g->kind == OP_pool) return pool_dims(p, c, &g, &l);
  if (c->g->kind == OP_pool_grad) return pool_gradient(p, c, &g, &l);
  if (!prove_letters(p, c->gf, c->g, c->in, 'a', c->out)) return false;
  if (c->g->kind == OP_conv_filter) {
    if (!whole_along(p, &g, WINDOW_IMAGE, c->in) || !whole_along(p, &g, WINDOW_OUTPUT, c->in) ||
        !same_starts(p, &g, &l))
      return false;
    for (int i = 0; i < g.n; i++)
      c->out->dims[g.dim[WINDOW_WEIGHTS][i]] = span_at(ex_const(p->m, 0), g.extent[WINDOW_WEIGHTS][i]);
    return true;
  }
  if (!whole_along(p, &g, WINDOW_WEIGHTS, c->in)) return false;
  int role = c->g->kind == OP_conv ? WINDOW_OUTPUT : WINDOW_IMAGE;
  for (int i = 0; i < g.n; i++) {
    int d = g.dim[role][i];
    if (!windowed_dim(p, &g, &l, i, c->in, type_of(c->f, c->op->out)->dims[d], &c->out->dims[d])) return false;
  }
  return true;
}
