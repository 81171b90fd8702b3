/* base/text.h - a growing string for printers. */
#ifndef APC_BASE_TEXT_H
#define APC_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

typedef struct Text {
  Arena *arena;
  char *data; /* always NUL-terminated once something was added; use text_str */
  size_t n, cap;
} Text;

void text_add(Text *t, const char *s);
void text_addn(Text *t, const char *bytes, size_t n);
void text_printf(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a finite double with the fewest digits that read back as the same double
 * ("1", "0.1", "1e-05"); infinities and NaN as inf, -inf, nan. */
void text_double(Text *t, double v);

/* "..." with \" \\ \n \t and \xHH escapes. */
void text_quoted(Text *t, const char *s);

/* A text of the user's, of a file or of a name, as a terminal may see it: control bytes, and control characters in UTF-8, as \n, \t or \xHH.
 * Writes at most `size` bytes with the final NUL, never half an escape; returns the length that it would have in full. */
size_t text_show(const char *s, char *out, size_t size);
/* The same in the arena; s itself when there is nothing to replace. */
const char *text_shown(Arena *a, const char *s);

/* The text so far; "" when empty. */
const char *text_str(const Text *t);

/* Are these bytes well-formed UTF-8 (RFC 3629: no overlong forms, surrogates or values over 10FFFF)? */
bool text_is_utf8(const char *bytes, size_t n);

/* The text with U+FFFD in place of each byte that is not part of well-formed UTF-8. */
const char *text_utf8(Arena *a, const char *s);

#endif
