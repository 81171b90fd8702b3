/* Plan files: round trip, edits, malformed ones. */
#include "base/file.h"
#include "base/hash.h"
#include "base/random.h"
#include "frontend/dsl/dsl.h"
#include "frontend/topo/target.h"
#include "passes/facts/labels.h"
#include "passes/pipeline.h"
#include "passes/plan/plan.h"
#include "passes/plan/text.h"
#include "tests/planner_models.h"
#include "tests/test.h"

static const GptShape small = {2, 256, 4, 1024, 1000, 64, 8};

typedef struct Model {
  Arena *a;
  Diags *d;
  Module *m;
  const Func *f;
  const Target *t;
} Model;

static Model open_model(const char *target) {
  Model x = {.a = arena_new()};
  x.d = diags_new(x.a);
  x.m = ir_parse("gpt.ir", gpt_text(x.a, &small), x.d);
  CHECK(x.m && pipeline_run(x.m, NULL, &(PassOptions){0}, x.d));
  x.f = x.m ? module_func(x.m, "main") : NULL;
  x.t = topo_target_find(x.d, x.a, target);
  CHECK(x.f && x.t);
  return x;
}

static void close_model(Model *x) {
  if (test_failed_here) diags_print(x->d, stderr, false);
  if (x->m) module_free(x->m);
  arena_free(x->a);
}

static const char *print(Model *x, const Plan *p) {
  Text t = {.arena = x->a};
  plan_print(x->m, x->f, p, &t);
  return text_str(&t);
}

/* `text` with the first `from` replaced. */
static const char *edit(Model *x, const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  CHECKF(at != NULL, "no %s in the plan", from);
  if (!at) return text;
  return arena_printf(x->a, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
}

static bool same_choice(const Func *f, const Plan *a, const Plan *b) {
  if (a->mesh.naxes != b->mesh.naxes) return false;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Strategy *s = &a->strategies[i], *t = &b->strategies[i];
    if (a->stages[i] != b->stages[i] || s->n != t->n) return false;
    for (int k = 0; k < s->n; k++) { /* picks of different factors may be listed in another order */
      bool found = false;
      for (int j = 0; j < t->n; j++)
        found |= s->picks[k].axis == t->picks[j].axis && s->picks[k].factor == t->picks[j].factor;
      if (!found) return false;
    }
  }
  return true;
}

static void round_trip(void) {
  static const struct {
    const char *target;
    PlanOptions o;
  } cases[] = {{"cpu", {0}},
               {"cpux4", {0}},
               {"cpux4", {.degree[DEGREE_tp] = 4}},
               {"cpux4", {.degree = {[DEGREE_tp] = 2, [DEGREE_dp] = 2}}},
               {"cpux4", {.degree[DEGREE_pp] = 2, .micro_batches = 4}},
               {"cpux4", {.degree[DEGREE_pp] = 4}}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Model x = open_model(cases[i].target), y = open_model(cases[i].target);
    Plan *p = plan_search(x.m, x.f, x.t, &cases[i].o, x.d);
    CHECKF(p != NULL, "case %zu", i);
    if (p) {
      const char *text = print(&x, p);
      Plan *q = plan_parse(y.m, y.f, y.t, "a.plan", text, y.d);
      CHECKF(q != NULL && y.d->n == 0, "case %zu", i);
      if (q) {
        CHECK_STR(print(&y, q), text);
        CHECKF(same_choice(x.f, p, q), "case %zu", i);
        CHECK(q->price.time.total == p->price.time.total && q->price.memory.total == p->price.memory.total);
        CHECK(memcmp(q->degree, p->degree, sizeof q->degree) == 0 && q->micro_batches == p->micro_batches);
        CHECK(q->mesh.naxes == p->mesh.naxes && q->mesh.stages == p->mesh.stages);
      }
    }
    CHECK(x.m->mesh.naxes == 0 && x.m->mesh.stages == 1); /* no mesh is left */
    CHECK(y.m->mesh.naxes == 0 && y.m->mesh.stages == 1);
    close_model(&y);
    close_model(&x);
  }
}

/* ---- length */

static int count_ops(const char *text) {
  int n = 0;
  for (const char *s = strstr(text, "\nop "); s; s = strstr(s + 1, "\nop ")) n++;
  return n;
}

/* A model as a plan file sees it, with any strategies. */
typedef struct Loose {
  Arena *a;
  Diags *d;
  Module *m;
  const Func *f;
  const Target *t;
  Plan p;
} Loose;

