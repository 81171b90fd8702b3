/* passes/plan/positions.h - where stages may begin: before an operation of the forward pass, where few values cross. */
#ifndef APC_PASSES_PLAN_POSITIONS_H
#define APC_PASSES_PLAN_POSITIONS_H

#include "ir/loops.h"
#include "ir/states.h"

/* What holds of a function whatever its strategies are. */
typedef struct CutFacts {
  const Func *f;
  const bool *derived; /* by operation: every stage computes it for itself */
  const bool *once;    /* by operation: once_ops */
  StateOps states;
  const size_t *first_user; /* by value; the number of operations: none */
  const size_t *training;   /* homes_of */
} CutFacts;
CutFacts cut_facts(Arena *a, const Func *f);

/* The first operation that reads the state which this operation writes.  NULL if no operation reads it, or if this one
 * writes no state. */
const Op *cut_read_of(const CutFacts *k, size_t write);

/* Operations in ascending order, the first 0 and the last their number. */
typedef struct CutPositions {
  int n;
  int *at;
} CutPositions;

/* Enough of them for so many stages to be about equal, if there are; those that few values cross come first. */
CutPositions cut_positions(Arena *a, const CutFacts *k, const Loops *loops, int stages);

/* By position the operations whose results cross it, one for each result: makers[starts[p]] .. [starts[p + 1] - 1]. */
typedef struct CutCrossing {
  size_t *starts, *makers;
} CutCrossing;
CutCrossing cut_crossing(Arena *a, const CutFacts *k, const CutPositions *p);

#endif
