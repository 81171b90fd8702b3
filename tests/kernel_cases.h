/* tests/kernel_cases.h - what tests of generated kernels share: units of every operation and of random fused graphs, memory to run
 * them in, and the comparison with the reference interpreter.
 *
 * Matrix products are evaluated here by a naive loop over the described strides, so that the mapping is tested and not a library.
 */
#ifndef APC_TESTS_KERNEL_CASES_H
#define APC_TESTS_KERNEL_CASES_H

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

#include "codegen/print_c.h"
#include "codegen/units.h"
#include "tests/interp_test.h"
#include "tests/temp.h"

typedef struct Case {
  const char *name;
  Program p;
  const Func *f;
  const UnitList *units;
  int64_t *symbols;
  struct Case *next;
} Case;

/* How a kernel is run: ptr has the operands, then the results; `share`: results may be operands. */
typedef struct Runner {
  void (*call)(const struct Runner *r, const Case *c, const Unit *u, void *const *ptr, bool share);
  void *library; /* of dlopen */
  void *more;
} Runner;

static Case *cases, **last_case = &cases;
static int ncases;
static KernelSet kernels; /* of all cases */
enum { GUARD = 64 };

static const char *symbol_of(const Unit *u) { return kernels.kernels.items[u->kernel].symbol; }

/* ---- running units */

typedef struct Memory {
  const Case *c;
  unsigned char **data; /* per value, NULL before it is made */
  size_t *bytes;
  size_t n;
} Memory;

static int64_t value_of(const Case *c, const Expr *e) {
  int64_t v = -1;
  if (!ex_eval(e, c->symbols, &v)) fprintf(stderr, "%s: an expression overflows\n", c->name);
  return v;
}

static int64_t elements_of(const Case *c, Val v) {
  const Type *t = units_type(c->units, c->f, v);
  int64_t n = 1;
  for (int d = 0; d < t->rank; d++) n *= value_of(c, t->dims[d]);
  return n;
}

/* Filled with 0x7f: reading what nobody wrote gives large numbers; the guard behind must stay. */
static void make_value(Memory *m, Val v) {
  m->bytes[v] = (size_t)elements_of(m->c, v) * dtype_bytes(units_type(m->c->units, m->c->f, v)->dtype);
  m->data[v] = aligned_alloc(64, (m->bytes[v] + GUARD + 63) / 64 * 64);
  memset(m->data[v], 0x7f, m->bytes[v] + GUARD);
}

static void store_cells(Memory *m, Val v, const InterpTensor *t) {
  size_t size = dtype_bytes(t->dtype);
  make_value(m, v);
  for (int64_t i = 0; i < interp_elements(t); i++) {
    if (dtype_is_float(t->dtype)) dtype_store_f(t->dtype, m->data[v] + (size_t)i * size, t->cells[i].f);
    else dtype_store_i(t->dtype, m->data[v] + (size_t)i * size, t->cells[i].i);
  }
}

static void run_gemm(const Memory *m, const Unit *u) {
  const Case *c = m->c;
  const GemmUnit *g = u->gemm;
  const float *a = (const float *)m->data[u->in[0]], *b = (const float *)m->data[u->in[1]];
  float *out = (float *)m->data[u->out[0]];
  int64_t batch[GEMM_MAX_BATCH] = {1, 1, 1, 1}, as[GEMM_MAX_BATCH] = {0}, bs[GEMM_MAX_BATCH] = {0}, cs[GEMM_MAX_BATCH] = {0};
  for (int i = 0; i < g->nbatch; i++) {
    batch[i] = value_of(c, g->batch[i]);
    as[i] = value_of(c, g->a_batch[i]), bs[i] = value_of(c, g->b_batch[i]), cs[i] = value_of(c, g->c_batch[i]);
  }
  int64_t mm = value_of(c, g->m), nn = value_of(c, g->n), kk = value_of(c, g->k);
  int64_t am = value_of(c, g->a_m), ak = value_of(c, g->a_k), bk = value_of(c, g->b_k), bn = value_of(c, g->b_n), cm = value_of(c, g->c_m);
  CHECKF(am == 1 || ak == 1, "%s: A has no unit stride", c->name);
  CHECKF(bk == 1 || bn == 1, "%s: B has no unit stride", c->name);
  CHECKF(ex_is_const(g->c_n, 1), "%s: C has no unit stride", c->name);
  CHECKF(mm <= 1 || kk <= 1 || (ak == 1 ? am >= kk : ak >= mm), "%s: A's leading dimension", c->name);
  CHECKF(kk <= 1 || nn <= 1 || (bn == 1 ? bk >= nn : bn >= kk), "%s: B's leading dimension", c->name);
  CHECKF(mm <= 1 || nn <= 1 || cm >= nn, "%s: C's leading dimension", c->name);
  for (int64_t q = 0; q < batch[0] * batch[1] * batch[2] * batch[3]; q++) {
    int64_t rest = q, ao = 0, bo = 0, co = 0;
    for (int i = GEMM_MAX_BATCH - 1; i >= 0; i--) {
      int64_t at = rest % batch[i];
      rest /= batch[i];
      ao += at * as[i], bo += at * bs[i], co += at * cs[i];
    }
    for (int64_t i = 0; i < mm; i++)
      for (int64_t j = 0; j < nn; j++) {
        double sum = 0;
        for (int64_t k = 0; k < kk; k++) sum += (double)a[ao + i * am + k * ak] * (double)b[bo + k * bk + j * bn];
        out[co + i * cm + j] = (float)sum;
      }
  }
}

