/* passes/rewrite/recognise_attention.c - attention as exporters write it:
 *
 *   dot(guard(softmax(mask(scale(dot(q, k))))), v)
 *
 * A scale multiplies or divides scores, queries or keys by a number.  A mask selects or adds a large negative number,
 * or has no effect, by conditions on positions (positions.h): it hides keys after the query's position, or from a
 * length on.  A mask that may hide all keys of a query is recognised only if it hides with -inf and the guard replaces
 * NaN weights by 0.  Any other value added to the products becomes the bias operand of the attention, if there is a
 * guard or the value is finite, as weights count (relative positions of T5).  Operands may have any order of
 * dimensions, with dimensions merged and split again.  If keys and values were repeated for groups of queries
 * (broadcast of a new dimension, merged), the values before that are used.
 */
#include <math.h>
#include <string.h>

#include "ir/index_bound.h"
#include "passes/rewrite/positions.h"
#include "passes/rewrite/recognise.h"

/* Numbers in masks up to this one count as -inf: exporters write the least number of a type (-65504 for f16), or -1e9.
 */
#define HIDDEN (-3e4)

/* ---- masks */

/* The keys that a query sees: up to its own position if `causal`, and those before `length`. */
typedef struct Mask {
  bool causal;
  const Expr *first;  /* position of the first query */
  const Expr *length; /* NULL: all keys */
} Mask;

typedef struct Scores {
  const Op *dot;
  double scale;
  bool guarded; /* NaN weights were replaced by 0 */
  Mask mask;
  Val bias; /* any other added value; 0 if none */
  Positions positions;
  IndexSum at[4]; /* the indices of an element: b, h, s, t */
} Scores;

/* Restricts visible keys to those with c >= 0.  An attention gives 0 to a query that sees no key; `blind`: so does the
 * model. */
static bool see_only(Scores *s, const IndexSum *c, bool blind) {
  Positions *p = &s->positions;
  IndexSum up_to = position_sum(p, c, &s->at[3], ex_const(p->m, 1));
  bool length = position_is_size(p, &up_to);
  if (!length) up_to = position_sum(p, &up_to, &s->at[2], ex_const(p->m, -1));
  if (!position_is_size(p, &up_to) || (!blind && !size_never_below(p->m, up_to.base, 0))) return false;
  const Expr *end = ex_addi(p->m, up_to.base, 1);
  if (length) {
    s->mask.length = s->mask.length ? ex_min(p->m, s->mask.length, end) : end;
    return true;
  }
  if (s->mask.causal && s->mask.first != up_to.base) return false;
  s->mask.causal = true, s->mask.first = up_to.base;
  return true;
}

/* Keys are visible if the conditions hold; others have the number as score, or added to it. */
static bool mask_by(Scores *s, Conditions *seen, bool visible, double hidden) {
  if (!(hidden <= HIDDEN) || (!visible && !conditions_negate(&s->positions, seen)) || seen->never) return false;
  const Mask before = s->mask;
  for (int i = 0; i < seen->n; i++) {
    if (see_only(s, &seen->least[i], s->guarded && hidden == -INFINITY)) continue;
    s->mask = before;
    return false;
  }
  return true;
}

/* True if the added value is 0 for visible keys. */
static bool mask_added(Scores *s, Val v) {
  Choice c;
  if (!choice_of(&s->positions, v, s->at, &c)) return false;
  if (!c.when.never && !c.when.n && c.then == 0) return true;
  return c.then == 0 ? mask_by(s, &c.when, true, c.otherwise) : c.otherwise == 0 && mask_by(s, &c.when, false, c.then);
}

/* ---- scores */

/* Multiplies the scale, if the operation is a product with or a quotient by a number; else false. */
static bool is_scaled(const Func *f, const Op *op, double *scale, Val *inner) {
  double number;
  for (int i = 1; i >= 0; i--) {
    if (op->kind != OP_mul && (op->kind != OP_div || !i)) continue;
    if (!recognise_number(f, op->in[i], &number) || (op->kind == OP_div && number == 0)) continue;
    if (op->kind == OP_div) *scale /= number;
    else *scale *= number;
    *inner = op->in[1 - i];
    return true;
  }
  return false;
}

/* True if no element is infinite, except by overflow of finite numbers; such overflow counts as overflow of scores.
 * Weights count as finite. */
