/* solver/order.c - the elimination order: always the variable whose join is cheapest now (min-weight), per variable
 * that shares the join.
 *
 * A variable's look is a hash of its roles in tables; equal looks mean equal joins, which are computed once.  So the
 * size of a join is divided by the number of variables with the same look, and a join costs nothing once one of them
 * has been eliminated.  Repeated blocks are then eliminated alike, and a chain of them is composed pairwise in a tree
 * instead of from one end: the joins of L blocks are O(log L) different ones.
 */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "solver/private.h"

typedef struct Key {
  int64_t weight; /* logarithm, in millionths; -1 if the join is computed already */
  int var;
} Key;

typedef struct IntList {
  int *items;
  size_t n, cap;
} IntList;

/* A table, or the result of an elimination, with the role that each variable has in it. */
typedef struct Role {
  int n;
  const int *vars;
  uint64_t *roles;
  bool gone;
} Role;

typedef struct Look {
  uint64_t hash;
  int64_t known;   /* size of the eliminated join; -1 if none yet */
  int count;       /* variables that have it */
  IntList holders; /* those variables, and some that had the look before */
} Look;

typedef struct Order {
  Arena *arena;
  int nvars;
  IntList *adjacent; /* ascending */
  double *size;      /* log of the domain */
  uint64_t *look;    /* by variable */
  bool *gone;
  Key *current; /* by variable */
  struct {
    Role *items;
    size_t n, cap;
  } tables;
  IntList *of_var; /* tables */
  Look *looks;     /* open addressing */
  size_t nlooks, used;
  struct {
    Key *items;
    size_t n, cap;
  } heap; /* a heap; outdated entries are skipped */
} Order;

/* ---- the heap */

static bool before(const Key *a, const Key *b) {
  return a->weight != b->weight ? a->weight < b->weight : a->var < b->var;
}

static void swap_keys(Key *a, Key *b) {
  Key t = *a;
  *a = *b;
  *b = t;
}

