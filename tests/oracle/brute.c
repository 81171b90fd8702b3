/* tests/oracle/brute.c - compares the planner's optimum with exhaustive enumeration: brute [GRAPHS [FIRST_SEED]].
 *
 * Random graphs of ten or more operations on small meshes, random targets; a third of the graphs are three equal
 * blocks, a third have a loop.  The enumeration uses only the cost primitives (cost of an operation under a strategy,
 * cost of a conversion): strategies, fan-out and memory are its own.  A partial choice is abandoned if it plus the
 * cheapest remaining operations is no better than the best whole one.  The memory limit binds in at least three of ten
 * graphs. */
#include <math.h>
#include <stdlib.h>

#include "passes/cost/plan_price.h"
#include "passes/search/graph.h"
#include "tests/oracle/random_ops.h"
#include "tests/test.h"

enum { MAX_VISITS = 1500000 };

/* ---- random graphs */

/* Three equal blocks, each using the one before. */
static Func *repeated_graph(Module *m, Random *r, int64_t size, int most, Diags *d) {
  enum { BLOCKS = 3 };
  Func *f = module_func_add(m, "main", 1);
  Builder b = builder_new(m, f, d);
  Weights w = {0};
  Val values[MAX_OPS] = {build_input(&b, "x", square(m, size))};
  Random start = *r;
  for (int i = 0; i < BLOCKS; i++) {
    int n = 1, first = (int)f->ops.n;
    *r = start;
    w.room = 1;
    while ((int)f->ops.n - first < (most - 1) / BLOCKS) values[n] = random_op(&b, r, values, n, &w, size), n++;
    values[0] = values[n - 1];
  }
  build_output(&b, "y", values[0], NULL);
  return f;
}

/* Operations, a loop with one or two carries, operations; the body reads its carries and values from outside. */
static Func *looped_graph(Module *m, Random *r, int64_t size, int most, Diags *d) {
  Func *f = module_func_add(m, "main", 1);
  Builder b = builder_new(m, f, d);
  Weights w = {2, 0};
  Val values[MAX_OPS] = {build_input(&b, "x", square(m, size))};
  int n = 1, ncarries = 1 + (int)below(r, 2), carries = n + 1;
  values[n] = random_op(&b, r, values, n, &w, size), n++;
  Val round = build_loop(&b, build_splat(&b, type_get(m, DT_i64, 0, NULL), 2 + below(r, 30)), NULL);
  for (int k = 0; k < ncarries; k++) values[n] = build_carry(&b, values[k]), n++;
  for (int i = 0; i < 2 || (int)f->ops.n < most - 2 - ncarries; i++)
    values[n] = random_op(&b, r, values, n, &w, size), n++;
  build_repeat(&b, round, 0);
  Val next[2] = {values[n - 1], values[n - 2]};
  for (int k = 0; k < ncarries; k++) values[carries - 1 + k] = build_leave(&b, values[carries + k], next[k]);
  n = carries - 1 + ncarries; /* the leaves replace the initial values */
  values[n] = random_op(&b, r, values, n, &w, size), n++;
  build_output(&b, "y", values[n - 1], NULL);
  build_output(&b, "z", values[n - 2], NULL);
  return f;
}

/* ---- enumeration */

typedef struct Brute {
  Module *m;
  const Func *f;
  const Rule *rules[MAX_OPS];
  CostModel *cost;
  int n[MAX_OPS];
  const Strategy *all[MAX_OPS];
  bool looped, partial[MAX_OPS];
  Mirrors mirrors;                       /* elementwise operations of one kernel share one strategy */
  double runs[MAX_OPS], remade[MAX_OPS]; /* by operation: how often it runs, and how often its result is converted */
  double seconds[MAX_OPS][64], bytes[MAX_OPS][64];
  double least_after[MAX_OPS + 1], least_bytes_after[MAX_OPS + 1];
  int choice[MAX_OPS], best_choice[MAX_OPS];
  const Layout *asked[MAX_OPS][3]; /* by operation and operand, for the current choice */
  bool output[2 * MAX_OPS];        /* by value */
  double limit, best, best_bytes;
  long visited;
} Brute;

