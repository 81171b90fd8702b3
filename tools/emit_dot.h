/* tools/emit_dot.h - --emit=dot: the model with the choices of its plan, as a graph for Graphviz. */
#ifndef APC_TOOLS_EMIT_DOT_H
#define APC_TOOLS_EMIT_DOT_H

#include "ir/layout/rule.h"
#include "passes/plan/plan.h"

/* A use of a value. */
typedef struct GraphEdge {
  size_t from, to; /* operations */
  const Layout *made, *wanted;
  bool changes; /* the layout has to change on the way */
  bool crosses; /* to another stage */
} GraphEdge;

/* Constants and sizes tell nothing in a picture and are many. */
bool tool_graph_shows(const Op *op);
/* Operand `operand` of operation `to`; false when its source is not shown. */
bool tool_graph_edge(Module *m, const Func *f, const Plan *plan, const Rule *const *rules, size_t to, int operand,
                     GraphEdge *out);

/* The mesh of the module must be that of the plan. */
void tool_dot_print(Module *m, const Func *f, const Plan *plan, const char *title, Text *out);

#endif
