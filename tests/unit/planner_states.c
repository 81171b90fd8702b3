/* States (caches, counters) in plans: where they are read and written, with stages and with micro-batches. */
#include "proof/prove.h"
#include "passes/lower/lower.h"
#include "passes/plan/entries.h"
#include "tests/planner_case.h"

#define HEAD \
  "apc.ir 1\nsymbol b hint 8\nparam \"w\" : f32[8, 8] = normal 1 seed 3\nparam \"v\" : f32[8, 8] = normal 1 seed 4\n"
#define BEGIN \
  "func @main level 1 {\n  %x = input {name=\"x\"} : f32[b, 8]\n" \
  "  %w = param {name=\"w\"} : f32[8, 8]\n  %v = param {name=\"v\"} : f32[8, 8]\n"
#define FIRST "  %y = dot %x1, %w {spec=\"bd,df->bf\"} : f32[b, 8]\n  %y1 = tanh %y : f32[b, 8]\n"
#define SECOND "  %z = dot %y1, %v {spec=\"bd,df->bf\"} : f32[b, 8]\n"

/* Used at the beginning, written at the end with a value computed at the beginning. */
static const char counter[] =
    HEAD "state \"n\" : f32[] = 0\n" BEGIN
         "  %n = read {name=\"n\"} : f32[]\n  %one = const {value=1} : f32[]\n  %m = add %n, %one : f32[]\n  %k = "
         "broadcast %m {dims=[]} : f32[b, 8]\n"
         "  %x1 = add %x, %k : f32[b, 8]\n" FIRST SECOND "  write \"n.w\" %m {name=\"n\"}\n  output \"z\" %z\n}\n";
/* Used in both halves, written in the first. */
static const char twice[] = HEAD
    "state \"n\" : f32[b, 8] = 0\n" BEGIN
    "  %n = read {name=\"n\"} : f32[b, 8]\n  %x1 = add %x, %n : f32[b, 8]\n  write \"n.w\" %x1 {name=\"n\"}\n" FIRST
        SECOND "  %z1 = add %z, %n : f32[b, 8]\n  output \"z\" %z1\n}\n";
/* Written and never read. */
static const char written[] = HEAD "state \"n\" : f32[b, 8] = 0\n" BEGIN
                                   "  %n = read {name=\"n\"} : f32[b, 8]\n  %x1 = neg %x : f32[b, 8]\n" FIRST SECOND
                                   "  write \"n.w\" %z {name=\"n\"}\n  output \"z\" %z\n}\n";

static void check_lowered(Case *c, const Strategy *strategies, const int *stages) {
  LowerPlan plan = {.strategies = strategies, .stages = stages};
  Func *l2 = lower_spmd(c->m, c->f, &plan, "spmd", c->d);
  CHECK(l2 && verify_func(c->m, l2, c->d));
  Proof proof = l2 ? prove(c->m, c->f, l2) : (Proof){.verdict = REFUTED, .op = "", .reason = ""};
  CHECKF(proof.verdict == PROVED, "%s at %s: %s", verdict_name(proof.verdict), proof.op, proof.reason);
}

static void check_plan(const char *text, PlanOptions o) {
  Case c = plan_of(text, "cpux2", o);
  CHECK(c.p);
  if (c.p) {
    int last = 0;
    for (size_t i = 0; i < c.f->ops.n; i++) last = c.p->stages[i] > last ? c.p->stages[i] : last;
    CHECK(last == c.p->degree[DEGREE_pp] - 1);
    CHECK(c.p->stages[op_index(c.f, "n")] == c.p->stages[op_index(c.f, "n.w")]);
    check_lowered(&c, c.p->strategies, c.p->stages);
  }
  done(&c);
}

static void a_state_is_written_where_it_is_read(void) {
  for (int micro = 1; micro <= 2; micro++) {
    check_plan(twice, (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = micro});
    check_plan(written, (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = micro});
  }
  check_plan(counter, (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 1});
  check_plan(counter, (PlanOptions){.degree[DEGREE_pp] = 2});
  check_plan(twice, (PlanOptions){.degree[DEGREE_tp] = 2, .micro_batches = 2});
}

/* Every cut by hand: values of a state that a later stage needs are sent there; a state that is read and written in two
 * stages is refused. */
