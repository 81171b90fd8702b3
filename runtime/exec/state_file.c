/* runtime/exec/state_file.c - states as tensors of a safetensors file, and boxes of them in the I/O area
 * (entry_file.h).
 *
 * A rank has, per state of its stage, the elements of an interval; if the micro-batches share the state, one part per
 * slot.  Several ranks may have the same part: the first of them in the stage writes it, all read it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/dtype.h"
#include "program/box.h"
#include "runtime/exec/entry_file.h"

static bool is_away(const Executor *e, const ProgramState *s) { return e->p->buffers[s->buffer].class_ == PC_away; }

/* True if the part is in the host's memory, to be used there. */
static bool is_here(const Executor *e, const ProgramState *s) { return e->host_memory && !is_away(e, s); }

static RtStatus take(const Executor *e, const ProgramState *s, void *part, const char *at, uint64_t bytes,
                     RtError *error) {
  return is_away(e, s) ? exec_away_read(e, part, at, bytes, error) : e->ops->read(e->device, part, at, bytes, error);
}

static RtStatus put(const Executor *e, const ProgramState *s, char *at, const void *part, uint64_t bytes,
                    RtError *error) {
  return is_away(e, s) ? exec_away_write(e, at, part, bytes, error) : e->ops->upload(e->device, at, part, bytes, error);
}

static RtStatus move_bytes(const Executor *e, const ProgramState *s, const int64_t *lo, const int64_t *extent, char *at,
                           uint64_t bytes, RtError *error) {
  const char *name = program_text(e->p, s->name);
  if (is_here(e, s)) return entry_file_move(e, name, lo, extent, at, error);
  char *part = malloc(bytes + 1);
  if (!part) return rt_error(error, RT_FAILED, "out of memory: %llu bytes of a state", (unsigned long long)bytes);
  RtStatus status = entry_file_writes(e) ? take(e, s, part, at, bytes, error) : RT_OK;
  if (!status) status = entry_file_move(e, name, lo, extent, part, error);
  if (!status && !entry_file_writes(e)) status = put(e, s, at, part, bytes, error);
  free(part);
  return status;
}

/* True if values leave the states. */
static bool reads(const Executor *e) { return e->box.what ? e->box.reads : entry_file_writes(e); }

/* Moves what the part and the wanted box have in common; `part` is in the host's memory. */
static void move_common(const Executor *e, const ProgramState *s, const int64_t *lo, const int64_t *extent,
                        char *part) {
  const RequestState *w = e->box.what;
  int64_t from[PROGRAM_MAX_RANK], in_part[PROGRAM_MAX_RANK], n[PROGRAM_MAX_RANK];
  for (uint32_t d = 0; d < s->dims.n; d++) {
    int64_t begin = lo[d] > w->start[d] ? lo[d] : w->start[d];
    int64_t part_end = lo[d] + extent[d], box_end = w->start[d] + w->extent[d];
    int64_t end = part_end < box_end ? part_end : box_end;
    if (end <= begin) return;
    n[d] = end - begin, from[d] = begin - w->start[d], in_part[d] = begin - lo[d];
  }
  Box box = {e->box.values, w->extent, from}, mine = {part, extent, in_part};
  box_move(s->dims.n, dtype_bytes((DType)s->dtype), n, e->box.reads ? mine : box, e->box.reads ? box : mine);
}

static RtStatus move_box(const Executor *e, const ProgramState *s, const int64_t *lo, const int64_t *extent, char *at,
                         uint64_t bytes, RtError *error) {
  if (is_here(e, s)) return move_common(e, s, lo, extent, at), RT_OK;
  char *part = malloc(bytes + 1);
  if (!part) return rt_error(error, RT_FAILED, "out of memory: %llu bytes of a state", (unsigned long long)bytes);
  RtStatus status = take(e, s, part, at, bytes, error);
  if (!status) move_common(e, s, lo, extent, part);
  if (!status && !e->box.reads) status = put(e, s, at, part, bytes, error);
  if (!status && !e->box.reads) status = e->ops->finish(e->device, error);
  free(part);
  return status;
}

/* Moves this rank's part of a state in one slot, for the micro-batch in the binding's values. */
static RtStatus move_slot(const Executor *e, const ProgramState *s, uint32_t slot, RtError *error) {
  const Program *p = e->p;
  const Binding *b = e->binding;
  int64_t lo[PROGRAM_MAX_RANK], extent[PROGRAM_MAX_RANK];
  uint64_t bytes = dtype_bytes((DType)s->dtype), room = b->plan.slot_bytes[s->buffer];
  bool inside = true;
  for (uint32_t d = 0; d < s->dims.n; d++) {
    int64_t hi = b->values[program_list(p, s->interval)[2 * d + 1]];
    lo[d] = b->values[program_list(p, s->interval)[2 * d]];
    extent[d] = hi - lo[d];
    inside = inside && lo[d] >= 0 && hi >= lo[d] && hi <= b->values[program_list(p, s->dims)[d]] &&
             !__builtin_mul_overflow(bytes, (uint64_t)extent[d], &bytes);
  }
  if (!inside || bytes > room)
    return rt_error(error, RT_BAD_INPUT, "damaged program: the part of state '%s' does not fit",
                    program_text(p, s->name));
  if (bytes == 0) return RT_OK;
  char *home = is_away(e, s) ? e->away.at : e->spaces[SPACE_STATE].data;
  char *at = home + b->plan.offsets[s->buffer] + slot * room;
  return e->box.what ? move_box(e, s, lo, extent, at, bytes, error) : move_bytes(e, s, lo, extent, at, bytes, error);
}

