/* The printed bound against everything that can be forced: on models, targets, sizes, types and memory limits drawn at random, no plan of forced
 * degrees and micro-batches is faster than the bound that the search without force proves; every plan costs when it is read back what it cost when it
 * was written, with the same degrees; and forcing the degrees of the plan found without force, or of an alternative, gives what was shown.
 *
 * usage: test_planner_forced [first case [cases [forced plans of each]]]; tests/forced_plans.sh runs many
 */
#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "base/random.h"
#include "frontend/dsl.h"
#include "frontend/target.h"
#include "passes/pipeline.h"
#include "passes/plan.h"
#include "tests/test.h"

enum { MAX_DEFINES = 12 };

typedef struct Source {
  const char *file, *settings, *sizes; /* of -D, of --dim-hint */
} Source;

static const Source models[] = {
    {"examples/mlp.apc", "layers=2 d=512 hidden=2048", "batch=64"},
    {"examples/mlp.apc", "layers=6 d=256 hidden=1000", "batch=30"},
    {"examples/gpt.apc", "layers=2 d=256 heads=4 vocab=1000 ctx=64", "batch=8 seq=64"},
    {"examples/gpt.apc", "layers=12 d=768 heads=12 ctx=1024", "batch=8 seq=512"},
    {"examples/gpt.apc", "layers=4 d=768 heads=12 ctx=1024", "batch=16 seq=1"},
    {"examples/gpt.apc", "layers=3 d=192 heads=3 vocab=500 ctx=100 tied=0", "batch=5 seq=37"},
    {"examples/llama.apc", "layers=4 d=512 heads=8 kv_heads=2 ffn=1376 vocab=4000", "batch=4 seq=128"},
    {"examples/llama.apc", "layers=8 d=4096 heads=32 kv_heads=32 ffn=11008 vocab=32000", "batch=1 seq=1"},
    {"examples/llama.apc", "layers=6 d=6656 heads=52 kv_heads=52 ffn=17920 vocab=32000", "batch=256 seq=512"},
    {"examples/llama.apc", "layers=2 d=512 heads=8 kv_heads=8 ffn=1376 vocab=1000 cache=1", "batch=8 seq=1"},
    {"examples/bert.apc", "layers=4 d=256 heads=4 ffn=1024 vocab=2000 ctx=128", "batch=12 seq=128"},
    {"examples/t5.apc", "layers=1 d=256 d_kv=32 heads=8 ffn=512 vocab=1000", "batch=4 seq=64 tgt=32"},
    {"examples/moe.apc", "layers=1 d=256 heads=8 kv_heads=4 ffn=512 experts=8 top_k=2 vocab=1000", "batch=4 seq=64"},
    {"examples/moe.apc", "layers=1 d=256 heads=8 kv_heads=4 ffn=512 experts=4 top_k=2 vocab=1000 routing=capacity groups=2", "batch=4 seq=64"},
    {"examples/moe.apc", "layers=2 d=256 heads=8 kv_heads=4 ffn=512 experts=6 top_k=2 vocab=1000 routing=dropless", "batch=4 seq=32"},
    {"examples/vit.apc", "layers=4 d=192 heads=3 ffn=768 patch=16 image=64 classes=100", "batch=32"},
    {"examples/resnet.apc", "depth=18 width=16 classes=100 image=64", "batch=16"},
    {"examples/unet.apc", "channels=16 levels=2 image=64", "batch=4"},
    {"examples/lstm.apc", "layers=2 d=128 hidden=256 vocab=500", "batch=16"},
    {"examples/gpt.apc", "layers=24 d=1024 heads=16 ctx=1024", "batch=32 seq=256"},
};

/* Eight machines of one GPU; two of four. */
static const char *const slow_links = "machine eth { devices 1 A100-SXM4-80GB; network ethernet 1 at 10 Gbit/s with tcp; }\ntarget eth8 { machine eth; devices 8; }\n"
                                      "machine pair { devices 4 A100-SXM4-40GB; link nvlink at 300 GB/s with nvlink-ampere; network infiniband 4 at 200 Gbit/s with infiniband; }\n"
                                      "target pair8 { machine pair; devices 8; }\n";
static const char *const targets[] = {"cpux2", "cpux4", "cpux6", "cpux8", "dgx-a100x4", "dgx-h100x8", "pair8", "aws-p3.16xlarge", "rtx4090-x4", "eth8"};

enum { MODELS = sizeof models / sizeof *models, TARGETS = sizeof targets / sizeof *targets };

typedef struct Random {
  uint64_t seed, drawn;
} Random;

static int below(Random *r, int n) { return (int)random_below(r->seed, 13, r->drawn++, (uint64_t)n); }

/* One case: a model on a target. */
typedef struct Case {
  Arena *a;
  Diags *d;
  Module *m;
  const Func *f;
  const Target *t;
  const char *what;
  double limit;
  const PlanKnown *known;
} Case;

