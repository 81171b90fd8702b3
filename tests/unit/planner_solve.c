/* The solver of the planner graph on hand-made problems: its work, sets of layouts, memory limits, time limits. */
#include <stdint.h>
#include <math.h>

#include "solver/set.h"
#include "solver/shares.h"
#include "solver/solve.h"
#include "solver/watch.h"
#include "tests/test.h"

static uint64_t state;

static int below(int n) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return (int)((state >> 33) % (uint64_t)n);
}

/* Multiples of 1/64: their sums are exact in any order. */
static double amount(void) { return (1 + below(1000)) / 64.0; }

static const double no_time[64];

static int *identity(Arena *a, int n) {
  int *map = ARENA_ARRAY(a, int, n);
  for (int i = 0; i < n; i++) map[i] = i;
  return map;
}

static SolveFactor pair(Arena *a, int u, int nu, int v, int nv, const double *table) {
  int *vars = ARENA_ARRAY(a, int, 2), *classes = ARENA_ARRAY(a, int, 2);
  const int **maps = ARENA_ARRAY(a, const int *, 2);
  vars[0] = u, vars[1] = v;
  classes[0] = nu, classes[1] = nv;
  maps[0] = identity(a, nu), maps[1] = identity(a, nv);
  return (SolveFactor){.n = 2, .vars = vars, .maps = maps, .classes = classes, .table = table};
}

typedef struct Problem {
  Arena *arena;
  SolveProblem p;
  int domain[2048];
  const double *time[2048], *memory[2048];
  SolveFactor factors[4096];
} Problem;

static Problem *problem_new(void) {
  Arena *a = arena_new();
  Problem *x = ARENA_NEW(a, Problem);
  x->arena = a;
  x->p = (SolveProblem){.domain = x->domain,
                        .time = x->time,
                        .memory = x->memory,
                        .factors = x->factors,
                        .memory_limit = INFINITY,
                        .table_cap = 1e6,
                        .frontier_cap = 1e5};
  return x;
}

static void add_variable(Problem *x, int domain, const double *time, const double *memory) {
  x->domain[x->p.nvars] = domain;
  x->time[x->p.nvars] = time;
  x->memory[x->p.nvars++] = memory;
}

static void add_factor(Problem *x, SolveFactor f) { x->factors[x->p.nfactors++] = f; }

static double cost_in(const SolveFactor *f, const int *values) {
  int at[16];
  size_t index = 0;
  for (int i = 0; i < f->n; i++) {
    at[i] = f->maps[i][values[f->vars[i]]];
    index = index * (size_t)f->classes[i] + (size_t)at[i];
  }
  return f->table ? f->table[index] : f->cost(f->of, at);
}

/* The values take the result's time and memory, within the limit. */
static bool is_true(const Problem *x, const SolveResult *r) {
  const SolveProblem *p = &x->p;
  double time = p->constant, memory = 0;
  for (int v = 0; v < p->nvars; v++) {
    time += p->time[v][r->values[v]];
    memory += p->memory[v] ? p->memory[v][r->values[v]] : 0;
  }
  for (size_t i = 0; i < p->nfactors; i++) time += cost_in(&p->factors[i], r->values);
  for (size_t i = 0; i < p->nrests; i++) time += cost_in(&p->rests[i], r->values);
  return fabs(time - r->time) <= 1e-9 * time && memory == r->memory && memory <= p->memory_limit;
}

/* A chain of variables with three values; `others` of them are also in one table in which they have one class: a bias
 * that all layers share and use in one layout. */
static Problem *chain(int n, int others) {
  Problem *x = problem_new();
  double *table = ARENA_ARRAY(x->arena, double, 9), *shared = ARENA_ARRAY(x->arena, double, 2);
  int *vars = ARENA_ARRAY(x->arena, int, others + 1), *classes = ARENA_ARRAY(x->arena, int, others + 1);
  const int **maps = ARENA_ARRAY(x->arena, const int *, others + 1);
  state = 7;
  for (int i = 0; i < 9; i++) table[i] = amount();
  shared[0] = 2, shared[1] = 1;
  for (int i = 0; i < n; i++) {
    double *time = ARENA_ARRAY(x->arena, double, 3);
    for (int v = 0; v < 3; v++) time[v] = amount();
    add_variable(x, 3, time, NULL);
  }
  for (int i = 0; i + 1 < n; i++) add_factor(x, pair(x->arena, i, 3, i + 1, 3, table));
  if (!others) return x;
  add_variable(x, 2, no_time, NULL);
  for (int i = 0; i <= others; i++) {
    vars[i] = i < others ? i : n;
    classes[i] = i < others ? 1 : 2;
    maps[i] = i < others ? ARENA_ARRAY(x->arena, int, 3) : identity(x->arena, 2);
  }
  add_factor(x, (SolveFactor){.n = others + 1, .vars = vars, .maps = maps, .classes = classes, .table = shared});
  return x;
}

