/* proof/element_ops.c - the element of a value at symbolic indices, operation by operation; see element.h. */
#include <math.h>
#include <string.h>

#include "base/hash.h"
#include "ir/layout/body.h"
#include "proof/element_internal.h"
#include "ir/loops.h"
#include "ir/window.h"

typedef const Expr *Index[2 * MAX_RANK];

/* A query for one element of an operation's result. */
typedef struct Ask {
  Elements *e;
  Algebra *a;
  const Scope *s;
  const Op *op;
  int result; /* index of the result */
  const Expr *const *index;
} Ask;

Scope *scope_new(Elements *e, Form form, const Func *f, const FuncList *funcs) {
  Scope *s = ARENA_NEW(e->arena, Scope);
  *s = (Scope){.number = ++e->nscopes,
               .form = form,
               .f = f,
               .funcs = funcs,
               .bodies = ARENA_ARRAY(e->arena, const Scope *, f->ops.n)};
  return s;
}

/* ---- expressions of the model, in the algebra's module */

static const Expr *of_model(const void *context, const Expr *x) {
  const Elements *e = context;
  Module *m = e->a->m;
  if (x->kind == EX_CONST) return ex_const(m, x->value);
  if (x->kind != EX_SYM) return ex_rebuild(m, x, &(ExprRebuild){of_model, NULL, e});
  const Symbol *s = &e->m->symbols.items[x->value];
  int symbol = module_symbol(m, s->name);
  m->symbols.items[symbol].min = s->min, m->symbols.items[symbol].max = s->max,
  m->symbols.items[symbol].multiple = s->multiple;
  return ex_sym(m, symbol);
}

const Expr *element_expr(Elements *e, const Expr *x) { return of_model(e, x); }

static const Type *type_in(const Ask *q, int i) { return type_of(q->s->f, q->op->in[i]); }
static const Type *type_out(const Ask *q) { return type_of(q->s->f, q->op->out + (Val)q->result); }
static const Expr *extent(const Ask *q, const Type *t, int d) { return element_expr(q->e, t->dims[d]); }
static const Expr *number(const Ask *q, int64_t v) { return ex_const(q->a->m, v); }
static const Poly *operand(const Ask *q, int i, const Expr *const *index) {
  return element_of(q->e, q->s, q->op->in[i], index);
}
static const Poly *none(const Ask *q) {
  q->a->failed = true;
  return poly_number(q->a, 0);
}

/* Returns the row-major position of the element in the tensor. */
static const Expr *linear(const Ask *q, const Type *t, const Expr *const *index) {
  const Expr *at = number(q, 0);
  for (int d = 0; d < t->rank; d++) at = ex_add(q->a->m, ex_mul(q->a->m, at, extent(q, t, d)), index[d]);
  return at;
}

/* ---- sources */

static const char *text_of_attrs(const Ask *q) {
  Text t = {.arena = q->e->arena};
  text_printf(&t, "%s/%s{", op_name(q->op->kind), q->op->out ? dtype_name(type_out(q)->dtype) : "");
  for (int i = 0; i < q->op->nattrs; i++) {
    attr_print(q->e->m, &t, &q->op->attrs[i]);
    text_add(&t, ",");
  }
  text_add(&t, "}");
  return text_str(&t);
}

static const Poly *prepared(const Ask *q, const char *name) {
  const Func *f = funcs_find(q->s->funcs, "prepare");
  for (size_t i = 0; f && i < f->outputs.n; i++) {
    if (strcmp(f->outputs.items[i].name, name) != 0) continue;
    return element_of(q->e, scope_new(q->e, q->s->form, f, q->s->funcs), f->outputs.items[i].value, q->index);
  }
  return none(q);
}

/* Weights from a file are its bytes, so that a view equals the weight it is a view of. */
static const Poly *param(const Ask *q) {
  const char *name = op_str(q->op, AT_name);
  const Param *p = module_param(q->e->m, name);
  if (p->init == INIT_PREPARED) return prepared(q, name);
  if (p->init != INIT_BLOB) {
    const Expr *at = linear(q, p->type, q->index);
    return poly_atom(q->a, arena_printf(q->e->arena, "weight %s", name), 1, &at, 0, NULL);
  }
  const Expr *at = number(q, (int64_t)p->offset);
  for (int d = 0; d < p->type->rank; d++)
    at = ex_add(q->a->m, at, ex_muli(q->a->m, q->index[d], p->strides[d] * (int64_t)dtype_bytes(p->type->dtype)));
  return poly_atom(q->a, arena_printf(q->e->arena, "file %d %s", p->blob, dtype_name(p->type->dtype)), 1, &at, 0, NULL);
}

