/* frontend/onnx/import_window.c - ONNX convolutions and pools as the windowed operations of ir/window.h.
 *
 * Padding becomes the start of the first window, ceil mode the extent of the result; groups become a separate
 * dimension.  Convolutions whose windows are adjacent (1x1, vision transformer patches) become one dot over a
 * reshaped image.
 *
 * Not done: auto_pad over symbolic extents, deformable convolution.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "frontend/onnx/import_private.h"
#include "ir/window.h"

enum {
  MAX_WINDOW = 1 << 20, /* elements of a window */
  MAX_COUNTED = 1024
}; /* per dimension, where operations count the elements that are not padding */

/* The spatial dimensions of an [N, C, ...] image and the window over them. */
typedef struct OnnxWindow {
  int dims;
  int64_t kernel[MAX_RANK], stride[MAX_RANK], dilation[MAX_RANK], low[MAX_RANK], high[MAX_RANK];
  int64_t overhang[MAX_RANK]; /* the part of `high` that only ceil_mode added */
  const Expr *in[MAX_RANK], *out[MAX_RANK];
  int64_t taps; /* product of the kernel's extents */
} OnnxWindow;

/* ---- reading the attributes */

/* Does not overflow: extents are at most MAX_EXTENT, kernels MAX_WINDOW, attributes INT32_MAX. */
static int64_t reach(const OnnxWindow *w, int d) { return w->dilation[d] * (w->kernel[d] - 1) + 1; }

/* The smallest extent that gets the same padding as `in`, if there is one: all multiples of the stride are padded
 * like the stride itself. */
static bool padded_like(const ImportNode *n, const OnnxWindow *w, int d, int64_t *in) {
  if (ex_get_const(w->in[d], in)) return true;
  *in = w->stride[d];
  return ex_exact_div(n->m, w->in[d], ex_const(n->m, w->stride[d])) != NULL;
}

/* SAME_*: out = ceil(in / stride).  The padding is split evenly; an odd one is at the end that the mode names. */
static bool same_padding(ImportNode *n, OnnxWindow *w, bool upper) {
  for (int d = 0; d < w->dims; d++) {
    int64_t in;
    if (!padded_like(n, w, d, &in))
      return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc,
                        "%s: auto_pad with stride %" PRId64 " over a symbolic dimension is not supported", n->op->type,
                        w->stride[d]);
    int64_t out = (in + w->stride[d] - 1) / w->stride[d], total = (out - 1) * w->stride[d] + reach(w, d) - in;
    if (total < 0) total = 0;
    w->low[d] = upper ? total / 2 : total - total / 2;
    w->high[d] = total - w->low[d];
  }
  return true;
}

static bool read_padding(ImportNode *n, OnnxWindow *w) {
  int64_t pads[2 * MAX_RANK] = {0};
  const char *mode = node_string(n, "auto_pad", "NOTSET");
  if (!node_ints_into(n, "pads", 2 * w->dims, 0, pads)) return false;
  bool upper = strcmp(mode, "SAME_UPPER") == 0;
  if (upper || strcmp(mode, "SAME_LOWER") == 0) return same_padding(n, w, upper);
  if (strcmp(mode, "VALID") == 0) return true;
  if (strcmp(mode, "NOTSET") != 0) return node_error(n, "auto_pad \"%s\" is not supported", mode);
  for (int d = 0; d < w->dims; d++) w->low[d] = pads[d], w->high[d] = pads[w->dims + d];
  return true;
}

/* Computes the result's extents.  In ceil mode the last window may extend beyond the end if it starts before it; the
 * missing elements are added to the padding at the end. */
static bool read_extents(ImportNode *n, OnnxWindow *w, bool ceil_mode) {
  Module *m = n->m;
  for (int d = 0; d < w->dims; d++) {
    const Expr *span = ex_addi(m, w->in[d], w->low[d] + w->high[d] - reach(w, d));
    int64_t have, in;
    bool of_nothing = ex_is_const(w->in[d], 0) && ex_get_const(span, &have) && have < 0 && have >= -w->stride[d];
    if (of_nothing) {
      w->out[d] = w->in[d];
      continue;
    }
    if (ex_get_const(span, &have) && have < 0) return node_error(n, "the window is larger than dimension %d", d + 2);
    if (w->low[d] + w->high[d] - reach(w, d) < -1)
      assume_extent(m, span); /* at -1 only an extent of 0 is too small, and gives 0 */
    if (!ceil_mode) {
      w->out[d] = ex_addi(m, ex_div_joined(m, span, ex_const(m, w->stride[d])), 1);
      continue;
    }
    if (!ex_get_const(w->in[d], &in))
      return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc,
                        "%s: ceil_mode over a symbolic dimension is not supported", n->op->type);
    int64_t out = (have + w->stride[d] - 1) / w->stride[d] + 1;
    if ((out - 1) * w->stride[d] >= in + w->low[d]) out--;
    int64_t needed = (out - 1) * w->stride[d] + reach(w, d) - in - w->low[d];
    if (needed > w->high[d]) w->overhang[d] = needed - w->high[d], w->high[d] = needed;
    w->out[d] = ex_const(m, out);
  }
  return true;
}

