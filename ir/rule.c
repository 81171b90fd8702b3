/* ir/rule.c - factor rules of operations: parsed from the rows' text, or made by the rows' functions.
 *
 * A rule depends on the operation's attributes and on its operand and result types.  Regular operations need only the
 * text of their row; the functions here serve those whose dimensions move (reshape, slice ...).  Strategies are in
 * ir/strategy.c.
 */
#include "ir/rule.h"

#include <string.h>

#include "base/die.h"
#include "ir/window.h"

typedef struct Making {
  Module *m;
  const Func *f;
  const Op *op;
  Rule *r;
} Making;

static const char *const kind_names[FK_COUNT] = {"parallel", "reduce", "frozen", "halo", "linear", "body"};
const char *factor_kind_name(FactorKind k) { return kind_names[k]; }

/* ---- assembling */

static const Type *in_type(const Making *k, int i) { return type_of(k->f, k->op->in[i]); }
static const Type *out_type(const Making *k) { return type_of(k->f, k->op->out); }

static uint8_t factor(const Making *k, const char *name, const Expr *size, FactorKind kind, Reduction reduction) {
  if (k->r->nfactors == MAX_FACTORS) die("rule of %s has too many factors", op_name(k->op->kind));
  k->r->factors[k->r->nfactors] = (Factor){module_string(k->m, name), size, kind, reduction, 0};
  return (uint8_t)k->r->nfactors++;
}

static uint8_t numbered(const Making *k, const char *letter, int i, const Expr *size, FactorKind kind) {
  return factor(k, arena_printf(k->m->arena, "%s%d", letter, i), size, kind, RED_NONE);
}

static void set_dim(TensorFactors *t, int dim, uint8_t f) {
  t->dims[dim].n = 1;
  t->dims[dim].f[0] = f;
}

static void push_dim(TensorFactors *t, int dim, uint8_t f) {
  DimFactors *d = &t->dims[dim];
  if (d->n == MAX_DIM_FACTORS) die("dimension with too many factors");
  d->f[d->n++] = f;
}

/* A pseudo-factor: the operands in the mask may arrive partial together. */
static void linear(const Making *k, uint32_t operands, Reduction reduction) {
  uint8_t f = factor(k, arena_printf(k->m->arena, "L%d", __builtin_ctz(operands)), NULL, FK_LINEAR, reduction);
  k->r->factors[f].operands = operands;
}

static void start_rule(const Making *k) {
  k->r->noperands = k->op->nin;
  k->r->operands = ARENA_ARRAY(k->m->arena, TensorFactors, k->op->nin);
  for (int i = 0; i < k->op->nin; i++) k->r->operands[i].rank = in_type(k, i)->rank;
  k->r->result.rank = k->op->out ? out_type(k)->rank : 0;
}

/* ---- rules from text */

static int find_letter(const Making *k, const char *name) {
  for (int i = 0; i < k->r->nfactors; i++)
    if (strcmp(k->r->factors[i].name, name) == 0) return i;
  return -1;
}

static void assign(const Making *k, TensorFactors *t, int dim, const Type *type, const char *name) {
  int f = find_letter(k, name);
  if (f < 0) f = factor(k, name, type->dims[dim], FK_PARALLEL, RED_NONE);
  set_dim(t, dim, (uint8_t)f);
}

/* One side of the text, "b.. m k": letters to dimensions; `..` takes the dimensions the others leave. */
static void parse_tensor(const Making *k, const char *s, const char *end, TensorFactors *t, const Type *type) {
  char letters[MAX_RANK + 1];
  bool repeated[MAX_RANK + 1];
  int n = 0, rest = -1;
  for (; s < end; s++) {
    if (*s == ' ') continue;
    letters[n] = *s;
    repeated[n] = s + 2 < end && s[1] == '.' && s[2] == '.';
    if (s + 1 < end && s[1] == '.') repeated[n] = true, s += 2;
    if (repeated[n]) rest = n;
    n++;
  }
  int spread = rest >= 0 ? type->rank - (n - 1) : 0, dim = 0;
  if (rest < 0 && n != type->rank) die("rule of %s: %d letters for rank %d", op_name(k->op->kind), n, type->rank);
  for (int i = 0; i < n; i++) {
    char name[8] = {letters[i], 0};
    if (!repeated[i]) {
      assign(k, t, dim++, type, name);
      continue;
    }
    for (int j = 0; j < spread; j++) assign(k, t, dim++, type, arena_printf(k->m->arena, "%c%d", letters[i], j));
  }
}