static Loose loose_plan(Module *m, Arena *a, Diags *d) {
  Loose x = {.a = a, .d = d, .m = m, .f = module_func(m, "main"), .t = topo_target_find(d, a, "cpux4")};
  Mesh mesh = {.naxes = 2, .axes = {{.name = "dp", .size = 2}, {.name = "tp", .size = 2}}, .stages = 1};
  module_set_mesh(m, &mesh);
  x.p = (Plan){.target = x.t->name,
               .func = x.f->name,
               .ranks = 4,
               .mesh = m->mesh,
               .stages = ARENA_ARRAY(a, int, x.f->ops.n),
               .graph = plan_graph_hash(m, x.f)};
  return x;
}

/* The n-th legal strategy, modulo their number. */
static Strategy pick(Loose *x, size_t op, uint64_t n) {
  const Strategy *all;
  int count = strategy_enumerate(x->m->arena, x->m, rule_of(x->m, x->f, &x->f->ops.items[op]), false, &all);
  return all[n % (uint64_t)count];
}

static const char *print_loose(Loose *x, const Strategy *strategies) {
  Text t = {.arena = x->a};
  x->p.strategies = strategies;
  plan_print(x->m, x->f, &x->p, &t);
  return text_str(&t);
}

/* Strategies that depend only on the operation's group: every layer has the same. */
static int uniform_lines(int layers, uint64_t seed) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  const DslDefine defines[] = {
      {"layers", arena_printf(a, "%d", layers)}, {"d", "64"}, {"heads", "2"}, {"vocab", "100"}, {"ctx", "16"}};
  const char *text = file_read_text(d, a, "examples/gpt.apc", NULL);
  Module *m =
      dsl_load("gpt.apc", text, &(DslOptions){.ndefines = sizeof defines / sizeof *defines, .defines = defines}, d);
  CHECK(m && pipeline_run(m, NULL, &(PassOptions){0}, d));
  Loose x = loose_plan(m, a, d);
  Strategy *s = ARENA_ARRAY(a, Strategy, x.f->ops.n);
  for (size_t i = 0; i < x.f->ops.n; i++) {
    uint64_t h = hash64(x.f->ops.items[i].group, strlen(x.f->ops.items[i].group), seed);
    if (h % 4) s[i] = pick(&x, i, h / 4);
  }
  int n = count_ops(print_loose(&x, s));
  module_free(m);
  arena_free(a);
  return n;
}

static void length_is_constant_in_depth(void) {
  for (uint64_t seed = 0; seed < 3; seed++) {
    int two = uniform_lines(2, seed), many = uniform_lines(24, seed);
    CHECKF(two == many && two > 40, "%d and %d lines", two, many);
  }
}

/* The planner's choice for 4 and 8 layers: the ends may differ from the middle. */
static void layers_share_lines(void) {
  Arena *a = arena_new();
  int lines[2] = {0};
  for (int k = 0; k < 2; k++) {
    GptShape g = small;
    g.layers = k ? 8 : 4;
    Diags *d = diags_new(a);
    Module *m = ir_parse("gpt.ir", gpt_text(a, &g), d);
    CHECK(m && pipeline_run(m, NULL, &(PassOptions){0}, d));
    const Func *f = module_func(m, "main");
    Plan *p = plan_search(m, f, topo_target_find(d, a, "cpux2"), &(PlanOptions){.degree[DEGREE_tp] = 2}, d);
    Text t = {.arena = a};
    CHECK(p != NULL);
    if (p) plan_print(m, f, p, &t);
    lines[k] = count_ops(text_str(&t));
    module_free(m);
  }
  CHECKF(lines[1] == lines[0] && lines[0] < 60, "%d and %d lines", lines[0], lines[1]);
  arena_free(a);
}

/* Names that count nodes, as exporters write them: the globs of different groups are equal; one name has a star. */
static const char *counted_text(Arena *a) {
  static const char *const kinds[] = {"exp", "relu", "exp", "tanh"};
  Text t = {.arena = a};
  text_add(&t, "apc.ir 1\nfunc @main level 1 {\n  %Op = input {name=\"x\"} : f32[8, 12]\n");
  for (int i = 0; i < 12; i++)
    text_printf(&t, "  %%Op_%d = %s %%Op%s : f32[8, 12]\n", i + 1, kinds[i % 4], i ? arena_printf(a, "_%d", i) : "");
  text_add(&t, "  %\"Op_*\" = sin %Op_12 : f32[8, 12]\n  output \"y\" %\"Op_*\"\n}\n");
  return text_str(&t);
}

