/* tools/plan_times.h - progress of a search, and where its time went (--time-report), on standard error. */
#ifndef APC_TOOLS_PLAN_TIMES_H
#define APC_TOOLS_PLAN_TIMES_H

#include "passes/plan/plan.h"
#include "tools/tool.h"

/* Shows progress: a PlanProgressFunc with the Tool as context. */
void tool_times_show(void *tool, const PlanProgress *p);

/* Prints the table of --time-report. */
void tool_times_report(Tool *t, const SearchReport *r);

#endif
