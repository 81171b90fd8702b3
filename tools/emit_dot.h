/* tools/emit_dot.h - --emit=dot: the model with the choices of its plan, as a graph for Graphviz. */
#ifndef APC_TOOLS_EMIT_DOT_H
#define APC_TOOLS_EMIT_DOT_H

#include "passes/plan.h"

/* The mesh of the module must be that of the plan. */
void dot_print(Module *m, const Func *f, const Plan *plan, const char *title, Text *out);

#endif
