/* passes/facts/mirror.h - operations that share the planner variable of another operation (D57, D60).
 *
 * A training step is planned like its forward pass.  An operation that makes a gradient of data has no variable of its
 * own: its strategy follows from that of the operation whose derivative it is.  All operations of an update follow the
 * read of the weight.  Sums of gradients follow the maker of the value; a sum that may be partial has a variable of its
 * own, so that it may also stay partial, and all sums of one value share it.  Gradients of weights, which only updates
 * read, choose freely.  The operations record what they follow (Mirror, ir/ir.h).
 *
 * Operations that one kernel computes dimension by dimension follow the first of them.  An operation that repeats a
 * value for one reader follows this reader, although it comes before it.  An operation that may pass a partial sum on
 * has a variable of its own, unless its kernel needs the value reduced anyway.  Three or more slices of
 * one type follow the maker of their operand if it has no other reader.  An operation that the user gives a layout
 * shares its variable only with derivatives, so that every operation of a kernel may be given its own.
 *
 * A strategy gives axes to factors.  To follow, a factor must be known to be a factor of the followed operation, its
 * head: dimensions of the head's operands and results, and of their gradients, have its factors; the rules of the
 * followers spread them to other dimensions.  An axis of the head that none of a follower's factors has does not split
 * it.
 */
#ifndef APC_PASSES_FACTS_MIRROR_H
#define APC_PASSES_FACTS_MIRROR_H

#include "ir/loops.h"
#include "ir/layout/rule.h"

typedef struct Mirrors {
  bool any;
  const size_t *head;   /* by operation: the one whose variable it has; its own index if it follows none */
  const size_t *sum_of; /* by operation: of the first sum of gradients that may be partial, the maker of the value; else
                         * SIZE_MAX */
  const bool *may_be_partial;     /* by value: it may be a partial sum */
  const int8_t *const *factors;   /* by following operation (also sums) and factor: the head's factor; -1 if none */
  const int *nfollowers;          /* by head */
  const size_t *const *followers; /* by head, in the function's order */
} Mirrors;

/* Finds the followers.  Operations that are made anywhere, or derived from constants, neither follow nor are followed.
 * `kernel`: by operation the kernel of rows that computes it, -1 if none; NULL if kernels do not matter.  `marks`: by
 * operation, not 0 if the user gives it a layout; NULL if none has one.  In the arena. */
Mirrors mirrors_of(Arena *a, const Func *f, const Rule *const *rules, const Loops *loops, const int *kernel,
                   const uint64_t *marks);

/* Returns the strategy of a follower whose head has strategy `head`: as much of it as is legal. */
Strategy mirror_strategy(const Mesh *mesh, const Rule *r, const int8_t *factors, const Strategy *head);

/* True if a sum of gradients may have strategy `s` when the maker of the value has `head`: it follows except on axes on
 * which it passes partial sums on. */
bool mirror_sum_fits(const Mesh *mesh, const Rule *r, const int8_t *factors, const Strategy *head, const Strategy *s);

#endif
