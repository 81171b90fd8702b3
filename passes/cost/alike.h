/* passes/cost/alike.h - operations that cost the same under the same strategy, and what they cost on a mesh.
 *
 * Layers repeat, and a plan is priced many times: each operation of a kind is priced once with each strategy.
 */
#ifndef APC_PASSES_COST_ALIKE_H
#define APC_PASSES_COST_ALIKE_H

#include "ir/layout/rule.h"
#include "ir/legal_join.h"
#include "passes/cost/cost.h"
#include "passes/cost/parts.h"

/* By operation the first one that is alike: of the same kind, attributes and types, joined alike to what is before it,
 * and the same part of a kernel and of a product (`together`; NULL: of none).  In the arena. */
const size_t *cost_alike_of(Arena *a, const Func *f, const LegalJoin *joins, const KernelPart *parts,
                            const Together *together);

/* What it is priced as. */
typedef enum PricedAs { PRICED_KERNEL, PRICED_JOINED, PRICED_WHOLE } PricedAs;

/* Prices by operation, what it is priced as, and strategy.  Begins as {.arena = ...}. */
typedef struct Prices {
  Arena *arena;
  struct Priced *items; /* open addressing; `slots` is a power of two */
  size_t slots, n;
} Prices;

/* Where the price of the operation is, or will be; *known: it is there. */
OpCost *cost_price_of(Prices *p, const Op *op, PricedAs as, const Strategy *s, bool *known);

#endif
