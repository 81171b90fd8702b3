/* runtime/exec/comm.c - communication instructions as operations on 2-D strided blocks.
 *
 * A tensor seen along dimension d is `outer` rows of extent * `inner` bytes; a part [lo, lo + n) of d is a block of
 * `outer` rows of n * inner bytes.  What the other members hold follows from their values of the same expressions
 * (CommParts).
 */
#include <string.h>

#include "program/interval.h"
#include "program/traffic.h"
#include "runtime/exec/internal.h"

uint32_t exec_part_exprs(const Program *p, const ProgramInstr *x, uint32_t exprs[4]) {
  const uint32_t *t = program_list(p, x->tensors);
  switch ((ProgramInstrKind)x->kind) {
    case PI_all_gather: exprs[0] = program_list(p, p->tensors[t[0]].extents)[x->dim]; return 1;
    case PI_reduce_scatter: exprs[0] = program_list(p, p->tensors[t[1]].extents)[x->dim]; return 1;
    case PI_all_to_all:
      exprs[0] = program_list(p, p->tensors[t[1]].extents)[x->dim];
      exprs[1] = program_list(p, p->tensors[t[0]].extents)[x->dim2];
      return 2;
    case PI_exchange: memcpy(exprs, program_list(p, x->exprs), 4 * sizeof *exprs); return 4;
    default: return 0;
  }
}

/* ---- blocks */

/* A tensor along one dimension; bytes. */
typedef struct Along {
  size_t outer, inner;
  int64_t extent;
} Along;

static Along along(const View *v, uint32_t dim) {
  Along a = {1, dtype_bytes(v->dtype), v->extents[dim]};
  for (uint32_t d = 0; d < v->rank; d++) {
    if (d < dim) a.outer *= (size_t)v->extents[d];
    if (d > dim) a.inner *= (size_t)v->extents[d];
  }
  return a;
}

static CommBlock part(Along a, int64_t lo, int64_t n) {
  return (CommBlock){(size_t)lo * a.inner, a.outer, (size_t)n * a.inner, (size_t)a.extent * a.inner};
}

static CommBlock whole(const View *v) { return comm_contiguous(0, (size_t)exec_elements(v) * dtype_bytes(v->dtype)); }

/* One instruction while its operation is made. */
typedef struct Making {
  Executor *e;
  const ProgramInstr *x;
  const int64_t *values; /* [member][per_member] */
  uint32_t members, place, per_member;
  CommBlock *send, *recv;
  RtError *error;
} Making;

static int64_t value_of(const Making *k, uint32_t member, uint32_t i) { return k->values[member * k->per_member + i]; }

static RtStatus mismatch(const Making *k) {
  return exec_error(k->e, k->x, RT_INTERNAL, k->error, "the shapes do not fit together");
}

static bool equal_but(const View *a, const View *b, uint32_t d1, uint32_t d2) {
  for (uint32_t d = 0; d < a->rank; d++)
    if (d != d1 && d != d2 && a->extents[d] != b->extents[d]) return false;
  return true;
}

/* Do the members' values number i add up to `extent`, and is this member's one `mine`? */
static bool adds_up(const Making *k, uint32_t i, int64_t extent, int64_t mine) {
  int64_t sum = 0;
  for (uint32_t m = 0; m < k->members; m++) {
    int64_t n = value_of(k, m, i);
    if (n < 0 || n > extent - sum) return false;
    sum += n;
  }
  return sum == extent && value_of(k, k->place, i) == mine;
}

static RtStatus make_all_gather(Making *k, const View *src, const View *dst) {
  uint32_t d = k->x->dim;
  if (!equal_but(src, dst, d, d) || !adds_up(k, 0, dst->extents[d], src->extents[d])) return mismatch(k);
  int64_t at = 0;
  for (uint32_t m = 0; m < k->members; m++) {
    k->send[m] = whole(src);
    k->recv[m] = part(along(dst, d), at, value_of(k, m, 0));
    at += value_of(k, m, 0);
  }
  return RT_OK;
}

static RtStatus make_reduce_scatter(Making *k, const View *src, const View *dst) {
  uint32_t d = k->x->dim;
  if (!equal_but(src, dst, d, d) || !adds_up(k, 0, src->extents[d], dst->extents[d])) return mismatch(k);
  int64_t at = 0;
  for (uint32_t m = 0; m < k->members; m++) {
    k->send[m] = part(along(src, d), at, value_of(k, m, 0));
    at += value_of(k, m, 0);
  }
  k->recv[0] = whole(dst);
  return RT_OK;
}