static bool is_finite(const Func *f, Val v) {
  const Op *op = op_of(f, v);
  double number;
  if (recognise_number(f, v, &number)) return isfinite(number);
  switch (op->kind) {
    case OP_param: return true;
    case OP_gather:
    case OP_take: return is_finite(f, op->in[0]);
    case OP_select: return is_finite(f, op->in[1]) && is_finite(f, op->in[2]);
    case OP_add:
    case OP_sub:
    case OP_mul: return is_finite(f, op->in[0]) && is_finite(f, op->in[1]);
    case OP_cast: return !dtype_is_float(type_of(f, op->in[0])->dtype) || is_finite(f, op->in[0]);
    case OP_broadcast:
    case OP_reshape:
    case OP_transpose:
    case OP_slice: return is_finite(f, op->in[0]);
    default: return false;
  }
}

/* Takes a value added to products of queries and keys as the bias, unless it is trained.  A guard is needed unless the
 * value is finite. */
static bool bias_added(const Recognise *w, const Op *op, Scores *s, Val *inner) {
  for (int i = 0; i < 2 && !s->bias; i++) {
    const Op *scores = op_of(w->r.old, op->in[i]);
    if (w->trained && w->trained[w->r.old->values.items[op->in[1 - i]].op]) continue;
    bool product = scores->kind == OP_dot || scores->kind == OP_mul || scores->kind == OP_div;
    if (!product || w->uses[op->in[i]] != 1 || (!s->guarded && !is_finite(w->r.old, op->in[1 - i]))) continue;
    *inner = op->in[i], s->bias = op->in[1 - i];
    return true;
  }
  return false;
}

/* Takes one mask or scale off; false if there is none. */
static bool peel(const Recognise *w, const Op *op, Scores *s, Val *inner) {
  const Func *f = w->r.old;
  double number;
  if (op->kind == OP_select && s->scale == 1) {
    Conditions seen;
    bool visible = recognise_number(f, op->in[2], &number);
    if (!visible && !recognise_number(f, op->in[1], &number)) return false;
    *inner = op->in[visible ? 1 : 2];
    return conditions_of(&s->positions, op->in[0], s->at, &seen) && mask_by(s, &seen, visible, number);
  }
  if (op->kind == OP_add && s->scale == 1) {
    for (int i = 0; i < 2; i++)
      if (mask_added(s, op->in[1 - i])) {
        *inner = op->in[i];
        return true;
      }
    return bias_added(w, op, s, inner);
  }
  return is_scaled(f, op, &s->scale, inner);
}

static bool scores_of(Recognise *w, Val v, bool guarded, Scores *s) {
  const Type *t = type_of(w->r.old, v);
  *s = (Scores){.scale = 1, .guarded = guarded, .positions = positions_new(w->r.m, w->r.old)};
  for (int d = 0; d < 4; d++) s->at[d] = position_index(&s->positions, t->dims[d]);
  for (Val inner;; v = inner) {
    const Op *op = op_of(w->r.old, v);
    if (w->uses[v] != 1) return false;
    if (op->kind == OP_dot) {
      s->dot = op;
      return true;
    }
    if (!peel(w, op, s, &inner)) return false;
  }
}

/* ---- operands */

/* Finds the letters of a dot of two operands of rank 4. */
static bool letters_of(const Op *dot, const char *part[3]) {
  const char *spec = op_str(dot, AT_spec);
  if (strlen(spec) != 15 || spec[4] != ',' || strncmp(spec + 9, "->", 2) != 0) return false;
  part[0] = spec, part[1] = spec + 5, part[2] = spec + 11;
  return true;
}

static int letter_at(const char *part, char letter) {
  const char *p = memchr(part, letter, 4);
  return p ? (int)(p - part) : -1;
}

/* An old value, and the positions of the wanted dimensions in it. */
typedef struct Operand {
  Val v;
  int perm[4];
} Operand;

/* The dimensions of a value as groups of wanted dimensions: `parts` of them each, consecutive in `letters`. */
typedef struct Grouped {
  int rank, parts[MAX_RANK];
  int letters[4];
  const Expr *extent[4]; /* by letter */
} Grouped;

static void before_transpose(Grouped *g, const Attr *perm) {
  Grouped t = *g;
  for (int d = 0; d < g->rank; d++) t.parts[perm->u.ints[d]] = g->parts[d];
  for (int d = 0, next = 0; d < g->rank; d++)
    for (int k = 0; k < g->parts[d]; k++) {
      int at = k;
      for (int64_t e = 0; e < perm->u.ints[d]; e++) at += t.parts[e];
      t.letters[at] = g->letters[next++];
    }
  *g = t;
}

