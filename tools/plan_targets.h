/* tools/plan_targets.h - one model planned for several targets: a table, or a JSON document of plans. */
#ifndef APC_TOOLS_PLAN_TARGETS_H
#define APC_TOOLS_PLAN_TARGETS_H

#include "tools/tool.h"

/* --target names several targets, separated by commas; a file's name may contain commas. */
bool tool_several_targets(const Tool *t);

/* Plans the model for each target and shows all of them.  A target without a plan is shown with the reason; the exit
 * code is that of the first if no target has a plan. */
int tool_plan_targets(Tool *t, const char *path);

#endif