/* Checks the kernel; `kernel` is that of the weights, or NULL. */
static bool check_kernel(ImportNode *n, OnnxWindow *w, const int64_t *kernel) {
  w->taps = 1;
  for (int d = 0; d < w->dims; d++) {
    if (kernel && w->kernel[d] != kernel[d])
      return node_error(n, "kernel_shape differs from the weights' %" PRId64, kernel[d]);
    if (w->kernel[d] < 1) return node_error(n, "an empty window");
    if (w->kernel[d] <= MAX_WINDOW) w->taps *= w->kernel[d];
    if (w->kernel[d] > MAX_WINDOW || w->taps > MAX_WINDOW)
      return node_error(n, "a window of more than %d elements", MAX_WINDOW);
  }
  return true;
}

/* Reads the window; `kernel` is that of the weights, NULL to use the attribute. */
static bool read_window(ImportNode *n, const Type *t, const int64_t *kernel, bool ceil_mode, OnnxWindow *w) {
  *w = (OnnxWindow){.dims = t->rank - 2};
  if (w->dims < 1 || w->dims > MAX_WINDOWED)
    return node_error(n, "needs one to three spatial dimensions, not %s", import_type_string(n->m, t));
  if (!kernel && !has_attr(n, "kernel_shape")) return node_error(n, "has no kernel_shape");
  for (int d = 0; d < w->dims; d++) {
    w->kernel[d] = kernel ? kernel[d] : 1;
    w->stride[d] = w->dilation[d] = 1;
    w->in[d] = t->dims[d + 2];
  }
  if (!node_ints_into(n, "kernel_shape", w->dims, 1, w->kernel) ||
      !node_ints_into(n, "strides", w->dims, 1, w->stride) || !node_ints_into(n, "dilations", w->dims, 1, w->dilation))
    return false;
  return check_kernel(n, w, kernel) && read_padding(n, w) && read_extents(n, w, ceil_mode);
}

/* ---- the operations */

static const char windowed[] = "DHW";

/* Makes the attributes for starts, strides and dilations. */
static void window_attrs(ImportNode *n, const OnnxWindow *w, Attr *out) {
  const Expr *starts[MAX_WINDOWED];
  for (int d = 0; d < w->dims; d++) starts[d] = ex_const(n->m, -w->low[d]);
  out[0] = attr_exprs(n->m, AT_starts, w->dims, starts);
  out[1] = attr_ints(n->m, AT_strides, w->dims, w->stride);
  out[2] = attr_ints(n->m, AT_dilations, w->dims, w->dilation);
}

/* Makes the spec's letters; the windowed ones replace '*'. */
static const char *window_spec(ImportNode *n, const OnnxWindow *w, const char *pattern) {
  Text t = {.arena = n->m->arena};
  for (; *pattern; pattern++) {
    if (*pattern == '*') text_add(&t, windowed + 3 - w->dims);
    else text_addn(&t, pattern, 1);
  }
  return text_str(&t);
}

static Val convolve(ImportNode *n, OpKind kind, Val x, Val weights, const OnnxWindow *w, const char *pattern,
                    const Type *type) {
  Attr a[4] = {attr_s(n->m, AT_spec, window_spec(n, w, pattern))};
  window_attrs(n, w, a + 1);
  if (!x || !weights) return 0;
  return build_op(n->b,
                  &(OpSpec){.kind = kind, .nin = 2, .in = (Val[]){x, weights}, .nattrs = 4, .attrs = a, .type = type});
}

/* True for adjacent windows: [n, c, h, w] becomes [n, c, h/k, k, w/k, k], and the convolution a dot over c and both
 * k. */