static void one_class(void) {
  Problem *without = chain(60, 0);
  SolveResult least = solve(&without->p, without->arena);
  CHECK(least.feasible && least.exact && least.width <= 2);
  for (int others = 1; others <= 49; others += 12) {
    Problem *x = chain(60, others);
    SolveResult r = solve(&x->p, x->arena);
    CHECKF(r.exact && r.time == least.time + 1 && r.lower_bound == r.time, "%d users: %g, without %g", others, r.time,
           least.time);
    CHECKF(r.width == least.width && r.work <= least.work + 2, "%d users: width %d, %g sums; without %d, %g", others,
           r.width, r.work, least.width, least.work);
    arena_free(x->arena);
  }
  arena_free(without->arena);
}

/* A table with only such places is a constant, and may forbid everything. */
static void constants(void) {
  static const double seven[] = {7}, forbidden[] = {INFINITY};
  static const int one[] = {1, 1}, vars[] = {3, 9};
  static const int map[3];
  const int *maps[] = {map, map};
  Problem *x = chain(20, 0);
  double without = solve(&x->p, x->arena).time;
  add_factor(x, (SolveFactor){.n = 2, .vars = vars, .maps = maps, .classes = one, .table = seven});
  SolveResult r = solve(&x->p, x->arena);
  CHECK(r.exact && r.time == without + 7 && r.lower_bound == r.time);
  add_factor(x, (SolveFactor){.n = 2, .vars = vars, .maps = maps, .classes = one, .table = forbidden});
  r = solve(&x->p, x->arena);
  CHECK(!r.feasible && r.exact);
  arena_free(x->arena);
}

/* ---- sets of layouts */

enum { MAX_USERS = 7 };

typedef struct Fan {
  SetInput in;
  int classes[MAX_USERS], width[MAX_USERS], output[8];
  const int *lists[MAX_USERS];
  double *seconds, *time[MAX_USERS + 1];
} Fan;

static Fan *random_fan(Arena *a) {
  Fan *f = ARENA_NEW(a, Fan);
  f->in = (SetInput){.nproducers = 1 + below(4),
                     .nlayouts = 3 + below(4),
                     .nusers = 5 + below(MAX_USERS - 4),
                     .classes = f->classes,
                     .width = f->width,
                     .lists = f->lists};
  SetInput *in = &f->in;
  in->seconds = f->seconds = ARENA_ARRAY(a, double, in->nproducers * in->nlayouts);
  for (int p = 0; p < in->nproducers; p++) {
    for (int l = 0; l < in->nlayouts; l++)
      f->seconds[p * in->nlayouts + l] = l == p ? 0 : below(12) == 0 ? INFINITY : amount();
    f->output[p] = below(in->nlayouts);
  }
  if (below(2)) in->output = f->output;
  for (int u = 0; u <= in->nusers; u++) {
    int n = u == in->nusers ? in->nproducers : 1 + below(3);
    f->time[u] = ARENA_ARRAY(a, double, n);
    for (int v = 0; v < n; v++) f->time[u][v] = amount();
    if (u == in->nusers) break;
    f->classes[u] = n;
    f->width[u] = 1 + (below(4) == 0);
    int *list = ARENA_ARRAY(a, int, n * f->width[u]);
    for (int k = 0; k < n * f->width[u]; k++) list[k] = below(in->nlayouts);
    f->lists[u] = list;
  }
  return f;
}

/* The cost of a choice: each layout once. */
static double cost_of(const Fan *f, const int *at) {
  const SetInput *in = &f->in;
  int p = at[in->nusers];
  bool made[8] = {0};
  double sum = f->time[in->nusers][p];
  for (int u = 0; u < in->nusers; u++) {
    sum += f->time[u][at[u]];
    for (int k = 0; k < in->width[u]; k++) made[in->lists[u][at[u] * in->width[u] + k]] = true;
  }
  if (in->output) made[in->output[p]] = true;
  for (int l = 0; l < in->nlayouts; l++)
    if (made[l]) sum += in->seconds[p * in->nlayouts + l];
  return sum;
}

