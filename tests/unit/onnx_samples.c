/* tests/unit/onnx_samples.c - values between pixels and spectra: GridSample, AffineGrid, RoiAlign, DFT, STFT,
 * antialiased Resize, deformed convolutions, indices of maxima and the inverse, compared with loops written from the
 * specification.
 *
 * With two arguments it writes a model of several of them, with a symbolic batch, for tests/cli/samples.sh. */
#include <math.h>

#include "tests/onnx_numbers.h"

static const char *printed_dims(int rank, const int64_t *dims) {
  Text t = {.arena = arena};
  for (int d = 0; d < rank; d++) text_printf(&t, "%s%lld", d ? "," : "", (long long)dims[d]);
  return text_str(&t);
}

/* ---- GridSample */

typedef struct Sampling {
  int mode, padding, axes; /* nearest, linear, cubic; zeros, border, reflection */
  bool corners;
  int64_t in[3];
} Sampling;

static double reflect(double x, double low, double high) {
  if (high <= low) return low;
  while (x < low || x > high) x = x < low ? 2 * low - x : 2 * high - x;
  return x;
}

static double border_low(const Sampling *s) { return s->corners ? 0 : -0.5; }
static double border_high(const Sampling *s, int a) { return (double)s->in[a] - (s->corners ? 1 : 0.5); }

static double clamp(double x, double low, double high) { return x < low ? low : x > high ? high : x; }

/* The element at integer coordinates, with padding. */
static double pixel(const Sampling *s, const double *plane, const double *at) {
  int64_t index = 0;
  for (int a = 0; a < s->axes; a++) {
    double x = at[a];
    if (s->padding == 0 && (x < 0 || x > (double)s->in[a] - 1)) return 0;
    if (s->padding == 2) x = reflect(x, border_low(s), border_high(s, a));
    index = index * s->in[a] + (int64_t)clamp(x, 0, (double)s->in[a] - 1);
  }
  return plane[index];
}

static double kernel(int mode, double t) {
  const double a = -0.75;
  t = fabs(t);
  if (mode == 1) return t < 1 ? 1 - t : 0;
  return t <= 1 ? ((a + 2) * t - (a + 3)) * t * t + 1 : t < 2 ? ((a * t - 5 * a) * t + 8 * a) * t - 4 * a : 0;
}

static double interpolated(const Sampling *s, const double *plane, const double *x, int a, double *at) {
  if (a == s->axes) return pixel(s, plane, at);
  double sum = 0, low = floor(x[a]);
  for (int i = s->mode == 1 ? 0 : -1; i <= (s->mode == 1 ? 1 : 2); i++) {
    at[a] = low + i;
    sum += kernel(s->mode, x[a] - at[a]) * interpolated(s, plane, x, a + 1, at);
  }
  return sum;
}

static double sample(const Sampling *s, const double *plane, const double *grid) {
  double x[3], at[3];
  for (int a = 0; a < s->axes; a++) {
    double g = grid[s->axes - 1 - a], extent = (double)s->in[a];
    x[a] = s->corners ? (g + 1) / 2 * (extent - 1) : ((g + 1) * extent - 1) / 2;
    if (s->mode == 0) x[a] = rint(x[a]);
    bool beyond = x[a] < border_low(s) || x[a] > border_high(s, a);
    if (s->padding == 1 && s->mode != 2) x[a] = clamp(x[a], 0, extent - 1);
    if (beyond && s->padding == 2) x[a] = reflect(x[a], border_low(s), border_high(s, a));
  }
  return s->mode == 0 ? pixel(s, plane, x) : interpolated(s, plane, x, 0, at);
}

static const char *const modes[] = {"nearest", "linear", "cubic"}, *const paddings[] = {"zeros", "border",
                                                                                        "reflection"};