static const Poly *constant(const Ask *q) {
  if (op_attr(q->op, AT_value)) return poly_number(q->a, op_float(q->op, AT_value, 0));
  const Expr *at = linear(q, type_out(q), q->index);
  return poly_atom(q->a, text_of_attrs(q), 1, &at, 0, NULL);
}

/* True if the type can represent every position exactly. */
static bool holds_positions(DType t) { return (dtype_is_float(t) && dtype_computes(t)) || t == DT_i64 || t == DT_i32; }

static const Poly *source(const Ask *q) {
  const Op *op = q->op;
  OpKind kind =
      holds_positions(type_out(q)->dtype) || (op->kind != OP_size && op->kind != OP_iota) ? op->kind : OP_none;
  switch (kind) {
    case OP_none: return poly_atom(q->a, text_of_attrs(q), type_out(q)->rank, q->index, 0, NULL);
    case OP_param: return param(q);
    case OP_const: return constant(q);
    case OP_size: return poly_whole(q->a, element_expr(q->e, op_expr(op, AT_expr)));
    case OP_iota:
      return poly_whole(q->a,
                        ex_add(q->a->m, q->index[op_int(op, AT_axis, 0)], element_expr(q->e, op_expr(op, AT_start))));
    default: break; /* input, read */
  }
  Text t = {.arena = q->e->arena};
  text_printf(&t, "%s %s ", op_name(op->kind), op_str(op, AT_name));
  type_print(q->e->m, &t, type_out(q));
  return poly_atom(q->a, text_str(&t), type_out(q)->rank, q->index, 0, NULL);
}

/* ---- elementwise */

static const Poly *function(const Ask *q, int n, const Poly *const *x) {
  return poly_atom(q->a, text_of_attrs(q), 0, NULL, n, x);
}

static const Poly *root(const Ask *q, const Poly *x) {
  double v;
  return poly_get_number(x, &v) && v >= 0 ? poly_number(q->a, sqrt(v)) : poly_atom(q->a, "sqrt", 0, NULL, 1, &x);
}

static const Poly *power(const Ask *q, const Poly *x, const Poly *y, const Poly *const *both) {
  double k, v;
  if (!poly_get_number(y, &k)) return function(q, 2, both);
  if (poly_get_number(x, &v) && v > 0) return poly_number(q->a, pow(v, k));
  if (k == 0.5) return root(q, x);
  if (k == 2) return poly_mul(q->a, x, x);
  return k == 1 ? x : k == -1 ? poly_recip(q->a, x) : function(q, 2, both);
}

/* Simplifies a divisor select(s == 0, y, s) to s, which is equal where the quotient by s is defined; the form after a
 * pass may be defined at more places than the form before. */
static const Poly *divisor(const Ask *q, const Poly *x) {
  bool alone = x->n == 1 && x->items[0].n == 1 && x->items[0].c == 1 && x->items[0].powers[0].power == 1;
  const AtomInfo *select = alone ? &q->a->atoms.items[x->items[0].powers[0].atom] : NULL;
  if (!select || select->npolys != 3 || strncmp(select->kind, "select/", 7) != 0) return x;
  const Poly *c = select->polys[0];
  const AtomInfo *eq =
      c->n == 1 && c->items[0].n == 1 && c->items[0].c == 1 ? &q->a->atoms.items[c->items[0].powers[0].atom] : NULL;
  if (!eq || eq->npolys != 2 || strncmp(eq->kind, "eq/", 3) != 0 || eq->polys[1]->n ||
      !poly_equal(eq->polys[0], select->polys[2]))
    return x;
  q->e->guarded |= q->s->form == AFTER;
  return q->e->past_guards && q->s->form == AFTER ? select->polys[2] : x;
}

static const Poly *arithmetic(const Ask *q, const Poly *const *x) {
  Algebra *a = q->a;
  switch (q->op->kind) {
    case OP_neg: return poly_mul(a, poly_number(a, -1), x[0]);
    case OP_add: return poly_add(a, x[0], x[1]);
    case OP_sub: return poly_add(a, x[0], poly_mul(a, poly_number(a, -1), x[1]));
    case OP_mul: return poly_mul(a, x[0], x[1]);
    case OP_div: return x[1]->n ? poly_mul(a, x[0], poly_recip(a, divisor(q, x[1]))) : function(q, 2, x);
    case OP_exp: return poly_exp(a, x[0]);
    case OP_recip: return x[0]->n ? poly_recip(a, x[0]) : function(q, 1, x);
    case OP_sqrt: return root(q, x[0]);
    case OP_rsqrt: return poly_recip(a, root(q, x[0]));
    case OP_pow: return power(q, x[0], x[1], x);
    default: return function(q, q->op->nin, x);
  }
}