static double least_cost(const Fan *f) {
  int at[MAX_USERS + 1] = {0}, i = 0;
  double least = INFINITY;
  while (i >= 0) {
    least = fmin(least, cost_of(f, at));
    for (i = f->in.nusers; i >= 0; i--) {
      if (++at[i] < (i == f->in.nusers ? f->in.nproducers : f->in.classes[i])) break;
      at[i] = 0;
    }
  }
  return least;
}

/* Users, producer, set. */
static SolveResult solve_with(const Fan *f, const Sets *sets, Arena *a) {
  Problem *x = problem_new();
  const SetInput *in = &f->in;
  double *nothing = ARENA_ARRAY(x->arena, double, sets->n);
  for (int u = 0; u <= in->nusers; u++)
    add_variable(x, u < in->nusers ? in->classes[u] : in->nproducers, f->time[u], NULL);
  add_variable(x, sets->n, nothing, NULL);
  add_factor(x, pair(x->arena, in->nusers, in->nproducers, in->nusers + 1, sets->n, sets->cost));
  for (int u = 0; u < in->nusers; u++)
    if (sets->fits[u]) add_factor(x, pair(x->arena, in->nusers + 1, sets->n, u, in->classes[u], sets->fits[u]));
  SolveResult r = solve(&x->p, a);
  arena_free(x->arena);
  return r;
}

static void sets_of_layouts(void) {
  int incomplete = 0;
  state = 1;
  for (int i = 0; i < 3000; i++) {
    Arena *a = arena_new();
    Fan *f = random_fan(a);
    double least = least_cost(f);
    f->in.most = 64;
    const Sets *whole = sets_of(a, &f->in);
    CHECK(whole != NULL);
    SolveResult r = solve_with(f, whole, a);
    CHECKF(r.exact && (least < INFINITY ? r.time == least : !r.feasible), "fan %d: %.17g, enumerated %.17g", i, r.time,
           least);
    f->in.most = 1 + below(30);
    const Sets *some = sets_of(a, &f->in);
    CHECK(some ? some->n == whole->n : whole->n > f->in.most);
    incomplete += !some;
    arena_free(a);
  }
  CHECKF(incomplete > 100, "%d", incomplete);
}

/* ---- shares of conversions */

/* Users, producer; the certain costs, the share of each, the rest. */
static Problem *problem_of_shares(const Fan *f, const FanShares *shares) {
  Problem *x = problem_new();
  const SetInput *in = &f->in;
  int n = in->nusers + 1, *vars = ARENA_ARRAY(x->arena, int, n), *classes = ARENA_ARRAY(x->arena, int, n);
  const int **maps = ARENA_ARRAY(x->arena, const int *, n);
  for (int u = 0; u <= in->nusers; u++)
    add_variable(x, u < in->nusers ? in->classes[u] : in->nproducers, f->time[u], NULL);
  for (int k = 0; k < n; k++) {
    vars[k] = k ? k - 1 : in->nusers;
    classes[k] = k ? in->classes[k - 1] : in->nproducers;
    maps[k] = identity(x->arena, classes[k]);
  }
  for (int u = 0; u < in->nusers; u++)
    add_factor(x, pair(x->arena, in->nusers, in->nproducers, u, in->classes[u], shares->tables[u]));
  add_factor(x, (SolveFactor){.n = 1, .vars = vars, .maps = maps, .classes = classes, .table = shares->certain});
  SolveFactor *rest = ARENA_NEW(x->arena, SolveFactor);
  *rest = (SolveFactor){.n = n, .vars = vars, .maps = maps, .classes = classes, .cost = fan_shares_rest, .of = shares};
  x->p.rests = rest, x->p.nrests = 1;
  return x;
}

static FanShares *shares_of(const Fan *f, Arena *a) {
  return fan_shares_new(a, &(FanSharesInput){.nproducers = f->in.nproducers,
                                             .nlayouts = f->in.nlayouts,
                                             .seconds = f->in.seconds,
                                             .output = f->in.output,
                                             .nusers = f->in.nusers,
                                             .classes = f->classes,
                                             .width = f->width,
                                             .lists = f->lists});
}

