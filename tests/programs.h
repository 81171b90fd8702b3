/* tests/programs.h - small hand-made Programs and their artifacts, for tests of the runtime.
 *
 * A Make builds one entry stage by stage: make_begin, instructions, make_end per body.  Buffers of a body live through
 * the whole body.  Kernels are C text, compiled by the system's compiler; artifacts are appended to
 * build/apcrt-stub. */
#ifndef APC_TESTS_PROGRAMS_H
#define APC_TESTS_PROGRAMS_H

#include <stdint.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/hash.h"
#include "runtime/apc_runtime.h"
#include "program/artifact.h"
#include "program/cpu.h"
#include "program/build.h"
#include "tests/temp.h"
#include "tests/test.h"

typedef struct Make {
  ProgramBuilder *b;
  uint32_t entry, stage, body, first; /* of the current body */
  ProgramPhase phase;                 /* of the following bodies */
  uint32_t stages, events, keys;
  uint32_t schedule[64][64], calls[64]; /* per stage: body * 4096 + micro-batch */
  const char *kernels;                  /* C text, or NULL */
  const char *embedded;                 /* one file of weights in the image; NULL if none */
  ProgramImageKind image;               /* the kernels' kind, */
  const char *arch;                     /* and their architecture */
  const char *cubin;                    /* a file used as code for GPUs of sm_90, after the kernels; NULL if none */
  uint32_t embedded_blob;
} Make;

static inline Make make_new(uint32_t stages) {
  return (Make){.b = program_builder_new(), .stages = stages, .phase = PHASE_fwd, .arch = ""};
}

static inline uint32_t make_axis(Make *m, const char *name, uint32_t size, bool temporal) {
  return program_add_axes(m->b, &(ProgramAxis){program_string(m->b, name), size, temporal, 0});
}
static inline uint32_t make_symbol(Make *m, const char *name, int64_t max, int64_t hint) {
  return program_sym(
      m->b, program_add_symbols(
                m->b, &(ProgramSymbol){.name = program_string(m->b, name), .max = max, .multiple = 1, .hint = hint}));
}
static inline uint32_t make_number(Make *m, int64_t v) { return program_const(m->b, v); }
static inline uint32_t make_add(Make *m, uint32_t x, uint32_t y) { return program_expr(m->b, PX_add, x, y); }
static inline uint32_t make_mul(Make *m, uint32_t x, uint32_t y) { return program_expr(m->b, PX_mul, x, y); }
static inline uint32_t make_sub(Make *m, uint32_t x, uint32_t y) {
  return make_add(m, x, make_mul(m, make_number(m, -1), y));
}
/* The begin of part `r` of n in an extent: floor(r * extent / n). */
static inline uint32_t make_cut(Make *m, uint32_t r, uint32_t extent, int64_t n) {
  return program_expr(m->b, PX_div, make_mul(m, r, extent), make_number(m, n));
}
static inline uint32_t make_next(Make *m, uint32_t r) { return make_add(m, r, make_number(m, 1)); }
static inline ProgramList make_list(Make *m, uint32_t n, const uint32_t *items) {
  return program_list_of(m->b, n, items);
}
#define MAKE_LIST(m, ...) \
  make_list(m, (uint32_t)(sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t)), (uint32_t[]){__VA_ARGS__})

static inline uint32_t make_port(Make *m, const char *name, DType t, ProgramList dims) {
  return program_add_ports(
      m->b, &(ProgramPort){program_string(m->b, name), t, dims, PROGRAM_NONE, PROGRAM_NONE, 0, PROGRAM_NONE, {0}});
}
static inline void make_entry(Make *m, const char *name, uint32_t inputs, uint32_t outputs) {
  uint32_t ports = program_count_ports(m->b);
  m->entry = program_add_entries(m->b, &(ProgramEntry){program_string(m->b, name), 0, ports - inputs - outputs, inputs,
                                                       ports - outputs, outputs, 0});
}

static inline void make_begin(Make *m, uint32_t stage) {
  m->stage = stage;
  m->body = program_count_bodies(m->b);
  m->first = program_count_instrs(m->b);
}

static inline uint32_t make_bytes(Make *m, DType t, ProgramList dims) {
  uint32_t bytes = make_number(m, (int64_t)dtype_bytes(t));
  for (uint32_t d = 0; d < dims.n; d++) bytes = make_mul(m, bytes, *program_at_indices(m->b, dims.first + d));
  return bytes;
}

/* A tensor in a buffer of its own; if slots > 1, it lives over all calls of the entry. */
static inline uint32_t make_tensor(Make *m, ProgramClass class_, DType t, uint32_t slots, ProgramList dims) {
  bool persistent = class_ == PC_param || class_ == PC_state;
  uint32_t buffer = program_add_buffers(m->b, &(ProgramBuffer){.name = program_string(m->b, program_class_name(class_)),
                                                               .class_ = class_,
                                                               .stage = m->stage,
                                                               .entry = persistent ? PROGRAM_NONE : m->entry,
                                                               .body = persistent || slots > 1 ? PROGRAM_NONE : m->body,
                                                               .slots = slots,
                                                               .bytes = make_bytes(m, t, dims)});
  return program_add_tensors(
      m->b, &(ProgramTensor){.buffer = buffer, .offset = make_number(m, 0), .dtype = t, .extents = dims});
}
static inline uint32_t make_buffer_of(Make *m, uint32_t tensor) { return program_at_tensors(m->b, tensor)->buffer; }