static const Layout *result_of(Brute *b, Val v) {
  int op = b->f->values.items[v].op;
  return strategy_result(b->m, b->rules[op], &b->all[op][b->choice[op]], value_index(b->f, v));
}

/* True if operand k is the value that the operation joins. */
static bool joins_as(const Brute *b, const Op *op, int k) {
  const LegalJoin *join = cost_join(b->cost, b->f, op);
  return join_is_counted(join) && join->operand == k;
}

/* The conversions that operation i is the first to need. */
static double new_conversions(Brute *b, int i) {
  const Op *op = &b->f->ops.items[i];
  double sum = 0;
  for (int k = 0; k < op->nin; k++) {
    int maker = b->f->values.items[op->in[k]].op;
    const Layout *want = strategy_operand(b->m, b->rules[i], &b->all[i][b->choice[i]], k),
                 *have = result_of(b, op->in[k]);
    b->asked[i][k] = want;
    bool paid = want == have;
    for (int j = 0; j <= i && !paid; j++)
      for (int l = 0; l < b->f->ops.items[j].nin && (j < i || l < k) && !paid; l++)
        paid = b->f->ops.items[j].in[l] == op->in[k] && b->asked[j][l] == want;
    if (want != have && joins_as(b, op, k)) sum += b->runs[i] * cost_apart(b->cost, b->f, op, want);
    if (want != have) sum += b->runs[i] * cost_outside(b->cost, b->f, op, b->rules[i], &b->all[i][b->choice[i]], k);
    if (!paid) sum += b->remade[maker] * cost_convert(b->cost, type_of(b->f, op->in[k]), have, want);
  }
  return sum;
}

static bool follows(Brute *b, int i, int head) {
  const Strategy *s = &b->all[i][b->choice[i]];
  Strategy as = mirror_strategy(&b->m->mesh, b->rules[i], b->mirrors.factors[i], &b->all[head][b->choice[head]]);
  return as.n == s->n && memcmp(as.picks, s->picks, sizeof *s->picks * (size_t)s->n) == 0;
}

/* A leave has the layout of its carry; an operation that shares the variable of another, possibly later, one follows
 * it. */
static bool allowed(Brute *b, int i) {
  const Op *op = &b->f->ops.items[i];
  int head = (int)b->mirrors.head[i];
  bool all = op->kind != OP_leave || result_of(b, op->out) == result_of(b, op->in[0]);
  if (head < i) all &= follows(b, i, head);
  for (int k = 0; k < b->mirrors.nfollowers[i]; k++) {
    int follower = (int)b->mirrors.followers[i][k];
    all &= follower > i || follows(b, follower, i);
  }
  return all;
}

/* Outputs are summed up at the end, unless another operation needs exactly that layout. */
static double output_conversions(Brute *b) {
  double sum = 0;
  for (Val v = 1; v < (Val)b->f->values.n; v++) {
    if (!b->output[v]) continue;
    Layout whole = *result_of(b, v);
    whole.partial_axes = 0;
    const Layout *want = layout_get(b->m, &whole);
    bool paid = want == result_of(b, v);
    for (int j = 0; j < (int)b->f->ops.n; j++)
      for (int k = 0; k < b->f->ops.items[j].nin; k++) paid |= b->f->ops.items[j].in[k] == v && b->asked[j][k] == want;
    if (!paid) sum += cost_convert(b->cost, type_of(b->f, v), result_of(b, v), want);
  }
  return sum;
}

static void descend(Brute *b, int i, double seconds, double bytes) {
  if (++b->visited > MAX_VISITS) return;
  if (i == (int)b->f->ops.n) {
    seconds += output_conversions(b);
    if (seconds >= b->best || bytes > b->limit) return;
    b->best = seconds;
    b->best_bytes = bytes;
    memcpy(b->best_choice, b->choice, sizeof b->choice);
    return;
  }
  for (int v = 0; v < b->n[i]; v++) {
    b->choice[i] = v;
    if (!allowed(b, i)) continue;
    double bytes_now = bytes + b->bytes[i][v];
    if (seconds + b->seconds[i][v] + b->least_after[i + 1] >= b->best ||
        bytes_now + b->least_bytes_after[i + 1] > b->limit)
      continue;
    double now = seconds + b->seconds[i][v] + new_conversions(b, i);
    if (now + b->least_after[i + 1] < b->best) descend(b, i + 1, now, bytes_now);
  }
}

