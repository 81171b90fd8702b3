/* runtime/exec/run.c - the interpreter: schedules, bodies, instructions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/box.h"
#include "runtime/exec/internal.h"
#include "runtime/device/gemm_dnnl.h"

RtStatus exec_error(const Executor *e, const ProgramInstr *x, RtStatus status, RtError *error, const char *what) {
  return rt_error(error, status, "%s '%s' on rank %u: %s", program_instr_name(x->kind), program_text(e->p, x->where),
                  e->options.rank, what);
}

/* ---- tensors */

static char *tensor_data(const Executor *e, const ProgramTensor *t) {
  const Binding *b = e->binding;
  uint32_t slot = b->mb % e->p->buffers[t->buffer].slots;
  return b->address[t->buffer] + b->plan.slot_bytes[t->buffer] * slot + b->values[t->offset];
}

View exec_view(const Executor *e, const ProgramInstr *x, uint32_t i) {
  const ProgramTensor *t = &e->p->tensors[program_list(e->p, x->tensors)[i]];
  View v = {.data = tensor_data(e, t), .dtype = (DType)t->dtype, .rank = t->extents.n};
  for (uint32_t d = 0; d < v.rank; d++) v.extents[d] = e->binding->values[program_list(e->p, t->extents)[d]];
  return v;
}

int64_t exec_elements(const View *v) {
  int64_t n = 1;
  for (uint32_t d = 0; d < v->rank; d++) n *= v->extents[d];
  return n;
}

void exec_fill(DType dtype, void *to, int64_t n, double value) {
  size_t size = dtype_bytes(dtype);
  unsigned char element[8] = {0};
  dtype_store_f(dtype, element, value);
  bool zero = true;
  for (size_t i = 0; i < size; i++) zero &= element[i] == 0;
  if (zero) {
    memset(to, 0, (size_t)n * size);
    return;
  }
  for (int64_t i = 0; i < n; i++) memcpy((char *)to + (size_t)i * size, element, size);
}

/* ---- instructions */

void exec_launch(const Executor *e, const ProgramInstr *x, uint32_t first) {
  void *tensors[256];
  int64_t scalars[1024];
  for (uint32_t i = 0; i < x->tensors.n; i++)
    tensors[i] = tensor_data(e, &e->p->tensors[program_list(e->p, x->tensors)[i]]);
  for (uint32_t i = first; i < x->exprs.n; i++) scalars[i - first] = exec_value(e, x, i);
  e->kernels[x->object](tensors, scalars);
}

/* Is the last element a matrix product touches inside its tensor?  Extents and strides are at least 0. */
static bool reaches(const GemmCall *g, const int64_t *step, int64_t rows, int64_t row_step, int64_t columns,
                    int64_t column_step, int64_t elements) {
  __int128 last = (__int128)(rows - 1) * row_step + (__int128)(columns - 1) * column_step;
  for (int i = 0; i < g->loops; i++) last += (__int128)(g->extent[i] - 1) * step[i];
  return last >= elements;
}

static bool gemm_fits(const Executor *e, const ProgramInstr *x, const GemmCall *g) {
  for (uint32_t i = 0; i < x->exprs.n; i++)
    if (exec_value(e, x, i) < 0 || exec_value(e, x, i) > INT64_C(1) << 48) return false;
  bool empty = g->m == 0 || g->n == 0;
  for (int i = 0; i < g->loops; i++) empty |= g->extent[i] == 0;
  View a = exec_view(e, x, 0), b = exec_view(e, x, 1), c = exec_view(e, x, 2);
  if (empty) return true;
  if (reaches(g, g->c_step, g->m, g->c_m, g->n, g->c_n, exec_elements(&c))) return false;
  return g->k == 0 || (!reaches(g, g->a_step, g->m, g->a_m, g->k, g->a_k, exec_elements(&a)) &&
                       !reaches(g, g->b_step, g->k, g->b_k, g->n, g->b_n, exec_elements(&b)));
}

