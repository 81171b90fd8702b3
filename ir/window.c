/* ir/window.c - see window.h. */
#include "ir/window.h"

#include <string.h>

#include "base/die.h"

int window_spec_part(OpKind k, int role) {
  if (k == OP_conv) return role == WINDOW_IMAGE ? 0 : role == WINDOW_WEIGHTS ? 1 : 2;
  if (k == OP_conv_transpose) return role == WINDOW_OUTPUT ? 0 : role == WINDOW_WEIGHTS ? 1 : 2;
  return role == WINDOW_IMAGE ? 0 : role == WINDOW_OUTPUT ? 1 : 2; /* conv_filter */
}

const char *window_letters(OpKind k, const char *spec, int role, int *n) {
  int part = window_spec_part(k, role);
  const char *s = part == 0 ? spec : part == 1 ? strchr(spec, ',') + 1 : strstr(spec, "->") + 2;
  *n = (int)strcspn(s, part == 0 ? "," : "-");
  return s;
}

static const Type *part_type(const Func *f, const Op *op, int part) {
  return part < 2 ? type_of(f, op->in[part]) : type_of(f, op->out);
}

static void find_dims(const Func *f, const Op *op, Window *w) {
  const char *spec = op_str(op, AT_spec);
  int n, order = 0;
  const char *image = window_letters(op->kind, spec, WINDOW_IMAGE, &n);
  char letters[MAX_WINDOWED];
  for (int d = 0; d < n && order < MAX_WINDOWED; d++)
    if (image[d] >= 'A' && image[d] <= 'Z') letters[order++] = image[d];
  w->n = order;
  for (int r = 0; r < 3; r++) {
    int part = window_spec_part(op->kind, r);
    const char *s = window_letters(op->kind, spec, r, &n);
    w->role[r] = part < 2 ? part : -1;
    for (int i = 0; i < w->n; i++) {
      w->dim[r][i] = (int)((const char *)memchr(s, letters[i], (size_t)n) - s);
      w->extent[r][i] = part_type(f, op, part)->dims[w->dim[r][i]];
    }
  }
}

static void pool_dims(const Func *f, const Op *op, Window *w) {
  const Attr *axes = op_attr(op, AT_axes), *window = op_attr(op, AT_window);
  w->n = axes->n;
  bool gradient = op->kind == OP_pool_grad;
  w->role[WINDOW_IMAGE] = 0, w->role[WINDOW_WEIGHTS] = -2, w->role[WINDOW_OUTPUT] = gradient ? 1 : -1;
  for (int i = 0; i < w->n; i++) {
    int d = (int)axes->u.ints[i];
    w->dim[WINDOW_IMAGE][i] = w->dim[WINDOW_OUTPUT][i] = d;
    w->extent[WINDOW_IMAGE][i] = type_of(f, op->in[0])->dims[d];
    w->extent[WINDOW_OUTPUT][i] = type_of(f, gradient ? op->in[1] : op->out)->dims[d];
    w->extent[WINDOW_WEIGHTS][i] = window->u.exprs[i];
  }
}

Window window_of(const Func *f, const Op *op) {
  Window w = {0};
  if (op->kind == OP_pool || op->kind == OP_pool_grad) pool_dims(f, op, &w);
  else find_dims(f, op, &w);
  for (int i = 0; i < w.n; i++) {
    w.stride[i] = op_attr(op, AT_strides)->u.ints[i];
    w.dilation[i] = op_attr(op, AT_dilations)->u.ints[i];
    w.start[i] = op_attr(op, AT_starts)->u.exprs[i];
  }
  return w;
}

const Expr *window_reach(Module *m, const Window *w, int i) {
  return ex_addi(m, ex_muli(m, ex_addi(m, w->extent[WINDOW_WEIGHTS][i], -1), w->dilation[i]), 1);
}

static const Expr *clip(Module *m, const Expr *e, const Expr *extent) {
  return ex_min(m, ex_max(m, e, ex_const(m, 0)), extent);
}

void window_image_of(Module *m, const Window *w, int i, const Expr *lo, const Expr *hi, const Expr **image_lo,
                     const Expr **image_hi) {
  const Expr *extent = w->extent[WINDOW_IMAGE][i], *first = ex_add(m, w->start[i], ex_muli(m, lo, w->stride[i]));
  const Expr *last = ex_add(m, w->start[i], ex_muli(m, ex_addi(m, hi, -1), w->stride[i]));
  *image_lo = clip(m, first, extent);
  *image_hi =
      ex_max(m, *image_lo, clip(m, ex_add(m, last, window_reach(m, w, i)), extent)); /* no outputs read no images */
}

/* Output u reaches the images [start + u * stride, start + u * stride + reach). */
void window_output_of(Module *m, const Window *w, int i, const Expr *lo, const Expr *hi, const Expr **output_lo,
                      const Expr **output_hi) {
  const Expr *extent = w->extent[WINDOW_OUTPUT][i], *step = ex_const(m, w->stride[i]), *zero = ex_const(m, 0);
  const Expr *below = ex_addi(m, ex_sub(m, ex_sub(m, lo, w->start[i]), window_reach(m, w, i)), w->stride[i]);
  const Expr *above = ex_addi(m, ex_sub(m, hi, w->start[i]), w->stride[i] - 1);
  *output_lo = clip(m, ex_div(m, ex_max(m, below, zero), step), extent);
  *output_hi = ex_max(m, *output_lo, clip(m, ex_div(m, ex_max(m, above, zero), step), extent));
}
