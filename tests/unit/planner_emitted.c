/* What a plan is predicted to cost is the sum of what is emitted for it: random graphs with fan-out, loops, composites,
 * windows, weights and states, random legal strategies and stages, meshes with several axes, stages and micro-batches,
 * targets of one tier and of several.  What the search counts for a stage before it knows the others is held against
 * the same predictions.
 *
 * usage: test_planner_emitted [first seed [count]].  A failure prints its seed.
 */
#include "tests/emitted.h"

#include "frontend/topo/target.h"
#include "passes/search/stage.h"
#include "tests/random_graph.h"

/* ---- weights and states, which random_graph.h does not make */

static const Type *constant_type(Making *k) {
  int64_t dims[MAX_RANK];
  const Type *t = type(k, any(k));
  return type_constant_dims(t, dims) ? t : NULL;
}

/* A weight of its own, or one that is read already. */
static Val make_weight(Making *k) {
  const Type *t = constant_type(k);
  if (!t) return 0;
  for (size_t i = 0; i < k->m->params.n && below(k->r, 2); i++)
    if (k->m->params.items[i].type == t) return build_param(&k->b, k->m->params.items[i].name);
  const char *name = arena_printf(k->m->arena, "w%zu", k->m->params.n);
  module_param_add(k->m, name, t);
  return build_param(&k->b, name);
}

static Val state_op(Making *k, OpKind kind, const char *name, const Type *t, Val v) {
  Attr a = attr_s(k->m, AT_name, name);
  return build_op(&k->b,
                  &(OpSpec){.kind = kind, .name = name, .nin = v != 0, .in = &v, .nattrs = 1, .attrs = &a, .type = t});
}

/* Read, once or twice, written, or both. */
static Val make_state(Making *k) {
  const Type *t = constant_type(k);
  if (!t || k->nopen) return 0;
  const char *name = arena_printf(k->m->arena, "s%zu", k->m->states.n);
  module_state_add(k->m, name, t, 0);
  int how = below(k->r, 4);
  Val v = of_type(k, k->pool, k->n, t);
  if (op_is_source(op_of(k->b.f, v)->kind)) v = build_unary(&k->b, OP_tanh, v);
  if (how) {
    Val held = state_op(k, OP_read, name, t, 0);
    if (how == 1) held = build_binary(&k->b, OP_mul, held, state_op(k, OP_read, name, t, 0));
    v = build_binary(&k->b, OP_add, held, v);
    if (below(k->r, 2)) k->pool[k->n++] = held;
  }
  if (how != 2) state_op(k, OP_write, name, NULL, v);
  return v;
}

/* Attention, whose decomposition is large. */
static Val make_attention(Making *k) {
  const Expr *b = any_extent(k), *h = any_extent(k), *g = any_extent(k), *s = any_extent(k), *t = any_extent(k),
             *e = any_extent(k);
  Val q = operand(k, 5, (const Expr *[]){b, h, g, s, e}), key = operand(k, 4, (const Expr *[]){b, h, t, e});
  Val value = operand(k, 4, (const Expr *[]){b, h, t, e});
  const Type *pos = type_get(k->m, DT_i64, 1, &s), *scalar = type_get(k->m, DT_i64, 0, NULL);
  Val at = build_iota(&k->b, pos, 0), keys = build_iota(&k->b, type_get(k->m, DT_i64, 1, &t), 0),
      length = build_size(&k->b, scalar, t);
  Attr a[] = {attr_i(AT_causal, below(k->r, 2)), attr_f(AT_scale, 0.5)};
  Val y = build_op(
      &k->b,
      &(OpSpec){
          .kind = OP_attention, .nin = 6, .in = (Val[]){q, key, value, at, keys, length}, .nattrs = 2, .attrs = a});
  const Expr *dims[] = {b, h, g, ex_mul(k->m, s, e)};
  return y ? build_op(&k->b, &(OpSpec){.kind = OP_reshape, .nin = 1, .in = &y, .type = type_get(k->m, DT_f64, 4, dims)})
           : 0;
}

