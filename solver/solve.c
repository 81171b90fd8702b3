/* solver/solve.c - the Lagrangian sweep around the memory limit, and improvements when tables were split; see solve.h.
 * The elimination is compiled in program.c and computed in step.c; frontiers are in frontier.c. */
#include <math.h>
#include <string.h>

#include "solver/private.h"
#include "solver/watch.h"

/* A solution for time + lambda * memory. */
typedef struct Point {
  bool feasible;
  double bound;        /* lower bound of the weighted sum */
  double time, memory; /* without the rests */
  double whole;        /* time with the rests */
  int *values;
} Point;

typedef struct Solver {
  const SolveProblem *p;
  Arena *arena;
  StepProgram *program;
  struct {
    int *items;
    size_t n, cap;
  } * of_var; /* factors, then rests; filled on first use */
  SolveResult *result;
  double enough, little; /* the last weights of memory with a solution within the limit, and above it; 0 if none */
  double aim_bound;      /* the lower bound of time over all choices within the aim */
  bool unlimited;        /* the fastest choice is within the limit */
} Solver;

/* Seconds per byte at which memory outweighs time. */
static const double steep = 1e6;

/* ---- improving a whole assignment, one variable at a time */

static const SolveFactor *factor_at(const SolveProblem *p, size_t i) {
  return i < p->nfactors ? &p->factors[i] : &p->rests[i - p->nfactors];
}

static void find_factors(Solver *s) {
  if (s->of_var) return;
  s->of_var = arena_alloc(s->arena, sizeof *s->of_var * (size_t)s->p->nvars);
  for (size_t f = 0; f < s->p->nfactors + s->p->nrests; f++) {
    const SolveFactor *k = factor_at(s->p, f);
    for (int i = 0; i < k->n; i++) ARENA_PUSH(s->arena, &s->of_var[k->vars[i]], (int)f);
  }
}

static void evaluate(const SolveProblem *p, Point *x) {
  x->whole = x->time = solve_evaluate(p, x->values, &x->memory);
  for (size_t i = 0; i < p->nrests; i++) x->whole += solve_factor_cost(&p->rests[i], x->values);
}

static double memory_of(const SolveProblem *p, int var, int value) {
  return p->memory && p->memory[var] ? p->memory[var][value] : 0;
}

/* Adds the cost of a factor for each value of one of its variables; the other variables keep their values. */
static void add_costs(const SolveFactor *k, int var, int domain, int *values, double *sums) {
  size_t base = 0, stride = 1;
  const int *map = NULL;
  if (!k->table) {
    int now = values[var];
    for (values[var] = 0; values[var] < domain; values[var]++) sums[values[var]] += solve_factor_cost(k, values);
    values[var] = now;
    return;
  }
  for (int i = 0; i < k->n; i++) {
    base *= (size_t)k->classes[i], stride *= map ? (size_t)k->classes[i] : 1;
    if (k->vars[i] == var) map = k->maps[i];
    else base += (size_t)k->maps[i][values[k->vars[i]]];
  }
  for (int v = 0; v < domain; v++) sums[v] += k->table[base + stride * (size_t)map[v]];
}

/* Sums the costs that depend on one variable, for each of its values. */
static void find_around(const Solver *s, int var, int *values, double *sums) {
  memcpy(sums, s->p->time[var], sizeof *sums * (size_t)s->p->domain[var]);
  for (size_t i = 0; i < s->of_var[var].n; i++)
    add_costs(factor_at(s->p, (size_t)s->of_var[var].items[i]), var, s->p->domain[var], values, sums);
}

/* Marks the variables that share a factor with this one: their best values may have changed. */
static void look_again(const Solver *s, int var, bool *settled) {
  for (size_t i = 0; i < s->of_var[var].n; i++) {
    const SolveFactor *k = factor_at(s->p, (size_t)s->of_var[var].items[i]);
    for (int j = 0; j < k->n; j++) settled[k->vars[j]] = false;
  }
}

