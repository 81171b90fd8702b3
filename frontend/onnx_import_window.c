/* frontend/onnx_import_window.c - ONNX convolutions and pools.
 *
 * The IR has no windowed operation yet, so a window is walked tap by tap: tap (i, j) of the kernel reads the padded
 * image from (i, j) * dilation in steps of the stride, which is a slice.  A convolution is the sum over taps of one
 * dot each (the FLOPs of the convolution, with its channels and batch as plain dimensions), a pool the maximum or
 * the sum of slices.  Windows that tile the image (vision transformer patches) are a single dot.
 *
 * Not done: auto_pad over symbolic extents, the indices output of MaxPool, ConvTranspose.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "frontend/onnx_import_private.h"

enum { MAX_TAPS = 1024 };

/* The spatial dimensions of an [N, C, ...] image and the window over them. */
typedef struct Window {
  int dims;
  int64_t kernel[MAX_RANK], stride[MAX_RANK], dilation[MAX_RANK], low[MAX_RANK], high[MAX_RANK];
  int64_t overhang[MAX_RANK]; /* the part of `high` that only ceil_mode added */
  const Expr *in[MAX_RANK], *out[MAX_RANK];
  int64_t taps; /* product of the kernel's extents */
} Window;

/* ---- reading the attributes */

static bool read_list(Node *n, const char *name, int expected, int64_t least, int64_t *out) {
  int count;
  const int64_t *list = node_ints(n, name, &count);
  if (count >= 0 && count != expected) return node_error(n, "%s has %d entries, not %d", name, count, expected);
  for (int i = 0; i < count; i++) {
    if (list[i] < least || list[i] > INT32_MAX) return node_error(n, "%s has the entry %" PRId64, name, list[i]);
    out[i] = list[i];
  }
  return true;
}

static int64_t reach(const Window *w, int d) { return w->dilation[d] * (w->kernel[d] - 1) + 1; }

/* SAME_*: out = ceil(in / stride), the padding split evenly, the odd one at the end named. */
static bool same_padding(Node *n, Window *w, bool upper) {
  for (int d = 0; d < w->dims; d++) {
    int64_t in;
    if (!ex_get_const(w->in[d], &in))
      return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc, "%s: auto_pad over a symbolic dimension", n->op->type);
    int64_t out = (in + w->stride[d] - 1) / w->stride[d], total = (out - 1) * w->stride[d] + reach(w, d) - in;
    if (total < 0) total = 0;
    w->low[d] = upper ? total / 2 : total - total / 2;
    w->high[d] = total - w->low[d];
  }
  return true;
}

static bool read_padding(Node *n, Window *w) {
  int64_t pads[2 * MAX_RANK] = {0};
  const char *mode = node_string(n, "auto_pad", "NOTSET");
  if (!read_list(n, "pads", 2 * w->dims, 0, pads)) return false;
  bool upper = strcmp(mode, "SAME_UPPER") == 0;
  if (upper || strcmp(mode, "SAME_LOWER") == 0) return same_padding(n, w, upper);
  if (strcmp(mode, "VALID") == 0) return true;
  if (strcmp(mode, "NOTSET") != 0) return node_error(n, "auto_pad is \"%s\"", mode);
  for (int d = 0; d < w->dims; d++) w->low[d] = pads[d], w->high[d] = pads[w->dims + d];
  return true;
}

/* Result extents.  In ceil mode the last window may hang over the end by less than its start does, and what it
 * needs is added to the padding behind. */
static bool read_extents(Node *n, Window *w, bool ceil_mode) {
  Module *m = n->m;
  for (int d = 0; d < w->dims; d++) {
    const Expr *span = ex_addi(m, w->in[d], w->low[d] + w->high[d] - reach(w, d));
    int64_t have, in;
    if (ex_get_const(span, &have) && have < 0) return node_error(n, "the window is larger than dimension %d", d + 2);
    if (!ceil_mode) {
      w->out[d] = ex_addi(m, ex_div(m, span, ex_const(m, w->stride[d])), 1);
      continue;
    }
    if (!ex_get_const(w->in[d], &in))
      return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc, "%s: ceil_mode over a symbolic dimension", n->op->type);
    int64_t out = (have + w->stride[d] - 1) / w->stride[d] + 1;
    if ((out - 1) * w->stride[d] >= in + w->low[d]) out--;
    int64_t needed = (out - 1) * w->stride[d] + reach(w, d) - in - w->low[d];
    if (needed > w->high[d]) w->overhang[d] = needed - w->high[d], w->high[d] = needed;
    w->out[d] = ex_const(m, out);
  }
  return true;
}

