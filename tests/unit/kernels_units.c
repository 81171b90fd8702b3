/* The units of level-2 functions: fusion, views, order of communication, stages, and the computations of a rank off the
 * origin. */
#include <stdlib.h>
#include <string.h>

#include "codegen/rows/row_work.h"
#include "codegen/target.h"
#include "tests/test.h"

typedef struct Made {
  Arena *arena;
  Module *m;
  const Func *f;
  UnitList *units;
  KernelSet kernels;
} Made;

static Made make_on(DeviceKind kind, const char *body, int stage, bool library) {
  Made x = {.arena = arena_new()};
  x.kernels.arena = x.arena;
  Diags *d = diags_new(x.arena);
  const char *text = arena_printf(x.arena,
                                  "apc.ir 1\nsymbol b hint 3\nmesh [tp=2] stages 2\nstate \"st\" : f32[b,8] = 0\nparam "
                                  "\"w\" : f32[3,4,4] = zeros\nparam \"v\" : f32[4] = zeros\nfunc @r level 2 {\n%s}\n",
                                  body);
  x.m = ir_parse("test", text, d);
  if (!x.m || !verify_module(x.m, d)) {
    diags_print(d, stderr, false);
    exit(1);
  }
  x.f = module_func(x.m, "r");
  x.units = units_of(work_new(x.m, x.f, stage, target_device_traits(kind), library));
  kernel_target(target_device_traits(kind))->print(x.m, x.f, x.units, &x.kernels);
  return x;
}

static Made make_for(const char *body, int stage, bool library) { return make_on(DEVICE_cpu, body, stage, library); }
static Made make(const char *body, int stage) { return make_for(body, stage, false); }

static void done(Made *x) {
  module_free(x->m);
  arena_free(x->arena);
}

/* "source kernel kernel gemm ..." */
static const char *kinds(const Made *x) {
  static const char *const names[] = {"source", "kernel", "gemm", "view", "comm", "write"};
  Text t = {.arena = x->arena};
  for (size_t i = 0; i < x->units->n; i++) text_printf(&t, "%s%s", i ? " " : "", names[x->units->items[i].kind]);
  return text_str(&t);
}

#define EXPECT(body, stage, want) \
  do { \
    Made x_ = make(body, stage); \
    CHECK_STR(kinds(&x_), want); \
    done(&x_); \
  } while (0)

#define X "  %x = input {name=\"x\"} : f32[b,8] @{}\n"

static void fusion(void) {
  EXPECT(X
         "  %e = exp %x : f32[b,8]\n  %c = copy %e : f32[b,8]\n  %t = tanh %c : f32[b,8]\n  %s = softmax %t {axis=1} : "
         "f32[b,8]\n"
         "  %r = relu %s : f32[b,8]\n  %m = reduce %r {axes=[1], op=max} : f32[b]\n  output \"m\" %m @{}\n",
         0, "source kernel");
  /* two branches that meet */
  EXPECT(X "  %a = exp %x : f32[b,8]\n  %d = tanh %x : f32[b,8]\n  %y = mul %a, %d : f32[b,8]\n  output \"y\" %y @{}\n",
         0, "source kernel");
  /* a path through a matrix product keeps the two ends separate */
  EXPECT(X
         "  %a = exp %x : f32[b,8]\n  %g = dot %a, %x {spec=\"bm,bn->mn\"} : f32[8,8]\n  %h = dot %x, %g "
         "{spec=\"bm,mn->bn\"} : f32[b,8]\n"
         "  %y = mul %a, %h : f32[b,8]\n  output \"y\" %y @{}\n",
         0, "source kernel gemm gemm kernel");
  /* a column reduction fuses its producer, the way back is another kernel */
  EXPECT(X
         "  %a = exp %x : f32[b,8]\n  %r = reduce %a {axes=[0], op=sum} : f32[8]\n  %z = broadcast %r {dims=[1]} : "
         "f32[b,8]\n  %y = sub %a, %z : f32[b,8]\n"
         "  output \"y\" %y @{}\n",
         0, "source kernel kernel");
  /* a transpose with two readers stays outside kernels along rows */
  EXPECT(X
         "  %t = transpose %x {perm=[1, 0]} : f32[8,b]\n  %e = exp %t : f32[8,b]\n  %a = mul %t, %t : f32[8,b]\n"
         "  %r = reduce %a {axes=[1], op=sum} : f32[8]\n  output \"e\" %e @{}\n  output \"r\" %r @{}\n",
         0, "source kernel kernel");
  /* short dimensions at the end are reduced as one row */
  EXPECT(
      "  %x = input {name=\"x\"} : f32[b,9,4] @{}\n  %r = reduce %x {axes=[1, 2], op=sum} : f32[b]\n"
      "  output \"r\" %r @{}\n",
      0, "source view kernel");
  EXPECT(
      "  %x = input {name=\"x\"} : f32[b,9,64] @{}\n  %r = reduce %x {axes=[1, 2], op=sum} : f32[b]\n"
      "  output \"r\" %r @{}\n",
      0, "source kernel kernel");
  /* recomputed values stay separate from the first computation, and fuse with their readers */
  EXPECT(X
         "  %a = exp %x : f32[b,8]\n  %t = tanh %a : f32[b,8] again\n  %s = sin %t : f32[b,8]\n"
         "  output \"a\" %a @{}\n  output \"s\" %s @{}\n",
         0, "source kernel kernel");
  /* no unit for an unused value */
  EXPECT(X "  %a = exp %x : f32[b,8]\n  output \"x\" %x @{}\n", 0, "source");
}

