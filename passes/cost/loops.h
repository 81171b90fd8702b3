/* passes/cost/loops.h - costs of loops: how often each operation runs, and the cost of agreeing on the number of
 * rounds.
 *
 * The body of a loop runs as often as ir/loops.h knows, else it is planned as one round.  Rounds of nested loops
 * multiply. Values from outside a loop are converted once, before the outermost loop that does not recompute them; so
 * conversions of a value run as often as the operation that makes it, wherever they are needed.  Each entry of a joint
 * function (ir/joint.h) runs as often as its weight says.
 */
#ifndef APC_PASSES_COST_LOOPS_H
#define APC_PASSES_COST_LOOPS_H

#include "ir/joint.h"
#include "ir/loops.h"
#include "passes/cost/cost.h"

typedef struct LoopCosts {
  const Func *f;
  Loops loops;
  const double *rounds; /* by loop: rounds of its body in one run of the function */
  const bool *agreed;   /* by value (agreed.h) */
  const bool *again;    /* by operation: recomputed for gradients (D47); NULL if none */
} LoopCosts;

/* Returns the costs of f's loops, in the arena; symbols count with their hint.  `again`: see LoopCosts. */
const LoopCosts *cost_loops(Arena *a, const CostModel *c, const Func *f, const bool *again);

/* Returns the loop that makes the value anew in each round; -1 if none.  Sources are always made outside. */
int cost_loop_of_value(const Loops *l, const Func *f, Val v);

/* Runs per run of the function: of a loop's body (-1: 1), of operation `op` (with recomputation), and of the
 * conversions of its result. */
double runs_in_loop(const LoopCosts *l, int loop);
double runs_of_op(const LoopCosts *l, size_t op);
double runs_of_result(const LoopCosts *l, const Func *f, size_t op);

/* Returns the cost of all runs of operation `op`, with the agreement on the number of rounds. */
OpCost cost_op_runs(CostModel *c, const LoopCosts *l, const Func *f, size_t op, const Rule *r, const Strategy *s);

#endif
