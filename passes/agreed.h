/* passes/agreed.h - how ranks come to make the same rounds of a loop.
 *
 * Ranks that read different counts, or different bits of `again`, would wait for each other for ever.  What constants, sizes and rounds
 * determine is equal everywhere; anything else is what coordinate 0 has computed.
 */
#ifndef APC_PASSES_AGREED_H
#define APC_PASSES_AGREED_H

#include "ir/convert.h"

/* By value, at level 1 or 2: made of constants, sizes and rounds alone, by every rank for itself.  In the arena. */
const bool *agreed_values(Arena *a, const Func *f);

/* What the loop or the repeat reads to decide: its count, or `again`; 0: nothing. */
Val loop_control(const Op *op);

/* The moves by which a replicated scalar of that type becomes what coordinate 0 of all spatial axes has; false on a mesh without such axes. */
bool agreement_find(Module *m, const Type *scalar, MoveCost cost, void *context, Conversion *out);

#endif
