/* driver/times.c - the predicted times that a Program carries for its profiles: of each entry, and of each operation of
 * its level 2, from the price of the plan (passes/cost/lowered.h). */
#include "driver/internal.h"
#include "passes/cost/lowered.h"

const ProgramTimes *driver_times(const Build *b) {
  Arena *a = b->options.model.arena;
  Module *m = b->model.m;
  const Target *t = b->options.target;
  ProgramTimes *times = ARENA_ARRAY(a, ProgramTimes, b->nentries);
  if (!b->plan) return NULL;
  CostModel *cost = cost_model_new(m, t);
  for (int i = 0; i < b->nentries; i++) {
    const Strategy *strategies;
    const int *stages;
    driver_entry_choice(b, i, &strategies, &stages);
    const Rule *const *rules = (const Rule *const *)rules_of(m, b->l1s[i]);
    const PlanLedger ledger = cost_plan_ledger(a, cost, m, b->l1s[i], rules, strategies, stages);
    times[i] =
        (ProgramTimes){cost_of_lowered(a, &ledger, &b->steps[i]), ledger.time.total, t->launch, t->memory_bandwidth};
  }
  cost_model_free(cost);
  return times;
}
