/* passes/search_order.c - the elimination order: always a variable whose join is smallest now (min-weight).
 *
 * Among equal ones those come first whose tables were made by the fewest eliminations on top of each other, then the first in program order.
 * So repeated blocks are eliminated alike, and a chain of them is composed pairwise in a tree: the joins of L blocks are O(log L) different ones.
 */
#include <math.h>
#include <string.h>

#include "passes/search_private.h"

typedef struct Key {
  int64_t weight;
  int level, var;
} Key;

typedef struct Neighbours {
  int *items;
  size_t n, cap;
} Neighbours;

typedef struct Order {
  Arena *arena;
  Neighbours *adjacent; /* ascending */
  double *size;         /* log of the domain */
  int *level;
  bool *gone;
  Key *current;         /* by variable */
  struct { Key *items; size_t n, cap; } heap; /* entries that are not current any more are skipped */
} Order;

static bool before(const Key *a, const Key *b) {
  if (a->weight != b->weight) return a->weight < b->weight;
  if (a->level != b->level) return a->level < b->level;
  return a->var < b->var;
}

static void swap_keys(Key *a, Key *b) {
  Key t = *a;
  *a = *b;
  *b = t;
}

static void push(Order *o, Key key) {
  ARENA_PUSH(o->arena, &o->heap, key);
  Key *h = o->heap.items;
  for (size_t i = o->heap.n - 1; i > 0 && before(&h[i], &h[(i - 1) / 2]); i = (i - 1) / 2) swap_keys(&h[i], &h[(i - 1) / 2]);
}

static Key pop(Order *o) {
  Key *h = o->heap.items, top = h[0];
  h[0] = h[--o->heap.n];
  for (size_t i = 0;;) {
    size_t least = i;
    for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < o->heap.n; child++)
      if (before(&h[child], &h[least])) least = child;
    if (least == i) return top;
    swap_keys(&h[i], &h[least]);
    i = least;
  }
}

/* The logarithm of the join's size, in millionths, so that equal joins weigh the same whatever the order of the sum. */
static void weigh(Order *o, int v) {
  double w = o->size[v];
  for (size_t i = 0; i < o->adjacent[v].n; i++) w += o->size[o->adjacent[v].items[i]];
  Key key = {(int64_t)llround(w * 1e6), o->level[v], v};
  if (memcmp(&key, &o->current[v], sizeof key) == 0) return;
  o->current[v] = key;
  push(o, key);
}

/* Replaces the neighbours of u by the union with `more`, without u and `without`. */
static void merge(Order *o, int u, const Neighbours *more, int without) {
  Neighbours out = {0};
  const Neighbours *mine = &o->adjacent[u];
  for (size_t i = 0, j = 0; i < mine->n || j < more->n;) {
    int a = i < mine->n ? mine->items[i] : INT32_MAX, b = j < more->n ? more->items[j] : INT32_MAX, next = a < b ? a : b;
    i += a == next;
    j += b == next;
    if (next != u && next != without) ARENA_PUSH(o->arena, &out, next);
  }
  o->adjacent[u] = out;
}

static void join_factor(Order *o, const SolveFactor *f) {
  Neighbours all = {0};
  for (int i = 0; i < f->n; i++) {
    size_t at = all.n;
    ARENA_PUSH(o->arena, &all, f->vars[i]);
    for (; at > 0 && all.items[at - 1] > f->vars[i]; at--) all.items[at] = all.items[at - 1];
    all.items[at] = f->vars[i];
  }
  for (int i = 0; i < f->n; i++) merge(o, f->vars[i], &all, -1);
}

static void eliminate(Order *o, int v) {
  const Neighbours scope = o->adjacent[v];
  o->gone[v] = true;
  for (size_t i = 0; i < scope.n; i++) {
    int u = scope.items[i];
    merge(o, u, &scope, v);
    if (o->level[u] <= o->level[v]) o->level[u] = o->level[v] + 1;
  }
  for (size_t i = 0; i < scope.n; i++) weigh(o, scope.items[i]);
}

int *elimination_order(const SolveProblem *p, Arena *out) {
  Arena *a = arena_new();
  Order o = {.arena = a};
  int *order = ARENA_ARRAY(out, int, p->nvars), n = 0;
  o.adjacent = ARENA_ARRAY(a, Neighbours, p->nvars);
  o.size = ARENA_ARRAY(a, double, p->nvars);
  o.level = ARENA_ARRAY(a, int, p->nvars);
  o.gone = ARENA_ARRAY(a, bool, p->nvars);
  o.current = ARENA_ARRAY(a, Key, p->nvars);
  for (int v = 0; v < p->nvars; v++) {
    o.size[v] = log(p->domain[v]);
    o.current[v].weight = -1;
  }
  for (size_t f = 0; f < p->nfactors; f++) join_factor(&o, &p->factors[f]);
  for (int v = 0; v < p->nvars; v++) weigh(&o, v);
  while (o.heap.n) {
    Key k = pop(&o);
    if (o.gone[k.var] || memcmp(&k, &o.current[k.var], sizeof k) != 0) continue;
    order[n++] = k.var;
    eliminate(&o, k.var);
  }
  arena_free(a);
  return order;
}
