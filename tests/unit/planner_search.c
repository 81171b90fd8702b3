/* Labels, forced degrees, the search's choices for an MLP and a GPT. */
#include <math.h>

#include "frontend/topo/target.h"
#include "proof/prove.h"
#include "passes/facts/labels.h"
#include "passes/lower/lower.h"
#include "passes/plan/plan.h"
#include "passes/pipeline.h"
#include "tests/planner_case.h"
#include "tests/planner_models.h"
#include "tests/test.h"

static const GptShape small = {2, 256, 4, 1024, 1000, 64, 8};

static const char *strategy(const Case *c, const char *name) {
  Text t = {.arena = c->a};
  size_t i = op_index(c->f, name);
  strategy_print(&c->m->mesh, &t, rule_of(c->m, c->f, &c->f->ops.items[i]), &c->p->strategies[i]);
  return text_str(&t);
}

static const char *labels_text(Arena *a, Module *m, const Func *f, const char *name) {
  const Rule **rules = rules_of(m, f);
  const OpLabels *labels = labels_of(m, f, rules);
  size_t i = op_index(f, name);
  Text t = {.arena = a};
  for (int k = 0; k < rules[i]->nfactors; k++)
    if (labels[i].factors[k] != LABEL_NONE)
      text_printf(&t, "%s%s:%s", t.n ? " " : "", rules[i]->factors[k].name, label_name(labels[i].factors[k]));
  return text_str(&t);
}

typedef struct Labelled {
  const char *op, *labels;
} Labelled;

static void check_labels(const char *text, int n, const Labelled *expected) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("labels.ir", text, d);
  CHECK(m != NULL);
  for (int i = 0; m && i < n; i++)
    CHECK_STR(labels_text(a, m, module_func(m, "main"), expected[i].op), expected[i].labels);
  if (m) module_free(m);
  diags_print(d, stderr, false);
  arena_free(a);
}

static void labels(void) {
  static const Labelled expected[] = {
      {"e0", "v0:other i0:batch i1:sequence x1:other"},
      {"wte", "x0:other x1:other"},
      {"p0", "v0:other i0:sequence x1:other"},
      {"p1", "x0:batch x1:sequence x2:other"},
      {"l0.b1.b", "x0:batch x1:sequence x2:other"},
      {"l1.q0", "b:batch s:sequence d:other h:other k:other"},
      {"l1.att", "b:batch g:other r:other s:sequence k:other t:sequence e:other"},
      {"l1.n2.n", "r0:batch r1:sequence d:other"},
      {"logits", "b:batch s:sequence d:other v:other"},
  };
  Arena *a = arena_new();
  check_labels(gpt_text(a, &small), (int)(sizeof expected / sizeof *expected), expected);
  arena_free(a);
}

/* A weight's first dimension runs over experts, which labels the slots of all experts joined in one dimension. */
static void expert_labels(void) {
  static const char *const text =
      "apc.ir 1\nsymbol batch min 1\nparam \"w\" : f32[4, 6, 5] = zeros\nfunc @main level 1 {\n"
      "  %x = input {name=\"x\"} : f32[batch, 7, 6]\n  %i = input {name=\"i\"} : i64[batch, 12, 6]\n"
      "  %w = param {experts=0, name=\"w\"} : f32[4, 6, 5]\n  %s = take %x, %i {axis=1, start=0} : f32[batch, 12, 6]\n"
      "  %m = reshape %s : f32[batch, 4, 3, 6]\n  %y = dot %m, %w {spec=\"gecd,edf->gecf\"} : f32[batch, 4, 3, 5]\n"
      "  %z = reshape %y : f32[batch, 12, 5]\n  output \"z\" %z\n}\n";
  static const Labelled expected[] = {
      {"w", "x0:expert x1:other x2:other"},
      {"y", "g:batch e:expert c:other d:other f:other"},
      {"z", "x0:batch x1:expert x2:other x3:other"},
      {"m", "x0:batch x1:expert x2:other x3:other"},
  };
  check_labels(text, (int)(sizeof expected / sizeof *expected), expected);
}

/* A dimension merged from batch and sequence gives both back when it is split. */
static void merged_labels(void) {
  static const char *const text =
      "apc.ir 1\nsymbol batch min 1\nsymbol seq min 1\nparam \"w\" : f32[6, 5] = zeros\nfunc @main level 1 {\n"
      "  %x = input {name=\"x\"} : f32[batch, seq, 6]\n  %w = param {name=\"w\"} : f32[6, 5]\n"
      "  %m = reshape %x : f32[batch*seq, 6]\n  %y = dot %m, %w {spec=\"mk,kn->mn\"} : f32[batch*seq, 5]\n"
      "  %z = reshape %y : f32[batch, seq, 5]\n  %r = relu %z : f32[batch, seq, 5]\n  output \"r\" %r\n}\n";
  static const Labelled expected[] = {
      {"y", "m:batch k:other n:other"},
      {"r", "x0:batch x1:sequence x2:other"},
  };
  check_labels(text, (int)(sizeof expected / sizeof *expected), expected);
}