static bool tiles(const OnnxWindow *w, Module *m) {
  for (int d = 0; d < w->dims; d++)
    if (w->stride[d] != w->kernel[d] || w->dilation[d] != 1 || w->low[d] || w->high[d] ||
        !ex_exact_div(m, w->in[d], ex_const(m, w->kernel[d])))
      return false;
  return 2 + 2 * w->dims <= MAX_RANK;
}

static Val conv_by_tiles(ImportNode *n, Val x, Val weights, const OnnxWindow *w) {
  static const char spatial[] = "uvw", inner[] = "pqr";
  const Type *t = type_of(n->b->f, x);
  const Expr *dims[MAX_RANK] = {t->dims[0], t->dims[1]};
  char from[MAX_RANK + 1] = "nc";
  for (int d = 0; d < w->dims; d++) {
    dims[2 + 2 * d] = w->out[d], dims[3 + 2 * d] = ex_const(n->m, w->kernel[d]);
    from[2 + 2 * d] = spatial[d], from[3 + 2 * d] = inner[d];
  }
  const char *spec = arena_printf(n->m->arena, "%s,oc%.*s->no%.*s", from, w->dims, inner, w->dims, spatial);
  return build_dot(n->b, build_reshape(n->b, x, 2 + 2 * w->dims, dims), weights, spec);
}

/* Splits dimension `at` into [groups, rest]. */
static Val split_groups(ImportNode *n, Val x, int at, int64_t groups) {
  const Type *t = type_of(n->b->f, x);
  const Expr *dims[MAX_RANK];
  for (int d = 0; d <= t->rank; d++) dims[d] = d <= at ? t->dims[d] : t->dims[d - 1];
  dims[at] = ex_const(n->m, groups);
  dims[at + 1] = ex_exact_div(n->m, t->dims[at], dims[at]);
  return build_reshape(n->b, x, t->rank + 1, dims);
}

/* The type of the result, [n, channels, ...]; if there are several groups they are a separate dimension after n. */
static const Type *conv_type(ImportNode *n, const Type *t, const OnnxWindow *w, int64_t groups, const Expr *channels) {
  const Expr *dims[MAX_RANK] = {t->dims[0]};
  int rank = 1;
  if (groups > 1) dims[rank++] = ex_const(n->m, groups);
  dims[rank++] = channels;
  for (int d = 0; d < w->dims; d++) dims[rank++] = w->out[d];
  return type_get(n->m, t->dtype, rank, dims);
}

/* Joins the groups with the channels. */
static Val join_groups(ImportNode *n, Val y, int64_t groups) {
  if (!y || groups == 1) return y;
  const Type *t = type_of(n->b->f, y);
  const Expr *dims[MAX_RANK] = {t->dims[0], ex_mul(n->m, t->dims[1], t->dims[2])};
  for (int d = 3; d < t->rank; d++) dims[d - 1] = t->dims[d];
  return build_reshape(n->b, y, t->rank - 1, dims);
}

/* Adds the bias, input 2, if there is one. */
static bool conv_output(ImportNode *n, Val y) {
  if (!y || !has_input(n, 2)) return import_set_output(n, 0, y);
  Val bias = input(n, 2);
  int rank = type_of(n->b->f, y)->rank;
  if (input_type(n, 2)->rank != 1 || input_type(n, 2)->dims[0] != type_of(n->b->f, y)->dims[1])
    return node_error(n, "the bias cannot be %s", import_type_string(n->m, input_type(n, 2)));
  return import_set_output(n, 0, binary(n, OP_add, y, insert_dims(n, bias, ((1u << (rank - 1)) - 1) & ~1u, rank - 1)));
}

/* Checks shapes and reads the kernel.  The groups split dimension 0 of the weights.  Dimension 1 is the image's
 * channels per group, or the result's if transposed. */
static bool conv_shapes(ImportNode *n, const Type *t, const Type *tw, int64_t groups, bool transposed,
                        int64_t *kernel) {
  const Expr *g = ex_const(n->m, groups > 0 ? groups : 1);
  if (groups < 1) return node_error(n, "group cannot be %" PRId64, groups);
  if (t->rank != tw->rank || t->rank < 3 || t->rank > 2 + MAX_WINDOWED)
    return node_error(n, "%s cannot be convolved with %s", import_type_string(n->m, t), import_type_string(n->m, tw));
  const Expr *channels = transposed ? t->dims[1] : ex_exact_div(n->m, t->dims[1], g);
  if (channels != tw->dims[transposed ? 0 : 1] || !ex_exact_div(n->m, tw->dims[0], g))
    return node_error(n, "%s in %" PRId64 " groups does not fit %s", import_type_string(n->m, t), groups,
                      import_type_string(n->m, tw));
  for (int d = 2; d < tw->rank; d++)
    if (!ex_get_const(tw->dims[d], &kernel[d - 2])) return node_error(n, "the window's size is symbolic");
  return true;
}

