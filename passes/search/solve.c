/* passes/search/solve.c - the Lagrangian sweep around the memory limit, and what is done when tables were split; see
 * solve.h. The elimination is compiled in program.c and computed in step.c; frontiers are in
 * frontier.c. */
#include <math.h>
#include <string.h>

#include "passes/search/private.h"
#include "passes/search/watch.h"

typedef struct Solver {
  const SolveProblem *p;
  Arena *arena;
  StepProgram *program;
  struct {
    int *items;
    size_t n, cap;
  } * of_var; /* factors; only filled when needed */
  SolveResult *result;
  double enough, little; /* the last weights of memory with which the limit was kept, and not; 0: none */
} Solver;

/* Seconds per byte at which the least memory comes first. */
static const double steep = 1e6;

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

static double memory_of(const SolveProblem *p, int var, int value) {
  return p->memory && p->memory[var] ? p->memory[var][value] : 0;
}

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
      double rest = x->memory - memory_of(s->p, var, now),
             least = around(s, var, x->values) + lambda * memory_of(s->p, var, now);
      if (search_watch_work(s->p->watch, 10.0 * s->p->domain[var] * (double)(s->of_var[var].n + 1))) break;
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

/* Of interest are times up to the incumbent's.  Above, the solution is not feasible, and the bound says that it is
 * above. */
static Point solve_weighted(Solver *s, double lambda) {
  const SolveProblem *p = s->p;
  double most = p->stop_above > 0 ? p->stop_above : INFINITY;
  if (s->result->feasible) most = fmin(most, s->result->time);
  if (lambda > 0) most += lambda * p->memory_limit;
  most *= 1 + 1e-9;
  Point r = {.bound = elimination_run(s->program, lambda, most), .values = ARENA_ARRAY(s->arena, int, p->nvars)};
  s->result->work += s->program->work;
  if (isnan(r.bound)) return (Point){.bound = -INFINITY};
  r.feasible = r.bound < INFINITY;
  if (!r.feasible && most < INFINITY) r.bound = most * (1 + 1e-9);
  if (!r.feasible) return r;
  elimination_assign(s->program, lambda, r.values);
  r.time = solve_evaluate(s->p, r.values, &r.memory);
  if (s->program->split) descend(s, lambda, INFINITY, &r);
  r.feasible = r.time < INFINITY;
  return r;
}

/* What choices are looked for within. */
static double aim_of(const SolveProblem *p) {
  return p->memory_aim > 0 ? fmin(p->memory_aim, p->memory_limit) : p->memory_limit;
}

static bool fits(const Solver *s, const Point *x) { return x->feasible && x->memory <= aim_of(s->p); }

static void keep(Solver *s, const Point *x) {
  SolveResult *r = s->result;
  if (!fits(s, x) || (r->feasible && x->time >= r->time)) return;
  r->feasible = true;
  r->time = x->time;
  r->memory = x->memory;
  r->values = x->values;
}

static bool out_of_time(const SolveProblem *p) { return p->watch && p->watch->expired; }

static bool above(const SolveProblem *p, double bound) { return p->stop_above > 0 && bound > p->stop_above; }

/* The first variables as in one choice, the others as in the other one: both are cheapest for one weight, so only the
 * seam costs more. The longest part of the faster one that keeps the limit, then coordinate descent. */
static void mix(Solver *s, const Point *under, const Point *over) {
  int low = 0, high = s->p->nvars;
  size_t bytes = sizeof(int) * (size_t)s->p->nvars;
  Point x = {.feasible = true, .values = ARENA_ARRAY(s->arena, int, s->p->nvars)};
  while (high - low > 1) {
    int middle = low + (high - low) / 2;
    memcpy(x.values, under->values, bytes);
    memcpy(x.values, over->values, sizeof(int) * (size_t)middle);
    x.time = solve_evaluate(s->p, x.values, &x.memory);
    if (x.memory <= aim_of(s->p)) low = middle;
    else high = middle;
  }
  memcpy(x.values, under->values, bytes);
  memcpy(x.values, over->values, sizeof(int) * (size_t)low);
  x.time = solve_evaluate(s->p, x.values, &x.memory);
  if (x.time < INFINITY) descend(s, 0, aim_of(s->p), &x);
  x.feasible = x.time < INFINITY;
  keep(s, &x);
}

/* The last weights on both sides of the limit, where a larger program of the same problem begins. */
static void note_side(Solver *s, const Point *x, double lambda) {
  if (lambda > 0 && lambda < steep && x->feasible) *(fits(s, x) ? &s->enough : &s->little) = lambda;
}

