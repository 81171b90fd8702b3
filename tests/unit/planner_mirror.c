/* The planner's loss from giving data gradients the strategies of the forward pass (D57 of docs/inside/decisions.md):
 * random small nets are planned so, and again with every operation of the backward pass free.  The second search has no
 * mirrors; its exactness is tested with brute force elsewhere (tests/oracle/brute.c), and if its bound is open the
 * bound counts, so losses are never underestimated. */
#include <stdlib.h>

#include "base/random.h"
#include "frontend/topo/target.h"
#include "ir/ir.h"
#include "passes/facts/labels.h"
#include "passes/facts/mirror.h"
#include "passes/plan/plan.h"
#include "passes/rewrite/bind.h"
#include "tests/test.h"
#include "tests/train_step.h"

enum { NETS = 200, SEED = 57 };

typedef struct Random {
  uint64_t stream, drawn;
} Random;

static int below(Random *r, int n) { return (int)random_below(SEED, r->stream, r->drawn++, (uint64_t)n); }

static int width(Random *r) { return 16 << below(r, 5); }

/* One more operation, or two; `rows` is "b" or "bs", x is of width *w, and the shared weight of width `shared`. */
static void draw_operation(Random *r, Text *t, int i, const char *rows, int *w, int shared) {
  bool attends = rows[1] && *w <= 64;
  switch (below(r, attends ? 8 : 7)) {
    case 0:
      text_printf(t, "  x = x + (linear(relu(linear(x, %d) as \"u%d\"), %d) as \"d%d\")\n", width(r), i, *w, i);
      break;
    case 1: text_printf(t, "  x = layer_norm(x) as \"n%d\"\n", i); break;
    case 2:
      *w = width(r);
      text_printf(t, "  x = linear(x, %d, bias=%s) as \"l%d\"\n", *w, below(r, 2) ? "true" : "false", i);
      break;
    case 3: text_printf(t, "  x = %s(x)\n", below(r, 2) ? "relu" : "tanh"); break;
    case 4: text_printf(t, "  x = x * sigmoid(linear(x, %d) as \"g%d\")\n", *w, i); break;
    case 5: text_printf(t, "  kept = x\n  x = (linear(x, %d) as \"k%d\") + kept\n", *w, i); break;
    case 6:
      if (*w == shared) text_printf(t, "  x = einsum(\"%sd,de->%se\", x, shared)\n", rows, rows);
      break;
    default: text_printf(t, "  x = x + (self_attention(x, 4, causal=true) as \"a%d\")\n", i);
  }
}

static const char *draw_net(Arena *a, Random *r) {
  Text t = {.arena = a};
  bool sequence = below(r, 3) == 0;
  int w = width(r), shared = w, n = 1 + below(r, 3), batch = 8 << below(r, 4);
  text_printf(&t, "import nn\nentry main(x: f32[%d, %s%d]) {\n", batch, sequence ? "16, " : "", w);
  text_printf(&t, "  weight shared : f32[%d, %d] = normal(0.1)\n", shared, shared);
  for (int i = 0; i < n; i++) draw_operation(r, &t, i, sequence ? "bs" : "b", &w, shared);
  text_printf(&t, "  output y = linear(x, %d) as \"last\"\n}\n", width(r));
  return text_str(&t);
}

static const Plan *plan_step(Module *m, const Target *t, Diags *d) {
  const PlanOptions o = {.degree[DEGREE_pp] = 1, .micro_batches = 1};
  const Plan *p = plan_search(m, module_func(m, "main"), t, &o, d);
  if (!p) diags_print(d, stderr, false);
  return p;
}

/* No operation of the backward pass follows another any more; the update of a weight still follows the weight. */
static void set_free(Module *m) {
  Func *f = module_func(m, "main");
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].phase == PH_bwd) f->ops.items[i].mirror = (Mirror){0};
}

typedef struct Losses {
  double of[NETS];
  int n, open;
} Losses;

