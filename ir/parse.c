/* ir/parse.c - the reader of IR text: a hand-written recursive descent over one character pointer.
 *
 * In: a whole file.  Out: a new module, or diagnostics with line and column.  The first error ends the parse (the text is
 * made by tools; one precise message is enough).  Types and operands are checked by infer_type through build_op.
 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ir/ir.h"

enum { MAX_LIST = 1 << 20, MAX_DEPTH = 200, MAX_TERMS = 500, MAX_NAMES = 4096 };

typedef struct Parser {
  const char *file, *text, *at;
  Module *m;
  Diags *diags;
  Func *f;
  Builder b;
  int depth, terms; /* of the expression under way */
  jmp_buf out;
} Parser;

static Loc here(const Parser *p, const char *at) {
  Loc loc = {.file = p->file, .line = 1, .col = 1};
  for (const char *s = p->text; s < at; s++) {
    loc.col++;
    if (*s == '\n') loc.line++, loc.col = 1;
  }
  return loc;
}

/* ---- characters and words */

static void skip(Parser *p) {
  for (;;) {
    while (*p->at == ' ' || *p->at == '\t' || *p->at == '\n' || *p->at == '\r') p->at++;
    if (*p->at != '#') return;
    while (*p->at && *p->at != '\n') p->at++;
  }
}

/* At the first word at or after `at`. */
__attribute__((format(printf, 3, 4), noreturn)) static void fail_at(Parser *p, const char *at, const char *format, ...) {
  va_list args;
  va_start(args, format);
  const char *message = arena_vprintf(p->diags->arena, format, args);
  va_end(args);
  p->at = at;
  skip(p);
  diag_error(p->diags, DIAG_ir_syntax, here(p, p->at), "%s", message);
  longjmp(p->out, 1);
}

static bool accept(Parser *p, const char *punctuation) {
  skip(p);
  size_t n = strlen(punctuation);
  if (strncmp(p->at, punctuation, n) != 0) return false;
  p->at += n;
  return true;
}

static void expect(Parser *p, const char *punctuation) {
  if (!accept(p, punctuation)) fail_at(p, p->at, "expected '%s'", punctuation);
}

static bool word_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.';
}

static size_t word_length(const Parser *p) {
  size_t n = 0;
  while (word_char(p->at[n])) n++;
  return n;
}

static bool accept_word(Parser *p, const char *word) {
  skip(p);
  size_t n = word_length(p);
  if (n != strlen(word) || strncmp(p->at, word, n) != 0) return false;
  p->at += n;
  return true;
}

static const char *word(Parser *p, const char *what) {
  skip(p);
  size_t n = word_length(p);
  if (!n) fail_at(p, p->at, "expected %s", what);
  const char *s = arena_strndup(p->m->arena, p->at, n);
  p->at += n;
  return module_string(p->m, s);
}

