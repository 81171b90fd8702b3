/* ir/layout/convert_path.c - the cheapest sequence of moves between two layouts; see convert.h.
 *
 * Shortest paths over interned layouts: by Dijkstra where moves are asked for, in the order in which layouts are met
 * where only costs are.  The moves that leave a layout are found and priced once, for every unit, kind of
 * partial sum and cut that some goal has; a run follows those that its goals allow.  Only axes that must move, and
 * those minor to them on a dimension, take part, so a run sees a few dozen layouts.  Goals that move the same axes and
 * agree on units and the kind of partial sum share one run.
 */
#include <math.h>
#include <string.h>

#include "base/die.h"
#include "ir/layout/convert.h"

enum { MAX_STATES = 65536, MAX_TARGETS = 256, WORDS = MAX_TARGETS / 64 };

/* What a run looks at of a move for every edge it meets. */
typedef struct Hop {
  double cost;
  int to;           /* state */
  uint32_t moving;  /* axes that have to move */
  bool conditional; /* the edge says more about which runs may take it */
} Hop;

/* A move out of a layout, and which runs may take it. */
typedef struct Edge {
  Move move;
  bool exactly; /* these are all axes of the partial sums that move */
  int unit_dim; /* dimension that is cut for the first time, by `unit`; -1: none */
  const Expr *unit;
  int target;        /* exchange: which of the dimension's cuts; else -1 */
  Reduction partial; /* mask and relabel: the kind the goal must have */
} Edge;

/* Where each axis is in a layout. */
typedef struct Where {
  uint16_t place[MAX_AXES]; /* dimension and place on it, or the kind of partial sum; 0: nowhere */
  uint8_t minor[MAX_AXES];  /* bit set of the axes after it on its dimension */
  const Expr *unit[MAX_AXES];
} Where;

typedef struct Place {
  const Layout *layout;
  Where where;
  struct {
    Edge *items;
    size_t n, cap;
  } edges;
  struct {
    Hop *items;
    size_t n, cap;
  } hops; /* by edge */
  bool expanded;
  int goal;                  /* its number among the goals so far, from 1; 0: it has not been one */
  uint8_t targets[MAX_RANK]; /* of a goal: its place among the targets of each dimension */
  double *costs;             /* to goals: what is known; NAN: nothing */
  size_t ncosts;
} Place;

/* How the last run that met a state came to it. */
typedef struct Arrival {
  double cost;
  int run, goal_of; /* the last run that reached it, and the last that it was a goal of */
  int previous;     /* state; -1: it is where the run began */
  int edge;         /* of the previous one */
  bool done;
} Arrival;

typedef struct Open {
  double cost;
  int state;
} Open;

struct ConvertTable {
  Module *m;
  const Type *global;
  MoveCost price;
  void *context;
  Arena *arena;
  uint32_t axes; /* that may move at all */
  bool sets;     /* the axes of a dimension have no order */
  Place *states;
  Arrival *arrivals; /* by state */
  int n;
  size_t cap, arrivals_cap;
  int *slots; /* states by layout: open addressing, index + 1 */
  size_t nslots;
  int run, ngoals;
  struct {
    Open *items;
    size_t n, cap;
  } heap; /* what may be expanded next; a state is pushed again when its cost falls */
  /* Of all goals so far: */
  struct {
    const Expr *items[MAX_TARGETS];
    int n;
  } units[MAX_RANK]; /* that a first cut may have */
  struct {
    DimLayout items[MAX_TARGETS];
    int n;
  } targets[MAX_RANK]; /* cuts that an exchange may lead to */
  uint32_t kinds;      /* of partial sums: bit set of Reduction */
};

/* What the goals of one run agree on. */
typedef struct Run {
  const int *goals; /* states */
  int ngoals;
  uint32_t moving;
  const Expr *units[MAX_RANK]; /* NULL: not cut by any goal */
  Reduction partial;
  uint32_t partial_axes;
  uint64_t targets[MAX_RANK][WORDS]; /* bit set */
} Run;

/* ---- which axes move */