/* Column then row: the hidden dimension is cut, the sum is reduced once per layer. */
static void megatron_mlp(void) {
  Arena *a = arena_new();
  Case c = plan_of(mlp_text(a, 2, 512, 2048), "cpux2", (PlanOptions){.degree[DEGREE_tp] = 2});
  CHECK(c.p != NULL);
  if (c.p) {
    CHECK(c.p->degree[DEGREE_tp] == 2 && c.p->degree[DEGREE_dp] == 1 && c.p->degree[DEGREE_pp] == 1 && c.p->gap == 0);
    CHECK_STR(strategy(&c, "l0.w1"), "{x1:tp}");
    CHECK_STR(strategy(&c, "l0.fc1"), "{n:tp}");
    CHECK_STR(strategy(&c, "l0.act"), "{x1:tp}");
    CHECK_STR(strategy(&c, "x1"), "{m:tp}");
    CHECK_STR(strategy(&c, "l1.w2"), "{x0:tp}");
    double weights = 2 * (2.0 * 512 * 2048 + 2048) * 4;
    CHECKF(fabs(c.p->price.memory.params - weights / 2) < 0.001 * weights, "%g", c.p->price.memory.params);
    CHECK(fabs(c.p->price.flops * 2 - c.p->flops) < 0.02 * c.p->flops);
  }
  done(&c);
  arena_free(a);
}

/* Bound dimensions have no name: token ids still are batch by sequence. */
static void bound_labels(void) {
  static const char *const text =
      "apc.ir 1\nsymbol batch min 1\nparam \"w\" : f32[6, 5] = zeros\nfunc @main level 1 {\n"
      "  %x = input {name=\"x\"} : i64[batch, 16]\n  %y = input {name=\"y\"} : i64[4, 16]\n  %v = input {name=\"v\"} : "
      "f32[4, 16]\n  %w = param {name=\"w\"} : f32[6, 5]\n"
      "  %gx = gather %w, %x {axis=0, start=0} : f32[batch, 16, 5]\n  %gy = gather %w, %y {axis=0, start=0} : f32[4, "
      "16, 5]\n  %r = relu %v : f32[4, 16]\n"
      "  output \"gx\" %gx\n  output \"gy\" %gy\n  output \"r\" %r\n}\n";
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("m.ir", text, d);
  CHECK(m != NULL);
  if (m) {
    CHECK_STR(labels_text(a, m, module_func(m, "main"), "gx"), "v0:other i0:batch i1:sequence x1:other");
    CHECK_STR(labels_text(a, m, module_func(m, "main"), "gy"), "v0:other i0:batch i1:sequence x1:other");
    CHECK_STR(labels_text(a, m, module_func(m, "main"), "r"), "x0:batch x1:other");
    module_free(m);
  }
  diags_print(d, stderr, false);
  arena_free(a);
}

static void megatron_gpt(void) {
  Arena *a = arena_new();
  Case c = plan_of(gpt_text(a, &small), "cpux2", (PlanOptions){.degree[DEGREE_tp] = 2});
  CHECK(c.p != NULL);
  if (c.p) {
    CHECK(c.p->degree[DEGREE_tp] == 2 && c.p->gap == 0);
    CHECK_STR(strategy(&c, "l1.wq"), "{x1:tp}");
    CHECK_STR(strategy(&c, "l1.q0"), "{h:tp}");
    CHECK_STR(strategy(&c, "l1.att"), "{g:tp}");
    CHECK_STR(strategy(&c, "l1.o"), "{h:tp}");
    CHECK_STR(strategy(&c, "l1.f0"), "{f:tp}");
    CHECK_STR(strategy(&c, "l1.f2"), "{f:tp}");
    CHECK(strcmp(strategy(&c, "wte"), "{}") != 0);
    CHECK(c.p->price.memory.params * 2 < 1.03 * 4 * c.p->params);
  }
  done(&c);
  arena_free(a);
}