static bool number_eq(double x, double y) { return x == y; }
static bool number_ne(double x, double y) { return x != y; }
static bool number_lt(double x, double y) { return x < y; }
static bool number_le(double x, double y) { return x <= y; }
static bool number_gt(double x, double y) { return x > y; }
static bool number_ge(double x, double y) { return x >= y; }

/* x - y - least >= 0 */
static const Poly *at_least(Algebra *a, const Expr *x, const Expr *y, int64_t least) {
  return poly_holds(a, ex_addi(a->m, ex_sub(a->m, x, y), -least));
}

/* Compares positions, i.e. integers over indices and dimensions, or conditions on them. */
static const Poly *compared(const Ask *q, const Poly *const *x) {
  static bool (*const holds[])(double, double) = {[OP_eq] = number_eq, [OP_ne] = number_ne, [OP_lt] = number_lt,
                                                  [OP_le] = number_le, [OP_gt] = number_gt, [OP_ge] = number_ge};
  Algebra *a = q->a;
  const Expr *u = poly_get_whole(a, x[0]), *v = poly_get_whole(a, x[1]);
  if (!u || !v) return poly_compare(a, x[0], x[1], holds[q->op->kind]);
  const Poly *same =
      q->op->kind == OP_eq || q->op->kind == OP_ne ? poly_mul(a, at_least(a, u, v, 0), at_least(a, v, u, 0)) : NULL;
  switch (q->op->kind) {
    case OP_eq: return same;
    case OP_ne: return poly_select(a, same, poly_number(a, 0), poly_number(a, 1));
    case OP_lt: return at_least(a, v, u, 1);
    case OP_le: return at_least(a, v, u, 0);
    case OP_gt: return at_least(a, u, v, 1);
    default: return at_least(a, u, v, 0);
  }
}

enum { MAX_CHOSEN = 24 }; /* limit of monomials in both branches of a select */

/* True if a cast keeps the number, apart from its rounding.  One to or from a type without arithmetic does not: it
 * saturates, wraps, or has no 0 or sign. */
static bool keeps_number(DType from, DType to) { return dtype_computes(from) && dtype_computes(to); }

/* Returns conditions on indices, selections by them, and positions; NULL for any other operation. */
static const Poly *logical(const Ask *q, const Poly *const *x) {
  Algebra *a = q->a;
  OpKind k = q->op->kind;
  DType to = type_out(q)->dtype, from = type_in(q, 0)->dtype;
  if (k == OP_eq || k == OP_ne || k == OP_lt || k == OP_le || k == OP_gt || k == OP_ge) return compared(q, x);
  bool logic = true, whole = to == DT_i64 || to == DT_i32;
  for (int i = 0; i < q->op->nin; i++)
    logic = logic && poly_is_logic(a, x[i]), whole = whole && poly_get_whole(a, x[i]);
  const Poly *zero = poly_number(a, 0), *one = poly_number(a, 1);
  switch (k) {
    case OP_select:
      return poly_is_logic(a, x[0]) && x[0]->n * (x[1]->n + x[2]->n) <= MAX_CHOSEN ? poly_select(a, x[0], x[1], x[2])
                                                                                   : NULL;
    case OP_not: return logic ? poly_select(a, x[0], zero, one) : NULL;
    case OP_and: return logic && to == DT_bool ? poly_mul(a, x[0], x[1]) : NULL;
    case OP_or: return logic && to == DT_bool ? poly_select(a, x[0], one, x[1]) : NULL;
    case OP_xor: return logic && to == DT_bool ? poly_select(a, x[0], poly_select(a, x[1], zero, one), x[1]) : NULL;
    case OP_cast:
      if (!keeps_number(from, to)) return NULL;
      if (to == DT_bool) return logic ? poly_compare(a, x[0], zero, number_ne) : NULL;
      if (from == DT_bool) return logic ? x[0] : NULL;
      return (from == DT_i64 || from == DT_i32) && (whole || dtype_is_float(to)) && poly_get_whole(a, x[0]) ? x[0]
                                                                                                            : NULL;
    case OP_neg: return whole ? poly_mul(a, poly_number(a, -1), x[0]) : NULL;
    case OP_add: return whole ? poly_add(a, x[0], x[1]) : NULL;
    case OP_sub: return whole ? poly_add(a, x[0], poly_mul(a, poly_number(a, -1), x[1])) : NULL;
    case OP_mul: return whole ? poly_mul(a, x[0], x[1]) : NULL;
    default: return NULL;
  }
}

