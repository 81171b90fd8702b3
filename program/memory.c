/* program/memory.c - see memory.h. */
#include "program/memory.h"

#include <stdlib.h>
#include <string.h>

/* Sums of sizes below this do not overflow, and no machine has as much memory. */
#define MAX_BYTES ((int64_t)1 << 48)

typedef struct Planner {
  const Program *p;
  uint32_t entry, stage;
  const int64_t *symbols;
  MemoryPlan *plan;
  RtError *error;
} Planner;

static uint64_t align_up(uint64_t n) { return (n + PROGRAM_ALIGN - 1) / PROGRAM_ALIGN * PROGRAM_ALIGN; }

static bool persistent(const ProgramBuffer *b) { return b->entry == PROGRAM_NONE; }

/* True if the plan of (entry, stage) holds this buffer. */
static bool planned(const Planner *q, const ProgramBuffer *b) {
  return b->stage == q->stage && (persistent(b) || b->entry == q->entry);
}

/* ---- sizes: the largest over the ranks of the stage and the micro-batches */

/* Buffers of the plan, and those of them whose size differs between ranks or micro-batches. */
typedef struct Sized {
  uint32_t *items, *varying;
  uint32_t n, nvarying;
} Sized;

static bool sized_of(const Planner *q, Sized *s) {
  const Program *p = q->p;
  s->items = calloc(2 * (size_t)p->n_buffers + 1, sizeof *s->items);
  if (!s->items) return false;
  s->varying = s->items + p->n_buffers;
  for (uint32_t i = 0; i < p->n_buffers; i++) {
    const ProgramBuffer *b = &p->buffers[i];
    uint8_t uses = p->expr_uses[b->bytes];
    if (!planned(q, b) || (!q->symbols && (uses & PROGRAM_USES_SYMBOL))) continue;
    s->items[s->n++] = i;
    if (uses & (PROGRAM_USES_PLACE | PROGRAM_USES_MICRO_BATCH)) s->varying[s->nvarying++] = i;
  }
  return true;
}

static RtStatus raise_sizes(const Planner *q, uint32_t n, const uint32_t *items, const int64_t *values) {
  const Program *p = q->p;
  for (uint32_t k = 0; k < n; k++) {
    uint32_t i = items[k];
    const ProgramBuffer *b = &p->buffers[i];
    int64_t bytes = values[b->bytes];
    if (bytes < 0 || bytes > MAX_BYTES / b->slots)
      return rt_error(q->error, RT_BAD_INPUT, "buffer '%s' would have %lld bytes", program_text(p, b->name),
                      (long long)bytes);
    uint64_t slot = align_up((uint64_t)bytes);
    if (slot > q->plan->slot_bytes[i]) q->plan->slot_bytes[i] = slot;
  }
  return RT_OK;
}

/* Measures the buffers on one rank.  The largest micro-batch is only found by evaluating all of them, but in most
 * programs no size depends on the micro-batch. */
static RtStatus measure_rank(const Planner *q, const Sized *s, bool first, int64_t *c, int64_t *values) {
  const Program *p = q->p;
  RtStatus status = first ? raise_sizes(q, s->n, s->items, values) : raise_sizes(q, s->nvarying, s->varying, values);
  if (!(p->uses & PROGRAM_USES_MICRO_BATCH)) return status;
  for (uint32_t mb = 1; !status && mb < p->micro_batches; mb++) {
    c[p->mb_axis] = mb;
    status = program_eval_again(p, PROGRAM_USES_MICRO_BATCH, q->symbols, c, values, q->error);
    if (!status) status = raise_sizes(q, s->nvarying, s->varying, values);
  }
  return status;
}

static RtStatus measure(const Planner *q, int64_t *values) {
  const Program *p = q->p;
  Sized s = {0};
  RtStatus status = sized_of(q, &s) ? RT_OK : rt_error(q->error, RT_FAILED, "out of memory");
  for (uint32_t r = 0; !status && r < p->ranks_per_stage; r++) {
    int64_t c[PROGRAM_MAX_AXES];
    program_coordinates(p, q->stage * p->ranks_per_stage + r, c);
    if (p->uses & PROGRAM_USES_COMPUTED) status = program_eval_most(p, q->symbols, c, values, q->error);
    else
      status = r == 0 ? program_eval(p, q->symbols, c, values, q->error)
                      : program_eval_again(p, PROGRAM_USES_PLACE | PROGRAM_USES_MICRO_BATCH, q->symbols, c, values,
                                           q->error);
    if (!status) status = measure_rank(q, &s, r == 0, c, values);
  }
  free(s.items);
  return status;
}