static void sample_grid(const Sampling *s) {
  enum { BATCH = 2, CHANNELS = 3 };
  int rank = s->axes + 2;
  int64_t dims[5] = {BATCH, CHANNELS}, grid[5] = {BATCH}, plane = 1, points = 1;
  for (int a = 0; a < s->axes; a++) {
    dims[2 + a] = s->in[a], grid[1 + a] = 4 + a;
    plane *= s->in[a], points *= grid[1 + a];
  }
  grid[rank - 1] = s->axes;
  begin();
  opset = 20;
  in("x", F32, printed_dims(rank, dims)), in("g", F32, printed_dims(rank, grid)), out("y");
  Onnx__NodeProto *n = node("GridSample", "x,g", "y");
  string_attr(n, "mode", modes[s->mode]), string_attr(n, "padding_mode", paddings[s->padding]),
      attr(n, "align_corners", INT, s->corners);
  InterpNamed list[] = {filled("x", rank, dims, -1, 1, NULL), filled("g", rank, grid, -2.3, 2.1, NULL)};
  const InterpTensor *y = run(2, list, "y");
  double *image = ARENA_ARRAY(arena, double, plane), *want = ARENA_ARRAY(arena, double, BATCH *CHANNELS *points), at[3];
  for (int64_t p = 0; p < BATCH * CHANNELS; p++) {
    for (int64_t i = 0; i < plane; i++) image[i] = list[0].tensor.cells[p * plane + i].f;
    for (int64_t k = 0; k < points; k++) {
      for (int a = 0; a < s->axes; a++) at[a] = list[1].tensor.cells[(p / CHANNELS * points + k) * s->axes + a].f;
      want[p * points + k] = sample(s, image, at);
    }
  }
  near(arena_printf(arena, "GridSample %s %s, corners %d, %d axes", modes[s->mode], paddings[s->padding], s->corners,
                    s->axes),
       y, BATCH * CHANNELS * points, want);
}

static void grids_are_sampled_as_the_specification_says(void) {
  for (int mode = 0; mode < 3; mode++)
    for (int padding = 0; padding < 3; padding++)
      for (int corners = 0; corners < 2; corners++) {
        sample_grid(&(Sampling){mode, padding, 1, corners, {7}});
        sample_grid(&(Sampling){mode, padding, 2, corners, {5, 4}});
        sample_grid(&(Sampling){mode, padding, 2, corners, {3, 1}});
        if (mode < 2) sample_grid(&(Sampling){mode, padding, 3, corners, {2, 3, 4}});
      }
}

/* NaN has no place; infinities are outside. */
static void places_far_outside_count_nothing(void) {
  begin();
  in("x", F32, "1,1,2,2"), in("g", F32, "1,1,3,2"), out("y");
  node("GridSample", "x,g", "y");
  InterpNamed list[] = {filled("x", 4, (int64_t[]){1, 1, 2, 2}, 1, 2, NULL),
                        filled("g", 4, (int64_t[]){1, 1, 3, 2}, 0, 0, (double[]){INFINITY, 0, 1e30, 0, 0, -1e9})};
  near("places far outside", run(2, list, "y"), 3, (double[]){0, 0, 0});
}

/* ---- DeformConv */

typedef struct Deformed {
  int64_t groups, offset_groups, kernel[2], stride, pad, dilation;
  bool bias, mask;
} Deformed;

/* The image at (y, x), linear between pixels, 0 outside. */
static double between(const double *plane, int64_t height, int64_t width, double y, double x) {
  double sum = 0;
  for (int64_t i = (int64_t)floor(y); i <= (int64_t)floor(y) + 1; i++)
    for (int64_t j = (int64_t)floor(x); j <= (int64_t)floor(x) + 1; j++)
      if (i >= 0 && i < height && j >= 0 && j < width)
        sum += plane[i * width + j] * (1 - fabs(y - (double)i)) * (1 - fabs(x - (double)j));
  return sum;
}