/* A function of the number and both types. */
static const Poly *opaque_cast(const Ask *q, const Poly *const *x) {
  const char *name = arena_printf(q->e->arena, "%s from %s", text_of_attrs(q), dtype_name(type_in(q, 0)->dtype));
  return poly_atom(q->a, name, 0, NULL, 1, x);
}

static bool elementwise(OpKind k) {
  return op_class(k) != OC_OTHER || k == OP_select || k == OP_cast || k == OP_bitcast;
}

/* True for select(isnan(x), 0, x). */
static bool is_guard(const Ask *q) {
  if (q->op->kind != OP_select || q->s->form != BEFORE) return false;
  const Op *test = op_of(q->s->f, q->op->in[0]);
  return test->kind == OP_isnan && test->in[0] == q->op->in[2] && !operand(q, 1, q->index)->n;
}

static const Poly *each(const Ask *q) {
  const Poly *x[3];
  if (is_guard(q)) {
    q->e->guarded = true;
    if (q->e->past_guards) return operand(q, 2, q->index);
  }
  for (int i = 0; i < q->op->nin; i++) x[i] = operand(q, i, q->index);
  const Poly *y = q->a->failed ? NULL : logical(q, x);
  if (y) return y;
  bool floats = dtype_is_float(type_out(q)->dtype);
  for (int i = 0; i < q->op->nin; i++) floats = floats && dtype_is_float(type_in(q, i)->dtype);
  if (q->op->kind == OP_cast && !keeps_number(type_in(q, 0)->dtype, type_out(q)->dtype)) return opaque_cast(q, x);
  if (q->op->kind == OP_cast && floats) return x[0]; /* rounding is ignored */
  return floats && !q->a->failed ? arithmetic(q, x) : function(q, q->op->nin, x);
}

/* ---- shape */

static const Poly *reshaped(const Ask *q) {
  const Type *from = type_in(q, 0);
  const Expr *at = linear(q, type_out(q), q->index);
  Index x;
  for (int d = from->rank - 1; d > 0; d--) element_index_divide(q->a, at, extent(q, from, d), &at, &x[d]);
  x[0] = at;
  for (int d = 0; d < from->rank; d++)
    if (ex_is_const(from->dims[d], 1)) x[d] = number(q, 0);
  return operand(q, 0, x);
}

static const Poly *moved(const Ask *q) {
  const Op *op = q->op;
  const Type *from = type_in(q, 0);
  Index x;
  for (int d = 0; d < from->rank; d++) {
    if (op->kind == OP_slice)
      x[d] = ex_add(q->a->m, element_expr(q->e, op_attr(op, AT_starts)->u.exprs[d]),
                    ex_muli(q->a->m, q->index[d], op_attr(op, AT_strides)->u.ints[d]));
    if (op->kind == OP_transpose) x[op_attr(op, AT_perm)->u.ints[d]] = q->index[d];
    if (op->kind == OP_broadcast)
      x[d] = ex_is_const(from->dims[d], 1) ? number(q, 0) : q->index[op_attr(op, AT_dims)->u.ints[d]];
  }
  return operand(q, 0, x);
}

/* An atom: 1 if 0 <= at < extent, else 0. */
static const Poly *inside(const Ask *q, const Expr *at, const Expr *end) {
  return poly_atom(q->a, "inside", 2, (const Expr *[]){at, end}, 0, NULL);
}

static const Poly *padded(const Ask *q) {
  const Type *from = type_in(q, 0);
  const Attr *low = op_attr(q->op, AT_low), *high = op_attr(q->op, AT_high);
  double value = op_float(q->op, AT_value, 0);
  const Poly *where = poly_number(q->a, 1);
  Index x;
  for (int d = 0; d < from->rank; d++) {
    bool none_here = ex_is_const(low->u.exprs[d], 0) && ex_is_const(high->u.exprs[d], 0);
    x[d] = ex_sub(q->a->m, q->index[d], element_expr(q->e, low->u.exprs[d]));
    if (!none_here) where = poly_mul(q->a, where, inside(q, x[d], extent(q, from, d)));
  }
  const Poly *y = operand(q, 0, x);
  if (value == 0 && dtype_is_float(from->dtype)) return poly_mul(q->a, where, y);
  return poly_atom(q->a, arena_printf(q->e->arena, "pad %.17g", value), 0, NULL, 2, (const Poly *[]){where, y});
}