static inline ProgramInstr make_instr(Make *m, ProgramInstrKind kind, const char *where, ProgramList tensors) {
  return (ProgramInstr){.kind = kind,
                        .where = program_string(m->b, where),
                        .object = PROGRAM_NONE,
                        .guard = PROGRAM_NONE,
                        .blocks = PROGRAM_NONE,
                        .event = PROGRAM_NONE,
                        .tensors = tensors,
                        .key = program_instr_is_comm(kind) ? m->keys++ : 0};
}
static inline void make_put(Make *m, ProgramInstr x) { program_add_instrs(m->b, &x); }

/* A kernel that may write all its tensors. */
static inline void make_launch(Make *m, const char *kernel, ProgramList tensors, ProgramList scalars) {
  ProgramInstr x = make_instr(m, PI_launch, kernel, tensors);
  for (x.object = 0; x.object < program_count_kernels(m->b); x.object++)
    if (program_at_kernels(m->b, x.object)->name == program_string(m->b, kernel)) break;
  if (x.object == program_count_kernels(m->b))
    program_add_kernels(m->b, &(ProgramKernel){.name = program_string(m->b, kernel)});
  x.exprs = scalars;
  x.dim = tensors.n;
  make_put(m, x);
}

/* Row-major C[m,n] = A[m,k] B[k,n]. */
static inline void make_gemm(Make *m, ProgramList tensors, uint32_t rows, uint32_t columns, uint32_t inner) {
  ProgramInstr x = make_instr(m, PI_gemm, "gemm", tensors);
  x.dim2 = program_gemm_sums((DType)program_at_tensors(m->b, *program_at_indices(m->b, tensors.first))->dtype);
  uint32_t one = make_number(m, 1), zero = make_number(m, 0);
  x.exprs = MAKE_LIST(m, rows, columns, inner, inner, one, columns, one, columns, one, zero, zero);
  make_put(m, x);
}

/* Begins a loop of `count` rounds, at most expression `most` (or PROGRAM_NONE); make_repeat ends it, with a tensor or
 * PROGRAM_NONE as `again`. */
static inline uint32_t make_loop(Make *m, const char *where, uint32_t round, uint32_t count, uint32_t most) {
  ProgramInstr x = make_instr(m, PI_loop, where, MAKE_LIST(m, round, count));
  x.exprs = make_list(m, most != PROGRAM_NONE, &most);
  return program_add_instrs(m->b, &x);
}
static inline void make_repeat(Make *m, uint32_t loop, uint32_t again) {
  uint32_t tensors[2] = {*program_at_indices(m->b, program_at_instrs(m->b, loop)->tensors.first), again};
  ProgramInstr x = make_instr(m, PI_repeat, "", make_list(m, 1 + (again != PROGRAM_NONE), tensors));
  x.where = program_at_instrs(m->b, loop)->where;
  x.dim = program_at_instrs(m->b, loop)->dim = program_count_instrs(m->b) - loop;
  make_put(m, x);
}

static inline void make_io(Make *m, ProgramInstrKind kind, uint32_t port, uint32_t tensor, uint32_t mask,
                           ProgramList start) {
  ProgramInstr x = make_instr(m, kind, kind == PI_feed ? "input" : "output", MAKE_LIST(m, tensor));
  x.object = port;
  x.mask = mask;
  x.exprs = start;
  make_put(m, x);
}

static inline ProgramInstr make_comm(Make *m, ProgramInstrKind kind, const char *where, uint32_t group,
                                     ProgramList tensors) {
  ProgramInstr x = make_instr(m, kind, where, tensors);
  x.object = group;
  return x;
}

/* Ends the body; its buffers live from its first to its last instruction. */
static inline uint32_t make_end(Make *m, const char *name) {
  uint32_t n = program_count_instrs(m->b) - m->first;
  for (uint32_t i = 0; i < program_count_buffers(m->b); i++) {
    ProgramBuffer *x = program_at_buffers(m->b, i);
    if (x->body == m->body && x->stage == m->stage) x->last = n - 1;
  }
  return program_add_bodies(m->b,
                            &(ProgramBody){program_string(m->b, name), m->entry, m->stage, m->phase, m->first, n});
}

static inline void make_call(Make *m, uint32_t stage, uint32_t body, uint32_t mb) {
  m->schedule[stage][m->calls[stage]++] = body * 4096 + mb;
}

/* Ends the entry: schedules from the calls, lifetimes of buffers across calls. */
static inline void make_schedules(Make *m) {
  for (uint32_t s = 0; s < m->stages; s++) {
    program_add_schedules(m->b, &(ProgramSchedule){program_count_calls(m->b), m->calls[s]});
    for (uint32_t k = 0; k < m->calls[s]; k++)
      program_add_calls(m->b, &(ProgramCall){m->schedule[s][k] / 4096, m->schedule[s][k] % 4096});
    for (uint32_t i = 0; i < program_count_buffers(m->b); i++) {
      ProgramBuffer *x = program_at_buffers(m->b, i);
      if (x->entry == m->entry && x->body == PROGRAM_NONE && x->stage == s) x->last = m->calls[s] - 1;
    }
    m->calls[s] = 0;
  }
}

