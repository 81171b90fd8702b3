/* passes/facts/derived.c - see derived.h. */
#include "passes/facts/derived.h"

#include "ir/loops.h"

/* Marks operations computed only from sources for which `source` is true. */
static bool *made_of(Arena *a, const Func *f, bool (*source)(const Func *f, const Op *op)) {
  bool *made = ARENA_ARRAY(a, bool, f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    made[i] = source(f, op);
    bool whole = op_is_call(op->kind) || op_is_loop_part(op->kind) ||
                 op->kind == OP_bind; /* loops count as a whole, whatever they compute */
    if (!op->nin || !op->out || op_level2_only(op->kind) || whole || op->kind == OP_accumulate) continue;
    made[i] = true;
    for (int k = 0; k < op->nin; k++) made[i] &= made[f->values.items[op->in[k]].op];
  }
  return made;
}

static bool trains(const Func *f) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].phase == PH_step || f->ops.items[i].kind == OP_accumulate) return true;
  return false;
}

static bool is_any(const Func *f, const Op *op) { return (void)f, op_is_source(op->kind); }
static bool is_constant(const Func *f, const Op *op) { return (void)f, op_is_constant(op->kind); }
/* True for constants and for scalar inputs of a step; values computed from these are as cheap as constants. */
static bool is_number(const Func *f, const Op *op) {
  return is_constant(f, op) || (op->kind == OP_input && !type_of(f, op->out)->rank);
}

const bool *derived_ops(Arena *a, const Func *f) {
  bool *constant = made_of(a, f, is_constant), *number = trains(f) ? made_of(a, f, is_number) : NULL;
  for (size_t i = 0; number && i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    constant[i] |= number[i] && op->kind != OP_input && op->out && !type_of(f, op->out)->rank;
  }
  return constant;
}

const bool *once_ops(Arena *a, const Func *f) {
  if (!trains(f)) return derived_ops(a, f);
  bool *once = made_of(a, f, is_any);
  for (size_t i = 0; i < f->ops.n; i++) once[i] |= f->ops.items[i].phase == PH_pre;
  return once;
}
