/* passes/facts/blocks.h - repeated blocks of a flat level-1 function: transformer layers, residual blocks (D30).
 *
 * A block is a segment that occurs several times in a row.  Operations of equal block and index in different instances
 * are equal except for names, weights and the numbers in constants: equal kind, attributes and types.  An operand from
 * inside the instance comes from the same index in every instance; an operand from outside comes from outside in every
 * instance.  A weight, state or constant that only one instance uses belongs to it; shared ones are outside.
 */
#ifndef APC_PASSES_FACTS_BLOCKS_H
#define APC_PASSES_FACTS_BLOCKS_H

#include "ir/ir.h"

typedef struct BlockPlace {
  int block; /* -1 if outside all blocks; the other fields are then 0 */
  int instance;
  int index;
} BlockPlace;

typedef struct Block {
  int size;            /* operations per instance */
  int instances;       /* at least 2, in the function's order */
  const uint32_t *ops; /* the operation at ops[instance * size + index] */
} Block;

typedef struct Blocks {
  int n; /* in the function's order */
  const Block *items;
  const BlockPlace *places; /* by operation */
} Blocks;

/* Finds the blocks, in the arena.  Deterministic; n log n in the operations. */
Blocks blocks_find(Arena *a, const Func *f);

/* True for weights, reads of states and other operations without operands; false for inputs, which belong to the
 * function. */
bool blocks_is_source(OpKind k);

#endif