/* ---- artifacts */

static inline const char *make_stub(void) {
  static char path[4096];
  ssize_t n = readlink("/proc/self/exe", path, sizeof path - 32);
  if (n < 0) exit(1);
  path[n] = 0;
  for (int i = 0; i < 2; i++) *strrchr(path, '/') = 0;
  strcat(path, "/apcrt-stub");
  return path;
}

static inline void make_shared_object(const char *text, const char *out) {
  char command[10000];
  const char *source = temp_path("kernels.c"), *cc = getenv("CC");
  temp_write(source, text, strlen(text));
  snprintf(command, sizeof command, "%s -O1 -shared -fPIC -o %s %s -lm", cc ? cc : "cc", out, source);
  if (system(command) != 0) exit(1);
}

static inline void make_copy(FILE *out, const char *path, uint64_t at) {
  static char zeros[65536];
  for (uint64_t now = (uint64_t)ftell(out); now < at;) {
    size_t n = at - now < sizeof zeros ? (size_t)(at - now) : sizeof zeros;
    if (fwrite(zeros, 1, n, out) != n) exit(1);
    now += n;
  }
  Arena *a = arena_new();
  FileMap map;
  if (!file_map(diags_new(a), path, &map) || fwrite(map.data, 1, map.size, out) != map.size) exit(1);
  file_unmap(&map);
  arena_free(a);
}

static inline uint64_t make_file_size(const char *path) {
  struct stat st;
  return stat(path, &st) == 0 ? (uint64_t)st.st_size : 0;
}

static inline uint64_t make_file_hash(const char *path) {
  Arena *a = arena_new();
  FileMap map;
  if (!file_map(diags_new(a), path, &map)) exit(1);
  uint64_t hash = program_blob_hash(map.data, map.size);
  file_unmap(&map);
  arena_free(a);
  return hash;
}

/* Writes the artifact `name` and returns its path, which is valid for the next three calls; ends the builder. */
static inline const char *make_artifact(Make *m, const char *name) {
  static char paths[4][4400];
  static unsigned next;
  char *path = paths[next++ % 4];
  snprintf(path, sizeof paths[0], "%s", temp_path(name));
  const char *so = temp_path("kernels.so"), *tables_path = temp_path("tables");
  ProgramFacts facts = {name, "test", "test", m->stages, m->events, NULL, NULL};
  uint32_t object = PROGRAM_NONE;
  if (m->kernels) {
    make_shared_object(m->kernels, so);
    object = program_embed_image(m->b, m->image, m->arch, make_file_size(so), 0);
    if (m->cubin) program_embed_image(m->b, PIMAGE_cubin, "sm_90", make_file_size(m->cubin), make_file_hash(m->cubin));
  }
  void *tables = NULL;
  size_t bytes = 0;
  RtError error = {0};
  CHECKF(program_builder_finish(m->b, &facts, &tables, &bytes, &error) == RT_OK, "%s", error.text);
  if (!tables) exit(1);
  ProgramHeader h;
  memcpy(&h, tables, sizeof h);
  temp_write(tables_path, tables, bytes);
  FILE *out = fopen(path, "wb");
  if (!out) exit(1);
  make_copy(out, make_stub(), 0);
  uint64_t base = ((uint64_t)ftell(out) + ARTIFACT_ALIGN - 1) / ARTIFACT_ALIGN * ARTIFACT_ALIGN;
  make_copy(out, tables_path, base);
  if (m->embedded) make_copy(out, m->embedded, base + program_at_blobs(m->b, m->embedded_blob)->offset);
  if (m->kernels) make_copy(out, so, base + program_at_blobs(m->b, program_at_images(m->b, object)->blob)->offset);
  if (m->cubin)
    make_copy(out, m->cubin, base + program_at_blobs(m->b, program_at_images(m->b, object + 1)->blob)->offset);
  ArtifactTrailer t = {base, h.image_bytes, h.table_hash, ARTIFACT_MAGIC};
  if (fwrite(&t, sizeof t, 1, out) != 1 || fclose(out) != 0 || chmod(path, 0755) != 0) exit(1);
  free(tables);
  program_builder_free(m->b);
  return path;
}

#define OK(call) CHECKF((call) == APC_OK, "%s", apc_error(m))

static inline ApcModel *make_load_within(const char *path, int milliseconds) {
  ApcModel *m;
  ApcOptions options = {.timeout_ms = milliseconds};
  OK(apc_load(path, &options, &m));
  return m;
}

/* Loads an artifact whose ranks are not slow, also on a busy machine. */
static inline ApcModel *make_load(const char *path) { return make_load_within(path, 60000); }

/* Loads an artifact with a rank that is slow on purpose. */
static inline ApcModel *make_load_late(const char *path) { return make_load_within(path, 2000); }

#endif
