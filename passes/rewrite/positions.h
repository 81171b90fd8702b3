/* passes/rewrite/positions.h - integers and conditions that a function computes from indices and sizes alone, element
 * by element; private to the patterns of recognise.h.
 *
 * The element of an integer value at given indices is a sum of indices times sizes (a IndexSum), that of a condition a
 * conjunction of "IndexSum >= 0".  What only moves elements is followed (reshapes, slices, joins, tables that are
 * indexed by positions), comparisons are decided where the ranges of the indices do.  So masks that exporters compute
 * at run time, from positions of tokens or by running sums over them, are seen to be "key <= query", or nothing at all.
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

/* The indices, and the function they are indices of. */
typedef struct Positions {
  Module *m;
  const Func *f;
  int n;
  const Expr *extent[MAX_INDICES]; /* index i is in [0, extent[i]) */
  int steps, depth;                /* operations that may still be looked at, those inside each other now */
} Positions;

/* All of them are >= 0; none: always true. */
typedef struct Conditions {
  bool never; /* always false */
  int n;
  IndexSum least[MAX_CONDITIONS];
} Conditions;

/* A number where the conditions hold, and another one elsewhere. */
typedef struct Choice {
  Conditions when;
  double then, otherwise;
} Choice;

Positions positions_new(Module *m, const Func *f);
/* A new index; 0 itself where the extent is 1. */
IndexSum position_index(Positions *p, const Expr *extent);

/* x + y * by */
IndexSum position_sum(const Positions *p, const IndexSum *x, const IndexSum *y, const Expr *by);
/* Is it the same at all indices? */
bool position_is_size(const Positions *p, const IndexSum *x);
/* The contrary; false: that is no conjunction. */
bool conditions_negate(const Positions *p, Conditions *c);

/* Each is false when that is not what the element of `v` at these indices, one per dimension, is known to be. */
bool position_of(Positions *p, Val v, const IndexSum *at, IndexSum *out);
bool conditions_of(Positions *p, Val v, const IndexSum *at, Conditions *out);
bool choice_of(Positions *p, Val v, const IndexSum *at, Choice *out);
/* The operand, and the indices there, whose element the one of `v` at these indices is; 0: it is none's. */
Val position_moved(Positions *p, Val v, const IndexSum *at, IndexSum *in);

#endif