/* The only loop, if any, makes a constant number of rounds. */
static void find_runs(Brute *b) {
  double rounds = 1;
  for (int i = 0; i < (int)b->f->ops.n; i++) {
    const Op *op = &b->f->ops.items[i];
    b->runs[i] = rounds;
    b->looped |= op->kind == OP_loop;
    if (op->kind == OP_loop) rounds = op_attr(op_of(b->f, op->in[0]), AT_value)->u.f;
    b->remade[i] = op->kind == OP_param ? 1 : rounds;
    if (op->kind == OP_repeat) rounds = 1;
  }
}

/* By operation: its result is an unreduced sum that was not made partial on purpose. */
static void find_partial(Brute *b) {
  for (int i = 0; i < (int)b->f->ops.n; i++) {
    const Op *op = &b->f->ops.items[i];
    for (int k = 0; k < b->rules[i]->nfactors; k++) {
      const Factor *factor = &b->rules[i]->factors[k];
      b->partial[i] |= factor->kind == FK_REDUCE;
      for (int j = 0; j < op->nin && factor->kind == FK_LINEAR; j++)
        b->partial[i] |= (factor->operands >> j & 1u) && b->partial[b->f->values.items[op->in[j]].op];
    }
  }
}

/* Before a loop a whole value could be made partial once, to be reduced in each round by an operation cheaper than a
 * slice: no plan does that. */
static bool on_purpose(const Brute *b, int i, const Strategy *s) {
  const Op *op = &b->f->ops.items[i];
  for (int k = 0; k < s->n; k++) {
    const Factor *factor = &b->rules[i]->factors[s->picks[k].factor];
    bool from = factor->kind != FK_LINEAR;
    for (int j = 0; j < op->nin; j++)
      from |= (factor->operands >> j & 1u) && b->partial[b->f->values.items[op->in[j]].op];
    if (!from) return true;
  }
  return false;
}

static bool brute_start(Brute *b, Module *m, const Func *f, CostModel *cost, const Shape *shape) {
  *b = (Brute){.m = m, .f = f, .cost = cost, .mirrors = shape->mirrors};
  find_runs(b);
  for (int i = 0; i < (int)f->ops.n; i++) b->rules[i] = rule_of(m, f, &f->ops.items[i]);
  find_partial(b);
  for (int i = 0; i < (int)f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const Strategy *found;
    int n = strategy_enumerate(m->arena, m, b->rules[i], false, &found);
    Strategy *kept = ARENA_ARRAY(m->arena, Strategy, n);
    for (int v = 0; v < n; v++)
      if (cost_parts_filled(cost, b->rules[i], &found[v], 0) &&
          !(b->looped && (int)b->mirrors.head[i] == i && on_purpose(b, i, &found[v])))
        kept[b->n[i]++] = found[v];
    b->all[i] = kept;
    if (b->n[i] > 64) return false;
    for (int v = 0; v < b->n[i]; v++) {
      b->seconds[i][v] = b->runs[i] * cost_op(cost, f, op, b->rules[i], &kept[v]).seconds;
      b->bytes[i][v] = op->kind == OP_param
                           ? cost_bytes(cost, type_of(f, op->out), strategy_result(m, b->rules[i], &kept[v], 0))
                           : 0;
    }
  }
  for (int i = (int)f->ops.n - 1; i >= 0; i--) {
    double least = INFINITY, bytes = INFINITY;
    for (int v = 0; v < b->n[i]; v++) {
      least = fmin(least, b->seconds[i][v]);
      bytes = fmin(bytes, b->bytes[i][v]);
    }
    b->least_after[i] = b->least_after[i + 1] + least;
    b->least_bytes_after[i] = b->least_bytes_after[i + 1] + bytes;
  }
  for (size_t i = 0; i < f->outputs.n; i++) b->output[f->outputs.items[i].value] = true;
  return true;
}

