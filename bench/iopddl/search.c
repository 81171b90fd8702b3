/* bench/iopddl/search.c - prices and neighbourhoods; see search.h. */
#include "bench/iopddl/search.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "bench/iopddl/tighten.h"
#include "solver/solve.h"
#include "solver/watch.h"

typedef struct Use {
  int begin, end;
  const int64_t *usage; /* by value */
} Use;

typedef struct Variable {
  int domain;
  const Group *group;
  struct {
    Use *items;
    size_t n, cap;
  } uses;
  struct {
    int *items;
    size_t n, cap;
  } pairs;
} Variable;

typedef struct Search {
  const Instance *in;
  Arena *arena;
  uint64_t seed, draws;
  double start, end; /* processor time */
  double solving;    /* seconds of solve() on prices */
  int n;
  Variable *variables;
  int *domain;
  SolveFactor *pairs;
  size_t npairs;
  SolveProblem whole; /* without prices */
  Tighten *tighten;
  double *price, *price_to; /* by time; sums over all earlier times */
  /* The choice: */
  int *value;
  int64_t *used;      /* by time */
  double cost, above; /* above: amount above the limit, summed over times */
  double penalty;     /* per unit above the limit */
  /* A move: */
  int64_t *change, *changed; /* by time: where usage changes (zero between moves); the changes */
  int *inside, stamp;        /* by variable: stamp of the last neighbourhood with it, and its place there */
  int *place;
  int *kept;
  /* The best within the limit: */
  int *best;
  double best_cost, lower_bound;
  long rounds, moves;
} Search;

static uint32_t below(Search *s, uint32_t n) {
  return (uint32_t)((uint64_t)random_bits(s->seed, 0, s->draws++) * n >> 32);
}

static double uniform(Search *s, double low, double high) {
  return low + (high - low) * (double)random_uniform(s->seed, 1, s->draws++);
}

static bool is_late(const Search *s) { return solve_watch_processor() > s->end; }

/* ---- variables */

static void add_uses(Search *s, Variable *x) {
  for (size_t k = 0; k < x->group->parts.n; k++) {
    GroupPart part = x->group->parts.items[k];
    int begin = s->in->begin[part.node], end = s->in->end[part.node];
    if (begin >= end) continue;
    int64_t *usage = ARENA_ARRAY(s->arena, int64_t, x->domain + 1);
    for (int v = 0; v < x->domain; v++) usage[v] = s->in->usage[part.node][part.map[v]];
    ARENA_PUSH(s->arena, &x->uses, ((Use){begin, end, usage}));
  }
}

static void add_pair(Search *s, const GroupPair *p, const int *number, const int *same) {
  int *vars = ARENA_ARRAY(s->arena, int, 2), *classes = ARENA_ARRAY(s->arena, int, 2);
  const int **maps = ARENA_ARRAY(s->arena, const int *, 2);
  for (int k = 0; k < 2; k++) {
    vars[k] = number[p->of[k]];
    classes[k] = s->domain[vars[k]];
    maps[k] = same;
    ARENA_PUSH(s->arena, &s->variables[vars[k]].pairs, (int)s->npairs);
  }
  s->pairs[s->npairs++] = (SolveFactor){.n = 2, .vars = vars, .maps = maps, .classes = classes, .table = p->table};
}

