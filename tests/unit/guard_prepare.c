/* tests/unit/guard_prepare.c - every rank computes its part of a prepared weight, for all layouts.
 *
 * For each function @prepare below, each mesh and every way to keep its result: level 2 of @prepare obeys the verifier,
 * is proved, has no communication, and gives the numbers of level 1 in doubles and modulo p.  Also checks how much of a
 * weight a rank reads, if that is known. */
#include "passes/lower/lower.h"
#include "tests/guard.h"

static const char weights[] =
    "param \"m\" : f32[6, 8] = normal 1 seed 1\n"
    "param \"n\" : f32[6, 8] = normal 1 seed 2\n"
    "param \"v\" : f32[8] = normal 1 seed 3\n"
    "param \"q\" : i8[6, 8] = constant 5\n"
    "param \"t\" : f32[4, 3, 5] = uniform 1 seed 4\n"
    "param \"h\" : f16[7, 8] = normal 1 seed 5\n";

#define M "%m = param {name=\"m\"} : f32[6, 8] "
#define N "%n = param {name=\"n\"} : f32[6, 8] "
#define V "%v = param {name=\"v\"} : f32[8] "
#define T "%t = param {name=\"t\"} : f32[4, 3, 5] "

/* The result is %y; `reads_parts`: a rank that keeps a part of the result never reads a whole matrix. */
typedef struct Case {
  const char *name, *type, *body;
  bool reads_parts;
} Case;

static const Case cases[] = {
    {"cast", "f32[7, 8]", "%h = param {name=\"h\"} : f16[7, 8] %y = cast %h {to=f32} : f32[7, 8]", true},
    {"dequantise", "f32[6, 8]",
     "%q = param {name=\"q\"} : i8[6, 8] " V
     "%f = cast %q {to=f32} : f32[6, 8] %b = broadcast %v {dims=[1]} : f32[6, 8] "
     "%y = mul %f, %b : f32[6, 8]",
     true},
    {"scaled", "f32[6, 8]", M "%c = const {value=0.5} : f32[6, 8] %y = mul %m, %c : f32[6, 8]", true},
    {"listed", "f32[8]", V "%c = const {floats=[1, 2, 3, 4, 5, 6, 7, 8]} : f32[8] %y = mul %v, %c : f32[8]", false},
    {"sum", "f32[6, 8]", M N "%y = add %m, %n : f32[6, 8]", true},
    {"turned", "f32[8, 6]", M "%e = exp %m : f32[6, 8] %y = transpose %e {perm=[1, 0]} : f32[8, 6]", true},
    {"joined", "f32[12, 8]", M N "%y = concat %m, %n {axis=0} : f32[12, 8]", false},
    {"part", "f32[3, 8]", M "%e = exp %m : f32[6, 8] %y = slice %e {starts=[2, 0], strides=[1, 1]} : f32[3, 8]", false},
    {"every second", "f32[6, 4]", M "%e = neg %m : f32[6, 8] %y = slice %e {starts=[0, 1], strides=[1, 2]} : f32[6, 4]",
     false},
    {"padded", "f32[9, 8]", M "%e = exp %m : f32[6, 8] %y = pad %e {low=[1, 0], high=[2, 0], value=3} : f32[9, 8]",
     false},
    {"merged", "f32[48]", M "%e = exp %m : f32[6, 8] %y = reshape %e : f32[48]", false},
    {"split", "f32[6, 2, 4]", M "%e = exp %m : f32[6, 8] %y = reshape %e : f32[6, 2, 4]", false},
    {"summed", "f32[8]", M "%y = reduce %m {axes=[0], op=sum} : f32[8]", true},
    {"product", "f32[6, 6]", M N "%y = dot %m, %n {spec=\"ik,jk->ij\"} : f32[6, 6]", false},
    {"product of three", "f32[6, 8]",
     M N "%p = dot %m, %n {spec=\"ik,jk->ij\"} : f32[6, 6] %y = dot %p, %m {spec=\"ij,jk->ik\"} : f32[6, 8]", false},
    {"rows", "f32[4, 8]", M "%i = iota {axis=0, start=0} : i64[4] %y = gather %m, %i {axis=0, start=0} : f32[4, 8]",
     false},
    {"shares", "f32[6, 8]", M "%y = softmax %m {axis=1} : f32[6, 8]", false},
    {"norm", "f32[6, 8]",
     M "%s = mul %m, %m : f32[6, 8] %r = reduce %s {axes=[1], op=sum} : f32[6] %i = rsqrt %r : f32[6] "
       "%b = broadcast %i {dims=[0]} : f32[6, 8] %y = mul %m, %b : f32[6, 8]",
     false},
    {"masked", "f32[6, 8]",
     M "%i = iota {axis=0, start=0} : i64[6, 8] %j = iota {axis=1, start=0} : i64[6, 8] %k = ge %i, %j : bool[6, 8] "
       "%z = const {value=0} : f32[6, 8] %y = select %k, %m, %z : f32[6, 8]",
     true},
    {"three dimensions", "f32[5, 12]",
     T "%p = transpose %t {perm=[2, 0, 1]} : f32[5, 4, 3] %e = exp %p : f32[5, 4, 3] %y = reshape %e : f32[5, 12]",
     false},
    {"written over", "f32[6, 8]",
     M "%n = param {name=\"t\"} : f32[4, 3, 5] %r = reshape %n : f32[60] %s = slice %r {starts=[0], strides=[1]} : "
       "f32[16] "
       "%u = reshape %s : f32[2, 8] %i = const {value=3} : i64[] %y = update %m, %u, %i {axis=0, start=0} : f32[6, 8]",
     false},
};

