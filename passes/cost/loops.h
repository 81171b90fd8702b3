/* passes/cost/loops.h - what loops do to costs: how often each operation runs, and what ranks pay to agree about
 * rounds.
 *
 * The body of a loop runs as often as the bound `trips` says, or, without one and without a condition, as a constant or
 * size that is its count; else it is planned as one round.  Rounds of nested loops multiply.
 * What comes into a loop from outside is converted once, before the outermost loop that does not remake it; so the
 * conversions of a value run as often as what makes it, wherever they are asked for.
 * Of a joint function (ir/joint.h) each entry runs as often as its weight says.
 */
#ifndef APC_PASSES_COST_LOOPS_H
#define APC_PASSES_COST_LOOPS_H

#include "ir/joint.h"
#include "ir/loops.h"
#include "passes/cost/cost.h"

typedef struct LoopCosts {
  const Func *f;
  Loops loops;
  const double *rounds; /* by loop: of its body, in one run of the function */
  const bool *agreed;   /* by value (agreed.h) */
  const bool *again;    /* by operation: made once more for gradients (D47); NULL: none is */
} LoopCosts;

/* In the arena; symbols count as their hint.  `again`: see there. */
const LoopCosts *cost_loops(Arena *a, const CostModel *c, const Func *f, const bool *again);

/* The loop that makes the value anew in each round; -1: none.  Sources are made outside, wherever they stand. */
int cost_loop_of_value(const Loops *l, const Func *f, Val v);

/* How often the body of that loop runs in one run of the function (-1: once), how often operation number `op` does, for
 * gradients as well, and how often its result is converted. */
double runs_in_loop(const LoopCosts *l, int loop);
double runs_of_op(const LoopCosts *l, size_t op);
double runs_of_result(const LoopCosts *l, const Func *f, size_t op);

/* All runs of operation number `op`, with what ranks pay to agree about rounds. */
OpCost cost_op_runs(CostModel *c, const LoopCosts *l, const Func *f, size_t op, const Rule *r, const Strategy *s);

#endif
