/* tests/kernel_graphs.h - the cases of tests/kernel_cases.h that are built: every elementwise operation on every type,
 * and random fused graphs. */
#ifndef APC_TESTS_KERNEL_GRAPHS_H
#define APC_TESTS_KERNEL_GRAPHS_H

#include "tests/kernel_case.h"

/* ---- elementwise operations, one by one, on every type */

static Builder start_function(InterpProgram *p) {
  p->arena = arena_new();
  p->diags = diags_new(p->arena);
  p->m = module_new();
  Mesh mesh = {.naxes = 1, .axes = {{.name = "tp", .size = 1}}, .stages = 1};
  module_symbol(p->m, "s");
  p->m->symbols.items[0].hint = 70;
  module_set_mesh(p->m, &mesh);
  return builder_new(p->m, module_func_add(p->m, "r", 2), p->diags);
}

static Val add_input(Builder *b, const char *name, const Type *t) {
  Attr a = attr_s(b->m, AT_name, name);
  return build_op(b, &(OpSpec){.kind = OP_input,
                               .name = name,
                               .nattrs = 1,
                               .attrs = &a,
                               .type = t,
                               .layout = layout_replicated(b->m, t->rank)});
}

static void add_output(Builder *b, const char *name, Val v) {
  build_output(b, name, v, layout_replicated(b->m, type_of(b->f, v)->rank));
}

static void finish_function(const char *name, InterpProgram *p, uint64_t seed) {
  if (!verify_module(p->m, p->diags)) {
    diags_print(p->diags, stderr, false);
    fprintf(stderr, "%s\n", name);
    exit(1);
  }
  add_case(name, *p, seed);
}

static bool accepts(OpKind k, DType t) {
  static const char *const classes[OP_COUNT] = {
#define UNARY(name, classes, linear, cost, f, i, doc) [OP_##name] = classes,
#define BINARY(name, classes, linear, cost, f, i, doc) [OP_##name] = classes,
#define COMPARE(name, ...) [OP_##name] = "FIB",
#include "ir/ops.def"
  };
  DTypeClass c = dtype_class(t);
  return classes[k] && strchr(classes[k], c == DTC_F ? 'F' : c == DTC_B ? 'B' : 'I');
}

/* Inputs are in [-1, 1) and [0, 4): spreads them over the range where the functions are interesting. */
static Val spread(Builder *b, Val v, double by, double plus) {
  const Type *t = type_of(b->f, v);
  if (t->dtype == DT_bool) return v;
  return build_binary(b, OP_add, build_binary(b, OP_mul, v, build_splat(b, t, by)), build_splat(b, t, plus));
}

static void pointwise(void) {
  for (int t = 0; t < DT_COUNT; t++) {
    if (!dtype_computes((DType)t)) continue;
    InterpProgram p = {0};
    Builder b = start_function(&p);
    const Expr *dims[2] = {ex_const(p.m, 7), ex_sym(p.m, 0)};
    const Type *type = type_get(p.m, (DType)t, 2, dims);
    bool is_float = dtype_is_float((DType)t);
    Val x = add_input(&b, "x", type), y = add_input(&b, "y", type),
        c = add_input(&b, "c", type_with_dtype(p.m, type, DT_bool));
    Val wide = spread(&b, x, is_float ? 6 : 37, is_float ? 0 : -60),
        other = spread(&b, y, is_float ? 3 : 5, is_float ? 0 : -8);
    Val amount = is_float ? y : spread(&b, y, 35, -30); /* shifts: -30, 5, 40, 75 */
    for (OpKind k = 1; k < OP_COUNT; k++) {
      if (!accepts(k, (DType)t)) continue;
      Val v;
      if (op_class(k) == OC_UNARY)
        v = build_unary(
            &b, k,
            k == OP_log || k == OP_acosh || k == OP_log1p || k == OP_atanh || k == OP_asin || k == OP_acos ? x : wide);
      else v = build_binary(&b, k, wide, k == OP_shl || k == OP_shr ? amount : other);
      add_output(&b, op_name(k), v);
    }
    Val three[3] = {c, wide, other};
    add_output(&b, "select", build_op(&b, &(OpSpec){.kind = OP_select, .nin = 3, .in = three}));
    Val exact = t == DT_bool
                    ? x
                    : build_binary(&b, OP_mul, x, build_splat(&b, type, 64)); /* casts see the same bits everywhere */
    for (int to = 0; to < DT_COUNT; to++)
      add_output(&b, arena_printf(p.arena, "to %s", dtype_name((DType)to)), build_cast(&b, exact, (DType)to));
    for (int to = 0; to < DT_COUNT; to++)
      if (dtype_bytes((DType)to) == dtype_bytes((DType)t) && to != DT_bool)
        add_output(&b, arena_printf(p.arena, "bits %s", dtype_name((DType)to)), build_bitcast(&b, exact, (DType)to));
    finish_function(arena_printf(p.arena, "pointwise %s", dtype_name((DType)t)), &p, 5);
  }
}

