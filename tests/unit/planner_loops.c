/* Loops in plans: rounds multiply costs, a carry and its leave have one layout, a loop is in one stage, and the lowered
 * program computes the model with the predicted communication. */
#include <math.h>

#include "ir/loops.h"
#include "passes/facts/agreed.h"
#include "passes/facts/labels.h"
#include "passes/plan/entries.h"
#include "tests/emitted.h"
#include "tests/guard.h"
#include "tests/planner_case.h"

/* LSTMs over seq x batch x d, each a loop that passes on its hidden states. */
static void lstm_layer(Text *head, Text *body, int layer, const char *x, int d) {
  const char *const gates = "ifog";
  text_printf(
      head,
      "param \"w%d\" : f32[%d, 4, %d] = normal 0.1 seed %d\nparam \"r%d\" : f32[%d, 4, %d] = normal 0.1 seed %d\n",
      layer, d, d, 2 * layer, layer, d, d, 2 * layer + 1);
  text_printf(body,
              "  %%w%d = param {name=\"w%d\"} : f32[%d, 4, %d]\n  %%r%d = param {name=\"r%d\"} : f32[%d, 4, %d]\n",
              layer, layer, d, d, layer, layer, d, d);
#define LINE(...) text_printf(body, __VA_ARGS__)
  LINE(
      "  %%n%d = size {expr=seq} : i64[]\n  %%z%d = const {value=0} : f32[batch, %d]\n  %%s%d = const {value=0} : "
      "f32[seq, batch, %d]\n",
      layer, layer, d, layer, d);
  LINE("  %%p%d = dot %%%s, %%w%d {spec=\"sbk,kgd->sbgd\"} : f32[seq, batch, 4, %d]\n", layer, x, layer, d);
  LINE(
      "  %%t%d = loop %%n%d {trips=seq} : i64[]\n  %%h%d = carry %%z%d : f32[batch, %d]\n  %%c%d = carry %%z%d : "
      "f32[batch, %d]\n  %%y%d = carry %%s%d : f32[seq, batch, %d]\n",
      layer, layer, layer, layer, d, layer, layer, d, layer, layer, d);
  LINE(
      "  %%pt%d = gather %%p%d, %%t%d {axis=0, start=0} : f32[batch, 4, %d]\n  %%q%d = dot %%h%d, %%r%d "
      "{spec=\"bk,kgd->bgd\"} : f32[batch, 4, %d]\n",
      layer, layer, layer, d, layer, layer, layer, d);
  LINE("  %%g%d = add %%pt%d, %%q%d : f32[batch, 4, %d]\n", layer, layer, layer, d);
  for (int i = 0; i < 4; i++)
    LINE(
        "  %%%c1.%d = slice %%g%d {starts=[0, %d, 0], strides=[1, 1, 1]} : f32[batch, 1, %d]\n  %%%c2.%d = reshape "
        "%%%c1.%d : f32[batch, %d]\n  %%%c3.%d = %s %%%c2.%d : f32[batch, %d]\n",
        gates[i], layer, layer, i, d, gates[i], layer, gates[i], layer, d, gates[i], layer, i < 3 ? "sigmoid" : "tanh",
        gates[i], layer, d);
  LINE(
      "  %%fc%d = mul %%f3.%d, %%c%d : f32[batch, %d]\n  %%ig%d = mul %%i3.%d, %%g3.%d : f32[batch, %d]\n  %%cn%d = "
      "add %%fc%d, %%ig%d : f32[batch, %d]\n",
      layer, layer, layer, d, layer, layer, layer, d, layer, layer, layer, d);
  LINE(
      "  %%tc%d = tanh %%cn%d : f32[batch, %d]\n  %%hn%d = mul %%o3.%d, %%tc%d : f32[batch, %d]\n  %%row%d = reshape "
      "%%hn%d : f32[1, batch, %d]\n",
      layer, layer, d, layer, layer, layer, d, layer, layer, d);
  LINE("  %%yn%d = update %%y%d, %%row%d, %%t%d {axis=0, start=0} : f32[seq, batch, %d]\n  repeat \"again%d\" %%t%d\n",
       layer, layer, layer, layer, d, layer, layer);
  LINE(
      "  %%hT%d = leave %%h%d, %%hn%d : f32[batch, %d]\n  %%cT%d = leave %%c%d, %%cn%d : f32[batch, %d]\n  %%yT%d = "
      "leave %%y%d, %%yn%d : f32[seq, batch, %d]\n",
      layer, layer, layer, d, layer, layer, layer, d, layer, layer, layer, d);
#undef LINE
}

