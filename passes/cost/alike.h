/* passes/cost/alike.h - operations that cost the same under the same strategy, and their prices on a mesh.
 *
 * Layers repeat and a plan is priced many times, so each kind of operation is priced once per strategy.
 */
#ifndef APC_PASSES_COST_ALIKE_H
#define APC_PASSES_COST_ALIKE_H

#include "ir/layout/rule.h"
#include "ir/legal_join.h"
#include "passes/cost/cost.h"
#include "passes/cost/parts.h"

/* Returns, by operation, the first operation that costs the same: equal kind, attributes and types, joined in the same
 * way to the operation before it, and the same part of a kernel and of a product (`together`; NULL if dots are never
 * joined).  In the arena. */
const size_t *cost_alike_of(Arena *a, const Func *f, const LegalJoin *joins, const KernelPart *parts,
                            const Together *together);

/* How an operation is priced. */
typedef enum PricedAs { PRICED_KERNEL, PRICED_JOINED, PRICED_WHOLE } PricedAs;

/* Prices by operation, PricedAs and strategy.  Begins as {.arena = ...}. */
typedef struct Prices {
  Arena *arena;
  struct Priced *items; /* open addressing; `slots` is a power of two */
  size_t slots, n;
} Prices;

/* Returns the slot of a price; *known is true if it holds a price, else the caller fills it. */
OpCost *cost_price_of(Prices *p, const Op *op, PricedAs as, const Strategy *s, bool *known);

#endif
