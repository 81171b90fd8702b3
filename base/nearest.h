/* base/nearest.h - the known name that a mistyped one probably meant. */
#ifndef APC_BASE_NEAREST_H
#define APC_BASE_NEAREST_H

#include <stddef.h>

/* Start with nearest_to, offer every candidate, read `best`: NULL when none is near enough (a third of the letters may
 * differ, or one, and some letter has to be right).  Two letters that changed places are one difference.  The first of
 * equally near ones wins. */
typedef struct Nearest {
  const char *name, *best;
  size_t distance; /* of `best`, or one more than what is still near */
} Nearest;

Nearest nearest_to(const char *name);
void nearest_try(Nearest *n, const char *candidate);

#endif
