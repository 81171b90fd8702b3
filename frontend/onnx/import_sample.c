/* frontend/onnx/import_sample.c - values between the pixels of an image, at positions given by a tensor: GridSample,
 * AffineGrid, RoiAlign, DeformConv.
 *
 * A sample is a weighted sum of the elements around its position, over all combinations of the taps of every axis.
 * Taps are separate dimensions.  So all samples are one lookup in the image with its spatial dimensions joined, one
 * product and one reduction, whatever the number of taps; one lookup per tap would give many operations that must
 * all agree on a layout.  GridSample looks up with `take`, so batch and channels can be sharded.  Regions of
 * RoiAlign name their image, so batch and space form one table, sharded over regions and channels.
 *
 * A deformable convolution samples an element for every tap and position; the rest is a matrix product.
 *
 * Not done: RoiAlign with a sampling ratio of 0, where the number of samples depends on the regions.
 */
#include <string.h>

#include "frontend/onnx/interpolate.h"

enum { MAX_SPACE = 3, BASE = 3 /* dimensions of positions, before those of taps */ };

/* An axis of the image, and the taps of its samples: [positions (BASE dimensions), 1.., taps, 1..]. */
typedef struct Along {
  const Expr *extent;
  int64_t taps;
  Val at, weight, inside; /* weight 0: 1; inside is bool, 0: all positions count */
} Along;

static Val times(ImportNode *n, Val x, Val y) { return binary(n, OP_mul, x, y); }
static Val plus(ImportNode *n, Val x, Val y) { return binary(n, OP_add, x, y); }
static Val minus(ImportNode *n, Val x, Val y) { return binary(n, OP_sub, x, y); }

/* The type of the computation: half precision is widened. */
static DType wide(DType t) { return t == DT_f64 ? DT_f64 : DT_f32; }

/* Sets the elements around x [positions] on axis a of `axes`: nearest (1 tap), linear (2) or cubic (4). */
static void set_taps(ImportNode *n, Along *along, int axes, int a, int64_t taps, Val x) {
  unsigned all = (1u << (BASE + axes)) - 1, places = (1u << BASE) - 1;
  along->taps = taps;
  along->at = x = insert_dims(n, x, all & ~places, BASE + axes);
  if (taps == 1 || !x) return;
  const Expr *count = ex_const(n->m, taps);
  Val offset =
      add_number(n, build_cast(n->b, iota_i64(n, 1, &count, 0), type_of(n->b->f, x)->dtype), taps == 2 ? 0 : -1);
  along->at = plus(n, build_unary(n->b, OP_floor, x), insert_dims(n, offset, all & ~(1u << (BASE + a)), BASE + axes));
  Val t = minus(n, x, along->at);
  if (t) t = build_unary(n->b, OP_abs, t);
  along->weight = taps == 2 ? linear_kernel(n, t) : cubic_kernel(n, -0.75, t);
}

/* Row-major i64 indices into the image of all combinations of taps; -1 for those outside. */
static Val joined_place(ImportNode *n, int axes, const Along *along) {
  Val at = 0, inside = 0;
  for (int a = 0; a < axes; a++) {
    Val in = along[a].inside, place = build_cast(n->b, clamp_place(n, along[a].at, along[a].extent), DT_i64);
    at = at ? plus(n, times(n, at, import_scalar_i64(n, along[a].extent)), place) : place;
    if (in) inside = inside ? binary(n, OP_and, inside, in) : in;
  }
  return inside && at ? select3(n, inside, at, splat_like(n, at, -1)) : at;
}

static Val joined_weight(ImportNode *n, int axes, const Along *along) {
  Val w = 0;
  for (int a = 0; a < axes; a++)
    if (along[a].weight) w = w ? times(n, w, along[a].weight) : along[a].weight;
  return w;
}

/* ---- GridSample */

typedef struct GridSample {
  const char *padding;
  bool nearest, cubic, corners;
} GridSample;

static bool zeros(const GridSample *g) { return strcmp(g->padding, "zeros") == 0; }

