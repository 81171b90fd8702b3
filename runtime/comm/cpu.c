/* runtime/comm/cpu.c - the collectives for CPU ranks, written once over a byte transport; see comm.h.
 *
 * Every operation becomes items, at most one send and one receive per peer and phase.  Items wait in one queue per peer
 * and direction, in the order (operation, phase), which both sides share.  Only the head of a queue is given to the
 * transport, and only when it is ready.  The first incomplete item in that order can always move, on every rank, so
 * there is no deadlock.
 *
 *   move            one phase; the own block is copied at once.
 *   reduce_scatter  one phase; each peer's block arrives in pieces of a fixed size in a staging area. When a piece
 *                   of every member has arrived, they are reduced in order and stored.
 *   all_reduce      small ones ("direct"): all members send everything to all members, one phase, reduced as
 *                   above.  Large ones: reduce_scatter over contiguous element ranges, then a second phase that
 *                   moves the results.  Both add in the same order, so the bits do not differ.
 *
 * There is one staging area; reductions use it in their order.  A large in-place all_reduce needs no further care: the
 * result of range j can only arrive after member j has all contributions to it.
 *
 * Not done: reductions without the staging copy, and tree or ring algorithms.  Between processes of one machine every
 * byte is copied twice anyway, and ordered sums need the values of all members at one place.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/comm/internal.h"

/* Enough for any group: one piece per member and one more. */
static size_t staging_bytes(int world) {
  size_t n = (size_t)world, pieces = n * COMM_PIECE_LEAST;
  if (pieces < COMM_STAGING_BYTES) pieces = COMM_STAGING_BYTES;
  return least(pieces, n * COMM_PIECE_MOST) + COMM_PIECE_MOST;
}

/* ---- memory, groups ---- */

static bool allocate(CpuComm *c) {
  size_t world = (size_t)c->world;
  c->queues = calloc(2 * world, sizeof *c->queues);
  c->posted = calloc(2 * world, sizeof *c->posted);
  c->operations = calloc((size_t)c->options.max_operations, sizeof *c->operations);
  c->items = calloc((size_t)c->options.max_operations * 4 * world, sizeof *c->items);
  c->staging = aligned_alloc(64, staging_bytes(c->world));
  c->sources = calloc(world, sizeof *c->sources);
  return c->queues && c->posted && c->operations && c->items && c->staging && c->sources;
}

static void close_comm(Comm *comm) {
  CpuComm *c = (CpuComm *)comm;
  c->transport->ops->close(c->transport);
  for (int i = 0; i < c->n_groups; i++) free(c->groups[i]);
  free(c->groups);
  free(c->queues);
  free(c->posted);
  free(c->operations);
  free(c->items);
  free(c->staging);
  free(c->sources);
  free(c);
}

static RtStatus check_members(const CpuComm *c, const int *members, int n, RtError *error) {
  if (c->n_groups == GROUPS_MOST) return rt_error(error, RT_INTERNAL, "more than %d groups", GROUPS_MOST);
  if (n < 1 || n > c->world)
    return rt_error(error, RT_INTERNAL, "group %d has %d members in a world of %d ranks", c->n_groups, n, c->world);
  for (int i = 0; i < n; i++) {
    if (members[i] < 0 || members[i] >= c->world)
      return rt_error(error, RT_INTERNAL, "group %d names rank %d in a world of %d ranks", c->n_groups, members[i],
                      c->world);
    for (int j = 0; j < i; j++)
      if (members[i] == members[j])
        return rt_error(error, RT_INTERNAL, "group %d names rank %d twice", c->n_groups, members[i]);
  }
  return RT_OK;
}

static RtStatus add_group(Comm *comm, const int *members, int n, int *group, RtError *error) {
  CpuComm *c = (CpuComm *)comm;
  RtStatus status = check_members(c, members, n, error);
  if (status != RT_OK) return status;
  Group *g = malloc(sizeof *g + (size_t)n * sizeof g->members[0]);
  Group **groups = realloc(c->groups, (size_t)(c->n_groups + 1) * sizeof *groups);
  if (groups) c->groups = groups;
  if (!g || !groups) {
    free(g);
    return rt_error(error, RT_FAILED, "out of memory");
  }
  g->n = n;
  g->rank = -1;
  for (int i = 0; i < n; i++) {
    g->members[i] = members[i];
    if (members[i] == c->rank) g->rank = i;
  }
  *group = c->n_groups;
  c->groups[c->n_groups++] = g;
  return RT_OK;
}

/* ---- waiting ---- */

static bool is_done(const CpuComm *c, CommTicket ticket) {
  return ticket < c->first || operation_at(c, ticket)->left == 0;
}

static RtStatus poll_ticket(Comm *comm, CommTicket ticket, bool *done, RtError *error) {
  CpuComm *c = (CpuComm *)comm;
  bool moved;
  if (c->failure.status == RT_OK) comm_step(c, &moved);
  *done = is_done(c, ticket);
  return c->failure.status == RT_OK ? RT_OK : rt_error(error, c->failure.status, "%s", c->failure.text);
}

/* Returns the operation that the ticket waits for; NULL if it is complete. */
static const Operation *incomplete(const CpuComm *c, CommTicket ticket) {
  return is_done(c, ticket) ? NULL : operation_at(c, ticket);
}

