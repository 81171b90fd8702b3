/* ir/ops/gradient_attention.c - derivatives of rope and attention. */
#include <string.h>

#include "ir/ops/gradient.h"
#include "ir/ops/record.h"

/* The opposite angle undoes a rotation. */
void gradient_rope(Gradient *g) {
  const Op *op = g->op;
  Val back = build_unary(g->b, OP_neg, op->in[1]);
  g->of_operands[0] = build_op(
      g->b,
      &(OpSpec){
          .kind = OP_rope, .nin = 2, .in = (Val[]){g->of_results[0], back}, .nattrs = op->nattrs, .attrs = op->attrs});
}

/* Uses the result, and the largest score and the sum of each query, so that nothing is normalised again (D48); training
 * requests these. */
void gradient_attention(Gradient *g) {
  static const char *const of[] = {"q", "k", "v"};
  const Op *op = g->op;
  Val in[MAX_OPERANDS];
  bool rows = gradient_type(g, op->in[3])->rank + gradient_type(g, op->in[4])->rank > 2 ||
              gradient_type(g, op->in[5])->rank > 0;
  bool of_sums = op->nout > 1 && (g->of_results[1] || g->of_results[2]);
  if (op->nout < 2 || of_sums || rows || (op->nin > 6 && g->wanted[6])) {
    g->refused = op->nout < 2 ? "attention without sums"
                 : of_sums    ? "the sums of an attention"
                 : rows       ? "an attention with positions or lengths per row"
                              : "the bias of an attention";
    return;
  }
  memcpy(in, op->in, sizeof *in * (size_t)op->nin);
  for (int i = 0; i < op->nout; i++) in[op->nin + i] = op->out + (Val)i;
  in[op->nin + op->nout] = g->of_results[0];
  for (int i = 0; i < 3; i++) {
    Attr attrs[8];
    int n = 0;
    for (int k = 0; k < op->nattrs; k++)
      if (op->attrs[k].key != AT_sums) attrs[n++] = op->attrs[k];
    attrs[n++] = attr_s(g->b->m, AT_of, of[i]);
    if (g->wanted[i])
      g->of_operands[i] = build_op(
          g->b,
          &(OpSpec){.kind = OP_attention_grad, .nin = op->nin + op->nout + 1, .in = in, .nattrs = n, .attrs = attrs});
  }
}
