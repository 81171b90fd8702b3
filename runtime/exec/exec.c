/* runtime/exec/exec.c - opening an executor: kernels, libraries, groups, weights; its memory.  See exec.h. */
#define _GNU_SOURCE /* memfd_create */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "program/cpu.h"
#include "runtime/exec/internal.h"
#include "runtime/device/gemm_dnnl.h"
#include "runtime/device/openmp.h"

uint64_t exec_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- memory */

RtStatus exec_alloc(Executor *e, ProgramSpace space, uint64_t bytes, RtError *error) {
  Space *s = &e->spaces[space];
  if (bytes <= s->bytes) return RT_OK;
  if (s->data) munmap(s->data, s->bytes);
  *s = (Space){0};
  e->generation++;
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED)
    return rt_error(error, RT_FAILED, "rank %u cannot get %llu bytes of memory: %s", e->options.rank,
                    (unsigned long long)bytes, strerror(errno));
  if (bytes >= (UINT64_C(4) << 20)) madvise(p, bytes, MADV_HUGEPAGE);
  *s = (Space){p, bytes};
  return RT_OK;
}

/* ---- kernels and libraries */

static RtStatus write_memfd(const unsigned char *bytes, uint64_t n, int *fd, RtError *error) {
  *fd = memfd_create("apc-kernels", MFD_CLOEXEC);
  if (*fd < 0) return rt_error_errno(error, RT_FAILED, "the kernels cannot be put into memory");
  for (uint64_t done = 0; done < n;) {
    ssize_t k = write(*fd, bytes + done, n - done);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) {
      RtStatus status = rt_error_errno(error, RT_FAILED, "the kernels cannot be put into memory");
      close(*fd);
      return status;
    }
    done += (uint64_t)k;
  }
  return RT_OK;
}

/* The kernels in memory of our own, checked there: what runs is what was checked. */
static RtStatus copy_kernels(const Artifact *a, const ProgramBlob *b, int *fd, RtError *error) {
  unsigned char *bytes = malloc(b->bytes + 1);
  if (!bytes) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status =
      artifact_read_blob(a, b, bytes) ? RT_OK : rt_error_errno(error, RT_BAD_INPUT, "the kernels cannot be read");
  if (!status && b->hash && program_blob_hash(bytes, b->bytes) != b->hash)
    status = rt_error(error, RT_BAD_INPUT, "the compiled model is damaged: its kernels do not match their checksum");
  if (!status) status = write_memfd(bytes, b->bytes, fd, error);
  free(bytes);
  return status;
}

static RtStatus open_library(Executor *e, RtError *error) {
  int fd = -1;
  RtStatus status = copy_kernels(e->artifact, &e->p->blobs[e->p->header->cpu_image], &fd, error);
  if (status) return status;
  char path[64];
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  e->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!e->library) status = rt_error(error, RT_UNSUPPORTED, "the kernels cannot be loaded: %s", dlerror());
  else status = openmp_check(e->library, "the kernels' code", error);
  close(fd);
  return status;
}

static RtStatus find_kernels(Executor *e, RtError *error) {
  const Program *p = e->p;
  char missing[64];
  if (!cpu_supports(program_text(p, p->header->cpu), missing, sizeof missing))
    return rt_error(error, RT_UNSUPPORTED,
                    "this CPU lacks %s, which the machine that compiled the program has; compile it again here",
                    missing);
  e->kernels = calloc(p->n_kernels + 1u, sizeof *e->kernels);
  if (!e->kernels) return rt_error(error, RT_FAILED, "out of memory");
  if (p->n_kernels == 0) return RT_OK;
  if (p->header->cpu_image == PROGRAM_NONE) return rt_error(error, RT_BAD_INPUT, "the program has no machine code");
  RtStatus status = open_library(e, error);
  for (uint32_t i = 0; !status && i < p->n_kernels; i++) {
    void *address = dlsym(e->library, program_text(p, p->kernels[i].name));
    memcpy(&e->kernels[i], &address, sizeof address);
    if (!address)
      status = rt_error(error, RT_BAD_INPUT, "damaged program: there is no kernel '%s'",
                        program_text(p, p->kernels[i].name));
  }
  return status;
}