/* What every stage computes for itself. */
static Val make_derived(Making *k) {
  const Type *t = type(k, any(k));
  Val v = t->rank && below(k->r, 2) ? build_iota(&k->b, t, below(k->r, t->rank)) : build_splat(&k->b, t, 0.5);
  return build_unary(&k->b, OP_tanh, build_unary(&k->b, OP_sin, v));
}

static Val make_further(Making *k) {
  switch (below(k->r, 8)) {
    case 0: return make_state(k);
    case 1:
    case 2: return make_weight(k);
    case 3: return make_attention(k);
    case 4: return make_derived(k);
    default: return 0;
  }
}

static Func *make_function(Module *m, Random *r, Diags *diags) {
  static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 12};
  GraphShape shape = {.least = 10, .most = 26, .loops = r->seed % 2, .further = make_further};
  for (int i = 0; i < 4; i++) shape.extents[i] = ex_const(m, sizes[below(r, 9)]);
  int symbol = module_symbol(m, "n");
  m->symbols.items[symbol].hint = 1 + below(r, 12);
  shape.extents[4] = ex_sym(m, symbol);
  Func *f = make_graph(m, r, &shape, diags);
  /* Names by which emitted operations are found. */
  for (size_t i = 0; i < f->ops.n; i++) f->ops.items[i].name = arena_printf(m->arena, "op%zu", i);
  return f;
}

/* ---- a plan at random */

/* Loops, and all from the read of a state to its write, lie in one stage. */
static bool *tied_to_previous(const Func *f, Arena *arena) {
  bool *tied = ARENA_ARRAY(arena, bool, f->ops.n);
  Loops loops = loops_of(arena, f);
  for (int i = 0; i < loops.n; i++)
    for (size_t j = loops.items[i].begin + 1; j < loops.items[i].end; j++) tied[j] = true;
  for (size_t i = 0; i < f->ops.n; i++)
    for (size_t j = 0; j < i; j++) {
      const Op *a = &f->ops.items[j], *b = &f->ops.items[i];
      if (!op_is_state(a->kind) || !op_is_state(b->kind) || strcmp(op_str(a, AT_name), op_str(b, AT_name)) != 0)
        continue;
      for (size_t n = j + 1; n <= i; n++) tied[n] = true;
    }
  return tied;
}

/* Micro-batches are not gathered: nothing may want whole what is cut over them. */
static bool can_be_made(CostModel *cost, Module *m, const Func *f, size_t op, const Strategy *strategies) {
  const Rule *r = rule_of(m, f, &f->ops.items[op]);
  for (int i = 0; i < f->ops.items[op].nin; i++) {
    Val v = f->ops.items[op].in[i];
    size_t made = (size_t)f->values.items[v].op;
    const Layout *from = strategy_result(m, rule_of(m, f, &f->ops.items[made]), &strategies[made], 0);
    if (op_is_anywhere(&f->ops.items[made])) continue;
    if (isinf(cost_convert(cost, type_of(f, v), from, strategy_operand(m, r, &strategies[op], i)))) return false;
  }
  return true;
}

static bool drop_time(const Module *m, Strategy *s) {
  int kept = 0;
  for (int i = 0; i < s->n; i++)
    if (!m->mesh.axes[s->picks[i].axis].temporal) s->picks[kept++] = s->picks[i];
  bool any = kept < s->n;
  s->n = kept;
  return any;
}

/* Takes micro-batches back where something wants the whole, until nothing does. */
static void mend(CostModel *cost, Module *m, const Func *f, Strategy *strategies) {
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = 0; i < f->ops.n; i++) {
      const Op *op = &f->ops.items[i];
      if (op->kind == OP_leave) {
        Strategy *carry = &strategies[f->values.items[op->in[0]].op];
        if (!can_be_made(cost, m, f, i, strategies)) changed |= drop_time(m, carry);
        strategies[i] = *carry;
      }
      if (can_be_made(cost, m, f, i, strategies)) continue;
      changed |= drop_time(m, &strategies[i]);
      for (int k = 0; k < op->nin; k++) changed |= drop_time(m, &strategies[f->values.items[op->in[k]].op]);
    }
  }
}