/* Any strategies are read back, whether layers agree, differ in one operation, or have nothing in common. */
static void random_plans(void) {
  for (uint64_t seed = 0; seed < 90; seed++) {
    Arena *a = arena_new();
    Diags *d = diags_new(a);
    const char *model = seed % 3 == 0   ? counted_text(a)
                        : seed % 3 == 1 ? mlp_text(a, 5, 8, 12)
                                        : gpt_text(a, &(GptShape){3, 8, 2, 12, 11, 6, 4});
    Module *m = ir_parse("gpt.ir", model, d);
    CHECK(m && pipeline_run(m, NULL, &(PassOptions){0}, d));
    Loose x = loose_plan(m, a, d);
    Strategy *s = ARENA_ARRAY(a, Strategy, x.f->ops.n);
    for (size_t i = 0; i < x.f->ops.n; i++) {
      const char *group = x.f->ops.items[i].group;
      uint64_t shared = hash64(group, strlen(group), seed), own = random_below(seed, 1, i, UINT64_MAX);
      bool alone = own % 64 < seed % 5 * 16;
      uint64_t n = alone ? own / 64 : shared;
      if (n % 3) s[i] = pick(&x, i, n / 3);
    }
    const char *text = print_loose(&x, s);
    Plan *q = plan_parse(m, x.f, x.t, "random.plan", text, d);
    CHECKF(q && d->errors == 0 && same_choice(x.f, &x.p, q), "seed %d\n%s", (int)seed, text);
    if (q) CHECK_STR(print_loose(&x, q->strategies), text);
    if (test_failed_here) diags_print(d, stderr, false);
    module_free(m);
    arena_free(a);
    if (test_failed_here) return;
  }
}

/* ---- edits */

static void edited(void) {
  Model x = open_model("cpux2");
  Plan *p = plan_search(x.m, x.f, x.t, &(PlanOptions){.degree[DEGREE_tp] = 2}, x.d);
  CHECK(p != NULL);
  if (p) {
    const char *text = print(&x, p);
    const char *more = arena_printf(x.a, "%sop \"logits\" {b:tp}\nop \"wte\" {}  # whole\n", text);
    Plan *q = plan_parse(x.m, x.f, x.t, "a.plan", more, x.d);
    CHECK(q != NULL && x.d->errors == 0 && x.d->warnings == 2); /* both had a line */
    CHECK(strstr(x.d->items[0].message, "has a line already") != NULL);
    if (q) {
      CHECK(q->price.memory.params > p->price.memory.params);
      const char *again = print(&x, q);
      CHECK(strstr(again, "op \"logits\" {b:tp}\n") && !strstr(again, "\"wte\""));
      Plan *r = plan_parse(x.m, x.f, x.t, "a.plan", again, x.d);
      CHECK(r != NULL);
      if (r) CHECK_STR(print(&x, r), again);
    }
  }
  close_model(&x);
}

/* A plan for another graph is used where it fits; if most of it does not, it is refused. */
static void of_another_graph(void) {
  Model x = open_model("cpux2");
  Plan *p = plan_search(x.m, x.f, x.t, &(PlanOptions){.degree[DEGREE_tp] = 2}, x.d);
  CHECK(p != NULL);
  const char *text = p ? edit(&x, print(&x, p), "graph @main ", "graph @main 0123456789abcdef # ") : "";
  Diags *d = diags_new(x.a);
  CHECK(plan_parse(x.m, x.f, x.t, "a.plan", text, d) != NULL && d->warnings == 1 && d->n == 1);
  d = diags_new(x.a);
  CHECK(plan_parse(x.m, x.f, x.t, "a.plan", arena_printf(x.a, "%sop \"gone\" {x0:tp}\nop \"l*.gone\" {x0:tp}\n", text),
                   d) != NULL &&
        d->warnings == 2);
  CHECK(strstr(d->items[1].message, "match no operation: \"gone\", \"l*.gone\"") != NULL);
  d = diags_new(x.a);
  Text more = {.arena = x.a};
  text_add(&more, text);
  for (int i = 0; i <= count_ops(text); i++) text_printf(&more, "op \"gone%d\" {x0:tp}\n", i);
  CHECK(!plan_parse(x.m, x.f, x.t, "a.plan", text_str(&more), d) && d->errors == 1);
  CHECK(strstr(d->items[1].message, "for another model") &&
        strstr(d->items[1].message, "\"gone0\", \"gone1\", \"gone2\" ..."));
  close_model(&x);
}

static int line_of(const char *text, const char *part) {
  int line = 1;
  for (const char *end = strstr(text, part); text < end; text++) line += *text == '\n';
  return line;
}

