/* runtime/exec/comm.c - communication: enqueueing operations, and waiting for them. */
#include <string.h>

#include "runtime/exec/internal.h"

static RtStatus fill_gaps(const Executor *e, const BoundBody *b, const DeviceCall *c, RtError *error) {
  const CommGaps *gaps = &b->gaps[c->comm->index];
  const CallTensor *to = &c->tensors[c->n_tensors - 1];
  RtStatus status = RT_OK;
  for (uint32_t i = 0; !status && i < gaps->n; i++) {
    CommBlock g = gaps->blocks[i];
    char *at = (char *)c->data[c->n_tensors - 1] + g.offset;
    status = exec_fill(e, c->instr, (DType)to->dtype, at, (int64_t)g.rows,
                       (int64_t)(g.row_bytes / dtype_bytes((DType)to->dtype)), (int64_t)g.stride, c->value, error);
  }
  return status;
}

RtStatus exec_communicate(Executor *e, const BoundBody *b, const DeviceCall *c, RtError *error) {
  RtStatus status = fill_gaps(e, b, c, error);
  if (status) return status;
  uint32_t turn = exec_turn(e->p->bodies[b->calls.body].phase, e->micro_batch);
  uint64_t position = e->positions++, key = exec_key(e->request, turn, e->p->instrs[c->instr].key);
  CommTicket *ticket = &e->window[position % PROGRAM_POSITIONS];
  if (position >= PROGRAM_POSITIONS) status = comm_wait(e->comm, *ticket, error);
  if (!status) status = comm_enqueue(e->comm, key, &b->ops[c->comm->index], ticket, error);
  uint32_t event = e->p->instrs[c->instr].event;
  if (event != PROGRAM_NONE)
    e->tickets[(size_t)event * e->p->micro_batches + e->micro_batch] = *ticket + 1, e->beside++;
  return !status && event == PROGRAM_NONE ? comm_wait(e->comm, *ticket, error) : status;
}

RtStatus exec_progress(Executor *e, RtError *error) {
  return e->beside && e->comm->ops->moves_when_asked ? comm_check(e->comm, error) : RT_OK;
}

RtStatus exec_wait(Executor *e, const DeviceCall *c, RtError *error) {
  const ProgramInstr *x = &e->p->instrs[c->instr];
  if (e->micro_batch < x->lag) return RT_OK;
  uint64_t *ticket = &e->tickets[(size_t)x->event * e->p->micro_batches + e->micro_batch - x->lag];
  if (*ticket == 0) return exec_error(e, c->instr, RT_INTERNAL, error, "nothing was sent or received for it");
  RtStatus status = comm_wait(e->comm, *ticket - 1, error);
  *ticket = 0, e->beside--;
  return status;
}

RtStatus exec_wait_all(Executor *e, RtError *error) {
  uint64_t n = e->positions < PROGRAM_POSITIONS ? e->positions : PROGRAM_POSITIONS;
  for (uint64_t i = e->positions - n; i < e->positions; i++) {
    RtStatus status = comm_wait(e->comm, e->window[i % PROGRAM_POSITIONS], error);
    if (status) return status;
  }
  e->beside = 0;
  memset(e->tickets, 0, sizeof *e->tickets * e->p->header->n_events * e->p->micro_batches);
  return RT_OK;
}
