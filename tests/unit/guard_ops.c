/* The guard of the factor rules: for every operation and every legal strategy on small meshes, the lowered program
 * equals the unsharded one, in doubles and modulo p.
 *
 * An instance is a level-1 function around one operation, %y.  Capital letters are extents: every instance runs with
 * several sizes (even, uneven, smaller than the mesh) and with symbols bound late.  For strategies that let operands
 * arrive as partial sums, the operands are made by a reduction over one more dimension cut over the same axes, so that
 * no rank holds the value itself.
 */
#include <math.h>

#include "frontend/topo/target.h"
#include "passes/cost/cost.h"
#include "tests/guard.h"

typedef struct Instance {
  OpKind kind;
  const char *text;
  double low, high, tolerance;
  bool fixed; /* has no late-bound variant (listed constants, weights) */
} Instance;

static const char *const meshes[] = {"[a=2]",      "[a=3]",           "[a=4]",           "[a=2, b=2]",
                                     "[a=2, b=3]", "[a=2, b=2, c=2]", "[a=2, mb=2 time]"};
enum { MESHES = sizeof meshes / sizeof *meshes, VARIANTS = 4 };

static const char *const sizes[VARIANTS][3] = {{"4", "6", "8"}, {"5", "3", "7"}, {"1", "2", "3"}, {"A", "B", "C"}};

enum { TARGETS = 3 };
static const Target *targets[TARGETS];
static long counted;

static long counts[OP_COUNT][FK_COUNT], plain[OP_COUNT];
static bool has_kind[OP_COUNT][FK_COUNT];
static int instances_of[OP_COUNT];

/* ---- text */

static bool name_char(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
}

static const char *with_sizes(Arena *arena, const char *s, const char *const *size) {
  Text t = {.arena = arena};
  for (char before = ' '; *s; before = *s++) {
    bool letter = *s >= 'A' && *s <= 'C' && !name_char(before) && !name_char(s[1]);
    if (letter) text_add(&t, size[*s - 'A']);
    else text_addn(&t, s, 1);
  }
  return text_str(&t);
}

/* ---- one instance */

typedef struct Guard {
  const Instance *instance;
  const char *mesh, *text;
  InterpProgram p;
  const Func *whole; /* @main */
  Reference plain;
  const Rule *rule;
} Guard;

/* The index of %y. */
static size_t index_of_y(const Func *f) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (strcmp(f->ops.items[i].name, "y") == 0) return i;
  fprintf(stderr, "no %%y\n");
  exit(1);
}

/* A copy of @main in which the operands of %y in the mask are reductions over a new leading dimension. */
static Func *with_partial_operands(Guard *g, uint32_t operands, Reduction r) {
  Module *m = g->p.m;
  const Func *f = g->whole;
  const Op *y = &f->ops.items[index_of_y(f)];
  Func *out = module_func_add(m, "partial", 1);
  Builder b = builder_new(m, out, g->p.diags);
  Val *map = ARENA_ARRAY(m->arena, Val, f->values.n);
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    OpSpec spec = op_spec_of(f, op);
    Val in[MAX_OPERANDS];
    bool split = false;
    for (int k = 0; k < op->nin; k++) in[k] = map[op->in[k]];
    for (int k = 0; k < y->nin; k++) split |= op->kind == OP_input && y->in[k] == op->out && ((operands >> k) & 1u);
    spec.in = in;
    if (split && spec.type->rank < MAX_RANK) {
      const Expr *dims[MAX_RANK] = {ex_const(m, 5)};
      for (int d = 0; d < spec.type->rank; d++) dims[d + 1] = spec.type->dims[d];
      spec.type = type_get(m, spec.type->dtype, spec.type->rank + 1, dims);
      map[op->out] = build_reduce(&b, r, build_op(&b, &spec), 1, (int[]){0});
    } else {
      Val v = build_op(&b, &spec);
      for (int k = 0; k < op->nout; k++) map[op->out + (Val)k] = v + (Val)k;
    }
  }
  for (size_t i = 0; i < f->outputs.n; i++)
    build_output(&b, f->outputs.items[i].name, map[f->outputs.items[i].value], NULL);
  return out;
}

static bool passes_sums(const Rule *r, Pick p) {
  return r->factors[p.factor].kind == FK_LINEAR || r->factors[p.factor].kind == FK_ACCUMULATE;
}

static void check(Guard *g, const Reference *ref, const Strategy *s) {
  Module *m = g->p.m;
  Arena *scratch = arena_new();
  Func *lowered = NULL;
  size_t y = index_of_y(ref->f);
  Strategy *strategies = ARENA_ARRAY(scratch, Strategy, ref->f->ops.n);
  strategies[y] = *s;
  for (size_t i = 0; i < ref->f->ops.n; i++) /* the reductions that make the operands partial */
    for (int k = 0; k < s->n && i != y && ref->f->ops.items[i].kind == OP_reduce; k++)
      if (passes_sums(g->rule, s->picks[k]))
        strategies[i].picks[strategies[i].n++] =
            (Pick){s->picks[k].axis, (uint8_t)rule_factor_find(rule_of(m, ref->f, &ref->f->ops.items[i]), "r0")};
  for (size_t i = 0; i < ref->f->ops.n;
       i++) /* a value cut into micro-batches cannot be gathered: from the read on it is cut like the written one */
    for (int k = 0; k < s->n && g->instance->kind == OP_write && ref->f->ops.items[i].kind != OP_input; k++)
      if (m->mesh.axes[s->picks[k].axis].temporal) strategies[i] = *s;
  const char *why = guard_check(m, ref, &(LowerPlan){.strategies = strategies}, scratch, &lowered);
  if (!why) why = guard_prove(m, ref, lowered, scratch);
  if (why) {
    Text t = {.arena = scratch};
    text_printf(&t, "%s on %s with ", op_name(g->instance->kind), g->mesh);
    strategy_print(&m->mesh, &t, g->rule, s);
    text_printf(&t, " in\n%s", g->text);
    guard_report(m, ref->f, lowered, text_str(&t), why);
  }
  arena_free(scratch);
}