static void run_kernel(Memory *m, const Unit *u, const Runner *r, bool share) {
  void *ptr[128];
  unsigned char *saved[64] = {NULL};
  for (int i = 0; i < u->nin; i++) {
    ptr[i] = m->data[u->in[i]];
    saved[i] = malloc(m->bytes[u->in[i]] + 1);
    memcpy(saved[i], ptr[i], m->bytes[u->in[i]]);
  }
  for (int i = 0; i < u->nout; i++) {
    make_value(m, u->out[i]);
    ptr[u->nin + i] = m->data[u->out[i]];
    if (!share || u->alias[i] < 0) continue;
    memcpy(m->data[u->out[i]], m->data[u->in[u->alias[i]]], m->bytes[u->out[i]]);
    ptr[u->alias[i]] = m->data[u->out[i]];
  }
  r->call(r, m->c, u, ptr, share);
  for (int i = 0; i < u->nin; i++) {
    CHECKF(memcmp(saved[i], m->data[u->in[i]], m->bytes[u->in[i]]) == 0, "%s: %s changes operand %d", m->c->name, symbol_of(u), i);
    free(saved[i]);
  }
}

static void run_unit(Memory *m, const Unit *u, const Runner *runner, bool share) {
  const Op *op = &m->c->f->ops.items[u->op];
  switch (u->kind) {
    case UNIT_SOURCE: {
      const InterpTensor *t = interp_find(m->c->p.inputs, m->c->p.ninputs, op_str(op, AT_name));
      CHECKF(t != NULL, "%s: %s", m->c->name, op->name);
      if (t) store_cells(m, u->out[0], t);
      break;
    }
    case UNIT_KERNEL: run_kernel(m, u, runner, share); break;
    case UNIT_GEMM:
      make_value(m, u->out[0]);
      run_gemm(m, u);
      break;
    case UNIT_VIEW: /* copied: what is behind an alias is the memory planner's affair */
      make_value(m, u->out[0]);
      CHECKF(value_of(m->c, u->view_offset) >= 0 && (size_t)value_of(m->c, u->view_offset) + m->bytes[u->out[0]] <= m->bytes[u->in[0]],
             "%s: view outside", m->c->name);
      memcpy(m->data[u->out[0]], m->data[u->in[0]] + value_of(m->c, u->view_offset), m->bytes[u->out[0]]);
      break;
    case UNIT_COMM:
    case UNIT_WRITE: CHECKF(false, "%s: unexpected unit", m->c->name);
  }
  for (int i = 0; i < u->nout; i++)
    for (int k = 0; k < GUARD; k++)
      if (m->data[u->out[i]][m->bytes[u->out[i]] + (size_t)k] != 0x7f) {
        CHECKF(false, "%s: unit %s writes behind its result", m->c->name, op->name);
        break;
      }
}

/* ---- comparing */

static double tolerance_of(DType t) { return t == DT_f64 ? 1e-12 : t == DT_f32 ? 2e-6 : t == DT_f16 ? 1e-3 : 6e-3; }

static void compare(const Case *c, const Output *o, const unsigned char *got, const InterpTensor *want, bool share) {
  DType t = want->dtype;
  double error = 0, norm = 0;
  for (int64_t i = 0; i < interp_elements(want); i++) {
    const unsigned char *p = got + (size_t)i * dtype_bytes(t);
    if (!dtype_is_float(t)) {
      if (dtype_load_i(t, p) == want->cells[i].i) continue;
      CHECKF(false, "%s%s: output %s[%lld] is %lld, not %lld", c->name, share ? " (shared)" : "", o->name, (long long)i,
             (long long)dtype_load_i(t, p), (long long)want->cells[i].i);
      return;
    }
    unsigned char rounded[8];
    dtype_store_f(t, rounded, want->cells[i].f);
    double g = dtype_load_f(t, p), w = dtype_load_f(t, rounded);
    if ((isnan(g) && isnan(w)) || g == w) {
      norm += isfinite(w) ? w * w : 0;
      continue;
    }
    error += (g - w) * (g - w), norm += w * w;
  }
  double relative = error == 0 ? 0 : sqrt(error / norm);
  CHECKF(relative <= tolerance_of(t), "%s%s: output %s is off by %g", c->name, share ? " (shared)" : "", o->name, relative);
}

static __attribute__((unused)) void run_case(const Case *c, const Runner *runner, bool share) {
  Memory m = {.c = c, .n = c->f->values.n + c->units->ntemps};
  m.data = calloc(m.n, sizeof *m.data);
  m.bytes = calloc(m.n, sizeof *m.bytes);
  for (size_t i = 0; i < c->units->n; i++) {
    const Unit *u = &c->units->items[i];
    for (int k = 0; k < u->nin; k++)
      if (!m.data[u->in[k]]) {
        CHECKF(false, "%s: unit %zu takes a value that is not made", c->name, i);
        return;
      }
    run_unit(&m, u, runner, share);
  }
  for (int i = 0; i < c->p.result.noutputs; i++) {
    const Output *o = &c->f->outputs.items[i];
    CHECKF(m.data[o->value] != NULL, "%s: output %s is not made", c->name, o->name);
    if (m.data[o->value]) compare(c, o, m.data[o->value], &c->p.result.outputs[i].tensor, share);
  }
  for (size_t v = 0; v < m.n; v++) free(m.data[v]);
  free(m.data), free(m.bytes);
}

