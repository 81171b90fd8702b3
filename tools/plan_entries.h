/* tools/plan_entries.h - the entries of a model in a plan: --optimize, and which of them it was planned for. */
#ifndef APC_TOOLS_PLAN_ENTRIES_H
#define APC_TOOLS_PLAN_ENTRIES_H

#include "driver/driver.h"
#include "tools/tool.h"

/* Reads --optimize: "prefill=1,decode=100".  False after diagnostics. */
bool tool_calls(Tool *t, const DriverCalls **out, int *n);

/* The model has several entries to be called, or --optimize names one. */
bool tool_has_entries(const Build *b);
/* What one call of an entry takes, as the plan is. */
double tool_entry_seconds(const Build *b, int entry);
/* What each entry takes, and which one the plan is for; nothing of a model that has not several. */
void tool_entries_show(const Tool *t, const Build *b);
json_t *tool_entries_json(const Build *b);

#endif
