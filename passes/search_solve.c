/* passes/search_solve.c - the Lagrangian sweep around the memory limit, and what is done when tables were split; see search_solve.h.
 * The elimination is compiled in search_program.c and computed in search_step.c; frontiers are in search_frontier.c. */
#include <math.h>
#include <string.h>

#include "passes/search_private.h"

typedef struct Solver {
  const SolveProblem *p;
  Arena *arena;
  Program *program;
  struct { int *items; size_t n, cap; } *of_var; /* factors; only filled when needed */
  SolveResult *result;
} Solver;

/* A solution for time + lambda * memory. */
typedef struct Point {
  bool feasible;
  double bound; /* of the weighted sum */
  double time, memory;
  int *values;
} Point;

/* ---- improving a whole assignment, one variable at a time */

static void find_factors(Solver *s) {
  if (s->of_var) return;
  s->of_var = arena_alloc(s->arena, sizeof *s->of_var * (size_t)s->p->nvars);
  for (size_t f = 0; f < s->p->nfactors; f++)
    for (int i = 0; i < s->p->factors[f].n; i++) ARENA_PUSH(s->arena, &s->of_var[s->p->factors[f].vars[i]], (int)f);
}

static double memory_of(const SolveProblem *p, int var, int value) { return p->memory && p->memory[var] ? p->memory[var][value] : 0; }

/* The time that depends on one variable. */
static double around(const Solver *s, int var, const int *values) {
  double sum = s->p->time[var][values[var]];
  for (size_t i = 0; i < s->of_var[var].n; i++) {
    const SolveFactor *k = &s->p->factors[s->of_var[var].items[i]];
    size_t at = 0;
    for (int j = 0; j < k->n; j++) at = at * (size_t)k->classes[j] + (size_t)k->maps[j][values[k->vars[j]]];
    sum += k->table[at];
  }
  return sum;
}

/* Coordinate descent on time + lambda * memory, keeping the memory within the limit. */
static void descend(Solver *s, double lambda, double limit, Point *x) {
  find_factors(s);
  bool better = true;
  for (int sweep = 0; better && sweep < 20; sweep++) {
    better = false;
    for (int var = 0; var < s->p->nvars; var++) {
      int best = x->values[var], now = best;
      double rest = x->memory - memory_of(s->p, var, now), least = around(s, var, x->values) + lambda * memory_of(s->p, var, now);
      for (int v = 0; v < s->p->domain[var]; v++) {
        double memory = memory_of(s->p, var, v);
        if (v == now || rest + memory > limit) continue;
        x->values[var] = v;
        double sum = around(s, var, x->values) + lambda * memory;
        if (sum < least * (1 - 1e-12)) least = sum, best = v, better = true;
      }
      x->values[var] = best;
      x->memory = rest + memory_of(s->p, var, best);
    }
  }
  x->time = solve_evaluate(s->p, x->values, &x->memory);
}

/* ---- one weight of memory */

/* Of interest are times up to the incumbent's.  Above, the solution is not feasible, and the bound says that it is above. */
static Point solve_weighted(Solver *s, double lambda) {
  const SolveProblem *p = s->p;
  double most = p->stop_above > 0 ? p->stop_above : INFINITY;
  if (s->result->feasible) most = fmin(most, s->result->time);
  if (lambda > 0) most += lambda * p->memory_limit;
  most *= 1 + 1e-9;
  Point r = {.bound = elimination_run(s->program, lambda, most), .values = ARENA_ARRAY(s->arena, int, p->nvars)};
  s->result->work += s->program->work;
  r.feasible = r.bound < INFINITY;
  if (!r.feasible && most < INFINITY) r.bound = most * (1 + 1e-9);
  if (!r.feasible) return r;
  elimination_assign(s->program, lambda, r.values);
  r.time = solve_evaluate(s->p, r.values, &r.memory);
  if (s->program->split) descend(s, lambda, INFINITY, &r);
  r.feasible = r.time < INFINITY;
  return r;
}

static void keep(SolveResult *r, const Point *x, double limit) {
  if (x->feasible && x->memory <= limit && (!r->feasible || x->time < r->time)) {
    r->feasible = true;
    r->time = x->time;
    r->memory = x->memory;
    r->values = x->values;
  }
}

static bool above(const SolveProblem *p, double bound) { return p->stop_above > 0 && bound > p->stop_above; }

/* The first variables as in one choice, the others as in the other one: both are cheapest for one weight, so only the seam costs more.
 * The longest part of the faster one that keeps the limit, then coordinate descent. */