static void random_choice(const Fan *f, int *at) {
  for (int u = 0; u < f->in.nusers; u++) at[u] = below(f->in.classes[u]);
  at[f->in.nusers] = below(f->in.nproducers);
}

/* The cost paid, and the cost left out. */
static double paid_and_rest(const Fan *f, const FanShares *s, const int *at) {
  int n = f->in.nusers, p = at[n], classes[MAX_USERS + 1] = {p};
  double sum = f->time[n][p] + s->certain[p], rest;
  for (int u = 0; u < n; u++) {
    sum += f->time[u][at[u]] + s->tables[u][p * f->in.classes[u] + at[u]];
    classes[u + 1] = at[u];
  }
  rest = fan_shares_rest(s, classes);
  CHECK(rest >= 0);
  return sum + rest;
}

static void move_shares(void *of, const int *values, double step) {
  FanShares *s = of;
  int at[MAX_USERS + 1] = {values[s->in.nusers]};
  for (int u = 0; u < s->in.nusers; u++) at[u + 1] = values[u];
  fan_shares_note(s, at);
  fan_shares_move(s, step);
}

static bool near(double a, double b) { return a == b || fabs(a - b) <= 1e-9 * fabs(b); }

/* However shares have moved, they and the rest add up to the cost of a choice. */
static void shares_add_up(void) {
  state = 21;
  for (int i = 0; i < 500; i++) {
    Arena *a = arena_new();
    Fan *f = random_fan(a);
    FanShares *s = shares_of(f, a);
    for (int k = 0; k < 20; k++) {
      int at[MAX_USERS + 1];
      random_choice(f, at);
      double is = paid_and_rest(f, s, at), should = cost_of(f, at);
      CHECKF(near(is, should), "fan %d: %.17g, not %.17g", i, is, should);
      if (is < INFINITY) move_shares(s, at, 1. / (1 + below(4)));
    }
    arena_free(a);
  }
}

/* A bound without the rest, a better one after shares have moved, the optimum if all is counted. */
static void shares_bound(void) {
  int open = 0, better = 0;
  double before = 0, after = 0;
  state = 22;
  for (int i = 0; i < 2000; i++) {
    Arena *a = arena_new();
    Fan *f = random_fan(a);
    double least = least_cost(f);
    FanShares *s = shares_of(f, a);
    Problem *x = problem_of_shares(f, s);
    SolveResult r = solve(&x->p, a);
    CHECKF(r.feasible == (least < INFINITY) &&
               (!r.feasible || (r.lower_bound <= least * (1 + 1e-9) && r.time >= least * (1 - 1e-9))),
           "fan %d: %.17g, bound %.17g, enumerated %.17g", i, r.time, r.lower_bound, least);
    if (r.feasible && r.lower_bound < least * (1 - 1e-9)) {
      x->p.share = move_shares, x->p.share_of = s, x->p.rounds = 10;
      SolveResult moved = solve(&x->p, a);
      CHECKF(moved.lower_bound >= r.lower_bound && moved.lower_bound <= least * (1 + 1e-9) && moved.time <= r.time,
             "fan %d: bound %.17g after %.17g, enumerated %.17g", i, moved.lower_bound, r.lower_bound, least);
      CHECKF(is_true(x, &moved), "fan %d", i);
      open++;
      better += moved.lower_bound > r.lower_bound * (1 + 1e-9);
      before += 1 - r.lower_bound / least, after += 1 - moved.lower_bound / least;
    }
    x->p.rounds = 0, x->p.whole_work = 1e6;
    r = solve(&x->p, a);
    CHECKF(least < INFINITY ? r.exact && near(r.time, least) && near(r.lower_bound, least) : !r.feasible,
           "fan %d: %.17g, bound %.17g, enumerated %.17g", i, r.time, r.lower_bound, least);
    arena_free(x->arena);
    arena_free(a);
  }
  printf("shares leave %.2f %% of the optimum open, %.2f %% after ten rounds, where anything is: %d fans\n",
         100 * before / open, 100 * after / open, open);
  CHECKF(open > 200 && better > open / 2 && after < 0.5 * before, "%d, %d, %g, %g", open, better, before, after);
}

