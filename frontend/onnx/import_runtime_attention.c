/* frontend/onnx/import_runtime_attention.c - attention and rotary embeddings of ONNX Runtime.
 *
 * MultiHeadAttention (Attention and QAttention are projections before it, in bodies.def) hides a key by adding
 * mask_filter_value to its score.  That value is finite: a query whose keys are all hidden sees them all equally.
 *
 * GroupQueryAttention has one length per sequence of the batch, total = seqlens_k + 1.  The new keys of a sequence
 * follow the max(0, total - number of new keys) earlier ones, so sequences of a batch may differ in length; elements
 * of the cache after the end of a sequence are never seen.  The length of the output cache is total_sequence_length,
 * or that of the input cache if it is large enough.
 *
 * Not done: packed batches, caches that beams share, quantised caches, caches of a window only, normalised heads.
 */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import_scores.h"

static const char *expr_text(Module *m, const Expr *e) {
  Text t = {.arena = m->arena};
  ex_print(m, &t, e);
  return text_str(&t);
}

static bool only_int(ImportNode *n, const char *name, int64_t value) {
  int64_t is = node_int(n, name, value);
  return is == value ||
         node_error(n, "attribute \"%s\" is %lld; apc takes %lld", name, (long long)is, (long long)value);
}

static bool no_input(ImportNode *n, size_t i, const char *name) {
  return !has_input(n, i) || node_error(n, "input %zu (%s) is not supported", i, name);
}

/* Adds a dimension for the queries per key head to the operands of the result, of extent 1 unless there are `heads`. */
static Val with_groups(ImportNode *n, Val x, const Heads *h) {
  if (!x) return 0;
  const Type *t = type_of(n->b->f, x);
  const Expr *one = ex_const(n->m, 1);
  if (t->rank != 4) {
    node_error(n, "attention_bias must have four dimensions, not %s", import_type_string(n->m, t));
    return 0;
  }
  bool all = !ex_is_const(t->dims[1], 1);
  const Expr *dims[] = {t->dims[0], all ? h->groups : one, all ? h->per_group : one, t->dims[2], t->dims[3]};
  return build_reshape(n->b, x, 5, dims);
}

/* ---- MultiHeadAttention */

/* One number per sequence of the batch, as i64 [batch, 1, ..]. */
static Val per_sequence(ImportNode *n, Val x, const Expr *batch, int rank) {
  const Expr *dims[MAX_RANK];
  for (int d = 0; d < rank; d++) dims[d] = d ? ex_const(n->m, 1) : batch;
  return x ? build_reshape(n->b, build_cast(n->b, x, DT_i64), rank, dims) : 0;
}

/* True for keys before their sequence's end and, if there are 2 * batch numbers, from its start on. */
static Val within_ends(ImportNode *n, const Heads *h, Val x, bool starts) {
  Val key = iota_i64(n, 1, &h->keys, 0), end = build_slice(n->b, x, 0, ex_const(n->m, 0), h->batch, 1);
  Val seen = binary(n, OP_lt, key, per_sequence(n, end, h->batch, 5));
  if (!starts) return seen;
  Val start = build_slice(n->b, x, 0, h->batch, h->batch, 1);
  return binary(n, OP_and, seen, binary(n, OP_ge, key, per_sequence(n, start, h->batch, 5)));
}

/* True where the mask shows a key, of a shape that broadcasts to the scores. */
static Val unmasked(ImportNode *n, const Heads *h, size_t i) {
  const Type *t = input_type(n, i);
  const Expr *one = ex_const(n->m, 1), *zero = ex_const(n->m, 0);
  Val x = input(n, i);
  if (!x) return 0;
  if (t->rank == 1) {
    bool starts = t->dims[0] == ex_muli(n->m, h->batch, 2);
    if (starts || equal_extents(n, t->dims[0], h->batch)) return within_ends(n, h, x, starts);
  }
  if (t->rank == 4) { /* a square over all positions */
    x = build_slice(n->b, build_slice(n->b, x, 2, h->past, h->queries, 1), 3, zero, h->keys, 1);
    t = x ? type_of(n->b->f, x) : t;
  }
  if (t->rank >= 2 && t->rank <= 4 && equal_extents(n, t->dims[t->rank - 1], h->keys)) {
    const Expr *dims[] = {t->dims[0], one, one, t->rank > 2 ? t->dims[t->rank - 2] : one, h->keys};
    return binary_number(n, OP_gt, build_reshape(n->b, x, 5, dims), 0);
  }
  node_error(n, "the mask %s does not fit a batch of %s with %s keys", import_type_string(n->m, t),
             expr_text(n->m, h->batch), expr_text(n->m, h->keys));
  return 0;
}

