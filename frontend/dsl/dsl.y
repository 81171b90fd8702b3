/* frontend/dsl/dsl.y - the grammar of the model language (docs/guide/dsl.md).
 *
 * Parsing continues after an error at the end of the statement, so one run reports several.
 */
%define api.pure full
%define api.prefix {dsl_yy}
%define api.location.type {DslPlace}
%define parse.error custom
%define parse.lac full
%locations
%param { void *scanner }
%parse-param { DslParse *p }

%code requires {
#include "frontend/dsl/ast.h"
}

%union {
  int64_t i;
  double f;
  const char *s;
  DslNode *node;
  NodeList list;
}

%code {
int dsl_yylex(DSL_YYSTYPE *value, DSL_YYLTYPE *at, void *scanner);

static void dsl_yyerror(DslPlace *at, void *scanner, DslParse *p, const char *message) {
  (void)scanner;
  dsl_syntax_error(p, *at, "%s", message);
}

static DslNode *named_pair(DslParse *p, NodeKind kind, DslPlace at, const char *name, DslNode *a, DslNode *b,
                           DslNode *c) {
  DslNode *n = dsl_node_named(p, kind, at, name, a);
  n->b = b;
  n->c = c;
  return n;
}
}

%initial-action { @$ = (DslPlace){1, 1, 1, 1}; }

%token T_NEWLINE "end of line" T_IMPORT "'import'" T_PARAM "'param'" T_DIM "'dim'" T_FN "'fn'" T_ENTRY "'entry'"
%token T_WHEN "'when'" T_WEIGHT "'weight'" T_EXPERT_WEIGHT "'expert weight'" T_BUFFER "'buffer'" T_STATE "'state'"
       T_FOR "'for'" T_LOOP "'loop'" T_CARRYING "'carrying'" T_WHILE "'while'" T_IN "'in'" T_AS "'as'"
%token T_IF "'if'" T_ELSE "'else'" T_SCOPE "'scope'" T_RETURN "'return'" T_OUTPUT "'output'" T_CHECK "'check'"
%token T_AND "'and'" T_OR "'or'" T_NOT "'not'" T_RANGE "'..'" T_ELLIPSIS "'...'" T_FLOORDIV "'//'" T_EQ "'=='"
       T_NE "'!='"
%token T_LE "'<='" T_GE "'>='" T_ARROW "'<-'"
%token <s> T_NAME "a name" T_STRING "a string"
%token <i> T_INT "a number"
%token <f> T_FLOAT "a decimal number"

%left T_OR
%left T_AND
%precedence T_NOT
%nonassoc T_EQ T_NE '<' T_LE '>' T_GE
%left '+' '-'
%left '*' '/' '%' T_FLOORDIV
%precedence UNARY

%type <node> item statement simple_statement compound_statement dim expression postfix primary string argument index
%type <node> optional_expression optional_scope optional_name optional_maximum optional_start optional_when
             optional_while
%type <node> if_statement parameter block name
%type <list> items statements dims expressions arguments argument_list indices index_list parameters
             parameter_list names

%%
file: items { p->items = $1.first; }

items:
    %empty { $$ = (NodeList){0}; }
  | items item { $$ = dsl_list_add($1, $2); }
  | items T_NEWLINE { $$ = $1; }

item:
    T_IMPORT T_NAME T_NEWLINE { $$ = dsl_node_named(p, N_IMPORT, @2, $2, NULL); }
  | T_PARAM T_NAME '=' expression T_NEWLINE { $$ = dsl_node_named(p, N_PARAM, @2, $2, $4); }
  | T_DIM dims T_NEWLINE { $$ = dsl_node_children(p, N_DIMS, @1, $2.first, NULL); }
  | T_FN T_NAME '(' parameters ')' block { $$ = named_pair(p, N_FUNCTION, @2, $2, $4.first, $6, NULL); }
  | T_ENTRY T_NAME '(' parameters ')' optional_when block { $$ = named_pair(p, N_ENTRY, @2, $2, $4.first, $7, $6); }
  | name '=' expression T_NEWLINE { $$ = dsl_node_children(p, N_ASSIGN, @1, $1, $3); }
  | T_CHECK expression ',' expression T_NEWLINE { $$ = dsl_node_children(p, N_CHECK, @2, $2, $4); }
  | error T_NEWLINE { $$ = NULL; yyerrok; }
  | error block { $$ = NULL; (void)$2; yyerrok; }
  | error '}' { $$ = NULL; yyerrok; }