/* The least cost within a limit of memory, of which every user's value takes some. */
static double least_within(const Fan *f, const double *const *memory, double limit) {
  int at[MAX_USERS + 1] = {0}, i = 0;
  double least = INFINITY;
  while (i >= 0) {
    double bytes = 0;
    for (int u = 0; u < f->in.nusers; u++) bytes += memory[u][at[u]];
    if (bytes <= limit) least = fmin(least, cost_of(f, at));
    for (i = f->in.nusers; i >= 0; i--) {
      if (++at[i] < (i == f->in.nusers ? f->in.nproducers : f->in.classes[i])) break;
      at[i] = 0;
    }
  }
  return least;
}

/* Also under a memory limit: values have their stated costs, and no bound is above the optimum. */
static void shares_within(void) {
  int limited = 0, exact = 0;
  state = 23;
  for (int i = 0; i < 1000; i++) {
    Arena *a = arena_new();
    Fan *f = random_fan(a);
    FanShares *s = shares_of(f, a);
    Problem *x = problem_of_shares(f, s);
    double least = 0;
    for (int u = 0; u < f->in.nusers; u++) {
      double *memory = ARENA_ARRAY(a, double, f->in.classes[u]), low = INFINITY;
      for (int v = 0; v < f->in.classes[u]; v++) memory[v] = below(8), low = fmin(low, memory[v]);
      x->memory[u] = memory;
      least += low;
    }
    x->p.share = move_shares, x->p.share_of = s, x->p.rounds = 6, x->p.whole_work = 1e6;
    x->p.memory_limit = least + below(4);
    double optimum = least_within(f, x->memory, x->p.memory_limit);
    SolveResult r = solve(&x->p, a);
    CHECKF(r.lower_bound <= optimum * (1 + 1e-9) && (!r.feasible || (is_true(x, &r) && r.time >= optimum * (1 - 1e-9))),
           "fan %d: %.17g, bound %.17g, enumerated %.17g", i, r.time, r.lower_bound, optimum);
    CHECKF(!r.exact || (r.feasible ? near(r.time, optimum) : optimum == INFINITY), "fan %d", i);
    limited += optimum < INFINITY && r.memory_weight > 0, exact += r.exact;
    arena_free(x->arena);
    arena_free(a);
  }
  CHECKF(limited > 100 && exact > 500, "%d, %d", limited, exact);
}

/* ---- joins that are split */

/* Tables and costs of a grid; `repeated`: each row has those of the first, as layers of a model have.  `forbidden`: so
 * many of 16 entries are impossible. */
typedef struct Grid {
  int width, height, forbidden;
  bool repeated, memory;
} Grid;

static double entry(int forbidden) { return below(16) < forbidden ? INFINITY : amount(); }

static void add_of_grid(Problem *x, const Grid *g, int i) {
  if (g->repeated && i >= g->width) {
    add_variable(x, 4, x->time[i % g->width], x->memory[i % g->width]);
    return;
  }
  double *time = ARENA_ARRAY(x->arena, double, 4), *memory = ARENA_ARRAY(x->arena, double, 4);
  for (int v = 0; v < 4; v++) time[v] = amount(), memory[v] = amount();
  add_variable(x, 4, time, g->memory ? memory : NULL);
}

/* A grid of variables: its joins grow with its width, and are split above the cap. */
static Problem *grid(const Grid *g) {
  Problem *x = problem_new();
  const double *known[2][64];
  for (int i = 0; i < g->width * g->height; i++) add_of_grid(x, g, i);
  for (int i = 0; i < g->width * g->height; i++)
    for (int step = 0; step < 2; step++) {
      if (step ? i + g->width >= g->width * g->height : i % g->width + 1 == g->width) continue;
      double *table = ARENA_ARRAY(x->arena, double, 16);
      for (int k = 0; k < 16; k++) table[k] = entry(g->forbidden);
      if (i < g->width) known[step][i] = table;
      add_factor(x,
                 pair(x->arena, i, 4, i + (step ? g->width : 1), 4, g->repeated ? known[step][i % g->width] : table));
    }
  return x;
}