Val convolution(ImportNode *n, Val x, Val weights) {
  int64_t groups = node_int(n, "group", 1), kernel[MAX_RANK];
  OnnxWindow w;
  if (!x || !weights) return 0;
  const Type *t = type_of(n->b->f, x), *tw = type_of(n->b->f, weights);
  if (!conv_shapes(n, t, tw, groups, false, kernel) || !read_window(n, t, kernel, false, &w)) return 0;
  const Type *type = conv_type(n, t, &w, groups, ex_exact_div(n->m, tw->dims[0], ex_const(n->m, groups)));
  if (groups > 1)
    return join_groups(n,
                       convolve(n, OP_conv, split_groups(n, x, 1, groups), split_groups(n, weights, 0, groups), &w,
                                "ngc*,goc*->ngo*", type),
                       groups);
  return tiles(&w, n->m) ? conv_by_tiles(n, x, weights, &w)
                         : convolve(n, OP_conv, x, weights, &w, "nc*,oc*->no*", type);
}

bool import_conv(ImportNode *n) { return conv_output(n, convolution(n, input(n, 0), input(n, 1))); }

/* ---- transposed convolution: image and output are exchanged */

/* Computes the result's extents: given, or stride * (in - 1) + output_padding + reach - pads. w->low is the padding
 * removed at the start. */
static bool transposed_extents(ImportNode *n, OnnxWindow *w) {
  int64_t extra[MAX_RANK] = {0}, shape[MAX_RANK], pads[2 * MAX_RANK] = {0};
  const char *mode = node_string(n, "auto_pad", "NOTSET");
  bool upper = strcmp(mode, "SAME_UPPER") == 0, same = upper || strcmp(mode, "SAME_LOWER") == 0,
       given = has_attr(n, "output_shape");
  if (!same && strcmp(mode, "NOTSET") != 0 && strcmp(mode, "VALID") != 0)
    return node_error(n, "auto_pad \"%s\" is not supported", mode);
  if (!node_ints_into(n, "output_padding", w->dims, 0, extra) || !node_ints_into(n, "pads", 2 * w->dims, 0, pads) ||
      (given && !node_ints_into(n, "output_shape", w->dims, 1, shape)))
    return false;
  for (int d = 0; d < w->dims; d++) {
    const Expr *full = ex_addi(n->m, ex_muli(n->m, ex_addi(n->m, w->in[d], -1), w->stride[d]), extra[d] + reach(w, d));
    int64_t total = pads[d] + pads[w->dims + d];
    w->low[d] = pads[d];
    if (given || same) {
      const Expr *cut = ex_sub(n->m, full, given ? ex_const(n->m, shape[d]) : ex_muli(n->m, w->in[d], w->stride[d]));
      if (!ex_get_const(cut, &total)) return node_error(n, "the padding depends on a symbolic dimension");
      w->low[d] = total < 0 ? 0
                  : upper   ? total / 2
                            : total - total / 2; /* elements beyond the full extent are added at the end */
    }
    w->out[d] = ex_addi(n->m, full, -total);
    int64_t extent;
    if (ex_get_const(w->out[d], &extent) && extent < 1)
      return node_error(n, "the result has %" PRId64 " elements in dimension %d", extent, d + 2);
  }
  return true;
}

bool import_conv_transpose(ImportNode *n) {
  int64_t groups = node_int(n, "group", 1), kernel[MAX_RANK];
  OnnxWindow w = {.dims = input_type(n, 0)->rank - 2};
  if (!conv_shapes(n, input_type(n, 0), input_type(n, 1), groups, true, kernel)) return false;
  for (int d = 0; d < w.dims; d++) {
    w.kernel[d] = kernel[d], w.stride[d] = w.dilation[d] = 1;
    w.in[d] = input_type(n, 0)->dims[d + 2];
  }
  if (!node_ints_into(n, "kernel_shape", w.dims, 1, w.kernel) || !node_ints_into(n, "strides", w.dims, 1, w.stride) ||
      !node_ints_into(n, "dilations", w.dims, 1, w.dilation) || !check_kernel(n, &w, kernel) ||
      !transposed_extents(n, &w))
    return false;
  Val x = input(n, 0), weights = input(n, 1);
  if (!x || !weights) return false;
  const Type *type = conv_type(n, input_type(n, 0), &w, groups, input_type(n, 1)->dims[1]);
  Val y = groups > 1 ? convolve(n, OP_conv_transpose, split_groups(n, x, 1, groups),
                                split_groups(n, weights, 0, groups), &w, "ngo*,goc*->ngc*", type)
                     : convolve(n, OP_conv_transpose, x, weights, &w, "no*,oc*->nc*", type);
  return conv_output(n, join_groups(n, y, groups));
}

