/* program/device_calls.c - see device_calls.h. */
#include "program/device_calls.h"

#include <stdlib.h>
#include <string.h>

#include "program/interval.h"

/* ---- making: everything that is independent of sizes */

uint32_t device_call_parts(const Program *p, const ProgramInstr *x, uint32_t exprs[CALL_PARTS]) {
  const uint32_t *t = program_list(p, x->tensors);
  switch ((ProgramInstrKind)x->kind) {
    case PI_all_gather: exprs[0] = program_list(p, p->tensors[t[0]].extents)[x->dim]; return 1;
    case PI_reduce_scatter: exprs[0] = program_list(p, p->tensors[t[1]].extents)[x->dim]; return 1;
    case PI_all_to_all:
      exprs[0] = program_list(p, p->tensors[t[1]].extents)[x->dim];
      exprs[1] = program_list(p, p->tensors[t[0]].extents)[x->dim2];
      return 2;
    case PI_exchange: memcpy(exprs, program_list(p, x->exprs), CALL_PARTS * sizeof *exprs); return CALL_PARTS;
    default: return 0;
  }
}

static uint32_t scalars_of(const Program *p, const ProgramInstr *x) {
  switch ((ProgramInstrKind)x->kind) {
    case PI_launch:
    case PI_copy:
    case PI_pack:
    case PI_feed:
    case PI_fetch:
    case PI_check:
    case PI_loop: return x->exprs.n;
    case PI_conv: return x->exprs.n - PROGRAM_CONV_NUMBERS;
    case PI_fill: return 3;
    case PI_load: return p->params[x->object].dims.n;
    default: return 0;
  }
}

/* The size of a list, in items of each kind. */
typedef struct Counts {
  size_t tensors, words, gemms, convs, comms;
} Counts;

static Counts count(const Program *p, const ProgramBody *b) {
  Counts n = {0};
  for (uint32_t i = b->instrs; i < b->instrs + b->n; i++) {
    const ProgramInstr *x = &p->instrs[i];
    n.tensors += x->tensors.n;
    n.words += scalars_of(p, x);
    for (uint32_t k = 0; k < x->tensors.n; k++) n.words += p->tensors[program_list(p, x->tensors)[k]].extents.n;
    n.gemms += x->kind == PI_gemm;
    n.convs += x->kind == PI_conv;
    n.comms += program_instr_is_comm(x->kind);
  }
  return n;
}

static bool uses(const Program *p, const uint32_t *exprs, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (p->expr_uses[exprs[i]] & PROGRAM_USES_MICRO_BATCH) return true;
  return false;
}

static bool tensor_varies(const Program *p, const ProgramTensor *t) {
  return (p->micro_batches > 1 && p->buffers[t->buffer].slots > 1) || uses(p, &t->offset, 1) ||
         uses(p, program_list(p, t->extents), t->extents.n);
}

static bool varies(const Program *p, const ProgramInstr *x) {
  if (uses(p, program_list(p, x->exprs), x->exprs.n) || (x->guard != PROGRAM_NONE && uses(p, &x->guard, 1)))
    return true;
  if (program_instr_has_grid(x) && uses(p, &x->blocks, 1)) return true;
  for (uint32_t i = 0; i < x->tensors.n; i++)
    if (tensor_varies(p, &p->tensors[program_list(p, x->tensors)[i]])) return true;
  if (x->kind == PI_fetch && p->mb_axis != PROGRAM_NONE && (x->mask >> p->mb_axis & 1)) return true;
  return x->kind == PI_load && uses(p, program_list(p, p->params[x->object].interval), p->params[x->object].interval.n);
}

/* Where the parts of the next record are stored. */
typedef struct Cursor {
  CallTensor *tensors;
  void **data;
  int64_t *words;
  GemmCall *gemm;
  ConvShape *conv;
} Cursor;

