/* frontend/onnx/interpolate.c - see interpolate.h. */
#include "frontend/onnx/interpolate.h"

Val add_number(ImportNode *n, Val x, double y) { return binary_number(n, OP_add, x, y); }
Val times_number(ImportNode *n, Val x, double y) { return binary_number(n, OP_mul, x, y); }

Val import_size_as(ImportNode *n, Val x, const Expr *e) {
  if (!x) return 0;
  const Type *t = type_of(n->b->f, x);
  return build_cast(n->b, build_size(n->b, type_with_dtype(n->m, t, DT_i64), e), t->dtype);
}

Val clamp_place(ImportNode *n, Val x, const Expr *extent) {
  return binary(n, OP_min, binary_number(n, OP_max, x, 0), import_size_as(n, x, ex_addi(n->m, extent, -1)));
}

Val inside_extent(ImportNode *n, Val x, const Expr *extent) {
  return binary(n, OP_and, binary_number(n, OP_ge, x, 0),
                binary(n, OP_le, x, import_size_as(n, x, ex_addi(n->m, extent, -1))));
}

/* Computes floor(x), the distance to it (*ratio), and 1 minus that (*rest). */
static Val split_place(ImportNode *n, Val x, Val *ratio, Val *rest) {
  Val low = x ? build_unary(n->b, OP_floor, x) : 0;
  *ratio = binary(n, OP_sub, x, low);
  *rest = *ratio ? build_binary(n->b, OP_sub, splat_like(n, *ratio, 1), *ratio) : 0;
  return low;
}

Taps linear_taps(ImportNode *n, Val x) {
  Val ratio, rest, low = split_place(n, x, &ratio, &rest);
  return (Taps){2, {low, add_number(n, low, 1)}, {rest, ratio}};
}

/* Keys' kernel at distance t: inner in [0, 1], outer in [1, 2]. */
static Val cubic_inner(ImportNode *n, double a, Val t) {
  Val p = add_number(n, times_number(n, t, a + 2), -(a + 3));
  return add_number(n, binary(n, OP_mul, binary(n, OP_mul, p, t), t), 1);
}
static Val cubic_outer(ImportNode *n, double a, Val t) {
  Val p = add_number(n, times_number(n, t, a), -5 * a);
  p = add_number(n, binary(n, OP_mul, p, t), 8 * a);
  return add_number(n, binary(n, OP_mul, p, t), -4 * a);
}

Taps cubic_taps(ImportNode *n, double a, Val x) {
  Val ratio, rest, low = split_place(n, x, &ratio, &rest);
  return (Taps){4,
                {add_number(n, low, -1), low, add_number(n, low, 1), add_number(n, low, 2)},
                {cubic_outer(n, a, add_number(n, ratio, 1)), cubic_inner(n, a, ratio), cubic_inner(n, a, rest),
                 cubic_outer(n, a, add_number(n, rest, 1))}};
}

Val linear_kernel(ImportNode *n, Val t) {
  return binary_number(n, OP_max, add_number(n, times_number(n, t, -1), 1), 0);
}

Val cubic_kernel(ImportNode *n, double a, Val t) {
  Val outer = select3(n, binary_number(n, OP_lt, t, 2), cubic_outer(n, a, t), splat_like(n, t, 0));
  return select3(n, binary_number(n, OP_le, t, 1), cubic_inner(n, a, t), outer);
}
