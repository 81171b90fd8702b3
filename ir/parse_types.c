/* ir/parse_types.c - expressions, types and layouts of IR text. */
#include <string.h>

#include "ir/parse_internal.h"

/* Printed text must be readable: an atom and a coefficient for each part of an expression, and one level for each of
 * its levels. */
enum { MAX_DEPTH = MAX_EXPR_DEPTH, MAX_TERMS = 2 * MAX_EXPR_SIZE };

/* ---- expressions */

static const Expr *expr_atom(Parser *p) {
  parse_skip(p);
  const char *start = p->at;
  if (++p->terms > MAX_TERMS) parse_fail(p, start, "expression of more than %d terms", MAX_TERMS);
  if (++p->depth > MAX_DEPTH) parse_fail(p, start, "expression nested too deeply");
  const Expr *e;
  if (parse_accept(p, "(")) {
    e = parse_expr(p);
    parse_expect(p, ")");
  } else if (parse_accept(p, "@")) {
    const char *axis = parse_word(p, "a mesh axis");
    int a = mesh_axis_find(&p->m->mesh, axis);
    if (a < 0) parse_fail(p, start, "unknown mesh axis '%s'", axis);
    e = mesh_coordinate(p->m, a);
  } else if (*p->at >= '0' && *p->at <= '9') {
    e = ex_const(p->m, parse_integer(p, "a number"));
  } else {
    const char *name = parse_word(p, "an expression");
    bool min = strcmp(name, "min") == 0, max = strcmp(name, "max") == 0;
    if ((min || max) && parse_accept(p, "(")) {
      e = parse_expr(p);
      while (parse_accept(p, ",")) e = min ? ex_min(p->m, e, parse_expr(p)) : ex_max(p->m, e, parse_expr(p));
      parse_expect(p, ")");
    } else {
      int s = module_symbol_find(p->m, name);
      if (s < 0) parse_fail(p, start, "unknown symbol '%s'", name);
      e = ex_sym(p->m, s);
    }
  }
  p->depth--;
  return e;
}

/* The least integer, whose absolute value does not fit. */
static const Expr *least_number(Parser *p) {
  static const char digits[] = "9223372036854775808";
  size_t n = sizeof digits - 1;
  parse_skip(p);
  if (strncmp(p->at, digits, n) != 0 || parse_word_char(p->at[n])) return NULL;
  p->at += n;
  return ex_const(p->m, INT64_MIN);
}

/* A product and its sign. */
static const Expr *expr_product(Parser *p, bool negative) {
  const Expr *least = negative ? least_number(p) : NULL, *e = least ? least : expr_atom(p);
  for (;;) {
    if (parse_accept(p, "*")) {
      e = ex_mul(p->m, e, expr_atom(p));
    } else if (parse_accept_word(p, "div")) {
      const char *start = p->at;
      const Expr *d = expr_atom(p);
      if (d->kind == EX_CONST && d->value <= 0) parse_fail(p, start, "divisor must be positive");
      if (least) parse_fail(p, start, "the dividend is not a 64-bit integer");
      e = ex_div(p->m, e, d);
    } else {
      return negative && !least ? ex_muli(p->m, e, -1) : e;
    }
  }
}

const Expr *parse_expr(Parser *p) {
  parse_skip(p);
  const char *start = p->at;
  if (p->depth == 0) p->terms = 0;
  const Expr *e = expr_product(p, parse_accept(p, "-"));
  for (;;) {
    if (p->m->expr_fault) parse_fail(p, start, "%s", p->m->expr_fault);
    if (parse_accept(p, "+")) e = ex_add(p->m, e, expr_product(p, false));
    else if (parse_accept(p, "-")) e = ex_add(p->m, e, expr_product(p, true));
    else return e;
  }
}

/* ---- types and layouts */

DType parse_dtype(Parser *p) {
  parse_skip(p);
  const char *start = p->at, *name = parse_word(p, "an element type");
  DType t;
  if (!dtype_find(name, &t)) parse_fail(p, start, "unknown element type '%s'", name);
  return t;
}

const Type *parse_type(Parser *p) {
  const Expr *dims[MAX_RANK];
  int rank = 0;
  DType t = parse_dtype(p);
  parse_expect(p, "[");
  if (!parse_accept(p, "]")) {
    do {
      if (rank == MAX_RANK) parse_fail(p, p->at, "more than %d dimensions", MAX_RANK);
      const char *start = p->at;
      dims[rank] = parse_expr(p);
      if (dims[rank]->kind == EX_CONST && dims[rank]->value < 0) parse_fail(p, start, "negative extent");
      rank++;
    } while (parse_accept(p, ","));
    parse_expect(p, "]");
  }
  return type_get(p->m, t, rank, dims);
}

int parse_axis(Parser *p) {
  parse_skip(p);
  const char *start = p->at;
  size_t n = 0;
  while (parse_word_char(p->at[n]) && p->at[n] != '.') n++;
  const char *name = arena_strndup(p->m->arena, p->at, n);
  int a = mesh_axis_find(&p->m->mesh, name);
  if (!n || a < 0) parse_fail(p, start, "unknown mesh axis '%s'", name);
  p->at += n;
  return a;
}

const Layout *parse_layout(Parser *p, int rank) {
  Layout l = {.rank = rank};
  uint32_t used = 0;
  parse_expect(p, "{");
  if (parse_accept(p, "}")) return layout_get(p->m, &l);
  do {
    parse_skip(p);
    const char *start = p->at;
    if (*p->at >= '0' && *p->at <= '9') {
      int64_t d = parse_integer(p, "a dimension");
      if (d < 0 || d >= rank) parse_fail(p, start, "dimension %lld is outside a value of rank %d", (long long)d, rank);
      DimLayout *k = &l.dims[d];
      if (k->n) parse_fail(p, start, "duplicate dimension %lld", (long long)d);
      parse_expect(p, ":");
      do {
        int a = parse_axis(p);
        if (used & (1u << a)) parse_fail(p, start, "axis %s is used twice", p->m->mesh.axes[a].name);
        used |= 1u << a;
        k->axes[k->n++] = (uint8_t)a;
      } while (parse_accept(p, "."));
      k->unit = ex_const(p->m, 1);
      if (parse_accept(p, "/")) k->unit = expr_atom(p);
      if (k->unit->kind == EX_CONST && k->unit->value <= 0) parse_fail(p, start, "unit must be positive");
    } else {
      const char *name = parse_word(p, "a dimension or a reduction");
      if (!reduction_find(name, &l.partial) || l.partial == RED_NONE)
        parse_fail(p, start, "unknown reduction '%s'", name);
      parse_expect(p, ":");
      do {
        int a = parse_axis(p);
        if (used & (1u << a)) parse_fail(p, start, "axis %s is used twice", p->m->mesh.axes[a].name);
        used |= 1u << a;
        l.partial_axes |= 1u << a;
      } while (parse_accept(p, "."));
    }
  } while (parse_accept(p, ","));
  parse_expect(p, "}");
  return layout_get(p->m, &l);
}
