/* frontend/onnx/import_norm.c - ONNX normalisations.
 *
 * Norms over the last dimensions are the IR's norm (over one dimension; several are reshaped into one) followed by
 * scale and bias.  Batch normalisation is import_batch.c.  Where the standard allows mixed types, results of two types
 * have the wider one.
 */
#include "frontend/onnx/import_private.h"

static Val norm_last(ImportNode *n, Val x, const char *kind, double eps) {
  Attr a[] = {attr_s(n->m, AT_kind, kind), attr_f(AT_eps, eps)};
  return x ? build_op(n->b, &(OpSpec){.kind = OP_norm, .nin = 1, .in = &x, .nattrs = 2, .attrs = a}) : 0;
}

/* Normalises over the dimensions from `axis` on. */
static Val norm_from(ImportNode *n, Val x, int axis, const char *kind, double eps) {
  if (!x) return 0;
  const Type *t = type_of(n->b->f, x);
  if (axis == t->rank - 1) return norm_last(n, x, kind, eps);
  const Expr *dims[MAX_RANK];
  for (int d = 0; d < axis; d++) dims[d] = t->dims[d];
  dims[axis] = type_product(n->m, t, axis, t->rank);
  return build_reshape(n->b, norm_last(n, build_reshape(n->b, x, axis + 1, dims), kind, eps), t->rank, t->dims);
}

Val per_channel(ImportNode *n, Val c, int rank) { return insert_dims(n, c, ((1u << (rank - 1)) - 1) & ~1u, rank - 1); }

Val scale_and_shift(ImportNode *n, Val x, Val scale, Val bias) {
  if (scale) x = binary(n, OP_mul, x, scale);
  return bias ? binary(n, OP_add, x, bias) : x;
}

DType wider(DType a, DType b) { return a == b ? a : a == DT_f64 || b == DT_f64 ? DT_f64 : DT_f32; }

/* The mean and 1 / sqrt(variance + eps), further outputs of LayerNormalization; built only if used.  Their type is
 * stash_type, and they are computed in at least f32. */
static bool layer_statistics(ImportNode *n, Val x, int axis, double eps) {
  DType stash = DT_f32;
  if (has_attr(n, "stash_type") && !node_dtype(n, "stash_type", &stash)) return false;
  if (!dtype_is_float(stash)) return node_error(n, "stash_type must be a float type, not %s", dtype_name(stash));
  if (!wants(n, 1) && !wants(n, 2)) return true;
  unsigned axes = ((1u << type_of(n->b->f, x)->rank) - 1) & ~((1u << axis) - 1);
  x = build_cast(n->b, x, wider(input_type(n, 0)->dtype, DT_f32));
  Val mean = mean_axes(n, x, axes, true), centred = binary(n, OP_sub, x, mean);
  Val variance = centred ? mean_axes(n, build_binary(n->b, OP_mul, centred, centred), axes, true) : 0;
  if (!variance) return false;
  Val inverse = build_unary(n->b, OP_rsqrt, binary_number(n, OP_add, variance, eps));
  return import_set_output(n, 1, build_cast(n->b, mean, stash)) &&
         import_set_output(n, 2, build_cast(n->b, inverse, stash));
}

/* The result has the type of the scale, which for LayerNormalization is that of the input. */
static bool last_dims_norm(ImportNode *n, const char *kind) {
  Val x = input(n, 0), scale = input(n, 1), bias = input(n, 2);
  int axis = 0;
  double eps = node_float(n, "epsilon", 1e-5f);
  if (!x || !scale || (has_input(n, 2) && !bias)) return false;
  if (!node_axis(n, node_int(n, "axis", -1), input_type(n, 0)->rank, &axis)) return false;
  DType type = input_type(n, 1)->dtype;
  if ((n->op->arg == 0 && type != input_type(n, 0)->dtype) || (bias && type != input_type(n, 2)->dtype))
    return node_error(n, "input, scale and bias are of different types");
  Val y = norm_from(n, x, axis, kind, eps);
  y = y ? scale_and_shift(n, build_cast(n->b, y, type), scale, bias) : 0;
  if (!y || type_of(n->b->f, y) != type_with_dtype(n->m, input_type(n, 0), type))
    return y && node_error(n, "scale or bias is larger than the normalised dimensions");
  return import_set_output(n, 0, y) && layer_statistics(n, x, axis, eps);
}

bool import_layer_norm(ImportNode *n) { return last_dims_norm(n, "layer"); }
bool import_rms_norm(ImportNode *n) { return last_dims_norm(n, "rms"); }

bool channels_fit(ImportNode *n) {
  const Type *t = input_type(n, 0);
  if (t->rank < 2) return node_error(n, "needs a batch and a channel dimension, not %s", import_type_string(n->m, t));
  for (size_t i = 1; i < n->proto->n_input; i++)
    if (input_type(n, i)->rank != 1 || (input_type(n, i)->dims[0] != t->dims[1] && n->op->arg != 0))
      return node_error(n, "input %zu is %s, not one number per channel of %s", i,
                        import_type_string(n->m, input_type(n, i)), import_type_string(n->m, t));
  return true;
}

bool import_instance_norm(ImportNode *n) {
  if (!channels_fit(n)) return false;
  const Type *t = input_type(n, 0);
  if (t->rank < 3) return node_error(n, "needs spatial dimensions, not %s", import_type_string(n->m, t));
  Val y = norm_from(n, input(n, 0), 2, "layer", node_float(n, "epsilon", 1e-5f));
  return import_set_output(
      n, 0, scale_and_shift(n, y, per_channel(n, input(n, 1), t->rank), per_channel(n, input(n, 2), t->rank)));
}

