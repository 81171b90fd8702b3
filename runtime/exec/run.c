/* runtime/exec/run.c - the walk over the lists of calls: schedules, bodies, loops. */
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/entry_file.h"
#include "runtime/exec/internal.h"

RtStatus exec_error(const Executor *e, uint32_t instr, RtStatus status, RtError *error, const char *what) {
  const ProgramInstr *x = &e->p->instrs[instr];
  return rt_error(error, status, "%s '%s' on rank %u: %s", program_instr_name(x->kind), program_text(e->p, x->where),
                  e->options.rank, what);
}

/* ---- ports, weights, checks */

RtStatus exec_note_written(WrittenParts *w, const WrittenPart *part, RtError *error) {
  if (w->n == w->capacity) {
    size_t capacity = w->capacity ? 2 * w->capacity : 16;
    WrittenPart *items = realloc(w->items, capacity * sizeof *items);
    if (!items) return rt_error(error, RT_FAILED, "out of memory");
    w->items = items;
    w->capacity = capacity;
  }
  w->items[w->n++] = *part;
  return RT_OK;
}

/* Notes the part of an output that this rank wrote. */
static RtStatus note_written(WrittenParts *w, uint32_t port, const DeviceCall *c, RtError *error) {
  const CallTensor *t = &c->tensors[0];
  WrittenPart part = {.port = port, .rank = t->rank};
  memcpy(part.start, c->scalars, t->rank * sizeof *part.start);
  memcpy(part.extents, t->extents, t->rank * sizeof *part.extents);
  return exec_note_written(w, &part, error);
}

/* Counts the bytes that a capture of the request will need. */
static void count_port(Binding *b, const DeviceCall *c, bool on_device) {
  uint64_t bytes = (uint64_t)c->tensors[0].elements * dtype_bytes((DType)c->tensors[0].dtype);
  *(on_device ? &b->capture.on_device : &b->capture.ports) +=
      (bytes + DEVICE_PORT_ALIGN - 1) / DEVICE_PORT_ALIGN * DEVICE_PORT_ALIGN;
}

static RtStatus run_feed(const Executor *e, const DeviceCall *c, RtError *error) {
  if (c->in_place) return RT_OK;
  if (e->file) return entry_file_feed(e, c, error);
  const DevicePort port = exec_port(e, c->object);
  if (!e->binding->capture.made) count_port(e->binding, c, port.on_device);
  return e->ops->feed(e->device, c, &port, error);
}

RtStatus exec_fetch(const Executor *e, const DeviceCall *c, RtError *error) {
  bool after = exec_is_after(e, c);
  if (c->elsewhere || (after && e->capturing)) return RT_OK;
  if (e->file) return entry_file_fetch(e, c, error);
  const DevicePort port = exec_port(e, e->p->entries[e->binding->entry].n_inputs + c->object);
  if (!e->binding->capture.made && !after) count_port(e->binding, c, port.on_device);
  RtStatus status = c->in_place ? RT_OK : e->ops->fetch(e->device, c, &port, error);
  return status || !e->options.written ? status : note_written(e->options.written, port.number, c, error);
}

static RtStatus run_check(const Executor *e, const DeviceCall *c, RtError *error) {
  int64_t v = c->scalars[0], lo = c->scalars[1], hi = c->scalars[2];
  if (lo <= v && v <= hi) return RT_OK;
  return rt_error(error, RT_BAD_INPUT, "%s: %lld is not in %lld to %lld", program_text(e->p, c->object), (long long)v,
                  (long long)lo, (long long)hi);
}

/* ---- indices */

/* Checks the indices that a device with delayed calls has seen by now; the data just waited for may depend on an
 * invalid one.  Reports the launch as the rank's place, as if it had waited for it.  The micro-batch of the launch is
 * unknown: with several, the place is none rather than where the rank waits.  The round is also unknown for a loop
 * whose rounds the host does not read. */
static RtStatus ask_indices(const Executor *e, RtError *error) {
  uint32_t instr = 0;
  RtError inner = {0};
  RtStatus status = e->ops->looked ? e->ops->looked(e->device, &instr, &inner) : RT_OK;
  if (!status) return RT_OK;
  uint32_t step = e->p->micro_batches == 1 ? exec_step(instr, 0) : 0;
  if (e->options.place) rank_place_step(e->options.place, step);
  return exec_error(e, instr, status, error, inner.text);
}

/* ---- loops: the executor counts rounds itself, so that no round can change their number */

