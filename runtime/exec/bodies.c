/* runtime/exec/bodies.c - the lists of device calls of a binding: made once for a request's sizes.  Addresses are
 * inserted when memory moves, numbers of the micro-batch when another one runs.
 */
#include <stdlib.h>

#include "runtime/exec/internal.h"

/* ---- communication */

/* Returns how many blocks a communication may need: sent, received, and the gaps of an exchange. */
static size_t blocks_of(const DeviceCall *c) {
  size_t n = c->comm->members.n;
  return 2 * n + (c->kind == PI_exchange ? n + 1 : 0);
}

static RtStatus allocate_comms(BoundBody *b, RtError *error) {
  size_t blocks = 0;
  for (uint32_t i = 0; i < b->calls.n; i++)
    if (program_instr_is_comm(b->calls.items[i].kind)) blocks += blocks_of(&b->calls.items[i]);
  b->ops = calloc(b->calls.n_comms + 1u, sizeof *b->ops);
  b->gaps = calloc(b->calls.n_comms + 1u, sizeof *b->gaps);
  b->blocks = calloc(blocks + 1, sizeof *b->blocks);
  return b->ops && b->gaps && b->blocks ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
}

static void describe_comms(const Executor *e, BoundBody *b) {
  CommBlock *at = b->blocks;
  for (uint32_t i = 0; i < b->calls.n; i++) {
    const DeviceCall *c = &b->calls.items[i];
    if (!program_instr_is_comm(c->kind)) continue;
    const ProgramInstr *x = &e->p->instrs[c->instr];
    b->ops[c->comm->index] = (CommOp){.kind = program_instr_comm(c->kind),
                                      .group = e->groups[x->object],
                                      .dtype = (DType)c->tensors[0].dtype,
                                      .reduction = (CommReduction)x->reduction,
                                      .send = at,
                                      .recv = at + c->comm->members.n};
    b->gaps[c->comm->index].blocks = at + 2 * (size_t)c->comm->members.n;
    at += blocks_of(c);
  }
}

/* Computes the blocks; false if the members' parts do not add up to the tensors. */
static bool resolve_comm(const Executor *e, const Binding *b, BoundBody *body, const DeviceCall *c) {
  const CommParts *parts = &b->parts[c->instr - b->instr_first];
  const CommOp *op = &body->ops[c->comm->index];
  CommGaps *gaps = &body->gaps[c->comm->index];
  size_t row = e->p->uses & PROGRAM_USES_MICRO_BATCH ? b->mb : 0;
  if (parts->values) c->comm->parts = parts->values + row * parts->members * parts->per_member;
  if (!device_call_blocks(e->p, c, (CommBlock *)(uintptr_t)op->send, (CommBlock *)(uintptr_t)op->recv)) return false;
  if (c->kind == PI_exchange) gaps->n = device_call_gaps(e->p, c, gaps->blocks);
  return true;
}

/* ---- making */

static DeviceCall *call_at(const BoundBody *b, uint32_t i, bool varying) {
  return &b->calls.items[varying ? b->calls.varying[i] : i];
}

/* Computes the numbers of the binding's micro-batch: of all calls, or only of those that vary. */
static void resolve(const Executor *e, const Binding *b, BoundBody *body, bool varying) {
  int64_t coordinates[PROGRAM_MAX_AXES];
  exec_coordinates(e, b->mb, coordinates);
  body->mb = b->mb;
  device_calls_resolve(&body->calls, b->values, coordinates, varying);
  for (uint32_t i = 0; i < (varying ? body->calls.n_varying : body->calls.n); i++) {
    DeviceCall *c = call_at(body, i, varying);
    c->refused = exec_fault(e, b, c);
    if (program_instr_is_comm(c->kind) && !resolve_comm(e, b, body, c))
      c->refused = "the shapes of the members do not match";
  }
}

static RtStatus make_body(const Executor *e, const Binding *b, uint32_t index, RtError *error) {
  BoundBody *body = &b->bodies[index];
  RtStatus status = device_calls_make(e->p, index, e->options.rank, &body->calls, error);
  if (!status) status = allocate_comms(body, error);
  if (status) return status;
  describe_comms(e, body);
  resolve(e, b, body, false);
  if (!e->ops->record || e->options.eager || e->p->entries[b->entry].prepare) return RT_OK; /* prepare runs once */
  if (b->capture.wanted) return RT_OK;                                                      /* captured as a whole */
  body->recordings = calloc(body->calls.n + 1u, sizeof *body->recordings);
  return body->recordings ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
}

