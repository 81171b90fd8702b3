/* base/compare.h - compares numbers that were computed in two ways.
 *
 * The one place that defines equality: commands, the interpreter, the guards and the tests compare through it.
 *   - A NaN equals every NaN and nothing else.  An infinity equals itself and nothing else, whatever the tolerance.
 *   - Without tolerance all other numbers must have the same bits (-0.0 is not 0.0).  With a tolerance, and in
 *     distances, the zeros are equal.
 *   - Distances are never NaN, and neither overflow nor underflow where squares would.
 *   - Integers are compared as integers of their type: no rounding to double, u64 unsigned.
 */
#ifndef APC_BASE_COMPARE_H
#define APC_BASE_COMPARE_H

#include "base/dtype.h"

/* |got - want|: 0 if they are equal; infinity if only one is NaN or infinite, or the infinities differ. */
double number_gap(double got, double want);
/* True if the gap is at most tolerance * (1 + |want|). */
bool number_close(double got, double want, double tolerance);
/* |got - want| of two integers or bools as dtype_load_i returns them, rounded to double; 0 only if they are equal. */
double integer_gap(DType t, int64_t got, int64_t want);

/* A sum of squares, stored as scale * scale * squares. */
typedef struct Squares {
  double scale, squares;
} Squares;

/* How far one list of numbers is from another; zeroed at first. */
typedef struct Distance {
  Squares gaps, wanted; /* of the finite gaps and numbers */
  double most;          /* the largest gap */
} Distance;

/* Adds one pair of numbers. */
void distance_add(Distance *d, double got, double want);
/* ||got - want|| / ||want||: 0 if all are equal, infinity if a gap is infinite or all wanted numbers are 0. */
double distance_relative(const Distance *d);

#endif