static void check_cut(const char *text, size_t cut, int read, int write) {
  Case c = plan_of(text, "cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 1});
  int stages[64] = {0};
  CHECK(c.p && c.f->ops.n <= 64);
  for (size_t i = cut; i < c.f->ops.n; i++) stages[i] = 1;
  stages[op_index(c.f, "n")] = read;
  stages[op_index(c.f, "n.w")] = write;
  if (read == write) {
    check_lowered(&c, c.p->strategies, stages);
  } else {
    LowerPlan plan = {.strategies = c.p->strategies, .stages = stages};
    CHECK(!lower_spmd(c.m, c.f, &plan, "spmd", c.d) && c.d->errors == 1 && c.d->items[0].code == DIAG_plan_state);
  }
  done(&c);
}

static void stages_share_what_was_read(void) {
  for (size_t cut = 8; cut < 13; cut++) {
    check_cut(counter, cut, 0, 0);
    check_cut(counter, cut, 0, 1);
    check_cut(twice, cut, 0, 0);
    check_cut(twice, cut, 0, 1);
    check_cut(written, cut, 1, 1);
    check_cut(written, cut, 0, 1);
  }
}

/* Each micro-batch would count. */
static void a_state_without_batch_has_no_micro_batches(void) {
  Case c = plan_of(counter, "cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 2});
  CHECK(!c.p && c.d->errors == 1 && strstr(c.d->items[0].message, "write \"n.w\" cannot be cut into 2 micro-batches"));
  done(&c);
}

/* Computed from constants at the top, used at the bottom: it begins no stage. */
static const char derived[] =
    "apc.ir 1\nsymbol b hint 8\nparam \"w\" : f32[8, 8] = normal 1 seed 3\nparam \"v\" : f32[8, 8] = normal 1 seed "
    "4\n" BEGIN
    "  %i = iota {axis=1, start=0} : f32[b, 8]\n  %s = sin %i : f32[b, 8]\n  %x1 = neg %x : f32[b, 8]\n" FIRST SECOND
    "  %z1 = add %z, %s : f32[b, 8]\n  output \"z\" %z1\n}\n";

/* Operations that follow others (sources, values computed from constants, writes) have their places after reading a
 * saved plan, too. */
static void plans_with_stages_come_back(void) {
  static const char *const models[] = {counter, twice, written, derived};
  for (int i = 0; i < 4; i++) {
    Case c = plan_of(models[i], "cpux2", (PlanOptions){.degree[DEGREE_pp] = 2, .micro_batches = 1});
    Text before = {.arena = c.a}, after = {.arena = c.a};
    CHECK(c.p);
    if (c.p) plan_print(c.m, c.f, c.p, &before);
    Plan *q = c.p ? plan_parse(c.m, c.f, c.t, "saved.plan", text_str(&before), c.d) : NULL;
    CHECKF(q && c.d->n == 0 && memcmp(q->stages, c.p->stages, sizeof *q->stages * c.f->ops.n) == 0, "model %d", i);
    if (q) plan_print(c.m, c.f, q, &after);
    if (q) CHECK_STR(text_str(&after), text_str(&before));
    done(&c);
  }
}

/* One entry only writes the state, the other only reads it: it has one layout, whichever is planned. */
#define SAVE(name) \
  "func @" name \
  " level 1 {\n  %x = input {name=\"x\"} : f32[8, 8]\n  %w = param {name=\"w\"} : f32[8, 8]\n" \
  "  %y = dot %x, %w {spec=\"bd,df->bf\"} : f32[8, 8]\n  write \"keep\" %y {name=\"n\"}\n  output \"y\" %y\n}\n"
#define LOAD(name) \
  "func @" name \
  " level 1 {\n  %n = read {name=\"n\"} : f32[8, 8]\n  %v = param {name=\"v\"} : f32[8, 8]\n" \
  "  %z = dot %n, %v {spec=\"bd,df->bf\"} : f32[8, 8]\n  output \"z\" %z\n}\n"
static const char saved[] = HEAD "state \"n\" : f32[8, 8] = 0\n" SAVE("main") LOAD("other");
static const char loaded[] = HEAD "state \"n\" : f32[8, 8] = 0\n" LOAD("main") SAVE("other");

static void check_entries(const char *text, PlanOptions o) {
  Case c = plan_of(text, "cpux2", o);
  CHECK(c.p);
  if (c.p) {
    const Func *other = module_func(c.m, "other"), *entries[2];
    Strategy *strategies = ARENA_ARRAY(c.a, Strategy, other->ops.n);
    int *stages = ARENA_ARRAY(c.a, int, other->ops.n);
    plan_carry(c.m, c.f, c.p->strategies, c.p->stages, other, strategies, stages);
    entries[0] = lower_spmd(c.m, c.f, &(LowerPlan){.strategies = c.p->strategies, .stages = c.p->stages}, "first", c.d);
    entries[1] = lower_spmd(c.m, other, &(LowerPlan){.strategies = strategies, .stages = stages}, "second", c.d);
    CHECK(entries[0] && entries[1]);
    if (entries[0] && entries[1]) {
      CHECK(prove(c.m, c.f, entries[0]).verdict == PROVED && prove(c.m, other, entries[1]).verdict == PROVED);
      Proof proof = prove_states(c.m, 2, entries);
      CHECKF(proof.verdict == PROVED, "%s", proof.reason);
    }
  }
  done(&c);
}

static void entries_that_only_read_or_write(void) {
  check_entries(saved, (PlanOptions){.degree[DEGREE_tp] = 2});
  check_entries(saved, (PlanOptions){.degree[DEGREE_dp] = 2});
  check_entries(loaded, (PlanOptions){.degree[DEGREE_tp] = 2});
}

int main(void) {
  RUN(entries_that_only_read_or_write);
  RUN(plans_with_stages_come_back);
  RUN(a_state_is_written_where_it_is_read);
  RUN(stages_share_what_was_read);
  RUN(a_state_without_batch_has_no_micro_batches);
  return test_summary();
}
