/* The estimated times of stages of a training step when they are cut, compared with the resulting plan: the estimates
 * choose the cuts.  Work that is done once a step, as adding up gradients over data parallel ranks, must not count in
 * every micro-batch. */
#include <math.h>

#include "frontend/topo/target.h"
#include "passes/facts/labels.h"
#include "passes/plan/plan.h"
#include "passes/facts/derived.h"
#include "passes/facts/home.h"
#include "passes/plan/stage.h"
#include "tests/test.h"
#include "tests/train_step.h"

/* Large weights and few rows: nearly all sent bytes are gradients. */
static const char net[] =
    "import nn\n"
    "entry main(x: f32[16, 1024]) {\n"
    "  x = relu(linear(x, 1024) as \"a\")\n"
    "  x = relu(linear(x, 1024) as \"b\")\n"
    "  x = relu(linear(x, 1024) as \"c\")\n"
    "  output y = linear(x, 1024) as \"last\"\n"
    "}\n";

/* Where the stages of the plan begin. */
static void cuts_of(const Func *f, const Plan *p, Arena *a, size_t *cuts) {
  const bool *derived = derived_ops(a, f);
  const size_t *home = homes_of(a, f, derived);
  int found = 1;
  cuts[0] = 0;
  for (size_t i = 0; i < f->ops.n; i++)
    if (stages_is_placed(f, derived, i) && home[i] == i && p->stages[i] == found) cuts[found++] = i;
  CHECKF(found == p->degree[DEGREE_pp], "%d stages", found);
}

/* The estimate of a step when it is cut, by which plans slower than the best are left out: it must not exceed the
 * prediction by more than that allows for (candidate.c). */
static void check_whole(CostModel *cost, Module *m, const Func *f, const Rule *const *rules, const Plan *p, Arena *a) {
  int *stages = ARENA_ARRAY(a, int, f->ops.n);
  StagesTime t;
  CHECK(stages_cut(NULL, cost, m, f, rules, p->strategies, INFINITY, 0, stages, &t) == STAGES_CUT);
  double counted = t.sum + (p->micro_batches - 1) * t.slowest + t.once,
         takes = cost_plan(cost, m, f, rules, p->strategies, stages).time.total;
  CHECKF(counted > 0.95 * takes && counted < 1.06 * takes, "zero %d: %.4g s counted, predicted %.4g", p->zero, counted,
         takes);
}

static void check_counted(const char *target, PlanOptions o) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = step_of(a, net, d);
  const Target *t = topo_target_find(d, a, target);
  const Func *f = m ? module_func(m, "main") : NULL;
  const Plan *p = f && t ? plan_search(m, f, t, &o, d) : NULL;
  if (!p) diags_print(d, stderr, false);
  CHECK(p && p->degree[DEGREE_pp] == o.degree[DEGREE_pp] && p->degree[DEGREE_dp] == o.degree[DEGREE_dp] &&
        p->micro_batches == o.micro_batches);
  if (p && p->degree[DEGREE_pp] == o.degree[DEGREE_pp]) {
    const Rule *const *rules = (const Rule *const *)rules_of(m, f);
    module_set_mesh(m, &p->mesh);
    CostModel *cost = cost_model_new(m, t);
    StageCost priced[8] = {{0}};
    double counted[8], sum = 0, takes = 0;
    size_t cuts[8];
    cuts_of(f, p, a, cuts);
    cost_plan_stages(cost, m, f, rules, p->strategies, p->stages, priced, NULL);
    stages_seconds(cost, m, f, rules, p->strategies, p->degree[DEGREE_pp], cuts, counted);
    for (int s = 0; s < p->degree[DEGREE_pp]; s++)
      sum += counted[s], takes += priced[s].each + priced[s].once / p->micro_batches;
    CHECKF(sum > 0.97 * takes && sum < 1.03 * takes, "%s, zero %d: stages count %.4g s together, predicted %.4g",
           target, o.zero - 1, sum, takes);
    check_whole(cost, m, f, rules, p, a);
    cost_model_free(cost);
  }
  if (m) module_free(m);
  arena_free(a);
}

static void training(void) {
  for (int zero = 0; zero <= 2; zero++) {
    PlanOptions o = {.schedule = 1 + SCHEDULE_1f1b,
                     .degree = {[DEGREE_pp] = 2, [DEGREE_dp] = 2},
                     .micro_batches = 4,
                     .zero = 1 + zero};
    check_counted("cpux4", o);
    o.degree[DEGREE_dp] = 4;
    check_counted("dgx-a100x8", o);
  }
}

int main(void) {
  RUN(training);
  return test_summary();
}