/* Shows the watchdog the round of the innermost loop, from 1. */
static void tell_place(const Executor *e) {
  uint64_t round = e->n_loops ? (uint64_t)e->loops[e->n_loops - 1].round + 1 : 0;
  if (e->options.place) rank_place_round(e->options.place, round);
}

static RtStatus begin_round(const Executor *e, const DeviceCall *c, RtError *error) {
  int64_t round = e->loops[e->n_loops - 1].round;
  RtError inner = {0};
  tell_place(e);
  RtStatus status = e->ops->upload(e->device, c->data[0], &round, sizeof round, &inner);
  return status ? exec_error(e, c->instr, status, error, inner.text) : RT_OK;
}

/* Reads the data that decides whether a round begins, or a computed size. */
static RtStatus read_data(const Executor *e, const DeviceCall *c, void *to, size_t bytes, RtError *error) {
  RtError inner = {0};
  RtStatus status = e->ops->read(e->device, to, c->data[c->n_tensors - 1], bytes, &inner);
  return status ? exec_error(e, c->instr, status, error, inner.text) : ask_indices(e, error);
}

/* *next: the first record of the body, or the one after the loop. */
static RtStatus run_loop(Executor *e, const DeviceCall *c, uint32_t *next, RtError *error) {
  int64_t rounds;
  RtStatus status = read_data(e, c, &rounds, sizeof rounds, error);
  if (status) return status;
  if (c->n_scalars && rounds > c->scalars[0]) rounds = c->scalars[0];
  if (rounds <= 0) return *next = c->to, RT_OK;
  e->loops[e->n_loops].round = 0;
  e->loops[e->n_loops++].rounds = rounds;
  return begin_round(e, c, error);
}

static RtStatus run_repeat(Executor *e, const DeviceCall *c, uint32_t *next, RtError *error) {
  int64_t *round = &e->loops[e->n_loops - 1].round;
  unsigned char again = 1;
  RtStatus status = c->n_tensors > 1 ? read_data(e, c, &again, 1, error) : RT_OK;
  if (status) return status;
  if (!again || *round + 1 >= e->loops[e->n_loops - 1].rounds) {
    e->n_loops--;
    tell_place(e);
    return RT_OK;
  }
  ++*round;
  *next = c->to;
  return begin_round(e, c, error);
}

/* ---- computed sizes: the request goes on in the binding for the new size.  All bindings of a request have one plan of
 * memory, so everything computed so far stays where it is. */

static RtStatus run_bind(Executor *e, const DeviceCall *c, RtError *error) {
  const Program *p = e->p;
  const ProgramSymbol *s = &p->symbols[c->object];
  int64_t size, most = e->binding->values[s->most - 1], symbols[PROGRAM_MAX_SYMBOLS];
  RtStatus status = read_data(e, c, &size, sizeof size, error);
  if (!status) status = exec_wait_all(e, error);
  if (status) return status;
  if (size < 0 || size > most)
    return rt_error(error, RT_BAD_INPUT, "%s would be %lld, but is from 0 to %lld ('%s')", program_text(p, s->name),
                    (long long)size, (long long)most, program_text(p, p->instrs[c->instr].where));
  memcpy(symbols, e->binding->symbols, sizeof *symbols * p->n_symbols);
  symbols[c->object] = size;
  e->known[c->object] = true;
  e->n_known++;
  status = program_bound_computed(p, e->known, symbols, error);
  return status ? status : exec_bind(e, e->binding->entry, symbols, &e->binding, error);
}

/* ---- states in their home */

static uint64_t bytes_of(const CallTensor *t) { return (uint64_t)t->elements * dtype_bytes((DType)t->dtype); }

/* Brings a state, and lets the disk begin to read the next one of the body. */
static RtStatus run_bring(const Executor *e, const BoundBody *b, const DeviceCall *c, RtError *error) {
  RtStatus status = exec_away_read(e, c->data[1], c->data[0], bytes_of(&c->tensors[0]), error);
  const DeviceCall *next = c + 1, *end = b->calls.items + b->calls.n;
  while (next < end && (next->kind != PI_bring || next->skipped)) next++;
  if (next < end) exec_away_expect(e, next->data[0], bytes_of(&next->tensors[0]));
  return status;
}

/* ---- the walk */

