/* frontend/onnx/import_scores.c - see import_scores.h. */
#include "frontend/onnx/import_scores.h"

#include <math.h>

Val import_split_heads(ImportNode *n, Val x, const Expr *heads) {
  if (!x) return 0;
  const Type *t = type_of(n->b->f, x);
  const Expr *width = t->rank == 3 ? ex_exact_div(n->m, t->dims[2], heads) : NULL;
  if (!width) {
    node_error(n, "the last dimension of %s is not a multiple of its heads", import_type_string(n->m, t));
    return 0;
  }
  const Expr *dims[] = {t->dims[0], t->dims[1], heads, width};
  return build_transpose(n->b, build_reshape(n->b, x, 4, dims), (const int[]){0, 2, 1, 3});
}

bool import_heads(ImportNode *n, Heads *h) {
  if (!h->q || !h->k || !h->v) return false;
  const Type *tq = type_of(n->b->f, h->q), *tk = type_of(n->b->f, h->k), *tv = type_of(n->b->f, h->v);
  h->batch = tq->dims[0], h->heads = tq->dims[1], h->queries = tq->dims[2], h->width = tq->dims[3];
  h->groups = tk->dims[1], h->keys = tk->dims[2], h->value_width = tv->dims[3];
  h->per_group = known_bounds(n->m, h->groups).low >= 1 ? ex_exact_div(n->m, h->heads, h->groups) : NULL;
  if (!h->per_group)
    return node_error(n, "the query heads of %s are not a multiple of the key heads of %s",
                      import_type_string(n->m, tq), import_type_string(n->m, tk));
  const Expr *dims[] = {h->batch, h->groups, h->per_group, h->queries, h->width};
  h->q = build_reshape(n->b, h->q, 5, dims);
  return h->q != 0;
}

bool import_scale(ImportNode *n, const Heads *h, double *scale) {
  int64_t width;
  if (has_attr(n, "scale")) *scale = node_float(n, "scale", 1);
  else if (ex_get_const(h->width, &width) && width > 0) *scale = 1 / sqrt((double)width);
  else
    return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc, "%s: the head size is symbolic and no scale is given",
                      n->op->type);
  return true;
}

/* The positions of queries (after the past) or keys. */
static Val positions(ImportNode *n, const Expr *count, const Expr *offset) {
  Val i = iota_i64(n, 1, &count, 0);
  if (!i || ex_is_const(offset, 0)) return i;
  return build_binary(n->b, OP_add, i, build_size(n->b, type_of(n->b->f, i), offset));
}

static Val fused(ImportNode *n, const Heads *h, double scale, bool causal) {
  Val length = build_size(n->b, type_of_ints(n->m, DT_i64, 0, NULL), h->keys);
  Val in[] = {h->q, h->k, h->v, positions(n, h->queries, h->past), positions(n, h->keys, ex_const(n->m, 0)), length};
  Attr a[] = {attr_f(AT_scale, scale), attr_i(AT_causal, causal)};
  return build_op(n->b, &(OpSpec){.kind = OP_attention, .nin = 6, .in = in, .nattrs = 2, .attrs = a});
}

/* ---- as primitive operations */

static Val both(ImportNode *n, Val x, Val y) { return x ? binary(n, OP_and, x, y) : y; }

/* The positions of the queries, of any shape that broadcasts to the scores; `row` counts them from 0. */
static Val query_positions(ImportNode *n, const Heads *h, const Scores *s, Val row) {
  if (s->first) return binary(n, OP_add, row, s->first);
  if (s->lengths) {
    Val queries = build_size(n->b, type_of(n->b->f, s->lengths), h->queries);
    return binary(n, OP_add, row, binary(n, OP_sub, s->lengths, queries));
  }
  if (ex_is_const(h->past, 0)) return row;
  return binary(n, OP_add, row, build_size(n->b, type_of(n->b->f, row), h->past));
}

