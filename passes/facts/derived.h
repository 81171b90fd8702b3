/* passes/facts/derived.h - operations computed from constants alone: masks, positions, tables of sines; in a training
 * step also from numbers, as which step it is: learning rates.
 *
 * Every pipeline stage computes them for itself instead of receiving them, so they never tie stages together. */
#ifndef APC_PASSES_FACTS_DERIVED_H
#define APC_PASSES_FACTS_DERIVED_H

#include "ir/ir.h"

/* By operation: true when it depends on no input, weight, state or random number, or is a number that
 * depends on scalar inputs, in a training step.  In the arena. */
const bool *derived_ops(Arena *a, const Func *f);

/* By operation: may it be done once, before all micro-batches?  So may what is derived from constants, and what level 1
 * puts there; in a training step also what inputs and weights alone determine. */
const bool *once_ops(Arena *a, const Func *f);

#endif
