/* passes/search_frontier.c - elimination with exact (memory, time) frontiers; see search_solve.h.
 *
 * An entry of a table is the list of (memory, time) no other choice of the eliminated variables beats in both, by ascending memory.
 * Points above the limit, or slower than a known solution, are dropped.  To find the values of a chosen point, the sums of its bucket are
 * formed again in the same order until one equals it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "passes/search_private.h"

typedef struct Points {
  FrontierPoint *items;
  size_t n, cap;
} Points;

static void push(Points *l, double memory, double time) {
  if (l->n == l->cap) {
    l->cap = l->cap ? 2 * l->cap : 64;
    l->items = realloc(l->items, l->cap * sizeof *l->items);
    if (!l->items) die("out of memory");
  }
  l->items[l->n++] = (FrontierPoint){memory, time};
}

static int by_memory(const void *x, const void *y) {
  const FrontierPoint *a = x, *b = y;
  if (a->memory != b->memory) return a->memory < b->memory ? -1 : 1;
  return (a->time > b->time) - (a->time < b->time);
}

static void prune(Points *l) {
  size_t kept = 0;
  if (l->n) qsort(l->items, l->n, sizeof *l->items, by_memory);
  for (size_t i = 0; i < l->n; i++)
    if (kept == 0 || l->items[i].time < l->items[kept - 1].time) l->items[kept++] = l->items[i];
  l->n = kept;
}

static bool useful(const Solver *s, double memory, double time) { return memory <= s->p->memory_limit && time <= s->time_limit; }

/* All sums of a point of `x` and one of the n points `y`. */
static void add_frontier(Solver *s, const Points *x, const FrontierPoint *y, size_t n, Points *out) {
  out->n = 0;
  s->work += x->n * n;
  for (size_t i = 0; i < x->n; i++)
    for (size_t j = 0; j < n; j++) {
      double memory = x->items[i].memory + y[j].memory, time = x->items[i].time + y[j].time;
      if (useful(s, memory, time)) push(out, memory, time);
    }
  prune(out);
}

/* A value of the variable that another of the same class beats in time and memory is never needed. */
static int useful_values(const Bucket *b, int *out) {
  int n = 0;
  for (int v = 0; v < b->domain; v++) {
    bool beaten = b->time[v] == INFINITY;
    for (int w = 0; w < b->domain && !beaten; w++) {
      if (w == v || b->maps[b->n][w] != b->maps[b->n][v]) continue;
      double mv = b->memory ? b->memory[v] : 0, mw = b->memory ? b->memory[w] : 0;
      bool less = b->time[w] < b->time[v] || mw < mv;
      beaten = b->time[w] <= b->time[v] && mw <= mv && (less || w < v);
    }
    if (!beaten) out[n++] = v;
  }
  return n;
}

static size_t index_at(const Bucket *b, int f, const int *at, int class) {
  size_t e = b->offsets[b->n][f][class];
  for (int i = 0; i < b->n; i++) e += b->offsets[i][f][at[i]];
  return e;
}

typedef struct Work {
  Points sum, next, all;
} Work;

static void one_value(Solver *s, const Bucket *b, const int *at, int v, Work *w) {
  double time = b->time[v], memory = b->memory ? b->memory[v] : 0;
  for (int f = 0; f < b->nfactors; f++)
    if (b->factors[f]->table) time += b->factors[f]->table[index_at(b, f, at, b->maps[b->n][v])];
  w->sum.n = 0;
  s->work++;
  if (useful(s, memory, time)) push(&w->sum, memory, time);
  for (int f = 0; f < b->nfactors && w->sum.n; f++) {
    const Table *t = b->factors[f];
    if (t->table) continue;
    size_t e = index_at(b, f, at, b->maps[b->n][v]);
    add_frontier(s, &w->sum, t->points + t->starts[e], t->starts[e + 1] - t->starts[e], &w->next);
    Points swap = w->sum;
    w->sum = w->next;
    w->next = swap;
  }
  for (size_t i = 0; i < w->sum.n; i++) push(&w->all, w->sum.items[i].memory, w->sum.items[i].time);
}

