/* tests/oracle/small.h - compares the outer search with choices of tests/oracle/choices.h, which do not depend on it.
 *
 * A small function is drawn, of three to six operations or a training step, and a target of two or four ranks.  It is
 * planned without a limit and within two.  Then all meshes of up to two axes are tried, with their stages,
 * micro-batches, schedules and recomputation: for each all choices or, if these are too many, some.  None may be faster
 * than the bound of the free plan, and none may be within a limit for which there was no plan.  For some functions the
 * time from batch to batch is minimised, for half of them with a limit on the time of one batch. */
#ifndef APC_TESTS_ORACLE_SMALL_H
#define APC_TESTS_ORACLE_SMALL_H

#include "ir/schedule.h"
#include "passes/plan/plan.h"
#include "tests/oracle/choices.h"
#include "tests/test.h"
#include "tests/train_step.h"

typedef struct SmallTotals {
  int functions, steps, steady, in_time, meshes, whole, refused, open, met, faster;
  long priced;
  double most, most_limited; /* the largest gain of a choice over the plan, as a share of the plan: without a limit,
                                within one */
} SmallTotals;

typedef struct Small {
  Arena *a;
  Module *m;
  const Func *f;
  Target t;
  uint64_t seed;
  long budget;
  const Plan *plans[CHOICE_LIMITS]; /* NULL if it was refused */
  bool steady;
  double most_seconds;         /* PlanOptions.most_seconds */
  double bound[CHOICE_LIMITS]; /* of refused plans */
  double limits[CHOICE_LIMITS], fastest[CHOICE_LIMITS];
  Random random;
  SmallTotals *totals;
} Small;

static const char *const small_nets[] = {
    "import nn\nentry main(x: f32[8, 8]) { output y = linear(x, 8, bias=false) as \"a\" }\n",
    "import nn\nentry main(x: f32[8, 16]) {\n  x = relu(linear(x, 8, bias=false) as \"a\")\n"
    "  output y = linear(x, 16, bias=false) as \"b\"\n}\n",
    "import nn\nentry main(x: f32[4, 4, 8]) {\n  x = x + (linear(tanh(x), 8) as \"a\")\n"
    "  output y = linear(x, 4, bias=false) as \"b\"\n}\n",
};

static inline Module *small_module(Small *x, bool step) {
  Diags *d = diags_new(x->a);
  if (step) {
    uint32_t n = below(&x->random, sizeof small_nets / sizeof *small_nets);
    return step_by(x->a, small_nets[n], below(&x->random, 2) ? "mse" : "cross_entropy", "sgd", d);
  }
  Module *m = module_new();
  random_graph(m, &x->random, 4, 4 + (int)below(&x->random, 4), d);
  CHECKF(d->errors == 0, "seed %llu", (unsigned long long)x->seed);
  return m;
}

/* One tier, or pairs connected by slower links. */
static inline void small_target(Small *x) {
  x->t = random_target(&x->random, 2 << below(&x->random, 2));
  if (x->t.ranks < 4 || below(&x->random, 2)) return;
  x->t.nodes = 2;
  x->t.ntiers = 2;
  x->t.tiers[1] = x->t.tiers[0];
  x->t.tiers[0].group = 2;
  x->t.tiers[1].name = "network";
  x->t.tiers[1].bandwidth /= 4, x->t.tiers[1].latency *= 3;
}

static inline void small_plan(Small *x, int i, double share) {
  if (i) x->limits[i] = floor(share * x->plans[0]->price.memory.total);
  PlanLack lack = {0};
  const PlanOptions o = {
      .memory_limit = i ? x->limits[i] : 0, .steady = x->steady, .most_seconds = x->most_seconds, .lack = &lack};
  Diags *d = diags_new(x->a);
  x->plans[i] = plan_search(x->m, x->f, &x->t, &o, d);
  x->totals->refused += !x->plans[i];
  x->bound[i] = x->most_seconds > 0 ? lack.bound : 0;
  CHECKF(!x->plans[i] || x->most_seconds <= 0 || x->plans[i]->price.time.total <= x->most_seconds,
         "seed %llu: too late", (unsigned long long)x->seed);
  x->fastest[i] = INFINITY;
}

/* No choice is below the bound; some may be within refused limits. */
static inline void small_compare(Small *x, const Choices *c) {
  const Mesh *mesh = &x->m->mesh;
  bool fills = mesh->chunks > 1 || schedule_weights_apart(mesh->schedule);
  for (int i = 0; i < CHOICE_LIMITS; i++) {
    const Plan *p = x->plans[i];
    double bound = !p ? x->bound[i] : fills ? p->no_gaps_bound : p->lower_bound;
    CHECKF(c->best[i] >= bound * (1 - 1e-9),
           "seed %llu, %.0f bytes, %d stages, %d micro-batches, %s: %.17g s, bound %.17g, plan %.17g",
           (unsigned long long)x->seed, x->limits[i], mesh->stages, mesh_micro_batches(mesh),
           schedule_text(x->a, mesh->schedule, mesh->chunks), c->best[i], bound, p ? plan_seconds(p) : 0);
    x->fastest[i] = fmin(x->fastest[i], c->best[i]);
  }
}

