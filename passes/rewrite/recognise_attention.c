/* passes/rewrite/recognise_attention.c - attention, as exporters write it:
 *
 *   dot(softmax(mask(scale(dot(q, k)))), v)
 *
 * Scale is a product with, or quotient by, a number.  The mask may be absent, or hide keys after the query: a select
 * of, or sum with, a large negative number where key position > query position, both iotas.  Operands may come in any
 * order of dimensions.  Keys and values that were repeated for groups of queries (broadcast of a new dimension, merged)
 * are taken before that.
 */
#include <string.h>

#include "passes/rewrite/recognise.h"

#define HIDDEN (-1e37) /* a mask's number from here on down counts as -inf */

/* ---- causal masks */

/* v's element is its index along `dim` plus `offset`. */
typedef struct Position {
  int dim;
  double offset;
} Position;

/* Where dimension `dim` of a reshape's operand is in its result, when only extents of 1 come and go; -1. */
static int reshaped_dim(const Type *from, const Type *to, int dim) {
  int d = 0, found = -1;
  for (int k = 0; k < from->rank; k++) {
    if (ex_is_const(from->dims[k], 1)) continue;
    while (d < to->rank && ex_is_const(to->dims[d], 1)) d++;
    if (d == to->rank || to->dims[d] != from->dims[k]) return -1;
    if (k == dim) found = d;
    d++;
  }
  return found;
}

/* Where dimension `dim` of the operand of a shape operation is in its result; -1: nowhere as it was. */
static int moved_dim(const Func *f, const Op *op, int dim) {
  const Type *from = type_of(f, op->in[0]), *to = type_of(f, op->out);
  if (op->kind == OP_reshape) return reshaped_dim(from, to, dim);
  if (op->kind == OP_transpose) {
    const Attr *perm = op_attr(op, AT_perm);
    for (int d = 0; d < to->rank; d++)
      if (perm->u.ints[d] == dim) return d;
    return -1;
  }
  int64_t at = op_attr(op, AT_dims)->u.ints[dim];
  return to->dims[at] == from->dims[dim] ? (int)at : -1;
}

static bool moves(OpKind k) { return k == OP_reshape || k == OP_transpose || k == OP_broadcast; }

static bool position_of(const Func *f, Val v, Position *p) {
  const Op *op = op_of(f, v);
  double number;
  if (op->kind == OP_iota) {
    *p = (Position){(int)op_int(op, AT_axis, 0), 0};
    return ex_is_const(op_expr(op, AT_start), 0);
  }
  if (moves(op->kind)) return position_of(f, op->in[0], p) && (p->dim = moved_dim(f, op, p->dim)) >= 0;
  if (op->kind == OP_cast)
    return dtype_class(type_of(f, v)->dtype) != DTC_B && type_of(f, op->in[0])->dtype == DT_i64 &&
           (type_of(f, v)->dtype == DT_i64 || type_of(f, v)->dtype == DT_i32) && position_of(f, op->in[0], p);
  if (op->kind != OP_add && op->kind != OP_sub) return false;
  if (!position_of(f, op->in[0], p) || !recognise_number(f, op->in[1], &number)) return false;
  p->offset += op->kind == OP_add ? number : -number;
  return true;
}

/* True exactly where index[plus] - index[minus] >= least. */
typedef struct Band {
  int plus, minus;
  double least;
} Band;

static bool band_of(const Func *f, Val v, Band *b);

/* v is the number `then` inside the band and `otherwise` outside. */
static bool choice_of(const Func *f, Val v, Band *b, double *then, double *otherwise) {
  const Op *op = op_of(f, v);
  if (moves(op->kind))
    return choice_of(f, op->in[0], b, then, otherwise) && (b->plus = moved_dim(f, op, b->plus)) >= 0 &&
           (b->minus = moved_dim(f, op, b->minus)) >= 0;
  if (op->kind == OP_cast && type_of(f, op->in[0])->dtype == DT_bool) {
    *then = 1, *otherwise = 0;
    return band_of(f, op->in[0], b);
  }
  return op->kind == OP_select && recognise_number(f, op->in[1], then) && recognise_number(f, op->in[2], otherwise) &&
         band_of(f, op->in[0], b);
}

/* A choice compared with one of its numbers. */
static bool band_of_choice(const Func *f, const Op *op, Band *b) {
  double then, otherwise, number;
  if (!choice_of(f, op->in[0], b, &then, &otherwise) || !recognise_number(f, op->in[1], &number)) return false;
  if (then == otherwise || (number != then && number != otherwise)) return false;
  if ((number == then) != (op->kind == OP_eq)) *b = (Band){b->minus, b->plus, 1 - b->least};
  return true;
}

