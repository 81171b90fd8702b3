/* runtime/comm/comm.h - collectives between ranks: the table of functions every engine offers (CommOps).
 *
 * A rank opens a communicator, makes the groups of its program (all ranks, the same order), and then
 * enqueues operations.  Each has a position in the order of communication: the ranks of a group enqueue
 * that group's operations in the same order with the same key, and never wait for one before they enqueued
 * all earlier ones.  Then nothing here can deadlock, whatever the groups.  Operations that are enqueued
 * progress at once, so a send and the receive that crosses it are enqueued before either is waited for.
 *
 * Blocks.  All operations are moves of 2-D strided byte blocks: member i sends send[j] of its `src` to
 * member j, which receives that stream of bytes into recv[i] of its `dst`.  The two have the same number
 * of bytes, possibly zero, and may have different shapes.  all_gather, all_to_all, broadcast, exchange,
 * send and recv differ only in their blocks.
 *   reduce_scatter  send[j] goes to member j; the streams of all members are reduced into recv[0].
 *   all_reduce      send[0] of all members, same byte count, reduced into recv[0] on every member.
 * Reductions run in group-rank order, x0 op x1 op x2 ..., f16 and bf16 accumulated in f32 and rounded
 * once: every member gets the same bits, and so does every engine for CPU ranks.
 *
 * Aliasing.  all_reduce may have dst = src with equal blocks; reduce_scatter may write where it reads its
 * own block; a move may have its own block already in place (all_gather in place).  Otherwise bytes that
 * are sent must not be received into.
 *
 * Not thread-safe: one thread per communicator.  Progress is made inside wait, poll and check.  After open and
 * group nothing is allocated.
 */
#ifndef APC_RUNTIME_COMM_COMM_H
#define APC_RUNTIME_COMM_COMM_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/dtype.h"
#include "program/comm.h"
#include "program/status.h"
#include "runtime/comm/transport.h"
#include "runtime/net/signs.h"

bool comm_reduction_defined(CommReduction reduction, DType dtype);

typedef struct CommOp {
  CommKind kind;
  int group;   /* from comm_group; the caller is a member */
  DType dtype; /* reductions only, like the next field */
  CommReduction reduction;
  const void *src;       /* may be NULL when nothing is sent; valid and unchanged until complete */
  void *dst;             /* may be NULL when nothing is received */
  const CommBlock *send; /* by group rank (see above); read during enqueue only */
  const CommBlock *recv;
} CommOp;

static inline bool comm_is_reduction(CommKind kind) { return program_comm_reduces(kind); }

/* How many blocks `send` and `recv` of an operation have, in a group of so many members. */
static inline int comm_send_blocks(CommKind kind, int members) { return kind == COMM_all_reduce ? 1 : members; }
static inline int comm_recv_blocks(CommKind kind, int members) { return comm_is_reduction(kind) ? 1 : members; }

typedef struct CommOptions {
  int max_operations;     /* enqueued and not yet complete; 0: 64 */
  int timeout_ms;         /* longest wait without any byte moving, then RT_LATE; 0: unlimited */
  CommProgress *progress; /* may be NULL */
} CommOptions;

/* Accounting, by kind. */
typedef struct CommCount {
  uint64_t operations;
  uint64_t bytes_sent; /* payload to other ranks */
} CommCount;

typedef struct Comm Comm;
typedef uint64_t CommTicket;

/* Tells whether somebody who watches the ranks has found a failure, and which. */
typedef bool CommInterrupted(void *context, RtError *error);