static int hex_digit(char c) {
  return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static const char *quoted(Parser *p, const char *what) {
  skip(p);
  if (*p->at != '"') fail_at(p, p->at, "expected %s in quotes", what);
  Text t = {.arena = p->m->arena};
  const char *start = p->at++;
  while (*p->at != '"') {
    char c = *p->at++;
    if (!c || c == '\n') fail_at(p, start, "unterminated string");
    if (c == '\\') {
      c = *p->at++;
      if (c == 'n') c = '\n';
      else if (c == 't') c = '\t';
      else if (c == 'x') {
        int hi = hex_digit(p->at[0]), lo = hi < 0 ? -1 : hex_digit(p->at[1]);
        if (hi < 0 || lo < 0 || hi * 16 + lo == 0) fail_at(p, p->at, "bad \\x escape");
        c = (char)(hi * 16 + lo);
        p->at += 2;
      } else if (c != '"' && c != '\\') fail_at(p, p->at - 1, "unknown escape");
    }
    text_addn(&t, &c, 1);
  }
  p->at++;
  return module_string(p->m, text_str(&t));
}

static int64_t integer(Parser *p, const char *what) {
  skip(p);
  char *end;
  errno = 0;
  const char *start = p->at;
  if (!(*start == '-' || (*start >= '0' && *start <= '9'))) fail_at(p, start, "expected %s", what);
  long long v = strtoll(start, &end, 10);
  if (end == start || errno) fail_at(p, start, "%s is not a 64-bit integer", what);
  p->at = end;
  return v;
}

static double number(Parser *p, const char *what) {
  skip(p);
  char *end;
  const char *start = p->at;
  double v = strtod(start, &end);
  if (end == start) fail_at(p, start, "expected %s", what);
  p->at = end;
  return v;
}

/* ---- expressions */

static const Expr *expr(Parser *p);

static const Expr *expr_atom(Parser *p) {
  skip(p);
  const char *start = p->at;
  if (++p->terms > MAX_TERMS) fail_at(p, start, "expression of more than %d terms", MAX_TERMS);
  if (++p->depth > MAX_DEPTH) fail_at(p, start, "expression nested too deeply");
  const Expr *e;
  if (accept(p, "(")) {
    e = expr(p);
    expect(p, ")");
  } else if (accept(p, "@")) {
    const char *axis = word(p, "a mesh axis");
    int a = mesh_axis_find(&p->m->mesh, axis);
    if (a < 0) fail_at(p, start, "no mesh axis '%s'", axis);
    e = mesh_coordinate(p->m, a);
  } else if (*p->at >= '0' && *p->at <= '9') {
    e = ex_const(p->m, integer(p, "a number"));
  } else {
    const char *name = word(p, "an expression");
    bool min = strcmp(name, "min") == 0, max = strcmp(name, "max") == 0;
    if ((min || max) && accept(p, "(")) {
      e = expr(p);
      while (accept(p, ",")) e = min ? ex_min(p->m, e, expr(p)) : ex_max(p->m, e, expr(p));
      expect(p, ")");
    } else {
      int s = module_symbol_find(p->m, name);
      if (s < 0) fail_at(p, start, "no symbol '%s'", name);
      e = ex_sym(p->m, s);
    }
  }
  p->depth--;
  return e;
}

static const Expr *expr_product(Parser *p) {
  const Expr *e = expr_atom(p);
  for (;;) {
    if (accept(p, "*")) {
      e = ex_mul(p->m, e, expr_atom(p));
    } else if (accept_word(p, "div")) {
      const char *start = p->at;
      const Expr *d = expr_atom(p);
      if (d->kind == EX_CONST && d->value <= 0) fail_at(p, start, "divisor must be positive");
      e = ex_div(p->m, e, d);
    } else {
      return e;
    }
  }
}

static const Expr *expr(Parser *p) {
  if (p->depth == 0) p->terms = 0;
  const Expr *e = accept(p, "-") ? ex_muli(p->m, expr_product(p), -1) : expr_product(p);
  for (;;) {
    if (accept(p, "+")) e = ex_add(p->m, e, expr_product(p));
    else if (accept(p, "-")) e = ex_sub(p->m, e, expr_product(p));
    else return e;
  }
}

/* ---- types and layouts */

static DType dtype(Parser *p) {
  skip(p);
  const char *start = p->at, *name = word(p, "an element type");
  DType t;
  if (!dtype_find(name, &t)) fail_at(p, start, "no element type '%s'", name);
  return t;
}

static const Type *type(Parser *p) {
  const Expr *dims[MAX_RANK];
  int rank = 0;
  DType t = dtype(p);
  expect(p, "[");
  if (!accept(p, "]")) {
    do {
      if (rank == MAX_RANK) fail_at(p, p->at, "more than %d dimensions", MAX_RANK);
      const char *start = p->at;
      dims[rank] = expr(p);
      if (dims[rank]->kind == EX_CONST && dims[rank]->value < 0) fail_at(p, start, "negative extent");
      rank++;
    } while (accept(p, ","));
    expect(p, "]");
  }
  return type_get(p->m, t, rank, dims);
}

/* Axis names contain no dot; `a.b` is a list. */
static int axis_name(Parser *p) {
  skip(p);
  const char *start = p->at;
  size_t n = 0;
  while (word_char(p->at[n]) && p->at[n] != '.') n++;
  const char *name = arena_strndup(p->m->arena, p->at, n);
  int a = mesh_axis_find(&p->m->mesh, name);
  if (!n || a < 0) fail_at(p, start, "no mesh axis '%s'", name);
  p->at += n;
  return a;
}

static const Layout *layout(Parser *p, int rank) {
  Layout l = {.rank = rank};
  uint32_t used = 0;
  expect(p, "{");
  if (accept(p, "}")) return layout_get(p->m, &l);
  do {
    skip(p);
    const char *start = p->at;
    if (*p->at >= '0' && *p->at <= '9') {
      int64_t d = integer(p, "a dimension");
      if (d < 0 || d >= rank) fail_at(p, start, "dimension %lld of a value of rank %d", (long long)d, rank);
      DimLayout *k = &l.dims[d];
      if (k->n) fail_at(p, start, "dimension %lld twice", (long long)d);
      expect(p, ":");
      do {
        int a = axis_name(p);
        if (used & (1u << a)) fail_at(p, start, "axis %s twice", p->m->mesh.axes[a].name);
        used |= 1u << a;
        k->axes[k->n++] = (uint8_t)a;
      } while (accept(p, "."));
      k->unit = ex_const(p->m, 1);
      if (accept(p, "/")) k->unit = expr_atom(p);
      if (k->unit->kind == EX_CONST && k->unit->value <= 0) fail_at(p, start, "unit must be positive");
    } else {
      const char *name = word(p, "a dimension or a reduction");
      if (!reduction_find(name, &l.partial) || l.partial == RED_NONE) fail_at(p, start, "no reduction '%s'", name);
      expect(p, ":");
      do {
        int a = axis_name(p);
        if (used & (1u << a)) fail_at(p, start, "axis %s twice", p->m->mesh.axes[a].name);
        used |= 1u << a;
        l.partial_axes |= 1u << a;
      } while (accept(p, "."));
    }
  } while (accept(p, ","));
  expect(p, "}");
  return layout_get(p->m, &l);
}

/* ---- operations */

static const char *value_name(Parser *p) {
  skip(p);
  if (*p->at == '"') return quoted(p, "a name");
  size_t n = 0;
  while (word_char(p->at[n]) || (p->at[n] && strchr("/:$-", p->at[n]))) n++;
  if (!n) fail_at(p, p->at, "expected a name");
  const char *s = arena_strndup(p->m->arena, p->at, n);
  p->at += n;
  return module_string(p->m, s);
}

/* Values by name: a map from interned name to value, rebuilt per function. */
typedef struct ValueMap {
  const char **names;
  Val *values;
  size_t n, cap;
} ValueMap;

static size_t map_slot(const ValueMap *v, const char *name) {
  size_t i = ((uintptr_t)name >> 4) * 0x9e3779b97f4a7c15u & (v->cap - 1);
  while (v->names[i] && v->names[i] != name) i = (i + 1) & (v->cap - 1);
  return i;
}

static void map_add(Parser *p, ValueMap *v, const char *name, Val value) {
  if (2 * (v->n + 1) > v->cap) {
    ValueMap old = *v;
    v->cap = old.cap ? old.cap * 2 : 64;
    v->names = ARENA_ARRAY(p->m->arena, const char *, v->cap);
    v->values = ARENA_ARRAY(p->m->arena, Val, v->cap);
    for (size_t i = 0; i < old.cap; i++)
      if (old.names[i]) {
        size_t s = map_slot(v, old.names[i]);
        v->names[s] = old.names[i];
        v->values[s] = old.values[i];
      }
  }
  size_t s = map_slot(v, name);
  if (!v->names[s]) v->n++;
  v->names[s] = name;
  v->values[s] = value;
}

static Val operand(Parser *p, const ValueMap *values) {
  const char *start = p->at;
  expect(p, "%");
  const char *name = value_name(p);
  size_t s = values->cap ? map_slot(values, name) : 0;
  if (!values->cap || !values->names[s]) fail_at(p, start, "no value %%%s above this line", name);
  return values->values[s];
}

static Attr list_attr(Parser *p, AttrKey key) {
  AttrKind kind = attr_kind(key);
  struct { int64_t *items; size_t n, cap; } ints = {0};
  struct { double *items; size_t n, cap; } floats = {0};
  struct { const Expr **items; size_t n, cap; } exprs = {0};
  int n = 0;
  expect(p, "[");
  if (!accept(p, "]")) {
    do {
      if (n++ == MAX_LIST) fail_at(p, p->at, "list of more than %d elements", MAX_LIST);
      if (kind == AK_INTS) { int64_t v = integer(p, "an integer"); ARENA_PUSH(p->m->arena, &ints, v); }
      else if (kind == AK_AXES) { int64_t v = axis_name(p); ARENA_PUSH(p->m->arena, &ints, v); }
      else if (kind == AK_FLOATS) { double v = number(p, "a number"); ARENA_PUSH(p->m->arena, &floats, v); }
      else { const Expr *v = expr(p); ARENA_PUSH(p->m->arena, &exprs, v); }
    } while (accept(p, ","));
    expect(p, "]");
  }
  Attr a = {.key = key, .n = n};
  if (kind == AK_FLOATS) a.u.floats = floats.items;
  else if (kind == AK_EXPRS) a.u.exprs = exprs.items;
  else a.u.ints = ints.items;
  return a;
}

static Attr attribute(Parser *p) {
  skip(p);
  const char *start = p->at, *name = word(p, "an attribute");
  AttrKey key;
  if (!attr_find(name, &key)) fail_at(p, start, "no attribute '%s'", name);
  expect(p, "=");
  skip(p);
  start = p->at;
  switch (attr_kind(key)) {
    case AK_INT: return attr_i(key, integer(p, "an integer"));
    case AK_FLOAT: return attr_f(key, number(p, "a number"));
    case AK_STR: return attr_s(p->m, key, quoted(p, "a string"));
    case AK_EXPR: return attr_e(key, expr(p));
    case AK_DTYPE: return attr_dtype(key, dtype(p));
    case AK_AXIS: return attr_i(key, axis_name(p));
    case AK_REDUCTION: {
      Reduction r;
      const char *which = word(p, "a reduction");
      if (!reduction_find(which, &r)) fail_at(p, start, "no reduction '%s'", which);
      return attr_red(key, r);
    }
    default: return list_attr(p, key);
  }
}

static Loc parse_loc(Parser *p) {
  Loc loc = {0};
  skip(p);
  if (*p->at == '"') {
    loc.file = quoted(p, "a file");
    skip(p);
    if (*p->at >= '0' && *p->at <= '9') {
      loc.line = (int)integer(p, "a line");
      expect(p, ":");
      loc.col = (int)integer(p, "a column");
    }
  }
  if (accept_word(p, "node")) loc.node = quoted(p, "a node path");
  return loc;
}

static void suffixes(Parser *p, OpSpec *spec) {
  for (;;) {
    if (accept_word(p, "stage")) {
      const char *start = p->at;
      int64_t s = integer(p, "a stage");
      if (s < 0 || s >= p->m->mesh.stages) fail_at(p, start, "stage %lld of %d", (long long)s, p->m->mesh.stages);
      spec->stage = (int)s;
    } else if (accept_word(p, "group")) {
      spec->group = quoted(p, "a group");
    } else if (accept_word(p, "loc")) {
      spec->loc = parse_loc(p);
    } else {
      return;
    }
  }
}

static void operation(Parser *p, ValueMap *values) {
  OpSpec spec = {0};
  Val in[MAX_OPERANDS];
  Attr attrs[AT_COUNT];
  const char *start = p->at, *name = NULL;
  bool has_result = accept(p, "%");
  if (has_result) {
    name = value_name(p);
    expect(p, "=");
  }
  skip(p);
  const char *kind_at = p->at, *kind = word(p, "an operation");
  if (!op_find(kind, &spec.kind)) fail_at(p, kind_at, "no operation '%s'", kind);
  if ((op_results(spec.kind) != 0) != has_result)
    fail_at(p, start, "%s %s", kind, has_result ? "has no result" : "needs a result name");
  if (!has_result) name = quoted(p, "a name");
  skip(p);
  if (*p->at == '%') {
    do {
      if (spec.nin == MAX_OPERANDS) fail_at(p, p->at, "more than %d operands", MAX_OPERANDS);
      in[spec.nin++] = operand(p, values);
    } while (accept(p, ","));
  }
  if (accept(p, "{")) {
    do {
      const char *at = p->at;
      Attr a = attribute(p);
      for (int i = 0; i < spec.nattrs; i++)
        if (attrs[i].key == a.key) fail_at(p, at, "attribute %s twice", attr_name(a.key));
      attrs[spec.nattrs++] = a;
    } while (accept(p, ","));
    expect(p, "}");
  }
  spec.in = in;
  spec.attrs = attrs;
  spec.name = name;
  if (has_result) {
    expect(p, ":");
    spec.type = type(p);
    if (accept(p, "@")) spec.layout = layout(p, spec.type->rank);
  }
  suffixes(p, &spec);
  if (values->cap && values->names[map_slot(values, name)]) fail_at(p, start, "the name %s is used twice", name);
  Loc saved = spec.loc;
  if (!spec.loc.file && !spec.loc.node) p->b.loc = (Loc){0};
  size_t errors = p->diags->errors;
  Val v = build_op(&p->b, &spec);
  if (!v) {
    if (p->diags->errors > errors) diag_note(p->diags, here(p, start), "in this operation");
    longjmp(p->out, 1);
  }
  p->f->ops.items[p->f->ops.n - 1].loc = saved;
  map_add(p, values, name, has_result ? v : 0);
}

static void function(Parser *p) {
  expect(p, "@");
  const char *start = p->at, *name = word(p, "a function name");
  ValueMap values = {0};
  if (module_func(p->m, name)) fail_at(p, start, "function @%s twice", name);
  if (!accept_word(p, "level")) fail_at(p, p->at, "expected 'level'");
  const char *at = p->at;
  int64_t level = integer(p, "a level");
  if (level != 1 && level != 2) fail_at(p, at, "level %lld is not 1 or 2", (long long)level);
  p->f = module_func_add(p->m, name, (int)level);
  p->b = builder_new(p->m, p->f, p->diags);
  expect(p, "{");
  while (!accept(p, "}")) {
    if (!*p->at) fail_at(p, p->at, "function @%s does not end", name);
    if (accept_word(p, "output")) {
      const char *output = quoted(p, "an output name");
      Val v = operand(p, &values);
      if (!v) fail_at(p, p->at, "an operation without result cannot be an output");
      const Layout *l = accept(p, "@") ? layout(p, type_of(p->f, v)->rank) : NULL;
      build_output(&p->b, output, v, l);
    } else {
      operation(p, &values);
    }
  }
}

/* ---- the top level */

static void symbol(Parser *p) {
  const char *start = p->at, *name = word(p, "a symbol name");
  if (*name >= '0' && *name <= '9') fail_at(p, start, "a symbol must not start with a digit");
  if (module_symbol_find(p->m, name) >= 0) fail_at(p, start, "symbol %s twice", name);
  if (p->m->symbols.n >= MAX_NAMES) fail_at(p, start, "more than %d symbols", MAX_NAMES);
  int index = module_symbol(p->m, name); /* may move the array */
  Symbol *s = &p->m->symbols.items[index];
  for (;;) {
    int64_t *field = accept_word(p, "min") ? &s->min : accept_word(p, "max") ? &s->max
                   : accept_word(p, "multiple") ? &s->multiple : accept_word(p, "hint") ? &s->hint : NULL;
    if (!field) return;
    start = p->at;
    *field = integer(p, "a number");
    if (*field < (field == &s->multiple ? 1 : 0)) fail_at(p, start, "out of range");
  }
}

static void mesh(Parser *p) {
  Mesh mesh = {.stages = 1};
  expect(p, "[");
  if (!accept(p, "]")) {
    do {
      if (mesh.naxes == MAX_AXES) fail_at(p, p->at, "more than %d mesh axes", MAX_AXES);
      MeshAxis *a = &mesh.axes[mesh.naxes];
      const char *start = p->at;
      a->name = word(p, "an axis name");
      if (strchr(a->name, '.') || mesh_axis_find(&mesh, a->name) >= 0) fail_at(p, start, "bad or repeated axis name %s", a->name);
      expect(p, "=");
      int64_t size = integer(p, "a size");
      if (size < 1 || size > 1 << 20) fail_at(p, start, "axis size %lld", (long long)size);
      a->size = (int)size;
      a->temporal = accept_word(p, "time");
      mesh.naxes++;
    } while (accept(p, ","));
    expect(p, "]");
  }
  if (accept_word(p, "stages")) {
    const char *start = p->at;
    int64_t n = integer(p, "a number of stages");
    if (n < 1 || n > 1 << 16) fail_at(p, start, "%lld stages", (long long)n);
    mesh.stages = (int)n;
  }
  module_set_mesh(p->m, &mesh);
}

static void param(Parser *p) {
  skip(p);
  const char *start = p->at, *name = quoted(p, "a name");
  int64_t dims[MAX_RANK];
  if (module_param(p->m, name)) fail_at(p, start, "parameter \"%s\" twice", name);
  expect(p, ":");
  const Type *t = type(p);
  if (!type_constant_dims(t, dims)) fail_at(p, start, "the extents of a parameter must be constants");
  Param *q = module_param_add(p->m, name, t);
  expect(p, "=");
  start = p->at;
  if (accept_word(p, "zeros")) q->init = INIT_ZEROS;
  else if (accept_word(p, "prepared")) q->init = INIT_PREPARED;
  else if (accept_word(p, "constant")) q->init = INIT_CONSTANT, q->value = number(p, "a number");
  else if (accept_word(p, "normal")) q->init = INIT_NORMAL, q->value = number(p, "a number");
  else if (accept_word(p, "uniform")) q->init = INIT_UNIFORM, q->value = number(p, "a number");
  else if (accept_word(p, "blob")) {
    q->init = INIT_BLOB;
    int64_t blob = integer(p, "a blob number");
    if (blob < 0 || (size_t)blob >= p->m->blobs.n) fail_at(p, start, "no blob %lld", (long long)blob);
    q->blob = (int)blob;
    if (!accept_word(p, "offset")) fail_at(p, p->at, "expected 'offset'");
    int64_t offset = integer(p, "an offset");
    if (offset < 0) fail_at(p, start, "negative offset");
    q->offset = (uint64_t)offset;
    if (!accept_word(p, "strides")) fail_at(p, p->at, "expected 'strides'");
    expect(p, "[");
    for (int d = 0; d < t->rank; d++) {
      if (d) expect(p, ",");
      q->strides[d] = integer(p, "a stride");
    }
    expect(p, "]");
  } else fail_at(p, start, "expected zeros, constant, normal, uniform, blob or prepared");
  if (accept_word(p, "seed")) q->seed = integer(p, "a seed");
  if (accept_word(p, "buffer")) q->trainable = false;
  if (accept_word(p, "loc")) q->loc = parse_loc(p);
}

static void state(Parser *p) {
  skip(p);
  const char *start = p->at, *name = quoted(p, "a name");
  if (module_state(p->m, name)) fail_at(p, start, "state \"%s\" twice", name);
  expect(p, ":");
  const Type *t = type(p);
  expect(p, "=");
  module_state_add(p->m, name, t, number(p, "a number"));
}

static void blob(Parser *p) {
  const char *path = quoted(p, "a path");
  if (!accept_word(p, "bytes")) fail_at(p, p->at, "expected 'bytes'");
  const char *start = p->at;
  int64_t bytes = integer(p, "a size");
  if (bytes < 0) fail_at(p, start, "negative size");
  size_t before = p->m->blobs.n;
  module_blob(p->m, path, (uint64_t)bytes);
  if (p->m->blobs.n == before) fail_at(p, start, "blob \"%s\" twice", path);
}

static void top(Parser *p) {
  if (!accept(p, "apc.ir")) fail_at(p, p->at, "this is not apc IR: the first line must be 'apc.ir 1'");
  const char *start = p->at;
  int64_t version = integer(p, "a version");
  if (version != 1) fail_at(p, start, "IR version %lld; this apc reads version 1", (long long)version);
  for (;;) {
    skip(p);
    if (!*p->at) return;
    if (accept_word(p, "symbol")) symbol(p);
    else if (accept_word(p, "mesh")) mesh(p);
    else if (accept_word(p, "blob")) blob(p);
    else if (accept_word(p, "param")) param(p);
    else if (accept_word(p, "state")) state(p);
    else if (accept_word(p, "func")) function(p);
    else fail_at(p, p->at, "expected symbol, mesh, blob, param, state or func");
  }
}

Module *ir_parse(const char *file, const char *text, Diags *diags) {
  Module *m = module_new();
  Parser *p = ARENA_NEW(m->arena, Parser);
  *p = (Parser){.file = file, .text = text, .at = text, .m = m, .diags = diags};
  if (setjmp(p->out)) {
    module_free(m);
    return NULL;
  }
  top(p);
  return m;
}
