/* tests/planner_case.h - a model given as IR text, planned for a target. */
#ifndef APC_TESTS_PLANNER_CASE_H
#define APC_TESTS_PLANNER_CASE_H

#include "frontend/topo/target.h"
#include "passes/plan/plan.h"
#include "tests/test.h"

typedef struct Case {
  Arena *a;
  Diags *d;
  Module *m;
  const Func *f;
  const Target *t;
  Plan *p;
} Case;

/* Plans the text for the target.  Without a target, or with an invalid text, there is no plan.  The module has the
   plan's mesh. */
static inline Case plan_on(Arena *a, const char *text, const Target *t, PlanOptions o) {
  Case c = {.a = a, .d = diags_new(a), .t = t};
  c.m = ir_parse("model.ir", text, c.d);
  if (c.m) c.f = module_func(c.m, "main");
  if (c.m && c.t) c.p = plan_search(c.m, c.f, c.t, &o, c.d);
  if (c.p) module_set_mesh(c.m, &c.p->mesh);
  return c;
}

static inline Case plan_of(const char *text, const char *target, PlanOptions o) {
  Arena *a = arena_new();
  return plan_on(a, text, topo_target_find(diags_new(a), a, target), o);
}

static inline void done(Case *c) {
  if (test_failed_here) diags_print(c->d, stderr, false);
  if (c->m) module_free(c->m);
  arena_free(c->a);
}

static inline size_t op_index(const Func *f, const char *name) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (strcmp(f->ops.items[i].name, name) == 0) return i;
  fprintf(stderr, "no operation %s\n", name);
  test_failed_here++;
  return 0;
}

#endif
