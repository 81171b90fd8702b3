/* base/text.h - a growing string for printers. */
#ifndef APC_BASE_TEXT_H
#define APC_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"

typedef struct Text {
  Arena *arena;
  char *data; /* always NUL-terminated once something was added; use text_str */
  size_t n, cap;
} Text;

void text_add(Text *t, const char *s);
void text_addn(Text *t, const char *bytes, size_t n);
void text_printf(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* A number in decimal, as %lld; there are many. */
void text_int(Text *t, int64_t v);

/* Prints a finite double with the fewest digits that read back as the same double
 * ("1", "0.1", "1e-05"); infinities and NaN as inf, -inf, nan. */
void text_double(Text *t, double v);

/* "..." with \" \\ \n \t and \xHH escapes: nothing else in it is a control character or no UTF-8. */
void text_quoted(Text *t, const char *s);

/* Length of the well-formed UTF-8 sequence at p, which has n bytes, n > 0; 0 when there is none.  What it stands
 * for. */
size_t text_sequence(const unsigned char *p, size_t n);
uint32_t text_code_point(const unsigned char *p, size_t length);

/* The length of the first character at p, or of a byte that begins none; 0 when more bytes are needed to tell.  *plain:
 * it is a character that a terminal may see: no control character, no separator of lines, nothing that changes the
 * direction of text. */
size_t text_character(const unsigned char *p, size_t n, bool *plain);

/* A text of the user's, of a file or of a name, as a terminal may see it: the bytes of what is not plain as \n, \t or
 * \xHH.  Writes at most `size` bytes with the final NUL, never half an escape; returns the length that it would have in
 * full. */
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
