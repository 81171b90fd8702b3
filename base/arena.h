/* base/arena.h - memory for the compiler: allocate freely, free all at once.
 *
 * Every compiler structure lives in an arena named for its lifetime (whole compile, one pass).
 * Nothing is freed singly.  Memory comes zeroed.  Running out of memory ends the process
 * (die_out_of_memory): the compiler has nothing useful left to do.  The runtime uses
 * arenas only for names in files of tensors and for descriptions.
 */
#ifndef APC_BASE_ARENA_H
#define APC_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct Arena Arena;

Arena *arena_new(void);
void arena_free(Arena *a);

/* `bytes` zeroed bytes aligned to 16; never NULL, also for 0 bytes. */
void *arena_alloc(Arena *a, size_t bytes);

/* A copy of bytes[0..n) with a NUL behind it. */
char *arena_strndup(Arena *a, const char *bytes, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *format, va_list args);

/* Bytes handed out so far (for reports). */
size_t arena_used(const Arena *a);

#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))

/* Appends to an arena-backed growing array: fields `items`, `n`, `cap` of any struct.
 * The old block stays behind in the arena; growth is by doubling, so at most half is lost. */
void *arena_grow(Arena *a, void *items, size_t item_bytes, size_t n, size_t *cap);
#define ARENA_PUSH(a, list, item) \
  do { \
    if ((list)->n == (list)->cap) { \
      size_t cap_ = (list)->cap; \
      (list)->items = arena_grow((a), (list)->items, sizeof *(list)->items, (list)->n, &cap_); \
      (list)->cap = cap_; \
    } \
    (list)->items[(list)->n++] = (item); \
  } while (0)

#endif