/* ---- weights in place */

/* True if the part [lo, hi) of one rank is one run of elements in the file. */
static bool part_contiguous(const Program *p, const ProgramParam *w, const int64_t *values) {
  const uint32_t *strides = program_list(p, w->strides), *interval = program_list(p, w->interval);
  int64_t run = 1, first = 0;
  bool empty = false, ok = true;
  for (uint32_t d = w->dims.n; d-- > 0;) {
    int64_t lo = values[interval[2 * d]], hi = values[interval[2 * d + 1]], stride = p->exprs[strides[d]].value, step;
    if (lo < 0 || hi < lo || __builtin_mul_overflow(lo, stride, &step) || __builtin_add_overflow(first, step, &first))
      return false;
    int64_t extent = hi - lo;
    empty |= extent == 0;
    ok &= extent == 1 || stride == run;
    if (__builtin_mul_overflow(run, extent > 1 ? extent : 1, &run)) return false;
  }
  return ok || empty;
}

/* Marks the weights used in place: marks[param]. */
static RtStatus in_place(const Planner *q, int64_t *values, bool *marks) {
  const Program *p = q->p;
  for (uint32_t i = 0; i < p->n_params; i++) {
    const ProgramParam *w = &p->params[i];
    marks[i] = w->stage == q->stage && w->init == PINIT_blob && w->source_dtype == w->dtype &&
               !program_param_changes(w) && w->buffer != PROGRAM_NONE && w->offset % dtype_bytes((DType)w->dtype) == 0;
  }
  for (uint32_t r = 0; r < p->ranks_per_stage; r++) {
    int64_t c[PROGRAM_MAX_AXES];
    program_coordinates(p, q->stage * p->ranks_per_stage + r, c);
    RtStatus status = program_eval(p, NULL, c, values, q->error);
    if (status) return status;
    for (uint32_t i = 0; i < p->n_params; i++)
      if (marks[i]) marks[i] = part_contiguous(p, &p->params[i], values);
  }
  return RT_OK;
}

static RtStatus place_persistent(const Planner *q, int64_t *values) {
  const Program *p = q->p;
  bool *marks = calloc(p->n_params + 1u, 1);
  RtStatus status = marks ? in_place(q, values, marks) : rt_error(q->error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; !status && i < p->n_params; i++)
    if (marks[i]) q->plan->offsets[p->params[i].buffer] = MEMORY_IN_PLACE;
  free(marks);
  for (uint32_t i = 0; !status && i < p->n_buffers; i++) {
    const ProgramBuffer *b = &p->buffers[i];
    if (!persistent(b) || b->stage != q->stage) continue;
    uint64_t *space = &q->plan->bytes[program_class_space(b->class_)];
    if (q->plan->offsets[i] == MEMORY_IN_PLACE) {
      q->plan->mapped_bytes += q->plan->slot_bytes[i];
      continue;
    }
    q->plan->offsets[i] = *space;
    *space += q->plan->slot_bytes[i] * b->slots;
  }
  return status;
}

/* ---- packing by lifetime */

/* The calls of each body, by number in ascending order, to answer "any in [a, b]?". */
typedef struct Occurrences {
  uint32_t *first; /* per body: index into calls; n_bodies + 1 */
  uint32_t *calls;
} Occurrences;

static bool occurrences_of(const Planner *q, Occurrences *o) {
  const Program *p = q->p;
  const ProgramSchedule *s = &p->schedules[q->entry * p->stages + q->stage];
  o->first = calloc(p->n_bodies + 2u, sizeof *o->first);
  o->calls = calloc(s->n + 1u, sizeof *o->calls);
  if (!o->first || !o->calls) return false;
  for (uint32_t k = 0; k < s->n; k++) o->first[p->calls[s->calls + k].body + 2]++;
  for (uint32_t b = 0; b < p->n_bodies; b++) o->first[b + 2] += o->first[b + 1];
  for (uint32_t k = 0; k < s->n; k++) o->calls[o->first[p->calls[s->calls + k].body + 1]++] = k;
  return true;
}

static bool occurs(const Occurrences *o, uint32_t body, uint32_t from, uint32_t to) {
  uint32_t lo = o->first[body], end = o->first[body + 1], hi = end;
  while (lo < hi) {
    uint32_t mid = lo + (hi - lo) / 2;
    if (o->calls[mid] < from) lo = mid + 1;
    else hi = mid;
  }
  return lo < end && o->calls[lo] <= to;
}