/* Every plan lowers, and the result is proved to compute the model. */
static void plans_lower(void) {
  static const struct {
    const char *target;
    PlanOptions o;
  } cases[] = {{"cpux2", {0}},
               {"cpux4", {0}},
               {"cpux4", {.degree[DEGREE_tp] = 4}},
               {"cpux4", {.degree = {[DEGREE_tp] = 2, [DEGREE_dp] = 2}}},
               {"cpux4", {.degree = {[DEGREE_cp] = 2, [DEGREE_dp] = 2}}},
               {"cpux4", {.degree = {[DEGREE_pp] = 2, [DEGREE_tp] = 2}}},
               {"cpux4", {.degree[DEGREE_pp] = 4}},
               {"cpux4", {.degree[DEGREE_cp] = 4}},
               {"cpux4", {.degree[DEGREE_dp] = 4}},
               {"cpux3", {.degree[DEGREE_tp] = 3}},
               {"cpux2", {.degree[DEGREE_pp] = 2, .micro_batches = 4}}};
  Arena *a = arena_new();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Case c = plan_of(gpt_text(a, &small), cases[i].target, cases[i].o);
    CHECKF(c.p != NULL, "case %zu", i);
    if (c.p) {
      CostModel *cost = cost_model_new(c.m, c.t);
      LowerPlan plan = {.strategies = c.p->strategies, .stages = c.p->stages, .cost = cost_move, .cost_context = cost};
      Func *rank = lower_spmd(c.m, c.f, &plan, "rank", c.d);
      cost_model_free(cost);
      CHECKF(rank && verify_func(c.m, rank, c.d), "case %zu", i);
      if (rank) {
        Proof proof = prove(c.m, c.f, rank);
        CHECKF(proof.verdict == PROVED, "case %zu: %s %s: %s", i, verdict_name(proof.verdict), proof.op, proof.reason);
      }
      const PlanOptions *o = &cases[i].o;
      for (int d = 0; d < DEGREE_COUNT; d++)
        CHECKF(!o->degree[d] || c.p->degree[d] == o->degree[d], "case %zu: %s", i, degree_names[d]);
      if (o->degree[DEGREE_tp] || o->degree[DEGREE_dp] || o->degree[DEGREE_cp]) {
        double parts = c.t->ranks / (double)c.p->degree[DEGREE_pp];
        CHECKF(c.p->price.flops < 1.35 * c.p->flops / parts, "case %zu: %g of %g", i, c.p->price.flops, c.p->flops);
      }
    }
    done(&c);
  }
  arena_free(a);
}

static void pipeline(void) {
  Arena *a = arena_new();
  Case c = plan_of(gpt_text(a, &small), "cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 4});
  CHECK(c.p != NULL);
  if (c.p) {
    CHECK(c.p->degree[DEGREE_pp] == 2 && c.p->micro_batches == 4 && c.p->mesh.stages == 2);
    CHECK(c.p->stages[op_index(c.f, "e0")] == 0 && c.p->stages[op_index(c.f, "logits")] == 1);
    CHECK(strstr(strategy(&c, "l0.f0"), "b:mb") != NULL);
    CHECK(c.p->price.time.total < 0.8 * c.p->one_device_seconds);
    CHECK(c.p->price.time.total >= c.p->lower_bound && c.p->gap < 0.4);
    int last = 0;
    for (size_t i = 0; i < c.f->ops.n; i++) {
      if (op_is_source(c.f->ops.items[i].kind)) continue;
      CHECK(c.p->stages[i] >= last);
      last = c.p->stages[i];
    }
  }
  done(&c);
  arena_free(a);
}

/* Weights that do not fit are kept in shards; models that cannot fit at all are refused. */
static void memory_limit(void) {
  Arena *a = arena_new();
  const char *text = mlp_text(a, 2, 512, 2048);
  Case free_choice = plan_of(text, "cpux2", (PlanOptions){.degree[DEGREE_dp] = 2});
  CHECK(free_choice.p != NULL);
  if (free_choice.p) {
    double all = free_choice.p->price.memory.total, rest = all - free_choice.p->price.memory.params;
    CHECK(free_choice.p->price.memory.params > 0.99 * 4 * free_choice.p->params);
    Case tight = plan_of(
        text, "cpux2",
        (PlanOptions){.degree[DEGREE_dp] = 2, .memory_limit = rest * 3 + free_choice.p->price.memory.params * 0.8});
    CHECK(tight.p != NULL);
    if (tight.p) {
      CHECK(tight.p->price.memory.total <= rest * 3 + free_choice.p->price.memory.params * 0.8);
      CHECK(tight.p->price.time.total > free_choice.p->price.time.total);
      CHECK(tight.p->degree[DEGREE_dp] == 2);
    }
    done(&tight);
  }
  done(&free_choice);
  Case none = plan_of(text, "cpux2", (PlanOptions){.memory_limit = 1000});
  CHECK(none.p == NULL && none.d->errors == 1 && none.d->items[0].code == DIAG_plan_infeasible);
  done(&none);
  arena_free(a);
}

/* The stages' shares of the memory are uneven: a plan that fits in total need not fit each stage. */
static void pipeline_memory(void) {
  Arena *a = arena_new();
  GptShape g = small;
  g.layers = 16;
  g.vocab = 100;
  const char *text = gpt_text(a, &g);
  Case wide = plan_of(text, "cpux8", (PlanOptions){.degree = {[DEGREE_pp] = 2, [DEGREE_dp] = 4}});
  CHECK(wide.p != NULL);
  for (int percent = 90; wide.p && percent >= 50; percent -= 10) {
    double limit = wide.p->price.memory.total - wide.p->price.memory.params * (100 - percent) / 100;
    Case tight =
        plan_of(text, "cpux8", (PlanOptions){.degree = {[DEGREE_pp] = 2, [DEGREE_dp] = 4}, .memory_limit = limit});
    CHECKF(tight.p && tight.p->price.memory.total <= limit, "%d%%", percent);
    done(&tight);
  }
  done(&wide);
  arena_free(a);
}

static void refused(void) {
  static const struct {
    const char *target;
    PlanOptions o;
    const char *says;
  } cases[] = {
      {"cpux4", {.degree[DEGREE_tp] = 3}, "tp 3 would leave 1 of the 4 ranks of cpux4 idle"},
      {"cpux4",
       {.degree = {[DEGREE_tp] = 2, [DEGREE_dp] = 1, [DEGREE_pp] = 1, [DEGREE_cp] = 1, [DEGREE_ep] = 1}},
       "tp 2 would leave 2 of the 4 ranks of cpux4 idle"},
      {"cpux4", {.degree = {[DEGREE_tp] = 2, [DEGREE_dp] = 3}}, "dp 3 x tp 2 would need 6 ranks, but cpux4 has 4"},
      {"cpux64",
       {.degree = {[DEGREE_tp] = 64, [DEGREE_dp] = 64, [DEGREE_pp] = 64, [DEGREE_cp] = 64, [DEGREE_ep] = 64}},
       "would need 1073741824 ranks"},
      {"cpux4", {.degree[DEGREE_cp] = 4}, "kind sequence"}, /* an MLP has none */
      {"cpux4", {.degree[DEGREE_ep] = 4}, "replicate"},
      {"cpux4", {.degree[DEGREE_tp] = 8}, "tp 8 is not possible on cpux4, which has 4 ranks"},
      {"cpux64", {.degree[DEGREE_pp] = 64}, "64 stages: it has too few places"},
      {"cpux4", {.degree[DEGREE_tp] = -1}, "-1"},
      {"cpux2", {.degree[DEGREE_pp] = 2, .micro_batches = 1000}, "micro-batches"},
  };
  Arena *a = arena_new();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Case c = plan_of(mlp_text(a, 2, 64, 128), cases[i].target, cases[i].o);
    CHECKF(!c.p && c.d->errors == 1, "case %zu", i);
    if (c.d->n) CHECKF(strstr(c.d->items[0].message, cases[i].says), "case %zu: %s", i, c.d->items[0].message);
    done(&c);
  }
  arena_free(a);
}

