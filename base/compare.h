/* base/compare.h - whether numbers that were computed in two ways agree.
 *
 * The one place that says what is equal to what: commands, the interpreter, the guards and the tests compare through
 * it.
 *   - A NaN equals every NaN and nothing else.  An infinity equals itself and nothing else, whatever the tolerance.
 *   - Without tolerance all other numbers have to be the same bits (-0.0 is not 0.0); with one, and in distances, the
 *     zeros are equal.
 *   - Distances are never NaN, and neither overflow nor vanish where squares would.
 *   - Integers are compared as integers of their type: no rounding to double, u64 unsigned.
 */
#ifndef APC_BASE_COMPARE_H
#define APC_BASE_COMPARE_H

#include "base/dtype.h"

/* |got - want|, 0 when they are equal; infinity when only one is a NaN or infinite, or the infinities differ. */
double number_gap(double got, double want);
/* Is the gap at most tolerance * (1 + |want|)? */
bool number_close(double got, double want, double tolerance);
/* |got - want| of two elements of an integer type or bool as dtype_load_i gives them, rounded; 0 only when they are
 * equal. */
double integer_gap(DType t, int64_t got, int64_t want);

/* A sum of squares, as scale * scale * squares. */
typedef struct Squares {
  double scale, squares;
} Squares;

/* How far one list of numbers is from another; starts as zeros. */
typedef struct Distance {
  Squares gaps, wanted; /* of the finite gaps and numbers */
  double most;          /* the largest gap */
} Distance;

void distance_add(Distance *d, double got, double want);
/* ||got - want|| / ||want||: 0 when all are equal, infinity when a gap is infinite or all wanted numbers are 0. */
double distance_relative(const Distance *d);

#endif