static void convolve_deformed(const Deformed *f) {
  enum { N = 2, C = 4, O = 6, H = 7, W = 5 };
  const int64_t taps = f->kernel[0] * f->kernel[1],
                extent[] = {(H + 2 * f->pad - f->dilation * (f->kernel[0] - 1) - 1) / f->stride + 1,
                            (W + 2 * f->pad - f->dilation * (f->kernel[1] - 1) - 1) / f->stride + 1},
                per = C / f->groups;
  const int64_t x_dims[] = {N, C, H, W}, w_dims[] = {O, per, f->kernel[0], f->kernel[1]},
                offset_dims[] = {N, 2 * f->offset_groups * taps, extent[0], extent[1]},
                mask_dims[] = {N, f->offset_groups * taps, extent[0], extent[1]}, b_dims[] = {O};
  begin();
  opset = 19;
  in("x", F32, "2,4,7,5"), in("w", F32, printed_dims(4, w_dims)), in("o", F32, printed_dims(4, offset_dims)),
      in("b", F32, "6"), in("m", F32, printed_dims(4, mask_dims)), out("y");
  Onnx__NodeProto *node_ =
      node("DeformConv", arena_printf(arena, "x,w,o,%s%s", f->bias ? "b" : "", f->mask ? ",m" : ""), "y");
  attr(node_, "group", INT, f->groups), attr(node_, "offset_group", INT, f->offset_groups);
  const char *pad = arena_printf(arena, "%lld,%lld,%lld,%lld", (long long)f->pad, (long long)f->pad, (long long)f->pad,
                                 (long long)f->pad);
  int_list_attr(node_, "pads", pad),
      int_list_attr(node_, "strides", arena_printf(arena, "%lld,%lld", (long long)f->stride, (long long)f->stride)),
      int_list_attr(node_, "dilations",
                    arena_printf(arena, "%lld,%lld", (long long)f->dilation, (long long)f->dilation));
  InterpNamed list[] = {filled("x", 4, x_dims, -1, 1, NULL), filled("w", 4, w_dims, -1, 1, NULL),
                        filled("o", 4, offset_dims, -1.7, 2.3, NULL), filled("b", 1, b_dims, -1, 1, NULL),
                        filled("m", 4, mask_dims, 0, 1, NULL)};
  const InterpTensor *y = run(5, list, "y");
  double *want = ARENA_ARRAY(arena, double, N *O *extent[0] * extent[1]), plane[H * W];
  for (int64_t at = 0; at < N * O * extent[0] * extent[1]; at++) {
    int64_t j = at % extent[1], i = at / extent[1] % extent[0], o = at / (extent[0] * extent[1]) % O,
            b = at / (extent[0] * extent[1] * O);
    double sum = f->bias ? list[3].tensor.cells[o].f : 0;
    for (int64_t c = 0; c < per; c++) {
      int64_t channel = o / (O / f->groups) * per + c, of = channel / (C / f->offset_groups);
      for (int64_t p = 0; p < H * W; p++) plane[p] = list[0].tensor.cells[(b * C + channel) * H * W + p].f;
      for (int64_t k = 0; k < taps; k++) {
        int64_t place = i * extent[1] + j, n = extent[0] * extent[1];
        const Cell *offset = list[2].tensor.cells + ((b * f->offset_groups + of) * taps + k) * 2 * n + place;
        double down = (double)(i * f->stride - f->pad + k / f->kernel[1] * f->dilation) + offset[0].f,
               across = (double)(j * f->stride - f->pad + k % f->kernel[1] * f->dilation) + offset[n].f;
        double m = f->mask ? list[4].tensor.cells[((b * f->offset_groups + of) * taps + k) * n + place].f : 1;
        sum += list[1].tensor.cells[(o * per + c) * taps + k].f * m * between(plane, H, W, down, across);
      }
    }
    want[at] = sum;
  }
  near(arena_printf(arena, "DeformConv, %lld groups, %lld of offsets", (long long)f->groups,
                    (long long)f->offset_groups),
       y, N * O * extent[0] * extent[1], want);
}

