/* tests/unit/planner_schedules.c - the schedule of a training step's plan if none is given.
 *
 * A plan with a forced schedule is not faster than the free plan of the same degrees, nor than the reported bound: that
 * of plans with 1f1b, or, for schedules that may leave no gaps, the one without gaps. */
#include <math.h>

#include "frontend/topo/target.h"
#include "ir/schedule.h"
#include "passes/plan/plan.h"
#include "tests/test.h"
#include "tests/train_step.h"

static const char deep[] =
    "import nn\nentry main(x: f32[64, 256]) {\n"
    "  for i in 0..8 { x = x + (linear(relu(linear(x, 512) as \"u{i}\"), 256) as \"d{i}\") }\n"
    "  output y = linear(x, 32) as \"last\"\n}\n";
static const char attends[] =
    "import nn\nentry main(x: f32[16, 128, 64]) {\n"
    "  for i in 0..6 {\n"
    "    x = x + (self_attention(layer_norm(x) as \"n{i}\", 4, causal=true) as \"a{i}\")\n"
    "    x = x + (linear(gelu(linear(layer_norm(x) as \"m{i}\", 256) as \"u{i}\"), 64) as \"d{i}\")\n"
    "  }\n"
    "  output y = linear(x, 32) as \"last\"\n}\n";
/* Too few places to cut for two stages on each of two. */
static const char shallow[] =
    "import nn\nentry main(x: f32[256, 128]) {\n"
    "  output y = linear(relu(linear(x, 512) as \"a\"), 64) as \"b\"\n}\n";
static const char *const given[] = {"gpipe",         "1f1b",          "zbh1",          "zbv",
                                    "interleaved:2", "interleaved:3", "interleaved:4", "interleaved:5"};
enum { GIVEN = sizeof given / sizeof *given };

static int forced, filled, faster;

static const Plan *plan_with(Module *m, const Target *t, PlanOptions o) {
  return plan_search(m, module_func(m, "main"), t, &o, diags_new(m->arena));
}

/* With a schedule; NULL for apc's choice. */
static const Plan *plan_by(Module *m, const Target *t, PlanOptions o, const char *schedule) {
  PipelineSchedule s;
  if (!schedule) return plan_with(m, t, o);
  CHECK(schedule_parse(schedule, strlen(schedule), &s, &o.chunks));
  o.schedule = 1 + (int)s;
  return plan_with(m, t, o);
}

static bool leaves_gaps(const char *schedule) { return !strcmp(schedule, "1f1b") || !strcmp(schedule, "gpipe"); }

static void check_degrees(Module *m, const Target *t, const Plan *free, PlanOptions o) {
  const Plan *chosen = plan_by(m, t, o, NULL);
  if (!chosen) return;
  const char *what =
      arena_printf(m->arena, "%s, pp %d, %d micro-batches", t->name, o.degree[DEGREE_pp], o.micro_batches);
  double seconds = chosen->price.time.total, in_turns = 0;
  CHECKF(seconds >= free->price.time.total * (1 - 1e-9), "%s: %g s, without force %g s", what, seconds,
         free->price.time.total);
  for (int i = 0; i < GIVEN; i++) {
    const Plan *p = plan_by(m, t, o, given[i]);
    if (!p) continue;
    double took = p->price.time.total;
    bool gaps = leaves_gaps(given[i]);
    forced++;
    if (strcmp(given[i], "1f1b") == 0) in_turns = took;
    CHECKF(took >= seconds * (1 - 1e-9), "%s: %s %g s, chosen %s: %g s", what, given[i], took,
           plan_schedule_name(m->arena, chosen), seconds);
    for (int k = 0; k < 2; k++) {
      const Plan *of = k ? free : chosen;
      double bound = gaps ? of->lower_bound : of->no_gaps_bound;
      CHECKF(took >= bound * (1 - 1e-9), "%s: %s %g s, bound %g s", what, given[i], took, bound);
    }
  }
  bool fills = !leaves_gaps(plan_schedule_name(m->arena, chosen));
  filled += fills, faster += seconds < in_turns * (1 - 1e-9);
  CHECKF(in_turns == 0 || fills == (seconds < in_turns * (1 - 1e-9)), "%s", what);
}

static void check_net(const char *net, const char *target) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = step_of(a, net, d);
  const Target *t = topo_target_find(d, a, target);
  const Plan *free = m && t ? plan_with(m, t, (PlanOptions){0}) : NULL;
  CHECK(free != NULL);
  for (int pp = 2; free && pp <= t->ranks; pp *= 2)
    for (int micro = 2; micro <= 8; micro *= 4)
      check_degrees(m, t, free, (PlanOptions){.degree[DEGREE_pp] = pp, .micro_batches = micro});
  if (m) module_free(m);
  arena_free(a);
}

static void given_is_no_faster(void) {
  check_net(deep, "cpux4");
  check_net(attends, "cpux2");
  check_net(shallow, "cpux4");
  printf("%d forced; of the plans without force %d fill gaps and %d are faster for it\n", forced, filled, faster);
  CHECK(forced > 50 && filled > 5);
}

int main(void) {
  RUN(given_is_no_faster);
  return test_summary();
}
