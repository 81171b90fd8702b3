/* base/arena.c - a bump allocator over a list of blocks.
 *
 * A request that does not fit the current block opens a new one of at least 64 KiB (the first: 4 KiB, because many
 * arenas hold next to nothing and every block is cleared); a large request gets a block of its own.  Under
 * AddressSanitizer the blocks come from calloc, so overruns of a block are detected, overruns of one object into
 * the next are not.
 */
#include "base/arena.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

#define FIRST_BYTES ((size_t)4 * 1024)
#define BLOCK_BYTES ((size_t)64 * 1024)

typedef struct Block {
  struct Block *next;
  size_t used, cap;
  _Alignas(16) char data[];
} Block;

struct Arena {
  Block *blocks;
  size_t used;
};

static void *checked_calloc(size_t bytes) {
  void *p = calloc(1, bytes);
  if (!p) die_out_of_memory("asking for %zu bytes", bytes);
  return p;
}

Arena *arena_new(void) { return checked_calloc(sizeof(Arena)); }

void arena_free(Arena *a) {
  if (!a) return;
  for (Block *b = a->blocks; b;) {
    Block *next = b->next;
    free(b);
    b = next;
  }
  free(a);
}

void *arena_alloc(Arena *a, size_t bytes) {
  if (bytes > SIZE_MAX / 2) die("allocation of %zu bytes", bytes);
  size_t need = (bytes + 15) & ~(size_t)15;
  Block *b = a->blocks;
  if (!b || b->cap - b->used < need) {
    size_t least = b ? BLOCK_BYTES : FIRST_BYTES, cap = need > least ? need : least;
    Block *fresh = checked_calloc(sizeof(Block) + cap);
    fresh->cap = cap;
    if (b && need > BLOCK_BYTES) { /* keep filling the half-empty block */
      fresh->next = b->next;
      b->next = fresh;
    } else {
      fresh->next = b;
      a->blocks = fresh;
    }
    b = fresh;
  }
  void *p = b->data + b->used;
  b->used += need;
  a->used += need;
  return p;
}

char *arena_strndup(Arena *a, const char *bytes, size_t n) {
  char *s = arena_alloc(a, n + 1);
  if (n) memcpy(s, bytes, n);
  return s;
}

char *arena_strdup(Arena *a, const char *s) { return arena_strndup(a, s, strlen(s)); }

char *arena_vprintf(Arena *a, const char *format, va_list args) {
  va_list again;
  char text[128]; /* most texts are this short */
  va_copy(again, args);
  int n = vsnprintf(text, sizeof text, format, args);
  if (n < 0) die("bad format string: %s", format);
  char *s = arena_alloc(a, (size_t)n + 1);
  if ((size_t)n < sizeof text) memcpy(s, text, (size_t)n);
  else vsnprintf(s, (size_t)n + 1, format, again);
  va_end(again);
  return s;
}

char *arena_printf(Arena *a, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *s = arena_vprintf(a, format, args);
  va_end(args);
  return s;
}

size_t arena_used(const Arena *a) { return a->used; }

/* If `items` is the last allocation of the current block and `more` bytes follow it, takes them; true if so. */
static bool extend(Arena *a, const void *items, size_t bytes, size_t more) {
  Block *b = a->blocks;
  size_t had = (bytes + 15) & ~(size_t)15, wanted = (bytes + more + 15) & ~(size_t)15;
  if (!b || had > b->used || (const char *)items != b->data + b->used - had) return false;
  if (b->cap - b->used < wanted - had) return false;
  b->used += wanted - had, a->used += wanted - had;
  return true;
}

void *arena_grow(Arena *a, void *items, size_t item_bytes, size_t n, size_t *cap) {
  size_t fresh_cap = *cap ? *cap * 2 : 8;
  if (*cap && extend(a, items, item_bytes * *cap, item_bytes * *cap)) return *cap = fresh_cap, items;
  void *fresh = arena_alloc(a, item_bytes * fresh_cap);
  if (n) memcpy(fresh, items, item_bytes * n);
  *cap = fresh_cap;
  return fresh;
}
