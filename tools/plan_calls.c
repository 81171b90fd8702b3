/* tools/plan_calls.c - see plan_calls.h. */
#include "tools/plan_calls.h"

#include <math.h>

ScheduleWork tool_calls_work(const Mesh *mesh, const PlanLedger *ledger, int stage) {
  const StageCost *s = &ledger->sums[stage];
  ScheduleWork w = ledger->tabled ? ledger->work[stage] : s->phases;
  if (!ledger->tabled) w.fwd = s->each - s->phases.bwd - s->phases.wgt;
  if (!schedule_weights_apart(mesh->schedule)) w.bwd += w.wgt, w.wgt = 0;
  return w;
}

static PlanCalls scheduled(Arena *a, const Mesh *mesh, const PlanLedger *ledger) {
  const ScheduleTable t = schedule_table(a, mesh, ledger->work);
  PlanCalls c = {ARENA_ARRAY(a, PlaceCalls, t.places), t.places, t.seconds};
  for (int k = 0; k < t.places; k++) c.places[k] = (PlaceCalls){&t.calls[(size_t)k * t.per_place], t.per_place};
  return c;
}

/* Adds the calls of a micro-batch on a stage, which begin at `start`; the last one ends at `end`. */
static void add_calls(PlaceCalls *to, ScheduleWork w, int stage, int micro_batch, double start, double end) {
  const double seconds[] = {w.fwd, w.bwd, w.wgt};
  for (int k = 0; k < 3; k++) {
    if (k > 0 && seconds[k] <= 0) continue;
    to->items[to->n++] = (ScheduleCall){(Phase)(PH_fwd + k), stage, micro_batch, start, start + seconds[k]};
    start += seconds[k];
  }
  to->items[to->n - 1].end = end;
}

static PlanCalls in_order(Arena *a, const Mesh *mesh, const PlanLedger *ledger) {
  const int n = mesh_micro_batches(mesh), stages = mesh->stages;
  double *before = ARENA_ARRAY(a, double, n); /* by micro-batch: when the stage before has finished it */
  PlanCalls c = {.places = ARENA_ARRAY(a, PlaceCalls, stages), .n = stages};
  for (int s = 0; s < stages; s++) {
    const ScheduleWork w = tool_calls_work(mesh, ledger, s);
    double free = 0;
    c.places[s].items = ARENA_ARRAY(a, ScheduleCall, 3 * n);
    for (int i = 0; i < n; i++) {
      const double start = fmax(free, before[i]);
      before[i] = free = start + ledger->sums[s].each;
      add_calls(&c.places[s], w, s, i, start, free);
    }
    c.seconds = fmax(c.seconds, free);
  }
  return c;
}

PlanCalls tool_plan_calls(Arena *a, const Mesh *mesh, const PlanLedger *ledger) {
  return ledger->tabled ? scheduled(a, mesh, ledger) : in_order(a, mesh, ledger);
}
