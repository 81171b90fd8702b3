/* runtime/exec/bind.c - everything that follows from bound symbols: sizes, the memory plan, addresses, the extents of
 * other members.
 *
 * Sizes come from data (the program, the inputs' shapes), so all are checked here: a tensor that would reach outside
 * its buffer is an error before anything runs.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/exec/internal.h"

void exec_coordinates(const Executor *e, uint32_t mb, int64_t coordinates[PROGRAM_MAX_AXES]) {
  memcpy(coordinates, e->coordinates, sizeof e->coordinates);
  if (e->p->mb_axis != PROGRAM_NONE) coordinates[e->p->mb_axis] = mb;
}

RtStatus exec_micro_batch(const Executor *e, Binding *b, uint32_t mb, RtError *error) {
  if (b->mb == mb) return RT_OK;
  b->mb = mb;
  int64_t c[PROGRAM_MAX_AXES];
  exec_coordinates(e, mb, c);
  return program_eval_again(e->p, PROGRAM_USES_MICRO_BATCH, b->symbols, c, b->values, error);
}

/* ---- checks */

/* True if this binding may touch the buffer: it is persistent or belongs to the entry.  Only tensors of such buffers
 * are checked. */
static bool in_binding(const Executor *e, const Binding *b, const ProgramBuffer *buffer) {
  return buffer->stage == e->stage && (buffer->entry == PROGRAM_NONE || buffer->entry == b->entry);
}

static bool tensor_fits(const Executor *e, const Binding *b, const ProgramTensor *t) {
  const ProgramBuffer *buffer = &e->p->buffers[t->buffer];
  int64_t bytes = (int64_t)dtype_bytes((DType)t->dtype), offset = b->values[t->offset];
  bool empty = false;
  if (offset < 0 || offset % bytes) return false;
  for (uint32_t d = 0; d < t->extents.n; d++) {
    int64_t extent = b->values[program_list(e->p, t->extents)[d]];
    if (extent < 0 || __builtin_mul_overflow(bytes, extent > 1 ? extent : 1, &bytes)) return false;
    empty |= extent == 0;
  }
  if (empty) bytes = 0;
  uint64_t room = buffer->class_ == PC_param ? e->capacity[t->buffer] : b->plan.slot_bytes[t->buffer];
  return (uint64_t)offset <= room && (uint64_t)bytes <= room - (uint64_t)offset;
}

/* Marks the expressions that use no computed size that is not set yet. */
static void mark_known(const Executor *e, bool *known) {
  const Program *p = e->p;
  for (uint32_t i = 0; i < p->n_exprs; i++) {
    const ProgramExpr *x = &p->exprs[i];
    known[i] = x->kind <= PX_coordinate || (known[x->a] && known[x->b]);
    if (x->kind == PX_sym) known[i] = !p->symbols[x->a].most || e->known[x->a];
  }
}

static bool negative_extent(const Executor *e, const Binding *b, const ProgramTensor *t) {
  for (uint32_t d = 0; d < t->extents.n; d++)
    if (b->values[program_list(e->p, t->extents)[d]] < 0) return true;
  return false;
}

/* Checks the tensors whose sizes are known, of a program with computed sizes. */
static RtStatus check_known(const Executor *e, const Binding *b, RtError *error) {
  const Program *p = e->p;
  bool *known = malloc(p->n_exprs + 1u);
  RtStatus status = known ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
  if (known) mark_known(e, known);
  for (uint32_t i = 0; !status && i < p->n_tensors; i++) {
    const ProgramTensor *t = &p->tensors[i];
    bool all = in_binding(e, b, &p->buffers[t->buffer]) && known[t->offset];
    for (uint32_t d = 0; d < t->extents.n; d++) all = all && known[program_list(p, t->extents)[d]];
    const char *name = program_text(p, p->buffers[t->buffer].name);
    if (all && negative_extent(e, b, t))
      status = rt_error(error, RT_BAD_INPUT, "'%s' would have a negative size, with the sizes that the model computes",
                        name);
    else if (all && !tensor_fits(e, b, t))
      status = rt_error(error, RT_INTERNAL, "a tensor does not fit into buffer '%s' (rank %u)", name, e->options.rank);
  }
  free(known);
  return status;
}

