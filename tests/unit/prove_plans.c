/* Real models under random plans: every lowered program is proved, none is refuted or left open.
 *
 * The models are those of examples/, small ones, with all their entries and prepared weights; other files may be given.
 * Meshes have 2 to 12 ranks, one to three axes, stages and micro-batches.  A plan is drawn operation by operation, or
 * searched with random degrees, or searched and then changed at random except for cuts into micro-batches.  A choice
 * that cannot be converted (a value cut over micro-batches that is needed whole) is no plan and not counted.
 *
 * usage: test_prove_plans [first seed [plans [file...]]] */
#include <stdlib.h>

#include "base/file.h"
#include "base/random.h"
#include "frontend/dsl/dsl.h"
#include "frontend/onnx/import.h"
#include "frontend/topo/target.h"
#include "ir/loops.h"
#include "proof/prove.h"
#include "passes/lower/lower.h"
#include "passes/pipeline.h"
#include "passes/plan/plan.h"
#include "passes/plan/entries.h"
#include "tests/test.h"

enum { MAX_DEFINES = 12, MAX_ENTRIES = 4 };

typedef struct Source {
  const char *file, *settings; /* of -D */
} Source;

static const Source examples[] = {
    {"examples/mlp.apc", "layers=2 d=12 hidden=24"},
    {"examples/gpt.apc", "layers=2 d=24 heads=4 ffn=48 vocab=40 ctx=24"},
    {"examples/gpt.apc", "layers=1 d=24 heads=3 ffn=36 vocab=50 ctx=16 tied=0"},
    {"examples/llama.apc", "layers=2 d=24 heads=6 kv_heads=2 ffn=36 vocab=40"},
    {"examples/llama.apc", "layers=1 d=32 heads=4 kv_heads=4 ffn=48 vocab=40 cache=1"},
    {"examples/bert.apc", "layers=2 d=24 heads=4 ffn=48 vocab=40 ctx=32"},
    {"examples/t5.apc", "layers=1 d=24 d_kv=6 heads=4 ffn=48 vocab=40"},
    {"examples/moe.apc", "layers=1 d=24 heads=4 kv_heads=2 ffn=36 experts=6 top_k=2 vocab=40"},
    {"examples/moe.apc",
     "layers=1 d=24 heads=4 kv_heads=2 ffn=36 experts=4 top_k=2 vocab=40 routing=capacity groups=2"},
    {"examples/moe.apc", "layers=1 d=24 heads=4 kv_heads=2 ffn=36 experts=6 top_k=2 vocab=40 routing=dropless"},
    {"examples/vit.apc", "layers=1 d=24 heads=4 ffn=48 patch=8 image=32 classes=10"},
    {"examples/resnet.apc", "depth=18 width=8 classes=10 image=32"},
    {"examples/unet.apc", "channels=4 levels=2 image=32"},
    {"examples/lstm.apc", "layers=2 d=12 hidden=24 vocab=30"},
};

static const char *const meshes[] = {
    "2",   "3",   "4",   "5",     "7",     "11",         "12",         "2,2",          "2,3",
    "3,2", "4,3", "2,5", "2,2,2", "2,2,3", "1 stages 2", "2 stages 3", "2,2 stages 3", "1 stages 5"};

typedef struct Random {
  uint64_t seed, drawn;
} Random;

static int below(Random *r, int n) { return (int)random_below(r->seed, 12, r->drawn++, (uint64_t)n); }

static long proved, no_plan, open_ones, by_kind[3], with_stages, with_time;

/* ---- a model after the passes */

static Module *load_dsl(Arena *a, const Source *s, Diags *d) {
  DslDefine defines[MAX_DEFINES];
  DslOptions options = {.defines = defines};
  char *text = arena_strdup(a, s->settings);
  for (char *save, *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
    char *equals = strchr(word, '=');
    *equals = 0;
    defines[options.ndefines++] = (DslDefine){word, equals + 1};
  }
  const char *source = file_read_text(d, a, s->file, NULL);
  return source ? dsl_load(s->file, source, &options, d) : NULL;
}

static Module *load_onnx(const char *path, Diags *d) {
  OnnxFile *file = onnx_file_open(d, path);
  if (!file) return NULL;
  Module *m = NULL;
  OnnxImportOptions options = {0};
  bool ok = onnx_import(&m, file, &options, d);
  onnx_file_close(file);
  if (!ok) module_free(m);
  return ok ? m : NULL;
}

static Module *load(Arena *a, const Source *s, Random *r, Diags *d) {
  size_t n = strlen(s->file);
  Module *m = n > 5 && strcmp(s->file + n - 5, ".onnx") == 0 ? load_onnx(s->file, d) : load_dsl(a, s, d);
  PassOptions options = {
      .device = target_device_traits(below(r, 2) ? DEVICE_cpu : DEVICE_cuda), .verify = true, .dump = stderr};
  if (m && verify_module(m, d) && pipeline_run(m, NULL, &options, d)) return m;
  diags_print(d, stderr, false);
  if (m) module_free(m);
  return NULL;
}

