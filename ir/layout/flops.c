/* ir/layout/flops.c - see flops.h. */
#include "ir/layout/flops.h"

#include <math.h>

#include "ir/joint.h"
#include "ir/layout/count.h"
#include "ir/loops.h"

static void add(ModelFlops *x, double times, const Expr *each) {
  int i = 0;
  while (i < x->n && x->items[i].each != each) i++; /* equal expressions are one pointer */
  if (i == x->n) x->items[x->n++] = (FlopTerm){0, each};
  x->items[i].times += times;
}

/* Multiplies by the rounds of all loops around the operation. */
static const Expr *in_all_rounds(Module *m, const Func *f, const Loops *l, int loop, const Expr *each) {
  for (; loop >= 0; loop = l->items[loop].parent) {
    const Expr *rounds = loops_rounds(m, f, &l->items[loop]);
    if (rounds) each = ex_mul(m, each, rounds);
  }
  return each;
}

ModelFlops flops_of(Arena *a, Module *m, const Func *f) {
  const Loops loops = loops_of(a, f);
  const char *fault = m->expr_fault;
  ModelFlops x = {0, ARENA_ARRAY(a, FlopTerm, f->ops.n)};
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (!op_is_contraction(op->kind)) continue;
    const int64_t each = op->kind == OP_attention_grad ? 1 : 2; /* 4 of the 8 products of the three */
    const Expr *once = ex_muli(m, op_multiply_adds(m, op, rule_of(m, f, op)), each);
    add(&x, joint_weight(f, i), in_all_rounds(m, f, &loops, loops.of[i], once));
  }
  if (m->expr_fault == fault) return x;
  m->expr_fault = fault;
  return (ModelFlops){0};
}

double flops_at(const ModelFlops *x, const int64_t *symbol_values) {
  double sum = 0;
  for (int i = 0; i < x->n; i++) {
    int64_t each;
    sum += ex_eval(x->items[i].each, symbol_values, &each) ? x->items[i].times * (double)each : NAN;
  }
  return sum;
}