/* ---- cases */

/* Floats in [-1, 1), integers in [0, 4). */
static void fill_inputs(Case *c, uint64_t seed) {
  for (size_t i = 0; i < c->f->ops.n; i++) {
    const Op *op = &c->f->ops.items[i];
    int64_t dims[MAX_RANK];
    if (op->kind != OP_input) continue;
    const Type *t = type_of(c->f, op->out);
    interp_dims(t, c->symbols, dims);
    InterpTensor *x = program_input(&c->p, op->name, t->dtype, t->rank, dims);
    bool is_float = dtype_is_float(t->dtype);
    interp_fill(x, DOMAIN_FLOAT, seed * 100 + i, is_float ? -1 : 0, is_float ? 1 : 4);
  }
}

static void add_case(const char *name, Program p, uint64_t seed) {
  Case *c = calloc(1, sizeof *c);
  *c = (Case){.name = arena_strdup(p.arena, name), .p = p, .f = module_func(p.m, "r"), .symbols = interp_symbols(p.m, p.arena)};
  c->p.options.symbols = c->symbols;
  fill_inputs(c, seed);
  if (!program_run(&c->p, "r")) {
    diags_print(p.diags, stderr, false);
    fprintf(stderr, "%s: the interpreter refuses\n", name);
    exit(1);
  }
  c->units = units_of(p.m, c->f, 0, &kernels);
  ncases++;
  *last_case = c;
  last_case = &c->next;
}

/* A function body of inputs and operations; every `out` line is an output. */
static void text_case(const char *name, const char *body) {
  Arena *a = arena_new();
  const char *text = arena_printf(a, "symbol b hint 3\nsymbol s hint 70\nmesh [tp=1] stages 1\nfunc @r level 2 {\n%s}\n", body);
  add_case(name, program_of(text), (uint64_t)ncases);
  arena_free(a);
}

#define IN(name, type) "  %" name " = input {name=\"" name "\"} : " type " @{}\n"
#define OUTF(name) "  output \"" name "\" %%" name " @{}\n" /* inside a format */
#define OUT(name) "  output \"" name "\" %" name " @{}\n"

static void reductions(void) {
  text_case("reduce rows", IN("x", "f32[b,s]") "  %a = reduce %x {axes=[1], op=sum} : f32[b]\n  %m = reduce %x {axes=[1], op=max} : f32[b]\n"
            "  %n = reduce %x {axes=[1], op=min} : f32[b]\n  %p = reduce %x {axes=[1], op=product} : f32[b]\n" OUT("a") OUT("m") OUT("n") OUT("p"));
  text_case("reduce columns", IN("x", "f32[s,5]") "  %a = reduce %x {axes=[0], op=sum} : f32[5]\n  %m = reduce %x {axes=[0], op=max} : f32[5]\n" OUT("a") OUT("m"));
  text_case("reduce wide columns", IN("x", "f32[b,1500,130]") "  %y = exp %x : f32[b,1500,130]\n  %a = reduce %y {axes=[1], op=sum} : f32[b,130]\n"
            "  %t = tanh %a : f32[b,130]\n" OUT("a") OUT("t"));
  text_case("reduce all", IN("x", "f32[b,s,5]") "  %a = reduce %x {axes=[0,1,2], op=sum} : f32[]\n" OUT("a"));
  text_case("reduce outer", IN("x", "f32[b,4,s,5]") "  %a = reduce %x {axes=[0,2], op=sum} : f32[4,5]\n" OUT("a"));
  text_case("reduce long", IN("x", "f32[2,5000]") "  %a = reduce %x {axes=[1], op=sum} : f32[2]\n" OUT("a"));
  text_case("reduce one row", IN("x", "f32[100000]") IN("y", "i32[70000]") "  %e = exp %x : f32[100000]\n  %a = reduce %e {axes=[0], op=sum} : f32[]\n"
            "  %m = reduce %x {axes=[0], op=max} : f32[]\n  %i = reduce %y {axes=[0], op=sum} : i32[]\n  %s = softmax %x {axis=0} : f32[100000]\n" OUT("a") OUT("m") OUT("i") OUT("s"));
  text_case("reduce no row", IN("x", "f32[0]") "  %a = reduce %x {axes=[0], op=sum} : f32[]\n" OUT("a"));
  text_case("reduce empty", IN("x", "f32[3,0]") "  %a = reduce %x {axes=[1], op=sum} : f32[3]\n  %m = reduce %x {axes=[1], op=max} : f32[3]\n" OUT("a") OUT("m"));
  text_case("reduce empty columns", IN("x", "i32[0,3]") "  %a = reduce %x {axes=[0], op=sum} : i32[3]\n  %m = reduce %x {axes=[0], op=max} : i32[3]\n" OUT("a") OUT("m"));
  text_case("reduce ones", IN("x", "f32[3,1,1]") "  %a = reduce %x {axes=[1], op=sum} : f32[3,1]\n  %e = exp %a : f32[3,1]\n" OUT("a") OUT("e"));
  text_case("reduce nothing", IN("x", "f32[3,4]") "  %a = reduce %x {axes=[], op=sum} : f32[3,4]\n" OUT("a"));
  text_case("reduce f16", IN("x", "f16[b,s,3]") "  %a = reduce %x {axes=[0,1], op=sum} : f16[3]\n" OUT("a"));
  text_case("reduce bf16", IN("x", "bf16[b,s]") "  %a = reduce %x {axes=[1], op=sum} : bf16[b]\n" OUT("a"));
  text_case("reduce f64", IN("x", "f64[b,s,3]") "  %a = reduce %x {axes=[1], op=sum} : f64[b,3]\n" OUT("a"));
  static const char *const types[] = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
  for (int i = 0; i < 8; i++) {
    Arena *a = arena_new();
    const char *t = types[i];
    text_case(arena_printf(a, "reduce %s", t),
              arena_printf(a, "  %%x = input {name=\"x\"} : %s[b,s] @{}\n  %%y = add %%x, %%x : %s[b,s]\n  %%a = reduce %%y {axes=[1], op=sum} : %s[b]\n  %%m = reduce %%y {axes=[0], op=max} : %s[s]\n"
                           "  %%n = reduce %%y {axes=[1], op=min} : %s[b]\n  %%p = reduce %%x {axes=[1], op=product} : %s[b]\n" OUTF("a") OUTF("m") OUTF("n") OUTF("p"), t, t, t, t, t, t));
    arena_free(a);
  }
  text_case("reduce bool", IN("x", "bool[b,s]") "  %a = reduce %x {axes=[1], op=or} : bool[b]\n  %m = reduce %x {axes=[0], op=and} : bool[s]\n" OUT("a") OUT("m"));
}

