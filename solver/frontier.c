/* solver/frontier.c - elimination with exact (memory, time) frontiers; see solve.h.
 *
 * An entry of a table is its Pareto frontier, by ascending memory: the (memory, time) points of the eliminated
 * variables that no other choice beats in both.  Points above the limit, or slower than a known solution, are dropped.
 * To find the values of a chosen point, the sums of its bucket are formed again in the same order, the frontier of
 * every prefix is kept, and the point is traced back list by list.  Independent parts of a problem give many lists at
 * once: there a point is also dropped if the least remaining cost takes it above a limit, in memory, in time, or in
 * their sum weighted as the sweep found best.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "solver/private.h"
#include "solver/watch.h"

typedef struct Points {
  FrontierPoint *items;
  size_t n, cap;
} Points;

static void reserve(Points *l, size_t n) {
  if (n <= l->cap) return;
  l->cap = n > 64 ? 2 * n : 64;
  l->items = must_have(realloc(l->items, l->cap * sizeof *l->items), "in the search");
}

static void push(Points *l, double memory, double time) {
  reserve(l, l->n + 1);
  l->items[l->n++] = (FrontierPoint){memory, time};
}

static bool before(const FrontierPoint *a, const FrontierPoint *b) {
  return a->memory != b->memory ? a->memory < b->memory : a->time < b->time;
}

/* Merges two frontiers into one, by ascending memory; returns its number of points. */
static size_t merge_frontiers(const FrontierPoint *x, size_t nx, const FrontierPoint *y, size_t ny,
                              FrontierPoint *out) {
  size_t kept = 0;
  for (size_t i = 0, j = 0; i < nx || j < ny;) {
    const FrontierPoint *next = j == ny || (i < nx && !before(&y[j], &x[i])) ? &x[i++] : &y[j++];
    if (kept == 0 || next->time < out[kept - 1].time) out[kept++] = *next;
  }
  return kept;
}

/* Returns the end of the frontier that begins at `from`. */
static size_t frontier_end(const Points *l, size_t from) {
  size_t i = from + 1;
  while (i < l->n && l->items[i].memory > l->items[i - 1].memory && l->items[i].time < l->items[i - 1].time) i++;
  return i;
}

/* Reduces a list of consecutive frontiers to one, by merging neighbours. */
static void prune(Points *l, Points *scratch) {
  while (frontier_end(l, 0) < l->n) {
    size_t kept = 0;
    reserve(scratch, l->n);
    for (size_t i = 0; i < l->n;) {
      size_t middle = frontier_end(l, i), end = middle < l->n ? frontier_end(l, middle) : middle;
      kept += merge_frontiers(l->items + i, middle - i, l->items + middle, end - middle, scratch->items + kept);
      i = end;
    }
    scratch->n = kept;
    Points swap = *l;
    *l = *scratch;
    *scratch = swap;
  }
}

typedef struct Frontier {
  StepProgram *p;
  double time_limit; /* points above it are dropped */
  size_t npoints, work;
  Points scratch; /* of prune */
  struct {
    int *items;
    size_t n, cap;
  } roots; /* eliminations with an empty scope */
} Frontier;

static bool useful(const Frontier *s, double memory, double time) {
  return memory <= s->p->p->memory_limit && time <= s->time_limit;
}

/* Forms all sums of a point of `x` and one of the n points `y`. */
static void add_frontier(Frontier *s, const Points *x, const FrontierPoint *y, size_t n, Points *out) {
  out->n = 0;
  s->work += x->n * n;
  for (size_t i = 0; i < x->n; i++)
    for (size_t j = 0; j < n; j++) {
      double memory = x->items[i].memory + y[j].memory, time = x->items[i].time + y[j].time;
      if (useful(s, memory, time)) push(out, memory, time);
    }
  prune(out, &s->scratch);
}

/* Lists the values of the variable that no other value of the same class beats in time and memory; returns how many. */
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

static bool within_caps(const Frontier *s) {
  double cap = s->p->p->frontier_cap;
  if (solve_watch_work(s->p->p->watch, 100)) return false; /* a list costs more than a sum: weight 100 */
  return (double)s->npoints <= cap && (double)s->work <= 32 * cap;
}

