/* ir/parse_words.c - characters, words, numbers and strings of IR text, and errors at their place. */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ir/parse_internal.h"

Loc parse_here(const Parser *p, const char *at) {
  Loc loc = {.file = p->file, .line = 1, .col = 1};
  for (const char *s = p->text; s < at; s++) {
    loc.col++;
    if (*s == '\n') loc.line++, loc.col = 1;
  }
  return loc;
}

void parse_skip(Parser *p) {
  for (;;) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') p->at++;
    if (*p->at != '#') return;
    while (*p->at && *p->at != '\n') p->at++;
  }
}

void parse_fail(Parser *p, const char *at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *message = arena_vprintf(p->diags->arena, format, args);
  va_end(args);
  p->at = at;
  parse_skip(p);
  diag_error(p->diags, DIAG_ir_syntax, parse_here(p, p->at), "%s", message);
  longjmp(p->out, 1);
}

bool parse_accept(Parser *p, const char *punctuation) {
  parse_skip(p);
  size_t n = strlen(punctuation);
  if (strncmp(p->at, punctuation, n) != 0) return false;
  p->at += n;
  return true;
}

void parse_expect(Parser *p, const char *punctuation) {
  if (!parse_accept(p, punctuation)) parse_fail(p, p->at, "expected '%s'", punctuation);
}

bool parse_word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

static size_t word_length(const Parser *p) {
  size_t n = 0;
  while (parse_word_char(p->at[n])) n++;
  return n;
}

bool parse_accept_word(Parser *p, const char *word) {
  parse_skip(p);
  size_t n = word_length(p);
  if (n != strlen(word) || strncmp(p->at, word, n) != 0) return false;
  p->at += n;
  return true;
}

const char *parse_word(Parser *p, const char *what) {
  parse_skip(p);
  size_t n = word_length(p);
  if (!n) parse_fail(p, p->at, "expected %s", what);
  const char *s = arena_strndup(p->m->arena, p->at, n);
  p->at += n;
  return module_string(p->m, s);
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'f' ? c - 'a' + 10
         : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                : -1;
}

const char *parse_quoted(Parser *p, const char *what) {
  parse_skip(p);
  if (*p->at != '"') parse_fail(p, p->at, "expected %s in quotes", what);
  Text t = {.arena = p->m->arena};
  const char *start = p->at++;
  while (*p->at != '"') {
    char c = *p->at++;
    if (!c || c == '\n') parse_fail(p, start, "unterminated string");
    if (c == '\\') {
      c = *p->at++;
      if (c == 'n') c = '\n';
      else if (c == 't') c = '\t';
      else if (c == 'x') {
        int hi = hex_digit(p->at[0]), lo = hi < 0 ? -1 : hex_digit(p->at[1]);
        if (hi < 0 || lo < 0 || hi * 16 + lo == 0) parse_fail(p, p->at, "bad \\x escape");
        c = (char)(hi * 16 + lo);
        p->at += 2;
      } else if (c != '"' && c != '\\') parse_fail(p, p->at - 1, "unknown escape");
    }
    text_addn(&t, &c, 1);
  }
  p->at++;
  return module_string(p->m, text_str(&t));
}

int64_t parse_integer(Parser *p, const char *what) {
  parse_skip(p);
  char *end;
  errno = 0;
  const char *start = p->at;
  if (!(*start == '-' || (*start >= '0' && *start <= '9'))) parse_fail(p, start, "expected %s", what);
  long long v = strtoll(start, &end, 10);
  if (end == start || errno) parse_fail(p, start, "%s is not a 64-bit integer", what);
  p->at = end;
  return v;
}

double parse_number(Parser *p, const char *what) {
  parse_skip(p);
  char *end;
  const char *start = p->at;
  double v = strtod(start, &end);
  if (end == start) parse_fail(p, start, "expected %s", what);
  p->at = end;
  return v;
}
