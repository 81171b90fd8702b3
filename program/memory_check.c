/* program/memory_check.c - memory_check: an independent check of a memory plan.
 *
 * Shares only the records with the planner.  Walks the schedule of one entry and stage instruction by instruction and
 * keeps the live buffers of each space sorted by address.  A buffer that becomes live must not touch its neighbours; a
 * buffer that an instruction uses must be live; a buffer that ends must not be in use by pending communication (issued,
 * and not waited for yet).  Loops are walked twice: a buffer that ended in the first round must not be used in the
 * second, and one that began in it must have ended.  Buffers that pending communication reads are not written, and
 * those that it writes are not touched.  Whether every read finds the right value is checked first, by flow_check
 * (program/flow.h).
 */
#include <stdlib.h>
#include <string.h>

#include "program/flow.h"
#include "program/memory.h"
#include "program/traffic.h"
#include "program/values.h"

typedef struct Live {
  uint64_t begin, end;
  uint32_t buffer;
} Live;

/* Chains of buffers by the place where they begin or end. */
typedef struct Chains {
  uint32_t *head, *next; /* index + 1; 0 ends a chain */
} Chains;

typedef struct Pending {
  uint32_t event, micro_batch, instr;
} Pending;

typedef struct Walk {
  const Program *p;
  const MemoryPlan *plan;
  uint32_t entry, stage;
  Live *live[SPACE_COUNT];
  size_t n[SPACE_COUNT];
  bool *is_live;               /* per buffer */
  uint32_t round_begin;        /* while a repeat goes back: its first instruction in the body */
  Chains body_begin, body_end; /* by instruction */
  Chains call_begin, call_end; /* by call of this schedule */
  Pending *pending;
  size_t n_pending, cap_pending;
  RtError *error;
} Walk;

static const char *buffer_name(const Walk *w, uint32_t i) { return program_text(w->p, w->p->buffers[i].name); }

static RtStatus space_ok(const Walk *w, uint32_t i) {
  const ProgramBuffer *b = &w->p->buffers[i];
  uint64_t slot = w->plan->slot_bytes[i], at = w->plan->offsets[i];
  uint64_t space = w->plan->bytes[program_class_space(b->class_)];
  if (at % PROGRAM_ALIGN || slot % PROGRAM_ALIGN || slot > space / b->slots || at > space - slot * b->slots)
    return rt_error(w->error, RT_INTERNAL, "memory plan: buffer '%s' lies outside its space", buffer_name(w, i));
  return RT_OK;
}

static RtStatus begin(Walk *w, uint32_t i) {
  const ProgramBuffer *b = &w->p->buffers[i];
  ProgramSpace space = program_class_space(b->class_);
  if (w->is_live[i])
    return rt_error(w->error, RT_INTERNAL, "memory plan: buffer '%s' begins in a loop and does not end in it",
                    buffer_name(w, i));
  w->is_live[i] = true;
  RtStatus status = space_ok(w, i);
  Live fresh = {w->plan->offsets[i], w->plan->offsets[i] + w->plan->slot_bytes[i] * b->slots, i};
  if (status || fresh.begin == fresh.end) return status;
  Live *list = w->live[space];
  size_t k = w->n[space]++;
  for (; k > 0 && list[k - 1].begin > fresh.begin; k--) list[k] = list[k - 1];
  list[k] = fresh;
  uint32_t other = PROGRAM_NONE;
  if (k > 0 && list[k - 1].end > fresh.begin) other = list[k - 1].buffer;
  if (k + 1 < w->n[space] && list[k + 1].begin < fresh.end) other = list[k + 1].buffer;
  if (other == PROGRAM_NONE) return RT_OK;
  return rt_error(w->error, RT_INTERNAL, "memory plan: buffers '%s' and '%s' overlap while both are live",
                  buffer_name(w, i), buffer_name(w, other));
}

