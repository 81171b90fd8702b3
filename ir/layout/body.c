/* ir/layout/body.c - decompositions of composite operations; see body.h.
 *
 * The text in an operation's record (ir/ops/) is over symbols, which are the factors of its rule; `..` repeats a letter
 * for the remaining dimensions.  Inputs "0", "1" ... are the operands.  Placeholders, replaced before parsing:
 *   $T element type of operand 0;  $C the type computed in: f32 for f16 and bf16, else $T
 *   $D the repeated symbols ("r0, r1");  $d their dimensions ("0, 1");  $z, $o as many zeros, ones
 *   $L the repeated dimensions as letters of a spec ("uv")
 *   $E, $e like $D, $d without dimension `axis`;  $a the attribute axis
 *   $0 $1 $2 the first dimensions after the repeated ones;  ${eps} the attribute eps
 *   ${bias:} the letters of an attribute as symbols ("b, t");  ${bias:bgrst} their places among these ("0, 4")
 * An empty list also removes the comma after it.  A line starting with ?name=value is kept if the attribute has that
 * value, with ?+name if the attribute exists, with ?-name if it does not, with ?@34=N or ?@34>N if operands 3 and 4
 * have N dimensions together, or more.  Several conditions in a row must all hold.
 *
 * The text is expanded for the operation's rank, element type and attributes, and parsed into a module of its own over
 * the symbols of the factors (the template).  It is then copied into the caller's module with the symbols replaced by
 * the operation's extents.  The template's types tell which dimension is which factor, so strategies can be mapped to
 * the body even where two extents are equal.
 */
#include "ir/layout/body.h"

#include <stdlib.h>
#include <string.h>

#include "base/die.h"
#include "ir/record.h"

/* ---- expansion of the text */

typedef struct Expansion {
  Module *m;
  const Func *f;
  const Op *op;
  Text out;
  char letter;  /* repeated symbol; 0 if none */
  int repeated; /* number of repetitions */
} Expansion;

/* Adds a list over the repeated dimensions; true if it has an element. */
static bool add_list(Expansion *x, char what) {
  int64_t axis = what == 'E' || what == 'e' ? op_int(x->op, AT_axis, -1) : -1;
  int n = 0;
  for (int i = 0; i < x->repeated; i++) {
    if (i == axis) continue;
    if (n++ && what != 'L') text_add(&x->out, ", ");
    if (what == 'L') {
      text_printf(&x->out, "%c", 'u' + i);
      continue;
    }
    if (what == 'D' || what == 'E') text_printf(&x->out, "%c%d", x->letter, i);
    else text_printf(&x->out, "%d", what == 'z' ? 0 : what == 'o' ? 1 : i);
  }
  return n > 0;
}

/* NULL if the operation does not have it. */
static const Attr *find_attr(const Expansion *x, const char *name, size_t n) {
  AttrKey key;
  return attr_find(arena_strndup(x->m->arena, name, n), &key) ? op_attr(x->op, key) : NULL;
}

static const Attr *named_attr(const Expansion *x, const char *name, size_t n) {
  const Attr *a = find_attr(x, name, n);
  if (!a) die("body of %s: no attribute %.*s", op_name(x->op->kind), (int)n, name);
  return a;
}

static void add_attr(Expansion *x, const Attr *a) {
  switch (attr_kind(a->key)) {
    case AK_INT: text_printf(&x->out, "%lld", (long long)a->u.i); break;
    case AK_FLOAT: text_double(&x->out, a->u.f); break;
    case AK_STR: text_add(&x->out, a->u.s); break;
    default: die("body of %s: attribute %s", op_name(x->op->kind), attr_name(a->key));
  }
}

/* Expands "name:" or "name:places" of `n` characters: the letters of an attribute, or their places. */
static void add_letters(Expansion *x, const char *s, size_t n) {
  const char *colon = memchr(s, ':', n);
  for (const char *letter = named_attr(x, s, (size_t)(colon - s))->u.s, *first = letter; *letter; letter++) {
    text_add(&x->out, letter == first ? "" : ", ");
    if (colon + 1 == s + n) text_printf(&x->out, "%c", *letter);
    else text_printf(&x->out, "%d", (int)(strchr(colon, *letter) - colon - 1));
  }
}

/* True if "34=N" or "34>N" holds for the ranks of operands 3 and 4. */
static bool ranks_are(const Expansion *x, const char *s) {
  int rank = 0;
  for (; *s >= '0' && *s <= '9'; s++) rank += type_of(x->f, x->op->in[*s - '0'])->rank;
  return *s == '>' ? rank > s[1] - '0' : rank == s[1] - '0';
}

