/* runtime/exec/capture.c - captured requests: a binding's second request is captured as a whole, with communication,
 * all micro-batches and bodies, and replayed from then on (DeviceOps.capture, CommOps.capture).
 *
 * The first request runs call by call, so that libraries and communication set up their resources and the bytes of all
 * ports are known.  Requests in which the host reads data are not captured: those with loops or computed sizes, and
 * those whose inputs and outputs exceed the device's limit for captures.
 *
 * Communication requires that all ranks capture, and drop captures, at the same request.  The decision depends only on
 * facts that are equal on all of them, so it needs no messages: they get the same requests and keep the same bindings,
 * and a rank's memory moves when a request needs more than any before, which every rank computes for all stages
 * (`need`).
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/internal.h"

/* ---- which requests */

static bool has_loops(const Program *p, uint32_t entry) {
  for (uint32_t b = 0; b < p->n_bodies; b++)
    for (uint32_t i = p->bodies[b].instrs; p->bodies[b].entry == entry && i < p->bodies[b].instrs + p->bodies[b].n; i++)
      if (p->instrs[i].kind == PI_loop || p->instrs[i].kind == PI_bind) return true;
  return false;
}

static bool can_capture(const Executor *e, const Binding *b) {
  if (!e->ops->capture || e->options.eager || (e->comm && !comm_captures(e->comm))) return false;
  if (e->p->entries[b->entry].prepare || has_loops(e->p, b->entry)) return false;
  return b->io.bytes <= e->ops->facts(e->device).most_ports;
}

/* ---- memory that moved on some rank */

static uint64_t *need_of(uint64_t *need, uint32_t stage, ProgramSpace space) {
  return &need[(size_t)stage * SPACE_COUNT + space];
}

RtStatus exec_capture_bind(const Executor *e, Binding *b, RtError *error) {
  const Program *p = e->p;
  BoundCapture *k = &b->capture;
  *k = (BoundCapture){.wanted = can_capture(e, b), .moves = UINT64_MAX};
  if (!e->ops->capture) return RT_OK;
  k->need = calloc((size_t)p->stages * SPACE_COUNT, sizeof *k->need);
  if (!k->need) return rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t stage = 0; stage < p->stages; stage++) {
    MemoryPlan plan;
    RtStatus status = stage == e->stage ? RT_OK : memory_plan(p, b->entry, stage, b->symbols, &plan, error);
    if (status) return status;
    memcpy(need_of(k->need, stage, 0), stage == e->stage ? b->plan.bytes : plan.bytes, SPACE_COUNT * sizeof *k->need);
    if (stage != e->stage) memory_plan_free(&plan);
  }
  return RT_OK;
}

void exec_capture_moved(Executor *e, const Binding *b, ProgramSpace space) {
  bool moved = false;
  for (uint32_t stage = 0; b->capture.need && stage < e->p->stages; stage++) {
    uint64_t *most = need_of(e->need, stage, space), need = *need_of(b->capture.need, stage, space);
    if (need <= *most) continue;
    *most = need;
    moved = true;
  }
  e->moves += moved;
}

void exec_capture_given_back(Executor *e, ProgramSpace space) {
  for (uint32_t stage = 0; e->need && stage < e->p->stages; stage++) *need_of(e->need, stage, space) = 0;
  e->moves++;
}

/* ---- captures */

void exec_capture_release(const Executor *e, BoundCapture *k) {
  if (k->device) e->ops->release_capture(e->device, k->device);
  if (k->comm) e->comm->ops->release_capture(e->comm, k->comm);
  free(k->written);
  k->device = k->comm = NULL;
  k->written = NULL;
  k->n_written = 0;
  k->made = false;
}

RtStatus exec_capture_keep(const Executor *e, Binding *b, bool placed, RtError *error) {
  BoundCapture *k = &b->capture;
  if (!k->wanted) return RT_OK;
  if (placed && k->moves == e->moves)
    return rt_error(error, RT_INTERNAL, "rank %u: memory moved although no rank should have moved any",
                    e->options.rank);
  if (k->moves == e->moves) return RT_OK;
  exec_capture_release(e, k);
  k->moves = e->moves;
  return RT_OK;
}

/* Keeps the parts of outputs that the captured request wrote: every replay writes the same. */
static RtStatus keep_written(const Executor *e, BoundCapture *k, size_t before, RtError *error) {
  const WrittenParts *w = e->options.written;
  if (!w || w->n == before) return RT_OK;
  k->n_written = w->n - before;
  k->written = malloc(k->n_written * sizeof *k->written);
  if (!k->written) return rt_error(error, RT_FAILED, "out of memory");
  memcpy(k->written, w->items + before, k->n_written * sizeof *k->written);
  return RT_OK;
}

static RtStatus repeat_written(const Executor *e, const BoundCapture *k, RtError *error) {
  RtStatus status = RT_OK;
  for (size_t i = 0; i < k->n_written && !status; i++)
    status = exec_note_written(e->options.written, &k->written[i], error);
  return status;
}

static RtStatus make(Executor *e, BoundCapture *k, RtError *error) {
  RtError unread = {0};
  RtStatus status = e->comm ? e->comm->ops->capture(e->comm, error) : RT_OK;
  if (status) return status;
  status = e->ops->capture(e->device, k->ports, k->on_device, e->io, error);
  bool begun = !status;
  if (!status) status = exec_walk(e, e->binding->entry, error);
  if (e->comm) { /* joins the device's queue, and ends in any case */
    RtStatus ended = e->comm->ops->captured(e->comm, status ? NULL : &k->comm, status ? &unread : error);
    if (!status) status = ended;
  }
  if (!begun) return status;
  RtStatus ended = e->ops->captured(e->device, status ? NULL : &k->device, status ? &unread : error);
  return status ? status : ended;
}

static RtStatus again(Executor *e, BoundCapture *k, RtError *error) {
  uint64_t shift = exec_key_before(e->request) - exec_key_before(k->request);
  RtStatus status = e->comm ? e->comm->ops->again(e->comm, k->comm, shift, error) : RT_OK;
  return status ? status : e->ops->again(e->device, k->device, e->io, e->places.at, error);
}

RtStatus exec_capture_run(Executor *e, RtError *error) {
  BoundCapture *k = &e->binding->capture;
  RtStatus status = RT_OK;
  if (k->device) status = repeat_written(e, k, error);
  else {
    size_t before = e->options.written ? e->options.written->n : 0;
    k->request = e->request;
    status = make(e, k, error);
    if (!status) status = keep_written(e, k, before, error);
  }
  return status ? status : again(e, k, error);
}