/* ---- columns back to an image */

/* Places every column [channels * taps] over the image where its window was and sums overlaps: a transposed
 * convolution whose weights pass tap k of the column to element k of the window. */
bool import_col_to_image(ImportNode *n) {
  const Type *t = input_type(n, 0);
  ImportKnown image, block;
  int64_t pads[2 * MAX_RANK] = {0};
  if (!input_shape(n, 1, "the image's shape", &image) || !input_shape(n, 2, "the window's shape", &block)) return false;
  OnnxWindow w = {.dims = image.n};
  if (t->rank != 3 || w.dims < 1 || w.dims > MAX_WINDOWED || block.n != w.dims || !known_constants(&block, w.kernel))
    return node_error(n, "columns %s of windows of %d dimensions do not fit an image of %d",
                      import_type_string(n->m, t), block.n, image.n);
  for (int d = 0; d < w.dims; d++) w.stride[d] = w.dilation[d] = 1, w.out[d] = image.items[d];
  if (!node_ints_into(n, "strides", w.dims, 1, w.stride) || !node_ints_into(n, "dilations", w.dims, 1, w.dilation) ||
      !node_ints_into(n, "pads", 2 * w.dims, 0, pads) || !check_kernel(n, &w, w.kernel))
    return false;
  const Expr *taps = ex_const(n->m, w.taps), *channels = ex_exact_div(n->m, t->dims[1], taps),
             *count = ex_const(n->m, 1);
  if (!channels)
    return node_error(n, "%s does not hold whole windows of %" PRId64, import_type_string(n->m, t), w.taps);
  const Expr *columns[MAX_RANK] = {ex_mul(n->m, t->dims[0], channels), taps},
             *pixels[MAX_RANK] = {columns[0], ex_const(n->m, 1)};
  const Expr *square[] = {taps, taps}, *weights[MAX_RANK] = {taps, ex_const(n->m, 1)},
             *out[MAX_RANK] = {t->dims[0], channels};
  for (int d = 0; d < w.dims; d++) {
    w.low[d] = pads[d];
    const Expr *left = ex_addi(n->m, image.items[d], pads[d] + pads[w.dims + d] - reach(&w, d));
    columns[2 + d] = ex_addi(n->m, ex_div_joined(n->m, left, ex_const(n->m, w.stride[d])), 1);
    pixels[2 + d] = out[2 + d] = image.items[d];
    weights[2 + d] = block.items[d];
    count = ex_mul(n->m, count, columns[2 + d]);
  }
  if (!equal_extents(n, count, t->dims[2]))
    return node_error(n, "%s is not a column for each window", import_type_string(n->m, t));
  Val same = binary(n, OP_eq, iota_i64(n, 2, square, 0), iota_i64(n, 2, square, 1));
  Val pass = build_reshape(n->b, build_cast(n->b, same, t->dtype), 2 + w.dims, weights);
  Val x = build_reshape(n->b, input(n, 0), 2 + w.dims, columns);
  Val y = convolve(n, OP_conv_transpose, x, pass, &w, "no*,oc*->nc*", type_get(n->m, t->dtype, 2 + w.dims, pixels));
  return y && import_set_output(n, 0, build_reshape(n->b, y, 2 + w.dims, out));
}

/* ---- pools */

static Val pooled(ImportNode *n, Val x, const OnnxWindow *w, Reduction how) {
  const Type *t = input_type(n, 0);
  const Expr *dims[MAX_RANK], *window[MAX_WINDOWED];
  int64_t axes[MAX_WINDOWED];
  for (int d = 0; d < t->rank; d++) dims[d] = t->dims[d];
  for (int d = 0; d < w->dims; d++) dims[d + 2] = w->out[d], axes[d] = d + 2, window[d] = ex_const(n->m, w->kernel[d]);
  Attr a[6] = {attr_red(AT_op, how), attr_ints(n->m, AT_axes, w->dims, axes),
               attr_exprs(n->m, AT_window, w->dims, window)};
  window_attrs(n, w, a + 3);
  if (!x) return 0;
  return build_op(n->b, &(OpSpec){.kind = OP_pool,
                                  .nin = 1,
                                  .in = &x,
                                  .nattrs = 6,
                                  .attrs = a,
                                  .type = type_get(n->m, t->dtype, t->rank, dims)});
}

