/* program/traffic.c - see traffic.h. */
#include "program/traffic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "program/interval.h"
#include "program/values.h"

/* The values of all expressions on all ranks in one micro-batch. */
typedef struct Traffic {
  const Program *p;
  uint32_t entry;
  const int64_t *symbols;
  ProgramValues values;
  uint32_t *partner; /* per instruction: the recv of a send, else NONE */
  uint32_t micro_batch;
  RtError *error;
} Traffic;

/* One instruction on one group. */
typedef struct Meeting {
  const Traffic *t;
  uint32_t instr;
  const ProgramInstr *x;
  ProgramMembers members;
  uint32_t n;
} Meeting;

enum { NO_DIM = PROGRAM_MAX_RANK };

static int64_t value(const Meeting *m, uint32_t member, uint32_t expr) {
  return program_value_of(&m->t->values, program_member(&m->members, member), expr);
}

static const ProgramTensor *tensor(const Meeting *m, uint32_t i) {
  return &m->t->p->tensors[program_list(m->t->p, m->x->tensors)[i]];
}

static int64_t extent(const Meeting *m, uint32_t member, uint32_t i, uint32_t dim) {
  return value(m, member, program_list(m->t->p, tensor(m, i)->extents)[dim]);
}

/* Computes the bytes of a member's tensor i with `instead` for the extent of `dim`; -1 if that is no size. */
static int64_t bytes_of(const Meeting *m, uint32_t member, uint32_t i, uint32_t dim, int64_t instead) {
  const ProgramTensor *t = tensor(m, i);
  int64_t n = (int64_t)dtype_bytes((DType)t->dtype);
  for (uint32_t d = 0; d < t->extents.n; d++) {
    int64_t e = d == dim ? instead : extent(m, member, i, d);
    if (e < 0 || __builtin_mul_overflow(n, e, &n)) return -1;
  }
  return n;
}

static RtStatus wrong(const Meeting *m, uint32_t member, const char *what, int64_t a, int64_t b) {
  char text[200];
  program_instr_text(m->t->p, m->instr, text, sizeof text);
  return rt_error(m->t->error, RT_INTERNAL,
                  "sizes of communication in %s: rank %u, %s, micro-batch %u: %s (%" PRId64 " and %" PRId64 ")",
                  program_text(m->t->p, m->t->p->entries[m->t->entry].name), program_member(&m->members, member), text,
                  m->t->micro_batch, what, a, b);
}

/* ---- exchange: intervals in global coordinates */

static int64_t bound(const Meeting *m, uint32_t member, uint32_t i) {
  return value(m, member, program_list(m->t->p, m->x->exprs)[i]);
}

typedef struct Interval {
  int64_t lo, hi;
} Interval;

/* Returns the interval that a member gives: its own, less that of earlier members (of several holders the first in
 * group order gives).  If this is not one interval, the executor refuses it: a check here would compare all pairs of
 * members. */
static Interval own(const Meeting *m, uint32_t giver) {
  Interval i = {bound(m, giver, 0), bound(m, giver, 1)};
  for (uint32_t k = 0; k < giver; k++) interval_less(&i.lo, &i.hi, bound(m, k, 0), bound(m, k, 1));
  return i;
}

/* Returns how much of the interval that `taker` wants is in `i`. */
static int64_t overlap(const Meeting *m, Interval i, uint32_t taker) {
  if (bound(m, taker, 2) > i.lo) i.lo = bound(m, taker, 2);
  if (bound(m, taker, 3) < i.hi) i.hi = bound(m, taker, 3);
  return i.hi > i.lo ? i.hi - i.lo : 0;
}

/* ---- one message */

/* Returns the bytes that member i sends to member j; not for an exchange. */
static int64_t given(const Meeting *m, uint32_t i, uint32_t j) {
  bool parts = m->x->kind == PI_reduce_scatter || m->x->kind == PI_all_to_all;
  return parts ? bytes_of(m, i, 0, m->x->dim, extent(m, j, 1, m->x->dim)) : bytes_of(m, i, 0, NO_DIM, 0);
}

