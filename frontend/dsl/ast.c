/* frontend/dsl/ast.c - constructors of syntax tree nodes. */
#include "frontend/dsl/ast.h"

#include <stdarg.h>

DslNode *dsl_node_new(DslParse *p, NodeKind kind, DslPlace at) {
  DslNode *n = ARENA_NEW(p->arena, DslNode);
  n->kind = kind;
  n->line = at.first_line;
  n->col = at.first_column;
  return n;
}

DslNode *dsl_node_named(DslParse *p, NodeKind kind, DslPlace at, const char *name, DslNode *a) {
  DslNode *n = dsl_node_new(p, kind, at);
  n->s = name;
  n->a = a;
  return n;
}

DslNode *dsl_node_children(DslParse *p, NodeKind kind, DslPlace at, DslNode *a, DslNode *b) {
  DslNode *n = dsl_node_new(p, kind, at);
  n->a = a;
  n->b = b;
  return n;
}

DslNode *dsl_node_binary(DslParse *p, NodeOp op, DslPlace at, DslNode *a, DslNode *b) {
  DslNode *n = dsl_node_children(p, N_BINARY, at, a, b);
  n->op = op;
  return n;
}

DslNode *dsl_node_unary(DslParse *p, NodeOp op, DslPlace at, DslNode *a) {
  DslNode *n = dsl_node_children(p, N_UNARY, at, a, NULL);
  n->op = op;
  return n;
}

NodeList dsl_list_of(DslNode *n) { return (NodeList){n, n}; }

NodeList dsl_list_add(NodeList l, DslNode *n) {
  if (!n) return l;
  if (!l.first) return dsl_list_of(n);
  l.last->next = n;
  l.last = n;
  return l;
}

void dsl_syntax_error(DslParse *p, DslPlace at, const char *format, ...) {
  enum { SHOWN = 20 }; /* later errors are seldom about the model */
  va_list args;
  if (p->errors++ >= SHOWN) return;
  va_start(args, format);
  const char *text = arena_vprintf(p->arena, format, args);
  va_end(args);
  diag_error(p->diags, DIAG_dsl_syntax, (Loc){p->file, NULL, at.first_line, at.first_column}, "%s", text);
}
