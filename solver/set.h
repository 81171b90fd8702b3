/* solver/set.h - the conversions of a value with many users, by a variable for the set of layouts that are made
 * of it (D51).
 *
 * One table over the producer and all users grows with the product of their layouts.  Here the set is chosen: it costs
 * the sum of its conversions, and a user may only ask for what is in it.  The cheapest set is the one that is used, so
 * the minimum is that of the whole table.
 */
#ifndef APC_SOLVER_SET_H
#define APC_SOLVER_SET_H

#include <stdbool.h>

#include "base/arena.h"

/* A value's conversions, in classes of producer and users that the layouts tell apart. */
typedef struct SetInput {
  int nproducers, nlayouts, nusers;
  const double *seconds;   /* [producer][layout]: what the conversion costs; INFINITY when there is none */
  const int *output;       /* by producer: the layout that is made in any case; NULL: none */
  const int *classes;      /* by user */
  const int *width;        /* by user: how many layouts it asks for */
  const int *const *lists; /* by user: [class][width] */
  int most;                /* sets */
} SetInput;

typedef struct Sets {
  int n;
  double *cost;  /* [producer][set] */
  double **fits; /* by user: [set][class], 0 or INFINITY; NULL for a user with one class, whose layouts are in
                  * every set */
} Sets;

/* NULL when there are more sets than `most`. */
const Sets *sets_of(Arena *a, const SetInput *in);

#endif