static Search search_new(const Instance *in, const Groups *g, uint64_t seed, Arena *a) {
  Search s = {.in = in, .arena = a, .seed = seed, .best_cost = INFINITY, .lower_bound = -INFINITY};
  size_t n = (size_t)g->n + 1, times = (size_t)in->ntimes + 1;
  int *number = ARENA_ARRAY(a, int, n), widest = 0;
  s.variables = ARENA_ARRAY(a, Variable, n);
  s.domain = ARENA_ARRAY(a, int, n);
  for (int i = 0; i < g->n; i++) {
    if (g->items[i].gone) continue;
    number[i] = s.n;
    s.domain[s.n] = g->items[i].domain;
    s.variables[s.n] = (Variable){.domain = g->items[i].domain, .group = &g->items[i]};
    widest = s.domain[s.n] > widest ? s.domain[s.n] : widest;
    add_uses(&s, &s.variables[s.n++]);
  }
  int *same = ARENA_ARRAY(a, int, widest + 1);
  for (int v = 0; v < widest; v++) same[v] = v;
  s.pairs = ARENA_ARRAY(a, SolveFactor, g->npairs + 1);
  for (int p = 0; p < g->npairs; p++)
    if (!g->pairs[p].gone) add_pair(&s, &g->pairs[p], number, same);
  s.whole = (SolveProblem){.nvars = s.n,
                           .domain = s.domain,
                           .factors = s.pairs,
                           .nfactors = s.npairs,
                           .memory_limit = INFINITY,
                           .table_cap = 3e5,
                           .frontier_cap = 1};
  s.price = ARENA_ARRAY(a, double, times);
  s.price_to = ARENA_ARRAY(a, double, times);
  s.used = ARENA_ARRAY(a, int64_t, times);
  s.change = ARENA_ARRAY(a, int64_t, times);
  s.changed = ARENA_ARRAY(a, int64_t, times);
  s.value = ARENA_ARRAY(a, int, n);
  s.best = ARENA_ARRAY(a, int, n);
  s.inside = ARENA_ARRAY(a, int, n);
  s.place = ARENA_ARRAY(a, int, n);
  s.kept = ARENA_ARRAY(a, int, n);
  return s;
}

static double pair_cost(const SolveFactor *p, const int *value) {
  return p->table[value[p->vars[0]] * p->classes[1] + value[p->vars[1]]];
}

static void sum_prices(Search *s) {
  for (int t = 0; t < s->in->ntimes; t++) s->price_to[t + 1] = s->price_to[t] + s->price[t];
}

/* Cost of a value plus the price of its usage times `scale`. */
static double priced(const Search *s, int i, int v, double scale) {
  const Variable *x = &s->variables[i];
  double sum = 0;
  for (size_t k = 0; k < x->uses.n && scale > 0; k++) {
    const Use *u = &x->uses.items[k];
    sum += (double)u->usage[v] * (s->price_to[u->end] - s->price_to[u->begin]);
  }
  return x->group->cost[v] + scale * sum;
}

/* ---- the choice */

static double above(const Search *s, int64_t used) { return used > s->in->limit ? (double)(used - s->in->limit) : 0; }

static void note_best(Search *s) {
  if (s->above > 0 || !(s->cost < s->best_cost)) return;
  s->best_cost = s->cost;
  memcpy(s->best, s->value, sizeof *s->best * (size_t)s->n);
}

static void take(Search *s, const int *value) {
  int times = s->in->ntimes;
  memmove(s->value, value, sizeof *value * (size_t)s->n);
  memset(s->used, 0, sizeof *s->used * (size_t)(times + 1));
  s->cost = s->above = 0;
  for (int i = 0; i < s->n; i++) {
    const Variable *x = &s->variables[i];
    s->cost += x->group->cost[value[i]];
    for (size_t k = 0; k < x->uses.n; k++) {
      const Use *u = &x->uses.items[k];
      s->used[u->begin] += u->usage[value[i]];
      s->used[u->end] -= u->usage[value[i]];
    }
  }
  for (size_t p = 0; p < s->npairs; p++) s->cost += pair_cost(&s->pairs[p], value);
  for (int t = 1; t < times; t++) s->used[t] += s->used[t - 1];
  for (int t = 0; t < times; t++) s->above += above(s, s->used[t]);
  note_best(s);
}

/* ---- moves */

/* Cost of the variables of a neighbourhood and of their pairs, each counted once. */
static double cost_around(const Search *s, const int *variables, int n) {
  double sum = 0;
  for (int k = 0; k < n; k++) {
    const Variable *x = &s->variables[variables[k]];
    sum += x->group->cost[s->value[variables[k]]];
    for (size_t e = 0; e < x->pairs.n; e++) {
      const SolveFactor *p = &s->pairs[x->pairs.items[e]];
      if (p->vars[0] == variables[k] || s->inside[p->vars[0]] != s->stamp) sum += pair_cost(p, s->value);
    }
  }
  return sum;
}

typedef struct Reach {
  int first, end;
} Reach;