static RtStatus run_gemm(const Executor *e, const ProgramInstr *x, RtError *error) {
  GemmCall g = {.m = exec_value(e, x, 0),
                .n = exec_value(e, x, 1),
                .k = exec_value(e, x, 2),
                .a_m = exec_value(e, x, 3),
                .a_k = exec_value(e, x, 4),
                .b_k = exec_value(e, x, 5),
                .b_n = exec_value(e, x, 6),
                .c_m = exec_value(e, x, 7),
                .c_n = exec_value(e, x, 8),
                .accumulate = exec_value(e, x, 9) != 0,
                .loops = (int)(x->exprs.n - 10) / 4};
  for (int i = 0; i < g.loops; i++) {
    uint32_t at = 10 + 4 * (uint32_t)i;
    g.extent[i] = exec_value(e, x, at);
    g.a_step[i] = exec_value(e, x, at + 1);
    g.b_step[i] = exec_value(e, x, at + 2);
    g.c_step[i] = exec_value(e, x, at + 3);
  }
  if (!gemm_fits(e, x, &g)) return exec_error(e, x, RT_INTERNAL, error, "the matrices reach outside their tensors");
  g.a = (const float *)(const void *)exec_view(e, x, 0).data;
  g.b = (const float *)(const void *)exec_view(e, x, 1).data;
  g.c = (float *)(void *)exec_view(e, x, 2).data;
  RtError inner = {0};
  RtStatus status = gemm_run(&g, &inner);
  return status ? exec_error(e, x, status, error, inner.text) : RT_OK;
}

static RtStatus run_copy(const Executor *e, const ProgramInstr *x, RtError *error) {
  View from = exec_view(e, x, 0), to = exec_view(e, x, 1);
  int64_t extent[PROGRAM_MAX_RANK], start[2][PROGRAM_MAX_RANK];
  for (uint32_t d = 0; d < from.rank; d++) {
    extent[d] = exec_value(e, x, 3 * d);
    start[0][d] = exec_value(e, x, 3 * d + 1);
    start[1][d] = exec_value(e, x, 3 * d + 2);
  }
  if (!box_fits(from.rank, start[0], extent, from.extents) || !box_fits(to.rank, start[1], extent, to.extents))
    return exec_error(e, x, RT_INTERNAL, error, "the box reaches outside a tensor");
  if (from.data == to.data && memcmp(start[0], start[1], from.rank * sizeof start[0][0]) == 0 &&
      memcmp(from.extents, to.extents, from.rank * sizeof from.extents[0]) == 0)
    return RT_OK; /* the same place */
  box_move(from.rank, dtype_bytes(from.dtype), extent, (Box){from.data, from.extents, start[0]},
           (Box){to.data, to.extents, start[1]});
  return RT_OK;
}

/* Remembers which part of an output this rank wrote. */
static RtStatus note_written(WrittenParts *w, uint32_t port, const View *v, const int64_t *start, RtError *error) {
  if (w->n == w->capacity) {
    size_t capacity = w->capacity ? 2 * w->capacity : 16;
    WrittenPart *items = realloc(w->items, capacity * sizeof *items);
    if (!items) return rt_error(error, RT_FAILED, "out of memory");
    w->items = items;
    w->capacity = capacity;
  }
  WrittenPart *part = &w->items[w->n++];
  *part = (WrittenPart){.port = port, .rank = v->rank};
  memcpy(part->start, start, v->rank * sizeof *start);
  memcpy(part->extents, v->extents, v->rank * sizeof *start);
  return RT_OK;
}