/* `hint`: an attainable time; only better or equal choices matter. */
static void brute(Brute *b, double limit, double hint) {
  b->limit = limit;
  b->best = hint * (1 + 1e-9) + 1e-18;
  b->best_bytes = -1;
  b->visited = 0;
  descend(b, 0, 0, 0);
}

/* Both choices side by side, for a failure. */
static void show(Brute *b, const Strategy *strategies) {
  Arena *a = arena_new();
  for (size_t i = 0; i < b->f->ops.n; i++) {
    Text t = {.arena = a};
    op_print(b->m, &t, b->f, &b->f->ops.items[i]);
    strategy_print(&b->m->mesh, &t, b->rules[i], &strategies[i]);
    text_add(&t, "   enumeration ");
    strategy_print(&b->m->mesh, &t, b->rules[i], &b->all[i][b->best_choice[i]]);
    fprintf(stderr, "  %s\n", text_str(&t));
  }
  arena_free(a);
}

/* ---- the planner */

/* `all`: the most sums formed to count what tables of that cap leave out.  `exchanged`: both axes of the mesh may be
 * exchanged at every operation; `cost` then has unordered axes, and there are no strategies. */
static SolveResult planner(Module *m, const Func *f, const Rule *const *rules, const OpLabels *labels, CostModel *cost,
                           double limit, double cap, double all, bool exchanged, Strategy *strategies) {
  static const int alike[MAX_AXES] = {0, 0, -1, -1, -1, -1, -1, -1};
  GraphInput in = {.m = m,
                   .f = f,
                   .rules = rules,
                   .labels = labels,
                   .shape = shape_of(m, cost, f, rules, labels, cost_loops(m->arena, cost, f, NULL)),
                   .cost = cost,
                   .repeat = 1,
                   .moves = cost,
                   .moves_repeat = 1,
                   .before = 1,
                   .memory_limit = limit,
                   .table_cap = cap,
                   .rounds = 4,
                   .split_rounds = 4,
                   .whole_work = all,
                   .fan_out_cap = cap / 64,
                   .set_cap = cap < 1000 ? 8 : 512,
                   .frontier_cap = cap,
                   .prune_above = INFINITY,
                   .symmetry = exchanged ? symmetry_new(m->arena, m, alike) : NULL};
  for (int i = 0; i < m->mesh.naxes; i++) in.uses[i].labels = ~0u;
  const char *why = NULL;
  Graph *g = graph_new(&in, &why);
  SolveResult r = solve(graph_problem(g), m->arena);
  if (r.feasible && !exchanged) graph_strategies(g, r.values, strategies);
  graph_free(g);
  return r;
}

static const struct {
  int naxes, sizes[2];
  int64_t side;
  int ops;
} shapes[] = {{1, {2}, 4, 13},    {1, {3}, 5, 13}, {1, {2}, 5, 14},
              {2, {2, 2}, 3, 11}, {1, {4}, 4, 12}, {2, {2, 2}, 2, 12}};

typedef struct Totals {
  int graphs, repeated, looped, bound, split, gaps, inexact, given_up, joined, exchanged, tight, loose;
  long visited;
} Totals;

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b)); }

/* The planner's choice as it would be lowered; checks that the price equals the solved cost where that is exact. */
static double priced(Module *m, const Func *f, const Rule *const *rules, CostModel *cost, const Strategy *strategies,
                     const SolveResult *r) {
  PlanPrice p = cost_plan(cost, m, f, rules, strategies, NULL);
  CHECK(r->feasible && p.possible && p.memory.params == r->memory);
  return p.time.total;
}

