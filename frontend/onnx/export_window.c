/* frontend/onnx/export_window.c - conv, conv_transpose and pool as Conv, ConvTranspose, MaxPool and AveragePool.
 *
 * The IR allows any order and number of dimensions; ONNX needs [batch, channels, windowed...].  Operands are
 * transposed and reshaped to that, and the result back.  The padding at the end determines the extent of the result.
 */
#include "frontend/onnx/export_private.h"

#include <ctype.h>
#include <string.h>

#include "ir/window.h"

/* The letters of a tensor, and the same letters in the order of ONNX. */
typedef struct Letters {
  const char *at;
  int n;
} Letters;

static bool has(Letters l, char c) { return memchr(l.at, c, (size_t)l.n) != NULL; }
static int index_of(const char *s, int n, char c) { return (int)((const char *)memchr(s, c, (size_t)n) - s); }

/* Transposes x from the letters of `l` to the order `wanted`. */
static const char *in_order(const Writing *n, const char *x, Letters l, const char *wanted) {
  int64_t perm[MAX_RANK];
  for (int d = 0; d < l.n; d++) perm[d] = index_of(l.at, l.n, wanted[d]);
  return transposed(n, x, l.n, perm);
}

static const Expr *product_of(const Writing *n, Letters l, const Type *t, const char *letters) {
  const Expr *e = ex_const(n->x->m, 1);
  for (; *letters; letters++) e = ex_mul(n->x->m, e, t->dims[index_of(l.at, l.n, *letters)]);
  return e;
}

/* Reshapes to [the product of each group of letters ..., windowed ...]. */
static const char *grouped(const Writing *n, const char *x, Letters l, const Type *t, const char *first,
                           const char *second, const char *windowed) {
  const Expr *dims[MAX_RANK] = {product_of(n, l, t, first), product_of(n, l, t, second)};
  int rank = 2;
  for (; *windowed; windowed++) dims[rank++] = t->dims[index_of(l.at, l.n, *windowed)];
  bool as_is = strlen(first) == 1 && strlen(second) == 1;
  return as_is ? x : reshaped(n, x, rank, dims);
}

/* ---- padding */

typedef struct Padding {
  int64_t pads[2 * MAX_WINDOWED], kernel[MAX_WINDOWED], extra[MAX_WINDOWED];
} Padding;

/* The padding at the end of the image that gives the window count; -1 if there is none. */
static int64_t padding_behind(Module *m, const Window *w, int i, int64_t low, int64_t reach) {
  const Expr *image = w->extent[WINDOW_IMAGE][i], *count = w->extent[WINDOW_OUTPUT][i];
  int64_t exact;
  for (int64_t high = 0; high < reach + w->stride[i]; high++) {
    const Expr *room = ex_addi(m, image, low + high - reach);
    if (ex_addi(m, ex_div(m, room, ex_const(m, w->stride[i])), 1) == count) return high;
  }
  const Expr *left = ex_sub(m, ex_addi(m, ex_muli(m, ex_addi(m, count, -1), w->stride[i]), reach - low), image);
  return ex_get_const(left, &exact) && exact >= 0 ? exact : -1;
}

/* Finds padding that gives the image its extent, or extra elements at the end (ConvTranspose). */
static bool padding_of_transpose(Module *m, const Window *w, int i, int64_t reach, Padding *p) {
  const Expr *full =
      ex_addi(m, ex_muli(m, ex_addi(m, w->extent[WINDOW_OUTPUT][i], -1), w->stride[i]), reach - p->pads[i]);
  int64_t high;
  if (!ex_get_const(ex_sub(m, full, w->extent[WINDOW_IMAGE][i]), &high)) return false;
  p->pads[w->n + i] = high > 0 ? high : 0;
  p->extra[i] = high < 0 ? -high : 0;
  return p->extra[i] < w->stride[i] || p->extra[i] < w->dilation[i];
}

