/* tests/e2e/e2e.h - compiles and runs a model file in this process: load, simplify, plan, lower, prove, write, run.
 *
 * Every step is checked, including the proof; the program's results are compared with the reference interpreter on the
 * level-1 function.  BUILD is the build folder, argument 1 of every test program; working directory is the source
 * folder. */
#ifndef APC_TESTS_E2E_H
#define APC_TESTS_E2E_H

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "driver/driver.h"
#include "frontend/topo/target.h"
#include "ir/run/interp.h"
#include "proof/prove.h"
#include "runtime/apc_runtime.h"
#include "tests/temp.h"
#include "tests/test.h"

static const char *e2e_build = "build";
static ComputeType e2e_compute = CT_f32; /* of loaded models, like --dtype */

/* False if main has to return `status`: this process was a rank, or the arguments are wrong. */
static inline bool e2e_start(int argc, char **argv, int *status) {
  bool rank = apc_is_rank(argc, argv);
  if (!rank && argc == 2) return e2e_build = argv[1], true;
  if (!rank) fprintf(stderr, "usage: %s BUILD\n", argv[0]);
  *status = rank ? apc_rank_main(argc, argv) : 2;
  return false;
}

typedef struct E2eModel {
  Arena *arena;
  Diags *diags;
  Build build;
  Module *m; /* its */
  Func **l1, **l2;
} E2eModel;

/* Sizes to plan for; a request has the sizes of its inputs. */
typedef struct E2eHint {
  const char *symbol;
  int64_t size;
} E2eHint;

static inline void e2e_diags(E2eModel *e) { diags_print(e->diags, stderr, false); }

static inline void e2e_free(E2eModel *e) {
  driver_free(&e->build);
  arena_free(e->arena);
  *e = (E2eModel){0};
}

static inline bool e2e_begin(E2eModel *e, const char *path) {
  *e = (E2eModel){.arena = arena_new()};
  e->diags = diags_new(e->arena);
  const Target *target = topo_target_find(e->diags, e->arena, "cpu");
  if (!target) return false;
  DriverOptions o = {.model = {.arena = e->arena,
                               .diags = e->diags,
                               .path = path,
                               .computes = true,
                               .floats = compute_storage(e2e_compute)},
                     .target = target,
                     .embed = EMBED_ALL};
  driver_begin(&e->build, &o);
  return true;
}

/* Interprets a .ir model for sizes 0..n-1; the function keeps inputs and results. */
static inline void e2e_interpret(const char *path, int n, bool (*interpret)(E2eModel *e, int size)) {
  E2eModel e;
  bool ok = e2e_begin(&e, path) && driver_run(&e.build, DRIVER_load);
  e.m = e.build.model.m;
  for (int k = 0; ok && k < n; k++) ok = interpret(&e, k);
  if (!ok) e2e_diags(&e);
  CHECK(ok);
  e2e_free(&e);
}

static inline void e2e_hint(Module *m, const E2eHint *h) {
  int symbol = module_symbol_find(m, h->symbol);
  if (symbol < 0) return;
  Symbol *s = &m->symbols.items[symbol];
  s->hint = s->max && h->size > s->max ? s->max : h->size;
}

/* Loads a model and simplifies it; entries are the named functions, the first is the one to plan. */
static inline bool e2e_load(E2eModel *e, const char *path, int ndefines, const DslDefine *defines, int nhints,
                            const E2eHint *hints, int nentries, const char *const *entries) {
  bool ok = e2e_begin(e, path);
  DriverOptions *o = &e->build.options;
  o->model.ndefines = ndefines, o->model.defines = defines;
  o->nentries = nentries, o->entries = entries;
  ok = ok && driver_run(&e->build, DRIVER_load);
  for (int i = 0; ok && i < nhints; i++) e2e_hint(e->build.model.m, &hints[i]);
  ok = ok && driver_run(&e->build, DRIVER_simplify);
  e->m = e->build.model.m, e->l1 = e->build.l1s;
  if (!ok) e2e_diags(e);
  return ok;
}

static inline bool e2e_proved(const char *what, Proof proof) {
  CHECKF(proof.verdict == PROVED, "%s: %s at %s: %s", what, verdict_name(proof.verdict), proof.op, proof.reason);
  return proof.verdict == PROVED;
}

static inline bool e2e_prove(E2eModel *e) {
  const Build *b = &e->build;
  bool ok = true;
  for (int i = 0; ok && i < b->nentries; i++) ok = e2e_proved(b->l1s[i]->name, prove(e->m, b->l1s[i], b->l2s[i]));
  return ok && e2e_proved("@prepare", prove_prepare(e->m, b->prepare_l1, b->prepare_l2, b->nentries, b->l2s));
}

/* Plans the first entry, applies the plan to the others, lowers and proves all of them, writes one program. */
static inline bool e2e_compile(E2eModel *e, const char *target_name, const PlanOptions *options, const char *out) {
  DriverOptions *o = &e->build.options;
  o->target = topo_target_find(e->diags, e->arena, target_name);
  o->plan = *options;
  o->producer = "tests/e2e";
  o->stub = arena_printf(e->arena, "%s/apcrt-stub", e2e_build);
  bool ok =
      o->target && driver_run(&e->build, DRIVER_lower) && e2e_prove(e) && driver_write(&e->build, e->build.device, out);
  e->l2 = e->build.l2s;
  if (!ok) e2e_diags(e);
  return ok;
}