static void make_call(DeviceCalls *l, DeviceCall *c, uint32_t instr, uint32_t rank, Cursor *at) {
  const Program *p = l->p;
  const ProgramInstr *x = &p->instrs[instr];
  *c = (DeviceCall){.kind = x->kind,
                    .instr = instr,
                    .object = x->object,
                    .n_tensors = x->tensors.n,
                    .n_scalars = scalars_of(p, x),
                    .varying = varies(p, x),
                    .tensors = at->tensors,
                    .data = at->data,
                    .scalars = at->words,
                    .value = x->value};
  at->tensors += c->n_tensors, at->data += c->n_tensors, at->words += c->n_scalars;
  for (uint32_t i = 0; i < c->n_tensors; i++) {
    uint32_t index = program_list(p, x->tensors)[i];
    const ProgramTensor *t = &p->tensors[index];
    c->tensors[i] = (CallTensor){
        .index = index, .buffer = t->buffer, .dtype = t->dtype, .rank = t->extents.n, .extents = at->words};
    at->words += t->extents.n;
  }
  uint32_t here = (uint32_t)(c - l->items);
  if (x->kind == PI_loop) c->to = here + x->dim + 1;
  if (x->kind == PI_repeat) c->to = here - x->dim + 1;
  if (x->kind == PI_load && x->dim) c->to = here + 2;
  if (x->kind == PI_gemm) c->gemm = at->gemm++;
  if (x->kind == PI_conv) c->conv = at->conv++;
  if (!program_instr_is_comm(x->kind)) return;
  c->comm = &l->comms[l->n_comms];
  *c->comm = (CallComm){.index = l->n_comms++, .members = program_group_of(p, x->object, rank)};
  c->comm->n_parts = device_call_parts(p, x, c->comm->part_exprs);
}

RtStatus device_calls_make(const Program *p, uint32_t body, uint32_t rank, DeviceCalls *l, RtError *error) {
  const ProgramBody *b = &p->bodies[body];
  Counts n = count(p, b);
  *l = (DeviceCalls){.p = p,
                     .body = body,
                     .n = b->n,
                     .items = calloc(b->n + 1u, sizeof *l->items),
                     .varying = calloc(b->n + 1u, sizeof *l->varying),
                     .tensors = calloc(n.tensors + 1, sizeof *l->tensors),
                     .data = calloc(n.tensors + 1, sizeof *l->data),
                     .words = calloc(n.words + 1, sizeof *l->words),
                     .gemms = calloc(n.gemms + 1, sizeof *l->gemms),
                     .convs = calloc(n.convs + 1, sizeof *l->convs),
                     .comms = calloc(n.comms + 1, sizeof *l->comms)};
  if (!l->items || !l->varying || !l->tensors || !l->data || !l->words || !l->gemms || !l->convs || !l->comms)
    return rt_error(error, RT_FAILED, "out of memory");
  Cursor at = {l->tensors, l->data, l->words, l->gemms, l->convs};
  for (uint32_t i = 0; i < b->n; i++) {
    make_call(l, &l->items[i], b->instrs + i, rank, &at);
    if (l->items[i].varying) l->varying[l->n_varying++] = i;
  }
  return RT_OK;
}

void device_calls_free(DeviceCalls *l) {
  free(l->items);
  free(l->varying);
  free(l->tensors);
  free(l->data);
  free(l->words);
  free(l->gemms);
  free(l->convs);
  free(l->comms);
  *l = (DeviceCalls){0};
}

/* ---- numbers */

/* The rank and micro-batch for which `resolve` computes. */
typedef struct Place {
  const Program *p;
  const int64_t *values, *coordinates;
  uint32_t micro_batch;
} Place;

static void resolve_tensor(const Place *k, CallTensor *t) {
  const ProgramTensor *x = &k->p->tensors[t->index];
  int64_t *extents = (int64_t *)(uintptr_t)t->extents; /* storage of the list itself */
  t->offset = k->values[x->offset];
  t->slot = k->micro_batch % k->p->buffers[t->buffer].slots;
  t->elements = 1;
  for (uint32_t d = 0; d < t->rank; d++) {
    extents[d] = k->values[program_list(k->p, x->extents)[d]];
    t->elements = (int64_t)((uint64_t)t->elements * (uint64_t)extents[d]); /* wraps; an overflow fits no buffer */
  }
}

static void resolve_gemm(const Place *k, const DeviceCall *c) {
  const ProgramInstr *x = &k->p->instrs[c->instr];
  const uint32_t *e = program_list(k->p, x->exprs);
  const int64_t *v = k->values;
  GemmCall *g = c->gemm;
  *g = (GemmCall){.operands = (DType)c->tensors[0].dtype,
                  .panels = (DType)c->tensors[1].dtype,
                  .result = (DType)c->tensors[2].dtype,
                  .sums = (DType)x->dim2,
                  .epilogue = program_instr_epilogue(x),
                  .m = v[e[0]],
                  .n = v[e[1]],
                  .k = v[e[2]],
                  .a_m = v[e[3]],
                  .a_k = v[e[4]],
                  .b_k = v[e[5]],
                  .b_n = v[e[6]],
                  .c_m = v[e[7]],
                  .c_n = v[e[8]],
                  .accumulate = v[e[9]] != 0,
                  .tf32 = x->mask & PROGRAM_TF32,
                  .narrow = x->mask & PROGRAM_NARROW,
                  .b_panel = v[e[10]],
                  .loops = (int)(x->exprs.n - PROGRAM_GEMM_NUMBERS) / 4};
  for (int i = 0; i < g->loops; i++) {
    const uint32_t *loop = e + PROGRAM_GEMM_NUMBERS + 4 * i;
    g->extent[i] = v[loop[0]];
    g->a_step[i] = v[loop[1]];
    g->b_step[i] = v[loop[2]];
    g->c_step[i] = v[loop[3]];
  }
}

