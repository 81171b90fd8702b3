/* tests/oracle/steady.c - compares throughput and cost with layouts that are forced one by one.
 *
 * Small models are planned for a priced target of 4 or 8 devices, with and without a limit of latency that binds.  Then
 * every number of devices that divides the target is tried with every way to divide it into degrees and some numbers of
 * micro-batches; for each layout a plan with the least latency is made, and one with the least time from batch to
 * batch.  The sums of their stages give how often a batch can begin, the throughput of all replicas, and the cost of a
 * step.  No layout within the limit of latency
 *   - is below the bound, or
 *   - better than the chosen plan by more than its gap, which is small if latency is not limited. */
#include <math.h>
#include <string.h>

#include "driver/replicas.h"
#include "frontend/topo/target.h"
#include "tests/test.h"
#include "tests/train_step.h"

static const char mlp[] =
    "import nn\nentry main(x: f32[512, 2048]) {\n"
    "  for i in 0..4 { x = relu(linear(x, 2048) as \"l{i}\") }\n"
    "  output y = linear(x, 1000) as \"last\"\n}\n";

/* Two of its five layers are long, so that stages are uneven. */
static const char uneven[] =
    "import nn\nentry main(x: f32[256, 1024]) {\n"
    "  x = relu(linear(x, 8192) as \"a\")\n  x = relu(linear(x, 1024) as \"b\")\n"
    "  for i in 0..3 { x = relu(linear(x, 1024) as \"l{i}\") }\n  output y = x\n}\n";

static const char transformer[] =
    "import nn\nentry main(x: f32[8, 128, 512]) {\n"
    "  for i in 0..2 {\n"
    "    x = x + (self_attention(layer_norm(x) as \"n{i}\", 8, causal=true) as \"a{i}\")\n"
    "    x = x + (linear(gelu(linear(layer_norm(x) as \"m{i}\", 2048) as \"u{i}\"), 512) as \"d{i}\")\n"
    "  }\n"
    "  output y = linear(x, 4000) as \"last\"\n}\n";

/* Fast links inside a machine, slow ones between machines. */
static const char quads[] =
    "machine quads {\n  devices 4 A100-SXM4-40GB;\n  link nvlink at 300 GB/s latency 3 us;\n"
    "  network ethernet 1 at 25 Gbit/s latency 15 us;\n  price 12 USD/h \"made up\" 2026-01-01;\n}\n";

typedef struct Problem {
  const char *name, *net, *loss; /* NULL if it is not trained */
  int ranks;
  DriverObjective objective;
  double memory;  /* bytes of a device; 0 for its own */
  double latency; /* of one batch, as a share of the plan's without a limit; 0 for any */
  double gap;     /* at most */
} Problem;

static const Problem problems[] = {
    {"mlp", mlp, NULL, 4, OBJECTIVE_throughput, 0, 0, 0.01},
    {"mlp, half its weights", mlp, NULL, 4, OBJECTIVE_throughput, 45e6, 0, 0.35},
    {"mlp, in time", mlp, NULL, 8, OBJECTIVE_throughput, 0, 0.5, 0.35},
    {"uneven", uneven, NULL, 4, OBJECTIVE_throughput, 40e6, 0, 0.3},
    {"transformer, a third of its weights", transformer, NULL, 4, OBJECTIVE_cost, 30e6, 0, 0.3},
    {"transformer, in time", transformer, NULL, 8, OBJECTIVE_cost, 0, 0.7, 0.4},
    {"a step of mlp", mlp, "mse", 4, OBJECTIVE_cost, 0, 0, 0.1},
};

typedef struct Case {
  const Problem *problem;
  Arena *a;
  Build b;
  const Target *whole;
  double most_seconds, bound, chosen;
  int layouts, pipelines, better;
  double most_better;
  const PlanKnown *known[2]; /* of the current target, by objective */
} Case;

/* ---- layouts, priced here */

/* From batch to batch: all the busiest stage's work for one batch. */
static double period_of(Case *c, const Target *on, const Plan *p, double *latency) {
  Module *m = c->b.model.m;
  const Mesh before = m->mesh;
  StageCost sums[8] = {0};
  module_set_mesh(m, &p->mesh);
  CostModel *cost = cost_model_new(m, on);
  *latency = cost_plan_stages(cost, m, c->b.l1, rules_of(m, c->b.l1), p->strategies, p->stages, sums, NULL).time.total;
  cost_model_free(cost);
  module_set_mesh(m, &before);
  double most = 0;
  for (int s = 0; s < p->mesh.stages; s++) most = fmax(most, p->micro_batches * sums[s].each + sums[s].once);
  return c->problem->loss ? *latency : most;
}

