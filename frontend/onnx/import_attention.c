/* frontend/onnx/import_attention.c - the Attention and RotaryEmbedding operators.
 *
 * The specification of Attention changed between releases of onnx without a new operator version.  This is what it says
 * since onnx 1.23: query head i uses key head i / (heads per key head); a causal query sees the past and the keys up to
 * its own position; soft capping comes before the mask; a query that may see no key at all gives zeros, not NaN.
 * Without mask and capping the node is the IR's attention, else it is spelled out.
 */
#include <math.h>

#include "frontend/onnx/import_private.h"

/* Everything as [batch, key heads, queries per key head, sequence, width], keys and values without the third. */
typedef struct Heads {
  bool flat; /* operands are [batch, sequence, heads * width] */
  const Expr *batch, *heads, *groups, *per_group, *queries, *keys, *past, *width, *value_width;
  Val q, k, v;
} Heads;

static bool split_width(ImportNode *n, size_t i, const Expr *heads, const Expr **width) {
  const Type *t = input_type(n, i);
  *width = ex_exact_div(n->m, t->dims[2], heads);
  return *width ||
         node_error(n, "the last dimension of %s is not a multiple of its heads", import_type_string(n->m, t));
}

/* [batch, sequence, heads * width] to [batch, heads, sequence, width]. */
static Val unflatten(ImportNode *n, size_t i, const Expr *heads, const Expr *width) {
  const Type *t = input_type(n, i);
  const Expr *dims[] = {t->dims[0], t->dims[1], heads, width};
  return build_transpose(n->b, build_reshape(n->b, input(n, i), 4, dims), (const int[]){0, 2, 1, 3});
}

static bool flat_heads(ImportNode *n, Heads *h) {
  int64_t q = node_int(n, "q_num_heads", 0), kv = node_int(n, "kv_num_heads", 0);
  if (q < 1 || kv < 1) return node_error(n, "three-dimensional operands need q_num_heads and kv_num_heads");
  h->heads = ex_const(n->m, q), h->groups = ex_const(n->m, kv);
  const Expr *key_width;
  if (!split_width(n, 0, h->heads, &h->width) || !split_width(n, 1, h->groups, &key_width) ||
      !split_width(n, 2, h->groups, &h->value_width))
    return false;
  h->q = unflatten(n, 0, h->heads, h->width);
  h->k = unflatten(n, 1, h->groups, key_width);
  h->v = unflatten(n, 2, h->groups, h->value_width);
  return h->q && h->k && h->v;
}

static bool read_heads(ImportNode *n, Heads *h) {
  int rank = input_type(n, 0)->rank;
  if ((rank != 3 && rank != 4) || input_type(n, 1)->rank != rank || input_type(n, 2)->rank != rank)
    return node_error(n, "operands must all have three or all four dimensions");
  h->flat = rank == 3;
  if (h->flat) {
    if (!flat_heads(n, h)) return false;
  } else {
    h->q = input(n, 0), h->k = input(n, 1), h->v = input(n, 2);
    if (!h->q || !h->k || !h->v) return false;
  }
  h->past = ex_const(n->m, 0);
  if (has_input(n, 4) != has_input(n, 5)) return node_error(n, "past_key and past_value go together");
  if (has_input(n, 4)) {
    if (input_type(n, 4)->rank != 4) return node_error(n, "past_key is %s", import_type_string(n->m, input_type(n, 4)));
    h->past = input_type(n, 4)->dims[2];
    h->k = build_concat(n->b, 2, (Val[]){input(n, 4), h->k}, 2);
    h->v = build_concat(n->b, 2, (Val[]){input(n, 5), h->v}, 2);
    if (!h->k || !h->v) return false;
  }
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

static bool read_scale(ImportNode *n, const Heads *h, double *scale) {
  int64_t width;
  if (has_attr(n, "scale")) *scale = node_float(n, "scale", 1);
  else if (ex_get_const(h->width, &width) && width > 0) *scale = 1 / sqrt((double)width);
  else
    return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc,
                      "Attention: the head size is symbolic and no scale is given");
  return true;
}