/* Two linear layers over [batch*seq, 256], as exporters write them. */
static const char rows_text[] =
    "apc.ir 1\nsymbol batch hint 8\nsymbol seq hint 64\nparam \"w\" : f32[256, 256] = normal 1 seed 3\n"
    "func @main level 1 {\n  %x = input {name=\"x\"} : f32[batch, seq, 256]\n  %w = param {name=\"w\"} : f32[256, "
    "256]\n"
    "  %r = reshape %x : f32[batch*seq, 256]\n  %d = dot %r, %w {spec=\"mk,kn->mn\"} : f32[batch*seq, 256]\n"
    "  %t = tanh %d : f32[batch*seq, 256]\n  %e = dot %t, %w {spec=\"mk,kn->mn\"} : f32[batch*seq, 256]\n"
    "  %y = reshape %e : f32[batch, seq, 256]\n  output \"y\" %y\n}\n";

/* Operations that prevent micro-batches and degrees are reported, with advice; pass rows removes them. */
static void joined_rows(void) {
  const PlanOptions forced[] = {{.degree[DEGREE_pp] = 2, .micro_batches = 2}, {.degree[DEGREE_cp] = 2}};
  static const char *const says[] = {"dot \"d\" needs all of reshape \"r\" at once",
                                     "most of the rest is in dot \"d\""};
  for (int i = 0; i < 2; i++) {
    Case c = plan_of(rows_text, "cpux2", forced[i]);
    CHECKF(!c.p && c.d->n && strstr(c.d->items[0].message, says[i]), "%s", c.d->n ? c.d->items[0].message : "a plan");
    CHECK(i || (c.d->n > 1 && strstr(c.d->items[1].message, "--micro-batches 1")));
    CHECK(pipeline_run(c.m, "rows,dce", &(PassOptions){0}, diags_new(c.a)));
    c.p = plan_search(c.m, module_func(c.m, "main"), c.t, &forced[i], diags_new(c.a));
    CHECKF(c.p && (i == 0 || c.p->price.time.total < 0.8 * c.p->one_device_seconds), "%s: no plan, or a slow one",
           says[i]);
    done(&c);
  }
  Case c = plan_of(rows_text, "cpux2", (PlanOptions){.degree[DEGREE_pp] = 2});
  CHECK(c.p && c.p->micro_batches == 1 && c.p->one_batch && strstr(c.p->one_batch, says[0]));
  done(&c);
  Case one = plan_of(rows_text, "cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 1});
  CHECK(one.p && !one.p->one_batch); /* it was forced */
  done(&one);
}

/* Equal layers cost nothing: the work hardly depends on their number. */
static void depth(void) {
  static const struct {
    const char *target;
    PlanOptions o;
  } cases[] = {{"cpux8", {0}},
               {"cpux8", {.degree = {[DEGREE_tp] = 2, [DEGREE_dp] = 4}}},
               {"cpux4", {.degree = {[DEGREE_tp] = 2, [DEGREE_pp] = 2}}}};
  Arena *a = arena_new();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double work[2] = {0}, seconds[2] = {0};
    for (int k = 0; k < 2; k++) {
      GptShape g = small;
      g.layers = k ? 48 : 12;
      Case c = plan_of(gpt_text(a, &g), cases[i].target, cases[i].o);
      CHECKF(c.p != NULL, "case %zu", i);
      if (c.p) work[k] = c.p->search_work, seconds[k] = c.p->price.time.total;
      done(&c);
    }
    /* Tables are the same; entries that are examined one by one belong to runs of layers of every length. */
    CHECKF(work[0] > 0 && work[1] < 2.2 * work[0], "case %zu: %g sums for 12 layers, %g for 48", i, work[0], work[1]);
    CHECKF(seconds[1] > 3 * seconds[0] && seconds[1] < 4.2 * seconds[0], "case %zu: %g s for 12 layers, %g s for 48", i,
           seconds[0], seconds[1]);
  }
  arena_free(a);
}

