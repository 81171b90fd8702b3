/* ir/ops/gradient_window.c - derivatives of convolutions and pools: each is another operation of ir/ops/window.c, with
 * windows at the same places. */
#include <stdio.h>
#include <string.h>

#include "ir/ops/gradient.h"
#include "ir/ops/record.h"

/* Builds an operation with the windows of g->op. */
static Val windowed(const Gradient *g, OpKind k, Val x, Val y, const char *spec, const Type *type) {
  Attr a[] = {attr_s(g->b->m, AT_spec, spec), *op_attr(g->op, AT_starts), *op_attr(g->op, AT_strides),
              *op_attr(g->op, AT_dilations)};
  return build_op(g->b, &(OpSpec){.kind = k, .nin = 2, .in = (Val[]){x, y}, .type = type, .nattrs = 4, .attrs = a});
}

/* Returns a spec with the letters of operands 0 and 1 and of the result in another order. */
static const char *spec_of(const Gradient *g, int first, int second, int result) {
  const char *part[3];
  int n[3];
  infer_spec(op_str(g->op, AT_spec), part, n);
  return arena_printf(g->b->m->arena, "%.*s,%.*s->%.*s", n[first], part[first], n[second], part[second], n[result],
                      part[result]);
}

void gradient_conv(Gradient *g) {
  Val x = g->op->in[0], w = g->op->in[1], dy = g->of_results[0];
  if (g->wanted[0]) g->of_operands[0] = windowed(g, OP_conv_transpose, dy, w, spec_of(g, 2, 1, 0), gradient_type(g, x));
  if (g->wanted[1]) g->of_operands[1] = windowed(g, OP_conv_filter, x, dy, spec_of(g, 0, 2, 1), gradient_type(g, w));
}

void gradient_conv_transpose(Gradient *g) {
  Val x = g->op->in[0], w = g->op->in[1], dy = g->of_results[0];
  if (g->wanted[0]) g->of_operands[0] = windowed(g, OP_conv, dy, w, spec_of(g, 2, 1, 0), gradient_type(g, x));
  if (g->wanted[1]) g->of_operands[1] = windowed(g, OP_conv_filter, dy, x, spec_of(g, 2, 0, 1), gradient_type(g, w));
}

static void of_maximum(Gradient *g) {
  Attr a[] = {*op_attr(g->op, AT_axes), *op_attr(g->op, AT_window), *op_attr(g->op, AT_starts),
              *op_attr(g->op, AT_strides), *op_attr(g->op, AT_dilations)};
  g->of_operands[0] = build_op(
      g->b,
      &(OpSpec){
          .kind = OP_pool_grad, .nin = 2, .in = (Val[]){g->op->in[0], g->of_results[0]}, .nattrs = 5, .attrs = a});
}

/* A sum over windows is a convolution with ones, for each channel alone. */
void gradient_pool(Gradient *g) {
  const Op *op = g->op;
  const Type *t = gradient_type(g, op->in[0]);
  const Attr *axes = op_attr(op, AT_axes), *window = op_attr(op, AT_window);
  char image[MAX_RANK + 1] = "", ones[MAX_RANK + 1] = "", spec[3 * MAX_RANK + 4];
  Reduction r = op_attr(op, AT_op)->u.reduction;
  if (r == RED_MAX) {
    of_maximum(g);
    return;
  }
  if (r != RED_SUM) {
    g->refused = arena_printf(g->b->m->arena, "pool by %s", reduction_name(r));
    return;
  }
  for (int d = 0, i = 0; d < t->rank; d++) {
    bool along = i < axes->n && axes->u.ints[i] == d;
    image[d] = (char)((along ? 'A' : 'a') + d);
    if (along) ones[i++] = image[d];
  }
  snprintf(spec, sizeof spec, "%s,%s->%s", image, ones, image);
  Val weights = build_splat(g->b, type_get(g->b->m, t->dtype, axes->n, window->u.exprs), 1);
  g->of_operands[0] = windowed(g, OP_conv_transpose, g->of_results[0], weights, spec, t);
}