static void change_usage(Search *s, int i, int from, int to, Reach *reach) {
  const Variable *x = &s->variables[i];
  for (size_t k = 0; k < x->uses.n; k++) {
    const Use *u = &x->uses.items[k];
    int64_t d = u->usage[to] - u->usage[from];
    if (!d) continue;
    s->change[u->begin] += d;
    s->change[u->end] -= d;
    if (u->begin < reach->first) reach->first = u->begin;
    if (u->end > reach->end) reach->end = u->end;
  }
}

/* Change of the amount above the limit. */
static double change_above(Search *s, Reach reach) {
  double more = 0;
  int64_t sum = 0;
  for (int t = reach.first; t < reach.end; t++) {
    sum += s->change[t];
    s->change[t] = 0;
    s->changed[t] = sum;
    if (sum) more += above(s, s->used[t] + sum) - above(s, s->used[t]);
  }
  if (reach.end <= s->in->ntimes) s->change[reach.end] = 0;
  return more;
}

/* Gives the variables of the neighbourhood these values if the result is worse by at most `slack`. */
static bool try_move(Search *s, const int *variables, const int *values, int n, double slack) {
  Reach reach = {.first = s->in->ntimes, .end = 0};
  double before = cost_around(s, variables, n);
  for (int k = 0; k < n; k++) {
    s->kept[k] = s->value[variables[k]];
    s->value[variables[k]] = values[k];
  }
  double more = cost_around(s, variables, n) - before, more_above = 0;
  if (more < INFINITY) {
    for (int k = 0; k < n; k++) change_usage(s, variables[k], s->kept[k], values[k], &reach);
    if (reach.end) more_above = change_above(s, reach);
  }
  if (!(more + s->penalty * more_above <= slack)) {
    for (int k = 0; k < n; k++) s->value[variables[k]] = s->kept[k];
    return false;
  }
  s->cost += more;
  s->above += more_above;
  for (int t = reach.first; t < reach.end; t++) s->used[t] += s->changed[t];
  note_best(s);
  return true;
}

/* Collects a variable and some around it; all that share pairs with it if there is room. */
static int find_ball(Search *s, int from, int most, int *ball) {
  int n = 0;
  s->stamp++;
  ball[n++] = from;
  s->inside[from] = s->stamp;
  for (int at = 0; at < n && n < most; at++) {
    const Variable *x = &s->variables[ball[at]];
    uint32_t skip = x->pairs.n ? below(s, (uint32_t)x->pairs.n) : 0;
    for (size_t e = 0; e < x->pairs.n && n < most; e++) {
      const SolveFactor *p = &s->pairs[x->pairs.items[(e + skip) % x->pairs.n]];
      int other = p->vars[p->vars[0] == ball[at]];
      if (s->inside[other] == s->stamp || (at > 0 && below(s, 4) == 0)) continue;
      s->inside[other] = s->stamp;
      ball[n++] = other;
    }
  }
  for (int k = 0; k < n; k++) s->place[ball[k]] = k;
  return n;
}

/* The problem of a neighbourhood with all other variables fixed. */
static SolveProblem problem_of(const Search *s, const int *ball, int n, double scale, Arena *a) {
  int *domain = ARENA_ARRAY(a, int, n + 1);
  const double **time = ARENA_ARRAY(a, const double *, n + 1);
  size_t nfactors = 0, most = 0;
  for (int k = 0; k < n; k++) most += s->variables[ball[k]].pairs.n;
  SolveFactor *factors = ARENA_ARRAY(a, SolveFactor, most + 1);
  for (int k = 0; k < n; k++) {
    int i = ball[k];
    const Variable *x = &s->variables[i];
    double *own = ARENA_ARRAY(a, double, x->domain + 1);
    domain[k] = x->domain;
    time[k] = own;
    for (int v = 0; v < x->domain; v++) own[v] = priced(s, i, v, scale);
    for (size_t e = 0; e < x->pairs.n; e++) {
      const SolveFactor *p = &s->pairs[x->pairs.items[e]];
      int side = p->vars[1] == i, other = p->vars[!side], set = s->value[other];
      if (s->inside[other] != s->stamp) {
        for (int v = 0; v < x->domain; v++)
          own[v] += p->table[side == 0 ? v * p->classes[1] + set : set * p->classes[1] + v];
      } else if (side == 0) {
        int *vars = ARENA_ARRAY(a, int, 2);
        vars[0] = k, vars[1] = s->place[other];
        factors[nfactors] = *p;
        factors[nfactors++].vars = vars;
      }
    }
  }
  return (SolveProblem){.nvars = n,
                        .domain = domain,
                        .time = time,
                        .factors = factors,
                        .nfactors = nfactors,
                        .memory_limit = INFINITY,
                        .table_cap = 3e4,
                        .frontier_cap = 1};
}