static RtStatus open_libraries(Executor *e, RtError *error) {
  const Program *p = e->p;
  RtStatus status = find_kernels(e, error);
  for (uint32_t b = 0; !status && b < p->n_bodies; b++) {
    if (p->bodies[b].stage != e->stage) continue;
    for (uint32_t i = p->bodies[b].instrs; i < p->bodies[b].instrs + p->bodies[b].n; i++)
      if (p->instrs[i].kind == PI_gemm) return gemm_open(error);
  }
  return status;
}

/* Every rank makes every group, in the same order: by family, then by first member. */
static RtStatus make_groups_in(Executor *e, int *ranks, RtError *error) {
  const Program *p = e->p;
  for (uint32_t g = 0; g < p->n_groups; g++) {
    e->groups[g] = -1;
    for (uint32_t r = 0; e->options.comm && r < p->ranks; r++) {
      ProgramMembers m = program_group_of(p, g, r);
      int group;
      if (m.n == 0 || m.place != 0) continue;
      bool mine = false;
      for (uint32_t i = 0; i < m.n; i++) {
        ranks[i] = (int)program_member(&m, i);
        mine |= ranks[i] == (int)e->options.rank;
      }
      RtStatus status = comm_group(e->options.comm, ranks, (int)m.n, &group, error);
      if (status) return status;
      if (mine) e->groups[g] = group;
    }
  }
  return RT_OK;
}

static RtStatus make_groups(Executor *e, RtError *error) {
  int *ranks = calloc(e->p->ranks, sizeof *ranks);
  RtStatus status = ranks ? make_groups_in(e, ranks, error) : rt_error(error, RT_FAILED, "out of memory");
  free(ranks);
  return status;
}

/* ---- weights */

/* Extents and first index of this rank's part; false when the program's interval is not inside the weight. */
static bool part_of(const Program *p, const ProgramParam *t, const int64_t *values, int64_t *lo, int64_t *extent) {
  for (uint32_t d = 0; d < t->dims.n; d++) {
    int64_t hi = values[program_list(p, t->interval)[2 * d + 1]];
    lo[d] = values[program_list(p, t->interval)[2 * d]];
    if (lo[d] < 0 || hi < lo[d] || hi > p->exprs[program_list(p, t->dims)[d]].value) return false;
    extent[d] = hi - lo[d];
  }
  return true;
}

static RtStatus bad_part(const Program *p, uint32_t i, RtError *error) {
  return rt_error(error, RT_BAD_INPUT, "damaged program: the part of weight '%s' does not fit",
                  program_text(p, p->params[i].name));
}

static uint64_t part_bytes(const ProgramParam *t, const int64_t *extent) {
  uint64_t n = dtype_bytes((DType)t->dtype);
  for (uint32_t d = 0; d < t->dims.n; d++) n *= (uint64_t)extent[d];
  return n;
}

/* First pass over the weights: which are used in place, and how much memory the others take in all. */
static RtStatus place_weights(Executor *e, const int64_t *values, MemoryPlan *plan, RtError *error) {
  const Program *p = e->p;
  uint64_t bytes = plan->bytes[SPACE_PARAM];
  for (uint32_t i = 0; i < p->n_params; i++) {
    const ProgramParam *t = &p->params[i];
    int64_t lo[PROGRAM_MAX_RANK], extent[PROGRAM_MAX_RANK];
    if (t->stage != e->stage || t->buffer == PROGRAM_NONE) continue;
    if (!part_of(p, t, values, lo, extent)) return bad_part(p, i, error);
    uint64_t need = part_bytes(t, extent);
    if (memory_param_in_place(p, i) && (e->mapped[t->buffer] = weights_in_place(e->weights, i, lo, extent)) != NULL) {
      e->capacity[t->buffer] = need;
      e->mapped_bytes += plan->slot_bytes[t->buffer];
      continue;
    }
    if (memory_param_in_place(p, i)) { /* --weights gave another file, in which it does not lie as planned */
      plan->offsets[t->buffer] = bytes;
      bytes += plan->slot_bytes[t->buffer];
    }
    e->capacity[t->buffer] = plan->slot_bytes[t->buffer];
    if (need > e->capacity[t->buffer]) return bad_part(p, i, error);
  }
  return exec_alloc(e, SPACE_PARAM, bytes, error);
}

