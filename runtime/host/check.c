/* runtime/host/check.c - the checks of a request before the ranks see it: sizes that the model supports, indices inside
 * their tables, values that the program was compiled for, and sizes for which this machine has the memory. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/machine.h"
#include "runtime/exec/share.h"
#include "runtime/host/host.h"

/* ---- indices */

typedef struct Range {
  int64_t low, high;        /* allowed are low ... high - 1 */
  const int64_t *elsewhere; /* this value is allowed as well; NULL: none */
} Range;

/* Returns the number of the first element outside the range; -1 if there is none. */
static int64_t first_outside(const Tensor *t, Range r) {
  int64_t n = tensor_elements(t);
  size_t step = dtype_bytes(t->dtype);
  for (int64_t i = 0; i < n; i++) {
    const char *element = (const char *)t->data + (size_t)i * step;
    int64_t v = dtype_load_i(t->dtype, element);
    bool huge = t->dtype == DT_u64 && v < 0;
    if (!huge && v >= r.low && v < r.high) continue;
    if (!huge && r.elsewhere && v == *r.elsewhere) continue;
    return i;
  }
  return -1;
}

static RtStatus check_port(ApcModel *m, uint32_t port, const Tensor *t) {
  const Program *p = &m->artifact.program;
  const ProgramPort *r = &p->ports[port];
  bool ignores = r->index_ignored != PROGRAM_NONE;
  int64_t rows, ignored = 0;
  int64_t index[TENSOR_MAX_RANK];
  char value[32], position[200], or [64] = "";
  RtStatus status = program_value(p, r->index_below, m->symbols, &rows, &m->error);
  if (!status && ignores) status = program_value(p, r->index_ignored, m->symbols, &ignored, &m->error);
  if (status) return status;
  int64_t low = r->index_negative ? -rows : 0, at = first_outside(t, (Range){low, rows, ignores ? &ignored : NULL});
  if (at < 0) return RT_OK;
  if (ignores) snprintf(or, sizeof or, ", or %" PRId64 ", which is ignored", ignored);
  tensor_element_text(t, at, value, sizeof value);
  tensor_index(t->rank, t->dims, at, index);
  tensor_index_text(t->rank, index, position, sizeof position);
  if (rows < 1)
    return rt_error(&m->error, RT_BAD_INPUT,
                    "input '%s' is an index, but no index is valid for these sizes: a table is empty, or a state "
                    "is too small for the values written to it",
                    program_text(p, r->name));
  return rt_error(&m->error, RT_BAD_INPUT,
                  "input '%s': element%s%s is %s; as an index it must be %" PRId64 " to %" PRId64 "%s",
                  program_text(p, r->name), t->rank ? " " : "", position, value, low, rows - 1, or);
}

/* ---- values that were bound when the program was compiled */

static RtStatus check_fixed(ApcModel *m, uint32_t port, const Tensor *t) {
  const Program *p = &m->artifact.program;
  const ProgramPort *r = &p->ports[port];
  const char *want = (const char *)program_list(p, r->fixed), *have = t->data;
  const Tensor all = tensor_view(t->dtype, t->rank, t->dims, want);
  size_t step = dtype_bytes(t->dtype);
  int64_t n = tensor_elements(t), index[TENSOR_MAX_RANK], at = 0;
  char value[32], fixed[32], position[200];
  while (at < n && memcmp(have + (size_t)at * step, want + (size_t)at * step, step) == 0) at++;
  if (at == n) return RT_OK;
  tensor_index(t->rank, t->dims, at, index);
  tensor_index_text(t->rank, index, position, sizeof position);
  tensor_element_text(t, at, value, sizeof value);
  tensor_element_text(&all, at, fixed, sizeof fixed);
  return rt_error(&m->error, RT_BAD_INPUT,
                  "input '%s': element%s%s is %s, but the program was compiled for the value %s (--const)",
                  program_text(p, r->name), t->rank ? " " : "", position, value, fixed);
}

RtStatus host_check_values(ApcModel *m, uint32_t entry) {
  const Program *p = &m->artifact.program;
  const ProgramEntry *e = &p->entries[entry];
  RtStatus status = RT_OK;
  for (uint32_t i = e->inputs; i < e->inputs + e->n_inputs && !status; i++) {
    const Bound *b = host_bound(m, program_text(p, p->ports[i].name));
    const Tensor *t = b ? host_values(b) : NULL;
    if (!t) continue; /* apc makes random inputs and zeros as the port allows */
    if (p->ports[i].index_below != PROGRAM_NONE) status = check_port(m, i, t);
    if (!status && p->ports[i].fixed.n) status = check_fixed(m, i, t);
  }
  return status;
}

