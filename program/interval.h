/* program/interval.h - intervals [lo, hi) of an exchange, in global coordinates: what a member gives is its own, less
 * what earlier members of the group hold (docs/ir.md: an index that several hold comes from the first).  Members may
 * hold them in any order: a dimension can be cut by mesh axes in another order than that of the mesh.
 */
#ifndef APC_PROGRAM_INTERVAL_H
#define APC_PROGRAM_INTERVAL_H

#include <stdbool.h>
#include <stdint.h>

/* Takes [a, b) out of [*lo, *hi).  False when what is left is not one interval. */
static inline bool interval_less(int64_t *lo, int64_t *hi, int64_t a, int64_t b) {
  if (a >= b || b <= *lo || a >= *hi) return true;
  if (a > *lo && b < *hi) return false;
  if (a <= *lo) *lo = b < *hi ? b : *hi;
  else *hi = a;
  return true;
}

#endif