static const char *lstm_text(Arena *a, int layers, int seq, int batch, int d) {
  Text head = {.arena = a}, body = {.arena = a};
  text_printf(&head, "apc.ir 1\nsymbol batch min 1 hint %d\nsymbol seq min 1 hint %d\n", batch, seq);
  text_printf(&body, "func @main level 1 {\n  %%x = input {name=\"x\"} : f32[seq, batch, %d]\n", d);
  for (int i = 0; i < layers; i++) lstm_layer(&head, &body, i, i ? arena_printf(a, "yT%d", i - 1) : "x", d);
  text_printf(&body, "  output \"y\" %%yT%d\n  output \"h\" %%hT%d\n  output \"c\" %%cT%d\n}\n", layers - 1, layers - 1,
              layers - 1);
  text_add(&head, text_str(&body));
  return text_str(&head);
}

static const char *layout_text(const Case *c, const char *name) {
  Text t = {.arena = c->a};
  size_t i = op_index(c->f, name);
  layout_print(c->m, &t, strategy_result(c->m, rule_of(c->m, c->f, &c->f->ops.items[i]), &c->p->strategies[i], 0));
  return text_str(&t);
}

static Func *lower_case(Case *c) {
  CostModel *cost = cost_model_new(c->m, c->t);
  LowerPlan plan = {.strategies = c->p->strategies, .stages = c->p->stages, .cost = cost_move, .cost_context = cost};
  Func *l2 = lower_spmd(c->m, c->f, &plan, "rank", c->d);
  cost_model_free(cost);
  return l2;
}

/* ---- forced degrees */

typedef struct Forced {
  const char *target;
  PlanOptions o;
} Forced;

static const Forced forced[] = {{"cpux2", {.degree[DEGREE_tp] = 2}},
                                {"cpux3", {.degree[DEGREE_tp] = 3}},
                                {"cpux4", {.degree[DEGREE_tp] = 4}},
                                {"cpux2", {.degree[DEGREE_dp] = 2}},
                                {"cpux3", {.degree[DEGREE_dp] = 3}},
                                {"cpux4", {.degree = {[DEGREE_dp] = 2, [DEGREE_tp] = 2}}},
                                {"cpux4", {.degree[DEGREE_dp] = 4}},
                                {"cpux2", {.degree[DEGREE_pp] = 2}},
                                {"cpux4", {.degree = {[DEGREE_pp] = 2, [DEGREE_tp] = 2}}},
                                {"cpux2", {.degree[DEGREE_pp] = 2, .micro_batches = 2}},
                                {"cpux4", {0}}};

enum { FORCED = (int)(sizeof forced / sizeof *forced) };

/* Sequence 3, batch 4, hidden 8: three ranks have uneven parts. */
static void plans_compute_the_model(void) {
  for (int i = 0; i < FORCED; i++) {
    Arena *a = arena_new();
    Case c = plan_of(lstm_text(a, 2, 3, 4, 8), forced[i].target, forced[i].o);
    CHECKF(c.p != NULL, "case %d", i);
    Reference ref;
    if (c.p && reference_run(c.m, c.f, -1, 1, c.a, c.d, &ref)) {
      LowerPlan plan = {.strategies = c.p->strategies, .stages = c.p->stages};
      Func *l2 = NULL;
      const char *why = guard_check(c.m, &ref, &plan, c.a, &l2);
      if (!why) why = guard_prove(c.m, &ref, l2, c.a);
      if (why) guard_report(c.m, c.f, l2, forced[i].target, why);
    }
    done(&c);
    arena_free(a);
  }
}