static void resolve_conv(const Place *k, const uint32_t *e, DType dtype, ConvShape *s) {
  int64_t numbers[PROGRAM_CONV_NUMBERS + 1];
  for (uint32_t i = 0; i < PROGRAM_CONV_NUMBERS; i++) numbers[i] = k->values[e[i]];
  numbers[PROGRAM_CONV_NUMBERS] = dtype;
  memcpy(s, numbers, sizeof numbers);
}

/* Splits the triples (extent, start in 0, start in 1) of each dimension into three lists. */
static void resolve_copy(const Place *k, const uint32_t *e, uint32_t rank, int64_t *scalars) {
  for (uint32_t d = 0; d < rank; d++)
    for (uint32_t i = 0; i < 3; i++) scalars[i * rank + d] = k->values[e[3 * d + i]];
}

/* True if another replica writes the output: the coordinate of one of these axes is not 0 on this rank, in this
 * micro-batch. */
static bool is_elsewhere(const Place *k, uint32_t mask) {
  for (uint32_t a = 0; a < k->p->n_axes; a++)
    if ((mask & (1u << a)) && k->coordinates[a] != 0) return true;
  return false;
}

static void resolve_call(const Place *k, DeviceCall *c) {
  const ProgramInstr *x = &k->p->instrs[c->instr];
  const uint32_t *e = program_list(k->p, x->exprs);
  c->skipped = x->guard != PROGRAM_NONE && k->values[x->guard] == 0;
  c->blocks = program_instr_has_grid(x) ? k->values[x->blocks] : 1;
  for (uint32_t i = 0; i < c->n_tensors; i++) resolve_tensor(k, &c->tensors[i]);
  switch ((ProgramInstrKind)c->kind) {
    case PI_gemm: resolve_gemm(k, c); return;
    case PI_conv: resolve_conv(k, e, (DType)c->tensors[2].dtype, c->conv); break;
    case PI_copy: resolve_copy(k, e, c->tensors[0].rank, c->scalars); return;
    case PI_fill: c->scalars[0] = 1, c->scalars[1] = c->tensors[0].elements, c->scalars[2] = 0; return;
    case PI_load:
      e = program_list(k->p, k->p->params[x->object].interval);
      for (uint32_t d = 0; d < c->n_scalars; d++) c->scalars[d] = k->values[e[2 * d]];
      return;
    case PI_fetch: c->elsewhere = is_elsewhere(k, x->mask); break;
    default: break;
  }
  e += x->exprs.n - c->n_scalars; /* those of a convolution's kernel come last */
  for (uint32_t i = 0; i < c->n_scalars; i++) c->scalars[i] = k->values[e[i]];
}

void device_calls_resolve(DeviceCalls *l, const int64_t *values, const int64_t *coordinates, bool varying) {
  const Program *p = l->p;
  Place k = {p, values, coordinates, p->mb_axis == PROGRAM_NONE ? 0 : (uint32_t)coordinates[p->mb_axis]};
  for (uint32_t i = 0; i < (varying ? l->n_varying : l->n); i++)
    resolve_call(&k, &l->items[varying ? l->varying[i] : i]);
}

static bool is_in_place(const DeviceCall *c) {
  const CallTensor *from = &c->tensors[0], *to = &c->tensors[1];
  size_t bytes = from->rank * sizeof(int64_t);
  return c->data[0] == c->data[1] && memcmp(from->extents, to->extents, bytes) == 0 &&
         memcmp(c->scalars + from->rank, c->scalars + 2 * (size_t)from->rank, bytes) == 0;
}

void device_call_place_gemm(GemmCall *g, void *const *data) {
  g->a = data[0], g->b = data[1], g->c = data[2];
  if (g->epilogue.bias) g->bias = data[3];
  if (g->epilogue.residual) g->residual = data[3 + g->epilogue.bias];
}