/* Parts of sums that begin somewhere in the whole dimension. */
static void parts(void) {
  text_case("reduce a part of rows", IN("x", "f32[b,3000]") "  %a = reduce %x {axes=[1], op=sum, starts=[1000]} : f32[b]\n  %q = mul %x, %x : f32[b,3000]\n"
            "  %m = reduce %q {axes=[1], op=max} : f32[b]\n  %s = reduce %q {axes=[1], op=sum, starts=[1000]} : f32[b]\n" OUT("a") OUT("m") OUT("s"));
  text_case("reduce a part of columns", IN("x", "f32[1500,21]") "  %a = reduce %x {axes=[0], op=sum, starts=[s + 1]} : f32[21]\n" OUT("a"));
  text_case("reduce a part of one row", IN("x", "f32[20000]") "  %a = reduce %x {axes=[0], op=sum, starts=[77777]} : f32[]\n" OUT("a"));
  text_case("reduce a part of one block", IN("x", "f32[b,s]") "  %a = reduce %x {axes=[1], op=sum, starts=[33]} : f32[b]\n  %r = broadcast %a {dims=[0]} : f32[b,s]\n"
            "  %y = div %x, %r : f32[b,s]\n" OUT("y"));
}

static void rows(void) {
  text_case("softmax", IN("x", "f32[b,4,s]") "  %y = softmax %x {axis=2} : f32[b,4,s]\n" OUT("y"));
  text_case("softmax axis 1", IN("x", "f32[b,s,3]") "  %y = softmax %x {axis=1} : f32[b,s,3]\n" OUT("y"));
  text_case("softmax long", IN("x", "f32[2,3001]") "  %y = softmax %x {axis=1} : f32[2,3001]\n" OUT("y"));
  text_case("softmax one", IN("x", "f32[b,1]") "  %y = softmax %x {axis=1} : f32[b,1]\n" OUT("y"));
  text_case("softmax empty", IN("x", "f32[b,0]") "  %y = softmax %x {axis=1} : f32[b,0]\n" OUT("y"));
  text_case("softmax bf16", IN("x", "bf16[b,s]") "  %y = softmax %x {axis=1} : bf16[b,s]\n" OUT("y"));
  text_case("softmax f64", IN("x", "f64[b,s]") "  %y = softmax %x {axis=1} : f64[b,s]\n" OUT("y"));
  text_case("layer norm", IN("x", "f32[b,s,96]") IN("g", "f32[96]") "  %n = norm %x {kind=\"layer\", eps=1e-05} : f32[b,s,96]\n"
            "  %h = broadcast %g {dims=[2]} : f32[b,s,96]\n  %y = mul %n, %h : f32[b,s,96]\n" OUT("y"));
  text_case("rms norm residual", IN("x", "f32[b,s,96]") IN("r", "f32[b,s,96]") "  %a = add %x, %r : f32[b,s,96]\n"
            "  %n = norm %a {kind=\"rms\", eps=1e-06} : f32[b,s,96]\n  %y = sigmoid %n : f32[b,s,96]\n" OUT("a") OUT("y"));
  text_case("norm f16", IN("x", "f16[b,s]") "  %y = norm %x {kind=\"layer\", eps=1e-05} : f16[b,s]\n" OUT("y"));
  text_case("norm by hand", IN("x", "f32[b,s,96]") "  %s = reduce %x {axes=[2], op=sum} : f32[b,s]\n  %c = size {expr=96} : f32[b,s]\n"
            "  %m = div %s, %c : f32[b,s]\n  %m1 = reshape %m : f32[b,s,1]\n  %mb = broadcast %m1 {dims=[0,1,2]} : f32[b,s,96]\n"
            "  %d = sub %x, %mb : f32[b,s,96]\n  %q = mul %d, %d : f32[b,s,96]\n  %v = reduce %q {axes=[2], op=sum} : f32[b,s]\n"
            "  %r = rsqrt %v : f32[b,s]\n  %rb = broadcast %r {dims=[0,1]} : f32[b,s,96]\n  %y = mul %d, %rb : f32[b,s,96]\n" OUT("y") OUT("m"));
  text_case("cross entropy", IN("x", "f32[b,s,40]") IN("l", "i64[b,s]") "  %e = exp %x : f32[b,s,40]\n  %y = cross_entropy %e, %l : f32[b,s]\n"
            "  %t = reduce %y {axes=[0,1], op=sum} : f32[]\n" OUT("y") OUT("t"));
  text_case("cross entropy narrow", IN("x", "f32[b,2]") IN("l", "i64[b]") "  %y = cross_entropy %x, %l : f32[b]\n" OUT("y"));
  text_case("column mean", IN("x", "f32[s,40]") "  %s = reduce %x {axes=[0], op=sum} : f32[40]\n  %m = broadcast %s {dims=[1]} : f32[s,40]\n"
            "  %y = sub %x, %m : f32[s,40]\n" OUT("y"));
}