/* Element k[d] of all windows in every dimension: [n, c, out...] of x, which is padded to hold them. */
static Val window_element(ImportNode *n, const OnnxWindow *w, Val padded, const int64_t *k) {
  for (int d = 0; d < w->dims && padded; d++)
    padded = build_slice(n->b, padded, 2 + d, ex_const(n->m, k[d] * w->dilation[d]), w->out[d], w->stride[d]);
  return padded;
}

/* The position of that element: its index in the image, i64 [1, 1, out...], and whether it is inside. */
static Val window_place(ImportNode *n, const OnnxWindow *w, const int64_t *k, bool column_major, Val *inside) {
  Val at = 0;
  *inside = 0;
  for (int i = 0; i < w->dims; i++) {
    int d = column_major ? w->dims - 1 - i : i;
    Val u = iota_i64(n, 1, &w->out[d], 0), start = binary_number(n, OP_mul, u, (double)w->stride[d]);
    Val place = binary_number(n, OP_add, start, (double)(k[d] * w->dilation[d] - w->low[d]));
    place = insert_dims(n, place, ((1u << (2 + w->dims)) - 1) & ~(1u << (2 + d)), 2 + w->dims);
    Val in =
        binary(n, OP_and, binary_number(n, OP_ge, place, 0), binary(n, OP_lt, place, import_scalar_i64(n, w->in[d])));
    at = at ? binary(n, OP_add, binary(n, OP_mul, at, import_scalar_i64(n, w->in[d])), place) : place;
    *inside = *inside ? binary(n, OP_and, *inside, in) : in;
  }
  return at;
}

/* True where x exceeds the best so far: NaN exceeds all numbers, and the first NaN stays the best. */
static Val is_above(ImportNode *n, Val x, Val best) {
  Val above = binary(n, OP_gt, x, best);
  if (!above || !dtype_is_float(type_of(n->b->f, x)->dtype)) return above;
  Val other = build_unary(n->b, OP_not, build_unary(n->b, OP_isnan, best));
  return binary(n, OP_or, above, binary(n, OP_and, build_unary(n->b, OP_isnan, x), other));
}

/* The index of each window's first largest element in the whole tensor as stored; visits the elements of the windows
 * one by one. */
static Val largest_places(ImportNode *n, Val x, const OnnxWindow *w) {
  const Type *t = type_of(n->b->f, x);
  const Expr *low[MAX_RANK], *high[MAX_RANK], *dims[MAX_RANK], *image = ex_const(n->m, 1);
  bool column_major = node_int(n, "storage_order", 0) != 0;
  int64_t k[MAX_RANK] = {0};
  if (w->taps > MAX_COUNTED)
    return node_error(n, "a window of %" PRId64 " elements for the index of the largest; apc compares at most %d",
                      w->taps, MAX_COUNTED),
           0;
  for (int d = 0; d < t->rank; d++) {
    low[d] = ex_const(n->m, d < 2 ? 0 : w->low[d - 2]), high[d] = ex_const(n->m, d < 2 ? 0 : w->high[d - 2]);
    dims[d] = d < 2 ? t->dims[d] : w->out[d - 2];
    if (d >= 2) image = ex_mul(n->m, image, t->dims[d]);
  }
  Attr a[] = {attr_exprs(n->m, AT_low, t->rank, low), attr_exprs(n->m, AT_high, t->rank, high), attr_f(AT_value, 0)};
  Val padded = build_op(n->b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &x, .nattrs = 3, .attrs = a}), best = 0,
      place = 0, have = 0;
  for (int64_t i = 0; i < w->taps; i++) {
    Val inside, at = window_place(n, w, k, column_major, &inside), part = window_element(n, w, padded, k);
    if (!at || !part) return 0;
    Val better =
        i == 0 ? inside
               : binary(n, OP_and, inside, binary(n, OP_or, build_unary(n->b, OP_not, have), is_above(n, part, best)));
    place = i == 0 ? at : select3(n, better, at, place);
    best = i == 0 ? part : select3(n, better, part, best);
    have = i == 0 ? inside : binary(n, OP_or, have, inside);
    for (int d = w->dims - 1; d >= 0 && ++k[d] == w->kernel[d]; d--) k[d] = 0;
  }
  const Expr *planes[] = {t->dims[0], t->dims[1]};
  Val plane = binary(n, OP_add, binary(n, OP_mul, iota_i64(n, 2, planes, 0), import_scalar_i64(n, t->dims[1])),
                     iota_i64(n, 2, planes, 1));
  plane = insert_dims(n, binary(n, OP_mul, plane, import_scalar_i64(n, image)), ((1u << t->rank) - 1) & ~3u, t->rank);
  return broadcast(n, binary(n, OP_add, plane, place), t->rank, dims);
}