/* A reshape keeps the order; each dimension of its operand must consist of whole letters. */
static bool before_reshape(Module *m, Grouped *g, const Type *from) {
  int next = 0;
  g->rank = from->rank;
  for (int d = 0; d < from->rank; d++) {
    const Expr *product = ex_const(m, 1);
    g->parts[d] = 0;
    while (next < 4 && (product != from->dims[d] || (!g->parts[d] && ex_is_const(g->extent[g->letters[next]], 1))))
      product = ex_mul(m, product, g->extent[g->letters[next++]]), g->parts[d]++;
    if (product != from->dims[d]) return false;
  }
  return next == 4;
}

static bool ungrouped_dims(const Grouped *g) {
  bool single = g->rank == 4;
  for (int d = 0; d < g->rank; d++) single = single && g->parts[d] == 1;
  return single;
}

/* Finds the value under transposes, reshapes that merge and split dimensions, and (with `scale`, which they multiply)
 * products with numbers, as long as they are in the body of `end`; its dimensions get the order of the `wanted`
 * letters. */
static bool operand(const Recognise *w, const Op *end, Val v, const char *part, const char *wanted, double *scale,
                    Operand *o) {
  const Type *t = type_of(w->r.old, v);
  Grouped g = {.rank = 4, .parts = {1, 1, 1, 1}};
  double factor = 1;
  for (int d = 0; d < 4; d++) {
    int at = letter_at(part, wanted[d]);
    if (at < 0) return false;
    g.letters[at] = d, g.extent[d] = t->dims[at];
  }
  for (Val inner;; v = inner) {
    const Op *op = op_of(w->r.old, v);
    if (ungrouped_dims(&g)) {
      o->v = v;
      for (int d = 0; d < 4; d++) o->perm[g.letters[d]] = d;
      if (scale) *scale *= factor;
      factor = 1;
    }
    if (!op->nin || !recognise_together(w, op, end)) return true;
    inner = op->in[0];
    if (op->kind == OP_transpose) before_transpose(&g, op_attr(op, AT_perm));
    else if (op->kind == OP_reshape ? !before_reshape(w->r.m, &g, type_of(w->r.old, inner))
                                    : !scale || !is_scaled(w->r.old, op, &factor, &inner))
      return true;
  }
}

/* If the operand [b, g * r, t, k] is made of [b, g, 1, t, k], returns the latter and r; else the operand and 1. */
static Val ungrouped(const Recognise *w, const Op *end, const Operand *o, const Expr **r) {
  const Func *f = w->r.old;
  const Op *merge = recognise_op(f, o->v, OP_reshape),
           *repeat = merge ? recognise_op(f, merge->in[0], OP_broadcast) : NULL;
  *r = NULL;
  for (int d = 0; d < 4; d++)
    if (o->perm[d] != d) return 0;
  if (!repeat || !recognise_together(w, repeat, end)) return 0;
  const Type *t = type_of(f, repeat->out), *from = type_of(f, repeat->in[0]), *merged = type_of(f, o->v);
  const Attr *dims = op_attr(repeat, AT_dims);
  if (t->rank != 5 || from->rank != 5 || !ex_is_const(from->dims[2], 1)) return 0;
  for (int d = 0; d < 5; d++)
    if (dims->u.ints[d] != d || (d != 2 && from->dims[d] != t->dims[d])) return 0;
  if (merged->dims[0] != t->dims[0] || merged->dims[2] != t->dims[3] || merged->dims[3] != t->dims[4]) return 0;
  *r = t->dims[2];
  return repeat->in[0];
}

/* The bias before it was repeated. */
typedef struct Bias {
  Val v;           /* 0 if none */
  char letters[7]; /* its dimensions other than 1, among b g r s t */
  const Expr *dims[5];
} Bias;

typedef struct Match {
  Scores scores;
  Bias bias;
  Operand q, k, v;
  Val shared_k, shared_v; /* before they were repeated for each group; 0 if they were not */
  const Expr *repeats;    /* queries per key head */
  int out[4];             /* the result's dimensions among [b, h, s, e] */
} Match;

