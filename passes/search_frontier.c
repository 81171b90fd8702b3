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

typedef struct Frontier {
  Program *p;
  double time_limit;  /* points above it lead nowhere */
  size_t npoints, work;
  struct { int *items; size_t n, cap; } roots; /* eliminations with an empty scope */
} Frontier;

static bool useful(const Frontier *s, double memory, double time) { return memory <= s->p->p->memory_limit && time <= s->time_limit; }

/* All sums of a point of `x` and one of the n points `y`. */
static void add_frontier(Frontier *s, const Points *x, const FrontierPoint *y, size_t n, Points *out) {
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
static int useful_values(const Step *b, int *out) {
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

static size_t index_at(const Step *b, int f, const int *at, int class) {
  size_t e = b->offsets[b->n][f][class];
  for (int i = 0; i < b->n; i++) e += b->offsets[i][f][at[i]];
  return e;
}

typedef struct Work {
  Points sum, next, all;
} Work;

static void one_value(Frontier *s, const Step *b, const int *at, int v, Work *w) {
  double time = b->time[v], memory = b->memory ? b->memory[v] : 0;
  for (int f = 0; f < b->noperands; f++)
    if (b->operands[f].step < 0) time += b->operands[f].input[index_at(b, f, at, b->maps[b->n][v])];
  w->sum.n = 0;
  s->work++;
  if (useful(s, memory, time)) push(&w->sum, memory, time);
  for (int f = 0; f < b->noperands && w->sum.n; f++) {
    if (b->operands[f].step < 0) continue;
    const Step *t = s->p->steps[b->operands[f].step];
    size_t e = index_at(b, f, at, b->maps[b->n][v]);
    add_frontier(s, &w->sum, t->points + t->starts[e], t->starts[e + 1] - t->starts[e], &w->next);
    Points swap = w->sum;
    w->sum = w->next;
    w->next = swap;
  }
  for (size_t i = 0; i < w->sum.n; i++) push(&w->all, w->sum.items[i].memory, w->sum.items[i].time);
}

/* Fills the points of a step; false when the cap is passed. */
static bool fill_points(Frontier *s, Step *b) {
  Arena *a = s->p->arena;
  Work w = {0};
  Points points = {0};
  size_t *starts = ARENA_ARRAY(a, size_t, b->entries + 1);
  int *at = ARENA_ARRAY(a, int, b->n + 1), *values = ARENA_ARRAY(a, int, b->domain), n = useful_values(b, values);
  bool ok = true;
  for (size_t e = 0; e < b->entries && ok; e++) {
    w.all.n = 0;
    for (int i = 0; i < n; i++) one_value(s, b, at, values[i], &w);
    prune(&w.all);
    for (size_t i = 0; i < w.all.n; i++) push(&points, w.all.items[i].memory, w.all.items[i].time);
    starts[e + 1] = points.n;
    for (int i = b->n - 1; i >= 0 && ++at[i] == b->classes[i]; i--) at[i] = 0;
    double cap = s->p->p->frontier_cap;
    ok = (double)(s->npoints + points.n) <= cap && (double)s->work <= 32 * cap;
  }
  s->npoints += points.n;
  FrontierPoint *kept = ARENA_ARRAY(a, FrontierPoint, points.n + 1);
  if (points.n) memcpy(kept, points.items, sizeof *kept * points.n);
  b->points = kept;
  b->starts = starts;
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
  int *makers;                  /* elimination whose result the list is from */
} Lists;

/* Finds one point per list whose sums, in order, give the goal; marks them as chosen. */
static bool retrace(Frontier *s, const Lists *l, int i, double memory, double time, FrontierPoint goal) {
  if (memory > goal.memory || time > goal.time) return false;
  if (i == l->n) return memory == goal.memory && time == goal.time;
  for (size_t j = 0; j < l->counts[i]; j++) {
    const FrontierPoint *p = &l->points[i][j];
    if (!retrace(s, l, i + 1, memory + p->memory, time + p->time, goal)) continue;
    s->p->eliminations[l->makers[i]].chosen = *p;
    return true;
  }
  return false;
}

static Lists lists_for(Arena *a, int n) {
  return (Lists){0, ARENA_ARRAY(a, const FrontierPoint *, n + 1), ARENA_ARRAY(a, size_t, n + 1), ARENA_ARRAY(a, int, n + 1)};
}

static void add_list(Lists *l, const Step *t, size_t e, int maker) {
  l->points[l->n] = t->points + t->starts[e];
  l->counts[l->n] = t->starts[e + 1] - t->starts[e];
  l->makers[l->n++] = maker;
}

static bool assign_variable(Frontier *s, const Elimination *e, int *values) {
  const Step *b = s->p->steps[e->step];
  Lists l = lists_for(s->p->arena, b->noperands);
  int *at = ARENA_ARRAY(s->p->arena, int, b->n + 1);
  for (int i = 0; i < b->n; i++) at[i] = b->maps[i][values[e->scope[i]]];
  for (int v = 0; v < b->domain; v++) {
    double time = b->time[v], memory = b->memory ? b->memory[v] : 0;
    l.n = 0;
    for (int f = 0; f < b->noperands; f++) {
      const Operand *o = &b->operands[f];
      size_t entry = index_at(b, f, at, b->maps[b->n][v]);
      if (o->step < 0) time += o->input[entry];
      else add_list(&l, s->p->steps[o->step], entry, e->makers[f]);
    }
    values[e->var] = v;
    if (retrace(s, &l, 0, memory, time, e->chosen)) return true;
  }
  return false;
}

/* The fastest sum over the variables that were left alone, within the limit. */
static bool choose_root(Frontier *s) {
  Points sum = {0}, next = {0};
  Lists l = lists_for(s->p->arena, (int)s->roots.n);
  push(&sum, 0, 0);
  for (size_t i = 0; i < s->roots.n; i++) {
    const Step *t = s->p->steps[s->p->eliminations[s->roots.items[i]].step];
    add_frontier(s, &sum, t->points, t->starts[1], &next);
    add_list(&l, t, 0, s->roots.items[i]);
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
  int *values = ARENA_ARRAY(arena, int, p->nvars);
  Frontier s = {.p = elimination_compile(p, order, false, a), .time_limit = r->time * (1 + 1e-9)}; /* room for the order of the sums */
  bool ok = s.p != NULL;
  for (int i = 0; ok && i < s.p->nsteps; i++) ok = fill_points(&s, s.p->steps[i]);
  for (int i = 0; ok && i < s.p->n; i++)
    if (!s.p->steps[s.p->eliminations[i].step]->n) ARENA_PUSH(a, &s.roots, i);
  ok = ok && choose_root(&s);
  for (int k = p->nvars - 1; ok && k >= 0; k--) ok = assign_variable(&s, &s.p->eliminations[s.p->first[order[k]]], values);
  if (ok) {
    r->values = values;
    r->time = solve_evaluate(p, values, &r->memory);
  }
  arena_free(a);
  return ok;
}