static bool instr_uses(const Walk *w, uint32_t instr, uint32_t buffer) {
  const ProgramInstr *x = &w->p->instrs[instr];
  for (uint32_t t = 0; t < x->tensors.n; t++)
    if (w->p->tensors[program_list(w->p, x->tensors)[t]].buffer == buffer) return true;
  return false;
}

static RtStatus finish(Walk *w, uint32_t i) {
  ProgramSpace space = program_class_space(w->p->buffers[i].class_);
  if (w->p->buffers[i].first < w->round_begin) return RT_OK; /* it is live in the next round, too */
  w->is_live[i] = false;
  Live *list = w->live[space];
  size_t k = 0;
  while (k < w->n[space] && list[k].buffer != i) k++;
  if (k < w->n[space]) { /* empty buffers are not in the list */
    memmove(list + k, list + k + 1, (w->n[space] - k - 1) * sizeof *list);
    w->n[space]--;
  }
  for (size_t q = 0; q < w->n_pending; q++)
    if (instr_uses(w, w->pending[q].instr, i))
      return rt_error(w->error, RT_INTERNAL,
                      "memory plan: buffer '%s' ends while the communication of '%s' still uses it", buffer_name(w, i),
                      program_text(w->p, w->p->instrs[w->pending[q].instr].where));
  return RT_OK;
}

static RtStatus each(Walk *w, const Chains *c, size_t at, RtStatus (*act)(Walk *, uint32_t)) {
  for (uint32_t i = c->head[at]; i; i = c->next[i - 1]) {
    RtStatus status = act(w, i - 1);
    if (status) return status;
  }
  return RT_OK;
}

static RtStatus issue(Walk *w, uint32_t event, uint32_t micro_batch, uint32_t instr) {
  if (w->n_pending == w->cap_pending) {
    w->cap_pending = 2 * w->cap_pending + 16;
    Pending *larger = realloc(w->pending, w->cap_pending * sizeof *larger);
    if (!larger) return rt_error(w->error, RT_FAILED, "out of memory");
    w->pending = larger;
  }
  w->pending[w->n_pending++] = (Pending){event, micro_batch, instr};
  return RT_OK;
}

static void wait_for(Walk *w, const ProgramInstr *x, uint32_t micro_batch) {
  size_t kept = 0;
  for (size_t q = 0; q < w->n_pending; q++)
    if (w->pending[q].event != x->event || w->pending[q].micro_batch + x->lag != micro_batch)
      w->pending[kept++] = w->pending[q];
  w->n_pending = kept;
}

/* True if pending communication needs the slot of the buffer unchanged.  `writes`: the access writes it, else it
 * reads. */
static bool in_use(const Walk *w, const Pending *q, uint32_t buffer, uint32_t micro_batch, bool writes) {
  const ProgramInstr *x = &w->p->instrs[q->instr];
  uint32_t slots = w->p->buffers[buffer].slots;
  if (q->micro_batch % slots != micro_batch % slots) return false;
  for (uint32_t t = 0; t < x->tensors.n; t++)
    if (w->p->tensors[program_list(w->p, x->tensors)[t]].buffer == buffer && (writes || program_instr_writes(x, t)))
      return true;
  return false;
}

static RtStatus not_in_use(const Walk *w, uint32_t instr, uint32_t t, uint32_t micro_batch) {
  const Program *p = w->p;
  const ProgramInstr *x = &p->instrs[instr];
  uint32_t buffer = p->tensors[program_list(p, x->tensors)[t]].buffer;
  for (size_t q = 0; q < w->n_pending; q++)
    if (in_use(w, &w->pending[q], buffer, micro_batch, program_instr_writes(x, t)))
      return rt_error(w->error, RT_INTERNAL,
                      "memory plan: '%s' uses buffer '%s' in micro-batch %u while the communication of '%s' does",
                      program_text(p, x->where), buffer_name(w, buffer), micro_batch,
                      program_text(p, p->instrs[w->pending[q].instr].where));
  return RT_OK;
}

