/* tests/hand_pieces.h - what the writer of a level-2 program by hand knows of its values, and how values are moved.
 *
 * A piece is a local value and its place in the level-1 value: the first index per dimension, as an expression of
 * coordinates, and the axes over which it is a partial result.  The reasoning is simple and shares no code with
 * lowering or prover, not even for how a dimension is cut, and it slips: at every decision (where a part begins, which
 * reduction, over which axes, whether to convert at all) one in `rate` takes a wrong turn that still gives a program.
 * Some wrong turns depend on sizes and fail at few of them only: odd ones, large ones, one rank's. */
#ifndef APC_TESTS_HAND_PIECES_H
#define APC_TESTS_HAND_PIECES_H

#include "tests/mutants.h"
#include "tests/random_graph.h"

enum { MAX_HELD = 512, MAX_HAND_STATES = 4 };

typedef struct Piece {
  Val v;
  const Expr *lo[MAX_RANK];
  Reduction partial;
  uint32_t axes; /* partial over them */
  int stage;
} Piece;

typedef struct Hand {
  Module *m;
  const Func *l1;
  Builder b;
  Random *r;
  Piece *of; /* by level-1 value */
  int rate, decisions, slips;
  bool held[MAX_HELD]; /* decisions that must not go wrong, set while a failing program is reduced */
  bool failed, in_loop;
  bool adds; /* ranks add or multiply: the order of a sum differs */
  struct {
    const char *name;
    const Layout *layout;
  } states[MAX_HAND_STATES];
  int nstates;
} Hand;

/* Returns 0 if the decision is right, else the number of the wrong turn, from 1 on.  Draws the same numbers either
   way. */
static int slip(Hand *h) {
  int how = below(h->r, 1 << 16), wrong = h->rate && below(h->r, h->rate) == 0, number = h->decisions++;
  if (!wrong || (number < MAX_HELD && h->held[number])) return 0;
  h->slips++;
  return 1 + how;
}

static Val emit(Hand *h, OpKind kind, int nin, const Val *in, int nattrs, const Attr *attrs, const Type *t) {
  if (h->failed) return 0;
  for (int i = 0; i < nin; i++)
    if (!in[i]) return h->failed = true, 0;
  Val v = build_op(&h->b, &(OpSpec){.kind = kind, .nin = nin, .in = in, .nattrs = nattrs, .attrs = attrs, .type = t});
  h->failed |= !v;
  return v;
}

static const Type *local_type(const Hand *h, const Piece *p) { return type_of(h->b.f, p->v); }
static const Expr *extent_of(const Hand *h, const Piece *p, int d) { return local_type(h, p)->dims[d]; }
static const Expr *end_of(const Hand *h, const Piece *p, int d) { return ex_add(h->m, p->lo[d], extent_of(h, p, d)); }
static const Expr *number(const Hand *h, int64_t v) { return ex_const(h->m, v); }

/* ---- axes */

static uint32_t axes_in(const Hand *h, const Expr *e) {
  uint32_t axes = 0;
  for (int a = 0; a < h->m->mesh.naxes; a++) axes |= ex_uses(e, h->m->mesh.axes[a].symbol) ? 1u << a : 0;
  return axes;
}

static uint32_t cut_axes(const Hand *h, const Piece *p, int d) {
  return axes_in(h, p->lo[d]) | axes_in(h, extent_of(h, p, d));
}

static uint32_t used_axes(const Hand *h, const Piece *p) {
  uint32_t axes = p->axes;
  for (int d = 0; d < local_type(h, p)->rank; d++) axes |= cut_axes(h, p, d);
  return axes;
}

static bool is_time(const Hand *h, int a) { return h->m->mesh.axes[a].temporal; }

/* ---- places that are slightly wrong */

/* The size of dimension n if it has one; else 1. */
static const Expr *any_size(const Hand *h) {
  int n = module_symbol_find(h->m, "n");
  return n < 0 ? number(h, 1) : ex_sym(h->m, n);
}

/* 0 at small sizes, 1 from `from` on. */
static const Expr *far_from(const Hand *h, int64_t from) {
  return ex_min(h->m, number(h, 1), ex_div(h->m, any_size(h), number(h, from)));
}