static long searched, forced_plans, refused, alternatives, at_bound;

/* ---- models and targets */

static void split_settings(Arena *a, const char *settings, DslDefine *out, int *n) {
  char *text = arena_strdup(a, settings);
  for (char *save, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *equals = strchr(word, '=');
    *equals = 0;
    out[(*n)++] = (DslDefine){word, equals + 1};
  }
}

static Module *load(Case *c, const Source *s) {
  DslDefine defines[MAX_DEFINES], sizes[MAX_DEFINES];
  int nsizes = 0;
  DslOptions options = {0, defines, 0};
  split_settings(c->a, s->settings, defines, &options.ndefines);
  split_settings(c->a, s->sizes, sizes, &nsizes);
  const char *text = file_read_text(c->d, c->a, s->file, NULL);
  Module *m = text ? dsl_load(s->file, text, &options, c->d) : NULL;
  PassOptions passes = {.device = c->t->device, .dump = stderr};
  for (int i = 0; m && i < nsizes; i++)
    for (size_t k = 0; k < m->symbols.n; k++)
      if (strcmp(m->symbols.items[k].name, sizes[i].name) == 0) m->symbols.items[k].hint = atoll(sizes[i].value);
  if (m && verify_module(m, c->d) && pipeline_run(m, NULL, &passes, c->d)) return m;
  if (m) module_free(m);
  return NULL;
}

static const Target *find_target(Case *c, const char *name, Random *r) {
  const Target *t = strcmp(name, "eth8") == 0 || strcmp(name, "pair8") == 0 ? target_parse(c->d, c->a, "eth.topo", slow_links, name, 0) : target_find(c->d, c->a, name);
  static const ComputeType types[] = {CT_f32, CT_bf16, CT_f16};
  const Target *in = t ? target_computing_in(c->a, t, types[below(r, 3)]) : NULL;
  return in ? in : t;
}

/* ---- plans */

static Plan *search(Case *c, PlanOptions o) {
  o.memory_limit = c->limit;
  o.known = &c->known;
  searched++;
  return plan_search(c->m, c->f, c->t, &o, diags_new(c->a));
}

static const char *options_text(const Case *c, const PlanOptions *o) {
  return arena_printf(c->a, "%s --tp %d --pp %d --dp %d --cp %d --ep %d --micro-batches %d --memory %.0f", c->what, o->tp, o->pp, o->dp, o->cp, o->ep, o->micro_batches, c->limit);
}

/* A divisor of n, or none. */
static int draw_degree(Random *r, int *n) {
  if (below(r, 5) < 2) return 0;
  for (int tries = 0; tries < 8; tries++) {
    int k = 1 + below(r, *n);
    if (*n % k) continue;
    *n /= k;
    return k;
  }
  return 0;
}

static PlanOptions draw_options(const Case *c, Random *r) {
  int left = c->t->ranks, *degree, order = below(r, 5);
  PlanOptions o = {0};
  int *const degrees[] = {&o.tp, &o.pp, &o.dp, &o.cp, &o.ep};
  for (int i = 0; i < 5; i++) {
    degree = degrees[(i + order) % 5];
    if (degree == &o.ep && below(r, 2)) continue;
    *degree = draw_degree(r, &left);
  }
  if (left > 1 && o.tp && o.pp && o.dp && o.cp && o.ep) o.tp = 0;
  if (below(r, 3) == 0) o.micro_batches = 1 + below(r, 12);
  else if (below(r, 4) == 0) o.micro_batches = 1 + below(r, 100);
  return o;
}

static bool near(double a, double b) { return fabs(a - b) <= 1e-9 * fmax(a, b); }

/* Written and read, it is the same plan. */
static void check_file(const Case *c, const Plan *p, const char *what) {
  Text text = {.arena = c->a};
  Diags *d = diags_new(c->a);
  plan_print(c->m, c->f, p, &text);
  const Plan *q = plan_parse(c->m, c->f, c->t, "forced.plan", text_str(&text), d);
  CHECKF(q != NULL, "%s: %s", what, d->n ? d->items[0].message : "");
  if (!q) return;
  CHECKF(near(q->price.time.total, p->price.time.total) && near(q->price.memory.total, p->price.memory.total), "%s: %g s read as %g s, %g bytes as %g", what,
         p->price.time.total, q->price.time.total, p->price.memory.total, q->price.memory.total);
  CHECKF(q->tp == p->tp && q->dp == p->dp && q->cp == p->cp && q->ep == p->ep && q->pp == p->pp && q->micro_batches == p->micro_batches,
         "%s: tp %d dp %d cp %d ep %d is read as tp %d dp %d cp %d ep %d", what, p->tp, p->dp, p->cp, p->ep, q->tp, q->dp, q->cp, q->ep);
}

static bool has_degree(int wanted, int got) { return !wanted || wanted == got; }