static void push(Order *o, Key key) {
  if (o->current[key.var].weight == key.weight) return;
  o->current[key.var] = key;
  ARENA_PUSH(o->arena, &o->heap, key);
  Key *h = o->heap.items;
  for (size_t i = o->heap.n - 1; i > 0 && before(&h[i], &h[(i - 1) / 2]); i = (i - 1) / 2)
    swap_keys(&h[i], &h[(i - 1) / 2]);
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

/* ---- looks */

static uint64_t mix(uint64_t a, uint64_t b) { return hash64(&a, sizeof a, b); }

static Look *look_at(Order *o, uint64_t hash) {
  size_t i = (size_t)hash & (o->nlooks - 1);
  while (o->looks[i].hash && o->looks[i].hash != hash) i = (i + 1) & (o->nlooks - 1);
  return &o->looks[i];
}

static void grow_looks(Order *o) {
  Look *old = o->looks;
  size_t n = o->nlooks;
  o->nlooks *= 2;
  o->looks = ARENA_ARRAY(o->arena, Look, o->nlooks);
  for (size_t i = 0; i < n; i++)
    if (old[i].hash) *look_at(o, old[i].hash) = old[i];
}

static Look *look_of(Order *o, int v) {
  uint64_t hash = o->look[v] | 1; /* 0 is an empty slot */
  Look *l = look_at(o, hash);
  if (l->hash) return l;
  if (2 * ++o->used > o->nlooks) {
    grow_looks(o);
    l = look_at(o, hash);
  }
  *l = (Look){.hash = hash, .known = -1};
  return l;
}

/* Logarithm of the join's size, in millionths, so that equal joins weigh the same whatever the order of summation. */
static int64_t join_size(const Order *o, int v) {
  double w = o->size[v];
  for (size_t i = 0; i < o->adjacent[v].n; i++) w += o->size[o->adjacent[v].items[i]];
  return (int64_t)llround(w * 1e6);
}

static void weigh(Order *o, int v, const Look *l) {
  int64_t size = join_size(o, v), shared = size - (int64_t)llround(log(l->count) * 1e6);
  push(o, (Key){l->known == size ? -1 : shared > 0 ? shared : 0, v});
}

/* Adds the variable to its look.  All variables of a look are weighed again when their number has doubled. */
static void enter(Order *o, int v) {
  Look *l = look_of(o, v);
  l->count++;
  ARENA_PUSH(o->arena, &l->holders, v);
  bool doubled = (l->count & (l->count - 1)) == 0;
  for (size_t i = doubled ? 0 : l->holders.n - 1; i < l->holders.n; i++) {
    int u = l->holders.items[i];
    if (!o->gone[u] && (o->look[u] | 1) == l->hash) weigh(o, u, l);
  }
}

/* Records that a variable of this look is eliminated: the others are free. */
static void learn(Order *o, int v) {
  Look *l = look_of(o, v);
  bool fresh = l->known < 0;
  l->count--;
  l->known = join_size(o, v);
  for (size_t i = 0; fresh && i < l->holders.n; i++) {
    int u = l->holders.items[i];
    if (!o->gone[u] && (o->look[u] | 1) == l->hash) weigh(o, u, l);
  }
}

/* ---- elimination */

static void add_table(Order *o, Role t) {
  for (int i = 0; i < t.n; i++) {
    o->look[t.vars[i]] += t.roles[i];
    ARENA_PUSH(o->arena, &o->of_var[t.vars[i]], (int)o->tables.n);
  }
  ARENA_PUSH(o->arena, &o->tables, t);
}

/* Replaces the neighbours of u by their union with `more`, without u and `without`. */
static void merge(Order *o, int u, const IntList *more, int without) {
  IntList out = {0};
  const IntList *mine = &o->adjacent[u];
  for (size_t i = 0, j = 0; i < mine->n || j < more->n;) {
    int a = i < mine->n ? mine->items[i] : INT32_MAX, b = j < more->n ? more->items[j] : INT32_MAX,
        next = a < b ? a : b;
    i += a == next;
    j += b == next;
    if (next != u && next != without) ARENA_PUSH(o->arena, &out, next);
  }
  o->adjacent[u] = out;
}

static void join_factor(Order *o, const SolveFactor *f) {
  IntList all = {0};
  Role t = {.n = f->n, .vars = f->vars, .roles = ARENA_ARRAY(o->arena, uint64_t, f->n)};
  for (int i = 0; i < f->n; i++) {
    size_t at = all.n;
    t.roles[i] = mix((uint64_t)(uintptr_t)solve_factor_identity(f), (uint64_t)i);
    ARENA_PUSH(o->arena, &all, f->vars[i]);
    for (; at > 0 && all.items[at - 1] > f->vars[i]; at--) all.items[at] = all.items[at - 1];
    all.items[at] = f->vars[i];
  }
  add_table(o, t);
  for (int i = 0; i < f->n; i++) merge(o, f->vars[i], &all, -1);
}

/* Replaces the tables of v by one over its neighbours. */
static void replace_tables(Order *o, int v) {
  const IntList scope = o->adjacent[v];
  Role result = {.n = (int)scope.n, .vars = scope.items, .roles = ARENA_ARRAY(o->arena, uint64_t, scope.n)};
  uint64_t look = o->look[v];
  for (size_t k = 0; k < o->of_var[v].n; k++) {
    Role *t = &o->tables.items[o->of_var[v].items[k]];
    for (int i = 0; i < t->n && !t->gone; i++) {
      o->look[t->vars[i]] -= t->roles[i];
      for (size_t j = 0; j < scope.n; j++)
        if (scope.items[j] == t->vars[i]) result.roles[j] += t->roles[i];
    }
    t->gone = true;
  }
  for (size_t j = 0; j < scope.n; j++) result.roles[j] = mix(result.roles[j], look);
  add_table(o, result);
}

static void eliminate(Order *o, int v) {
  const IntList scope = o->adjacent[v];
  o->gone[v] = true;
  learn(o, v);
  for (size_t i = 0; i < scope.n; i++) look_of(o, scope.items[i])->count--;
  replace_tables(o, v);
  for (size_t i = 0; i < scope.n; i++) merge(o, scope.items[i], &scope, v);
  for (size_t i = 0; i < scope.n; i++) enter(o, scope.items[i]);
}

int *elimination_order(const SolveProblem *p, Arena *out) {
  Arena *a = arena_new();
  Order o = {.arena = a, .nvars = p->nvars, .nlooks = 1024};
  int *order = ARENA_ARRAY(out, int, p->nvars), n = 0;
  o.adjacent = ARENA_ARRAY(a, IntList, p->nvars);
  o.of_var = ARENA_ARRAY(a, IntList, p->nvars);
  o.size = ARENA_ARRAY(a, double, p->nvars);
  o.look = ARENA_ARRAY(a, uint64_t, p->nvars);
  o.gone = ARENA_ARRAY(a, bool, p->nvars);
  o.current = ARENA_ARRAY(a, Key, p->nvars);
  o.looks = ARENA_ARRAY(a, Look, o.nlooks);
  for (int v = 0; v < p->nvars; v++) {
    o.size[v] = log(p->domain[v]);
    o.look[v] = mix((uint64_t)(uintptr_t)p->time[v], (uint64_t)p->domain[v]);
    o.current[v].weight = -2;
  }
  for (size_t f = 0; f < p->nfactors; f++) join_factor(&o, &p->factors[f]);
  for (int v = 0; v < p->nvars; v++) enter(&o, v);
  while (o.heap.n) {
    Key k = pop(&o);
    if (o.gone[k.var] || o.current[k.var].weight != k.weight) continue;
    order[n++] = k.var;
    eliminate(&o, k.var);
  }
  arena_free(a);
  return order;
}