/* Checks that the members' extents of tensor i along dim add up to every member's extent of the other tensor. */
static RtStatus parts_ok(const Meeting *m, uint32_t i, uint32_t dim) {
  int64_t sum = 0;
  for (uint32_t k = 0; k < m->n; k++)
    if (__builtin_add_overflow(sum, extent(m, k, i, dim), &sum)) return wrong(m, k, "a size is too large", sum, 0);
  for (uint32_t k = 0; k < m->n; k++)
    if (extent(m, k, 1 - i, dim) != sum)
      return wrong(m, k, "the parts do not make up the whole", sum, extent(m, k, 1 - i, dim));
  return RT_OK;
}

static RtStatus intervals_ok(const Meeting *m) {
  uint32_t d = m->x->dim;
  for (uint32_t k = 0; k < m->n; k++)
    for (uint32_t i = 0; i < 2; i++) {
      int64_t size;
      if (__builtin_sub_overflow(bound(m, k, 2 * i + 1), bound(m, k, 2 * i), &size) || size != extent(m, k, i, d))
        return wrong(m, k, "a tensor is not as large as its interval", bound(m, k, 2 * i + 1), bound(m, k, 2 * i));
    }
  return RT_OK;
}

/* ---- all messages of a meeting */

/* True if messages are split or joined along this dimension of the tensors. */
static bool along(const Meeting *m, uint32_t d) {
  int dims = program_comm_dims(program_instr_comm(m->x->kind));
  return (dims > 0 && d == m->x->dim) || (dims > 1 && d == m->x->dim2);
}

/* Returns the unit of all messages: the bytes of a member's tensor i over the dimensions along which nothing is split
 * or joined; -1 if the whole tensor has no size.  `moves`: the remaining dimensions have elements. */
static int64_t unit(const Meeting *m, uint32_t member, uint32_t i, bool *moves) {
  int64_t n = (int64_t)dtype_bytes((DType)tensor(m, i)->dtype), whole = n;
  *moves = true;
  for (uint32_t d = 0; d < tensor(m, i)->extents.n; d++) {
    int64_t e = extent(m, member, i, d);
    if (e < 0 || __builtin_mul_overflow(whole, e > 1 ? e : 1, &whole)) return -1;
    if (along(m, d)) *moves = *moves && e > 0;
    else n *= e; /* at most `whole` */
  }
  return n;
}

/* Checks that the messages of all pairs agree.  Parts and intervals are known to fit, so they agree if all members that
 * send or receive anything have the same unit: this compares members, not pairs. */
static RtStatus messages_ok(const Meeting *m) {
  int64_t common = -1;
  for (uint32_t k = 0; k < m->n; k++)
    for (uint32_t i = 0; i < 2; i++) {
      bool moves;
      int64_t bytes = unit(m, k, i, &moves);
      if (bytes < 0) return wrong(m, k, "a size is too large", bytes, 0);
      if (!moves) continue;
      if (common < 0) common = bytes;
      if (bytes != common) return wrong(m, k, "sender and receiver differ in bytes", common, bytes);
    }
  return RT_OK;
}

static RtStatus meeting_ok(const Meeting *m) {
  RtStatus status = RT_OK;
  if (m->x->kind == PI_all_gather) status = parts_ok(m, 0, m->x->dim);
  if (m->x->kind == PI_reduce_scatter || m->x->kind == PI_all_to_all) status = parts_ok(m, 1, m->x->dim);
  if (!status && m->x->kind == PI_all_to_all) status = parts_ok(m, 0, m->x->dim2);
  if (!status && m->x->kind == PI_exchange) status = intervals_ok(m);
  return status ? status : messages_ok(m);
}

/* ---- walks */

static bool meeting_of(const Traffic *t, uint32_t instr, uint32_t rank, Meeting *m, uint32_t *place) {
  *m = (Meeting){.t = t, .instr = instr, .x = &t->p->instrs[instr]};
  m->members = program_group_of(t->p, m->x->object, rank);
  m->n = m->members.n;
  *place = m->members.place;
  return m->n > 0;
}

/* A send or recv. */
typedef struct End {
  uint32_t group, key;
  bool sends;
  uint32_t instr;
} End;