/* ---- the work of a rank, from the level-2 function */

static inline int64_t e2e_letter(const char *spec, const int64_t *a, const int64_t *b, char letter) {
  const int64_t *dims = a;
  for (int d = 0; *spec && *spec != '-'; spec++) {
    if (*spec == ',') {
      dims = b;
      d = 0;
    } else if (*spec != ' ') {
      if (*spec == letter) return dims[d];
      d++;
    }
  }
  return 1;
}

/* Multiply-adds times two of a contraction, 0 for other operations. */
static inline double e2e_op_flops(const Func *f, const Op *op, const int64_t *symbols) {
  int64_t x[3][MAX_RANK];
  if (op->kind != OP_dot && op->kind != OP_attention && op->kind != OP_grouped_mlp) return 0;
  for (int k = 0; k < (op->kind == OP_attention ? 3 : 2); k++)
    if (!interp_dims(type_of(f, op->in[k]), symbols, x[k])) return 0;
  double flops = 2;
  if (op->kind == OP_attention) {
    for (int d = 0; d < 4; d++) flops *= (double)x[0][d];
    return flops * (double)x[1][2] * (double)(x[0][4] + x[2][3]);
  }
  if (op->kind == OP_grouped_mlp) { /* as if this rank had every row */
    int64_t gate[MAX_RANK];
    if (!interp_dims(type_of(f, op->in[2]), symbols, gate)) return 0;
    for (int d = 0; d < type_of(f, op->in[1])->rank; d++) flops *= (double)x[1][d];
    return flops * 3 * (double)(gate[1] * gate[2]);
  }
  const char *spec = op_str(op, AT_spec);
  for (char letter = 'a'; letter <= 'z'; letter++) flops *= (double)e2e_letter(spec, x[0], x[1], letter);
  return flops;
}

/* Arithmetic of the contractions of the busiest rank, all micro-batches; every contraction is counted in every
 * micro-batch. */
static inline double e2e_flops(const E2eModel *e, const Func *f, const int64_t *sizes) {
  const Mesh *mesh = &e->m->mesh;
  int64_t *symbols = ARENA_ARRAY(e->arena, int64_t, e->m->symbols.n);
  int spatial = 1, times = 1;
  double most = 0;
  for (int a = 0; a < mesh->naxes; a++) *(mesh->axes[a].temporal ? &times : &spatial) *= mesh->axes[a].size;
  for (int rank = 0; f->level == 2 ? rank < spatial * mesh->stages : rank < 1; rank++) {
    double flops = 0;
    for (int time = 0; time < (f->level == 2 ? times : 1); time++) {
      for (size_t i = 0; i < e->m->symbols.n; i++) symbols[i] = sizes[i];
      int place = rank % spatial;
      for (int a = 0; a < mesh->naxes; a++) {
        if (mesh->axes[a].temporal) symbols[mesh->axes[a].symbol] = time;
        else {
          symbols[mesh->axes[a].symbol] = place % mesh->axes[a].size;
          place /= mesh->axes[a].size;
        }
      }
      for (size_t i = 0; i < f->ops.n; i++)
        if (f->level == 1 || f->ops.items[i].stage == rank / spatial)
          flops += e2e_op_flops(f, &f->ops.items[i], symbols);
    }
    if (flops > most) most = flops;
  }
  return most;
}

/* ---- the reference */

/* Weights for the interpreter: every weight is mapped from its file, or from the model file. */
static inline bool e2e_weight(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags) {
  (void)context;
  FileMap map;
  if (!file_map(diags, m->blobs.items[p->blob].path, &map)) return false;
  size_t size = dtype_bytes(p->type->dtype);
  for (int64_t i = 0, n = interp_elements(out); i < n; i++) {
    int64_t rest = i, at = 0;
    for (int d = out->rank - 1; d >= 0; d--) {
      at += rest % out->dims[d] * p->strides[d];
      rest /= out->dims[d];
    }
    uint8_t element[8];
    memcpy(element, map.data + p->offset + (uint64_t)at * size, size);
    if (dtype_is_float(out->dtype)) out->cells[i].f = dtype_load_f(p->type->dtype, element);
    else out->cells[i].i = dtype_load_i(p->type->dtype, element);
  }
  file_unmap(&map);
  return true;
}

/* Values of the dimension symbols if `tokens` is [batch, seq]. */
static inline int64_t *e2e_sizes(const E2eModel *e, int64_t batch, int64_t seq) {
  int64_t *v = ARENA_ARRAY(e->arena, int64_t, e->m->symbols.n);
  for (size_t i = 0; i < e->m->symbols.n; i++) {
    const char *name = e->m->symbols.items[i].name;
    v[i] = strcmp(name, "batch") == 0 ? batch : strcmp(name, "seq") == 0 ? seq : 0;
  }
  return v;
}

/* ||a - b|| / ||b|| */
static inline double e2e_distance(const float *a, const float *b, size_t n) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < n; i++) {
    double d = (double)a[i] - (double)b[i];
    difference += d * d;
    norm += (double)b[i] * (double)b[i];
  }
  return norm > 0 ? sqrt(difference / norm) : sqrt(difference);
}

#endif