static void parse_kind(const Making *k, const char *kind, size_t n, const char *what) {
  if (n == 6 && strncmp(kind, "linear", n) == 0) {
    uint32_t mask = 0;
    for (; *what >= '0' && *what <= '9'; what++) mask |= 1u << (*what - '0');
    linear(k, mask, RED_SUM);
    return;
  }
  char name[2] = {*what, 0};
  int f = find_letter(k, name);
  if (f < 0) die("rule of %s: no factor %s", op_name(k->op->kind), name);
  k->r->factors[f].kind = n == 4 ? FK_BODY : FK_FROZEN;
}

/* "body:t frozen:k e linear:2": a lone letter repeats the kind before it. */
static void parse_kinds(const Making *k, const char *s) {
  const char *kind = NULL;
  size_t n = 0;
  while (*s) {
    size_t length = strcspn(s, " ");
    const char *colon = memchr(s, ':', length);
    if (colon) kind = s, n = (size_t)(colon - s);
    parse_kind(k, kind, n, colon ? colon + 1 : s);
    s += length;
    while (*s == ' ') s++;
  }
}

static void parse_rule(const Making *k, const char *text, const char *kinds) {
  const char *arrow = strstr(text, "->"), *s = text;
  for (int i = 0; i < k->op->nin; i++) {
    const char *end = s + strcspn(s, ",");
    if (end > arrow) end = arrow;
    parse_tensor(k, s, end, &k->r->operands[i], in_type(k, i));
    s = *end == ',' ? end + 1 : end;
  }
  if (k->op->out) parse_tensor(k, arrow + 2, arrow + strlen(arrow), &k->r->result, out_type(k));
  parse_kinds(k, kinds);
}

/* "0", "0,1", "01": groups of operands the function is linear in.  Integer division truncates: 1/2 + 1/2 is not 2/2. */
static void parse_linear(const Making *k, const char *s) {
  if (!*s || dtype_class(out_type(k)->dtype) == DTC_B) return;
  if (k->op->kind == OP_div && !dtype_is_float(out_type(k)->dtype)) return;
  while (*s) {
    uint32_t mask = 0;
    for (; *s && *s != ','; s++) mask |= 1u << (*s - '0');
    linear(k, mask, RED_SUM);
    if (*s == ',') s++;
  }
}

/* ---- rules from functions */

/* Everything frozen: replicated operands, replicated result. */
static void rule_none(const Making *k) {
  for (int i = 0; i < k->op->nin; i++)
    for (int d = 0; d < in_type(k, i)->rank; d++)
      set_dim(&k->r->operands[i], d,
              numbered(k, arena_printf(k->m->arena, "f%d_", i), d, in_type(k, i)->dims[d], FK_FROZEN));
  for (int d = 0; d < k->r->result.rank; d++)
    set_dim(&k->r->result, d, numbered(k, "g", d, out_type(k)->dims[d], FK_FROZEN));
}

/* No factors at all: every dimension is whole everywhere, however many there are. */
static void rule_opaque(const Making *k) { (void)k; }

static void rule_call(const Making *k) { rule_none(k); }

/* A splat may be cut anywhere; listed elements stay whole. */
static void rule_const(const Making *k) {
  FactorKind kind = op_attr(k->op, AT_value) ? FK_PARALLEL : FK_FROZEN;
  for (int d = 0; d < k->r->result.rank; d++)
    set_dim(&k->r->result, d, numbered(k, "x", d, out_type(k)->dims[d], kind));
}

/* All dimensions of operand and result correspond. */
static void same_dims(const Making *k) {
  for (int d = 0; d < k->r->result.rank; d++) {
    uint8_t f = numbered(k, "x", d, out_type(k)->dims[d], FK_PARALLEL);
    for (int i = 0; i < k->op->nin; i++) set_dim(&k->r->operands[i], d, f);
    set_dim(&k->r->result, d, f);
  }
}

/* Linear only when no information is lost (D7). */
static void rule_cast(const Making *k) {
  same_dims(k);
  DType from = in_type(k, 0)->dtype, to = out_type(k)->dtype;
  bool widens = dtype_is_float(from) && dtype_is_float(to) && dtype_bytes(to) > dtype_bytes(from);
  if (widens || (from == to && from != DT_bool)) linear(k, 1, RED_SUM);
}

