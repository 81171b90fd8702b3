/* passes/facts/zero.h - how a plan spreads the training state over data-parallel ranks: ZeRO (Rajbhandari et al., 2020)
 * as three choices per weight (D46).  No other part of the compiler knows of ZeRO.
 *
 *   storage    the strategy of the read of a trained weight; its moments and its update follow it
 *   gradient   the strategy of the operation that accumulates its gradient
 *   gather     once, for the forward pass and gradients, before all micro-batches; or at use, in each micro-batch
 *              (Strategy.gather_at_use of the read)
 *
 * Other forms of a weight, as its cast to 16 bits, may be made of the stored shards: then these are gathered, which is
 * half as many bytes.
 *
 * Stage 0 splits nothing over data-parallel ranks, stage 1 the storage, stage 2 the gradient as well, and stage 3
 * gathers at use.  In stages 1 and 2 a rank has all weights whole while a step runs, in stage 3 one after another.
 */
#ifndef APC_PASSES_FACTS_ZERO_H
#define APC_PASSES_FACTS_ZERO_H

#include "ir/layout/rule.h"
#include "passes/facts/mirror.h"

enum { ZERO_AT_USE = 3, ZERO_STAGES };

/* The role of an operation for the training state: it reads a trained weight, accumulates a gradient, is part of an
 * update, or none of these. */
typedef enum ZeroRole { ZERO_OP, ZERO_STORE, ZERO_GRAD, ZERO_UPDATE, ZERO_ROLES } ZeroRole;

/* True if the result has the elements of the operand, in another type, order or shape. */
static inline bool zero_keeps_elements(OpKind k) {
  return k == OP_cast || k == OP_transpose || k == OP_reshape || k == OP_copy;
}

/* True if the operation reads a trained weight.  A statistic of the data, as of a batch norm, is none: it stays
 * whole. */
bool zero_is_storage(Module *m, const Op *op);
/* By operation: true if it reads a trained weight, or changes its type, order or shape.  In the arena.
 */
const bool *zero_forms(Arena *a, Module *m, const Func *f);
/* True if the operation accumulates a gradient, the loss, or a statistic of the data. */
static inline bool zero_is_gradient(const Op *op) { return op->kind == OP_accumulate; }
/* True for gradients alone, which --zero places. */
static inline bool zero_places(const Op *op) { return op->kind == OP_accumulate && phase_backward(op->phase); }

/* Returns the number of parts into which these axes split the operation's dimensions. */
double zero_parts(const Mesh *mesh, const Rule *r, const Strategy *s, uint32_t axes);
/* Returns the axes, as a bit set, over which the operation passes partial sums on. */
uint32_t zero_partial_axes(const Rule *r, const Strategy *s);

/* Sets whether sharded weights are gathered at use or once; false if there are none. */
bool zero_gather_at_use(Module *m, const Func *f, Strategy *strategies, bool at_use);

/* Returns the stage of most elements of trained weights; `data`: the axes of data-parallel ranks, as a bit set. */
int zero_stage(Module *m, const Mesh *mesh, const Func *f, const Rule *const *rules, const Strategy *strategies,
               uint32_t data, const Mirrors *mirrors);

/* Finds operations that need no line in a plan file: an update follows the storage of its weight.  In the arena. */
typedef struct ZeroUpdates ZeroUpdates;
ZeroUpdates *zero_updates(Arena *a, Module *m, const Func *f, const Rule *const *rules);
const Mirrors *zero_mirrors(const ZeroUpdates *u);
/* Returns the role of operation number `op`. */
ZeroRole zero_role(const ZeroUpdates *u, size_t op);
/* Derives the strategy of operation number `op` from the others; false if it is not part of an update. */
bool zero_follows(const ZeroUpdates *u, const Mesh *mesh, size_t op, const Strategy *strategies, Strategy *out);

#endif
