/* tools/plan_targets.h - plans one model for several targets: a table, or a JSON document of plans. */
#ifndef APC_TOOLS_PLAN_TARGETS_H
#define APC_TOOLS_PLAN_TARGETS_H

#include "tools/tool.h"

/* True if --target names several targets, separated by commas; names of files may contain commas. */
bool tool_several_targets(const Tool *t);

/* Plans the model for each target and shows all plans.  A target without a plan is shown with the reason; if no target
 * has a plan, returns the exit code of the first. */
int tool_plan_targets(Tool *t, const char *path);

#endif
