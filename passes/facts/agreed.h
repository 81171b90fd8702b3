/* passes/facts/agreed.h - how ranks come to make the same rounds of a loop.
 *
 * Ranks that read different counts, or different bits of `again`, would wait for each other for ever.  Most control
 * needs no word between them, as it comes from sizes, constants and integers that all ranks have; anything else is what
 * coordinate 0 has computed.
 */
#ifndef APC_PASSES_FACTS_AGREED_H
#define APC_PASSES_FACTS_AGREED_H

#include "ir/layout/convert.h"

/* By value of a level-1 function: computed exactly, from what all ranks have: constants, sizes, rounds, integer inputs
 * and weights.  Not what floats of a request, states or contractions of floats decide.  In the arena. */
const bool *agreed_values(Arena *a, const Func *f);

/* What the loop or the repeat reads to decide: its count, or `again`; 0: nothing. */
Val agreed_loop_control(const Op *op);

/* The moves by which a replicated scalar of that type becomes what coordinate 0 of all spatial axes has; false on a
 * mesh without such axes. */
bool agreement_find(Module *m, const Type *scalar, MoveCost cost, void *context, Conversion *out);

#endif
