/* Entries that are planned together: compared with all choices of two small ones, and the begins of stages. */
#include <math.h>

#include "ir/joint.h"
#include "passes/cost/loops.h"
#include "passes/lower/lower.h"
#include "passes/plan/entries.h"
#include "proof/prove.h"
#include "tests/loop_models.h"
#include "tests/planner_case.h"

/* Many rows are written to a state, and one row reads it: the first should be cut by rows, the other by weights. */
static const char rows[] =
    "apc.ir 1\nparam \"w\" : f32[2048, 2048] = normal 1 seed 3\nparam \"v\" : f32[2048, 2048] = normal 1 seed 4\n"
    "state \"s\" : f32[1024, 2048] = 0\n"
    "func @prefill level 1 {\n  %x = input {name=\"x\"} : f32[1024, 2048]\n"
    "  %w = param {name=\"w\"} : f32[2048, 2048]\n  %y = dot %x, %w {spec=\"bd,df->bf\"} : f32[1024, 2048]\n"
    "  write \"s.w\" %y {name=\"s\"}\n  %v = param {name=\"v\"} : f32[2048, 2048]\n"
    "  %z = dot %y, %v {spec=\"bd,df->bf\"} : f32[1024, 2048]\n  output \"z\" %z\n}\n"
    "func @decode level 1 {\n  %x = input {name=\"x\"} : f32[1, 2048]\n"
    "  %w = param {name=\"w\"} : f32[2048, 2048]\n  %q = dot %x, %w {spec=\"bd,df->bf\"} : f32[1, 2048]\n"
    "  %s = read {name=\"s\"} : f32[1024, 2048]\n  %a = dot %q, %s {spec=\"bd,cd->bc\"} : f32[1, 1024]\n"
    "  %y = dot %a, %s {spec=\"bc,cd->bd\"} : f32[1, 2048]\n  %v = param {name=\"v\"} : f32[2048, 2048]\n"
    "  %z = dot %y, %v {spec=\"bd,df->bf\"} : f32[1, 2048]\n  output \"z\" %z\n}\n";

typedef struct Joined {
  Case c;
  Func *entries[2];
  Func *joint;
} Joined;

static Joined joined(const char *text, const char *target, const double times[2]) {
  Joined j = {.c = {.a = arena_new()}};
  j.c.d = diags_new(j.c.a);
  j.c.t = topo_target_find(j.c.d, j.c.a, target);
  j.c.m = ir_parse("model.ir", text, j.c.d);
  CHECK(j.c.m && j.c.t);
  j.entries[0] = module_func(j.c.m, "prefill"), j.entries[1] = module_func(j.c.m, "decode");
  j.joint = joint_func(j.c.m, 2, j.entries, times);
  return j;
}

/* ---- all choices: for each entry the least time for each layout of weights and state */

enum { KINDS = 3, MOST = 8, KEPT = MOST * MOST * MOST };

typedef struct Choosing {
  const Joined *j;
  const Func *f;
  const Rule *const *rules;
  CostModel *cost;
  const Strategy *all[16];
  int n[16];
  Strategy chosen[16];
  const Layout *kept[KINDS]; /* of w, v and s, by the choices so far */
  const Layout *(*known)[MOST];
  double *least; /* by layout of weights and state */
} Choosing;

static int kind_of(const Op *op) {
  const char *name = op_str(op, AT_name);
  if (op->kind == OP_input || !name) return -1;
  return *name == 'w' ? 0 : *name == 'v' ? 1 : 2;
}

static int layout_number(const Layout *known[MOST], const Layout *l) {
  int k = 0;
  while (k < MOST && known[k] && known[k] != l) k++;
  CHECK(k < MOST);
  known[k] = l;
  return k;
}