static bool meet(const ProgramBuffer *a, const ProgramBuffer *b) { return a->first <= b->last && b->first <= a->last; }

static bool live_together(const Occurrences *o, const ProgramBuffer *a, const ProgramBuffer *b) {
  if (a->body == PROGRAM_NONE && b->body == PROGRAM_NONE) return meet(a, b);
  if (a->body == PROGRAM_NONE) return occurs(o, b->body, a->first, a->last);
  if (b->body == PROGRAM_NONE) return occurs(o, a->body, b->first, b->last);
  return a->body == b->body && meet(a, b);
}

typedef struct Item {
  uint32_t buffer;
  uint64_t bytes, offset;
} Item;

static int by_size(const void *x, const void *y) {
  const Item *a = x, *b = y;
  if (a->bytes != b->bytes) return a->bytes < b->bytes ? 1 : -1;
  return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

/* Inserts `item` into the list sorted by offset. */
static void insert(Item *placed, size_t n, Item item) {
  size_t i = n;
  for (; i > 0 && placed[i - 1].offset > item.offset; i--) placed[i] = placed[i - 1];
  placed[i] = item;
}

static void pack(const Planner *q, const Occurrences *o, Item *items, size_t n, Item *placed, ProgramSpace space) {
  const ProgramBuffer *buffers = q->p->buffers;
  qsort(items, n, sizeof *items, by_size);
  for (size_t i = 0; i < n; i++) {
    uint64_t at = 0;
    for (size_t k = 0; k < i; k++) {
      if (placed[k].offset >= at + items[i].bytes) break;
      if (placed[k].offset + placed[k].bytes > at &&
          live_together(o, &buffers[items[i].buffer], &buffers[placed[k].buffer]))
        at = placed[k].offset + placed[k].bytes;
    }
    items[i].offset = at;
    q->plan->offsets[items[i].buffer] = at;
    if (at + items[i].bytes > q->plan->bytes[space]) q->plan->bytes[space] = at + items[i].bytes;
    insert(placed, i, items[i]);
  }
}

/* ---- live memory over time */

/* Changes of live bytes per class: a moment is an instruction of a body, plus the buffers of the entry that are live
 * during the call. */
typedef struct Moments {
  int64_t *at;    /* changes per instruction, one more row per body: [instr + body][PC_COUNT] */
  int64_t *calls; /* the same per call: [call + 1][PC_COUNT] */
} Moments;

static void add_moments(const Planner *q, const Moments *m, ProgramSpace space) {
  const Program *p = q->p;
  for (uint32_t i = 0; i < p->n_buffers; i++) {
    const ProgramBuffer *b = &p->buffers[i];
    if (persistent(b) || !planned(q, b) || program_class_space(b->class_) != space) continue;
    int64_t bytes = (int64_t)(q->plan->slot_bytes[i] * b->slots);
    int64_t *row =
        b->body == PROGRAM_NONE ? m->calls : m->at + ((size_t)p->bodies[b->body].instrs + b->body) * PC_COUNT;
    row[(size_t)b->first * PC_COUNT + b->class_] += bytes;
    row[((size_t)b->last + 1) * PC_COUNT + b->class_] -= bytes;
  }
}

static int64_t total(const int64_t *classes) {
  int64_t sum = 0;
  for (int c = 0; c < PC_COUNT; c++) sum += classes[c];
  return sum;
}

/* Finds the peak of a body; its classes to best[PC_COUNT]. */
static void body_peak(const Program *p, uint32_t body, const int64_t *at, int64_t *best) {
  int64_t now[PC_COUNT] = {0};
  memset(best, 0, sizeof now);
  for (uint32_t i = 0; i < p->bodies[body].n; i++) {
    for (int c = 0; c < PC_COUNT; c++) now[c] += at[((size_t)p->bodies[body].instrs + body + i) * PC_COUNT + (size_t)c];
    if (total(now) > total(best)) memcpy(best, now, sizeof now);
  }
}

static void find_peak(const Planner *q, const Moments *m, int64_t *peaks, ProgramSpace space) {
  const Program *p = q->p;
  const ProgramSchedule *s = &p->schedules[q->entry * p->stages + q->stage];
  int64_t now[PC_COUNT] = {0}, best[PC_COUNT] = {0}, sum[PC_COUNT];
  for (uint32_t b = 0; b < p->n_bodies; b++)
    if (p->bodies[b].entry == q->entry && p->bodies[b].stage == q->stage)
      body_peak(p, b, m->at, peaks + (size_t)b * PC_COUNT);
  for (uint32_t k = 0; k < s->n; k++) {
    const int64_t *body = peaks + (size_t)p->calls[s->calls + k].body * PC_COUNT;
    for (int c = 0; c < PC_COUNT; c++) {
      now[c] += m->calls[(size_t)k * PC_COUNT + (size_t)c];
      sum[c] = now[c] + body[c];
    }
    if (total(sum) > total(best)) memcpy(best, sum, sizeof best);
  }
  for (int c = 0; c < PC_COUNT; c++) q->plan->class_bytes[c] += (uint64_t)best[c];
  q->plan->live_bytes[space] = (uint64_t)total(best);
}

static RtStatus account(const Planner *q, ProgramSpace space) {
  const Program *p = q->p;
  uint32_t n_calls = p->schedules[q->entry * p->stages + q->stage].n;
  size_t row = PC_COUNT * sizeof(int64_t);
  Moments m = {calloc((size_t)p->n_instrs + p->n_bodies + 1, row), calloc(n_calls + 1u, row)};
  int64_t *peaks = calloc(p->n_bodies + 1u, row);
  bool ok = m.at && m.calls && peaks;
  if (ok) {
    add_moments(q, &m, space);
    find_peak(q, &m, peaks, space);
  }
  free(m.at);
  free(m.calls);
  free(peaks);
  return ok ? RT_OK : rt_error(q->error, RT_FAILED, "out of memory");
}

static RtStatus pack_space(const Planner *q, const Occurrences *o, ProgramSpace space) {
  const Program *p = q->p;
  Item *items = calloc(p->n_buffers + 1u, sizeof *items), *placed = calloc(p->n_buffers + 1u, sizeof *placed);
  RtStatus status = items && placed ? RT_OK : rt_error(q->error, RT_FAILED, "out of memory");
  size_t n = 0;
  for (uint32_t i = 0; !status && i < p->n_buffers; i++) {
    const ProgramBuffer *b = &p->buffers[i];
    if (persistent(b) || !planned(q, b) || program_class_space(b->class_) != space) continue;
    if (q->plan->slot_bytes[i]) items[n++] = (Item){i, q->plan->slot_bytes[i] * b->slots, 0};
  }
  if (!status) {
    pack(q, o, items, n, placed, space);
    status = account(q, space);
  }
  free(items);
  free(placed);
  return status;
}

static RtStatus check_total(const Planner *q) {
  const Program *p = q->p;
  uint64_t sum = 0;
  for (uint32_t i = 0; i < p->n_buffers; i++) {
    sum += q->plan->slot_bytes[i] * p->buffers[i].slots;
    if (sum > (uint64_t)MAX_BYTES)
      return rt_error(q->error, RT_BAD_INPUT, "the program would need more than 2^48 bytes of memory on one rank");
    if (persistent(&p->buffers[i]) && p->buffers[i].stage == q->stage)
      q->plan->class_bytes[p->buffers[i].class_] += q->plan->slot_bytes[i] * p->buffers[i].slots;
  }
  return RT_OK;
}

static RtStatus plan_entry(const Planner *q) {
  Occurrences o = {0};
  RtStatus status = occurrences_of(q, &o) ? RT_OK : rt_error(q->error, RT_FAILED, "out of memory");
  if (!status) status = pack_space(q, &o, SPACE_ARENA);
  if (!status) status = pack_space(q, &o, SPACE_WINDOW);
  free(o.first);
  free(o.calls);
  return status;
}

RtStatus memory_plan(const Program *p, uint32_t entry, uint32_t stage, const int64_t *symbols, MemoryPlan *out,
                     RtError *error) {
  memset(out, 0, sizeof *out);
  const Planner q = {p, entry, stage, symbols, out, error};
  out->offsets = calloc(p->n_buffers + 1u, sizeof *out->offsets);
  out->slot_bytes = calloc(p->n_buffers + 1u, sizeof *out->slot_bytes);
  int64_t *values = calloc(p->n_exprs + 1u, sizeof *values);
  RtStatus status = out->offsets && out->slot_bytes && values ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
  if (!status) status = measure(&q, values);
  if (!status) status = check_total(&q);
  if (!status) status = place_persistent(&q, values);
  if (!status && entry != PROGRAM_NONE) status = plan_entry(&q);
  free(values);
  if (status) memory_plan_free(out);
  return status;
}

void memory_plan_free(MemoryPlan *plan) {
  free(plan->offsets);
  free(plan->slot_bytes);
  memset(plan, 0, sizeof *plan);
}
