/* codegen/rows/work_grouped.c - a grouped_mlp becomes grouped_dots with the function between them, which fuses into one
 * loop.
 *
 * Rows of no group on this rank go through the function too: it maps zeros to zeros, and their number is only known at
 * run time.
 */
#include <string.h>

#include "codegen/rows/row_work.h"

typedef struct Mlp {
  Work *w;
  int origin;
  const Op *op;
} Mlp;

static Val step(Mlp *k, OpKind kind, int nin, const Val *in, const Type *type, int nattrs, const Attr *attrs,
                WorkClass class, Val out) {
  Op op = {.kind = kind, .nin = nin, .in = in, .out = out, .nattrs = nattrs, .attrs = attrs};
  return work_step(k->w, k->op, k->origin, &op, type, class);
}

static Val product(Mlp *k, Val x, Val w, const Type *type, Val out) {
  const Attr *start = op_attr(k->op, AT_start);
  return step(k, OP_grouped_dot, 3, (Val[]){x, k->op->in[1], w}, type, 1, start, WC_TEMPLATE, out);
}

void work_add_grouped_mlp(Work *w, const Op *op, int origin) {
  Mlp k = {w, origin, op};
  const Type *x = work_type(w, op->in[0]), *gate = work_type(w, op->in[2]);
  const Expr *dims[MAX_RANK];
  for (int d = 0; d < x->rank; d++) dims[d] = d < x->rank - 1 ? x->dims[d] : gate->dims[2];
  const Type *hidden = type_get(w->m, x->dtype, x->rank, dims);
  Val g = product(&k, op->in[0], op->in[2], hidden, 0), u = product(&k, op->in[0], op->in[3], hidden, 0), h;
  if (strcmp(op_str(op, AT_kind), "silu") == 0) {
    Val s = step(&k, OP_sigmoid, 1, &g, hidden, 0, NULL, WC_MAP, 0);
    h = step(&k, OP_mul, 2, (Val[]){g, s}, hidden, 0, NULL, WC_MAP, 0);
  } else {
    h = step(&k, OP_relu, 1, &g, hidden, 0, NULL, WC_MAP, 0);
  }
  h = step(&k, OP_mul, 2, (Val[]){h, u}, hidden, 0, NULL, WC_MAP, 0);
  product(&k, h, op->in[4], NULL, op->out);
}