/* feed and fetch: between tensor 0 and a port in the I/O area. */
static RtStatus run_port(const Executor *e, const ProgramInstr *x, bool feed, RtError *error) {
  const ProgramEntry *entry = &e->p->entries[e->binding->entry];
  uint32_t port = feed ? x->object : entry->n_inputs + x->object;
  const RequestLayout *io = &e->binding->io;
  View v = exec_view(e, x, 0);
  int64_t start[PROGRAM_MAX_RANK], zero[PROGRAM_MAX_RANK] = {0}, at[PROGRAM_MAX_AXES];
  for (uint32_t d = 0; d < v.rank; d++) start[d] = exec_value(e, x, d);
  if (!box_fits(v.rank, start, v.extents, io->shapes[port].dims))
    return exec_error(e, x, RT_INTERNAL, error, "the part reaches outside the tensor");
  Box whole = {e->io + io->offsets[port], io->shapes[port].dims, start}, mine = {v.data, v.extents, zero};
  memcpy(at, e->coordinates, sizeof at);
  if (e->p->mb_axis != PROGRAM_NONE) at[e->p->mb_axis] = e->binding->mb;
  for (uint32_t a = 0; !feed && a < e->p->n_axes; a++)
    if ((x->mask & (1u << a)) && at[a] != 0) return RT_OK; /* another replica writes it */
  box_move(v.rank, dtype_bytes(v.dtype), v.extents, feed ? whole : mine, feed ? mine : whole);
  return feed || !e->options.written ? RT_OK : note_written(e->options.written, port, &v, start, error);
}

static RtStatus run_load(const Executor *e, const ProgramInstr *x, RtError *error) {
  const ProgramParam *t = &e->p->params[x->object];
  View v = exec_view(e, x, 0);
  int64_t lo[PROGRAM_MAX_RANK];
  for (uint32_t d = 0; d < v.rank; d++) {
    lo[d] = e->binding->values[program_list(e->p, t->interval)[2 * d]];
    int64_t hi = e->binding->values[program_list(e->p, t->interval)[2 * d + 1]];
    if (lo[d] < 0 || hi > e->p->exprs[program_list(e->p, t->dims)[d]].value || hi - lo[d] != v.extents[d])
      return exec_error(e, x, RT_INTERNAL, error, "the tensor has another shape than the weight's part");
  }
  weights_load(e->weights, x->object, lo, v.extents, v.data, exec_beats(e));
  return RT_OK;
}

static RtStatus run_check(const Executor *e, const ProgramInstr *x, RtError *error) {
  int64_t v = exec_value(e, x, 0), lo = exec_value(e, x, 1), hi = exec_value(e, x, 2);
  if (lo <= v && v <= hi) return RT_OK;
  return rt_error(error, RT_BAD_INPUT, "%s: %lld is not in %lld to %lld", program_text(e->p, x->object), (long long)v,
                  (long long)lo, (long long)hi);
}

/* ---- loops: the executor counts itself, so that no round can change how many there are */

/* To the watchdog: the round of the innermost loop, from 1. */
static void tell_place(const Executor *e) {
  uint64_t round = e->n_loops ? (uint64_t)e->loops[e->n_loops - 1].round + 1 : 0;
  if (e->options.place) rank_place_round(e->options.place, round);
}

static void begin_round(const Executor *e, const ProgramInstr *x) {
  memcpy(exec_view(e, x, 0).data, &e->loops[e->n_loops - 1].round, sizeof(int64_t));
  tell_place(e);
}

/* The instruction to go on with: the first of the body, or the one behind the loop. */
static uint32_t run_loop(Executor *e, uint32_t index) {
  const ProgramInstr *x = &e->p->instrs[index];
  int64_t rounds;
  memcpy(&rounds, exec_view(e, x, 1).data, sizeof rounds);
  if (x->exprs.n && rounds > exec_value(e, x, 0)) rounds = exec_value(e, x, 0);
  if (rounds <= 0) return index + x->dim + 1;
  e->loops[e->n_loops].round = 0;
  e->loops[e->n_loops++].rounds = rounds;
  begin_round(e, x);
  return index + 1;
}