static void rule_broadcast(const Making *k) {
  const Attr *dims = op_attr(k->op, AT_dims);
  const Type *x = in_type(k, 0), *y = out_type(k);
  for (int d = 0; d < y->rank; d++) set_dim(&k->r->result, d, numbered(k, "x", d, y->dims[d], FK_PARALLEL));
  for (int i = 0; i < x->rank; i++) {
    int64_t d = dims->u.ints[i];
    bool stretched = x->dims[i] != y->dims[d];
    set_dim(&k->r->operands[0], i,
            stretched ? numbered(k, "one", i, x->dims[i], FK_FROZEN) : k->r->result.dims[d].f[0]);
  }
  if (x->dtype != DT_bool) linear(k, 1, RED_SUM);
}

static void rule_transpose(const Making *k) {
  const Attr *perm = op_attr(k->op, AT_perm);
  for (int d = 0; d < k->r->result.rank; d++) {
    uint8_t f = numbered(k, "x", d, out_type(k)->dims[d], FK_PARALLEL);
    set_dim(&k->r->result, d, f);
    set_dim(&k->r->operands[0], (int)perm->u.ints[d], f);
  }
  if (out_type(k)->dtype != DT_bool) linear(k, 1, RED_SUM);
}

/* Reshape (D12): walk both shapes from the major side, splitting each pair of extents into common factors; where
 * neither divides the other, the dimensions up to the next common boundary are frozen. */
typedef struct Walk {
  const Type *t;
  TensorFactors *out;
  int dim;
  const Expr *left; /* extent of the current dimension not yet split off; NULL at the end */
} Walk;

static void walk_next(Walk *w) {
  w->dim++;
  w->left = w->dim < w->t->rank ? w->t->dims[w->dim] : NULL;
}

/* Skips extents of 1: they carry a factor of their own that is never cut. */
static void walk_ones(const Making *k, Walk *w, const char *letter) {
  while (w->left && ex_is_const(w->left, 1)) {
    if (w->out->dims[w->dim].n == 0) push_dim(w->out, w->dim, numbered(k, letter, w->dim, w->left, FK_FROZEN));
    walk_next(w);
  }
}

static const Expr *const_gcd(Module *m, const Expr *a, const Expr *b) {
  int64_t x, y;
  if (!ex_get_const(a, &x) || !ex_get_const(b, &y) || x <= 0 || y <= 0) return NULL;
  while (y) {
    int64_t t = x % y;
    x = y;
    y = t;
  }
  return ex_const(m, x);
}

/* Freezes what is left of both sides up to the next boundary at which the products agree. */
static void walk_diverge(const Making *k, Walk *a, Walk *b) {
  const Expr *pa = a->left, *pb = b->left;
  push_dim(a->out, a->dim, numbered(k, "f", k->r->nfactors, a->left, FK_FROZEN));
  push_dim(b->out, b->dim, numbered(k, "f", k->r->nfactors, b->left, FK_FROZEN));
  walk_next(a);
  walk_next(b);
  while (pa != pb) {
    int64_t x, y;
    bool grow_a =
        a->left &&
        (!b->left || (ex_get_const(pa, &x) && ex_get_const(pb, &y) ? x < y : ex_exact_div(k->m, pb, pa) != NULL));
    if (!grow_a && !b->left) {
      if (!a->left) return;
      grow_a = true;
    }
    Walk *w = grow_a ? a : b;
    const Expr **p = grow_a ? &pa : &pb;
    *p = ex_mul(k->m, *p, w->left);
    push_dim(w->out, w->dim, numbered(k, "f", k->r->nfactors, w->left, FK_FROZEN));
    walk_next(w);
  }
}

static void rule_reshape(const Making *k) {
  Walk a = {in_type(k, 0), &k->r->operands[0], -1, NULL}, b = {out_type(k), &k->r->result, -1, NULL};
  walk_next(&a);
  walk_next(&b);
  for (int n = 0;; n++) {
    walk_ones(k, &a, "ia");
    walk_ones(k, &b, "ib");
    if (!a.left || !b.left) break;
    const Expr *common = a.left == b.left                     ? a.left
                         : ex_exact_div(k->m, a.left, b.left) ? b.left
                         : ex_exact_div(k->m, b.left, a.left) ? a.left
                                                              : const_gcd(k->m, a.left, b.left);
    if (!common || ex_is_const(common, 1) || (common->kind == EX_CONST && common->value == 0)) {
      walk_diverge(k, &a, &b);
      continue;
    }
    uint8_t f = numbered(k, "x", n, common, FK_PARALLEL);
    push_dim(a.out, a.dim, f);
    push_dim(b.out, b.dim, f);
    Walk *both[2] = {&a, &b};
    for (int i = 0; i < 2; i++) {
      if (both[i]->left == common) walk_next(both[i]);
      else both[i]->left = ex_exact_div(k->m, both[i]->left, common);
    }
  }
  if (out_type(k)->dtype != DT_bool) linear(k, 1, RED_SUM);
}

