/* The guard of the lowering: random graphs with fan-out, diamonds and loops, random legal strategies, stages and
 * meshes; the lowered program equals the unsharded one in doubles and modulo p.
 *
 * usage: test_guard_random [first seed [count [mutants of every so many seeds]]].  A failure prints its seed.
 */
#include "passes/rewrite/passes.h"
#include "passes/pipeline.h"
#include "tests/guard.h"
#include "tests/mutants.h"
#include "tests/random_graph.h"

enum { WITHOUT_LOOPS = 600 }; /* seeds up to this one make no loops */

static Func *make_function(Module *m, Random *r, Diags *diags) {
  static const int sizes[] = {1, 2, 3, 4, 5, 6, 7};
  GraphShape shape = {.least = 10, .most = 22, .loops = r->seed > WITHOUT_LOOPS, .looks = r->seed % 2};
  for (int i = 0; i < 4; i++) shape.extents[i] = ex_const(m, sizes[below(r, 7)]);
  int symbol = module_symbol(m, "n");
  m->symbols.items[symbol].hint = 1 + below(r, 6);
  shape.extents[4] = ex_sym(m, symbol);
  return make_graph(m, r, &shape, diags);
}

/* ---- a random plan */

static const char *const meshes[] = {"[a=2]",
                                     "[a=3]",
                                     "[a=4]",
                                     "[a=2, b=2]",
                                     "[a=2, b=3]",
                                     "[a=2, b=2, c=2]",
                                     "[a=2] stages 2",
                                     "[a=3] stages 3",
                                     "[a=2, b=2] stages 2",
                                     "[a=2, mb=2 time]",
                                     "[mb=3 time] stages 2"};

static bool inside_loop(const Loops *l, size_t op) {
  for (int i = 0; i < l->n; i++)
    if (l->items[i].begin < op && op < l->items[i].end) return true;
  return false;
}

static LowerPlan make_plan(Module *m, const Func *f, Random *r, Arena *arena) {
  Loops loops = loops_of(arena, f);
  Strategy *strategies = ARENA_ARRAY(arena, Strategy, f->ops.n);
  int *stages = ARENA_ARRAY(arena, int, f->ops.n), stage = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Strategy *all;
    int n = strategy_enumerate(m->arena, m, rule_of(m, f, &f->ops.items[i]), true, &all);
    strategies[i] = all[below(r, n)];
    if (f->ops.items[i].kind == OP_leave) strategies[i] = strategies[f->values.items[f->ops.items[i].in[0]].op];
    if (!inside_loop(&loops, i) && stage + 1 < m->mesh.stages && below(r, (int)f->ops.n / m->mesh.stages + 1) == 0)
      stage++;
    stages[i] = stage;
  }
  return (LowerPlan){.strategies = strategies, .stages = stages};
}

/* ---- random faults: those that are proved are run */

static uint64_t mutated = 32;           /* one in so many seeds */
static long mutants[3], wrongly_proved; /* by verdict */

static int below_any(void *random, int n) { return below(random, n); }

static void check_mutants(Module *m, const Reference *ref, const Func *l2, Random *r, int n, const char *what,
                          Arena *arena) {
  for (int i = 0; i < n; i++) {
    Func *f = copy_func(m, l2);
    Diags *diags = diags_new(arena);
    if (!mutate(m, f, below_any, r) || !verify_func(m, f, diags)) continue;
    Verdict v = prove(m, ref->f, f).verdict;
    mutants[v]++;
    const char *why = v == PROVED ? guard_run(m, ref, f, arena, diags) : NULL;
    wrongly_proved += why != NULL;
    if (why) guard_report(m, ref->f, f, what, arena_printf(arena, "a mutant is proved, but %s", why));
  }
}

static long lowered, refused, operations, unproved, wrongly_refuted, drawn[OP_COUNT], hoisted;

/* NULL if moving operations out of loops changes no result. */
static const char *check_hoist(Module *m, const Reference *ref, Arena *arena) {
  Diags *diags = diags_new(arena);
  bool ok = pass_hoist(m, diags);
  const Func *f = module_func(m, "main");
  if (!ok || !verify_func(m, f, diags))
    return arena_printf(arena, "hoisting gives an invalid function: %s",
                        diags->n ? diags->items[0].message : "no reason given");
  hoisted += f != ref->f;
  const char *why = guard_run(m, ref, f, arena, diags);
  return why ? arena_printf(arena, "hoisted: %s", why) : NULL;
}

/* No pass is blamed, and those that keep terms are proved. */
static long passes_proved, passes_compared, passes_trusted;
static const char *check_passes(Module *m, Func *f, Arena *arena, Diags *diags) {
  PassChecks checks = {.most_work = 1e8};
  size_t kept = 0; /* no level 2, of which a refused plan leaves a part */
  for (size_t i = 0; i < m->funcs.n; i++)
    if (m->funcs.items[i]->level == 1)
      m->funcs.items[kept++] = strcmp(m->funcs.items[i]->name, f->name) == 0 ? f : m->funcs.items[i];
  m->funcs.n = kept;
  if (!pipeline_run(m, NULL,
                    &(PassOptions){.verify = true, .device = target_device_traits(DEVICE_cpu), .checks = &checks},
                    diags))
    return "the passes fail";
  for (size_t i = 0; i < checks.list.n; i++) {
    const PassCheck *c = &checks.list.items[i];
    passes_proved += c->how <= PASS_PROVED_REALS, passes_compared += c->how == PASS_COMPARED,
        passes_trusted += c->how == PASS_TRUSTED;
    if (c->how == PASS_DIFFERS) return arena_printf(arena, "%s: %s", c->pass, c->note);
  }
  return NULL;
}

