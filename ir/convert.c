/* ir/convert.c - the cheapest sequence of moves between two layouts, and its operations; see convert.h.
 *
 * Dijkstra over interned layouts.  Only axes that must move, and those minor to them on a dimension, take part, so the
 * state space stays at a few dozen layouts.  Goals that move the same axes and agree on units and partials share one run.
 */
#include "ir/convert.h"

#include <math.h>
#include <string.h>

#include "base/die.h"

enum { MAX_STATES = 4096, SLOT_BITS = 13 };

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

typedef struct Open {
  double cost;
  int state;
} Open;

typedef struct Search {
  Module *m;
  const Type *global;
  Layout to;       /* what the goals agree on: units of cut dimensions, partials */
  const Layout **goals;
  int ngoals;
  MoveCost price;
  void *context;
  uint32_t moving; /* axes that take part */
  Arena *scratch;
  Reached *states;
  int n;
  size_t cap;
  int *slots;      /* states by layout: open addressing, index + 1 */
  struct { Open *items; size_t n, cap; } heap; /* what may be expanded next; a state is pushed again when its cost falls */
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

static bool sooner(const Open *a, const Open *b) { return a->cost < b->cost || (a->cost == b->cost && a->state < b->state); }

static void swap_open(Open *a, Open *b) {
  Open t = *a;
  *a = *b;
  *b = t;
}

static void heap_push(Search *s, int state) {
  ARENA_PUSH(s->scratch, &s->heap, ((Open){s->states[state].cost, state}));
  Open *h = s->heap.items;
  for (size_t i = s->heap.n - 1; i > 0 && sooner(&h[i], &h[(i - 1) / 2]); i = (i - 1) / 2) swap_open(&h[i], &h[(i - 1) / 2]);
}

static int heap_pop(Search *s) {
  Open *h = s->heap.items;
  int top = h[0].state;
  h[0] = h[--s->heap.n];
  for (size_t i = 0;;) {
    size_t least = i;
    for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < s->heap.n; child++)
      if (sooner(&h[child], &h[least])) least = child;
    if (least == i) return top;
    swap_open(&h[i], &h[least]);
    i = least;
  }
}

static int *slot_of(Search *s, const Layout *l) {
  size_t i = ((uint64_t)(uintptr_t)l * 0x9E3779B97F4A7C15u) >> (64 - SLOT_BITS);
  while (s->slots[i] && s->states[s->slots[i] - 1].layout != l) i = (i + 1) % ((size_t)1 << SLOT_BITS);
  return &s->slots[i];
}

static int add_state(Search *s, const Layout *l, double cost) {
  if ((size_t)s->n == s->cap) s->states = arena_grow(s->scratch, s->states, sizeof *s->states, (size_t)s->n, &s->cap);
  s->states[s->n] = (Reached){.layout = l, .cost = cost, .previous = -1};
  *slot_of(s, l) = s->n + 1;
  return s->n++;
}

static void reach(Search *s, int from, Move move, const Layout *after) {
  after = layout_get(s->m, after);
  move.before = s->states[from].layout;
  move.after = after;
  double cost = s->states[from].cost + s->price(s->context, s->m, s->global, &move);
  int i = *slot_of(s, after) - 1;
  if (i < 0) {
    if (s->n == MAX_STATES) return;
    i = add_state(s, after, cost + 1);
  }
  if (s->states[i].done || cost >= s->states[i].cost) return;
  s->states[i].cost = cost;
  s->states[i].previous = from;
  s->states[i].move = move;
  heap_push(s, i);
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
  if (d->n == 0) d->unit = s->to.dims[dim].n ? s->to.dims[dim].unit : NULL;
  d->axes[d->n++] = (uint8_t)axis;
}

static void try_free_axis(Search *s, int at, const Layout *l, int axis) {
  for (int d = 0; d < l->rank; d++) {
    Layout next = *l;
    join(s, &next, d, axis);
    reach(s, at, (Move){.kind = MOVE_SLICE, .axis = axis, .dim = d, .axes = 1u << axis}, &next);
  }
  if (s->m->mesh.axes[axis].temporal || !((s->to.partial_axes >> axis) & 1u)) return;
  if (l->partial_axes && l->partial != s->to.partial) return;
  Layout next = *l;
  next.partial_axes |= 1u << axis;
  next.partial = s->to.partial;
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
  const DimLayout *d = &l->dims[dim];
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
  for (int i = 0; i < s->ngoals && !temporal; i++) {
    const DimLayout *goal = &s->goals[i]->dims[dim];
    if (axes_of(d) != axes_of(goal) || memcmp(d, goal, sizeof *d) == 0) continue;
    Layout anew = *l;
    anew.dims[dim] = *goal;
    reach(s, at, (Move){.kind = MOVE_EXCHANGE, .dim = dim, .axes = axes_of(d)}, &anew);
  }
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
  if (l->partial_axes && l->partial == RED_ONE && s->to.partial == RED_SUM) {
    Layout next = *l;
    next.partial = RED_SUM;
    reach(s, at, (Move){.kind = MOVE_RELABEL}, &next);
  }
  for (int d = 0; d < l->rank; d++)
    if (l->dims[d].n) try_dim(s, at, l, d);
}

