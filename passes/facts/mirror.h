/* passes/facts/mirror.h - which operations share the planner variable of another one (D57, D60).
 *
 * A training step is planned as its forward pass is: what makes a gradient of data has no choice of its own, but the
 * strategy that follows from that of the operation whose derivative it is, and all of an update follows the read of the
 * weight.  Sums of gradients follow what makes the value; one that may be partial has a variable of its own, with which
 * it may also stay partial, and all sums of one value have the same.  Gradients of weights, which nothing but updates
 * reads, choose freely.  Who follows whom is said by the operations (Mirror, ir/ir.h).
 *
 * What one kernel computes dimension by dimension follows the first such operation of it, and what repeats a value for
 * one reader follows that, though it stands before it.  What may pass on a sum that is not summed up yet has a choice
 * of its own, unless its kernel needs the value summed up anyway.  Slices follow the maker of a value that nothing else
 * reads, if they are three or more of one type.
 *
 * A strategy gives axes to factors.  To follow one, a factor must be known to be a factor of the operation that is
 * followed, its head: dimensions of the head's operands and results, and of their gradients, have its factors; through
 * the rules of the followers what is known of one dimension spreads to the others.  An axis of the head that is given
 * to none of a follower's factors does not cut it.
 */
#ifndef APC_PASSES_FACTS_MIRROR_H
#define APC_PASSES_FACTS_MIRROR_H

#include "ir/loops.h"
#include "ir/layout/rule.h"

typedef struct Mirrors {
  bool any;
  const size_t *head;   /* by operation: whose variable it has; its own index when it follows nobody */
  const size_t *sum_of; /* by operation, the first sum of gradients that may be partial: what makes the value; SIZE_MAX:
                         * something else */
  const bool *may_be_partial;     /* by value: it can be a sum that is not summed up yet */
  const int8_t *const *factors;   /* by operation that follows, a sum too; by factor: that of the head; -1: none */
  const int *nfollowers;          /* by head */
  const size_t *const *followers; /* by head, in the function's order */
} Mirrors;

/* What is made anywhere, or derived from constants, follows nobody and is not followed.  `kernel`: by operation the
 * kernel of rows that computes it, -1: none; NULL: they do not matter. */
Mirrors mirrors_of(Arena *a, const Func *f, const Rule *const *rules, const Loops *loops, const int *kernel);

/* The strategy of a follower whose head has strategy `head`: as much of it as is legal. */
Strategy mirror_strategy(const Mesh *mesh, const Rule *r, const int8_t *factors, const Strategy *head);

/* May a sum of gradients have strategy `s` when what makes the value has `head`?  It follows, but on axes on which it
 * passes on partial sums. */
bool mirror_sum_fits(const Mesh *mesh, const Rule *r, const int8_t *factors, const Strategy *head, const Strategy *s);

#endif
