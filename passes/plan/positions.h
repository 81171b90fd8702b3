/* passes/plan/positions.h - positions at which stages may begin: before operations of the forward pass, where few
 * values cross. */
#ifndef APC_PASSES_PLAN_POSITIONS_H
#define APC_PASSES_PLAN_POSITIONS_H

#include "ir/loops.h"
#include "ir/states.h"

/* Facts about a function that do not depend on strategies. */
typedef struct CutFacts {
  const Func *f;
  const bool *derived; /* by operation: every stage computes it itself */
  const bool *once;    /* by operation: once_ops */
  StateOps states;
  const size_t *first_user; /* by value; the number of operations if none */
  const size_t *training;   /* homes_of */
} CutFacts;
/* Computes the facts, in the arena. */
CutFacts cut_facts(Arena *a, const Func *f);

/* Returns the first operation that reads the state which operation `write` writes; NULL if none reads it, or if `write`
 * writes no state. */
const Op *cut_read_of(const CutFacts *k, size_t write);

/* Operations in ascending order, the first 0 and the last their number. */
typedef struct CutPositions {
  int n;
  int *at;
} CutPositions;

/* Returns enough positions for that many stages of about equal size, if there are; positions crossed by few values come
 * first. */
CutPositions cut_positions(Arena *a, const CutFacts *k, const Loops *loops, int stages);

/* By position the makers of the values that cross it, one entry per value: makers[starts[p]] .. [starts[p + 1] - 1]. */
typedef struct CutCrossing {
  size_t *starts, *makers;
} CutCrossing;
CutCrossing cut_crossing(Arena *a, const CutFacts *k, const CutPositions *p);

#endif
