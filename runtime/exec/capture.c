/* runtime/exec/capture.c - captured requests: a binding's second request is captured as a whole, with communication,
 * all micro-batches and bodies, and replayed from then on (DeviceOps.capture, CommOps.capture).
 *
 * The first request runs call by call, so that libraries and communication set up their resources and the bytes of all
 * ports are known.  Requests in which the host reads data are not captured: those with loops or computed sizes, and
 * those whose inputs and outputs exceed the device's limit for captures.  Outputs that nothing follows do not count: if
 * the limit is exceeded, they are fetched after the capture, from the memory where they were computed.
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

/* True if a body only fetches from an instruction on. */
static bool only_fetches(const Program *p, const ProgramBody *b, uint32_t from) {
  for (uint32_t i = from; i < b->instrs + b->n; i++)
    if (p->instrs[i].kind != PI_fetch && p->instrs[i].kind != PI_check && p->instrs[i].kind != PI_wait) return false;
  return true;
}

/* True if every fetch of the output is at the end of the last body of its stage, so that nothing uses the memory of its
 * tensor afterwards. */
static bool is_last(const Program *p, uint32_t entry, uint32_t output) {
  for (uint32_t stage = 0; stage < p->stages; stage++) {
    const ProgramSchedule *s = &p->schedules[entry * p->stages + stage];
    for (uint32_t k = s->calls; k < s->calls + s->n; k++) {
      const ProgramBody *b = &p->bodies[p->calls[k].body];
      for (uint32_t i = b->instrs; i < b->instrs + b->n; i++)
        if (p->instrs[i].kind == PI_fetch && p->instrs[i].object == output &&
            (k + 1 < s->calls + s->n || !only_fetches(p, b, i)))
          return false;
    }
  }
  return true;
}

enum { SMALL = 1 << 20 }; /* outputs of so many bytes stay in a capture */

/* Finds the outputs to fetch after the capture, if the others fit the device's limit; all ranks find the same. */
static RtStatus fit_ports(const Executor *e, Binding *b, RtError *error) {
  const ProgramEntry *entry = &e->p->entries[b->entry];
  BoundCapture *k = &b->capture;
  uint64_t most = e->ops->facts(e->device).most_ports, bytes = b->io.bytes;
  if (bytes <= most) return RT_OK;
  k->after = calloc(entry->n_outputs + 1u, sizeof *k->after);
  if (!k->after) return rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < entry->n_outputs; i++) {
    uint64_t size = b->io.sizes[entry->n_inputs + i];
    k->after[i] = size > SMALL && is_last(e->p, b->entry, i);
    if (k->after[i]) bytes -= size;
  }
  k->wanted = bytes <= most;
  return RT_OK;
}

static bool can_capture(const Executor *e, const Binding *b) {
  if (!e->ops->capture || e->options.eager || (e->comm && !comm_captures(e->comm))) return false;
  return !e->p->entries[b->entry].prepare && !has_loops(e->p, b->entry);
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
  RtStatus fits = k->wanted ? fit_ports(e, b, error) : RT_OK;
  if (fits) return fits;
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

static RtStatus fetch_one(const Executor *e, const DeviceCall *c, uint32_t micro_batch, RtError *error) {
  RtError inner = {0};
  if (e->options.place) rank_place_step(e->options.place, exec_step(c->instr, micro_batch));
  RtStatus status = exec_fetch(e, c, &inner);
  return status ? exec_error(e, c->instr, status, error, inner.text) : RT_OK;
}

/* Fetches the outputs that are no part of the capture. */
static RtStatus fetch_after(const Executor *e, RtError *error) {
  RtStatus status = RT_OK;
  if (!e->binding->capture.after) return RT_OK;
  for (uint32_t i = 0; i < e->p->n_bodies; i++) {
    const BoundBody *b = &e->binding->bodies[i];
    for (uint32_t k = 0; b->calls.items && k < b->calls.n && !status; k++)
      if (exec_is_after(e, &b->calls.items[k])) status = fetch_one(e, &b->calls.items[k], b->mb, error);
  }
  return status ? status : e->ops->finish(e->device, error);
}

bool exec_is_after(const Executor *e, const DeviceCall *c) {
  const bool *after = e->binding->capture.after;
  return c->kind == PI_fetch && !c->skipped && after && after[c->object];
}

RtStatus exec_capture_run(Executor *e, RtError *error) {
  BoundCapture *k = &e->binding->capture;
  RtStatus status = RT_OK;
  if (k->device) status = repeat_written(e, k, error);
  else {
    size_t before = e->options.written ? e->options.written->n : 0;
    k->request = e->request;
    e->capturing = true;
    status = make(e, k, error);
    e->capturing = false;
    if (!status) status = keep_written(e, k, before, error);
  }
  if (!status) status = again(e, k, error);
  return status ? status : fetch_after(e, error);
}
