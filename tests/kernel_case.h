/* tests/kernel_case.h - one case of the tests of generated kernels: its units, the memory to run them in, and the
 * comparison with the reference interpreter.
 *
 * A naive loop over the described strides evaluates matrix products, so that the mapping is tested and not a
 * library. */
#ifndef APC_TESTS_KERNEL_CASE_H
#define APC_TESTS_KERNEL_CASE_H

#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>

#include "base/compare.h"
#include "codegen/cpu/print_c.h"
#include "codegen/cpu/c_compiler.h"
#include "codegen/rows/row_work.h"
#include "codegen/target.h"
#include "tests/interp_test.h"
#include "tests/temp.h"

typedef struct Case {
  const char *name;
  InterpProgram p;
  const Func *f;
  UnitList *units;
  int64_t *symbols;
  bool here;       /* it runs in this quarter (test.h) */
  UnitList *apart; /* the units without joined followers, for the CPU only; NULL unless `units` have those */
  struct Case *next;
} Case;

/* How a kernel is run: ptr has the operands, then the results; `share`: results may overwrite operands. */
typedef struct Runner {
  void (*call)(const struct Runner *r, const Case *c, const Unit *u, void *const *ptr, bool share);
  void *library; /* of dlopen */
  void *more;
} Runner;

static Case *cases, **last_case = &cases;
static int ncases;
static KernelSet kernels; /* of the cases that run */
static KernelSet others;  /* of the other cases, which are only printed */
enum { GUARD = 64 };

static const char *symbol_of(const Unit *u) { return kernels.kernels.items[u->kernel].symbol; }

/* ---- running units */

typedef struct Memory {
  const Case *c;
  unsigned char **data; /* per value; NULL before it is computed */
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

/* Fills the value with 0x7f: uninitialised reads give large numbers.  The guard bytes after it must stay. */
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
  int64_t batch[GEMM_MAX_BATCH] = {1, 1, 1, 1}, as[GEMM_MAX_BATCH] = {0}, bs[GEMM_MAX_BATCH] = {0},
          cs[GEMM_MAX_BATCH] = {0};
  for (int i = 0; i < g->nbatch; i++) {
    batch[i] = value_of(c, g->batch[i]);
    as[i] = value_of(c, g->a_batch[i]), bs[i] = value_of(c, g->b_batch[i]), cs[i] = value_of(c, g->c_batch[i]);
  }
  int64_t mm = value_of(c, g->m), nn = value_of(c, g->n), kk = value_of(c, g->k);
  int64_t am = value_of(c, g->a_m), ak = value_of(c, g->a_k), bk = value_of(c, g->b_k), bn = value_of(c, g->b_n),
          cm = value_of(c, g->c_m);
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
    CHECKF(memcmp(saved[i], m->data[u->in[i]], m->bytes[u->in[i]]) == 0, "%s: %s changes operand %d", m->c->name,
           symbol_of(u), i);
    free(saved[i]);
  }
}

static void run_unit(Memory *m, const Unit *u, const Runner *runner, bool share) {
  const Op *op = &m->c->f->ops.items[u->op];
  switch (u->kind) {
    case UNIT_SOURCE: {
      const InterpOptions *o = &m->c->p.options;
      const char *name = op_str(op, AT_name);
      const InterpTensor *t = op->kind == OP_param  ? interp_find(o->params, o->nparams, name)
                              : op->kind == OP_read ? interp_find(o->states, o->nstates, name)
                                                    : interp_find(m->c->p.inputs, m->c->p.ninputs, name);
      CHECKF(t != NULL, "%s: %s", m->c->name, op->name);
      if (t) store_cells(m, u->out[0], t);
      break;
    }
    case UNIT_KERNEL: run_kernel(m, u, runner, share); break;
    case UNIT_GEMM:
      make_value(m, u->out[0]);
      run_gemm(m, u);
      break;
    case UNIT_VIEW: /* copied: aliases are tested with the memory planner */
      make_value(m, u->out[0]);
      CHECKF(value_of(m->c, u->view_offset) >= 0 &&
                 (size_t)value_of(m->c, u->view_offset) + m->bytes[u->out[0]] <= m->bytes[u->in[0]],
             "%s: view outside", m->c->name);
      memcpy(m->data[u->out[0]], m->data[u->in[0]] + value_of(m->c, u->view_offset), m->bytes[u->out[0]]);
      break;
    case UNIT_WRITE: break; /* outputs show new states */
    case UNIT_COMM:
    case UNIT_BIND:
    case UNIT_LOOP:
    case UNIT_REPEAT: CHECKF(false, "%s: unexpected unit", m->c->name);
  }
  for (int i = 0; i < u->nout; i++)
    for (int k = 0; k < GUARD; k++)
      if (m->data[u->out[i]][m->bytes[u->out[i]] + (size_t)k] != 0x7f) {
        CHECKF(false, "%s: unit %s writes past its result", m->c->name, op->name);
        break;
      }
}

/* ---- comparing */

static double tolerance_of(DType t) { return t == DT_f64 ? 1e-12 : t == DT_f32 ? 2e-6 : t == DT_f16 ? 1e-3 : 6e-3; }

static void compare(const Case *c, const Output *o, const unsigned char *got, const InterpTensor *want, bool share) {
  DType t = want->dtype;
  Distance d = {0};
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
    distance_add(&d, dtype_load_f(t, p), dtype_load_f(t, rounded));
  }
  double relative = distance_relative(&d);
  CHECKF(relative <= tolerance_of(t), "%s%s: output %s is off by %g", c->name, share ? " (shared)" : "", o->name,
         relative);
}

