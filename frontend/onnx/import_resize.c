/* frontend/onnx/import_resize.c - Resize and Upsample.
 *
 * Axes are resized one after the other (all modes are separable).  Along an axis, output u lies at a coordinate of
 * the input that the mode computes, and is a weighted sum of 1, 2 or 4 gathers around it.  Coordinates, indices and
 * weights are vectors over the outputs, in f64 as in the specification's reference.  They depend only on extents, so
 * extents may be symbolic, and all other dimensions (batch, channels) can be sharded freely.
 *
 * With antialiasing the kernel is as wide as the step between outputs: every output is a sum over all elements,
 * computed as one product with a matrix of the kernel's values.
 *
 * Not done: linear and cubic modes of integers; antialiasing over a symbolic axis, unless elements outside are
 * excluded.
 */
#include <math.h>
#include <string.h>

#include "frontend/onnx/interpolate.h"

typedef struct Resize {
  const char *mode, *coordinates, *nearest; /* attributes */
  bool exclude_outside, antialias;
  double cubic_a, extrapolation;
} Resize;

typedef struct Axis {
  int d;
  const Expr *in, *out;
  double scale;      /* 0: out / in */
  double start, end; /* region of interest, of tf_crop_and_resize */
} Axis;

/* ---- vectors over the outputs of an axis, f64 */

/* x / scale */
static Val unscaled(ImportNode *n, const Axis *a, Val x) {
  if (a->scale != 0) return binary_number(n, OP_div, x, a->scale);
  return binary(n, OP_div, binary(n, OP_mul, x, import_size_as(n, x, a->in)), import_size_as(n, x, a->out));
}

static Val half_pixel(ImportNode *n, const Axis *a, Val u) {
  return add_number(n, unscaled(n, a, add_number(n, u, 0.5)), -0.5);
}

/* Keeps the rounded extent centred in the exact extent scale * in. */
static Val half_pixel_symmetric(ImportNode *n, const Axis *a, Val u) {
  if (a->scale == 0) return half_pixel(n, a, u);
  Val centre = times_number(n, import_size_as(n, u, a->in), 0.5),
      exact = times_number(n, import_size_as(n, u, a->in), a->scale);
  Val adjustment = binary(n, OP_div, import_size_as(n, u, a->out), exact);
  return binary(n, OP_add, half_pixel(n, a, u), binary(n, OP_sub, centre, binary(n, OP_mul, centre, adjustment)));
}

/* `more` if there are several outputs, `one` if there is one. */
static Val if_several(ImportNode *n, const Axis *a, Val more, Val one) {
  return more ? select3(n, binary_number(n, OP_gt, import_size_as(n, more, a->out), 1), more, one) : 0;
}

/* Number of steps between first and last output; never 0 as a divisor. */
static Val span(ImportNode *n, const Axis *a, Val u) {
  Val last_in = add_number(n, import_size_as(n, u, a->in), -1),
      last_out = binary_number(n, OP_max, add_number(n, import_size_as(n, u, a->out), -1), 1);
  return binary(n, OP_div, binary(n, OP_mul, u, last_in), last_out);
}

static Val coordinate(ImportNode *n, const Resize *r, const Axis *a) {
  Val u = build_cast(n->b, iota_i64(n, 1, &a->out, 0), DT_f64);
  const char *c = r->coordinates;
  if (!u) return 0;
  if (strcmp(c, "half_pixel") == 0) return half_pixel(n, a, u);
  if (strcmp(c, "half_pixel_symmetric") == 0) return half_pixel_symmetric(n, a, u);
  if (strcmp(c, "pytorch_half_pixel") == 0) return if_several(n, a, half_pixel(n, a, u), splat_like(n, u, 0));
  if (strcmp(c, "align_corners") == 0) return span(n, a, u);
  if (strcmp(c, "asymmetric") == 0) return unscaled(n, a, u);
  if (strcmp(c, "tf_half_pixel_for_nn") == 0) return unscaled(n, a, add_number(n, u, 0.5));
  if (strcmp(c, "tf_crop_and_resize") == 0) {
    Val last = add_number(n, import_size_as(n, u, a->in), -1);
    Val inner = binary(n, OP_add, times_number(n, last, a->start), times_number(n, span(n, a, u), a->end - a->start));
    return if_several(n, a, inner, times_number(n, last, 0.5 * (a->start + a->end)));
  }
  node_error(n, "coordinate_transformation_mode \"%s\"", c);
  return 0;
}

/* ---- interpolation */