/* `kernel` as the weights give it, NULL to take the attribute. */
static bool read_window(Node *n, const int64_t *kernel, bool ceil_mode, Window *w) {
  const Type *t = input_type(n, 0);
  *w = (Window){.dims = t->rank - 2, .taps = 1};
  if (w->dims < 1) return node_error(n, "needs spatial dimensions, not %s", type_string(n->m, t));
  if (!kernel && !has_attr(n, "kernel_shape")) return node_error(n, "has no kernel_shape");
  for (int d = 0; d < w->dims; d++) {
    w->kernel[d] = kernel ? kernel[d] : 1;
    w->stride[d] = w->dilation[d] = 1;
    w->in[d] = t->dims[d + 2];
  }
  if (!read_list(n, "kernel_shape", w->dims, 1, w->kernel) || !read_list(n, "strides", w->dims, 1, w->stride) ||
      !read_list(n, "dilations", w->dims, 1, w->dilation) || !read_padding(n, w) || !read_extents(n, w, ceil_mode))
    return false;
  for (int d = 0; d < w->dims; d++) {
    if (kernel && w->kernel[d] != kernel[d]) return node_error(n, "kernel_shape differs from the weights' %" PRId64,
        kernel[d]);
    if (w->kernel[d] > MAX_TAPS) return node_error(n, "a window of more than %d elements", MAX_TAPS);
    w->taps *= w->kernel[d];
  }
  return true;
}

/* ---- taps */

/* The spatial dimensions are the last ones of x. */
static Val padded(Node *n, Val x, const Window *w, double value) {
  if (!x) return 0;
  int rank = type_of(n->b->f, x)->rank;
  const Expr *low[MAX_RANK], *high[MAX_RANK];
  bool any = false;
  for (int d = 0; d < rank; d++) {
    int s = d - (rank - w->dims);
    low[d] = ex_const(n->m, s >= 0 ? w->low[s] : 0);
    high[d] = ex_const(n->m, s >= 0 ? w->high[s] : 0);
    any = any || (s >= 0 && (w->low[s] || w->high[s]));
  }
  if (!any) return x;
  Attr a[] = {attr_exprs(n->m, AT_low, rank, low), attr_exprs(n->m, AT_high, rank, high), attr_f(AT_value, value)};
  return build_op(n->b, &(OpSpec){.kind = OP_pad, .nin = 1, .in = &x, .nattrs = 3, .attrs = a});
}

/* What tap number `tap` (row-major) of every window reads. */
static Val tap_slice(Node *n, Val x, const Window *w, int64_t tap) {
  if (!x) return 0;
  const Type *t = type_of(n->b->f, x);
  const Expr *starts[MAX_RANK], *dims[MAX_RANK];
  int64_t strides[MAX_RANK];
  int first = t->rank - w->dims;
  for (int d = t->rank - 1; d >= 0; d--) {
    int s = d - first;
    starts[d] = ex_const(n->m, s >= 0 ? tap % w->kernel[s] * w->dilation[s] : 0);
    strides[d] = s >= 0 ? w->stride[s] : 1;
    dims[d] = s >= 0 ? w->out[s] : t->dims[d];
    if (s >= 0) tap /= w->kernel[s];
  }
  Attr a[] = {attr_exprs(n->m, AT_starts, t->rank, starts), attr_ints(n->m, AT_strides, t->rank, strides)};
  return build_op(n->b, &(OpSpec){.kind = OP_slice, .nin = 1, .in = &x, .nattrs = 2, .attrs = a,
      .type = type_get(n->m, t->dtype, t->rank, dims)});
}

/* ---- convolution: x [n, g, c, ...], weights [g, o, c, ...] */

static const char spatial[] = "uvwxyz";

/* The weights of one tap, [g, o, c]. */
static Val tap_weights(Node *n, Val weights, const Window *w, int64_t tap) {
  const Type *t = type_of(n->b->f, weights);
  int64_t index[MAX_RANK];
  for (int d = w->dims - 1; d >= 0; d--) {
    index[d] = tap % w->kernel[d];
    tap /= w->kernel[d];
  }
  for (int d = 0; d < w->dims; d++)
    weights = build_slice(n->b, weights, t->rank - w->dims + d, ex_const(n->m, index[d]), ex_const(n->m, 1), 1);
  return drop_dims(n, weights, ((1u << w->dims) - 1) << (t->rank - w->dims));
}

