/* base/arena.h - memory for the compiler: allocate freely, free all at once.
 *
 * Every compiler structure lives in an arena named for its lifetime (whole compile, one pass).  Nothing is freed
 * singly.  Memory is zeroed.  Without memory the process ends (die_out_of_memory): the compiler has nothing useful
 * left to do.  The runtime uses arenas only for names in files of tensors and for descriptions.
 */
#ifndef APC_BASE_ARENA_H
#define APC_BASE_ARENA_H

#include <stdarg.h>
#include <stddef.h>

typedef struct Arena Arena;

/* Makes an empty arena; never NULL. arena_free frees it with all its memory; NULL is allowed. */
Arena *arena_new(void);
void arena_free(Arena *a);

/* `bytes` zeroed bytes aligned to 16; never NULL, also for 0 bytes. */
void *arena_alloc(Arena *a, size_t bytes);

/* Copies bytes[0..n) and adds a NUL. */
char *arena_strndup(Arena *a, const char *bytes, size_t n);
char *arena_strdup(Arena *a, const char *s);
char *arena_printf(Arena *a, const char *format, ...) __attribute__((format(printf, 2, 3)));
char *arena_vprintf(Arena *a, const char *format, va_list args);

/* Bytes allocated so far (for reports). */
size_t arena_used(const Arena *a);

#define ARENA_NEW(a, type) ((type *)arena_alloc((a), sizeof(type)))
#define ARENA_ARRAY(a, type, n) ((type *)arena_alloc((a), sizeof(type) * (size_t)(n)))

/* Appends to an array in the arena: fields `items`, `n`, `cap` of any struct.  The capacity doubles and the old
 * array stays allocated, so at most half of the memory is wasted. */
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
