/* frontend/target_lex.h - words, numbers and punctuation of a .topo file, with their places. */
#ifndef APC_FRONTEND_TARGET_LEX_H
#define APC_FRONTEND_TARGET_LEX_H

#include "base/arena.h"
#include "base/diag.h"

typedef enum TopoKind { TOPO_END, TOPO_WORD, TOPO_NUMBER, TOPO_PUNCT, TOPO_BAD } TopoKind;

typedef struct TopoToken {
  TopoKind kind;
  const char *text; /* WORD: the word; PUNCT and BAD: the character */
  double number;
  Loc loc;
} TopoToken;

typedef struct TopoLexer {
  Arena *arena;
  const char *at, *line_start;
  Loc loc;
} TopoLexer;

TopoLexer topo_lexer(Arena *a, const char *file, const char *text);
TopoToken topo_next(TopoLexer *x);

#endif
