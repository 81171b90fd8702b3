/* tools/plan_report.h - a plan for people and as JSON (schema apc.plan/1). */
#ifndef APC_TOOLS_PLAN_REPORT_H
#define APC_TOOLS_PLAN_REPORT_H

#include "tools/build.h"

void plan_show(Tool *t, const Build *b);
json_t *plan_json(Tool *t, const Build *b);

/* "12.1 ms", or that the model does not fit. */
const char *one_device_text(Arena *a, const Plan *p);

#endif