/* Executes a call on the device; its errors do not name the call yet. */
static RtStatus run_on_device(const Executor *e, const BoundBody *b, const DeviceCall *c, RtError *error) {
  switch ((ProgramInstrKind)c->kind) {
    case PI_launch: return e->ops->launch(e->device, c, error);
    case PI_gemm: return e->ops->gemm(e->device, c, error);
    case PI_conv: return e->ops->conv(e->device, c, error);
    case PI_copy: return c->in_place ? RT_OK : e->ops->copy(e->device, c, error);
    case PI_bring: return run_bring(e, b, c, error);
    case PI_stow: return exec_away_write(e, c->data[1], c->data[0], bytes_of(&c->tensors[0]), error);
    case PI_fill: return e->ops->fill(e->device, c, error);
    case PI_pack: return e->ops->pack(e->device, c, error);
    case PI_feed: return run_feed(e, c, error);
    case PI_fetch: return exec_fetch(e, c, error);
    default: return exec_load_part(e, c->object, c->scalars, c->tensors[0].extents, c->data[0], error);
  }
}

/* Executes a call; *next is changed if the next record is not the following one. */
static RtStatus run_call(Executor *e, const BoundBody *b, const DeviceCall *c, uint32_t *next, RtError *error) {
  RtError inner; /* too large to be cleared for every call */
  if (c->kind == PI_check) return run_check(e, c, error);
  if (c->kind == PI_wait) return exec_wait(e, c, error);
  if (c->refused) return exec_refuse(e, c, error);
  if (c->kind == PI_loop) return run_loop(e, c, next, error);
  if (c->kind == PI_repeat) return run_repeat(e, c, next, error);
  if (c->kind == PI_bind) return run_bind(e, c, error);
  if (program_instr_is_comm(c->kind)) return exec_communicate(e, b, c, error);
  inner.status = RT_OK, inner.text[0] = 0;
  RtStatus status;
  if (c->kind == PI_load && c->to && exec_pack_stored(e, c, &status, &inner)) *next = c->to;
  else status = run_on_device(e, b, c, &inner);
  return status ? exec_error(e, c->instr, status, error, inner.text) : RT_OK;
}

/* The same, for --profile and --trace. */
static RtStatus run_recorded(Executor *e, const BoundBody *b, const DeviceCall *c, uint32_t *next, RtError *error) {
  RecordMark mark = exec_record_mark(e);
  RtStatus status = run_call(e, b, c, next, error);
  return status ? status : exec_record_call(e, b, c, &mark, error);
}

/* A bind changes the binding, and with it the numbers of all calls, but not their list. */
static RtStatus run_body(Executor *e, uint32_t body, RtError *error) {
  RtStatus status = RT_OK;
  uint32_t since = 0;
  for (uint32_t i = 0; !status && i < e->binding->bodies[body].calls.n;) {
    const BoundBody *b = &e->binding->bodies[body];
    const DeviceCall *c = &b->calls.items[i];
    const Recording *r = b->recordings ? &b->recordings[i] : NULL;
    if (e->options.place) rank_place_step(e->options.place, exec_step(c->instr, e->micro_batch));
    if (e->ops->mark && exec_is_marked(e, b, i, &since))
      status = e->ops->mark(e->device, exec_step(c->instr, e->micro_batch), error);
    if (status) break;
    if (r && r->n && !e->record) {
      status = e->ops->replay(e->device, r->recorded, error);
      i += r->n;
      continue;
    }
    i++;
    if (c->skipped) continue;
    status = e->record ? run_recorded(e, b, c, &i, error) : run_call(e, b, c, &i, error);
    if (!status) status = exec_progress(e, error);
  }
  return status;
}

RtStatus exec_walk(Executor *e, uint32_t entry, RtError *error) {
  const Program *p = e->p;
  const ProgramSchedule *s = &p->schedules[entry * p->stages + e->stage];
  RtStatus status = RT_OK;
  e->n_loops = 0;
  tell_place(e);
  for (uint32_t k = s->calls; !status && k < s->calls + s->n; k++) {
    BoundBody *body = &e->binding->bodies[p->calls[k].body];
    e->micro_batch = p->calls[k].micro_batch;
    status = exec_body_select(e, e->binding, body, e->micro_batch, error);
    if (!status) status = run_body(e, p->calls[k].body, error);
  }
  return status ? status : exec_wait_all(e, error);
}

/* Runs a request call by call. */
static RtStatus run_calls(Executor *e, uint32_t entry, RtError *error) {
  RtStatus status = RT_OK;
  e->prepared += e->p->entries[entry].prepare;
  if (e->record) status = exec_record_start(e, error);
  if (!status) status = exec_walk(e, entry, error);
  if (!status) status = e->ops->finish(e->device, error);
  return status || !e->record ? status : exec_record_times(e, error);
}

