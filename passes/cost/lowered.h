/* passes/cost/lowered.h - the time that a plan's price counts for each operation of its level-2 function.
 *
 * Pricing and lowering follow the same walk, whose steps have numbers (Walk.step): the entry of a step in the ledger is
 * the time of the operation that this step built. */
#ifndef APC_PASSES_COST_LOWERED_H
#define APC_PASSES_COST_LOWERED_H

#include "passes/cost/ledger.h"
#include "passes/lower/lower.h"

/* Returns by operation of level 2 the seconds of one execution; 0 for operations that cost nothing.  Kernels of rows:
 * the sum of a kernel's operations is its time.  `steps`: as lower_spmd filled them for the choice of the ledger. */
const double *cost_of_lowered(Arena *a, const PlanLedger *ledger, const LowerSteps *steps);

#endif