/* No strategy takes less time than the planner's bounds, which look at no strategy: if memory decides, if arithmetic
 * does, and if both are priced by tiles. */
static void check_least(const Guard *g, CostModel *const *costs, const Strategy *s) {
  const Op *y = &g->whole->ops.items[index_of_y(g->whole)];
  double parts = 1;
  for (int i = 0; i < g->p.m->mesh.naxes; i++) parts *= g->p.m->mesh.axes[i].size;
  for (int k = 0; k < TARGETS; k++) {
    OpLeast least = cost_op_least(costs[k], g->whole, y, g->rule);
    double bound = least.launch + fmax(least.arithmetic, least.memory) / parts,
           seconds = cost_op(costs[k], g->whole, y, g->rule, s).seconds;
    counted += bound > 0;
    if (bound <= seconds * (1 + 1e-12)) continue;
    Text t = {.arena = arena_new()};
    strategy_print(&g->p.m->mesh, &t, g->rule, s);
    CHECKF(false, "%s on %s with %s takes %g s, at least %g s are counted on target %d, in\n%s", op_name(y->kind),
           g->mesh, text_str(&t), seconds, bound, k, g->text);
    arena_free(t.arena);
  }
}

static void count(const Guard *g, const Strategy *s) {
  bool seen[FK_COUNT] = {false};
  OpKind k = g->instance->kind;
  if (!s->n) plain[k]++;
  for (int i = 0; i < s->n; i++) {
    FactorKind f = g->rule->factors[s->picks[i].factor].kind;
    if (!seen[f]) counts[k][f]++;
    seen[f] = true;
  }
}

static void run_reference(Guard *g, const Func *f, Reference *ref) {
  const Instance *x = g->instance;
  bool ok = reference_run(g->p.m, f, x->low, x->high, g->p.arena, g->p.diags, ref);
  if (x->tolerance > 0) ref->tolerance = x->tolerance;
  if (ok) return;
  diags_print(g->p.diags, stderr, false);
  fprintf(stderr, "%s\n", g->text);
  exit(1);
}

/* Also true if there are no micro-batches. */
static bool cuts_time(const Module *m, const Strategy *s) {
  uint32_t cut = 0;
  for (int k = 0; k < s->n; k++) cut |= 1u << s->picks[k].axis;
  for (int a = 0; a < m->mesh.naxes; a++)
    if (m->mesh.axes[a].temporal && !((cut >> a) & 1u)) return false;
  return true;
}

/* Sums over micro-batches are made whole by accumulation only, which has no other use. */
static bool sums_time(const Guard *g, const Strategy *s) {
  bool timed = false, accumulates = false;
  for (int a = 0; a < g->p.m->mesh.naxes; a++) timed |= g->p.m->mesh.axes[a].temporal;
  for (int k = 0; k < s->n; k++) {
    FactorKind f = g->rule->factors[s->picks[k].factor].kind;
    if (g->p.m->mesh.axes[s->picks[k].axis].temporal && (f == FK_REDUCE || f == FK_LINEAR)) return true;
    accumulates |= f == FK_ACCUMULATE;
  }
  return g->instance->kind == OP_accumulate && timed && !accumulates;
}

static long strategies; /* of all instances */

static void run_instance(const Instance *x, int variant, const char *mesh) {
  Arena *arena = arena_new();
  Guard g = {.instance = x, .mesh = mesh};
  const char *declared = variant == VARIANTS - 1 ? "symbol A hint 5\nsymbol B hint 4\nsymbol C hint 6\n" : "";
  g.text = arena_printf(arena, "%smesh %s\n%s", declared, mesh, with_sizes(arena, x->text, sizes[variant]));
  g.p = interp_program(g.text);
  g.whole = module_func(g.p.m, "main");
  const Op *y = &g.whole->ops.items[index_of_y(g.whole)];
  if (y->kind != x->kind) {
    fprintf(stderr, "%%y is %s in\n%s\n", op_name(y->kind), g.text);
    exit(1);
  }
  g.rule = rule_of(g.p.m, g.whole, y);
  for (int f = 0; f < g.rule->nfactors; f++) has_kind[x->kind][g.rule->factors[f].kind] = true;
  run_reference(&g, g.whole, &g.plain);
  Reference *partial = ARENA_ARRAY(arena, Reference, g.rule->nfactors); /* by linear factor */
  const Strategy *all;
  int n = strategy_enumerate(g.p.m->arena, g.p.m, g.rule, true, &all);
  CostModel *costs[TARGETS];
  for (int k = 0; k < TARGETS; k++) costs[k] = cost_model_new(g.p.m, targets[k]);
  for (int i = 0; i < n; i++) {
    int linear = -1;
    check_least(&g, costs, &all[i]);
    if (y->kind == OP_write && !cuts_time(g.p.m, &all[i])) continue; /* V17 */
    if (sums_time(&g, &all[i])) continue;
    count(&g, &all[i]);
    if (!in_quarter(strategies++)) continue;
    for (int k = 0; k < all[i].n; k++)
      if (passes_sums(g.rule, all[i].picks[k])) linear = all[i].picks[k].factor;
    const Reference *ref = &g.plain;
    if (linear >= 0) {
      ref = &partial[linear];
      if (!ref->f) {
        const Factor *f = &g.rule->factors[linear];
        run_reference(&g, with_partial_operands(&g, f->operands, f->reduction), &partial[linear]);
      }
    }
    check(&g, ref, &all[i]);
  }
  for (int k = 0; k < TARGETS; k++) cost_model_free(costs[k]);
  program_free(&g.p);
  arena_free(arena);
}