static void check_forced(Case *c, const Plan *best, double bound, const PlanOptions *o) {
  const char *what = options_text(c, o);
  const Plan *p = search(c, *o);
  if (!p) {
    refused++;
    return;
  }
  forced_plans++;
  CHECKF(best != NULL, "%s: forced, a plan of %g s is found, without force none", what, p->price.time.total);
  CHECKF(!best || p->price.time.total >= bound * (1 - 1e-9), "%s: %.9g s is faster than the bound %.9g s", what, p->price.time.total, bound);
  CHECKF(has_degree(o->tp, p->tp) && has_degree(o->dp, p->dp) && has_degree(o->cp, p->cp) && has_degree(o->ep, p->ep) && has_degree(o->pp, p->pp) && has_degree(o->micro_batches, p->micro_batches),
         "%s: the plan is tp %d pp %d dp %d cp %d ep %d, %d micro-batches", what, p->tp, p->pp, p->dp, p->cp, p->ep, p->micro_batches);
  CHECKF(p->price.time.total >= p->lower_bound * (1 - 1e-9), "%s: faster than its own bound", what);
  CHECKF(c->limit == 0 || p->price.memory.total <= c->limit, "%s: needs %g bytes", what, p->price.memory.total);
  at_bound += best && near(p->price.time.total, bound);
  check_file(c, p, what);
}

/* What is shown is what forcing its degrees gives. */
static void check_shown(Case *c, int ranks, PlanOptions o, double seconds, double bytes) {
  int product = o.tp * o.pp * o.dp * o.cp * o.ep;
  if (product != ranks) return; /* an axis that splits nothing has no degree */
  const Plan *p = search(c, o);
  alternatives++;
  CHECKF(p ? near(p->price.time.total, seconds) && near(p->price.memory.total, bytes) : isinf(seconds), "%s: shown as %.9g s, forced %.9g s", options_text(c, &o), seconds,
         p ? p->price.time.total : INFINITY);
}

static void run_case(uint64_t number, int plans) {
  Random r = {number, 0};
  const Source *s = &models[number % MODELS];
  Case c = {.a = arena_new()};
  c.d = diags_new(c.a);
  c.t = find_target(&c, targets[(number / MODELS + number) % TARGETS], &r);
  c.m = c.t ? load(&c, s) : NULL;
  CHECKF(c.m != NULL, "case %llu", (unsigned long long)number);
  if (c.m) {
    c.f = module_func(c.m, "main") ? module_func(c.m, "main") : c.m->funcs.items[0];
    c.what = arena_printf(c.a, "case %llu: %s %s, %s on %s in %s", (unsigned long long)number, s->file, s->settings, s->sizes, c.t->name, compute_name(c.t->compute));
    Plan *best = search(&c, (PlanOptions){0});
    if (best && below(&r, 4) == 0) {
      c.known = NULL;
      c.limit = floor(best->price.memory.total * (0.4 + 0.1 * below(&r, 6)));
      best = search(&c, (PlanOptions){0});
    }
    double bound = best ? best->lower_bound : 0;
    if (best) {
      check_file(&c, best, c.what);
      check_shown(&c, c.t->ranks, (PlanOptions){.tp = best->tp, .pp = best->pp, .dp = best->dp, .cp = best->cp, .ep = best->ep, .micro_batches = best->micro_batches},
                  best->price.time.total, best->price.memory.total);
    }
    for (int i = 0, shown = 0; best && i < best->nalternatives && shown < 2; i += 1 + below(&r, 3), shown++) {
      const PlanAlternative *x = &best->alternatives[i];
      check_shown(&c, c.t->ranks, (PlanOptions){.tp = x->tp, .pp = x->pp, .dp = x->dp, .cp = x->cp, .ep = x->ep, .micro_batches = x->micro_batches}, x->seconds, x->bytes);
    }
    for (int i = 0; i < plans; i++) {
      PlanOptions o = draw_options(&c, &r);
      check_forced(&c, best, bound, &o);
    }
    module_free(c.m);
  }
  if (test_failed_here) diags_print(c.d, stderr, false);
  arena_free(c.a);
}

static uint64_t first_case = 1;
static int cases = 6, plans_of_each = 2;

static void forced(void) {
  for (int i = 0; i < cases; i++) run_case(first_case + (uint64_t)i, plans_of_each);
  printf("%d cases: %ld forced plans, %ld refused, %ld shown ones forced, %ld at the bound, %ld searches\n", cases, forced_plans, refused, alternatives, at_bound, searched);
  CHECK(forced_plans + refused > 0);
}

int main(int argc, char **argv) {
  if (argc > 1) first_case = strtoull(argv[1], NULL, 10);
  if (argc > 2) cases = atoi(argv[2]);
  if (argc > 3) plans_of_each = atoi(argv[3]);
  RUN(forced);
  return test_summary();
}