static RtStatus make_all_to_all(Making *k, const View *src, const View *dst) {
  uint32_t cut = k->x->dim, join = k->x->dim2;
  if (!equal_but(src, dst, cut, join) || !adds_up(k, 0, src->extents[cut], dst->extents[cut]) ||
      !adds_up(k, 1, dst->extents[join], src->extents[join]))
    return mismatch(k);
  int64_t cut_at = 0, join_at = 0;
  for (uint32_t m = 0; m < k->members; m++) {
    k->send[m] = part(along(src, cut), cut_at, value_of(k, m, 0));
    k->recv[m] = part(along(dst, join), join_at, value_of(k, m, 1));
    cut_at += value_of(k, m, 0);
    join_at += value_of(k, m, 1);
  }
  return RT_OK;
}

/* What is a member's to give: its interval, less what earlier members hold.  False when that is not one interval. */
static bool own(const Making *k, uint32_t giver, int64_t *lo, int64_t *hi) {
  *lo = value_of(k, giver, 0);
  *hi = value_of(k, giver, 1);
  for (uint32_t m = 0; m < giver; m++)
    if (!interval_less(lo, hi, value_of(k, m, 0), value_of(k, m, 1))) return false;
  return true;
}

/* What member `giver` gives to `taker`. */
static void given(const Making *k, uint32_t giver, uint32_t taker, int64_t *lo, int64_t *hi) {
  own(k, giver, lo, hi);
  if (value_of(k, taker, 2) > *lo) *lo = value_of(k, taker, 2);
  if (value_of(k, taker, 3) < *hi) *hi = value_of(k, taker, 3);
  if (*hi < *lo) *hi = *lo;
}

static bool intervals_ok(const Making *k, const View *src, const View *dst) {
  uint32_t d = k->x->dim;
  int64_t lo, hi;
  for (uint32_t m = 0; m < k->members; m++) {
    for (uint32_t i = 0; i < 4; i++)
      if (value_of(k, m, i) < -(INT64_C(1) << 60) || value_of(k, m, i) > INT64_C(1) << 60) return false;
    if (value_of(k, m, 1) < value_of(k, m, 0) || value_of(k, m, 3) < value_of(k, m, 2) || !own(k, m, &lo, &hi))
      return false;
  }
  uint32_t me = k->place;
  return value_of(k, me, 1) - value_of(k, me, 0) == src->extents[d] &&
         value_of(k, me, 3) - value_of(k, me, 2) == dst->extents[d] && equal_but(src, dst, d, d);
}

/* The first thing from `at` on that anybody gives to this member; `end` when there is none. */
static void next_given(const Making *k, int64_t at, int64_t end, int64_t *first, int64_t *after) {
  *first = *after = end;
  for (uint32_t m = 0; m < k->members; m++) {
    int64_t lo, hi;
    given(k, m, k->place, &lo, &hi);
    if (lo < hi && lo >= at && lo < *first) *first = lo, *after = hi;
  }
}

/* Fills what nobody gives. */
static void fill_gaps(const Making *k, const View *dst) {
  Along a = along(dst, k->x->dim);
  int64_t at = value_of(k, k->place, 2), end = value_of(k, k->place, 3), lo, hi;
  while (at < end) {
    next_given(k, at, end, &lo, &hi);
    for (size_t row = 0; row < a.outer && lo > at; row++)
      exec_fill(dst->dtype, dst->data + (row * (size_t)a.extent + (size_t)(at - value_of(k, k->place, 2))) * a.inner,
                (lo - at) * (int64_t)(a.inner / dtype_bytes(dst->dtype)), k->x->value);
    at = hi;
  }
}

static RtStatus make_exchange(Making *k, const View *src, const View *dst) {
  uint32_t d = k->x->dim;
  if (!intervals_ok(k, src, dst)) return mismatch(k);
  for (uint32_t m = 0; m < k->members; m++) {
    int64_t lo, hi;
    given(k, k->place, m, &lo, &hi);
    k->send[m] = lo < hi ? part(along(src, d), lo - value_of(k, k->place, 0), hi - lo) : (CommBlock){0};
    given(k, m, k->place, &lo, &hi);
    k->recv[m] = lo < hi ? part(along(dst, d), lo - value_of(k, k->place, 2), hi - lo) : (CommBlock){0};
  }
  fill_gaps(k, dst);
  return RT_OK;
}

static RtStatus make_all_reduce(Making *k, const View *src, const View *dst) {
  if (!equal_but(src, dst, src->rank, src->rank)) return mismatch(k);
  k->send[0] = whole(src);
  k->recv[0] = whole(dst);
  return RT_OK;
}