/* [N, C, ...] as [N, groups, C / groups, ...]; scale and bias are per group before 21, per channel since. */
bool import_group_norm(ImportNode *n) {
  if (!channels_fit(n)) return false;
  const Type *t = input_type(n, 0);
  int64_t groups = node_int(n, "num_groups", 0);
  bool by_channel = n->op->arg == 1;
  if (groups < 1) return node_error(n, "num_groups is %lld", (long long)groups);
  const Expr *size = ex_exact_div(n->m, t->dims[1], ex_const(n->m, groups));
  if (!size || t->rank == MAX_RANK)
    return node_error(n, "the channels of %s do not form %lld groups", import_type_string(n->m, t), (long long)groups);
  const Expr *dims[MAX_RANK] = {t->dims[0], ex_const(n->m, groups), size};
  for (int d = 2; d < t->rank; d++) dims[d + 1] = t->dims[d];
  Val scale = input(n, 1), bias = input(n, 2);
  Val y =
      norm_from(n, build_reshape(n->b, input(n, 0), t->rank + 1, dims), 2, "layer", node_float(n, "epsilon", 1e-5f));
  if (!by_channel) y = scale_and_shift(n, y, per_channel(n, scale, t->rank + 1), per_channel(n, bias, t->rank + 1));
  y = build_reshape(n->b, y, t->rank, t->dims);
  if (by_channel) y = scale_and_shift(n, y, per_channel(n, scale, t->rank), per_channel(n, bias, t->rank));
  return import_set_output(n, 0, y);
}

bool import_lp_norm(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int64_t p = node_int(n, "p", 2);
  int axis = 0;
  if (p != 1 && p != 2) return node_error(n, "p is %lld, not 1 or 2", (long long)p);
  if (!node_axis(n, node_int(n, "axis", -1), t->rank, &axis)) return false;
  Val x = input(n, 0), sized = p == 1 ? build_unary(n->b, OP_abs, x) : build_binary(n->b, OP_mul, x, x);
  Val length = import_reduce_axes(n, RED_SUM, sized, 1u << axis, true);
  if (p == 2) length = build_unary(n->b, OP_sqrt, length);
  Val nothing = binary_number(n, OP_eq, length, 0); /* a vector of zeros stays zero */
  return import_set_output(n, 0, select3(n, nothing, splat_like(n, x, 0), binary(n, OP_div, x, length)));
}

bool import_mean_variance_norm(ImportNode *n) {
  int count;
  const int64_t standard[] = {0, 2, 3}, *list = node_ints(n, "axes", &count);
  if (count < 0) list = standard, count = 3;
  unsigned axes = 0;
  for (int i = 0; i < count; i++) {
    int axis = 0;
    if (!node_axis(n, list[i], input_type(n, 0)->rank, &axis)) return false;
    axes |= 1u << axis;
  }
  Val x = input(n, 0), centred = binary(n, OP_sub, x, mean_axes(n, x, axes, true));
  Val variance = centred ? mean_axes(n, build_binary(n->b, OP_mul, centred, centred), axes, true) : 0;
  Val deviation = binary_number(n, OP_add, build_unary(n->b, OP_sqrt, variance), 1e-9);
  return import_set_output(n, 0, binary(n, OP_div, centred, deviation));
}

/* x / (bias + alpha / size * (sum of squares of `size` neighbouring channels))^beta */
bool import_lrn(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int64_t size = node_int(n, "size", 0);
  if (t->rank < 3 || size < 1 || size > 1 << 20)
    return node_error(n, "cannot normalise over %lld channels around each of %s", (long long)size,
                      import_type_string(n->m, t));
  Val x = input(n, 0), squares = x ? build_binary(n->b, OP_mul, x, x) : 0;
  const Expr *one = ex_const(n->m, 1), *dims[] = {t->dims[0], one, t->dims[1], type_product(n->m, t, 2, t->rank)};
  const Expr *window[] = {ex_const(n->m, size), one},
             *starts[] = {ex_const(n->m, -((size - 1) / 2)), ex_const(n->m, 0)};
  const int64_t axes[] = {2, 3}, ones[] = {1, 1};
  Attr a[] = {attr_red(AT_op, RED_SUM),
              attr_ints(n->m, AT_axes, 2, axes),
              attr_exprs(n->m, AT_window, 2, window),
              attr_exprs(n->m, AT_starts, 2, starts),
              attr_ints(n->m, AT_strides, 2, ones),
              attr_ints(n->m, AT_dilations, 2, ones)};
  Val image = squares ? build_reshape(n->b, squares, 4, dims) : 0;
  if (!image) return false;
  Val sum = build_op(
      n->b,
      &(OpSpec){.kind = OP_pool, .nin = 1, .in = &image, .nattrs = 6, .attrs = a, .type = type_of(n->b->f, image)});
  sum = build_reshape(n->b, sum, t->rank, t->dims);
  Val base = binary_number(n, OP_add, binary_number(n, OP_mul, sum, node_float(n, "alpha", 1e-4) / (double)size),
                           node_float(n, "bias", 1));
  return import_set_output(n, 0, binary(n, OP_div, x, binary_number(n, OP_pow, base, node_float(n, "beta", 0.75))));
}