bool import_max_pool(ImportNode *n) {
  OnnxWindow w;
  if (!read_window(n, input_type(n, 0), NULL, node_int(n, "ceil_mode", 0) != 0, &w)) return false;
  Val x = input(n, 0);
  if (!x || (wants(n, 1) && !import_set_output(n, 1, largest_places(n, x, &w)))) return false;
  return import_set_output(n, 0, pooled(n, x, &w, RED_MAX));
}

/* Writes every element to its index in the pooled tensor; the largest if several have the same index, 0 if none has
 * it. */
bool import_max_unpool(ImportNode *n) {
  const Type *t = input_type(n, 0);
  OnnxWindow w = {.dims = t->rank - 2};
  int64_t pads[2 * MAX_RANK] = {0};
  ImportKnown shape;
  if (w.dims < 1 || w.dims > MAX_WINDOWED || !has_attr(n, "kernel_shape"))
    return node_error(n, "kernel_shape is missing or does not fit %s", import_type_string(n->m, t));
  for (int d = 0; d < w.dims; d++) w.stride[d] = w.dilation[d] = 1;
  if (!node_ints_into(n, "kernel_shape", w.dims, 1, w.kernel) || !node_ints_into(n, "strides", w.dims, 1, w.stride) ||
      !node_ints_into(n, "pads", 2 * w.dims, 0, pads))
    return false;
  const Expr *dims[MAX_RANK] = {t->dims[0], t->dims[1]}, *low[MAX_RANK], *high[MAX_RANK];
  for (int d = 0; d < w.dims; d++)
    dims[2 + d] = ex_addi(n->m, ex_muli(n->m, ex_addi(n->m, t->dims[2 + d], -1), w.stride[d]),
                          w.kernel[d] - pads[d] - pads[w.dims + d]);
  const Type *type = type_get(n->m, t->dtype, t->rank, dims);
  const Expr *from = type_elements(n->m, t), *to = type_elements(n->m, type);
  Val x = build_reshape(n->b, input(n, 0), 1, &from), at = build_reshape(n->b, input(n, 1), 1, &from);
  if (!x || !at) return false;
  Val yes = build_splat(n->b, type_get(n->m, DT_bool, 1, &from), 1), y[2];
  for (int k = 0; k < 2; k++) {
    Attr a[] = {attr_red(AT_op, k ? RED_OR : RED_MAX), attr_i(AT_axis, 0), attr_e(AT_start, ex_const(n->m, 0))};
    y[k] = build_op(n->b, &(OpSpec){.kind = OP_put,
                                    .nin = 2,
                                    .in = (Val[]){k ? yes : x, at},
                                    .nattrs = 3,
                                    .attrs = a,
                                    .type = type_get(n->m, k ? DT_bool : t->dtype, 1, &to)});
  }
  Val z = build_reshape(n->b, select3(n, y[1], y[0], splat_like(n, y[0], 0)), t->rank, dims);
  if (!z || !has_input(n, 2)) return import_set_output(n, 0, z);
  if (!input_shape(n, 2, "the shape", &shape)) return false;
  if (shape.n != t->rank) return node_error(n, "output_shape cannot have %d dimensions", shape.n);
  for (int d = 0; d < t->rank; d++) {
    low[d] = ex_const(n->m, 0), high[d] = ex_sub(n->m, shape.items[d], dims[d]);
    if (known_bounds(n->m, high[d]).low < 0)
      return node_error(n, "the shape is smaller than %s", import_type_string(n->m, type));
  }
  Attr a[] = {attr_exprs(n->m, AT_low, t->rank, low), attr_exprs(n->m, AT_high, t->rank, high), attr_f(AT_value, 0)};
  return import_set_output(n, 0,
                           build_op(n->b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &z, .nattrs = 3, .attrs = a}));
}

