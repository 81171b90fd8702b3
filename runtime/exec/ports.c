/* runtime/exec/ports.c - inputs and outputs that are used in place, in the I/O area.
 *
 * In: the calls of a binding.  Out: per buffer, the input or output that is its memory, and the place in it.  A buffer
 * that one `feed` fills with an input and nothing else writes is read there.  A buffer that a `fetch` copies to an
 * output and nothing writes afterwards is computed there.  Then the copy is skipped; the buffer's place in the arena
 * remains, untouched.  This matters for models whose caches are inputs and outputs.  A part of a port works too if it
 * is contiguous and has the alignment of buffers: some heads of the cache of one sequence.
 *
 * Not done: programs with computed sizes, whose buffers must not move within a request; parts of several runs,
 * micro-batches, feeds and fetches in loops, devices with memory of their own.
 */
#include <stdlib.h>

#include "runtime/exec/internal.h"

typedef struct Use {
  bool fed, fetched;            /* so far */
  bool rewritten, written_late; /* by a second feed or another write; after a fetch */
  BufferPort input, output;
} Use;

static const BufferPort none = {EXEC_NO_PORT, 0};

/* True if the box from `start` is one run of the port's memory.  *at, *n: its first element, and its length. */
static bool is_run(const ProgramShape *port, const int64_t *start, const int64_t *extents, uint64_t *at, uint64_t *n) {
  bool one = true; /* all dimensions so far have one index */
  *at = 0, *n = 1;
  for (int d = 0; d < port->rank; d++) {
    if (!one && (start[d] != 0 || extents[d] != port->dims[d])) return false;
    *at = *at * (uint64_t)port->dims[d] + (uint64_t)start[d];
    *n *= (uint64_t)extents[d];
    one = one && extents[d] == 1;
  }
  return true;
}

/* Returns the place in the port of the call's tensor, which has to be the whole of its buffer.  A part must not share
 * aligned bytes with the next part, which another rank may write. */
static BufferPort place_of(const Binding *b, const DeviceCall *c, uint32_t port) {
  const CallTensor *t = &c->tensors[0];
  const RequestLayout *io = &b->io;
  uint64_t at, n, size = dtype_bytes((DType)t->dtype);
  if (c->varying || c->skipped || c->refused || c->elsewhere || t->offset != 0 || (int)t->rank != io->shapes[port].rank)
    return none;
  if (!is_run(&io->shapes[port], c->scalars, t->extents, &at, &n)) return none;
  bool whole = n * size == io->sizes[port];
  if (!whole && ((at * size) % PROGRAM_ALIGN != 0 || (n * size) % PROGRAM_ALIGN != 0)) return none;
  if (b->plan.slot_bytes[t->buffer] > (n * size + PROGRAM_ALIGN - 1) / PROGRAM_ALIGN * PROGRAM_ALIGN) return none;
  return (BufferPort){port, at * size};
}

static void note_feed(const Binding *b, const DeviceCall *c, bool looped, Use *u) {
  u->rewritten = u->rewritten || u->fed || looped;
  u->written_late = u->written_late || u->fetched;
  u->fed = true;
  u->input = place_of(b, c, c->object);
}

static void note_fetch(const Executor *e, const Binding *b, const DeviceCall *c, bool looped, Use *u) {
  uint32_t port = e->p->entries[b->entry].n_inputs + c->object;
  if (looped) u->written_late = true;
  if (u->output.port == EXEC_NO_PORT) u->output = place_of(b, c, port);
  u->fetched = true;
}

static void note_call(const Executor *e, const Binding *b, const DeviceCall *c, bool looped, Use *uses) {
  const ProgramInstr *x = &e->p->instrs[c->instr];
  if (c->kind == PI_feed) note_feed(b, c, looped, &uses[c->tensors[0].buffer]);
  else if (c->kind == PI_fetch) note_fetch(e, b, c, looped, &uses[c->tensors[0].buffer]);
  else
    for (uint32_t i = 0; i < c->n_tensors; i++) {
      Use *u = &uses[c->tensors[i].buffer];
      if (!program_instr_writes(x, i)) continue;
      u->rewritten = true;
      u->written_late = u->written_late || u->fetched;
    }
}

/* Notes all calls; false if a body is called more than once. */
static bool note_schedule(const Executor *e, const Binding *b, Use *uses) {
  const Program *p = e->p;
  const ProgramSchedule *s = &p->schedules[b->entry * p->stages + e->stage];
  for (uint32_t k = s->calls; k < s->calls + s->n; k++) {
    const DeviceCalls *l = &b->bodies[p->calls[k].body].calls;
    uint32_t loops = 0;
    for (uint32_t other = s->calls; other < k; other++)
      if (p->calls[other].body == p->calls[k].body) return false;
    for (uint32_t i = 0; i < l->n; i++) {
      loops += l->items[i].kind == PI_loop;
      note_call(e, b, &l->items[i], loops > 0, uses);
      loops -= l->items[i].kind == PI_repeat;
    }
  }
  return true;
}

static BufferPort port_of(const Executor *e, const Binding *b, uint32_t buffer, const Use *u) {
  const ProgramBuffer *x = &e->p->buffers[buffer];
  bool own = x->stage == e->stage && x->entry == b->entry && x->slots == 1 &&
             program_class_space(x->class_) == SPACE_ARENA && b->plan.slot_bytes[buffer] > 0;
  if (!own) return none;
  if (u->fed && !u->rewritten) return u->input;
  return u->written_late ? none : u->output;
}

RtStatus exec_ports_find(const Executor *e, Binding *b, RtError *error) {
  const Program *p = e->p;
  Use *uses = calloc(p->n_buffers + 1u, sizeof *uses);
  if (!uses) return rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < p->n_buffers; i++) uses[i].input = uses[i].output = none;
  bool once =
      e->host_memory && p->mb_axis == PROGRAM_NONE && !(p->uses & PROGRAM_USES_COMPUTED) && note_schedule(e, b, uses);
  for (uint32_t i = 0; i < p->n_buffers; i++) b->ports[i] = once ? port_of(e, b, i, &uses[i]) : none;
  free(uses);
  return RT_OK;
}
