/* base/show.c - text_show of text.h, alone, so that what is linked by itself (runtime/mpi) can have it. */
#include <stdio.h>
#include <string.h>

#include "base/text.h"

/* How a byte is shown; "" when as it is.  U+0080 to U+009F, two bytes in UTF-8, are control characters as well. */
static void escape_of(const unsigned char *p, char escape[5]) {
  *escape = 0;
  if (*p == '\n' || *p == '\t') snprintf(escape, 5, "\\%c", *p == '\n' ? 'n' : 't');
  else if (*p < 32 || *p == 127 || (*p == 0xc2 && p[1] >= 0x80 && p[1] <= 0x9f)) snprintf(escape, 5, "\\x%02x", *p);
}

size_t text_show(const char *s, char *out, size_t size) {
  size_t n = 0, used = 0;
  bool second = false, cut = size == 0;
  for (; *s; s++) {
    char escape[5];
    if (second) snprintf(escape, sizeof escape, "\\x%02x", (unsigned char)*s);
    else escape_of((const unsigned char *)s, escape);
    second = !second && *escape && (unsigned char)*s == 0xc2;
    size_t length = *escape ? strlen(escape) : 1;
    cut = cut || n + length >= size;
    if (!cut) memcpy(out + n, *escape ? escape : s, length);
    if (!cut) used = n + length;
    n += length;
  }
  if (size) out[used] = 0;
  return n;
}
