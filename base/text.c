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
  for (size_t left = strlen(s), part; left; s += part, left -= part) {
    bool plain;
    part = text_character((const unsigned char *)s, left, &plain);
    if (!part) part = 1;
    if (*s == '"' || *s == '\\') text_printf(t, "\\%c", *s);
    else if (*s == '\n') text_add(t, "\\n");
    else if (*s == '\t') text_add(t, "\\t");
    else if (plain) text_addn(t, s, part);
    else
      for (size_t i = 0; i < part; i++) text_printf(t, "\\x%02x", (unsigned char)s[i]);
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

bool text_is_utf8(const char *bytes, size_t n) {
  for (size_t i = 0; i < n;) {
    size_t length = text_sequence((const unsigned char *)bytes + i, n - i);
    if (!length) return false;
    i += length;
  }
  return true;
}

const char *text_utf8(Arena *a, const char *s) {
  Text t = {.arena = a};
  for (size_t left = strlen(s), length; left; s += length, left -= length) {
    length = text_sequence((const unsigned char *)s, left);
    if (length) text_addn(&t, s, length);
    else text_add(&t, "\xef\xbf\xbd"), length = 1;
  }
  return text_str(&t);
}