/* Maps coordinates from [-1, 1] to positions on the axis. */
static Val denormalized(ImportNode *n, const GridSample *g, Val x, const Expr *extent) {
  x = add_number(n, x, 1);
  if (g->corners) return times(n, times_number(n, x, 0.5), import_size_as(n, x, ex_addi(n->m, extent, -1)));
  return times_number(n, add_number(n, times(n, x, import_size_as(n, x, extent)), -1), 0.5);
}

/* Reflects x at the borders until it lies between them: the centres of the first and last elements (corners), or
 * their outer edges. */
static Val reflected(ImportNode *n, const GridSample *g, Val x, const Expr *extent) {
  double low = g->corners ? 0 : -0.5;
  Val range = import_size_as(n, x, g->corners ? ex_addi(n->m, extent, -1) : extent);
  range = binary_number(n, OP_max, range, 1); /* one element with corners has no range; clamp_place decides */
  Val twice = times_number(n, range, 2), from = x ? build_unary(n->b, OP_abs, add_number(n, x, -low)) : 0;
  Val rest = binary(n, OP_mod, from, twice);
  return add_number(n, binary(n, OP_min, rest, minus(n, twice, rest)), low);
}

/* Treats positions beyond the borders before they are interpolated.  With zeros they only become finite; so do those of
 * cubic interpolation with borders, whose taps are clamped one by one as in PyTorch and ONNX Runtime.  (The
 * specification's reference clamps the position first.) */
static Val bordered(ImportNode *n, const GridSample *g, Val x, const Expr *extent) {
  if (strcmp(g->padding, "reflection") == 0) return reflected(n, g, x, extent);
  if (!zeros(g) && !g->cubic) return clamp_place(n, x, extent);
  return binary(n, OP_min, binary_number(n, OP_max, x, -3), import_size_as(n, x, ex_addi(n->m, extent, 2)));
}

/* Sets the taps of an axis; x has coordinates in the grid's range. */
static void sample_axis(ImportNode *n, const GridSample *g, Val x, int axes, int a, Along *along) {
  if (g->nearest && x) x = build_unary(n->b, OP_round, x);
  set_taps(n, along, axes, a, g->nearest ? 1 : g->cubic ? 4 : 2, bordered(n, g, x, along->extent));
  if (zeros(g)) along->inside = inside_extent(n, along->at, along->extent);
  else if (g->cubic && strcmp(g->padding, "reflection") == 0) along->at = reflected(n, g, along->at, along->extent);
}

static bool read_grid_sample(ImportNode *n, GridSample *g) {
  const Type *t = input_type(n, 0), *tg = input_type(n, 1);
  const char *mode = node_string(n, "mode", "linear");
  int axes = t->rank - 2;
  *g = (GridSample){node_string(n, "padding_mode", "zeros"), strcmp(mode, "nearest") == 0,
                    strcmp(mode, "cubic") == 0 || strcmp(mode, "bicubic") == 0, node_int(n, "align_corners", 0) != 0};
  if (!g->nearest && !g->cubic && strcmp(mode, "linear") != 0 && strcmp(mode, "bilinear") != 0)
    return node_error(n, "mode \"%s\"", mode);
  if (!zeros(g) && strcmp(g->padding, "border") != 0 && strcmp(g->padding, "reflection") != 0)
    return node_error(n, "padding_mode \"%s\"", g->padding);
  if (axes < 1 || axes > MAX_SPACE || tg->rank != t->rank || !ex_is_const(tg->dims[tg->rank - 1], axes) ||
      !dtype_is_float(tg->dtype))
    return node_error(n, "a grid %s does not fit an image %s", import_type_string(n->m, tg),
                      import_type_string(n->m, t));
  return equal_extents(n, t->dims[0], tg->dims[0]) ||
         node_error(n, "a grid %s does not fit an image %s", import_type_string(n->m, tg), import_type_string(n->m, t));
}

