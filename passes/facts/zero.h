/* passes/facts/zero.h - how the training state of a plan is spread over data parallel ranks: ZeRO (Rajbhandari et al.,
 * 2020) as three choices per weight (D46), none of which any other part of the compiler knows as ZeRO.
 *
 *   storage    the strategy of the read of a trained weight; its moments and its update follow it
 *   gradient   the strategy of what accumulates its gradient
 *   gather     once, for forward pass and gradients, and before all micro-batches; or at use, in each of them
 *              (Strategy.gather_at_use of the read)
 *
 * Other forms of a weight, as its cast to 16 bits, may be made of the parts that are stored: then these are gathered,
 * half as many bytes.
 *
 * Stage 0 cuts nothing over data parallel ranks, 1 the storage, 2 the gradient as well, 3 gathers at use.  In 1 and 2
 * a rank has whole weights while a step runs, in 3 one after the other.
 */
#ifndef APC_PASSES_FACTS_ZERO_H
#define APC_PASSES_FACTS_ZERO_H

#include "ir/layout/rule.h"
#include "passes/facts/mirror.h"

enum { ZERO_AT_USE = 3, ZERO_STAGES };

/* What an operation is to the training state: it reads a trained weight, accumulates a gradient, is part of an update,
 * or none of these. */
typedef enum ZeroRole { ZERO_OP, ZERO_STORE, ZERO_GRAD, ZERO_UPDATE, ZERO_ROLES } ZeroRole;

/* What it makes has the elements of its operand, in another type, order or shape. */
static inline bool zero_keeps_elements(OpKind k) {
  return k == OP_cast || k == OP_transpose || k == OP_reshape || k == OP_copy;
}

/* The operation reads a trained weight. */
bool zero_is_storage(Module *m, const Op *op);
/* By operation: it reads a trained weight, or makes another form of one, of other type, order or shape.  In the arena.
 */
const bool *zero_forms(Arena *a, Module *m, const Func *f);
/* It accumulates a gradient, or the loss. */
static inline bool zero_is_gradient(const Op *op) { return op->kind == OP_accumulate; }

/* Into how many parts these axes cut the operation's dimensions. */
double zero_parts(const Mesh *mesh, const Rule *r, const Strategy *s, uint32_t axes);
/* Axes, as a bit set, over which it passes partial sums on. */
uint32_t zero_partial_axes(const Rule *r, const Strategy *s);

/* Has the weights that are stored in parts gathered at use, or once; false: there are none. */
bool zero_gather_at_use(Module *m, const Func *f, Strategy *strategies, bool at_use);

/* The stage that most elements of trained weights have; `data`: the axes of data parallel ranks, as a bit set. */
int zero_stage(Module *m, const Mesh *mesh, const Func *f, const Rule *const *rules, const Strategy *strategies,
               uint32_t data, const Mirrors *mirrors);

/* Which operations of a plan file need no line: an update follows the storage of its weight. */
typedef struct ZeroUpdates ZeroUpdates;
ZeroUpdates *zero_updates(Arena *a, Module *m, const Func *f, const Rule *const *rules);
const Mirrors *zero_mirrors(const ZeroUpdates *u);
/* Of operation number `op`. */
ZeroRole zero_role(const ZeroUpdates *u, size_t op);
/* The strategy of operation number `op` then; false when it is part of no update. */
bool zero_follows(const ZeroUpdates *u, const Mesh *mesh, size_t op, const Strategy *strategies, Strategy *out);

#endif
