/* passes/facts/derived.h - operations computed from constants alone: masks, positions, tables of sines.  In a training
 * step also from scalar inputs such as the number of the step: learning rates.
 *
 * Every pipeline stage computes them itself instead of receiving them, so they never tie stages together. */
#ifndef APC_PASSES_FACTS_DERIVED_H
#define APC_PASSES_FACTS_DERIVED_H

#include "ir/ir.h"

/* By operation: true if it depends on no input, weight, state or random number; in a training step also if it is a
 * scalar that depends on scalar inputs.  In the arena. */
const bool *derived_ops(Arena *a, const Func *f);

/* By operation: true if it may run once, before all micro-batches: derived from constants, or placed there by level 1;
 * in a training step also if only inputs and weights determine it. */
const bool *once_ops(Arena *a, const Func *f);

#endif
