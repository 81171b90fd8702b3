/* passes/facts/fixed.c - see fixed.h. */
#include "passes/facts/fixed.h"

#include "ir/loops.h"

static bool constant_type(const Type *t) {
  int64_t dims[MAX_RANK];
  return type_constant_dims(t, dims);
}

static bool constant_attrs(const Op *op) {
  int64_t ignored;
  for (int i = 0; i < op->nattrs; i++) {
    const Attr *a = &op->attrs[i];
    if (attr_kind(a->key) == AK_EXPR && !ex_get_const(a->u.e, &ignored)) return false;
    for (int k = 0; attr_kind(a->key) == AK_EXPRS && k < a->n; k++)
      if (!ex_get_const(a->u.exprs[k], &ignored)) return false;
  }
  return true;
}

static Fixed fixed_op(const Op *op, const Type *type, const Fixed *values) {
  if (!constant_type(type) || !constant_attrs(op)) return FIXED_NOT;
  if (op->kind == OP_param) return FIXED_WEIGHT;
  if (op_is_constant(op->kind)) return FIXED_CONSTANT;
  if (!op->nin || op_is_call(op->kind) || op->kind == OP_opaque || op_is_loop_part(op->kind) ||
      op_level2_only(op->kind))
    return FIXED_NOT;
  Fixed most = FIXED_CONSTANT;
  for (int i = 0; i < op->nin; i++) {
    Fixed x = values[op->in[i]];
    if (x == FIXED_NOT) return FIXED_NOT;
    if (x > most) most = x;
  }
  return most == FIXED_WEIGHT && !op_is_view(op->kind) ? FIXED_WORK : most;
}

const Fixed *fixed_values(Arena *a, const Func *f) {
  Fixed *values = ARENA_ARRAY(a, Fixed, f->values.n);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    for (Val v = op->out; v < op_end(op); v++) values[v] = fixed_op(op, type_of(f, v), values);
  }
  return values;
}
