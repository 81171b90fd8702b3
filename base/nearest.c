/* base/nearest.c - see nearest.h.  Levenshtein's distance by the usual table of one row; case counts for nothing. */
#include "base/nearest.h"

#include <ctype.h>
#include <string.h>

enum { LONGEST = 64 }; /* longer names have no nearest one */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static size_t edit_distance(const char *a, const char *b) {
  size_t row[LONGEST + 1], nb = strlen(b);
  for (size_t j = 0; j <= nb; j++) row[j] = j;
  for (size_t i = 1; a[i - 1]; i++) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= nb; j++) {
      size_t change = diagonal + (tolower((unsigned char)a[i - 1]) != tolower((unsigned char)b[j - 1]));
      diagonal = row[j];
      row[j] = least(change, least(row[j], row[j - 1]) + 1);
    }
  }
  return row[nb];
}

Nearest nearest_to(const char *name) { return (Nearest){name, NULL, strlen(name) / 3 + 2}; }

void nearest_try(Nearest *n, const char *candidate) {
  if (strlen(candidate) > LONGEST || strlen(n->name) > LONGEST) return;
  size_t d = edit_distance(n->name, candidate);
  if (d >= n->distance) return;
  n->best = candidate;
  n->distance = d;
}