/* True if 0 <= at < extent at all indices. */
static bool is_inside(const Ask *q, const Expr *at, const Expr *extent) {
  return element_index_always(q->a, at) &&
         element_index_always(q->a, ex_addi(q->a->m, ex_sub(q->a->m, extent, at), -1));
}

/* Returns element `at` of part k of a join, along its axis. */
static const Poly *element_of_part(const Ask *q, int k, const Expr *at) {
  Index x;
  memcpy(x, q->index, sizeof *x * (size_t)type_out(q)->rank);
  x[op_int(q->op, AT_axis, 0)] = at;
  return operand(q, k, x);
}

/* True if a part of one element, which is element `start` of the join, continues the positions that `longest` gives for
 * the element at `index` + offset. */
static bool goes_on(const Ask *q, int k, const Expr *start, const Expr *longest, const Expr *index,
                    const Expr *offset) {
  const Expr *here = poly_get_whole(q->a, element_of_part(q, k, number(q, 0)));
  return here && here == ex_subst(q->a->m, longest, (int)index->value, ex_sub(q->a->m, start, offset));
}

/* Returns the element from the only part that can hold it, or from the only part longer than 1 if all others continue
 * its positions; else NULL. */
static const Poly *part_of_join(const Ask *q) {
  int axis = (int)op_int(q->op, AT_axis, 0), longest = -1;
  const Expr *at = q->index[axis], *starts[MAX_OPERANDS + 1] = {number(q, 0)};
  for (int k = 0; k < q->op->nin; k++) {
    const Expr *extent_k = extent(q, type_in(q, k), axis), *there = ex_sub(q->a->m, at, starts[k]);
    if (is_inside(q, there, extent_k)) return element_of_part(q, k, there);
    if (!ex_is_const(extent_k, 1)) longest = longest < 0 ? k : q->op->nin;
    starts[k + 1] = ex_add(q->a->m, starts[k], extent_k);
  }
  int64_t constant = at->kind == EX_ADD ? at->value : 0;
  const Expr *index = ex_addi(q->a->m, at, -constant);
  if (longest < 0 || longest == q->op->nin || !element_index_extent(q->a, index)) return NULL;
  const Poly *p = element_of_part(q, longest, ex_sub(q->a->m, at, starts[longest]));
  const Expr *whole = poly_get_whole(q->a, p);
  for (int k = 0; k < q->op->nin && whole; k++)
    if (k != longest && !goes_on(q, k, starts[k], whole, index, number(q, constant))) return NULL;
  return whole ? p : NULL;
}

/* An element of a join.  If its part is unknown, all parts are functions of the index along the axis. */
static const Poly *joined(const Ask *q) {
  int axis = (int)op_int(q->op, AT_axis, 0);
  const Poly *part = part_of_join(q);
  if (part) return part;
  const Poly *parts[MAX_OPERANDS];
  Text t = {.arena = q->e->arena};
  text_add(&t, "join");
  for (int i = 0; i < q->op->nin; i++) {
    Index x;
    memcpy(x, q->index, sizeof *x * (size_t)type_out(q)->rank);
    const Expr *bound = x[axis] = element_index_fresh(q->a, extent(q, type_in(q, i), axis));
    parts[i] = poly_function(q->a, 1, &bound, operand(q, i, x));
    text_add(&t, " ");
    ex_print(q->e->m, &t, type_in(q, i)->dims[axis]);
  }
  return poly_atom(q->a, text_str(&t), 1, &q->index[axis], q->op->nin, parts);
}

/* ---- sums */

static const Poly *reduced(const Ask *q) {
  const Attr *axes = op_attr(q->op, AT_axes);
  Reduction r = op_attr(q->op, AT_op)->u.reduction;
  const Type *from = type_in(q, 0);
  Index x, bound;
  for (int d = 0, next = 0, out = 0; d < from->rank; d++) {
    bool axis = next < axes->n && axes->u.ints[next] == d;
    if (axis) x[d] = bound[next++] = element_index_fresh(q->a, extent(q, from, d));
    else x[d] = q->index[out++];
  }
  const Poly *y = operand(q, 0, x);
  if (r == RED_SUM && dtype_is_float(from->dtype)) return poly_sum(q->a, axes->n, bound, y);
  return poly_reduce(q->a, arena_printf(q->e->arena, "%s/%s", reduction_name(r), dtype_name(from->dtype)), axes->n,
                     bound, y);
}

typedef struct Letters {
  const Expr *of[128]; /* by letter: its index */
  Index bound;
  int nbound;
} Letters;