static void publish(CpuComm *c, CommTicket ticket, bool waiting) {
  CommProgress *progress = c->options.progress;
  if (!progress) return;
  const Operation *op = incomplete(c, ticket);
  if (waiting && op) {
    atomic_store_explicit(&progress->key, op->tag >> TAG_SHIFT, memory_order_relaxed);
    atomic_store_explicit(&progress->kind, (uint32_t)op->kind, memory_order_relaxed);
  }
  atomic_store_explicit(&progress->waiting, waiting, memory_order_relaxed);
}

#define NS_PER_MS INT64_C(1000000)

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Fails with the members that the operation still misses bytes from. */
static RtStatus late(CpuComm *c, CommTicket ticket) {
  const Operation *op = incomplete(c, ticket);
  char ranks[128] = "";
  for (int i = 0, used = 0; op && i < c->world && used < (int)sizeof ranks - 16; i++) {
    const Item *head = c->queues[c->world + i].head;
    if (head && head->operation == op) used += snprintf(ranks + used, sizeof ranks - (size_t)used, " %d", i);
  }
  return rt_error(&c->failure, RT_LATE, "rank %d waited %.1f s at order key %llu in %s for rank%s", c->rank,
                  c->options.timeout_ms / 1000.0, op ? (unsigned long long)(op->tag >> TAG_SHIFT) : 0ull,
                  op ? program_comm_kind_name(op->kind) : "nothing", ranks);
}

/* Waits until the operation is complete.  The time-out adds up the sleeps, each counted at most twice its length, so
 * that a process that was stopped and continued is not late. */
static RtStatus wait_for(CpuComm *c, CommTicket ticket) {
  unsigned spins = 0;
  int64_t waited = 0, idle = 0; /* idle: start of the time without progress */
  while (!is_done(c, ticket)) {
    bool moved;
    RtStatus status = comm_step(c, &moved);
    if (status != RT_OK) return status;
    if (moved) {
      if (waited >= NS_PER_MS) publish(c, ticket, true);
      if (spins) c->waited_ns += (uint64_t)(now_ns() - idle);
      spins = 0;
      waited = 0;
      continue;
    }
    int64_t before = now_ns();
    if (!spins) idle = before;
    c->transport->ops->sleep(c->transport, spins++, SLEEP_MS);
    int64_t slept = now_ns() - before;
    waited += slept < 2 * SLEEP_MS * NS_PER_MS ? slept : 2 * SLEEP_MS * NS_PER_MS;
    if (c->options.timeout_ms && waited > c->options.timeout_ms * NS_PER_MS) return late(c, ticket);
  }
  return RT_OK;
}

static RtStatus wait_ticket(Comm *comm, CommTicket ticket, RtError *error) {
  CpuComm *c = (CpuComm *)comm;
  if (c->failure.status == RT_OK && !is_done(c, ticket)) {
    publish(c, ticket, true);
    wait_for(c, ticket);
    publish(c, ticket, false);
  }
  return c->failure.status == RT_OK ? RT_OK : rt_error(error, c->failure.status, "%s", c->failure.text);
}

static RtStatus check_all(Comm *comm, RtError *error) {
  CpuComm *c = (CpuComm *)comm;
  bool moved = true;
  while (moved && c->failure.status == RT_OK) comm_step(c, &moved);
  return c->failure.status == RT_OK ? RT_OK : rt_error(error, c->failure.status, "%s", c->failure.text);
}

static void supervise(Comm *comm, CommProgress *progress, CommInterrupted *interrupted, void *context) {
  CpuComm *c = (CpuComm *)comm;
  c->options.progress = progress;
  c->options.timeout_ms = 0;
  c->interrupted = interrupted;
  c->supervisor = context;
}

static void abort_all(Comm *comm) {
  CpuComm *c = (CpuComm *)comm;
  c->transport->ops->abort(c->transport);
}

static CommCount count(const Comm *comm, CommKind kind) { return ((const CpuComm *)comm)->counts[kind]; }

static uint64_t waited_ns(const Comm *comm) { return ((const CpuComm *)comm)->waited_ns; }

/* ---- opening ---- */

static const CommOps cpu_ops = {.name = "cpu",
                                .moves_when_asked = true,
                                .group = add_group,
                                .enqueue = comm_cpu_enqueue,
                                .poll = poll_ticket,
                                .wait = wait_ticket,
                                .check = check_all,
                                .supervise = supervise,
                                .abort = abort_all,
                                .count = count,
                                .waited = waited_ns,
                                .close = close_comm};

RtStatus comm_cpu_open(Transport *transport, const CommOptions *options, Comm **out, RtError *error) {
  CpuComm *c = calloc(1, sizeof *c);
  if (!c) {
    transport->ops->close(transport);
    return rt_error(error, RT_FAILED, "out of memory");
  }
  c->base.ops = &cpu_ops;
  c->transport = transport;
  c->rank = transport->rank;
  c->world = transport->world;
  if (options) c->options = *options;
  if (c->options.max_operations <= 0) c->options.max_operations = 64;
  if (!allocate(c)) {
    close_comm(&c->base);
    return rt_error(error, RT_FAILED, "out of memory");
  }
  for (int i = 0; i < c->options.max_operations; i++)
    c->operations[i].items = c->items + (size_t)i * 4 * (size_t)c->world;
  *out = &c->base;
  return RT_OK;
}