/* Coordinate number `k` of the grid, [batch, 1, positions]. */
static Val grid_coordinate(ImportNode *n, Val grid, int k) {
  if (!grid) return 0;
  const Type *t = type_of(n->b->f, grid);
  const Expr *dims[] = {t->dims[0], ex_const(n->m, 1), type_product(n->m, t, 1, t->rank - 1)};
  return build_reshape(n->b, build_slice(n->b, grid, t->rank - 1, ex_const(n->m, k), ex_const(n->m, 1), 1), 3, dims);
}

/* Samples an image [batch, channels, all its elements]; returns [batch, channels, positions]. */
static Val sampled(ImportNode *n, Val image, const Expr *places, int axes, const Along *along) {
  Val at = joined_place(n, axes, along), weight = joined_weight(n, axes, along);
  int64_t taps = 1;
  if (!image || !at) return 0;
  for (int a = 0; a < axes; a++) taps *= along[a].taps;
  const Type *t = type_of(n->b->f, image);
  const Expr *all = ex_muli(n->m, places, taps), *one = ex_const(n->m, 1);
  const Expr *index[] = {t->dims[0], one, all}, *flat[] = {t->dims[0], t->dims[1], all};
  Val y = take(n, image, broadcast(n, build_reshape(n->b, at, 3, index), 3, flat), 2);
  if (!weight || !y) return y;
  const Expr *split[] = {t->dims[0], t->dims[1], places, ex_const(n->m, taps)},
             *weights[] = {t->dims[0], one, places, split[3]};
  y = build_cast(n->b, build_reshape(n->b, y, 4, split), type_of(n->b->f, weight)->dtype);
  return import_reduce_axes(n, RED_SUM, times(n, y, build_reshape(n->b, weight, 4, weights)), 1u << 3, false);
}

/* For integers the sum is computed in floats, as specified. */
bool import_grid_sample(ImportNode *n) {
  GridSample g;
  Along along[MAX_SPACE] = {{0}};
  if (!read_grid_sample(n, &g)) return false;
  const Type *t = input_type(n, 0), *tg = input_type(n, 1);
  int axes = t->rank - 2;
  Val x = input(n, 0), grid = input(n, 1);
  if (!x || !grid) return false;
  grid = build_cast(n->b, grid, wide(tg->dtype) == DT_f64 || t->dtype == DT_f64 ? DT_f64 : DT_f32);
  for (int a = 0; a < axes; a++) {
    along[a].extent = t->dims[2 + a];
    Val place = denormalized(n, &g, grid_coordinate(n, grid, axes - 1 - a), along[a].extent);
    sample_axis(n, &g, place, axes, a, &along[a]);
  }
  const Expr *flat[] = {t->dims[0], t->dims[1], type_product(n->m, t, 2, t->rank)},
             *dims[MAX_RANK] = {t->dims[0], t->dims[1]};
  for (int d = 1; d <= axes; d++) dims[d + 1] = tg->dims[d];
  Val y = sampled(n, build_reshape(n->b, x, 3, flat), type_product(n->m, tg, 1, tg->rank - 1), axes, along);
  return y && import_set_output(n, 0, build_reshape(n->b, build_cast(n->b, y, t->dtype), t->rank, dims));
}

/* ---- AffineGrid */