static bool choose_again(Search *s, int from, int most, double scale, double slack) {
  Arena *a = arena_new();
  int *ball = ARENA_ARRAY(a, int, most + 1), n = find_ball(s, from, most, ball);
  SolveProblem p = problem_of(s, ball, n, scale, a);
  SolveResult r = solve(&p, a);
  bool moved = r.feasible && try_move(s, ball, r.values, n, slack);
  s->moves++;
  arena_free(a);
  return moved;
}

/* ---- prices */

/* Finds a choice that is cheap at the prices, and the bound that they prove.  solve() spends at most half of the time
 * on the tightened problem. */
static void solve_priced(Search *s, int sweeps, double *bound, int *value) {
  Arena *a = arena_new();
  const double **time = ARENA_ARRAY(a, const double *, s->n + 1);
  double limits = 0, now = solve_watch_processor();
  for (int i = 0; i < s->n; i++) {
    double *own = ARENA_ARRAY(a, double, s->domain[i] + 1);
    for (int v = 0; v < s->domain[i]; v++) own[v] = priced(s, i, v, 1);
    time[i] = own;
  }
  if (s->in->limit < INT64_MAX) limits = s->price_to[s->in->ntimes] * (double)s->in->limit;
  tighten_sweep(s->tighten, time, sweeps);
  tighten_choose(s->tighten, time, value);
  SolveProblem p = tighten_moved(s->tighten, time, a);
  *bound = p.constant - limits;
  if (s->solving <= (now - s->start) / 2) {
    SolveResult r = solve(&p, a);
    *bound = fmax(*bound, r.lower_bound - limits);
    if (r.feasible) memcpy(value, r.values, sizeof *value * (size_t)s->n);
    s->solving += solve_watch_processor() - now;
  }
  arena_free(a);
}

/* Finds the worst time of every interval above the limit, and the times that have a price. */
static void find_gradient(const Search *s, double *gradient) {
  for (int t = 0; t < s->in->ntimes;) {
    int worst = t;
    if (above(s, s->used[t]) == 0) {
      gradient[t] = s->price[t] > 0 ? (double)(s->used[t] - s->in->limit) : 0;
      t++;
      continue;
    }
    for (; t < s->in->ntimes && above(s, s->used[t]) > 0; t++) {
      gradient[t] = s->price[t] > 0 ? above(s, s->used[t]) : 0;
      if (s->used[t] > s->used[worst]) worst = t;
    }
    gradient[worst] = above(s, s->used[worst]);
  }
}

/* Steps along the gradient, as far as a linear bound would need to reach `target`. */
static void move_prices(Search *s, const double *gradient, double bound, double target, double step) {
  double square = 0;
  for (int t = 0; t < s->in->ntimes; t++) square += gradient[t] * gradient[t];
  if (square <= 0) return;
  for (int t = 0; t < s->in->ntimes; t++)
    s->price[t] = fmax(0, s->price[t] + step * (target - bound) / square * gradient[t]);
  sum_prices(s);
}

/* Number of cost sweeps between prices: more if they are fast. */
static int sweeps_of(const Search *s) {
  double entries = 1;
  for (size_t p = 0; p < s->npairs; p++) entries += (double)s->pairs[p].classes[0] * s->pairs[p].classes[1];
  return (int)fmax(2, fmin(20, 5e6 / entries));
}

/* Iterates until steps are short.  After some rounds without a better bound, halves the step and restarts at the best
 * prices. */
