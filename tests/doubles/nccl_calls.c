/* tests/doubles/nccl_calls.c - the double of NCCL: collectives, messages, groups, as work of streams.
 *
 * A group of calls of one communicator is one work.  The works of a communicator run in the order in which the host
 * began them, whatever their streams; those of all communicators of a process run one at a time, as if each filled the
 * device.  So communicators whose order differs between ranks deadlock, as they may on GPUs.
 *
 * A rank posts its request and its data; when all have, each checks that all requests are equal, takes the data that it
 * needs and leaves.  If they differ, that is a violation and the work never ends.  Sums are made in the order of ranks.
 * A message stays until it is received.
 *
 * A captured work is launched with its graph.  All ranks capture a call or none, and only calls of a kind that was made
 * before without capture: else NCCL would connect ranks while it captures.
 *
 * Calls of a nonblocking communicator may return ncclInProgress: then the work begins only after the host has queried
 * the communicator's state some times. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/doubles/nccl.h"
#include "tests/doubles/reduction.h"

enum { MOST_CALLS = 512 };

typedef enum CallKind { ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER, BROADCAST, REDUCE, SEND, RECEIVE } CallKind;
static const char *const names[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter", "ncclBroadcast",
                                    "ncclReduce",    "ncclSend",      "ncclRecv"};

typedef struct Call {
  BoardCall call; /* root: the peer of a message */
  CUdeviceptr from, to;
} Call;

struct NcclWork {
  DoubleWork work;
  ncclComm_t comm;
  CUstream stream;
  int n;
  Call *calls;
  struct NcclWork *next; /* pending */
};

typedef enum CallStep { CALL_POST, CALL_WAIT, CALL_DONE } CallStep;

typedef struct CallRun {
  CallStep step;
  uint64_t number; /* of the collective, or of the message in its channel */
} CallRun;

/* A launch of a work. */
typedef struct WorkRun {
  uint64_t turn;
  CallRun calls[];
} WorkRun;

static ncclComm_t busy; /* the communicator whose work fills the device */

/* ---- bytes */

static uint64_t unit(const Call *c) { return c->call.count * reduction_bytes((ncclDataType_t)c->call.type); }

static uint64_t given(const ncclComm_t comm, const Call *c) {
  switch ((CallKind)c->call.kind) {
    case REDUCE_SCATTER: return unit(c) * (uint64_t)comm->n;
    case BROADCAST: return comm->rank == c->call.root ? unit(c) : 0;
    case RECEIVE: return 0;
    default: return unit(c);
  }
}

static uint64_t taken(const ncclComm_t comm, const Call *c) {
  switch ((CallKind)c->call.kind) {
    case ALL_GATHER: return unit(c) * (uint64_t)comm->n;
    case REDUCE: return comm->rank == c->call.root ? unit(c) : 0;
    case SEND: return 0;
    default: return unit(c);
  }
}

/* ---- collectives */

static void reduce(ncclComm_t comm, const Call *c, char *to, uint64_t offset) {
  Board *b = comm->board;
  memcpy(to, board_given(b, 0) + offset, unit(c));
  for (int i = 1; i < comm->n; i++)
    reduction_step(to, board_given(b, i) + offset, c->call.count, (ncclDataType_t)c->call.type,
                   (ncclRedOp_t)c->call.op);
}

static void take(ncclComm_t comm, const Call *c, char *to) {
  Board *b = comm->board;
  switch ((CallKind)c->call.kind) {
    case ALL_REDUCE: reduce(comm, c, to, 0); break;
    case REDUCE_SCATTER: reduce(comm, c, to, (uint64_t)comm->rank * unit(c)); break;
    case BROADCAST: memcpy(to, board_given(b, c->call.root), unit(c)); break;
    case REDUCE:
      if (comm->rank == c->call.root) reduce(comm, c, to, 0);
      break;
    case ALL_GATHER:
      for (int i = 0; i < comm->n; i++) memcpy(to + (uint64_t)i * unit(c), board_given(b, i), unit(c));
      break;
    default: break;
  }
}

static bool all_have(const Board *b, int n, bool left, uint64_t number) {
  for (int i = 0; i < n; i++)
    if (atomic_load(left ? &b->members[i].left : &b->members[i].posted) < number) return false;
  return true;
}

