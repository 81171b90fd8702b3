/* tests/random_plan.h - random models with weights and states in addition to those of random_graph.h, and random legal
 * strategies and stages for them. */
#ifndef APC_TESTS_RANDOM_PLAN_H
#define APC_TESTS_RANDOM_PLAN_H

#include <math.h>
#include <string.h>

#include "ir/loops.h"
#include "passes/cost/cost.h"
#include "passes/lower/lower.h"
#include "tests/random_graph.h"

/* ---- weights and states, which random_graph.h does not make */

static inline const Type *constant_type(Making *k) {
  int64_t dims[MAX_RANK];
  const Type *t = type(k, any(k));
  return type_constant_dims(t, dims) ? t : NULL;
}

/* A new weight, or one that is already read. */
static inline Val make_weight(Making *k) {
  const Type *t = constant_type(k);
  if (!t) return 0;
  for (size_t i = 0; i < k->m->params.n && below(k->r, 2); i++)
    if (k->m->params.items[i].type == t) return build_param(&k->b, k->m->params.items[i].name);
  const char *name = arena_printf(k->m->arena, "w%zu", k->m->params.n);
  module_param_add(k->m, name, t);
  return build_param(&k->b, name);
}

static inline Val state_op(Making *k, OpKind kind, const char *name, const Type *t, Val v) {
  Attr a = attr_s(k->m, AT_name, name);
  return build_op(&k->b,
                  &(OpSpec){.kind = kind, .name = name, .nin = v != 0, .in = &v, .nattrs = 1, .attrs = &a, .type = t});
}