static void mix(Solver *s, const Point *under, const Point *over) {
  int low = 0, high = s->p->nvars;
  size_t bytes = sizeof(int) * (size_t)s->p->nvars;
  Point x = {.feasible = true, .values = ARENA_ARRAY(s->arena, int, s->p->nvars)};
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    memcpy(x.values, under->values, bytes);
    memcpy(x.values, over->values, sizeof(int) * (size_t)middle);
    x.time = solve_evaluate(s->p, x.values, &x.memory);
    if (x.memory <= s->p->memory_limit) low = middle;
    else high = middle;
  }
  memcpy(x.values, under->values, bytes);
  memcpy(x.values, over->values, sizeof(int) * (size_t)low);
  x.time = solve_evaluate(s->p, x.values, &x.memory);
  if (x.time < INFINITY) descend(s, 0, s->p->memory_limit, &x);
  x.feasible = x.time < INFINITY;
  keep(s->result, &x, s->p->memory_limit);
}

/* What a weighted solution says about the time of all choices within the limit. */
static void raise_bound(Solver *s, const Point *x, double lambda) {
  double bound = x->bound - lambda * s->p->memory_limit;
  if (bound <= s->result->lower_bound) return;
  s->result->lower_bound = bound;
  s->result->memory_weight = lambda;
}

/* The facets of the lower hull around the limit, by secants: each solution is a vertex, so the sweep ends. */
static void sweep(Solver *s, Point under, Point over) {
  for (int i = 0; i < 60; i++) {
    double lambda = (under.time - over.time) / (over.memory - under.memory);
    if (!(lambda > 0) || !(lambda < INFINITY)) break;
    Point x = solve_weighted(s, lambda);
    raise_bound(s, &x, lambda);
    if (above(s->p, s->result->lower_bound)) return;
    if (!x.feasible) break;
    keep(s->result, &x, s->p->memory_limit);
    bool vertex = x.time + lambda * x.memory < (over.time + lambda * over.memory) * (1 - 1e-12);
    if (!vertex) break;
    if (x.memory > s->p->memory_limit) over = x;
    else under = x;
  }
  mix(s, &under, &over);
}

/* With the limit: solutions on both sides of it, then the sweep between them.  False when nothing is known to fit. */
static bool solve_limited(Solver *s) {
  const double steep = 1e6; /* seconds per byte: the least memory comes first */
  const SolveProblem *p = s->p;
  SolveResult *r = s->result;
  Point guess = {0}, over, under;
  if (p->memory_weight > 0 && p->memory_limit < INFINITY) {
    guess = solve_weighted(s, p->memory_weight);
    raise_bound(s, &guess, p->memory_weight);
    if (above(p, r->lower_bound)) return true;
    keep(r, &guess, p->memory_limit);
  }
  if (guess.feasible && guess.memory > p->memory_limit) {
    over = guess;
  } else {
    over = solve_weighted(s, 0);
    r->lower_bound = fmax(r->lower_bound, over.bound);
    keep(r, &over, p->memory_limit);
    if (!over.feasible || over.memory <= p->memory_limit) {
      r->memory_weight = 0;
      return true;
    }
  }
  if (above(p, r->lower_bound)) return true;
  under = guess.feasible && guess.memory <= p->memory_limit ? guess : solve_weighted(s, steep);
  keep(r, &under, p->memory_limit);
  if (!under.feasible || under.memory > p->memory_limit) return !s->program->split;
  sweep(s, under, over);
  return true;
}

static void solve_into(Solver *s, const int *order) {
  SolveResult *r = s->result;
  s->program = elimination_compile(s->p, order, true, s->arena);
  bool known = solve_limited(s), split = s->program->split;
  if (above(s->p, r->lower_bound) || !known) return;
  if (!r->feasible) {
    r->exact = !split;
    return;
  }
  if (r->lower_bound < r->time * (1 - 1e-9)) r->exact = !split && frontier_solve(s->p, order, r, s->arena);
  else r->exact = true;
  if (r->exact) r->lower_bound = r->time;
}

SolveResult solve(const SolveProblem *p, Arena *arena) {
  SolveResult r = {0};
  Arena *scratch = arena_new();
  Solver s = {.p = p, .arena = scratch, .result = &r};
  solve_into(&s, elimination_order(p, scratch));
  if (r.feasible) {
    int *values = ARENA_ARRAY(arena, int, p->nvars);
    memcpy(values, r.values, sizeof *values * (size_t)p->nvars);
    r.values = values;
  }
  arena_free(scratch);
  return r;
}