static Val nearest(ImportNode *n, const Resize *r, Val x) {
  if (strcmp(r->nearest, "floor") == 0) return build_unary(n->b, OP_floor, x);
  if (strcmp(r->nearest, "ceil") == 0) return build_unary(n->b, OP_ceil, x);
  if (strcmp(r->nearest, "round_prefer_floor") == 0) return build_unary(n->b, OP_ceil, add_number(n, x, -0.5));
  if (strcmp(r->nearest, "round_prefer_ceil") == 0) return build_unary(n->b, OP_floor, add_number(n, x, 0.5));
  node_error(n, "nearest_mode \"%s\"", r->nearest);
  return 0;
}

/* Sets the weights of taps outside the input to 0, and scales the others to the sum 1. */
static void excluded(ImportNode *n, const Axis *a, Taps *t) {
  Val sum = 0;
  for (int i = 0; i < t->n; i++) {
    t->weight[i] = select3(n, inside_extent(n, t->at[i], a->in), t->weight[i], splat_like(n, t->weight[i], 0));
    sum = sum ? binary(n, OP_add, sum, t->weight[i]) : t->weight[i];
  }
  for (int i = 0; i < t->n; i++) t->weight[i] = binary(n, OP_div, t->weight[i], sum);
}

static bool taps_at(ImportNode *n, const Resize *r, const Axis *a, Val x, Taps *t) {
  *t = (Taps){.n = 1};
  if (strcmp(r->mode, "nearest") == 0) return (t->at[0] = nearest(n, r, x)) != 0;
  if (strcmp(r->mode, "linear") == 0) *t = linear_taps(n, x);
  else if (strcmp(r->mode, "cubic") == 0) *t = cubic_taps(n, r->cubic_a, x);
  else return node_error(n, "mode \"%s\"", r->mode);
  if (r->exclude_outside) excluded(n, a, t);
  return t->at[0] != 0;
}

/* A vector over the outputs of the axis, broadcast against y. */
static Val along(ImportNode *n, const Axis *a, Val vector, int rank) {
  return insert_dims(n, vector, ((1u << rank) - 1) & ~(1u << a->d), rank);
}

static Val resized(ImportNode *n, const Resize *r, const Axis *a, Val x) {
  Val where = coordinate(n, r, a), y = 0;
  Taps t;
  if (!x || !where || !taps_at(n, r, a, where, &t)) return 0;
  const Type *type = type_of(n->b->f, x);
  for (int i = 0; i < t.n; i++) {
    Val index = build_cast(n->b, clamp_place(n, t.at[i], a->in), DT_i64);
    Val part = index ? build_gather(n->b, x, index, a->d) : 0;
    if (t.weight[i])
      part = binary(n, OP_mul, part, along(n, a, build_cast(n->b, t.weight[i], type->dtype), type->rank));
    y = y ? binary(n, OP_add, y, part) : part;
  }
  if (strcmp(r->coordinates, "tf_crop_and_resize") != 0 || !y) return y;
  return select3(n, along(n, a, inside_extent(n, where, a->in), type->rank), y, splat_like(n, y, r->extrapolation));
}

/* The number of elements beyond each end that the widened kernel reaches; they repeat the last element. */
static bool reach(ImportNode *n, const Resize *r, const Axis *a, int64_t *beyond) {
  int64_t in, out;
  *beyond = 0;
  if (r->exclude_outside) return true;
  if (!ex_get_const(a->in, &in) || !ex_get_const(a->out, &out) || out < 1)
    return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc,
                      "%s: antialias over a symbolic dimension is not supported", n->op->type);
  double scale = a->scale != 0 ? a->scale : (double)out / (double)in, support = strcmp(r->mode, "cubic") == 0 ? 2 : 1;
  return node_extent(n, ceil(support / fmin(scale, 1)) + 1, beyond);
}

