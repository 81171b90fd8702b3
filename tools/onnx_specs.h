/* tools/onnx_specs.h - the annotations that a plan gives the nodes of an ONNX graph.
 *
 * In: the model as imported, which has the graph's values, and the planned function, in which the level-1 passes have
 * rewritten it (passes/facts/counterpart.h).
 *
 * Out: for each node the stage, and specs of those operands and results whose layout the plan determines.  There is no
 * spec for a partial value, or for one that operations of the node want in different layouts.  A node that became part
 * of another operation, or computes a constant, has no specs of its own and the stage of its first reader.
 */
#ifndef APC_TOOLS_ONNX_SPECS_H
#define APC_TOOLS_ONNX_SPECS_H

#include "frontend/onnx/annotate.h"
#include "frontend/onnx/names.h"
#include "passes/plan/plan.h"

/* The graph and the functions. */
typedef struct OnnxSpecsOf {
  Arena *arena;
  const Onnx__GraphProto *graph;
  Module *imported; /* the model's module, and its function */
  const Func *from;
  const char *const *places; /* by node: Loc.node of its operations in both functions; NULL if there are none */
  const int *operations;     /* instead of places, by node: its operation of `from`, -1 if none */
  NameMap values;            /* tensor -> its value of `from`, as a pointer */
  Module *m;                 /* the planned function, with the plan's mesh */
  const Func *planned;
  const Plan *plan;
} OnnxSpecsOf;

/* Returns the annotations by node of the graph. */
OnnxAnnotation *tool_onnx_specs(const OnnxSpecsOf *o);

#endif