/* Of "?name=value rest", "?+name rest", "?-name rest" or "?@34=N rest", returns the rest; NULL if the condition does
 * not hold. */
static const char *condition(Expansion *x, const char *line) {
  const char *space = strchr(line, ' '), *equals = strchr(line, '=');
  size_t start = x->out.n;
  if (line[1] == '@') return ranks_are(x, line + 2) ? space + 1 : NULL;
  if (line[1] == '+' || line[1] == '-') {
    bool there = find_attr(x, line + 2, (size_t)(space - line - 2)) != NULL;
    return there == (line[1] == '+') ? space + 1 : NULL;
  }
  const Attr *a = find_attr(x, line + 1, (size_t)(equals - line - 1));
  if (!a) return NULL;
  add_attr(x, a);
  bool same = x->out.n - start == (size_t)(space - equals - 1) &&
              memcmp(x->out.data + start, equals + 1, x->out.n - start) == 0;
  x->out.n = start;
  x->out.data[start] = 0;
  return same ? space + 1 : NULL;
}

static DType element_type(const Expansion *x) { return type_of(x->f, x->op->in[0])->dtype; }

static DType compute_type(DType t) { return dtype_bytes(t) < 4 ? DT_f32 : t; }

/* Expands the placeholder after a '$'; returns the text after it. */
static const char *placeholder(Expansion *x, const char *s) {
  bool some = true;
  if (*s == '{') {
    size_t n = strcspn(s, "}");
    if (memchr(s, ':', n)) add_letters(x, s + 1, n - 1);
    else add_attr(x, named_attr(x, s + 1, n - 1));
    return s + n + 1;
  }
  if (*s == 'T') text_add(&x->out, dtype_name(element_type(x)));
  else if (*s == 'C') text_add(&x->out, dtype_name(compute_type(element_type(x))));
  else if (*s == 'a') text_printf(&x->out, "%lld", (long long)op_int(x->op, AT_axis, 0));
  else if (*s >= '0' && *s <= '9') text_printf(&x->out, "%d", x->repeated + *s - '0');
  else some = add_list(x, *s);
  s++;
  if (!some && *s == ',') s += s[1] == ' ' ? 2 : 1;
  return s;
}

static void expand_lines(Expansion *x, const char *s) {
  while (*s) {
    if (*s == '?') {
      const char *rest = condition(x, s);
      s = rest ? rest : s + strcspn(s, "\n") + 1;
      continue;
    }
    while (*s && *s != '\n') {
      size_t n = strcspn(s, "$\n");
      text_addn(&x->out, s, n);
      s += n;
      if (*s == '$') s = placeholder(x, s + 1);
    }
    text_add(&x->out, "\n");
    if (*s) s++;
  }
}

/* Declares the symbols: "r.. d" with as many r as the first operand has dimensions beyond the single letters. */
static void declare_symbols(Expansion *x, const char *s) {
  int single = 0;
  for (const char *c = s; *c; c++) single += *c >= 'a' && *c <= 'z' && c[1] != '.';
  for (; *s; s++) {
    if (*s < 'a' || *s > 'z') continue;
    if (s[1] != '.') {
      text_printf(&x->out, "symbol %c\n", *s);
      continue;
    }
    x->letter = *s;
    x->repeated = type_of(x->f, x->op->in[0])->rank - single;
    for (int i = 0; i < x->repeated; i++) text_printf(&x->out, "symbol %c%d\n", *s, i);
  }
}

/* Returns the module of the template; the caller frees it. */
static Module *parse_template(Module *m, const Func *f, const Op *op) {
  const OpRecord *row = op_record(op->kind);
  Expansion x = {.m = m, .f = f, .op = op, .out = {.arena = m->arena}};
  if (!row->body) die("%s has no body", op_name(op->kind));
  text_add(&x.out, "apc.ir 1\n");
  declare_symbols(&x, row->symbols);
  text_add(&x.out, "func @body level 1 {\n");
  expand_lines(&x, row->body);
  text_add(&x.out, "}\n");
  Diags *diags = diags_new(m->arena);
  Module *template = ir_parse(op_name(op->kind), text_str(&x.out), diags);
  if (!template) {
    diags_print(diags, stderr, false);
    die("body of %s does not parse:\n%s", op_name(op->kind), text_str(&x.out));
  }
  return template;
}

/* True for a cast to its operand's type, which the copy into the caller's module omits. */
static bool vanishes(const Func *body, const Op *op) {
  return op->kind == OP_cast && type_of(body, op->in[0]) == type_of(body, op->out);
}