/* Read, once or twice, written, or both. */
static inline Val make_state(Making *k) {
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
static inline Val make_attention(Making *k) {
  const Expr *b = any_extent(k), *h = any_extent(k), *g = any_extent(k), *s = any_extent(k), *t = any_extent(k),
             *e = any_extent(k);
  Val q = operand(k, 5, (const Expr *[]){b, h, g, s, e}), key = operand(k, 4, (const Expr *[]){b, h, t, e});
  Val value = operand(k, 4, (const Expr *[]){b, h, t, e});
  const Type *pos = type_get(k->m, DT_i64, 1, &s), *scalar = type_get(k->m, DT_i64, 0, NULL);
  Val at = build_iota(&k->b, pos, 0), keys = build_iota(&k->b, type_get(k->m, DT_i64, 1, &t), 0),
      length = build_size(&k->b, scalar, t);
  Attr a[] = {attr_i(AT_causal, below(k->r, 2)), attr_f(AT_scale, 0.5), {0}};
  int more = below(k->r, 2);
  Val in[] = {q, key, value, at, keys, length, more ? make_bias(k, (const Expr *[]){b, h, g, s, t}, &a[2]) : 0};
  Val y = build_op(&k->b, &(OpSpec){.kind = OP_attention, .nin = 6 + more, .in = in, .nattrs = 2 + more, .attrs = a});
  const Expr *dims[] = {b, h, g, ex_mul(k->m, s, e)};
  return y ? build_op(&k->b, &(OpSpec){.kind = OP_reshape, .nin = 1, .in = &y, .type = type_get(k->m, DT_f64, 4, dims)})
           : 0;
}

/* Values that every stage computes for itself. */
static inline Val make_derived(Making *k) {
  const Type *t = type(k, any(k));
  Val v = t->rank && below(k->r, 2) ? build_iota(&k->b, t, below(k->r, t->rank)) : build_splat(&k->b, t, 0.5);
  return build_unary(&k->b, OP_tanh, build_unary(&k->b, OP_sin, v));
}

static inline Val cast(Making *k, Val v, DType to) {
  Attr a = attr_dtype(AT_to, to);
  return build_op(&k->b, &(OpSpec){.kind = OP_cast, .nin = 1, .in = &v, .nattrs = 1, .attrs = &a});
}

static inline Val narrow_operand(Making *k, int rank, const Expr *const *dims) {
  return cast(k, operand(k, rank, dims), DT_f32);
}

/* f32: a product, which is followed by others on GPUs, or a convolution of weights, which is followed on CPUs. */
static inline Val make_root(Making *k, const Expr *const dims[3]) {
  const Expr *c = k->extents[below(k->r, 4)];
  Val x = narrow_operand(k, 3, (const Expr *[]){dims[0], dims[1], c});
  int64_t in, out;
  if (below(k->r, 2) || !ex_get_const(c, &in) || !ex_get_const(dims[2], &out))
    return build_dot(&k->b, x, narrow_operand(k, 2, (const Expr *[]){c, dims[2]}), "nhc,co->nho");
  const char *name = arena_printf(k->m->arena, "w%zu", k->m->params.n);
  module_param_add(k->m, name, type_of_ints(k->m, DT_f32, 3, (int64_t[]){1, in, out}));
  const Expr *zero = ex_const(k->m, 0);
  int64_t one = 1;
  Attr a[] = {attr_exprs(k->m, AT_starts, 1, &zero), attr_ints(k->m, AT_strides, 1, &one),
              attr_ints(k->m, AT_dilations, 1, &one), attr_s(k->m, AT_spec, "nHc,Hco->nHo")};
  return build_op(&k->b, &(OpSpec){.kind = OP_conv,
                                   .nin = 2,
                                   .in = (Val[]){x, build_param(&k->b, name)},
                                   .nattrs = 4,
                                   .attrs = a,
                                   .type = type_get(k->m, DT_f32, 3, dims)});
}

/* A weight, or a computed vector. */
static inline Val make_vector(Making *k, const Expr *n) {
  int64_t extent;
  if (below(k->r, 4) == 0 || !ex_get_const(n, &extent)) return narrow_operand(k, 1, &n);
  const char *name = arena_printf(k->m->arena, "w%zu", k->m->params.n);
  module_param_add(k->m, name, type_of_ints(k->m, DT_f32, 1, &extent));
  return build_param(&k->b, name);
}

/* Operations that may join it: + bias, + residual, on either side, an activation. */
static inline Val make_joined(Making *k) {
  const Expr *dims[3] = {any_extent(k), any_extent(k), any_extent(k)};
  Val y = make_root(k, dims);
  if (below(k->r, 2)) {
    Val v = build_bcast_to(&k->b, make_vector(k, dims[2]), 3, dims);
    y = below(k->r, 2) ? build_binary(&k->b, OP_add, y, v) : build_binary(&k->b, OP_add, v, y);
  }
  if (below(k->r, 2)) {
    Val v = build_unary(&k->b, OP_exp, narrow_operand(k, 3, dims));
    y = below(k->r, 2) ? build_binary(&k->b, OP_add, y, v) : build_binary(&k->b, OP_add, v, y);
  }
  if (below(k->r, 2)) y = build_unary(&k->b, below(k->r, 3) ? OP_relu : OP_tanh, y);
  return cast(k, y, DT_f64);
}

static inline Val make_further(Making *k) {
  switch (below(k->r, 9)) {
    case 8: return make_joined(k);
    case 0: return make_state(k);
    case 1:
    case 2: return make_weight(k);
    case 3: return make_attention(k);
    case 4: return make_derived(k);
    default: return 0;
  }
}

static inline Func *make_function(Module *m, Random *r, Diags *diags) {
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
static inline bool *tied_to_previous(const Func *f, Arena *arena) {
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

/* Micro-batches are not gathered: no operation may need a value whole that is cut over them. */
static inline bool can_be_made(CostModel *cost, Module *m, const Func *f, size_t op, const Strategy *strategies) {
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

static inline bool drop_time(const Module *m, Strategy *s) {
  int kept = 0;
  for (int i = 0; i < s->n; i++)
    if (!m->mesh.axes[s->picks[i].axis].temporal) s->picks[kept++] = s->picks[i];
  bool any = kept < s->n;
  s->n = kept;
  return any;
}

/* Removes micro-batches from values that an operation needs whole, until none is left. */
static inline void mend(CostModel *cost, Module *m, const Func *f, Strategy *strategies) {
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

/* A random plan; in seven of eight cases it is made legal. */
static inline LowerPlan make_plan(CostModel *cost, Module *m, const Func *f, Random *r, Arena *arena) {
  Strategy *strategies = ARENA_ARRAY(arena, Strategy, f->ops.n);
  int *stages = ARENA_ARRAY(arena, int, f->ops.n), stage = 0;
  const bool *tied = tied_to_previous(f, arena);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const Strategy *all;
    int n = strategy_enumerate(m->arena, m, rule_of(m, f, op), true, &all);
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

#endif