static void find_prices(Search *s, double until) {
  const int first_sweeps = 50, sweeps = sweeps_of(s), patience = 20;
  const double least_step = 1e-4, matters = 1e-3;
  size_t bytes = sizeof(double) * (size_t)(s->in->ntimes + 1);
  double *gradient = arena_alloc(s->arena, bytes), *best = arena_alloc(s->arena, bytes), step = 1, bound;
  int *value = ARENA_ARRAY(s->arena, int, s->n + 1), since = 0;
  for (; step > least_step && solve_watch_processor() < until; s->rounds++) {
    solve_priced(s, s->rounds ? sweeps : first_sweeps, &bound, value);
    take(s, value);
    if (bound > s->lower_bound) {
      if (bound > s->lower_bound + matters * fabs(bound)) since = 0;
      s->lower_bound = bound;
      memcpy(best, s->price, bytes);
    }
    if (++since > patience) {
      step /= 2, since = 0;
      memcpy(s->price, best, bytes);
    }
    find_gradient(s, gradient);
    double target = s->best_cost < INFINITY ? s->best_cost : fmax(bound * 1.2, s->cost);
    move_prices(s, gradient, bound, target, step);
  }
  memcpy(s->price, best, bytes);
  sum_prices(s);
}

/* ---- neighbourhoods */

/* Returns a variable that is live where usage exceeds the limit most; any variable if none does. */
static int find_start(Search *s) {
  if (s->above <= 0) return (int)below(s, (uint32_t)s->n);
  int t = 0;
  for (int k = 0; k < s->in->ntimes; k++)
    if (s->used[k] > s->used[t]) t = k;
  for (int k = 0; k < 1000; k++) {
    int i = (int)below(s, (uint32_t)s->n);
    const Variable *x = &s->variables[i];
    for (size_t u = 0; u < x->uses.n; u++)
      if (x->uses.items[u].begin <= t && t < x->uses.items[u].end) return i;
  }
  return (int)below(s, (uint32_t)s->n);
}

/* Improves one neighbourhood after the other, of 1 to 128 variables, with prices scaled by up to 2, or none.  The
 * penalty rises while the limit is exceeded and falls while it is kept. */
static void improve(Search *s) {
  const double factor = 1.5, rounding = 1e-9;
  long high = 0, low = 0;
  while (!is_late(s)) {
    int most = 1 << below(s, 8);
    double scale = below(s, 3) ? uniform(s, 0, 2) : 0;
    if (s->above > 0 && below(s, 2)) scale *= 4;
    choose_again(s, find_start(s), most, scale, rounding * s->cost);
    if (s->above > 0) high++, low = 0;
    else low++, high = 0;
    if (high >= 30 + s->n / 100) s->penalty *= factor, high = 0;
    if (low >= 30 + s->n / 4) s->penalty /= factor, low = 0;
  }
}

/* Returns the strategies by node. */
static int *strategies(const Search *s, const int *value, Arena *a) {
  int *x = ARENA_ARRAY(a, int, s->in->n + 1);
  for (int i = 0; i < s->n; i++)
    for (size_t k = 0; k < s->variables[i].group->parts.n; k++) {
      GroupPart part = s->variables[i].group->parts.items[k];
      x[part.node] = part.map[value[i]];
    }
  return x;
}

static double highest_price(const Search *s) {
  double most = 0;
  for (int t = 0; t < s->in->ntimes; t++) most = fmax(most, s->price[t]);
  return most;
}

SearchResult search_run(const Instance *in, const Groups *g, double seconds, uint64_t seed, Arena *a) {
  Search s = search_new(in, g, seed, a);
  s.start = solve_watch_processor();
  s.end = s.start + seconds;
  s.tighten = tighten_new(&s.whole, a);
  find_prices(&s, s.start + seconds / 3);
  SearchResult r = {.bound_seconds = solve_watch_processor() - s.start};
  s.penalty = highest_price(&s);
  if (s.penalty <= 0) s.penalty = 1;
  if (s.best_cost < INFINITY) take(&s, s.best);
  improve(&s);
  r.feasible = s.best_cost < INFINITY;
  r.strategy = strategies(&s, s.best, a);
  r.cost = s.best_cost;
  r.lower_bound = s.lower_bound;
  r.rounds = s.rounds, r.moves = s.moves;
  return r;
}