/* The coordinate of one axis instead of that of another. */
static const Expr *other_axis(const Hand *h, const Expr *e, int how) {
  int n = h->m->mesh.naxes, a = n ? how % n : 0, b = n ? (a + 1) % n : 0;
  if (n < 2 || !ex_uses(e, h->m->mesh.axes[a].symbol)) a = b, b = n ? (b + 1) % n : 0;
  return n < 2 ? ex_addi(h->m, e, 1) : ex_subst(h->m, e, h->m->mesh.axes[a].symbol, mesh_coordinate(h->m, b));
}

static const Expr *astray(const Hand *h, const Expr *e, int how) {
  Module *m = h->m;
  const Expr *n = any_size(h);
  switch (how % 14) {
    case 0: return ex_addi(m, e, 1);
    case 1: return ex_addi(m, e, -1);
    case 2: return mirrored(m, e);
    case 3: return number(h, 0);
    case 4: return ex_add(m, e, far_from(h, 40));
    case 5: return ex_sub(m, e, far_from(h, 33));
    case 6: return ex_add(m, e, ex_sub(m, n, ex_muli(m, ex_div(m, n, number(h, 2)), 2))); /* odd sizes */
    case 7: return ex_add(m, e, ex_max(m, number(h, 0), ex_sub(m, n, number(h, 50))));
    case 8: return m->mesh.naxes ? ex_add(m, e, mesh_coordinate(m, how / 14 % m->mesh.naxes)) : ex_addi(m, e, 2);
    case 9: return ex_muli(m, e, 2);
    case 10: return ex_add(m, e, ex_max(m, number(h, 0), ex_sub(m, number(h, 2), n))); /* size 1 */
    case 11: return ex_min(m, e, number(h, 1 + how / 14 % 3));
    default: return other_axis(h, e, how / 14);
  }
}

static const Expr *place_of(Hand *h, const Expr *e) {
  int wrong = slip(h);
  return wrong ? astray(h, e, wrong - 1) : e;
}

/* ---- cutting */

/* The part of a dimension that this rank has, as docs/ir.md says: units [floor(r U / n), floor((r + 1) U / n)). */
static void part_of_dim(const Hand *h, const DimLayout *d, const Expr *extent, const Expr **lo, const Expr **hi) {
  Module *m = h->m;
  const Expr *rank = number(h, 0), *units = ex_div(m, extent, d->unit ? d->unit : number(h, 1)),
             *unit = d->unit ? d->unit : number(h, 1);
  int64_t n = 1;
  for (int i = 0; i < d->n; i++) {
    const MeshAxis *a = &m->mesh.axes[d->axes[i]];
    rank = ex_add(m, ex_muli(m, rank, a->size), ex_sym(m, a->symbol));
    n *= a->size;
  }
  *lo = d->n ? ex_mul(m, unit, ex_div(m, ex_mul(m, rank, units), number(h, n))) : number(h, 0);
  *hi = d->n ? ex_mul(m, unit, ex_div(m, ex_mul(m, ex_addi(m, rank, 1), units), number(h, n))) : extent;
}

/* A unit for the dimension: one that divides constant extents, unless the hand slips. */
static const Expr *any_unit(Hand *h, const Expr *extent) {
  int64_t v, unit = 2 + below(h->r, 3);
  bool divides = ex_get_const(extent, &v) ? v % unit == 0 : ex_exact_div(h->m, extent, number(h, unit)) != NULL;
  bool wrong = slip(h) != 0;
  return divides || wrong ? number(h, unit) : number(h, 1);
}

/* Cuts dimensions by axes that are not in `taken`. */
static void cut_any(Hand *h, int rank, const Expr *const *dims, uint32_t taken, Layout *l) {
  *l = (Layout){.rank = rank};
  int n = h->m->mesh.naxes, reversed = below(h->r, 3) == 0;
  for (int i = 0; i < n && rank; i++) {
    int a = reversed ? n - 1 - i : i, d = below(h->r, rank);
    if (below(h->r, 5) < 2 || ((taken >> a) & 1u)) continue;
    l->dims[d].axes[l->dims[d].n++] = (uint8_t)a;
  }
  for (int d = 0; d < rank; d++)
    if (l->dims[d].n) l->dims[d].unit = below(h->r, 5) ? number(h, 1) : any_unit(h, dims[d]);
}

