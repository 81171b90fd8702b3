/* tests/e2e/e2e.h - a model file becomes a program that runs, in this process: load, simplify, plan, lower, prove,
 * write, run.
 *
 * Every step is checked, the proof included; what the program computes is compared with the reference interpreter on
 * the level-1 function.  BUILD is the build folder, argument 1 of every test program; working directory is the source
 * folder.
 */
#ifndef APC_TESTS_E2E_H
#define APC_TESTS_E2E_H

#include <math.h>
#include <stdlib.h>

#include "base/file.h"
#include "codegen/artifact.h"
#include "frontend/dsl/dsl.h"
#include "frontend/onnx/import.h"
#include "frontend/topo/target.h"
#include "ir/interp.h"
#include "ir/prove.h"
#include "passes/lower/lower.h"
#include "passes/pipeline.h"
#include "passes/plan/plan.h"
#include "passes/plan/entries.h"
#include "runtime/apc_runtime.h"
#include "tests/temp.h"
#include "tests/test.h"

enum { E2E_MAX_ENTRIES = 4 };

static const char *e2e_build = "build";

/* False when main has to return `status`: this process was a rank, or the arguments are wrong. */
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
  Module *m;
  int nentries;
  Func *l1[E2E_MAX_ENTRIES], *l2[E2E_MAX_ENTRIES];
  Func *prepare_l1, *prepare_l2; /* NULL when there is nothing to prepare */
  Plan *plan;                    /* of the first entry */
} E2eModel;

/* Sizes to plan for; the sizes of a request are those of its inputs. */
typedef struct E2eHint {
  const char *symbol;
  int64_t size;
} E2eHint;

static inline void e2e_diags(E2eModel *e) { diags_print(e->diags, stderr, false); }

static inline void e2e_free(E2eModel *e) {
  if (e->m) module_free(e->m);
  arena_free(e->arena);
  *e = (E2eModel){0};
}

static inline void e2e_load_apc(E2eModel *e, const char *path, int ndefines, const DslDefine *defines) {
  const char *text = file_read_text(e->diags, e->arena, path, NULL);
  if (!text) return;
  diag_source(e->diags, path, text);
  e->m = dsl_load(path, text, &(DslOptions){.ndefines = ndefines, .defines = defines}, e->diags);
}

static inline void e2e_load_ir(E2eModel *e, const char *path) {
  const char *text = file_read_text(e->diags, e->arena, path, NULL);
  if (!text) return;
  diag_source(e->diags, path, text);
  e->m = ir_parse(path, text, e->diags);
}

/* Interprets a .ir model for sizes 0..n-1; the function keeps inputs and results. */
static inline void e2e_interpret(const char *path, int n, bool (*interpret)(E2eModel *e, int size)) {
  E2eModel e = {.arena = arena_new()};
  e.diags = diags_new(e.arena);
  e2e_load_ir(&e, path);
  bool ok = e.m != NULL;
  for (int k = 0; ok && k < n; k++) ok = interpret(&e, k);
  if (!ok) e2e_diags(&e);
  CHECK(ok);
  e2e_free(&e);
}

static inline void e2e_load_onnx(E2eModel *e, const char *path) {
  OnnxFile *file = onnx_file_open(e->diags, path);
  if (!file) return;
  if (!onnx_import(&e->m, file, NULL, e->diags)) {
    e2e_diags(e);
    module_free(e->m);
    e->m = NULL;
  }
  onnx_file_close(file);
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
  *e = (E2eModel){.arena = arena_new(), .nentries = nentries};
  e->diags = diags_new(e->arena);
  if (strstr(path, ".onnx")) e2e_load_onnx(e, path);
  else if (strstr(path, ".ir")) e2e_load_ir(e, path);
  else e2e_load_apc(e, path, ndefines, defines);
  bool ok = e->m != NULL;
  for (int i = 0; ok && i < nhints; i++) e2e_hint(e->m, &hints[i]);
  ok = ok && pipeline_run(e->m, NULL, &(PassOptions){.verify = true, .dump = stderr}, e->diags);
  for (int i = 0; ok && i < nentries; i++) ok = (e->l1[i] = module_func(e->m, entries[i])) != NULL;
  if (!ok) e2e_diags(e);
  return ok;
}

