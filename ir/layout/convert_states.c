/* ir/layout/convert_states.c - see convert_states.h. */
#include "ir/layout/convert_states.h"

#include <string.h>

#include "base/die.h"

enum { MAX_STATES = 65536 };

/* ---- axes that move */

Where convert_where(const Layout *l, bool sets) {
  enum { ON_DIM = 0x100, PARTIAL = 0x200 };
  Where w = {0};
  for (int a = 0; a < MAX_AXES; a++)
    if (l->partial_axes >> a & 1u) w.place[a] = (uint16_t)(PARTIAL + (int)l->partial);
  for (int d = 0; d < l->rank; d++)
    for (int i = 0; i < l->dims[d].n; i++) {
      int a = l->dims[d].axes[i];
      w.place[a] = (uint16_t)(ON_DIM + MAX_AXES * d + (sets ? 0 : i));
      w.unit[a] = l->dims[d].unit;
      for (int j = i + 1; j < l->dims[d].n && !sets; j++) w.minor[a] |= (uint8_t)(1u << l->dims[d].axes[j]);
    }
  return w;
}

uint32_t convert_moving(const Module *m, const Where *from, const Where *to) {
  uint32_t moving = 0, all = 0;
  for (int a = 0; a < m->mesh.naxes; a++)
    if (from->place[a] != to->place[a] || from->unit[a] != to->unit[a]) moving |= 1u << a | from->minor[a];
  for (uint32_t rest = all = moving; rest; rest &= rest - 1) all |= to->minor[__builtin_ctz(rest)];
  return all;
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

/* ---- states */

static size_t slot_of(const ConvertTable *t, const Layout *l) {
  size_t i = (size_t)(((uint64_t)(uintptr_t)l * 0x9E3779B97F4A7C15u) >> 20) & (t->nslots - 1);
  while (t->slots[i] && t->states[t->slots[i] - 1].layout != l) i = (i + 1) & (t->nslots - 1);
  return i;
}

static void grow_slots(ConvertTable *t) {
  t->nslots = t->nslots ? 2 * t->nslots : 256;
  t->slots = ARENA_ARRAY(t->arena, int, t->nslots);
  for (int i = 0; i < t->n; i++) t->slots[slot_of(t, t->states[i].layout)] = i + 1;
}

int convert_state(ConvertTable *t, const Layout *l) {
  size_t i = slot_of(t, l);
  if (t->slots[i]) return t->slots[i] - 1;
  if (t->n == MAX_STATES) return -1;
  if (2 * (size_t)t->n >= t->nslots) {
    grow_slots(t);
    i = slot_of(t, l);
  }
  if ((size_t)t->n == t->cap) t->states = arena_grow(t->arena, t->states, sizeof *t->states, (size_t)t->n, &t->cap);
  t->states[t->n] = (Place){.layout = l, .where = convert_where(l, t->sets)};
  t->slots[i] = t->n + 1;
  return t->n++;
}

/* ---- the moves out of a layout */

static void add_edge(ConvertTable *t, int from, uint32_t moving, Edge e, const Layout *after) {
  e.move.before = t->states[from].layout;
  e.move.after = layout_get(t->m, after);
  Hop h = {.to = convert_state(t, e.move.after), .moving = moving};
  if (h.to < 0) return;
  h.cost = t->price(t->context, t->m, t->global, &e.move);
  h.conditional =
      e.exactly || e.unit_dim >= 0 || e.target >= 0 || e.move.kind == MOVE_MASK || e.move.kind == MOVE_RELABEL;
  ARENA_PUSH(t->arena, &t->states[from].edges, e);
  ARENA_PUSH(t->arena, &t->states[from].hops, h);
}

static void insert_axis(DimLayout *d, int axis, bool sets) {
  int at = d->n++;
  for (; sets && at > 0 && d->axes[at - 1] > axis; at--) d->axes[at] = d->axes[at - 1];
  d->axes[at] = (uint8_t)axis;
}

/* Adds moves in which the axis joins the dimension as its minor-most one; a dimension cut for the first time may get
 * any unit that some goal has there. */
static void add_join(ConvertTable *t, int from, Edge e, const Layout *l, int dim, int axis) {
  Layout next = *l;
  DimLayout *d = &next.dims[dim];
  insert_axis(d, axis, t->sets);
  e.unit_dim = -1;
  if (d->n > 1) {
    add_edge(t, from, 1u << axis, e, &next);
    return;
  }
  e.unit_dim = dim;
  for (int i = 0; i < t->units[dim].n; i++) {
    e.unit = d->unit = t->units[dim].items[i];
    add_edge(t, from, 1u << axis, e, &next);
  }
}

static Edge edge(MoveKind kind, int axis) {
  return (Edge){.move = {.kind = kind, .axis = axis, .axes = 1u << axis}, .unit_dim = -1, .target = -1};
}

static void free_axis(ConvertTable *t, int from, const Layout *l, int axis) {
  for (int d = 0; d < l->rank; d++) {
    Edge e = edge(MOVE_SLICE, axis);
    e.move.dim = d;
    add_join(t, from, e, l, d, axis);
  }
  if (t->m->mesh.axes[axis].temporal) return;
  for (int r = RED_NONE + 1; r < RED_COUNT; r++) {
    if (!(t->kinds >> r & 1u) || (l->partial_axes && l->partial != (Reduction)r)) continue;
    Edge e = edge(MOVE_MASK, axis);
    Layout next = *l;
    next.partial_axes |= 1u << axis;
    e.partial = next.partial = (Reduction)r;
    add_edge(t, from, 1u << axis, e, &next);
  }
}

static void partial_axis(ConvertTable *t, int from, const Layout *l, int axis) {
  if (t->m->mesh.axes[axis].temporal) return; /* micro-batches are accumulated instead */
  Layout next = *l;
  next.partial_axes &= ~(1u << axis);
  add_edge(t, from, 1u << axis, edge(MOVE_ALL_REDUCE, axis), &next);
  for (int d = 0; d < l->rank; d++) {
    Edge e = edge(MOVE_REDUCE_SCATTER, axis);
    e.move.dim = d;
    add_join(t, from, e, &next, d, axis);
  }
}

/* Adds moves in which the axis at that place leaves the dimension. */
static void leave_dim(ConvertTable *t, int from, const Layout *l, int dim, int place) {
  int axis = l->dims[dim].axes[place];
  if (t->m->mesh.axes[axis].temporal || !(t->axes >> axis & 1u)) return;
  Layout next = *l;
  DimLayout *left = &next.dims[dim];
  left->n--;
  for (int i = place; i < left->n; i++) left->axes[i] = left->axes[i + 1];
  Edge gather = edge(MOVE_ALL_GATHER, axis);
  gather.move.dim = dim;
  add_edge(t, from, 1u << axis, gather, &next);
  for (int other = 0; other < l->rank; other++) {
    if (other == dim) continue;
    Edge e = edge(MOVE_ALL_TO_ALL, axis);
    e.move.dim = dim;
    e.move.dim2 = other;
    add_join(t, from, e, &next, other, axis);
  }
}

static void cut_anew(ConvertTable *t, int from, const Layout *l, int dim) {
  const DimLayout *d = &l->dims[dim];
  int axis = d->axes[d->n - 1];
  bool stays = !(t->axes >> axis & 1u);
  for (int i = 0; i < d->n; i++) stays |= t->m->mesh.axes[d->axes[i]].temporal;
  for (int i = 0; i < t->targets[dim].n && !stays; i++) {
    const DimLayout *goal = &t->targets[dim].items[i];
    if (axes_of(d) != axes_of(goal) || memcmp(d, goal, sizeof *d) == 0) continue;
    Edge e = edge(MOVE_EXCHANGE, axis);
    Layout anew = *l;
    anew.dims[dim] = *goal;
    e.move = (Move){.kind = MOVE_EXCHANGE, .dim = dim, .axes = axes_of(d)};
    e.target = i;
    add_edge(t, from, 1u << axis, e, &anew);
  }
}

/* Adds all-reduces of several axes at once: one collective over the larger group. */
static void partial_axes_together(ConvertTable *t, int from, const Layout *l) {
  uint32_t all = l->partial_axes & t->axes;
  for (int a = 0; a < t->m->mesh.naxes; a++)
    if (t->m->mesh.axes[a].temporal) all &= ~(1u << a);
  if (!(l->partial_axes & (l->partial_axes - 1))) return;
  for (uint32_t some = all; some; some = (some - 1) & all) {
    Edge e = edge(MOVE_ALL_REDUCE, 0);
    Layout next = *l;
    next.partial_axes &= ~some;
    e.move = (Move){.kind = MOVE_ALL_REDUCE, .axes = some};
    e.exactly = true;
    add_edge(t, from, some, e, &next);
  }
}

void convert_expand(ConvertTable *t, int from) {
  const Layout *l = t->states[from].layout;
  uint32_t used = axes_used(l);
  t->states[from].expanded = true;
  t->states[from].edges.n = t->states[from].hops.n = 0;
  for (int a = 0; a < t->m->mesh.naxes; a++) {
    if (!(t->axes >> a & 1u)) continue;
    if (!(used >> a & 1u)) free_axis(t, from, l, a);
    else if (l->partial_axes >> a & 1u) partial_axis(t, from, l, a);
  }
  partial_axes_together(t, from, l);
  if (l->partial_axes && l->partial == RED_ONE) {
    Edge e = edge(MOVE_RELABEL, 0);
    Layout next = *l;
    next.partial = e.partial = RED_SUM;
    e.move = (Move){.kind = MOVE_RELABEL};
    add_edge(t, from, 0, e, &next);
  }
  for (int d = 0; d < l->rank; d++) {
    int n = l->dims[d].n;
    for (int i = t->sets ? 0 : n - 1; i >= 0 && i < n; i++) leave_dim(t, from, l, d, i);
    if (n) cut_anew(t, from, l, d);
  }
}

/* ---- goals */

static bool know_unit(ConvertTable *t, int dim, const Expr *unit) {
  for (int i = 0; i < t->units[dim].n; i++)
    if (t->units[dim].items[i] == unit) return true;
  if (t->units[dim].n == MAX_TARGETS) die("more than %d units on one dimension", MAX_TARGETS);
  t->units[dim].items[t->units[dim].n++] = unit;
  return false;
}

static bool know_target(ConvertTable *t, int dim, const DimLayout *d, uint8_t *place) {
  int i = 0;
  while (i < t->targets[dim].n && memcmp(&t->targets[dim].items[i], d, sizeof *d) != 0) i++;
  *place = (uint8_t)i;
  if (i < t->targets[dim].n) return true;
  if (i == MAX_TARGETS) die("more than %d cuts of one dimension", MAX_TARGETS);
  t->targets[dim].items[t->targets[dim].n++] = *d;
  return false;
}

/* Marks states to be expanded again, because their moves may change.  With a new target, only states with the same axes
 * on that dimension, cut differently; else all. */
static void find_again(ConvertTable *t, int dim, const DimLayout *target) {
  for (int i = 0; i < t->n; i++) {
    const DimLayout *d = target ? &t->states[i].layout->dims[dim] : NULL;
    if (!d || (d->n == target->n && axes_of(d) == axes_of(target) && memcmp(d, target, sizeof *d) != 0))
      t->states[i].expanded = false;
  }
}

int convert_goal(ConvertTable *t, const Layout *to) {
  int at = convert_state(t, to);
  if (at < 0 || t->states[at].goal) return at;
  Place *s = &t->states[at];
  bool fresh = to->partial_axes && !(t->kinds >> to->partial & 1u);
  s->goal = ++t->ngoals;
  if (to->partial_axes) t->kinds |= 1u << to->partial;
  for (int d = 0; d < to->rank; d++) {
    if (!to->dims[d].n) continue;
    fresh |= !know_unit(t, d, to->dims[d].unit);
    if (!know_target(t, d, &to->dims[d], &s->targets[d])) find_again(t, d, &to->dims[d]);
  }
  if (fresh) find_again(t, 0, NULL);
  return at;
}

void convert_join(const ConvertTable *t, ConvertRun *r, int goal) {
  const Layout *to = goal >= 0 ? t->states[goal].layout : NULL;
  if (!to) return;
  if (to->partial_axes) r->partial = to->partial;
  r->partial_axes |= to->partial_axes;
  for (int d = 0; d < to->rank; d++) {
    if (!to->dims[d].n) continue;
    int place = t->states[goal].targets[d];
    r->units[d] = to->dims[d].unit;
    r->targets[d][place / 64] |= 1ull << (place % 64);
  }
}

/* ---- conditional edges */

bool convert_allowed(const ConvertTable *t, const ConvertRun *r, const Layout *l, const Edge *e, uint32_t moving) {
  if (e->exactly && moving != (l->partial_axes & r->moving)) return false;
  if (e->unit_dim >= 0 && e->unit != (r->units[e->unit_dim] ? r->units[e->unit_dim] : t->units[e->unit_dim].items[0]))
    return false;
  if (e->target >= 0 && !(r->targets[e->move.dim][e->target / 64] >> (e->target % 64) & 1u)) return false;
  if (e->move.kind == MOVE_MASK) return (r->partial_axes & moving) && e->partial == r->partial;
  if (e->move.kind != MOVE_RELABEL) return true;
  /* A value that one rank owns moves as bits (-0 and NaN are preserved): it becomes a sum only for a goal that is a
   * sum, as the last move. */
  return r->partial_axes && r->partial == RED_SUM && !(l->partial_axes & ~r->partial_axes);
}

/* ---- tables */

ConvertTable *convert_table_with(Module *m, const Type *global, MoveCost cost, void *context, uint32_t axes) {
  Arena *a = arena_new();
  ConvertTable *t = ARENA_NEW(a, ConvertTable);
  *t = (ConvertTable){.m = m, .global = global, .price = cost, .context = context, .arena = a, .axes = axes};
  for (int d = 0; d < global->rank; d++) t->units[d].items[t->units[d].n++] = ex_const(m, 1);
  grow_slots(t);
  return t;
}

ConvertTable *convert_table_new(Module *m, const Type *global, MoveCost cost, void *context) {
  return convert_table_with(m, global, cost, context, ~0u);
}

ConvertTable *convert_table_of_sets(Module *m, const Type *global, MoveCost cost, void *context) {
  ConvertTable *t = convert_table_with(m, global, cost, context, ~0u);
  t->sets = true; /* must be set before there are states */
  return t;
}

const Layout *layout_of_sets(Module *m, const Layout *l) {
  Layout out = *l;
  bool same = true;
  for (int d = 0; d < l->rank; d++) {
    out.dims[d].n = 0;
    for (int i = 0; i < l->dims[d].n; i++) insert_axis(&out.dims[d], l->dims[d].axes[i], true);
    same &= memcmp(&out.dims[d], &l->dims[d], sizeof out.dims[d]) == 0;
  }
  return same ? l : layout_get(m, &out);
}

void convert_table_free(ConvertTable *t) { arena_free(t->arena); }
