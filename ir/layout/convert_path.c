/* ir/layout/convert_path.c - the cheapest sequence of moves between two layouts; see convert.h.
 *
 * Dijkstra's shortest path over interned layouts; ties go to the state reached first.  Only axes that must move, and
 * those minor to them on a dimension, take part, so it visits a few dozen layouts.
 */
#include "base/die.h"
#include "ir/layout/convert_states.h"

/* How a state was reached. */
typedef struct Arrival {
  double cost;
  bool met, done;
  int previous; /* previous state; -1 at the start of the path */
  int edge;     /* edge of the previous state */
} Arrival;

typedef struct Open {
  double cost;
  int state;
} Open;

typedef struct Path {
  ConvertTable *t;
  Arena *arena;
  Arrival *arrivals; /* by state */
  size_t cap;
  struct {
    Open *items;
    size_t n, cap;
  } heap; /* states to expand; a state is pushed again when its cost falls */
} Path;

static bool sooner(const Open *a, const Open *b) {
  return a->cost < b->cost || (a->cost == b->cost && a->state < b->state);
}

static void swap_open(Open *a, Open *b) {
  Open t = *a;
  *a = *b;
  *b = t;
}

static void heap_push(Path *p, int state) {
  ARENA_PUSH(p->arena, &p->heap, ((Open){p->arrivals[state].cost, state}));
  Open *h = p->heap.items;
  for (size_t i = p->heap.n - 1; i > 0 && sooner(&h[i], &h[(i - 1) / 2]); i = (i - 1) / 2)
    swap_open(&h[i], &h[(i - 1) / 2]);
}

static int heap_pop(Path *p) {
  Open *h = p->heap.items;
  int top = h[0].state;
  h[0] = h[--p->heap.n];
  for (size_t i = 0;;) {
    size_t least = i;
    for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < p->heap.n; child++)
      if (sooner(&h[child], &h[least])) least = child;
    if (least == i) return top;
    swap_open(&h[i], &h[least]);
    i = least;
  }
}

/* Makes room for all states. */
static void make_room(Path *p) {
  while (p->cap < (size_t)p->t->n) {
    size_t was = p->cap;
    p->arrivals = arena_grow(p->arena, p->arrivals, sizeof *p->arrivals, was, &p->cap);
    for (size_t i = was; i < p->cap; i++) p->arrivals[i] = (Arrival){0};
  }
}

static void arrive(Path *p, int state, double cost, int previous, int edge) {
  p->arrivals[state] = (Arrival){.cost = cost, .met = true, .previous = previous, .edge = edge};
  heap_push(p, state);
}

/* Follows the edges of a state.  Most lead to states with a cheaper path already, so that is checked first. */
static void follow_edges(Path *p, const ConvertRun *r, int at) {
  const Place *s = &p->t->states[at];
  double cost = p->arrivals[at].cost;
  for (size_t i = 0; i < s->hops.n; i++) {
    const Hop *h = &s->hops.items[i];
    const Arrival *a = &p->arrivals[h->to];
    if ((h->moving & ~r->moving) || (a->met && cost + h->cost >= a->cost)) continue;
    if (h->conditional && !convert_allowed(p->t, r, s->layout, &s->edges.items[i], h->moving)) continue;
    arrive(p, h->to, cost + h->cost, at, (int)i);
  }
}

/* Runs the search; false if no path leads to the goal. */
static bool run_path(Path *p, int from, int goal, const ConvertRun *r) {
  if (from < 0 || goal < 0) return false;
  make_room(p);
  arrive(p, from, 0, -1, -1);
  while (p->heap.n) {
    int at = heap_pop(p);
    if (p->arrivals[at].done) continue;
    p->arrivals[at].done = true;
    if (at == goal) return true;
    if (!p->t->states[at].expanded) convert_expand(p->t, at);
    make_room(p);
    follow_edges(p, r, at);
  }
  return false;
}

bool convert_find(Module *m, const Type *global, const Layout *from, const Layout *to, MoveCost cost, void *context,
                  Conversion *out) {
  *out = (Conversion){0};
  if (from == to) return true;
  if (from->rank != to->rank) die("conversion between ranks %d and %d", from->rank, to->rank);
  const Where first = convert_where(from, false), last = convert_where(to, false);
  ConvertRun r = {.moving = convert_moving(m, &first, &last)};
  ConvertTable *t = convert_table_with(m, global, cost, context, r.moving);
  Path p = {.t = t, .arena = t->arena};
  int start = convert_state(t, from), goal = convert_goal(t, to), steps = 0;
  convert_join(t, &r, goal);
  bool found = run_path(&p, start, goal, &r);
  const Arrival *a = p.arrivals;
  for (int i = goal; found && a[i].previous >= 0; i = a[i].previous) steps++;
  if (steps > MAX_MOVES) die("a conversion of %d moves", steps);
  out->n = steps;
  out->cost = found ? a[goal].cost : 0;
  for (int i = goal; found && a[i].previous >= 0; i = a[i].previous)
    out->moves[--steps] = t->states[a[i].previous].edges.items[a[i].edge].move;
  convert_table_free(t);
  return found;
}
