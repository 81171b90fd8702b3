/* tools/plan_ranks.h - the work of each rank under a plan, if ranks differ: as a table and as JSON. */
#ifndef APC_TOOLS_PLAN_RANKS_H
#define APC_TOOLS_PLAN_RANKS_H

#include "tools/build.h"

/* True if the target has several kinds of ranks, or the plan has axes with shares. */
bool tool_ranks_differ(const Build *b);
/* Print that table, or return it as JSON. */
void tool_ranks_show(Tool *t, const Build *b);
json_t *tool_ranks_json(Tool *t, const Build *b);

#endif
