/* runtime/comm/comm.h - collectives between ranks: the table of functions that every engine offers (CommOps).
 *
 * A rank opens a communicator, makes the groups of its program (all ranks, in the same order), and then enqueues
 * operations.  Each operation has a position in the order of communication: the ranks of a group enqueue that group's
 * operations in the same order with the same key, and never wait for one before they enqueued all earlier ones.  Then
 * no deadlock is possible, whatever the groups are.  Enqueued operations progress at once, so a send and the receive
 * that crosses it are enqueued before either is waited for.
 *
 * Blocks.  Every operation moves 2-D strided blocks of bytes: member i sends send[j] of its `src` to member j, which
 * receives that stream of bytes into recv[i] of its `dst`.  Both have the same number of bytes, possibly zero; their
 * shapes may differ.  all_gather, all_to_all, broadcast, exchange, send and recv differ only in their blocks.
 *   reduce_scatter  send[j] goes to member j; the streams of all members are reduced into recv[0].
 *   all_reduce      send[0] of all members, same byte count, reduced into recv[0] on every member.
 * Reductions run in group-rank order, x0 op x1 op x2 ...; f16 and bf16 accumulate in f32 and are rounded once.  So
 * every member gets the same bits, and so does every engine for CPU ranks.
 *
 * Aliasing.  all_reduce may have dst = src with equal blocks; reduce_scatter may write where it reads its own block;
 * the own block of a move may already be in place (all_gather in place).  No other received byte may overlap a sent
 * one.
 *
 * Not thread-safe: one thread per communicator.  Progress happens inside wait, poll and check.  Nothing is allocated
 * after open and group.
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

/* True if the CPU engine can reduce this element type: bool has no arithmetic, floats no `or` and `and`. */
bool comm_reduction_defined(CommReduction reduction, DType dtype);

typedef struct CommOp {
  CommKind kind;
  int group;   /* from comm_group; the caller is a member */
  DType dtype; /* reductions only, like the next field */
  CommReduction reduction;
  const void *src;       /* NULL is allowed if nothing is sent; unchanged until the operation is complete */
  void *dst;             /* NULL is allowed if nothing is received */
  const CommBlock *send; /* by group rank (see above); read during enqueue only */
  const CommBlock *recv;
} CommOp;

/* True for kinds that reduce: all_reduce and reduce_scatter. */
static inline bool comm_is_reduction(CommKind kind) { return program_comm_reduces(kind); }

/* The number of blocks in `send` and `recv` of an operation, for a group of `members` ranks. */
static inline int comm_send_blocks(CommKind kind, int members) { return kind == COMM_all_reduce ? 1 : members; }
static inline int comm_recv_blocks(CommKind kind, int members) { return comm_is_reduction(kind) ? 1 : members; }

typedef struct CommOptions {
  int max_operations;     /* limit of enqueued operations that are not complete; 0: 64 */
  int timeout_ms;         /* longest wait in which no byte moves, then RT_LATE; 0: unlimited */
  CommProgress *progress; /* may be NULL */
} CommOptions;

/* Counts for one kind of operation. */
typedef struct CommCount {
  uint64_t operations;
  uint64_t bytes_sent; /* payload to other ranks */
} CommCount;

typedef struct Comm Comm;
typedef uint64_t CommTicket;

/* True if the watch over the ranks has found a failure, which goes to *error. */
typedef bool CommInterrupted(void *context, RtError *error);

/* The functions of an engine; its own open function makes the Comm (runtime/comm/cpu.h). */
typedef struct CommOps {
  const char *name;
  bool moves_when_asked; /* bytes move only in calls of the engine, so a caller that computes calls `check` in
                          * between */

  /* Makes a group of distinct ranks; their order is the group-rank order.  All ranks call it, members or not, in the
   * same order.  *group is its number: 0, 1, 2... */
  RtStatus (*group)(Comm *comm, const int *members, int n, int *group, RtError *error);

  /* Called once by all ranks after the last group.  May be NULL. */
  RtStatus (*ready)(Comm *comm, RtError *error);

  /* Adds an operation to the order; never blocks.  key < 2^48 is the same on all members of a group, need not be
   * consecutive, and may repeat. */
  RtStatus (*enqueue)(Comm *comm, uint64_t key, const CommOp *op, CommTicket *ticket, RtError *error);

  /* Makes progress without waiting; *done is true if the operation is complete. */
  RtStatus (*poll)(Comm *comm, CommTicket ticket, bool *done, RtError *error);

  /* Waits until the operation is complete.  RT_ABORTED if any rank aborted, RT_LATE after the time-out, RT_INTERNAL if
   * the ranks disagree about the next operation.  After an error only abort and close are useful. */
  RtStatus (*wait)(Comm *comm, CommTicket ticket, RtError *error);

  /* Makes as much progress as possible without waiting; fails like `wait` if a rank failed.  For callers that compute
   * or wait for something else. */
  RtStatus (*check)(Comm *comm, RtError *error);

  /* From here on a watch decides which rank is late, from what the engine writes to `progress`.  Waits have no time
   * limit any more; they fail as soon as `interrupted` is true. */
  void (*supervise)(Comm *comm, CommProgress *progress, CommInterrupted *interrupted, void *context);

  /* This rank has failed: close waits for nothing.  May be NULL. */
  void (*give_up)(Comm *comm);

  /* Makes all waits of all ranks return RT_ABORTED. */
  void (*abort)(Comm *comm);

  /* Operations as part of a device's capture (DeviceOps.capture).  Operations enqueued between `capture` and `captured`
   * are kept; they are neither executed nor counted.  `captured` follows, even after an error: then `out` is NULL and
   * the kept operations are dropped.  Call `again` before the device replays them, with keys `shift` higher.  All ranks
   * do this alike or none does; they agree when the engine is opened, and `captures` returns the result.  All of these
   * may be NULL: no captures. */
  bool (*captures)(const Comm *comm);
  RtStatus (*capture)(Comm *comm, RtError *error);
  RtStatus (*captured)(Comm *comm, void **out, RtError *error);
  RtStatus (*again)(Comm *comm, const void *capture, uint64_t shift, RtError *error);
  void (*release_capture)(Comm *comm, void *capture);

  CommCount (*count)(const Comm *comm, CommKind kind);

  /* Returns the nanoseconds spent in waits during which no byte moved; may be NULL. */
  uint64_t (*waited)(const Comm *comm);

  void (*close)(Comm *comm);
} CommOps;

/* Common start of every implementation. */
struct Comm {
  const CommOps *ops;
};

/* Calls of CommOps; functions that an engine lacks do nothing, or return false or 0. */
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