/* Operations after a convolution join it, for the library only, if the value in between has no other reader. */
static void joins(void) {
#define IMAGE \
  "  %x = input {name=\"x\"} : f32[b,9,4] @{}\n  %w = param {name=\"w\"} : f32[3,4,4] @{}\n  %v = param {name=\"v\"} " \
  ": f32[4] @{}\n"
#define CONV(y, x) \
  "  %" y " = conv %" x ", %w {starts=[-1], strides=[1], dilations=[1], spec=\"nHc,Hco->nHo\"} : f32[b,9,4]\n"
#define BIAS(y, x) "  %" y "b = broadcast %v {dims=[2]} : f32[b,9,4]\n  %" y " = add %" x ", %" y "b : f32[b,9,4]\n"
  static const struct {
    const char *body;
    int kernels;
    const char *what;
  } cases[] = {
      {IMAGE CONV("c", "x") BIAS("a", "c") "  %r = relu %a : f32[b,9,4]\n  output \"r\" %r @{}\n", 1, "conv bias relu"},
      {IMAGE CONV("c", "x") "  %a = add %x, %c : f32[b,9,4]\n  %s = sigmoid %a : f32[b,9,4]\n  %r = mul %s, %a : "
                            "f32[b,9,4]\n  output \"r\" %r @{}\n",
       1, "conv residual silu"},
      /* two that meet: one joins the addition */
      {IMAGE CONV("c", "x") BIAS("a", "c") CONV("d", "x")
           BIAS("e", "d") "  %m = add %a, %e : f32[b,9,4]\n  %r = relu %m : f32[b,9,4]\n  output \"r\" %r @{}\n",
       2, "conv bias numbers"},
      /* another reader needs the value before relu */
      {IMAGE CONV("c", "x") "  %r = relu %c : f32[b,9,4]\n  output \"c\" %c @{}\n  output \"r\" %r @{}\n", 2,
       "conv numbers"},
      {IMAGE CONV("c", "x") "  %e = exp %c : f32[b,9,4]\n  output \"e\" %e @{}\n", 2, "conv numbers"}};
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    Made m = make_for(cases[i].body, 0, true);
    Text t = {.arena = m.arena};
    int n = 0;
    for (size_t k = 0; k < m.units->n; k++) n += m.units->items[k].kind == UNIT_KERNEL;
    units_print(m.m, &t, m.f, m.units);
    CHECKF(n == cases[i].kernels && strstr(text_str(&t), cases[i].what), "case %zu: %s", i, text_str(&t));
    done(&m);
    m = make(cases[i].body, 0);
    for (size_t k = 0; k < m.units->n; k++) CHECK(!m.units->items[k].conv);
    done(&m);
  }
}

static void check_join(DeviceKind device, const char *body, const char *expected, const char *what) {
  Made m = make_on(device, body, 0, true);
  Text t = {.arena = m.arena};
  units_print(m.m, &t, m.f, m.units);
  CHECK_STR(kinds(&m), expected);
  CHECKF(strstr(text_str(&t), what) != NULL, "%s: %s", expected, text_str(&t));
  done(&m);
}

