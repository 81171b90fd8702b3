/* base/nearest.h - the known name that a mistyped one probably meant. */
#ifndef APC_BASE_NEAREST_H
#define APC_BASE_NEAREST_H

#include <stddef.h>

/* Start with nearest_to, offer every candidate, read `best`: NULL if none is near enough.  A third of the letters
 * may differ, or one, and at least one letter must match.  Two swapped letters count as one difference.  Of equally
 * near candidates the first wins. */
typedef struct Nearest {
  const char *name, *best;
  size_t distance; /* of `best`, or one more than the largest distance that counts as near */
} Nearest;

/* Starts a search for `name`; nearest_try offers one candidate. */
Nearest nearest_to(const char *name);
void nearest_try(Nearest *n, const char *candidate);

#endif