static bool all_agree(ncclComm_t comm, const Call *c) {
  for (int i = 0; i < comm->n; i++) {
    const BoardCall *o = &comm->board->members[i].call;
    if (memcmp(o, &c->call, sizeof *o) == 0) continue;
    if (!comm->reported && o->captured != c->call.captured)
      double_violation("NCCL: %s is captured on rank %d and not on rank %d", names[c->call.kind],
                       o->captured ? i : comm->rank, o->captured ? comm->rank : i);
    else if (!comm->reported)
      double_violation("NCCL: rank %d asks for %s of %llu of type %d, rank %d for %s of %llu of type %d", comm->rank,
                       names[c->call.kind], (unsigned long long)c->call.count, c->call.type, i, names[o->kind],
                       (unsigned long long)o->count, o->type);
    comm->reported = true;
    return false;
  }
  return true;
}

static bool collective(ncclComm_t comm, const Call *c, CallRun *r, char *from, char *to) {
  Board *b = comm->board;
  BoardMember *me = &b->members[comm->rank];
  if (r->step == CALL_POST) {
    if (!all_have(b, comm->n, true, r->number)) return false; /* its previous data may still be read */
    memcpy(board_given(b, comm->rank), from, given(comm, c));
    me->call = c->call;
    atomic_store(&me->posted, r->number + 1);
    r->step = CALL_WAIT;
  }
  if (!all_have(b, comm->n, false, r->number + 1) || !all_agree(comm, c)) return false;
  take(comm, c, to);
  atomic_store(&me->left, r->number + 1);
  r->step = CALL_DONE;
  return true;
}

/* ---- messages */

static bool send(ncclComm_t comm, const Call *c, CallRun *r, const char *from) {
  BoardChannel *ch = &comm->board->channels[comm->rank][c->call.root];
  if (r->step == CALL_POST) {
    if (atomic_load(&ch->received) < r->number) return false;
    memcpy(board_message(comm->board, comm->rank, c->call.root), from, unit(c));
    ch->bytes = unit(c), ch->captured = c->call.captured;
    atomic_store(&ch->sent, r->number + 1);
    r->step = CALL_WAIT;
  }
  if (atomic_load(&ch->received) <= r->number) return false;
  r->step = CALL_DONE;
  return true;
}

static bool receive(ncclComm_t comm, const Call *c, CallRun *r, char *to) {
  BoardChannel *ch = &comm->board->channels[c->call.root][comm->rank];
  char *at = board_message(comm->board, c->call.root, comm->rank);
  if (atomic_load(&ch->sent) <= r->number) return false;
  if (ch->bytes != unit(c) || ch->captured != c->call.captured) {
    if (!comm->reported && ch->bytes == unit(c))
      double_violation("NCCL: a message is captured on rank %d and not on rank %d",
                       ch->captured ? c->call.root : comm->rank, ch->captured ? comm->rank : c->call.root);
    else if (!comm->reported)
      double_violation("NCCL: rank %d receives %llu bytes, rank %d sends %llu", comm->rank, (unsigned long long)unit(c),
                       c->call.root, (unsigned long long)ch->bytes);
    comm->reported = true;
    return false;
  }
  memcpy(to, at, unit(c));
  board_forget(comm->board, at, unit(c));
  atomic_store(&ch->received, r->number + 1);
  r->step = CALL_DONE;
  return true;
}

/* ---- works */

static bool is_message(const Call *c) { return c->call.kind == SEND || c->call.kind == RECEIVE; }

static bool run_call(ncclComm_t comm, const Call *c, CallRun *r) {
  uint64_t gives = given(comm, c), takes = taken(comm, c);
  char *from = gives ? double_at(comm->device, c->from, gives, names[c->call.kind]) : NULL;
  char *to = takes ? double_at(comm->device, c->to, takes, names[c->call.kind]) : NULL;
  if ((gives && !from) || (takes && !to)) {
    double_device_error(comm->device, CUDA_ERROR_ILLEGAL_ADDRESS, "%s", names[c->call.kind]);
    return true;
  }
  if (c->call.kind == SEND) return send(comm, c, r, from);
  return c->call.kind == RECEIVE ? receive(comm, c, r, to) : collective(comm, c, r, from, to);
}

static void *work_launch(const DoubleWork *work) {
  const NcclWork *w = (const NcclWork *)work;
  ncclComm_t c = w->comm;
  WorkRun *r = calloc(1, sizeof *r + sizeof *r->calls * (size_t)w->n);
  r->turn = c->launched++;
  for (int i = 0; i < w->n; i++) {
    const BoardCall *x = &w->calls[i].call;
    r->calls[i].number = x->kind == SEND      ? c->sends[x->root]++
                         : x->kind == RECEIVE ? c->receives[x->root]++
                                              : c->collectives++;
  }
  return r;
}

