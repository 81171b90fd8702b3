/* Memory limits of a rank: weights in the compute type, the memory without the reserve; sizes beyond any price. */
#include "frontend/topo/target.h"
#include "passes/pipeline.h"
#include "tests/planner_case.h"
#include "tests/planner_models.h"
#include "tests/train_step.h"

/* plan_of with another compute type. */
static Case plan_in(const char *text, const char *target, ComputeType type, PlanOptions o) {
  Case c = {.a = arena_new()};
  c.d = diags_new(c.a);
  c.t = topo_target_computing_in(c.a, topo_target_find(c.d, c.a, target), type);
  c.m = ir_parse("model.ir", text, c.d);
  PassOptions how = {.floats = compute_storage(type), .verify = true};
  if (!c.m || !c.t || !pipeline_run(c.m, "narrow,prepare", &how, c.d)) return c;
  c.f = module_func(c.m, "main");
  c.p = plan_search(c.m, c.f, c.t, &o, c.d);
  return c;
}

/* Two bytes per weight: the limit of four ranks is not judged as if weights had four bytes. */
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

static const char *mlp_of_batch(Arena *a, const char *batch) {
  return arena_printf(a,
                      "apc.ir 1\nsymbol batch min 1 hint %s\nparam \"w\" : f32[8, 4] = zeros\n"
                      "func @main level 1 {\n  %%x = input {name=\"x\"} : f32[batch, 8]\n"
                      "  %%w = param {name=\"w\"} : f32[8, 4]\n"
                      "  %%y = dot %%x, %%w {spec=\"bm,mn->bn\"} : f32[batch, 4]\n  output \"y\" %%y\n}\n",
                      batch);
}

/* A size whose bytes cannot be counted is refused by name, in a search and in a plan file; the next smaller one is
   priced. */
static void huge_sizes(void) {
  static const char *const huge[] = {"9223372036854775807", "9223372036854775806", "4611686018427387904",
                                     "288230376151711744"};
  Arena *a = arena_new();
  for (size_t i = 0; i < 4; i++) {
    Case c = plan_of(mlp_of_batch(a, huge[i]), "cpux3", (PlanOptions){.memory_limit = 1e30});
    CHECKF(!c.p && c.d->errors == 1 && c.d->items[0].code == DIAG_dimension &&
               strstr(c.d->items[0].message, "'batch'") && strstr(c.d->items[0].message, huge[i]),
           "%s: %s", huge[i], c.d->n ? c.d->items[0].message : "a plan");
    const char *text =
        "apc.plan 1\ngraph @main 0000000000000000\ntarget cpux3 ranks 3\nmesh [a=3] stages 1\nop \"y\" {b:a}\n";
    CHECK(!c.m || !plan_parse(c.m, c.f, c.t, "x.plan", text, c.d));
    done(&c);
  }
  Case c = plan_of(mlp_of_batch(a, "100000000000000000"), "cpux3", (PlanOptions){.memory_limit = 1e30});
  CHECK(c.p && c.p->price.time.total > 0 && c.p->price.memory.total > 1e17);
  done(&c);
  arena_free(a);
}

