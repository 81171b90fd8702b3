/* frontend/onnx/tree_post.c - see tree_post.h. */
#include "frontend/onnx/tree_post.h"

/* exp(x - max), of zeros 0, by their sum. */
static Val softmax_zero(ImportNode *n, Val x) {
  Val most = import_reduce_axes(n, RED_MAX, x, 1u << 1, true);
  Val zero = binary_number(n, OP_le, build_unary(n->b, OP_abs, x), 1e-7);
  Val e = build_unary(n->b, OP_exp, binary(n, OP_sub, x, most));
  e = select3(n, zero, binary(n, OP_mul, x, build_unary(n->b, OP_exp, build_unary(n->b, OP_neg, most))), e);
  return binary(n, OP_div, e, import_reduce_axes(n, RED_SUM, e, 1u << 1, true));
}

/* sqrt(2) erfinv(2 x - 1), by Winitzki's formula. */
static Val probit(ImportNode *n, Val x) {
  const double a = 0.147, pi = 3.14159;
  Val u = binary_number(n, OP_sub, binary_number(n, OP_mul, x, 2), 1);
  Val log = build_unary(n->b, OP_log, binary(n, OP_sub, splat_like(n, u, 1), binary(n, OP_mul, u, u)));
  Val v = binary_number(n, OP_add, binary_number(n, OP_mul, log, 0.5), 2 / (pi * a));
  Val root = build_unary(n->b, OP_sqrt, binary(n, OP_sub, binary(n, OP_mul, v, v), binary_number(n, OP_div, log, a)));
  Val y = build_unary(n->b, OP_sqrt, binary(n, OP_sub, root, v));
  Val negative = binary_number(n, OP_lt, u, 0);
  return binary_number(n, OP_mul, select3(n, negative, build_unary(n->b, OP_neg, y), y), 1.41421356);
}

Val tree_post(ImportNode *n, TreePost post, Val x) {
  switch (post) {
    case POST_NONE: return x;
    case POST_SOFTMAX: {
      Attr a = attr_i(AT_axis, 1);
      return build_op(n->b, &(OpSpec){.kind = OP_softmax, .nin = 1, .in = &x, .nattrs = 1, .attrs = &a});
    }
    case POST_LOGISTIC: return build_unary(n->b, OP_sigmoid, x);
    case POST_SOFTMAX_ZERO: return softmax_zero(n, x);
    case POST_PROBIT: return probit(n, x);
  }
  return 0;
}
