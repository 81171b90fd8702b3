/* passes/rewrite/positions.h - integers and conditions that a function computes from indices and sizes alone, element
 * by element; private to the patterns of recognise.h.
 *
 * The element of an integer value at given indices is a sum of indices times sizes (an IndexSum), that of a condition a
 * conjunction of "IndexSum >= 0".  Operations that only move elements are followed (reshapes, slices, concatenations,
 * look-ups at positions); comparisons are decided if the ranges of the indices decide them.  So masks that exporters
 * compute at run time, from positions of tokens or by running sums, are recognised as "key <= query", or as no mask at
 * all.
 */
#ifndef APC_PASSES_REWRITE_POSITIONS_H
#define APC_PASSES_REWRITE_POSITIONS_H

#include "ir/ir.h"

enum { MAX_INDICES = 16, MAX_CONDITIONS = 4 };

/* base + the sum of factor[i] times index i; a factor of NULL is 0. */
typedef struct IndexSum {
  const Expr *base;
  const Expr *factor[MAX_INDICES];
} IndexSum;

/* Indices, and the function whose values they index. */
typedef struct Positions {
  Module *m;
  const Func *f;
  int n;
  const Expr *extent[MAX_INDICES]; /* index i is in [0, extent[i]) */
  int steps, depth;                /* operations that may still be visited, current nesting depth */
} Positions;

/* All sums are >= 0; without sums always true. */
typedef struct Conditions {
  bool never; /* always false */
  int n;
  IndexSum least[MAX_CONDITIONS];
} Conditions;

/* One number where the conditions hold, and another one elsewhere. */
typedef struct Choice {
  Conditions when;
  double then, otherwise;
} Choice;

/* Returns a state without indices, with a fresh limit of steps. */
Positions positions_new(Module *m, const Func *f);
/* Adds an index; returns the constant 0 if the extent is 1. */
IndexSum position_index(Positions *p, const Expr *extent);

/* x + y * by */
IndexSum position_sum(const Positions *p, const IndexSum *x, const IndexSum *y, const Expr *by);
/* True if the sum is the same at all indices. */
bool position_is_size(const Positions *p, const IndexSum *x);
/* Negates the conditions; false if the result is not a conjunction. */
bool conditions_negate(const Positions *p, Conditions *c);

/* Find the element of `v` at these indices, one per dimension, as a sum, conditions or a choice; false if it is not
 * known to be one. */
bool position_of(Positions *p, Val v, const IndexSum *at, IndexSum *out);
bool conditions_of(Positions *p, Val v, const IndexSum *at, Conditions *out);
bool choice_of(Positions *p, Val v, const IndexSum *at, Choice *out);
/* Returns the operand, and its indices, from which the element of `v` at these indices is moved; 0 if none. */
Val position_moved(Positions *p, Val v, const IndexSum *at, IndexSum *in);

#endif