/* With sanitizers a third of the pairs of sizes and meshes, with all strategies. */
static void run_all(const Instance *x) {
  instances_of[x->kind]++;
  for (int v = 0; v < VARIANTS; v++)
    for (int k = 0; k < MESHES; k++) {
      if (SANITIZED && (v + k) % 3) continue;
      if (!x->fixed || v < VARIANTS - 1) run_instance(x, v, meshes[k]);
    }
}

/* ---- elementwise rows, from the table itself */

static const struct {
  OpKind kind;
  const char *classes;
} elementwise[] = {
#define UNARY(name, classes, ...) {OP_##name, classes},
#define BINARY(name, classes, ...) {OP_##name, classes},
#define COMPARE(name, ...) {OP_##name, "FIB"},
#include "ir/ops.def"
};

static void run_elementwise(OpKind k, char class, const char *shape) {
  char text[600];
  const char *type = class == 'F' ? "f32" : class == 'B' ? "bool" : "i16";
  const char *result = op_class(k) == OC_COMPARE || k == OP_isnan || k == OP_isinf ? "bool" : type;
  bool two = op_class(k) != OC_UNARY;
  snprintf(text, sizeof text,
           "func @main level 1 { %%p = input {name=\"p\"} : %1$s%2$s %%q = input {name=\"q\"} : %1$s%2$s %%y = %3$s "
           "%4$s : %5$s%2$s output \"y\" %%y }",
           type, shape, op_name(k), two ? "%p, %q" : "%p", result);
  double low = k == OP_acosh ? 1 : k == OP_log || k == OP_sqrt || k == OP_rsqrt || k == OP_pow ? 0.1 : -1;
  run_all(&(Instance){.kind = k, .text = text, .low = low, .high = 2.5});
}

static void elementwise_rows(void) {
  for (size_t i = 0; i < sizeof elementwise / sizeof *elementwise; i++)
    for (const char *c = elementwise[i].classes; *c; c++) run_elementwise(elementwise[i].kind, *c, "[A, B]");
  run_elementwise(OP_neg, 'F', "[]");
  run_elementwise(OP_exp, 'F', "[A, B, C]");
  run_elementwise(OP_add, 'F', "[B, 1, A]");
  run_elementwise(OP_mul, 'F', "[]");
}

/* ---- all other rows */