static void predicted_communication_is_emitted(void) {
  for (int i = 0; i < FORCED; i++) {
    Arena *a = arena_new();
    Case c = plan_of(lstm_text(a, 2, 16, 24, 96), forced[i].target, forced[i].o);
    CHECKF(c.p != NULL, "case %d", i);
    Func *l2 = c.p ? lower_case(&c) : NULL;
    CHECK(l2 && verify_func(c.m, l2, c.d));
    if (l2) {
      LowerPlan plan = {.strategies = c.p->strategies, .stages = c.p->stages};
      const char *why = emitted_differs(c.m, c.f, &plan, c.t, l2, a);
      CHECKF(!why, "case %d: %s", i, why);
      CHECKF(forced[i].o.degree[DEGREE_pp] || c.p->gap == 0, "case %d: gap %g", i, c.p->gap);
    }
    done(&c);
    arena_free(a);
  }
}

static void carries_and_leaves_agree(void) {
  Arena *a = arena_new();
  Case c = plan_of(lstm_text(a, 1, 16, 24, 512), "cpux2", (PlanOptions){.degree[DEGREE_tp] = 2});
  CHECK(c.p != NULL);
  if (c.p) {
    CHECK_STR(layout_text(&c, "h0"), layout_text(&c, "hT0"));
    CHECK_STR(layout_text(&c, "c0"), "{1:tp}");
    CHECK_STR(layout_text(&c, "cT0"), "{1:tp}");
    CHECK_STR(layout_text(&c, "q0"), "{2:tp}");
  }
  done(&c);
  arena_free(a);
}

/* ---- rounds */

/* Any number of equal layers is one for the search. */
static void layers_are_alike(void) {
  Arena *a = arena_new();
  Case few = plan_of(lstm_text(a, 6, 64, 32, 512), "cpux8", (PlanOptions){0}),
       many = plan_of(lstm_text(a, 24, 64, 32, 512), "cpux8", (PlanOptions){0});
  CHECK(few.p && many.p);
  if (few.p && many.p)
    CHECKF(many.p->search_work < 1.5 * few.p->search_work, "%g sums for 6 layers, %g for 24", few.p->search_work,
           many.p->search_work);
  done(&few);
  done(&many);
  arena_free(a);
}

/* 100 times the rounds are 100 times the time of the body and the same search. */
static void rounds_multiply(void) {
  Arena *a = arena_new();
  Case few = plan_of(lstm_text(a, 2, 64, 24, 256), "cpux4", (PlanOptions){0}),
       many = plan_of(lstm_text(a, 2, 6400, 24, 256), "cpux4", (PlanOptions){0});
  CHECK(few.p && many.p);
  if (few.p && many.p) {
    double ratio = many.p->price.time.total / few.p->price.time.total;
    CHECKF(ratio > 90 && ratio < 110, "%g", ratio);
    CHECKF(many.p->search_work < 1.5 * few.p->search_work, "%g sums for 64 rounds, %g for 6400", few.p->search_work,
           many.p->search_work);
    CHECK(many.p->flops > 99 * few.p->flops);
  }
  done(&few);
  done(&many);
  arena_free(a);
}

/* The time of a loop that multiplies matrices, on one rank. */
static double loop_seconds(const char *count, const char *trips, const char *again) {
  Arena *a = arena_new();
  const char *text = arena_printf(a,
                                  "apc.ir 1\nsymbol n hint 40\nfunc @main level 1 { %%x = input {name=\"x\"} : f32[64, "
                                  "64] %%m = input {name=\"m\"} : i64[] %%k = %s : i64[] "
                                  "%%one = const {value=1} : i64[] %%go = lt %%m, %%one : bool[] %%t = loop %%k %s : "
                                  "i64[] %%h = carry %%x : f32[64, 64] "
                                  "%%y = dot %%h, %%h {spec=\"ab,bc->ac\"} : f32[64, 64] repeat \"r\" %%t%s %%l = "
                                  "leave %%h, %%y : f32[64, 64] output \"l\" %%l }",
                                  count, trips, again);
  Case c = plan_of(text, "cpu", (PlanOptions){0});
  double seconds = c.p ? c.p->price.time.total : NAN;
  done(&c);
  arena_free(a);
  return seconds;
}