/* What a weighted solution says about the time of all choices within the limit. */
static void raise_bound(Solver *s, const Point *x, double lambda) {
  double bound = x->bound - (lambda > 0 ? lambda * s->p->memory_limit : 0);
  if (lambda == steep || bound <= s->result->lower_bound) return; /* steep sums have no digits left for the time */
  s->result->lower_bound = bound;
  s->result->memory_weight = lambda;
}

/* The facets of the lower hull around the limit, by secants: each solution is a vertex, so the sweep ends; sooner when
 * the bound can hardly become better. */
static void sweep(Solver *s, Point under, Point over) {
  const double enough = 1e-3;
  const SolveProblem *p = s->p;
  for (int i = 0; i < 60; i++) {
    double lambda = (under.time - over.time) / (over.memory - under.memory);
    if (!(lambda > 0) || !(lambda < INFINITY)) break;
    double most = over.time + lambda * (over.memory - p->memory_limit);
    if (most <= s->result->lower_bound * (1 + enough)) break;
    Point x = solve_weighted(s, lambda);
    raise_bound(s, &x, lambda);
    if (above(p, s->result->lower_bound)) return;
    if (!x.feasible) break;
    keep(s, &x);
    note_side(s, &x, lambda);
    bool vertex = x.time + lambda * x.memory < (over.time + lambda * over.memory) * (1 - 1e-12);
    if (!vertex) break;
    if (fits(s, &x)) under = x;
    else over = x;
  }
  mix(s, &under, &over);
}

/* Tries weights in turn until a solution is on the wanted side of the limit; *x gets the last one. */
static bool find_side(Solver *s, const double *weights, int n, bool within, Point *x) {
  for (int i = 0; i < n; i++) {
    *x = solve_weighted(s, weights[i]);
    raise_bound(s, x, weights[i]);
    if (above(s->p, s->result->lower_bound) || !x->feasible) return false;
    keep(s, x);
    note_side(s, x, weights[i]);
    if (fits(s, x) == within) return true;
  }
  return false;
}

/* With the limit: solutions on both sides of it, then the sweep between them.  False when nothing is known to fit. */
static bool solve_limited(Solver *s) {
  const SolveProblem *p = s->p;
  bool known = s->little > 0 && s->little < s->enough;
  double guess = p->memory_limit < INFINITY ? known ? s->enough : p->memory_weight : 0,
         up[] = {1.25 * guess, 4 * guess, steep},
         down[] = {known ? s->little : guess / 1.25, (known ? s->little : guess) / 4, 0};
  Point first = solve_weighted(s, guess), over = first, under = first;
  raise_bound(s, &first, guess);
  if (!first.feasible || above(p, s->result->lower_bound)) return true;
  keep(s, &first);
  note_side(s, &first, guess);
  if (fits(s, &first)) {
    if (guess == 0) return true;
    if (!find_side(s, down, 3, false, &over)) { /* without any weight it fits as well */
      if (over.feasible) s->result->memory_weight = 0;
      return true;
    }
  } else if (!find_side(s, guess > 0 ? up : up + 2, guess > 0 ? 3 : 1, true, &under)) {
    return !s->program->split;
  }
  sweep(s, under, over);
  return true;
}

/* Exact frontiers: for the limit they prove the bound, for the aim they find the choice. */
static bool solve_exactly(Solver *s, const int *order) {
  SolveResult *r = s->result, proof = *r;
  SolveProblem aimed = *s->p;
  if (s->program->split || !frontier_solve(s->p, order, &proof, s->arena)) return false;
  r->lower_bound = proof.time;
  aimed.memory_limit = aim_of(s->p);
  if (aimed.memory_limit == s->p->memory_limit) {
    *r = proof;
    return true;
  }
  frontier_solve(&aimed, order, r, s->arena);
  return false;
}

static void solve_into(Solver *s, const int *order) {
  SolveResult *r = s->result;
  bool known = solve_limited(s), split = s->program->split;
  if (above(s->p, r->lower_bound) || !known || out_of_time(s->p)) return;
  if (!r->feasible) {
    r->exact = !split && aim_of(s->p) == s->p->memory_limit;
    return;
  }
  r->exact = r->lower_bound >= r->time * (1 - 1e-9) || solve_exactly(s, order);
  if (r->exact) r->lower_bound = r->time;
}

/* ---- what does not matter */

/* The factor without the places at which it tells no values apart: they would tie variables to each other for
 * nothing. */
static SolveFactor without_single_classes(const SolveFactor *f, Arena *a) {
  SolveFactor out = {.table = f->table};
  int *vars = ARENA_ARRAY(a, int, f->n + 1), *classes = ARENA_ARRAY(a, int, f->n + 1);
  const int **maps = ARENA_ARRAY(a, const int *, f->n + 1);
  for (int i = 0; i < f->n; i++) {
    if (f->classes[i] == 1) continue;
    vars[out.n] = f->vars[i];
    maps[out.n] = f->maps[i];
    classes[out.n++] = f->classes[i];
  }
  out.vars = vars;
  out.maps = maps;
  out.classes = classes;
  return out;
}