/* Positions of the queries (after the past) and of the keys. */
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

/* Numbers, integers too, are added to the scores in the type of the queries.  The mask as [batch or 1, groups or 1, per
 * group or 1, queries or 1, keys]; what it lacks at the end hides keys. */
static Val wide_mask(ImportNode *n, const Heads *h) {
  const Type *t = input_type(n, 3);
  Val mask = input(n, 3);
  if (!mask) return 0;
  if (t->dtype != DT_bool) {
    mask = build_cast(n->b, mask, input_type(n, 0)->dtype);
    t = type_of(n->b->f, mask);
  }
  if (t->rank < 1 || t->rank > 4) {
    node_error(n, "the mask is %s", import_type_string(n->m, t));
    return 0;
  }
  if (t->dims[t->rank - 1] != h->keys) {
    const Expr *missing = ex_sub(n->m, h->keys, t->dims[t->rank - 1]), *low[4], *high[4];
    if (known_bounds(n->m, missing).low < 0) {
      node_error(n, "the mask %s does not cover the keys", import_type_string(n->m, t));
      return 0;
    }
    for (int d = 0; d < t->rank; d++) low[d] = high[d] = ex_const(n->m, 0);
    high[t->rank - 1] = missing;
    Attr a[] = {attr_exprs(n->m, AT_low, t->rank, low), attr_exprs(n->m, AT_high, t->rank, high),
                attr_f(AT_value, t->dtype == DT_bool ? 0 : -INFINITY)};
    mask = build_op(n->b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &mask, .nattrs = 3, .attrs = a});
    if (!mask) return 0;
    t = type_of(n->b->f, mask);
  }
  const Expr *one = ex_const(n->m, 1), *heads = t->rank > 2 ? t->dims[t->rank - 3] : one;
  bool all_heads = !ex_is_const(heads, 1);
  if (all_heads && heads != h->heads) {
    node_error(n, "the mask %s does not fit the heads", import_type_string(n->m, t));
    return 0;
  }
  const Expr *dims[] = {t->rank > 3 ? t->dims[0] : one, all_heads ? h->groups : one, all_heads ? h->per_group : one,
                        t->rank > 1 ? t->dims[t->rank - 2] : one, t->dims[t->rank - 1]};
  return build_reshape(n->b, mask, 5, dims);
}

/* How softmax is taken and what its rows may see. */
typedef struct Scores {
  double scale, softcap;
  bool causal;
  int64_t left, right; /* how many keys before and after its own position a query sees; -1: all */
  int64_t shown;       /* which state of the scores is the fourth output; -1: none */
  Val mask, lengths;   /* [.., keys], and the valid keys of each batch as [batch, 1, 1, 1, 1]; 0: absent */
} Scores;

enum { SHOW_PRODUCT, SHOW_CAPPED, SHOW_BIASED, SHOW_SOFTMAX };

static Val both(ImportNode *n, Val x, Val y) { return x ? binary(n, OP_and, x, y) : y; }

/* True where a key may be seen, of any shape that broadcasts to the scores; 0: everywhere. */
static Val visible(ImportNode *n, const Heads *h, const Scores *s) {
  const Expr *dims[] = {h->queries, h->keys};
  Val key = iota_i64(n, 2, dims, 1), position = iota_i64(n, 2, dims, 0), seen = 0;
  const Type *t = type_of(n->b->f, key);
  if (s->lengths) {
    seen = binary(n, OP_lt, key, s->lengths);
    position = binary(n, OP_add, position,
                      binary(n, OP_sub, s->lengths, build_size(n->b, type_of(n->b->f, s->lengths), h->queries)));
  } else if (!ex_is_const(h->past, 0)) {
    position = binary(n, OP_add, position, build_size(n->b, t, h->past));
  }
  if (s->causal) seen = both(n, seen, binary(n, OP_le, key, position));
  if (s->left >= 0) seen = both(n, seen, binary(n, OP_ge, key, binary_number(n, OP_sub, position, (double)s->left)));
  if (s->right >= 0) seen = both(n, seen, binary(n, OP_le, key, binary_number(n, OP_add, position, (double)s->right)));
  if (!s->mask) return seen;
  bool is_bool = type_of(n->b->f, s->mask)->dtype == DT_bool;
  return both(n, seen, is_bool ? s->mask : binary(n, OP_ne, s->mask, splat_like(n, s->mask, -INFINITY)));
}