static void rounds_are_what_is_known(void) {
  static const struct {
    const char *count, *trips, *again;
    double rounds;
  } cases[] = {{"copy %m", "", "", 1},
               {"copy %m", "{trips=7}", "", 7},
               {"const {value=9}", "", "", 9},
               {"const {ints=[9]}", "", "", 9},
               {"size {expr=2*n}", "", "", 80},
               {"const {value=9}", "", ", %go", 1},
               {"size {expr=n}", "", ", %go", 1},
               {"copy %m", "{trips=n}", ", %go", 40},
               {"const {value=0}", "", "", 1},
               {"copy %m", "{trips=0}", "", 1}};
  double outside, one = loop_seconds("copy %m", "", ""), two = loop_seconds("copy %m", "{trips=2}", "");
  CHECK(two > one && one > 0);
  outside = 2 * one - two;
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    double rounds = (loop_seconds(cases[i].count, cases[i].trips, cases[i].again) - outside) / (one - outside);
    CHECKF(fabs(rounds - cases[i].rounds) < 0.01 * cases[i].rounds + 1, "case %zu: %g", i,
           rounds); /* other counts are other operations outside */
  }
}

/* Values on which ranks agree without communication: exact ones, from values that all have; a carry only if its next
 * value is, too.  A library may add the terms of a dot in a different order on each rank; a grouped_dot adds them in
 * the order of k. */
static void agreed_rounds(void) {
  static const char *const text =
      "apc.ir 1\nparam \"p\" : i64[4] = zeros\nstate \"s\" : i64[] = 0\nfunc @main level 1 { %i = input {name=\"i\"} : "
      "i64[] %f = input {name=\"f\"} : f32[4] %p = param {name=\"p\"} : i64[4] %s = read {name=\"s\"} : i64[] "
      "%c = const {value=3} : i64[] %z = size {expr=4} : i64[] %m = reduce %p {op=max, axes=[0]} : i64[] %cm = add %c, "
      "%m : i64[] %fi = cast %f {to=i64} : i64[4] %fm = reduce %fi {op=max, axes=[0]} : i64[] "
      "%ci = cast %i {to=f32} : f32[] %e = exp %ci : f32[] %d = dot %f, %f {spec=\"a,a->\"} : f32[] "
      "%pf = cast %p {to=f32} : f32[4] %pd = dot %pf, %pf {spec=\"a,a->\"} : f32[] %gr = reshape %pf : f32[2,2] "
      "%gi = iota {axis=0, start=0} : i64[2] %gw = reshape %pf : f32[1,2,2] "
      "%g = grouped_dot %gr, %gi, %gw {start=0} : f32[2,2] %t = loop %fm : "
      "i64[] %a = carry %i : i64[] %b = carry %c : i64[] "
      "%a1 = add %a, %t : i64[] %b1 = add %b, %fm : i64[] %q = lt %a1, %z : bool[] %r = lt %b1, %z : bool[] repeat "
      "\"x\" %t, %q %aT = leave %a, %a1 : i64[] %bT = leave %b, %b1 : i64[] output \"a\" %aT output \"b\" %bT }";
  static const char *const yes[] = {"i", "p", "c",  "z", "m",  "cm", "ci", "e",
                                    "t", "a", "a1", "q", "aT", "pf", "gr", "g"},
                           *const no[] = {"f", "s", "fi", "fm", "d", "pd", "b", "b1", "r", "bT"};
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("agreed", text, d);
  CHECK(m && verify_module(m, d));
  if (m) {
    const Func *f = module_func(m, "main");
    const bool *agreed = agreed_values(a, f);
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++) CHECKF(agreed[func_find(f, yes[i])], "%s", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++) CHECKF(!agreed[func_find(f, no[i])], "%s", no[i]);
    module_free(m);
  }
  diags_print(d, stderr, false);
  arena_free(a);
}

/* ---- memory */

/* Bytes of activations of a function on one rank, in units of f32[1000, 100]. */
static double activations(const char *body) {
  Arena *a = arena_new();
  Case c = plan_of(
      arena_printf(
          a, "apc.ir 1\nfunc @main level 1 { %%n = const {value=9} : i64[] %%x = input {name=\"x\"} : f32[100] %s }",
          body),
      "cpu", (PlanOptions){0});
  double bytes = c.p ? c.p->price.memory.activations : NAN;
  done(&c);
  arena_free(a);
  return round(10 * bytes / 400000) / 10;
}