/* Small joins give a bound; the open rest is settled entry by entry, as far as work allows. */
static void split_joins(void) {
  state = 11;
  Problem *x = grid(&(Grid){.width = 5, .height = 12});
  SolveResult whole = solve(&x->p, x->arena);
  CHECK(whole.exact && whole.width >= 5);
  int open = 0, better = 0;
  for (double cap = 16; cap < 1e5; cap *= 2) {
    x->p.table_cap = cap, x->p.split_rounds = 1, x->p.whole_work = 0;
    SolveResult bound = solve(&x->p, x->arena);
    for (double work = 1e3; work < 1e9; work *= 100) {
      x->p.whole_work = work;
      SolveResult r = solve(&x->p, x->arena);
      CHECKF(r.feasible && r.lower_bound <= whole.time && r.lower_bound >= bound.lower_bound && r.time >= whole.time &&
                 (!r.exact || r.time == whole.time) && (work < 1e7 || cap < 64 || r.exact),
             "cap %g, %g sums: %g s, bound %g, optimum %g", cap, work, r.time, r.lower_bound, whole.time);
      open += !r.exact;
      better += !r.exact && r.lower_bound > bound.lower_bound;
    }
  }
  CHECKF(open >= 2 && better >= 2, "%d open, %d better", open, better);
  arena_free(x->arena);
}

/* The gap that splitting leaves to the optimum, which the bound must not pass, over many grids; a search that stops
 * above some time gives no wrong answer either. */
static void bounds_of_splits(void) {
  double open = 0;
  int n = 0, none = 0;
  for (int i = 0; i < 200; i++) {
    state = 100 + (uint64_t)i;
    const Grid g = {3 + below(3), 2 + below(6), i % 3 ? below(5) : 0, i % 2, i % 5 == 0};
    Problem *x = grid(&g);
    if (g.memory) x->p.memory_limit = 16 * g.width * g.height * 0.3;
    SolveResult whole = solve(&x->p, x->arena);
    none += !whole.feasible;
    for (double cap = 16; whole.feasible && whole.exact && cap <= 256; cap *= 4) {
      x->p.table_cap = cap;
      x->p.stop_above = cap == 64 ? whole.time * (0.9 + below(20) / 100.) : 0;
      SolveResult r = solve(&x->p, x->arena);
      double most = fmax(whole.time, x->p.stop_above * (1 + 1e-8));
      CHECKF(
          r.lower_bound <= most * (1 + 1e-9) && (!r.feasible || (is_true(x, &r) && r.time >= whole.time * (1 - 1e-9))),
          "grid %d, cap %g: %g s, bound %g, optimum %g", i, cap, r.time, r.lower_bound, whole.time);
      SolveProblem all = x->p; /* with a limit it bounds the weighted sum */
      all.split_rounds = 1, all.whole_work = 1e8;
      SolveResult counted = solve(&all, x->arena);
      CHECKF(counted.lower_bound <= most * (1 + 1e-9) && counted.lower_bound >= r.lower_bound * (1 - 1e-9) &&
                 (!counted.feasible || counted.time >= whole.time * (1 - 1e-9)),
             "grid %d, cap %g: %g s, bound %g, optimum %g", i, cap, counted.time, counted.lower_bound, whole.time);
      CHECKF(cap == 64 || g.memory || (counted.exact && near(counted.time, whole.time)), "grid %d, cap %g", i, cap);
      if (cap == 64) continue;
      open += 1 - r.lower_bound / whole.time;
      n++;
    }
    arena_free(x->arena);
  }
  printf("joins that are split: %.1f %% of the optimum are open on average of %d; %d grids impossible\n",
         100 * open / n, n, none);
  CHECKF(n > 250 && none > 0 && open / n < 0.06, "%d, %d, %g", n, none, open / n); /* 0.089 without share_out */
}

/* ---- memory limits */

/* Variables that do not depend on each other: `fast` keeps 1 byte more than `slow` and saves the time. */
static Problem *independent(int n, bool equal) {
  Problem *x = problem_new();
  static const double same_time[] = {2, 1}, same_memory[] = {0, 1};
  state = 3;
  for (int i = 0; i < n; i++) {
    double *time = ARENA_ARRAY(x->arena, double, 2), *memory = ARENA_ARRAY(x->arena, double, 2);
    memory[1] = 1 + below(1000);
    time[0] = memory[1] * (1 + below(64) / 64.0);
    add_variable(x, 2, equal ? same_time : time, equal ? same_memory : memory);
  }
  return x;
}

