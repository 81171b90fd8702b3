/* solver/shares.h - the conversions of one value, with their costs shared among its users.
 *
 * A layout that several users need is converted, and paid, once.  Where one table over all users would be too large,
 * each user gets its own table with the producer, in which it pays its share of every layout it needs.  The shares of a
 * layout sum to one, so users together never pay more than its cost.  If some users with a share do not need the
 * layout, part of the cost is missing: that is the rest, a function of all users.  Layouts that are needed whatever the
 * users choose are certain, and the producer alone pays for them.
 *
 * A lower bound leaves the rest out, and is the better the smaller the rest of its choice.  So shares move to the users
 * that needed the layout in the choices found (fictitious play: Brown 1951; the tables are a Lagrangian relaxation of
 * the value and the best shares its dual solution).
 */
#ifndef APC_SOLVER_SHARES_H
#define APC_SOLVER_SHARES_H

#include <stdbool.h>

#include "base/arena.h"

typedef struct FanSharesInput {
  int nproducers; /* classes of the producer */
  int nlayouts;
  const double *seconds; /* [producer][layout] */
  const int *output;     /* by producer: layout of the function's result; NULL if the value is no result */
  const int *own;        /* by producer: `own_width` layouts that it needs itself */
  int own_width;
  int nusers;
  const int *classes;      /* by user */
  const int *width;        /* by user: number of operands */
  const int *const *lists; /* by user: [class][operand] layouts */
} FanSharesInput;

typedef struct FanShares {
  FanSharesInput in;
  double *certain;  /* by producer */
  double **tables;  /* by user: [producer][class] */
  bool *is_certain; /* [producer][layout] */
  double *weights;  /* [producer][layout][user] */
  double *wanted;   /* the same, over the choices that were noted */
  double *noted;    /* [producer][layout] */
  int *seen, stamp;
} FanShares;

/* Starts with equal shares.  The lists of `in` must live as long as the result. */
FanShares *fan_shares_new(Arena *a, const FanSharesInput *in);
/* Returns the rest; of: a FanShares; at: class of the producer, then of each user. */
double fan_shares_rest(const void *of, const int *at);
/* fan_shares_note records a choice that was found. fan_shares_move then moves the shares by `step` (0 to 1) towards the
 * users that needed each layout, and updates the tables in place. */
void fan_shares_note(FanShares *s, const int *at);
void fan_shares_move(FanShares *s, double step);

#endif