/* Products are followed by a bias along the columns, a residual and relu, but by no sigmoid: on GPUs, as cublasLt has
 * it, of 16 bits as well but not of f64, and on CPUs, of f32 only, where relu6 joins as well. */
static void joins_of_products(void) {
#define DOT \
  X "  %w = input {name=\"w\"} : f32[8,4] @{}\n  %v = input {name=\"v\"} : f32[4] @{}\n" \
    "  %c = dot %x, %w {spec=\"bm,mn->bn\"} : f32[b,4]\n"
#define WITH_BIAS "  %s = broadcast %v {dims=[1]} : f32[b,4]\n  %a = add %c, %s : f32[b,4]\n"
  static const struct {
    const char *body, *kinds, *what;
  } cases[] = {
      {DOT WITH_BIAS "  %y = relu %a : f32[b,4]\n  output \"y\" %y @{}\n", "source source source gemm", " bias relu"},
      {DOT WITH_BIAS "  %y = sigmoid %a : f32[b,4]\n  output \"y\" %y @{}\n", "source source source gemm kernel",
       " bias\n"},
      {DOT "  %r = input {name=\"r\"} : f32[b,4] @{}\n" WITH_BIAS
           "  %d = add %r, %a : f32[b,4]\n  %y = relu %d : f32[b,4]\n  output \"y\" %y @{}\n",
       "source source source source gemm", " bias residual relu"},
      {DOT WITH_BIAS "  output \"y\" %a @{}\n  output \"c\" %c @{}\n", "source source source gemm kernel", "gemm c"},
      {X "  %w = input {name=\"w\"} : f32[8,4] @{}\n  %u = input {name=\"u\"} : f32[b] @{}\n  %c = dot %x, %w "
         "{spec=\"bm,mn->bn\"} : f32[b,4]\n  %s = broadcast %u {dims=[0]} : f32[b,4]\n  %y = add %c, %s : f32[b,4]\n"
         "  output \"y\" %y @{}\n",
       "source source source gemm kernel", "gemm c"},
      {X "  %h = cast %x {to=f16} : f16[b,8]\n  %w = input {name=\"w\"} : f16[8,4] @{}\n  %c = dot %h, %w "
         "{spec=\"bm,mn->bn\"} : f16[b,4]\n  %y = relu %c : f16[b,4]\n  output \"y\" %y @{}\n",
       "source kernel source gemm", " relu\n"},
      {X "  %h = cast %x {to=f64} : f64[b,8]\n  %w = input {name=\"w\"} : f64[8,4] @{}\n  %c = dot %h, %w "
         "{spec=\"bm,mn->bn\"} : f64[b,4]\n  %y = relu %c : f64[b,4]\n  output \"y\" %y @{}\n",
       "source kernel source gemm kernel", "gemm c"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
    check_join(DEVICE_cuda, cases[i].body, cases[i].kinds, cases[i].what);
    if (!strstr(cases[i].body, "cast")) check_join(DEVICE_cpu, cases[i].body, cases[i].kinds, cases[i].what);
  }
#define NUMBER(name, value) \
  "  %" name ".1 = const {value=" value "} : f32[1]\n  %" name " = broadcast %" name ".1 {dims=[1]} : f32[b,4]\n"
#define MAX(to, of, with) "  %" to " = max %" of ", %" with " : f32[b,4]\n"
#define MIN(to, of, with) "  %" to " = min %" of ", %" with " : f32[b,4]\n"
#define END "  output \"y\" %y @{}\n"
  static const struct {
    const char *body;
    int cpu_kernels, cuda_kernels;
    const char *cpu, *cuda;
  } bounds[] = {
      {DOT NUMBER("z", "0") MAX("y", "c", "z") END, 0, 0, " relu\n", " relu\n"},
      {DOT NUMBER("z", "0") NUMBER("s", "6") MAX("m", "z", "c") MIN("y", "m", "s") END, 0, 1, " relu6\n", " relu\n"},
      {DOT "  %m = relu %c : f32[b,4]\n" NUMBER("s", "6") MIN("y", "s", "m") END, 0, 1, " relu6\n", " relu\n"},
      {DOT NUMBER("z", "0") NUMBER("s", "5") MAX("m", "c", "z") MIN("y", "m", "s") END, 1, 1, " relu\n", " relu\n"},
      {DOT NUMBER("z", "1") MAX("y", "c", "z") END, 1, 1, "gemm c", "gemm c"},
      {DOT NUMBER("s", "6") MIN("y", "c", "s") END, 1, 1, "gemm c", "gemm c"},
  };
  for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
    static const char *const all[] = {"source source gemm", "source source gemm kernel"};
    check_join(DEVICE_cpu, bounds[i].body, all[bounds[i].cpu_kernels], bounds[i].cpu);
    check_join(DEVICE_cuda, bounds[i].body, all[bounds[i].cuda_kernels], bounds[i].cuda);
  }
#undef NUMBER
#undef MAX
#undef MIN
#undef END
#undef DOT
#undef WITH_BIAS
}

