/* Lower bounds of many candidates at once: of all orders of the axes of a mesh, and of many numbers of
 * micro-batches. */
#include <math.h>

#include "passes/search/outer.h"
#include "tests/planner_case.h"
#include "tests/planner_models.h"
#include "tests/test.h"
#include "tests/train_step.h"

/* Machines of 8 with the protocols of NCCL, machines of 4 without any. */
static const char *const machines =
    "machine a { devices 8 A100-SXM4-80GB; link nvlink at 300 GB/s with nvlink-ampere; network infiniband 8 at 200 "
    "Gbit/s with infiniband; }\ntarget a32 { machine a; devices 32; }\n"
    "gpu g { memory 8 GB at 1 TB/s; launch 2 us; peak f32 10 TFLOPS; }\n"
    "machine b { devices 4 g; link l at 100 GB/s latency 2 us; network n 1 at 40 Gbit/s latency 10 us; }\ntarget b24 { "
    "machine b; devices 24; }\nmachine c { devices 8 g; link l at 100 GB/s latency 2 us; }\ntarget c8 { machine c; "
    "devices 8; }\n";

static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

static void set_axes(Module *m, const int *sizes, const int *order) {
  Mesh mesh = {.stages = 1, .naxes = 3};
  static const char *const names[] = {"a0", "a1", "a2"};
  for (int i = 0; i < 3; i++) mesh.axes[i] = (MeshAxis){.name = names[i], .size = sizes[order[i]]};
  module_set_mesh(m, &mesh);
}

/* Axis i of the mesh cuts dimension 0 or 1, is that of a sum, or is unused: two bits each of `code`, by index of the
 * size. */
static const Layout *layout_of_code(Module *m, int code, const int *order) {
  Layout l = {.rank = 2};
  for (int i = 0; i < 3; i++) {
    int place = code >> (2 * order[i]) & 3;
    if (place == 2) l.partial_axes |= 1u << i, l.partial = RED_SUM;
    if (place < 2) l.dims[place].axes[l.dims[place].n++] = (uint8_t)i, l.dims[place].unit = ex_const(m, 1);
  }
  return layout_get(m, &l);
}

/* No conversion is more expensive with unordered axes than in each of their orders, nor if only the innermost one keeps
 * its place. */
static void conversions(void) {
  static const struct {
    const char *target;
    int sizes[3];
  } cases[] = {{"a32", {2, 4, 4}}, {"a32", {2, 2, 8}}, {"b24", {2, 3, 4}}, {"dgx-h100x48", {2, 4, 6}}};
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse(
      "m.ir", "apc.ir 1\nfunc @main level 1 {\n  %x = input {name=\"x\"} : f32[4800, 960]\n  output \"x\" %x\n}\n", d);
  const Type *type = type_of(m->funcs.items[0], 1);
  long compared = 0;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    const Target *t = strlen(cases[k].target) < 4 ? topo_target_parse(d, a, "m.topo", machines, cases[k].target, 0)
                                                  : topo_target_find(d, a, cases[k].target);
    CHECK(t != NULL);
    if (!t) continue;
    set_axes(m, cases[k].sizes, orders[0]);
    CostModel *base = cost_model_new(m, t), *any = cost_model_beside(base, 3);
    for (int o = 0; o < 6; o++) {
      set_axes(m, cases[k].sizes, orders[o]);
      CostModel *one = cost_model_beside(base, 0), *inner = cost_model_beside(base, 2);
      for (int from = 0; from < 64; from++)
        for (int to = 0; to < 64; to++) {
          double real = cost_convert(one, type, layout_of_code(m, from, orders[o]), layout_of_code(m, to, orders[o]));
          double least = cost_convert(any, type, cost_layout(any, layout_of_code(m, from, orders[0])),
                                      cost_layout(any, layout_of_code(m, to, orders[0])));
          double pair = cost_convert(inner, type, cost_layout(inner, layout_of_code(m, from, orders[o])),
                                     cost_layout(inner, layout_of_code(m, to, orders[o])));
          CHECKF(least <= pair * (1 + 1e-12) && pair <= real * (1 + 1e-12), "%s order %d, %o to %o: %g, %g, %g",
                 t->name, o, from, to, least, pair, real);
          compared += real > least * (1 + 1e-9);
        }
      cost_model_free(inner);
      cost_model_free(one);
    }
    cost_model_free(any);
    cost_model_free(base);
  }
  CHECK(compared > 1000); /* the order does matter */
  diags_print(d, stderr, false);
  module_free(m);
  arena_free(a);
}

static double seconds_of(const Outcome *o) { return o->feasible ? o->price.time.total : INFINITY; }

/* The candidate with its first `loose` axes in order number o of six. */
static Candidate reordered(const Candidate *c, int loose, int o) {
  Candidate x = *c;
  for (int i = 0; i < loose; i++) x.sizes[i] = c->sizes[loose == 3 ? orders[o][i] : loose == 2 && o % 2 ? 1 - i : i];
  return x;
}