static void choose_from(Choosing *x, size_t i) {
  if (i == x->f->ops.n) {
    const PlanPrice p = cost_plan(x->cost, x->j->c.m, x->f, x->rules, x->chosen, NULL);
    int at = 0;
    for (int k = 0; k < KINDS; k++) at = at * MOST + layout_number(x->known[k], x->kept[k]);
    if (p.possible) x->least[at] = fmin(x->least[at], p.time.total);
    return;
  }
  const Op *op = &x->f->ops.items[i];
  for (int s = 0; s < x->n[i]; s++) {
    if (!cost_parts_filled(x->cost, x->rules[i], &x->all[i][s], 0)) continue; /* no rank is idle */
    x->chosen[i] = x->all[i][s];
    int kind = kind_of(op);
    const Layout *l =
        kind < 0 ? NULL : (op->out ? strategy_result : strategy_operand)(x->j->c.m, x->rules[i], &x->all[i][s], 0);
    if (kind >= 0) x->kept[kind] = l;
    choose_from(x, i + 1);
  }
}

static double *least_of(const Joined *j, int entry, const Layout *known[KINDS][MOST], CostModel *cost) {
  Choosing x = {.j = j, .f = j->entries[entry], .cost = cost, .known = known};
  x.rules = (const Rule *const *)rules_of(j->c.m, x.f);
  x.least = ARENA_ARRAY(j->c.a, double, KEPT);
  for (int k = 0; k < KEPT; k++) x.least[k] = INFINITY;
  for (size_t i = 0; i < x.f->ops.n; i++) x.n[i] = strategy_enumerate(j->c.a, j->c.m, x.rules[i], false, &x.all[i]);
  choose_from(&x, 0);
  return x.least;
}

/* By layout of weights and state the least time of each entry, on one axis of two ranks. */
typedef struct Leasts {
  double *entries[2];
} Leasts;

static Leasts leasts_of(const Joined *j) {
  const Layout *known[KINDS][MOST] = {0};
  Leasts x;
  module_set_mesh(j->c.m, &(Mesh){.naxes = 1, .stages = 1, .axes = {{.name = "a", .size = 2}}});
  CostModel *cost = cost_model_new(j->c.m, j->c.t);
  for (int e = 0; e < 2; e++) x.entries[e] = least_of(j, e, known, cost);
  cost_model_free(cost);
  module_set_mesh(j->c.m, &(Mesh){.stages = 1});
  return x;
}

enum { WEIGHTS = 6 };
static const double calls[WEIGHTS][2] = {{1, 0}, {1, 1}, {1, 10}, {1, 30}, {1, 1000}, {0, 1}};

/* Plans with those weights; times[] gets the time of each entry. */
static void check_best(Joined *j, const Leasts *x, int i, double times[2]) {
  j->joint = joint_func(j->c.m, 2, j->entries, calls[i]);
  const JointEntry *entries = j->joint->joint->entries;
  double least = INFINITY;
  for (int k = 0; k < KEPT; k++)
    least = fmin(least, entries[0].weight * x->entries[0][k] + entries[1].weight * x->entries[1][k]);
  PlanOptions o = {.degree[DEGREE_pp] = 1, .micro_batches = 1};
  Plan *p = plan_search(j->c.m, j->joint, j->c.t, &o, j->c.d);
  CHECK(p);
  if (!p) return;
  CHECKF(fabs(p->price.time.total - least) <= 1e-8 * least, "%g and %g calls: %.9g, and there is %.9g", calls[i][0],
         calls[i][1], p->price.time.total, least);
  CHECKF(p->lower_bound <= least * (1 + 1e-8) && p->gap < 1e-6, "%.9g is no bound", p->lower_bound);
  module_set_mesh(j->c.m, &p->mesh);
  const PlanEntry *each = plan_entries(j->c.m, j->joint, j->c.t, p);
  for (int e = 0; e < 2; e++) times[e] = each[e].price.time.total;
  module_set_mesh(j->c.m, &(Mesh){.stages = 1});
}

static double sum_of(int i, const double times[2]) { return calls[i][0] * times[0] + calls[i][1] * times[1]; }

