/* tools/plan_report.h - shows a plan as text and as JSON (schema apc.plan/1). */
#ifndef APC_TOOLS_PLAN_REPORT_H
#define APC_TOOLS_PLAN_REPORT_H

#include "tools/build.h"

typedef struct Share {
  const char *name;
  double value; /* seconds or bytes */
} Share;

enum { TIME_SHARES = 5 };
/* Fills `out` with the parts of a step's time, in seconds. */
void tool_time_shares(const PlanTime *x, Share out[TIME_SHARES]);
/* Fills `out` with the parts of a rank's memory, in bytes; returns their number. */
int tool_memory_shares(const PlanMemory *x, Share out[MEMORY_SHARES]);

/* Prints the build's plan, or returns it as a JSON document. */
void tool_plan_show(Tool *t, const Build *b);
json_t *tool_plan_json(Tool *t, const Build *b);

/* Returns "pp 2 x dp 4, 8 micro-batches, zbv, zero 2": an alternative of a plan, or the plan itself. */
const char *tool_choice_text(Arena *a, const Plan *p, const PlanAlternative *x);

/* Returns the bytes of the largest rank; "about 1.2 GiB" if no Program was made. */
const char *tool_bytes_text(Arena *a, const PlanAlternative *x);

/* Returns "one device", or, as the ranks of cpuxN share one machine, "one device: a rank of cpuxN". */
const char *one_device_name(Arena *a, const Target *g);
/* Returns "12.1 ms", or that the model does not fit. */
const char *one_device_text(Arena *a, const Plan *p);

#endif