static void views(void) {
  EXPECT(X
         "  %a = reshape %x : f32[2*b,4]\n  %s = slice %x {starts=[1, 0], strides=[1,1]} : f32[b - 1,8]\n  output "
         "\"a\" %a @{}\n  output \"s\" %s @{}\n",
         0, "source view view");
  EXPECT(X "  %s = slice %x {starts=[0, 1], strides=[1,1]} : f32[b,7]\n  output \"s\" %s @{}\n", 0, "source kernel");
  Made v = make(X "  %s = slice %x {starts=[2, 0], strides=[1,1]} : f32[b - 2,8]\n  output \"s\" %s @{}\n", 0);
  CHECK(ex_is_const(v.units->items[1].view_offset, 64));
  done(&v);
}

static void dots(void) {
  Made x = make(X
                "  %w = input {name=\"w\"} : f32[8,4] @{}\n  %y = dot %x, %w {spec=\"bm,mn->bn\"} : f32[b,4]\n  output "
                "\"y\" %y @{}\n",
                0);
  const GemmUnit *g = x.units->items[2].gemm;
  CHECK_STR(kinds(&x), "source source gemm");
  CHECK(g && g->nbatch == 0 && ex_is_const(g->n, 4) && ex_is_const(g->k, 8) && ex_is_const(g->a_m, 8) &&
        ex_is_const(g->b_k, 4));
  done(&x);
  EXPECT(X
         "  %w = input {name=\"w\"} : f32[8,4] @{}\n  %y = dot %x, %w {spec=\"bm,mn->nb\"} : f32[4,b]\n  output \"y\" "
         "%y @{}\n",
         0, "source source gemm");
  EXPECT(
      "  %x = input {name=\"x\"} : i64[b,8] @{}\n  %y = dot %x, %x {spec=\"bm,cm->bc\"} : i64[b,b]\n  output \"y\" %y "
      "@{}\n",
      0, "source kernel");
  EXPECT(
      "  %x = input {name=\"x\"} : bf16[b,8] @{}\n  %y = dot %x, %x {spec=\"bm,cm->bc\"} : bf16[b,b]\n  output \"y\" "
      "%y @{}\n",
      0, "source kernel kernel gemm kernel");
}

static void communication(void) {
  const char *body = X
      "  %a = exp %x : f32[b,8]\n  %p = all_reduce %a {mesh_axes=[tp], op=sum} : f32[b,8]\n  %q = all_reduce %x "
      "{mesh_axes=[tp], op=max} : f32[b,8]\n"
      "  %s = add %p, %q : f32[b,8]\n  %t = transfer %s {to_stage=1} : f32[b,8]\n  %y = exp %t : f32[b,8] stage 1\n  "
      "output \"y\" %y @{}\n";
  EXPECT(body, 0, "source kernel comm comm kernel comm");
  EXPECT(body, 1, "comm kernel");
  Made x = make(body, 1);
  CHECK(x.units->items[0].nin == 0 && x.units->items[0].nout == 1);
  done(&x);
  x = make(body, 0);
  CHECK(x.units->items[5].nin == 1 && x.units->items[5].nout == 0);
  done(&x);
  EXPECT(
      "  %r = read {name=\"st\"} : f32[b,8] @{}\n  %u = input {name=\"u\"} : f32[1,8] @{}\n  %p = input {name=\"p\"} : "
      "i64[] @{}\n"
      "  %y = update %r, %u, %p {axis=0, start=0} : f32[b,8]\n  write \"w\" %y {name=\"st\"}\n",
      0, "source source source kernel write");
}