static void try_layout(Case *c, const Target *on, PlanOptions *o, bool steady) {
  double latency;
  o->steady = steady, o->known = &c->known[steady];
  const Plan *p = plan_search(c->b.model.m, c->b.l1, on, o, diags_new(c->a));
  if (!p) return;
  double period = period_of(c, on, p, &latency), replicas = c->whole->ranks / on->ranks;
  CHECKF(fabs(period - p->price.time.period) <= 1e-9 * period, "%s: %g s, said to be %g", c->problem->name, period,
         p->price.time.period);
  if (c->most_seconds > 0 && latency > c->most_seconds) return;
  bool throughput = c->problem->objective == OBJECTIVE_throughput;
  double value = throughput ? period / replicas : period * 12 * on->ranks / 4 / 3600;
  c->layouts++, c->pipelines += p->mesh.stages > 1;
  CHECKF(value >= c->bound * (1 - 1e-9), "%s: %d devices, pp %d: %.9g is below the bound %.9g", c->problem->name,
         on->ranks, p->degree[DEGREE_pp], value, c->bound);
  c->better += value < c->chosen * (1 - 1e-9);
  c->most_better = fmax(c->most_better, 1 - value / c->chosen);
}

static void try_degrees(Case *c, const Target *on, PlanOptions *o, int d, int rest) {
  static const int micro[] = {1, 2, 4};
  for (int n = 1; d < DEGREE_COUNT && n <= rest; n++) {
    if (rest % n || (d == DEGREE_ep && n > 1)) continue;
    o->degree[d] = n;
    try_degrees(c, on, o, d + 1, rest / n);
  }
  for (int i = 0; d == DEGREE_COUNT && rest == 1 && i < 3; i++) {
    o->micro_batches = micro[i];
    for (int steady = 0; steady < 2; steady++) try_layout(c, on, o, steady);
  }
}

/* ---- a problem */

/* Compares the part with the target of the same number of devices. */
static void check_part(const Target *x, const Target *y) {
  CHECKF(x->ranks == y->ranks && x->nodes == y->nodes && x->ntiers == y->ntiers &&
             x->prices[0].usd_per_hour == y->prices[0].usd_per_hour &&
             x->tiers[x->ntiers - 1].group == y->tiers[y->ntiers - 1].group,
         "%d devices", y->ranks);
}

static const Plan *choose(Case *c, double latency) {
  Build *b = &c->b;
  b->options.target = c->whole;
  b->options.objective = c->problem->objective;
  b->options.plan = (PlanOptions){.memory_limit = c->problem->memory, .most_seconds = latency};
  return b->plan = driver_plan_replicas(b);
}

static void one_problem(const Problem *p) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Case c = {.problem = p, .a = a, .whole = topo_target_parse(d, a, "quads.topo", quads, "quads", p->ranks)};
  c.b = (Build){.options = {.model = {.arena = a, .diags = d}}, .model = {.m = step_by(a, p->net, p->loss, "sgd", d)}};
  Func *f = c.b.model.m ? module_func(c.b.model.m, "main") : NULL;
  c.b.l1 = f, c.b.l1s = &f, c.b.nentries = 1;
  const Plan *plan = f && c.whole ? choose(&c, 0) : NULL;
  if (plan && p->latency > 0) {
    c.most_seconds = p->latency * plan->price.time.total;
    plan = choose(&c, c.most_seconds);
  }
  CHECKF(plan, "%s: no plan", p->name);
  if (plan) {
    c.bound = c.b.replicas->bound, c.chosen = driver_replicas_value(&c.b);
    CHECKF(c.bound <= c.chosen * (1 + 1e-9) && plan_gap(c.chosen, c.bound) <= p->gap, "%s: %g, bound %g", p->name,
           c.chosen, c.bound);
    CHECKF(c.most_seconds <= 0 || plan->price.time.total <= c.most_seconds, "%s: too late", p->name);
    for (int n = 1; n <= p->ranks; n *= 2) {
      PlanOptions o = {.memory_limit = p->memory};
      c.known[0] = c.known[1] = NULL;
      const Target *part = target_part(a, c.whole, "part", n);
      check_part(part, topo_target_parse(d, a, "quads.topo", quads, "part", n));
      try_degrees(&c, part, &o, 0, n);
    }
    printf("%s: %d devices of %d, pp %d, gap %.2f %%; %d layouts, %d pipelines, %d are better, by at most %.2f %%\n",
           p->name, plan->on->ranks, p->ranks, plan->degree[DEGREE_pp], 100 * plan_gap(c.chosen, c.bound), c.layouts,
           c.pipelines, c.better, 100 * c.most_better);
    CHECKF(c.layouts > 5, "%s", p->name);
  }
  diags_print(d, stderr, false);
  if (c.b.model.m) module_free(c.b.model.m);
  arena_free(a);
}

int main(void) {
  for (size_t i = 0; i < sizeof problems / sizeof *problems; i++) one_problem(&problems[i]);
  return test_failed_here ? 1 : 0;
}