static bool all_done(const NcclWork *w, WorkRun *r) {
  bool waits = false; /* for a collective: later ones have not begun */
  int left = 0;
  for (int i = 0; i < w->n; i++) {
    const Call *c = &w->calls[i];
    if (r->calls[i].step == CALL_DONE || (waits && !is_message(c))) {
      left += r->calls[i].step != CALL_DONE;
      continue;
    }
    if (run_call(w->comm, c, &r->calls[i])) continue;
    left++;
    waits = waits || !is_message(c);
  }
  return left == 0;
}

static bool work_run(const DoubleWork *work, void *state) {
  const NcclWork *w = (const NcclWork *)work;
  WorkRun *r = state;
  if (!w->comm->aborted) {
    if (w->comm->turn != r->turn || (busy && busy != w->comm)) return false;
    busy = w->comm;
    if (!all_done(w, r)) return false;
    w->comm->turn++;
  }
  if (busy == w->comm) busy = NULL;
  free(r);
  return true;
}

static void work_drop(DoubleWork *work) {
  NcclWork *w = (NcclWork *)work;
  nccl_drop(w->comm);
  free(w->calls);
  free(w);
}

static void work_ranges(const DoubleWork *work, DoubleVisit *visit, void *context) {
  const NcclWork *w = (const NcclWork *)work;
  for (int i = 0; i < w->n && !w->comm->aborted; i++) {
    const Call *c = &w->calls[i];
    visit(context, c->from, given(w->comm, c), false);
    visit(context, c->to, taken(w->comm, c), true);
  }
}

static const DoubleWorkKind work_kind = {work_launch, work_run, work_drop, free, work_ranges, false};

bool nccl_has_work(const struct ncclComm *c) { return c->pending || (!c->aborted && c->turn < c->launched); }

/* Adds the work to the stream, or to the graph that is captured there. */
static bool submit(NcclWork *w) {
  bool captured = double_captures(w->stream);
  for (int i = 0; i < w->n; i++) {
    BoardCall *c = &w->calls[i].call;
    int which = c->kind == SEND ? 1 : c->kind == RECEIVE ? 2 : 0, bit = which ? c->root : c->kind;
    c->captured = captured;
    if (captured && !(w->comm->connected[which] >> bit & 1))
      double_violation("NCCL: %s is captured before its first call without capture", names[c->kind]);
    w->comm->connected[which] |= UINT32_C(1) << bit;
  }
  return double_submit(w->stream, &w->work) == CUDA_SUCCESS;
}

static bool is_of(const DoubleWork *w, const void *comm) {
  return w->kind == &work_kind && ((const NcclWork *)w)->comm == comm;
}

void nccl_check_graphs(ncclComm_t c, const char *call) {
  if (double_in_graph(is_of, c)) double_violation("%s: a graph still has calls of the communicator", call);
}

ncclResult_t nccl_begin_pending(ncclComm_t c) {
  while (c->pending) {
    NcclWork *w = c->pending;
    c->pending = w->next;
    if (!submit(w)) return ncclUnhandledCudaError;
  }
  return ncclSuccess;
}

static ncclResult_t begin(NcclWork *w) {
  ncclComm_t c = w->comm;
  if (!c->blocking && (c->pending || double_chance(2))) {
    NcclWork **end = &c->pending;
    while (*end) end = &(*end)->next;
    *end = w, c->looks = (int)(double_random() % 4);
    return c->error = ncclInProgress;
  }
  return submit(w) ? ncclSuccess : ncclUnhandledCudaError;
}

/* ---- groups */

static __thread int depth;
static __thread NcclWork *group; /* one work per communicator, in the order of their first calls */

bool nccl_in_group(void) { return depth > 0; }

static NcclWork *group_work(ncclComm_t c, CUstream s) {
  NcclWork **p = &group;
  for (; *p; p = &(*p)->next)
    if ((*p)->comm == c) {
      if ((*p)->stream != s) double_violation("NCCL: a group uses two streams for one communicator");
      return *p;
    }
  *p = calloc(1, sizeof **p);
  **p = (NcclWork){.work = {&work_kind, "a call of NCCL", c->device, 1, 0}, .comm = c, .stream = s};
  (*p)->calls = calloc(MOST_CALLS, sizeof(Call));
  c->refs++;
  return *p;
}

