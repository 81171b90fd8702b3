/* passes/plan/plan.c - the identity of a function for plans, and the time of one rank; the text of plans is in print.c
 * and parse.c. */
#include "passes/plan/plan.h"

#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "ir/schedule.h"
#include "passes/facts/labels.h"

uint64_t plan_graph_hash(const Module *m, const Func *f) {
  Arena *a = arena_new();
  Text t = {.arena = a};
  Hash64 h;
  hash64_begin(&h, 0);
  for (size_t i = 0; i < f->ops.n; i++) {
    Op op = f->ops.items[i];
    op.loc = (Loc){0};
    op_print(m, &t, f, &op);
    hash64_add(&h, text_str(&t), t.n);
    t.n = 0;
  }
  arena_free(a);
  return hash64_end(&h);
}

const char *plan_name_of_schedule(Arena *a, bool trains, int stages, int micro_batches, PipelineSchedule s,
                                  int chunks) {
  if (trains && stages > 1) return schedule_text(a, s, chunks);
  return stages > 1 || micro_batches > 1 ? "gpipe" : "none";
}

const char *plan_schedule_name(Arena *a, const Plan *p) {
  return plan_name_of_schedule(a, p->mirrored, p->degree[DEGREE_pp], p->micro_batches, p->mesh.schedule,
                               p->mesh.chunks);
}

PlanAlternative plan_as_alternative(Arena *a, const Plan *p) {
  PlanAlternative x = {.micro_batches = p->micro_batches,
                       .zero = p->zero,
                       .seconds = p->price.time.total,
                       .bytes = plan_memory(p)->total,
                       .counted = !p->allocated,
                       .schedule = plan_schedule_name(a, p),
                       .recompute = p->recompute};
  memcpy(x.degree, p->degree, sizeof x.degree);
  return x;
}

/* On a rank of one kind. */
static double one_rank_seconds(Module *m, const Func *f, const Target *t, double memory_limit) {
  Arena *a = arena_new();
  const Mesh before = m->mesh;
  module_set_mesh(m, &(Mesh){.stages = 1});
  CostModel *c = cost_model_new(m, t);
  PlanPrice p = cost_plan(c, m, f, rules_of(m, f), ARENA_ARRAY(a, Strategy, f->ops.n), NULL);
  cost_model_free(c);
  module_set_mesh(m, &before);
  arena_free(a);
  return p.memory.needs <= plan_memory_limit(t, memory_limit) ? p.time.total : INFINITY;
}

double plan_one_device_seconds(Module *m, const Func *f, const Target *t, double memory_limit) {
  double least = t->nkinds ? INFINITY : one_rank_seconds(m, f, t, memory_limit);
  for (int i = 0; i < t->nkinds; i++) least = fmin(least, one_rank_seconds(m, f, t->kinds[i], memory_limit));
  return least;
}