/* The entries; functions that are called or prepare weights are none. */
static int entries_of(const Module *m, Func **l1s) {
  int n = 0;
  for (size_t i = 0; i < m->funcs.n && n < MAX_ENTRIES; i++)
    if (m->funcs.items[i]->level == 1 && strcmp(m->funcs.items[i]->name, "prepare") != 0) l1s[n++] = m->funcs.items[i];
  return n;
}

/* ---- plans */

typedef struct Choice {
  Strategy *strategies;
  int *stages;
} Choice;

static void set_mesh(Module *m, Random *r) {
  const char *text = meshes[below(r, (int)(sizeof meshes / sizeof *meshes))], *stages = strstr(text, "stages ");
  static const char *const names[] = {"a", "b", "c", "mb"};
  Mesh mesh = {.stages = stages ? atoi(stages + 7) : 1};
  for (const char *p = text; p; p = strchr(p, ',')) {
    p += *p == ',';
    if (atoi(p) > 1) mesh.axes[mesh.naxes] = (MeshAxis){.name = names[mesh.naxes], .size = atoi(p)}, mesh.naxes++;
  }
  module_set_mesh(m, &mesh);
}

static bool inside_loop(const Loops *l, size_t op) {
  for (int i = 0; i < l->n; i++)
    if (l->items[i].begin < op && op < l->items[i].end) return true;
  return false;
}

static bool same_over_time(const Module *m, const Strategy *a, const Strategy *b) {
  for (int x = 0; x < m->mesh.naxes; x++) {
    int fa = -1, fb = -1;
    if (!m->mesh.axes[x].temporal) continue;
    for (int i = 0; i < a->n; i++)
      if (a->picks[i].axis == x) fa = a->picks[i].factor;
    for (int i = 0; i < b->n; i++)
      if (b->picks[i].axis == x) fb = b->picks[i].factor;
    if (fa != fb) return false;
  }
  return true;
}

/* Another strategy for one in `rate` of the operations; a loop's leaves go with their carries. */
static void draw_strategies(Module *m, const Func *f, Random *r, int rate, Choice *c) {
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const Strategy *all;
    if (op->kind == OP_leave) c->strategies[i] = c->strategies[f->values.items[op->in[0]].op];
    if (op->kind == OP_leave || below(r, rate)) continue;
    int n = strategy_enumerate(m->arena, m, rule_of(m, f, op), true, &all), at = below(r, n);
    if (same_over_time(m, &all[at], &c->strategies[i])) c->strategies[i] = all[at];
  }
}

static Choice draw_plan(Module *m, const Func *f, Random *r, Arena *a) {
  Choice c = {ARENA_ARRAY(a, Strategy, f->ops.n), ARENA_ARRAY(a, int, f->ops.n)};
  Loops loops = loops_of(a, f);
  set_mesh(m, r);
  draw_strategies(m, f, r, 1, &c);
  for (size_t i = 0, stage = 0; i < f->ops.n; i++) {
    if (!inside_loop(&loops, i) && (int)stage + 1 < m->mesh.stages && below(r, (int)f->ops.n / m->mesh.stages + 1) == 0)
      stage++;
    c.stages[i] = (int)stage;
  }
  return c;
}

static bool search_plan(Module *m, const Func *f, Random *r, bool change, Arena *a, Choice *c) {
  static const int degrees[] = {0, 0, 0, 1, 2, 2, 3, 4};
  Diags *d = diags_new(a);
  PlanOptions o = {.memory_limit = 1e18};
  o.degree[DEGREE_tp] = degrees[below(r, 8)];
  o.degree[DEGREE_pp] = degrees[below(r, 8)];
  o.degree[DEGREE_dp] = degrees[below(r, 8)];
  o.degree[DEGREE_cp] = below(r, 3) ? 0 : degrees[below(r, 8)];
  o.micro_batches = o.degree[DEGREE_pp] > 1 ? below(r, 4) : 0;
  const Target *t = topo_target_find(d, a, arena_printf(a, "cpux%d", 2 + below(r, 11)));
  const Plan *p = plan_search(m, f, t, &o, d);
  if (!p) return false;
  module_set_mesh(m, &p->mesh);
  *c = (Choice){ARENA_ARRAY(a, Strategy, f->ops.n), ARENA_ARRAY(a, int, f->ops.n)};
  memcpy(c->strategies, p->strategies, sizeof(Strategy) * f->ops.n);
  memcpy(c->stages, p->stages, sizeof(int) * f->ops.n);
  if (change) draw_strategies(m, f, r, 4, c);
  return true;
}