static uint32_t run_repeat(Executor *e, uint32_t index) {
  const ProgramInstr *x = &e->p->instrs[index];
  int64_t *round = &e->loops[e->n_loops - 1].round;
  unsigned char again = 1;
  if (x->tensors.n > 1) memcpy(&again, exec_view(e, x, 1).data, 1);
  if (!again || *round + 1 >= e->loops[e->n_loops - 1].rounds) {
    e->n_loops--;
    tell_place(e);
    return index + 1;
  }
  ++*round;
  begin_round(e, x);
  return index - x->dim + 1;
}

/* Runs instruction `index`; *next is the one to go on with. */
static RtStatus run_instr(Executor *e, uint32_t index, uint32_t *next, RtError *error) {
  const ProgramInstr *x = &e->p->instrs[index];
  *next = index + 1;
  if (e->options.place) rank_place_step(e->options.place, exec_step(index, e->binding->mb));
  if (x->guard != PROGRAM_NONE && e->binding->values[x->guard] == 0) return RT_OK;
  switch ((ProgramInstrKind)x->kind) {
    case PI_launch: exec_launch(e, x, 0); return RT_OK;
    case PI_conv: return exec_conv(e, x, error);
    case PI_gemm: return run_gemm(e, x, error);
    case PI_copy: return run_copy(e, x, error);
    case PI_fill: {
      View v = exec_view(e, x, 0);
      exec_fill(v.dtype, v.data, exec_elements(&v), x->value);
      return RT_OK;
    }
    case PI_wait: return exec_wait(e, x, error);
    case PI_feed: return run_port(e, x, true, error);
    case PI_fetch: return run_port(e, x, false, error);
    case PI_load: return run_load(e, x, error);
    case PI_check: return run_check(e, x, error);
    case PI_loop: *next = run_loop(e, index); return RT_OK;
    case PI_repeat: *next = run_repeat(e, index); return RT_OK;
    default: return exec_communicate(e, index, next, error);
  }
}

static RtStatus run_schedule(Executor *e, uint32_t entry, RtError *error) {
  const Program *p = e->p;
  const ProgramSchedule *s = &p->schedules[entry * p->stages + e->stage];
  RtStatus status = RT_OK;
  e->prepared += p->entries[entry].prepare;
  e->n_loops = 0;
  tell_place(e);
  for (uint32_t k = s->calls; !status && k < s->calls + s->n; k++) {
    const ProgramBody *b = &p->bodies[p->calls[k].body];
    status = exec_micro_batch(e, e->binding, p->calls[k].micro_batch, error);
    for (uint32_t i = b->instrs; !status && i < b->instrs + b->n;) status = run_instr(e, i, &i, error);
  }
  return status ? status : exec_wait_all(e, error);
}

RtStatus exec_run(Executor *e, const RequestHead *head, const int64_t *symbols, void *io, size_t io_bytes,
                  RtError *error) {
  const Program *p = e->p;
  uint64_t begin = exec_now();
  if (head->kind == REQUEST_RESET) {
    e->has_states = false;
    return RT_OK;
  }
  if (head->kind != REQUEST_RUN || head->entry >= p->n_entries || head->n_symbols != p->n_symbols)
    return rt_error(error, RT_INTERNAL, "the host sent a request this program does not know");
  RtStatus status = exec_bind(e, head->entry, symbols, &e->binding, error);
  bool has_io = p->entries[head->entry].n_inputs + p->entries[head->entry].n_outputs > 0;
  if (!status && has_io && io_bytes < e->binding->io.bytes)
    status = rt_error(error, RT_INTERNAL, "the I/O area is too small");
  e->io = io;
  e->request = head->number;
  if (!status) status = run_schedule(e, head->entry, error);
  if (!status) status = param_files_unchanged(e->options.files, RT_FAILED, error);
  e->run_ns = exec_now() - begin;
  return status;
}