#define F(kind, ...) \
  { OP_##kind, "func @main level 1 {\n" __VA_ARGS__ "\n}\n", -1, 1, 0, false }
#define FIXED(kind, ...) \
  { OP_##kind, __VA_ARGS__, -1, 1, 0, true }
#define NARROW(kind, ...) \
  { OP_##kind, "func @main level 1 {\n" __VA_ARGS__ "\n}\n", -1, 1, 3e-2, false }
#define X(type) "%x = input {name=\"x\"} : " type " "
#define Z(type) "%z = input {name=\"z\"} : " type " "
#define GLU(type, v, k, f, n) \
  "%g = input {name=\"g\"} : " type "[" v ", " k ", " f "] %u = input {name=\"u\"} : " type "[" v ", " k ", " f \
  "] %d = input {name=\"d\"} : " type "[" v ", " f ", " n "] "
#define Y(op, type) "%y = " op " : " type " output \"y\" %y"
#define YZ(op, type) "%y, %y2 = " op " : " type " output \"y\" %y output \"z\" %y2"
#define YZZ(op, type) "%y, %y2, %y3 = " op " : " type " output \"y\" %y output \"z\" %y2 output \"z3\" %y3"

static const Instance others[] = {
    F(input, Y("input {name=\"y\"}", "f32[A, B]")),
    F(input, Y("input {name=\"y\"}", "f32[]")),
    F(input, Y("input {name=\"y\"}", "i64[A, C, B]")),
    FIXED(param, "param \"w\" : f32[A, B] = normal 0.5 seed 3\nfunc @main level 1 { " Y("param {name=\"w\"}",
                                                                                        "f32[A, B]") " }"),
    FIXED(param,
          "param \"w\" : f16[C] = uniform 2 seed 3\nfunc @main level 1 { " Y("param {name=\"w\"}", "f16[C]") " }"),
    {OP_read, "state \"s\" : f32[A, B] = 3\nfunc @main level 1 { " Y("read {name=\"s\"}", "f32[A, B]") " }", -1, 1, 0,
     false},
    F(accumulate, X("f32[A, B]") Y("accumulate %x", "f32[A, B]")),
    {OP_write, "state \"s\" : f32[A, B] = 3\nfunc @main level 1 { " X("f32[A, B]") "write \"y\" %x {name=\"s\"} }", -1,
     1, 0, false},
    {OP_write,
     "state \"s\" : f32[A, B] = 3\nfunc @main level 1 { " X(
         "f32[A, B]") "%r = read {name=\"s\"} : f32[A, B] %t = add %r, %x : f32[A, B] "
                      "write \"y\" %t {name=\"s\"} output \"r\" %r }",
     -1, 1, 0, false},
    F(const, Y("const {value=0.1}", "f32[A, B]")),
    F(const, Y("const {value=7}", "i32[A]")),
    FIXED(const, "func @main level 1 { " Y("const {floats=[1, 2.5, -3, 0.1]}", "f32[2, 2]") " }"),
    FIXED(const, "func @main level 1 { " Y("const {ints=[1, 0, 1]}", "bool[3]") " }"),
    F(size, Y("size {expr=2*A + B}", "f32[A, C]")),
    F(size, Y("size {expr=C}", "i64[B]")),
    F(iota, Y("iota {axis=0, start=0}", "f32[A, B]")),
    F(iota, Y("iota {axis=2, start=0}", "i64[B, A, C]")),
    F(random, Y("random {kind=\"uniform\", seed=5, starts=[0, 0], extents=[A, B]}", "f32[A, B]")),
    F(random, Y("random {kind=\"normal\", seed=6, starts=[0, 0, 0], extents=[A, C, B]}", "f32[A, C, B]")),
    F(random_keyed, "%k = input {name=\"k\"} : i64[] " Y("random_keyed %k {kind=\"uniform\", seed=5, stream=2, "
                                                         "starts=[0, 0], extents=[A, B]}",
                                                         "f32[A, B]")),
    F(random_keyed, "%k = const {value=4000000000} : u32[] " Y("random_keyed %k {kind=\"normal\", seed=5, stream=2, "
                                                               "starts=[0, 0, 0], extents=[A, C, B]}",
                                                               "f32[A, C, B]")),
    F(select,
      "%c = input {name=\"c\"} : bool[A, B] " X("f32[A, B]") Z("f32[A, B]") Y("select %c, %x, %z", "f32[A, B]")),
    F(select, "%c = input {name=\"c\"} : bool[C] " X("i8[C]") Z("i8[C]") Y("select %c, %x, %z", "i8[C]")),
    F(select, "%c = input {name=\"c\"} : bool[A, B] %z = const {value=0} : f32[A, B] " X("f32[A, B]")
                  Y("select %c, %x, %z", "f32[A, B]")),
    F(select, "%c = input {name=\"c\"} : bool[A, B] %z = const {value=0} : f32[A, B] " X("f32[A, B]")
                  Y("select %c, %z, %x", "f32[A, B]")),
    F(cast, X("f32[A, B]") Y("cast %x {to=f64}", "f64[A, B]")),
    F(cast, X("f32[A, B]") Y("cast %x {to=i32}", "i32[A, B]")),
    F(cast, X("i16[A, B]") Y("cast %x {to=f32}", "f32[A, B]")),
    F(cast, X("i16[A, B]") Y("cast %x {to=i64}", "i64[A, B]")),
    NARROW(cast, X("f32[A, B]") Y("cast %x {to=bf16}", "bf16[A, B]")),
    NARROW(cast, X("bf16[A, C]") Y("cast %x {to=f32}", "f32[A, C]")),
    F(cast, X("bool[A, B]") Y("cast %x {to=f32}", "f32[A, B]")),
    F(cast, X("i4[A, B]") Y("cast %x {to=f32}", "f32[A, B]")),
    F(cast, X("f32[A, B]") Y("cast %x {to=f8e4m3fn}", "f8e4m3fn[A, B]")),
    F(bitcast, X("f32[A, B]") Y("bitcast %x {to=i32}", "i32[A, B]")),
    F(bitcast, X("u8[A, B]") Y("bitcast %x {to=f8e5m2}", "f8e5m2[A, B]")),
    F(copy, X("f32[A, B]") Y("copy %x", "f32[A, B]")),
    F(copy, X("bool[A, B]") Y("copy %x", "bool[A, B]")),
    F(broadcast, X("f32[A]") Y("broadcast %x {dims=[1]}", "f32[B, A, C]")),
    F(broadcast, X("f32[A, 1]") Y("broadcast %x {dims=[0, 1]}", "f32[A, B]")),
    F(broadcast, X("f32[]") Y("broadcast %x {dims=[]}", "f32[A, B]")),
    F(reshape, X("f32[A, B]") Y("reshape %x", "f32[A*B]")),
    F(reshape, X("f32[A*B]") Y("reshape %x", "f32[A, B]")),
    F(reshape, X("f32[A, B*C]") Y("reshape %x", "f32[A, B, C]")),
    F(reshape, X("f32[A*B, C]") Y("reshape %x", "f32[A, B*C]")),
    F(reshape, X("f32[A, 1, B]") Y("reshape %x", "f32[1, A*B, 1]")),
    F(reshape, X("f32[4*A, 6]") Y("reshape %x", "f32[A, 4, 2, 3]")),
    FIXED(reshape, "func @main level 1 { " X("f32[4, 6]") Y("reshape %x", "f32[8, 3]") " }"),
    FIXED(reshape, "func @main level 1 { " X("f32[3, 4, 5]") Y("reshape %x", "f32[5, 12]") " }"),
    F(transpose, X("f32[A, B]") Y("transpose %x {perm=[1, 0]}", "f32[B, A]")),
    F(transpose, X("i32[A, B, C]") Y("transpose %x {perm=[2, 0, 1]}", "i32[C, A, B]")),
    F(slice, X("f32[A, B + 3]") Y("slice %x {starts=[0, 2], strides=[1, 1]}", "f32[A, B]")),
    F(slice, X("f32[2*A + 1, B]") Y("slice %x {starts=[1, 0], strides=[2, 1]}", "f32[A, B]")),
    F(slice, X("i32[A + 2, B + 1]") Y("slice %x {starts=[2, 0], strides=[1, 1]}", "i32[A, B]")),
    F(slice, X("f32[3*C]") Y("slice %x {starts=[0], strides=[3]}", "f32[C]")),
    F(slice, X("f32[3*C]") Y("slice %x {starts=[C], strides=[1]}", "f32[C]")),
    F(pad, X("f32[A, B]") Y("pad %x {low=[0, 2], high=[0, 1], value=0}", "f32[A, B + 3]")),
    F(pad, X("f32[A, B]") Y("pad %x {low=[3, 0], high=[0, 2], value=1.5}", "f32[A + 3, B + 2]")),
    F(pad, X("i32[A]") Y("pad %x {low=[0], high=[A], value=0}", "i32[2*A]")),
    F(concat, X("f32[A, B]") Z("f32[A, C]") Y("concat %x, %z {axis=1}", "f32[A, B + C]")),
    F(concat, X("f32[A, B]") Z("f32[1, B]") Y("concat %x, %z, %x {axis=0}", "f32[2*A + 1, B]")),
    F(reduce, X("f32[A, B]") Y("reduce %x {op=sum, axes=[1]}", "f32[A]")),
    F(reduce, X("f32[A, B, C]") Y("reduce %x {op=sum, axes=[0, 2]}", "f32[B]")),
    F(reduce, X("f32[A, B]") Y("reduce %x {op=product, axes=[0]}", "f32[B]")),
    F(reduce, X("f32[A, B]") Y("reduce %x {op=max, axes=[1]}", "f32[A]")),
    F(reduce, X("f32[A, B]") Y("reduce %x {op=min, axes=[0, 1]}", "f32[]")),
    F(reduce, X("i8[A, B]") Y("reduce %x {op=sum, axes=[0]}", "i8[B]")),
    F(reduce, X("u8[A, B]") Y("reduce %x {op=min, axes=[0]}", "u8[B]")),
    F(reduce, X("bool[A, B]") Y("reduce %x {op=or, axes=[1]}", "bool[A]")),
    F(reduce, X("bool[A, B]") Y("reduce %x {op=and, axes=[0]}", "bool[B]")),
    F(reduce, X("f32[A, B]") Y("reduce %x {op=sum, axes=[]}", "f32[A, B]")),
    F(dot, X("f32[A, B]") Z("f32[B, C]") Y("dot %x, %z {spec=\"mk,kn->mn\"}", "f32[A, C]")),
    F(dot, X("f32[2, A, B]") Z("f32[2, C, B]") Y("dot %x, %z {spec=\"bmk,bnk->bnm\"}", "f32[2, C, A]")),
    F(dot, X("f32[A, B, C]") Z("f32[B, C]") Y("dot %x, %z {spec=\"mhk,hk->m\"}", "f32[A]")),
    F(dot, X("i32[A]") Z("i32[B]") Y("dot %x, %z {spec=\"a,b->ab\"}", "i32[A, B]")),
    F(dot, X("f32[A]") Z("f32[A]") Y("dot %x, %z {spec=\"a,a->\"}", "f32[]")),
    F(gather,
      X("f32[3, B]") "%i = input {name=\"i\"} : i64[A, C] " Y("gather %x, %i {axis=0, start=0}", "f32[A, C, B]")),
    F(gather,
      X("f32[A, C, B]") "%i = input {name=\"i\"} : i32[4] " Y("gather %x, %i {axis=1, start=0}", "f32[A, 4, B]")),
    F(gather, X("bool[A, 4]") "%i = input {name=\"i\"} : i64[] " Y("gather %x, %i {axis=1, start=0}", "bool[A]")),
    F(update, X("f32[A, 6, B]") Z("f32[A, 3, B]") "%i = input {name=\"i\"} : i64[] " Y(
                  "update %x, %z, %i {axis=1, start=0}", "f32[A, 6, B]")),
    F(update,
      X("i32[C]") Z("i32[2]") "%i = input {name=\"i\"} : i64[] " Y("update %x, %z, %i {axis=0, start=0}", "i32[C]")),
    F(update,
      X("f32[A, 6, B]") Z("f32[A, 3, B]") "%i = input {name=\"i\"} : i64[A] %n = input {name=\"n\"} : i64[A] " Y(
          "update %x, %z, %i, %n {axis=1, start=0}", "f32[A, 6, B]")),
    F(update, X("f32[A, B, 6]") Z("f32[A, B, 3]") "%i = input {name=\"i\"} : i64[] %n = input {name=\"n\"} : i64[A] " Y(
                  "update %x, %z, %i, %n {axis=2, start=0}", "f32[A, B, 6]")),
    F(update,
      X("f32[A, 6]") Z("f32[A, 3]") "%i = input {name=\"i\"} : i64[A] %n = const {value=-9223372036854775808} : "
                                    "i64[] " Y("update %x, %z, %i, %n {axis=1, start=0}", "f32[A, 6]")),
    F(conv, X("f32[A, 3, B]") Z("f32[C, 3, 3]")
                Y("conv %x, %z {spec=\"ncH,ocH->Hno\", starts=[-1], strides=[1], dilations=[1]}", "f32[B, A, C]")),
    F(conv, X("f32[1, A, 2*B + 1, 5]") Z("f32[2, A, 3, 2]")
                Y("conv %x, %z {spec=\"ncHW,ocHW->noHW\", starts=[-2, -1], strides=[2, 3], dilations=[1, 2]}",
                  "f32[1, 2, B + 2, 2]")),
    F(conv, X("f32[1, 2*B + 1, A, 3]") Z("f32[3, 2, 3, C]")
                Y("conv %x, %z {spec=\"nHWc,HWco->nHWo\", starts=[-1, 0], strides=[2, 1], dilations=[1, 1]}",
                  "f32[1, B + 1, A, C]")),
    F(conv, X("f32[B, 3, A, C]") Z("f32[A, 3, 2, C]")
                Y("conv %x, %z {spec=\"nHgc,gHoc->nHgo\", starts=[0], strides=[1], dilations=[1]}", "f32[B, 1, A, 2]")),
    F(conv_transpose,
      X("f32[A, 2, B]") Z("f32[2, C, 3]") Y(
          "conv_transpose %x, %z {spec=\"noH,ocH->ncH\", starts=[-1], strides=[2], dilations=[1]}", "f32[A, C, 2*B]")),
    F(conv_transpose,
      X("f32[1, A, B, 2]") Z("f32[A, 2, 2, 2]")
          Y("conv_transpose %x, %z {spec=\"noHW,ocHW->ncHW\", starts=[0, -1], strides=[1, 3], dilations=[2, 1]}",
            "f32[1, 2, B + 2, 4]")),
    F(conv_filter,
      X("f32[A, 2, B]") Z("f32[A, C, B]")
          Y("conv_filter %x, %z {spec=\"ncH,noH->ocH\", starts=[-1], strides=[1], dilations=[1]}", "f32[C, 2, 3]")),
    F(pool, X("f32[A, 2*B]")
                Y("pool %x {op=max, axes=[1], window=[3], starts=[-1], strides=[2], dilations=[1]}", "f32[A, B]")),
    F(pool, X("f32[2, A, B]")
                Y("pool %x {op=sum, axes=[1, 2], window=[2, 3], starts=[0, -1], strides=[1, 1], dilations=[1, 1]}",
                  "f32[2, A, B]")),
    F(pool, X("i32[A, B + 4]")
                Y("pool %x {op=min, axes=[1], window=[2], starts=[0], strides=[1], dilations=[3]}", "i32[A, B + 1]")),
    F(pool_grad,
      X("f32[A, 2*B]") Z("f32[A, B]")
          Y("pool_grad %x, %z {axes=[1], window=[3], starts=[-1], strides=[2], dilations=[1]}", "f32[A, 2*B]")),
    F(pool_grad, X("f32[A, 4, 5, B]") Z("f32[A, 4, 3, B]") Y(
                     "pool_grad %x, %z {axes=[1, 2], window=[2, 3], starts=[0, -1], strides=[1, 2], dilations=[2, 1]}",
                     "f32[A, 4, 5, B]")),
    F(grouped_dot, X("f32[A, B]") "%i = input {name=\"i\"} : i64[A] " Z("f32[4, B, C]")
                       Y("grouped_dot %x, %i, %z {start=0}", "f32[A, C]")),
    F(grouped_dot, X("f32[A, 2, 3]") "%i = input {name=\"i\"} : i64[A, 2] " Z("f32[C, 3, B]")
                       Y("grouped_dot %x, %i, %z {start=0}", "f32[A, 2, B]")),
    F(grouped_dot, X("f32[C]") "%i = const {value=2} : i64[] " Z("f32[B, C, 2]")
                       Y("grouped_dot %x, %i, %z {start=0}", "f32[2]")), /* a rank often owns none */
    F(grouped_mlp, X("f32[A, 2, B]") "%i = input {name=\"i\"} : i64[A, 2] " GLU("f32", "4", "B", "C", "2")
                       Y("grouped_mlp %x, %i, %g, %u, %d {kind=\"silu\", start=0}", "f32[A, 2, 2]")),
    F(grouped_mlp, X("f32[A, 3]") "%i = iota {axis=0, start=0} : i64[A] " GLU("f32", "B", "3", "4", "C")
                       Y("grouped_mlp %x, %i, %g, %u, %d {kind=\"relu\", start=0}", "f32[A, C]")),
    F(packed_dot, X("f32[A, B, 2, 8]") "%q = input {name=\"q\"} : u8[C, B, 2, 16, 4] "
                                       "%s = input {name=\"s\"} : bf16[C, B, 16] " Y("packed_dot %x, %q, %s {bits=4}",
                                                                                     "f32[A, C, 16]")),
    F(packed_dot, X("f32[2, A, B, 3, 4]") "%q = input {name=\"q\"} : u8[C, B, 3, 16, 4] "
                                          "%s = input {name=\"s\"} : bf16[C, B, 16] " Y(
                                              "packed_dot %x, %q, %s {bits=8}", "f32[2, A, C, 16]")),
    F(take,
      X("f32[A, 4, B]") "%i = input {name=\"i\"} : i64[A, C, B] " Y("take %x, %i {axis=1, start=0}", "f32[A, C, B]")),
    F(take, X("i32[3]") "%i = input {name=\"i\"} : i32[C] " Y("take %x, %i {axis=0, start=0}", "i32[C]")),
    F(take, X("bool[A, B]") "%i = input {name=\"i\"} : i64[A, 2] " Y("take %x, %i {axis=1, start=0}", "bool[A, 2]")),
    F(within, "%i = input {name=\"i\"} : i64[A, C, B] " Y("within %i {starts=[0, 0, 0], below=100000, negative=1}",
                                                          "i64[A, C, B]")),
    F(scatter, X("f32[A, C, B]") "%i = input {name=\"i\"} : i64[C] " Y("scatter %x, %i {op=sum, axis=1, start=0}",
                                                                       "f32[A, 5, B]")),
    F(scatter, X("f32[B, C, A]") "%i = input {name=\"i\"} : i32[B, C] " Y("scatter %x, %i {op=max, axis=0, start=0}",
                                                                          "f32[4, A]")),
    F(scatter,
      X("i32[B]") "%i = input {name=\"i\"} : i64[] " Y("scatter %x, %i {op=product, axis=1, start=0}", "i32[B, A]")),
    F(put, X("f32[A, C, B]") "%i = input {name=\"i\"} : i64[A, C, B] " Y("put %x, %i {op=sum, axis=1, start=0}",
                                                                         "f32[A, 5, B]")),
    F(put,
      X("i16[C, B]") "%i = input {name=\"i\"} : i64[C, B] " Y("put %x, %i {op=min, axis=0, start=0}", "i16[A, B]")),
    F(argsort, X("f32[A, B]") Y("argsort %x {axis=1, descending=0}", "i64[A, B]")),
    F(argsort, X("i8[A, C, B]") Y("argsort %x {axis=0, descending=1}", "i64[A, C, B]")),
    F(topk, X("f32[A, B, 4]") YZ("topk %x {axis=2, descending=1, k=2}", "f32[A, B, 2], i64[A, B, 2]")),
    F(topk, X("i8[B, A]") YZ("topk %x {axis=0, descending=0, k=B}", "i8[B, A], i64[B, A]")),
    F(topk, X("f64[5, A]") "%y, %y2 = topk %x {axis=0, descending=1, k=3} : f64[3, A], i64[3, A] output \"z\" %y2"),
    F(scan, X("f32[A, B]") Y("scan %x {op=sum, axis=1, exclusive=0, reverse=0}", "f32[A, B]")),
    F(scan, X("f32[A, C, B]") Y("scan %x {op=sum, axis=0, exclusive=1, reverse=1}", "f32[A, C, B]")),
    F(scan, X("i32[A, B]") Y("scan %x {op=max, axis=0, exclusive=0, reverse=1}", "i32[A, B]")),
    F(softmax, X("f32[A, B]") Y("softmax %x {axis=1}", "f32[A, B]")),
    F(softmax, X("f64[A, C, B]") Y("softmax %x {axis=0}", "f64[A, C, B]")),
    NARROW(softmax, X("bf16[C]") Y("softmax %x {axis=0}", "bf16[C]")),
    F(norm, X("f32[A, B]") Y("norm %x {kind=\"layer\", eps=0.01}", "f32[A, B]")),
    F(norm, X("f32[A, B, C]") Y("norm %x {kind=\"rms\", eps=0.01}", "f32[A, B, C]")),
    F(norm, X("f32[C]") Y("norm %x {kind=\"layer\", eps=0.5}", "f32[C]")),
    F(rope, X("f32[B, A, C, 4]") "%i = input {name=\"i\"} : i64[A] " Y("rope %x, %i {base=100, interleaved=0}",
                                                                       "f32[B, A, C, 4]")),
    F(rope,
      X("f32[A, C, 2]") "%i = input {name=\"i\"} : i64[A] " Y("rope %x, %i {base=100, interleaved=1}", "f32[A, C, 2]")),
    F(rope, X("f32[B, A, C, 4]") "%i = input {name=\"i\"} : i64[B, A] " Y("rope %x, %i {base=100, interleaved=0}",
                                                                          "f32[B, A, C, 4]")),
    F(rope, X("f32[B, 2, A, C, 2]") "%i = input {name=\"i\"} : i64[B, A] " Y("rope %x, %i {base=100, interleaved=1}",
                                                                             "f32[B, 2, A, C, 2]")),
    F(attention,
      "%q = input {name=\"q\"} : f32[B, 2, 2, A, 2] %k = input {name=\"k\"} : f32[B, 2, C, 2] %v = input {name=\"v\"} "
      ": f32[B, 2, C, 3] "
      "%s = input {name=\"s\"} : i64[B, A] %t = input {name=\"t\"} : i64[B, C] %n = input {name=\"n\"} : i64[B] " YZZ(
          "attention %q, %k, %v, %s, %t, %n {scale=0.7, causal=1, sums=1}",
          "f32[B, 2, 2, A, 3], f32[B, 2, 2, A], f32[B, 2, 2, A]")),
    F(attention,
      "%q = input {name=\"q\"} : f32[B, 2, 1, A, 2] %k = input {name=\"k\"} : f32[B, 2, C, 2] %v = input {name=\"v\"} "
      ": f32[B, 2, C, 2] "
      "%s = input {name=\"s\"} : i64[A] %t = input {name=\"t\"} : i64[C] %n = input {name=\"n\"} : i64[B] " Y(
          "attention %q, %k, %v, %s, %t, %n {scale=0.7, causal=0}", "f32[B, 2, 1, A, 2]")),
    F(attention,
      "%q = input {name=\"q\"} : f32[2, B, 2, A, 2] %k = input {name=\"k\"} : f32[2, B, C, 2] %v = input {name=\"v\"} "
      ": f32[2, B, C, 3] "
      "%s = input {name=\"s\"} : i64[A] %t = input {name=\"t\"} : i64[C] %n = input {name=\"n\"} : i64[] " YZZ(
          "attention %q, %k, %v, %s, %t, %n {scale=0.7, causal=1, sums=1}",
          "f32[2, B, 2, A, 3], f32[2, B, 2, A], f32[2, B, 2, A]")),
    F(attention,
      "%q = input {name=\"q\"} : f32[A, 1, 2, 1, 2] %k = input {name=\"k\"} : f32[A, 1, C, 2] %v = input {name=\"v\"} "
      ": f32[A, 1, C, 2] "
      "%s = input {name=\"s\"} : i64[1] %t = input {name=\"t\"} : i64[C] %n = input {name=\"n\"} : i64[] "
      "%y, %y2, %y3 = attention %q, %k, %v, %s, %t, %n {scale=0.7, causal=0, sums=1} : f32[A, 1, 2, 1, 2], "
      "f32[A, 1, 2, 1], f32[A, 1, 2, 1] output \"z\" %y3"),
    F(attention,
      "%q = input {name=\"q\"} : f32[2, B, 2, A, 2] %k = input {name=\"k\"} : f32[2, B, C, 2] %v = input {name=\"v\"} "
      ": f32[2, B, C, 3] "
      "%s = input {name=\"s\"} : i64[A] %t = input {name=\"t\"} : i64[C] %n = input {name=\"n\"} : i64[] " Y(
          "attention %q, %k, %v, %s, %t, %n {scale=0.7, causal=1}", "f32[2, B, 2, A, 3]")),
    F(attention,
      "%q = input {name=\"q\"} : f32[A, 1, 2, 1, 2] %k = input {name=\"k\"} : f32[A, 1, C, 2] %v = input {name=\"v\"} "
      ": f32[A, 1, C, 2] "
      "%s = input {name=\"s\"} : i64[1] %t = input {name=\"t\"} : i64[C] %n = const {value=9} : i64[] " Y(
          "attention %q, %k, %v, %s, %t, %n {scale=0.7, causal=0}", "f32[A, 1, 2, 1, 2]")),
    F(attention,
      "%q = input {name=\"q\"} : f32[1, A, 1, 3, 2] %k = input {name=\"k\"} : f32[1, A, C, 2] %v = input {name=\"v\"} "
      ": f32[1, A, C, 2] "
      "%s = iota {axis=0, start=0} : i64[3] %one = const {value=1} : i64[C] %i = iota {axis=0, start=0} : i64[C] %t = "
      "add %i, %one : i64[C] "
      "%n = const {value=3} : i64[] " Y("attention %q, %k, %v, %s, %t, %n {scale=0.7, causal=1}",
                                        "f32[1, A, 1, 3, 2]")), /* the first query sees no key */
#define QKV(q, k, v) \
  "%q = input {name=\"q\"} : f32[" q "] %k = input {name=\"k\"} : f32[" k "] %v = input {name=\"v\"} : f32[" v "] "
#define MASKED(s, t) \
  "%s = input {name=\"s\"} : i64[" s "] %t = input {name=\"t\"} : i64[" t "] %n = const {value=3} : i64[] "
#define RESULTS(o, l) \
  "%o = input {name=\"o\"} : f32[" o "] %m = input {name=\"m\"} : f32[" l "] %l = input {name=\"l\"} : f32[" l \
  "] %d = input {name=\"d\"} : f32[" o "] "
    F(attention_grad,
      QKV("2, B, 2, A, 2", "2, B, C, 2", "2, B, C, 3") MASKED("A", "C") RESULTS("2, B, 2, A, 3", "2, B, 2, A")
          Y("attention_grad %q, %k, %v, %s, %t, %n, %o, %m, %l, %d {of=\"q\", scale=0.7, causal=1}",
            "f32[2, B, 2, A, 2]")),
    F(attention_grad,
      QKV("2, B, 2, A, 2", "2, B, C, 2", "2, B, C, 3") MASKED("A", "C") RESULTS("2, B, 2, A, 3", "2, B, 2, A") Y(
          "attention_grad %q, %k, %v, %s, %t, %n, %o, %m, %l, %d {of=\"k\", scale=0.7, causal=1}", "f32[2, B, C, 2]")),
    F(attention_grad,
      QKV("1, B, 2, A, 2", "1, B, C, 2", "1, B, C, 3") MASKED("A", "C") RESULTS("1, B, 2, A, 3", "1, B, 2, A") Y(
          "attention_grad %q, %k, %v, %s, %t, %n, %o, %m, %l, %d {of=\"v\", scale=0.7, causal=0}", "f32[1, B, C, 3]")),
    F(attention_grad, QKV("A, 1, C, 2, 2", "A, 1, B, 2", "A, 1, B, 2") MASKED("2", "B") X("f32[A, B]") RESULTS(
                          "A, 1, C, 2, 2", "A, 1, C, 2")
                          Y("attention_grad %q, %k, %v, %s, %t, %n, %x, %o, %m, %l, %d {of=\"k\", scale=0.7, causal=1, "
                            "bias=\"bt\"}",
                            "f32[A, 1, B, 2]")),
    F(cross_entropy, X("f32[A, C]") "%i = input {name=\"i\"} : i64[A] " Y("cross_entropy %x, %i", "f32[A]")),
    F(cross_entropy, X("f32[A, B, 4]") "%i = input {name=\"i\"} : i64[A, B] " Y("cross_entropy %x, %i", "f32[A, B]")),
};

static void other_rows(void) {
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) run_all(&others[i]);
}

/* Every operation has an instance, and every kind of factor of its rules was cut. */
static void coverage(void) {
  printf("%-14s %9s", "strategies", "none");
  for (int f = 0; f < FK_COUNT; f++)
    if (f != FK_FROZEN) printf(" %9s", factor_kind_name((FactorKind)f));
  printf("\n");
  for (int k = 1; k < OP_COUNT; k++) {
    if (op_level2_only((OpKind)k) || k == OP_call || k == OP_result || k == OP_opaque)
      continue; /* calls are inlined before lowering; unknown operators compute nothing */
    if (k == OP_loop || k == OP_carry || k == OP_repeat || k == OP_leave || k == OP_bind)
      continue; /* not a single operation, or for later ones */
    CHECKF(instances_of[k] > 0, "%s has no instance", op_name((OpKind)k));
    printf("%-14s %9ld", op_name((OpKind)k), plain[k]);
    for (int f = 0; f < FK_COUNT; f++) {
      if (f == FK_FROZEN) continue;
      printf(" %9ld", counts[k][f]);
      CHECKF(!has_kind[k][f] || counts[k][f], "%s: no strategy cut a factor of kind %s", op_name((OpKind)k),
             factor_kind_name((FactorKind)f));
    }
    printf("\n");
  }
  for (int f = 0; f < FK_COUNT; f++) {
    long total = 0;
    for (int k = 0; k < OP_COUNT; k++) total += counts[k][f];
    CHECKF(f == FK_FROZEN || total > 0, "no strategy cut a factor of kind %s", factor_kind_name((FactorKind)f));
  }
}

int main(void) {
  static const char *const machines =
      "gpu g { memory 8 GB at 0.001 TB/s; launch 1 ns; peak f32 100 TFLOPS; }\nmachine slow_memory { devices 8 g; link "
      "l at 1 GB/s latency 1 us; }\n"
      "gpu h { memory 8 GB at 100 TB/s; launch 1 ns; peak f32 0.001 TFLOPS; }\nmachine slow_sums { devices 8 h; link l "
      "at 1 GB/s latency 1 us; }\n";
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  targets[0] = topo_target_parse(d, a, "m.topo", machines, "slow_memory", 0);
  targets[1] = topo_target_parse(d, a, "m.topo", machines, "slow_sums", 0);
  targets[2] = topo_target_find(d, a, "dgx-h100x8");
  diags_print(d, stderr, false);
  for (int k = 0; k < TARGETS; k++)
    if (!targets[k]) return 1;
  RUN(elementwise_rows);
  RUN(other_rows);
  RUN(coverage);
  CHECK(counted > 10000);
  arena_free(a);
  return test_summary();
}
