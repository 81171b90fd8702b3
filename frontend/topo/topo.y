/* frontend/topo/topo.y - the grammar of the target language (docs/guide/targets.md).
 *
 * Parsing continues after an error at the end of the statement or block, so one run reports several.
 */
%define api.pure full
%define api.prefix {topo_yy}
%define api.location.type {TopoPlace}
%define parse.error custom
%define parse.lac full
%locations
%param { void *scanner }
%parse-param { TopoParse *p }

%code requires {
#include "frontend/topo/topo.h"
}

%union {
  TopoValue value;
  TopoStatement *statement;
  TopoBlock *block;
}

%code {
#include "base/nearest.h"

int topo_yylex(TOPO_YYSTYPE *value, TOPO_YYLTYPE *at, void *scanner);

static void topo_yyerror(TopoPlace *at, void *scanner, TopoParse *p, const char *message) {
  (void)scanner;
  topo_error(p, *at, "%s", message);
}

static Loc loc_of(const TopoParse *p, TopoPlace at) {
  return (Loc){.file = p->file, .line = at.first_line, .col = at.first_column};
}

static TopoValue placed(const TopoParse *p, TopoPlace at, TopoValue v) {
  v.loc = loc_of(p, at);
  return v;
}

static TopoStatement *new_statement(TopoParse *p, TopoPlace at, const char *name) {
  TopoStatement *s = ARENA_NEW(p->arena, TopoStatement);
  s->name = name;
  s->loc = loc_of(p, at);
  return s;
}

static TopoStatement *add_value(TopoParse *p, TopoPlace at, TopoStatement *s, TopoValue v) {
  if (s->nvalues == TOPO_VALUES) topo_error(p, at, "too many values in one statement");
  else s->values[s->nvalues++] = v;
  return s;
}

static void append(TopoBlock *b, TopoStatement *s) {
  if (!s) return;
  if (b->last) b->last->next = s;
  else b->first = s;
  b->last = s;
}

static TopoBlock *new_block(TopoParse *p, TopoPlace kind_at, const char *kind, TopoPlace at, const char *name) {
  TopoBlock *b = ARENA_NEW(p->arena, TopoBlock);
  b->name = name;
  b->loc = loc_of(p, at);
  if (topo_kind_find(kind, &b->kind)) return b;
  Nearest near = nearest_to(kind);
  for (int k = 0; k < TOPO_KINDS; k++) nearest_try(&near, topo_kind_name((TopoKind)k));
  topo_error(p, kind_at, "there is no kind of block '%s'", kind);
  if (near.best) diag_help(p->diags, "the nearest is '%s'", near.best);
  return b;
}

static void add_block(TopoParse *p, TopoBlock *b) {
  if (p->result.last) p->result.last->next = b;
  else p->result.first = b;
  p->result.last = b;
}
}

%initial-action { @$ = (TopoPlace){1, 1, 1, 1}; }

%token <value> T_WORD "a word" T_NUMBER "a number" T_UNIT "a unit" T_STRING "a string" T_DATE "a date" T_TILE "a tile"
%type <value> value
%type <statement> statement values
%type <block> block open

%%
file: %empty | file block { add_block(p, $2); }

block: open '}'

open:
    T_WORD T_WORD '{' { $$ = new_block(p, @1, $1.text, @2, $2.text); }
  | open statement { $$ = $1; append($1, $2); }

statement:
    values ';'
  | error ';' { $$ = NULL; yyerrok; }

values:
    T_WORD { $$ = new_statement(p, @1, $1.text); }
  | values value { $$ = add_value(p, @2, $1, $2); }

value:
    T_NUMBER { $$ = placed(p, @1, $1); }
  | T_NUMBER T_UNIT { $$ = placed(p, @1, $1); $$.unit = $2.text; $$.number *= $2.number; }
  | T_WORD { $$ = placed(p, @1, $1); }
  | T_STRING { $$ = placed(p, @1, $1); }
  | T_DATE { $$ = placed(p, @1, $1); }
  | T_TILE { $$ = placed(p, @1, $1); }

%%
#include "base/die.h"
#define YYSTYPE TOPO_YYSTYPE
#define YYLTYPE TOPO_YYLTYPE
#include "topo.lex.h"

static int yyreport_syntax_error(const yypcontext_t *context, void *scanner, TopoParse *p) {
  enum { SHOWN = 8 };
  yysymbol_kind_t expected[SHOWN];
  (void)scanner;
  int n = yypcontext_expected_tokens(context, expected, SHOWN);
  if (n < 0) return n;
  Text t = {.arena = p->arena};
  text_printf(&t, "unexpected %s", yysymbol_name(yypcontext_token(context)));
  for (int i = 0; i < n; i++)
    text_printf(&t, "%s%s", i == 0 ? ", expected " : i + 1 == n ? " or " : ", ", yysymbol_name(expected[i]));
  topo_error(p, *yypcontext_location(context), "%s", text_str(&t));
  return 0;
}

bool topo_parse(Diags *d, Arena *a, const char *file, const char *text, TopoFile *out) {
  TopoParse p = {.arena = a, .diags = d, .file = file};
  yyscan_t scanner;
  if (topo_yylex_init_extra(&p, &scanner) != 0) die_out_of_memory("reading a text");
  YY_BUFFER_STATE buffer = topo_yy_scan_string(text, scanner);
  int status = topo_yyparse(scanner, &p);
  topo_yy_delete_buffer(buffer, scanner);
  topo_yylex_destroy(scanner);
  *out = p.result;
  return status == 0 && p.errors == 0;
}
