/* ir/convert.c - the cheapest sequence of moves between two layouts, and its operations; see convert.h.
 *
 * Dijkstra over interned layouts.  Only axes that must move, and those minor to them on a dimension, take part, so the
 * state space stays at a few dozen layouts.
 */
#include "ir/convert.h"

#include <string.h>

#include "base/die.h"

enum { MAX_STATES = 4096 };

static const char *const names[MOVE_KINDS] = {"slice", "all_gather", "all_to_all", "all_reduce", "reduce_scatter", "mask", "exchange", "relabel"};
const char *move_name(MoveKind k) { return names[k]; }

/* ---- sizes for pricing */

static int64_t hint_of(const Symbol *s) {
  if (s->hint) return s->hint;
  return strcmp(s->name, "batch") == 0 ? 8 : 128;
}

static double extent_hint(const Module *m, const Expr *e) {
  double r = 0;
  if (e->kind == EX_CONST) return (double)e->value;
  if (e->kind == EX_SYM) return (double)hint_of(&m->symbols.items[e->value]);
  for (int i = 0; i < e->n; i++) {
    double a = extent_hint(m, e->args[i]);
    if (i == 0) r = a;
    else if (e->kind == EX_MUL) r *= a;
    else if (e->kind == EX_ADD) r += a;
    else if (e->kind == EX_DIV) r /= a;
    else r = (e->kind == EX_MIN) == (a < r) ? a : r;
  }
  return e->kind == EX_MUL ? r * (double)e->value : e->kind == EX_ADD ? r + (double)e->value : r;
}

double layout_bytes(const Module *m, const Type *global, const Layout *l) {
  double bytes = (double)dtype_bytes(global->dtype);
  for (int d = 0; d < global->rank; d++) bytes *= extent_hint(m, global->dims[d]) / (double)layout_parts(&m->mesh, &l->dims[d]);
  return bytes;
}

double move_cost_bytes(void *context, const Module *m, const Type *global, const Move *move) {
  (void)context;
  const double latency = 4096, local = 1;
  double before = layout_bytes(m, global, move->before), after = layout_bytes(m, global, move->after), n = 1;
  for (int a = 0; a < m->mesh.naxes; a++)
    if (move->axes & (1u << a)) n *= m->mesh.axes[a].size;
  double share = (n - 1) / n;
  switch (move->kind) {
    case MOVE_ALL_GATHER: return latency + after * share;
    case MOVE_ALL_TO_ALL: return latency + before * share;
    case MOVE_ALL_REDUCE: return latency + 2 * before * share;
    case MOVE_REDUCE_SCATTER: return latency + before * share;
    case MOVE_EXCHANGE: return latency + before;
    case MOVE_MASK: return local + before / 1024;
    case MOVE_SLICE: return local + after / 1024;
    default: return 0;
  }
}

/* ---- search */

typedef struct Reached {
  const Layout *layout;
  double cost;
  int previous;
  Move move;
  bool done;
} Reached;

typedef struct Search {
  Module *m;
  const Type *global;
  const Layout *to;
  MoveCost price;
  void *context;
  uint32_t moving; /* axes that take part */
  Reached *states;
  int n;
} Search;

static bool same_place(const Layout *a, const Layout *b, int axis) {
  if (((a->partial_axes ^ b->partial_axes) >> axis) & 1u) return false;
  if ((a->partial_axes >> axis) & 1u && a->partial != b->partial) return false;
  for (int d = 0; d < a->rank; d++) {
    int i = 0, j = 0;
    while (i < a->dims[d].n && a->dims[d].axes[i] != axis) i++;
    while (j < b->dims[d].n && b->dims[d].axes[j] != axis) j++;
    bool in_a = i < a->dims[d].n, in_b = j < b->dims[d].n;
    if (in_a != in_b || (in_a && (i != j || a->dims[d].unit != b->dims[d].unit))) return false;
  }
  return true;
}

static uint32_t moving_axes(const Module *m, const Layout *from, const Layout *to) {
  uint32_t moving = 0;
  for (int a = 0; a < m->mesh.naxes; a++)
    if (!same_place(from, to, a)) moving |= 1u << a;
  const Layout *both[2] = {from, to};
  for (int k = 0; k < 2; k++)
    for (int d = 0; d < from->rank; d++) {
      bool below = false;
      for (int i = 0; i < both[k]->dims[d].n; i++) {
        below = below || (moving >> both[k]->dims[d].axes[i]) & 1u;
        if (below) moving |= 1u << both[k]->dims[d].axes[i];
      }
    }
  return moving;
}

static void reach(Search *s, int from, Move move, const Layout *after) {
  after = layout_get(s->m, after);
  move.before = s->states[from].layout;
  move.after = after;
  double cost = s->states[from].cost + s->price(s->context, s->m, s->global, &move);
  int i = 0;
  while (i < s->n && s->states[i].layout != after) i++;
  if (i == s->n) {
    if (s->n == MAX_STATES) return;
    s->states[s->n++] = (Reached){.layout = after, .cost = cost + 1};
  }
  if (cost < s->states[i].cost) {
    s->states[i].cost = cost;
    s->states[i].previous = from;
    s->states[i].move = move;
  }
}