dims: dim { $$ = dsl_list_of($1); } | dims ',' dim { $$ = dsl_list_add($1, $3); }
dim: T_NAME optional_maximum { $$ = dsl_node_named(p, N_DIM, @1, $1, $2); }
optional_maximum: %empty { $$ = NULL; } | T_LE expression { $$ = $2; }
optional_when: %empty { $$ = NULL; } | T_WHEN expression { $$ = $2; }

parameters: %empty { $$ = (NodeList){0}; } | parameter_list | parameter_list ','
parameter_list: parameter { $$ = dsl_list_of($1); } | parameter_list ',' parameter { $$ = dsl_list_add($1, $3); }
parameter:
    T_NAME { $$ = dsl_node_named(p, N_PARAMETER, @1, $1, NULL); }
  | T_NAME '=' expression { $$ = dsl_node_named(p, N_PARAMETER, @1, $1, $3); $$->i = '='; }
  | T_NAME ':' expression { $$ = dsl_node_named(p, N_PARAMETER, @1, $1, $3); $$->i = ':'; }

block:
    '{' statements '}' { $$ = $2.first; }
  | '{' statements simple_statement '}' { $$ = dsl_list_add($2, $3).first; }
  | '{' statements error '}' { $$ = $2.first; yyerrok; }

statements:
    %empty { $$ = (NodeList){0}; }
  | statements statement { $$ = dsl_list_add($1, $2); }
  | statements T_NEWLINE { $$ = $1; }

statement:
    simple_statement T_NEWLINE
  | compound_statement
  | error T_NEWLINE { $$ = NULL; yyerrok; }
  | error block { $$ = NULL; (void)$2; yyerrok; }

simple_statement:
    names '=' expression { $$ = dsl_node_children(p, N_ASSIGN, @1, $1.first, $3); }
  | T_NAME T_ARROW expression { $$ = dsl_node_named(p, N_WRITE, @1, $1, $3); }
  | postfix { $$ = dsl_node_children(p, N_EXPRESSION, @1, $1, NULL); }
  | T_WEIGHT T_NAME optional_name ':' expression '=' expression {
      $$ = named_pair(p, N_WEIGHT, @2, $2, $3, $5, $7);
    }
  | T_EXPERT_WEIGHT T_NAME optional_name ':' expression '=' expression {
      $$ = named_pair(p, N_WEIGHT, @2, $2, $3, $5, $7);
      $$->i = WEIGHT_OF_EXPERTS;
    }
  | T_BUFFER T_NAME optional_name ':' expression '=' expression {
      $$ = named_pair(p, N_WEIGHT, @2, $2, $3, $5, $7);
      $$->i = WEIGHT_BUFFER;
    }
  | T_STATE T_NAME optional_name ':' expression optional_start {
      $$ = named_pair(p, N_STATE, @2, $2, $3, $5, $6);
    }
  | T_RETURN { $$ = dsl_node_new(p, N_RETURN, @1); }
  | T_RETURN expression { $$ = dsl_node_children(p, N_RETURN, @1, $2, NULL); }
  | T_OUTPUT T_NAME { $$ = dsl_node_named(p, N_OUTPUT, @2, $2, dsl_node_named(p, N_NAME, @2, $2, NULL)); }
  | T_OUTPUT T_NAME '=' expression { $$ = dsl_node_named(p, N_OUTPUT, @2, $2, $4); }
  | T_CHECK expression ',' expression { $$ = dsl_node_children(p, N_CHECK, @2, $2, $4); }

compound_statement:
    T_FOR T_NAME T_IN expression T_RANGE expression optional_scope block {
      $$ = named_pair(p, N_FOR, @2, $2, $4, $6, $8);
      $$->d = $7;
    }
  | T_FOR T_NAME T_IN expression optional_scope block {
      $$ = named_pair(p, N_FOR, @2, $2, $4, NULL, $6);
      $$->d = $5;
    }
  | T_LOOP T_NAME '<' expression T_CARRYING names optional_while block {
      $$ = named_pair(p, N_LOOP, @2, $2, $4, $6.first, $8);
      $$->d = $7;
    }
  | T_SCOPE expression block { $$ = dsl_node_children(p, N_SCOPE, @2, $2, $3); }
  | if_statement

