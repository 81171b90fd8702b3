/* The guard of the lowering of loops: loops under random legal strategies and stages on several meshes, and under every
 * strategy of every carry, equal the unsharded ones in doubles and modulo p, and are proved.
 *
 * usage: test_guard_loops [plans per model and mesh [first seed]]. */
#include "base/random.h"
#include "frontend/topo/target.h"
#include "passes/facts/labels.h"
#include "passes/cost/plan_price.h"
#include "tests/emitted.h"
#include "tests/guard.h"
#include "tests/loop_models.h"

static const char *const meshes[] = {"[a=2]", "[a=3]", "[a=4]", "[a=2, b=2]", "[a=2, b=3]", "[a=2] stages 2"};

static uint64_t plans = 40, first_seed = 1;
static long lowered;

/* The first operation of stage 1: no loop is split. */
static size_t random_cut(const Loops *l, const Func *f, uint64_t seed) {
  size_t cut = (size_t)random_below(seed, 2, 0, f->ops.n);
  for (int i = 0; i < l->n; i++)
    if (l->items[i].begin < cut && cut < l->items[i].end) return l->items[i].begin;
  return cut;
}

/* Random legal strategies, one for a carry and its leave. */
static LowerPlan random_plan(Module *m, const Func *f, uint64_t seed, Arena *arena) {
  Strategy *strategies = ARENA_ARRAY(arena, Strategy, f->ops.n);
  int *stages = ARENA_ARRAY(arena, int, f->ops.n);
  Loops loops = loops_of(arena, f);
  size_t cut = m->mesh.stages > 1 ? random_cut(&loops, f, seed) : f->ops.n;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const Strategy *all;
    int n = strategy_enumerate(m->arena, m, rule_of(m, f, op), true, &all);
    strategies[i] =
        op->kind == OP_leave ? strategies[f->values.items[op->in[0]].op] : all[random_below(seed, 1, i, (uint64_t)n)];
    stages[i] = i >= cut;
  }
  return (LowerPlan){.strategies = strategies, .stages = stages};
}

/* With random strategies, or with that strategy of a carry (an operation of the function) and its leave; SIZE_MAX: all
   random. */
static void check_plan(Module *m, const Func *f, const Reference *ref, const LoopModel *model, const char *mesh,
                       uint64_t seed, size_t carry, const Strategy *st, Arena *arena) {
  const Target *t = topo_target_find(diags_new(arena), arena, arena_printf(arena, "cpux%d", mesh_ranks(&m->mesh)));
  CostModel *cost = cost_model_new(m, t);
  LowerPlan p = random_plan(m, f, seed, arena);
  p.cost = cost_move;
  p.cost_context = cost;
  Func *l2 = NULL;
  for (size_t i = 0; carry != SIZE_MAX && i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    bool its = i == carry || (op->kind == OP_leave && (size_t)f->values.items[op->in[0]].op == carry);
    if (its) ((Strategy *)(uintptr_t)p.strategies)[i] = *st;
  }
  const char *why = guard_check(m, ref, &p, arena, &l2);
  if (!why) why = guard_prove(m, ref, l2, arena);
  if (!why) why = emitted_differs(m, f, &p, t, l2, arena);
  lowered += !why;
  if (why)
    guard_report(m, f, l2, arena_printf(arena, "%s, mesh %s, seed %llu", model->name, mesh, (unsigned long long)seed),
                 why);
  cost_model_free(cost);
}

static void check_carries(Module *m, const Func *f, const Reference *ref, const LoopModel *model, const char *mesh,
                          Arena *arena) {
  for (size_t i = 0; i < f->ops.n; i++) {
    const Strategy *all;
    int n = f->ops.items[i].kind == OP_carry
                ? strategy_enumerate(m->arena, m, rule_of(m, f, &f->ops.items[i]), true, &all)
                : 0;
    for (int k = 0; k < n; k++) check_plan(m, f, ref, model, mesh, (uint64_t)k, i, &all[k], arena);
  }
}

static void check_model(const LoopModel *model, const char *mesh) {
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  Module *m = ir_parse("loop", arena_printf(arena, "apc.ir 1\nmesh %s\n%s", mesh, model->text), diags);
  Func *f = m ? module_func(m, "main") : NULL;
  Reference ref;
  bool ok = f && verify_func(m, f, diags) && reference_run(m, f, -1, 1, arena, diags, &ref);
  CHECKF(ok, "%s", model->name);
  if (!ok) diags_print(diags, stderr, false);
  for (uint64_t i = 0; ok && i < plans; i++) check_plan(m, f, &ref, model, mesh, first_seed + i, SIZE_MAX, NULL, arena);
  if (ok) check_carries(m, f, &ref, model, mesh, arena);
  if (m) module_free(m);
  arena_free(arena);
}

static void loops_under_any_strategies(void) {
  for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++)
    for (int k = 0; k < LOOP_MODELS; k++) check_model(&loop_models[k], meshes[i]);
  printf("%ld plans equal and proved\n", lowered);
}

int main(int argc, char **argv) {
  if (argc > 1) plans = strtoull(argv[1], NULL, 10);
  if (argc > 2) first_seed = strtoull(argv[2], NULL, 10);
  RUN(loops_under_any_strategies);
  return test_summary();
}