static const char *part(const char *spec, int k, int *n) {
  const char *s = k == 0 ? spec : k == 1 ? strchr(spec, ',') + 1 : strstr(spec, "->") + 2;
  *n = (int)strcspn(s, k == 0 ? "," : "-");
  return s;
}

/* Maps letters to indices: letters of the result have its indices, all others are summed over. */
static void read_letters(const Ask *q, Letters *l) {
  const char *spec = op_str(q->op, AT_spec);
  int n;
  const char *s = part(spec, 2, &n);
  *l = (Letters){0};
  for (int d = 0; d < n; d++)
    if (s[d] >= 'a') l->of[(int)s[d]] = q->index[d];
  for (int i = 0; i < 2; i++) {
    s = part(spec, i, &n);
    for (int d = 0; d < n; d++)
      if (s[d] >= 'a' && !l->of[(int)s[d]])
        l->of[(int)s[d]] = l->bound[l->nbound++] = element_index_fresh(q->a, extent(q, type_in(q, i), d));
  }
}

static const Poly *product(const Ask *q) {
  Letters l;
  const Poly *x[2];
  read_letters(q, &l);
  for (int i = 0; i < 2; i++) {
    Index index;
    int n;
    const char *s = part(op_str(q->op, AT_spec), i, &n);
    for (int d = 0; d < n; d++) index[d] = l.of[(int)s[d]];
    x[i] = operand(q, i, index);
  }
  if (!dtype_is_float(type_out(q)->dtype))
    return poly_reduce(q->a, "dot", l.nbound, l.bound, poly_atom(q->a, "times", 0, NULL, 2, x));
  return poly_sum(q->a, l.nbound, l.bound, poly_mul(q->a, x[0], x[1]));
}

/* A convolution: images at start + u * stride + k * dilation.  Of image, window and output indices, those that the
 * result does not have are summed over. */
static const Poly *convolved(const Ask *q) {
  Window w = window_of(q->s->f, q->op);
  Module *m = q->a->m;
  Letters l;
  Index index[2];
  const Poly *x[2], *where = poly_number(q->a, 1);
  read_letters(q, &l);
  if (q->op->kind == OP_conv_filter) return none(q);
  for (int i = 0; i < 2; i++) {
    int n;
    const char *s = part(op_str(q->op, AT_spec), i, &n);
    for (int d = 0; d < n; d++)
      if (s[d] >= 'a') index[i][d] = l.of[(int)s[d]];
  }
  for (int i = 0; i < w.n; i++) {
    const Expr *k = index[1][w.dim[WINDOW_WEIGHTS][i]] = l.bound[l.nbound++] =
        element_index_fresh(q->a, element_expr(q->e, w.extent[WINDOW_WEIGHTS][i]));
    const Expr *start = element_expr(q->e, w.start[i]), *end = element_expr(q->e, w.extent[WINDOW_IMAGE][i]);
    bool back = q->op->kind == OP_conv_transpose;
    const Expr *u = back ? element_index_fresh(q->a, element_expr(q->e, w.extent[WINDOW_OUTPUT][i]))
                         : q->index[w.dim[WINDOW_OUTPUT][i]];
    const Expr *at = ex_add(m, start, ex_add(m, ex_muli(m, u, w.stride[i]), ex_muli(m, k, w.dilation[i])));
    if (back) {
      const Expr *apart = ex_sub(m, at, q->index[w.dim[WINDOW_IMAGE][i]]);
      l.bound[l.nbound++] = u;
      index[0][w.dim[WINDOW_OUTPUT][i]] = u;
      where = poly_mul(q->a, where, poly_atom(q->a, "zero", 1, &apart, 0, NULL));
    } else {
      index[0][w.dim[WINDOW_IMAGE][i]] = at;
      where = poly_mul(q->a, where, inside(q, at, end));
    }
  }
  for (int i = 0; i < 2; i++) x[i] = operand(q, i, index[i]);
  return poly_sum(q->a, l.nbound, l.bound, poly_mul(q->a, where, poly_mul(q->a, x[0], x[1])));
}

