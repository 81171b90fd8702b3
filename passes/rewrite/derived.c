/* passes/rewrite/derived.c - see derived.h. */
#include "passes/rewrite/derived.h"

#include "ir/loops.h"

const bool *derived_ops(Arena *a, const Func *f) {
  bool *derived = ARENA_ARRAY(a, bool, f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    derived[i] = op_is_constant(op->kind);
    bool whole = op_is_call(op->kind) || op_is_loop_part(op->kind); /* a loop is one, whatever it computes */
    if (!op->nin || !op->out || op_level2_only(op->kind) || whole) continue;
    derived[i] = true;
    for (int k = 0; k < op->nin; k++) derived[i] &= derived[f->values.items[op->in[k]].op];
  }
  return derived;
}
