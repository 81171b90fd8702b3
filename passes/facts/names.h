/* passes/facts/names.h - what the names of corresponding operations have in common. */
#ifndef APC_PASSES_FACTS_NAMES_H
#define APC_PASSES_FACTS_NAMES_H

#include "base/arena.h"

typedef struct NamePiece {
  const char *same;          /* in all names; NULL where they differ */
  const char *const *labels; /* by name, where they differ */
} NamePiece;

typedef struct NamePattern {
  int n;
  const NamePiece *pieces;
} NamePattern;

/* Of n >= 1 names.  When they differ in numbers only, they are cut there: "h.0.x1", "h.12.x1" -> "h.", {0, 12}, ".x",
 * "1"; else between what all begin and end with, never inside a number: "Add", "Add_3" -> "Add", {"", "_3"}. */
NamePattern names_pattern(Arena *a, int n, const char *const *names);

#endif
