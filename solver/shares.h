/* solver/shares.h - what the conversions of one value cost, shared out among its users.
 *
 * Every layout that users ask for is converted, and paid, once.  Where one table over all users would be too large,
 * each user gets a table of its own with the producer, in which it pays its share of every layout that it asks for.
 * FanShares of one layout sum up to one, so together users never pay more than it costs; what is missing, where some of
 * those do not ask that have a share, is the rest, a function of all of them.  What is asked for whatever the users
 * choose is certain, and paid by the producer alone.
 *
 * A lower bound leaves the rest out.  It is the better the less is left out of what it chooses: shares move to those
 * who asked in the choices that were found (fictitious play: Brown 1951; the tables are a Lagrangian relaxation of the
 * value and the best shares its dual solution).
 */
#ifndef APC_SOLVER_SHARES_H
#define APC_SOLVER_SHARES_H

#include <stdbool.h>

#include "base/arena.h"

typedef struct FanSharesInput {
  int nproducers; /* classes of the producer */
  int nlayouts;
  const double *seconds; /* [producer][layout] */
  const int *output;     /* by producer: layout of the function's result; NULL: it is none */
  const int *own;        /* by producer: `own_width` layouts that it asks for itself */
  int own_width;
  int nusers;
  const int *classes;      /* by user */
  const int *width;        /* by user: operands */
  const int *const *lists; /* by user: [class][operand] layouts */
} FanSharesInput;

typedef struct FanShares {
  FanSharesInput in;
  double *certain;  /* by producer */
  double **tables;  /* by user: [producer][class] */
  bool *is_certain; /* [producer][layout] */
  double *weights;  /* [producer][layout][user] */
  double *wanted;   /* the same, of the choices that were noted */
  double *noted;    /* [producer][layout] */
  int *seen, stamp;
} FanShares;

/* Equal shares.  The lists live as long as the shares. */
FanShares *fan_shares_new(Arena *a, const FanSharesInput *in);
/* What is left out, `of` being shares; at: class of the producer, then of each user. */
double fan_shares_rest(const void *of, const int *at);
/* A choice that was found; and the shares, after some of them, moved so far (0 to 1) to who asked.  Tables change where
 * they are. */
void fan_shares_note(FanShares *s, const int *at);
void fan_shares_move(FanShares *s, double step);

#endif
