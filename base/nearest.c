/* base/nearest.c - see nearest.h.  Damerau's distance (each letter is swapped at most once) by the usual table, of
 * which three rows are kept; case is ignored. */
#include "base/nearest.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

enum { LONGEST = 64 }; /* longer names have no suggestion */

static size_t least(size_t a, size_t b) { return a < b ? a : b; }
static bool same(char a, char b) { return tolower((unsigned char)a) == tolower((unsigned char)b); }

static size_t edit_distance(const char *a, const char *b) {
  size_t rows[3][LONGEST + 1], *before = rows[0], *above = rows[1], *row = rows[2], nb = strlen(b);
  for (size_t j = 0; j <= nb; j++) row[j] = j;
  for (size_t i = 1; a[i - 1]; i++) {
    size_t *oldest = before;
    before = above, above = row, row = oldest;
    row[0] = i;
    for (size_t j = 1; j <= nb; j++) {
      size_t change = above[j - 1] + !same(a[i - 1], b[j - 1]);
      row[j] = least(change, least(above[j], row[j - 1]) + 1);
      if (i > 1 && j > 1 && same(a[i - 1], b[j - 2]) && same(a[i - 2], b[j - 1]))
        row[j] = least(row[j], before[j - 2] + 1);
    }
  }
  return row[nb];
}

static size_t most(size_t a, size_t b) { return a > b ? a : b; }

Nearest nearest_to(const char *name) { return (Nearest){name, NULL, most(strlen(name) / 3, 1) + 1}; }

void nearest_try(Nearest *n, const char *candidate) {
  size_t length = strlen(candidate);
  if (length > LONGEST || strlen(n->name) > LONGEST) return;
  size_t d = edit_distance(n->name, candidate);
  if (d >= n->distance || d >= most(length, strlen(n->name))) return;
  n->best = candidate;
  n->distance = d;
}