/* Fills the points of a step; false if the cap is exceeded. */
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
    prune(&w.all, &s->scratch);
    for (size_t i = 0; i < w.all.n; i++) push(&points, w.all.items[i].memory, w.all.items[i].time);
    s->npoints += w.all.n;
    starts[e + 1] = points.n;
    for (int i = b->n - 1; i >= 0 && ++at[i] == b->classes[i]; i--) at[i] = 0;
    ok = within_caps(s);
  }
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

/* ---- choices that give a point */

/* Lists, one point of each to be chosen, and the frontier of the sums of the first 0, 1, ... n of them. */
typedef struct Lists {
  int n;
  const FrontierPoint **points; /* by list */
  size_t *counts;
  int *makers;    /* elimination that made the list */
  Points *prefix; /* n + 1 of them */
} Lists;

static Lists lists_for(Arena *a, int n) {
  return (Lists){0, ARENA_ARRAY(a, const FrontierPoint *, n + 1), ARENA_ARRAY(a, size_t, n + 1),
                 ARENA_ARRAY(a, int, n + 1), ARENA_ARRAY(a, Points, n + 1)};
}

static void lists_free(const Lists *l, int n) {
  for (int i = 0; i <= n; i++) free(l->prefix[i].items);
}

static void add_list(Lists *l, const Step *t, size_t e, int maker) {
  l->points[l->n] = t->points + t->starts[e];
  l->counts[l->n] = t->starts[e + 1] - t->starts[e];
  l->makers[l->n++] = maker;
}

/* Finds, from the last list to the first, the points whose sum is the goal, and marks them as chosen. */
static bool trace_back(Frontier *s, const Lists *l, FrontierPoint goal) {
  for (int i = l->n - 1; i >= 0; i--) {
    const Points *before = &l->prefix[i];
    bool found = false;
    for (size_t j = 0; j < l->counts[i] && !found; j++) {
      FrontierPoint p = l->points[i][j];
      for (size_t k = 0; k < before->n && !found; k++) {
        found = before->items[k].memory + p.memory == goal.memory && before->items[k].time + p.time == goal.time;
        if (!found) continue;
        s->p->eliminations[l->makers[i]].chosen = p;
        goal = before->items[k];
      }
    }
    if (!found) return false;
  }
  return l->prefix[0].items[0].memory == goal.memory && l->prefix[0].items[0].time == goal.time;
}

static bool has_point(const Points *l, FrontierPoint goal) {
  for (size_t i = 0; i < l->n; i++)
    if (l->items[i].memory == goal.memory && l->items[i].time == goal.time) return true;
  return false;
}

/* True if the elimination can make its chosen point with value v of its variable. */
static bool makes_chosen(Frontier *s, const Elimination *e, const int *at, int v, Lists *l) {
  const Step *b = s->p->steps[e->step];
  double time = b->time[v], memory = b->memory ? b->memory[v] : 0;
  l->n = 0;
  for (int f = 0; f < b->noperands; f++) {
    const Operand *o = &b->operands[f];
    size_t entry = index_at(b, f, at, b->maps[b->n][v]);
    if (o->step < 0) time += o->input[entry];
    else add_list(l, s->p->steps[o->step], entry, e->makers[f]);
  }
  if (!useful(s, memory, time)) return false;
  l->prefix[0].n = 0;
  push(&l->prefix[0], memory, time);
  for (int i = 0; i < l->n; i++) add_frontier(s, &l->prefix[i], l->points[i], l->counts[i], &l->prefix[i + 1]);
  return has_point(&l->prefix[l->n], e->chosen) && trace_back(s, l, e->chosen);
}

static bool assign_variable(Frontier *s, const Elimination *e, int *values) {
  const Step *b = s->p->steps[e->step];
  Lists l = lists_for(s->p->arena, b->noperands);
  int *at = ARENA_ARRAY(s->p->arena, int, b->n + 1), v = 0;
  for (int i = 0; i < b->n; i++) at[i] = b->maps[i][values[e->scope[i]]];
  while (v < b->domain && !makes_chosen(s, e, at, v, &l)) v++;
  lists_free(&l, b->noperands);
  if (v == b->domain) return false;
  values[e->var] = v;
  return true;
}

