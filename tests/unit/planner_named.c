/* passes/search/shape.c, shape_alike: plans in which equal layers make one choice. */
#include <math.h>

#include "passes/search/outer.h"
#include "tests/planner_case.h"
#include "tests/planner_models.h"
#include "tests/test.h"

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

/* The small graph says of its plan what the whole one says of the best, which is as good here; and it is as small for
 * many layers as for few. */
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

int main(void) {
  RUN(layers_alike);
  return test_summary();
}
