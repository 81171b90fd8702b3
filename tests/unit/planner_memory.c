/* tests/unit/planner_memory.c - training steps that do not fit: less and less memory, and the planner's reaction.  It
 * uses micro-batches without stages, recomputation or more parts of weights; a plan with a forced number of
 * micro-batches, degrees or policy is not faster than the bound that it reports, and no number of micro-batches that it
 * tries is faster than its plan. */
#include "frontend/topo/target.h"
#include "passes/plan/plan.h"
#include "tests/test.h"
#include "tests/train_step.h"

static const char deep[] =
    "import nn\nentry main(x: f32[3072, 64]) {\n"
    "  for i in 0..3 { x = x + (linear(relu(linear(x, 256) as \"u{i}\"), 64) as \"d{i}\") }\n"
    "  output y = linear(x, 32) as \"last\"\n}\n";
static const char attends[] =
    "import nn\nentry main(x: f32[64, 64, 32]) {\n"
    "  for i in 0..2 {\n"
    "    x = x + (self_attention(layer_norm(x) as \"n{i}\", 4, causal=true) as \"a{i}\")\n"
    "    x = x + (linear(gelu(linear(layer_norm(x) as \"m{i}\", 128) as \"u{i}\"), 32) as \"d{i}\")\n"
    "  }\n"
    "  output y = linear(x, 32) as \"last\"\n}\n";
static const char wide[] =
    "import nn\nentry main(x: f32[4800, 96]) {\n"
    "  output y = linear(tanh(linear(tanh(linear(x, 512) as \"a\"), 512) as \"b\"), 16) as \"c\"\n}\n";
static const char *const nets[] = {deep, attends, wide};

static const Recompute policies[] = {{RECOMPUTE_selective, 0}, {RECOMPUTE_layers, 1}, {RECOMPUTE_full_layers, 1}};

static int plans, with_micro, made_again, none;

static const Plan *plan_with(Module *m, const Target *t, PlanOptions o) {
  Diags *d = diags_new(m->arena);
  return plan_search(m, module_func(m, "main"), t, &o, d);
}

/* No forced plan is faster than the bound of the free one. */
static const Plan *forced(Module *m, const Target *t, const Plan *free, PlanOptions o, const char *what) {
  const Plan *p = plan_with(m, t, o);
  if (!p) return NULL;
  double seconds = p->price.time.total;
  CHECKF(seconds >= free->lower_bound * (1 - 1e-9), "%s: %g seconds, and the bound is %g", what, seconds,
         free->lower_bound);
  CHECKF(seconds >= p->lower_bound * (1 - 1e-9) && p->price.memory.total <= o.memory_limit, "%s", what);
  return p;
}

/* Two quarters have a limit; each forces half of the numbers of micro-batches, so that together they force all. */
static void check_limit(Module *m, const Target *t, double limit, const char *net, int number) {
  const PlanKnown *known = NULL;
  const PlanOptions flat = {.memory_limit = limit, .degree[DEGREE_pp] = 1, .known = &known};
  const Plan *free = plan_with(m, t, flat);
  none += !free;
  if (!free) return;
  plans++, with_micro += free->micro_batches > 1, made_again += strcmp(free->recompute, "none") != 0;
  CHECK(free->price.memory.total <= limit);
  for (int micro = 1; micro <= 4; micro++) {
    if (!in_quarter(number % 2 + 2 * (micro % 2))) continue;
    PlanOptions o = flat;
    o.micro_batches = micro;
    const char *what = arena_printf(m->arena, "%.40s, %g bytes, %d micro-batches", net, limit, micro);
    const Plan *p = forced(m, t, free, o, what);
    bool tried = (micro & (micro - 1)) == 0;
    if (p && tried)
      CHECKF(p->price.time.total >= free->price.time.total * (1 - 2e-3), "%s: %g seconds, and the plan takes %g", what,
             p->price.time.total, free->price.time.total);
    for (int tp = 1; tp <= 4; tp *= 2) {
      o.degree[DEGREE_tp] = tp, o.degree[DEGREE_dp] = 4 / tp;
      forced(m, t, free, o, what);
    }
    o.degree[DEGREE_tp] = o.degree[DEGREE_dp] = 0, o.known = NULL;
    for (size_t i = 0; i < sizeof policies / sizeof *policies && micro < 3; i++) {
      o.recompute = policies[i];
      forced(m, t, free, o, what);
    }
  }
}

static void less_and_less_memory(void) {
  const double shares[] = {0.35, 0.7};
  for (size_t i = 0; i < sizeof nets / sizeof *nets; i++) {
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    const Target *t = topo_target_find(d, a, "cpux4");
    Module *m = t ? step_of(a, nets[i], d) : NULL;
    CHECK(m != NULL);
    const Plan *whole = m ? plan_with(m, t, (PlanOptions){.degree[DEGREE_pp] = 1}) : NULL;
    CHECK(whole != NULL);
    for (size_t k = 0; whole && k < sizeof shares / sizeof *shares; k++)
      if (in_half((long)(i + k))) check_limit(m, t, shares[k] * whole->price.memory.total, nets[i], (int)(i + k));
    if (m) module_free(m);
    arena_free(a);
  }
  printf("%d plans, %d of them in micro-batches, %d make something again; %d limits are too low\n", plans, with_micro,
         made_again, none);
  CHECK(plans >= 3 && with_micro >= 2);
}

int main(void) {
  RUN(less_and_less_memory);
  return test_summary();
}
