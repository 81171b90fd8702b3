/* runtime/exec/record.c - what is recorded of a call: its time, and the work that follows from its sizes.
 *
 * Work is counted when the call is over, so that it is no part of the call's time.  Tensors count once with all their
 * bytes: what a kernel leaves out (rows of a table that nobody asks for) or reads again is not known here.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/internal.h"
#include "runtime/exec/probe.h"

RtStatus exec_record(Executor *e, uint64_t capacity, RtError *error) {
  if (capacity > RECORD_EVENTS_MOST) return rt_error(error, RT_INTERNAL, "the host sent a request for too many events");
  size_t bytes = record_bytes(e->p, capacity);
  free(e->record);
  e->record = calloc(1, bytes);
  if (!e->record) return rt_error(error, RT_FAILED, "out of memory: %zu bytes for the profile", bytes);
  e->record->capacity = capacity;
  e->record->load_ns = e->load_ns;
  return RT_OK;
}

static double tensor_bytes(const CallTensor *t) { return (double)t->elements * (double)dtype_bytes((DType)t->dtype); }

/* What it gives to others; all_reduce: what is summed. */
static double comm_bytes(const BoundBody *b, const DeviceCall *c) {
  const CommOp *op = &b->ops[c->comm->index];
  double sum = 0;
  if (c->kind == PI_all_reduce) return tensor_bytes(&c->tensors[0]);
  for (uint32_t i = 0; i < c->comm->members.n; i++)
    if (i != c->comm->members.place) sum += (double)op->send[i].rows * (double)op->send[i].row_bytes;
  return sum;
}

static double bytes_of(const BoundBody *b, const DeviceCall *c) {
  double sum = 0;
  if (program_instr_is_comm(c->kind)) return comm_bytes(b, c);
  if (c->in_place) return 0;
  if (c->kind == PI_copy) { /* a box of both */
    sum = 2.0 * (double)dtype_bytes((DType)c->tensors[0].dtype);
    for (uint32_t d = 0; d < c->tensors[0].rank; d++) sum *= (double)c->scalars[d];
    return sum;
  }
  for (uint32_t i = 0; i < c->n_tensors; i++) sum += tensor_bytes(&c->tensors[i]);
  if (c->kind == PI_gemm && c->gemm->accumulate) sum += tensor_bytes(&c->tensors[2]);
  if (c->kind == PI_feed || c->kind == PI_fetch) sum *= 2; /* and the same in the host's memory */
  return sum;
}

static double flops_of(const DeviceCall *c) {
  double n = 2;
  if (c->kind == PI_gemm) {
    n *= (double)c->gemm->m * (double)c->gemm->n * (double)c->gemm->k;
    for (int i = 0; i < c->gemm->loops; i++) n *= (double)c->gemm->extent[i];
    return n;
  }
  if (c->kind != PI_conv) return 0;
  const ConvShape *s = c->conv;
  n *= (double)s->images * (double)s->groups * (double)s->in * (double)s->out;
  for (int i = 0; i < 3; i++) n *= (double)s->window[i] * (double)s->output[i];
  return n;
}

static void add_event(Executor *e, RecordEvent event) {
  RecordHead *h = e->record;
  if (h->events == h->capacity) h->dropped += h->capacity > 0;
  else record_events(e->p, h)[h->events++] = event;
}

RecordMark exec_record_mark(const Executor *e) {
  return (RecordMark){.round = e->n_loops ? (uint32_t)e->loops[e->n_loops - 1].round + 1 : 0,
                      .waited = e->options.comm ? comm_waited(e->options.comm) : 0,
                      .begin = exec_now()};
}

void exec_record_call(Executor *e, const BoundBody *b, const DeviceCall *c, const RecordMark *mark) {
  uint64_t end = exec_now(), wait = (e->options.comm ? comm_waited(e->options.comm) : 0) - mark->waited;
  RecordRow *rows = record_rows(e->record), *row = &rows[c->instr];
  uint32_t n = program_instr_is_comm(c->kind) ? c->comm->joined : 1;
  for (uint32_t i = 0; i < n; i++) {
    rows[c[i].instr].calls++;
    rows[c[i].instr].bytes += bytes_of(b, &c[i]);
  }
  row->ns += end - mark->begin;
  row->wait_ns += wait;
  row->flops += flops_of(c);
  add_event(e, (RecordEvent){.begin = mark->begin,
                             .end = end,
                             .wait_ns = wait,
                             .instr = c->instr,
                             .micro_batch = e->micro_batch,
                             .request = e->request,
                             .round = mark->round});
}

void exec_record_request(Executor *e, uint64_t begin) {
  e->record->requests++;
  e->record->run_ns += e->run_ns;
  add_event(e, (RecordEvent){.begin = begin, .end = begin + e->run_ns, .instr = PROGRAM_NONE, .request = e->request});
}

RtStatus exec_record_end(Executor *e, RtError *error) {
  if (!e->record) return rt_error(error, RT_INTERNAL, "the host asks for a profile that was not begun");
  Peak peak = peak_measure(e->options.threads, (int)e->p->ranks, exec_beats(e));
  e->record->peak_flops = peak.flops;
  e->record->peak_bytes = peak.bytes;
  e->record->threads = (uint32_t)peak.threads;
  return RT_OK;
}

const void *exec_recorded(const Executor *e, size_t *bytes) {
  *bytes = e->record ? record_bytes(e->p, e->record->capacity) : 0;
  return e->record;
}