/* [batch, positions.., axes + 1] = homogeneous coordinates times theta [batch, axes, axes + 1]. */
bool import_affine_grid(ImportNode *n) {
  const Type *t = input_type(n, 0);
  ImportKnown size;
  bool corners = node_int(n, "align_corners", 0) != 0;
  if (!input_shape(n, 1, "the size", &size)) return false;
  int axes = size.n - 2;
  if (axes < 1 || axes > MAX_SPACE || t->rank != 3 || !ex_is_const(t->dims[1], axes) ||
      !ex_is_const(t->dims[2], axes + 1))
    return node_error(n, "theta %s does not fit a size of %d dimensions", import_type_string(n->m, t), size.n);
  Val theta = input(n, 0), y = 0;
  if (!theta || !equal_extents(n, t->dims[0], size.items[0]))
    return theta && node_error(n, "theta %s has another batch size", import_type_string(n->m, t));
  const Expr *dims[MAX_RANK] = {t->dims[0]}, *one = ex_const(n->m, 1);
  for (int a = 0; a < axes; a++) dims[1 + a] = size.items[2 + a];
  dims[1 + axes] = t->dims[1];
  for (int k = 0; k <= axes; k++) {
    Val column = build_slice(n->b, theta, 2, ex_const(n->m, k), one, 1);
    const Expr *narrow[MAX_RANK] = {t->dims[0]};
    for (int a = 0; a < axes; a++) narrow[1 + a] = one;
    narrow[1 + axes] = t->dims[1];
    Val part = build_reshape(n->b, column, axes + 2, narrow);
    if (k < axes) { /* theta's columns are x, y, z: the last axis first */
      int axis = axes - 1 - k;
      const Expr *extent = size.items[2 + axis];
      Val u = build_cast(n->b, iota_i64(n, 1, &extent, 0), t->dtype), count = u ? import_size_as(n, u, extent) : 0;
      Val steps = corners ? add_number(n, count, -1) : count,
          from = minus(n, times_number(n, u, 2), add_number(n, count, -1));
      Val place = binary(n, OP_div, from, binary_number(n, OP_max, steps, 1));
      part = times(n, part, insert_dims(n, place, ((1u << (axes + 2)) - 1) & ~(1u << (1 + axis)), axes + 2));
    }
    y = y ? plus(n, y, part) : part;
  }
  return import_set_output(n, 0, broadcast(n, y, axes + 2, dims));
}

/* ---- RoiAlign */

typedef struct Rois {
  int64_t bins[2], samples; /* height, width; samples per bin and axis */
  double scale, offset;
  bool at_least_one; /* regions are at least one pixel wide */
  bool max;
} Rois;

static bool read_rois(ImportNode *n, Rois *r) {
  const Type *t = input_type(n, 0), *regions = input_type(n, 1), *images = input_type(n, 2);
  const char *mode = node_string(n, "mode", "avg"),
             *coordinates =
                 node_string(n, "coordinate_transformation_mode", n->opset < 16 ? "output_half_pixel" : "half_pixel");
  bool half = strcmp(coordinates, "half_pixel") == 0;
  *r = (Rois){{node_int(n, "output_height", 1), node_int(n, "output_width", 1)},
              node_int(n, "sampling_ratio", 0),
              node_float(n, "spatial_scale", 1),
              half ? -0.5 : 0,
              !half,
              strcmp(mode, "max") == 0};
  if (t->rank != 4 || regions->rank != 2 || !ex_is_const(regions->dims[1], 4) || images->rank != 1 ||
      !equal_extents(n, regions->dims[0], images->dims[0]))
    return node_error(n, "regions %s of images %s do not fit %s", import_type_string(n->m, regions),
                      import_type_string(n->m, images), import_type_string(n->m, t));
  if (!half && strcmp(coordinates, "output_half_pixel") != 0)
    return node_error(n, "coordinate_transformation_mode \"%s\" is not supported", coordinates);
  if (!r->max && strcmp(mode, "avg") != 0) return node_error(n, "mode \"%s\"", mode);
  if (r->samples == 0)
    return node_error(
        n,
        "sampling_ratio 0: the number of samples of a region would depend on data; export with a ratio, as "
        "torchvision's models have it (2)");
  if (r->samples < 0 || r->samples > 64 || r->bins[0] < 1 || r->bins[0] > 4096 || r->bins[1] < 1 || r->bins[1] > 4096)
    return node_error(n, "%lld x %lld bins of %lld samples are not supported", (long long)r->bins[0],
                      (long long)r->bins[1], (long long)r->samples);
  return true;
}

/* The positions of samples on axis a (0: down, 1: across), [regions, down, 1] or [regions, 1, across], clamped as
 * specified, and their taps. */
