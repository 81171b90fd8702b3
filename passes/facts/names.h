/* passes/facts/names.h - the common pattern in names of corresponding operations. */
#ifndef APC_PASSES_FACTS_NAMES_H
#define APC_PASSES_FACTS_NAMES_H

#include "base/arena.h"

typedef struct NamePiece {
  const char *same;          /* in all names; NULL if they differ */
  const char *const *labels; /* by name, if they differ */
} NamePiece;

typedef struct NamePattern {
  int n;
  const NamePiece *pieces;
} NamePattern;

/* Finds the pattern of n >= 1 names.  If they differ only in numbers, they are cut there: "h.0.x1", "h.12.x1" -> "h.",
 * {0, 12}, ".x", "1"; else between their common beginning and end, never inside a number: "Add", "Add_3" -> "Add", {"",
 * "_3"}. */
NamePattern names_pattern(Arena *a, int n, const char *const *names);

#endif
