/* passes/facts/same_weight.h - operations that read the same weight or state.  A small weight has a read for every user
 * (unshare.c); a state has one per entry of a joint function (ir/joint.h).  Reads with equal layouts share one copy in
 * the memory of a stage. */
#ifndef APC_PASSES_FACTS_SAME_WEIGHT_H
#define APC_PASSES_FACTS_SAME_WEIGHT_H

#include "ir/ir.h"

typedef struct SameWeight {
  const size_t *first; /* by operation: the first one that reads the same weight or state; itself for all others */
  const int *reads;    /* by operation: the number of these reads; 1 for all others */
} SameWeight;

/* Finds the reads of each weight and state, in the arena. */
SameWeight weight_readers(Arena *a, const Func *f);

#endif
