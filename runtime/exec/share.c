/* runtime/exec/share.c - see share.h. */
#define _GNU_SOURCE /* memfd_create, MADV_POPULATE_WRITE */
#include "runtime/exec/share.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "runtime/exec/internal.h"

enum {
  SHARE_LEAST = 256 << 10, /* bytes; smaller ranges are not worth a mapping */
  FLAG_BYTES = 256 << 10   /* a buffer has one flag per so many bytes, and one more */
};

static uint64_t page_size(void) { return (uint64_t)sysconf(_SC_PAGESIZE); }

/* ---- equal bytes */

static bool equal_interval(const Program *p, const ProgramParam *t, const int64_t *a, const int64_t *b) {
  bool equal = true;
  for (uint32_t i = 0; i < t->interval.n; i++) {
    uint32_t x = program_list(p, t->interval)[i];
    equal &= a[x] == b[x];
  }
  return equal;
}

/* Per weight: true if all ranks take the same part of it. */
static bool same_parts(const Program *p, uint32_t stage, bool *same) {
  int64_t *first = malloc(sizeof *first * (p->n_exprs + 1u)), *values = malloc(sizeof *values * (p->n_exprs + 1u)),
          c[PROGRAM_MAX_AXES];
  RtError error = {0};
  bool ok = first && values;
  for (uint32_t i = 0; i < p->n_params; i++) same[i] = p->params[i].stage == stage;
  for (uint32_t r = 0; ok && r < p->ranks_per_stage; r++) {
    program_coordinates(p, stage * p->ranks_per_stage + r, c);
    ok = program_eval(p, NULL, c, r ? values : first, &error) == RT_OK;
    for (uint32_t i = 0; ok && r && i < p->n_params; i++)
      same[i] = same[i] && equal_interval(p, &p->params[i], first, values);
  }
  free(first);
  free(values);
  return ok;
}

static uint32_t buffer_of(const Program *p, const ProgramInstr *x, uint32_t operand) {
  return p->tensors[program_list(p, x->tensors)[operand]].buffer;
}

/* True for a weight that is loaded for the pack after it. */
static bool is_packed(const ProgramInstr *x) { return x->kind == PI_load && x->dim; }

/* Notes buffers that a body of @prepare fills by packing a part that is the same on all ranks. */
static void note_packs(const Program *p, const ProgramBody *body, const bool *same, bool *alike) {
  for (uint32_t k = body->instrs; k < body->instrs + body->n; k++) {
    const ProgramInstr *x = &p->instrs[k];
    if (is_packed(x) && same[x->object]) alike[buffer_of(p, x + 1, 1)] = true;
  }
}

/* Excludes buffers with other uses, which make them this rank's own. */
static void note_others(const Program *p, const ProgramBody *body, bool *alike) {
  bool prepare = p->entries[body->entry].prepare;
  for (uint32_t k = body->instrs; k < body->instrs + body->n; k++) {
    const ProgramInstr *x = &p->instrs[k];
    if (is_packed(x)) k++;
    else if (x->kind == PI_conv || prepare)
      for (uint32_t t = 0; t < x->tensors.n; t++) alike[buffer_of(p, x, t)] = false;
  }
}

/* Per buffer: true if all ranks of the stage hold the same bytes in it, and write them once.  False: out of memory. */
static bool find_alike(const Program *p, uint32_t stage, bool *alike) {
  bool *same = malloc(p->n_params + 1u);
  bool ok = same && same_parts(p, stage, same);
  memset(alike, 0, sizeof *alike * p->n_buffers);
  for (uint32_t i = 0; ok && i < p->n_params; i++)
    if (same[i] && p->params[i].buffer != PROGRAM_NONE && p->params[i].init != PINIT_prepared &&
        !program_param_changes(&p->params[i]))
      alike[p->params[i].buffer] = true;
  for (uint32_t i = 0; ok && i < p->n_bodies; i++)
    if (p->bodies[i].stage == stage && p->entries[p->bodies[i].entry].prepare)
      note_packs(p, &p->bodies[i], same, alike);
  for (uint32_t i = 0; ok && i < p->n_bodies; i++)
    if (p->bodies[i].stage == stage) note_others(p, &p->bodies[i], alike);
  free(same);
  return ok;
}

/* ---- the file */

static uint64_t whole_pages(uint64_t bytes) { return (bytes + page_size() - 1) / page_size() * page_size(); }

static uint64_t flags_of(const MemoryPlan *plan, uint32_t buffer) { return plan->slot_bytes[buffer] / FLAG_BYTES + 1; }