/* ---- lowered and proved */

static void complain(const Source *s, uint64_t seed, const Func *f, const Proof *p) {
  open_ones++;
  if (open_ones <= 10)
    fprintf(stderr, "seed %llu, %s %s, @%s: right, but %s at %s: %s\n", (unsigned long long)seed, s->file, s->settings,
            f->name, verdict_name(p->verdict), p->op, p->reason);
}

static Func *lowered(Module *m, const Func *f, const Choice *c, Arena *a) {
  Diags *d = diags_new(a);
  LowerPlan plan = {.strategies = c->strategies, .stages = c->stages};
  Func *l2 = lower_spmd(m, f, &plan, arena_printf(a, "%s.rank", f->name), d);
  if (l2 && verify_func(m, l2, d)) return l2;
  const char *why = d->n ? d->items[0].message : "";
  CHECKF(!l2 && strstr(why, "no way to convert"), "%s", why);
  return NULL;
}

static bool check_entries(Module *m, const Source *s, uint64_t seed, int n, Func **l1s, const Choice *c, Arena *a) {
  Func *l2s[MAX_ENTRIES];
  for (int i = 0; i < n; i++) {
    Choice carried = *c;
    if (i > 0) {
      carried = (Choice){ARENA_ARRAY(a, Strategy, l1s[i]->ops.n), ARENA_ARRAY(a, int, l1s[i]->ops.n)};
      plan_carry(m, l1s[0], c->strategies, c->stages, l1s[i], carried.strategies, carried.stages);
    }
    l2s[i] = lowered(m, l1s[i], &carried, a);
    if (!l2s[i]) return false;
  }
  bool good = true;
  for (int i = 0; i < n; i++) {
    Proof p = prove(m, l1s[i], l2s[i]);
    if (p.verdict != PROVED) complain(s, seed, l1s[i], &p), good = false;
  }
  const Func *l1 = module_func(m, "prepare");
  Diags *d = diags_new(a);
  const Func *l2 = l1 ? lower_prepare(m, l1, n, l2s, "prepare.rank", d) : NULL;
  Proof p = prove_prepare(m, l1, l2, n, l2s);
  if (p.verdict != PROVED) complain(s, seed, l1 ? l1 : l1s[0], &p), good = false;
  proved += good;
  return true;
}

static void check_plan(const Source *s, uint64_t seed) {
  Random r = {.seed = seed};
  Arena *a = arena_new();
  Module *m = load(a, s, &r, diags_new(a));
  CHECKF(m != NULL, "%s", s->file);
  if (m) {
    Func *l1s[MAX_ENTRIES];
    int n = entries_of(m, l1s), kind = below(&r, 3);
    Choice c;
    bool planned = true;
    if (kind == 0) c = draw_plan(m, l1s[0], &r, a);
    for (int tries = 0; kind && !(planned = search_plan(m, l1s[0], &r, kind == 2, a, &c)) && tries < 8;) tries++;
    planned = planned && check_entries(m, s, seed, n, l1s, &c, a);
    no_plan += !planned;
    by_kind[kind] += planned;
    with_stages += planned && m->mesh.stages > 1;
    for (int x = 0; planned && x < m->mesh.naxes; x++) with_time += m->mesh.axes[x].temporal;
    module_free(m);
  }
  arena_free(a);
}

static uint64_t first_seed = 1;
static int plans = SANITIZED ? 42 : 300;
static int nsources = (int)(sizeof examples / sizeof *examples);
static Source named[64];
static const Source *sources = examples;

static void plans_are_proved(void) {
  Quarter q = quarter_range(plans);
  for (int i = q.from; i < q.to; i++) check_plan(&sources[i % nsources], first_seed + (uint64_t)i);
  printf(
      "seeds %llu to %llu: %ld plans proved (%ld drawn, %ld searched, %ld changed; %ld with stages, %ld with "
      "micro-batches), %ld not proved, %ld no plan\n",
      (unsigned long long)first_seed + (unsigned)q.from, (unsigned long long)first_seed + (unsigned)q.to - 1, proved,
      by_kind[0], by_kind[1], by_kind[2], with_stages, with_time, open_ones, no_plan);
  CHECKF(open_ones == 0, "%ld right programs are not proved", open_ones);
  CHECK(2 * proved > q.to - q.from && (sources != examples || (with_stages > 0 && with_time > 0)));
}

int main(int argc, char **argv) {
  if (argc > 1) first_seed = strtoull(argv[1], NULL, 10);
  if (argc > 2) plans = atoi(argv[2]);
  for (int i = 3; i < argc && i < 67; i++) named[i - 3] = (Source){argv[i], ""}, sources = named, nsources = i - 2;
  RUN(plans_are_proved);
  return test_summary();
}
