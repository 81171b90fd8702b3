/* passes/facts/blocks.h - repeated blocks of a flat level-1 function: transformer layers, residual blocks (D30).
 *
 * A block is a segment that occurs several times in a row.  Operations of equal block and index in different instances
 * are the same up to names, weights and the numbers in constants: equal kind, attributes and types; an operand that
 * comes from inside the instance comes from the same index in every instance; an operand that comes from outside does
 * so in every instance.  A weight, state or constant that only one instance uses belongs to it; what several instances
 * share is outside.
 */
#ifndef APC_PASSES_FACTS_BLOCKS_H
#define APC_PASSES_FACTS_BLOCKS_H

#include "ir/ir.h"

typedef struct BlockPlace {
  int block; /* -1: outside of blocks, then the rest is 0 */
  int instance;
  int index;
} BlockPlace;

typedef struct Block {
  int size;            /* operations of one instance */
  int instances;       /* at least 2, in the function's order */
  const uint32_t *ops; /* the operation at ops[instance * size + index] */
} Block;

typedef struct Blocks {
  int n; /* in the function's order */
  const Block *items;
  const BlockPlace *places; /* by operation */
} Blocks;

/* Deterministic; n log n in the operations.  The result is in the arena. */
Blocks blocks_find(Arena *a, const Func *f);

/* Weights, states read and what has no operands; inputs are not among them: they belong to the function. */
bool blocks_is_source(OpKind k);

#endif