/* A box of a value of these extents; `taken` grows by the axes that cut it. */
static void box_any(Hand *h, int rank, const Expr *const *dims, uint32_t *taken, const Expr **lo,
                    const Expr **extents) {
  Layout l;
  cut_any(h, rank, dims, *taken, &l);
  for (int d = 0; d < rank; d++) {
    const Expr *hi;
    part_of_dim(h, &l.dims[d], dims[d], &lo[d], &hi);
    extents[d] = ex_sub(h->m, hi, lo[d]);
    *taken |= axes_in(h, lo[d]) | axes_in(h, extents[d]);
  }
}

/* ---- moving pieces */

static const Type *with_extent(const Hand *h, const Piece *p, int d, const Expr *extent) {
  const Type *t = local_type(h, p);
  const Expr *dims[MAX_RANK];
  for (int i = 0; i < t->rank; i++) dims[i] = i == d ? extent : t->dims[i];
  return type_get(h->m, t->dtype, t->rank, dims);
}

static const Expr *at_rank(const Hand *h, const Expr *e, int a, int64_t r) {
  return ex_subst(h->m, e, h->m->mesh.axes[a].symbol, number(h, r));
}

static void gather_axis(Hand *h, Piece *p, int d, int a) {
  const Expr *sum = number(h, 0);
  if (h->failed || is_time(h, a)) {
    h->failed = true;
    return;
  }
  for (int r = 0; r < h->m->mesh.axes[a].size; r++) sum = ex_add(h->m, sum, at_rank(h, extent_of(h, p, d), a, r));
  Attr attrs[] = {attr_i(AT_mesh_axis, a), attr_i(AT_axis, d)};
  Val v = emit(h, OP_all_gather, 1, &p->v, 2, attrs, with_extent(h, p, d, sum));
  p->lo[d] = at_rank(h, p->lo[d], a, 0);
  p->v = v ? v : p->v;
}

/* The distance that the part moves when the coordinate of the axis goes from 0 to 1, at a size that divides well. */
static int64_t stride_of(Hand *h, const Piece *p, int d, int a) {
  int64_t *values = ARENA_ARRAY(h->m->arena, int64_t, h->m->symbols.n), first = 0, next = 0;
  for (size_t i = 0; i < h->m->symbols.n; i++) values[i] = h->m->symbols.items[i].axis < 0 ? 5040 : 0;
  if (!ex_eval(p->lo[d], values, &first)) return 0;
  values[h->m->mesh.axes[a].symbol] = 1;
  return ex_eval(p->lo[d], values, &next) ? next - first : 0;
}

/* Minor axes first. */
static void gather_dim(Hand *h, Piece *p, int d) {
  int wrong = slip(h);
  for (uint32_t left = h->failed ? 0 : cut_axes(h, p, d); left && !h->failed;) {
    int minor = -1;
    for (int a = 0; a < h->m->mesh.naxes; a++) {
      if (!((left >> a) & 1u)) continue;
      bool nearer = minor < 0 || stride_of(h, p, d, a) <= stride_of(h, p, d, minor);
      if (nearer != (wrong && minor >= 0)) minor = a;
    }
    left &= ~(1u << minor);
    if ((cut_axes(h, p, d) >> minor) & 1u) gather_axis(h, p, d, minor);
  }
}

static int list_of(uint32_t axes, int64_t *list) {
  int n = 0;
  for (int a = 0; a < MAX_AXES; a++)
    if ((axes >> a) & 1u) list[n++] = a;
  return n;
}

static bool spatial(const Hand *h, uint32_t axes) {
  for (int a = 0; a < h->m->mesh.naxes; a++)
    if (((axes >> a) & 1u) && is_time(h, a)) return false;
  return axes != 0;
}