static void taps_lie_where_the_offsets_say(void) {
  convolve_deformed(&(Deformed){1, 1, {3, 3}, 1, 1, 1, .bias = true, .mask = true});
  convolve_deformed(&(Deformed){2, 1, {3, 2}, 2, 1, 1, .mask = true});
  convolve_deformed(&(Deformed){1, 2, {2, 2}, 1, 0, 2, .bias = true});
  convolve_deformed(&(Deformed){2, 4, {1, 3}, 1, 1, 1, .bias = false});
}

static void an_affine_grid_is_its_matrix_times_places(void) {
  enum { H = 3, W = 4 };
  for (int corners = 0; corners < 2; corners++) {
    begin();
    opset = 20;
    in("theta", F32, "2,2,3"), out("y");
    ints("size", "2,7,3,4");
    attr(node("AffineGrid", "theta,size", "y"), "align_corners", INT, corners);
    InterpNamed theta = filled("theta", 3, (int64_t[]){2, 2, 3}, -1, 1, NULL);
    double want[2 * H * W * 2];
    for (int b = 0, i = 0; b < 2; b++)
      for (int h = 0; h < H; h++)
        for (int w = 0; w < W; w++)
          for (int k = 0; k < 2; k++) {
            const Cell *row = theta.tensor.cells + b * 6 + k * 3;
            double x = corners ? 2.0 * w / (W - 1) - 1 : (2.0 * w + 1) / W - 1,
                   y = corners ? 2.0 * h / (H - 1) - 1 : (2.0 * h + 1) / H - 1;
            want[i++] = row[0].f * x + row[1].f * y + row[2].f;
          }
    near("AffineGrid", run(1, &theta, "y"), 2 * H * W * 2, want);
  }
}

/* ---- RoiAlign */

enum { ROIS = 3, ROI_C = 2, ROI_H = 6, ROI_W = 5, BINS = 2, RATIO = 3 };

static double roi_sample(const double *plane, double y, double x, bool max) {
  if (y < -1 || y > ROI_H || x < -1 || x > ROI_W) return 0;
  y = clamp(y, 0, ROI_H - 1), x = clamp(x, 0, ROI_W - 1);
  int64_t top = (int64_t)y, left = (int64_t)x, bottom = top + 1 < ROI_H ? top + 1 : ROI_H - 1,
          right = left + 1 < ROI_W ? left + 1 : ROI_W - 1;
  double v = y - (double)top, u = x - (double)left;
  double part[] = {(1 - v) * (1 - u) * plane[top * ROI_W + left], (1 - v) * u * plane[top * ROI_W + right],
                   v * (1 - u) * plane[bottom * ROI_W + left], v * u * plane[bottom * ROI_W + right]};
  return max ? fmax(fmax(part[0], part[1]), fmax(part[2], part[3])) : part[0] + part[1] + part[2] + part[3];
}

static double roi_bin(const double *plane, const double *roi, int p, int q, bool half, bool max) {
  double from[2], size[2], sum = max ? -INFINITY : 0;
  for (int a = 0; a < 2; a++) {
    from[a] = roi[1 - a] * 0.5 - (half ? 0.5 : 0);
    size[a] = (roi[3 - a] - roi[1 - a]) * 0.5;
    if (!half && size[a] < 1) size[a] = 1;
  }
  for (int i = 0; i < RATIO; i++)
    for (int j = 0; j < RATIO; j++) {
      double y = from[0] + (p + (i + 0.5) / RATIO) * size[0] / BINS,
             x = from[1] + (q + (j + 0.5) / RATIO) * size[1] / BINS;
      double s = roi_sample(plane, y, x, max);
      sum = max ? fmax(sum, s) : sum + s / (RATIO * RATIO);
    }
  return sum;
}

