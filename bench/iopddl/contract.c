/* bench/iopddl/contract.c - joins nodes into groups; see contract.h. */
#include "bench/iopddl/contract.h"

#include <math.h>
#include <string.h>

static double entry(const Groups *g, const GroupPair *p, int side, int mine, int other) {
  int a = side == 0 ? mine : other, b = side == 0 ? other : mine;
  return p->table[a * g->items[p->of[1]].domain + b];
}

/* Returns, by value of one side, the value of the other that it determines; -1 if no value is allowed; NULL if it
 * determines none. */
static int *follows(const Groups *g, const GroupPair *p, int side) {
  const Group *from = &g->items[p->of[side]], *to = &g->items[p->of[!side]];
  int *map = ARENA_ARRAY(g->arena, int, from->domain + 1);
  for (int v = 0; v < from->domain; v++) {
    map[v] = -1;
    for (int w = 0; w < to->domain; w++) {
      if (!(entry(g, p, side, v, w) < INFINITY)) continue;
      if (map[v] >= 0) return NULL;
      map[v] = w;
    }
  }
  return map;
}

static int *compose(Arena *a, const int *first, int n, const int *second) {
  int *map = ARENA_ARRAY(a, int, n + 1);
  for (int v = 0; v < n; v++) map[v] = first[v] < 0 ? -1 : second[first[v]];
  return map;
}

/* Moves one side of a pair to another group, or to other values of the same; map: the old value of each. */
static void move_side(Groups *g, GroupPair *p, int side, int to, const int *map, int domain) {
  int old = g->items[p->of[side]].domain, other = g->items[p->of[!side]].domain;
  double *table = ARENA_ARRAY(g->arena, double, (size_t)domain *(size_t)other + 1);
  for (int v = 0; v < domain; v++)
    for (int w = 0; w < other; w++) {
      double x = map[v] < 0 ? INFINITY : p->table[side == 0 ? map[v] * other + w : w * old + map[v]];
      table[side == 0 ? v * other + w : w * domain + v] = x;
    }
  p->table = table;
  p->of[side] = to;
}

/* Moves the pairs of the joined group, including those with the group that it joins. */
static void move_pairs(Groups *g, int b, int a, const int *map) {
  Group *into = &g->items[a], *from = &g->items[b];
  for (size_t i = 0; i < from->pairs.n; i++) {
    GroupPair *p = &g->pairs[from->pairs.items[i]];
    int side = p->of[1] == b;
    if (p->gone) continue;
    if (p->of[!side] == a) {
      for (int v = 0; v < into->domain; v++) into->cost[v] += map[v] < 0 ? INFINITY : entry(g, p, side, map[v], v);
      p->gone = true;
      continue;
    }
    move_side(g, p, side, a, map, into->domain);
    ARENA_PUSH(g->arena, &into->pairs, from->pairs.items[i]);
  }
}

/* Makes the group on the other side part of the one on this side. */
static void join(Groups *g, GroupPair *joint, int side, const int *map) {
  int a = joint->of[side], b = joint->of[!side];
  Group *into = &g->items[a], *from = &g->items[b];
  for (int v = 0; v < into->domain; v++) into->cost[v] += map[v] < 0 ? INFINITY : from->cost[map[v]];
  for (size_t i = 0; i < from->parts.n; i++) {
    GroupPart part = from->parts.items[i];
    part.map = compose(g->arena, map, into->domain, part.map);
    ARENA_PUSH(g->arena, &into->parts, part);
  }
  move_pairs(g, b, a, map);
  from->gone = true;
}

static bool is_possible(const Groups *g, int a, int value) {
  const Group *x = &g->items[a];
  bool possible = x->cost[value] < INFINITY;
  for (size_t i = 0; i < x->pairs.n && possible; i++) {
    const GroupPair *p = &g->pairs[x->pairs.items[i]];
    int side = p->of[1] == a, other = g->items[p->of[!side]].domain;
    if (p->gone) continue;
    possible = false;
    for (int w = 0; w < other && !possible; w++) possible = entry(g, p, side, value, w) < INFINITY;
  }
  return possible;
}

/* Drops values that no pair allows. */
static void drop_values(Groups *g, int a) {
  Group *x = &g->items[a];
  int kept = 0, *map = ARENA_ARRAY(g->arena, int, x->domain + 1);
  for (int v = 0; v < x->domain; v++)
    if (is_possible(g, a, v)) map[kept++] = v;
  if (kept == x->domain) return;
  for (size_t i = 0; i < x->pairs.n; i++) {
    GroupPair *p = &g->pairs[x->pairs.items[i]];
    if (!p->gone) move_side(g, p, p->of[1] == a, a, map, kept);
  }
  for (size_t i = 0; i < x->parts.n; i++) x->parts.items[i].map = compose(g->arena, map, kept, x->parts.items[i].map);
  for (int v = 0; v < kept; v++) x->cost[v] = x->cost[map[v]];
  x->domain = kept;
}