/* Part `i` of dimension `axis` of x, without that dimension. */
static Val part_of(ImportNode *n, Val x, int axis, int i) {
  return drop_dims(n, build_slice(n->b, x, axis, ex_const(n->m, i), ex_const(n->m, 1), 1), 1u << axis);
}

/* Adds `size` numbers of the bias, from *start on, to x; moves *start past them. */
static Val biased(ImportNode *n, Val x, const Expr **start, const Expr *size) {
  if (!x || !has_input(n, 3)) return x;
  Val bias = build_slice(n->b, input(n, 3), 0, *start, size, 1);
  *start = ex_add(n->m, *start, size);
  return binary(n, OP_add, x, bias);
}

/* Reshapes [batch, sequence, heads, width] to [batch, sequence, heads * width]. */
static Val joined(ImportNode *n, Val x) {
  if (!x) return 0;
  const Type *t = type_of(n->b->f, x);
  const Expr *dims[] = {t->dims[0], t->dims[1], ex_mul(n->m, t->dims[2], t->dims[3])};
  return build_reshape(n->b, x, 3, dims);
}

/* Reads queries, keys and values [batch, sequence, heads * width] from any of their forms. */
static bool read_flat(ImportNode *n, Val x[3]) {
  int rank = input_type(n, 0)->rank;
  if (rank == 5 && !has_input(n, 1) && !has_input(n, 2)) {
    for (int i = 0; i < 3; i++) x[i] = joined(n, part_of(n, input(n, 0), 3, i));
  } else if (rank == 3 && has_input(n, 1) && input_type(n, 1)->rank == 5 && !has_input(n, 2)) {
    x[0] = input(n, 0);
    for (int i = 0; i < 2; i++) x[1 + i] = joined(n, part_of(n, input(n, 1), 3, i));
  } else if (rank == 3 && has_input(n, 1) && has_input(n, 2) && input_type(n, 1)->rank == input_type(n, 2)->rank) {
    for (int i = 0; i < 3; i++) x[i] = input(n, (size_t)i);
  } else {
    return node_error(n, "queries %s do not fit the keys and values", import_type_string(n->m, input_type(n, 0)));
  }
  return x[0] && x[1] && x[2];
}

/* Adds the bias to queries, keys and values and splits their heads.  Keys and values that already have heads come
 * from the cache of another node and are unchanged. */
static bool split_all(ImportNode *n, Heads *h, const Expr *heads) {
  Val x[3] = {0};
  const Expr *start = ex_const(n->m, 0);
  if (!read_flat(n, x)) return false;
  for (int i = 0; i < 3; i++) {
    const Type *t = x[i] ? type_of(n->b->f, x[i]) : NULL;
    if (t && t->rank == 3) x[i] = import_split_heads(n, biased(n, x[i], &start, t->dims[2]), heads);
    else if (t && t->rank != 4)
      return node_error(n, "keys or values must have three or four dimensions, not %s", import_type_string(n->m, t));
  }
  h->q = x[0], h->k = x[1], h->v = x[2];
  return h->q && h->k && h->v;
}

static bool join_past(ImportNode *n, Heads *h, size_t key, size_t value) {
  h->past = ex_const(n->m, 0);
  if (has_input(n, key) != has_input(n, value)) return node_error(n, "past_key and past_value must be given together");
  if (!has_input(n, key)) return true;
  if (input_type(n, key)->rank != 4)
    return node_error(n, "past_key must have four dimensions, not %s", import_type_string(n->m, input_type(n, key)));
  h->past = input_type(n, key)->dims[2];
  h->k = build_concat(n->b, 2, (Val[]){input(n, key), h->k}, 2);
  h->v = build_concat(n->b, 2, (Val[]){input(n, value), h->v}, 2);
  return h->k && h->v;
}

bool import_multi_head_attention(ImportNode *n) {
  int64_t heads = node_int(n, "num_heads", 0);
  Heads h = {.flat = true};
  Scores s = import_scores();
  if (heads < 1) return node_error(n, "num_heads cannot be %lld", (long long)heads);
  if (wants(n, 3)) return node_error(n, "output 3 (qk) is not supported");
  if (!no_input(n, 8, "past_sequence_length") || !no_input(n, 9, "cache_indirection")) return false;
  if (!split_all(n, &h, ex_const(n->m, heads)) || !join_past(n, &h, 6, 7)) return false;
  if (!import_set_output(n, 1, h.k) || !import_set_output(n, 2, h.v)) return false;
  if (!import_heads(n, &h) || !import_scale(n, &h, &s.scale)) return false;
  s.causal = node_int(n, "unidirectional", 0) != 0;
  if (has_input(n, 5) && !(s.bias = with_groups(n, input(n, 5), &h))) return false;
  if (has_input(n, 4)) {
    Val seen = unmasked(n, &h, 4), zero = build_splat(n->b, type_get(n->m, input_type(n, 0)->dtype, 0, NULL), 0);
    if (!seen || !zero) return false;
    Val hidden = select3(n, seen, zero, splat_like(n, zero, node_float(n, "mask_filter_value", -10000)));
    s.bias = s.bias ? binary(n, OP_add, s.bias, hidden) : hidden;
  }
  return import_set_output(n, 0, import_attend(n, &h, &s));
}

