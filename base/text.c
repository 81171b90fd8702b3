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

/* Prints into the free capacity, and again after growing if that was too small. */
void text_printf(Text *t, const char *format, ...) {
  va_list args, again;
  reserve(t, 32);
  va_start(args, format);
  va_copy(again, args);
  size_t room = t->cap - t->n;
  int n = vsnprintf(t->data + t->n, room, format, args);
  va_end(args);
  if (n > 0 && (size_t)n >= room) {
    reserve(t, (size_t)n);
    vsnprintf(t->data + t->n, (size_t)n + 1, format, again);
  }
  if (n > 0) t->n += (size_t)n;
  t->data[t->n] = 0;
  va_end(again);
}

void text_int(Text *t, int64_t v) {
  char digits[24], *p = digits + sizeof digits;
  uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
  do *--p = (char)('0' + left % 10);
  while (left /= 10);
  if (v < 0) *--p = '-';
  text_addn(t, p, (size_t)(digits + sizeof digits - p));
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
  enum { KNOWN = 64 };
  static _Thread_local struct {
    double v;
    char text[32];
  } known[KNOWN]; /* recently printed numbers: the same few repeat */
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  size_t at = (size_t)(bits * 0x9e3779b97f4a7c15u >> 58);
  char *buf = known[at].text;
  bool same = *buf && memcmp(&known[at].v, &v, sizeof v) == 0;
  for (int digits = 1; digits <= 17 && !same; digits++) {
    snprintf(buf, sizeof known[at].text, "%.*g", digits, v);
    same = strtod(buf, NULL) == v;
  }
  known[at].v = v;
  text_add(t, buf);
}

/* How many ASCII characters at the beginning need no escape. */
static size_t plain_ascii(const char *s) {
  size_t n = 0;
  while (s[n] >= ' ' && s[n] < 0x7f && s[n] != '"' && s[n] != '\\') n++;
  return n;
}

void text_quoted(Text *t, const char *s) {
  text_add(t, "\"");
  for (size_t left = strlen(s), part; left; s += part, left -= part) {
    bool plain;
    if ((part = plain_ascii(s))) {
      text_addn(t, s, part);
      continue;
    }
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

bool text_ends_with(const char *s, const char *end) {
  size_t n = strlen(s), k = strlen(end);
  return n > k && strcmp(s + n - k, end) == 0;
}

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