static const Poly *pooled(const Ask *q) {
  Window w = window_of(q->s->f, q->op);
  Reduction r = op_attr(q->op, AT_op)->u.reduction;
  Module *m = q->a->m;
  const Poly *where = poly_number(q->a, 1);
  Index x, bound;
  memcpy(x, q->index, sizeof *x * (size_t)type_out(q)->rank);
  for (int i = 0; i < w.n; i++) {
    bound[i] = element_index_fresh(q->a, element_expr(q->e, w.extent[WINDOW_WEIGHTS][i]));
    const Expr *at = ex_add(
        m, element_expr(q->e, w.start[i]),
        ex_add(m, ex_muli(m, q->index[w.dim[WINDOW_OUTPUT][i]], w.stride[i]), ex_muli(m, bound[i], w.dilation[i])));
    x[w.dim[WINDOW_IMAGE][i]] = at;
    where = poly_mul(q->a, where, inside(q, at, element_expr(q->e, w.extent[WINDOW_IMAGE][i])));
  }
  const Poly *y = operand(q, 0, x);
  if (r == RED_SUM && dtype_is_float(type_out(q)->dtype)) return poly_sum(q->a, w.n, bound, poly_mul(q->a, where, y));
  return poly_reduce(q->a, arena_printf(q->e->arena, "pool %s/%s", reduction_name(r), dtype_name(type_out(q)->dtype)),
                     w.n, bound, poly_atom(q->a, "where", 0, NULL, 2, (const Poly *[]){where, y}));
}

/* ---- tables, and everything else */

/* Returns operand 0 at the index that operand 1 holds.  If that index is not known to be inside, uses operand 0 as a
 * function of its index along the axis. */
static const Poly *looked_up(const Ask *q) {
  int axis = (int)op_int(q->op, AT_axis, 0), rank = type_in(q, 1)->rank;
  bool gather = q->op->kind == OP_gather;
  Index table, index;
  for (int d = 0; d < type_in(q, 0)->rank; d++)
    if (d != axis) table[d] = q->index[!gather || d < axis ? d : d + rank - 1];
  for (int d = 0; d < rank; d++) index[d] = q->index[gather ? axis + d : d];
  const Expr *count = extent(q, type_in(q, 0), axis);
  const Poly *at = operand(q, 1, index);
  const Expr *whole = ex_is_const(op_expr(q->op, AT_start), 0) ? poly_get_whole(q->a, at) : NULL;
  if (whole && is_inside(q, whole, count)) {
    table[axis] = whole;
    return operand(q, 0, table);
  }
  const Expr *bound = table[axis] = element_index_fresh(q->a, count);
  const Poly *f = poly_function(q->a, 1, &bound, operand(q, 0, table));
  return poly_atom(q->a, "look up", 1, &count, 2, (const Poly *[]){f, at});
}

/* A running sum of equal numbers from the first element on; NULL for any other scan. */
static const Poly *running_sum(const Ask *q) {
  const Type *t = type_in(q, 0);
  int axis = (int)op_int(q->op, AT_axis, 0);
  Index index;
  double each;
  if (op_attr(q->op, AT_op)->u.reduction != RED_SUM || op_int(q->op, AT_reverse, 0)) return NULL;
  if (t->dtype != DT_i64 && t->dtype != DT_i32) return NULL;
  for (int d = 0; d < t->rank; d++) index[d] = element_index_fresh(q->a, extent(q, t, d));
  if (!poly_get_number(operand(q, 0, index), &each)) return NULL;
  const Expr *count = ex_addi(q->a->m, q->index[axis], op_int(q->op, AT_exclusive, 0) ? 0 : 1);
  return poly_mul(q->a, poly_number(q->a, each), poly_whole(q->a, count));
}

/* The operation as an atom over its operands, which are functions of their indices. */
static const Poly *opaque(const Ask *q) {
  const Poly *x[MAX_OPERANDS];
  Text t = {.arena = q->e->arena};
  text_add(&t, text_of_attrs(q));
  for (int i = 0; i < q->op->nin; i++) {
    const Type *type = type_in(q, i);
    Index index;
    for (int d = 0; d < type->rank; d++) index[d] = element_index_fresh(q->a, extent(q, type, d));
    x[i] = poly_function(q->a, type->rank, index, operand(q, i, index));
    text_add(&t, " ");
    type_print(q->e->m, &t, type);
  }
  text_add(&t, " -> ");
  type_print(q->e->m, &t, type_out(q));
  if (q->result) text_printf(&t, " #%d", q->result);
  return poly_atom(q->a, text_str(&t), type_out(q)->rank, q->index, q->op->nin, x);
}

static const Poly *composite(const Ask *q) {
  size_t i = (size_t)(q->op - q->s->f->ops.items);
  if (!q->s->bodies[i]) {
    Scope *body = scope_new(q->e, q->s->form, body_of(q->e->m, q->s->f, q->op), q->s->funcs);
    body->outer = q->s, body->composite = q->op;
    q->s->bodies[i] = body;
  }
  const Scope *body = q->s->bodies[i];
  return element_of(q->e, body, body->f->outputs.items[q->result].value, q->index);
}