static void roi_axis(ImportNode *n, const Rois *r, Val rois, int a, Along *along) {
  const Expr *one = ex_const(n->m, 1), *count = ex_const(n->m, r->bins[a] * r->samples);
  DType t = type_of(n->b->f, rois)->dtype;
  Val start =
      add_number(n, times_number(n, build_slice(n->b, rois, 1, ex_const(n->m, 1 - a), one, 1), r->scale), r->offset);
  Val end =
      add_number(n, times_number(n, build_slice(n->b, rois, 1, ex_const(n->m, 3 - a), one, 1), r->scale), r->offset);
  Val width = minus(n, end, start);
  if (r->at_least_one) width = binary_number(n, OP_max, width, 1);
  Val number = build_cast(n->b, iota_i64(n, 1, &count, 0), t);
  Val step = insert_dims(n, times_number(n, add_number(n, number, 0.5), 1 / (double)r->samples), 1, 2);
  Val x = plus(n, start, times(n, times_number(n, width, 1 / (double)r->bins[a]), step));
  x = insert_dims(n, x, 1u << (2 - a), BASE);
  Val inside =
      binary(n, OP_and, binary_number(n, OP_ge, x, -1), binary(n, OP_le, x, import_size_as(n, x, along->extent)));
  set_taps(n, along, 2, a, 2, clamp_place(n, x, along->extent));
  along->inside = insert_dims(n, inside, 3u << BASE, BASE + 2);
}

/* The weighted elements around each position, [regions, down, across, taps, taps, channels]. */
static Val roi_samples(ImportNode *n, Val table, Val image, const Along *along) {
  Val place = joined_place(n, 2, along), weight = joined_weight(n, 2, along);
  Val at = select3(n, binary_number(n, OP_lt, place, 0), place, plus(n, place, image));
  if (!table || !at || !weight) return 0;
  Val y = build_cast(n->b, build_gather(n->b, table, at, 0), type_of(n->b->f, weight)->dtype);
  return times(n, y, insert_dims(n, weight, 1u << (BASE + 2), BASE + 3));
}

bool import_roi_align(ImportNode *n) {
  static const int channels_last[] = {0, 2, 3, 1}, channels_second[] = {0, 3, 1, 2};
  Rois r;
  if (!read_rois(n, &r)) return false;
  const Type *t = input_type(n, 0);
  Val x = input(n, 0), rois = input(n, 1), images = input(n, 2);
  if (!x || !rois || !images) return false;
  rois = build_cast(n->b, rois, wide(t->dtype));
  Along along[2] = {{.extent = t->dims[2]}, {.extent = t->dims[3]}};
  for (int a = 0; a < 2; a++) roi_axis(n, &r, rois, a, &along[a]);
  const Expr *flat[] = {ex_mul(n->m, t->dims[0], ex_mul(n->m, t->dims[2], t->dims[3])), t->dims[1]};
  Val table = build_reshape(n->b, build_transpose(n->b, x, channels_last), 2, flat);
  Val image = insert_dims(
      n, times(n, build_cast(n->b, images, DT_i64), import_scalar_i64(n, ex_mul(n->m, t->dims[2], t->dims[3]))), 0x1e,
      BASE + 2);
  Val y = roi_samples(n, table, image, along);
  if (!y) return false;
  const Expr *s = ex_const(n->m, r.samples), *taps = ex_const(n->m, 4);
  const Expr *bins[] = {
      input_type(n, 1)->dims[0], ex_const(n->m, r.bins[0]), s, ex_const(n->m, r.bins[1]), s, taps, t->dims[1]};
  y = import_reduce_axes(n, r.max ? RED_MAX : RED_SUM, build_reshape(n->b, y, 7, bins), 1u << 2 | 1u << 4 | 1u << 5,
                         false);
  if (!r.max) y = times_number(n, y, 1 / (double)(r.samples * r.samples));
  return y && import_set_output(n, 0, build_transpose(n->b, build_cast(n->b, y, t->dtype), channels_second));
}

/* ---- DeformConv */