/* What an engine implements; its own open function makes the Comm (runtime/comm/cpu.h). */
typedef struct CommOps {
  const char *name;
  bool moves_when_asked; /* bytes move in calls of the engine only: who computes meanwhile calls `check` between */

  /* Makes a group of distinct ranks; their order is the group-rank order.  All ranks call it, members or
   * not, in the same order.  The number goes to *group: 0, 1, 2... */
  RtStatus (*group)(Comm *comm, const int *members, int n, int *group, RtError *error);

  /* All groups are made; asked once by all ranks.  May be NULL. */
  RtStatus (*ready)(Comm *comm, RtError *error);

  /* Adds an operation to the order; never blocks.  key < 2^48 is the same on all members of a group, need not be
   * consecutive, and may repeat. */
  RtStatus (*enqueue)(Comm *comm, uint64_t key, const CommOp *op, CommTicket *ticket, RtError *error);

  /* Progress without waiting; *done tells whether the ticket is complete. */
  RtStatus (*poll)(Comm *comm, CommTicket ticket, bool *done, RtError *error);

  /* RT_ABORTED when any rank aborted, RT_LATE after the time-out, RT_INTERNAL when the ranks disagree about
   * what comes next.  After an error only abort and close are useful. */
  RtStatus (*wait)(Comm *comm, CommTicket ticket, RtError *error);

  /* As much progress as there can be without waiting; fails as a wait would when a rank did.  Asked by who waits for
   * something else, or computes. */
  RtStatus (*check)(Comm *comm, RtError *error);

  /* From here on somebody else judges who is late, by what goes to `progress`, and waits have no limit; they return
   * what `interrupted` finds. */
  void (*supervise)(Comm *comm, CommProgress *progress, CommInterrupted *interrupted, void *context);

  /* This rank has failed: nothing is waited for when it is closed.  May be NULL. */
  void (*give_up)(Comm *comm);

  /* Makes all waits of all ranks return RT_ABORTED. */
  void (*abort)(Comm *comm);

  /* Operations as part of what their device captures (DeviceOps.capture).  What is enqueued between `capture` and
   * `captured` is kept, not made and not counted; `captured` follows, after an error too: `out` is NULL then, and what
   * was kept is thrown away.  `again` comes before the device makes them once more, with keys that are `shift` further.
   * All ranks do so alike, or none: that is agreed on when the engine is opened, and told by `captures`, which may be
   * NULL like the rest: no. */
  bool (*captures)(const Comm *comm);
  RtStatus (*capture)(Comm *comm, RtError *error);
  RtStatus (*captured)(Comm *comm, void **out, RtError *error);
  RtStatus (*again)(Comm *comm, const void *capture, uint64_t shift, RtError *error);
  void (*release_capture)(Comm *comm, void *capture);

  CommCount (*count)(const Comm *comm, CommKind kind);

  /* Nanoseconds that waits have lasted so far while nothing moved; may be NULL. */
  uint64_t (*waited)(const Comm *comm);

  void (*close)(Comm *comm);
} CommOps;

/* Every implementation starts with this. */
struct Comm {
  const CommOps *ops;
};

static inline RtStatus comm_group(Comm *c, const int *members, int n, int *group, RtError *error) {
  return c->ops->group(c, members, n, group, error);
}
static inline RtStatus comm_ready(Comm *c, RtError *error) { return c->ops->ready ? c->ops->ready(c, error) : RT_OK; }
static inline void comm_give_up(Comm *c) {
  if (c->ops->give_up) c->ops->give_up(c);
}
static inline RtStatus comm_enqueue(Comm *c, uint64_t key, const CommOp *op, CommTicket *ticket, RtError *error) {
  return c->ops->enqueue(c, key, op, ticket, error);
}
static inline RtStatus comm_poll(Comm *c, CommTicket ticket, bool *done, RtError *error) {
  return c->ops->poll(c, ticket, done, error);
}
static inline RtStatus comm_check(Comm *c, RtError *error) { return c->ops->check(c, error); }
static inline RtStatus comm_wait(Comm *c, CommTicket ticket, RtError *error) { return c->ops->wait(c, ticket, error); }
static inline void comm_supervise(Comm *c, CommProgress *progress, CommInterrupted *interrupted, void *context) {
  c->ops->supervise(c, progress, interrupted, context);
}
static inline void comm_abort(Comm *c) { c->ops->abort(c); }
static inline bool comm_captures(const Comm *c) { return c->ops->captures && c->ops->captures(c); }
static inline CommCount comm_count(const Comm *c, CommKind kind) { return c->ops->count(c, kind); }
static inline uint64_t comm_waited(const Comm *c) { return c->ops->waited ? c->ops->waited(c) : 0; }
static inline void comm_close(Comm *c) { /* NULL is allowed */
  if (c) c->ops->close(c);
}

#endif