static RtStatus check_tensors(const Executor *e, const Binding *b, RtError *error) {
  const Program *p = e->p;
  if (p->uses & PROGRAM_USES_COMPUTED) return check_known(e, b, error);
  for (uint32_t i = 0; i < p->n_tensors; i++) {
    const ProgramTensor *t = &p->tensors[i];
    if (in_binding(e, b, &p->buffers[t->buffer]) && !tensor_fits(e, b, t))
      return rt_error(error, RT_INTERNAL, "a tensor does not fit into buffer '%s' (rank %u, micro-batch %u)",
                      program_text(p, p->buffers[t->buffer].name), e->options.rank, b->mb);
  }
  return RT_OK;
}

/* ---- the other members of groups */

/* Records, for every communication instruction, the extents of the member with these values. */
static void record_parts(const Executor *e, const Binding *b, uint32_t rank, uint32_t mb, const int64_t *values) {
  const Program *p = e->p;
  for (uint32_t i = b->instr_first; i < b->instr_end; i++) {
    const CommParts *parts = &b->parts[i - b->instr_first];
    uint32_t exprs[CALL_PARTS];
    if (!parts->per_member) continue;
    ProgramMembers m = program_group_of(p, p->instrs[i].object, rank);
    if (m.n == 0 || m.first != parts->first) continue;
    device_call_parts(p, &p->instrs[i], exprs);
    for (uint32_t k = 0; k < parts->per_member; k++)
      parts->values[((size_t)mb * m.n + m.place) * parts->per_member + k] = values[exprs[k]];
  }
}

static RtStatus walk_members(const Executor *e, const Binding *b, int64_t *values, RtError *error) {
  const Program *p = e->p;
  uint32_t batches = p->uses & PROGRAM_USES_MICRO_BATCH ? p->micro_batches : 1;
  for (uint32_t r = 0; r < p->ranks_per_stage; r++) {
    int64_t c[PROGRAM_MAX_AXES];
    uint32_t rank = e->stage * p->ranks_per_stage + r;
    program_coordinates(p, rank, c);
    for (uint32_t mb = 0; mb < batches; mb++) {
      if (p->mb_axis != PROGRAM_NONE) c[p->mb_axis] = mb;
      RtStatus status = mb ? program_eval_again(p, PROGRAM_USES_MICRO_BATCH, b->symbols, c, values, error)
                           : program_eval(p, b->symbols, c, values, error);
      if (status) return status;
      record_parts(e, b, rank, mb, values);
    }
  }
  return RT_OK;
}

static RtStatus bind_body_parts(const Executor *e, const Binding *b, const ProgramBody *body, bool *any,
                                RtError *error) {
  const Program *p = e->p;
  uint32_t batches = p->uses & PROGRAM_USES_MICRO_BATCH ? p->micro_batches : 1;
  for (uint32_t i = body->instrs; i < body->instrs + body->n; i++) {
    CommParts *parts = &b->parts[i - b->instr_first];
    uint32_t exprs[CALL_PARTS];
    if (!program_instr_is_comm(p->instrs[i].kind)) continue;
    ProgramMembers m = program_group_of(p, p->instrs[i].object, e->options.rank);
    parts->members = m.n, parts->place = m.place, parts->first = m.first;
    parts->per_member = device_call_parts(p, &p->instrs[i], exprs);
    if (!parts->per_member) continue;
    *any = true;
    parts->values = calloc((size_t)batches * parts->members * parts->per_member, sizeof *parts->values);
    if (!parts->values) return rt_error(error, RT_FAILED, "out of memory");
  }
  return RT_OK;
}