/* ---- GroupQueryAttention */

typedef struct Grouped {
  Heads h;
  Val k, v;           /* the new ones, [batch, heads, new tokens, width] */
  Val total, before;  /* of each sequence, i64 [batch, 1, 1, 1, 1] */
  const Expr *length; /* of the output cache */
} Grouped;

static bool refuse_grouped(ImportNode *n) {
  for (int i = 0; i < 2; i++) {
    const char *name = i ? "v_quant_type" : "k_quant_type", *type = node_string(n, name, "NONE");
    if (strcmp(type, "NONE") != 0) return node_error(n, "attribute \"%s\" is \"%s\"; apc takes \"NONE\"", name, type);
  }
  if (wants(n, 3)) return node_error(n, "output 3 (output_qk) is not supported");
  return only_int(n, "sliding_window_cache", 0) && only_int(n, "qk_output", 0) && no_input(n, 12, "k_scale") &&
         no_input(n, 13, "v_scale") && no_input(n, 14, "q_norm_weight") && no_input(n, 15, "k_norm_weight") &&
         no_input(n, 16, "query_seqlens");
}

/* Splits queries, keys and values, which are in one operand if keys are absent. */
static bool split_grouped(ImportNode *n, Grouped *g) {
  int64_t heads = node_int(n, "num_heads", 0), kv = node_int(n, "kv_num_heads", 0);
  if (heads < 1 || kv < 1)
    return node_error(n, "num_heads %lld and kv_num_heads %lld must be positive", (long long)heads, (long long)kv);
  if (has_input(n, 1) != has_input(n, 2)) return node_error(n, "key and value must be given together");
  Val x[] = {input(n, 0), input(n, 1), input(n, 2)};
  const Type *t = input_type(n, 0);
  if (!has_input(n, 1)) {
    const Expr *width = t->rank == 3 ? ex_exact_div(n->m, t->dims[2], ex_const(n->m, heads + 2 * kv)) : NULL;
    if (!width) return node_error(n, "%s does not split into queries, keys and values", import_type_string(n->m, t));
    const Expr *q = ex_muli(n->m, width, heads), *k = ex_muli(n->m, width, kv);
    Val all = x[0];
    x[0] = build_slice(n->b, all, 2, ex_const(n->m, 0), q, 1);
    x[1] = build_slice(n->b, all, 2, q, k, 1);
    x[2] = build_slice(n->b, all, 2, ex_add(n->m, q, k), k, 1);
  }
  g->h.q = import_split_heads(n, x[0], ex_const(n->m, heads));
  g->k = import_split_heads(n, x[1], ex_const(n->m, kv));
  g->v = import_split_heads(n, x[2], ex_const(n->m, kv));
  return g->h.q && g->k && g->v;
}

/* The number of tokens of every sequence, and its number before this node. */
static bool read_lengths(ImportNode *n, Grouped *g) {
  const Type *t = type_of(n->b->f, g->k);
  if (!equal_extents(n, type_elements(n->m, input_type(n, 5)), t->dims[0]))
    return node_error(n, "seqlens_k is %s", import_type_string(n->m, input_type(n, 5)));
  g->total = binary_number(n, OP_add, per_sequence(n, input(n, 5), t->dims[0], 5), 1);
  if (!g->total) return false;
  Val new = build_size(n->b, type_of(n->b->f, g->total), t->dims[2]);
  g->before = binary_number(n, OP_max, binary(n, OP_sub, g->total, new), 0);
  return g->before != 0;
}

/* The extent of the output cache that the file declares; NULL if none. */
static const Expr *declared_length(ImportNode *n) {
  const Onnx__ValueInfoProto *v = wants(n, 1) ? import_value_info(n->im, n->out[1]->name) : NULL;
  const Onnx__TypeProto *t = v ? v->type : NULL;
  bool is_tensor = t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && t->tensor_type;
  const Onnx__TensorShapeProto *shape = is_tensor ? t->tensor_type->shape : NULL;
  return shape && shape->n_dim == 4 ? import_dim(n->im, v->name, 2, shape->dim[2]) : NULL;
}