static void moves(void) {
  text_case("transpose", IN("x", "f32[b,s,5,4]") "  %y = transpose %x {perm=[0,2,1,3]} : f32[b,5,s,4]\n  %z = transpose %x {perm=[3,2,1,0]} : f32[4,5,s,b]\n" OUT("y") OUT("z"));
  text_case("transpose i8", IN("x", "i8[s,33]") "  %y = transpose %x {perm=[1,0]} : i8[33,s]\n" OUT("y"));
  text_case("transpose large", IN("x", "f32[300,257]") "  %y = transpose %x {perm=[1,0]} : f32[257,300]\n  %z = exp %y : f32[257,300]\n" OUT("y") OUT("z"));
  text_case("slice", IN("x", "f32[b,s,7]") "  %y = slice %x {starts=[0, 1, 2], strides=[1,2,3]} : f32[b,30,2]\n  %z = slice %x {starts=[1, 3, 0], strides=[1,1,1]} : f32[1,5,7]\n"
            "  %e = neg %y : f32[b,30,2]\n" OUT("y") OUT("z") OUT("e"));
  text_case("pad", IN("x", "f32[b,s]") "  %y = pad %x {low=[1, 0], high=[2, 3], value=7} : f32[b + 3,s + 3]\n  %e = exp %x : f32[b,s]\n"
            "  %z = pad %e {low=[0, 2], high=[0, 0], value=-1} : f32[b,s + 2]\n" OUT("y") OUT("z"));
  text_case("concat", IN("x", "f32[b,s]") IN("y", "f32[b,4]") IN("z", "f32[b,0]") "  %c = concat %x, %z, %y {axis=1} : f32[b,s + 4]\n  %d = concat %y, %y {axis=0} : f32[2*b,4]\n"
            "  %e = tanh %d : f32[2*b,4]\n" OUT("c") OUT("d") OUT("e"));
  text_case("broadcast", IN("x", "f32[5]") IN("o", "f32[1,s]") "  %y = broadcast %x {dims=[0]} : f32[5,s]\n  %z = broadcast %o {dims=[0,1]} : f32[b,s]\n  %w = broadcast %x {dims=[1]} : f32[b,5,s]\n" OUT("y") OUT("z") OUT("w"));
  text_case("gather", IN("t", "f32[10,7]") IN("i", "i64[b,s]") IN("j", "i32[4]") "  %y = gather %t, %i {axis=0, start=2} : f32[b,s,7]\n  %z = gather %t, %j {axis=1, start=0} : f32[10,4]\n" OUT("y") OUT("z"));
  text_case("gather fused", IN("t", "f32[10,7]") IN("i", "i64[s]") IN("p", "f32[s,7]") "  %y = gather %t, %i {axis=0, start=0} : f32[s,7]\n  %z = add %y, %p : f32[s,7]\n"
            "  %n = norm %z {kind=\"layer\", eps=1e-05} : f32[s,7]\n" OUT("n"));
  text_case("update", IN("x", "f32[b,10,4]") IN("u", "f32[b,3,4]") IN("p", "i64[]") "  %y = update %x, %u, %p {axis=1, start=0} : f32[b,10,4]\n  %z = update %x, %u, %p {axis=1, start=2} : f32[b,10,4]\n"
            "  %w = update %x, %u, %p {axis=1, start=-8} : f32[b,10,4]\n" OUT("y") OUT("z") OUT("w"));
  text_case("iota", "  %x = iota {axis=1, start=5} : f32[b,s]\n  %y = iota {axis=0, start=0} : i64[s]\n  %z = iota {axis=0, start=250} : u8[s]\n" OUT("x") OUT("y") OUT("z"));
  text_case("const", "  %x = const {floats=[1, 2.5, -3, inf]} : f32[2,2]\n  %y = const {ints=[1, -2, 3]} : i8[3]\n  %z = const {value=3} : bf16[s]\n  %h = const {floats=[0.1, 2]} : f16[2]\n"
            "  %c = broadcast %x {dims=[0,2]} : f32[2,s,2]\n  %e = exp %c : f32[2,s,2]\n  %l = size {expr=2*b + s} : i64[]\n" OUT("x") OUT("y") OUT("z") OUT("h") OUT("e") OUT("l"));
  text_case("random", "  %u = random {kind=\"uniform\", seed=7, starts=[1, 2], extents=[10, 100]} : f32[b,s]\n  %n = random {kind=\"normal\", seed=9, starts=[0], extents=[s]} : f32[s]\n"
            "  %h = random {kind=\"normal\", seed=9, starts=[0], extents=[s]} : bf16[s]\n" OUT("u") OUT("n") OUT("h"));
  text_case("reshape", IN("x", "f32[b,6]") "  %y = reshape %x : f32[2*b,3]\n  %e = exp %y : f32[2*b,3]\n  %z = reshape %e : f32[6*b]\n  %c = copy %z : f32[6*b]\n  %r = relu %c : f32[6*b]\n" OUT("y") OUT("c") OUT("r"));
  text_case("level 2 moves", IN("x", "f32[b,s]") "  %y = shard_slice %x {axis=1, start=2} : f32[b,s - 4]\n  %m = mask_partial %x {mesh_axes=[tp], op=max} : f32[b,s]\n  %e = exp %m : f32[b,s]\n"
            "  %z = tanh %y : f32[b,s - 4]\n" OUT("y") OUT("e") OUT("z"));
  text_case("rope", IN("x", "f32[b,s,3,8]") IN("p", "i64[s]") "  %q = mul %p, %p : i64[s]\n  %y = rope %x, %q {base=10000, interleaved=0} : f32[b,s,3,8]\n  %z = rope %x, %p {base=500, interleaved=1} : f32[b,s,3,8]\n" OUT("y") OUT("z"));
  text_case("rope bf16", IN("x", "bf16[s,3,64]") IN("p", "i64[s]") "  %y = rope %x, %p {base=10000, interleaved=0} : bf16[s,3,64]\n" OUT("y"));
}