static Val antialiased(ImportNode *n, const Resize *r, const Axis *a, Val x) {
  int64_t beyond;
  Val where = coordinate(n, r, a);
  if (!x || !where || !reach(n, r, a, &beyond)) return 0;
  const Type *type = type_of(n->b->f, x);
  const Expr *dims[] = {a->out, ex_addi(n->m, a->in, 2 * beyond)};
  Val at = build_cast(n->b, iota_i64(n, 2, dims, 1), DT_f64);
  Val scale = a->scale != 0 ? build_splat(n->b, type_get(n->m, DT_f64, 0, NULL), a->scale)
                            : build_cast(n->b,
                                         binary(n, OP_div, build_cast(n->b, import_scalar_i64(n, a->out), DT_f64),
                                                build_cast(n->b, import_scalar_i64(n, a->in), DT_f64)),
                                         DT_f64);
  Val offset = binary(n, OP_sub, add_number(n, at, -(double)beyond), insert_dims(n, where, 1u << 1, 2));
  Val t = binary(n, OP_mul, offset, binary_number(n, OP_min, scale, 1));
  if (!t) return 0;
  t = build_unary(n->b, OP_abs, t);
  Val w = strcmp(r->mode, "cubic") == 0 ? cubic_kernel(n, r->cubic_a, t) : linear_kernel(n, t);
  w = build_cast(n->b, binary(n, OP_div, w, import_reduce_axes(n, RED_SUM, w, 1u << 1, true)), type->dtype);
  if (beyond) {
    Val place = add_number(n, build_cast(n->b, iota_i64(n, 1, &dims[1], 0), DT_f64), -(double)beyond);
    x = build_gather(n->b, x, build_cast(n->b, clamp_place(n, place, a->in), DT_i64), a->d);
  }
  char from[MAX_RANK + 1], to[MAX_RANK + 1];
  for (int d = 0; d < type->rank; d++) from[d] = to[d] = (char)('a' + d);
  from[type->rank] = to[type->rank] = '\0';
  to[a->d] = 'u';
  return x && w ? build_dot(n->b, x, w, arena_printf(n->m->arena, "%s,u%c->%s", from, from[a->d], to)) : 0;
}

/* ---- reading the node */

/* The extent of an axis of extent `in` after scaling: floor(in * scale). */
static const Expr *scaled_extent(ImportNode *n, const Expr *in, double scale) {
  int64_t extent;
  if (ex_get_const(in, &extent)) return node_extent(n, (double)extent * scale, &extent) ? ex_const(n->m, extent) : NULL;
  if (scale == floor(scale)) return ex_muli(n->m, in, (int64_t)scale);
  if (1 / scale == floor(1 / scale) && 1 / scale < (double)MAX_EXTENT)
    return ex_div_joined(n->m, in, ex_const(n->m, (int64_t)(1 / scale)));
  diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc, "%s: a symbolic dimension scaled by %g", n->op->type, scale);
  return NULL;
}

static bool scales_of(ImportNode *n, int count, const double *scales, Axis *axes) {
  for (int i = 0; i < count; i++) {
    if (!(scales[i] > 0) || scales[i] > 1 << 20) return node_error(n, "the scale %g", scales[i]);
    axes[i].scale = scales[i];
    if (!(axes[i].out = scaled_extent(n, axes[i].in, scales[i]))) return false;
  }
  return true;
}

/* Adapts the sizes so that all axes have the same scale: the smallest or the largest one given. */
static bool keep_aspect(ImportNode *n, int count, Axis *axes, bool larger) {
  double scale = 0;
  int64_t in, out;
  for (int i = 0; i < count; i++) {
    if (!ex_get_const(axes[i].in, &in) || !ex_get_const(axes[i].out, &out))
      return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc,
                        "%s: keep_aspect_ratio_policy over a symbolic dimension is not supported", n->op->type);
    double one = (double)out / (double)in;
    if (i == 0 || (larger ? one > scale : one < scale)) scale = one;
  }
  for (int i = 0; i < count; i++) {
    ex_get_const(axes[i].in, &in);
    axes[i].scale = scale;
    if (!node_extent(n, scale * (double)in + 0.5, &out)) return false;
    axes[i].out = ex_const(n->m, out);
  }
  return true;
}

static bool sizes_of(ImportNode *n, int count, Axis *axes) {
  ImportKnown sizes;
  const char *policy = node_string(n, "keep_aspect_ratio_policy", "stretch");
  if (!input_shape(n, 3, "the sizes", &sizes)) return false;
  if (sizes.n != count) return node_error(n, "%d sizes do not fit %d axes", sizes.n, count);
  for (int i = 0; i < count; i++) axes[i].out = sizes.items[i];
  bool larger = strcmp(policy, "not_smaller") == 0;
  if (!larger && strcmp(policy, "stretch") != 0 && strcmp(policy, "not_larger") != 0)
    return node_error(n, "keep_aspect_ratio_policy \"%s\" is not supported", policy);
  return strcmp(policy, "stretch") == 0 || keep_aspect(n, count, axes, larger);
}