/* Layers with one mask, one bias and one scale for all of them, as exporters write them. */
static const char *masked_text(Arena *a, int layers) {
  Text t = {.arena = a};
  text_add(&t,
           "apc.ir 1\nsymbol batch min 1\nsymbol seq min 1\nparam \"zeros\" : f32[64] = zeros\nparam \"ones\" : "
           "f32[64] = zeros\n");
  for (int i = 0; i < layers; i++) text_printf(&t, "param \"w%d\" : f32[64, 64] = normal 1 seed 1\n", i);
  text_add(&t,
           "func @main level 1 {\n  %x0 = input {name=\"x\"} : f32[batch, seq, 64]\n  %mask = input {name=\"mask\"} : "
           "f32[batch, seq, seq]\n"
           "  %zeros = param {name=\"zeros\"} : f32[64]\n  %ones = param {name=\"ones\"} : f32[64]\n");
  for (int i = 0; i < layers; i++) {
    text_printf(
        &t,
        "  %%w%d = param {name=\"w%d\"} : f32[64, 64]\n  %%s%d = broadcast %%ones {dims=[2]} : f32[batch, seq, 64]\n",
        i, i, i);
    text_printf(&t, "  %%n%d = mul %%x%d, %%s%d : f32[batch, seq, 64]\n", i, i, i);
    text_printf(&t, "  %%q%d = dot %%n%d, %%w%d {spec=\"bsd,de->bse\"} : f32[batch, seq, 64]\n", i, i, i);
    text_printf(&t, "  %%a%d = dot %%q%d, %%n%d {spec=\"bsd,btd->bst\"} : f32[batch, seq, seq]\n", i, i, i);
    text_printf(&t, "  %%m%d = add %%a%d, %%mask : f32[batch, seq, seq]\n  %%e%d = tanh %%m%d : f32[batch, seq, seq]\n",
                i, i, i, i);
    text_printf(&t, "  %%o%d = dot %%e%d, %%n%d {spec=\"bst,btd->bsd\"} : f32[batch, seq, 64]\n", i, i, i);
    text_printf(&t, "  %%z%d = broadcast %%zeros {dims=[2]} : f32[batch, seq, 64]\n", i);
    text_printf(&t,
                "  %%b%d = add %%o%d, %%z%d : f32[batch, seq, 64]\n  %%x%d = add %%b%d, %%x%d : f32[batch, seq, 64]\n",
                i, i, i, i + 1, i, i);
  }
  text_printf(&t, "  output \"y\" %%x%d\n}\n", layers);
  return text_str(&t);
}

/* A value that all layers use ties them together no more than each layer's own values. */
static void shared_by_layers(void) {
  Arena *a = arena_new();
  for (int ranks = 2; ranks <= 4; ranks += 2) {
    double work[2] = {0};
    for (int k = 0; k < 2; k++) {
      Case c = plan_of(masked_text(a, k ? 24 : 8), ranks == 2 ? "cpux2" : "cpux4", (PlanOptions){0});
      CHECK(c.p != NULL);
      if (c.p) {
        const SearchReport *r = &c.p->report;
        work[k] = r->most_work; /* of one graph: the number of graphs depends on more */
        CHECKF(c.p->gap == 0 && r->width <= 6 && r->many == 3, "%d ranks: gap %g, width %d, %d values with many users",
               ranks, c.p->gap, r->width, r->many);
        CHECKF(r->nfans == 3 && (ranks > 2 || r->fans[0].sets > 0) && r->njoins == SEARCH_JOINS &&
                   r->joins[0].sums >= r->joins[3].sums,
               "%d ranks", ranks);
      }
      done(&c);
    }
    CHECKF(work[0] > 0 && work[1] < 2.2 * fmax(work[0], 2e4), /* below, pruning decides */
           "%d ranks: %g sums for 8 layers, %g for 24", ranks, work[0], work[1]);
  }
  arena_free(a);
}