static void check_seed(uint64_t seed) {
  Random r = {.seed = seed};
  const char *mesh = meshes[below(&r, (int)(sizeof meshes / sizeof *meshes))];
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  Module *m = ir_parse("mesh", arena_printf(arena, "apc.ir 1\nmesh %s\n", mesh), diags);
  Func *f = m ? make_function(m, &r, diags) : NULL;
  Reference ref;
  if (!f || diags->n || !verify_func(m, f, diags) || !reference_run(m, f, -1, 1, arena, diags, &ref)) {
    diags_print(diags, stderr, false);
    test_failed_here++;
    fprintf(stderr, "seed %llu: no graph\n", (unsigned long long)seed);
  } else {
    ref.tolerance = 1e-7;
    for (size_t i = 0; i < f->ops.n; i++) drawn[f->ops.items[i].kind]++;
    for (int plan = 0; plan < 4; plan++) {
      LowerPlan p = make_plan(m, f, &r, arena);
      Func *l2 = NULL;
      const char *why = guard_check(m, &ref, &p, arena, &l2);
      operations += (long)f->ops.n;
      lowered += !why;
      const char *doubt = why ? NULL : guard_prove(m, &ref, l2, arena);
      if (doubt) {
        unproved++;
        wrongly_refuted += strstr(doubt, "refuted") != NULL;
        fprintf(stderr, "seed %llu, plan %d, mesh %s: %s\n", (unsigned long long)seed, plan, mesh, doubt);
      }
      if (!why && !doubt && seed % mutated == 0)
        check_mutants(m, &ref, l2, &r, 20,
                      arena_printf(arena, "seed %llu, plan %d, mesh %s", (unsigned long long)seed, plan, mesh), arena);
      /* Micro-batches are never gathered: a plan that needs it is refused. */
      if (why && strstr(mesh, "time") && strstr(why, "not lowered: no way to convert")) refused++;
      else if (why)
        guard_report(m, f, l2, arena_printf(arena, "seed %llu, plan %d, mesh %s", (unsigned long long)seed, plan, mesh),
                     why);
    }
    const char *why = check_hoist(m, &ref, arena);
    if (why)
      guard_report(m, f, module_func(m, "main"), arena_printf(arena, "seed %llu", (unsigned long long)seed), why);
    why = check_passes(m, f, arena, diags);
    if (why)
      guard_report(m, f, module_func(m, "main"), arena_printf(arena, "seed %llu, passes", (unsigned long long)seed),
                   why);
  }
  if (m) module_free(m);
  arena_free(arena);
}

static uint64_t first_seed = 1;
static int seeds = SANITIZED ? 300 : 900;

static void random_graphs(void) {
  Quarter q = quarter_range(seeds);
  int n = q.to - q.from;
  for (int i = q.from; i < q.to; i++) check_seed(first_seed + (uint64_t)i);
  printf(
      "seeds %llu to %llu: %ld plans equal, %ld refused, %ld not proved, %ld operations, work left loops in %ld "
      "graphs\n",
      (unsigned long long)first_seed + (unsigned)q.from, (unsigned long long)first_seed + (unsigned)q.to - 1, lowered,
      refused, unproved, operations, hoisted);
  printf("passes: %ld proved, %ld compared, %ld trusted\n", passes_proved, passes_compared, passes_trusted);
  printf("mutants: %ld refuted, %ld unknown, %ld proved and equal, %ld proved wrongly\n", mutants[REFUTED],
         mutants[UNKNOWN], mutants[PROVED] - wrongly_proved, wrongly_proved);
  CHECK(mutants[REFUTED] > mutants[UNKNOWN] && mutants[REFUTED] > 0);
  CHECK(lowered > 2 * refused);
  CHECKF(n < 900 || hoisted > 50, "work left loops in %ld graphs", hoisted);
  for (int k = OP_gather; k <= OP_pool && n >= 300; k++)
    CHECKF(drawn[k] > 0 || k == OP_bind, "%s was never drawn", op_name((OpKind)k));
  /* A right program is never refuted; the prover may give up on one with many splats, but that must stay rare (none
   * here). */
  CHECKF(wrongly_refuted == 0, "%ld right programs were refuted", wrongly_refuted);
  CHECKF(unproved * 1000 <= lowered, "%ld of %ld right programs were not proved", unproved, lowered);
}

int main(int argc, char **argv) {
  if (argc > 1) first_seed = strtoull(argv[1], NULL, 10);
  if (argc > 2) seeds = atoi(argv[2]);
  if (argc > 3) mutated = strtoull(argv[3], NULL, 10);
  RUN(random_graphs);
  return test_summary();
}
