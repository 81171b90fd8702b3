/* driver/products.c - see products.h. */
#include "driver/products.h"

#include "driver/micro_batch.h"
#include "ir/layout/flops.h"
#include "passes/cost/loops.h"
#include "passes/plan/recompute.h"

/* Returns, by operation, whether it counts twice, because it is recomputed.  A layer that is recomputed as a whole
 * counts as a whole, as in published figures, though values that only leave the layer are not recomputed. */
static const bool *counted_again(Arena *a, const Func *f, const Plan *p) {
  const RecomputeChoices *choices = recompute_choices(a, f);
  bool *again = ARENA_ARRAY(a, bool, f->ops.n + 1);
  Recompute r = {RECOMPUTE_auto, 0};
  recompute_parse(p->recompute, &r);
  const int whole = r.kind == RECOMPUTE_full          ? recompute_layers(choices)
                    : r.kind == RECOMPUTE_full_layers ? r.layers
                                                      : 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    int layer = f->ops.items[i].phase == PH_fwd ? recompute_layer_of(choices, i) : -1;
    again[i] = p->strategies[i].again || (layer >= 0 && layer < whole);
  }
  return again;
}

/* The three gradients of attention count as two forward passes, as in published figures, though each of ours computes
 * the scores again. */
static double products_of(Arena *a, CostModel *c, const Func *f, const Rule *const *rules, const Plan *p) {
  const double half = 0.5; /* 4 of the 8 products */
  const LoopCosts *loops = cost_loops(a, c, f, counted_again(a, f, p));
  double sum = 0;
  for (size_t i = 0; i < f->ops.n; i++) {
    OpKind kind = f->ops.items[i].kind;
    if (!op_is_contraction(kind)) continue;
    double flops = cost_op_runs(c, loops, f, i, rules[i], &(Strategy){0}).flops;
    sum += kind == OP_attention_grad ? half * flops : flops;
  }
  return sum;
}

double driver_products(const Build *b) {
  Module *m = b->model.m;
  const Mesh before = m->mesh;
  Arena *a = arena_new();
  module_set_mesh(m, &b->plan->mesh);
  CostModel *c = cost_model_new(m, b->options.target);
  double products = products_of(a, c, b->l1, (const Rule *const *)rules_of(m, b->l1), b->plan);
  cost_model_free(c);
  module_set_mesh(m, &before);
  arena_free(a);
  return products;
}

double driver_model_flops(const Build *b) {
  Arena *a = arena_new();
  const ModelFlops x = flops_of(a, b->model.m, b->l1);
  const double flops = flops_at(&x, planned_sizes(b));
  arena_free(a);
  return flops;
}