static bool band_of(const Func *f, Val v, Band *b) {
  const Op *op = op_of(f, v);
  Position x, y;
  if (moves(op->kind))
    return band_of(f, op->in[0], b) && (b->plus = moved_dim(f, op, b->plus)) >= 0 &&
           (b->minus = moved_dim(f, op, b->minus)) >= 0;
  if (op->kind == OP_not) {
    if (!band_of(f, op->in[0], b)) return false;
    *b = (Band){b->minus, b->plus, 1 - b->least};
    return true;
  }
  if (op->kind == OP_eq || op->kind == OP_ne) return band_of_choice(f, op, b);
  bool greater = op->kind == OP_gt || op->kind == OP_ge, less = op->kind == OP_lt || op->kind == OP_le;
  if ((!greater && !less) || !position_of(f, op->in[0], &x) || !position_of(f, op->in[1], &y)) return false;
  double strict = op->kind == OP_gt || op->kind == OP_lt ? 1 : 0;
  *b =
      greater ? (Band){x.dim, y.dim, y.offset - x.offset + strict} : (Band){y.dim, x.dim, x.offset - y.offset + strict};
  return true;
}

static bool hides(const Func *f, Val v) {
  double number;
  return recognise_number(f, v, &number) && number <= HIDDEN;
}

/* A band over scores [b, h, s, t] that holds exactly the keys after the query (or, when `visible`, the others). */
static bool after_query(const Band *b, bool visible) {
  return visible ? b->plus == 2 && b->minus == 3 && b->least == 0 : b->plus == 3 && b->minus == 2 && b->least == 1;
}

static bool is_causal(const Func *f, Val condition, bool visible) {
  Band b;
  return band_of(f, condition, &b) && after_query(&b, visible);
}

/* A value added to scores: a large negative number at keys after the query, else 0. */
static bool is_causal_bias(const Func *f, Val v) {
  Band b;
  double then, otherwise;
  if (!choice_of(f, v, &b, &then, &otherwise)) return false;
  return (then <= HIDDEN && otherwise == 0 && after_query(&b, false)) ||
         (otherwise <= HIDDEN && then == 0 && after_query(&b, true));
}

/* ---- scores */

typedef struct Scores {
  const Op *dot;
  double scale;
  bool causal;
} Scores;

/* Takes one mask or scale off; false when there is none. */
static bool peel(const Func *f, const Op *op, Scores *s, Val *inner) {
  double number;
  if (op->kind == OP_select && !s->causal && s->scale == 1) {
    bool visible = hides(f, op->in[2]);
    if (!visible && !hides(f, op->in[1])) return false;
    *inner = op->in[visible ? 1 : 2];
    return s->causal = is_causal(f, op->in[0], visible);
  }
  if (op->kind == OP_add && !s->causal && s->scale == 1) {
    for (int i = 0; i < 2; i++)
      if (is_causal_bias(f, op->in[1 - i])) {
        *inner = op->in[i];
        return s->causal = true;
      }
    return false;
  }
  if (op->kind == OP_div && recognise_number(f, op->in[1], &number) && number != 0) s->scale /= number;
  else if (op->kind == OP_mul && recognise_number(f, op->in[1], &number)) s->scale *= number;
  else return false;
  *inner = op->in[0];
  return true;
}

static bool scores_of(Recognise *w, Val v, Scores *s) {
  *s = (Scores){.scale = 1};
  for (Val inner;; v = inner) {
    const Op *op = op_of(w->r.old, v);
    if (w->uses[v] != 1) return false;
    if (op->kind == OP_dot) {
      s->dot = op;
      return true;
    }
    if (!peel(w->r.old, op, s, &inner)) return false;
  }
}

/* ---- operands */

/* The letters of a dot of two operands of rank 4. */
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

/* An old value, and where it has the dimensions asked for. */
typedef struct Operand {
  Val v;
  int perm[4];
} Operand;

/* The value under transposes that stand together with `end`, with its dimensions in the order of `wanted` letters. */
static bool operand(const Recognise *w, const Op *end, Val v, const char *part, const char *wanted, Operand *o) {
  for (int d = 0; d < 4; d++)
    if ((o->perm[d] = letter_at(part, wanted[d])) < 0) return false;
  for (const Op *op; (op = recognise_op(w->r.old, v, OP_transpose)) != NULL && recognise_together(w, op, end);
       v = op->in[0])
    for (int d = 0; d < 4; d++) o->perm[d] = (int)op_attr(op, AT_perm)->u.ints[o->perm[d]];
  o->v = v;
  return true;
}

/* [b, g * r, t, k] made of [b, g, 1, t, k]: the latter and r; else the operand itself and 1. */
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

