/* program/interval.h - intervals [lo, hi) of an exchange, in global coordinates.  A member gives its own interval less
 * those of earlier members of the group (docs/ir.md: of several holders of an index the first gives it).  Members may
 * hold intervals in any order: mesh axes may shard a dimension in another order than that of the mesh.
 */
#ifndef APC_PROGRAM_INTERVAL_H
#define APC_PROGRAM_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

/* Removes [a, b) from [*lo, *hi).  False if the rest is not one interval. */
static inline bool interval_less(int64_t *lo, int64_t *hi, int64_t a, int64_t b) {
  if (a >= b || b <= *lo || a >= *hi) return true;
  if (a > *lo && b < *hi) return false;
  if (a <= *lo) *lo = b < *hi ? b : *hi;
  else *hi = a;
  return true;
}

#endif