/* ---- sizes: the checks in the entry's bodies, outside of loops, that depend neither on a rank's place nor on
 * computed sizes, before the ranks reach them */

static RtStatus check_size(ApcModel *m, const ProgramInstr *x) {
  const Program *p = &m->artifact.program;
  const uint32_t *exprs = program_list(p, x->exprs);
  int64_t v[3];
  for (int i = 0; i < 3; i++) {
    if (p->expr_uses[exprs[i]] & (PROGRAM_USES_PLACE | PROGRAM_USES_MICRO_BATCH | PROGRAM_USES_COMPUTED)) return RT_OK;
    RtStatus status = program_value(p, exprs[i], m->symbols, &v[i], &m->error);
    if (status) return status;
  }
  if (v[1] <= v[0] && v[0] <= v[2]) return RT_OK;
  return rt_error(&m->error, RT_BAD_INPUT, "with these sizes %s: %" PRId64 " is not in %" PRId64 " to %" PRId64,
                  program_text(p, x->object), v[0], v[1], v[2]);
}

RtStatus host_check_sizes(ApcModel *m, uint32_t entry) {
  const Program *p = &m->artifact.program;
  RtStatus status = RT_OK;
  for (uint32_t b = 0; b < p->n_bodies; b++) {
    const ProgramBody *body = &p->bodies[b];
    if (body->entry != entry && !p->entries[body->entry].prepare) continue;
    for (uint32_t i = body->instrs, depth = 0; i < body->instrs + body->n && !status; i++) {
      depth += p->instrs[i].kind == PI_loop;
      depth -= p->instrs[i].kind == PI_repeat;
      if (p->instrs[i].kind == PI_check && depth == 0) status = check_size(m, &p->instrs[i]);
    }
  }
  return status;
}

/* ---- memory */

static bool add_up(uint64_t *sum, uint64_t n, uint64_t times) {
  return !__builtin_mul_overflow(n, times, &n) && !__builtin_add_overflow(*sum, n, sum);
}

/* Computes the bytes that a rank of the stage allocates, UINT64_MAX on overflow.  *shared of them exist once for all
 * ranks of the stage, if a host starts the ranks. */
static RtStatus stage_bytes(ApcModel *m, uint32_t entry, uint32_t stage, uint64_t *bytes, uint64_t *shared) {
  const Program *p = &m->artifact.program;
  MemoryPlan plan;
  RtStatus status = memory_plan(p, entry, stage, m->symbols, &plan, &m->error);
  *bytes = *shared = 0;
  if (status) return status;
  for (int k = 0; k < SPACE_COUNT; k++)
    if (!add_up(bytes, plan.bytes[k], 1)) *bytes = UINT64_MAX, k = SPACE_COUNT;
  if (!m->launched) status = exec_share_bytes(p, stage, &plan, shared, &m->error);
  memory_plan_free(&plan);
  return status;
}

/* Adds up the bytes of the `here` ranks on this machine, rank 0 among them.  A launcher only reports how many the
 * others are, so they count as the smallest ranks. */
static RtStatus rank_bytes(ApcModel *m, uint32_t entry, uint32_t here, uint64_t *sum) {
  const Program *p = &m->artifact.program;
  uint64_t least = UINT64_MAX, bytes, shared;
  bool all = here == p->ranks, fits = true;
  *sum = 0;
  for (uint32_t s = 0; s < p->stages; s++) {
    RtStatus status = stage_bytes(m, entry, s, &bytes, &shared);
    if (status) return status;
    if (bytes < least) least = bytes;
    if (all) fits = fits && add_up(sum, shared, 1) && add_up(sum, bytes - shared, p->ranks_per_stage);
    else if (s == program_stage(p, 0)) *sum = bytes;
  }
  if (!all) fits = add_up(sum, least, here - 1);
  if (!fits) *sum = UINT64_MAX;
  return RT_OK;
}

RtStatus host_check_memory(ApcModel *m, uint32_t entry, uint64_t io_bytes) {
  uint32_t all = m->artifact.program.ranks, here = m->launched ? (uint32_t)launched_here(m->launched) : all;
  uint64_t ranks, have = machine_memory();
  char which[64] = "";
  RtStatus status = rank_bytes(m, entry, here, &ranks);
  if (status || (io_bytes <= have && ranks <= have - io_bytes)) return status;
  if (here < all) snprintf(which, sizeof which, " (of %u)", all);
  return rt_error(&m->error, RT_BAD_INPUT,
                  "these sizes need %" PRIu64 " bytes for inputs and outputs and %" PRIu64
                  " for %u rank%s%s; this machine has %" PRIu64,
                  io_bytes, ranks, here, here == 1 ? "" : "s", which, have);
}
