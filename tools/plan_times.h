/* tools/plan_times.h - a search that runs, and where its time went (--time-report), on standard error. */
#ifndef APC_TOOLS_PLAN_TIMES_H
#define APC_TOOLS_PLAN_TIMES_H

#include "passes/plan/plan.h"
#include "tools/tool.h"

/* A PlanProgressFunc; the context is the Tool. */
void tool_times_show(void *tool, const PlanProgress *p);

void tool_times_report(Tool *t, const SearchReport *r);

#endif