static void regions_are_pooled_as_the_specification_says(void) {
  static const double rois[ROIS * 4] = {1, 2, 7, 9, -4, -6, 15, 14, 3, 3, 3.5, 3.25};
  static const int64_t images[ROIS] = {1, 0, 1};
  for (int half = 0; half < 2; half++)
    for (int max = 0; max < 2; max++) {
      begin();
      in("x", F32, "2,2,6,5"), in("rois", F32, "3,4"), in("images", I64, "3"), out("y");
      Onnx__NodeProto *n = node("RoiAlign", "x,rois,images", "y");
      string_attr(n, "mode", max ? "max" : "avg"),
          string_attr(n, "coordinate_transformation_mode", half ? "half_pixel" : "output_half_pixel");
      attr(n, "output_height", INT, BINS), attr(n, "output_width", INT, BINS), attr(n, "sampling_ratio", INT, RATIO);
      attr(n, "spatial_scale", FLOAT, 0)->has_f = 1, n->attribute[n->n_attribute - 1]->f = 0.5f;
      InterpNamed list[] = {filled("x", 4, (int64_t[]){2, ROI_C, ROI_H, ROI_W}, -1, 1, NULL),
                            filled("rois", 2, (int64_t[]){ROIS, 4}, 0, 0, rois),
                            {"images", interp_tensor(arena, DT_i64, 1, (int64_t[]){ROIS})}};
      for (int r = 0; r < ROIS; r++) list[2].tensor.cells[r].i = images[r];
      double want[ROIS * ROI_C * BINS * BINS], plane[ROI_H * ROI_W];
      for (int r = 0, i = 0; r < ROIS; r++)
        for (int c = 0; c < ROI_C; c++) {
          for (int k = 0; k < ROI_H * ROI_W; k++)
            plane[k] = list[0].tensor.cells[(images[r] * ROI_C + c) * ROI_H * ROI_W + k].f;
          for (int p = 0; p < BINS * BINS; p++) want[i++] = roi_bin(plane, rois + 4 * r, p / BINS, p % BINS, half, max);
        }
      near(arena_printf(arena, "RoiAlign, half pixel %d, max %d", half, max), run(3, list, "y"),
           ROIS * ROI_C * BINS * BINS, want);
    }
}

/* ---- spectra */

/* A tensor [2, 3, extent, in] along its dimension 2. */
static void transform(int64_t extent, int in_parts, int64_t length, bool inverse, bool one_sided) {
  bool mirrored = inverse && one_sided;
  int64_t own = length     ? length
                : mirrored ? 2 * (extent - 1)
                           : extent,
          to = one_sided && !inverse ? own / 2 + 1 : own, dims[] = {2, 3, extent, in_parts};
  int out_parts = mirrored ? 1 : 2;
  begin();
  opset = 20;
  in("x", F32, printed_dims(4, dims)), out("y");
  if (length) ints("length", arena_printf(arena, "%lld", (long long)length));
  Onnx__NodeProto *n = node("DFT", length ? "x,length" : "x", "y");
  attr(n, "inverse", INT, inverse), attr(n, "onesided", INT, one_sided);
  InterpNamed x = filled("x", 4, dims, -1, 1, NULL);
  double *want = ARENA_ARRAY(arena, double, 6 * to * 2);
  for (int row = 0, at = 0; row < 6; row++)
    for (int64_t u = 0; u < to; u++) {
      double re = 0, im = 0;
      for (int64_t k = 0; k < own; k++) {
        bool back = mirrored && 2 * k > own;
        int64_t from = back ? own - k : k;
        if (from >= extent) continue;
        const Cell *cell = x.tensor.cells + (row * extent + from) * in_parts;
        double xr = cell[0].f, xi = in_parts == 2 ? cell[1].f : 0,
               angle = (inverse ? 2 : -2) * M_PI * (double)(k * u) / (double)own;
        if (mirrored && (from == 0 || 2 * from == own)) xi = 0;
        if (back) xi = -xi;
        re += xr * cos(angle) - xi * sin(angle), im += xr * sin(angle) + xi * cos(angle);
      }
      want[at++] = re / (inverse ? (double)own : 1);
      if (out_parts == 2) want[at++] = im / (inverse ? (double)own : 1);
    }
  near(arena_printf(arena, "DFT of %lld x %d to %lld, inverse %d, one-sided %d", (long long)extent, in_parts,
                    (long long)length, inverse, one_sided),
       run(1, &x, "y"), 6 * to * out_parts, want);
}

