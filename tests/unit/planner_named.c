/* Usual plans: those in which equal layers make one choice (passes/search/shape.c), and their estimated times
 * (passes/search/estimate.c). */
#include <math.h>

#include "ir/schedule.h"
#include "passes/search/estimate.h"
#include "tests/planner_case.h"
#include "tests/planner_models.h"
#include "tests/test.h"
#include "tests/train_step.h"

static double solve_with(Search *s, const Candidate *c, const Shape *shape, Strategy *strategies, int *variables) {
  const char *why = NULL;
  search_set_mesh(s, c, NULL);
  GraphInput in = search_graph_input(s, c);
  in.shape = shape;
  in.prune_above = INFINITY;
  Graph *g = graph_new(&in, &why);
  CHECKF(g != NULL, "%s", why);
  if (!g) return INFINITY;
  Arena *scratch = arena_new();
  SolveResult r = solve(graph_problem(g), scratch);
  CHECK(r.feasible);
  graph_strategies(g, r.values, strategies);
  *variables = graph_problem(g)->nvars;
  arena_free(scratch);
  graph_free(g);
  return r.time;
}

/* The small graph gives for its plan the cost that the whole one gives for the best, which is as good here; and it is
 * as small for many layers as for few. */
static void layers_alike(void) {
  static const Candidate meshes[] = {
      {.stages = 1, .least = 1, .micro = 1, .naxes = 2, .sizes = {2, 4}, .degree = {DEGREE_dp, DEGREE_tp}},
      {.stages = 1, .least = 1, .micro = 1, .naxes = 2, .sizes = {2, 4}, .degree = {-1, -1}},
      {.stages = 1, .least = 1, .micro = 1, .naxes = 1, .sizes = {8}, .degree = {-1}}};
  int known[sizeof meshes / sizeof *meshes] = {0};
  for (int layers = 6; layers <= 24; layers *= 2) {
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    const GptShape shape = {layers, 192, 4, 768, 1000, 64, 8};
    Module *m = ir_parse("gpt.ir", gpt_text(a, &shape), d);
    const Target *t = topo_target_find(d, a, "dgx-a100");
    Search s;
    bool open = m && t && search_open(&s, m, module_func(m, "main"), t, &(PlanOptions){0}, d);
    CHECK(open && s.alike);
    for (size_t k = 0; open && s.alike && k < sizeof meshes / sizeof *meshes; k++) {
      Strategy *alike = ARENA_ARRAY(a, Strategy, s.f->ops.n), *best = ARENA_ARRAY(a, Strategy, s.f->ops.n);
      int *stages = ARENA_ARRAY(a, int, s.f->ops.n), few, all;
      double seconds = solve_with(&s, &meshes[k], s.alike, alike, &few),
             least = solve_with(&s, &meshes[k], s.shape, best, &all),
             price = cost_plan(s.cost, s.m, s.f, s.rules, alike, stages).time.total,
             price_of_best = cost_plan(s.cost, s.m, s.f, s.rules, best, stages).time.total;
      CHECKF(seconds >= least * (1 - 1e-9) && seconds <= least * (1 + 1e-6), "%g, best %g", seconds, least);
      CHECKF(fabs(price - price_of_best) <= 1e-6 * price, "%g, best %g", price, price_of_best);
      CHECKF(!known[k] || few == known[k], "%d variables, %d", few, known[k]);
      CHECKF(few < all, "%d variables of %d", few, all);
      known[k] = few;
    }
    if (open) search_close(&s);
    diags_print(d, stderr, false);
    if (m) module_free(m);
    arena_free(a);
  }
}

static const char deep[] =
    "import nn\nentry main(x: f32[64, 512, 256]) {\n"
    "  for i in 0..24 {\n"
    "    x = x + (self_attention(layer_norm(x) as \"n{i}\", 4, causal=true) as \"a{i}\")\n"
    "    x = x + (linear(gelu(linear(layer_norm(x) as \"m{i}\", 1024) as \"u{i}\"), 256) as \"d{i}\")\n"
    "  }\n"
    "  output y = linear(x, 128) as \"last\"\n}\n";

/* The price of a candidate with one of the usual schedules. */
static PlanPrice price_by(Search *s, Candidate c, ScheduleKind kind) {
  double ignored;
  s->any_schedule = false;
  s->schedule = c.schedule = kind;
  c.no_gaps = kind.chunks > 1 || schedule_weights_apart(kind.order);
  const PlanPrice price = search_solve_mesh(s, &c, INFINITY, &ignored)->price;
  s->any_schedule = true;
  s->schedule = (ScheduleKind){.order = SCHEDULE_1f1b};
  return price;
}

/* Estimates of pipelines are within 8 % of prices if everything is kept, and also with less memory if gradients of
 * weights are computed at once: the memory kept for later ones is only guessed. */
static void estimates_near_prices(void) {
  static const Candidate meshes[] = {
      {.stages = 4, .least = 8, .micro = 8, .naxes = 1, .sizes = {4}, .degree = {DEGREE_dp}},
      {.stages = 4, .least = 16, .micro = 16, .naxes = 2, .sizes = {2, 2}, .degree = {DEGREE_dp, DEGREE_tp}}};
  int compared = 0, again = 0;
  for (int l = 0; l < 2; l++) {
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    Module *m = step_of(a, deep, d);
    const Target *t = topo_target_find(d, a, "dgx-a100x16");
    Search s;
    PlanOptions o = {.memory_limit = l ? 6.5e8 : 0};
    bool open = m && t && search_open(&s, m, module_func(m, "main"), t, &o, d);
    CHECK(open && s.alike);
    for (size_t k = 0; open && s.alike && k < sizeof meshes / sizeof *meshes; k++) {
      Candidate c = meshes[k];
      c.no_gaps = true;
      s.layers_alike = true;
      /* Of several, those much slower than the best are not estimated. */
      const Estimates x = search_estimate(search_estimating(&s, a), &c);
      for (int i = 0; i < USUAL_SCHEDULES; i++) {
        ScheduleKind kind = search_usual_schedules[i];
        if (isinf(x.by[i].seconds) || (l && schedule_weights_apart(kind.order))) continue;
        const PlanPrice price = price_by(&s, c, kind);
        CHECKF(price.possible, "mesh %zu, schedule %d: no plan", k, i);
        double part = x.by[i].seconds / price.time.total;
        CHECKF(part > 0.92 && part < 1.08, "mesh %zu, schedule %d, recompute %d: estimate %g, price %g", k, i,
               x.by[i].again, x.by[i].seconds, price.time.total);
        compared++, again += x.by[i].again > 0;
      }
    }
    if (open) search_close(&s);
    diags_print(d, stderr, false);
    if (m) module_free(m);
    arena_free(a);
  }
  CHECK(compared > 15 && again > 4);
}

int main(void) {
  RUN(layers_alike);
  RUN(estimates_near_prices);
  return test_summary();
}