/* On demand, a group begins after the next one: it is kept, or appended to `group`. */
static bool goes_behind(void) {
  static int64_t seen;
  static __thread NcclWork *kept;
  NcclWork **end = &group;
  if (!group) return false;
  if (double_turn("DOUBLES_LATER", &seen, "a group of NCCL")) return kept = group, group = NULL, true;
  while (*end) end = &(*end)->next;
  *end = kept, kept = NULL;
  return false;
}

static ncclResult_t end_group(void) {
  ncclResult_t result = ncclSuccess;
  if (goes_behind()) return result;
  while (group) {
    NcclWork *w = group;
    group = w->next, w->next = NULL;
    ncclResult_t error = begin(w);
    if (error && (!result || result == ncclInProgress)) result = error;
  }
  return result;
}

DOUBLE_API ncclResult_t ncclGroupStart(void) {
  ENTER_NCCL(ncclGroupStart);
  depth++;
  return ncclSuccess;
}

DOUBLE_API ncclResult_t ncclGroupEnd(void) {
  ENTER_NCCL(ncclGroupEnd);
  if (!depth) return ncclInvalidUsage;
  return --depth ? ncclSuccess : end_group();
}

static ncclResult_t add(CallKind kind, const void *from, void *to, size_t n, ncclDataType_t type, int op, int root,
                        ncclComm_t comm, CUstream stream) {
  ncclResult_t error = nccl_usable(comm);
  if (error) return error;
  if (!reduction_bytes(type) || op < 0 || op > ncclMin || root < 0 || root >= comm->n) return ncclInvalidArgument;
  if (double_stream_device(stream) != comm->device) return ncclInvalidArgument;
  Call c = {.call = {.count = n, .kind = (int)kind, .type = (int)type, .op = op, .root = root},
            .from = (CUdeviceptr)(uintptr_t)from,
            .to = (CUdeviceptr)(uintptr_t)to};
  if ((given(comm, &c) && !double_at(comm->device, c.from, given(comm, &c), names[kind])) ||
      (taken(comm, &c) && !double_at(comm->device, c.to, taken(comm, &c), names[kind])))
    return ncclInvalidArgument;
  NcclWork *w = group_work(comm, stream);
  if (w->n == MOST_CALLS) return ncclInternalError;
  w->calls[w->n++] = c;
  w->work.what = w->n == 1 ? names[kind] : "a group of NCCL";
  return depth ? ncclSuccess : end_group();
}

DOUBLE_API ncclResult_t ncclAllReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op,
                                      ncclComm_t comm, CUstream stream) {
  ENTER_NCCL(ncclAllReduce);
  return add(ALL_REDUCE, from, to, n, type, (int)op, 0, comm, stream);
}

DOUBLE_API ncclResult_t ncclAllGather(const void *from, void *to, size_t n, ncclDataType_t type, ncclComm_t comm,
                                      CUstream stream) {
  ENTER_NCCL(ncclAllGather);
  return add(ALL_GATHER, from, to, n, type, 0, 0, comm, stream);
}

DOUBLE_API ncclResult_t ncclReduceScatter(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op,
                                          ncclComm_t comm, CUstream stream) {
  ENTER_NCCL(ncclReduceScatter);
  return add(REDUCE_SCATTER, from, to, n, type, (int)op, 0, comm, stream);
}

DOUBLE_API ncclResult_t ncclBroadcast(const void *from, void *to, size_t n, ncclDataType_t type, int root,
                                      ncclComm_t comm, CUstream stream) {
  ENTER_NCCL(ncclBroadcast);
  return add(BROADCAST, from, to, n, type, 0, root, comm, stream);
}

DOUBLE_API ncclResult_t ncclReduce(const void *from, void *to, size_t n, ncclDataType_t type, ncclRedOp_t op, int root,
                                   ncclComm_t comm, CUstream stream) {
  ENTER_NCCL(ncclReduce);
  return add(REDUCE, from, to, n, type, (int)op, root, comm, stream);
}

DOUBLE_API ncclResult_t ncclSend(const void *from, size_t n, ncclDataType_t type, int peer, ncclComm_t comm,
                                 CUstream stream) {
  ENTER_NCCL(ncclSend);
  return add(SEND, from, NULL, n, type, 0, peer, comm, stream);
}

DOUBLE_API ncclResult_t ncclRecv(void *to, size_t n, ncclDataType_t type, int peer, ncclComm_t comm, CUstream stream) {
  ENTER_NCCL(ncclRecv);
  return add(RECEIVE, NULL, to, n, type, 0, peer, comm, stream);
}
