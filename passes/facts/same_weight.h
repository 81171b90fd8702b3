/* passes/facts/same_weight.h - which operations read one weight: small ones have a read for every user (unshare.c);
 * which ones read one state: each entry of a joint function (ir/joint.h) does.  Reads with equal layouts are one copy
 * in the memory of a stage. */
#ifndef APC_PASSES_FACTS_SAME_WEIGHT_H
#define APC_PASSES_FACTS_SAME_WEIGHT_H

#include "ir/ir.h"

typedef struct SameWeight {
  const size_t *first; /* by operation: the first one that reads the same weight or state; itself for all others */
  const int *reads;    /* by operation: how many read that; 1 for all others */
} SameWeight;

SameWeight weight_readers(Arena *a, const Func *f);

#endif