static void exchange(Hand *h, Piece *p, int d, const Expr *lo, const Expr *hi) {
  int64_t list[MAX_AXES];
  int n = list_of(cut_axes(h, p, d), list);
  const Expr *source[] = {p->lo[d], end_of(h, p, d)}, *target[] = {place_of(h, lo), hi};
  target[1] = ex_add(h->m, target[0], ex_sub(h->m, hi, lo));
  Attr attrs[] = {attr_ints(h->m, AT_mesh_axes, n, list), attr_i(AT_axis, d), attr_exprs(h->m, AT_source, 2, source),
                  attr_exprs(h->m, AT_target, 2, target)};
  Val v = emit(h, OP_exchange, 1, &p->v, 4, attrs, with_extent(h, p, d, ex_sub(h->m, hi, lo)));
  p->v = v ? v : p->v;
  p->lo[d] = lo;
}

/* Makes the piece hold [lo, hi) of dimension d. */
static void hold(Hand *h, Piece *p, int d, const Expr *lo, const Expr *hi) {
  if (h->failed || (p->lo[d] == lo && end_of(h, p, d) == hi)) return;
  if (extent_of(h, p, d) == ex_sub(h->m, hi, lo) && slip(h)) return; /* it has the right length */
  if (spatial(h, cut_axes(h, p, d)) && below(h->r, 3) == 0) {
    exchange(h, p, d, lo, hi);
    return;
  }
  gather_dim(h, p, d);
  if (h->failed || (p->lo[d] == lo && end_of(h, p, d) == hi)) return;
  Attr attrs[] = {attr_i(AT_axis, d), attr_e(AT_start, place_of(h, ex_sub(h->m, lo, p->lo[d])))};
  Val v = emit(h, OP_shard_slice, 1, &p->v, 2, attrs, with_extent(h, p, d, ex_sub(h->m, hi, lo)));
  p->v = v ? v : p->v;
  p->lo[d] = lo;
}

/* Makes dimension dp of p the part that q has of its dimension dq. */
static void hold_as(Hand *h, Piece *p, int dp, const Piece *q, int dq) {
  if (!h->failed) hold(h, p, dp, q->lo[dq], end_of(h, q, dq));
}

static void hold_whole(Hand *h, Piece *p, int d, const Expr *extent) { hold(h, p, d, number(h, 0), extent); }

/* ---- partial results */

static void resolve(Hand *h, Piece *p) {
  int64_t list[MAX_AXES];
  if (!p->axes || h->failed) return;
  int wrong = slip(h), n = list_of(p->axes, list), rank = local_type(h, p)->rank;
  Reduction r = p->partial;
  if (wrong && wrong % 3 == 0)
    r = r == RED_ONE ? RED_SUM : (Reduction)(RED_SUM + wrong / 3 % 4); /* a sum loses the sign of -0.0 */
  if (wrong && wrong % 3 == 1 && n > 1) n--;
  int d = rank ? below(h->r, rank) : 0, a = (int)list[0], scatters = below(h->r, 3) == 0;
  bool skipped = wrong && wrong % 3 == 2;
  Val v = p->v;
  if (!skipped && scatters && n == 1 && rank && !cut_axes(h, p, d) && !h->in_loop && !is_time(h, a)) {
    DimLayout l = {.n = 1, .axes = {(uint8_t)a}, .unit = number(h, 1)};
    const Expr *lo, *hi, *whole = extent_of(h, p, d);
    part_of_dim(h, &l, whole, &lo, &hi);
    Attr attrs[] = {attr_i(AT_mesh_axis, a), attr_i(AT_axis, d), attr_red(AT_op, r)};
    v = emit(h, OP_reduce_scatter, 1, &p->v, 3, attrs, with_extent(h, p, d, ex_sub(h->m, hi, lo)));
    p->lo[d] = ex_add(h->m, p->lo[d], lo);
  } else if (!skipped) {
    Attr attrs[] = {attr_ints(h->m, AT_mesh_axes, n, list), attr_red(AT_op, r)};
    v = emit(h, OP_all_reduce, 1, &p->v, 2, attrs, NULL);
  }
  p->v = v ? v : p->v;
  p->axes = 0;
}