static bool padding_of(const Writing *n, const Window *w, const Expr *const *window, Padding *p) {
  *p = (Padding){.pads = {0}};
  for (int i = 0; i < w->n; i++) {
    int64_t start;
    if (!ex_get_const(w->start[i], &start) || start > 0 || !ex_get_const(window[i], &p->kernel[i])) return false;
    int64_t reach = w->dilation[i] * (p->kernel[i] - 1) + 1;
    p->pads[i] = -start;
    if (n->op->kind == OP_conv_transpose) {
      if (!padding_of_transpose(n->x->m, w, i, reach, p)) return false;
    } else if ((p->pads[w->n + i] = padding_behind(n->x->m, w, i, -start, reach)) < 0) return false;
  }
  return true;
}

static int attributes(const Writing *n, const Window *w, const Padding *p, Onnx__AttributeProto **out) {
  OnnxWriter *to = n->x->w;
  out[0] = onnx_write_ints(to, "kernel_shape", w->n, p->kernel);
  out[1] = onnx_write_ints(to, "strides", w->n, w->stride);
  out[2] = onnx_write_ints(to, "pads", 2 * w->n, p->pads);
  return 3;
}

/* ---- convolutions */

/* Letters by their role; each list ends with 0. */
typedef struct Roles {
  char batch[MAX_RANK + 1], group[MAX_RANK + 1], summed[MAX_RANK + 1], feature[MAX_RANK + 1], windowed[MAX_RANK + 1];
} Roles;

static void push(char *list, char c) { list[strlen(list)] = c; }

/* False if a letter occurs in one operand only.  Windowed letters are in the order of the image, as in ir/window.h. */
static bool roles_of(Letters x, Letters weights, Letters y, Letters image, Roles *r) {
  *r = (Roles){.batch = {0}};
  for (int i = 0; i < image.n; i++)
    if (isupper((unsigned char)image.at[i])) push(r->windowed, image.at[i]);
  for (int i = 0; i < x.n; i++) {
    char c = x.at[i];
    if (isupper((unsigned char)c)) continue;
    if (has(weights, c)) push(has(y, c) ? r->group : r->summed, c);
    else if (has(y, c)) push(r->batch, c);
    else return false;
  }
  for (int i = 0; i < weights.n; i++) {
    char c = weights.at[i];
    if (isupper((unsigned char)c) || has(x, c)) continue;
    if (!has(y, c)) return false;
    push(r->feature, c);
  }
  return true;
}

/* Restores the order of the operation; the result's type is that of the letters in `order`. */
static const char *put_back(const Writing *n, const char *y, Letters l, const char *order, bool as_is) {
  const Expr *dims[MAX_RANK];
  int64_t perm[MAX_RANK];
  for (int d = 0; d < l.n; d++) {
    dims[d] = n->type->dims[index_of(l.at, l.n, order[d])];
    perm[d] = index_of(order, l.n, l.at[d]);
  }
  if (!as_is) y = reshaped(n, y, l.n, dims);
  return transposed(n, y, l.n, perm);
}