static inline bool e2e_lower_entry(E2eModel *e, CostModel *cost, int i) {
  const Func *l1 = e->l1[i];
  Strategy *strategies = ARENA_ARRAY(e->arena, Strategy, l1->ops.n);
  int *stages = ARENA_ARRAY(e->arena, int, l1->ops.n);
  if (i > 0) plan_carry(e->m, e->l1[0], e->plan->strategies, e->plan->stages, l1, strategies, stages);
  LowerPlan plan = {.strategies = i ? strategies : e->plan->strategies,
                    .stages = i ? stages : e->plan->stages,
                    .cost = cost_move,
                    .cost_context = cost};
  Func *l2 = e->l2[i] = lower_spmd(e->m, l1, &plan, arena_printf(e->arena, "%s.spmd", l1->name), e->diags);
  if (!l2 || !verify_func(e->m, l2, e->diags)) return false;
  Proof proof = prove(e->m, l1, l2);
  CHECKF(proof.verdict == PROVED, "%s: %s at %s: %s", l1->name, verdict_name(proof.verdict), proof.op, proof.reason);
  return proof.verdict == PROVED;
}

static inline bool e2e_lower_prepare(E2eModel *e) {
  e->prepare_l1 = module_func(e->m, "prepare");
  if (e->prepare_l1) {
    e->prepare_l2 = lower_prepare(e->m, e->prepare_l1, e->nentries, e->l2, "prepare.spmd", e->diags);
    if (!e->prepare_l2 || !verify_func(e->m, e->prepare_l2, e->diags)) return false;
  }
  Proof proof = prove_prepare(e->m, e->prepare_l1, e->prepare_l2, e->nentries, e->l2);
  CHECKF(proof.verdict == PROVED, "@prepare: %s at %s: %s", verdict_name(proof.verdict), proof.op, proof.reason);
  return proof.verdict == PROVED;
}

/* Plans the first entry, carries the plan to the others, lowers and proves all of them, writes one program. */
static inline bool e2e_compile(E2eModel *e, const char *target_name, const PlanOptions *options, const char *out) {
  const Target *target = target_find(e->diags, e->arena, target_name);
  e->plan = target ? plan_search(e->m, e->l1[0], target, options, e->diags) : NULL;
  bool ok = e->plan != NULL;
  if (ok) {
    CostModel *cost = cost_model_new(e->m, target);
    for (int i = 0; ok && i < e->nentries; i++) ok = e2e_lower_entry(e, cost, i);
    cost_model_free(cost);
  }
  ok = ok && e2e_lower_prepare(e);
  if (ok) {
    ProgramEntrySpec entries[E2E_MAX_ENTRIES];
    for (int i = 0; i < e->nentries; i++) entries[i] = (ProgramEntrySpec){e->l1[i]->name, e->l1[i], e->l2[i]};
    ArtifactSpec spec = {.source = {.m = e->m,
                                    .nentries = e->nentries,
                                    .entries = entries,
                                    .prepare_l1 = e->prepare_l1,
                                    .prepare_l2 = e->prepare_l2,
                                    .embed = true},
                         .name = "e2e",
                         .target = target_name,
                         .producer = "tests/e2e",
                         .stub = arena_printf(e->arena, "%s/apcrt-stub", e2e_build),
                         .out = out};
    ArtifactReport report;
    ok = artifact_write(&spec, &report, e->diags);
  }
  if (!ok) e2e_diags(e);
  return ok;
}

/* ---- what a rank does, from the level-2 function */

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

/* Multiply-adds times two of a contraction, 0 for all else. */
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
  if (op->kind == OP_grouped_mlp) { /* as if every row were owned here */
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

/* Weights in files, for the interpreter: the model file itself is mapped for every weight. */
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

/* Values of the dimension symbols when `tokens` is [batch, seq]. */
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