static void malformed(void) {
  static const struct {
    const char *from, *to;
    DiagCode code;
    int line, col; /* line 0: that of the edit */
  } cases[] = {
      {"apc.plan 1", "apc.plan 2", DIAG_plan_syntax, 1, 10},
      {"graph @main", "graph main", DIAG_plan_syntax, 2, 7},
      {"graph @main", "graph @other", DIAG_plan_model, 2, 8},
      {"ranks 4", "ranks 8", DIAG_plan_model, 3, 20},
      {"mesh [tp=2", "mesh [tp=0", DIAG_plan_syntax, 4, 7},
      {"mesh [tp=2", "mesh [tp=3", DIAG_plan_model, 4, 5},
      {"mesh [tp=2", "mesh [tp=2, tp=2", DIAG_plan_syntax, 4, 13},
      {"mesh [tp=2", "mesh [@x=2", DIAG_plan_syntax, 4, 7},
      {"mesh [tp=2", "mesh [tp=2, x/y=1", DIAG_plan_syntax, 4, 13},
      {"mesh [tp=2", "mesh [x-y=2", DIAG_plan_syntax, 4, 7},
      {"mesh [tp=2", "mesh [x.y=2", DIAG_plan_syntax, 4, 7},
      {"mesh [tp=2", "mesh [2x=2", DIAG_plan_syntax, 4, 7},
      {"stages 2", "stages two", DIAG_plan_syntax, 4, 20},
      {"stage 1 \"", "stage 2 \"", DIAG_plan_model, 7, 7},
      {"stage 1 \"", "stage 1 \"no", DIAG_plan_model, 7, 9},
      {"stage 1 \"", "stage 1 ", DIAG_plan_syntax, 7, 9},
      {"op \"wte\" {", "op \"wtf\" {", DIAG_plan_model, 0, 4},
      {"op \"wte\" {", "op \"wte\" {q:tp, ", DIAG_plan_strategy, 0, 10},
      {"op \"wte\" {", "op \"wte\" {x0:xp, ", DIAG_plan_strategy, 0, 10},
      {"op \"wte\" {", "op \"wte\" {x0:tp, x1:tp, ", DIAG_plan_strategy, 0, 10},
      {"op \"wte\" {", "op \"wte\" x0:tp", DIAG_plan_syntax, 0, 10},
      {"op \"wte\" {", "op \"wte {", DIAG_plan_syntax, 0, 0},
      {"op \"wte\" {", "op \"wte\\q\" {", DIAG_plan_syntax, 0, 0},
      {"op \"wte\" {", "ops \"wte\" {", DIAG_plan_syntax, 0, 1},
      {"mesh [", "# mesh [", DIAG_plan_syntax, 7, 0},
  };
  Model x = open_model("cpux4");
  Plan *p =
      plan_search(x.m, x.f, x.t, &(PlanOptions){.degree = {[DEGREE_tp] = 2, [DEGREE_pp] = 2}, .micro_batches = 1}, x.d);
  CHECK(p != NULL);
  const char *text = p ? print(&x, p) : "";
  for (size_t i = 0; p && i < sizeof cases / sizeof *cases; i++) {
    Diags *d = diags_new(x.a);
    Plan *q = plan_parse(x.m, x.f, x.t, "bad.plan", edit(&x, text, cases[i].from, cases[i].to), d);
    CHECKF(!q && d->errors == 1, "case %zu", i);
    if (!d->n) continue;
    const Diag *g = &d->items[0];
    int line = cases[i].line ? cases[i].line : line_of(text, cases[i].from);
    CHECKF(g->code == cases[i].code && g->loc.line == line && (g->loc.col == cases[i].col || !cases[i].col),
           "case %zu: %s %d:%d %s", i, diag_code_name(g->code), g->loc.line, g->loc.col, g->message);
  }
  /* Truncated anywhere, it is either an error or a plan, never a crash. */
  for (size_t n = strlen(text), i = 0; i < n; i += 7) {
    Diags *d = diags_new(x.a);
    const char *cut = arena_strndup(x.a, text, i);
    Plan *q = plan_parse(x.m, x.f, x.t, "cut.plan", cut, d);
    CHECK((q == NULL) == (d->errors > 0));
  }
  close_model(&x);
}

static void globs(void) {
  CHECK(plan_glob("l*.w", "l12.w") && plan_glob("*", "") && plan_glob("*", "abc") && plan_glob("a*b*c", "axxbyyc") &&
        plan_glob("a*c", "abcbc"));
  CHECK(!plan_glob("l*.w", "l12.w2") && !plan_glob("", "a") && !plan_glob("a", "") && !plan_glob("a*b", "ac") &&
        !plan_glob("l*.w", "l1"));
  CHECK(plan_glob("a\\*", "a*") && !plan_glob("a\\*", "ab") && plan_glob("\\\\", "\\"));
}

int main(void) {
  RUN(round_trip);
  RUN(length_is_constant_in_depth);
  RUN(layers_share_lines);
  RUN(random_plans);
  RUN(edited);
  RUN(of_another_graph);
  RUN(malformed);
  RUN(globs);
  return test_summary();
}