static RtStatus bind_parts(const Executor *e, Binding *b, RtError *error) {
  const Program *p = e->p;
  bool any = false;
  RtStatus status = RT_OK;
  for (uint32_t i = 0; !status && i < p->n_bodies; i++)
    if (p->bodies[i].entry == b->entry && p->bodies[i].stage == e->stage)
      status = bind_body_parts(e, b, &p->bodies[i], &any, error);
  if (status || !any) return status;
  int64_t *values = malloc(sizeof *values * (p->n_exprs + 1u));
  status = values ? walk_members(e, b, values, error) : rt_error(error, RT_FAILED, "out of memory");
  free(values);
  return status;
}

/* ---- state */

/* Fills a state of class away, whose file is all zeros. */
static RtStatus fill_away(const Executor *e, const Binding *b, const ProgramState *s, int64_t n, RtError *error) {
  enum { MOST = 1 << 16 }; /* elements of a piece */
  const size_t each = dtype_bytes((DType)s->dtype);
  if (s->value == 0 || n == 0) return RT_OK;
  char *piece = malloc((size_t)(n < MOST ? n : MOST) * each);
  if (!piece) return rt_error(error, RT_FAILED, "out of memory");
  RtStatus status = exec_fill(e, PROGRAM_NONE, (DType)s->dtype, piece, 1, n < MOST ? n : MOST, 0, s->value, error);
  for (int64_t at = 0; at < n && !status; at += MOST)
    status = exec_away_write(e, e->away.at + b->plan.offsets[s->buffer] + (size_t)at * each, piece,
                             (uint64_t)(n - at < MOST ? n - at : MOST) * each, error);
  free(piece);
  return status;
}

static RtStatus fill_states(Executor *e, const Binding *b, RtError *error) {
  const Program *p = e->p;
  RtStatus status = exec_alloc(e, SPACE_STATE, b->plan.bytes[SPACE_STATE], error);
  if (!status) status = exec_away_open(e, b->plan.bytes[SPACE_AWAY], error);
  exec_capture_moved(e, b, SPACE_STATE);
  for (uint32_t i = 0; !status && i < p->n_states; i++) {
    const ProgramState *s = &p->states[i];
    if (s->stage != e->stage) continue;
    int64_t room =
        (int64_t)(b->plan.slot_bytes[s->buffer] * p->buffers[s->buffer].slots / dtype_bytes((DType)s->dtype));
    status = p->buffers[s->buffer].class_ == PC_away
                 ? fill_away(e, b, s, room, error)
                 : exec_fill(e, PROGRAM_NONE, (DType)s->dtype, e->spaces[SPACE_STATE].data + b->plan.offsets[s->buffer],
                             1, room, 0, s->value, error);
    int64_t *kept = &e->state_values[i * EXEC_STATE_VALUES];
    kept[0] = (int64_t)b->plan.offsets[s->buffer];
    for (uint32_t d = 0; d < s->dims.n; d++) kept[1 + d] = b->values[program_list(p, s->dims)[d]];
  }
  e->has_states = status == RT_OK;
  return status;
}

/* States keep the sizes of their first use until they are reset.  Preparing weights uses no states, and has no sizes
 * for them. */
static RtStatus bind_states(Executor *e, const Binding *b, RtError *error) {
  const Program *p = e->p;
  if (p->n_states == 0 || p->entries[b->entry].prepare) return RT_OK;
  if (!e->has_states) return fill_states(e, b, error);
  for (uint32_t i = 0; i < p->n_states; i++) {
    const ProgramState *s = &p->states[i];
    if (s->stage != e->stage) continue;
    const int64_t *kept = &e->state_values[i * EXEC_STATE_VALUES];
    bool same = kept[0] == (int64_t)b->plan.offsets[s->buffer];
    for (uint32_t d = 0; d < s->dims.n; d++) same &= kept[1 + d] == b->values[program_list(p, s->dims)[d]];
    if (!same)
      return rt_error(error, RT_BAD_INPUT,
                      "state '%s' was made for other sizes by an earlier request; reset the states first",
                      program_text(p, s->name));
  }
  return RT_OK;
}