/* With axes that have no order (`sets`) all places on a dimension are one. */
static Where where_of(const Layout *l, bool sets) {
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

/* Those that are elsewhere, with those minor to them. */
static uint32_t moving_axes(const Module *m, const Where *from, const Where *to) {
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

static int state_of(ConvertTable *t, const Layout *l) {
  size_t i = slot_of(t, l);
  if (t->slots[i]) return t->slots[i] - 1;
  if (t->n == MAX_STATES) return -1;
  if (2 * (size_t)t->n >= t->nslots) {
    grow_slots(t);
    i = slot_of(t, l);
  }
  if ((size_t)t->n == t->cap) t->states = arena_grow(t->arena, t->states, sizeof *t->states, (size_t)t->n, &t->cap);
  if ((size_t)t->n == t->arrivals_cap)
    t->arrivals = arena_grow(t->arena, t->arrivals, sizeof *t->arrivals, (size_t)t->n, &t->arrivals_cap);
  t->states[t->n] = (Place){.layout = l, .where = where_of(l, t->sets)};
  t->arrivals[t->n] = (Arrival){0};
  t->slots[i] = t->n + 1;
  return t->n++;
}

/* ---- the moves out of a layout */

static void add_edge(ConvertTable *t, int from, uint32_t moving, Edge e, const Layout *after) {
  e.move.before = t->states[from].layout;
  e.move.after = layout_get(t->m, after);
  Hop h = {.to = state_of(t, e.move.after), .moving = moving};
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

/* The axis joins the dimension as its minor-most one; a dimension cut for the first time may get any unit that some
 * goal has there. */
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
  if (t->m->mesh.axes[axis].temporal) return; /* micro-batches are accumulated */
  Layout next = *l;
  next.partial_axes &= ~(1u << axis);
  add_edge(t, from, 1u << axis, edge(MOVE_ALL_REDUCE, axis), &next);
  for (int d = 0; d < l->rank; d++) {
    Edge e = edge(MOVE_REDUCE_SCATTER, axis);
    e.move.dim = d;
    add_join(t, from, e, &next, d, axis);
  }
}

/* The axis at that place leaves the dimension. */
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

/* Several sums at once are one collective over the larger group. */
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

static void expand(ConvertTable *t, int from) {
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

/* Moves out of some states may be others now: with a fresh target, where it has the axes of that dimension in another
 * way; else anywhere. */
static void find_again(ConvertTable *t, int dim, const DimLayout *target) {
  for (int i = 0; i < t->n; i++) {
    const DimLayout *d = target ? &t->states[i].layout->dims[dim] : NULL;
    if (!d || (d->n == target->n && axes_of(d) == axes_of(target) && memcmp(d, target, sizeof *d) != 0))
      t->states[i].expanded = false;
  }
}

/* Makes room for what a goal has; moves that were found before are found again when there is something new.  Returns
 * its state, or -1. */
static int know_goal(ConvertTable *t, const Layout *to) {
  int at = state_of(t, to);
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

/* Takes the goal into the run when it moves the same axes and nothing it says contradicts the others. */
static bool join_goal(const ConvertTable *t, Run *r, const Layout *to, int at) {
  if (to->partial_axes && r->partial_axes && to->partial != r->partial) return false;
  for (int d = 0; d < to->rank; d++)
    if (to->dims[d].n && r->units[d] && to->dims[d].unit != r->units[d]) return false;
  if (to->partial_axes) r->partial = to->partial;
  r->partial_axes |= to->partial_axes;
  for (int d = 0; d < to->rank && at >= 0; d++) {
    if (!to->dims[d].n) continue;
    int place = t->states[at].targets[d];
    r->units[d] = to->dims[d].unit;
    r->targets[d][place / 64] |= 1ull << (place % 64);
  }
  return true;
}

/* ---- one run */

static bool sooner(const Open *a, const Open *b) {
  return a->cost < b->cost || (a->cost == b->cost && a->state < b->state);
}

static void swap_open(Open *a, Open *b) {
  Open t = *a;
  *a = *b;
  *b = t;
}

static void heap_push(ConvertTable *t, int state) {
  ARENA_PUSH(t->arena, &t->heap, ((Open){t->arrivals[state].cost, state}));
  Open *h = t->heap.items;
  for (size_t i = t->heap.n - 1; i > 0 && sooner(&h[i], &h[(i - 1) / 2]); i = (i - 1) / 2)
    swap_open(&h[i], &h[(i - 1) / 2]);
}

static int heap_pop(ConvertTable *t) {
  Open *h = t->heap.items;
  int top = h[0].state;
  h[0] = h[--t->heap.n];
  for (size_t i = 0;;) {
    size_t least = i;
    for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < t->heap.n; child++)
      if (sooner(&h[child], &h[least])) least = child;
    if (least == i) return top;
    swap_open(&h[i], &h[least]);
    i = least;
  }
}

static bool allowed(const ConvertTable *t, const Run *r, const Layout *l, const Edge *e, uint32_t moving) {
  if (e->exactly && moving != (l->partial_axes & r->moving)) return false;
  if (e->unit_dim >= 0 && e->unit != (r->units[e->unit_dim] ? r->units[e->unit_dim] : t->units[e->unit_dim].items[0]))
    return false;
  if (e->target >= 0 && !(r->targets[e->move.dim][e->target / 64] >> (e->target % 64) & 1u)) return false;
  if (e->move.kind == MOVE_MASK) return (r->partial_axes & moving) && e->partial == r->partial;
  if (e->move.kind != MOVE_RELABEL) return true;
  /* What one rank owns is moved as bits (-0 and NaN stay what they are): it becomes a sum only where a sum is wanted,
   * last of all. */
  return r->partial_axes && r->partial == RED_SUM && !(l->partial_axes & ~r->partial_axes);
}

static void arrive(ConvertTable *t, int state, double cost, int previous, int edge) {
  Arrival *a = &t->arrivals[state];
  *a = (Arrival){.cost = cost, .run = t->run, .goal_of = a->goal_of, .previous = previous, .edge = edge};
  heap_push(t, state);
}

/* Most edges lead where a cheaper way is known already; that is looked at first. */
static void follow_edges(ConvertTable *t, const Run *r, int at) {
  const Place *s = &t->states[at];
  double cost = t->arrivals[at].cost;
  for (size_t i = 0; i < s->hops.n; i++) {
    const Hop *h = &s->hops.items[i];
    const Arrival *a = &t->arrivals[h->to];
    if ((h->moving & ~r->moving) || (a->run == t->run && cost + h->cost >= a->cost)) continue;
    if (h->conditional && !allowed(t, r, s->layout, &s->edges.items[i], h->moving)) continue;
    arrive(t, h->to, cost + h->cost, at, (int)i);
  }
}

/* Runs until all goals are reached or nothing is left to expand. */
static void run_path(ConvertTable *t, int from, const Run *r) {
  int open = r->ngoals;
  t->run++;
  t->heap.n = 0;
  if (from < 0) return;
  for (int i = 0; i < r->ngoals; i++)
    if (r->goals[i] >= 0) t->arrivals[r->goals[i]].goal_of = t->run;
  arrive(t, from, 0, -1, -1);
  while (t->heap.n && open) {
    int at = heap_pop(t);
    if (t->arrivals[at].done) continue;
    t->arrivals[at].done = true;
    open -= t->arrivals[at].goal_of == t->run;
    if (!open) break;
    if (!t->states[at].expanded) expand(t, at);
    follow_edges(t, r, at);
  }
}

/* The dearest of the open goals, as far as they have been reached.  A layout that costs as much leads to none of them.
 */
static double dearest_goal(const ConvertTable *t, const Run *r) {
  double most = 0;
  for (int i = 0; i < r->ngoals; i++) {
    const Arrival *a = r->goals[i] >= 0 ? &t->arrivals[r->goals[i]] : NULL;
    if (!a || a->run != t->run) return INFINITY;
    most = a->cost > most ? a->cost : most;
  }
  return most;
}

/* The costs alone, of all goals: states are expanded in the order in which they are met, again when they have become
 * cheaper.  A few moves lead anywhere, so few are. */
static void run_costs(ConvertTable *t, int from, const Run *r) {
  t->run++;
  t->heap.n = 0;
  if (from < 0) return;
  for (int i = 0; i < r->ngoals; i++)
    if (r->goals[i] >= 0) t->arrivals[r->goals[i]].goal_of = t->run;
  t->arrivals[from] = (Arrival){.run = t->run, .goal_of = t->arrivals[from].goal_of};
  ARENA_PUSH(t->arena, &t->heap, ((Open){0, from}));
  double most = INFINITY;
  for (size_t next = 0; next < t->heap.n; next++) {
    int at = t->heap.items[next].state;
    double cost = t->arrivals[at].cost;
    t->arrivals[at].done = true;
    if (cost >= most) continue;
    if (!t->states[at].expanded) expand(t, at);
    const Place *s = &t->states[at];
    bool cheaper = false;
    for (size_t i = 0; i < s->hops.n; i++) {
      const Hop *h = &s->hops.items[i];
      Arrival *a = &t->arrivals[h->to];
      double sum = cost + h->cost;
      if ((h->moving & ~r->moving) || sum >= most || (a->run == t->run && sum >= a->cost)) continue;
      if (h->conditional && !allowed(t, r, s->layout, &s->edges.items[i], h->moving)) continue;
      bool waits = a->run == t->run && !a->done;
      *a = (Arrival){.cost = sum, .run = t->run, .goal_of = a->goal_of};
      cheaper |= a->goal_of == t->run;
      if (!waits) ARENA_PUSH(t->arena, &t->heap, ((Open){0, h->to}));
    }
    if (cheaper) most = dearest_goal(t, r);
  }
}

static bool reached(const ConvertTable *t, int goal) {
  return goal >= 0 && t->arrivals[goal].run == t->run && t->arrivals[goal].done;
}

/* ---- interface */

static ConvertTable *table_new(Module *m, const Type *global, MoveCost cost, void *context, uint32_t axes) {
  Arena *a = arena_new();
  ConvertTable *t = ARENA_NEW(a, ConvertTable);
  *t = (ConvertTable){.m = m, .global = global, .price = cost, .context = context, .arena = a, .axes = axes};
  for (int d = 0; d < global->rank; d++) t->units[d].items[t->units[d].n++] = ex_const(m, 1);
  grow_slots(t);
  return t;
}

ConvertTable *convert_table_new(Module *m, const Type *global, MoveCost cost, void *context) {
  return table_new(m, global, cost, context, ~0u);
}

ConvertTable *convert_table_of_sets(Module *m, const Type *global, MoveCost cost, void *context) {
  ConvertTable *t = table_new(m, global, cost, context, ~0u);
  t->sets = true; /* before there are states */
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

/* Room for what conversions to all goals so far cost. */
static double *costs_from(ConvertTable *t, int from) {
  Place *s = &t->states[from];
  size_t n = (size_t)t->ngoals + 1;
  if (s->ncosts >= n) return s->costs;
  double *costs = ARENA_ARRAY(t->arena, double, n + n / 2);
  if (s->ncosts) memcpy(costs, s->costs, sizeof *costs * s->ncosts);
  for (size_t i = s->ncosts; i < n + n / 2; i++) costs[i] = NAN;
  s->costs = costs;
  s->ncosts = n + n / 2;
  return costs;
}

/* The conversions to n goals, given as states, that are not known yet. */
static void find_costs(ConvertTable *t, int from, int n, const int *at, Arena *scratch) {
  const Where *start = &t->states[from].where;
  uint32_t *moving = ARENA_ARRAY(scratch, uint32_t, n);
  int *owner = ARENA_ARRAY(scratch, int, n), *goals = ARENA_ARRAY(scratch, int, n);
  bool *known = ARENA_ARRAY(scratch, bool, n);
  for (int i = 0; i < n; i++) moving[i] = moving_axes(t->m, start, &t->states[at[i]].where);
  for (int i = 0; i < n; i++) {
    if (known[i]) continue;
    Run r = {.goals = goals, .moving = moving[i]};
    for (int j = i; j < n; j++) {
      if (known[j] || moving[j] != r.moving || !join_goal(t, &r, t->states[at[j]].layout, at[j])) continue;
      known[j] = true;
      owner[r.ngoals] = j;
      goals[r.ngoals++] = at[j];
    }
    run_costs(t, from, &r);
    for (int k = 0; k < r.ngoals; k++) {
      const Arrival *a = &t->arrivals[goals[k]];
      t->states[from].costs[t->states[goals[k]].goal] = a->run == t->run ? a->cost : INFINITY;
    }
  }
}

void convert_table_costs(ConvertTable *t, const Layout *from, int n, const Layout *const *to, double *out) {
  Arena *scratch = arena_new();
  int *at = ARENA_ARRAY(scratch, int, n), *missing = ARENA_ARRAY(scratch, int, n), count = 0, start = state_of(t, from);
  for (int i = 0; i < n; i++) at[i] = know_goal(t, to[i]);
  double *costs = start >= 0 ? costs_from(t, start) : NULL;
  for (int i = 0; i < n && costs; i++)
    if (at[i] >= 0 && isnan(costs[t->states[at[i]].goal])) {
      missing[count++] = at[i];
      costs[t->states[at[i]].goal] = INFINITY; /* asked for once */
    }
  if (count) find_costs(t, start, count, missing, scratch);
  for (int i = 0; i < n; i++) out[i] = costs && at[i] >= 0 ? costs[t->states[at[i]].goal] : INFINITY;
  arena_free(scratch);
}

bool convert_find(Module *m, const Type *global, const Layout *from, const Layout *to, MoveCost cost, void *context,
                  Conversion *out) {
  *out = (Conversion){0};
  if (from == to) return true;
  if (from->rank != to->rank) die("conversion between ranks %d and %d", from->rank, to->rank);
  const Where first = where_of(from, false), last = where_of(to, false);
  Run r = {.ngoals = 1, .moving = moving_axes(m, &first, &last)};
  ConvertTable *t = table_new(m, global, cost, context, r.moving);
  int start = state_of(t, from), goal = know_goal(t, to), steps = 0;
  r.goals = &goal;
  join_goal(t, &r, to, goal);
  run_path(t, start, &r);
  bool found = reached(t, goal);
  const Arrival *a = t->arrivals;
  for (int i = goal; found && a[i].previous >= 0; i = a[i].previous) steps++;
  if (steps > MAX_MOVES) die("a conversion of %d moves", steps);
  out->n = steps;
  out->cost = found ? a[goal].cost : 0;
  for (int i = goal; found && a[i].previous >= 0; i = a[i].previous)
    out->moves[--steps] = t->states[a[i].previous].edges.items[a[i].edge].move;
  convert_table_free(t);
  return found;
}