static bool untouched(const Making *k, int d) {
  const Attr *starts = op_attr(k->op, AT_starts), *strides = op_attr(k->op, AT_strides);
  return ex_is_const(starts->u.exprs[d], 0) && strides->u.ints[d] == 1 &&
         in_type(k, 0)->dims[d] == out_type(k)->dims[d];
}

static void rule_slice(const Making *k) {
  same_dims(k);
  for (int d = 0; d < k->r->result.rank; d++)
    if (!untouched(k, d)) k->r->factors[k->r->result.dims[d].f[0]].kind = FK_HALO;
  if (out_type(k)->dtype != DT_bool) linear(k, 1, RED_SUM);
}

static void rule_pad(const Making *k) {
  const Attr *low = op_attr(k->op, AT_low), *high = op_attr(k->op, AT_high);
  same_dims(k);
  for (int d = 0; d < k->r->result.rank; d++)
    if (!ex_is_const(low->u.exprs[d], 0) || !ex_is_const(high->u.exprs[d], 0))
      k->r->factors[k->r->result.dims[d].f[0]].kind = FK_HALO;
  if (op_float(k->op, AT_value, 0) == 0 && out_type(k)->dtype != DT_bool) linear(k, 1, RED_SUM);
}

static void rule_concat(const Making *k) {
  same_dims(k);
  k->r->factors[k->r->result.dims[op_int(k->op, AT_axis, 0)].f[0]].kind = FK_HALO;
  if (out_type(k)->dtype != DT_bool) linear(k, (1u << k->op->nin) - 1u, RED_SUM);
}

static void rule_reduce(const Making *k) {
  const Attr *axes = op_attr(k->op, AT_axes);
  Reduction op = op_attr(k->op, AT_op)->u.reduction;
  const Type *x = in_type(k, 0);
  int next = 0, out = 0;
  for (int d = 0; d < x->rank; d++) {
    bool reduced = next < axes->n && axes->u.ints[next] == d;
    uint8_t f = numbered(k, reduced ? "r" : "x", d, x->dims[d], reduced ? FK_REDUCE : FK_PARALLEL);
    set_dim(&k->r->operands[0], d, f);
    if (reduced) k->r->factors[f].reduction = op, next++;
    else set_dim(&k->r->result, out++, f);
  }
  if (op != RED_PRODUCT) linear(k, 1, op);
}

static void rule_dot(const Making *k) {
  const char *s = op_str(k->op, AT_spec), *result = strstr(s, "->") + 2;
  for (int i = 0; i < 2; i++) {
    for (int d = 0; *s != ',' && *s != '-'; s++, d++) {
      char name[2] = {*s, 0};
      assign(k, &k->r->operands[i], d, in_type(k, i), name);
      if (!strchr(result, *s)) {
        Factor *f = &k->r->factors[find_letter(k, name)];
        f->kind = FK_REDUCE;
        f->reduction = RED_SUM;
      }
    }
    s++;
  }
  for (int d = 0; result[d]; d++) {
    char name[2] = {result[d], 0};
    assign(k, &k->r->result, d, out_type(k), name);
  }
  linear(k, 1, RED_SUM);
  linear(k, 2, RED_SUM);
}

/* The indexed dimension is cut by giving each row to the rank that owns it: exactly one rank has the element. */
static void rule_gather(const Making *k) {
  const Type *table = in_type(k, 0), *index = in_type(k, 1);
  int axis = (int)op_int(k->op, AT_axis, 0), out = 0;
  for (int d = 0; d < table->rank; d++) {
    if (d == axis) {
      uint8_t v = numbered(k, "v", 0, table->dims[d], FK_REDUCE);
      k->r->factors[v].reduction = RED_ONE;
      set_dim(&k->r->operands[0], d, v);
      for (int j = 0; j < index->rank; j++) {
        uint8_t f = numbered(k, "i", j, index->dims[j], FK_PARALLEL);
        set_dim(&k->r->operands[1], j, f);
        set_dim(&k->r->result, out++, f);
      }
      continue;
    }
    uint8_t f = numbered(k, "x", d, table->dims[d], FK_PARALLEL);
    set_dim(&k->r->operands[0], d, f);
    set_dim(&k->r->result, out++, f);
  }
  if (table->dtype != DT_bool) linear(k, 1, RED_SUM);
}