static void load_weights(Executor *e, const int64_t *values, const MemoryPlan *plan) {
  const Program *p = e->p;
  for (uint32_t i = 0; i < p->n_params; i++) {
    const ProgramParam *t = &p->params[i];
    int64_t lo[PROGRAM_MAX_RANK], extent[PROGRAM_MAX_RANK];
    if (t->stage != e->stage || t->buffer == PROGRAM_NONE || e->mapped[t->buffer]) continue;
    char *at = e->spaces[SPACE_PARAM].data + plan->offsets[t->buffer];
    e->mapped[t->buffer] = at;
    if (t->init == PINIT_prepared) continue;
    if (e->options.place) rank_place_step(e->options.place, exec_step_load(i));
    part_of(p, t, values, lo, extent);
    weights_load(e->weights, i, lo, extent, at, exec_beats(e));
  }
  if (e->options.place) rank_place_step(e->options.place, 0); /* what fails next does not fail in loading */
}

static RtStatus open_weights(Executor *e, RtError *error) {
  const Program *p = e->p;
  uint64_t begin = exec_now();
  MemoryPlan plan;
  int64_t *values = malloc(sizeof *values * (p->n_exprs + 1u));
  if (!values) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = memory_plan(p, PROGRAM_NONE, e->stage, NULL, &plan, error);
  if (!status) {
    status = weights_open(e->options.files, &e->weights, error);
    if (!status) status = program_eval(p, NULL, e->coordinates, values, error);
    if (!status) status = place_weights(e, values, &plan, error);
    if (!status) load_weights(e, values, &plan);
    memory_plan_free(&plan);
  }
  free(values);
  e->load_ns = exec_now() - begin;
  return status;
}

/* ---- opening */

/* The most communication instructions joined into one position. */
static int most_joined(const Program *p) {
  int most = 1, now = 1;
  for (uint32_t i = 0; i < p->n_instrs; i++) {
    now = p->instrs[i].together ? now + 1 : 1;
    if (now > most) most = now;
  }
  return most;
}

CommOptions exec_comm_options(const Program *p) {
  return (CommOptions){.max_positions = PROGRAM_POSITIONS, .max_operations = PROGRAM_POSITIONS * most_joined(p)};
}

/* Of the groups that the rank is in. */
static uint32_t largest_group(const Executor *e) {
  uint32_t most = 1;
  for (uint32_t g = 0; g < e->p->n_groups; g++) {
    uint32_t n = program_group_of(e->p, g, e->options.rank).n;
    if (n > most) most = n;
  }
  return most;
}

static bool allocate_tables(Executor *e) {
  const Program *p = e->p;
  e->group_most = largest_group(e);
  e->blocks = calloc((size_t)most_joined(p) * 2 * e->group_most, sizeof *e->blocks);
  e->groups = calloc(p->n_groups + 1u, sizeof *e->groups);
  e->mapped = calloc(p->n_buffers + 1u, sizeof *e->mapped);
  e->capacity = calloc(p->n_buffers + 1u, sizeof *e->capacity);
  e->state_values = calloc(p->n_states + 1u, sizeof *e->state_values * EXEC_STATE_VALUES);
  e->tickets = calloc((size_t)p->header->n_events * p->micro_batches + 1, sizeof *e->tickets);
  return e->blocks && e->groups && e->mapped && e->capacity && e->state_values && e->tickets;
}

/* Gives the space back; what was in it is lost. */
static void exec_release(Executor *e, ProgramSpace space) {
  Space *s = &e->spaces[space];
  if (s->data) munmap(s->data, s->bytes);
  *s = (Space){0};
  e->generation++;
}