/* Merges pairs of the same two groups.  first: by group, the last pair seen with it. */
static void add_up(Groups *g, int a, int *first) {
  Group *x = &g->items[a];
  size_t n = 0;
  for (size_t i = 0; i < x->pairs.n; i++) {
    int id = x->pairs.items[i];
    GroupPair *p = &g->pairs[id];
    if (p->gone) continue;
    int side = p->of[1] == a, b = p->of[!side], other = g->items[b].domain;
    GroupPair *same = first[b] >= 0 ? &g->pairs[first[b]] : NULL;
    if (!same || same == p || same->gone || (same->of[0] != a && same->of[1] != a)) {
      first[b] = id;
      x->pairs.items[n++] = id;
      continue;
    }
    for (int v = 0; v < x->domain; v++)
      for (int w = 0; w < other; w++)
        same->table[same->of[0] == a ? v * other + w : w * x->domain + v] += entry(g, p, side, v, w);
    p->gone = true;
  }
  x->pairs.n = n;
}

/* Joins the groups of a pair if one determines the other; if each determines the other, the one with fewer pairs joins.
 * If only one does, its pairs would get more entries, so it may have one more pair. */
static bool try_join(Groups *g, GroupPair *p) {
  const size_t few = 2;
  int *maps[2] = {follows(g, p, 0), follows(g, p, 1)};
  size_t pairs[2] = {g->items[p->of[0]].pairs.n, g->items[p->of[1]].pairs.n};
  int side = -1;
  if (maps[0] && maps[1]) side = pairs[0] < pairs[1];
  else if (maps[0] && pairs[1] <= few) side = 0;
  else if (maps[1] && pairs[0] <= few) side = 1;
  if (side >= 0) join(g, p, side, maps[side]);
  return side >= 0;
}

static void start(Groups *g, const Instance *in) {
  for (int i = 0; i < in->n; i++) {
    Group *x = &g->items[i];
    int *same = ARENA_ARRAY(g->arena, int, in->domain[i] + 1);
    x->domain = in->domain[i];
    x->cost = ARENA_ARRAY(g->arena, double, x->domain + 1);
    for (int v = 0; v < x->domain; v++) {
      same[v] = v;
      x->cost[v] = in->cost[i][v] >= instance_forbidden() ? INFINITY : (double)in->cost[i][v];
    }
    ARENA_PUSH(g->arena, &x->parts, ((GroupPart){i, same}));
  }
  for (size_t e = 0; e < in->nedges; e++) {
    const InstanceEdge *edge = &in->edges[e];
    size_t n = (size_t)in->domain[edge->of[0]] * (size_t)in->domain[edge->of[1]];
    GroupPair *p = &g->pairs[e];
    *p = (GroupPair){.of = {edge->of[0], edge->of[1]}, .table = ARENA_ARRAY(g->arena, double, n + 1)};
    for (size_t k = 0; k < n; k++)
      p->table[k] = edge->cost[k] >= instance_forbidden() ? INFINITY : (double)edge->cost[k];
    for (int side = 0; side < 2; side++) ARENA_PUSH(g->arena, &g->items[edge->of[side]].pairs, (int)e);
  }
}

const Groups *groups_of(const Instance *in, Arena *a) {
  Groups *g = ARENA_NEW(a, Groups);
  *g = (Groups){.arena = a, .n = in->n, .npairs = (int)in->nedges};
  g->items = ARENA_ARRAY(a, Group, in->n + 1);
  g->pairs = ARENA_ARRAY(a, GroupPair, in->nedges + 1);
  start(g, in);
  int *first = ARENA_ARRAY(a, int, in->n + 1);
  for (int i = 0; i < in->n; i++) first[i] = -1;
  for (bool again = true; again;) {
    again = false;
    for (int i = 0; i < g->n; i++) {
      if (g->items[i].gone) continue;
      add_up(g, i, first);
      drop_values(g, i);
      if (g->items[i].domain == 0) return NULL;
    }
    for (int e = 0; e < g->npairs; e++)
      if (!g->pairs[e].gone) again |= try_join(g, &g->pairs[e]);
  }
  return g;
}
