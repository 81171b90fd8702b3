/* passes/cost/assumed.h - what kernels are assumed that are known but not built (Target.assumes).
 *
 * Published programs have four that ours have not: one product for all that multiply one operand (queries, keys and
 * values; gate and up); products of gradients that add to the sum over micro-batches in f32; gradients of elementwise
 * chains that compute the chain again from what the forward pass has in memory anyway, so that it stores nothing for
 * them; and attention that deals out its queries so that causal masks leave all ranks equal work (cost.c).  Prices of
 * them are local to an operation, so bounds count them as plans do.
 */
#ifndef APC_PASSES_COST_ASSUMED_H
#define APC_PASSES_COST_ASSUMED_H

#include "passes/cost/cost.h"

/* By operation of level 1. */
const Together *cost_assume_together(Arena *a, const CostModel *c, const Func *f);
/* Changes parts to what such kernels read and store; the arena is that of the parts. */
void cost_assume_parts(Arena *a, const Func *f, KernelPart *parts);

#endif
