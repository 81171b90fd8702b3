/* base/text.c - see text.h. */
#include "base/text.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void reserve(Text *t, size_t more) {
  if (t->n + more + 1 <= t->cap) return;
  size_t cap = t->cap ? t->cap * 2 : 256;
  while (cap < t->n + more + 1) cap *= 2;
  char *data = arena_alloc(t->arena, cap);
  if (t->n) memcpy(data, t->data, t->n);
  t->data = data;
  t->cap = cap;
}

void text_addn(Text *t, const char *bytes, size_t n) {
  reserve(t, n);
  if (n) memcpy(t->data + t->n, bytes, n);
  t->n += n;
  t->data[t->n] = 0;
}

void text_add(Text *t, const char *s) { text_addn(t, s, strlen(s)); }

void text_printf(Text *t, const char *format, ...) {
  va_list args, again;
  va_start(args, format);
  va_copy(again, args);
  int n = vsnprintf(NULL, 0, format, args);
  va_end(args);
  if (n > 0) {
    reserve(t, (size_t)n);
    vsnprintf(t->data + t->n, (size_t)n + 1, format, again);
    t->n += (size_t)n;
  }
  va_end(again);
}

void text_double(Text *t, double v) {
  if (isnan(v)) {
    text_add(t, "nan");
    return;
  }
  if (isinf(v)) {
    text_add(t, v < 0 ? "-inf" : "inf");
    return;
  }
  char buf[40];
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(buf, sizeof buf, "%.*g", digits, v);
    if (strtod(buf, NULL) == v) break;
  }
  text_add(t, buf);
}

void text_quoted(Text *t, const char *s) {
  text_add(t, "\"");
  for (; *s; s++) {
    unsigned char c = (unsigned char)*s;
    if (c == '"' || c == '\\') text_printf(t, "\\%c", c);
    else if (c == '\n') text_add(t, "\\n");
    else if (c == '\t') text_add(t, "\\t");
    else if (c < 32 || c == 127) text_printf(t, "\\x%02x", c);
    else text_addn(t, s, 1);
  }
  text_add(t, "\"");
}

const char *text_shown(Arena *a, const char *s) {
  size_t n = text_show(s, NULL, 0);
  if (n == strlen(s)) return s;
  char *out = arena_alloc(a, n + 1);
  text_show(s, out, n + 1);
  return out;
}

const char *text_str(const Text *t) { return t->n ? t->data : ""; }

/* Length of the well-formed sequence at p, 0 when there is none (RFC 3629, section 4). */
static size_t utf8_sequence(const unsigned char *p, size_t n) {
  if (p[0] < 0x80) return 1;
  size_t length = p[0] >= 0xc2 && p[0] <= 0xdf ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : p[0] >= 0xf0 && p[0] <= 0xf4 ? 4 : 0;
  if (!length || length > n) return 0;
  for (size_t i = 1; i < length; i++)
    if ((p[i] & 0xc0) != 0x80) return 0;
  bool overlong = (p[0] == 0xe0 && p[1] < 0xa0) || (p[0] == 0xf0 && p[1] < 0x90);
  bool surrogate = p[0] == 0xed && p[1] >= 0xa0, beyond = p[0] == 0xf4 && p[1] >= 0x90;
  return overlong || surrogate || beyond ? 0 : length;
}

bool text_is_utf8(const char *bytes, size_t n) {
  for (size_t i = 0; i < n;) {
    size_t length = utf8_sequence((const unsigned char *)bytes + i, n - i);
    if (!length) return false;
    i += length;
  }
  return true;
}

const char *text_utf8(Arena *a, const char *s) {
  Text t = {.arena = a};
  for (size_t left = strlen(s), length; left; s += length, left -= length) {
    length = utf8_sequence((const unsigned char *)s, left);
    if (length) text_addn(&t, s, length);
    else text_add(&t, "\xef\xbf\xbd"), length = 1;
  }
  return text_str(&t);
}