static const char *const meshes[] = {"mesh [tp=2] stages 1\n", "mesh [tp=3] stages 1\n", "mesh [a=2, b=2] stages 1\n",
                                     "mesh [mb=2 time, tp=2] stages 1\n"};

static int programs, without_slices;

static double elements_of(const Module *m, const Func *f, const Op *op, const int64_t *symbols) {
  int64_t dims[MAX_RANK];
  double n = 1;
  const Type *t = type_of(f, op->out);
  (void)m;
  if (!interp_dims(t, symbols, dims)) return 0;
  for (int d = 0; d < t->rank; d++) n *= (double)dims[d];
  return n;
}

/* A cut result reads only a part of each matrix. */
static const char *reads_too_much(Module *m, const Func *l1, const Func *l2, Arena *a) {
  int64_t *symbols = interp_symbols(m, a);
  for (size_t i = 0; i < l2->ops.n; i++) {
    const Op *op = &l2->ops.items[i];
    if (op->kind != OP_param || type_of(l2, op->out)->rank < 2) continue;
    for (size_t k = 0; k < l1->ops.n; k++) {
      const Op *whole = &l1->ops.items[k];
      if (whole->kind == OP_param && strcmp(op_str(whole, AT_name), op_str(op, AT_name)) == 0 &&
          elements_of(m, l2, op, symbols) >= elements_of(m, l1, whole, symbols))
        return arena_printf(a, "reads all of %s", op->name);
    }
  }
  return NULL;
}

static const char *same_numbers(Module *m, const Func *l1, const Func *l2, Arena *a) {
  for (int d = 0; d < 2; d++) {
    Diags *diags = diags_new(a);
    InterpOptions o = {.domain = (InterpDomain)d, .symbols = interp_symbols(m, a), .tolerance = d ? 0 : 1e-9};
    InterpResult want, got;
    const char *why;
    if (!interp_run(m, l1, &o, 0, NULL, a, &want, diags) || !interp_run(m, l2, &o, 0, NULL, a, &got, diags))
      return arena_printf(a, "does not run: %s", diags->n ? diags->items[0].message : "");
    const Reference ref = {.tolerance = 1e-9};
    if (!guard_same(want.outputs, want.noutputs, got.outputs, got.noutputs, &ref, o.domain, a, &why)) return why;
  }
  return NULL;
}

/* The weight kept by the strategy: a user that reads it so, and the resulting @prepare. */
static const char *check(Module *m, const Case *c, const Strategy *s, Arena *a, Func **l2) {
  Diags *d = diags_new(a);
  const Func *main = module_func(m, "main"), *l1 = module_func(m, "prepare");
  LowerPlan plan = {.strategies = s};
  Func *user = lower_spmd(m, main, &plan, "rank", d);
  *l2 = user ? lower_prepare(m, l1, 1, &user, "prepare.rank", d) : NULL;
  if (!*l2 || !verify_func(m, *l2, d)) return arena_printf(a, "not lowered: %s", d->n ? d->items[0].message : "");
  Proof p = prove_prepare(m, l1, *l2, 1, &user);
  if (p.verdict != PROVED) return arena_printf(a, "%s at %s: %s", verdict_name(p.verdict), p.op, p.reason);
  bool slices = false;
  for (size_t i = 0; i < (*l2)->ops.n; i++) slices |= (*l2)->ops.items[i].kind == OP_shard_slice;
  programs++;
  without_slices += !slices;
  const char *why = same_numbers(m, l1, *l2, a);
  return why || !c->reads_parts || !s->n ? why : reads_too_much(m, l1, *l2, a);
}

static void run_case(const Case *c, const char *mesh) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("case",
                       arena_printf(a,
                                    "apc.ir 1\n%s%sparam \"y\" : %s = prepared\nfunc @main level 1 { %%y = param "
                                    "{name=\"y\"} : %s output \"y\" %%y }\n"
                                    "func @prepare level 1 { %s output \"y\" %%y }",
                                    mesh, weights, c->type, c->type, c->body),
                       d);
  bool ok = m && verify_module(m, d);
  if (!ok) diags_print(d, stderr, false);
  CHECKF(ok, "%s", c->name);
  const Func *main = ok ? module_func(m, "main") : NULL;
  const Strategy *list = NULL;
  int n = ok ? strategy_enumerate(m->arena, m, rule_of(m, main, &main->ops.items[0]), true, &list) : 0;
  for (int i = 0; i < n; i++) {
    Arena *scratch = arena_new();
    Func *l2 = NULL;
    bool timed = false;
    for (int k = 0; k < list[i].n; k++) timed |= m->mesh.axes[list[i].picks[k].axis].temporal;
    const char *why = timed ? NULL : check(m, c, &list[i], scratch, &l2); /* weights do not change with time */
    if (why)
      guard_report(m, module_func(m, "prepare"), l2,
                   arena_printf(scratch, "%s, %.*s, strategy %d", c->name, (int)strlen(mesh) - 1, mesh, i), why);
    arena_free(scratch);
  }
  if (m) module_free(m);
  arena_free(a);
}

static void parts_are_right(void) {
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    for (size_t i = 0; i < sizeof meshes / sizeof *meshes; i++) run_case(&cases[k], meshes[i]);
  printf("  %d programs, %d without a slice of something made whole\n", programs, without_slices);
  CHECK(programs > 300);
  CHECK(without_slices > 2 * programs / 3);
}

int main(void) {
  RUN(parts_are_right);
  return test_summary();
}
