/* passes/agreed.c - see agreed.h. */
#include "passes/agreed.h"

static bool agreed_op(const Op *op, const bool *agreed) {
  if (op->kind == OP_const || op->kind == OP_size || op->kind == OP_loop) return true; /* rounds are what ranks agree on */
  bool all = op->nin && op->kind != OP_carry && op->kind != OP_leave && op->kind != OP_call && op->kind != OP_result && op->kind != OP_opaque && !op_level2_only(op->kind);
  for (int k = 0; k < op->nin; k++) all &= agreed[op->in[k]];
  return all;
}

const bool *agreed_values(Arena *a, const Func *f) {
  bool *agreed = ARENA_ARRAY(a, bool, f->values.n);
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].out) agreed[f->ops.items[i].out] = agreed_op(&f->ops.items[i], agreed);
  return agreed;
}

Val loop_control(const Op *op) {
  if (op->kind == OP_loop) return op->in[0];
  return op->kind == OP_repeat && op->nin > 1 ? op->in[1] : 0;
}

bool agreement_find(Module *m, const Type *scalar, MoveCost cost, void *context, Conversion *out) {
  Layout partial = {.partial = scalar->dtype == DT_bool ? RED_OR : RED_SUM};
  const Layout *whole = layout_replicated(m, 0);
  for (int a = 0; a < m->mesh.naxes; a++)
    if (!m->mesh.axes[a].temporal) partial.partial_axes |= 1u << a;
  if (!partial.partial_axes) return false;
  const Layout *first = layout_get(m, &partial);
  *out = (Conversion){.n = 2, .moves = {{.kind = MOVE_MASK, .axes = partial.partial_axes, .before = whole, .after = first},
                                        {.kind = MOVE_ALL_REDUCE, .axes = partial.partial_axes, .before = first, .after = whole}}};
  for (int i = 0; i < out->n; i++) out->cost += cost(context, m, scalar, &out->moves[i]);
  return true;
}