/* [batch, groups, per group, queries, keys] as the fourth output. */
static bool show(ImportNode *n, const Heads *h, const Scores *s, int64_t state, Val x) {
  const Expr *dims[] = {h->batch, h->heads, h->queries, h->keys};
  return s->shown != state || import_set_output(n, 3, x ? build_reshape(n->b, x, 4, dims) : 0);
}

/* A key that is not to be seen has weight 0 also where the softmax of its row is NaN because no key is. */
static Val spelled_out(ImportNode *n, const Heads *h, const Scores *s) {
  Val x = binary_number(n, OP_mul, build_dot(n->b, h->q, h->k, "bgrsk,bgtk->bgrst"), s->scale), seen = visible(n, h, s);
  if (!show(n, h, s, SHOW_PRODUCT, x)) return 0;
  if (s->softcap > 0)
    x = binary_number(n, OP_mul, build_unary(n->b, OP_tanh, binary_number(n, OP_div, x, s->softcap)), s->softcap);
  if (!show(n, h, s, SHOW_CAPPED, x)) return 0;
  if (s->mask && type_of(n->b->f, s->mask)->dtype != DT_bool) x = binary(n, OP_add, x, s->mask);
  if (seen) x = select3(n, seen, x, splat_like(n, x, -INFINITY));
  if (!x || !show(n, h, s, SHOW_BIASED, x)) return 0;
  DType dtype = type_of(n->b->f, x)->dtype, precision = dtype;
  if (has_attr(n, "softmax_precision") && !node_dtype(n, "softmax_precision", &precision)) return 0;
  Attr axis = attr_i(AT_axis, 4);
  x = build_cast(n->b, x, precision);
  x = build_op(n->b, &(OpSpec){.kind = OP_softmax, .nin = 1, .in = &x, .nattrs = 1, .attrs = &axis});
  bool some_always = !s->mask && !s->lengths && s->left < 0 && s->right < 0; /* a causal query sees itself */
  if (!some_always) x = select3(n, seen, x, splat_like(n, x, 0));
  x = x ? build_cast(n->b, x, dtype) : 0;
  return x && show(n, h, s, SHOW_SOFTMAX, x) ? build_dot(n->b, x, h->v, "bgrst,bgte->bgrse") : 0;
}

static bool read_scores(ImportNode *n, const Heads *h, Scores *s) {
  *s = (Scores){.softcap = node_float(n, "softcap", 0),
                .causal = node_int(n, "is_causal", 0) != 0,
                .left = node_int(n, "left_window_size", -1),
                .right = node_int(n, "right_window_size", -1),
                .shown = wants(n, 3) ? node_int(n, "qk_matmul_output_mode", 0) : -1};
  if (s->left < -1 || s->right < -1)
    return node_error(n, "a window of %lld keys", (long long)(s->left < -1 ? s->left : s->right));
  if (s->shown < -1 || s->shown > SHOW_SOFTMAX)
    return node_error(n, "qk_matmul_output_mode is %lld", (long long)s->shown);
  if (has_input(n, 3) && !(s->mask = wide_mask(n, h))) return false;
  if (has_input(n, 6)) {
    if (has_input(n, 4)) return node_error(n, "nonpad_kv_seqlen and past_key exclude each other");
    const Type *t = input_type(n, 6);
    const Expr *one = ex_const(n->m, 1), *dims[] = {h->batch, one, one, one, one};
    if (t->rank != 1 || t->dtype != DT_i64) return node_error(n, "nonpad_kv_seqlen is %s", import_type_string(n->m, t));
    Val lengths = input(n, 6);
    if (!lengths || !(s->lengths = build_reshape(n->b, lengths, 5, dims))) return false;
  }
  return read_scale(n, h, &s->scale);
}