static RtStatus run_schedule(Executor *e, uint32_t entry, RtError *error) {
  BoundCapture *k = &e->binding->capture;
  if (k->which != e->places.which) exec_capture_release(e, k), k->which = e->places.which;
  bool captured = k->made && !e->record && !e->file;
  if (!k->made) k->ports = k->on_device = 0;
  RtStatus status = captured ? exec_capture_run(e, error) : run_calls(e, entry, error);
  if (!status) status = ask_indices(e, error);
  if (!status && !captured && !e->file) status = exec_tune(e, error);
  if (!status && !e->file) k->made = k->wanted; /* the host moves data of files in every request */
  return status;
}

static void forget_computed(Executor *e) {
  memset(e->known, 0, e->p->n_symbols * sizeof *e->known);
  e->n_known = 0;
}

RtStatus exec_run(Executor *e, const RequestHead *head, const int64_t *symbols, void *io, size_t io_bytes,
                  RtError *error) {
  const Program *p = e->p;
  uint64_t begin = exec_now();
  if (head->kind == REQUEST_RESET) {
    e->has_states = false;
    return exec_load_trained(e, error);
  }
  if (head->kind == REQUEST_KEEP) return exec_keep(e, error);
  if (head->kind == REQUEST_BACK) return exec_back(e, error);
  if (head->kind == REQUEST_LOOK) return exec_look(e, error);
  if (head->kind == REQUEST_RECORD) return exec_record(e, head->entry, error);
  if (head->kind == REQUEST_RECORDED) return exec_record_end(e, error);
  if (head->kind == REQUEST_SUMS) return RT_OK;
  if (head->kind == REQUEST_JOIN) {
    RtStatus status = entry_file_join(e, error);
    e->failed = e->failed || status;
    return status;
  }
  if (request_is_of_state(head->kind)) return entry_file_state_box(e, head, symbols, io, io_bytes, error);
  if (head->kind != REQUEST_RUN || head->entry >= p->n_entries || head->n_symbols != p->n_symbols)
    return rt_error(error, RT_INTERNAL, "the host sent an unknown request");
  e->io = io;
  forget_computed(e);
  RtStatus status = exec_bind(e, head->entry, symbols, &e->binding, error);
  bool has_io = p->entries[head->entry].n_inputs + p->entries[head->entry].n_outputs > 0;
  if (!status && has_io && io_bytes < e->binding->io.bytes)
    status = rt_error(error, RT_INTERNAL, "the I/O area is too small");
  e->request = head->number;
  if (!status) status = exec_places_open(e, head, io, io_bytes, error);
  if (!status) status = run_schedule(e, head->entry, error);
  status = exec_places_close(e, status, error);
  if (!status) status = param_files_unchanged(e->options.files, RT_FAILED, error);
  e->run_ns = exec_now() - begin;
  e->failed = e->failed || status;
  if (e->record && !status) exec_record_request(e, begin);
  return status;
}

const void *exec_given(const Executor *e, uint32_t kind, size_t *bytes) {
  if (kind == REQUEST_SUMS) return *bytes = e->sums.n * sizeof *e->sums.of, e->sums.of;
  *bytes = e->record ? record_bytes(e->p, e->record->capacity) : 0;
  return e->record;
}

/* Runs a request with a file; the report of the last request remains that of the last one that computed. */
RtStatus exec_run_file(Executor *e, const RequestHead *head, const int64_t *symbols, const RequestFile *file,
                       RtError *error) {
  const Program *p = e->p;
  RecordHead *record = e->record;
  uint64_t classes[PC_COUNT];
  if (!request_has_file(head->kind) || head->entry >= p->n_entries || head->n_symbols != p->n_symbols ||
      !memchr(file->path, 0, sizeof file->path))
    return rt_error(error, RT_INTERNAL, "the host sent an unknown request");
  memcpy(classes, e->class_bytes, sizeof classes);
  e->io = NULL, e->record = NULL;
  bool states = request_is_of_state_file(head->kind);
  forget_computed(e);
  if (head->kind == REQUEST_READ_STATES) e->has_states = false;
  RtStatus status = states ? exec_bind_states(e, head->entry, symbols, &e->binding, error)
                           : exec_bind(e, head->entry, symbols, &e->binding, error);
  if (!status) status = entry_file_open(e, file, head->kind, error);
  e->request = head->number;
  if (!status) status = states ? entry_file_states(e, error) : run_schedule(e, head->entry, error);
  status = entry_file_close(e, status, error);
  if (!status) status = param_files_unchanged(e->options.files, RT_FAILED, error);
  memcpy(e->class_bytes, classes, sizeof classes);
  e->record = record;
  e->failed = e->failed || status;
  return status;
}