/* A device's reserve is not available to the program, and the message names the deficit and the large values. */
static void reserve_and_deficit(void) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  const char *const box =
      "gpu g { memory 100 MB at 1 TB/s; reserve 40 MB; launch 2 us; peak f32 1 TFLOPS; }\n"
      "machine m { devices 2 g; link l at 1 GB/s; }\n";
  const char *const full =
      "gpu g { memory 1 MB at 1 TB/s; reserve 1 MB; launch 2 us; peak f32 1 TFLOPS; }\n"
      "machine m { devices 1 g; }\n";
  const Target *t = topo_target_parse(d, a, "box.topo", box, "m", 0);
  CHECK(t && t->memory_bytes == 100e6 && t->reserve_bytes == 40e6 && target_usable(t) == 60e6);
  CHECK(!topo_target_parse(diags_new(a), a, "box.topo", full, "m", 0));
  const char *text = mlp_text(a, 2, 1024, 2048); /* 33.6 MB, or twice that */
  for (int layers = 2; t && layers <= 8; layers *= 4) {
    Case c = plan_on(arena_new(), layers == 2 ? text : mlp_text(a, layers, 1024, 2048), t, (PlanOptions){0});
    if (layers == 2) {
      CHECK(c.p && c.p->price.memory.total <= 60e6);
    } else {
      CHECK(!c.p && c.d->n == 2);
      const char *error = c.d->items[0].message, *note = c.d->items[1].message;
      CHECKF(strstr(error, "57.2 MiB are allowed on a rank (95.4 MiB less 38.1 MiB reserved)") &&
                 strstr(error, "are 128.1 MiB") && strstr(error, "13.6 MiB too much in all, 6.8 MiB per rank"),
             "%s", error);
      CHECKF(strstr(note, "weight \"l0.w1\" f32[1024, 2048] 8.0 MiB"), "%s", note);
    }
    done(&c);
  }
  Case one = plan_of(text, "cpu", (PlanOptions){.memory_limit = 33.575e6});
  CHECK(!one.p && one.d->n == 3);
  if (one.d->n == 3) {
    CHECKF(strstr(one.d->items[0].message, "too much; 32.0 MiB are allowed on a rank"), "%s", one.d->items[0].message);
    CHECKF(strstr(one.d->items[1].message, "weights 32.0 MiB"), "%s", one.d->items[1].message);
  }
  done(&one);
  if (test_failed_here) diags_print(d, stderr, false);
  arena_free(a);
}

/* Recomputation, from none to whole layers: as much memory as one policy takes is enough for it, or for a faster one.
 * The last takes no less than the one before it. */
static void every_rung(void) {
  static const Recompute rungs[] = {{RECOMPUTE_none, 0},        {RECOMPUTE_layers, 1},      {RECOMPUTE_layers, 3},
                                    {RECOMPUTE_selective, 0},   {RECOMPUTE_full_layers, 1}, {RECOMPUTE_full_layers, 2},
                                    {RECOMPUTE_full_layers, 3}, {RECOMPUTE_full, 0}};
  enum { RUNGS = sizeof rungs / sizeof *rungs };
  static const char net[] =
      "import nn\nentry main(x: f32[64, 64, 32]) {\n"
      "  for i in 0..4 {\n"
      "    x = x + (self_attention(layer_norm(x) as \"n{i}\", 4, causal=true) as \"a{i}\")\n"
      "    x = x + (linear(gelu(linear(layer_norm(x) as \"m{i}\", 128) as \"u{i}\"), 32) as \"d{i}\")\n"
      "  }\n"
      "  output y = linear(x, 32) as \"last\"\n}\n";
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  const Target *t = topo_target_find(d, a, "cpu");
  Module *m = t ? step_of(a, net, d) : NULL;
  CHECK(m != NULL);
  double bytes[RUNGS] = {0};
  for (int i = 0; m && i < RUNGS; i++) {
    PlanOptions o = {.micro_batches = 1, .recompute = rungs[i]};
    const Plan *p = plan_search(m, module_func(m, "main"), t, &o, d);
    CHECKF(p != NULL, "rung %d", i);
    if (!p) continue;
    o = (PlanOptions){.micro_batches = 1, .memory_limit = bytes[i] = p->price.memory.total};
    const Plan *q = plan_search(m, module_func(m, "main"), t, &o, d);
    CHECKF(q && q->price.memory.total <= bytes[i] && q->price.time.total <= p->price.time.total * (1 + 1e-9),
           "rung %d: %s", i, q ? q->recompute : "none");
  }
  CHECK(bytes[RUNGS - 2] <= bytes[RUNGS - 1]);
  if (m) module_free(m);
  arena_free(a);
}

int main(void) {
  RUN(compute_type);
  RUN(reserve_and_deficit);
  RUN(huge_sizes);
  RUN(every_rung);
  return test_summary();
}
