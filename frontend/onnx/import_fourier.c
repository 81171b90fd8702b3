/* frontend/onnx/import_fourier.c - DFT and STFT as products with a matrix of cosines, and their windows.
 *
 * One matrix [signal, complex in, frequency, complex out] does the whole transform in one product, which is planned
 * and sharded like any other.  Its elements are cos(2 pi q / 4L) for an integer q, since -sin(t) = cos(t + pi/2),
 * and q is reduced exactly before it becomes a float.  Angles and cosines are f64: an angle in f32 is wrong by up to
 * 2e-7, which a result that should be 0 shows.  STFT is a convolution with the windowed matrix; its windows
 * overlap in the same way.
 *
 * Not done: fast algorithms; at the lengths of speech (400, 512) the product is as fast as the operations around it.
 */
#include <math.h>

#include "frontend/onnx/import_private.h"

static const double TAU = 6.28318530717958647692;

typedef struct Transform {
  const Expr *length;    /* L */
  const Expr *from, *to; /* number of signal elements, number of result elements */
  int64_t in, out;       /* 1: real, 2: complex */
  bool inverse;
  bool mirrored; /* the input is one half of a symmetric signal */
  DType dtype;
} Transform;

static Val size_value(ImportNode *n, const Expr *e) { return import_scalar_i64(n, e); }

/* In the mirrored half, elements other than the first and the middle count twice. */
static Val counted_twice(ImportNode *n, const Transform *t, Val from, Val x) {
  Val middle = binary(n, OP_eq, binary_number(n, OP_mul, from, 2), size_value(n, t->length));
  Val once = binary(n, OP_or, middle, binary_number(n, OP_eq, from, 0));
  return x ? select3(n, once, x, binary_number(n, OP_mul, x, 2)) : 0;
}

/* The matrix [from, in, to, out]. */
static Val fourier_matrix(ImportNode *n, const Transform *t) {
  const Expr *dims[] = {t->from, ex_const(n->m, t->in), t->to, ex_const(n->m, t->out)};
  Val k = iota_i64(n, 4, dims, 0), i = iota_i64(n, 4, dims, 1), u = iota_i64(n, 4, dims, 2),
      j = iota_i64(n, 4, dims, 3);
  Val turn = t->inverse ? binary(n, OP_sub, i, j) : binary(n, OP_sub, j, i); /* quarters of a circle */
  Val q = binary(n, OP_add, binary_number(n, OP_mul, binary(n, OP_mul, k, u), 4),
                 binary(n, OP_mul, turn, size_value(n, t->length)));
  const Expr *circle = ex_muli(n->m, t->length, 4);
  q = binary(n, OP_mod, q, size_value(n, circle));
  Val length = build_cast(n->b, size_value(n, circle), DT_f64);
  Val angle = binary(n, OP_div, binary_number(n, OP_mul, build_cast(n->b, q, DT_f64), TAU), length);
  Val x = angle ? build_unary(n->b, OP_cos, angle) : 0;
  if (t->mirrored) x = counted_twice(n, t, k, x);
  if (t->inverse) x = binary(n, OP_div, x, build_cast(n->b, size_value(n, t->length), DT_f64));
  return build_cast(n->b, x, t->dtype);
}

/* Reads the signal's last dimension: 1 for real, 2 for complex. */
static bool complex_extent(ImportNode *n, const Type *t, int64_t *out) {
  if (t->rank >= 2 && dtype_is_float(t->dtype) && ex_get_const(t->dims[t->rank - 1], out) && (*out == 1 || *out == 2))
    return true;
  return node_error(n, "the signal is %s; floats whose last dimension is 1 (real) or 2 (complex) are expected",
                    import_type_string(n->m, t));
}

/* Reads a size from an optional scalar input. */
static bool scalar_size(ImportNode *n, size_t in, const char *what, const Expr **out) {
  ImportKnown k;
  if (!has_input(n, in)) return true;
  if (!input_exprs(n, in, what, &k)) return false;
  if (k.n != 1) return node_error(n, "%s has %d elements", what, k.n);
  *out = k.items[0];
  return known_bounds(n->m, *out).high >= 1 || node_error(n, "%s is not positive", what);
}