if_statement:
    T_IF expression block { $$ = named_pair(p, N_IF, @2, NULL, $2, $3, NULL); }
  | T_IF expression block T_ELSE block { $$ = named_pair(p, N_IF, @2, NULL, $2, $3, $5); }
  | T_IF expression block T_ELSE if_statement { $$ = named_pair(p, N_IF, @2, NULL, $2, $3, $5); }

optional_while: %empty { $$ = NULL; } | T_WHILE expression { $$ = $2; }
optional_name: %empty { $$ = NULL; } | string
optional_scope: %empty { $$ = NULL; } | T_SCOPE expression { $$ = $2; }
optional_start: %empty { $$ = NULL; } | '=' expression { $$ = $2; }
name: T_NAME { $$ = dsl_node_named(p, N_NAME, @1, $1, NULL); }
names: name { $$ = dsl_list_of($1); } | names ',' name { $$ = dsl_list_add($1, $3); }

expressions: expression { $$ = dsl_list_of($1); } | expressions ',' expression { $$ = dsl_list_add($1, $3); }
expression:
    postfix
  | '-' expression %prec UNARY { $$ = dsl_node_unary(p, NO_NEG, @1, $2); }
  | T_NOT expression { $$ = dsl_node_unary(p, NO_NOT, @1, $2); }
  | expression '+' expression { $$ = dsl_node_binary(p, NO_ADD, @2, $1, $3); }
  | expression '-' expression { $$ = dsl_node_binary(p, NO_SUB, @2, $1, $3); }
  | expression '*' expression { $$ = dsl_node_binary(p, NO_MUL, @2, $1, $3); }
  | expression '/' expression { $$ = dsl_node_binary(p, NO_DIV, @2, $1, $3); }
  | expression T_FLOORDIV expression { $$ = dsl_node_binary(p, NO_FLOORDIV, @2, $1, $3); }
  | expression '%' expression { $$ = dsl_node_binary(p, NO_MOD, @2, $1, $3); }
  | expression T_EQ expression { $$ = dsl_node_binary(p, NO_EQ, @2, $1, $3); }
  | expression T_NE expression { $$ = dsl_node_binary(p, NO_NE, @2, $1, $3); }
  | expression '<' expression { $$ = dsl_node_binary(p, NO_LT, @2, $1, $3); }
  | expression T_LE expression { $$ = dsl_node_binary(p, NO_LE, @2, $1, $3); }
  | expression '>' expression { $$ = dsl_node_binary(p, NO_GT, @2, $1, $3); }
  | expression T_GE expression { $$ = dsl_node_binary(p, NO_GE, @2, $1, $3); }
  | expression T_AND expression { $$ = dsl_node_binary(p, NO_AND, @2, $1, $3); }
  | expression T_OR expression { $$ = dsl_node_binary(p, NO_OR, @2, $1, $3); }

postfix:
    primary
  | T_NAME '(' arguments ')' { $$ = dsl_node_named(p, N_CALL, @1, $1, $3.first); }
  | T_NAME '(' arguments ')' T_AS primary { $$ = named_pair(p, N_CALL, @1, $1, $3.first, $6, NULL); }
  | postfix '[' indices ']' { $$ = dsl_node_children(p, N_INDEX, @1, $1, $3.first); }
  | postfix '.' T_NAME { $$ = dsl_node_named(p, N_FIELD, @3, $3, $1); }

primary:
    T_INT { $$ = dsl_node_new(p, N_INT, @1); $$->i = $1; }
  | T_FLOAT { $$ = dsl_node_new(p, N_FLOAT, @1); $$->f = $1; }
  | string
  | name
  | '(' expression ')' { $$ = $2; }
  | '[' ']' { $$ = dsl_node_new(p, N_LIST, @1); }
  | '[' expressions ']' { $$ = dsl_node_children(p, N_LIST, @1, $2.first, NULL); }
  | '[' expressions ',' ']' { $$ = dsl_node_children(p, N_LIST, @1, $2.first, NULL); }

string: T_STRING { $$ = dsl_node_named(p, N_STRING, @1, $1, NULL); }

arguments: %empty { $$ = (NodeList){0}; } | argument_list | argument_list ','
argument_list: argument { $$ = dsl_list_of($1); } | argument_list ',' argument { $$ = dsl_list_add($1, $3); }
argument:
    expression { $$ = dsl_node_children(p, N_ARGUMENT, @1, $1, NULL); }
  | T_NAME '=' expression { $$ = dsl_node_named(p, N_ARGUMENT, @1, $1, $3); }

