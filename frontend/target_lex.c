/* frontend/target_lex.c - see target_lex.h.  A word starts with a letter and goes on with letters, digits and _ . / - ;
 * a number is decimal without sign or exponent; # starts a comment. */
#include "frontend/target_lex.h"

#include <stdlib.h>
#include <string.h>

TopoLexer topo_lexer(Arena *a, const char *file, const char *text) {
  return (TopoLexer){a, text, text, {.file = file, .line = 1, .col = 1}};
}

static bool letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static bool digit(char c) { return c >= '0' && c <= '9'; }

static void skip_space(TopoLexer *x) {
  for (;;) {
    if (*x->at == '#') x->at += strcspn(x->at, "\n");
    if (*x->at == '\n') {
      x->loc.line++;
      x->line_start = x->at + 1;
    } else if (*x->at != ' ' && *x->at != '\t' && *x->at != '\r') {
      return;
    }
    x->at++;
  }
}

TopoToken topo_next(TopoLexer *x) {
  skip_space(x);
  const char *s = x->at;
  TopoToken t = {.loc = x->loc};
  t.loc.col = (int)(s - x->line_start) + 1;
  if (!*s) return t;
  if (letter(*s)) {
    while (letter(*x->at) || digit(*x->at) || (*x->at && strchr("_./-", *x->at))) x->at++;
    t.kind = TOPO_WORD;
  } else if (digit(*s)) {
    x->at += strspn(s, "0123456789");
    if (*x->at == '.') x->at += 1 + strspn(x->at + 1, "0123456789");
    t.kind = TOPO_NUMBER;
    t.number = strtod(arena_strndup(x->arena, s, (size_t)(x->at - s)), NULL);
  } else {
    x->at++;
    t.kind = strchr("{};", *s) ? TOPO_PUNCT : TOPO_BAD;
  }
  t.text = arena_strndup(x->arena, s, (size_t)(x->at - s));
  return t;
}