static void transforms_are_the_sums_of_the_specification(void) {
  static const int64_t lengths[] = {0, 4, 5, 7, 8};
  for (int i = 0; i < 5; i++)
    for (int parts = 1; parts <= 2; parts++)
      for (int how = 0; how < 4; how++) transform(5, parts, lengths[i], how & 1, how >> 1);
}

static void short_transforms_slide_over_the_signal(void) {
  enum { LENGTH = 6, STEP = 4, SIGNAL = 17, FRAMES = 3, BINS_OF = 4 };
  begin();
  in("x", F32, "2,17,1"), in("w", F32, "6"), out("y");
  ints("step", "4");
  node("STFT", "x,step,w", "y");
  InterpNamed list[] = {filled("x", 3, (int64_t[]){2, SIGNAL, 1}, -1, 1, NULL),
                        filled("w", 1, (int64_t[]){LENGTH}, 0.2, 1, NULL)};
  double want[2 * FRAMES * BINS_OF * 2];
  for (int b = 0, at = 0; b < 2; b++)
    for (int f = 0; f < FRAMES; f++)
      for (int u = 0; u < BINS_OF; u++, at += 2) {
        want[at] = want[at + 1] = 0;
        for (int k = 0; k < LENGTH; k++) {
          double v = list[0].tensor.cells[b * SIGNAL + f * STEP + k].f * list[1].tensor.cells[k].f,
                 angle = -2 * M_PI * u * k / LENGTH;
          want[at] += v * cos(angle), want[at + 1] += v * sin(angle);
        }
      }
  near("STFT", run(2, list, "y"), 2 * FRAMES * BINS_OF * 2, want);
}

/* ---- others */

/* The kernel spans the distance of two outputs; elements outside are left out or repeat the last one. */
static void antialiasing_widens_the_kernel(void) {
  for (int exclude = 0; exclude < 2; exclude++)
    for (int mode = 1; mode < 3; mode++) {
      begin();
      opset = 18;
      in("x", F32, "2,9"), out("y");
      ints("sizes", "2,4");
      Onnx__NodeProto *n = node("Resize", "x,,,sizes", "y");
      attr(n, "antialias", INT, 1), attr(n, "exclude_outside", INT, exclude), string_attr(n, "mode", modes[mode]);
      InterpNamed x = filled("x", 2, (int64_t[]){2, 9}, -1, 1, NULL);
      double want[8];
      for (int i = 0; i < 8; i++) {
        double at = (i % 4 + 0.5) * 9 / 4 - 0.5, sum = 0, all = 0;
        for (int k = -20; k < 40; k++) {
          double w = kernel(mode, (k - at) * 4 / 9);
          if (exclude && (k < 0 || k > 8)) continue;
          sum += w * x.tensor.cells[i / 4 * 9 + (int)clamp(k, 0, 8)].f, all += w;
        }
        want[i] = sum / all;
      }
      near(arena_printf(arena, "Resize %s, exclude_outside %d", modes[mode], exclude), run(1, &x, "y"), 8, want);
    }
}