static void the_best_of_all_choices_is_found(void) {
  double times[WEIGHTS][2] = {{0}};
  Joined j = joined(rows, "dgx-a100x2", calls[0]);
  const Leasts x = leasts_of(&j);
  for (int i = 0; i < WEIGHTS; i++) check_best(&j, &x, i, times[i]);
  /* The more often an entry is called, the less time it takes; the plans of the two extremes are not enough in
     between. */
  for (int i = 1; i + 1 < WEIGHTS; i++) {
    CHECK(times[i][1] <= times[i - 1][1] * (1 + 1e-9) && times[i][0] >= times[i - 1][0] * (1 - 1e-9));
    CHECK(sum_of(i, times[i]) <= sum_of(i, times[0]) * (1 + 1e-6));
    CHECK(sum_of(i, times[i]) <= sum_of(i, times[WEIGHTS - 1]) * (1 + 1e-6));
  }
  CHECK(times[0][0] < times[WEIGHTS - 1][0] * 0.99 && times[WEIGHTS - 1][1] < times[0][1] * 0.99);
  done(&j.c);
}

/* With weight on one entry only, the plan is that of the entry alone. */
static void ends_are_the_plans_of_each_alone(void) {
  for (int e = 0; e < 2; e++) {
    const double one[2] = {e == 0, e == 1};
    Joined j = joined(rows, "dgx-a100x2", one);
    Plan *p = plan_search(j.c.m, j.joint, j.c.t, &(PlanOptions){0}, j.c.d),
         *alone = plan_search(j.c.m, j.entries[e], j.c.t, &(PlanOptions){0}, j.c.d);
    CHECK(p && alone && p->price.time.total <= alone->price.time.total * (1 + 1e-4));
    done(&j.c);
  }
}

/* Twins are adjacent, operations keep their order, and weights count how often they are read. */
static void entries_are_merged_by_name(void) {
  Joined j = joined(rows, "dgx-a100x2", (const double[2]){1, 4});
  const Joint *joint = j.joint->joint;
  CHECK(verify_func(j.c.m, j.joint, j.c.d) && strcmp(j.joint->name, "prefill+decode") == 0);
  CHECK(j.joint->ops.n == j.entries[0]->ops.n + j.entries[1]->ops.n);
  for (int e = 0; e < 2; e++)
    for (size_t i = 0; i < j.entries[e]->ops.n; i++) {
      size_t at = joint->entries[e].at[i];
      CHECK(joint->of[at] == e && joint->number[at] == i && (i == 0 || joint->entries[e].at[i - 1] < at));
      CHECK(joint_weight(j.joint, at) == (e ? 4 : 1));
      CHECK(strcmp(joint_own_name(j.joint, at), j.entries[e]->ops.items[i].name) == 0);
    }
  CHECK(op_index(j.joint, "decode/w") == op_index(j.joint, "prefill/w") + 1);
  CHECK(op_index(j.joint, "decode/a") < op_index(j.joint, "prefill/y")); /* in one entry only: after its predecessors */
  done(&j.c);
}

/* Values that both use are on one stage, in one layout. */
static void stages_keep_what_entries_share(void) {
  Joined j = joined(rows, "dgx-a100x2", (const double[2]){1, 1});
  Plan *p = plan_search(j.c.m, j.joint, j.c.t, &(PlanOptions){.degree[DEGREE_pp] = 2}, j.c.d);
  CHECK(p);
  static const char *const shared[][2] = {
      {"prefill/w", "decode/w"}, {"prefill/v", "decode/v"}, {"prefill/s.w", "decode/s"}};
  for (int k = 0; p && k < 3; k++)
    CHECK(p->stages[op_index(j.joint, shared[k][0])] == p->stages[op_index(j.joint, shared[k][1])]);
  CHECK(p && p->stages[op_index(j.joint, "prefill/w")] == 0 && p->stages[op_index(j.joint, "prefill/z")] == 1);
  done(&j.c);
}