/* Least cost of the roots after each one; `weighted` is time + lambda * memory. */
typedef struct Rest {
  double memory, time, weighted;
} Rest;

static Rest *rests_of(const Frontier *s, const Lists *l, double lambda) {
  Rest *rest = ARENA_ARRAY(s->p->arena, Rest, l->n + 1);
  for (int i = l->n - 1; i >= 0; i--) {
    Rest least = {INFINITY, INFINITY, INFINITY};
    for (size_t j = 0; j < l->counts[i]; j++) {
      FrontierPoint p = l->points[i][j];
      least = (Rest){fmin(least.memory, p.memory), fmin(least.time, p.time),
                     fmin(least.weighted, p.time + lambda * p.memory)};
    }
    rest[i] =
        (Rest){rest[i + 1].memory + least.memory, rest[i + 1].time + least.time, rest[i + 1].weighted + least.weighted};
  }
  return rest;
}

/* Drops the points that exceed a limit together with the least remaining cost. */
static void keep_promising(const Frontier *s, Points *l, const Rest *rest, double lambda) {
  double limit = s->p->p->memory_limit, room = s->time_limit + lambda * limit * (1 + 1e-9);
  size_t kept = 0;
  for (size_t i = 0; i < l->n; i++) {
    FrontierPoint p = l->items[i];
    bool within = p.memory + rest->memory <= limit * (1 + 1e-12) && p.time + rest->time <= s->time_limit;
    if (within && p.time + lambda * p.memory + rest->weighted <= room) l->items[kept++] = p;
  }
  l->n = kept;
}

/* Chooses the fastest sum of the remaining roots within the limit. */
static bool choose_root(Frontier *s, double lambda) {
  int n = (int)s->roots.n;
  Lists l = lists_for(s->p->arena, n);
  for (int i = 0; i < n; i++)
    add_list(&l, s->p->steps[s->p->eliminations[s->roots.items[i]].step], 0, s->roots.items[i]);
  const Rest *rest = rests_of(s, &l, lambda);
  bool ok = true;
  push(&l.prefix[0], 0, s->p->p->constant);
  for (int i = 0; i < n && ok; i++) {
    add_frontier(s, &l.prefix[i], l.points[i], l.counts[i], &l.prefix[i + 1]);
    keep_promising(s, &l.prefix[i + 1], &rest[i + 1], lambda);
    s->npoints += l.prefix[i + 1].n;
    ok = within_caps(s);
  }
  const Points *all = &l.prefix[n];
  ok = ok && all->n && trace_back(s, &l, all->items[all->n - 1]);
  lists_free(&l, n);
  return ok;
}

bool frontier_solve(const SolveProblem *p, const int *order, SolveResult *r, Arena *arena) {
  Arena *a = arena_new();
  int *values = ARENA_ARRAY(arena, int, p->nvars);
  /* room for the different order of sums */
  Frontier s = {.p = elimination_compile(p, order, false, a), .time_limit = r->time * (1 + 1e-9)};
  bool ok = s.p != NULL;
  for (int i = 0; ok && i < s.p->nsteps; i++) ok = fill_points(&s, s.p->steps[i]);
  for (int i = 0; ok && i < s.p->n; i++)
    if (!s.p->steps[s.p->eliminations[i].step]->n) ARENA_PUSH(a, &s.roots, i);
  ok = ok && choose_root(&s, r->memory_weight);
  for (int k = p->nvars - 1; ok && k >= 0; k--)
    ok = !solve_watch_work(p->watch, 100) && assign_variable(&s, &s.p->eliminations[s.p->first[order[k]]], values);
  if (ok) {
    r->values = values;
    r->time = solve_evaluate(p, values, &r->memory);
  }
  free(s.scratch.items);
  arena_free(a);
  return ok;
}