/* Runs the entry that computes weights from weights.  What it needed beside them is given back, so that afterwards a
 * rank holds what its requests need and no more. */
static RtStatus run_prepare(Executor *e, RtError *error) {
  const Program *p = e->p;
  RtStatus status = RT_OK;
  for (uint32_t i = 0; i < p->n_entries && !status; i++) {
    int64_t symbols[PROGRAM_MAX_SYMBOLS];
    if (!p->entries[i].prepare) continue;
    for (uint32_t s = 0; s < p->n_symbols; s++) symbols[s] = program_default_size(&p->symbols[s]);
    RequestHead head = {.kind = REQUEST_RUN, .entry = i, .n_symbols = p->n_symbols};
    status = exec_run(e, &head, symbols, NULL, 0, error);
    e->load_ns += e->run_ns;
    e->run_ns = 0;
    exec_release(e, SPACE_ARENA);
    exec_release(e, SPACE_WINDOW);
  }
  return status;
}

RtStatus exec_open(const Artifact *a, const ExecOptions *options, Executor **out, RtError *error) {
  Executor *e = calloc(1, sizeof *e);
  if (!e) return rt_error(error, RT_FAILED, "out of memory");
  e->artifact = a;
  e->p = &a->program;
  e->options = *options;
  e->stage = program_stage(e->p, options->rank);
  e->generation = 1;
  program_coordinates(e->p, options->rank, e->coordinates);
  RtStatus status = allocate_tables(e) ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
  if (!status) status = open_libraries(e, error);
  if (!status) status = make_groups(e, error);
  if (!status) status = open_weights(e, error);
  if (!status) status = param_files_unchanged(options->files, RT_BAD_INPUT, error);
  if (!status) status = exec_open_convs(e, error);
  if (!status) status = run_prepare(e, error);
  if (status) {
    exec_close(e);
    return status;
  }
  *out = e;
  return RT_OK;
}

void exec_close(Executor *e) {
  if (!e) return;
  for (int i = 0; i < EXEC_BINDINGS; i++) exec_binding_free(e, e->bindings[i]);
  for (int s = 0; s < SPACE_COUNT; s++)
    if (e->spaces[s].data) munmap(e->spaces[s].data, e->spaces[s].bytes);
  weights_close(e->weights);
  /* The kernels' library stays: threads of its OpenMP run time may still be inside. */
  exec_close_convs(e);
  free(e->kernels);
  free(e->blocks);
  free(e->groups);
  free(e->mapped);
  free(e->capacity);
  free(e->state_values);
  free(e->tickets);
  free(e);
}

void exec_report(const Executor *e, RankReport *out) {
  *out = (RankReport){.mapped = e->mapped_bytes, .prepared = e->prepared, .load_ns = e->load_ns, .run_ns = e->run_ns};
  for (int s = 0; s < SPACE_COUNT; s++) out->allocated[s] = e->spaces[s].bytes;
  memcpy(out->class_bytes, e->class_bytes, sizeof out->class_bytes);
  for (int k = 0; e->options.comm && k < COMM_KIND_COUNT; k++) {
    CommCount c = comm_count(e->options.comm, (CommKind)k);
    out->sent[k] = c.bytes_sent;
    out->operations[k] = c.operations;
  }
}

void exec_step_text(const Program *p, uint32_t step, char *text, size_t size) {
  if (step >> 31) {
    uint32_t i = step & 0x7fffffff;
    snprintf(text, size, "loading weight '%s'", i < p->n_params ? program_text(p, p->params[i].name) : "?");
    return;
  }
  uint32_t instr = (step & 0xfffff) - 1, mb = step >> 20;
  if (instr >= p->n_instrs) {
    snprintf(text, size, "starting");
    return;
  }
  program_instr_text(p, instr, text, size);
  size_t n = strlen(text);
  if (p->micro_batches > 1) snprintf(text + n, size - n, " (micro-batch %u)", mb);
}
