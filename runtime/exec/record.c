/* runtime/exec/record.c - records calls: their time, and the work that follows from their sizes.
 *
 * Work is computed after the call, outside of its time.  Tensors count once with all their bytes, tables as below;
 * repeated reads of a kernel are unknown here.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/internal.h"
#include "runtime/exec/probe.h"

RtStatus exec_record(Executor *e, uint64_t capacity, RtError *error) {
  if (capacity > RECORD_EVENTS_MOST) return rt_error(error, RT_INTERNAL, "the host requested too many events");
  size_t bytes = record_bytes(e->p, capacity);
  free(e->record);
  e->record = calloc(1, bytes);
  if (!e->record) return rt_error(error, RT_FAILED, "out of memory: %zu bytes for the profile", bytes);
  e->record->capacity = capacity;
  e->record->load_ns = e->load_ns;
  const char *arch = e->ops->facts(e->device).arch;
  snprintf(e->record->arch, sizeof e->record->arch, "%s", arch ? arch : "");
  return RT_OK;
}

static double tensor_bytes(const CallTensor *t) { return (double)t->elements * (double)dtype_bytes((DType)t->dtype); }

/* Returns the bytes that it sends to others; for all_reduce, the bytes of its operand. */
static double comm_bytes(const BoundBody *b, const DeviceCall *c) {
  const CommOp *op = &b->ops[c->comm->index];
  double sum = 0;
  if (c->kind == PI_all_reduce) return tensor_bytes(&c->tensors[0]);
  for (uint32_t i = 0; i < c->comm->members.n; i++)
    if (i != c->comm->members.place) sum += (double)op->send[i].rows * (double)op->send[i].row_bytes;
  return sum;
}

/* Lookups in a table count as many bytes as the kernel writes, or the whole table if that is smaller. */
static double launch_bytes(const DeviceCall *c, const ProgramInstr *x) {
  double sum = 0, written = 0;
  for (uint32_t i = 0; i < c->n_tensors; i++) {
    bool table = i < 32 && (x->mask >> i & 1u);
    if (!table) sum += tensor_bytes(&c->tensors[i]);
    if (i + x->dim >= c->n_tensors) written += tensor_bytes(&c->tensors[i]);
  }
  for (uint32_t i = 0; i < c->n_tensors && i < 32; i++)
    if (x->mask >> i & 1u) sum += tensor_bytes(&c->tensors[i]) < written ? tensor_bytes(&c->tensors[i]) : written;
  return sum;
}

static double bytes_of(const BoundBody *b, const DeviceCall *c, const ProgramInstr *x) {
  double sum = 0;
  if (program_instr_is_comm(c->kind)) return comm_bytes(b, c);
  if (c->in_place) return 0;
  if (c->kind == PI_copy) { /* a box of both */
    sum = 2.0 * (double)dtype_bytes((DType)c->tensors[0].dtype);
    for (uint32_t d = 0; d < c->tensors[0].rank; d++) sum *= (double)c->scalars[d];
    return sum;
  }
  if (c->kind == PI_launch) return launch_bytes(c, x);
  for (uint32_t i = 0; i < c->n_tensors; i++) sum += tensor_bytes(&c->tensors[i]);
  if (c->kind == PI_gemm && c->gemm->accumulate) sum += tensor_bytes(&c->tensors[2]);
  if (c->kind == PI_feed || c->kind == PI_fetch) sum *= 2; /* once more in host memory */
  return sum;
}

static double gemm_flops(const GemmCall *g, int64_t size[RECORD_SIZES]) {
  int64_t batch = 1;
  for (int i = 0; i < g->loops; i++) batch *= g->extent[i];
  memcpy(size, (int64_t[]){batch, g->m, g->k, g->n}, 4 * sizeof *size);
  return 2 * (double)batch * (double)g->m * (double)g->k * (double)g->n;
}

/* Returns the pairs of output and window element, in dimension i, that meet the image. */
static double met(const ConvShape *s, int i) {
  int64_t n = 0, step = s->stride[i] > 0 ? s->stride[i] : 1;
  for (int64_t k = 0; k < s->window[i]; k++) {
    int64_t at = s->start[i] + k * s->dilation[i]; /* of output 0 */
    int64_t first = at < 0 ? (-at + step - 1) / step : 0;
    int64_t end = at < s->image[i] ? (s->image[i] - at + step - 1) / step : 0;
    if (end > s->output[i]) end = s->output[i];
    if (end > first) n += end - first;
  }
  return (double)n;
}

static double conv_flops(const ConvShape *s, int64_t size[RECORD_SIZES]) {
  memcpy(size, (int64_t[]){s->images, s->groups, s->in, s->out}, 4 * sizeof *size);
  memcpy(size + 4, s->output, sizeof s->output);
  memcpy(size + 7, s->window, sizeof s->window);
  double n = 2 * (double)s->images * (double)s->groups * (double)s->in * (double)s->out;
  return n * met(s, 0) * met(s, 1) * met(s, 2);
}

static double flops_of(const DeviceCall *c, int64_t size[RECORD_SIZES]) {
  if (c->kind == PI_gemm) return gemm_flops(c->gemm, size);
  return c->kind == PI_conv ? conv_flops(c->conv, size) : 0;
}

static void add_event(Executor *e, RecordEvent event) {
  RecordHead *h = e->record;
  if (h->events == h->capacity) h->dropped += h->capacity > 0;
  else record_events(e->p, h)[h->events++] = event;
}