static void add_weight(Text *head, Text *body, const char *name, int layer, const char *type) {
  text_printf(head, "param \"%s%d\" : %s = zeros\n", name, layer, type);
  text_printf(body, "  %%%s%d = param {name=\"%s%d\"} : %s\n", name, layer, name, layer, type);
}

/* An encoder whose layers end in a norm, with separate queries, keys and values: the result of a norm has four
   users. */
static const char *encoder_text(Arena *a, int layers) {
  Text head = {.arena = a}, t = {.arena = a};
  text_add(&head,
           "apc.ir 1\nsymbol batch min 1 hint 2\nsymbol seq min 1 hint 64\nparam \"table\" : f32[100, 32] = zeros\n");
  text_add(&t,
           "func @main level 1 {\n  %ids = input {name=\"ids\"} : i64[batch, seq]\n  %table = param {name=\"table\"} : "
           "f32[100, 32]\n"
           "  %e = gather %table, %ids {axis=0, start=0} : f32[batch, seq, 32]\n  %x0 = norm %e {eps=1e-05, "
           "kind=\"layer\"} : f32[batch, seq, 32]\n");
  for (int i = 0; i < layers; i++) {
    for (const char *const *w = (const char *const[]){"q", "k", "v", NULL}; *w; w++) {
      add_weight(&head, &t, *w, i, "f32[32, 4, 8]");
      text_printf(&t, "  %%%s%d.y = dot %%x%d, %%%s%d {spec=\"bsd,dhk->bshk\"} : f32[batch, seq, 4, 8]\n", *w, i, i, *w,
                  i);
    }
    add_weight(&head, &t, "o", i, "f32[4, 8, 32]");
    add_weight(&head, &t, "u", i, "f32[32, 128]");
    add_weight(&head, &t, "d", i, "f32[128, 32]");
    text_printf(&t,
                "  %%s%d = dot %%q%d.y, %%k%d.y {spec=\"bshk,bthk->bhst\"} : f32[batch, 4, seq, seq]\n  %%t%d = tanh "
                "%%s%d : f32[batch, 4, seq, seq]\n",
                i, i, i, i, i);
    text_printf(&t, "  %%a%d = dot %%t%d, %%v%d.y {spec=\"bhst,bthk->bshk\"} : f32[batch, seq, 4, 8]\n", i, i, i);
    text_printf(&t, "  %%y%d = dot %%a%d, %%o%d {spec=\"bshk,hkd->bsd\"} : f32[batch, seq, 32]\n", i, i, i);
    text_printf(&t,
                "  %%r%d = add %%y%d, %%x%d : f32[batch, seq, 32]\n  %%z%d = norm %%r%d {eps=1e-05, kind=\"layer\"} : "
                "f32[batch, seq, 32]\n",
                i, i, i, i, i);
    text_printf(&t,
                "  %%f%d = dot %%z%d, %%u%d {spec=\"bsd,df->bsf\"} : f32[batch, seq, 128]\n  %%g%d = tanh %%f%d : "
                "f32[batch, seq, 128]\n",
                i, i, i, i, i);
    text_printf(&t,
                "  %%h%d = dot %%g%d, %%d%d {spec=\"bsf,fd->bsd\"} : f32[batch, seq, 32]\n  %%w%d = add %%h%d, %%z%d : "
                "f32[batch, seq, 32]\n",
                i, i, i, i, i, i);
    text_printf(&t, "  %%x%d = norm %%w%d {eps=1e-05, kind=\"layer\"} : f32[batch, seq, 32]\n", i + 1, i);
  }
  text_printf(&t, "  output \"y\" %%x%d\n}\n", layers);
  text_add(&head, text_str(&t));
  return text_str(&head);
}

/* Four users of one value with many layouts each are too many for one table; by sets of layouts the plan is proved all
 * the same. */
static void large_fan_outs(void) {
  Arena *a = arena_new();
  Case c = plan_of(encoder_text(a, 2), "cpux4", (PlanOptions){0});
  CHECK(c.p != NULL);
  if (c.p) CHECKF(c.p->gap < 1e-3, "gap %g", c.p->gap);
  done(&c);
  arena_free(a);
}