/* Returns the flags of all weights of the plan. */
static uint64_t count_flags(const Program *p, const MemoryPlan *plan, uint32_t stage) {
  uint64_t n = 0;
  for (uint32_t b = 0; b < p->n_buffers; b++)
    if (p->buffers[b].class_ == PC_param && p->buffers[b].stage == stage) n += flags_of(plan, b);
  return n;
}

/* The weights, then the flags. */
static RtStatus stage_bytes(const Program *p, uint32_t stage, uint64_t *bytes, RtError *error) {
  MemoryPlan plan;
  RtStatus status = memory_plan(p, PROGRAM_NONE, stage, NULL, &plan, error);
  if (status) return status;
  *bytes = whole_pages(plan.bytes[SPACE_PARAM]) + whole_pages(count_flags(p, &plan, stage));
  memory_plan_free(&plan);
  return RT_OK;
}

/* Returns where the weights of a stage begin in the file. */
static RtStatus stage_offset(const Program *p, uint32_t stage, uint64_t *offset, RtError *error) {
  RtStatus status = RT_OK;
  *offset = 0;
  for (uint32_t s = 0; s < stage && !status; s++) {
    uint64_t bytes = 0;
    status = stage_bytes(p, s, &bytes, error);
    *offset += bytes;
  }
  return status;
}

/* Beyond a limit on the size of files the system would send a signal. */
static bool enlarge(int fd, uint64_t bytes) {
  struct rlimit limit;
  if (bytes > (uint64_t)LLONG_MAX || (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur)) return false;
  return ftruncate(fd, (off_t)bytes) == 0 && fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK) == 0;
}

int exec_share_create(const Program *p) {
  uint64_t bytes = 0;
  RtError error = {0};
  if (p->ranks_per_stage < 2 || stage_offset(p, p->stages, &bytes, &error) || !bytes) return -1;
  int made = memfd_create("apc-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  int fd = made < 0 ? -1 : fcntl(made, F_DUPFD_CLOEXEC, 3); /* the ranks get standard descriptors */
  if (made >= 0) close(made);
  if (fd < 0 || enlarge(fd, bytes)) return fd;
  close(fd);
  return -1;
}

/* ---- mapping the file */

/* Shared buffers in the memory of a stage's weights. */
typedef struct Shares {
  const Program *p;
  uint32_t stage;
  const MemoryPlan *plan;
  bool *alike; /* per buffer */
} Shares;

static bool is_alike(const Shares *s, uint32_t b) {
  return s->alike[b] && s->p->buffers[b].stage == s->stage && s->plan->offsets[b] != MEMORY_IN_PLACE;
}

/* Finds the next whole pages [*begin, *end) of that memory that are shared, of contiguous buffers from *b on, which
 * advances.  False if there are no more. */
static bool next_range(const Shares *s, uint32_t *b, uint64_t *begin, uint64_t *end) {
  while (*b < s->p->n_buffers) {
    if (!is_alike(s, *b)) {
      ++*b;
      continue;
    }
    uint64_t first = s->plan->offsets[*b], last = first;
    for (; *b < s->p->n_buffers && (!is_alike(s, *b) || s->plan->offsets[*b] == last); ++*b)
      if (is_alike(s, *b)) last += s->plan->slot_bytes[*b] * s->p->buffers[*b].slots;
    *begin = whole_pages(first), *end = last / page_size() * page_size();
    if (*end >= *begin + SHARE_LEAST) return true;
  }
  return false;
}

RtStatus exec_share_bytes(const Program *p, uint32_t stage, const MemoryPlan *plan, uint64_t *bytes, RtError *error) {
  uint64_t begin, end;
  uint32_t b = 0;
  *bytes = 0;
  if (p->ranks_per_stage < 2) return RT_OK;
  Shares s = {p, stage, plan, malloc(p->n_buffers + 1u)};
  bool ok = s.alike && find_alike(p, stage, s.alike);
  while (ok && next_range(&s, &b, &begin, &end)) *bytes += end - begin;
  free(s.alike);
  return ok ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
}

/* Allocates this rank's share of the pages at once, which is faster than one by one on the first write.  Old systems
 * lack the call. */
static void take_pages(const Executor *e, char *at, uint64_t bytes) {
#ifdef MADV_POPULATE_WRITE
  enum { PIECE = 64 << 20 }; /* bytes between signs of life */
  uint64_t n = bytes / page_size(), ranks = e->p->ranks_per_stage, place = e->options.rank % ranks;
  uint64_t from = place * n / ranks * page_size(), to = (place + 1) * n / ranks * page_size();
  for (; from < to; from += PIECE) {
    madvise(at + from, to - from < PIECE ? to - from : PIECE, MADV_POPULATE_WRITE);
    if (exec_beats(e)) atomic_fetch_add(exec_beats(e), 1);
  }
#else
  (void)e, (void)at, (void)bytes;
#endif
}

/* Buffers that lie completely in [begin, end) get their flags; other buffers have bytes in pages of this rank alone. */
static RtStatus share_range(Executor *e, const Shares *s, uint64_t begin, uint64_t end, uint64_t offset,
                            RtError *error) {
  uint64_t flag = 0;
  for (uint32_t b = 0; b < e->p->n_buffers; b++) {
    if (e->p->buffers[b].class_ != PC_param || e->p->buffers[b].stage != e->stage) continue;
    uint64_t at = s->plan->offsets[b];
    if (is_alike(s, b) && at >= begin && at + s->plan->slot_bytes[b] <= end)
      e->shared.flag[b] = flag, e->shared.n_flags[b] = (uint32_t)flags_of(s->plan, b);
    flag += flags_of(s->plan, b);
  }
  char *at = e->spaces[SPACE_PARAM].data + begin;
  RtStatus status = e->ops->share(e->device, at, end - begin, e->options.shared, offset + begin, error);
  if (!status) take_pages(e, at, end - begin);
  return status;
}

static RtStatus share_ranges(Executor *e, const Shares *s, uint64_t offset, RtError *error) {
  uint64_t begin, end;
  uint32_t b = 0;
  RtStatus status = RT_OK;
  while (!status && next_range(s, &b, &begin, &end)) status = share_range(e, s, begin, end, offset, error);
  return status;
}

static RtStatus map_flags(Executor *e, const MemoryPlan *plan, uint64_t offset, RtError *error) {
  uint64_t bytes = whole_pages(count_flags(e->p, plan, e->stage));
  off_t at = (off_t)(offset + whole_pages(plan->bytes[SPACE_PARAM]));
  void *map = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, e->options.shared, at);
  if (map == MAP_FAILED) return rt_error(error, RT_FAILED, "%s", strerror(errno));
  e->shared.written = map;
  e->shared.bytes = bytes;
  return RT_OK;
}

