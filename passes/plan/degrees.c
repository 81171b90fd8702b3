/* passes/plan/degrees.c - see degrees.h. */
#include "passes/plan/degrees.h"

#include "ir/schedule.h"

const char *const degree_names[DEGREE_COUNT] = {
#define DEGREE(name, place, label, help) [DEGREE_##name] = #name,
#include "passes/plan/degrees.def"
#undef DEGREE
};

const Label degree_labels[DEGREE_COUNT] = {
#define DEGREE(name, place, label, help) [DEGREE_##name] = LABEL_##label,
#include "passes/plan/degrees.def"
#undef DEGREE
};

const Degree degrees_listed[DEGREE_COUNT] = {
#define DEGREE(name, place, label, help) DEGREE_##name,
#include "passes/plan/degrees.def"
#undef DEGREE
};

/* Checks that every place is taken once. */
#define DEGREE(name, place, label, help) +(1u << (place))
_Static_assert(0
#include "passes/plan/degrees.def"
                   == (1u << DEGREE_COUNT) - 1,
               "the places of degrees.def are 0 to DEGREE_COUNT - 1");
#undef DEGREE

/* A product of an update, as Muon's, has no data, so it says nothing about the degrees. */
static bool product_of_model(const Op *op) { return op_is_contraction(op->kind) && op->phase != PH_step; }

Shares shares_of(CostModel *cost, const Func *f, const Rule *const *rules, const OpLabels *labels,
                 const Strategy *strategies) {
  Shares x = {0};
  bool contractions = false;
  Arena *scratch = arena_new();
  const LoopCosts *loops = cost_loops(scratch, cost, f, NULL);
  for (size_t i = 0; i < f->ops.n; i++) contractions |= product_of_model(&f->ops.items[i]);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    if (op_is_source(op->kind)) continue;
    bool decides = !contractions || product_of_model(op);
    double flops = cost_op_runs(cost, loops, f, i, rules[i], &(Strategy){0}).flops;
    if (decides) x.all += flops;
    if (decides && labels_include(&labels[i], rules[i], LABEL_EXPERT)) x.of_experts += flops;
    for (int j = 0; j < strategies[i].n; j++) {
      Pick p = strategies[i].picks[j];
      (decides ? x.by_label : x.minor)[p.axis][labels[i].factors[p.factor]] += flops;
    }
  }
  arena_free(scratch);
  return x;
}

static int most_of(const double by_label[LABEL_COUNT]) {
  int best = -1;
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++) {
    double v = by_label[degree_labels[d]];
    if (v > 0 && (best < 0 || v > by_label[degree_labels[best]])) best = d;
  }
  return best;
}

double share_of(const Shares *x, int axis, Degree d) {
  double whole = d == DEGREE_ep ? x->of_experts : x->all;
  return whole > 0 ? x->by_label[axis][degree_labels[d]] / whole : 0;
}

int main_degree(const Shares *x, int axis) {
  if (share_of(x, axis, DEGREE_ep) >= 0.5) return DEGREE_ep;
  int best = most_of(x->by_label[axis]);
  return best >= 0 ? best : most_of(x->minor[axis]);
}

void degrees_of(const Mesh *mesh, const Shares *x, int degrees[DEGREE_COUNT]) {
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++) degrees[d] = 1;
  degrees[DEGREE_pp] = mesh_places(mesh);
  for (int i = 0; i < mesh->naxes; i++) {
    int d = mesh->axes[i].temporal ? -1 : main_degree(x, i);
    if (d >= 0) degrees[d] *= mesh->axes[i].size;
  }
}