static bool read_roi(ImportNode *n, const Resize *r, int count, Axis *axes) {
  double roi[2 * MAX_RANK];
  int given;
  if (strcmp(r->coordinates, "tf_crop_and_resize") != 0) return true;
  if (!has_input(n, 1)) return node_error(n, "the region of interest is missing");
  if (!input_doubles(n, 1, "the region of interest", 2 * MAX_RANK, roi, &given)) return false;
  if (given != 2 * count) return node_error(n, "%d bounds of the region of interest do not fit %d axes", given, count);
  for (int i = 0; i < count; i++) axes[i].start = roi[i], axes[i].end = roi[count + i];
  return true;
}

/* Reads the resized axes; their number is stored in *count. */
static bool read_axes(ImportNode *n, Axis *axes, int *count) {
  const Type *t = input_type(n, 0);
  int listed;
  const int64_t *list = node_ints(n, "axes", &listed);
  *count = listed >= 0 ? listed : t->rank;
  if (*count > t->rank) return node_error(n, "%d axes", *count);
  for (int i = 0; i < *count; i++) {
    axes[i] = (Axis){.d = i};
    if (listed >= 0 && !node_axis(n, list[i], t->rank, &axes[i].d)) return false;
    for (int k = 0; k < i; k++)
      if (axes[k].d == axes[i].d) return node_error(n, "axis %d is given twice", axes[i].d);
    axes[i].in = t->dims[axes[i].d];
  }
  return true;
}

static bool resize_all(ImportNode *n, const Resize *r, const Axis *axes, int count) {
  Val x = input(n, 0);
  bool weighted = strcmp(r->mode, "nearest") != 0;
  if (weighted && !dtype_is_float(input_type(n, 0)->dtype))
    return node_error(n, "mode \"%s\" of %s", r->mode, dtype_name(input_type(n, 0)->dtype));
  bool crops = strcmp(r->coordinates, "tf_crop_and_resize") == 0;
  if (r->antialias && crops) return node_error(n, "antialias with tf_crop_and_resize is not supported");
  for (int i = 0; i < count; i++) {
    bool same = axes[i].in == axes[i].out && (axes[i].scale == 0 || axes[i].scale == 1);
    if (!same || (crops && (axes[i].start != 0 || axes[i].end != 1)))
      x = r->antialias && weighted ? antialiased(n, r, &axes[i], x) : resized(n, r, &axes[i], x);
  }
  return import_set_output(n, 0, x);
}

bool import_resize(ImportNode *n) {
  Resize r = {node_string(n, "mode", "nearest"),
              node_string(n, "coordinate_transformation_mode", "half_pixel"),
              node_string(n, "nearest_mode", "round_prefer_floor"),
              node_int(n, "exclude_outside", 0) != 0,
              node_int(n, "antialias", 0) != 0,
              node_float(n, "cubic_coeff_a", -0.75),
              node_float(n, "extrapolation_value", 0)};
  Axis axes[MAX_RANK];
  double scales[MAX_RANK];
  int count, given;
  if (!read_axes(n, axes, &count)) return false;
  if (has_input(n, 3) && !ex_is_const(type_elements(n->m, input_type(n, 3)), 0)) {
    if (!sizes_of(n, count, axes)) return false;
  } else {
    if (!has_input(n, 2)) return node_error(n, "scales and sizes are both missing");
    if (!input_doubles(n, 2, "the scales", MAX_RANK, scales, &given)) return false;
    if (given != count) return node_error(n, "%d scales do not fit %d axes", given, count);
    if (!scales_of(n, count, scales, axes)) return false;
  }
  return read_roi(n, &r, count, axes) && resize_all(n, &r, axes, count);
}

/* Resize before 11, and Upsample: scales only, coordinates x / scale, nearest element below. */
bool import_upsample(ImportNode *n) {
  Resize r = {node_string(n, "mode", "nearest"), "asymmetric", "floor", .exclude_outside = false};
  Axis axes[MAX_RANK];
  double scales[MAX_RANK];
  int count, given = 0;
  if (strcmp(r.mode, "bilinear") == 0) r.mode = "linear";
  if (!read_axes(n, axes, &count)) return false;
  if (n->op->max_in == 2) {
    if (!input_doubles(n, 1, "the scales", MAX_RANK, scales, &given)) return false;
  } else {
    size_t listed;
    const float *list = node_floats(n, "scales", &listed);
    for (; (size_t)given < listed && given < MAX_RANK; given++) scales[given] = (double)list[given];
  }
  if (given != count) return node_error(n, "%d scales do not fit %d axes", given, count);
  return scales_of(n, count, scales, axes) && resize_all(n, &r, axes, count);
}
