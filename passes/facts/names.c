/* passes/facts/names.c - see names.h. */
#include "passes/facts/names.h"

#include <stdbool.h>
#include <string.h>

static const char digits[] = "0123456789";

static size_t piece_length(const char *s) {
  size_t n = strspn(s, digits);
  return n ? n : strcspn(s, digits);
}

static bool is_number(const char *s) { return *s >= '0' && *s <= '9'; }

/* Takes the next piece of all names and advances `at`; false if they differ in more than numbers. */
static bool next_piece(Arena *a, int n, const char **at, NamePiece *out) {
  size_t first = piece_length(at[0]);
  bool equal = true;
  for (int i = 1; i < n; i++) equal &= piece_length(at[i]) == first && memcmp(at[i], at[0], first) == 0;
  if (!equal)
    for (int i = 0; i < n; i++)
      if (!is_number(at[i])) return false;
  const char **labels = equal ? NULL : ARENA_ARRAY(a, const char *, n);
  *out = (NamePiece){equal ? arena_strndup(a, at[0], first) : NULL, labels};
  for (int i = 0; i < n; i++) {
    size_t length = piece_length(at[i]);
    if (!equal) labels[i] = arena_strndup(a, at[i], length);
    at[i] += length;
  }
  return true;
}

static bool at_end(int n, const char *const *at, bool *all) {
  int ends = 0;
  for (int i = 0; i < n; i++) ends += !*at[i];
  *all = ends == n;
  return ends > 0;
}

/* The length of the common beginning of all names, and of the common end of the rest; no number is cut. */
static size_t common_begin(int n, const char *const *names) {
  size_t k = 0;
  for (bool same = true; names[0][k];) {
    for (int i = 1; i < n; i++) same &= names[i][k] == names[0][k];
    if (!same) break;
    k++;
  }
  while (k && is_number(&names[0][k - 1])) k--;
  return k;
}

static size_t common_end(int n, const char *const *names, size_t begin) {
  size_t k = 0, first = strlen(names[0]);
  for (bool same = true;; k++) {
    for (int i = 0; i < n; i++) {
      size_t length = strlen(names[i]);
      same = same && begin + k < length && names[i][length - 1 - k] == names[0][first - 1 - k];
    }
    if (!same) break;
  }
  while (k && is_number(&names[0][first - k])) k--;
  return k;
}

static NamePattern begin_and_end(Arena *a, int n, const char *const *names) {
  size_t begin = common_begin(n, names), end = common_end(n, names, begin);
  NamePiece *pieces = ARENA_ARRAY(a, NamePiece, 3);
  const char **labels = ARENA_ARRAY(a, const char *, n);
  int k = 0;
  for (int i = 0; i < n; i++) labels[i] = arena_strndup(a, names[i] + begin, strlen(names[i]) - begin - end);
  if (begin) pieces[k++] = (NamePiece){arena_strndup(a, names[0], begin), NULL};
  pieces[k++] = (NamePiece){NULL, labels};
  if (end) pieces[k++] = (NamePiece){names[0] + strlen(names[0]) - end, NULL};
  return (NamePattern){k, pieces};
}

NamePattern names_pattern(Arena *a, int n, const char *const *names) {
  struct {
    NamePiece *items;
    size_t n, cap;
  } pieces = {0};
  const char **at = ARENA_ARRAY(a, const char *, n);
  bool all;
  memcpy(at, names, sizeof *at * (size_t)n);
  while (!at_end(n, at, &all)) {
    NamePiece p;
    if (!next_piece(a, n, at, &p)) return begin_and_end(a, n, names);
    ARENA_PUSH(a, &pieces, p);
  }
  return all ? (NamePattern){(int)pieces.n, pieces.items} : begin_and_end(a, n, names);
}