static void one_graph(uint64_t seed, Totals *totals) {
  Random r = {seed * 0x9E3779B97F4A7C15u + 7};
  for (int i = 0; i < 8; i++) below(&r, 2);
  Module *m = module_new();
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  size_t k = below(&r, sizeof shapes / sizeof *shapes);
  bool repeated = below(&r, 3) == 0, looped = !repeated && below(&r, 2) == 0;
  Func *f = (repeated ? repeated_graph : looped ? looped_graph : random_graph)(m, &r, shapes[k].side, shapes[k].ops, d);
  Mesh mesh = {.stages = 1, .naxes = shapes[k].naxes};
  int ranks = 1;
  for (int i = 0; i < mesh.naxes; i++) {
    mesh.axes[i] = (MeshAxis){.name = i ? "q" : "p", .size = shapes[k].sizes[i]};
    ranks *= shapes[k].sizes[i];
  }
  module_set_mesh(m, &mesh);
  Target t = random_target(&r, ranks);
  CostModel *own = cost_model_new(m, &t), *cost = cost_model_new(m, &t);
  const Rule **rules = rules_of(m, f);
  const OpLabels *labels = labels_of(m, f, rules);
  const Shape *shape = shape_of(m, own, f, rules, labels, cost_loops(m->arena, own, f, NULL));
  Strategy *strategies = ARENA_ARRAY(a, Strategy, f->ops.n);
  Brute *b = ARENA_NEW(a, Brute);
  CHECKF(d->errors == 0 && brute_start(b, m, f, own, shape), "seed %llu", (unsigned long long)seed);

  SolveResult got = planner(m, f, rules, labels, cost, INFINITY, 3e7, 1e7, false, strategies);
  double price = priced(m, f, rules, cost, strategies, &got);
  brute(b, INFINITY, price);
  double optimum = b->best;
  for (size_t i = 0; i < f->ops.n; i++) totals->joined += join_is_computed(cost_join(own, f, &f->ops.items[i])->kind);
  if (b->visited > MAX_VISITS) {
    totals->given_up++;
  } else if (got.exact) {
    CHECKF(b->best_bytes >= 0 && near(got.time, optimum) && near(price, optimum) && near(got.lower_bound, optimum),
           "seed %llu: planner %.17g, bound %.17g, priced %.17g, enumeration %.17g", (unsigned long long)seed, got.time,
           got.lower_bound, price, optimum);
    if (!near(got.time, optimum)) show(b, strategies);
  } else { /* this amount of work was not enough */
    CHECKF(price >= optimum * (1 - 1e-9), "seed %llu", (unsigned long long)seed);
    totals->inexact++;
  }

  /* Caps so small that fan-outs and buckets are split: bounds must still hold, and the dropped part can be counted. */
  SolveResult rough = planner(m, f, rules, labels, cost, INFINITY, 300, 0, false, strategies);
  double found = priced(m, f, rules, cost, strategies, &rough);
  CHECKF(b->visited > MAX_VISITS || (found >= optimum * (1 - 1e-9) && rough.lower_bound <= optimum * (1 + 1e-9)),
         "seed %llu: bound %.17g, optimum %.17g, found %.17g", (unsigned long long)seed, rough.lower_bound, optimum,
         found);
  CHECKF(!rough.exact || b->visited > MAX_VISITS || near(found, optimum), "seed %llu", (unsigned long long)seed);
  totals->split += !rough.exact;
  totals->gaps += found > optimum * (1 + 1e-9);
  rough = planner(m, f, rules, labels, cost, INFINITY, 300, 1e8, false, strategies);
  found = priced(m, f, rules, cost, strategies, &rough);
  CHECKF(b->visited > MAX_VISITS || (rough.exact && near(found, optimum) && near(rough.lower_bound, optimum)),
         "seed %llu: bound %.17g, optimum %.17g, found %.17g", (unsigned long long)seed, rough.lower_bound, optimum,
         found);
  if (b->visited <= MAX_VISITS && shapes[k].naxes == 2) {
    CostModel *loose = cost_model_beside(cost, 2);
    SolveResult bound = planner(m, f, rules, labels, loose, INFINITY, 3e7, 1e7, true, strategies);
    CHECKF(bound.lower_bound <= optimum * (1 + 1e-9), "seed %llu: axes exchanged %.17g, optimum %.17g",
           (unsigned long long)seed, bound.lower_bound, optimum);
    totals->exchanged++;
    totals->tight += near(bound.lower_bound, optimum);
    cost_model_free(loose);
  }

  double least = b->least_bytes_after[0];
  if (got.exact && seed % 8 < 6 && least < got.memory) { /* a limit below the free optimum's memory */
    double limit = floor(least + (got.memory - least) * 0.999 * below(&r, 1000) / 1000);
    SolveResult tight = planner(m, f, rules, labels, cost, limit, 3e7, 0, false, strategies);
    brute(b, limit, tight.feasible ? tight.time : INFINITY);
    if (b->visited > MAX_VISITS) b->best = tight.time, totals->given_up++;
    else totals->bound++;
    double chosen = priced(m, f, rules, cost, strategies, &tight);
    CHECKF(near(tight.time, chosen) && (b->best_bytes >= 0 || b->visited > MAX_VISITS) && tight.memory <= limit,
           "seed %llu, limit %.0f: planner %.17g, enumeration %.17g", (unsigned long long)seed, limit, tight.time,
           b->best);
    if (tight.exact)
      CHECKF(near(tight.time, b->best), "seed %llu, limit %.0f: planner %.17g, enumeration %.17g",
             (unsigned long long)seed, limit, tight.time, b->best);
    else /* a rest, which frontiers do not count */
      CHECKF(tight.lower_bound <= b->best * (1 + 1e-9) && tight.time >= b->best * (1 - 1e-9),
             "seed %llu, limit %.0f: planner %.17g, bound %.17g, enumeration %.17g", (unsigned long long)seed, limit,
             tight.time, tight.lower_bound, b->best);
    totals->loose += !tight.exact;
    /* Without room for frontiers the answer is a bound and a choice within the limit. */
    SolveResult loose = planner(m, f, rules, labels, cost, limit, 3000, 1e6, false, strategies);
    CHECKF(loose.memory <= limit && priced(m, f, rules, cost, strategies, &loose) >= b->best * (1 - 1e-9), "seed %llu",
           (unsigned long long)seed);
    SolveResult none = planner(m, f, rules, labels, cost, least - 1, 3e7, 1e6, false, strategies);
    CHECKF(!none.feasible && none.exact, "seed %llu", (unsigned long long)seed);
  }
  totals->visited += b->visited;
  totals->graphs++;
  totals->repeated += repeated;
  totals->looped += looped;
  cost_model_free(own);
  cost_model_free(cost);
  module_free(m);
  arena_free(a);
}