/* The dimensions of rows and of their indices. */
static void grouped_rows(const Making *k) {
  for (int d = 0; d < out_type(k)->rank - 1; d++) {
    uint8_t f = numbered(k, "r", d, out_type(k)->dims[d], FK_PARALLEL);
    for (int i = 0; i < 2; i++) set_dim(&k->r->operands[i], d, f);
    set_dim(&k->r->result, d, f);
  }
}

/* The matrices are cut by giving each row to the rank that owns its matrix; the summed dimension as in a dot. */
static void rule_grouped_dot(const Making *k) {
  const Type *y = out_type(k), *w = in_type(k, 2);
  int last = y->rank - 1;
  grouped_rows(k);
  uint8_t factors[3] = {factor(k, "v", w->dims[0], FK_REDUCE, RED_ONE), factor(k, "k", w->dims[1], FK_REDUCE, RED_SUM),
                        factor(k, "n", w->dims[2], FK_PARALLEL, RED_NONE)};
  for (int d = 0; d < 3; d++) set_dim(&k->r->operands[2], d, factors[d]);
  set_dim(&k->r->operands[0], last, factors[1]);
  set_dim(&k->r->result, last, factors[2]);
  linear(k, 1, RED_SUM);
  linear(k, 4, RED_SUM);
}

/* Between the products stands a function that is not linear: k is whole.  So is n, which would be cut at the price of
 * all that comes before. */
static void rule_grouped_mlp(const Making *k) {
  const Type *y = out_type(k), *gate = in_type(k, 2);
  int last = y->rank - 1;
  grouped_rows(k);
  uint8_t v = factor(k, "v", gate->dims[0], FK_REDUCE, RED_ONE),
          in = factor(k, "k", gate->dims[1], FK_FROZEN, RED_NONE);
  uint8_t f = factor(k, "f", gate->dims[2], FK_REDUCE, RED_SUM), n = factor(k, "n", y->dims[last], FK_FROZEN, RED_NONE);
  for (int i = 2; i < 5; i++) {
    set_dim(&k->r->operands[i], 0, v);
    set_dim(&k->r->operands[i], 1, i < 4 ? in : f);
    set_dim(&k->r->operands[i], 2, i < 4 ? f : n);
  }
  set_dim(&k->r->operands[0], last, in);
  set_dim(&k->r->result, last, n);
  linear(k, 16, RED_SUM);
}

/* Elements are looked up where the other dimensions agree; the indexed one is cut as a gather's is. */
static void rule_take(const Making *k) {
  int axis = (int)op_int(k->op, AT_axis, 0);
  same_dims(k);
  uint8_t v = numbered(k, "v", 0, in_type(k, 0)->dims[axis], FK_REDUCE);
  k->r->factors[v].reduction = RED_ONE;
  set_dim(&k->r->operands[0], axis, v);
  if (out_type(k)->dtype != DT_bool) linear(k, 1, RED_SUM);
}

/* Cutting the updates makes the result partial; cutting the rows gives each rank those it owns. */
static void rule_scatter(const Making *k) {
  const Type *y = out_type(k), *index = in_type(k, 1);
  int axis = (int)op_int(k->op, AT_axis, 0), at = 0;
  Reduction op = op_attr(k->op, AT_op)->u.reduction;
  for (int d = 0; d < y->rank; d++) {
    bool indexed = d == axis;
    uint8_t f = numbered(k, indexed ? "v" : "x", d, y->dims[d], FK_PARALLEL);
    set_dim(&k->r->result, d, f);
    for (int j = 0; indexed && j < index->rank; j++) {
      uint8_t i = numbered(k, "i", j, index->dims[j], FK_REDUCE);
      k->r->factors[i].reduction = op;
      set_dim(&k->r->operands[0], at++, i);
      set_dim(&k->r->operands[1], j, i);
    }
    if (!indexed) set_dim(&k->r->operands[0], at++, f);
  }
  if (op != RED_PRODUCT) linear(k, 1, op);
}