/* ---- bindings */

static void instr_range(const Program *p, uint32_t entry, uint32_t stage, uint32_t *first, uint32_t *end) {
  *first = UINT32_MAX;
  *end = 0;
  for (uint32_t i = 0; i < p->n_bodies; i++) {
    const ProgramBody *body = &p->bodies[i];
    if (body->entry != entry || body->stage != stage) continue;
    if (body->instrs < *first) *first = body->instrs;
    if (body->instrs + body->n > *end) *end = body->instrs + body->n;
  }
  if (*first > *end) *first = *end = 0;
}

/* Copies the plan of the request that goes on: it is the same for all computed sizes. */
static RtStatus copy_plan(const Executor *e, const MemoryPlan *from, MemoryPlan *to, RtError *error) {
  size_t n = e->p->n_buffers + 1u;
  *to = *from;
  to->offsets = malloc(n * sizeof *to->offsets);
  to->slot_bytes = malloc(n * sizeof *to->slot_bytes);
  if (!to->offsets || !to->slot_bytes) return rt_error(error, RT_FAILED, "out of memory");
  memcpy(to->offsets, from->offsets, (n - 1) * sizeof *to->offsets);
  memcpy(to->slot_bytes, from->slot_bytes, (n - 1) * sizeof *to->slot_bytes);
  return RT_OK;
}

static RtStatus fill_binding(Executor *e, Binding *b, RtError *error) {
  const Program *p = e->p;
  bool goes_on = b->computed > 0;
  RtStatus status = goes_on ? copy_plan(e, &e->binding->plan, &b->plan, error)
                            : memory_plan(p, b->entry, e->stage, b->symbols, &b->plan, error);
  if (!status && e->options.check && !goes_on) status = memory_check(p, b->entry, e->stage, &b->plan, error);
  if (!status) status = program_eval(p, b->symbols, e->coordinates, b->values, error);
  if (!status) status = check_tensors(e, b, error);
  for (uint32_t mb = 1; !status && (p->uses & PROGRAM_USES_MICRO_BATCH) && mb < p->micro_batches; mb++) {
    status = exec_micro_batch(e, b, mb, error);
    if (!status) status = check_tensors(e, b, error);
  }
  if (!status) status = bind_parts(e, b, error);
  if (!status) status = request_layout(p, b->entry, b->symbols, false, &b->io, error);
  if (!status) status = exec_capture_bind(e, b, error);
  if (!status) status = exec_bodies_make(e, b, error);
  return status ? status : exec_ports_find(e, b, error);
}

static RtStatus make_binding(Executor *e, uint32_t entry, const int64_t *symbols, Binding **out, RtError *error) {
  const Program *p = e->p;
  Binding *b = calloc(1, sizeof *b);
  if (!b) return rt_error(error, RT_FAILED, "out of memory");
  b->entry = entry;
  b->computed = e->n_known;
  instr_range(p, entry, e->stage, &b->instr_first, &b->instr_end);
  b->symbols = malloc(sizeof *b->symbols * (p->n_symbols + 1u));
  b->values = calloc(p->n_exprs + 1u, sizeof *b->values);
  b->parts = calloc(b->instr_end - b->instr_first + 1u, sizeof *b->parts);
  b->address = calloc(p->n_buffers + 1u, sizeof *b->address);
  b->ports = calloc(p->n_buffers + 1u, sizeof *b->ports);
  b->bodies = calloc(p->n_bodies + 1u, sizeof *b->bodies);
  RtStatus status = RT_OK;
  if (!b->symbols || !b->values || !b->parts || !b->address || !b->ports || !b->bodies)
    status = rt_error(error, RT_FAILED, "out of memory");
  if (!status && p->n_symbols) memcpy(b->symbols, symbols, sizeof *symbols * p->n_symbols);
  if (!status) status = fill_binding(e, b, error);
  if (status) {
    exec_binding_free(e, b);
    return status;
  }
  *out = b;
  return RT_OK;
}