/* A search that stops above a time returns a bound that exceeds neither that time (or the candidate's bound) nor the
   real time. */
static void check_pruned(Search *s, const Candidate *c, double seconds) {
  for (double share = 0.5; share < 1.2 && isfinite(seconds); share += 0.25) {
    double bound;
    search_solve_mesh(s, c, share * seconds, &bound);
    CHECKF(bound <= fmax(c->bound, share * seconds) * (1 + 1e-9) && bound <= seconds * (1 + 1e-9),
           "%s, %d stages of %d x %d x %d: %g s, above %g the bound is %g", s->t->name, c->stages, c->sizes[0],
           c->sizes[1], c->sizes[2], seconds, share * seconds, bound);
  }
}

static void check_bound(Search *s, const Candidate *c, int loose, double bound, int *below) {
  double ignored;
  for (int o = 0; o < (loose == 3 ? 6 : loose == 2 ? 2 : 1); o++) {
    Candidate x = reordered(c, loose, o);
    for (x.least = x.micro = c->least; x.micro <= c->micro; x.least = x.micro += 1 + x.micro / 3) {
      double seconds = seconds_of(search_solve_mesh(s, &x, INFINITY, &ignored));
      CHECKF(bound <= seconds * (1 + 1e-9),
             "%s, %d stages of %d x %d x %d, %d of %d to %d micro-batches: %g s, the bound of %d axes is %g s",
             s->t->name, x.stages, x.sizes[0], x.sizes[1], x.sizes[2], x.micro, c->least, c->micro, seconds, loose,
             bound);
      *below += isfinite(seconds);
      if (loose == 0) check_pruned(s, &x, seconds);
    }
  }
}

/* Every plan on a mesh is at least as slow as the bound over all its orders and numbers of micro-batches, in which axes
 * that are alike may be exchanged at every operation. */
static void plans(void) {
  static const GptShape shape = {2, 192, 4, 768, 1000, 64, 8};
  static const struct {
    const char *target;
    Candidate c;
  } cases[] = {{"a32", {.stages = 1, .least = 1, .micro = 1, .naxes = 3, .sizes = {8, 2, 2}, .degree = {-1, -1, -1}}},
               {"a32", {.stages = 2, .least = 2, .micro = 5, .naxes = 2, .sizes = {2, 8}, .degree = {-1, -1}}},
               {"b24", {.stages = 2, .least = 3, .micro = 8, .naxes = 2, .sizes = {3, 4}, .degree = {-1, -1}}},
               {"b24", {.stages = 4, .least = 2, .micro = 8, .naxes = 1, .sizes = {6}, .degree = {-1}}},
               {"c8", {.stages = 1, .least = 1, .micro = 1, .naxes = 3, .sizes = {2, 2, 2}, .degree = {-1, -1, -1}}},
               {"c8", {.stages = 2, .least = 2, .micro = 5, .naxes = 2, .sizes = {2, 2}, .degree = {-1, -1}}}};
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("gpt.ir", gpt_text(a, &shape), d);
  int below = 0;
  for (size_t k = 0; k < sizeof cases / sizeof *cases && m; k++) {
    const Target *t = topo_target_parse(d, a, "m.topo", machines, cases[k].target, 0);
    const Candidate *c = &cases[k].c;
    Search s;
    bool open = t && search_open(&s, m, module_func(m, "main"), t, &(PlanOptions){0}, d);
    CHECK(open);
    if (!open) continue;
    for (int loose = 0; loose <= c->naxes; loose++) {
      double bound = bound_mesh(&s, c, loose, INFINITY);
      CHECKF(bound > 0 && bound < INFINITY, "%g", bound);
      check_bound(&s, c, loose, bound, &below);
      double least = search_least_of_operations(&s, c, loose, NULL);
      CHECKF(least > 0 && least <= bound * (1 + 1e-9), "cheapest strategies %g s, the graph %g s", least, bound);
    }
    search_close(&s);
  }
  CHECK(below > 20);
  diags_print(d, stderr, false);
  if (m) module_free(m);
  arena_free(a);
}