static void memory_of_loops(void) {
  /* Rows collected in a carry are written in place, and its initial value gives up its memory. */
  CHECK(activations("%z = const {value=0} : f32[1000, 100] %t = loop %n : i64[] %y = carry %z : f32[1000, 100] %r = "
                    "reshape %x : f32[1, 100] "
                    "%u = update %y, %r, %t {axis=0, start=0} : f32[1000, 100] repeat \"e\" %t %l = leave %y, %u : "
                    "f32[1000, 100] output \"l\" %l") == 1);
  /* Unless the carry, or the initial value, is read later.  Values that one kernel adds and sums take no memory. */
  CHECK(activations("%z = const {value=0} : f32[1000, 100] %t = loop %n : i64[] %y = carry %z : f32[1000, 100] %r = "
                    "reshape %x : f32[1, 100] "
                    "%u = update %y, %r, %t {axis=0, start=0} : f32[1000, 100] %s = reduce %y {op=sum, axes=[0]} : "
                    "f32[100] %v = reshape %s : f32[1, 100] "
                    "%w = update %u, %v, %n {axis=0, start=0} : f32[1000, 100] repeat \"e\" %t %l = leave %y, %w : "
                    "f32[1000, 100] output \"l\" %l") == 2);
  CHECK(activations("%z = broadcast %x {dims=[1]} : f32[1000, 100] %t = loop %n : i64[] %y = carry %z : f32[1000, 100] "
                    "%r = reshape %x : f32[1, 100] "
                    "%u = update %y, %r, %t {axis=0, start=0} : f32[1000, 100] repeat \"e\" %t %l = leave %y, %u : "
                    "f32[1000, 100] %m = add %l, %z : f32[1000, 100] "
                    "%s = reduce %m {op=sum, axes=[0]} : f32[100] output \"s\" %s") == 2);
  /* A value read at the beginning of a body is still there at its end. */
  CHECK(activations("%r = broadcast %x {dims=[1]} : f32[1000, 100] %z = exp %r : f32[1000, 100] %t = loop %n : i64[] "
                    "%y = carry %x : f32[100] %s = reduce %z {op=sum, axes=[0]} : f32[100] "
                    "%b = broadcast %s {dims=[1]} : f32[1000, 100] %h = exp %b : f32[1000, 100] "
                    "%g = reduce %h {op=max, axes=[0]} : f32[100] repeat "
                    "\"e\" %t %l = leave %y, %g : f32[100] output \"l\" %l") == 1);
  /* A value that is broadcast, or viewed in other dimensions, takes no memory unless it is read outside kernels. */
  CHECK(activations("%r = broadcast %x {dims=[1]} : f32[1000, 100] %z = exp %r : f32[1000, 100] "
                    "%v = reshape %z : f32[100000] %d = dot %v, %v {spec=\"k,k->\"} : f32[] output \"d\" %d") == 1);
  CHECK(activations("%r = broadcast %x {dims=[1]} : f32[1000, 100] %d = dot %r, %r {spec=\"mk,mk->\"} : f32[] "
                    "output \"d\" %d") == 1);
  /* Elementwise operations are one kernel: values between them stay in it if they have no other readers. */
  CHECK(activations("%r = broadcast %x {dims=[1]} : f32[1000, 100] %a = exp %r : f32[1000, 100] "
                    "%b = tanh %a : f32[1000, 100] %c = neg %b : f32[1000, 100] "
                    "%d = dot %c, %c {spec=\"mk,mk->\"} : f32[] output \"d\" %d") == 1);
  CHECK(activations("%r = broadcast %x {dims=[1]} : f32[1000, 100] %a = exp %r : f32[1000, 100] "
                    "%b = tanh %a : f32[1000, 100] %c = neg %b : f32[1000, 100] "
                    "%d = dot %c, %b {spec=\"mk,mk->\"} : f32[] output \"d\" %d") == 2);
}

/* ---- labels */