/* A convolution whose taps are moved by offsets, one per group of `per_offset` channels. */
typedef struct Deform {
  int64_t kernel[2], stride[2], dilation[2], pads[4], taps;
  const Expr *groups, *offset_groups, *out[2], *places;
} Deform;

static bool read_deform(ImportNode *n, Deform *f) {
  const Type *t = input_type(n, 0), *tw = input_type(n, 1);
  *f = (Deform){.stride = {1, 1}, .dilation = {1, 1}};
  int64_t groups = node_int(n, "group", 1), offset_groups = node_int(n, "offset_group", 1), said[2];
  if (t->rank != 4 || tw->rank != 4)
    return node_error(n, "%s with weights %s: only two-dimensional images are supported", import_type_string(n->m, t),
                      import_type_string(n->m, tw));
  if (!node_ints_into(n, "strides", 2, 1, f->stride) || !node_ints_into(n, "dilations", 2, 1, f->dilation) ||
      !node_ints_into(n, "pads", 4, 0, f->pads))
    return false;
  for (int a = 0; a < 2; a++)
    if (!ex_get_const(tw->dims[2 + a], &f->kernel[a]) || f->kernel[a] < 1 || f->kernel[a] > 1024)
      return node_error(n, "the weights cannot be %s", import_type_string(n->m, tw));
  memcpy(said, f->kernel, sizeof said);
  if (!node_ints_into(n, "kernel_shape", 2, 1, said)) return false;
  if (memcmp(said, f->kernel, sizeof said) != 0)
    return node_error(n, "kernel_shape does not fit the weights %s", import_type_string(n->m, tw));
  if (groups < 1 || groups > INT32_MAX || offset_groups < 1 || offset_groups > INT32_MAX)
    return node_error(n, "group %lld and offset_group %lld must be positive", (long long)groups,
                      (long long)offset_groups);
  f->taps = f->kernel[0] * f->kernel[1], f->groups = ex_const(n->m, groups),
  f->offset_groups = ex_const(n->m, offset_groups);
  if (ex_exact_div(n->m, t->dims[1], f->groups) != tw->dims[1] || !ex_exact_div(n->m, tw->dims[0], f->groups) ||
      !ex_exact_div(n->m, t->dims[1], f->offset_groups))
    return node_error(n, "%s in %lld groups and %lld offset groups does not fit %s", import_type_string(n->m, t),
                      (long long)groups, (long long)offset_groups, import_type_string(n->m, tw));
  for (int a = 0; a < 2; a++) {
    int64_t room = f->pads[a] + f->pads[a + 2] - f->dilation[a] * (f->kernel[a] - 1) - 1;
    f->out[a] = ex_addi(n->m, ex_div(n->m, ex_addi(n->m, t->dims[2 + a], room), ex_const(n->m, f->stride[a])), 1);
  }
  f->places = ex_mul(n->m, f->out[0], f->out[1]);
  return true;
}

/* Checks an input of offsets (2 numbers per tap and position) or masks (1). */
static bool check_field(ImportNode *n, const Deform *f, size_t i, int64_t numbers) {
  const Type *t = input_type(n, i), *image = input_type(n, 0);
  bool fits = t->rank == 4 && dtype_is_float(t->dtype) && equal_extents(n, t->dims[0], image->dims[0]) &&
              t->dims[1] == ex_muli(n->m, f->offset_groups, f->taps * numbers);
  for (int a = 0; a < 2; a++) fits = fits && equal_extents(n, t->dims[2 + a], f->out[a]);
  return fits || node_error(n, "input %zu cannot be %s", i, import_type_string(n->m, t));
}