void device_calls_place(DeviceCalls *l, char *const *address, const uint64_t *slot_bytes, bool varying) {
  for (uint32_t i = 0; i < (varying ? l->n_varying : l->n); i++) {
    DeviceCall *c = &l->items[varying ? l->varying[i] : i];
    for (uint32_t k = 0; k < c->n_tensors; k++) {
      const CallTensor *t = &c->tensors[k];
      c->data[k] = address[t->buffer] + slot_bytes[t->buffer] * t->slot + t->offset;
    }
    if (c->kind == PI_copy) c->in_place = is_in_place(c);
    if (c->kind == PI_gemm) device_call_place_gemm(c->gemm, c->data);
  }
}

/* ---- blocks of communication
 *
 * A tensor seen along dimension d is `outer` rows of extent * `inner` bytes; a part [lo, lo + n) of d is a block of
 * `outer` rows of n * inner bytes. */

typedef struct Along {
  size_t outer, inner;
  int64_t extent;
} Along;

static Along along(const CallTensor *t, uint32_t dim) {
  Along a = {1, dtype_bytes((DType)t->dtype), t->extents[dim]};
  for (uint32_t d = 0; d < t->rank; d++) {
    if (d < dim) a.outer *= (size_t)t->extents[d];
    if (d > dim) a.inner *= (size_t)t->extents[d];
  }
  return a;
}

static CommBlock part(Along a, int64_t lo, int64_t n) {
  return (CommBlock){(size_t)lo * a.inner, a.outer, (size_t)n * a.inner, (size_t)a.extent * a.inner};
}

static CommBlock whole(const CallTensor *t) {
  return comm_contiguous(0, (size_t)t->elements * dtype_bytes((DType)t->dtype));
}

/* A communication whose blocks are being made; dim and dim2 of its instruction. */
typedef struct Making {
  const CallComm *comm;
  const CallTensor *src, *dst;
  uint32_t dim, dim2, n, place; /* n: members */
} Making;

static int64_t value_of(const Making *k, uint32_t member, uint32_t i) {
  return k->comm->parts[(size_t)member * k->comm->n_parts + i];
}

static bool equal_but(const Making *k, uint32_t d1, uint32_t d2) {
  for (uint32_t d = 0; d < k->src->rank; d++)
    if (d != d1 && d != d2 && k->src->extents[d] != k->dst->extents[d]) return false;
  return true;
}

/* True if value `i` of all members adds up to `extent` and this member's is `mine`. */
static bool adds_up(const Making *k, uint32_t i, int64_t extent, int64_t mine) {
  int64_t sum = 0;
  for (uint32_t m = 0; m < k->n; m++) {
    int64_t n = value_of(k, m, i);
    if (n < 0 || n > extent - sum) return false;
    sum += n;
  }
  return sum == extent && value_of(k, k->place, i) == mine;
}

/* Makes the blocks of the members' consecutive parts of a tensor along dim. */
static void parts_of(const Making *k, const CallTensor *t, uint32_t dim, uint32_t i, CommBlock *blocks) {
  int64_t at = 0;
  for (uint32_t m = 0; m < k->n; m++) {
    blocks[m] = part(along(t, dim), at, value_of(k, m, i));
    at += value_of(k, m, i);
  }
}

static bool all_gather(const Making *k, CommBlock *send, CommBlock *recv) {
  uint32_t d = k->dim;
  if (!equal_but(k, d, d) || !adds_up(k, 0, k->dst->extents[d], k->src->extents[d])) return false;
  for (uint32_t m = 0; m < k->n; m++) send[m] = whole(k->src);
  parts_of(k, k->dst, d, 0, recv);
  return true;
}

static bool reduce_scatter(const Making *k, CommBlock *send, CommBlock *recv) {
  uint32_t d = k->dim;
  if (!equal_but(k, d, d) || !adds_up(k, 0, k->src->extents[d], k->dst->extents[d])) return false;
  parts_of(k, k->src, d, 0, send);
  recv[0] = whole(k->dst);
  return true;
}

static bool all_to_all(const Making *k, CommBlock *send, CommBlock *recv) {
  uint32_t cut = k->dim, join = k->dim2;
  if (!equal_but(k, cut, join) || !adds_up(k, 0, k->src->extents[cut], k->dst->extents[cut]) ||
      !adds_up(k, 1, k->dst->extents[join], k->src->extents[join]))
    return false;
  parts_of(k, k->src, cut, 0, send);
  parts_of(k, k->dst, join, 1, recv);
  return true;
}

/* Computes the interval that a member gives: its own, less that of earlier members.  False if it is not one
 * interval. */
