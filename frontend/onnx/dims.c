/* frontend/onnx/dims.c - see dims.h.  Grammar: sum = product (('+' | '-') product)*, product = ['-'] atom ('*'
 * atom)*, atom = name | number | '(' sum ')'. */
#include "frontend/onnx/dims.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "frontend/known.h"

enum { MAX_SUM = 256 }; /* characters; longer texts are names */

static bool name_char(char c, bool first) {
  return isalpha((unsigned char)c) || c == '_' || (!first && (isdigit((unsigned char)c) || c == '.'));
}

/* Returns the symbol of that name, or the number that the options bind it to. */
static const Expr *assumed(OnnxDims *dims, const char *text);

static const Expr *named(OnnxDims *dims, const char *name) {
  for (size_t i = 0; dims->options && i < dims->options->ndims; i++) {
    if (strcmp(dims->options->dims[i].name, name) != 0) continue;
    dims->bound[i] = true;
    return ex_const(dims->m, dims->options->dims[i].size);
  }
  const OnnxAssumption *a = assumption_of(dims->assumed, name);
  const Expr *is = a && a->is ? assumed(dims, a->is) : NULL;
  if (is) return is;
  bool fresh = module_symbol_find(dims->m, name) < 0;
  int symbol = module_symbol(dims->m, name);
  if (fresh && a) dims->m->symbols.items[symbol].min = a->min, dims->m->symbols.items[symbol].max = a->max;
  return ex_sym(dims->m, symbol);
}

typedef struct Cursor {
  OnnxDims *dims;
  const char *at;
  int depth;
} Cursor;

static const Expr *sum(Cursor *c);

static void blanks(Cursor *c) {
  while (*c->at == ' ') c->at++;
}

static const Expr *atom(Cursor *c) {
  blanks(c);
  const char *start = c->at;
  if (*start == '(' && c->depth < 16) {
    c->at++, c->depth++;
    const Expr *e = sum(c);
    blanks(c);
    c->depth--;
    return e && *c->at++ == ')' ? e : NULL;
  }
  if (isdigit((unsigned char)*start)) {
    char *end;
    long v = strtol(start, &end, 10);
    c->at = end;
    return v <= MAX_EXTENT ? ex_const(c->dims->m, v) : NULL;
  }
  while (name_char(*c->at, c->at == start)) c->at++;
  if (c->at == start) return NULL;
  return named(c->dims, arena_strndup(c->dims->m->arena, start, (size_t)(c->at - start)));
}

static const Expr *product(Cursor *c) {
  blanks(c);
  bool minus = *c->at == '-';
  if (minus) c->at++;
  const Expr *e = atom(c), *f;
  if (e && minus) e = ex_muli(c->dims->m, e, -1);
  for (blanks(c); e && *c->at == '*'; blanks(c)) {
    c->at++;
    e = (f = atom(c)) ? ex_mul(c->dims->m, e, f) : NULL;
  }
  return e;
}

static const Expr *sum(Cursor *c) {
  const Expr *e = product(c), *f;
  for (blanks(c); e && (*c->at == '+' || *c->at == '-'); blanks(c)) {
    bool plus = *c->at++ == '+';
    if (!(f = product(c))) return NULL;
    e = plus ? ex_add(c->dims->m, e, f) : ex_sub(c->dims->m, e, f);
  }
  return e;
}

/* Parses an expression that assume_equal printed.  Its dimensions are those of an earlier attempt, so each is looked
 * up by name again. */
static const Expr *assumed(OnnxDims *dims, const char *text) {
  Cursor c = {dims, text, 0};
  return sum(&c);
}

/* Checks only the syntax, so that a text that does not parse adds no symbols. */
static bool looks_like_sum(const char *s) {
  bool operand = false; /* the previous token was an operand */
  int open = 0;
  for (; *s; s++) {
    if (*s == ' ') continue;
    if (*s == '(') {
      if (operand) return false;
      open++;
      continue;
    }
    if (*s == ')') {
      if (!operand || --open < 0) return false;
      continue;
    }
    if (strchr("+-*", *s)) {
      if (!operand) return false;
      operand = false;
      continue;
    }
    if (operand || !(name_char(*s, true) || isdigit((unsigned char)*s))) return false;
    bool number = isdigit((unsigned char)*s);
    while (number ? isdigit((unsigned char)s[1]) : name_char(s[1], false)) s++;
    if (number && name_char(s[1], true)) return false;
    operand = true;
  }
  return operand && open == 0;
}

const char *onnx_dim_name(Arena *a, const char *name) {
  char *copy = arena_printf(a, "%s%s", name_char(name[0], true) ? "" : "_", name);
  for (char *p = copy; *p; p++)
    if (!name_char(*p, p == copy)) *p = '_';
  return copy;
}

const Expr *onnx_dim(OnnxDims *dims, const char *input, size_t k, const Onnx__TensorShapeProto__Dimension *d) {
  bool is_param = d && d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
  if (d && d->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE && d->dim_value >= 0)
    return ex_const(dims->m, d->dim_value);
  if (!is_param || !d->dim_param || !*d->dim_param)
    return named(dims, onnx_dim_name(dims->m->arena, arena_printf(dims->m->arena, "%s_dim%zu", input, k)));
  if (strlen(d->dim_param) <= MAX_SUM && looks_like_sum(d->dim_param)) {
    Cursor c = {dims, d->dim_param, 0};
    const Expr *e = sum(&c);
    if (e && *c.at == '\0') return e;
  }
  return named(dims, onnx_dim_name(dims->m->arena, d->dim_param));
}