static __attribute__((unused)) Memory run_units(const Case *c, const Runner *runner, bool share) {
  Memory m = {.c = c, .n = c->f->values.n + c->units->ntemps};
  m.data = calloc(m.n, sizeof *m.data);
  m.bytes = calloc(m.n, sizeof *m.bytes);
  for (size_t i = 0; i < c->units->n; i++) {
    const Unit *u = &c->units->items[i];
    for (int k = 0; k < u->nin; k++)
      if (!m.data[u->in[k]]) {
        CHECKF(false, "%s: unit %zu takes a value that is not made", c->name, i);
        return m;
      }
    run_unit(&m, u, runner, share);
  }
  return m;
}

static __attribute__((unused)) void free_memory(Memory *m) {
  for (size_t v = 0; v < m->n; v++) free(m->data[v]);
  free(m->data), free(m->bytes);
}

static __attribute__((unused)) void run_case(const Case *c, const Runner *runner, bool share) {
  Memory m = run_units(c, runner, share);
  for (int i = 0; i < c->p.result.noutputs; i++) {
    const Output *o = &c->f->outputs.items[i];
    CHECKF(m.data[o->value] != NULL, "%s: output %s is not made", c->name, o->name);
    if (m.data[o->value]) compare(c, o, m.data[o->value], &c->p.result.outputs[i].tensor, share);
  }
  free_memory(&m);
}

/* ---- cases */

/* Floats in [-1, 1), integers in [0, 4); inputs, weights and states. */
static void fill_inputs(Case *c, uint64_t seed) {
  InterpNamed *params = ARENA_ARRAY(c->p.arena, InterpNamed, c->f->ops.n),
              *states = ARENA_ARRAY(c->p.arena, InterpNamed, c->f->ops.n);
  c->p.options.params = params, c->p.options.nparams = 0;
  c->p.options.states = states, c->p.options.nstates = 0;
  for (size_t i = 0; i < c->f->ops.n; i++) {
    const Op *op = &c->f->ops.items[i];
    int64_t dims[MAX_RANK];
    if (op->kind != OP_input && op->kind != OP_param && op->kind != OP_read) continue;
    const Type *t = type_of(c->f, op->out);
    interp_dims(t, c->symbols, dims);
    InterpNamed *kept = op->kind == OP_param  ? &params[c->p.options.nparams++]
                        : op->kind == OP_read ? &states[c->p.options.nstates++]
                                              : NULL;
    if (kept) *kept = (InterpNamed){op_str(op, AT_name), interp_tensor(c->p.arena, t->dtype, t->rank, dims)};
    InterpTensor *x = kept ? &kept->tensor : program_input(&c->p, op->name, t->dtype, t->rank, dims);
    bool is_float = dtype_is_float(t->dtype);
    interp_fill(x, DOMAIN_FLOAT, seed * 100 + i, is_float ? -1 : 0, is_float ? 1 : 4);
  }
}

static bool joining; /* for the cases that are added */

static DeviceKind case_device = DEVICE_cpu; /* the device that cases are legalised for; only cases for CPUs are printed
                                               at once */

static void add_case(const char *name, InterpProgram p, uint64_t seed) {
  Case *c = calloc(1, sizeof *c);
  *c = (Case){
      .name = arena_strdup(p.arena, name), .p = p, .f = module_func(p.m, "r"), .symbols = interp_symbols(p.m, p.arena)};
  c->here = in_quarter(ncases++);
  c->p.options.symbols = c->symbols;
  fill_inputs(c, seed);
  if (!tool_program_run(&c->p, "r")) {
    diags_print(p.diags, stderr, false);
    fprintf(stderr, "%s: the interpreter refuses\n", name);
    exit(1);
  }
  const DeviceTraits *cpu = target_device_traits(DEVICE_cpu), *device = target_device_traits(case_device);
  c->units = units_of(work_new(p.m, c->f, 0, device, joining || device != cpu));
  KernelSet *set = c->here ? &kernels : &others;
  if (device == cpu) kernel_target(cpu)->print(p.m, c->f, c->units, set);
  if (joining) c->apart = units_of(work_new(p.m, c->f, 0, cpu, false));
  if (joining) kernel_target(cpu)->print(p.m, c->f, c->apart, set);
  *last_case = c;
  last_case = &c->next;
}

/* No extent is negative, and one is 0. */
static bool is_empty_somewhere(const Case *c) {
  bool empty = false;
  for (size_t v = 1; v < c->f->values.n; v++) {
    int64_t dims[MAX_RANK];
    const Type *t = type_of(c->f, (Val)v);
    if (t && !interp_dims(t, c->symbols, dims)) return false;
    for (int d = 0; t && d < t->rank; d++) {
      if (dims[d] < 0) return false;
      empty = empty || dims[d] == 0;
    }
  }
  return empty;
}

/* Runs a case with a symbol of 0; false if the function is not defined for that or has no such dimension. */
static __attribute__((unused)) bool run_case_empty(Case *c, const Runner *runner, int symbol) {
  int64_t before = c->symbols[symbol];
  c->symbols[symbol] = 0;
  c->p.ninputs = 0;
  bool ok = is_empty_somewhere(c);
  if (ok) fill_inputs(c, 1);
  ok = ok && tool_program_run(&c->p, "r");
  if (ok) run_case(c, runner, false);
  c->symbols[symbol] = before;
  return ok;
}

#endif