void exec_binding_free(const Executor *e, Binding *b) {
  if (!b) return;
  exec_capture_release(e, &b->capture);
  free(b->capture.need);
  free(b->capture.after);
  if (b->bodies) exec_bodies_free(e, b);
  for (uint32_t i = 0; b->parts && i < b->instr_end - b->instr_first; i++) free(b->parts[i].values);
  memory_plan_free(&b->plan);
  request_layout_free(&b->io);
  free(b->symbols);
  free(b->values);
  free(b->parts);
  free(b->address);
  free(b->ports);
  free(b);
}

static Binding *find_binding(const Executor *e, uint32_t entry, const int64_t *symbols) {
  for (int i = 0; i < EXEC_BINDINGS; i++) {
    Binding *b = e->bindings[i];
    if (b && b->entry == entry && b->computed == e->n_known &&
        memcmp(b->symbols, symbols, sizeof *symbols * e->p->n_symbols) == 0)
      return b;
  }
  return NULL;
}

RtStatus exec_bind_states(Executor *e, uint32_t entry, const int64_t *symbols, Binding **out, RtError *error) {
  Binding *b = find_binding(e, entry, symbols);
  RtStatus status = RT_OK;
  if (!b) {
    status = make_binding(e, entry, symbols, &b, error);
    if (status) return status;
    if (e->n_known && e->bindings[e->next_binding % EXEC_BINDINGS] == e->binding) e->next_binding++; /* it runs */
    Binding **place = &e->bindings[e->next_binding++ % EXEC_BINDINGS];
    if (*place == e->binding) e->binding = NULL;
    exec_binding_free(e, *place);
    *place = b;
  }
  *out = b;
  return bind_states(e, b, error);
}

RtStatus exec_bind(Executor *e, uint32_t entry, const int64_t *symbols, Binding **out, RtError *error) {
  Binding *b = NULL;
  RtStatus status = exec_bind_states(e, entry, symbols, &b, error);
  if (!status) status = exec_alloc(e, SPACE_ARENA, b->plan.bytes[SPACE_ARENA], error);
  if (!status) status = exec_alloc(e, SPACE_WINDOW, b->plan.bytes[SPACE_WINDOW], error);
  if (status) return status;
  exec_capture_moved(e, b, SPACE_ARENA);
  exec_capture_moved(e, b, SPACE_WINDOW);
  bool moved = e->host_memory && b->area != e->io; /* other devices copy from there, whatever the address */
  bool placed = b->generation != e->generation || moved;
  if (placed) {
    exec_place(e, b);
    status = exec_bodies_place(e, b, error);
  }
  if (!status) status = exec_capture_keep(e, b, placed, error);
  if (status) return status;
  memcpy(e->class_bytes, b->plan.class_bytes, sizeof e->class_bytes);
  *out = b;
  return RT_OK;
}

void exec_place(const Executor *e, Binding *b) {
  const Program *p = e->p;
  static char nothing[PROGRAM_ALIGN] __attribute__((aligned(PROGRAM_ALIGN))); /* address of buffers without bytes */
  for (uint32_t i = 0; i < p->n_buffers; i++) {
    const ProgramBuffer *buffer = &p->buffers[i];
    if (!in_binding(e, b, buffer)) continue;
    char *space = buffer->class_ == PC_away ? e->away.at : e->spaces[program_class_space(buffer->class_)].data;
    const BufferPort *port = &b->ports[i];
    if (port->port != EXEC_NO_PORT && e->io) b->address[i] = e->io + b->io.offsets[port->port] + port->at;
    else if (buffer->class_ == PC_param) b->address[i] = (char *)(uintptr_t)e->mapped[i];
    else b->address[i] = space ? space + b->plan.offsets[i] : nothing;
    if (!b->address[i]) b->address[i] = nothing;
  }
  b->generation = e->generation;
  b->area = e->io;
}