RtStatus exec_bodies_make(const Executor *e, Binding *b, RtError *error) {
  const Program *p = e->p;
  RtStatus status = exec_micro_batch(e, b, 0, error);
  for (uint32_t i = 0; !status && i < p->n_bodies; i++)
    if (p->bodies[i].entry == b->entry && p->bodies[i].stage == e->stage) status = make_body(e, b, i, error);
  return status;
}

/* ---- recordings */

static void forget(const Executor *e, BoundBody *b) {
  for (uint32_t i = 0; b->recordings && i < b->calls.n; i++) {
    if (b->recordings[i].n) e->ops->forget(e->device, b->recordings[i].recorded);
    b->recordings[i] = (Recording){0};
  }
}

/* True if the call only concerns the device, and is equal in every request and micro-batch. */
static bool can_be_recorded(const DeviceCall *c) {
  if (c->varying || c->skipped || c->refused || c->in_place) return false;
  return c->kind == PI_launch || c->kind == PI_gemm || c->kind == PI_conv || c->kind == PI_copy || c->kind == PI_fill;
}

/* Records runs of at least two calls, without the start or end of a loop inside. */
static RtStatus record(const Executor *e, BoundBody *b, RtError *error) {
  for (uint32_t i = 0, end; i < b->calls.n; i = end) {
    Recording r = {0};
    for (end = i; end < b->calls.n && can_be_recorded(&b->calls.items[end]);) end++;
    if (end - i >= 2) {
      RtStatus status = e->ops->record(e->device, &b->calls.items[i], end - i, &r.recorded, error);
      if (status) return status;
      r.n = end - i;
      b->recordings[i] = r;
    }
    end += end == i;
  }
  return RT_OK;
}

/* ---- placing */

/* True if the tensor of a feed or fetch lies in the I/O area itself. */
static bool is_port(const Executor *e, const Binding *b, const DeviceCall *c) {
  uint32_t port = c->object + (c->kind == PI_fetch ? e->p->entries[b->entry].n_inputs : 0);
  return e->io && b->ports[c->tensors[0].buffer].port == port;
}

static void place(const Executor *e, const Binding *b, BoundBody *body, bool varying) {
  device_calls_place(&body->calls, b->address, b->plan.slot_bytes, varying);
  for (uint32_t i = 0; i < (varying ? body->calls.n_varying : body->calls.n); i++) {
    DeviceCall *c = call_at(body, i, varying);
    if (c->kind == PI_feed || c->kind == PI_fetch) c->in_place = is_port(e, b, c);
    if (!program_instr_is_comm(c->kind)) continue;
    CommOp *op = &body->ops[c->comm->index];
    op->src = c->data[0];
    op->dst = c->data[c->n_tensors - 1];
  }
}

RtStatus exec_bodies_place(const Executor *e, Binding *b, RtError *error) {
  RtStatus status = RT_OK;
  for (uint32_t i = 0; !status && i < e->p->n_bodies; i++) {
    BoundBody *body = &b->bodies[i];
    forget(e, body);
    place(e, b, body, false);
    if (body->recordings) status = record(e, body, error);
  }
  if (!status) b->generation = e->generation;
  return status;
}

RtStatus exec_bodies_again(const Executor *e, Binding *b, RtError *error) {
  RtStatus status = RT_OK;
  for (uint32_t i = 0; !status && i < e->p->n_bodies; i++) {
    if (!b->bodies[i].recordings) continue;
    forget(e, &b->bodies[i]);
    status = record(e, &b->bodies[i], error);
  }
  return status;
}

RtStatus exec_body_select(const Executor *e, Binding *b, BoundBody *body, uint32_t mb, RtError *error) {
  if (body->mb == mb || body->calls.n_varying == 0) return RT_OK;
  RtStatus status = exec_micro_batch(e, b, mb, error);
  if (status) return status;
  resolve(e, b, body, true);
  place(e, b, body, true);
  return RT_OK;
}

void exec_bodies_free(const Executor *e, Binding *b) {
  for (uint32_t i = 0; i < e->p->n_bodies; i++) {
    BoundBody *body = &b->bodies[i];
    forget(e, body);
    free(body->recordings);
    free(body->ops);
    free(body->gaps);
    free(body->blocks);
    device_calls_free(&body->calls);
  }
  free(b->bodies);
}