/* Finds the source of a bias [b, h, s, t], and its dimensions there. */
static bool bias_of(const Recognise *w, Val v, Bias *bias) {
  const Func *f = w->r.old;
  const Type *t = type_of(f, v);
  int place[MAX_RANK], n = 0, last = -1;
  for (int d = 0; d < 4; d++) place[d] = d;
  for (const Op *op; (op = recognise_op(f, v, OP_broadcast)) != NULL; v = op->in[0])
    for (int d = 0; d < type_of(f, op->in[0])->rank; d++) place[d] = place[op_attr(op, AT_dims)->u.ints[d]];
  t = type_of(f, v);
  *bias = (Bias){.v = v};
  for (int d = 0; d < t->rank; d++) {
    if (ex_is_const(t->dims[d], 1)) continue;
    if (place[d] <= last) return false;
    last = place[d];
    bias->letters[n] = "bgst"[place[d]], bias -> dims[n++] = t->dims[d];
  }
  return last == 3;
}

/* Returns the softmax if nothing else reads it.  `guarded`: NaN, the weights of queries that see no key, is replaced by
 * 0. */
static const Op *weights_of(const Recognise *w, Val v, bool *guarded) {
  const Func *f = w->r.old;
  const Op *select = recognise_op(f, v, OP_select), *test = select ? recognise_op(f, select->in[0], OP_isnan) : NULL;
  double number;
  *guarded = test && test->in[0] == select->in[2] && recognise_number(f, select->in[1], &number) && number == 0;
  if (*guarded && (w->uses[v] != 1 || w->uses[test->out] != 1)) return NULL;
  const Op *softmax = recognise_op(f, *guarded ? select->in[2] : v, OP_softmax);
  return softmax && w->uses[softmax->out] == (*guarded ? 2 : 1) ? softmax : NULL;
}

static bool match(Recognise *w, const Op *op, Match *a) {
  const Func *f = w->r.old;
  const char *p[3], *s[3];
  bool guarded;
  const Op *softmax = weights_of(w, op->in[0], &guarded);
  if (!softmax || op_int(softmax, AT_axis, 0) != 3 || !letters_of(op, p)) return false;
  if (!dtype_is_float(type_of(f, op->out)->dtype) || !scores_of(w, softmax->in[0], guarded, &a->scores) ||
      !letters_of(a->scores.dot, s))
    return false;
  char wanted[5] = {p[0][0], p[0][1], p[0][3], 0, 0}; /* probabilities [b, h, s, t] times v [b, h, t, e] */
  for (int d = 0; d < 4; d++)
    if (!memchr(p[0], p[1][d], 4)) wanted[3] = p[1][d];
  if (!wanted[3] || !operand(w, op, op->in[1], p[1], wanted, NULL, &a->v)) return false;
  const char result[4] = {p[0][0], p[0][1], p[0][2], wanted[3]};
  for (int d = 0; d < 4; d++) {
    const char *at = memchr(result, p[2][d], 4);
    if (!at) return false;
    a->out[d] = (int)(at - result);
  }
  char sum = 0; /* the letter that the scores contract */
  for (int d = 0; d < 4; d++)
    if (!memchr(s[2], s[0][d], 4)) sum = s[0][d];
  const char query[4] = {s[2][0], s[2][1], s[2][2], sum}, key[4] = {s[2][0], s[2][1], s[2][3], sum};
  int left = letter_at(s[0], s[2][3]) < 0 ? 0 : 1; /* the operand with the queries */
  if (!sum || !operand(w, op, a->scores.dot->in[left], s[left], query, &a->scores.scale, &a->q) ||
      !operand(w, op, a->scores.dot->in[1 - left], s[1 - left], key, &a->scores.scale, &a->k))
    return false;
  const Expr *rk, *rv;
  a->shared_k = ungrouped(w, op, &a->k, &rk), a->shared_v = ungrouped(w, op, &a->v, &rv);
  if (!a->shared_k || !a->shared_v || rk != rv) a->shared_k = a->shared_v = 0;
  a->repeats = a->shared_k ? rk : ex_const(w->r.m, 1);
  a->bias = (Bias){0};
  if (a->scores.bias && !bias_of(w, a->scores.bias, &a->bias)) return false;
  const Val from[] = {a->q.v, a->shared_k ? a->shared_k : a->k.v, a->shared_v ? a->shared_v : a->v.v, a->bias.v};
  return recognise_is_whole(w, op, a->bias.v ? 4 : 3, from);
}

/* ---- building */

