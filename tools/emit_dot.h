/* tools/emit_dot.h - --emit=dot: the graph of a plan for Graphviz, with its layers folded. */
#ifndef APC_TOOLS_EMIT_DOT_H
#define APC_TOOLS_EMIT_DOT_H

#include "base/text.h"
#include "ir/layout/rule.h"
#include "passes/plan/plan.h"

/* Appends the graph of the level-1 function; the module's mesh is the plan's. */
void tool_dot_print(Module *m, const Func *f, const Plan *plan, const char *title, Text *out);

#endif