/* The number of elements of dimension d that every window covers, [out], as floats: those inside [0, in), and with
 * `padding` also padding, but never elements that ceil mode added. */
static Val covered(ImportNode *n, const OnnxWindow *w, int d, bool padding) {
  const Type *counts = type_get(n->m, DT_i64, 1, &w->out[d]), *scalar = type_of_ints(n->m, DT_i64, 0, NULL);
  Val start = binary_number(n, OP_sub, binary_number(n, OP_mul, build_iota(n->b, counts, 0), (double)w->stride[d]),
                            (double)w->low[d]);
  const Expr *end = padding ? ex_addi(n->m, w->in[d], w->high[d] - w->overhang[d]) : w->in[d];
  Val limit = build_size(n->b, scalar, end), sum = 0;
  if (w->kernel[d] > MAX_COUNTED) {
    node_error(n, "a padded window of %" PRId64 " elements in dimension %d; apc counts at most %d", w->kernel[d], d + 2,
               MAX_COUNTED);
    return 0;
  }
  for (int64_t tap = 0; tap < w->kernel[d]; tap++) {
    Val at = binary_number(n, OP_add, start, (double)(tap * w->dilation[d]));
    Val inside = binary(n, OP_lt, at, limit);
    if (!padding) inside = binary(n, OP_and, inside, binary_number(n, OP_ge, at, 0));
    Val one = inside ? build_cast(n->b, inside, input_type(n, 0)->dtype) : 0;
    sum = sum ? binary(n, OP_add, sum, one) : one;
  }
  return sum;
}

bool import_average_pool(ImportNode *n) {
  OnnxWindow w;
  bool padding = node_int(n, "count_include_pad", 0) != 0, even = true;
  if (!read_window(n, input_type(n, 0), NULL, node_int(n, "ceil_mode", 0) != 0, &w)) return false;
  Val sum = pooled(n, input(n, 0), &w, RED_SUM);
  for (int d = 0; d < w.dims; d++) even = even && (padding ? !w.overhang[d] : !w.low[d] && !w.high[d]);
  if (even) return import_set_output(n, 0, binary_number(n, OP_div, sum, (double)w.taps));
  for (int d = 0; d < w.dims && sum; d++) {
    Val count = covered(n, &w, d, padding);
    sum = binary(n, OP_div, sum, insert_dims(n, count, ((1u << (w.dims - d)) - 1) & ~1u, w.dims - d));
  }
  return import_set_output(n, 0, sum);
}

bool import_global_pool(ImportNode *n) {
  const Type *t = input_type(n, 0);
  if (t->rank < 3) return node_error(n, "needs spatial dimensions, not %s", import_type_string(n->m, t));
  unsigned axes = ((1u << t->rank) - 1) & ~3u;
  Val x = input(n, 0);
  return import_set_output(
      n, 0, n->op->arg ? import_reduce_axes(n, (Reduction)n->op->arg, x, axes, true) : mean_axes(n, x, axes, true));
}

static Val power_of(ImportNode *n, Val x, double p) {
  return p == 1 || !x ? x : p == 2 ? build_binary(n->b, OP_mul, x, x) : binary_number(n, OP_pow, x, p);
}
static Val root_of(ImportNode *n, Val x, double p) {
  return p == 1 || !x ? x : p == 2 ? build_unary(n->b, OP_sqrt, x) : binary_number(n, OP_pow, x, 1 / p);
}

/* (sum of |x|^p)^(1/p) */
bool import_lp_pool(ImportNode *n) {
  OnnxWindow w;
  double p = (double)node_int(n, "p", 2);
  if (p < 1) return node_error(n, "p is %g", p);
  if (!read_window(n, input_type(n, 0), NULL, node_int(n, "ceil_mode", 0) != 0, &w)) return false;
  Val x = input(n, 0);
  return x &&
         import_set_output(n, 0, root_of(n, pooled(n, power_of(n, build_unary(n->b, OP_abs, x), p), &w, RED_SUM), p));
}

bool import_global_lp_pool(ImportNode *n) {
  const Type *t = input_type(n, 0);
  double p = (double)node_int(n, "p", 2);
  if (t->rank < 3 || p < 1) return node_error(n, "p %g of %s", p, import_type_string(n->m, t));
  Val x = input(n, 0);
  return x && import_set_output(n, 0,
                                root_of(n,
                                        import_reduce_axes(n, RED_SUM, power_of(n, build_unary(n->b, OP_abs, x), p),
                                                           ((1u << t->rank) - 1) & ~3u, true),
                                        p));
}
