/* passes/lower/lower.h - SPMD lowering: turns a level-1 function and a strategy and stage per operation into the
 * level-2 program of every rank.
 *
 * For each operation, in order: convert its operands to the layouts of its strategy (each (value, layout, stage) once,
 * D3), then emit the operation on local types with its local offsets, or its decomposition if a body factor is split.
 * Sources (input, param, read, const, size, iota, random) are emitted once per stage that uses them.
 */
#ifndef APC_PASSES_LOWER_LOWER_H
#define APC_PASSES_LOWER_LOWER_H

#include "ir/layout/convert.h"
#include "ir/layout/rule.h"

/* By operation of level 2: the step of the walk that built it (Walk.step), and its number among those that this step
 * built.  Sources have step 0. */
typedef struct LowerStep {
  size_t step, part;
} LowerStep;

typedef struct LowerSteps {
  LowerStep *items;
  size_t n, cap;
} LowerSteps;

typedef struct LowerPlan {
  const Strategy *strategies; /* one per operation of the level-1 function */
  const int *stages;          /* one per operation; NULL: all in stage 0 */
  MoveCost cost;              /* NULL: move_cost_bytes */
  void *cost_context;
  LowerSteps *steps; /* begins empty, and is filled in the module's arena; NULL if not needed */
} LowerPlan;

/* Builds the level-2 function `name` in the same module; call module_set_mesh before.  Outputs keep their layouts, with
 * partial sums reduced.  NULL after diagnostics (no conversion path, illegal strategy). */
Func *lower_spmd(Module *m, const Func *l1, const LowerPlan *plan, const char *name, Diags *diags);

/* Builds level 2 of @prepare: its outputs are the prepared weights that the users (level-2 functions) read, in each
 * layout and stage in which they read them.  Parallel factors carry the split of a result back to the operands; splits
 * that they cannot carry are computed whole and sliced.  There is no communication: any rank may read any part of a
 * weight.  NULL after diagnostics. */
Func *lower_prepare(Module *m, const Func *l1, int nusers, Func *const *users, const char *name, Diags *diags);

#endif
