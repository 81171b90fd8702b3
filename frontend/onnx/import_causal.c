/* frontend/onnx/import_causal.c - CausalConvWithState: a convolution of each channel separately over the state
 * followed by the input, [batch, channels, length].
 *
 * It is a sum of products of slices, one per tap, so batch and channels can be sharded. */
#include <string.h>

#include "frontend/onnx/import_private.h"

enum { MAX_TAPS = 64 };

static bool check_causal(ImportNode *n, int64_t *taps) {
  const Type *t = input_type(n, 0), *tw = input_type(n, 1);
  if (t->rank != 3 || tw->rank != 3 || tw->dims[0] != t->dims[1] || !ex_is_const(tw->dims[1], 1) ||
      !ex_get_const(tw->dims[2], taps) || *taps < 1 || *taps > MAX_TAPS)
    return node_error(n, "weights %s do not fit %s", import_type_string(n->m, tw), import_type_string(n->m, t));
  if (has_input(n, 2) && (input_type(n, 2)->rank != 1 || input_type(n, 2)->dims[0] != t->dims[1]))
    return node_error(n, "the bias cannot be %s", import_type_string(n->m, input_type(n, 2)));
  if (!has_input(n, 3)) return true;
  const Type *past = input_type(n, 3);
  bool fits = past->rank == 3 && equal_extents(n, past->dims[0], t->dims[0]) && past->dims[1] == t->dims[1] &&
              ex_is_const(past->dims[2], *taps - 1);
  return fits || node_error(n, "the state %s does not fit %s and %lld taps", import_type_string(n->m, past),
                            import_type_string(n->m, t), (long long)*taps);
}

/* The state, or zeros without one, followed by the input. */
static Val whole_signal(ImportNode *n, Val x, int64_t taps) {
  const Type *t = input_type(n, 0);
  const Expr *dims[] = {t->dims[0], t->dims[1], ex_const(n->m, taps - 1)};
  if (taps == 1) return x;
  Val past = has_input(n, 3) ? input(n, 3) : build_splat(n->b, type_get(n->m, t->dtype, 3, dims), 0);
  return past ? build_concat(n->b, 2, (Val[]){past, x}, 2) : 0;
}

bool import_causal_conv(ImportNode *n) {
  int64_t taps;
  const char *activation = node_string(n, "activation", "none");
  bool silu = strcmp(activation, "silu") == 0 || strcmp(activation, "swish") == 0;
  if (!silu && strcmp(activation, "none") != 0) return node_error(n, "activation \"%s\"", activation);
  if (!check_causal(n, &taps)) return false;
  const Type *t = input_type(n, 0);
  const Expr *zero = ex_const(n->m, 0), *one = ex_const(n->m, 1), *channel[] = {t->dims[1], one};
  Val x = input(n, 0), w = input(n, 1), all = x ? whole_signal(n, x, taps) : 0, y = 0;
  if (!all || !w) return false;
  for (int64_t k = 0; k < taps; k++) {
    Val tap = build_reshape(n->b, build_slice(n->b, w, 2, ex_const(n->m, k), one, 1), 2, channel);
    Val product = binary(n, OP_mul, build_slice(n->b, all, 2, ex_const(n->m, k), t->dims[2], 1), tap);
    y = y ? binary(n, OP_add, y, product) : product;
  }
  if (has_input(n, 2)) y = binary(n, OP_add, y, insert_dims(n, input(n, 2), 2, 2));
  if (silu && y) y = binary(n, OP_mul, y, build_unary(n->b, OP_sigmoid, y));
  Val last = taps == 1 ? build_slice(n->b, x, 2, zero, zero, 1)
                       : build_slice(n->b, all, 2, t->dims[2], ex_const(n->m, taps - 1), 1);
  return import_set_output(n, 0, y) && (!wants(n, 1) || import_set_output(n, 1, last));
}