static void attentions(void) {
  static const char *const types[] = {"f32", "f64", "f16", "bf16"};
  static const char *const shapes[][2] = {{"b,2,2,s", "s"}, {"1,2,4,1", "150"}, {"2,1,1,33", "0"}};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 3; k++)
      for (int causal = 0; causal < 2; causal++) {
        Arena *a = arena_new();
        const char *t = types[i], *q = shapes[k][0], *n = shapes[k][1], *s = strrchr(q, ',') + 1;
        const char *bg = arena_strndup(a, q, 3);
        text_case(arena_printf(a, "attention %s %s %d", t, q, causal),
                  arena_printf(a, "  %%q = input {name=\"q\"} : %s[%s,20] @{}\n  %%k = input {name=\"k\"} : %s[%s,%s,20] @{}\n"
                               "  %%v = input {name=\"v\"} : %s[%s,%s,40] @{}\n  %%i = iota {axis=0, start=1} : i64[%s]\n"
                               "  %%j = iota {axis=0, start=0} : i64[%s]\n  %%n = const {value=60} : i64[]\n"
                               "  %%y = attention %%q, %%k, %%v, %%i, %%j, %%n {scale=2.5, causal=%d} : %s[%s,40]\n" OUTF("y"),
                               t, q, t, bg, n, t, bg, n, s, n, causal, t, q));
        arena_free(a);
      }
}