static void rule_put(const Making *k) {
  const Type *y = out_type(k);
  int axis = (int)op_int(k->op, AT_axis, 0);
  Reduction op = op_attr(k->op, AT_op)->u.reduction;
  for (int d = 0; d < y->rank; d++) {
    uint8_t f = numbered(k, d == axis ? "v" : "x", d, y->dims[d], FK_PARALLEL), u = f;
    set_dim(&k->r->result, d, f);
    if (d == axis) {
      u = numbered(k, "i", d, in_type(k, 0)->dims[d], FK_REDUCE);
      k->r->factors[u].reduction = op;
    }
    for (int i = 0; i < 2; i++) set_dim(&k->r->operands[i], d, u);
  }
  if (op != RED_PRODUCT) linear(k, 1, op);
}

/* The dimension along which order matters stays whole. */
static void rule_ordered(const Making *k) {
  same_dims(k);
  k->r->factors[k->r->result.dims[op_int(k->op, AT_axis, 0)].f[0]].kind = FK_FROZEN;
  if (k->op->kind == OP_scan && op_attr(k->op, AT_op)->u.reduction == RED_SUM) linear(k, 1, RED_SUM);
}

/* Owner-masked write (D14): the updated dimension is cut, the update stays whole along it. */
static void rule_update(const Making *k) {
  int axis = (int)op_int(k->op, AT_axis, 0);
  const Type *x = in_type(k, 0);
  for (int d = 0; d < x->rank; d++) {
    uint8_t f = numbered(k, "x", d, x->dims[d], FK_PARALLEL);
    set_dim(&k->r->operands[0], d, f);
    set_dim(&k->r->result, d, f);
    set_dim(&k->r->operands[1], d, d == axis ? numbered(k, "u", 0, in_type(k, 1)->dims[d], FK_FROZEN) : f);
  }
  if (x->dtype != DT_bool) linear(k, 3, RED_SUM);
}

static void rule_softmax(const Making *k) {
  same_dims(k);
  k->r->factors[k->r->result.dims[op_int(k->op, AT_axis, 0)].f[0]].kind = FK_BODY;
}

/* ---- windows */

/* The letters of one part of a convolution's spec; `capital` is the kind of its windowed dimensions and `prefix` sets
 * the weights' apart. */
static void conv_letters(const Making *k, const char *s, const Type *t, TensorFactors *out, FactorKind capital,
                         const char *prefix) {
  const Type *result = out_type(k);
  for (int d = 0; d < t->rank; d++) {
    bool windowed = s[d] >= 'A' && s[d] <= 'Z';
    char name[3] = {0};
    if (windowed && *prefix) name[0] = *prefix, name[1] = s[d];
    else name[0] = s[d];
    int f = find_letter(k, name);
    if (f < 0) f = factor(k, arena_strdup(k->m->arena, name), t->dims[d], windowed ? capital : FK_PARALLEL, RED_NONE);
    if (windowed && t == result) k->r->factors[f].size = t->dims[d];
    set_dim(out, d, (uint8_t)f);
  }
}

/* Letters that the result lacks are summed; the product is linear in both operands. */
static void conv_sums(const Making *k, const char *result) {
  for (int f = 0; f < k->r->nfactors; f++) {
    Factor *x = &k->r->factors[f];
    if (x->kind == FK_PARALLEL && !strchr(result, *x->name)) x->kind = FK_REDUCE, x->reduction = RED_SUM;
  }
  linear(k, 1, RED_SUM);
  linear(k, 2, RED_SUM);
}

/* conv and conv_transpose: outputs are cut where they are, and what they reach is exchanged; the window is whole. */
static void rule_conv(const Making *k) {
  const char *spec = op_str(k->op, AT_spec), *second = strchr(spec, ',') + 1, *result = strstr(spec, "->") + 2;
  conv_letters(k, spec, in_type(k, 0), &k->r->operands[0], FK_HALO, "");
  conv_letters(k, second, in_type(k, 1), &k->r->operands[1], FK_FROZEN, "k");
  conv_letters(k, result, out_type(k), &k->r->result, FK_HALO, "");
  conv_sums(k, result);
}