/* Coordinate descent on time + lambda * memory, keeping the memory within the limit. */
static void descend(Solver *s, double lambda, double limit, Point *x) {
  find_factors(s);
  bool better = true;
  int widest = 1;
  for (int var = 0; var < s->p->nvars; var++) widest = s->p->domain[var] > widest ? s->p->domain[var] : widest;
  double *around = ARENA_ARRAY(s->arena, double, widest);
  bool *settled = ARENA_ARRAY(s->arena, bool, s->p->nvars + 1);
  for (int sweep = 0; better && sweep < 20; sweep++) {
    better = false;
    for (int var = 0; var < s->p->nvars; var++) {
      int best = x->values[var], now = best;
      if (settled[var] && limit == INFINITY) continue; /* no neighbour has changed */
      if (solve_watch_work(s->p->watch, 10.0 * s->p->domain[var] * (double)(s->of_var[var].n + 1))) break;
      find_around(s, var, x->values, around);
      double rest = x->memory - memory_of(s->p, var, now), least = around[now] + lambda * memory_of(s->p, var, now);
      for (int v = 0; v < s->p->domain[var]; v++) {
        double memory = memory_of(s->p, var, v);
        if (v == now || rest + memory > limit) continue;
        double sum = around[v] + lambda * memory;
        if (sum < least * (1 - 1e-12)) least = sum, best = v, better = true;
      }
      x->values[var] = best;
      x->memory = rest + memory_of(s->p, var, best);
      if (best != now) look_again(s, var, settled);
      settled[var] = true;
    }
  }
  evaluate(s->p, x);
}

/* ---- one weight of memory */

/* Upper limit of weighted sums of interest: those of times up to the incumbent's. */
static double most_of_interest(const Solver *s, double lambda) {
  double most = s->p->stop_above > 0 ? s->p->stop_above : INFINITY;
  if (s->result->feasible) most = fmin(most, s->result->time);
  if (lambda > 0) most += lambda * s->p->memory_limit;
  return most * (1 + 1e-9);
}

/* Tables give no exact numbers above `most`. */
static double at_most(double bound, double most) { return fmin(bound, most * (1 + 1e-9)); }

/* Solves for one weight of memory.  If the optimum is above the limit of interest, the result is not feasible and its
 * bound is that limit. */
static Point solve_weighted(Solver *s, double lambda) {
  const SolveProblem *p = s->p;
  double most = most_of_interest(s, lambda);
  Point r = {.bound = elimination_run(s->program, lambda, most), .values = ARENA_ARRAY(s->arena, int, p->nvars)};
  s->result->work += s->program->work;
  if (isnan(r.bound)) return (Point){.bound = -INFINITY};
  r.feasible = r.bound < INFINITY;
  r.bound = at_most(r.bound, most);
  if (!r.feasible) return r;
  elimination_assign(s->program, lambda, r.values);
  evaluate(s->p, &r);
  if (s->program->split) descend(s, lambda, INFINITY, &r);
  r.feasible = r.whole < INFINITY;
  return r;
}

/* Memory limit for choices. */
static double aim_of(const SolveProblem *p) {
  return p->memory_aim > 0 ? fmin(p->memory_aim, p->memory_limit) : p->memory_limit;
}

static bool fits(const Solver *s, const Point *x) { return x->feasible && x->memory <= aim_of(s->p); }

static void keep(Solver *s, const Point *x) {
  SolveResult *r = s->result;
  if (!fits(s, x) || (r->feasible && x->whole >= r->time)) return;
  size_t bytes = sizeof *r->values * (size_t)s->p->nvars; /* copied, because the point may be improved later */
  r->feasible = true;
  r->time = x->whole;
  r->memory = x->memory;
  r->values = memcpy(arena_alloc(s->arena, bytes + 1), x->values, bytes);
}

static bool out_of_time(const SolveProblem *p) { return p->watch && p->watch->expired; }

static bool above(const SolveProblem *p, double bound) { return p->stop_above > 0 && bound > p->stop_above; }

/* Takes the first variables from one choice and the others from another: both are optimal for one weight, so only the
 * seam costs extra.  Keeps the longest prefix of the faster choice within the limit, then applies coordinate
 * descent. */
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
  evaluate(s->p, &x);
  if (x.whole < INFINITY) descend(s, 0, aim_of(s->p), &x);
  x.feasible = x.whole < INFINITY;
  keep(s, &x);
}

/* Notes the last weights on both sides of the limit; a larger program of the same problem starts from them. */
static void note_side(Solver *s, const Point *x, double lambda) {
  if (lambda > 0 && lambda < steep && x->feasible) *(fits(s, x) ? &s->enough : &s->little) = lambda;
}

/* Returns the bound of time over all choices within so much memory. */
static double bound_within(const Point *x, double lambda, double memory) {
  return x->bound - (lambda > 0 ? lambda * memory : 0);
}

/* Raises the lower bounds of time over all choices within the limit and within the aim. */
static void raise_bound(Solver *s, const Point *x, double lambda) {
  if (lambda == steep) return; /* time has no significant digits in steep sums */
  s->unlimited |= lambda == 0 && x->feasible && x->memory <= s->p->memory_limit;
  double bound = bound_within(x, lambda, s->p->memory_limit);
  s->aim_bound = fmax(s->aim_bound, bound_within(x, lambda, aim_of(s->p)));
  if (bound <= s->result->lower_bound) return;
  s->result->lower_bound = bound;
  s->result->memory_weight = lambda;
}

