/* passes/cost/assumed.h - kernels that are known from publications but not built here (Target.assumes).
 *
 * apc lacks four kernels of published programs: one product for all products that share an operand (queries, keys and
 * values; gate and up); gradient products that add to the f32 sum over micro-batches; gradients of elementwise chains
 * that recompute the chain from values that the forward pass stores anyway; and attention that distributes queries so
 * that causal masks leave equal work to all ranks (cost.c).  Their prices are local to an operation, so bounds count
 * them in the same way as plans.
 */
#ifndef APC_PASSES_COST_ASSUMED_H
#define APC_PASSES_COST_ASSUMED_H

#include "passes/cost/cost.h"

/* Returns, by operation of level 1, the larger product that it is part of.  In the arena. */
const Together *cost_assume_together(Arena *a, const CostModel *c, const Func *f);
/* Changes `parts` to the reads and stores of the assumed kernels; `a` is the arena of `parts`. */
void cost_assume_parts(Arena *a, const Func *f, KernelPart *parts);

#endif
