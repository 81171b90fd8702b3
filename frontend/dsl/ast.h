/* frontend/dsl/ast.h - the syntax tree of the model language, and its parser.
 *
 * Nodes live in the parser's arena.  Lists are linked through `next`.  After parsing the tree is read-only except
 * for `reported`, which keeps a loop from repeating an error.
 */
#ifndef APC_FRONTEND_DSL_AST_H
#define APC_FRONTEND_DSL_AST_H

#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/diag.h"

typedef enum NodeKind {
  /* expressions */
  N_INT,      /* i */
  N_FLOAT,    /* f */
  N_STRING,   /* s; {name} is replaced when it is evaluated */
  N_NAME,     /* s */
  N_LIST,     /* a: items */
  N_UNARY,    /* op, a */
  N_BINARY,   /* op, a, b */
  N_CALL,     /* s: function, a: N_ARGUMENT list, b: scope name or NULL */
  N_ARGUMENT, /* s: keyword or NULL, a */
  N_INDEX,    /* a: the value, b: list of expressions, N_SLICE, N_ELLIPSIS */
  N_SLICE,    /* a: start or NULL, b: end or NULL, c: step or NULL */
  N_ELLIPSIS,
  N_FIELD, /* a, s: name */
  /* statements */
  N_ASSIGN,     /* a: list of N_NAME, b: value */
  N_WRITE,      /* s: state variable, a: value */
  N_EXPRESSION, /* a */
  N_WEIGHT,     /* s: variable, a: weight name (N_STRING) or NULL, b: type, c: initialiser, i: WeightKind */
  N_STATE,      /* s: variable, a: state name (N_STRING) or NULL, b: type, c: start value or NULL */
  N_FOR,        /* s: variable, a: start or the list, b: end or NULL, c: body, d: scope name or NULL */
  N_LOOP,   /* s: variable, a: rounds, or `rounds <= most`, b: list of N_NAME carried, c: body, d: condition or NULL */
  N_IF,     /* a: condition, b: body, c: else body (a list; one N_IF for "else if") */
  N_SCOPE,  /* a: name, b: body */
  N_RETURN, /* a: value or NULL */
  N_OUTPUT, /* s: name, a: value */
  N_CHECK,  /* a: condition, b: message */
  /* items of a file */
  N_IMPORT,    /* s */
  N_PARAM,     /* s, a: default */
  N_DIMS,      /* a: list of N_DIM */
  N_DIM,       /* s, a: largest value or NULL */
  N_FUNCTION,  /* s, a: N_PARAMETER list, b: body */
  N_ENTRY,     /* s, a: N_PARAMETER list (a: type), b: body, c: condition or NULL */
  N_PARAMETER, /* s, a: default (of a function) or type (of an entry), or NULL */
} NodeKind;

/* The keyword of a weight statement. */
typedef enum WeightKind { WEIGHT_TRAINED, WEIGHT_BUFFER, WEIGHT_OF_EXPERTS } WeightKind;

typedef enum NodeOp {
  NO_NEG,
  NO_NOT,
  NO_ADD,
  NO_SUB,
  NO_MUL,
  NO_DIV,
  NO_FLOORDIV,
  NO_MOD,
  NO_EQ,
  NO_NE,
  NO_LT,
  NO_LE,
  NO_GT,
  NO_GE,
  NO_AND,
  NO_OR,
} NodeOp;

typedef struct DslNode {
  NodeKind kind;
  NodeOp op;
  int line, col;
  bool reported; /* an error was reported here and is not repeated */
  int64_t i;
  double f;
  const char *s;
  struct DslNode *a, *b, *c, *d, *next;
} DslNode;

/* A list while it is being built. */
typedef struct NodeList {
  DslNode *first, *last;
} NodeList;

/* The state of parsing one file, shared by scanner and parser. */
typedef struct DslParse {
  Arena *arena;
  Diags *diags;
  const char *file;
  DslNode *items;  /* the result */
  int depth;       /* open parentheses and brackets: a newline inside does not end a statement */
  int last;        /* the last token, which decides whether a newline ends a statement */
  bool recovering; /* after a syntax error, until the next newline */
  int errors;
} DslParse;

typedef struct DslPlace {
  int first_line, first_column, last_line, last_column;
} DslPlace;

/* Make a node: without children, with a name, with children, and the nodes of operators.  Lists begin with one node and
 * grow at the end. */
DslNode *dsl_node_new(DslParse *p, NodeKind kind, DslPlace at);
DslNode *dsl_node_named(DslParse *p, NodeKind kind, DslPlace at, const char *name, DslNode *a);
DslNode *dsl_node_children(DslParse *p, NodeKind kind, DslPlace at, DslNode *a, DslNode *b);
DslNode *dsl_node_binary(DslParse *p, NodeOp op, DslPlace at, DslNode *a, DslNode *b);
DslNode *dsl_node_unary(DslParse *p, NodeOp op, DslPlace at, DslNode *a);
NodeList dsl_list_of(DslNode *n);
NodeList dsl_list_add(NodeList l, DslNode *n);

/* Reports a syntax error at `at`; further ones are dropped after the twentieth. */
void dsl_syntax_error(DslParse *p, DslPlace at, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Parses text; false after diagnostics (then p->items holds the parts that could be parsed). */
bool dsl_parse(DslParse *p, const char *text);

#endif
