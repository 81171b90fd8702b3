/* Plan files: round trip, edits, malformed ones. */
#include "frontend/target.h"
#include "passes/plan.h"
#include "passes/plan_text.h"
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
  x.f = x.m ? module_func(x.m, "main") : NULL;
  x.t = target_find(x.d, x.a, target);
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
      for (int j = 0; j < t->n; j++) found |= s->picks[k].axis == t->picks[j].axis && s->picks[k].factor == t->picks[j].factor;
      if (!found) return false;
    }
  }
  return true;
}

static void round_trip(void) {
  static const struct {
    const char *target;
    PlanOptions o;
  } cases[] = {{"cpu", {0}}, {"cpux4", {0}}, {"cpux4", {.tp = 4}}, {"cpux4", {.tp = 2, .dp = 2}}, {"cpux4", {.pp = 2, .micro_batches = 4}}, {"cpux4", {.pp = 4}}};
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
        CHECK(q->tp == p->tp && q->dp == p->dp && q->pp == p->pp && q->cp == p->cp && q->micro_batches == p->micro_batches);
      }
    }
    close_model(&y);
    close_model(&x);
  }
}

/* Layers share their lines; only the residual stream x0, x1 ... has one line each here, because x0 differs. */
static void compressed(void) {
  Arena *a = arena_new();
  int lines[2] = {0};
  for (int k = 0; k < 2; k++) {
    GptShape g = small;
    g.layers = k ? 8 : 4;
    Diags *d = diags_new(a);
    Module *m = ir_parse("gpt.ir", gpt_text(a, &g), d);
    const Func *f = module_func(m, "main");
    Plan *p = plan_search(m, f, target_find(d, a, "cpux2"), &(PlanOptions){.tp = 2}, d);
    Text t = {.arena = a};
    CHECK(p != NULL);
    if (p) plan_print(m, f, p, &t);
    for (const char *s = text_str(&t); *s; s++) lines[k] += *s == '\n';
    module_free(m);
  }
  CHECKF(lines[1] <= lines[0] + 4 && lines[0] < 80, "%d and %d lines", lines[0], lines[1]);
  arena_free(a);
}

static void edited(void) {
  Model x = open_model("cpux2");
  Plan *p = plan_search(x.m, x.f, x.t, &(PlanOptions){.tp = 2}, x.d);
  CHECK(p != NULL);
  if (p) {
    const char *text = print(&x, p);
    const char *more = arena_printf(x.a, "%sop \"logits\" {b:tp}\nop \"wte\" {}  # whole\n", text);
    Plan *q = plan_parse(x.m, x.f, x.t, "a.plan", more, x.d);
    CHECK(q != NULL && x.d->errors == 0);
    if (q) {
      CHECK(q->price.memory.params > p->price.memory.params);
      const char *again = print(&x, q);
      CHECK(strstr(again, "op \"logits\" {b:tp}\n") && !strstr(again, "\"wte\""));
      Plan *r = plan_parse(x.m, x.f, x.t, "a.plan", again, x.d);
      CHECK(r != NULL);
      if (r) CHECK_STR(print(&x, r), again);
    }
    const char *other = edit(&x, text, "graph @main ", "graph @main 0123456789abcdef # ");
    CHECK(plan_parse(x.m, x.f, x.t, "a.plan", other, x.d) != NULL && x.d->warnings == 1);
  }
  close_model(&x);
}

static void malformed(void) {
  static const struct {
    const char *from, *to;
    DiagCode code;
    int line, col;
  } cases[] = {
      {"apc.plan 1", "apc.plan 2", DIAG_plan_syntax, 1, 10},
      {"graph @main", "graph main", DIAG_plan_syntax, 2, 7},
      {"graph @main", "graph @other", DIAG_plan_model, 2, 8},
      {"ranks 4", "ranks 8", DIAG_plan_model, 3, 20},
      {"mesh [tp=2", "mesh [tp=0", DIAG_plan_syntax, 4, 7},
      {"mesh [tp=2", "mesh [tp=3", DIAG_plan_model, 4, 5},
      {"mesh [tp=2", "mesh [tp=2, tp=2", DIAG_plan_syntax, 4, 13},
      {"stages 2", "stages two", DIAG_plan_syntax, 4, 20},
      {"stage 1 \"", "stage 2 \"", DIAG_plan_model, 7, 7},
      {"stage 1 \"", "stage 1 \"no", DIAG_plan_model, 7, 9},
      {"stage 1 \"", "stage 1 ", DIAG_plan_syntax, 7, 9},
      {"op \"wte\" {", "op \"wtf\" {", DIAG_plan_model, 8, 4},
      {"op \"wte\" {", "op \"wte\" {q:tp, ", DIAG_plan_strategy, 8, 10},
      {"op \"wte\" {", "op \"wte\" {x0:xp, ", DIAG_plan_strategy, 8, 10},
      {"op \"wte\" {", "op \"wte\" {x0:tp, x1:tp, ", DIAG_plan_strategy, 8, 10},
      {"op \"wte\" {", "op \"wte\" x0:tp", DIAG_plan_syntax, 8, 10},
      {"op \"wte\" {", "op \"wte {", DIAG_plan_syntax, 8, 0},
      {"op \"wte\" {", "op \"wte\\q\" {", DIAG_plan_syntax, 8, 0},
      {"op \"wte\" {", "ops \"wte\" {", DIAG_plan_syntax, 8, 1},
      {"mesh [", "# mesh [", DIAG_plan_syntax, 7, 0},
  };
  Model x = open_model("cpux4");
  Plan *p = plan_search(x.m, x.f, x.t, &(PlanOptions){.tp = 2, .pp = 2, .micro_batches = 1}, x.d);
  CHECK(p != NULL);
  const char *text = p ? print(&x, p) : "";
  for (size_t i = 0; p && i < sizeof cases / sizeof *cases; i++) {
    Diags *d = diags_new(x.a);
    Plan *q = plan_parse(x.m, x.f, x.t, "bad.plan", edit(&x, text, cases[i].from, cases[i].to), d);
    CHECKF(!q && d->errors == 1, "case %zu", i);
    if (!d->n) continue;
    const Diag *g = &d->items[0];
    CHECKF(g->code == cases[i].code && g->loc.line == cases[i].line && (g->loc.col == cases[i].col || !cases[i].col), "case %zu: %s %d:%d %s", i, diag_code_name(g->code), g->loc.line,
           g->loc.col, g->message);
  }
  /* Cut off anywhere, it is either an error or a plan, never a crash. */
  for (size_t n = strlen(text), i = 0; i < n; i += 7) {
    Diags *d = diags_new(x.a);
    const char *cut = arena_strndup(x.a, text, i);
    Plan *q = plan_parse(x.m, x.f, x.t, "cut.plan", cut, d);
    CHECK((q == NULL) == (d->errors > 0));
  }
  close_model(&x);
}

static void globs(void) {
  CHECK(plan_glob("l*.w", "l12.w") && plan_glob("*", "") && plan_glob("*", "abc") && plan_glob("a*b*c", "axxbyyc") && plan_glob("a*c", "abcbc"));
  CHECK(!plan_glob("l*.w", "l12.w2") && !plan_glob("", "a") && !plan_glob("a", "") && !plan_glob("a*b", "ac") && !plan_glob("l*.w", "l1"));
  CHECK(plan_glob("a\\*", "a*") && !plan_glob("a\\*", "ab") && plan_glob("\\\\", "\\"));
}

int main(void) {
  RUN(round_trip);
  RUN(compressed);
  RUN(edited);
  RUN(malformed);
  RUN(globs);
  return test_summary();
}