static bool own(const Making *k, uint32_t giver, int64_t *lo, int64_t *hi) {
  *lo = value_of(k, giver, 0);
  *hi = value_of(k, giver, 1);
  for (uint32_t m = 0; m < giver; m++)
    if (!interval_less(lo, hi, value_of(k, m, 0), value_of(k, m, 1))) return false;
  return true;
}

/* Computes the interval that member `giver` gives to `taker`. */
static void given(const Making *k, uint32_t giver, uint32_t taker, int64_t *lo, int64_t *hi) {
  own(k, giver, lo, hi);
  if (value_of(k, taker, 2) > *lo) *lo = value_of(k, taker, 2);
  if (value_of(k, taker, 3) < *hi) *hi = value_of(k, taker, 3);
  if (*hi < *lo) *hi = *lo;
}

static bool intervals_ok(const Making *k) {
  int64_t lo, hi;
  for (uint32_t m = 0; m < k->n; m++) {
    for (uint32_t i = 0; i < CALL_PARTS; i++)
      if (value_of(k, m, i) < -(INT64_C(1) << 60) || value_of(k, m, i) > INT64_C(1) << 60) return false;
    if (value_of(k, m, 1) < value_of(k, m, 0) || value_of(k, m, 3) < value_of(k, m, 2) || !own(k, m, &lo, &hi))
      return false;
  }
  return value_of(k, k->place, 1) - value_of(k, k->place, 0) == k->src->extents[k->dim] &&
         value_of(k, k->place, 3) - value_of(k, k->place, 2) == k->dst->extents[k->dim] && equal_but(k, k->dim, k->dim);
}

static bool exchange(const Making *k, CommBlock *send, CommBlock *recv) {
  if (!intervals_ok(k)) return false;
  for (uint32_t m = 0; m < k->n; m++) {
    int64_t lo, hi;
    given(k, k->place, m, &lo, &hi);
    send[m] = lo < hi ? part(along(k->src, k->dim), lo - value_of(k, k->place, 0), hi - lo) : (CommBlock){0};
    given(k, m, k->place, &lo, &hi);
    recv[m] = lo < hi ? part(along(k->dst, k->dim), lo - value_of(k, k->place, 2), hi - lo) : (CommBlock){0};
  }
  return true;
}

static bool all_reduce(const Making *k, CommBlock *send, CommBlock *recv) {
  if (!equal_but(k, k->src->rank, k->src->rank)) return false;
  send[0] = whole(k->src);
  recv[0] = whole(k->dst);
  return true;
}

static Making making(const DeviceCall *c, const Program *p) {
  const ProgramInstr *x = &p->instrs[c->instr];
  return (Making){.comm = c->comm,
                  .src = &c->tensors[0],
                  .dst = &c->tensors[c->n_tensors - 1],
                  .dim = x->dim,
                  .dim2 = x->dim2,
                  .n = c->comm->members.n,
                  .place = c->comm->members.place};
}

bool device_call_blocks(const Program *p, const DeviceCall *c, CommBlock *send, CommBlock *recv) {
  Making k = making(c, p);
  memset(send, 0, sizeof *send * k.n);
  memset(recv, 0, sizeof *recv * k.n);
  switch ((ProgramInstrKind)c->kind) {
    case PI_all_reduce: return all_reduce(&k, send, recv);
    case PI_all_gather: return all_gather(&k, send, recv);
    case PI_reduce_scatter: return reduce_scatter(&k, send, recv);
    case PI_all_to_all: return all_to_all(&k, send, recv);
    case PI_exchange: return exchange(&k, send, recv);
    case PI_send: send[1] = whole(k.src); return true;
    default: recv[0] = whole(k.dst); return true;
  }
}

/* Finds the first interval from `at` on that any member gives to this one; starts at `end` if none. */
static void next_given(const Making *k, int64_t at, int64_t end, int64_t *first, int64_t *after) {
  *first = *after = end;
  for (uint32_t m = 0; m < k->n; m++) {
    int64_t lo, hi;
    given(k, m, k->place, &lo, &hi);
    if (lo < hi && lo >= at && lo < *first) *first = lo, *after = hi;
  }
}

uint32_t device_call_gaps(const Program *p, const DeviceCall *c, CommBlock *gaps) {
  Making k = making(c, p);
  int64_t begin = value_of(&k, k.place, 2), end = value_of(&k, k.place, 3), lo, hi;
  uint32_t n = 0;
  for (int64_t at = begin; at < end; at = hi) {
    next_given(&k, at, end, &lo, &hi);
    if (lo > at) gaps[n++] = part(along(k.dst, k.dim), at - begin, lo - at);
  }
  return n;
}