static void many_parts(void) {
  Problem *x = independent(1000, true);
  x->p.memory_limit = 371;
  x->p.frontier_cap = 1e6;
  SolveResult r = solve(&x->p, x->arena);
  CHECKF(r.exact && r.time == 1000 + 629 && r.memory == 371, "%g s, %g bytes", r.time, r.memory);
  arena_free(x->arena);
  x = independent(1000, false);
  double all = 0;
  for (int i = 0; i < 1000; i++) all += x->memory[i][1];
  x->p.memory_limit = floor(0.3 * all);
  r = solve(&x->p, x->arena);
  CHECKF(r.feasible && r.memory <= x->p.memory_limit && r.lower_bound <= r.time && r.lower_bound > 0.999 * r.time,
         "%g s, bound %g", r.time, r.lower_bound);
  arena_free(x->arena);
}

/* Choices aim below the limit, within which even the fastest choice is: they are as good as with that limit, and the
 * bound is that of the limit. */
static void aims_below_the_limit(void) {
  Problem *x = independent(1000, false);
  double all = 0;
  for (int i = 0; i < 1000; i++) all += x->memory[i][1];
  x->p.frontier_cap = 0;
  x->p.memory_limit = floor(0.3 * all);
  const SolveResult limited = solve(&x->p, x->arena);
  x->p.memory_limit = all, x->p.memory_aim = floor(0.3 * all);
  const SolveResult r = solve(&x->p, x->arena);
  CHECKF(r.feasible && r.memory <= x->p.memory_aim && r.time <= 1.001 * limited.time && r.lower_bound == 0,
         "%g s of %g bytes, bound %g; with that limit %g s", r.time, r.memory, r.lower_bound, limited.time);
  arena_free(x->arena);
}

/* Against enumeration, with ties between variables. */
static void limits_agree(void) {
  for (int seed = 1; seed <= 200; seed++) {
    Problem *x = problem_new();
    state = (uint64_t)seed;
    int n = 9;
    for (int i = 0; i < n; i++) {
      double *time = ARENA_ARRAY(x->arena, double, 2), *memory = ARENA_ARRAY(x->arena, double, 2);
      for (int v = 0; v < 2; v++) time[v] = amount(), memory[v] = below(20);
      add_variable(x, 2, time, memory);
    }
    for (int i = 0; i < 4; i++) {
      double *table = ARENA_ARRAY(x->arena, double, 4);
      int u = below(n), v = (u + 1 + below(n - 1)) % n;
      for (int k = 0; k < 4; k++) table[k] = amount();
      add_factor(x, pair(x->arena, u, 2, v, 2, table));
    }
    x->p.memory_limit = 60 + below(60);
    double least = INFINITY;
    for (int choice = 0; choice < 1 << n; choice++) {
      double time = 0, memory = 0;
      for (int i = 0; i < n; i++) time += x->time[i][choice >> i & 1], memory += x->memory[i][choice >> i & 1];
      for (size_t k = 0; k < x->p.nfactors; k++)
        time += x->factors[k].table[2 * (choice >> x->factors[k].vars[0] & 1) + (choice >> x->factors[k].vars[1] & 1)];
      if (memory <= x->p.memory_limit) least = fmin(least, time);
    }
    SolveResult r = solve(&x->p, x->arena);
    CHECKF(r.exact && (least == INFINITY ? !r.feasible : r.time == least && r.memory <= x->p.memory_limit),
           "seed %d: %.17g, enumerated %.17g", seed, r.time, least);
    arena_free(x->arena);
  }
}

/* ---- a time limit */

/* The state at the end of the time is a valid answer: values with their stated costs, and a valid bound. */
static void cut_short(void) {
  Problem *x = chain(400, 0);
  SolveResult whole = solve(&x->p, x->arena);
  SolveWatch watch = {.deadline = solve_watch_now() - 1, .work = 1e12};
  x->p.watch = &watch;
  SolveResult r = solve(&x->p, x->arena);
  CHECK(watch.expired && !r.exact && r.lower_bound <= whole.time && (!r.feasible || r.time >= whole.time));
  watch = (SolveWatch){.deadline = INFINITY, .work = 1e12};
  r = solve(&x->p, x->arena);
  CHECK(!watch.expired && r.exact && r.time == whole.time);
  arena_free(x->arena);
}

int main(void) {
  RUN(one_class);
  RUN(constants);
  RUN(sets_of_layouts);
  RUN(shares_add_up);
  RUN(shares_bound);
  RUN(shares_within);
  RUN(split_joins);
  RUN(bounds_of_splits);
  RUN(many_parts);
  RUN(aims_below_the_limit);
  RUN(limits_agree);
  RUN(cut_short);
  return test_summary();
}