static void compare(int net, Losses *l) {
  static const char *const targets[] = {"cpux2", "cpux4", "dgx-a100x4"};
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Random r = {.stream = (uint64_t)net};
  const char *text = draw_net(a, &r);
  const Target *t = topo_target_find(d, a, targets[below(&r, 3)]);
  Module *m = step_of(a, text, d);
  const Plan *mirrored = m ? plan_step(m, t, d) : NULL;
  double seconds = mirrored ? mirrored->price.time.total : 0;
  if (m) set_free(m);
  const Plan *any = mirrored ? plan_step(m, t, d) : NULL;
  CHECKF(mirrored && mirrored->mirrored && any, "net %d: %s", net, text);
  if (any) {
    CHECKF(any->lower_bound <= seconds * (1 + 1e-9), "net %d on %s: %g s, free at least %g\n%s", net, t->name, seconds,
           any->lower_bound, text);
    l->open += any->gap > 1e-9;
    l->of[l->n++] = seconds / any->lower_bound - 1;
  }
  if (m) module_free(m);
  arena_free(a);
}

static int by_size(const void *x, const void *y) {
  double a = *(const double *)x, b = *(const double *)y;
  return (a > b) - (a < b);
}

static void what_mirroring_loses(void) {
  static Losses l;
  double sum = 0;
  int none = 0;
  Quarter q = quarter_range(NETS);
  int n = q.to - q.from;
  for (int i = q.from; i < q.to; i++) compare(i, &l);
  if (l.n < n) return;
  qsort(l.of, (size_t)n, sizeof *l.of, by_size);
  for (int i = 0; i < n; i++) sum += l.of[i], none += l.of[i] < 1e-9;
  CHECK(sum / n < 2e-3 && l.of[n - 1] < 0.06 && none > n / 2);
  printf(
      "what mirroring loses on %d random nets (seed %d): nothing on %d; median %.2f %%, mean %.2f %%, 90 %% of them at "
      "most %.2f %%, worst %.2f %%; %d of the free plans are not proved to be the best\n",
      n, SEED, none, 100 * l.of[n / 2], 100 * sum / n, 100 * l.of[n * 9 / 10], 100 * l.of[n - 1], l.open);
}

/* Queries, keys and values of one product have its strategy; two slices, or slices beside another reader, choose. */
static void slices_follow(void) {
  static const struct {
    const char *rest;
    bool follow;
  } cases[] = {
      {"%k = slice %y {starts=[0, 4], strides=[1, 1]} : f32[8, 4]\n"
       "%v = slice %y {starts=[0, 8], strides=[1, 1]} : f32[8, 4]\noutput \"q\" %q\noutput \"k\" %k\noutput \"v\" "
       "%v\n}\n",
       true},
      {"%k = slice %y {starts=[0, 4], strides=[1, 1]} : f32[8, 4]\noutput \"q\" %q\noutput \"k\" %k\n}\n", false},
      {"%k = slice %y {starts=[0, 4], strides=[1, 1]} : f32[8, 4]\n"
       "%v = slice %y {starts=[0, 8], strides=[1, 1]} : f32[8, 4]\n"
       "output \"q\" %q\noutput \"k\" %k\noutput \"v\" %v\noutput \"y\" %y\n}\n",
       false}};
  for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    Module *m = ir_parse(
        "t.ir",
        arena_printf(a,
                     "apc.ir 1\nfunc @main level 1 {\n%%x = input {name=\"x\"} : f32[8, 16]\n"
                     "%%w = input {name=\"w\"} : f32[16, 12]\n%%y = dot %%x, %%w {spec=\"md,dn->mn\"} : f32[8, 12]\n"
                     "%%q = slice %%y {starts=[0, 0], strides=[1, 1]} : f32[8, 4]\n%s",
                     cases[c].rest),
        d);
    if (!m) diags_print(d, stderr, false);
    CHECK(m);
    if (!m) return;
    const Func *f = module_func(m, "main");
    const Loops loops = loops_of(a, f);
    const int apart[16] = {-1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1};
    const Rule *const *rules = rules_of(m, f);
    const Mirrors x = mirrors_of(a, f, rules, &loops, apart, NULL);
    size_t dot = 0;
    while (f->ops.items[dot].kind != OP_dot) dot++;
    for (size_t i = 0; i < f->ops.n; i++) {
      if (f->ops.items[i].kind != OP_slice) continue;
      CHECK((x.head[i] == dot) == cases[c].follow);
      for (int k = 0; k < 2 && cases[c].follow; k++) /* rows as rows, columns as columns */
        CHECK(x.factors[i][rules[i]->operands[0].dims[k].f[0]] == rules[dot]->results[0].dims[k].f[0]);
    }
    arena_free(a);
  }
}

int main(void) {
  RUN(slices_follow);
  RUN(what_mirroring_loses);
  return test_summary();
}
