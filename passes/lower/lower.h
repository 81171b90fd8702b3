/* passes/lower/lower.h - SPMD lowering: a level-1 function and a choice per operation become the level-2 program of
 * every rank.
 *
 * For each operation, in order: convert its operands to the layouts its strategy asks for (each (value, layout, stage)
 * once, D3), emit the operation on local types with its local offsets, or its decomposition when a body factor is cut.
 * Sources (input, param, read, const, size, iota, random) are emitted once per stage that uses them.
 */
#ifndef APC_PASSES_LOWER_LOWER_H
#define APC_PASSES_LOWER_LOWER_H

#include "ir/layout/convert.h"
#include "ir/layout/rule.h"

typedef struct LowerPlan {
  const Strategy *strategies; /* one per operation of the level-1 function */
  const int *stages;          /* one per operation; NULL: all in stage 0 */
  MoveCost cost;              /* NULL: move_cost_bytes */
  void *cost_context;
} LowerPlan;

/* The level-2 function `name` in the same module; module_set_mesh must have been called.  NULL after diagnostics (no
 * conversion path, illegal strategy).  Outputs keep the layout they have, sums resolved. */
Func *lower_spmd(Module *m, const Func *l1, const LowerPlan *plan, const char *name, Diags *diags);

/* The level-2 form of @prepare: every weight that the users (level-2 functions) read and @prepare makes, in each layout
 * and stage it is read in, as an output of its name.  Parallel factors carry the cut of a result back to the operands;
 * what they cannot carry is computed whole and sliced.  There is no communication: any rank may read any part of a
 * weight.  NULL after diagnostics. */
Func *lower_prepare(Module *m, const Func *l1, int nusers, Func *const *users, const char *name, Diags *diags);

#endif
