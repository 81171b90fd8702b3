/* bench/plan_gpt.c - planning times of a GPT-2-like model: plan_gpt [LAYERS TARGET...]
 *
 * Without arguments: rows for layers x ranks.  The time is processor time, which other load does not affect much; sums
 * are the table entries formed, which do not depend on the machine. */
#include <stdlib.h>
#include <time.h>

#include "frontend/topo/target.h"
#include "passes/plan/plan.h"
#include "tests/planner_models.h"

static void show(const char *model, const char *target, const PlanOptions *o) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("gpt.ir", model, d);
  const Target *t = topo_target_find(d, a, target);
  Plan *p = m && t ? plan_search(m, module_func(m, "main"), t, o, d) : NULL;
  diags_print(d, stderr, false);
  if (p) {
    printf(
        "%-7s tp %d pp %d dp %d cp %d mb %d  %.3f ms (one device %.3f ms)  gap %.4f  %.1f MB of weights, %.1f MB  "
        "search %.2f s\n",
        target, p->degree[DEGREE_tp], p->degree[DEGREE_pp], p->degree[DEGREE_dp], p->degree[DEGREE_cp],
        p->micro_batches, 1e3 * p->price.time.total, 1e3 * p->one_device_seconds, p->gap, p->price.memory.params / 1e6,
        p->price.memory.total / 1e6, p->search_seconds);
    if (getenv("PLAN_TEXT")) {
      Text text = {.arena = a};
      plan_print(m, module_func(m, "main"), p, &text);
      puts(text_str(&text));
    }
  }
  if (m) module_free(m);
  arena_free(a);
}

static void row(int layers, const char *target, int tp) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  GptShape g = {layers, 768, 12, 3072, 50257, 512, 8};
  Module *m = ir_parse("gpt.ir", gpt_text(a, &g), d);
  const Target *t = topo_target_find(d, a, target);
  PlanOptions o = {.degree[DEGREE_tp] = tp};
  clock_t start = clock();
  Plan *p = m && t ? plan_search(m, module_func(m, "main"), t, &o, d) : NULL;
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  diags_print(d, stderr, false);
  if (p)
    printf("| %d | %s%s | tp %d pp %d dp %d cp %d | %.3f s | %.1f %% | %.2g | %.2f s |\n", layers, target,
           tp ? arena_printf(a, ", --tp %d", tp) : "", p->degree[DEGREE_tp], p->degree[DEGREE_pp], p->degree[DEGREE_dp],
           p->degree[DEGREE_cp], p->price.time.total, 100 * p->gap, p->search_work, seconds);
  if (m) module_free(m);
  arena_free(a);
}

static void table(void) {
  static const int layers[] = {12, 48, 96};
  static const char *const targets[] = {"cpux4", "cpux8", "cpux16", "cpux64"};
  puts(
      "| layers | target | plan | predicted | gap | sums | processor time |\n| --- | --- | --- | --- | --- | --- | --- "
      "|");
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    for (size_t k = 0; k < sizeof targets / sizeof *targets; k++) row(layers[i], targets[k], 0);
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) row(layers[i], "cpux64", 16);
}

int main(int argc, char **argv) {
  if (argc < 3) {
    table();
    return 0;
  }
  Arena *a = arena_new();
  GptShape g = {atoi(argv[1]), 768, 12, 3072, 50257, 512, 8};
  const char *model = gpt_text(a, &g);
  PlanOptions o = {0};
  const char *tp = getenv("TP"), *pp = getenv("PP"), *dp = getenv("DP"), *mb = getenv("MB"), *gb = getenv("GB");
  o.degree[DEGREE_tp] = tp ? atoi(tp) : 0;
  o.degree[DEGREE_pp] = pp ? atoi(pp) : 0;
  o.degree[DEGREE_dp] = dp ? atoi(dp) : 0;
  o.micro_batches = mb ? atoi(mb) : 0;
  o.memory_limit = gb ? atof(gb) * 1e9 : 0;
  for (int i = 2; i < argc; i++) show(model, argv[i], &o);
  arena_free(a);
  return 0;
}