/* As it comes, or so that it can be made. */
static LowerPlan make_plan(CostModel *cost, Module *m, const Func *f, Random *r, Arena *arena) {
  Strategy *strategies = ARENA_ARRAY(arena, Strategy, f->ops.n);
  int *stages = ARENA_ARRAY(arena, int, f->ops.n), stage = 0;
  const bool *tied = tied_to_previous(f, arena);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const Strategy *all;
    int n = strategy_enumerate(m, rule_of(m, f, op), true, &all);
    for (int tries = 0; tries < 20; tries++) {
      strategies[i] = all[below(r, n)];
      if (can_be_made(cost, m, f, i, strategies)) break;
    }
    if (op->kind == OP_leave) strategies[i] = strategies[f->values.items[op->in[0]].op];
    if (!tied[i] && stage + 1 < m->mesh.stages && below(r, (int)f->ops.n / m->mesh.stages + 1) == 0) stage++;
    stages[i] = stage;
  }
  if (below(r, 8)) mend(cost, m, f, strategies);
  return (LowerPlan){.strategies = strategies, .stages = stages};
}

/* ---- the check */

static long lowered, refused, timed, cuts_compared, drawn[OP_COUNT];

/* Whether something is cut into micro-batches. */
static bool is_timed(const Module *m, const Strategy *s, size_t n) {
  bool any = false;
  for (size_t i = 0; i < n; i++)
    for (int k = 0; k < s[i].n; k++) any |= m->mesh.axes[s[i].picks[k].axis].temporal;
  return any;
}

static void check_plan(Module *m, const Func *f, const LowerPlan *drawn_plan, const Target *t, const char *what,
                       Arena *arena) {
  Diags *diags = diags_new(arena);
  CostModel *cost = cost_model_new(m, t);
  LowerPlan p = *drawn_plan;
  p.cost = cost_move;
  p.cost_context = cost;
  const Func *l2 = lower_spmd(m, f, &p, "rank", diags);
  const char *why = NULL;
  if (l2) {
    why = emitted_differs(m, f, &p, t, l2, arena);
    for (size_t i = 0; i < l2->ops.n; i++) drawn[l2->ops.items[i].kind]++;
    lowered++;
    timed += is_timed(m, p.strategies, f->ops.n);
  } else { /* micro-batches are never gathered: a plan that asks for it has no price */
    bool gap = diags->n && diags->items[0].code == DIAG_plan_conversion;
    const Rule *const *rules = (const Rule *const *)rules_of(m, f);
    if (!gap) why = diags->n ? diags->items[0].message : "not lowered";
    else if (cost_plan(cost, m, f, rules, p.strategies, p.stages).possible) why = "it is not lowered, but has a price";
    refused++;
  }
  CHECKF(!why, "%s: %s", what, why);
  cost_model_free(cost);
}

/* ---- stages as the search counts them, before it knows where they end */

static double sum_of(const double *x, int n) {
  double sum = 0;
  for (int i = 0; i < n; i++) sum += x[i];
  return sum;
}

/* With whole values nothing is converted, and every stage takes what it is predicted to.  Otherwise all together take
 * no less, as a stage pays for what is converted before it is sent to it. */
static void check_cuts(Module *m, const Func *f, const Strategy *drawn_strategies, const Target *t, Random *r,
                       const char *what, Arena *arena) {
  const bool *tied = tied_to_previous(f, arena);
  const Rule *const *rules = (const Rule *const *)rules_of(m, f);
  int *stages = ARENA_ARRAY(arena, int, f->ops.n), n = m->mesh.stages, found = 1;
  size_t cuts[MOST_STAGES] = {0};
  for (size_t i = 1; i < f->ops.n && found < n; i++)
    if (!tied[i] && below(r, (int)f->ops.n / n + 1) == 0) cuts[found++] = i;
  if (found < n) return;
  stages_place(f, n, cuts, stages);
  for (int whole = 0; whole < 2; whole++) {
    const Strategy *strategies = whole ? ARENA_ARRAY(arena, Strategy, f->ops.n) : drawn_strategies;
    CostModel *cost = cost_model_new(m, t);
    StageCost priced[MOST_STAGES] = {{0}};
    double counted[MOST_STAGES], each[MOST_STAGES], sum;
    bool possible = cost_plan_stages(cost, m, f, rules, strategies, stages, priced, NULL).possible;
    stages_seconds(cost, m, f, rules, strategies, n, cuts, counted);
    for (int s = 0; s < n; s++) each[s] = priced[s].each;
    cost_model_free(cost);
    sum = sum_of(counted, n);
    if (!possible || isinf(sum)) continue;
    cuts_compared++;
    CHECKF(sum >= sum_of(each, n) * (1 - 1e-9), "%s: stages count %.12g together, predicted %.12g", what, sum,
           sum_of(each, n));
    for (int s = 0; s < n && (whole || n == 1); s++)
      CHECKF(emitted_equal(counted[s], each[s]), "%s: stage %d counts %.12g, predicted %.12g", what, s, counted[s],
             each[s]);
  }
}

