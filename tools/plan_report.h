/* tools/plan_report.h - a plan for people and as JSON (schema apc.plan/1). */
#ifndef APC_TOOLS_PLAN_REPORT_H
#define APC_TOOLS_PLAN_REPORT_H

#include "tools/build.h"

typedef struct Share {
  const char *name;
  double value; /* seconds or bytes */
} Share;

enum { TIME_SHARES = 5 };
void tool_time_shares(const PlanTime *x, Share out[TIME_SHARES]);
/* How many. */
int tool_memory_shares(const PlanMemory *x, Share out[MEMORY_SHARES]);

void tool_plan_show(Tool *t, const Build *b);
json_t *tool_plan_json(Tool *t, const Build *b);

/* "pp 2 x dp 4, 8 micro-batches, zbv, zero 2": an alternative of a plan, or the plan itself. */
const char *tool_choice_text(Arena *a, const Plan *p, const PlanAlternative *x);

/* Bytes on the largest rank: "about 1.2 GiB" where no Program was asked. */
const char *tool_bytes_text(Arena *a, const PlanAlternative *x);

/* "one device"; the ranks of cpuxN share one machine: one of them has a part of it. */
const char *one_device_name(Arena *a, const Target *g);
/* "12.1 ms", or that the model does not fit. */
const char *one_device_text(Arena *a, const Plan *p);

#endif