static uint32_t axes_of(const DimLayout *d) {
  uint32_t axes = 0;
  for (int i = 0; i < d->n; i++) axes |= 1u << d->axes[i];
  return axes;
}

static uint32_t axes_used(const Layout *l) {
  uint32_t axes = l->partial_axes;
  for (int d = 0; d < l->rank; d++) axes |= axes_of(&l->dims[d]);
  return axes;
}

/* Appends an axis as the minor-most; a dimension cut for the first time takes the unit the goal has there. */
static void join(const Search *s, Layout *l, int dim, int axis) {
  DimLayout *d = &l->dims[dim];
  if (d->n == 0) d->unit = s->to->dims[dim].n ? s->to->dims[dim].unit : NULL;
  d->axes[d->n++] = (uint8_t)axis;
}

static void try_free_axis(Search *s, int at, const Layout *l, int axis) {
  for (int d = 0; d < l->rank; d++) {
    Layout next = *l;
    join(s, &next, d, axis);
    reach(s, at, (Move){.kind = MOVE_SLICE, .axis = axis, .dim = d, .axes = 1u << axis}, &next);
  }
  if (s->m->mesh.axes[axis].temporal || !((s->to->partial_axes >> axis) & 1u)) return;
  if (l->partial_axes && l->partial != s->to->partial) return;
  Layout next = *l;
  next.partial_axes |= 1u << axis;
  next.partial = s->to->partial;
  reach(s, at, (Move){.kind = MOVE_MASK, .axis = axis, .axes = 1u << axis}, &next);
}

static void try_partial_axis(Search *s, int at, const Layout *l, int axis) {
  Layout next = *l;
  next.partial_axes &= ~(1u << axis);
  reach(s, at, (Move){.kind = MOVE_ALL_REDUCE, .axis = axis, .axes = 1u << axis}, &next);
  for (int d = 0; d < l->rank; d++) {
    Layout cut = next;
    join(s, &cut, d, axis);
    reach(s, at, (Move){.kind = MOVE_REDUCE_SCATTER, .axis = axis, .dim = d, .axes = 1u << axis}, &cut);
  }
}

static void try_dim(Search *s, int at, const Layout *l, int dim) {
  const DimLayout *d = &l->dims[dim], *goal = &s->to->dims[dim];
  int axis = d->axes[d->n - 1];
  if (s->m->mesh.axes[axis].temporal || !((s->moving >> axis) & 1u)) return;
  Layout next = *l;
  next.dims[dim].n--;
  reach(s, at, (Move){.kind = MOVE_ALL_GATHER, .axis = axis, .dim = dim, .axes = 1u << axis}, &next);
  for (int e = 0; e < l->rank; e++) {
    if (e == dim) continue;
    Layout swapped = next;
    join(s, &swapped, e, axis);
    reach(s, at, (Move){.kind = MOVE_ALL_TO_ALL, .axis = axis, .dim = dim, .dim2 = e, .axes = 1u << axis}, &swapped);
  }
  bool temporal = false;
  for (int i = 0; i < d->n; i++) temporal |= s->m->mesh.axes[d->axes[i]].temporal;
  if (temporal || axes_of(d) != axes_of(goal) || memcmp(d, goal, sizeof *d) == 0) return;
  Layout anew = *l;
  anew.dims[dim] = *goal;
  reach(s, at, (Move){.kind = MOVE_EXCHANGE, .dim = dim, .axes = axes_of(d)}, &anew);
}

static void expand(Search *s, int at) {
  const Layout *l = s->states[at].layout;
  uint32_t used = axes_used(l);
  for (int a = 0; a < s->m->mesh.naxes; a++) {
    if (!((s->moving >> a) & 1u)) continue;
    if (!((used >> a) & 1u)) try_free_axis(s, at, l, a);
    else if ((l->partial_axes >> a) & 1u) try_partial_axis(s, at, l, a);
  }
  if (l->partial_axes & (l->partial_axes - 1)) { /* several at once is one collective over the larger group */
    Layout next = *l;
    next.partial_axes = l->partial_axes & ~s->moving;
    if (next.partial_axes != l->partial_axes)
      reach(s, at, (Move){.kind = MOVE_ALL_REDUCE, .axes = l->partial_axes & s->moving}, &next);
  }
  if (l->partial_axes && l->partial == RED_ONE && s->to->partial == RED_SUM) {
    Layout next = *l;
    next.partial = RED_SUM;
    reach(s, at, (Move){.kind = MOVE_RELABEL}, &next);
  }
  for (int d = 0; d < l->rank; d++)
    if (l->dims[d].n) try_dim(s, at, l, d);
}