static void sharing(void) {
  Made x = make(X "  %s = softmax %x {axis=1} : f32[b,8]\n  output \"s\" %s @{}\n", 0);
  CHECK(x.units->items[1].alias[0] == 0);
  done(&x);
  x = make(X "  %t = transpose %x {perm=[1,0]} : f32[8,b]\n  output \"t\" %t @{}\n", 0);
  CHECK(x.units->items[1].alias[0] == -1);
  done(&x);
  /* x is read again after the first result of its row is stored */
  x = make(X
           "  %e = neg %x : f32[b,8]\n  %m = reduce %e {axes=[1], op=max} : f32[b]\n  %n = broadcast %m {dims=[0]} : "
           "f32[b,8]\n"
           "  %y = sub %x, %n : f32[b,8]\n  output \"e\" %e @{}\n  output \"y\" %y @{}\n",
           0);
  CHECK_STR(kinds(&x), "source kernel");
  for (int i = 0; i < 2; i++) {
    const Unit *u = &x.units->items[1];
    bool first = u->out[i] == func_find(x.f, "e");
    CHECK(u->alias[i] == (first ? -1 : 0));
  }
  done(&x);
  /* A new state overwrites the old one in place, though the kernel has a second stage: that reads no element again. */
  x = make(X
           "  %r = read {name=\"st\"} : f32[b,8] @{}\n  %u = sub %r, %x : f32[b,8]\n  %q = mul %u, %u : f32[b,8]\n"
           "  %s = reduce %q {axes=[1], op=sum} : f32[b]\n  write \"w\" %u {name=\"st\"}\n  output \"s\" %s @{}\n",
           0);
  CHECK_STR(kinds(&x), "source source kernel write");
  for (int i = 0; i < 2; i++) {
    const Unit *u = &x.units->items[2];
    int of = u->alias[i];
    bool state = u->out[i] == func_find(x.f, "u");
    CHECK(state ? of >= 0 && u->in[of] == func_find(x.f, "r") : of == -1);
  }
  done(&x);
}

/* ---- attentions that join their caches */

#define ATTEND(rows, k, v) \
  "  %y = attention %q, " k ", " v ", %i, %j, %n {scale=1, causal=0} : f32[b,2,1," rows \
  ",16]\n  output \"y\" %y " \
  "@{}\n"
#define QUERY(rows) \
  "  %q = input {name=\"q\"} : f32[b,2,1," rows \
  ",16] @{}\n  %p = input {name=\"p\"} : f32[b,2,9,16] @{}\n" \
  "  %x = input {name=\"x\"} : f32[b,2,1,16] @{}\n  %i = iota {axis=0, start=0} : i64[" rows \
  "]\n" \
  "  %j = iota {axis=0, start=0} : i64[10]\n  %n = const {value=10} : i64[]\n"
#define JOIN(name, past, more) "  %" name " = concat " past ", " more " {axis=2} : f32[b,2,10,16]\n"
#define OUTPUT(name) "  output \"" name "\" %" name " @{}\n"

/* Positions and lengths are separate kernels; `grown`: the number of caches that attentions join. */
static void check_growth(DeviceKind kind, const char *body, int grown, const char *what) {
  Made m = make_on(kind, body, 0, true);
  int n = 0, joins = 0, all = 0;
  for (const char *at = body; (at = strstr(at, "= concat")); at++) all++;
  for (size_t i = 0; i < m.units->n; i++) {
    const Unit *u = &m.units->items[i];
    n += u->grow ? u->grow->n : 0;
    joins += u->kind == UNIT_KERNEL && u->computes == OP_concat;
  }
  CHECKF(n == grown && (grown < all || joins == 0), "%s: attentions join %d caches, kernels %d of %d", what, n, joins,
         all);
  done(&m);
}