/* Sorts the ends of one message side by side, the recv first. */
static int by_message(const void *x, const void *y) {
  const End *a = x, *b = y;
  if (a->group != b->group) return a->group < b->group ? -1 : 1;
  if (a->key != b->key) return a->key < b->key ? -1 : 1;
  if (a->sends != b->sends) return a->sends ? 1 : -1;
  return a->instr < b->instr ? -1 : a->instr > b->instr;
}

/* Finds the recv of every send: the same key on the same group.  False if out of memory. */
static bool find_partners(Traffic *t) {
  const Program *p = t->p;
  End *ends = malloc(sizeof *ends * (p->n_instrs + 1u));
  const End *recv = NULL;
  uint32_t n = 0;
  for (uint32_t i = 0; ends && i < p->n_instrs; i++) {
    const ProgramInstr *x = &p->instrs[i];
    t->partner[i] = PROGRAM_NONE;
    if (x->kind == PI_send || x->kind == PI_recv) ends[n++] = (End){x->object, x->key, x->kind == PI_send, i};
  }
  if (ends) qsort(ends, n, sizeof *ends, by_message);
  for (uint32_t k = 0; k < n; k++) {
    if (!ends[k].sends) recv = &ends[k];
    else if (recv && recv->group == ends[k].group && recv->key == ends[k].key) t->partner[ends[k].instr] = recv->instr;
  }
  free(ends);
  return ends != NULL;
}

static RtStatus send_ok(const Traffic *t, uint32_t instr, uint32_t rank) {
  Meeting m, other;
  uint32_t place;
  if (!meeting_of(t, instr, rank, &m, &place)) return RT_OK;
  if (t->partner[instr] == PROGRAM_NONE) return wrong(&m, 0, "no stage receives it", 0, 0);
  meeting_of(t, t->partner[instr], rank, &other, &place);
  int64_t a = bytes_of(&m, 0, 0, NO_DIM, 0), b = bytes_of(&other, 1, 0, NO_DIM, 0);
  if (a < 0 || a != b) return wrong(&m, 0, "sender and receiver differ in bytes", a, b);
  if (tensor(&m, 0)->dtype == tensor(&other, 0)->dtype) return RT_OK;
  return wrong(&m, 0, "sender and receiver differ in element type", tensor(&m, 0)->dtype, tensor(&other, 0)->dtype);
}

static RtStatus check_instr(const Traffic *t, uint32_t instr, uint32_t rank) {
  const ProgramInstr *x = &t->p->instrs[instr];
  Meeting m;
  uint32_t place;
  if (!program_instr_is_comm(x->kind) || x->kind == PI_recv) return RT_OK;
  if (x->kind == PI_send) return send_ok(t, instr, rank);
  return meeting_of(t, instr, rank, &m, &place) && place == 0 ? meeting_ok(&m) : RT_OK;
}

static void add_instr(const Traffic *t, uint32_t instr, uint32_t rank, uint64_t rounds, uint64_t *sent) {
  const ProgramInstr *x = &t->p->instrs[instr];
  Meeting m;
  uint32_t place;
  if (!program_instr_is_comm(x->kind) || x->kind == PI_recv || !meeting_of(t, instr, rank, &m, &place)) return;
  uint64_t *total = &sent[program_instr_comm(x->kind)];
  if (x->kind == PI_all_reduce) {
    *total += rounds * program_comm_all_reduce_sent((size_t)given(&m, place, 0),
                                                    dtype_bytes((DType)tensor(&m, 0)->dtype), (int)m.n, (int)place);
    return;
  }
  bool exchange = x->kind == PI_exchange;
  Interval gives = exchange ? own(&m, place) : (Interval){0};
  for (uint32_t j = 0; j < m.n; j++) {
    if (j == place) continue;
    *total +=
        rounds * (uint64_t)(exchange ? bytes_of(&m, place, 0, x->dim, overlap(&m, gives, j)) : given(&m, place, j));
  }
}

/* Returns the most rounds of a loop on a rank; 1 if it has no limit. */
static uint64_t most_rounds(const Traffic *t, const ProgramInstr *x, uint32_t rank) {
  if (x->exprs.n == 0) return 1;
  int64_t n = program_value_of(&t->values, rank, program_list(t->p, x->exprs)[0]);
  return n > 0 ? (uint64_t)n : 0;
}

