/* passes/cost/loops.c - see loops.h. */
#include "passes/cost/loops.h"

#include "passes/cost/model.h"
#include "passes/facts/agreed.h"

/* A loop without rounds is planned as one round. */
static double rounds_of(const CostModel *c, const Func *f, const Loop *l) {
  const Expr *e = loops_rounds(c->m, f, l);
  const int64_t n = e ? cost_extent(c, e) : 1;
  return n > 1 ? (double)n : 1;
}

const LoopCosts *cost_loops(Arena *a, const CostModel *c, const Func *f, const bool *again) {
  LoopCosts *l = ARENA_NEW(a, LoopCosts);
  l->f = f;
  l->loops = loops_of(a, f);
  double *rounds = ARENA_ARRAY(a, double, l->loops.n);
  for (int i = 0; i < l->loops.n; i++) {
    int parent = l->loops.items[i].parent;
    rounds[i] = rounds_of(c, f, &l->loops.items[i]) * (parent < 0 ? 1 : rounds[parent]);
  }
  l->rounds = rounds;
  l->agreed = agreed_values(a, f);
  l->again = again;
  return l;
}

int cost_loop_of_value(const Loops *l, const Func *f, Val v) {
  size_t op = (size_t)f->values.items[v].op;
  return op_is_source(f->ops.items[op].kind) ? -1 : l->of[op];
}

double runs_in_loop(const LoopCosts *l, int loop) { return loop < 0 ? 1 : l->rounds[loop]; }

double runs_of_op(const LoopCosts *l, size_t op) {
  int loop = l->loops.of[op], times = l->again && l->again[op] ? 2 : 1;
  if (loop >= 0 && l->loops.items[loop].begin == op) loop = l->loops.items[loop].parent;
  return joint_weight(l->f, op) * times * runs_in_loop(l, loop);
}

double runs_of_result(const LoopCosts *l, const Func *f, size_t op) {
  Val v = f->ops.items[op].out;
  return joint_weight(f, op) * (v ? runs_in_loop(l, cost_loop_of_value(&l->loops, f, v)) : 1);
}

OpCost cost_op_runs(CostModel *c, const LoopCosts *l, const Func *f, size_t index, const Rule *r, const Strategy *s) {
  const Op *op = &f->ops.items[index];
  OpCost cost = cost_op(c, f, op, r, s);
  Val control = agreed_loop_control(op);
  double runs = runs_of_op(l, index);
  double agreement = control && !l->agreed[control] ? cost_agreement(c, type_of(f, control)) : 0;
  cost.seconds = (cost.seconds + agreement) * runs;
  cost.communication = (cost.communication + agreement) * runs;
  cost.flops *= runs;
  return cost;
}