/* True if no weight gives a much higher bound over choices within so much memory, on the facet from `over`. */
static bool hardly_rises(const Point *over, double lambda, double memory, double bound) {
  const double enough = 1e-3;
  return over->time + lambda * (over->memory - memory) <= bound * (1 + enough);
}

/* Follows the facets of the lower hull around the aim by secants.  Each solution is a vertex, so the sweep ends; it
 * stops early when the bounds can hardly improve.  That of the aim tells how good choices can be. */
static void sweep(Solver *s, Point under, Point over) {
  const SolveProblem *p = s->p;
  for (int i = 0; i < 60; i++) {
    double lambda = (under.time - over.time) / (over.memory - under.memory);
    if (!(lambda > 0) || !(lambda < INFINITY)) break;
    bool proved = hardly_rises(&over, lambda, p->memory_limit, s->result->lower_bound);
    if (proved && hardly_rises(&over, lambda, aim_of(p), s->aim_bound)) break;
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

/* Tries weights in order until a solution is on the wanted side of the limit; *x is the last one. */
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

/* Solves with a memory limit: finds solutions on both sides of it, then sweeps between them.  False if no solution is
 * known to fit. */
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
    if (!find_side(s, down, 3, false, &over)) { /* fits without any weight as well */
      if (over.feasible) s->result->memory_weight = 0;
      return true;
    }
  } else if (!find_side(s, guess > 0 ? up : up + 2, guess > 0 ? 3 : 1, true, &under)) {
    return !s->program->split;
  }
  sweep(s, under, over);
  return true;
}

static bool is_reached(const SolveResult *r) { return r->lower_bound >= r->time * (1 - 1e-9); }

/* Keeps a choice found by frontiers, whose time excludes the rests. */
static void keep_frontier(Solver *s, const SolveResult *found) {
  const size_t bytes = sizeof(int) * (size_t)s->p->nvars;
  if (!found->feasible) return;
  Point x = {.feasible = true, .values = arena_alloc(s->arena, bytes + 1)}; /* a copy: descent changes it */
  memcpy(x.values, found->values, bytes);
  evaluate(s->p, &x);
  keep(s, &x);
  if (s->p->nrests) descend(s, 0, aim_of(s->p), &x);
  keep(s, &x);
}

/* Solves by exact frontiers over the tables: with the limit they prove the bound, which the fastest choice proves if it
 * is within the limit; with the aim they find a choice. */
static bool solve_exactly(Solver *s, const int *order) {
  SolveResult *r = s->result, proof = *r, choice = *r;
  SolveProblem aimed = *s->p;
  aimed.memory_limit = aim_of(s->p);
  bool same = aimed.memory_limit == s->p->memory_limit;
  if (s->program->split) return false;
  if (!s->unlimited) {
    if (!frontier_solve(s->p, order, &proof, s->arena)) return false;
    r->lower_bound = fmax(r->lower_bound, proof.time);
  }
  if (same) choice = proof;
  if (same || frontier_solve(&aimed, order, &choice, s->arena)) keep_frontier(s, &choice);
  return same && is_reached(r);
}

static void solve_into(Solver *s, const int *order) {
  SolveResult *r = s->result;
  bool known = solve_limited(s), split = s->program->split;
  if (above(s->p, r->lower_bound) || !known || out_of_time(s->p)) return;
  if (!r->feasible) {
    r->exact = !split && aim_of(s->p) == s->p->memory_limit;
    return;
  }
  r->exact = is_reached(r) || solve_exactly(s, order);
  if (r->exact) r->lower_bound = r->time;
}

/* ---- simplification */

/* Removes the places at which a factor distinguishes no values: they would tie variables to each other needlessly. */
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

/* ---- largest joins */

static void keep_join(SolveResult *r, const Elimination *e, const Step *s, Arena *arena) {
  int at = r->njoins < SOLVE_JOINS ? r->njoins++ : SOLVE_JOINS;
  for (; at > 0 && s->work > r->joins[at - 1].work; at--)
    if (at < SOLVE_JOINS) r->joins[at] = r->joins[at - 1];
  if (at == SOLVE_JOINS) return;
  int *scope = ARENA_ARRAY(arena, int, s->n + 1);
  memcpy(scope, e->scope, sizeof *scope * (size_t)s->n);
  r->joins[at] = (SolveJoin){e->var, s->n, scope, s->work};
}

/* Collects the largest joins.  Equal joins are one step, represented by its first elimination. */
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

/* ---- limits of join sizes */

/* Limit of the sums formed by one run; with a memory limit there are several runs. */
static double budget_of(const SolveProblem *p) { return 64 * p->table_cap / (p->memory_limit < INFINITY ? 8 : 1); }

