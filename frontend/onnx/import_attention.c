/* frontend/onnx/import_attention.c - the Attention and RotaryEmbedding operators.
 *
 * The specification of Attention changed between releases of onnx without a new operator version.  Since onnx 1.23
 * it says: query head i uses key head i / (heads per key head); a causal query sees the past and the keys up to its
 * own position; soft capping comes before the mask; a query that may see no key gives zeros, not NaN.
 */
#include <math.h>

#include "frontend/onnx/import_scores.h"

static bool flat_heads(ImportNode *n, Heads *h) {
  int64_t q = node_int(n, "q_num_heads", 0), kv = node_int(n, "kv_num_heads", 0);
  if (q < 1 || kv < 1) return node_error(n, "three-dimensional operands need q_num_heads and kv_num_heads");
  h->heads = ex_const(n->m, q), h->groups = ex_const(n->m, kv);
  h->q = import_split_heads(n, input(n, 0), h->heads);
  h->k = import_split_heads(n, input(n, 1), h->groups);
  h->v = import_split_heads(n, input(n, 2), h->groups);
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
  if (has_input(n, 4) != has_input(n, 5)) return node_error(n, "past_key and past_value must be given together");
  if (has_input(n, 4)) {
    if (input_type(n, 4)->rank != 4)
      return node_error(n, "past_key must have four dimensions, not %s", import_type_string(n->m, input_type(n, 4)));
    h->past = input_type(n, 4)->dims[2];
    h->k = build_concat(n->b, 2, (Val[]){input(n, 4), h->k}, 2);
    h->v = build_concat(n->b, 2, (Val[]){input(n, 5), h->v}, 2);
    if (!h->k || !h->v) return false;
  }
  return import_heads(n, h);
}

/* Returns the mask as [batch or 1, groups or 1, per group or 1, queries or 1, keys].  Numbers, also integers, are
 * added to the scores in the type of the queries.  If the mask has too few keys, the missing ones are hidden. */
static Val wide_mask(ImportNode *n, const Heads *h) {
  const Type *t = input_type(n, 3);
  Val mask = input(n, 3);
  if (!mask) return 0;
  if (t->dtype != DT_bool) {
    mask = build_cast(n->b, mask, input_type(n, 0)->dtype);
    t = type_of(n->b->f, mask);
  }
  if (t->rank < 1 || t->rank > 4) {
    node_error(n, "the mask must have one to four dimensions, not %s", import_type_string(n->m, t));
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

static bool read_scores(ImportNode *n, const Heads *h, Scores *s) {
  *s = (Scores){.softcap = node_float(n, "softcap", 0),
                .causal = node_int(n, "is_causal", 0) != 0,
                .left = node_int(n, "left_window_size", -1),
                .right = node_int(n, "right_window_size", -1),
                .shown = wants(n, 3) ? node_int(n, "qk_matmul_output_mode", 0) : -1,
                .precise = has_attr(n, "softmax_precision")};
  if (s->precise && !node_dtype(n, "softmax_precision", &s->precision)) return false;
  if (s->left < -1 || s->right < -1)
    return node_error(n, "a window cannot have %lld keys", (long long)(s->left < -1 ? s->left : s->right));
  if (s->shown < -1 || s->shown > SHOW_SOFTMAX)
    return node_error(n, "qk_matmul_output_mode %lld is not supported", (long long)s->shown);
  if (has_input(n, 3) && !(s->mask = wide_mask(n, h))) return false;
  if (has_input(n, 6)) {
    if (has_input(n, 4)) return node_error(n, "nonpad_kv_seqlen and past_key exclude each other");
    const Type *t = input_type(n, 6);
    const Expr *one = ex_const(n->m, 1), *dims[] = {h->batch, one, one, one, one};
    if (t->rank != 1 || t->dtype != DT_i64)
      return node_error(n, "nonpad_kv_seqlen must be a list of i64, not %s", import_type_string(n->m, t));
    Val lengths = input(n, 6);
    if (!lengths || !(s->lengths = build_reshape(n->b, lengths, 5, dims))) return false;
  }
  return import_scale(n, h, &s->scale);
}

bool import_attention(ImportNode *n) {
  Heads h = {0};
  Scores s;
  if (!read_heads(n, &h) || !read_scores(n, &h, &s)) return false;
  if (!import_set_output(n, 1, h.k) || !import_set_output(n, 2, h.v)) return false;
  return import_set_output(n, 0, import_attend(n, &h, &s));
}

/* ---- RotaryEmbedding */

/* Reads the sines or cosines of every position, [batch, sequence, half]. */
static Val angles(ImportNode *n, size_t i, const Expr *half) {
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
  return build_slice(n->b, x, 2, ex_const(n->m, 0), half, 1);
}

bool import_rotary_embedding(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int64_t heads = node_int(n, "num_heads", 0), rotary = node_int(n, "rotary_embedding_dim", 0), width;
  Val x = input(n, 0);
  if (!x) return false;
  if (t->rank != 4 && !(t->rank == 3 && heads > 0))
    return node_error(n, "%s does not fit %lld heads", import_type_string(n->m, t), (long long)heads);
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
    return node_error(n, "cannot rotate %lld of %lld elements", (long long)rotary, (long long)width);
  const Expr *half = ex_const(n->m, rotary / 2);
  Val y =
      import_rotated(n, x, angles(n, 1, half), angles(n, 2, half), node_int(n, "interleaved", 0) != 0, t->rank == 3);
  return import_set_output(n, 0, build_reshape(n->b, y, t->rank, t->dims));
}