static RtStatus visit_body(const Traffic *t, const ProgramBody *b, uint32_t rank, uint64_t *sent) {
  uint64_t rounds[PROGRAM_MAX_LOOPS + 1] = {1}; /* product of the rounds of all enclosing loops */
  uint32_t depth = 0;
  for (uint32_t i = b->instrs; i < b->instrs + b->n; i++) {
    const ProgramInstr *x = &t->p->instrs[i];
    if (x->kind == PI_loop) rounds[depth + 1] = rounds[depth] * most_rounds(t, x, rank), depth++;
    if (x->kind == PI_repeat) depth--;
    RtStatus status = sent ? RT_OK : check_instr(t, i, rank);
    if (status) return status;
    if (sent) add_instr(t, i, rank, rounds[depth], sent);
  }
  return RT_OK;
}

/* Checks every call of `micro_batch` on the ranks [first, end). */
static RtStatus each(const Traffic *t, uint32_t first, uint32_t end, uint64_t *sent) {
  const Program *p = t->p;
  for (uint32_t r = first; r < end; r++) {
    const ProgramSchedule *s = &p->schedules[t->entry * p->stages + program_stage(p, r)];
    for (uint32_t k = s->calls; k < s->calls + s->n; k++) {
      const ProgramBody *b = &p->bodies[p->calls[k].body];
      RtStatus status = p->calls[k].micro_batch == t->micro_batch ? visit_body(t, b, r, sent) : RT_OK;
      if (status) return status;
    }
  }
  return RT_OK;
}

static RtStatus walk(const Program *p, uint32_t entry, const int64_t *symbols, uint32_t first, uint32_t end,
                     uint64_t *sent, RtError *error) {
  Traffic t = {.p = p, .entry = entry, .symbols = symbols, .error = error};
  t.partner = calloc(p->n_instrs + 1u, sizeof *t.partner);
  RtStatus status = program_values_open(p, &t.values, error);
  if (!status && !(t.partner && find_partners(&t))) status = rt_error(error, RT_FAILED, "out of memory");
  bool all = sent || p->uses & PROGRAM_USES_MICRO_BATCH; /* otherwise all micro-batches have the same sizes */
  for (uint32_t mb = 0; mb < (all ? p->micro_batches : 1) && !status; mb++) {
    t.micro_batch = mb;
    status = program_values_bind(&t.values, symbols, mb, error);
    if (!status) status = each(&t, first, end, sent);
  }
  program_values_close(&t.values);
  free(t.partner);
  return status;
}

/* Marks the expressions that are extents of tensors; NULL if out of memory. */
static bool *extents_of(const Program *p) {
  bool *used = calloc(p->n_exprs + 1u, sizeof *used);
  for (uint32_t i = 0; used && i < p->n_tensors; i++)
    for (uint32_t d = 0; d < p->tensors[i].extents.n; d++) used[program_list(p, p->tensors[i].extents)[d]] = true;
  return used;
}

bool traffic_has_sizes(const Program *p, const int64_t *symbols) {
  ProgramValues values;
  bool *used = extents_of(p), all = p->uses & PROGRAM_USES_MICRO_BATCH;
  bool ok = program_values_open(p, &values, NULL) == RT_OK && used;
  for (uint32_t mb = 0; mb < (all ? p->micro_batches : 1) && ok; mb++) {
    ok = program_values_bind(&values, symbols, mb, NULL) == RT_OK;
    for (uint32_t e = 0; e < p->n_exprs && ok; e++) {
      uint32_t ranks = values.column[e] == PROGRAM_NONE ? 1 : p->ranks;
      for (uint32_t r = 0; used[e] && r < ranks && ok; r++) ok = program_value_of(&values, r, e) >= 0;
    }
  }
  program_values_close(&values);
  free(used);
  return ok;
}

RtStatus traffic_check(const Program *p, uint32_t entry, const int64_t *symbols, RtError *error) {
  return walk(p, entry, symbols, 0, p->ranks, NULL, error);
}

RtStatus traffic_sent(const Program *p, uint32_t entry, uint32_t rank, const int64_t *symbols,
                      uint64_t sent[COMM_KIND_COUNT], RtError *error) {
  RtStatus status = traffic_check(p, entry, symbols, error);
  return status ? status : walk(p, entry, symbols, rank, rank + 1, sent, error);
}