bool import_attention(ImportNode *n) {
  Heads h = {0};
  Scores s;
  if (!read_heads(n, &h) || !read_scores(n, &h, &s)) return false;
  if (!import_set_output(n, 1, h.k) || !import_set_output(n, 2, h.v)) return false;
  bool plain = !s.mask && !s.lengths && s.left < 0 && s.right < 0 && s.shown < 0 && s.softcap <= 0 &&
               !has_attr(n, "softmax_precision");
  Val y = plain ? fused(n, &h, s.scale, s.causal) : spelled_out(n, &h, &s);
  const Expr *heads[] = {h.batch, h.heads, h.queries, h.value_width};
  const Expr *flat[] = {h.batch, h.queries, ex_mul(n->m, h.heads, h.value_width)};
  if (!h.flat) return import_set_output(n, 0, build_reshape(n->b, y, 4, heads));
  return import_set_output(
      n, 0, build_reshape(n->b, y ? build_transpose(n->b, y, (const int[]){0, 3, 1, 2, 4}) : 0, 3, flat));
}

/* ---- RotaryEmbedding */

/* The sines or cosines of every position, [batch, sequence, half], with a dimension for the heads. */
static Val angles(ImportNode *n, size_t i, const Expr *half, int head_axis) {
  Val x = input(n, i);
  if (x && has_input(n, 3)) {
    if (input_type(n, i)->rank != 2 || input_type(n, 3)->rank != 2) {
      node_error(n, "with position_ids the caches must be matrices");
      return 0;
    }
    x = gather_wrapped(n, x, input(n, 3), 0);
  }
  if (!x || type_of(n->b->f, x)->rank != 3) {
    if (x) node_error(n, "the caches must be [batch, sequence, width]");
    return 0;
  }
  return insert_dims(n, build_slice(n->b, x, 2, ex_const(n->m, 0), half, 1), 1u << head_axis, 4);
}

/* The first and second elements of every pair of the rotated part of x: halves, or neighbours. */
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

bool import_rotary_embedding(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int64_t heads = node_int(n, "num_heads", 0), rotary = node_int(n, "rotary_embedding_dim", 0), width;
  Val x = input(n, 0);
  if (!x) return false;
  if (t->rank != 4 && !(t->rank == 3 && heads > 0))
    return node_error(n, "%s with %lld heads", import_type_string(n->m, t), (long long)heads);
  if (t->rank == 3) {
    const Expr *each = ex_exact_div(n->m, t->dims[2], ex_const(n->m, heads));
    if (!each)
      return node_error(n, "the last dimension of %s is not a multiple of its heads", import_type_string(n->m, t));
    const Expr *dims[] = {t->dims[0], t->dims[1], ex_const(n->m, heads), each};
    x = build_reshape(n->b, x, 4, dims);
  }
  if (!x) return false;
  const Expr *last = type_of(n->b->f, x)->dims[3];
  if (!ex_get_const(last, &width)) return node_error(n, "the head size is symbolic");
  if (rotary == 0) rotary = width;
  if (rotary < 0 || rotary > width || rotary % 2)
    return node_error(n, "%lld of %lld elements to rotate", (long long)rotary, (long long)width);
  const Expr *half = ex_const(n->m, rotary / 2);
  int head_axis = t->rank == 4 ? 1 : 2;
  Val part = build_slice(n->b, x, 3, ex_const(n->m, 0), ex_const(n->m, rotary), 1);
  Val y = rotated(n, part, half, node_int(n, "interleaved", 0) != 0, angles(n, 1, half, head_axis),
                  angles(n, 2, half, head_axis));
  if (y && rotary < width) {
    Val rest = build_slice(n->b, x, 3, ex_const(n->m, rotary), ex_const(n->m, width - rotary), 1);
    y = build_concat(n->b, 2, (Val[]){y, rest}, 3);
  }
  return import_set_output(n, 0, build_reshape(n->b, y, t->rank, t->dims));
}