indices: %empty { $$ = (NodeList){0}; } | index_list | index_list ','
index_list: index { $$ = dsl_list_of($1); } | index_list ',' index { $$ = dsl_list_add($1, $3); }
index:
    expression
  | T_ELLIPSIS { $$ = dsl_node_new(p, N_ELLIPSIS, @1); }
  | optional_expression ':' optional_expression { $$ = dsl_node_children(p, N_SLICE, @2, $1, $3); }
  | optional_expression ':' optional_expression ':' expression {
      $$ = dsl_node_children(p, N_SLICE, @2, $1, $3);
      $$->c = $5;
    }
optional_expression: %empty { $$ = NULL; } | expression

%%
#include <string.h>

#include "base/die.h"
#include "base/text.h"
#define YYSTYPE DSL_YYSTYPE
#define YYLTYPE DSL_YYLTYPE
#include "dsl.lex.h"

/* Groups of tokens with a common name: if the first token of a group is expected, the name stands for all its tokens
 * that are expected. */
static const struct {
  const char *tokens[24], *name;
} groups[] = {
    {{"'import'", "'param'", "'dim'", "'fn'", "'entry'", "'check'", "a name"}, "a declaration"},
    {{"'return'", "'weight'", "'expert weight'", "'buffer'", "'state'", "'for'", "'loop'", "'if'", "'scope'",
      "'output'", "'check'", "a name", "a string", "a number", "a decimal number", "'('", "'['", "end of line"},
     "a statement"},
    {{"a decimal number", "a number", "a string", "a name", "'('", "'['", "'-'", "'+'", "'not'", "'if'", "'for'"},
     "an expression"},
    {{"'*'", "'+'", "'-'", "'/'", "'%'", "'//'", "'=='", "'!='", "'<'", "'<='", "'>'", "'>='", "'and'", "'or'", "'if'",
      "'for'", "'.'", "'('", "'['"},
     "an operator"},
};

static int find_name(const char *const *names, int n, const char *name) {
  for (int i = 0; i < n; i++)
    if (names[i] && strcmp(names[i], name) == 0) return i;
  return -1;
}

/* Replaces the first token of a group by the group's name, and drops the others. */
static void group_names(const char **names, int n) {
  for (size_t g = 0; g < sizeof groups / sizeof *groups; g++) {
    if (find_name(names, n, groups[g].tokens[0]) < 0) continue;
    for (int k = 0; k < 24 && groups[g].tokens[k]; k++) {
      int at = find_name(names, n, groups[g].tokens[k]);
      if (at >= 0) names[at] = k == 0 ? groups[g].name : NULL;
    }
  }
}

static int yyreport_syntax_error(const yypcontext_t *context, void *scanner, DslParse *p) {
  yysymbol_kind_t expected[YYNTOKENS];
  const char *names[YYNTOKENS];
  (void)scanner;
  int n = yypcontext_expected_tokens(context, expected, YYNTOKENS), left = 0, shown = 0;
  if (n < 0) return n;
  for (int i = 0; i < n; i++) names[i] = yysymbol_name(expected[i]);
  group_names(names, n);
  for (int i = 0; i < n; i++) left += names[i] != NULL;
  Text t = {.arena = p->arena};
  text_printf(&t, "unexpected %s", yysymbol_name(yypcontext_token(context)));
  for (int i = 0; i < n; i++)
    if (names[i])
      text_printf(&t, "%s%s", shown == 0 ? ", expected " : shown + 1 == left ? " or " : ", ", names[i]), shown++;
  dsl_syntax_error(p, *yypcontext_location(context), "%s", text_str(&t));
  /* Recovery skips to the end of the statement: let the scanner return newlines, even inside parentheses. */
  p->depth = 0;
  p->recovering = yypcontext_token(context) != YYSYMBOL_T_NEWLINE;
  return 0;
}

bool dsl_parse(DslParse *p, const char *text) {
  yyscan_t scanner;
  if (dsl_yylex_init_extra(p, &scanner) != 0) die_out_of_memory("reading a text");
  YY_BUFFER_STATE buffer = dsl_yy_scan_string(text, scanner);
  int status = dsl_yyparse(scanner, p);
  dsl_yy_delete_buffer(buffer, scanner);
  dsl_yylex_destroy(scanner);
  return status == 0 && p->errors == 0;
}
