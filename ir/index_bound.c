/* ir/index_bound.c - see index_bound.h. */
#include "ir/index_bound.h"

static bool is_integer(const Type *t) { return dtype_class(t->dtype) == DTC_I || dtype_class(t->dtype) == DTC_U; }

static bool any_operand(const Op *op, const bool *from) {
  for (int i = 0; i < op->nin; i++)
    if (from[op->in[i]]) return true;
  return false;
}

/* The extent operand 1 of the operation indexes, NULL for operations that index nothing. */
static const Expr *indexed_extent(const Func *f, const Op *op) {
  if (op->kind == OP_gather) return type_of(f, op->in[0])->dims[op_int(op, AT_axis, 0)];
  if (op->kind == OP_cross_entropy) {
    const Type *t = type_of(f, op->in[0]);
    return t->dims[t->rank - 1];
  }
  return NULL;
}

const Expr *index_bound(Module *m, const Func *f, Val v) {
  bool *from = ARENA_ARRAY(m->arena, bool, f->values.n);
  const Expr *bound = NULL;
  from[v] = true;
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const Expr *extent = indexed_extent(f, op);
    if (extent && from[op->in[1]]) bound = bound ? ex_min(m, bound, extent) : extent;
    bool index_only = extent && !from[op->in[0]];
    if (op->out && !index_only && is_integer(type_of(f, op->out)) && any_operand(op, from)) from[op->out] = true;
  }
  return bound;
}