static RtStatus make_blocks(Making *k, const View *src, const View *dst) {
  memset(k->send, 0, sizeof *k->send * k->members);
  memset(k->recv, 0, sizeof *k->recv * k->members);
  switch ((ProgramInstrKind)k->x->kind) {
    case PI_all_reduce: return make_all_reduce(k, src, dst);
    case PI_all_gather: return make_all_gather(k, src, dst);
    case PI_reduce_scatter: return make_reduce_scatter(k, src, dst);
    case PI_all_to_all: return make_all_to_all(k, src, dst);
    case PI_exchange: return make_exchange(k, src, dst);
    case PI_send: k->send[1] = whole(src); return RT_OK;
    default: k->recv[0] = whole(src); return RT_OK;
  }
}

/* ---- operations */

static RtStatus make_op(Executor *e, uint32_t index, uint32_t slot, RtError *error) {
  const ProgramInstr *x = &e->p->instrs[index];
  const CommParts *parts = &e->binding->parts[index - e->binding->instr_first];
  uint32_t mb = e->p->uses & PROGRAM_USES_MICRO_BATCH ? e->binding->mb : 0;
  Making k = {.e = e,
              .x = x,
              .members = parts->members,
              .place = parts->place,
              .per_member = parts->per_member,
              .send = e->blocks + (size_t)(2 * slot) * e->group_most,
              .recv = e->blocks + (size_t)(2 * slot + 1) * e->group_most,
              .error = error};
  if (parts->values) k.values = parts->values + (size_t)mb * parts->members * parts->per_member;
  View src = exec_view(e, x, 0), dst = x->tensors.n > 1 ? exec_view(e, x, 1) : src;
  RtStatus status = make_blocks(&k, &src, &dst);
  e->ops[slot] = (CommOp){.kind = traffic_kind(x->kind),
                          .group = e->groups[x->object],
                          .dtype = src.dtype,
                          .reduction = (CommReduction)x->reduction,
                          .src = src.data,
                          .dst = dst.data,
                          .send = k.send,
                          .recv = k.recv};
  bool reduces = x->kind == PI_all_reduce || x->kind == PI_reduce_scatter;
  if (!status && reduces && !comm_reduction_defined((CommReduction)x->reduction, src.dtype))
    return exec_error(e, x, RT_INTERNAL, error, "the reduction is not defined for the type");
  return status;
}

RtStatus exec_communicate(Executor *e, uint32_t index, uint32_t *next, RtError *error) {
  const ProgramInstr *x = &e->p->instrs[index];
  uint32_t n = 0;
  RtStatus status = RT_OK;
  do {
    status = make_op(e, index + n, n, error);
    if (status) return status;
  } while (e->p->instrs[index + n++].together);
  *next = index + n;
  if (!e->options.comm) return exec_error(e, x, RT_INTERNAL, error, "communication in a program without it");
  uint64_t position = e->positions++;
  CommTicket *ticket = &e->window[position % PROGRAM_POSITIONS];
  if (position >= PROGRAM_POSITIONS) status = comm_wait(e->options.comm, *ticket, error);
  if (!status)
    status = comm_enqueue(e->options.comm, exec_key(e->request, e->binding->mb, x->key), e->ops, (int)n, ticket, error);
  bool wait = false;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t event = e->p->instrs[index + i].event;
    if (event == PROGRAM_NONE) wait = true;
    else e->tickets[(size_t)event * e->p->micro_batches + e->binding->mb] = *ticket + 1;
  }
  return !status && wait ? comm_wait(e->options.comm, *ticket, error) : status;
}

RtStatus exec_wait(Executor *e, const ProgramInstr *x, RtError *error) {
  if (e->binding->mb < x->lag) return RT_OK;
  uint64_t *ticket = &e->tickets[(size_t)x->event * e->p->micro_batches + e->binding->mb - x->lag];
  if (*ticket == 0) return exec_error(e, x, RT_INTERNAL, error, "nothing was sent or received for it");
  RtStatus status = comm_wait(e->options.comm, *ticket - 1, error);
  *ticket = 0;
  return status;
}

RtStatus exec_wait_all(Executor *e, RtError *error) {
  uint64_t n = e->positions < PROGRAM_POSITIONS ? e->positions : PROGRAM_POSITIONS;
  for (uint64_t i = e->positions - n; i < e->positions; i++) {
    RtStatus status = comm_wait(e->options.comm, e->window[i % PROGRAM_POSITIONS], error);
    if (status) return status;
  }
  memset(e->tickets, 0, sizeof *e->tickets * e->p->header->n_events * e->p->micro_batches);
  return RT_OK;
}