/* True where a key is visible, of any shape that broadcasts to the scores; 0 if all are. */
static Val visible(ImportNode *n, const Heads *h, const Scores *s) {
  const Expr *dims[] = {h->queries, h->keys};
  Val key = iota_i64(n, 2, dims, 1), seen = s->lengths ? binary(n, OP_lt, key, s->lengths) : 0;
  Val position = query_positions(n, h, s, iota_i64(n, 2, dims, 0));
  if (s->causal) seen = both(n, seen, binary(n, OP_le, key, position));
  if (s->left >= 0) seen = both(n, seen, binary(n, OP_ge, key, binary_number(n, OP_sub, position, (double)s->left)));
  if (s->right >= 0) seen = both(n, seen, binary(n, OP_le, key, binary_number(n, OP_add, position, (double)s->right)));
  if (!s->mask) return seen;
  bool is_bool = type_of(n->b->f, s->mask)->dtype == DT_bool;
  return both(n, seen, is_bool ? s->mask : binary(n, OP_ne, s->mask, splat_like(n, s->mask, -INFINITY)));
}

/* Sets the fourth output to the scores. */
static bool show(ImportNode *n, const Heads *h, const Scores *s, int64_t state, Val x) {
  const Expr *dims[] = {h->batch, h->heads, h->queries, h->keys};
  return s->shown != state || import_set_output(n, 3, x ? build_reshape(n->b, x, 4, dims) : 0);
}

/* The softmax over the keys and the sink; the sink is dropped from the result. */
static Val weights(ImportNode *n, const Heads *h, const Scores *s, Val x) {
  if (!x) return 0;
  const Type *t = type_of(n->b->f, x);
  int last = t->rank - 1;
  Attr axis = attr_i(AT_axis, last);
  if (s->sink) {
    const Expr *dims[MAX_RANK];
    for (int d = 0; d < t->rank; d++) dims[d] = d < last ? t->dims[d] : ex_const(n->m, 1);
    x = build_concat(n->b, 2, (Val[]){x, broadcast(n, build_cast(n->b, s->sink, t->dtype), t->rank, dims)}, last);
  }
  x = x ? build_op(n->b, &(OpSpec){.kind = OP_softmax, .nin = 1, .in = &x, .nattrs = 1, .attrs = &axis}) : 0;
  return x && s->sink ? build_slice(n->b, x, last, ex_const(n->m, 0), h->keys, 1) : x;
}

/* With one query head per key head, removes the dimension of query groups, as in the models that are recognised. */
static Val without_groups(ImportNode *n, Val x) {
  bool has = x && type_of(n->b->f, x)->rank == 5;
  return has ? drop_dims(n, x, 1u << 2) : x;
}

/* Attention as primitive operations.  A hidden key has weight 0 even if the softmax of its row is NaN because all
 * keys are hidden. */
static Val spelled_out(ImportNode *n, const Heads *h, const Scores *given) {
  bool single = ex_is_const(h->per_group, 1);
  Scores own = *given, *s = &own;
  Val q = single ? without_groups(n, h->q) : h->q, *parts[] = {&s->mask, &s->lengths, &s->first, &s->bias, &s->sink};
  for (size_t i = 0; single && i < sizeof parts / sizeof *parts; i++) *parts[i] = without_groups(n, *parts[i]);
  bool narrow = q && dtype_bytes(type_of(n->b->f, q)->dtype) < 4; /* products that are not scaled may be too large */
  if (narrow) q = binary_number(n, OP_mul, q, s->scale);
  Val x = build_dot(n->b, q, h->k, single ? "bgsk,bgtk->bgst" : "bgrsk,bgtk->bgrst"), seen = visible(n, h, s);
  if (!narrow) x = binary_number(n, OP_mul, x, s->scale);
  if (!show(n, h, s, SHOW_PRODUCT, x)) return 0;
  if (s->softcap > 0)
    x = binary_number(n, OP_mul, build_unary(n->b, OP_tanh, binary_number(n, OP_div, x, s->softcap)), s->softcap);
  if (!show(n, h, s, SHOW_CAPPED, x)) return 0;
  if (s->mask && type_of(n->b->f, s->mask)->dtype != DT_bool) x = binary(n, OP_add, x, s->mask);
  if (s->bias) x = binary(n, OP_add, x, s->bias);
  if (seen) x = select3(n, seen, x, splat_like(n, x, -INFINITY));
  if (!x || !show(n, h, s, SHOW_BIASED, x)) return 0;
  DType dtype = type_of(n->b->f, x)->dtype;
  x = weights(n, h, s, build_cast(n->b, x, s->precise ? s->precision : dtype));
  bool some_always = !s->mask && !s->lengths && s->left < 0 && s->right < 0; /* a causal query sees itself */
  if (!some_always) x = select3(n, seen, x, splat_like(n, x, 0));
  x = x ? build_cast(n->b, x, dtype) : 0;
  if (!x || !show(n, h, s, SHOW_SOFTMAX, x)) return 0;
  const Expr *dims[] = {h->batch, h->groups, h->per_group, h->queries, h->value_width};
  Val y = build_dot(n->b, x, h->v, single ? "bgst,bgte->bgse" : "bgrst,bgte->bgrse");
  return single && y ? build_reshape(n->b, y, 5, dims) : y;
}