static Label label_of(const Func *f, const Rule *const *rules, const OpLabels *labels, const char *op, int dim) {
  size_t i = op_index(f, op);
  return labels[i].factors[rules[i]->results[0].dims[dim].f[0]];
}

/* Bound dimensions have no name: a dimension that a loop reads row by row is the sequence, the next one the batch. */
static void scanned_labels(void) {
  static const char *const text =
      "apc.ir 1\nparam \"r\" : f32[6, 6] = zeros\nfunc @main level 1 { %x = input {name=\"x\"} : f32[5, 4, 6] %v = "
      "input {name=\"v\"} : f32[5, 6] %i = input {name=\"i\"} : i64[5, 4] %o = input {name=\"o\"} : f32[7, 6] "
      "%r = param {name=\"r\"} : f32[6, 6] %p = tanh %x : f32[5, 4, 6] %z = const {value=0} : f32[4, 6] %y = const "
      "{value=0} : f32[5, 4, 6] %n = const {value=5} : i64[] %one = const {value=4} : i64[] "
      "%t = loop %n : i64[] %h = carry %z : f32[4, 6] %s = carry %y : f32[5, 4, 6] %b = sub %one, %t : i64[] %xt = "
      "gather %p, %b {axis=0, start=0} : f32[4, 6] %vt = gather %v, %t {axis=0, start=0} : f32[6] "
      "%it = gather %i, %t {axis=0, start=0} : i64[4] %ot = gather %o, %it {axis=0, start=0} : f32[4, 6] %vb = "
      "broadcast %vt {dims=[1]} : f32[4, 6] %q = dot %h, %r {spec=\"bk,kd->bd\"} : f32[4, 6] "
      "%a = add %xt, %q : f32[4, 6] %c = add %a, %vb : f32[4, 6] %d = add %c, %ot : f32[4, 6] %row = reshape %d : "
      "f32[1, 4, 6] %u = update %s, %row, %b {axis=0, start=0} : f32[5, 4, 6] "
      "repeat \"e\" %t %hT = leave %h, %d : f32[4, 6] %sT = leave %s, %u : f32[5, 4, 6] output \"h\" %hT output \"s\" "
      "%sT }";
  static const struct {
    const char *op;
    int dim;
    Label label;
  } cases[] = {{"x", 0, LABEL_SEQUENCE},  {"x", 1, LABEL_BATCH},    {"x", 2, LABEL_OTHER}, {"v", 0, LABEL_SEQUENCE},
               {"v", 1, LABEL_OTHER},     {"i", 0, LABEL_SEQUENCE}, {"i", 1, LABEL_BATCH}, {"o", 0, LABEL_BATCH},
               {"h", 0, LABEL_BATCH},     {"h", 1, LABEL_OTHER},    {"q", 0, LABEL_BATCH}, {"q", 1, LABEL_OTHER},
               {"sT", 0, LABEL_SEQUENCE}, {"sT", 1, LABEL_BATCH},   {"hT", 0, LABEL_BATCH}};
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("labels", text, d);
  CHECK(m && verify_module(m, d));
  if (m) {
    const Func *f = module_func(m, "main");
    const Rule **rules = rules_of(m, f);
    const OpLabels *labels = labels_of(m, f, rules);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      CHECKF(label_of(f, rules, labels, cases[i].op, cases[i].dim) == cases[i].label, "%s[%d] is %s", cases[i].op,
             cases[i].dim, label_name(label_of(f, rules, labels, cases[i].op, cases[i].dim)));
    module_free(m);
  }
  diags_print(d, stderr, false);
  arena_free(a);
}

/* ---- stages */

static bool same_stage(const Case *c, const Loop *l) {
  bool same = true;
  for (size_t i = l->begin; i < l->end; i++)
    same &= op_is_source(c->f->ops.items[i].kind) || c->p->stages[i] == c->p->stages[l->begin];
  return same;
}