static void dots(void) {
  text_case("dot of transposed operands",
            "  %x = input {name=\"x\"} : f32[b,8,3,4] @{}\n  %k = input {name=\"k\"} : f32[b,s,3,4] @{}\n  %q = transpose %x {perm=[0,2,1,3]} : f32[b,3,8,4]\n"
            "  %t = transpose %k {perm=[0,2,3,1]} : f32[b,3,4,s]\n  %y = dot %q, %t {spec=\"bhsd,bhdt->bhst\"} : f32[b,3,8,s]\n  output \"y\" %y @{}\n"
            "  %v = transpose %k {perm=[0,2,1,3]} : f32[b,3,s,4]\n  %z = dot %y, %v {spec=\"bhst,bhte->bhse\"} : f32[b,3,8,4]\n  output \"z\" %z @{}\n");
  static const char *const specs[][3] = {
      {"bm,mn->bn", "b,8", "8,5"}, {"bsm,mn->bsn", "b,s,8", "8,5"}, {"bsm,bsn->mn", "b,s,6", "b,s,5"}, {"bhqd,bhkd->bhqk", "b,2,s,6", "b,2,9,6"},
      {"bqhd,bkhd->bhqk", "b,s,2,6", "b,9,2,6"}, {"bhqk,bkhd->bqhd", "b,2,s,9", "b,9,2,6"}, {"m,m->", "s", "s"}, {"m,n->mn", "s", "4"},
      {"mk,k->m", "s,4", "4"}, {"k,kn->n", "4", "4,s"}, {"km,kn->nm", "7,s", "7,4"}, {"bk,bk->b", "s,6", "s,6"}, {"bh,bh->bh", "b,s", "b,s"},
      {"abk,bak->ab", "b,4,6", "4,b,6"}, {"akb,bck->abc", "b,6,4", "4,5,6"}, {"mka,akn->nm", "s,3,4", "4,3,5"}, {"mk,kn->mn", "s,0", "0,5"},
      {"mk,kn->mn", "0,4", "4,5"}, {"mk,kn->mn", "1,4", "4,1"}, {"mka,kn->mn", "s,4,3", "4,5"}, {"ma,nb->mn", "s,3", "4,5"}, {",mn->mn", "", "s,4"},
      {"bmc,bnc->bmnc", "b,4,5", "b,6,5"}, {"bhsd,hde->bse", "b,3,s,4", "3,4,5"}, {"bsd,hde->bhse", "b,s,4", "3,4,5"}};
  static const char *const types[] = {"f32", "i64", "bf16", "f64", "i8"};
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
    for (int k = 0; k < (i % 4 ? 2 : 5); k++) {
      Arena *a = arena_new();
      Text y = {.arena = a};
      const char *spec = specs[i][0], *t = types[k];
      for (const char *l = strstr(spec, "->") + 2; *l; l++) { /* the result's extents by letter */
        const char *comma = strchr(spec, ','), *at = memchr(spec, *l, (size_t)(comma - spec));
        const char *dims = at ? specs[i][1] : specs[i][2];
        int n = (int)(at ? at - spec : strchr(comma + 1, *l) - comma - 1);
        while (n--) dims = strchr(dims, ',') + 1;
        if (y.n) text_add(&y, ",");
        text_addn(&y, dims, strcspn(dims, ","));
      }
      text_case(arena_printf(a, "dot %s %s", spec, t),
                arena_printf(a, "  %%x = input {name=\"x\"} : %s[%s] @{}\n  %%z = input {name=\"z\"} : %s[%s] @{}\n  %%y = dot %%x, %%z {spec=\"%s\"} : %s[%s]\n" OUTF("y"),
                             t, specs[i][1], t, specs[i][2], spec, t, text_str(&y)));
      arena_free(a);
    }
}

/* ---- elementwise operations, one by one, on every type */

static Builder start_function(Program *p) {
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
  return build_op(b, &(OpSpec){.kind = OP_input, .name = name, .nattrs = 1, .attrs = &a, .type = t, .layout = layout_replicated(b->m, t->rank)});
}

static void add_output(Builder *b, const char *name, Val v) {
  build_output(b, name, v, layout_replicated(b->m, type_of(b->f, v)->rank));
}

static void finish_function(const char *name, Program *p, uint64_t seed) {
  if (!verify_module(p->m, p->diags)) {
    diags_print(p->diags, stderr, false);
    fprintf(stderr, "%s\n", name);
    exit(1);
  }
  add_case(name, *p, seed);
}

static bool accepts(OpKind k, DType t) {
  static const char *const classes[OP_COUNT] = {
#define UNARY(name, classes, linear, f, i, doc) [OP_##name] = classes,
#define BINARY(name, classes, linear, f, i, doc) [OP_##name] = classes,
#define COMPARE(name, ...) [OP_##name] = "FIB",
#include "ir/ops.def"
  };
  DTypeClass c = dtype_class(t);
  return classes[k] && strchr(classes[k], c == DTC_F ? 'F' : c == DTC_B ? 'B' : 'I');
}

/* Inputs are in [-1, 1) and [0, 4): spread to where the functions are interesting. */
static Val spread(Builder *b, Val v, double by, double plus) {
  const Type *t = type_of(b->f, v);
  if (t->dtype == DT_bool) return v;
  return build_binary(b, OP_add, build_binary(b, OP_mul, v, build_splat(b, t, by)), build_splat(b, t, plus));
}

static void pointwise(void) {
  for (int t = 0; t < DT_COUNT; t++) {
    Program p = {0};
    Builder b = start_function(&p);
    const Expr *dims[2] = {ex_const(p.m, 7), ex_sym(p.m, 0)};
    const Type *type = type_get(p.m, (DType)t, 2, dims);
    bool is_float = dtype_is_float((DType)t);
    Val x = add_input(&b, "x", type), y = add_input(&b, "y", type), c = add_input(&b, "c", type_with_dtype(p.m, type, DT_bool));
    Val wide = spread(&b, x, is_float ? 6 : 37, is_float ? 0 : -60), other = spread(&b, y, is_float ? 3 : 5, is_float ? 0 : -8);
    for (OpKind k = 1; k < OP_COUNT; k++) {
      if (!accepts(k, (DType)t)) continue;
      Val v;
      if (op_class(k) == OC_UNARY) v = build_unary(&b, k, k == OP_log || k == OP_acosh || k == OP_log1p || k == OP_atanh || k == OP_asin || k == OP_acos ? x : wide);
      else v = build_binary(&b, k, wide, k == OP_shl || k == OP_shr ? y : other);
      add_output(&b, op_name(k), v);
    }
    Val three[3] = {c, wide, other};
    add_output(&b, "select", build_op(&b, &(OpSpec){.kind = OP_select, .nin = 3, .in = three}));
    Val exact = t == DT_bool ? x : build_binary(&b, OP_mul, x, build_splat(&b, type, 64)); /* casts see the same bits everywhere */
    for (int to = 0; to < DT_COUNT; to++)
      add_output(&b, arena_printf(p.arena, "to %s", dtype_name((DType)to)), build_cast(&b, exact, (DType)to));
    finish_function(arena_printf(p.arena, "pointwise %s", dtype_name((DType)t)), &p, 5);
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
    case 1: return build_slice(b, x, k, ex_const(b->m, 0), ex_max(b->m, ex_addi(b->m, t->dims[k], -1), ex_const(b->m, 0)), 1);
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
      Val i = p->v[pick(3)], c = build_binary(b, OP_lt, i, same_type(p, i) == p->v[0] ? p->v[0] : build_unary(b, OP_neg, i));
      Val three[3] = {c, same_type(p, i), build_splat(b, type_of(b->f, i), 0.5)};
      return build_op(b, &(OpSpec){.kind = OP_select, .nin = 3, .in = three});
    }
  }
}

