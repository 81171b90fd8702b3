/* passes/facts/agreed.c - see agreed.h. */
#include "passes/facts/agreed.h"

static bool agreed_source(const Func *f, const Op *op) {
  if (op->kind == OP_input || op->kind == OP_param) return !dtype_is_float(type_of(f, op->out)->dtype);
  return op_is_constant(op->kind);
}

/* A library may add the terms of a product in an order that depends on the rank. */
static bool is_float_contraction(const Func *f, const Op *op) {
  return op_has_library_sums(op->kind) && dtype_is_float(type_of(f, op->out)->dtype);
}

static bool agreed_op(const Func *f, const Op *op, const bool *agreed) {
  if (op->kind == OP_loop || op->kind == OP_bind) return true; /* the round, or the size, on which ranks agree */
  if (!op->nin) return agreed_source(f, op);
  bool all = !op_is_call(op->kind) && op->kind != OP_opaque && !is_float_contraction(f, op);
  for (int k = 0; k < op->nin; k++) all &= agreed[op->in[k]];
  return all;
}

const bool *agreed_values(Arena *a, const Func *f) {
  bool *agreed = ARENA_ARRAY(a, bool, f->values.n), *not_carried = ARENA_ARRAY(a, bool, f->values.n);
  for (bool changed = true; changed;) { /* a carry counts as agreed until its leave proves otherwise */
    changed = false;
    for (size_t i = 0; i < f->ops.n; i++) {
      const Op *op = &f->ops.items[i];
      for (Val v = op->out; v < op_end(op); v++) agreed[v] = !not_carried[v] && agreed_op(f, op, agreed);
      if (op->kind != OP_leave || agreed[op->in[1]] || not_carried[op->in[0]]) continue;
      not_carried[op->in[0]] = changed = true;
    }
  }
  return agreed;
}

Val agreed_loop_control(const Op *op) {
  if (op->kind == OP_loop) return op->in[0];
  if (op->kind == OP_bind) return op->in[0];
  return op->kind == OP_repeat && op->nin > 1 ? op->in[1] : 0;
}

bool agreement_find(Module *m, const Type *scalar, MoveCost cost, void *context, Conversion *out) {
  Layout partial = {.partial = scalar->dtype == DT_bool ? RED_OR : RED_SUM};
  const Layout *whole = layout_replicated(m, 0);
  for (int a = 0; a < m->mesh.naxes; a++)
    if (!m->mesh.axes[a].temporal) partial.partial_axes |= 1u << a;
  if (!partial.partial_axes) return false;
  const Layout *first = layout_get(m, &partial);
  *out =
      (Conversion){.n = 2,
                   .moves = {{.kind = MOVE_MASK, .axes = partial.partial_axes, .before = whole, .after = first},
                             {.kind = MOVE_ALL_REDUCE, .axes = partial.partial_axes, .before = first, .after = whole}}};
  for (int i = 0; i < out->n; i++) out->cost += cost(context, m, scalar, &out->moves[i]);
  return true;
}