int main(int argc, char **argv) {
  int graphs = argc > 1 ? atoi(argv[1]) : 300;
  uint64_t first = argc > 2 ? (uint64_t)atoll(argv[2]) : 1;
  Totals totals = {0};
  for (int i = 0; i < graphs; i++) one_graph(first + (uint64_t)i, &totals);
  printf(
      "seeds %llu to %llu: %d graphs, %d of equal blocks, %d with a loop, the memory limit binds in %d (%d not "
      "exactly), left "
      "open in %d, enumeration given up in %d, split in %d (%d then worse than the optimum), %d bounds with axes "
      "exchanged, %d of them tight, %d operations join products, %ld choices enumerated\n",
      (unsigned long long)first, (unsigned long long)(first + (uint64_t)graphs - 1), totals.graphs, totals.repeated,
      totals.looped, totals.bound, totals.loose, totals.inexact, totals.given_up, totals.split, totals.gaps,
      totals.exchanged, totals.tight, totals.joined, totals.visited);
  printf("%d checks failed\n", test_failed_here);
  if (totals.bound * 10 < totals.graphs * 3 || totals.repeated * 4 < totals.graphs ||
      totals.looped * 4 < totals.graphs || totals.joined * 4 < totals.graphs ||
      (totals.inexact + totals.loose + totals.given_up) * 20 > totals.graphs)
    return 1;
  return test_failed_here ? 1 : 0;
}
