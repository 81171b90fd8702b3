/* What fits on a rank: weights as the compute type keeps them. */
#include "frontend/target.h"
#include "tests/planner_case.h"
#include "tests/planner_models.h"

/* plan_of, computing in another type. */
static Case plan_in(const char *text, const char *target, ComputeType type, PlanOptions o) {
  Case c = {.a = arena_new()};
  c.d = diags_new(c.a);
  c.m = ir_parse("model.ir", text, c.d);
  if (c.m) c.f = module_func(c.m, "main");
  c.t = target_find(c.d, c.a, target);
  if (c.t) c.t = target_computing_in(c.a, c.t, type);
  if (c.m && c.t) c.p = plan_search(c.m, c.f, c.t, &o, c.d);
  return c;
}

/* Two bytes a weight: what four ranks can keep of them is not judged as if they had four. */
static void compute_type(void) {
  Arena *a = arena_new();
  const char *text = mlp_text(a, 4, 1024, 4096);
  double elements = 4 * (2.0 * 1024 * 4096 + 4096), limit = elements * 2 / 4 * 1.3;
  Case half = plan_in(text, "dgx-a100x4", CT_bf16, (PlanOptions){.memory_limit = limit});
  CHECK(half.p != NULL);
  if (half.p) CHECK(half.p->price.memory.params >= elements * 2 / 4 && half.p->price.memory.total <= limit);
  done(&half);
  Case whole = plan_in(text, "dgx-a100x4", CT_f32, (PlanOptions){.memory_limit = limit});
  CHECK(!whole.p && whole.d->errors == 1);
  done(&whole);
  arena_free(a);
}

int main(void) {
  RUN(compute_type);
  return test_summary();
}
