/* base/show.c - the part of text.h that runtime/mpi links by itself as well: characters, and text_show. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"

static size_t length_by_first(unsigned char c) {
  return c < 0x80 ? 1 : c >= 0xc2 && c <= 0xdf ? 2 : (c & 0xf0) == 0xe0 ? 3 : c >= 0xf0 && c <= 0xf4 ? 4 : 0;
}

/* RFC 3629, section 4. */
size_t text_sequence(const unsigned char *p, size_t n) {
  size_t length = length_by_first(*p);
  if (length > n) return 0;
  for (size_t i = 1; i < length; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
  bool surrogate = p[0] == 0xed && p[1] >= 0xa0, beyond = p[0] == 0xf4 && p[1] >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

uint32_t text_code_point(const unsigned char *p, size_t length) {
  uint32_t c = length == 1 ? *p : *p & (0xffu >> (length + 1));
  for (size_t i = 1; i < length; i++) c = c << 6 | (p[i] & 0x3f);
  return c;
}

/* C0, DEL, C1; line separators, and characters that change the direction of text. */
static bool is_control(uint32_t c) {
  return c < 32 || (c >= 0x7f && c <= 0x9f) || (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
}

size_t text_character(const unsigned char *p, size_t n, bool *plain) {
  size_t length = text_sequence(p, n), have = 1, want = length_by_first(*p);
  *plain = length && !is_control(text_code_point(p, length));
  if (length) return length;
  while (have < n && have < want && (p[have] & 0xc0) == 0x80) have++;
  return have == n && have < want ? 0 : 1;
}

size_t text_show(const char *s, char *out, size_t size) {
  size_t n = 0, used = 0, left = strlen(s);
  bool cut = size == 0;
  while (left) {
    bool plain;
    size_t part = text_character((const unsigned char *)s, left, &plain);
    if (!part) part = 1; /* a character that the end of the text cuts off */
    for (size_t i = 0; i < (plain ? 1 : part); i++) {
      char escape[5];
      if (s[i] == '\n' || s[i] == '\t') snprintf(escape, sizeof escape, "\\%c", s[i] == '\n' ? 'n' : 't');
      else snprintf(escape, sizeof escape, "\\x%02x", (unsigned char)s[i]);
      size_t length = plain ? part : strlen(escape);
      cut = cut || n + length >= size;
      if (!cut) memcpy(out + n, plain ? s : escape, length);
      if (!cut) used = n + length;
      n += length;
    }
    s += part;
    left -= part;
  }
  if (size) out[used] = 0;
  return n;
}
