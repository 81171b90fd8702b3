/* tests/planner_case.h - a model given as IR text, planned for a target. */
#ifndef APC_TESTS_PLANNER_CASE_H
#define APC_TESTS_PLANNER_CASE_H

#include "frontend/target.h"
#include "passes/plan.h"
#include "tests/test.h"

typedef struct Case {
  Arena *a;
  Diags *d;
  Module *m;
  const Func *f;
  const Target *t;
  Plan *p;
} Case;

static inline Case plan_of(const char *text, const char *target, PlanOptions o) {
  Case c = {.a = arena_new()};
  c.d = diags_new(c.a);
  c.m = ir_parse("model.ir", text, c.d);
  if (c.m) c.f = module_func(c.m, "main");
  c.t = target_find(c.d, c.a, target);
  if (c.m && c.t) c.p = plan_search(c.m, c.f, c.t, &o, c.d);
  return c;
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