static void the_largest_are_put_back_where_they_were(void) {
  begin();
  in("x", F32, "2,2,4,4"), out("y"), out("i");
  Onnx__NodeProto *pool = node("MaxPool", "x", "v,i"), *back = node("MaxUnpool", "v,i", "y");
  int_list_attr(pool, "kernel_shape", "2,2"), int_list_attr(pool, "strides", "2,2");
  int_list_attr(back, "kernel_shape", "2,2"), int_list_attr(back, "strides", "2,2");
  InterpNamed x = filled("x", 4, (int64_t[]){2, 2, 4, 4}, -2, -1, NULL);
  double want[64] = {0}, places[16];
  for (int i = 0; i < 16; i++) {
    int first = i / 4 * 16 + i / 2 % 2 * 8 + i % 2 * 2, best = first;
    for (int k = 0; k < 4; k++)
      if (x.tensor.cells[first + k / 2 * 4 + k % 2].f > x.tensor.cells[best].f) best = first + k / 2 * 4 + k % 2;
    want[best] = x.tensor.cells[best].f, places[i] = best;
  }
  near("MaxUnpool", run(1, &x, "y"), 64, want);
  near("places", run(1, &x, "i"), 16, places);
}

static void what_would_depend_on_data_is_refused(void) {
  begin();
  in("x", F32, "1,2,6,5"), in("rois", F32, "3,4"), in("images", I64, "3"), out("y");
  node("RoiAlign", "x,rois,images", "y");
  expect(DIAG_onnx_node, "the number of samples of a region would depend on data", "/y");
  begin();
  in("x", F32, "1,2,6,5"), in("g", F32, "1,3,4,3"), out("y");
  node("GridSample", "x,g", "y");
  expect(DIAG_onnx_node, "a grid f32[1, 3, 4, 3] does not fit an image f32[1, 2, 6, 5]", "/y");
  begin();
  in("x", F32, "1,len,1"), in("w", F32, "n"), out("y");
  ints("step", "4");
  node("STFT", "x,step,w", "y");
  expect(DIAG_onnx_shape, "the length or step of frames is symbolic", "/y");
}

/* A signal's spectrum, laid out as an image, and a picture that is sampled, with a batch and channels that can be
 * cut. */
static bool write_model(const char *kind, const char *path) {
  begin();
  opset = 20;
  if (strcmp(kind, "samples") == 0) {
    in("x", F32, "batch,8,9,10"), in("g", F32, "batch,6,5,2"), out("y"), out("z");
    Onnx__NodeProto *linear = node("GridSample", "x,g", "y"), *cubic = node("GridSample", "x,g", "z");
    string_attr(linear, "padding_mode", "reflection"), string_attr(cubic, "mode", "cubic");
  } else if (strcmp(kind, "spectra") == 0) {
    in("x", F32, "batch,40,1"), out("y"), out("z");
    ints("step", "4"), ints("length", "16"), ints("axis", "1");
    node("STFT", "x,step,,length", "y"), node("DFT", "x,,axis", "z");
  } else {
    in("x", F32, "2,8,12,10"), in("rois", F32, "regions,4"), in("images", I64, "regions"), out("y");
    Onnx__NodeProto *n = node("RoiAlign", "x,rois,images", "y");
    attr(n, "output_height", INT, 3), attr(n, "output_width", INT, 4), attr(n, "sampling_ratio", INT, 2);
  }
  if (!import()) return false; /* completes the model */
  return write_graph(path);
}

int main(int argc, char **argv) {
  if (argc == 3) return write_model(argv[1], argv[2]) ? 0 : 1;
  RUN(grids_are_sampled_as_the_specification_says);
  RUN(places_far_outside_count_nothing);
  RUN(taps_lie_where_the_offsets_say);
  RUN(an_affine_grid_is_its_matrix_times_places);
  RUN(regions_are_pooled_as_the_specification_says);
  RUN(transforms_are_the_sums_of_the_specification);
  RUN(short_transforms_slide_over_the_signal);
  RUN(antialiasing_widens_the_kernel);
  RUN(the_largest_are_put_back_where_they_were);
  RUN(what_would_depend_on_data_is_refused);
  module_free(module);
  arena_free(arena);
  return test_summary();
}
