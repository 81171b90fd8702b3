/* ir/parse_internal.h - the reader of IR text; private to ir/parse*.c.  Errors do not return: they leave through
 * p->out. */
#ifndef APC_IR_PARSE_INTERNAL_H
#define APC_IR_PARSE_INTERNAL_H

#include <setjmp.h>

#include "ir/ir.h"

typedef struct Parser {
  const char *file, *text, *at;
  Module *m;
  Diags *diags;
  Func *f;
  Builder b;
  int depth, terms; /* of the current expression */
  bool has_mesh;
  jmp_buf out;
} Parser;

/* parse_words.c.  `what` names the expected item in the diagnostic; white space and comments before it are skipped. */
Loc parse_here(const Parser *p, const char *at);
/* Reports an error at the first word at or after `at`. */
void parse_fail(Parser *p, const char *at, const char *format, ...) __attribute__((format(printf, 3, 4), noreturn));
void parse_skip(Parser *p);
bool parse_accept(Parser *p, const char *punctuation);
void parse_expect(Parser *p, const char *punctuation);
bool parse_word_char(char c);
bool parse_accept_word(Parser *p, const char *word);
const char *parse_word(Parser *p, const char *what);
const char *parse_quoted(Parser *p, const char *what);
int64_t parse_integer(Parser *p, const char *what);
double parse_number(Parser *p, const char *what);

/* parse_types.c */
const Expr *parse_expr(Parser *p);
DType parse_dtype(Parser *p);
const Type *parse_type(Parser *p);
/* Axis names contain no dot; `a.b` is a list. */
int parse_axis(Parser *p);
const Layout *parse_layout(Parser *p, int rank);

#endif