/* Sets the output length: total_sequence_length, or the length of the input cache if that is large enough. */
static bool cache_length(ImportNode *n, Grouped *g) {
  const Expr *new = type_of(n->b->f, g->k)->dims[2];
  ImportKnown total = input_known(n, 6);
  const Expr *grown = ex_add(n->m, g->h.past, new);
  if (!has_input(n, 3)) {
    g->length = new;
    return true;
  }
  if (!total.items) {
    g->length = declared_length(n);
    if (g->length == g->h.past || g->length == grown) return true;
    return input_refused(n, 6, "total_sequence_length, the extent of the cache that comes out,");
  }
  bool room = known_bounds(n->m, ex_sub(n->m, g->h.past, total.items[0])).low >= 0;
  g->length = room ? g->h.past : total.items[0];
  return room || equal_extents(n, total.items[0], grown) ||
         node_error(n, "a cache of %s and %s new tokens do not make %s tokens", expr_text(n->m, g->h.past),
                    expr_text(n->m, new), expr_text(n->m, total.items[0]));
}

/* Pads x [., ., rows, .] or [., ., ., keys] with zeros at the end, to that extent of the dimension. */
static Val lengthened(ImportNode *n, Val x, int axis, const Expr *to) {
  const Type *t = x ? type_of(n->b->f, x) : NULL;
  if (!t || t->dims[axis] == to) return x;
  const Expr *zero = ex_const(n->m, 0), *low[] = {zero, zero, zero, zero}, *high[] = {zero, zero, zero, zero};
  high[axis] = ex_sub(n->m, to, t->dims[axis]);
  Attr a[] = {attr_exprs(n->m, AT_low, 4, low), attr_exprs(n->m, AT_high, 4, high), attr_f(AT_value, 0)};
  return build_op(n->b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &x, .nattrs = 3, .attrs = a});
}

/* Writes the new rows into the cache, after the rows of their sequence. */
static Val grown_cache(ImportNode *n, const Grouped *g, Val new, size_t past) {
  if (!new || !has_input(n, past)) return new;
  const Type *t = type_of(n->b->f, new);
  const Expr *dims[] = {t->dims[0], t->dims[1], g->length, t->dims[3]};
  Val before = per_sequence(n, g->before, t->dims[0], 4), row = iota_i64(n, 4, dims, 2), old = input(n, past);
  if (!before || !row || !old) return 0;
  if (type_of(n->b->f, old)->rank != 4) return node_error(n, "past_key or past_value has not four dimensions"), 0;
  Val added = take(n, new, binary(n, OP_sub, row, before), 2);
  return select3(n, binary(n, OP_lt, row, before), lengthened(n, old, 2, g->length), added);
}

/* The bias of the scores; it covers existing tokens, and the cache may be longer. */
static Val added_scores(ImportNode *n, const Heads *h) {
  Val x = input(n, 10);
  const Type *t = input_type(n, 10);
  bool room = t->rank == 4 && known_bounds(n->m, ex_sub(n->m, h->keys, t->dims[3])).low >= 0;
  return with_groups(n, room ? lengthened(n, x, 3, h->keys) : x, h);
}

/* Rows of the cosines or sines for positions [batch, new tokens]. */
static Val rows_at(ImportNode *n, size_t i, Val position) {
  if (!has_input(n, i) || input_type(n, i)->rank != 2)
    return node_error(n, "with do_rotary, cos_cache and sin_cache must be matrices"), 0;
  return gather_wrapped(n, input(n, i), position, 0);
}

static bool rotate(ImportNode *n, Grouped *g) {
  const Type *t = type_of(n->b->f, g->k);
  const Expr *dims[] = {t->dims[0], t->dims[2]};
  Val position = has_input(n, 9)
                     ? input(n, 9)
                     : binary(n, OP_add, iota_i64(n, 2, dims, 1), per_sequence(n, g->before, t->dims[0], 2));
  Val cosine = rows_at(n, 7, position), sine = cosine ? rows_at(n, 8, position) : 0;
  bool interleaved = node_int(n, "rotary_interleaved", 0) != 0;
  g->h.q = import_rotated(n, g->h.q, cosine, sine, interleaved, false);
  g->k = import_rotated(n, g->k, cosine, sine, interleaved, false);
  return g->h.q && g->k;
}