static void growth(void) {
  static const struct Grown {
    const char *body, *what;
    int grown;
  } cases[] = {
      {QUERY("1") JOIN("k", "%p", "%x") JOIN("v", "%p", "%x") ATTEND("1", "%k", "%v") OUTPUT("k") OUTPUT("v"), "both",
       2},
      {QUERY("1") JOIN("k", "%p", "%x") ATTEND("1", "%k", "%k") OUTPUT("k"), "one cache read twice", 0},
      {QUERY("17") JOIN("k", "%p", "%x") JOIN("v", "%p", "%x") ATTEND("17", "%k", "%v"), "many rows", 0},
      {QUERY("16") JOIN("k", "%p", "%x") JOIN("v", "%p", "%x") ATTEND("16", "%k", "%v"), "few rows", 2},
      {QUERY("1") JOIN("k", "%p", "%x") "  %r = relu %k : f32[b,2,10,16]\n" ATTEND("1", "%k", "%r"), "read before", 0},
      {QUERY("1") JOIN("k", "%p", "%x") "  %r = relu %k : f32[b,2,10,16]\n" ATTEND("1", "%r", "%r") OUTPUT("k"),
       "read by something else", 0},
      {QUERY("1") JOIN("k", "%p", "%x") JOIN("v", "%p", "%x")
           ATTEND("1", "%k", "%v") "  %r = relu %k : f32[b,2,10,16]\n" OUTPUT("r"),
       "read after", 2},
      {QUERY("1") JOIN("k", "%p", "%x") JOIN("v", "%p", "%x")
           ATTEND("1", "%k",
                  "%v") "  %z = attention %q, %k, %v, %i, %j, %n {scale=2, causal=0} : f32[b,2,1,1,16]\n" OUTPUT("z"),
       "read by a second attention", 2},
      {QUERY("1") "  %o = relu %p : f32[b,2,9,16]\n" JOIN("k", "%o", "%x") JOIN("v", "%p", "%x")
           ATTEND("1", "%k", "%v"),
       "a past that is computed", 1},
      {QUERY("1") "  %h = input {name=\"h\"} : f16[b,2,9,16] @{}\n  %o = cast %h {to=f32} : f32[b,2,9,16]\n" JOIN(
           "k", "%o", "%x") JOIN("v", "%p", "%x") ATTEND("1", "%k", "%v"),
       "a past that is cast", 1},
      {QUERY("1") "  %e = input {name=\"e\"} : f32[b,32,9] @{}\n  %o = reshape %e : f32[b,2,9,16]\n" JOIN(
           "k", "%o", "%x") JOIN("v", "%p", "%x") ATTEND("1", "%k", "%v"),
       "a past that is a view", 2},
      {QUERY("1") "  %e = input {name=\"e\"} : f32[b,2,8,16] @{}\n"
                  "  %k = concat %e, %x, %x {axis=2} : f32[b,2,10,16]\n" JOIN("v", "%p", "%x") ATTEND("1", "%k", "%v"),
       "three parts", 1},
      {QUERY("1") "  %e = input {name=\"e\"} : f32[b,2,10,8] @{}\n"
                  "  %k = concat %e, %e {axis=3} : f32[b,2,10,16]\n" JOIN("v", "%p", "%x") ATTEND("1", "%k", "%v"),
       "another dimension", 1},
      {QUERY("1") JOIN("k", "%p", "%x")
           JOIN("v", "%p",
                "%x") "  %two = const {value=2} : i64[]\n  %g = loop %two : i64[]\n  %c = carry %q : f32[b,2,1,1,16]\n"
                      "  %y = attention %c, %k, %v, %i, %j, %n {scale=1, causal=0} : f32[b,2,1,1,16]\n  repeat "
                      "\"g.repeat\" %g\n"
                      "  %l = leave %c, %y : f32[b,2,1,1,16]\n" OUTPUT("l"),
       "once before a loop", 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    check_growth(DEVICE_cpu, cases[i].body, cases[i].grown, cases[i].what);
  check_growth(DEVICE_cuda, cases[0].body, 0, "on a GPU");
}

static void text_is_deterministic(void) {
  const char *body = X
      "  %a = softmax %x {axis=1} : f32[b,8]\n  %d = mask_partial %a {mesh_axes=[tp], op=sum} : f32[b,8]\n"
      "  %y = all_reduce %d {mesh_axes=[tp], op=sum} : f32[b,8]\n  output \"y\" %y @{}\n";
  Made a = make(body, 0), b = make(body, 0);
  size_t n, same;
  const KernelTarget *target = kernel_target(target_device_traits(DEVICE_cpu));
  const char **texts = target->texts(&a.kernels, &n);
  CHECK(n == 1);
  CHECK_STR(texts[0], target->texts(&b.kernels, &same)[0]);
  /* the coordinate is a scalar of the kernel */
  bool found = false;
  for (int i = 0; i < a.units->items[1].nscalars; i++)
    found = found || ex_uses_coordinate(a.m, a.units->items[1].scalars[i]);
  CHECK(found);
  done(&a), done(&b);
}

int main(void) {
  RUN(fusion);
  RUN(joins);
  RUN(joins_of_products);
  RUN(views);
  RUN(dots);
  RUN(communication);
  RUN(sharing);
  RUN(growth);
  RUN(text_is_deterministic);
  return test_summary();
}
