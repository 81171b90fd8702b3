/* passes/plan.c - identity of a function for plans; the text of plans is in plan_print.c and plan_parse.c. */
#include "passes/plan.h"

#include "base/hash.h"

uint64_t plan_graph_hash(const Module *m, const Func *f) {
  Arena *a = arena_new();
  Text t = {.arena = a};
  for (size_t i = 0; i < f->ops.n; i++) {
    Op op = f->ops.items[i];
    op.loc = (Loc){0};
    op_print(m, &t, f, &op);
  }
  uint64_t h = hash64(text_str(&t), t.n, 0);
  arena_free(a);
  return h;
}