static const char *const meshes[] = {"[a=2]",
                                     "[a=4]",
                                     "[a=2, b=2]",
                                     "[a=2, b=3]",
                                     "[a=2, b=2, c=2]",
                                     "[a=2] stages 2",
                                     "[a=3] stages 3",
                                     "[a=2, b=2] stages 2",
                                     "[a=2] stages 4",
                                     "[mb=2 time, a=2]",
                                     "[mb=2 time, a=2] stages 3",
                                     "[mb=3 time] stages 2"};

static void check_seed(uint64_t seed) {
  Random r = {.seed = seed};
  const char *mesh = meshes[below(&r, (int)(sizeof meshes / sizeof *meshes))];
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  Module *m = ir_parse("mesh", arena_printf(arena, "apc.ir 1\nmesh %s\n", mesh), diags);
  Func *f = m ? make_function(m, &r, diags) : NULL;
  CHECKF(f && !diags->n && verify_func(m, f, diags), "seed %llu: no graph", (unsigned long long)seed);
  if (test_failed_here) diags_print(diags, stderr, false);
  for (int i = 0; f && i < 4; i++) {
    int ranks = mesh_ranks(&m->mesh);
    bool nodes = ranks % 4 == 0 && below(&r, 2); /* of four GPUs */
    const Target *t =
        topo_target_find(diags, arena, arena_printf(arena, nodes ? "aws-g4dn.12xlargex%d" : "cpux%d", ranks));
    const char *what = arena_printf(arena, "seed %llu, plan %d, mesh %s", (unsigned long long)seed, i, mesh);
    CHECK(t != NULL);
    if (!t) continue;
    CostModel *cost = cost_model_new(m, t);
    LowerPlan p = make_plan(cost, m, f, &r, arena);
    cost_model_free(cost);
    check_cuts(m, f, p.strategies, t, &r, what, arena);
    check_plan(m, f, &p, t, what, arena);
  }
  if (m) module_free(m);
  arena_free(arena);
}

static uint64_t first_seed = 1;
static int seeds = SANITIZED ? 100 : 300;

static void predictions_are_sums_of_what_is_emitted(void) {
  static const OpKind kinds[] = {
      OP_all_reduce,   OP_all_gather, OP_reduce_scatter, OP_all_to_all, OP_exchange, OP_transfer, OP_shard_slice,
      OP_mask_partial, OP_param,      OP_read,           OP_write,      OP_loop,     OP_exp,      OP_random};
  for (int i = 0; i < seeds; i++) check_seed(first_seed + (uint64_t)i);
  printf("seeds %llu to %llu: %ld plans lowered, %ld of them cut into micro-batches, %ld refused, %ld cuts\n",
         (unsigned long long)first_seed, (unsigned long long)(first_seed + (uint64_t)seeds - 1), lowered, timed,
         refused, cuts_compared);
  CHECK(lowered > 2 * refused && timed > lowered / 50 && cuts_compared > lowered / 2);
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds && seeds >= 300; i++) /* a rare one may be missing among fewer */
    CHECKF(drawn[kinds[i]] > 0, "%s was never emitted", op_name(kinds[i]));
}

int main(int argc, char **argv) {
  if (argc > 1) first_seed = strtoull(argv[1], NULL, 10);
  if (argc > 2) seeds = atoi(argv[2]);
  RUN(predictions_are_sums_of_what_is_emitted);
  return test_summary();
}