/* Compiles a program with joins up to the cap.  If they exceed the budget together and some are split anyway, lowers
 * the cap. */
static StepProgram *compile_within(SolveProblem *p, const int *order, Arena **arena) {
  const double least_cap = 1e3, budget = budget_of(p);
  for (;; p->table_cap /= 3) {
    *arena = arena_new();
    StepProgram *program = elimination_compile(p, order, true, *arena);
    if (program->work <= budget || !program->split || p->table_cap < least_cap || out_of_time(p)) return program;
    arena_free(*arena);
  }
}

/* ---- costs that tables leave out */

static bool is_over(const Solver *s) {
  return !s->result->feasible || is_reached(s->result) || above(s->p, s->result->lower_bound) || out_of_time(s->p);
}

/* Moves shares by each round's choice, which shows where tables left costs out, and improves the choices found with the
 * rests.  Steps of 1/2, 1/3 ... give the mean of all choices so far. */
static void move_shares(Solver *s) {
  const SolveProblem *p = s->p;
  SolveResult *r = s->result;
  double weight = r->memory_weight;
  const int descents = 4; /* a descent takes about as long as a round */
  const double most_work = 4e9;
  int rounds = s->program->split ? p->split_rounds : p->rounds;
  if (rounds * s->program->work > most_work) rounds = (int)(most_work / s->program->work);
  const int *values = r->values;
  for (int i = 0; i < rounds && p->nrests && !is_over(s); i++) {
    p->share(p->share_of, values, 1. / (i + 2));
    Point x = solve_weighted(s, weight);
    raise_bound(s, &x, weight);
    if (!x.feasible) return;
    values = memcpy(ARENA_ARRAY(s->arena, int, p->nvars), x.values, sizeof *values * (size_t)p->nvars);
    keep(s, &x);
    if (i % descents) continue;
    descend(s, weight, aim_of(p), &x);
    keep(s, &x);
  }
}

static SolveProblem with_rests(const SolveProblem *p, Arena *a) {
  SolveProblem out = *p;
  SolveFactor *all = ARENA_ARRAY(a, SolveFactor, p->nfactors + p->nrests + 1);
  for (size_t i = 0; i < p->nfactors + p->nrests; i++) all[i] = *factor_at(p, i);
  out.factors = all;
  out.nfactors += p->nrests;
  out.table_cap = 0x1p120; /* entries have numbers */
  return out;
}

/* Searches with nothing left out, at the weight of the best bound. */
static void solve_whole(Solver *s, const int *order) {
  const double near = 1e-3; /* share of the time; a larger difference makes most of the search useless (1e-5 to 1e-2
                               tried) */
  SolveResult *r = s->result;
  double weight = r->memory_weight, work = s->p->whole_work;
  if (work <= 0 || (s->program->split && s->p->split_rounds == 0) || is_over(s)) return;
  double most = most_of_interest(s, weight);
  if (isnan(elimination_run(s->program, weight, most))) return;
  SolveProblem p = with_rests(s->p, s->arena);
  StepProgram *whole = elimination_compile(&p, order, false, s->arena);
  Point x = {.feasible = true};
  if (!whole) return;
  x.bound = at_most(best_first(whole, s->program, weight, most, r->time * near, &work, &x.values), most);
  r->work += s->program->work + work;
  raise_bound(s, &x, weight);
  if (!x.values) return;
  evaluate(s->p, &x);
  keep(s, &x);
}

static void solve_in_steps(Solver *s, SolveProblem *p, const int *order, Arena *arena) {
  SolveResult *r = s->result;
  Arena *program;
  double start = solve_watch_processor();
  s->program = compile_within(p, order, &program);
  r->split = s->program->split;
  r->order_seconds += solve_watch_processor() - start;
  find_joins(s->program, r, arena);
  start = solve_watch_processor();
  solve_into(s, order);
  move_shares(s);
  solve_whole(s, order);
  r->exact |= r->feasible && is_reached(r);
  r->sum_seconds += solve_watch_processor() - start;
  arena_free(program);
}

SolveResult solve(const SolveProblem *given, Arena *arena) {
  SolveResult r = {0};
  Arena *scratch = arena_new();
  SolveProblem simple = simplified(given, scratch), *p = &simple;
  Solver s = {.p = p, .arena = scratch, .result = &r};
  double start = solve_watch_processor();
  const int *order = elimination_order(p, scratch);
  r.order_seconds = solve_watch_processor() - start;
  solve_in_steps(&s, p, order, arena);
  if (r.feasible) {
    int *values = ARENA_ARRAY(arena, int, p->nvars);
    memcpy(values, r.values, sizeof *values * (size_t)p->nvars);
    r.values = values;
  }
  arena_free(scratch);
  return r;
}