/* The sink: one score per query head. */
static Val sink(ImportNode *n, const Heads *h) {
  const Expr *one = ex_const(n->m, 1), *dims[] = {one, h->groups, h->per_group, one, one};
  if (has_input(n, 11)) return build_reshape(n->b, input(n, 11), 5, dims);
  return build_splat(n->b, type_get(n->m, input_type(n, 0)->dtype, 5, dims), 0);
}

bool import_group_query_attention(ImportNode *n) {
  Grouped g = {.h = {.flat = true, .past = ex_const(n->m, 0)}};
  Scores s = import_scores();
  if (!has_input(n, 5) || !has_input(n, 6)) return node_error(n, "seqlens_k or total_sequence_length is missing");
  if (!refuse_grouped(n) || !split_grouped(n, &g) || !read_lengths(n, &g)) return false;
  if (has_input(n, 3) != has_input(n, 4)) return node_error(n, "past_key and past_value must be given together");
  if (has_input(n, 3) && input_type(n, 3)->rank == 4) g.h.past = input_type(n, 3)->dims[2];
  if (!cache_length(n, &g)) return false;
  if (node_int(n, "do_rotary", 0) != 0 && !rotate(n, &g)) return false;
  g.h.k = grown_cache(n, &g, g.k, 3), g.h.v = grown_cache(n, &g, g.v, 4);
  if (!import_set_output(n, 1, g.h.k) || !import_set_output(n, 2, g.h.v)) return false;
  if (!import_heads(n, &g.h) || !import_scale(n, &g.h, &s.scale)) return false;
  int64_t window = node_int(n, "local_window_size", -1);
  s.causal = node_int(n, "causal", 1) != 0;
  s.softcap = node_float(n, "softcap", 0);
  s.left = window > 0 ? window - 1 : -1;
  s.first = g.before;
  if (!s.causal) s.lengths = g.total;
  if (has_input(n, 10) && !(s.bias = added_scores(n, &g.h))) return false;
  if ((has_input(n, 11) || node_int(n, "smooth_softmax", 0) > 0) && !(s.sink = sink(n, &g.h))) return false;
  return import_set_output(n, 0, import_attend(n, &g.h, &s));
}

/* ---- RotaryEmbedding */

/* Rows of a cache [batch, sequence, half] for position_ids: one per token, or only that of the first token. */
static Val angles(ImportNode *n, size_t i, const Expr *batch, const Expr *sequence) {
  const Type *t = input_type(n, 1);
  const Expr *dims[] = {batch, sequence};
  Val position = build_cast(n->b, input(n, 1), DT_i64);
  if (!position) return 0;
  if (input_type(n, i)->rank != 2) return node_error(n, "a cache must be a matrix"), 0;
  if (t->rank == 1) {
    if (!ex_is_const(t->dims[0], 1)) return node_error(n, "position_ids %s", import_type_string(n->m, t)), 0;
    position = binary(n, OP_add, iota_i64(n, 2, dims, 1), position);
  }
  return gather_wrapped(n, input(n, i), position, 0);
}

bool import_runtime_rotary(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int64_t heads = node_int(n, "num_heads", 0), rotary = node_int(n, "rotary_embedding_dim", 0);
  bool flat = t->rank == 3;
  Val x = input(n, 0);
  if (!x || !only_int(n, "is_packed_batching", 0)) return false;
  if (t->rank != 3 && t->rank != 4) return node_error(n, "%s to rotate", import_type_string(n->m, t));
  if (fabs(node_float(n, "scale", 1) - 1) > 0) return node_error(n, "attribute \"scale\" is not 1");
  if (rotary > 0 && heads < 1 && flat) return node_error(n, "rotary_embedding_dim needs num_heads");
  Val cosine = angles(n, 2, t->dims[0], t->dims[flat ? 1 : 2]), sine = angles(n, 3, t->dims[0], t->dims[flat ? 1 : 2]);
  if (!cosine || !sine) return false;
  if (flat) {
    const Expr *width = ex_muli(n->m, type_of(n->b->f, cosine)->dims[2], 2);
    const Expr *count = heads > 0 ? ex_const(n->m, heads) : ex_exact_div(n->m, t->dims[2], width);
    const Expr *each = count ? ex_exact_div(n->m, t->dims[2], count) : NULL;
    if (!each)
      return node_error(n, "the last dimension of %s is not a multiple of its heads", import_type_string(n->m, t));
    const Expr *dims[] = {t->dims[0], t->dims[1], count, each};
    x = build_reshape(n->b, x, 4, dims);
  }
  Val y = import_rotated(n, x, cosine, sine, node_int(n, "interleaved", 0) != 0, flat);
  return import_set_output(n, 0, build_reshape(n->b, y, t->rank, t->dims));
}
