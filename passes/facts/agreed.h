/* passes/facts/agreed.h - how all ranks run the same number of rounds of a loop, and bind the same sizes.
 *
 * Ranks with different counts, or different bits of `again`, would wait for each other for ever.  Most loop control
 * needs no communication, because it comes from sizes, constants and integers that all ranks have; otherwise all ranks
 * take the value of coordinate 0.
 */
#ifndef APC_PASSES_FACTS_AGREED_H
#define APC_PASSES_FACTS_AGREED_H

#include "ir/layout/convert.h"

/* By value of a level-1 function: true if all ranks compute it exactly from values that all of them have: constants,
 * sizes, rounds, integer inputs and weights.  False if it depends on floats of a request, states or float contractions.
 * In the arena. */
const bool *agreed_values(Arena *a, const Func *f);

/* Returns the value that controls the loop, repeat or bind: its count, `again`, or the size; 0 if none. */
Val agreed_loop_control(const Op *op);

/* Finds the moves that replace a replicated scalar by the one of coordinate 0 of all spatial axes; false on a mesh
 * without such axes. */
bool agreement_find(Module *m, const Type *scalar, MoveCost cost, void *context, Conversion *out);

#endif