/* On the mesh that the module has. */
static inline void small_mesh(Small *x, const bool *again) {
  const Rule *const *rules = rules_of(x->m, x->f);
  const OpLabels *labels = labels_of(x->m, x->f, rules);
  CostModel *cost = cost_model_new(x->m, &x->t);
  const Shape *shape = shape_of(x->m, cost, x->f, rules, labels, cost_loops(x->m->arena, cost, x->f, again));
  Choices c;
  if (choices_new(&c, x->a, x->m, x->f, rules, cost, shape)) {
    bool whole = choices_count(&c) * pow((double)c.ncuts, x->m->mesh.stages - 1) <= (double)x->budget;
    c.again = again;
    c.steady = x->steady, c.most_seconds = x->most_seconds;
    for (int i = 0; i < CHOICE_LIMITS; i++) c.limits[i] = x->limits[i], c.best[i] = INFINITY;
    if (whole) choices_all(&c);
    else choices_some(&c, &x->random, x->budget);
    small_compare(x, &c);
    x->totals->meshes++, x->totals->whole += whole;
    x->totals->priced += c.priced;
  }
  cost_model_free(cost);
}

static inline void small_with_micro_batches(Small *x, Mesh mesh, int micro) {
  bool trains = func_has_gradients(x->f), turns = trains && mesh.stages > 1 && micro > 1;
  const RecomputeChoices *policies = recompute_choices(x->a, x->f);
  if (micro > 1) {
    memmove(mesh.axes + 1, mesh.axes, sizeof *mesh.axes * (size_t)mesh.naxes++);
    mesh.axes[0] = (MeshAxis){.name = "mb", .size = micro, .temporal = true};
  }
  for (int schedule = 0; schedule < (turns ? SCHEDULE_COUNT : 1); schedule++) {
    Mesh next = mesh;
    next.schedule = (PipelineSchedule)schedule;
    next.chunks = schedule == SCHEDULE_zbv || schedule == SCHEDULE_interleaved ? 2 : 0;
    if (next.chunks) next.stages *= next.chunks;
    for (int again = 0; again <= trains; again++) {
      module_set_mesh(x->m, &next);
      small_mesh(x, again ? recompute_ops(x->a, policies, (Recompute){RECOMPUTE_selective, 0}) : NULL);
    }
  }
}

static inline void small_meshes(Small *x) {
  for (int stages = 1; stages <= x->t.ranks; stages *= 2)
    for (int inner = 1; inner * inner <= x->t.ranks / stages; inner *= 2)
      for (int micro = 1; micro <= 4; micro *= 2) {
        Mesh mesh = {.stages = stages};
        int sizes[] = {x->t.ranks / stages / inner, inner};
        for (int i = 0; i < 2; i++)
          if (sizes[i] > 1) mesh.axes[mesh.naxes++] = (MeshAxis){.name = i ? "q" : "p", .size = sizes[i]};
        small_with_micro_batches(x, mesh, micro);
      }
}

/* Records how far the fastest choices are from the plans. */
static inline void small_count(const Small *x) {
  SmallTotals *totals = x->totals;
  for (int i = 0; i < CHOICE_LIMITS; i++) {
    const Plan *p = x->plans[i];
    if (!p) continue;
    double seconds = plan_seconds(p);
    totals->open += p->gap > 0;
    totals->met += fabs(x->fastest[i] - seconds) <= 1e-9 * seconds;
    totals->faster += x->fastest[i] < seconds * (1 - 1e-9);
    double *most = i ? &totals->most_limited : &totals->most;
    *most = fmax(*most, 1 - x->fastest[i] / seconds);
  }
}

/* A batch may take slightly longer than the fastest one, or any time. */
static inline void small_steady(Small *x) {
  x->steady = true;
  x->totals->steady++;
  if (x->seed % 2 || !x->plans[0]) return;
  x->most_seconds = (1 + 0.1 * below(&x->random, 10)) * x->plans[0]->price.time.total;
  x->totals->in_time++;
}

/* Every third is a training step; for every other one the time from batch to batch is minimised. */
static inline void one_small(uint64_t seed, long budget, SmallTotals *totals) {
  Small x = {.a = arena_new(), .seed = seed, .budget = budget, .totals = totals, .limits = {INFINITY}};
  x.random.state = seed * 0x9E3779B97F4A7C15u + 7;
  for (int i = 0; i < 8; i++) below(&x.random, 2);
  bool step = seed % 3 == 0;
  small_target(&x);
  x.m = small_module(&x, step);
  if (x.m) {
    x.f = module_func(x.m, "main");
    small_plan(&x, 0, 1);
    if (!step && seed % 4 > 1) small_steady(&x), small_plan(&x, 0, 1);
    for (int i = 1; i < CHOICE_LIMITS && x.plans[0]; i++) small_plan(&x, i, 1 - 0.17 * i);
    CHECKF(x.plans[0] || x.most_seconds > 0, "seed %llu: no plan", (unsigned long long)seed);
    small_meshes(&x), small_count(&x);
    totals->functions++, totals->steps += step;
    module_free(x.m);
  }
  arena_free(x.a);
}

static inline void small_show(const SmallTotals *x) {
  printf(
      "%d small functions, %d of them steps of training, %d kept full (%d in time): %d limits refused, %d plans with "
      "a gap; %d meshes, all ",
      x->functions, x->steps, x->steady, x->in_time, x->refused, x->open, x->meshes);
  printf(
      "choices of %d, %ld priced; the fastest is as fast as %d plans and faster than %d: without a limit by at most ",
      x->whole, x->priced, x->met, x->faster);
  printf("%.2f %%, within one by %.2f %%\n", 100 * x->most, 100 * x->most_limited);
  fflush(stdout);
}

#endif