/* A table [rows, 64] of cosines that six operations read, each with values [8, rows, 64] of its own. */
static const char *table_text(Arena *a, int rows) {
  Text t = {.arena = a};
  text_printf(&t, "apc.ir 1\nfunc @main level 1 {\n");
  for (int i = 0; i < 6; i++) text_printf(&t, "  %%x%d = input {name=\"x%d\"} : f32[8, %d, 64]\n", i, i, rows);
  text_printf(&t, "  %%p = iota {axis=0, start=0} : f32[%d, 64]\n  %%c = cos %%p : f32[%d, 64]\n", rows, rows);
  for (int i = 0; i < 6; i++) {
    text_printf(&t, "  %%b%d = broadcast %%c {dims=[1, 2]} : f32[8, %d, 64]\n", i, rows);
    text_printf(&t, "  %%y%d = mul %%x%d, %%b%d : f32[8, %d, 64]\n  output \"y%d\" %%y%d\n", i, i, i, rows, i, i);
  }
  text_printf(&t, "}\n");
  return text_str(&t);
}

/* Every rank computes a small table whole, so that no layout of it ties its users together; a large one is sharded. */
static void small_tables(void) {
  static const struct {
    int rows;
    bool sharded;
  } cases[] = {{128, false}, {1 << 20, true}};
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    Arena *a = arena_new();
    Case c = plan_of(table_text(a, cases[k].rows), "dgx-a100x8", (PlanOptions){0});
    CHECK(c.p != NULL);
    if (c.p) CHECKF((c.p->strategies[op_index(c.f, "c")].n > 0) == cases[k].sharded, "%d rows", cases[k].rows);
    if (c.p) CHECKF(c.p->gap < 1e-2, "gap %g", c.p->gap);
    done(&c);
    arena_free(a);
  }
}

/* Over slow links a pipeline needs far more micro-batches than 8, and none of their numbers beats the bound, also if
 * the batch is not a multiple. */
static void micro_batches(void) {
  static const char *const links =
      "gpu g { memory 170 MB at 1 TB/s; launch 2 us; peak f32 1 TFLOPS; }\n"
      "machine m { devices 2 g; link l at 0.1 GB/s latency 10 us; }\n";
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  const Target *t = topo_target_parse(d, a, "slow.topo", links, "m", 0);
  const char *text = mlp_text(a, 8, 1024, 4096); /* 268 MB */
  CHECK(t != NULL);
  if (!t) return;
  Case c = {.a = arena_new(), .t = t};
  c.d = diags_new(c.a);
  c.m = ir_parse("model.ir", text, c.d);
  c.f = module_func(c.m, "main");
  c.m->symbols.items[0].hint = 1000;
  c.p = plan_search(c.m, c.f, t, &(PlanOptions){0}, c.d);
  CHECKF(c.p && c.p->degree[DEGREE_pp] == 2 && c.p->micro_batches > 8, "pp %d, %d micro-batches",
         c.p ? c.p->degree[DEGREE_pp] : 0, c.p ? c.p->micro_batches : 0);
  const PlanKnown *known = NULL;
  for (int m = 1; c.p && m <= 1000; m += 1 + m / 5) {
    const Plan *p = plan_search(
        c.m, c.f, t, &(PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = m, .known = &known}, diags_new(a));
    CHECKF(!p || (p->micro_batches == m && p->price.time.total >= c.p->lower_bound * (1 - 1e-9)), "%d", m);
    CHECKF(!p || p->price.time.total >= c.p->price.time.total * (1 - 1e-9), "%d micro-batches take %g s, the plan %g",
           m, p->price.time.total, c.p->price.time.total);
  }
  done(&c);
  arena_free(a);
}

/* Values that do not depend on the batch are in the body that runs for every micro-batch, so they count as often, in
 * graph and price alike. */
static void in_every_micro_batch(void) {
  static const char text[] =
      "apc.ir 1\nsymbol batch hint 8\nparam \"w\" : f32[512, 512] = normal 1 seed 3\n"
      "func @main level 1 {\n  %x = input {name=\"x\"} : f32[batch, 512]\n  %w = param {name=\"w\"} : f32[512, 512]\n"
      "  %u = dot %w, %w {spec=\"ij,jk->ik\"} : f32[512, 512]\n  %e = exp %u : f32[512, 512]\n"
      "  %y = dot %x, %e {spec=\"bd,df->bf\"} : f32[batch, 512]\n  output \"y\" %y\n}\n";
  double one = 0;
  for (int stages = 1; stages <= 2; stages++)
    for (int micro = 1; micro <= 4; micro += 3) {
      Case c = plan_of(text, stages == 1 ? "cpu" : "cpux2",
                       (PlanOptions){.degree[DEGREE_pp] = stages, .micro_batches = micro});
      double seconds = c.p ? c.p->price.time.total : 0,
             least = stages == 1 ? 3.9 : 2.4; /* with two stages (1 + 3 / 2), if these are equal */
      if (micro == 1) one = seconds;
      else CHECKF(seconds > least * one, "%d stages: 1 micro-batch %g s, 4 take %g s", stages, one, seconds);
      CHECKF(c.p && c.p->lower_bound >= (stages == 1 ? 0.999 : 0.5) * seconds,
             "%d stages, %d micro-batches: %g s, bound %g s", stages, micro, seconds, c.p ? c.p->lower_bound : 0);
      done(&c);
    }
}