/* The value on the ranks at 0, the identity elsewhere. */
static void make_partial(Hand *h, Piece *p, Reduction r, uint32_t axes) {
  int64_t list[MAX_AXES];
  int n = list_of(axes, list);
  Attr attrs[] = {attr_ints(h->m, AT_mesh_axes, n, list), attr_red(AT_op, r)};
  Val v = emit(h, OP_mask_partial, 1, &p->v, 2, attrs, NULL);
  p->v = v ? v : p->v;
  p->partial = r;
  p->axes |= axes;
  h->adds |= r != RED_ONE;
}

/* ---- using pieces */

static void move_any(Hand *h, Piece *p) {
  const Type *t = local_type(h, p);
  int how = below(h->r, 4), d = t->rank ? below(h->r, t->rank) : 0,
      a = h->m->mesh.naxes ? below(h->r, h->m->mesh.naxes) : 0;
  bool idle = h->m->mesh.naxes && !((used_axes(h, p) >> a) & 1u);
  if (how == 0 && t->rank && spatial(h, cut_axes(h, p, d))) {
    gather_dim(h, p, d);
  } else if (how == 1 && t->rank && idle) {
    DimLayout l = {.n = 1, .axes = {(uint8_t)a}, .unit = number(h, 1)};
    const Expr *lo, *hi;
    part_of_dim(h, &l, t->dims[d], &lo, &hi);
    hold(h, p, d, ex_add(h->m, p->lo[d], lo), ex_add(h->m, p->lo[d], hi));
  } else if (how == 2 && idle && !is_time(h, a) && !p->axes) {
    make_partial(h, p, below(h->r, 3) && reduction_defined(RED_SUM, t->dtype) ? RED_SUM : RED_ONE, 1u << a);
  } else if (how == 3 && t->rank > 1 && __builtin_popcount(cut_axes(h, p, d)) == 1 && spatial(h, cut_axes(h, p, d))) {
    int to = (d + 1 + below(h->r, t->rank - 1)) % t->rank, axis = __builtin_ctz(cut_axes(h, p, d));
    if (cut_axes(h, p, to)) return;
    const Expr *sum = number(h, 0), *lo, *hi, *dims[MAX_RANK];
    for (int r = 0; r < h->m->mesh.axes[axis].size; r++) sum = ex_add(h->m, sum, at_rank(h, t->dims[d], axis, r));
    DimLayout l = {.n = 1, .axes = {(uint8_t)axis}, .unit = number(h, 1)};
    part_of_dim(h, &l, t->dims[to], &lo, &hi);
    for (int i = 0; i < t->rank; i++) dims[i] = i == d ? sum : i == to ? ex_sub(h->m, hi, lo) : t->dims[i];
    Attr attrs[] = {attr_i(AT_mesh_axis, axis), attr_i(AT_split, to), attr_i(AT_concat, d)};
    Val v = emit(h, OP_all_to_all, 1, &p->v, 3, attrs, type_get(h->m, t->dtype, t->rank, dims));
    p->lo[d] = at_rank(h, p->lo[d], axis, 0);
    p->lo[to] = ex_add(h->m, p->lo[to], lo);
    p->v = v ? v : p->v;
  }
}

/* The piece of a level-1 value, in the stage that is written now. */
static Piece use(Hand *h, Val v) {
  Piece p = h->of[v];
  if (!p.v) h->failed = true;
  if (h->failed) return p;
  if (p.stage != h->b.stage) {
    Attr to = attr_i(AT_to_stage, h->b.stage);
    int here = h->b.stage;
    h->b.stage = p.stage;
    p.v = emit(h, OP_transfer, 1, &p.v, 1, &to, NULL);
    p.stage = h->b.stage = here;
    if (!h->in_loop && p.v) h->of[v] = p;
  }
  if (!h->failed && below(h->r, 7) == 0) {
    move_any(h, &p);
    if (!h->in_loop && !h->failed && below(h->r, 2)) h->of[v] = p;
  }
  return p;
}

#endif