/* Types without arithmetic: values made of all bytes are converted to every type, and moved. */
static void stored_types(void) {
  for (int t = DT_bool + 1; t < DT_COUNT; t++) {
    InterpProgram p = {0};
    Builder b = start_function(&p);
    const Expr *dims[2] = {ex_const(p.m, 52), ex_sym(p.m, 0)};
    Val bytes = build_iota(&b, type_get(p.m, DT_u8, 2, dims), 0), columns = build_iota(&b, type_of(b.f, bytes), 1);
    bytes = build_binary(&b, OP_add, build_binary(&b, OP_mul, bytes, build_splat(&b, type_of(b.f, bytes), 5)), columns);
    Val x = build_bitcast(&b, bytes, (DType)t), c = add_input(&b, "c", type_get(p.m, DT_bool, 2, dims));
    for (int to = 0; to < DT_COUNT; to++)
      add_output(&b, arena_printf(p.arena, "to %s", dtype_name((DType)to)), build_cast(&b, x, (DType)to));
    Val three[3] = {c, x, build_splat(&b, type_of(b.f, x), 1)};
    add_output(&b, "select", build_op(&b, &(OpSpec){.kind = OP_select, .nin = 3, .in = three}));
    add_output(&b, "turned", build_transpose(&b, x, (const int[]){1, 0}));
    add_output(&b, "joined", build_concat(&b, 2, (const Val[]){x, three[2]}, 0));
    add_output(&b, "bits", build_bitcast(&b, x, DT_u8));
    finish_function(arena_printf(p.arena, "stored %s", dtype_name((DType)t)), &p, 5);
  }
}

/* ---- random fused graphs */

static uint64_t random_state;
static int pick(int n) {
  random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
  return (int)((random_state >> 33) % (uint64_t)n);
}

typedef struct Pool {
  Builder *b;
  int n;
  Val v[256];
} Pool;

static Val any(const Pool *p, bool floats, int min_rank) {
  for (int tries = 0; tries < 200; tries++) {
    Val v = p->v[pick(p->n)];
    const Type *t = type_of(p->b->f, v);
    if (t->rank >= min_rank && (!floats || t->dtype == DT_f32)) return v;
  }
  return p->v[0];
}

static Val same_type(const Pool *p, Val like) {
  for (int tries = 0; tries < 50; tries++) {
    Val v = p->v[pick(p->n)];
    if (type_of(p->b->f, v) == type_of(p->b->f, like)) return v;
  }
  return like;
}

static Val random_reduce(Builder *b, Val x) {
  const Type *t = type_of(b->f, x);
  int axes[MAX_RANK], n = 0;
  for (int d = 0; d < t->rank; d++)
    if (pick(2)) axes[n++] = d;
  if (n == 0) axes[n++] = t->rank - 1;
  Val r = build_reduce(b, pick(2) ? RED_SUM : RED_MAX, x, n, axes);
  return pick(2) ? build_keepdims(b, r, x, n, axes) : r;
}