static const Poly *of_composite(const Ask *q) {
  int n = 0;
  for (const Op *op = q->s->f->ops.items; op < q->op; op++) n += op->kind == OP_input;
  return element_of(q->e, q->s->outer, q->s->composite->in[n], q->index);
}

static const Poly *by_op(const Ask *q) {
  OpKind k = q->op->kind;
  if (q->a->failed) return poly_number(q->a, 0);
  if (k == OP_input && q->s->outer) return of_composite(q);
  if (!q->op->nin && k != OP_random && k != OP_opaque && k != OP_call) return source(q);
  if (k == OP_copy || k == OP_accumulate || k == OP_within || k == OP_bind) return operand(q, 0, q->index);
  if (elementwise(k)) return each(q);
  const Poly *sum = k == OP_scan ? running_sum(q) : NULL;
  if (sum) return sum;
  switch (k) {
    case OP_reshape: return reshaped(q);
    case OP_slice:
    case OP_transpose:
    case OP_broadcast: return moved(q);
    case OP_pad: return padded(q);
    case OP_concat: return joined(q);
    case OP_reduce: return reduced(q);
    case OP_dot: return product(q);
    case OP_conv:
    case OP_conv_transpose: return convolved(q);
    case OP_pool: return pooled(q);
    case OP_gather:
    case OP_take: return looked_up(q);
    default: break;
  }
  if (op_is_loop_part(k) || k == OP_call || k == OP_result) return none(q);
  return op_is_composite(k) ? composite(q) : opaque(q);
}

/* ---- memoised elements */

static const Poly **memo_slot(Elements *e, const char *key) {
  if (2 * (e->memo.n + 1) > e->memo.cap) {
    size_t old = e->memo.cap, cap = old ? 2 * old : 1024;
    const char **keys = e->memo.keys;
    const Poly **polys = e->memo.polys;
    e->memo.keys = ARENA_ARRAY(e->arena, const char *, cap), e->memo.polys = ARENA_ARRAY(e->arena, const Poly *, cap);
    e->memo.cap = cap, e->memo.n = 0;
    for (size_t i = 0; i < old; i++)
      if (keys[i]) *memo_slot(e, keys[i]) = polys[i];
  }
  size_t i = hash64(key, strlen(key), 2) & (e->memo.cap - 1);
  while (e->memo.keys[i] && strcmp(e->memo.keys[i], key) != 0) i = (i + 1) & (e->memo.cap - 1);
  if (!e->memo.keys[i]) e->memo.keys[i] = key, e->memo.n++;
  return &e->memo.polys[i];
}

const Poly *element_by_op(Elements *e, const Scope *s, Val v, const Expr *const *index) {
  return by_op(&(Ask){e, e->a, s, op_of(s->f, v), value_index(s->f, v), index});
}

/* True for operations that are never atoms: reads, constants and positions identify themselves, and operations that
 * only move elements identify their operand. */
static bool is_plain(const Elements *e, const Scope *s, const Op *op) {
  if (s->of_sizes && s->of_sizes[op - s->f->ops.items]) return true;
  if (op->kind == OP_broadcast || op->kind == OP_transpose || op->kind == OP_copy || op->kind == OP_accumulate ||
      op->kind == OP_within || op->kind == OP_bind)
    return true;
  return !op->nin && (op->kind != OP_param || module_param(e->m, op_str(op, AT_name))->init != INIT_PREPARED);
}

const Poly *element_of(Elements *e, const Scope *s, Val v, const Expr *const *index) {
  const Known *known = s->known && !is_plain(e, s, op_of(s->f, v)) ? &s->known[v] : NULL;
  int rank = type_of(s->f, v)->rank;
  if (e->a->failed) return poly_number(e->a, 0);
  if (known && known->number && !e->opened[known->number]) {
    const Expr *at[MAX_RANK];
    for (int d = 0; d < rank; d++) at[d] = index[known->perm[d]];
    return poly_atom(e->a, arena_printf(e->arena, VALUE_ATOM "%u", known->number), rank, at, 0, NULL);
  }
  Text t = {.arena = e->arena};
  text_printf(&t, "%d %u", s->number, v);
  for (int d = 0; d < rank; d++) {
    text_add(&t, ";");
    ex_print(e->a->m, &t, index[d]);
  }
  const char *key = text_str(&t);
  const Poly **slot = memo_slot(e, key);
  if (*slot) return *slot;
  const Poly *p = element_by_op(e, s, v, index);
  if (!e->a->failed) *memo_slot(e, key) = p;
  return p;
}