bool frontier_tables(Solver *s, const Bucket *b, Table *out) {
  Work w = {0};
  Points points = {0};
  size_t *starts = ARENA_ARRAY(s->arena, size_t, out->entries + 1);
  int *at = ARENA_ARRAY(s->arena, int, b->n + 1), *values = ARENA_ARRAY(s->arena, int, b->domain), n = useful_values(b, values);
  bool ok = true;
  for (size_t e = 0; e < out->entries && ok; e++) {
    w.all.n = 0;
    for (int i = 0; i < n; i++) one_value(s, b, at, values[i], &w);
    prune(&w.all);
    for (size_t i = 0; i < w.all.n; i++) push(&points, w.all.items[i].memory, w.all.items[i].time);
    starts[e + 1] = points.n;
    for (int i = b->n - 1; i >= 0 && ++at[i] == b->classes[i]; i--) at[i] = 0;
    ok = (double)(s->npoints + points.n) <= s->p->frontier_cap && (double)s->work <= 32 * s->p->frontier_cap;
  }
  s->npoints += points.n;
  FrontierPoint *kept = ARENA_ARRAY(s->arena, FrontierPoint, points.n + 1);
  if (points.n) memcpy(kept, points.items, sizeof *kept * points.n);
  out->points = kept;
  out->starts = starts;
  free(points.items);
  free(w.sum.items);
  free(w.next.items);
  free(w.all.items);
  return ok;
}

/* ---- which choices made a point */

typedef struct Lists {
  int n;
  const FrontierPoint **points; /* by list */
  size_t *counts;
  int *buckets;                 /* whose result the list is from */
} Lists;

/* Finds one point per list whose sums, in order, give the goal; marks them as chosen. */
static bool retrace(Solver *s, const Lists *l, int i, double memory, double time, FrontierPoint goal) {
  if (memory > goal.memory || time > goal.time) return false;
  if (i == l->n) return memory == goal.memory && time == goal.time;
  for (size_t j = 0; j < l->counts[i]; j++) {
    const FrontierPoint *p = &l->points[i][j];
    if (!retrace(s, l, i + 1, memory + p->memory, time + p->time, goal)) continue;
    s->buckets[l->buckets[i]].chosen = *p;
    return true;
  }
  return false;
}

static Lists lists_for(Arena *a, int n) {
  return (Lists){0, ARENA_ARRAY(a, const FrontierPoint *, n + 1), ARENA_ARRAY(a, size_t, n + 1), ARENA_ARRAY(a, int, n + 1)};
}

static void add_list(Lists *l, const Table *t, size_t e) {
  l->points[l->n] = t->points + t->starts[e];
  l->counts[l->n] = t->starts[e + 1] - t->starts[e];
  l->buckets[l->n++] = t->bucket;
}

static bool assign_variable(Solver *s, Bucket *b, int *values) {
  Lists l = lists_for(s->arena, b->nfactors);
  for (int v = 0; v < b->domain; v++) {
    double time = b->time[v], memory = b->memory ? b->memory[v] : 0;
    values[b->var] = v;
    l.n = 0;
    for (int f = 0; f < b->nfactors; f++) {
      size_t e = table_entry(b->factors[f], values);
      if (b->factors[f]->table) time += b->factors[f]->table[e];
      else add_list(&l, b->factors[f], e);
    }
    if (retrace(s, &l, 0, memory, time, b->chosen)) return true;
  }
  return false;
}

/* The fastest sum over the variables that were left alone, within the limit. */
static bool choose_root(Solver *s) {
  Points sum = {0}, next = {0};
  Lists l = lists_for(s->arena, (int)s->constants.n);
  push(&sum, 0, 0);
  for (size_t i = 0; i < s->constants.n; i++) {
    const Table *t = s->buckets[s->constants.items[i]].result;
    add_frontier(s, &sum, t->points, t->starts[1], &next);
    add_list(&l, t, 0);
    Points swap = sum;
    sum = next;
    next = swap;
  }
  bool found = sum.n && retrace(s, &l, 0, 0, 0, sum.items[sum.n - 1]);
  free(sum.items);
  free(next.items);
  return found;
}

bool frontier_solve(const SolveProblem *p, const int *order, SolveResult *r, Arena *arena) {
  Arena *a = arena_new();
  Solver s;
  int *values = ARENA_ARRAY(arena, int, p->nvars);
  solver_start(&s, p, a, order);
  s.frontier = true;
  s.time_limit = r->time * (1 + 1e-9); /* room for the order of the sums */
  bool ok = true;
  for (int k = 0; k < p->nvars && ok; k++) ok = solver_eliminate(&s, order[k]);
  ok = ok && choose_root(&s);
  for (int k = p->nvars - 1; k >= 0 && ok; k--) ok = assign_variable(&s, &s.buckets[s.first_bucket[order[k]]], values);
  if (ok) {
    r->values = values;
    r->time = solve_evaluate(p, values, &r->memory);
  }
  arena_free(a);
  return ok;
}
