/* tools/plan_calls.h - the predicted calls of every place of the pipeline, for the page (html_time.c) and for the trace
 * of a plan (emit_trace.c). */
#ifndef APC_TOOLS_PLAN_CALLS_H
#define APC_TOOLS_PLAN_CALLS_H

#include "passes/cost/ledger.h"

/* The calls of a place, in the order in which it executes them. */
typedef struct PlaceCalls {
  ScheduleCall *items;
  size_t n;
} PlaceCalls;

typedef struct PlanCalls {
  PlaceCalls *places;
  int n;
  double seconds; /* of all calls, without the work that is done once */
} PlanCalls;

/* Lists the calls: those of ir/schedule.h if the time of the plan comes from its table.  Otherwise a stage takes each
 * micro-batch as soon as it is free and the stage before has finished. */
PlanCalls tool_plan_calls(Arena *a, const Mesh *mesh, const PlanLedger *ledger);
/* Seconds of a stage's calls for one micro-batch.  Without a table the forward pass, which is all of inference, has
 * what the stage waits for its host. */
ScheduleWork tool_calls_work(const Mesh *mesh, const PlanLedger *ledger, int stage);

#endif