typedef struct Match {
  Scores scores;
  Operand q, k, v;
  Val shared_k, shared_v; /* before they were repeated for each group; 0 */
  const Expr *repeats;    /* queries per key head */
  int out[4];             /* the result's dimensions among [b, h, s, e] */
} Match;

static bool match(Recognise *w, const Op *op, Match *a) {
  const Func *f = w->r.old;
  const char *p[3], *s[3];
  const Op *softmax = recognise_op(f, op->in[0], OP_softmax);
  if (!softmax || w->uses[softmax->out] != 1 || op_int(softmax, AT_axis, 0) != 3 || !letters_of(op, p)) return false;
  if (!dtype_is_float(type_of(f, op->out)->dtype) || !scores_of(w, softmax->in[0], &a->scores) ||
      !letters_of(a->scores.dot, s))
    return false;
  char wanted[5] = {p[0][0], p[0][1], p[0][3], 0, 0}; /* probabilities [b, h, s, t] times v [b, h, t, e] */
  for (int d = 0; d < 4; d++)
    if (!memchr(p[0], p[1][d], 4)) wanted[3] = p[1][d];
  if (!wanted[3] || !operand(w, op, op->in[1], p[1], wanted, &a->v)) return false;
  const char result[4] = {p[0][0], p[0][1], p[0][2], wanted[3]};
  for (int d = 0; d < 4; d++) {
    const char *at = memchr(result, p[2][d], 4);
    if (!at) return false;
    a->out[d] = (int)(at - result);
  }
  char sum = 0; /* the letter scores contract */
  for (int d = 0; d < 4; d++)
    if (!memchr(s[2], s[0][d], 4)) sum = s[0][d];
  const char query[4] = {s[2][0], s[2][1], s[2][2], sum}, key[4] = {s[2][0], s[2][1], s[2][3], sum};
  int left = letter_at(s[0], s[2][3]) < 0 ? 0 : 1; /* which operand has the queries */
  if (!sum || !operand(w, op, a->scores.dot->in[left], s[left], query, &a->q) ||
      !operand(w, op, a->scores.dot->in[1 - left], s[1 - left], key, &a->k))
    return false;
  const Expr *rk, *rv;
  a->shared_k = ungrouped(w, op, &a->k, &rk), a->shared_v = ungrouped(w, op, &a->v, &rv);
  if (!a->shared_k || !a->shared_v || rk != rv) a->shared_k = a->shared_v = 0;
  a->repeats = a->shared_k ? rk : ex_const(w->r.m, 1);
  const Val from[] = {a->q.v, a->shared_k ? a->shared_k : a->k.v, a->shared_v ? a->shared_v : a->v.v};
  return recognise_is_whole(w, op, 3, from);
}

/* ---- building */

static Val positions(Recognise *w, const Op *op, const char *part, const Expr *extent) {
  Attr a[2] = {attr_i(AT_axis, 0), attr_e(AT_start, ex_const(w->r.m, 0))};
  return recognise_build(
      w, op, part, (OpSpec){.kind = OP_iota, .nattrs = 2, .attrs = a, .type = type_get(w->r.m, DT_i64, 1, &extent)});
}

/* [b, g, t, e] of keys or values. */
static Val shared(Recognise *w, const Op *op, const char *part, const Operand *o, Val before) {
  if (!before) return recognise_transpose(w, op, part, w->r.map[o->v], o->perm);
  const Type *t = type_of(w->r.old, before);
  return recognise_reshape(w, op, part, w->r.map[before], 4,
                           (const Expr *[]){t->dims[0], t->dims[1], t->dims[3], t->dims[4]});
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
  Attr length = attr_e(AT_expr, tk->dims[2]);
  Val in[] = {q,
              k,
              v,
              positions(w, op, "queries", tq->dims[2]),
              positions(w, op, "keys", tk->dims[2]),
              recognise_build(
                  w, op, "length",
                  (OpSpec){.kind = OP_size, .nattrs = 1, .attrs = &length, .type = type_of_ints(m, DT_i64, 0, NULL)})};
  Attr attrs[] = {attr_f(AT_scale, a.scores.scale), attr_i(AT_causal, a.scores.causal)};
  Val y = recognise_build(w, op, "attention",
                          (OpSpec){.kind = OP_attention, .nin = 6, .in = in, .nattrs = 2, .attrs = attrs});
  const Type *ty = type_of(w->r.b.f, y);
  bool in_order = a.out[0] == 0 && a.out[1] == 1 && a.out[2] == 2;
  y = recognise_reshape(w, op, in_order ? NULL : "heads", y, 4,
                        (const Expr *[]){tq->dims[0], tq->dims[1], tq->dims[2], ty->dims[4]});
  return recognise_transpose(w, op, NULL, y, a.out);
}