/* A state that both read is kept once, as a weight is. */
static void what_entries_share_counts_once(void) {
  static const char one[] =
      " level 1 {\n  %x = input {name=\"x\"} : f32[8, 16]\n  %w = param {name=\"w\"} : f32[16, 16]\n"
      "  %y = dot %x, %w {spec=\"bd,df->bf\"} : f32[8, 16]\n  %s = read {name=\"s\"} : f32[8, 16]\n"
      "  %z = add %y, %s : f32[8, 16]\n  write \"s.w\" %z {name=\"s\"}\n  output \"z\" %z\n}\n";
  Arena *a = arena_new();
  const char *text = arena_printf(a,
                                  "apc.ir 1\nparam \"w\" : f32[16, 16] = normal 1 seed 3\n"
                                  "state \"s\" : f32[8, 16] = 0\nfunc @prefill%sfunc @decode%s",
                                  one, one);
  Joined j = joined(text, "dgx-a100x2", (const double[2]){1, 1});
  const double kept = 4 * (16 * 16 + 8 * 16);
  PlanLack lack = {0};
  CHECK(!plan_search(j.c.m, j.joint, j.c.t, &(PlanOptions){.memory_limit = 1, .lack = &lack}, j.c.d));
  CHECKF(lack.resident == kept, "%g bytes", lack.resident);
  j.c.d->errors = 0;
  Plan *p = plan_search(j.c.m, j.joint, j.c.t, &(PlanOptions){.degree[DEGREE_dp] = 2}, j.c.d);
  CHECK(p && p->price.memory.params == 4 * 16 * 16 && p->price.memory.state == 4 * 8 * 16 / 2);
  done(&j.c);
  arena_free(a);
}

/* Loops are merged whole; each entry's part of the plan computes it. */
static void loops_stay_together(const LoopModel *model) {
  Arena *a = arena_new();
  const char *body = strchr(model->text, '{');
  Joined j = joined(arena_printf(a, "apc.ir 1\nfunc @prefill level 1 %s\nfunc @decode level 1 %s\n", body, body),
                    "cpux2", (const double[2]){1, 2});
  CHECK(verify_func(j.c.m, j.joint, j.c.d));
  const Loops loops = loops_of(a, j.joint);
  CHECKF(loops.n == 2 * loops_of(a, j.entries[0]).n, "%s", model->name);
  Plan *p = plan_search(j.c.m, j.joint, j.c.t, &(PlanOptions){.degree[DEGREE_tp] = 2}, j.c.d);
  if (!p) p = plan_search(j.c.m, j.joint, j.c.t, &(PlanOptions){0}, j.c.d), j.c.d->errors = 0;
  CHECKF(p, "%s", model->name);
  if (p) module_set_mesh(j.c.m, &p->mesh);
  for (int e = 0; p && e < 2; e++) {
    const Func *f = j.entries[e];
    Strategy *strategies = ARENA_ARRAY(a, Strategy, f->ops.n);
    int *stages = ARENA_ARRAY(a, int, f->ops.n);
    for (size_t i = 0; i < f->ops.n; i++) {
      const size_t at = j.joint->joint->entries[e].at[i];
      strategies[i] = p->strategies[at], stages[i] = p->stages[at];
    }
    LowerPlan plan = {.strategies = strategies, .stages = stages};
    Func *l2 = lower_spmd(j.c.m, f, &plan, e ? "decode.spmd" : "prefill.spmd", j.c.d);
    CHECKF(l2 && prove(j.c.m, f, l2).verdict == PROVED, "%s", model->name);
  }
  done(&j.c);
  arena_free(a);
}

static void entries_with_loops(void) {
  const int n = SANITIZED ? 2 : (int)(sizeof loop_models / sizeof *loop_models);
  for (int i = 0; i < n; i++) loops_stay_together(&loop_models[i]);
}

int main(void) {
  RUN(what_entries_share_counts_once);
  RUN(entries_with_loops);
  RUN(the_best_of_all_choices_is_found);
  RUN(ends_are_the_plans_of_each_alone);
  RUN(entries_are_merged_by_name);
  RUN(stages_keep_what_entries_share);
  return test_summary();
}