static bool equal_part(const Program *p, const ProgramState *s, const int64_t *a, const int64_t *b) {
  for (uint32_t i = 0; i < s->interval.n; i++) {
    uint32_t x = program_list(p, s->interval)[i];
    if (a[x] != b[x]) return false;
  }
  return true;
}

/* Clears the flag of each state whose part an earlier rank of the stage has too. */
static RtStatus find_owned(const Executor *e, uint32_t slot, int64_t *values, bool *owned, RtError *error) {
  const Program *p = e->p;
  RtStatus status = RT_OK;
  for (uint32_t r = e->stage * p->ranks_per_stage; r < e->options.rank && !status; r++) {
    int64_t c[PROGRAM_MAX_AXES];
    program_coordinates(p, r, c);
    if (p->mb_axis != PROGRAM_NONE) c[p->mb_axis] = slot;
    status = program_eval(p, e->binding->symbols, c, values, error);
    for (uint32_t i = 0; i < p->n_states && !status; i++)
      owned[i] = owned[i] && !equal_part(p, &p->states[i], e->binding->values, values);
  }
  return status;
}

static RtStatus move_slots(Executor *e, uint32_t slot, int64_t *values, bool *owned, RtError *error) {
  const Program *p = e->p;
  RtStatus status = exec_micro_batch(e, e->binding, slot, error);
  memset(owned, true, p->n_states);
  if (!status && reads(e)) status = find_owned(e, slot, values, owned, error);
  for (uint32_t i = 0; i < p->n_states && !status; i++) {
    const ProgramState *s = &p->states[i];
    if (e->box.what && i != e->box.what->state) continue;
    if (s->stage == e->stage && slot < p->buffers[s->buffer].slots && owned[i]) status = move_slot(e, s, slot, error);
  }
  return status;
}

RtStatus entry_file_states(Executor *e, RtError *error) {
  const Program *p = e->p;
  uint32_t before = e->binding->mb, slots = 0;
  int64_t *values = malloc(sizeof *values * (p->n_exprs + 1u));
  bool *owned = malloc(p->n_states + 1u);
  RtStatus status = values && owned ? RT_OK : rt_error(error, RT_FAILED, "out of memory");
  for (uint32_t i = 0; i < p->n_states; i++)
    if (p->buffers[p->states[i].buffer].slots > slots) slots = p->buffers[p->states[i].buffer].slots;
  for (uint32_t slot = 0; slot < slots && !status; slot++) status = move_slots(e, slot, values, owned, error);
  if (!status) status = exec_micro_batch(e, e->binding, before, error);
  free(values);
  free(owned);
  return status;
}

/* Sets the box of the current request, if the area has one that fits its state. */
static RtStatus find_box(Executor *e, const RequestHead *head, void *io, size_t io_bytes, RtError *error) {
  const Program *p = e->p;
  const RequestState *w = (const RequestState *)(void *)((char *)io + head->at);
  int64_t dims[PROGRAM_MAX_RANK];
  size_t head_bytes = sizeof *w;
  bool fits = io_bytes >= head_bytes && head->at <= io_bytes - head_bytes && head->at % _Alignof(RequestState) == 0 &&
              w->state < p->n_states;
  if (!fits) return rt_error(error, RT_INTERNAL, "the I/O area has no box of a state");
  const ProgramState *s = &p->states[w->state];
  uint64_t bytes = dtype_bytes((DType)s->dtype);
  for (uint32_t d = 0; d < s->dims.n; d++) {
    dims[d] = e->binding->values[program_list(p, s->dims)[d]];
    fits = fits && w->extent[d] >= 0 && !__builtin_mul_overflow(bytes, (uint64_t)w->extent[d], &bytes);
  }
  if (!fits || !box_fits(s->dims.n, w->start, w->extent, dims) || bytes > io_bytes - head_bytes - head->at)
    return rt_error(error, RT_INTERNAL, "the box of state '%s' does not fit", program_text(p, s->name));
  e->box.what = w;
  e->box.values = (char *)io + head->at + head_bytes;
  e->box.reads = head->kind == REQUEST_GET_STATE;
  return RT_OK;
}

RtStatus entry_file_state_box(Executor *e, const RequestHead *head, const int64_t *symbols, void *io, size_t io_bytes,
                              RtError *error) {
  if (head->entry >= e->p->n_entries || head->n_symbols != e->p->n_symbols || head->at > io_bytes ||
      io_bytes - head->at < sizeof(RequestState))
    return rt_error(error, RT_INTERNAL, "the host sent an unknown request");
  if (((const RequestState *)(void *)((char *)io + head->at))->anew) e->has_states = false;
  RtStatus status = exec_bind_states(e, head->entry, symbols, &e->binding, error);
  if (!status) status = find_box(e, head, io, io_bytes, error);
  if (!status) status = entry_file_states(e, error);
  e->box.what = NULL;
  e->failed = e->failed || status;
  return status;
}