/* The positions of the samples on axis a, [batch * offset groups, 1, taps * positions]. */
static Val deformed(ImportNode *n, const Deform *f, Val offsets, int a) {
  const Type *t = type_of(n->b->f, offsets);
  const Expr *one = ex_const(n->m, 1), *batch = ex_mul(n->m, t->dims[0], f->offset_groups),
             *taps = ex_const(n->m, f->taps);
  const Expr *split[] = {batch, taps, ex_const(n->m, 2), f->places},
             *flat[] = {batch, one, ex_mul(n->m, taps, f->places)};
  const Expr *grid[] = {ex_const(n->m, f->kernel[0]), ex_const(n->m, f->kernel[1]), f->out[0], f->out[1]},
             *row[] = {one, one, flat[2]};
  Val tap = times_number(n, build_cast(n->b, iota_i64(n, 4, grid, a), t->dtype), (double)f->dilation[a]);
  Val window = times_number(n, build_cast(n->b, iota_i64(n, 4, grid, 2 + a), t->dtype), (double)f->stride[a]);
  Val from = add_number(n, plus(n, tap, window), -(double)f->pads[a]);
  Val offset = build_slice(n->b, build_reshape(n->b, offsets, 4, split), 2, ex_const(n->m, a), one, 1);
  return from && offset ? plus(n, build_reshape(n->b, offset, 3, flat), build_reshape(n->b, from, 3, row)) : 0;
}

/* The samples of all taps, [batch, groups, channels of a group * taps, positions]. */
static Val deformed_columns(ImportNode *n, const Deform *f, Val x, Val offsets, Val mask) {
  static const GridSample linear = {.padding = "zeros"};
  const Type *t = input_type(n, 0);
  const Expr *batch = ex_mul(n->m, t->dims[0], f->offset_groups),
             *per_group = ex_exact_div(n->m, t->dims[1], f->offset_groups);
  const Expr *image[] = {batch, per_group, ex_mul(n->m, t->dims[2], t->dims[3])},
             *all = ex_muli(n->m, f->places, f->taps), *flat[] = {batch, ex_const(n->m, 1), all};
  Along along[2] = {{.extent = t->dims[2]}, {.extent = t->dims[3]}};
  for (int a = 0; a < 2; a++) sample_axis(n, &linear, deformed(n, f, offsets, a), 2, a, &along[a]);
  Val y = sampled(n, build_reshape(n->b, x, 3, image), all, 2, along);
  if (mask && y) y = times(n, y, build_reshape(n->b, build_cast(n->b, mask, type_of(n->b->f, y)->dtype), 3, flat));
  const Expr *columns[] = {t->dims[0], f->groups, ex_muli(n->m, ex_exact_div(n->m, t->dims[1], f->groups), f->taps),
                           f->places};
  return y ? build_reshape(n->b, build_cast(n->b, y, t->dtype), 4, columns) : 0;
}

bool import_deform_conv(ImportNode *n) {
  Deform f;
  if (!read_deform(n, &f) || !check_field(n, &f, 2, 2) || (has_input(n, 4) && !check_field(n, &f, 4, 1))) return false;
  const Type *t = input_type(n, 0), *tw = input_type(n, 1);
  Val x = input(n, 0), w = input(n, 1), offsets = input(n, 2), bias = has_input(n, 3) ? input(n, 3) : 0,
      mask = has_input(n, 4) ? input(n, 4) : 0;
  if (!x || !w || !offsets || (has_input(n, 3) && !bias) || (has_input(n, 4) && !mask)) return false;
  if (bias && (input_type(n, 3)->rank != 1 || input_type(n, 3)->dims[0] != tw->dims[0]))
    return node_error(n, "the bias cannot be %s", import_type_string(n->m, input_type(n, 3)));
  Val columns = deformed_columns(n, &f, x, build_cast(n->b, offsets, wide(input_type(n, 2)->dtype)), mask);
  const Expr *rows[] = {ex_const(n->m, 1), f.groups, ex_exact_div(n->m, tw->dims[0], f.groups),
                        ex_muli(n->m, tw->dims[1], f.taps)};
  const Expr *dims[] = {t->dims[0], tw->dims[0], f.out[0], f.out[1]};
  Val y = matmul(n, build_reshape(n->b, w, 4, rows), columns);
  if (y) y = build_reshape(n->b, y, 4, dims);
  return import_set_output(n, 0, bias ? binary(n, OP_add, y, insert_dims(n, bias, 0xd, 4)) : y);
}
