/* tools/plan_ranks.h - what each rank of a plan has, where ranks are not alike: for people and as JSON. */
#ifndef APC_TOOLS_PLAN_RANKS_H
#define APC_TOOLS_PLAN_RANKS_H

#include "tools/build.h"

/* Does the target have several kinds of ranks, or the plan axes with shares? */
bool tool_ranks_differ(const Build *b);
void tool_ranks_show(Tool *t, const Build *b);
json_t *tool_ranks_json(Tool *t, const Build *b);

#endif