/* ---- DFT */

static bool transform_axis(ImportNode *n, int rank, int *axis) {
  int64_t at = n->opset < 20 ? node_int(n, "axis", 1) : -2, list[KNOWN_MAX];
  int count;
  if (has_input(n, 2)) {
    if (!input_ints(n, 2, "the axis", list, &count)) return false;
    if (count != 1) return node_error(n, "the axis has %d elements", count);
    at = list[0];
  }
  if (!node_axis(n, at, rank, axis)) return false;
  return *axis != rank - 1 || node_error(n, "the axis is the dimension of complex parts");
}

/* Multiplies `x` [.., from, .., in] by the matrix. */
static Val transformed(ImportNode *n, const Transform *t, Val x, int axis) {
  char left[MAX_RANK + 1], right[MAX_RANK + 1];
  if (!x) return 0;
  int rank = type_of(n->b->f, x)->rank;
  for (int d = 0; d < rank; d++) left[d] = right[d] = (char)('a' + d);
  left[rank] = right[rank] = '\0';
  left[axis] = 'x', left[rank - 1] = 'y';
  right[axis] = 'u', right[rank - 1] = 'v';
  return build_dot(n->b, x, fourier_matrix(n, t), arena_printf(n->m->arena, "%s,xyuv->%s", left, right));
}

bool import_dft(ImportNode *n) {
  const Type *t = input_type(n, 0);
  bool one_sided = node_int(n, "onesided", 0) != 0;
  Transform f = {.inverse = node_int(n, "inverse", 0) != 0, .out = 2, .dtype = t->dtype};
  Module *m = n->m;
  int axis;
  if (!complex_extent(n, t, &f.in) || !transform_axis(n, t->rank, &axis)) return false;
  const Expr *extent = t->dims[axis];
  f.mirrored = one_sided && f.inverse;
  f.length = f.mirrored ? ex_muli(m, ex_addi(m, extent, -1), 2) : extent;
  if (!scalar_size(n, 1, "dft_length", &f.length) || !known_need(m, f.length, 1))
    return node_error(n, "the transform has no elements");
  const Expr *half = ex_addi(m, ex_div_joined(m, f.length, ex_const(m, 2)), 1), *most = f.mirrored ? half : f.length;
  f.to = one_sided && !f.inverse ? half : f.length;
  if (f.mirrored) f.out = 1;
  f.from = known_ge(m, most, extent) ? extent : known_ge(m, extent, most) ? most : ex_min(m, most, extent);
  Val x = input(n, 0);
  if (x && f.from != extent) x = build_slice(n->b, x, axis, ex_const(m, 0), f.from, 1);
  return import_set_output(n, 0, transformed(n, &f, x, axis));
}

/* ---- STFT */

/* The matrix [frequencies * 2, in, frame length], as weights of a convolution. */
static Val frame_weights(ImportNode *n, const Transform *f, Val window) {
  static const int to_weights[] = {2, 3, 1, 0};
  Val x = build_transpose(n->b, fourier_matrix(n, f), to_weights);
  if (window) x = binary(n, OP_mul, x, build_cast(n->b, window, f->dtype));
  const Expr *dims[] = {ex_muli(n->m, f->to, 2), ex_const(n->m, f->in), f->length};
  return build_reshape(n->b, x, 3, dims);
}

static Val convolved(ImportNode *n, Val x, Val weights, const Type *type, int64_t step) {
  Attr a[] = {attr_s(n->m, AT_spec, "bWi,kiW->bWk"),
              attr_exprs(n->m, AT_starts, 1, (const Expr *[]){ex_const(n->m, 0)}),
              attr_ints(n->m, AT_strides, 1, &step), attr_ints(n->m, AT_dilations, 1, (int64_t[]){1})};
  if (!x || !weights) return 0;
  return build_op(
      n->b, &(OpSpec){.kind = OP_conv, .nin = 2, .in = (Val[]){x, weights}, .nattrs = 4, .attrs = a, .type = type});
}