const char *write_conv(const Writing *n) {
  bool backwards = n->op->kind == OP_conv_transpose;
  const char *spec = op_str(n->op, AT_spec);
  Arena *a = n->x->w->arena;
  Window w = window_of(n->s->f, n->op);
  Letters image, weights, output;
  Roles r;
  Padding p;
  image.at = window_letters(n->op->kind, spec, WINDOW_IMAGE, &image.n);
  weights.at = window_letters(n->op->kind, spec, WINDOW_WEIGHTS, &weights.n);
  output.at = window_letters(n->op->kind, spec, WINDOW_OUTPUT, &output.n);
  Letters x = backwards ? output : image, y = backwards ? image : output;
  const Type *tx = operand_type(n, 0), *tw = operand_type(n, 1);
  if (!roles_of(x, weights, y, image, &r)) return export_no_form(n, "a letter occurs in one operand only");
  if (!padding_of(n, &w, w.extent[WINDOW_WEIGHTS], &p)) return export_no_form(n, "no padding gives its windows");
  int64_t groups;
  if (!ex_get_const(product_of(n, x, tx, r.group), &groups))
    return export_no_form(n, "the number of groups is symbolic");

  const char *channels = arena_printf(a, "%s%s", r.group, r.summed),
             *made = arena_printf(a, "%s%s", r.group, r.feature);
  const char *first = backwards ? channels : made, *second = backwards ? r.feature : r.summed;
  const char *in[2] = {in_order(n, operand(n, 0), x, arena_printf(a, "%s%s%s", r.batch, channels, r.windowed)),
                       in_order(n, operand(n, 1), weights, arena_printf(a, "%s%s%s", first, second, r.windowed))};
  in[0] = grouped(n, in[0], x, tx, r.batch, channels, r.windowed);
  in[1] = grouped(n, in[1], weights, tw, first, second, r.windowed);
  if (!in[0] || !in[1]) return NULL;
  Onnx__AttributeProto *attrs[6];
  int count = attributes(n, &w, &p, attrs);
  attrs[count++] = onnx_write_ints(n->x->w, "dilations", w.n, w.dilation);
  attrs[count++] = onnx_write_int(n->x->w, "group", groups);
  if (backwards) attrs[count++] = onnx_write_ints(n->x->w, "output_padding", w.n, p.extra);
  const char *result = onnx_write_node(n->x->w, backwards ? "ConvTranspose" : "Conv", n->wanted, 2, in, count, attrs);
  return put_back(n, result, y, arena_printf(a, "%s%s%s", r.batch, made, r.windowed),
                  strlen(r.batch) == 1 && strlen(made) == 1);
}

/* ---- pools */

/* A sum is the average that includes padding, times the number of elements of a window. */
static const char *pooled(const Writing *n, const char *x, const Window *w, const Padding *p, bool sum) {
  Onnx__AttributeProto *attrs[5];
  int count = attributes(n, w, p, attrs);
  double elements = 1;
  attrs[count++] =
      sum ? onnx_write_int(n->x->w, "count_include_pad", 1) : onnx_write_ints(n->x->w, "dilations", w->n, w->dilation);
  const char *y = onnx_write_node(n->x->w, sum ? "AveragePool" : "MaxPool", n->wanted, 1, &x, count, attrs);
  for (int i = 0; i < w->n; i++) elements *= (double)p->kernel[i];
  return sum ? node2(n, "Mul", y, import_number(n, n->type->dtype, elements)) : y;
}

const char *write_pool(const Writing *n) {
  static const char letters[] = "abcdefgh", windows[] = "XYZ";
  const Attr *axes = op_attr(n->op, AT_axes), *window = op_attr(n->op, AT_window);
  Window w = window_of(n->s->f, n->op);
  Reduction op = op_attr(n->op, AT_op)->u.reduction;
  const Type *t = operand_type(n, 0);
  char own[MAX_RANK + 1] = {0}, others[MAX_RANK + 1] = {0}, windowed[MAX_WINDOWED + 1] = {0};
  Padding p;
  if (op != RED_SUM && op != RED_MAX) return export_no_form(n, "ONNX has only the maximum and the sum of a window");
  if (!dtype_is_float(t->dtype)) return export_no_form(n, "pools support only floats");
  for (int i = 0; i < w.n; i++)
    if (op == RED_SUM && w.dilation[i] != 1)
      return export_no_form(n, "AveragePool has dilations only since operator set 19");
  if (!padding_of(n, &w, window->u.exprs, &p)) return export_no_form(n, "no padding gives its windows");
  memcpy(own, letters, (size_t)t->rank);
  for (int i = 0; i < axes->n; i++) own[axes->u.ints[i]] = windowed[i] = windows[i];
  for (int d = 0; d < t->rank; d++)
    if (islower((unsigned char)own[d])) push(others, own[d]);
  Letters l = {own, t->rank};
  const char *order = arena_printf(n->x->w->arena, "%s%s", others, windowed);
  /* the first remaining letter is the batch, the rest are channels */
  const char *first = arena_printf(n->x->w->arena, "%.1s", others), *second = *others ? others + 1 : others;
  const char *x = grouped(n, in_order(n, operand(n, 0), l, order), l, t, first, second, windowed);
  return x ? put_back(n, pooled(n, x, &w, &p, op == RED_SUM), l, order, strlen(first) == 1 && strlen(second) == 1)
           : NULL;
}