RtStatus exec_share(Executor *e, const MemoryPlan *plan, RtError *error) {
  if (e->options.shared <= 0 || !e->host_memory || !e->ops->share || !e->spaces[SPACE_PARAM].data) return RT_OK;
  uint64_t offset;
  RtStatus status = stage_offset(e->p, e->stage, &offset, error);
  if (status) return status;
  Shares s = {e->p, e->stage, plan, malloc(e->p->n_buffers + 1u)};
  e->shared.flag = calloc(e->p->n_buffers + 1u, sizeof *e->shared.flag);
  e->shared.n_flags = calloc(e->p->n_buffers + 1u, sizeof *e->shared.n_flags);
  RtError inner = {0};
  if (!s.alike || !e->shared.flag || !e->shared.n_flags || !find_alike(e->p, e->stage, s.alike))
    status = rt_error(error, RT_FAILED, "out of memory");
  else if (map_flags(e, plan, offset, &inner) || share_ranges(e, &s, offset, &inner))
    status = rt_error(error, inner.status, "rank %u cannot map the memory that ranks share: %s", e->options.rank,
                      inner.text);
  free(s.alike);
  return status;
}

void exec_share_close(Executor *e) {
  if (e->shared.written) munmap((void *)e->shared.written, e->shared.bytes);
  free(e->shared.flag);
  free(e->shared.n_flags);
}

/* ---- pieces */

static _Atomic unsigned char *flag_at(const Executor *e, uint32_t buffer, uint64_t piece) {
  bool has = e->shared.written && buffer != PROGRAM_NONE && piece < e->shared.n_flags[buffer];
  return has ? &e->shared.written[e->shared.flag[buffer] + piece] : NULL;
}

bool exec_shared_has(const Executor *e, uint32_t buffer, uint64_t piece) {
  const _Atomic unsigned char *flag = flag_at(e, buffer, piece);
  return flag && atomic_load_explicit(flag, memory_order_acquire);
}

void exec_shared_wrote(const Executor *e, uint32_t buffer, uint64_t piece) {
  _Atomic unsigned char *flag = flag_at(e, buffer, piece);
  if (flag) atomic_store_explicit(flag, 1, memory_order_release);
}

uint64_t exec_shared_first(const Executor *e, uint64_t n) {
  return e->shared.written ? e->options.rank % e->p->ranks_per_stage * n / e->p->ranks_per_stage : 0;
}
