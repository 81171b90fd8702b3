/* frontend/onnx/import_linear.c - LinearAttention: a recurrence over a state per head, [key, value].
 *
 * In every step the state decays (gated rules), and takes the outer product of the key and the value or, by the delta
 * rules, of the key and a part of what the value differs from what the state already gives for the key.  The output is
 * the query times the new state.  The state and the sums are f32, or f64 for f64 inputs.  One step is computed without
 * a loop, as in decoding.
 *
 * Not done: the forms that compute several steps at once (chunk_size is a hint).
 */
#include <math.h>
#include <string.h>

#include "frontend/loop_build.h"
#include "frontend/onnx/import_private.h"

typedef struct Linear {
  const Expr *batch, *steps, *heads, *group, *keys, *values; /* group: query heads per head */
  DType type;                                                /* of the state and the sums */
  double scale;
  Val q, k, v;     /* [steps, batch, heads, ..] */
  Val decay, beta; /* likewise, 0 if the rule has none */
} Linear;

/* Reshapes input i, [batch, steps, ..], to [batch, steps, tail] and brings the steps to the front. */
static Val unpacked(ImportNode *n, const Linear *l, size_t i, int count, const Expr *const *tail) {
  static const int perm[] = {1, 0, 2, 3, 4};
  const Expr *dims[5] = {l->batch, l->steps};
  for (int d = 0; d < count; d++) dims[2 + d] = tail[d];
  Val x = input(n, i);
  return x ? build_transpose(n->b, build_reshape(n->b, x, 2 + count, dims), perm) : 0;
}

static bool read_heads(ImportNode *n, Linear *l) {
  int64_t queries = node_int(n, "q_num_heads", 0), heads = node_int(n, "kv_num_heads", 0), keys;
  for (size_t i = 0; i < 3; i++)
    if (input_type(n, i)->rank != 3)
      return node_error(n, "input %zu must have three dimensions, not %s", i,
                        import_type_string(n->m, input_type(n, i)));
  if (heads < 1 || queries < 1 || queries % heads)
    return node_error(n, "%lld query heads cannot share %lld heads", (long long)queries, (long long)heads);
  const Type *q = input_type(n, 0), *k = input_type(n, 1), *v = input_type(n, 2);
  l->batch = q->dims[0], l->steps = q->dims[1];
  l->heads = ex_const(n->m, heads), l->group = ex_const(n->m, queries / heads);
  l->keys = exact_extent(n, k->dims[2], l->heads), l->values = exact_extent(n, v->dims[2], l->heads);
  if (!l->keys || !l->values) return node_error(n, "the heads do not divide keys or values");
  if (!equal_extents(n, q->dims[2], ex_muli(n->m, l->keys, queries)))
    return node_error(n, "queries and keys have heads of different sizes");
  l->type = q->dtype == DT_f64 ? DT_f64 : DT_f32;
  l->scale = node_float(n, "scale", 0);
  if (l->scale != 0) return true;
  if (!ex_get_const(l->keys, &keys) || keys < 1)
    return node_error(n, "the size of a head is not a constant, so its scale is not known");
  l->scale = 1 / sqrt((double)keys);
  return true;
}

/* Reads the decay, per key or per head, and the rate, per head or for all, where the rule has them. */
static bool read_rates(ImportNode *n, Linear *l, bool decays, bool corrects) {
  const Expr *one = ex_const(n->m, 1);
  if (has_input(n, 4) < decays || has_input(n, 5) < corrects)
    return node_error(n, "the update rule needs input %d", has_input(n, 4) < decays ? 4 : 5);
  if (decays) {
    bool per_head = input_type(n, 4)->rank == 3 && input_type(n, 4)->dims[2] == l->heads;
    const Expr *tail[] = {l->heads, per_head && l->keys != one ? one : l->keys};
    if (!(l->decay = unpacked(n, l, 4, 2, tail))) return false;
  }
  if (corrects) {
    bool for_all = input_type(n, 5)->rank == 3 && ex_is_const(input_type(n, 5)->dims[2], 1);
    const Expr *tail[] = {for_all ? one : l->heads, one};
    if (!(l->beta = unpacked(n, l, 5, 2, tail))) return false;
  }
  return true;
}