static SolveProblem simplified(const SolveProblem *p, Arena *a) {
  SolveProblem out = *p;
  SolveFactor *factors = ARENA_ARRAY(a, SolveFactor, p->nfactors + 1);
  out.factors = factors;
  out.nfactors = 0;
  for (size_t f = 0; f < p->nfactors; f++) {
    factors[out.nfactors] = without_single_classes(&p->factors[f], a);
    if (factors[out.nfactors].n) out.nfactors++;
    else out.constant += p->factors[f].table[0];
  }
  return out;
}

/* ---- what was large */

static void keep_join(SolveResult *r, const Elimination *e, const Step *s, Arena *arena) {
  int at = r->njoins < SOLVE_JOINS ? r->njoins++ : SOLVE_JOINS;
  for (; at > 0 && s->work > r->joins[at - 1].work; at--)
    if (at < SOLVE_JOINS) r->joins[at] = r->joins[at - 1];
  if (at == SOLVE_JOINS) return;
  int *scope = ARENA_ARRAY(arena, int, s->n + 1);
  memcpy(scope, e->scope, sizeof *scope * (size_t)s->n);
  r->joins[at] = (SolveJoin){e->var, s->n, scope, s->work};
}

/* Equal joins are one step: its first elimination stands for all. */
static void find_joins(const StepProgram *p, SolveResult *r, Arena *arena) {
  int next = 0;
  r->njoins = r->width = 0;
  for (int i = 0; i < p->n; i++) {
    const Elimination *e = &p->eliminations[i];
    const Step *s = p->steps[e->step];
    r->width = s->n > r->width ? s->n : r->width;
    if (e->step != next) continue;
    next++;
    keep_join(r, e, s, arena);
  }
}

/* ---- how large joins may be */

/* A program with joins up to `cap`, or, when all of them together are more than the budget and some are split anyway,
 * up to less. */
static StepProgram *compile_within(SolveProblem *p, const int *order, double cap, double budget, bool lower,
                                   Arena **arena) {
  const double least_cap = 1e3;
  for (;; cap /= 3) {
    *arena = arena_new();
    p->table_cap = cap;
    StepProgram *program = elimination_compile(p, order, true, *arena);
    bool enough = program->work <= budget || !program->split || cap < least_cap || out_of_time(p);
    if (enough || !lower) return enough ? program : NULL;
    arena_free(*arena);
  }
}

/* One run of a program may form so many sums; with a memory limit there are several runs. */
static double budget_of(const SolveProblem *p) { return 64 * p->table_cap / (p->memory_limit < INFINITY ? 8 : 1); }

/* When splitting joins has left it open whether the bound can be reached, larger ones are tried, if all of them
 * together are not too large. */
static void solve_in_steps(Solver *s, SolveProblem *p, const int *order, Arena *arena) {
  SolveResult *r = s->result;
  const double cap = p->table_cap, budget = budget_of(p);
  Arena *programs[2] = {NULL};
  double start = search_watch_processor();
  s->program = compile_within(p, order, cap, budget, true, &programs[0]);
  r->order_seconds += search_watch_processor() - start;
  find_joins(s->program, r, arena);
  start = search_watch_processor();
  solve_into(s, order);
  r->sum_seconds += search_watch_processor() - start;
  if (p->settle && s->program->split && !r->exact && !above(p, r->lower_bound) && !out_of_time(p)) {
    start = search_watch_processor();
    StepProgram *larger = compile_within(p, order, 10 * p->table_cap, budget, false, &programs[1]);
    r->order_seconds += search_watch_processor() - start;
    start = search_watch_processor();
    if (larger) {
      s->program = larger;
      find_joins(larger, r, arena);
      solve_into(s, order);
    }
    r->sum_seconds += search_watch_processor() - start;
  }
  for (int i = 0; i < 2; i++)
    if (programs[i]) arena_free(programs[i]);
}

SolveResult solve(const SolveProblem *given, Arena *arena) {
  SolveResult r = {0};
  Arena *scratch = arena_new();
  SolveProblem simple = simplified(given, scratch), *p = &simple;
  Solver s = {.p = p, .arena = scratch, .result = &r};
  double start = search_watch_processor();
  const int *order = elimination_order(p, scratch);
  r.order_seconds = search_watch_processor() - start;
  solve_in_steps(&s, p, order, arena);
  if (r.feasible) {
    int *values = ARENA_ARRAY(arena, int, p->nvars);
    memcpy(values, r.values, sizeof *values * (size_t)p->nvars);
    r.values = values;
  }
  arena_free(scratch);
  return r;
}
