/* tools/emit_dot.h - --emit=dot: the model with its plan, as a graph for Graphviz. */
#ifndef APC_TOOLS_EMIT_DOT_H
#define APC_TOOLS_EMIT_DOT_H

#include "ir/layout/rule.h"
#include "passes/plan/plan.h"

/* A use of a value. */
typedef struct GraphEdge {
  size_t from, to; /* operations */
  const Layout *made, *wanted;
  bool changes; /* the layout changes on the way */
  bool crosses; /* leads to another stage */
} GraphEdge;

/* False for constants and sizes, which are many and of little interest. */
bool tool_graph_shows(const Op *op);
/* Gives operand `operand` of operation `to`; false if its source is not shown. */
bool tool_graph_edge(Module *m, const Func *f, const Plan *plan, const Rule *const *rules, size_t to, int operand,
                     GraphEdge *out);

/* Prints the graph.  The module must have the mesh of the plan. */
void tool_dot_print(Module *m, const Func *f, const Plan *plan, const char *title, Text *out);

#endif