/* ---- copying the template into the caller's module */

typedef struct Copying {
  Module *m;
  const Expr **bound; /* by symbol of the template */
} Copying;

static const Expr *copied(const void *context, const Expr *e) {
  const Copying *c = context;
  if (e->kind == EX_CONST) return ex_const(c->m, e->value);
  return e->kind == EX_SYM ? c->bound[e->value] : ex_rebuild(c->m, e, &(ExprRebuild){copied, NULL, c});
}

static const Expr *copy_expr(const Copying *c, const Expr *e) { return copied(c, e); }

static const Type *copy_type(const Copying *c, const Type *t) {
  const Expr *dims[MAX_RANK];
  for (int d = 0; d < t->rank; d++) dims[d] = copy_expr(c, t->dims[d]);
  return type_get(c->m, t->dtype, t->rank, dims);
}

static Attr copy_attr(const Copying *c, const Attr *a) {
  const Expr *list[MAX_RANK];
  switch (attr_kind(a->key)) {
    case AK_STR: return attr_s(c->m, a->key, a->u.s);
    case AK_EXPR: return attr_e(a->key, copy_expr(c, a->u.e));
    case AK_INTS: return attr_ints(c->m, a->key, a->n, a->u.ints);
    case AK_EXPRS:
      for (int i = 0; i < a->n; i++) list[i] = copy_expr(c, a->u.exprs[i]);
      return attr_exprs(c->m, a->key, a->n, list);
    default: return *a;
  }
}

/* Binds the symbols of an input's type to the extents of the operand: `d`, or `2*j` (then the extent is a constant). */
static void bind(const Copying *c, const Type *formal, const Type *actual) {
  for (int d = 0; d < formal->rank; d++) {
    const Expr *e = formal->dims[d];
    if (e->kind == EX_SYM) c->bound[e->value] = actual->dims[d];
    else if (e->kind == EX_MUL && e->n == 1)
      c->bound[e->args[0]->value] = ex_div(c->m, actual->dims[d], ex_const(c->m, e->value));
  }
}

static Func *instantiate(Module *m, const Func *f, const Op *op, const Module *template) {
  const Func *from = template->funcs.items[0];
  Func *body = ARENA_NEW(m->arena, Func);
  body->name = module_string(m, op_name(op->kind));
  body->level = 1;
  ARENA_PUSH(m->arena, &body->values, ((Value){NULL, -1, NULL}));
  Diags *diags = diags_new(m->arena);
  Builder b = builder_new(m, body, diags);
  Copying c = {m, ARENA_ARRAY(m->arena, const Expr *, template->symbols.n)};
  Val *map = ARENA_ARRAY(m->arena, Val, from->values.n);
  int input = 0;
  for (size_t i = 0; i < from->ops.n; i++) {
    const Op *t = &from->ops.items[i];
    Val in[MAX_OPERANDS];
    Attr attrs[AT_COUNT];
    if (t->kind == OP_input) bind(&c, type_of(from, t->out), type_of(f, op->in[input++]));
    for (int k = 0; k < t->nin; k++) in[k] = map[t->in[k]];
    for (int k = 0; k < t->nattrs; k++) attrs[k] = copy_attr(&c, &t->attrs[k]);
    if (vanishes(from, t)) {
      map[t->out] = in[0];
      continue;
    }
    Val built = build_op(&b, &(OpSpec){.kind = t->kind,
                                       .name = t->name,
                                       .loc = op->loc,
                                       .nin = t->nin,
                                       .in = in,
                                       .nattrs = t->nattrs,
                                       .attrs = attrs,
                                       .type = copy_type(&c, type_of(from, t->out))});
    if (!built) {
      diags_print(diags, stderr, false);
      die("body of %s %s: operation %s does not fit", op_name(op->kind), op->name, t->name);
    }
    for (int k = 0; k < t->nout; k++) map[t->out + (Val)k] = built + (Val)k;
  }
  for (size_t i = 0; i < from->outputs.n; i++)
    build_output(&b, arena_printf(m->arena, "%zu", i), map[from->outputs.items[i].value], NULL);
  return body;
}

Func *body_of(Module *m, const Func *f, const Op *op) {
  Module *template = parse_template(m, f, op);
  Func *body = instantiate(m, f, op, template);
  module_free(template);
  return body;
}

/* ---- strategies */