static Val conv_by_taps(Node *n, Val x, Val weights, const Window *w, bool grouped) {
  const char *spec = arena_printf(n->m->arena, grouped ? "ngc%.*s,goc->ngo%.*s" : "nc%.*s,oc->no%.*s", w->dims,
      spatial, w->dims, spatial);
  Val sum = 0;
  if (w->taps > MAX_TAPS) {
    node_error(n, "a window of more than %d elements", MAX_TAPS);
    return 0;
  }
  x = padded(n, x, w, 0);
  for (int64_t tap = 0; tap < w->taps; tap++) {
    Val part = build_dot(n->b, tap_slice(n, x, w, tap), tap_weights(n, weights, w, tap), spec);
    sum = sum ? build_binary(n->b, OP_add, sum, part) : part;
    if (!sum) return 0;
  }
  return sum;
}

/* Windows side by side: [n, c, h, w] as [n, c, h/k, k, w/k, k], one dot over c and both k. */
static bool tiles(const Window *w, Module *m) {
  for (int d = 0; d < w->dims; d++)
    if (w->stride[d] != w->kernel[d] || w->dilation[d] != 1 || w->low[d] || w->high[d] ||
        !ex_exact_div(m, w->in[d], ex_const(m, w->kernel[d])))
      return false;
  return 2 + 2 * w->dims <= MAX_RANK;
}