static Val random_move(Builder *b, Val x) {
  const Type *t = type_of(b->f, x);
  int perm[MAX_RANK], k = pick(t->rank);
  for (int i = 0; i < t->rank; i++) perm[i] = (i + k) % t->rank;
  switch (pick(4)) {
    case 0: return build_transpose(b, x, perm);
    case 1:
      return build_slice(b, x, k, ex_const(b->m, 0), ex_max(b->m, ex_addi(b->m, t->dims[k], -1), ex_const(b->m, 0)), 1);
    case 2: return build_slice(b, x, k, ex_const(b->m, 0), ex_ceil_div(b->m, t->dims[k], ex_const(b->m, 2)), 2);
    default: return build_concat(b, 2, (Val[]){x, x}, k);
  }
}

static Val random_op(const Pool *p) {
  static const OpKind unary[] = {OP_tanh, OP_sigmoid, OP_relu, OP_neg, OP_sin, OP_abs};
  static const OpKind binary[] = {OP_add, OP_sub, OP_mul, OP_max};
  Builder *b = p->b;
  Val x = any(p, true, 0);
  switch (pick(9)) {
    case 0:
    case 1: return build_unary(b, unary[pick(6)], x);
    case 2:
    case 3: return build_binary(b, binary[pick(4)], x, same_type(p, x));
    case 4: return random_reduce(b, any(p, true, 1));
    case 5: {
      Val y = any(p, true, 1);
      Attr a = attr_i(AT_axis, pick(type_of(b->f, y)->rank));
      return build_op(b, &(OpSpec){.kind = OP_softmax, .nin = 1, .in = &y, .nattrs = 1, .attrs = &a});
    }
    case 6: return random_move(b, any(p, true, 1));
    case 7: return build_cast(b, build_cast(b, x, DT_f64), DT_f32);
    default: {
      Val i = p->v[pick(3)],
          c = build_binary(b, OP_lt, i, same_type(p, i) == p->v[0] ? p->v[0] : build_unary(b, OP_neg, i));
      Val three[3] = {c, same_type(p, i), build_splat(b, type_of(b->f, i), 0.5)};
      return build_op(b, &(OpSpec){.kind = OP_select, .nin = 3, .in = three});
    }
  }
}

/* Conditions compare inputs only: rounding could turn a comparison of computed numbers either way. */
static void random_graphs(void) {
  static const int64_t sizes[][3] = {{3, 5, 7}, {2, 1, 65}, {1, 40, 3}, {4, 0, 6}, {1, 1, 1}, {2, 3, 1100}};
  for (int g = 0; g < 48; g++) {
    InterpProgram q = {0};
    Builder b = start_function(&q);
    Pool pool = {.b = &b};
    random_state = (uint64_t)g + 1000;
    const int64_t *size = sizes[pick(6)];
    const Expr *dims[3] = {ex_const(q.m, size[0]), ex_const(q.m, size[1]),
                           pick(2) ? ex_const(q.m, size[2]) : ex_sym(q.m, 0)};
    for (int i = 0; i < 3; i++)
      pool.v[pool.n++] = add_input(&b, arena_printf(q.arena, "x%d", i),
                                   type_get(q.m, DT_f32, i == 2 ? 2 : 3, i == 2 ? dims + 1 : dims));
    int ops = 8 + pick(22);
    for (int i = 0; i < ops; i++) {
      Val v = random_op(&pool);
      if (!v) diags_print(q.diags, stderr, false), exit(1);
      pool.v[pool.n++] = v;
    }
    for (int i = 0; i < 4; i++)
      add_output(&b, arena_printf(q.arena, "y%d", i), pool.v[pool.n - 1 - pick(pool.n < 8 ? pool.n : 8)]);
    finish_function(arena_printf(q.arena, "random graph, seed %d", g + 1000), &q, (uint64_t)g);
  }
}

#endif