/* Conditions compare inputs only: rounding could turn a comparison of computed numbers either way. */
static void random_graphs(void) {
  static const int64_t sizes[][3] = {{3, 5, 7}, {2, 1, 65}, {1, 40, 3}, {4, 0, 6}, {1, 1, 1}, {2, 3, 1100}};
  for (int g = 0; g < 48; g++) {
    Program q = {0};
    Builder b = start_function(&q);
    Pool pool = {.b = &b};
    random_state = (uint64_t)g + 1000;
    const int64_t *size = sizes[pick(6)];
    const Expr *dims[3] = {ex_const(q.m, size[0]), ex_const(q.m, size[1]), pick(2) ? ex_const(q.m, size[2]) : ex_sym(q.m, 0)};
    for (int i = 0; i < 3; i++)
      pool.v[pool.n++] = add_input(&b, arena_printf(q.arena, "x%d", i), type_get(q.m, DT_f32, i == 2 ? 2 : 3, i == 2 ? dims + 1 : dims));
    int ops = 8 + pick(22);
    for (int i = 0; i < ops; i++) {
      Val v = random_op(&pool);
      if (!v) diags_print(q.diags, stderr, false), exit(1);
      pool.v[pool.n++] = v;
    }
    for (int i = 0; i < 4; i++) add_output(&b, arena_printf(q.arena, "y%d", i), pool.v[pool.n - 1 - pick(pool.n < 8 ? pool.n : 8)]);
    finish_function(arena_printf(q.arena, "random graph, seed %d", g + 1000), &q, (uint64_t)g);
  }
}

/* ---- running */

/* A CPU kernel of the library. */
static __attribute__((unused)) void call_c(const Runner *r, const Case *c, const Unit *u, void *const *ptr, bool share) {
  (void)share;
  int64_t x[256];
  void (*kernel)(void *const *, const int64_t *) = NULL;
  *(void **)&kernel = dlsym(r->library, symbol_of(u));
  CHECKF(kernel != NULL, "%s", symbol_of(u));
  if (!kernel) return;
  for (int i = 0; i < u->nscalars; i++) x[i] = value_of(c, u->scalars[i]);
  kernel(ptr, x);
}

static void *load_library(const char *library) {
  void *handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (!handle) fprintf(stderr, "%s\n", dlerror());
  return handle;
}

/* Compiles texts [from, to) as one file, with one prelude: that is what takes the time. */
static bool compile(const char **texts, size_t from, size_t to, size_t number) {
  const char *source = temp_path("kernels.c");
  char command[12000];
  snprintf(command, sizeof command, "cc -DPARALLEL_WORK=256 %s -c %s -o %s/k%zu.o", UNITS_CFLAGS, source, temp_root(), number);
  FILE *f = fopen(source, "w");
  if (!f) return false;
  for (size_t i = from; i < to; i++) fputs(i == from ? texts[i] : texts[i] + strlen(kernel_prelude), f);
  fclose(f);
  return system(command) == 0;
}

/* The CPU kernels of all cases; even small loops are shared by threads. */
static __attribute__((unused)) void *compile_c(void) {
  enum { TOGETHER = 16 };
  char library[4500], command[12000];
  size_t n;
  const char **texts = kernel_set_texts(&kernels, &n);
  for (size_t i = 0; i < n; i += TOGETHER)
    if (!compile(texts, i, i + TOGETHER < n ? i + TOGETHER : n, i)) return NULL;
  snprintf(library, sizeof library, "%s/k.so", temp_root());
  snprintf(command, sizeof command, "cc -shared -fopenmp %s/k*.o -o %s -lm", temp_root(), library);
  setenv("OMP_WAIT_POLICY", "passive", 1); /* as ranks have it; read when the OpenMP library is loaded */
  return system(command) == 0 ? load_library(library) : NULL;
}

static void make_cases(void) {
  kernels.arena = arena_new();
  RUN(reductions);
  RUN(parts);
  RUN(rows);
  RUN(moves);
  RUN(attentions);
  RUN(dots);
  RUN(pointwise);
  RUN(random_graphs);
}

#endif