Val import_attend(ImportNode *n, const Heads *h, const Scores *s) {
  bool plain = !s->mask && !s->lengths && !s->first && !s->bias && !s->sink && s->left < 0 && s->right < 0 &&
               s->shown < 0 && s->softcap <= 0 && !s->precise;
  Val y = plain ? fused(n, h, s->scale, s->causal) : spelled_out(n, h, s);
  const Expr *heads[] = {h->batch, h->heads, h->queries, h->value_width};
  const Expr *flat[] = {h->batch, h->queries, ex_mul(n->m, h->heads, h->value_width)};
  if (!y) return 0;
  if (!h->flat) return build_reshape(n->b, y, 4, heads);
  return build_reshape(n->b, build_transpose(n->b, y, (const int[]){0, 3, 1, 2, 4}), 3, flat);
}

/* ---- rotary embedding */

/* The first or second elements of every pair in the rotated part of x: halves, or neighbours. */
static Val one_of_pairs(ImportNode *n, Val x, const Expr *half, bool interleaved, bool second) {
  const Expr *zero = ex_const(n->m, 0);
  const Expr *start = !second ? zero : interleaved ? ex_const(n->m, 1) : half;
  return build_slice(n->b, x, 3, start, half, interleaved ? 2 : 1);
}

static Val rotated(ImportNode *n, Val x, const Expr *half, bool interleaved, Val cosine, Val sine) {
  Val first = one_of_pairs(n, x, half, interleaved, false), second = one_of_pairs(n, x, half, interleaved, true);
  Val real = binary(n, OP_sub, binary(n, OP_mul, cosine, first), binary(n, OP_mul, sine, second));
  Val imaginary = binary(n, OP_add, binary(n, OP_mul, sine, first), binary(n, OP_mul, cosine, second));
  if (!real || !imaginary) return 0;
  if (!interleaved) return build_concat(n->b, 2, (Val[]){real, imaginary}, 3);
  const Type *t = type_of(n->b->f, real);
  const Expr *dims[] = {t->dims[0], t->dims[1], t->dims[2], ex_muli(n->m, half, 2)};
  Val pair[] = {insert_dims(n, real, 1u << 4, 5), insert_dims(n, imaginary, 1u << 4, 5)};
  return build_reshape(n->b, build_concat(n->b, 2, pair, 4), 4, dims);
}

Val import_rotated(ImportNode *n, Val x, Val cosine, Val sine, bool interleaved, bool heads_behind) {
  int head_axis = heads_behind ? 2 : 1;
  if (!x || !cosine || !sine) return 0;
  const Expr *width = type_of(n->b->f, x)->dims[3], *half = type_of(n->b->f, cosine)->dims[2];
  const Expr *zero = ex_const(n->m, 0), *rotary = ex_muli(n->m, half, 2);
  Val part = rotary == width ? x : build_slice(n->b, x, 3, zero, rotary, 1);
  Val y = rotated(n, part, half, interleaved, insert_dims(n, cosine, 1u << head_axis, 4),
                  insert_dims(n, sine, 1u << head_axis, 4));
  if (!y || rotary == width) return y;
  Val rest = build_slice(n->b, x, 3, rotary, ex_sub(n->m, width, rotary), 1);
  return build_concat(n->b, 2, (Val[]){y, rest}, 3);
}