static void a_loop_lies_in_one_stage(void) {
  Arena *a = arena_new();
  for (int micro = 1; micro <= 4; micro *= 2) {
    Case c =
        plan_of(lstm_text(a, 3, 16, 24, 64), "cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = micro});
    CHECKF(c.p != NULL, "%d micro-batches", micro);
    if (c.p) {
      Loops loops = loops_of(c.a, c.f);
      for (int i = 0; i < loops.n; i++) CHECK(same_stage(&c, &loops.items[i]));
      CHECK(c.p->stages[op_index(c.f, "t0")] == 0 && c.p->stages[op_index(c.f, "t2")] == 1);
      if (micro > 1) CHECK_STR(layout_text(&c, "h0"), "{0:mb}");
    }
    done(&c);
  }
  arena_free(a);
}

/* The only loop cannot be split. */
static void one_loop_is_one_stage(void) {
  Arena *a = arena_new();
  static const char *const text =
      "apc.ir 1\nfunc @main level 1 { %x = input {name=\"x\"} : f32[8, 8] %n = const {value=3} : i64[] %t = loop %n : "
      "i64[] %h = carry %x : f32[8, 8] "
      "%y = dot %h, %h {spec=\"ab,bc->ac\"} : f32[8, 8] %z = dot %y, %h {spec=\"ab,bc->ac\"} : f32[8, 8] repeat \"r\" "
      "%t %l = leave %h, %z : f32[8, 8] output \"l\" %l }";
  static const char *const says[] = {"cannot be cut into 2 stages",
                                     "results of 2 micro-batches would have to be joined"};
  for (int micro = 1; micro <= 2; micro++) {
    Case c = plan_of(text, "cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = micro});
    CHECK(!c.p && c.d->errors == 1 && strstr(c.d->items[0].message, says[micro - 1]));
    done(&c);
  }
  arena_free(a);
}

/* ---- plan files */

static const char *plan_text(Case *c) {
  Text t = {.arena = c->a};
  plan_print(c->m, c->f, c->p, &t);
  return text_str(&t);
}

static void round_trip(void) {
  for (int i = 0; i < FORCED; i++) {
    Arena *a = arena_new();
    Case c = plan_of(lstm_text(a, 2, 16, 24, 96), forced[i].target, forced[i].o);
    CHECKF(c.p != NULL, "case %d", i);
    if (c.p) {
      const char *text = plan_text(&c);
      Plan *q = plan_parse(c.m, c.f, c.t, "a.plan", text, c.d);
      CHECKF(q && c.d->n == 0 && q->price.time.total == c.p->price.time.total &&
                 q->price.memory.total == c.p->price.memory.total,
             "case %d", i);
      c.p = q;
      if (q) CHECK_STR(plan_text(&c), text);
    }
    done(&c);
    arena_free(a);
  }
}

static void refused_plans(void) {
  static const struct {
    const char *lines, *says;
    DiagCode code;
    int line, col;
  } cases[] = {
      {"mesh [tp=2] stages 1\nop \"c0\" {x1:tp}\n", "leave \"cT0\" has layout {}, its carry \"c0\" {1:tp}",
       DIAG_plan_strategy, 5, 9},
      {"mesh [tp=2] stages 1\nop \"c0\" {x1:tp}\nop \"cT0\" {x0:tp}\n", "leave \"cT0\" has layout {0:tp}",
       DIAG_plan_strategy, 6, 10},
      {"mesh [tp=2] stages 1\nop \"cT1\" {x0:tp}\n", "leave \"cT1\" has layout {0:tp}", DIAG_plan_strategy, 5, 10},
      {"mesh [] stages 2\nstage 1 \"q0\"\n", "\"q0\" is inside the loop \"t0\"", DIAG_plan_model, 5, 9},
      {"mesh [] stages 2\nstage 1 \"c0\"\n", "\"c0\" is inside the loop \"t0\"", DIAG_plan_model, 5, 9},
      {"mesh [] stages 2\nstage 1 \"yT0\"\n", "\"yT0\" is inside the loop \"t0\"", DIAG_plan_model, 5, 9},
      {"mesh [] stages 2\nstage 1 \"p1\"\n", NULL, DIAG_plan_model, 0, 0},
      {"mesh [] stages 2\nstage 1 \"t1\"\n", NULL, DIAG_plan_model, 0, 0},
      {"mesh [tp=2] stages 1\nop \"c*\" {x1:tp}\nop \"cn*\" {}\n", NULL, DIAG_plan_model, 0, 0},
  };
  Arena *a = arena_new();
  Case c = plan_of(lstm_text(a, 2, 16, 24, 96), "cpux2", (PlanOptions){.degree[DEGREE_tp] = 2});
  for (size_t i = 0; c.p && i < sizeof cases / sizeof *cases; i++) {
    Diags *d = diags_new(a);
    const char *text = arena_printf(a, "apc.plan 1\ngraph @main %016llx\ntarget cpux2 ranks 2\n%s",
                                    (unsigned long long)c.p->graph, cases[i].lines);
    Plan *p = plan_parse(c.m, c.f, c.t, "bad.plan", text, d);
    CHECKF((p == NULL) == (cases[i].says != NULL), "case %zu: %s", i, d->n ? d->items[0].message : "");
    if (!cases[i].says || !d->n) continue;
    const Diag *g = &d->items[0];
    CHECKF(g->code == cases[i].code && strstr(g->message, cases[i].says) && g->loc.line == cases[i].line &&
               g->loc.col == cases[i].col,
           "case %zu: %d:%d %s", i, g->loc.line, g->loc.col, g->message);
  }
  done(&c);
  arena_free(a);
}

/* ---- other entries */

/* A loop that begins in stage 0 and has an operation in stage 1 of the planned entry goes to stage 1 as a whole; a
 * leave is cut like its carry, even if its own twin is not. */
static void entries_keep_loops_together(void) {
  Arena *a = arena_new();
  Case c = plan_of(lstm_text(a, 2, 16, 24, 96), "cpux4",
                   (PlanOptions){.degree = {[DEGREE_pp] = 2, [DEGREE_tp] = 2}, .micro_batches = 1});
  CHECK(c.p != NULL);
  if (c.p) {
    size_t n = c.f->ops.n;
    Strategy *given = ARENA_ARRAY(a, Strategy, n), *strategies = ARENA_ARRAY(a, Strategy, n);
    int *given_stages = ARENA_ARRAY(a, int, n), *stages = ARENA_ARRAY(a, int, n);
    memcpy(given, c.p->strategies, sizeof *given * n);
    for (size_t i = 0; i < n; i++) given_stages[i] = i >= op_index(c.f, "q0");
    given[op_index(c.f, "cT0")] = (Strategy){0};
    given[op_index(c.f, "c0")] = (Strategy){.n = 1, .picks = {{0, 1}}};
    CHECK(plan_carry(c.m, c.f, given, given_stages, c.f, strategies, stages) == 0);
    CHECK(stages[op_index(c.f, "p0")] == 0 && stages[op_index(c.f, "t0")] == 1 && stages[op_index(c.f, "h0")] == 1 &&
          stages[op_index(c.f, "yT0")] == 1);
    LowerPlan plan = {.strategies = strategies, .stages = stages};
    Func *l2 = lower_spmd(c.m, c.f, &plan, "rank", c.d);
    CHECK(l2 && verify_func(c.m, l2, c.d) && strategies[op_index(c.f, "cT0")].n == 1);
    plan = (LowerPlan){.strategies = given, .stages = c.p->stages};
    CHECK(!lower_spmd(c.m, c.f, &plan, "rank", c.d) && c.d->errors == 1 &&
          strstr(c.d->items[0].message, "another layout"));
    plan = (LowerPlan){.strategies = strategies, .stages = given_stages};
    CHECK(!lower_spmd(c.m, c.f, &plan, "rank", c.d) && c.d->errors == 2 && strstr(c.d->items[1].message, "one stage"));
  }
  done(&c);
  arena_free(a);
}

int main(void) {
  RUN(layers_are_alike);
  RUN(rounds_multiply);
  RUN(rounds_are_what_is_known);
  RUN(agreed_rounds);
  RUN(memory_of_loops);
  RUN(scanned_labels);
  RUN(a_loop_lies_in_one_stage);
  RUN(one_loop_is_one_stage);
  RUN(round_trip);
  RUN(refused_plans);
  RUN(entries_keep_loops_together);
  RUN(carries_and_leaves_agree);
  RUN(plans_compute_the_model);
  RUN(predicted_communication_is_emitted);
  return test_summary();
}
