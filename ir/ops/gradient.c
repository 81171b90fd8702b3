/* ir/ops/gradient.c - see ir/gradient.h and ir/ops/gradient.h. */
#include "ir/ops/gradient.h"

#include "ir/ops/record.h"

bool gradient_known(OpKind k) { return op_record(k)->gradient != NULL; }

bool gradient_build(Gradient *g) {
  size_t errors = g->b->diags->errors;
  if (!op_record(g->op->kind)->gradient)
    g->refused = g->op->kind == OP_opaque ? op_str(g->op, AT_kind) : op_name(g->op->kind);
  else op_record(g->op->kind)->gradient(g);
  return g->b->diags->errors == errors;
}

Val gradient_of_broadcast(Builder *b, Val of_result, const Type *from, int n, const int64_t *dims) {
  if (!of_result) return 0;
  const Type *to = type_of(b->f, of_result);
  int axes[MAX_RANK], naxes = 0;
  for (int d = 0, i = 0; d < to->rank; d++) {
    bool mapped = i < n && dims[i] == d;
    if (!mapped || from->dims[i] != to->dims[d]) axes[naxes++] = d;
    i += mapped;
  }
  Val sum = naxes ? build_reduce(b, RED_SUM, of_result, naxes, axes) : of_result;
  return build_reshape(b, sum, from->rank, from->dims);
}

Val gradient_where(const Gradient *g, Val condition, Val x, Val y) {
  Val other = y ? y : gradient_number(g, x, 0);
  return build_op(g->b, &(OpSpec){.kind = OP_select, .nin = 3, .in = (Val[]){condition, x, other}});
}

Val gradient_sum(const Gradient *g, Val x, int axis) { return build_reduce(g->b, RED_SUM, x, 1, &axis); }
Val gradient_back(const Gradient *g, Val sum, Val like, int axis) { return build_keepdims(g->b, sum, like, 1, &axis); }
