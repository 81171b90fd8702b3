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

/* Append a string, n bytes, and formatted text. */
void text_add(Text *t, const char *s);
void text_addn(Text *t, const char *bytes, size_t n);
void text_printf(Text *t, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Appends a number in decimal, as %lld but faster. */
void text_int(Text *t, int64_t v);

/* Appends a finite double with the fewest digits that read back as the same double ("1", "0.1", "1e-05"); infinities
 * and NaN as inf, -inf, nan. */
void text_double(Text *t, double v);

/* Appends "..." with \" \\ \n \t and \xHH escapes for control characters and bytes that are not UTF-8. */
void text_quoted(Text *t, const char *s);

/* The length of the well-formed UTF-8 sequence at p, which has n > 0 bytes; 0 if there is none.  text_code_point
 * returns the character that it encodes. */
size_t text_sequence(const unsigned char *p, size_t n);
uint32_t text_code_point(const unsigned char *p, size_t length);

/* The length of the first character at p, or of a byte that begins none; 0 if more bytes are needed to decide.
 * *plain: a terminal may show it: no control character, no line separator, nothing that changes the direction of
 * text. */
size_t text_character(const unsigned char *p, size_t n, bool *plain);

/* Writes text of a user, a file or a name for a terminal: bytes that are not plain become \n, \t or \xHH.  Writes at
 * most `size` bytes with the final NUL, never half an escape; returns the full length. */
size_t text_show(const char *s, char *out, size_t size);
/* The same in the arena; returns s itself if nothing is replaced. */
const char *text_shown(Arena *a, const char *s);

/* The text so far; "" when empty. */
const char *text_str(const Text *t);

/* True if the text ends with `end`, after at least one other byte. */
bool text_ends_with(const char *s, const char *end);

/* True if the bytes are well-formed UTF-8 (RFC 3629: no overlong forms, surrogates or values over 10FFFF). */
bool text_is_utf8(const char *bytes, size_t n);

/* Returns the text with U+FFFD for each byte that is not part of well-formed UTF-8. */
const char *text_utf8(Arena *a, const char *s);

#endif
