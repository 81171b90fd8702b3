/* frontend/loop_build.c - see loop_build.h. */
#include "frontend/loop_build.h"

#include "frontend/known.h"
#include "ir/index_bound.h"

/* Derives an upper bound of an i64 scalar from the operations that compute it; NULL if there is none. */
static const Expr *bound_of(Module *m, const Func *f, Val v, int depth) {
  const Op *op = op_of(f, v);
  const Expr *e = uniform_integer(m, f, v), *x, *y;
  if (e || depth > 16) return e;
  switch (op->kind) {
    case OP_loop: return op_expr(op, AT_trips);
    case OP_reshape:
    case OP_copy: return bound_of(m, f, op->in[0], depth + 1);
    case OP_min:
      x = bound_of(m, f, op->in[0], depth + 1), y = bound_of(m, f, op->in[1], depth + 1);
      return x && y ? ex_min(m, x, y) : x ? x : y;
    case OP_select:
      x = bound_of(m, f, op->in[1], depth + 1), y = bound_of(m, f, op->in[2], depth + 1);
      return x && y ? ex_max(m, x, y) : NULL;
    default: return NULL;
  }
}

LoopBuild frontend_loop_open(Builder *b, Val rounds, const Expr *trips) {
  LoopBuild l = {.b = b, .at = b->f->ops.n};
  if (!trips && rounds) trips = bound_of(b->m, b->f, rounds, 0);
  int64_t most;
  if (trips && known_bounds(b->m, trips).low < 0) trips = ex_max(b->m, trips, ex_const(b->m, 0));
  if (trips && ex_get_const(trips, &most) && most >= LOOP_ENDLESS) trips = NULL;
  l.round = build_loop(b, rounds, trips);
  return l;
}

static Val add_carry(LoopBuild *l, Val initial) {
  Val v = build_carry(l->b, initial);
  if (v) ARENA_PUSH(l->b->m->arena, &l->carries, (LoopCarry){.value = v});
  return v;
}

Val frontend_loop_carry(LoopBuild *l, Val initial) { return add_carry(l, initial); }

Val frontend_loop_collect(LoopBuild *l, const Type *type) {
  Func *f = l->b->f;
  size_t zeros = f->ops.n;
  Val initial = build_splat(l->b, type, 0);
  if (!initial) return 0;
  size_t n = f->ops.n - zeros;
  func_move_ops(f, zeros, l->at);
  l->at += n;
  size_t carry = f->ops.n;
  Val v = add_carry(l, initial);
  if (v) func_move_ops(f, carry, l->at + l->carries.n); /* after the loop and its earlier carries */
  return v;
}

bool frontend_loop_close(LoopBuild *l, Val again) {
  build_repeat(l->b, l->round, again);
  for (size_t i = 0; i < l->carries.n; i++) {
    LoopCarry *c = &l->carries.items[i];
    if (!(c->last = build_leave(l->b, c->value, c->next))) return false;
  }
  return true;
}

Val frontend_loop_write_row(Builder *b, Val x, Val row, Val at, int axis) {
  if (!x || !row || !at) return 0;
  const Type *t = type_of(b->f, row);
  const Expr *dims[MAX_RANK];
  for (int d = 0, from = 0; d <= t->rank; d++) dims[d] = d == axis ? ex_const(b->m, 1) : t->dims[from++];
  Val in[] = {x, build_reshape(b, row, t->rank + 1, dims), at};
  Attr a[2] = {attr_i(AT_axis, axis), attr_e(AT_start, ex_const(b->m, 0))};
  return build_op(b, &(OpSpec){.kind = OP_update, .nin = 3, .in = in, .nattrs = 2, .attrs = a});
}