/* Returns the rule's factor on the first dimension with that symbol; -1 if there is none or it may not be cut. */
static int factor_on(const Rule *r, const TensorFactors *x, const Type *tags, const Module *template,
                     const char *symbol) {
  for (int d = 0; d < x->rank; d++) {
    const Expr *tag = tags->dims[d];
    if (tag->kind != EX_SYM || strcmp(template->symbols.items[tag->value].name, symbol) != 0 || !x->dims[d].n) continue;
    int f = x->dims[d].f[0];
    if (r->factors[f].kind != FK_FROZEN) return f;
  }
  return -1;
}

static int factor_for(const Rule *r, const Module *template, const Func *from, const Op *t, const char *symbol) {
  int f = -1;
  for (int i = 0; i < t->nout && f < 0; i++)
    f = factor_on(r, &r->results[i], type_of(from, t->out + (Val)i), template, symbol);
  for (int i = 0; i < t->nin && f < 0; i++)
    f = factor_on(r, &r->operands[i], type_of(from, t->in[i]), template, symbol);
  return f;
}

/* Returns the pseudo-factor that lets exactly these operands be partial sums together; -1 if none. */
static int linear_for(const Rule *r, uint32_t operands) {
  for (int f = 0; f < r->nfactors; f++)
    if (r->factors[f].kind == FK_LINEAR && r->factors[f].operands == operands && r->factors[f].reduction == RED_SUM)
      return f;
  return -1;
}

/* Adds the pick if the strategy stays legal.  Where an operation of the body cannot follow, lowering converts around
 * it. */
static bool add_pick(Module *m, const Rule *r, Strategy *s, int axis, int factor) {
  if (factor < 0) return false;
  Strategy t = *s;
  t.picks[t.n++] = (Pick){(uint8_t)axis, (uint8_t)factor};
  if (!strategy_legal(&m->mesh, r, &t, NULL)) return false;
  *s = t;
  return true;
}

static Body open_body(Module *m, const Func *f, const Op *op, Module *template, const Func *func) {
  const Rule **rules = ARENA_ARRAY(m->arena, const Rule *, func->ops.n);
  for (size_t i = 0; i < func->ops.n; i++) rules[i] = rule_of(m, func, &func->ops.items[i]);
  return (Body){func, rules, rule_of(m, f, op), template};
}

Body *body_open(Module *m, const Func *f, const Op *op) {
  Module *template = parse_template(m, f, op);
  Body *b = ARENA_NEW(m->arena, Body);
  *b = open_body(m, f, op, template, instantiate(m, f, op, template));
  return b;
}

void body_close(Body *b) { module_free(b->template); }

/* Maps the strategy to one operation of the body; partial: by value of the template, the axes over which it is a
 * sum. */
static void follow_op(Module *m, const Body *b, const Strategy *s, const Op *t, int input, const Rule *r,
                      uint32_t *partial, Strategy *out) {
  *out = (Strategy){0};
  for (int k = 0; k < s->n; k++) {
    const Factor *picked = &b->whole->factors[s->picks[k].factor];
    int axis = s->picks[k].axis;
    uint32_t bit = 1u << axis, operands = 0;
    if (picked->kind != FK_LINEAR) {
      add_pick(m, r, out, axis, factor_for(r, b->template, b->template->funcs.items[0], t, picked->name));
      continue;
    }
    if (t->kind == OP_input && (picked->operands & (1u << input))) partial[t->out] |= bit;
    for (int o = 0; o < t->nin; o++)
      if (partial[t->in[o]] & bit) operands |= 1u << o;
    if (operands && add_pick(m, r, out, axis, linear_for(r, operands)))
      for (Val v = t->out; v < op_end(t); v++) partial[v] |= bit;
  }
}

void body_follow(Module *m, const Body *b, const Strategy *s, Strategy *out) {
  const Func *from = b->template->funcs.items[0];
  Arena *scratch = arena_new();
  uint32_t *partial = ARENA_ARRAY(scratch, uint32_t, from->values.n);
  size_t at = 0;
  int input = 0;
  for (size_t i = 0; i < from->ops.n; i++) {
    const Op *t = &from->ops.items[i];
    if (vanishes(from, t)) {
      partial[t->out] = partial[t->in[0]];
      continue;
    }
    if (b->func->ops.items[at].kind != t->kind)
      die("body_follow: %s where the body has %s", op_name(b->func->ops.items[at].kind), op_name(t->kind));
    follow_op(m, b, s, t, input, b->rules[at], partial, &out[at]);
    at++;
    input += t->kind == OP_input;
  }
  arena_free(scratch);
}

void body_strategies(Module *m, const Func *f, const Op *op, const Strategy *s, const Func *body, Strategy *out) {
  Body b = open_body(m, f, op, parse_template(m, f, op), body);
  body_follow(m, &b, s, out);
  body_close(&b);
}