static RtStatus visit(Walk *w, uint32_t instr, uint32_t micro_batch) {
  const Program *p = w->p;
  const ProgramInstr *x = &p->instrs[instr];
  for (uint32_t t = 0; t < x->tensors.n; t++) {
    uint32_t i = p->tensors[program_list(p, x->tensors)[t]].buffer;
    if (p->buffers[i].entry != PROGRAM_NONE && !w->is_live[i])
      return rt_error(w->error, RT_INTERNAL, "memory plan: '%s' uses buffer '%s' outside its lifetime",
                      program_text(p, x->where), buffer_name(w, i));
    RtStatus status = not_in_use(w, instr, t, micro_batch);
    if (status) return status;
  }
  if (x->kind == PI_wait) wait_for(w, x, micro_batch);
  if (program_instr_is_comm(x->kind) && x->event != PROGRAM_NONE) return issue(w, x->event, micro_batch, instr);
  return RT_OK;
}

static RtStatus walk(Walk *w) {
  const Program *p = w->p;
  const ProgramSchedule *s = &p->schedules[w->entry * p->stages + w->stage];
  RtStatus status = RT_OK;
  for (uint32_t k = 0; !status && k < s->n; k++) {
    const ProgramCall *call = &p->calls[s->calls + k];
    const ProgramBody *b = &p->bodies[call->body];
    status = each(w, &w->call_begin, k, begin);
    for (uint32_t i = b->instrs, again = PROGRAM_NONE; !status && i < b->instrs + b->n;) {
      status = each(w, &w->body_begin, i, begin);
      if (!status) status = visit(w, i, call->micro_batch);
      uint32_t next = program_next(p, i, &again);
      w->round_begin = next <= i ? next - b->instrs : 0;
      if (!status) status = each(w, &w->body_end, i, finish);
      i = next;
    }
    w->round_begin = 0;
    if (!status && k + 1 < s->n) status = each(w, &w->call_end, k, finish);
  }
  return status;
}

static bool chains_new(Chains *c, size_t places, size_t buffers) {
  c->head = calloc(places + 1, sizeof *c->head);
  c->next = calloc(buffers + 1, sizeof *c->next);
  return c->head && c->next;
}

static void chain(Chains *c, size_t at, uint32_t buffer) {
  c->next[buffer] = c->head[at];
  c->head[at] = buffer + 1;
}

static bool prepare(Walk *w) {
  const Program *p = w->p;
  uint32_t calls = p->schedules[w->entry * p->stages + w->stage].n;
  w->is_live = calloc(p->n_buffers + 1u, sizeof *w->is_live);
  bool ok = w->is_live && chains_new(&w->body_begin, p->n_instrs, p->n_buffers) &&
            chains_new(&w->body_end, p->n_instrs, p->n_buffers) && chains_new(&w->call_begin, calls, p->n_buffers) &&
            chains_new(&w->call_end, calls, p->n_buffers);
  for (int s = 0; ok && s < SPACE_COUNT; s++) ok = (w->live[s] = calloc(p->n_buffers + 1u, sizeof(Live))) != NULL;
  for (uint32_t i = 0; ok && i < p->n_buffers; i++) {
    const ProgramBuffer *b = &p->buffers[i];
    if (b->entry != w->entry || b->stage != w->stage) continue;
    uint32_t at = b->body == PROGRAM_NONE ? 0 : p->bodies[b->body].instrs;
    chain(b->body == PROGRAM_NONE ? &w->call_begin : &w->body_begin, at + b->first, i);
    chain(b->body == PROGRAM_NONE ? &w->call_end : &w->body_end, at + b->last, i);
  }
  return ok;
}

static void dispose(Walk *w) {
  Chains *const all[] = {&w->body_begin, &w->body_end, &w->call_begin, &w->call_end};
  for (int i = 0; i < 4; i++) {
    free(all[i]->head);
    free(all[i]->next);
  }
  for (int s = 0; s < SPACE_COUNT; s++) free(w->live[s]);
  free(w->is_live);
  free(w->pending);
}