static Val conv_by_tiles(Node *n, Val x, Val weights, const Window *w) {
  static const char inner[] = "pqr";
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
static Val split_groups(Node *n, Val x, int at, int64_t groups) {
  const Type *t = type_of(n->b->f, x);
  const Expr *dims[MAX_RANK];
  for (int d = 0; d <= t->rank; d++) dims[d] = d <= at ? t->dims[d] : t->dims[d - 1];
  dims[at] = ex_const(n->m, groups);
  dims[at + 1] = ex_exact_div(n->m, t->dims[at], dims[at]);
  return build_reshape(n->b, x, t->rank + 1, dims);
}

static bool conv_shapes(Node *n, int64_t groups, int64_t *kernel) {
  const Type *t = input_type(n, 0), *tw = input_type(n, 1);
  const Expr *g = ex_const(n->m, groups > 0 ? groups : 1);
  if (groups < 1) return node_error(n, "group is %" PRId64, groups);
  if (t->rank != tw->rank || t->rank < 3 || t->rank + (groups > 1) > MAX_RANK)
    return node_error(n, "%s cannot be convolved with %s", type_string(n->m, t), type_string(n->m, tw));
  const Expr *channels = ex_exact_div(n->m, t->dims[1], g);
  if (channels != tw->dims[1] || !ex_exact_div(n->m, tw->dims[0], g))
    return node_error(n, "%s in %" PRId64 " groups does not fit %s", type_string(n->m, t), groups, type_string(n->m, tw));
  for (int d = 2; d < tw->rank; d++)
    if (!ex_get_const(tw->dims[d], &kernel[d - 2])) return node_error(n, "the window's size is symbolic");
  return true;
}

bool import_conv(Node *n) {
  int64_t groups = node_int(n, "group", 1), kernel[MAX_RANK];
  Window w;
  if (!conv_shapes(n, groups, kernel) || !read_window(n, kernel, false, &w)) return false;
  Val x = input(n, 0), weights = input(n, 1), y;
  if (!x || !weights) return false;
  if (groups > 1) {
    y = conv_by_taps(n, split_groups(n, x, 1, groups), split_groups(n, weights, 0, groups), &w, true);
    const Expr *dims[MAX_RANK] = {input_type(n, 0)->dims[0], input_type(n, 1)->dims[0]};
    for (int d = 0; d < w.dims; d++) dims[d + 2] = w.out[d];
    y = build_reshape(n->b, y, w.dims + 2, dims);
  } else {
    y = tiles(&w, n->m) ? conv_by_tiles(n, x, weights, &w) : conv_by_taps(n, x, weights, &w, false);
  }
  if (!y || !has_input(n, 2)) return set_output(n, 0, y);
  Val bias = input(n, 2);
  int rank = type_of(n->b->f, y)->rank;
  if (input_type(n, 2)->rank != 1 || input_type(n, 2)->dims[0] != type_of(n->b->f, y)->dims[1])
    return node_error(n, "the bias is %s", type_string(n->m, input_type(n, 2)));
  return set_output(n, 0, binary(n, OP_add, y, insert_dims(n, bias, ((1u << (rank - 1)) - 1) & ~1u, rank - 1)));
}

/* ---- pools */

static double lowest(DType t) {
  int bits = (int)dtype_bytes(t) * 8;
  return dtype_is_float(t) ? -INFINITY : dtype_class(t) == DTC_I ? -ldexp(1, bits - 1) : 0;
}

/* Maximum and sum are taken one dimension after the other: a window of 3 x 3 costs 3 + 3 slices. */
static Val pooled(Node *n, Val x, const Window *w, OpKind how) {
  x = padded(n, x, w, how == OP_max ? lowest(input_type(n, 0)->dtype) : 0);
  for (int d = 0; d < w->dims && x; d++) {
    Val y = 0;
    for (int64_t tap = 0; tap < w->kernel[d]; tap++) {
      Val part = build_slice(n->b, x, d + 2, ex_const(n->m, tap * w->dilation[d]), w->out[d], w->stride[d]);
      y = y ? build_binary(n->b, how, y, part) : part;
      if (!y) return 0;
    }
    x = y;
  }
  return x;
}

bool import_max_pool(Node *n) {
  Window w;
  if (wants(n, 1)) return node_error(n, "the output of indices is not supported");
  return read_window(n, NULL, node_int(n, "ceil_mode", 0) != 0, &w) && set_output(n, 0, pooled(n, input(n, 0), &w, OP_max));
}

/* How many elements of dimension d every window covers, [out], as floats: those inside [0, in), and those of the
 * padding too when `padding` (what ceil mode adds never counts). */
static Val covered(Node *n, const Window *w, int d, bool padding) {
  const Type *counts = type_get(n->m, DT_i64, 1, &w->out[d]), *scalar = type_of_ints(n->m, DT_i64, 0, NULL);
  Val start = binary_number(n, OP_sub, binary_number(n, OP_mul, build_iota(n->b, counts, 0), (double)w->stride[d]),
      (double)w->low[d]);
  const Expr *end = padding ? ex_addi(n->m, w->in[d], w->high[d] - w->overhang[d]) : w->in[d];
  Val limit = build_size(n->b, scalar, end), sum = 0;
  for (int64_t tap = 0; tap < w->kernel[d]; tap++) {
    Val at = binary_number(n, OP_add, start, (double)(tap * w->dilation[d]));
    Val inside = binary(n, OP_lt, at, limit);
    if (!padding) inside = binary(n, OP_and, inside, binary_number(n, OP_ge, at, 0));
    Val one = inside ? build_cast(n->b, inside, input_type(n, 0)->dtype) : 0;
    sum = sum ? binary(n, OP_add, sum, one) : one;
  }
  return sum;
}

bool import_average_pool(Node *n) {
  Window w;
  bool padding = node_int(n, "count_include_pad", 0) != 0, even = true;
  if (!read_window(n, NULL, node_int(n, "ceil_mode", 0) != 0, &w)) return false;
  Val sum = pooled(n, input(n, 0), &w, OP_add);
  for (int d = 0; d < w.dims; d++) even = even && (padding ? !w.overhang[d] : !w.low[d] && !w.high[d]);
  if (even) return set_output(n, 0, binary_number(n, OP_div, sum, (double)w.taps));
  for (int d = 0; d < w.dims && sum; d++) {
    Val count = covered(n, &w, d, padding);
    sum = binary(n, OP_div, sum, insert_dims(n, count, ((1u << (w.dims - d)) - 1) & ~1u, w.dims - d));
  }
  return set_output(n, 0, sum);
}

bool import_global_pool(Node *n) {
  const Type *t = input_type(n, 0);
  if (t->rank < 3) return node_error(n, "needs spatial dimensions, not %s", type_string(n->m, t));
  unsigned axes = ((1u << t->rank) - 1) & ~3u;
  Val x = input(n, 0);
  return set_output(n, 0, n->op->arg ? reduce_axes(n, (Reduction)n->op->arg, x, axes, true) : mean_axes(n, x, axes, true));
}