static bool read_linear(ImportNode *n, Linear *l) {
  const char *rule = node_string(n, "update_rule", "gated_delta");
  bool gated = strncmp(rule, "gated", 5) == 0, delta = strstr(rule, "delta") != NULL;
  if (strcmp(rule, gated && delta ? "gated_delta" : gated ? "gated" : delta ? "delta" : "linear") != 0)
    return node_error(n, "update_rule \"%s\" is not supported", rule);
  if (!read_heads(n, l)) return false;
  const Expr *q[] = {l->heads, l->group, l->keys}, *k[] = {l->heads, l->keys}, *v[] = {l->heads, l->values};
  l->q = unpacked(n, l, 0, 3, q), l->k = unpacked(n, l, 1, 2, k), l->v = unpacked(n, l, 2, 2, v);
  return l->q && l->k && l->v && read_rates(n, l, gated, delta);
}

static Val first_state(ImportNode *n, const Linear *l) {
  const Expr *dims[] = {l->batch, l->heads, l->keys, l->values};
  const Type *t = type_get(n->m, l->type, 4, dims);
  if (!has_input(n, 3)) return build_splat(n->b, t, 0);
  if (input_type(n, 3)->rank != 4)
    return node_error(n, "the state must have four dimensions, not %s", import_type_string(n->m, input_type(n, 3)));
  Val x = input(n, 3);
  return x ? build_cast(n->b, build_reshape(n->b, x, 4, dims), l->type) : 0;
}

/* The values of one step, in the type of the sums; 0 for 0. */
static Val at_step(ImportNode *n, const Linear *l, Val x, Val step) {
  Val y = x ? build_gather(n->b, x, step, 0) : 0;
  return y ? build_cast(n->b, y, l->type) : 0;
}

/* Runs one step: updates the state and returns the output, [batch, heads, group, value]. */
static Val one_step(ImportNode *n, const Linear *l, Val step, Val *state) {
  Val q = at_step(n, l, l->q, step), k = at_step(n, l, l->k, step), v = at_step(n, l, l->v, step), s = *state;
  if (!q || !k || !v || !s) return 0;
  if (l->decay) {
    Val decay = build_unary(n->b, OP_exp, at_step(n, l, l->decay, step));
    s = binary(n, OP_mul, s, insert_dims(n, decay, 1u << 3, 4));
  }
  if (l->beta) {
    Val beta = at_step(n, l, l->beta, step), known = s ? build_dot(n->b, s, k, "bhkv,bhk->bhv") : 0;
    v = binary(n, OP_mul, binary(n, OP_sub, v, known), beta);
  }
  s = s && v ? binary(n, OP_add, s, build_dot(n->b, k, v, "bhk,bhv->bhkv")) : 0;
  *state = s;
  return s ? binary_number(n, OP_mul, build_dot(n->b, q, s, "bhgk,bhkv->bhgv"), l->scale) : 0;
}

/* Runs all steps; returns the outputs, [steps, batch, heads, group, value]. */
static Val all_steps(ImportNode *n, const Linear *l, Val *state) {
  const Expr *dims[] = {l->steps, l->batch, l->heads, l->group, l->values};
  if (ex_is_const(l->steps, 1)) {
    Val y = one_step(n, l, import_scalar_i64(n, ex_const(n->m, 0)), state);
    return y ? insert_dims(n, y, 1u, 5) : 0;
  }
  LoopBuild loop = frontend_loop_open(n->b, import_scalar_i64(n, l->steps), l->steps);
  Val s = loop.round ? frontend_loop_carry(&loop, *state) : 0, y = s ? one_step(n, l, loop.round, &s) : 0;
  Val all = y ? frontend_loop_collect(&loop, type_get(n->m, l->type, 5, dims)) : 0;
  if (!all) return 0;
  loop.carries.items[0].next = s;
  loop.carries.items[1].next = frontend_loop_write_row(n->b, all, y, loop.round, 0);
  if (!loop.carries.items[1].next || !frontend_loop_close(&loop, 0)) return 0;
  *state = loop.carries.items[0].last;
  return loop.carries.items[1].last;
}

bool import_linear_attention(ImportNode *n) {
  static const int batch_first[] = {1, 0, 2, 3, 4};
  Linear l = {0};
  if (!read_linear(n, &l)) return false;
  Val state = first_state(n, &l), y = state ? all_steps(n, &l, &state) : 0;
  if (!y) return false;
  const Expr *heads = ex_mul(n->m, l.heads, l.group), *dims[] = {l.batch, l.steps, ex_mul(n->m, heads, l.values)};
  DType type = input_type(n, 0)->dtype;
  y = build_reshape(n->b, build_transpose(n->b, build_cast(n->b, y, type), batch_first), 3, dims);
  return import_set_output(n, 0, y) &&
         import_set_output(n, 1, build_cast(n->b, state, has_input(n, 3) ? input_type(n, 3)->dtype : type));
}
