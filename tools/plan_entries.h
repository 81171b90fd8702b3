/* tools/plan_entries.h - the entries of a model in a plan: --optimize, and the entries that a plan is for. */
#ifndef APC_TOOLS_PLAN_ENTRIES_H
#define APC_TOOLS_PLAN_ENTRIES_H

#include "driver/driver.h"
#include "tools/tool.h"

/* Reads --optimize: "prefill=1,decode=100".  False after diagnostics. */
bool tool_calls(Tool *t, const DriverCalls **out, int *n);

/* True if the model has several entries to call, or --optimize names one. */
bool tool_has_entries(const Build *b);
/* Returns the seconds of one call of an entry under the plan. */
double tool_entry_seconds(const Build *b, int entry);
/* Prints the time of each entry, and the one that the plan is for; nothing for a model with a single entry. */
void tool_entries_show(const Tool *t, const Build *b);
/* Returns the entries as a JSON list: weights, times and, if planned together, degrees. */
json_t *tool_entries_json(const Build *b);

#endif