bool convert_find(Module *m, const Type *global, const Layout *from, const Layout *to, MoveCost cost, void *context, Conversion *out) {
  *out = (Conversion){0};
  if (from == to) return true;
  if (from->rank != to->rank) die("conversion between ranks %d and %d", from->rank, to->rank);
  Arena *scratch = arena_new();
  Search s = {m, global, to, cost, context, moving_axes(m, from, to), ARENA_ARRAY(scratch, Reached, MAX_STATES), 1};
  s.states[0] = (Reached){.layout = from, .previous = -1};
  int found = -1;
  for (;;) {
    int best = -1;
    for (int i = 0; i < s.n; i++)
      if (!s.states[i].done && (best < 0 || s.states[i].cost < s.states[best].cost)) best = i;
    if (best < 0) break;
    if (s.states[best].layout == to) {
      found = best;
      break;
    }
    s.states[best].done = true;
    expand(&s, best);
  }
  int steps = 0;
  for (int i = found; i > 0; i = s.states[i].previous) steps++;
  if (steps > MAX_MOVES) die("a conversion of %d moves", steps);
  out->n = found < 0 ? 0 : steps;
  out->cost = found < 0 ? 0 : s.states[found].cost;
  for (int i = found; i > 0; i = s.states[i].previous) out->moves[--steps] = s.states[i].move;
  arena_free(scratch);
  return found >= 0;
}

/* ---- emission */

static void interval(Builder *b, const Type *global, const Layout *l, int dim, const Expr *out[2]) {
  layout_interval(b->m, &l->dims[dim], global->dims[dim], &out[0], &out[1]);
}

static Attr axes_attr(Builder *b, uint32_t axes) {
  int64_t list[MAX_AXES];
  int n = 0;
  for (int a = 0; a < b->m->mesh.naxes; a++)
    if (axes & (1u << a)) list[n++] = a;
  return attr_ints(b->m, AT_mesh_axes, n, list);
}

static Val emit_move(Builder *b, Val v, const Type *global, const Move *move) {
  Attr attrs[4];
  const Expr *before[2], *after[2];
  OpSpec spec = {.nin = 1, .in = &v, .attrs = attrs, .type = layout_local_type(b->m, global, move->after)};
  spec.name = arena_printf(b->m->arena, "%s.%s", op_of(b->f, v)->name, move_name(move->kind));
  switch (move->kind) {
    case MOVE_RELABEL: return v;
    case MOVE_SLICE:
      interval(b, global, move->before, move->dim, before);
      interval(b, global, move->after, move->dim, after);
      spec.kind = OP_shard_slice;
      attrs[spec.nattrs++] = attr_i(AT_axis, move->dim);
      attrs[spec.nattrs++] = attr_e(AT_start, ex_sub(b->m, after[0], before[0]));
      break;
    case MOVE_ALL_GATHER:
      spec.kind = OP_all_gather;
      attrs[spec.nattrs++] = attr_i(AT_axis, move->dim);
      attrs[spec.nattrs++] = attr_i(AT_mesh_axis, move->axis);
      break;
    case MOVE_ALL_TO_ALL:
      spec.kind = OP_all_to_all;
      attrs[spec.nattrs++] = attr_i(AT_split, move->dim2);
      attrs[spec.nattrs++] = attr_i(AT_concat, move->dim);
      attrs[spec.nattrs++] = attr_i(AT_mesh_axis, move->axis);
      break;
    case MOVE_ALL_REDUCE:
      spec.kind = OP_all_reduce;
      attrs[spec.nattrs++] = axes_attr(b, move->axes);
      attrs[spec.nattrs++] = attr_red(AT_op, move->before->partial);
      break;
    case MOVE_REDUCE_SCATTER:
      spec.kind = OP_reduce_scatter;
      attrs[spec.nattrs++] = attr_i(AT_axis, move->dim);
      attrs[spec.nattrs++] = attr_i(AT_mesh_axis, move->axis);
      attrs[spec.nattrs++] = attr_red(AT_op, move->before->partial);
      break;
    case MOVE_MASK:
      spec.kind = OP_mask_partial;
      attrs[spec.nattrs++] = axes_attr(b, move->axes);
      attrs[spec.nattrs++] = attr_red(AT_op, move->after->partial);
      break;
    case MOVE_EXCHANGE:
      interval(b, global, move->before, move->dim, before);
      interval(b, global, move->after, move->dim, after);
      spec.kind = OP_exchange;
      attrs[spec.nattrs++] = attr_i(AT_axis, move->dim);
      attrs[spec.nattrs++] = axes_attr(b, move->axes);
      attrs[spec.nattrs++] = attr_exprs(b->m, AT_source, 2, before);
      attrs[spec.nattrs++] = attr_exprs(b->m, AT_target, 2, after);
      break;
    case MOVE_KINDS: die("no such move");
  }
  return build_op(b, &spec);
}

Val convert_emit(Builder *b, Val v, const Type *global, const Conversion *c) {
  for (int i = 0; i < c->n && v; i++) v = emit_move(b, v, global, &c->moves[i]);
  return v;
}
