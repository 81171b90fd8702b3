/* solver/set.h - the conversions of a value with many users, by a variable for the set of layouts that are made of it
 * (D51).
 *
 * A single table over the producer and all users grows with the product of their layouts.  Here a variable chooses the
 * set: a set costs the sum of its conversions, and a user may only use layouts in it.  The minimum over all sets equals
 * the minimum of the single table.
 */
#ifndef APC_SOLVER_SET_H
#define APC_SOLVER_SET_H

#include <stdbool.h>

#include "base/arena.h"

/* A value's conversions, over classes of producer and users that differ in layouts. */
typedef struct SetInput {
  int nproducers, nlayouts, nusers;
  const double *seconds;   /* [producer][layout]: cost of the conversion; INFINITY if there is none */
  const int *output;       /* by producer: a layout that is always made; NULL if none */
  const int *classes;      /* by user */
  const int *width;        /* by user: number of layouts it needs */
  const int *const *lists; /* by user: [class][width] */
  int most;                /* limit of the number of sets */
} SetInput;

typedef struct Sets {
  int n;
  double *cost;  /* [producer][set] */
  double **fits; /* by user: [set][class], 0 or INFINITY; NULL for a user with one class, whose layouts are in every
                    set */
} Sets;

/* Builds the sets and their costs; NULL if there are more than `most` sets. */
const Sets *sets_of(Arena *a, const SetInput *in);

#endif
