/* codegen/program_events.c - communication during computation: on devices that have a queue for it, and, for transfers
 * of stages that interleave forward and backward, on all devices (DeviceTraits).  It is issued where its unit stands,
 * directly after its producer (row_work.c), and awaited as late as possible.
 *
 * Waits come before the first instruction that touches memory the communication writes, or writes memory it reads;
 * before a loop begins and a round ends, since an event is awaited in its own round; and at the end of the body.
 * Buffers live until the wait.  Numbers of events are reused after their wait.
 *
 * Without a queue only sums of gradients begin early (ir/legal_comm.h).  An all-reduce is in the place of its operand,
 * so its late wait takes no memory.  A reduce-scatter keeps a whole gradient until its wait, which ZeRO-2 wants to be
 * rid of: few of them are under way at once.
 *
 * If stages interleave, a transfer between them is a body of its own (program_bodies.c), and its event lives from one
 * body to another (D43).  A received value is awaited in the first body that touches it, before the instruction that
 * does.  A sent value is awaited before its next micro-batch is sent, which takes one slot more; the last one ends with
 * the request.  So no stage waits for an operation that another one has not reached yet.
 */
#include "codegen/program_body.h"

static uint32_t buffer_of(const EmitBody *b, uint32_t tensor) { return program_at_tensors(b->e->b, tensor)->buffer; }

static bool under_way(const EmitBody *b, uint32_t event) {
  for (size_t i = 0; i < b->pending.n; i++)
    if (program_at_instrs(b->e->b, b->pending.items[i])->event == event) return true;
  return false;
}

/* True if communication of this body is awaited in another one. */
static bool crosses(const EmitBody *b, uint32_t buffer) {
  const ProgramBuffer *x = program_at_buffers(b->e->b, buffer);
  return b->is_transfer && x->body == PROGRAM_NONE && x->entry == b->entry;
}

static void number(EmitBody *b, ProgramInstr *x, uint32_t event) {
  x->event = event;
  if (event >= b->e->out->events) b->e->out->events = event + 1;
}

void emit_event(EmitBody *b, uint32_t instr) {
  ProgramInstr *x = program_at_instrs(b->e->b, instr);
  uint32_t event = b->transfers ? b->transfers->events : 0;
  uint32_t buffer = buffer_of(b, *program_at_indices(b->e->b, x->tensors.first));
  if (crosses(b, buffer)) {
    number(b, x, (uint32_t)b->transfers->n);
    ARENA_PUSH(b->e->m->arena, b->transfers,
               ((EmitTransfer){buffer, instr, b->part, x->kind == PI_send, x->kind == PI_send}));
    return;
  }
  while (under_way(b, event)) event++;
  number(b, x, event);
  ARENA_PUSH(b->e->m->arena, &b->pending, instr);
}

/* Moves the predicted time of communication, which is the part of it that does not overlap with computation, to the
 * wait for it. */
static void move_time(EmitBody *b, uint32_t from, uint32_t to) {
  ProgramBuilder *pb = b->e->b;
  if (from >= program_count_predicted(pb)) return;
  float *predicted = program_at_predicted(pb, from);
  const double seconds = (double)*predicted;
  *predicted = 0;
  if (seconds > 0) emit_predicted(b, to, seconds);
}

static uint32_t add_wait(EmitBody *b, uint32_t where, uint32_t event, uint32_t lag) {
  ProgramBuilder *pb = b->e->b;
  return program_add_instrs(pb, &(ProgramInstr){.kind = PI_wait,
                                                .where = where,
                                                .object = PROGRAM_NONE,
                                                .guard = PROGRAM_NONE,
                                                .tensors = program_list_of(pb, 0, NULL),
                                                .exprs = program_list_of(pb, 0, NULL),
                                                .event = event,
                                                .lag = lag});
}

void emit_wait_for_sent(EmitBody *b, const char *where, uint32_t tensor) {
  if (crosses(b, buffer_of(b, tensor))) add_wait(b, emit_text(b->e, where), (uint32_t)b->transfers->n, 1);
}

bool emit_sends(const EmitTransfers *t, uint32_t buffer, int part) {
  for (size_t i = 0; i < t->n; i++)
    if (t->items[i].sends && t->items[i].buffer == buffer && t->items[i].part == part) return true;
  return false;
}

/* Waits for a received value.  Bodies are written in the order in which they process a micro-batch. */
static void wait_for_received(EmitBody *b, uint32_t buffer) {
  for (size_t i = 0; b->transfers && i < b->transfers->n; i++) {
    EmitTransfer *t = &b->transfers->items[i];
    if (t->waited || t->buffer != buffer) continue;
    t->waited = true;
    uint32_t at = add_wait(b, program_at_buffers(b->e->b, buffer)->name, (uint32_t)i, 0);
    move_time(b, t->instr, at);
  }
}

/* Waits for pending communication number k, counted from the oldest. */
static void wait_for(EmitBody *b, size_t k) {
  ProgramBuilder *pb = b->e->b;
  const ProgramInstr x = *program_at_instrs(pb, b->pending.items[k]);
  uint32_t at = add_wait(b, x.where, x.event, 0);
  move_time(b, b->pending.items[k], at);
  for (uint32_t t = 0; t < x.tensors.n; t++) {
    ProgramBuffer *buffer = program_at_buffers(pb, buffer_of(b, *program_at_indices(pb, x.tensors.first + t)));
    if (buffer->body == b->body && buffer->last < at - b->start) buffer->last = at - b->start;
  }
  for (b->pending.n--; k < b->pending.n; k++) b->pending.items[k] = b->pending.items[k + 1];
}

/* True if the communication still needs the buffer unchanged. */
static bool needs(const EmitBody *b, uint32_t instr, uint32_t buffer, bool writes) {
  const ProgramInstr *x = program_at_instrs(b->e->b, instr);
  for (uint32_t t = 0; t < x->tensors.n; t++)
    if (buffer_of(b, *program_at_indices(b->e->b, x->tensors.first + t)) == buffer &&
        (writes || program_instr_writes(x, t)))
      return true;
  return false;
}

void emit_limit_scattered(EmitBody *b) {
  enum { MOST = 4 };
  size_t n = 0, oldest = 0;
  for (size_t k = b->pending.n; k-- > 0;)
    if (program_at_instrs(b->e->b, b->pending.items[k])->kind == PI_reduce_scatter) n++, oldest = k;
  if (n >= MOST) wait_for(b, oldest);
}

bool emit_is_sent(const EmitBody *b, Val v) {
  for (size_t k = 0; k < b->pending.n; k++)
    if (needs(b, b->pending.items[k], buffer_of(b, emit_body_tensor(b, v)), true)) return true;
  return false;
}

void emit_waits(EmitBody *b, ProgramInstrKind kind, uint32_t n, const uint32_t *tensors) {
  const ProgramInstr next = {.kind = kind, .tensors.n = n, .dim = b->writes};
  if (kind == PI_loop || kind == PI_repeat || kind == PI_bind) emit_wait_all(b);
  for (uint32_t t = 0; t < n; t++) wait_for_received(b, buffer_of(b, tensors[t]));
  for (size_t k = 0; k < b->pending.n;) {
    bool over = true;
    for (uint32_t t = 0; t < n && over; t++)
      over = !needs(b, b->pending.items[k], buffer_of(b, tensors[t]), program_instr_writes(&next, t));
    if (over) k++;
    else wait_for(b, k);
  }
}

void emit_wait_all(EmitBody *b) {
  while (b->pending.n) wait_for(b, 0);
}