/* The sum over outputs pairs every output with the images around it: outputs and images stay whole along the window. */
static void rule_conv_filter(const Making *k) {
  const char *spec = op_str(k->op, AT_spec), *second = strchr(spec, ',') + 1, *result = strstr(spec, "->") + 2;
  conv_letters(k, spec, in_type(k, 0), &k->r->operands[0], FK_FROZEN, "i");
  conv_letters(k, second, in_type(k, 1), &k->r->operands[1], FK_FROZEN, "o");
  conv_letters(k, result, out_type(k), &k->r->result, FK_FROZEN, "k");
  conv_sums(k, result);
}

static void rule_pool(const Making *k) {
  const Attr *axes = op_attr(k->op, AT_axes);
  Reduction op = op_attr(k->op, AT_op)->u.reduction;
  same_dims(k);
  for (int i = 0; i < axes->n; i++) k->r->factors[k->r->result.dims[axes->u.ints[i]].f[0]].kind = FK_HALO;
  if (op != RED_PRODUCT) linear(k, 1, op);
}

/* ---- the table */

typedef struct RuleRow {
  const char *text, *kinds, *linear;
  void (*make)(const Making *);
} RuleRow;

static const RuleRow rows[OP_COUNT] = {
#define UNARY(name, classes, linear, cost, f, i, doc) [OP_##name] = {"x.. -> x..", "", linear, NULL},
#define BINARY(name, classes, linear, cost, f, i, doc) [OP_##name] = {"x.., x.. -> x..", "", linear, NULL},
#define COMPARE(name, expr, doc) [OP_##name] = {"x.., x.. -> x..", "", "", NULL},
#define OP(name, min, max, results, traits, attrs, infer, rule, kinds, rule_fn, eval, doc) \
  [OP_##name] = {rule, kinds, "", rule_fn},
#include "ir/ops.def"
};

const Rule *rule_of(Module *m, const Func *f, const Op *op) {
  Making k = {m, f, op, ARENA_NEW(m->arena, Rule)};
  const RuleRow *row = &rows[op->kind];
  start_rule(&k);
  if (row->make) row->make(&k);
  else parse_rule(&k, row->text, row->kinds);
  parse_linear(&k, row->linear);
  if (op->out && out_type(&k)->dtype == DT_bool) { /* no sums of truth values */
    int n = 0;
    while (n < k.r->nfactors && k.r->factors[n].kind != FK_LINEAR) n++;
    k.r->nfactors = n;
  }
  return k.r;
}

/* ---- what a cut needs of its operands */

static const Expr *clip(Module *m, const Expr *e, const Expr *extent) {
  return ex_min(m, ex_max(m, e, ex_const(m, 0)), extent);
}

void rule_halo_interval(Module *m, const Func *f, const Op *op, int operand, int dim, const Expr *lo, const Expr *hi,
                        const Expr **operand_lo, const Expr **operand_hi) {
  const Expr *extent = type_of(f, op->in[operand])->dims[dim];
  if (op->kind == OP_slice) {
    const Expr *start = op_attr(op, AT_starts)->u.exprs[dim];
    int64_t step = op_attr(op, AT_strides)->u.ints[dim];
    *operand_lo = ex_add(m, start, ex_muli(m, lo, step));
    /* The last element read is start + (hi - 1) * step; nothing when the interval is empty. */
    *operand_hi = ex_max(m, *operand_lo, ex_addi(m, ex_add(m, start, ex_muli(m, ex_addi(m, hi, -1), step)), 1));
    if (step == 1) *operand_hi = ex_add(m, start, hi);
    return;
  }
  if (op_is_windowed(op->kind)) {
    Window w = window_of(f, op);
    int i = 0;
    while (w.dim[op->kind == OP_conv_transpose ? WINDOW_OUTPUT : WINDOW_IMAGE][i] != dim) i++;
    if (op->kind == OP_conv_transpose) window_output_of(m, &w, i, lo, hi, operand_lo, operand_hi);
    else window_image_of(m, &w, i, lo, hi, operand_lo, operand_hi);
    return;
  }
  const Expr *shift = ex_const(m, 0);
  if (op->kind == OP_pad) shift = op_attr(op, AT_low)->u.exprs[dim];
  else if (op->kind == OP_concat)
    for (int i = 0; i < operand; i++) shift = ex_add(m, shift, type_of(f, op->in[i])->dims[dim]);
  else die("no windows for %s", op_name(op->kind));
  *operand_lo = clip(m, ex_sub(m, lo, shift), extent);
  *operand_hi = clip(m, ex_sub(m, hi, shift), extent);
}