/* first, first + 1, ... */
static Val positions(Recognise *w, const Op *op, const char *part, const Expr *first, const Expr *extent) {
  const Type *t = type_get(w->r.m, DT_i64, 1, &extent);
  Attr from[2] = {attr_i(AT_axis, 0), attr_e(AT_start, ex_const(w->r.m, 0))}, by = attr_e(AT_expr, first);
  OpSpec iota = {.kind = OP_iota, .nattrs = 2, .attrs = from, .type = t};
  if (ex_is_const(first, 0)) return recognise_build(w, op, part, iota);
  Val in[] = {recognise_build(w, op, arena_printf(w->r.m->arena, "%s.iota", part), iota),
              recognise_build(w, op, arena_printf(w->r.m->arena, "%s.first", part),
                              (OpSpec){.kind = OP_size, .nattrs = 1, .attrs = &by, .type = t})};
  return recognise_build(w, op, part, (OpSpec){.kind = OP_add, .nin = 2, .in = in});
}

/* Builds keys or values as [b, g, t, e]. */
static Val shared(Recognise *w, const Op *op, const char *part, const Operand *o, Val before) {
  if (!before) return recognise_transpose(w, op, part, w->r.map[o->v], o->perm);
  const Type *t = type_of(w->r.old, before);
  return recognise_reshape(w, op, part, w->r.map[before], 4,
                           (const Expr *[]){t->dims[0], t->dims[1], t->dims[3], t->dims[4]});
}

/* Builds the bias without extents of 1, with heads split by groups of queries; sets the attribute that names its
 * dimensions. */
static Val bias(Recognise *w, const Op *op, const Bias *b, const Expr *groups, const Expr *repeats, Attr *letters) {
  const Expr *dims[5];
  char names[7] = "";
  int n = 0;
  for (int d = 0; b->letters[d]; d++) {
    bool heads = b->letters[d] == 'g' && !ex_is_const(repeats, 1);
    names[n] = b->letters[d], dims[n++] = heads ? groups : b->dims[d];
    if (heads) names[n] = 'r', dims[n++] = repeats;
  }
  *letters = attr_s(w->r.m, AT_bias, names);
  return recognise_reshape(w, op, "bias", w->r.map[b->v], n, dims);
}

Val recognise_attention(Recognise *w, const Op *op) {
  Match a;
  Module *m = w->r.m;
  if (!match(w, op, &a)) return 0;
  Val q = recognise_transpose(w, op, "q", w->r.map[a.q.v], a.q.perm);
  Val k = shared(w, op, "k", &a.k, a.shared_k), v = shared(w, op, "v", &a.v, a.shared_v);
  const Type *tq = type_of(w->r.b.f, q), *tk = type_of(w->r.b.f, k);
  const Expr *grouped[] = {tq->dims[0], tk->dims[1], a.repeats, tq->dims[2], tq->dims[3]};
  q = recognise_reshape(w, op, "q.groups", q, 5, grouped);
  const Mask *mask = &a.scores.mask;
  const Expr *zero = ex_const(m, 0);
  Attr length = attr_e(AT_expr, mask->length ? mask->length : tk->dims[2]);
  Val in[] = {q,
              k,
              v,
              positions(w, op, "queries", mask->causal ? mask->first : zero, tq->dims[2]),
              positions(w, op, "keys", zero, tk->dims[2]),
              recognise_build(
                  w, op, "length",
                  (OpSpec){.kind = OP_size, .nattrs = 1, .attrs = &length, .type = type_of_ints(m, DT_i64, 0, NULL)}),
              0};
  Attr attrs[3] = {attr_f(AT_scale, a.scores.scale), attr_i(AT_causal, mask->causal)};
  int more = a.bias.v != 0;
  if (more) in[6] = bias(w, op, &a.bias, tk->dims[1], a.repeats, &attrs[2]);
  Val y =
      recognise_build(w, op, "attention",
                      (OpSpec){.kind = OP_attention, .nin = 6 + more, .in = in, .nattrs = 2 + more, .attrs = attrs});
  const Type *ty = type_of(w->r.b.f, y);
  bool in_order = a.out[0] == 0 && a.out[1] == 1 && a.out[2] == 2;
  y = recognise_reshape(w, op, in_order ? NULL : "heads", y, 4,
                        (const Expr *[]){tq->dims[0], tq->dims[1], tq->dims[2], ty->dims[4]});
  return recognise_transpose(w, op, NULL, y, a.out);
}