/* An alternative costs as much as a search forced to its degrees finds; axes that cannot split anything are refused. */
static void shown_is_forced(void) {
  Arena *a = arena_new();
  const char *text = gpt_text(a, &small);
  Case c = plan_of(text, "cpux4", (PlanOptions){.alternatives = true});
  CHECK(c.p && c.p->nalternatives > 1);
  for (int i = 0; c.p && i < c.p->nalternatives; i++) {
    const PlanAlternative *x = &c.p->alternatives[i];
    PlanOptions o = {.micro_batches = x->micro_batches};
    memcpy(o.degree, x->degree, sizeof o.degree);
    Case forced = plan_of(text, "cpux4", o);
    CHECKF(forced.p ? forced.p->price.time.total == x->seconds && forced.p->price.memory.total == x->bytes
                    : isinf(x->seconds),
           "%d", i);
    done(&forced);
  }
  Case idle = plan_of(mlp_text(a, 2, 64, 64), "cpux8",
                      (PlanOptions){.degree = {[DEGREE_dp] = 2, [DEGREE_tp] = 2, [DEGREE_cp] = 1, [DEGREE_pp] = 1}});
  CHECK(!idle.p);
  done(&idle);
  Case unasked = plan_of(text, "cpux4", (PlanOptions){0});
  CHECK(unasked.p && unasked.p->nalternatives == 0 && c.p && unasked.p->price.time.total == c.p->price.time.total);
  CHECKF(c.p && unasked.p && unasked.p->report.graphs < c.p->report.graphs, "%d graphs",
         unasked.p ? unasked.p->report.graphs : 0);
  done(&unasked);
  Case plain = plan_of(text, "cpux2", (PlanOptions){.micro_batches = 4});
  CHECK(plain.p && plain.p->micro_batches == 4);
  done(&plain);
  Case forced = plan_of(text, "cpux4", (PlanOptions){.micro_batches = 1, .alternatives = true});
  CHECK(forced.p && forced.p->nalternatives > 0); /* among free solutions */
  done(&forced);
  done(&c);
  arena_free(a);
}

/* A limit of work depends on no clock: the same plan every time, a valid bound, and with more work the optimum. */
static void limit_of_work(void) {
  Arena *a = arena_new();
  const char *text = gpt_text(a, &small);
  Case whole = plan_of(text, "cpux8", (PlanOptions){0});
  CHECK(whole.p && !whole.p->cut_short);
  int cut = 0;
  for (double work = 1e5; whole.p && work < 1e10; work *= 10) {
    Case x = plan_of(text, "cpux8", (PlanOptions){.work = work}),
         y = plan_of(text, "cpux8", (PlanOptions){.work = work});
    CHECK(x.p && y.p && x.p->price.time.total == y.p->price.time.total && x.p->lower_bound == y.p->lower_bound &&
          x.p->cut_short == y.p->cut_short);
    if (x.p && x.p->cut_short) {
      cut++;
      CHECK(x.p->lower_bound <= whole.p->price.time.total && x.p->price.time.total >= whole.p->price.time.total);
    } else if (x.p) {
      CHECK(x.p->price.time.total == whole.p->price.time.total && x.p->lower_bound == whole.p->lower_bound);
    }
    done(&x);
    done(&y);
  }
  CHECKF(cut > 0 && cut < 5, "%d of 5 were cut short", cut);
  for (double work = 1e4; work < 1e9; work *= 3) { /* there is one candidate, in which it ends */
    Case x = plan_of(text, "cpux8",
                     (PlanOptions){.work = work, .degree = {[DEGREE_dp] = 2, [DEGREE_tp] = 2, [DEGREE_cp] = 2}});
    CHECKF(x.p != NULL, "no plan with work %.3g", work);
    done(&x);
  }
  done(&whole);
  /* A search that gives up does not claim that no plan exists. */
  Case none = plan_of(gpt_text(a, &small), "cpux64", (PlanOptions){.work = 1, .memory_limit = 1.4e5});
  CHECK(!none.p && none.d->n > 0);
  if (none.d->n) CHECKF(strstr(none.d->items[0].message, "no plan was found"), "%s", none.d->items[0].message);
  done(&none);
  arena_free(a);
}

int main(void) {
  RUN(limit_of_work);
  RUN(labels);
  RUN(expert_labels);
  RUN(merged_labels);
  RUN(bound_labels);
  RUN(megatron_mlp);
  RUN(megatron_gpt);
  RUN(plans_lower);
  RUN(pipeline);
  RUN(memory_limit);
  RUN(pipeline_memory);
  RUN(refused);
  RUN(joined_rows);
  RUN(depth);
  RUN(shared_by_layers);
  RUN(large_fan_outs);
  RUN(small_tables);
  RUN(micro_batches);
  RUN(in_every_micro_batch);
  RUN(shown_is_forced);
  return test_summary();
}