/* The same for a training step, with its gradients added up and schedules that leave no gaps. */
static void training(void) {
  static const char net[] =
      "import nn\nentry main(x: f32[16, 64, 64]) {\n"
      "  for i in 0..3 { x = x + (self_attention(layer_norm(x) as \"n{i}\", 4, causal=true) as \"a{i}\") }\n"
      "  output y = linear(x, 32) as \"last\"\n}\n";
  static const Candidate cases[] = {
      {.stages = 1, .least = 1, .micro = 1, .naxes = 2, .sizes = {4, 2}, .degree = {-1, -1}},
      {.stages = 2, .least = 2, .micro = 4, .naxes = 2, .sizes = {2, 2}, .degree = {-1, -1}},
      {.stages = 2, .least = 4, .micro = 8, .naxes = 1, .sizes = {4}, .degree = {-1}},
      {.stages = 4, .least = 8, .micro = 8, .naxes = 1, .sizes = {2}, .degree = {-1}}};
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = step_of(a, net, d);
  const Target *t = topo_target_find(d, a, "dgx-a100x8");
  Search s;
  int below = 0;
  bool open = m && t && search_open(&s, m, module_func(m, "main"), t, &(PlanOptions){0}, d);
  CHECK(open);
  for (size_t k = 0; k < 2 * (sizeof cases / sizeof *cases) && open; k++) {
    Candidate c = cases[k / 2];
    c.no_gaps = k % 2 && c.stages > 1;
    for (int loose = 0; loose <= c.naxes; loose += c.naxes) {
      double bound = bound_mesh(&s, &c, loose, INFINITY), least = search_least_of_operations(&s, &c, loose, NULL);
      CHECKF(least > 0 && least <= bound * (1 + 1e-9), "cheapest strategies %g s, the graph %g s", least, bound);
      if (!c.no_gaps) check_bound(&s, &c, loose, bound, &below);
    }
  }
  CHECK(below > 8);
  if (open) search_close(&s);
  diags_print(d, stderr, false);
  if (m) module_free(m);
  arena_free(a);
}

/* The number of ways to write n as a product of at most `room` descending numbers from 2 to `most`. */
static int ways(int n, int most, int room) {
  int count = n == 1;
  for (int k = 2; k <= n && k <= most && room && n > 1; k++) count += n % k ? 0 : ways(n / k, k, room - 1);
  return count;
}

/* If two axes are on one side of a node's links, or have the same part inside, their order does not matter. */
static void order_of_axes(void) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  const Target *nodes = topo_target_find(d, a, "dgx-a100x64"), *one = topo_target_find(d, a, "dgx-a100x8");
  CHECK(nodes && one);
  if (nodes && one) {
    CHECK(cost_axes_exchange(nodes, 8, 4, 2) && cost_axes_exchange(nodes, 16, 2, 2)); /* beyond */
    CHECK(cost_axes_exchange(nodes, 1, 2, 4) && cost_axes_exchange(nodes, 2, 2, 2));  /* inside */
    CHECK(cost_axes_exchange(nodes, 1, 8, 8) == false);                               /* 1 and 8 inside, or 8 and 1 */
    CHECK(!cost_axes_exchange(nodes, 1, 4, 8) && !cost_axes_exchange(nodes, 4, 4, 2) &&
          !cost_axes_exchange(nodes, 1, 16, 4));
    CHECK(cost_axes_exchange(one, 1, 4, 2) && cost_axes_exchange(one, 1, 2, 4)); /* no node ends */
  }
  diags_print(d, stderr, false);
  arena_free(a);
}

/* With thousands of ranks there are thousands of candidates, and none is left out: for every number of stages meshes of
 * all sizes, in at least one order. */
static void candidates(void) {
  enum { RANKS = 12288 };
  static const GptShape shape = {.layers = 12, .d = 64, .heads = 4, .ffn = 128, .vocab = 100, .ctx = 32, .batch = 8};
  static int found[RANKS + 1];
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("gpt.ir", gpt_text(a, &shape), d);
  const Target *t = topo_target_find(d, a, "dgx-a100x12288");
  Search s;
  bool open = m && t && search_open(&s, m, module_func(m, "main"), t, &(PlanOptions){0}, d);
  CHECK(open);
  if (open) {
    make_candidates(&s, &(PlanOptions){0});
    CHECKF(s.run.candidates.n > 1000, "%zu candidates", s.run.candidates.n);
    for (size_t i = 0; i < s.run.candidates.n; i++) {
      const Candidate *c = &s.run.candidates.items[i];
      int ranks = c->stages;
      for (int k = 0; k < c->naxes; k++) ranks *= c->sizes[k];
      CHECKF(ranks == RANKS, "%d ranks", ranks);
      bool first = i == 0 || !search_same_but_for_order(c - 1, c, c->naxes);
      found[c->stages] += first && c->micro == 1 && c->naxes <= MAX_SPATIAL;
    }
    for (int stages = 1; stages <= RANKS; stages++)
      CHECKF(!found[stages] || found[stages] == ways(RANKS / stages, RANKS, MAX_SPATIAL), "%d stages: %d of %d meshes",
             stages, found[stages], ways(RANKS / stages, RANKS, MAX_SPATIAL));
    CHECK(found[1] && found[2] && found[64]);
    search_close(&s);
  }
  diags_print(d, stderr, false);
  if (m) module_free(m);
  arena_free(a);
}

int main(void) {
  RUN(conversions);
  RUN(plans);
  RUN(training);
  RUN(order_of_axes);
  RUN(candidates);
  return test_summary();
}