RtStatus memory_check(const Program *p, uint32_t entry, uint32_t stage, const MemoryPlan *plan, RtError *error) {
  Walk w = {.p = p, .plan = plan, .entry = entry, .stage = stage, .error = error};
  RtStatus status = flow_check(p, entry, stage, error);
  if (status) return status;
  status = prepare(&w) ? walk(&w) : rt_error(error, RT_FAILED, "out of memory");
  dispose(&w);
  return status;
}

/* ---- tensors inside their buffers */

static bool fits(const Program *p, const ProgramValues *v, uint32_t rank, const ProgramTensor *t, uint64_t room) {
  int64_t bytes = (int64_t)dtype_bytes((DType)t->dtype), offset = program_value_of(v, rank, t->offset), one = bytes;
  bool empty = false;
  for (uint32_t d = 0; d < t->extents.n; d++) {
    int64_t extent = program_value_of(v, rank, program_list(p, t->extents)[d]);
    if (extent < 0 || __builtin_mul_overflow(bytes, extent > 1 ? extent : 1, &bytes)) return false;
    empty |= extent == 0;
  }
  if (empty) bytes = 0;
  return offset >= 0 && offset % one == 0 && (uint64_t)offset <= room && (uint64_t)bytes <= room - (uint64_t)offset;
}

/* Checks all ranks of the stage, in one micro-batch. */
static RtStatus tensors_fit(const Program *p, uint32_t entry, uint32_t stage, const MemoryPlan *plan,
                            const ProgramValues *v, RtError *error) {
  for (uint32_t i = 0; i < p->n_tensors; i++) {
    const ProgramTensor *t = &p->tensors[i];
    const ProgramBuffer *b = &p->buffers[t->buffer];
    bool alike = v->column[t->offset] == PROGRAM_NONE;
    for (uint32_t d = 0; d < t->extents.n; d++) alike &= v->column[program_list(p, t->extents)[d]] == PROGRAM_NONE;
    for (uint32_t r = 0; b->stage == stage && b->entry == entry && r < (alike ? 1 : p->ranks_per_stage); r++)
      if (!fits(p, v, stage * p->ranks_per_stage + r, t, plan->slot_bytes[t->buffer]))
        return rt_error(error, RT_INTERNAL, "memory plan: a tensor does not fit into buffer '%s' on rank %u",
                        program_text(p, b->name), stage * p->ranks_per_stage + r);
  }
  return RT_OK;
}

static RtStatus check_plan(const Program *p, uint32_t entry, uint32_t stage, const int64_t *symbols, RtError *error) {
  MemoryPlan plan;
  ProgramValues v;
  RtStatus status = memory_plan(p, entry, stage, symbols, &plan, error);
  if (status) return status;
  status = memory_check(p, entry, stage, &plan, error);
  if (!status) {
    status = program_values_open(p, &v, error);
    for (uint32_t mb = 0; mb < (p->uses & PROGRAM_USES_MICRO_BATCH ? p->micro_batches : 1) && !status; mb++) {
      status = program_values_bind(&v, symbols, mb, error);
      if (!status) status = tensors_fit(p, entry, stage, &plan, &v, error);
    }
    program_values_close(&v);
  }
  memory_plan_free(&plan);
  return status;
}

RtStatus memory_check_all(const Program *p, RtError *error) {
  int64_t symbols[PROGRAM_MAX_SYMBOLS + 1];
  program_default_sizes(p, symbols);
  RtStatus status = RT_OK;
  if (!traffic_has_sizes(p, symbols)) return RT_OK;
  for (uint32_t i = 0; i < p->n_entries * p->stages && !status; i++)
    status = check_plan(p, i / p->stages, i % p->stages, symbols, error);
  return status;
}