bool import_stft(ImportNode *n) {
  const Type *t = input_type(n, 0);
  Transform f = {.out = 2, .dtype = t->dtype};
  Module *m = n->m;
  const Expr *step = NULL;
  int64_t by, length;
  if (t->rank != 3) return node_error(n, "the signal must have three dimensions, not %s", import_type_string(m, t));
  if (!complex_extent(n, t, &f.in) || !scalar_size(n, 1, "frame_step", &step)) return false;
  f.length = has_input(n, 2) ? input_type(n, 2)->dims[0] : t->dims[1];
  if (has_input(n, 2) && input_type(n, 2)->rank != 1)
    return node_error(n, "the window must have one dimension, not %s", import_type_string(m, input_type(n, 2)));
  if (!scalar_size(n, 3, "frame_length", &f.length)) return false;
  if (has_input(n, 2) && f.length != input_type(n, 2)->dims[0])
    return node_error(n, "frame_length is not the length of the window %s", import_type_string(m, input_type(n, 2)));
  if (!ex_get_const(step, &by) || !ex_get_const(f.length, &length) || length < 1)
    return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc, "STFT: the length or step of frames is symbolic");
  const Expr *left = ex_addi(m, t->dims[1], -length);
  int64_t known;
  if (ex_get_const(left, &known) && known < 0)
    return node_error(n, "the signal %s is shorter than a frame of %lld", import_type_string(m, t), (long long)length);
  assume_extent(m, left);
  const Expr *frames = ex_addi(m, ex_div_joined(m, left, ex_const(m, by)), 1);
  f.from = f.length;
  f.to = node_int(n, "onesided", 1) ? ex_const(m, length / 2 + 1) : f.length;
  const Expr *flat[] = {t->dims[0], frames, ex_muli(m, f.to, 2)}, *dims[] = {t->dims[0], frames, f.to, ex_const(m, 2)};
  Val window = input(n, 2);
  if (has_input(n, 2) && !window) return false;
  Val y = convolved(n, input(n, 0), frame_weights(n, &f, window), type_get(m, t->dtype, 3, flat), by);
  return y && import_set_output(n, 0, build_reshape(n->b, y, 4, dims));
}

/* ---- windows and filters */

/* a0 - a1 cos(2 pi i / N) + a2 cos(4 pi i / N); N is the size or, for symmetric windows, one less. */
bool import_window_function(ImportNode *n) {
  static const double coefficients[][3] = {{0.5, 0.5, 0}, {25.0 / 46, 21.0 / 46, 0}, {0.42, 0.5, 0.08}};
  const double *a = coefficients[n->op->arg];
  const Expr *size = NULL;
  DType dtype = DT_f32;
  ImportKnown k;
  if (has_attr(n, "output_datatype") && !node_dtype(n, "output_datatype", &dtype)) return false;
  if (!input_shape(n, 0, "the size", &k)) return false;
  if (k.n != 1) return node_error(n, "the size has %d elements", k.n);
  size = k.items[0];
  const Expr *period = node_int(n, "periodic", 1) ? size : ex_addi(n->m, size, -1);
  Val i = build_cast(n->b, iota_i64(n, 1, &size, 0), DT_f64);
  Val angle = binary(n, OP_div, binary_number(n, OP_mul, i, TAU), build_cast(n->b, size_value(n, period), DT_f64));
  if (!angle) return false;
  Val x = binary_number(n, OP_add, binary_number(n, OP_mul, build_unary(n->b, OP_cos, angle), -a[1]), a[0]);
  if (a[2] != 0)
    x = binary(n, OP_add, x,
               binary_number(n, OP_mul, build_unary(n->b, OP_cos, binary_number(n, OP_mul, angle, 2)), a[2]));
  return x && import_set_output(n, 0, build_cast(n->b, x, dtype));
}
