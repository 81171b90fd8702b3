/* frontend/onnx/import_reduce.c - ONNX reductions, softmax and running sums. */
#include <math.h>

#include "frontend/onnx/import_private.h"

typedef struct Reduce {
  unsigned axes;
  bool keepdims, none; /* none: by the node's attributes no axis is reduced */
} Reduce;

static bool read_reduce(ImportNode *n, Reduce *r) {
  int rank = input_type(n, 0)->rank;
  int64_t since_input = n->op->max_in == 2 ? n->op->since : INT64_MAX;
  bool given;
  if (!node_axes(n, since_input, rank, &r->axes, &given)) return false;
  r->keepdims = node_int(n, "keepdims", 1) != 0;
  bool empty = !given || r->axes == 0;
  r->none = empty && node_int(n, "noop_with_empty_axes", 0) != 0;
  if (empty && !r->none) r->axes = (1u << rank) - 1;
  return true;
}

static Val reduced(ImportNode *n, const Reduce *r, Reduction how, Val x) {
  return r->none ? x : import_reduce_axes(n, how, x, r->axes, r->keepdims);
}

bool import_reduce(ImportNode *n) {
  Reduce r;
  Reduction how = (Reduction)n->op->arg;
  if (!read_reduce(n, &r)) return false;
  Val x = input(n, 0);
  if (!x || input_type(n, 0)->dtype != DT_bool) return import_set_output(n, 0, reduced(n, &r, how, x));
  how = how == RED_MAX ? RED_OR : how == RED_MIN ? RED_AND : how; /* for bool, since 20 */
  return import_set_output(n, 0, reduced(n, &r, how, x));
}

bool import_reduce_mean(ImportNode *n) {
  Reduce r;
  if (!read_reduce(n, &r)) return false;
  Val x = input(n, 0);
  return import_set_output(n, 0, r.none ? x : mean_axes(n, x, r.axes, r.keepdims));
}

bool import_reduce_l1(ImportNode *n) {
  Reduce r;
  return read_reduce(n, &r) && import_set_output(n, 0, reduced(n, &r, RED_SUM, build_unary(n->b, OP_abs, input(n, 0))));
}

static Val square(ImportNode *n, Val x) { return build_binary(n->b, OP_mul, x, x); }

bool import_reduce_l2(ImportNode *n) {
  Reduce r;
  return read_reduce(n, &r) &&
         import_set_output(n, 0, build_unary(n->b, OP_sqrt, reduced(n, &r, RED_SUM, square(n, input(n, 0)))));
}

bool import_reduce_sum_square(ImportNode *n) {
  Reduce r;
  return read_reduce(n, &r) && import_set_output(n, 0, reduced(n, &r, RED_SUM, square(n, input(n, 0))));
}

bool import_reduce_log_sum(ImportNode *n) {
  Reduce r;
  return read_reduce(n, &r) && import_set_output(n, 0, build_unary(n->b, OP_log, reduced(n, &r, RED_SUM, input(n, 0))));
}

/* The maximum over the axes, which are kept with extent 1: without it exp stays finite.  0 if it is infinite, since
 * inf - inf is NaN. */
static Val finite_max(ImportNode *n, Val x, unsigned axes) {
  Val top = import_reduce_axes(n, RED_MAX, x, axes, true);
  return top ? select3(n, build_unary(n->b, OP_isinf, top), splat_like(n, top, 0), top) : 0;
}

/* log(sum(exp(x))) over the axes, which are kept with extent 1. */
static Val log_sum(ImportNode *n, Val x, unsigned axes) {
  return build_unary(n->b, OP_log, import_reduce_axes(n, RED_SUM, build_unary(n->b, OP_exp, x), axes, true));
}

bool import_reduce_log_sum_exp(ImportNode *n) {
  Reduce r;
  if (!read_reduce(n, &r)) return false;
  Val x = input(n, 0);
  if (r.none) return import_set_output(n, 0, build_unary(n->b, OP_log, build_unary(n->b, OP_exp, x)));
  Val shift = finite_max(n, x, r.axes);
  Val y = shift ? binary(n, OP_add, log_sum(n, binary(n, OP_sub, x, shift), r.axes), shift) : 0;
  return import_set_output(n, 0, r.keepdims ? y : drop_dims(n, y, r.axes));
}

/* ---- softmax */

static Val softmax_last(ImportNode *n, Val x, int axis) {
  Attr a = attr_i(AT_axis, axis);
  return build_op(n->b, &(OpSpec){.kind = OP_softmax, .nin = 1, .in = &x, .nattrs = 1, .attrs = &a});
}

/* The maximum goes first: beside a huge one, as in rows that are masked by -1e9, the logarithm would be lost. */
Val log_softmax(ImportNode *n, Val x, int axis) {
  Val max = finite_max(n, x, 1u << axis), shifted = max ? binary(n, OP_sub, x, max) : 0;
  return shifted ? binary(n, OP_sub, shifted, log_sum(n, shifted, 1u << axis)) : 0;
}

/* Before 13 the dimensions from `axis` on count as one. */
static bool over_axis(ImportNode *n, Val (*how)(ImportNode *n, Val x, int axis)) {
  const Type *t = input_type(n, 0);
  int axis = 0;
  if (!node_axis(n, node_int(n, "axis", n->opset < 13 ? 1 : -1), t->rank, &axis)) return false;
  Val x = input(n, 0);
  if (n->opset >= 13 || axis == t->rank - 1) return import_set_output(n, 0, x ? how(n, x, axis) : 0);
  const Expr *dims[MAX_RANK];
  for (int d = 0; d < axis; d++) dims[d] = t->dims[d];
  dims[axis] = type_product(n->m, t, axis, t->rank);
  Val flat = build_reshape(n->b, x, axis + 1, dims);
  return import_set_output(n, 0, build_reshape(n->b, flat ? how(n, flat, axis) : 0, t->rank, t->dims));
}

bool import_softmax(ImportNode *n) { return over_axis(n, softmax_last); }
bool import_log_softmax(ImportNode *n) { return over_axis(n, log_softmax); }

/* ---- running sums and products */

bool import_running(ImportNode *n) {
  int64_t list[KNOWN_MAX];
  int count, axis;
  if (!input_ints(n, 1, "the axis", list, &count)) return false;
  if (count != 1) return node_error(n, "%d axes", count);
  if (!node_axis(n, list[0], input_type(n, 0)->rank, &axis)) return false;
  return import_set_output(n, 0,
                           scan(n, (Reduction)n->op->arg, input(n, 0), axis, node_int(n, "exclusive", 0) != 0,
                                node_int(n, "reverse", 0) != 0));
}