/* Runs until all goals are reached or nothing is left to expand. */
static void run(Search *s, const Layout *from) {
  int open = s->ngoals;
  s->slots = ARENA_ARRAY(s->scratch, int, 1u << SLOT_BITS);
  add_state(s, from, 0);
  heap_push(s, 0);
  while (s->heap.n && open) {
    int at = heap_pop(s);
    if (s->states[at].done) continue;
    s->states[at].done = true;
    for (int i = 0; i < s->ngoals; i++) open -= s->goals[i] == s->states[at].layout;
    if (open) expand(s, at);
  }
}

static Search search_for(Module *m, const Type *global, const Layout *from, const Layout *to, MoveCost cost, void *context, Arena *scratch) {
  if (from->rank != to->rank) die("conversion between ranks %d and %d", from->rank, to->rank);
  return (Search){.m = m, .global = global, .to = *to, .price = cost, .context = context, .moving = moving_axes(m, from, to), .scratch = scratch};
}

/* The state of a goal that was reached, or -1. */
static int reached(Search *s, const Layout *goal) {
  int i = *slot_of(s, goal) - 1;
  return i >= 0 && s->states[i].done ? i : -1;
}

bool convert_find(Module *m, const Type *global, const Layout *from, const Layout *to, MoveCost cost, void *context, Conversion *out) {
  *out = (Conversion){0};
  if (from == to) return true;
  Arena *scratch = arena_new();
  Search s = search_for(m, global, from, to, cost, context, scratch);
  s.goals = &to;
  s.ngoals = 1;
  run(&s, from);
  int found = reached(&s, to), steps = 0;
  for (int i = found; i > 0; i = s.states[i].previous) steps++;
  if (steps > MAX_MOVES) die("a conversion of %d moves", steps);
  out->n = found < 0 ? 0 : steps;
  out->cost = found < 0 ? 0 : s.states[found].cost;
  for (int i = found; i > 0; i = s.states[i].previous) out->moves[--steps] = s.states[i].move;
  arena_free(scratch);
  return found >= 0;
}

/* Takes the goal into the run when it moves the same axes and nothing it says contradicts the others. */
static bool join_goal(Search *s, const Layout *from, const Layout *to) {
  if (moving_axes(s->m, from, to) != s->moving || to->partial != s->to.partial || to->partial_axes != s->to.partial_axes) return false;
  for (int d = 0; d < to->rank; d++)
    if (to->dims[d].n && s->to.dims[d].n && to->dims[d].unit != s->to.dims[d].unit) return false;
  for (int d = 0; d < to->rank; d++)
    if (to->dims[d].n) s->to.dims[d] = to->dims[d];
  return true;
}

void convert_costs(Module *m, const Type *global, const Layout *from, int n, const Layout *const *to, MoveCost cost, void *context, double *out) {
  Arena *scratch = arena_new();
  bool *known = ARENA_ARRAY(scratch, bool, n);
  const Layout **goals = ARENA_ARRAY(scratch, const Layout *, n);
  for (int i = 0; i < n; i++) {
    if (known[i]) continue;
    Arena *a = arena_new();
    Search s = search_for(m, global, from, to[i], cost, context, a);
    s.goals = goals;
    for (int j = i; j < n; j++)
      if (!known[j] && (j == i || join_goal(&s, from, to[j]))) {
        bool twice = false;
        for (int k = 0; k < s.ngoals; k++) twice |= goals[k] == to[j];
        if (!twice) goals[s.ngoals++] = to[j];
        known[j] = true;
      }
    run(&s, from);
    for (int j = i; j < n; j++) {
      bool mine = false;
      for (int k = 0; k < s.ngoals; k++) mine |= goals[k] == to[j];
      int at = mine ? reached(&s, to[j]) : -1;
      if (mine) out[j] = at < 0 ? INFINITY : s.states[at].cost;
    }
    arena_free(a);
  }
  arena_free(scratch);
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
