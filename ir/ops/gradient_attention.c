/* ir/ops/gradient_attention.c - derivatives of rope. */
#include "ir/ops/gradient.h"
#include "ir/ops/record.h"

/* A rotation is undone by the opposite angle. */
void gradient_rope(Gradient *g) {
  const Op *op = g->op;
  Val back = build_unary(g->b, OP_neg, op->in[1]);
  g->of_operands[0] = build_op(
      g->b,
      &(OpSpec){
          .kind = OP_rope, .nin = 2, .in = (Val[]){g->of_results[0], back}, .nattrs = op->nattrs, .attrs = op->attrs});
}