RecordMark exec_record_mark(const Executor *e) {
  return (RecordMark){.round = e->n_loops ? (uint32_t)e->loops[e->n_loops - 1].round + 1 : 0,
                      .waited = e->comm ? comm_waited(e->comm) : 0,
                      .begin = exec_now()};
}

/* ---- devices that execute calls later: a stamp before the first call and one after each */

static RtStatus stamps_make_room(Stamps *s, RtError *error) {
  if (s->n < s->capacity) return RT_OK;
  uint32_t capacity = s->capacity ? 2 * s->capacity : 1024;
  struct StampedCall *calls = realloc(s->calls, capacity * sizeof *calls);
  if (calls) s->calls = calls;
  uint64_t *ns = realloc(s->ns, (capacity + 1u) * sizeof *ns);
  if (ns) s->ns = ns;
  if (!calls || !ns) return rt_error(error, RT_FAILED, "out of memory");
  s->capacity = capacity;
  return RT_OK;
}

RtStatus exec_record_start(Executor *e, RtError *error) {
  if (!e->ops->stamp) return RT_OK;
  e->stamps.n = 0;
  RtStatus status = stamps_make_room(&e->stamps, error);
  if (!status) status = e->ops->finish(e->device, error);
  e->stamps.begin = exec_now();
  return status ? status : e->ops->stamp(e->device, error);
}

/* Stamps after a call.  Its event, if there was room for it, is the last one of the record. */
static RtStatus stamp_call(Executor *e, uint32_t instr, bool has_event, RtError *error) {
  Stamps *s = &e->stamps;
  RtStatus status = stamps_make_room(s, error);
  if (status) return status;
  s->calls[s->n++] = (struct StampedCall){instr, has_event ? e->record->events - 1 : UINT64_MAX};
  return e->ops->stamp(e->device, error);
}

RtStatus exec_record_times(Executor *e, RtError *error) {
  Stamps *s = &e->stamps;
  if (!e->ops->stamp) return RT_OK;
  RtStatus status = e->ops->times(e->device, s->ns, s->n + 1, error);
  for (uint32_t i = 0; i < s->n && !status; i++) {
    record_rows(e->record)[s->calls[i].instr].ns += s->ns[i + 1] - s->ns[i];
    if (s->calls[i].event == UINT64_MAX) continue;
    RecordEvent *event = &record_events(e->p, e->record)[s->calls[i].event];
    event->begin = s->begin + s->ns[i];
    event->end = s->begin + s->ns[i + 1];
  }
  return status;
}

RtStatus exec_record_call(Executor *e, const BoundBody *b, const DeviceCall *c, const RecordMark *mark,
                          RtError *error) {
  uint64_t end = exec_now(), wait = (e->comm ? comm_waited(e->comm) : 0) - mark->waited;
  RecordHead *h = e->record;
  RecordRow *rows = record_rows(h), *row = &rows[c->instr];
  uint64_t before = h->events;
  row->calls++;
  row->bytes += bytes_of(b, c, &e->p->instrs[c->instr]);
  if (!e->ops->stamp) row->ns += end - mark->begin;
  row->wait_ns += wait;
  row->flops += flops_of(c, row->size);
  add_event(e, (RecordEvent){.begin = mark->begin,
                             .end = end,
                             .wait_ns = wait,
                             .instr = c->instr,
                             .micro_batch = e->micro_batch,
                             .request = e->request,
                             .round = mark->round});
  return e->ops->stamp ? stamp_call(e, c->instr, h->events > before, error) : RT_OK;
}

void exec_record_request(Executor *e, uint64_t begin) {
  e->record->requests++;
  e->record->run_ns += e->run_ns;
  add_event(e, (RecordEvent){.begin = begin, .end = begin + e->run_ns, .instr = PROGRAM_NONE, .request = e->request});
}

/* Returns the highest rate of any instruction. */
static double most_flops(Executor *e) {
  const RecordRow *rows = record_rows(e->record);
  double most = 0;
  for (uint32_t i = 0; i < e->p->n_instrs; i++)
    if (rows[i].ns && rows[i].flops * 1e9 / (double)rows[i].ns > most) most = rows[i].flops * 1e9 / (double)rows[i].ns;
  return most;
}

/* Measures again if the peak is below a recorded rate: other processes took the cores meanwhile. */
static Peak measure_peak(Executor *e) {
  enum { TIMES = 4 };
  Peak best = {0};
  for (int i = 0; i < TIMES && (i == 0 || best.flops < most_flops(e)); i++) {
    Peak peak = peak_measure(e->options.threads, (int)e->p->ranks, exec_beats(e));
    best.threads = peak.threads;
    best.flops = peak.flops > best.flops ? peak.flops : best.flops;
    best.bytes = peak.bytes > best.bytes ? peak.bytes : best.bytes;
  }
  return best;
}

RtStatus exec_record_end(Executor *e, RtError *error) {
  if (!e->record) return rt_error(error, RT_INTERNAL, "the host requested a profile that was not begun");
  Peak peak = e->host_memory ? measure_peak(e) : (Peak){0}; /* peaks of other devices are not measured */
  e->record->peak_flops = peak.flops;
  e->record->peak_bytes = peak.bytes;
  e->record->threads = (uint32_t)peak.threads;
  return RT_OK;
}
