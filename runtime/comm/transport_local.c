/* runtime/comm/transport_local.c - rings in shared memory; see transport_local.h.
 *
 * Each ordered pair of ranks has a byte ring for one producer and one consumer: only the producer advances `written`,
 * only the consumer advances `read`; both count bytes since the start.  A message is a 16-byte header (tag, length) and
 * its bytes, cut into pieces so that the receiver starts before the sender is done.
 *
 * A rank with nothing to do spins for as long as contention.h allows and then sleeps on its own futex word, the bell,
 * whatever it waits for.  It sets the bell to 1, looks at all its rings once more, and sleeps only while the bell is 1.
 * A rank that changes a ring and then sees a bell of 1 sets it to 0 and wakes the sleeper.  Both sides order their
 * store before their load (sequential consistency), so one of them sees the other and no change is missed.
 */
#include "runtime/comm/transport_local.h"

#include <linux/futex.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "runtime/comm/contention.h"
#include "runtime/comm/relax.h"

enum { LINE = 64, PAGE = 4096, PIECE = 32 * 1024, RANK_BITS = 64 };

/* Words that different ranks write have a cache line each. */
typedef struct Bell {
  _Alignas(LINE) _Atomic uint32_t ringable; /* 1: the rank sleeps or is about to */
} Bell;

typedef struct Ring {
  _Alignas(LINE) _Atomic uint64_t written;
  _Alignas(LINE) _Atomic uint64_t read;
} Ring;

/* The start of the shared memory.  World bells and world * world rings follow; the bytes of the rings begin on the next
 * page. */
typedef struct Shared {
  _Alignas(LINE) _Atomic uint32_t aborted;
} Shared;

typedef struct Header {
  uint64_t tag, length;
} Header;

typedef struct Local {
  Transport base;
  Shared *shared;
  Bell *bells;
  Ring *rings;
  char *bytes;
  size_t ring_bytes; /* a power of two */
  bool crowded;      /* more ranks than cores: ranks never spin */
  Contention contention;
  ContentionWatch watch;
  uint64_t sending, receiving; /* bit p: a transfer with peer p is in flight */
  Transfer *send[RANK_BITS], *receive[RANK_BITS];
  bool header_moved[2][RANK_BITS]; /* of the transfer in flight; by direction */
} Local;

_Static_assert((int)TRANSPORT_LOCAL_MAX_WORLD <= (int)RANK_BITS, "one bit per rank");

/* Few ranks get larger rings, which save switches between ranks; many ranks have many pairs. */
static size_t ring_bytes(int world) {
  return world <= 8 ? 256 * 1024 : world <= 16 ? 128 * 1024 : world <= 32 ? 64 * 1024 : 32 * 1024;
}

static size_t control_bytes(int world) {
  size_t n = (size_t)world;
  size_t bytes = sizeof(Shared) + n * sizeof(Bell) + n * n * sizeof(Ring);
  return (bytes + PAGE - 1) / PAGE * PAGE;
}

size_t transport_local_bytes(int world) {
  return control_bytes(world) + (size_t)world * (size_t)world * ring_bytes(world);
}

static Bell *bells_of(void *memory) { return (Bell *)((char *)memory + sizeof(Shared)); }

static void ring_bell(Bell *bell) {
  if (atomic_load(&bell->ringable) && atomic_exchange(&bell->ringable, 0))
    syscall(SYS_futex, &bell->ringable, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* Copy between a ring and contiguous memory, around the ring's end. */
static void ring_put(const Local *t, char *ring, uint64_t at, const void *from, size_t n) {
  size_t start = (size_t)at & (t->ring_bytes - 1), part = least(n, t->ring_bytes - start);
  memcpy(ring + start, from, part);
  memcpy(ring, (const char *)from + part, n - part);
}

static void ring_get(const Local *t, const char *ring, uint64_t at, void *to, size_t n) {
  size_t start = (size_t)at & (t->ring_bytes - 1), part = least(n, t->ring_bytes - start);
  memcpy(to, ring + start, part);
  memcpy((char *)to + part, ring, n - part);
}

static size_t pair(const Local *t, int from, int to) { return (size_t)from * (size_t)t->base.world + (size_t)to; }

/* Sends as much as fits, at most one piece; true if anything moved. */
static bool advance_send(Local *t, int peer) {
  Transfer *transfer = t->send[peer];
  Ring *ring = &t->rings[pair(t, t->base.rank, peer)];
  char *bytes = t->bytes + pair(t, t->base.rank, peer) * t->ring_bytes;
  uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed), start = written;
  size_t space = t->ring_bytes - (size_t)(written - atomic_load(&ring->read));
  if (!t->header_moved[0][peer]) {
    if (space < sizeof(Header)) return false;
    Header header = {transfer->tag, transfer->length};
    ring_put(t, bytes, written, &header, sizeof header);
    written += sizeof header;
    space -= sizeof header;
    t->header_moved[0][peer] = true;
  }
  size_t n = least(least(transfer->length - transfer->moved, space), PIECE);
  for (size_t done = 0; done < n;) { /* twice at the ring's end */
    size_t at = (size_t)written & (t->ring_bytes - 1), part = least(n - done, t->ring_bytes - at);
    strided_gather(bytes + at, &transfer->block, transfer->first + transfer->moved, part);
    transfer->moved += part;
    written += part;
    done += part;
  }
  if (written == start) return false;
  atomic_store(&ring->written, written);
  ring_bell(&t->bells[peer]);
  if (transfer->moved == transfer->length) {
    t->sending &= ~(1ull << peer);
    transfer->done = true;
  }
  return true;
}

static RtStatus check_header(const Local *t, const Transfer *transfer, Header header, RtError *error) {
  if (header.tag == transfer->tag && header.length == transfer->length) return RT_OK;
  return rt_error(error, RT_INTERNAL,
                  "ranks disagree about their communication: rank %d expects from rank %d "
                  "message %#llx of %llu bytes, but it sent %#llx of %llu bytes",
                  t->base.rank, transfer->peer, (unsigned long long)transfer->tag, (unsigned long long)transfer->length,
                  (unsigned long long)header.tag, (unsigned long long)header.length);
}

static RtStatus advance_receive(Local *t, int peer, bool *moved, RtError *error) {
  Transfer *transfer = t->receive[peer];
  Ring *ring = &t->rings[pair(t, peer, t->base.rank)];
  const char *bytes = t->bytes + pair(t, peer, t->base.rank) * t->ring_bytes;
  uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed), start = read;
  size_t filled = (size_t)(atomic_load(&ring->written) - read);
  if (!t->header_moved[1][peer]) {
    if (filled < sizeof(Header)) return RT_OK;
    Header header;
    ring_get(t, bytes, read, &header, sizeof header);
    RtStatus status = check_header(t, transfer, header, error);
    if (status != RT_OK) return status;
    read += sizeof header;
    filled -= sizeof header;
    t->header_moved[1][peer] = true;
  }
  size_t n = least(least(transfer->length - transfer->moved, filled), PIECE);
  for (size_t done = 0; done < n;) {
    size_t at = (size_t)read & (t->ring_bytes - 1), part = least(n - done, t->ring_bytes - at);
    strided_scatter(&transfer->block, transfer->first + transfer->moved, bytes + at, part);
    transfer->moved += part;
    read += part;
    done += part;
  }
  if (read == start) return RT_OK;
  atomic_store(&ring->read, read);
  ring_bell(&t->bells[peer]);
  if (transfer->moved == transfer->length) {
    t->receiving &= ~(1ull << peer);
    transfer->done = true;
  }
  *moved = true;
  return RT_OK;
}

static void start(Local *t, Transfer *transfer, int direction) {
  transfer->moved = 0;
  transfer->done = false;
  t->header_moved[direction][transfer->peer] = false;
}

static void local_isend(Transport *base, Transfer *transfer) {
  Local *t = (Local *)base;
  start(t, transfer, 0);
  t->send[transfer->peer] = transfer;
  t->sending |= 1ull << transfer->peer;
}

static void local_irecv(Transport *base, Transfer *transfer) {
  Local *t = (Local *)base;
  start(t, transfer, 1);
  t->receive[transfer->peer] = transfer;
  t->receiving |= 1ull << transfer->peer;
}

static RtStatus local_progress(Transport *base, bool *moved, RtError *error) {
  Local *t = (Local *)base;
  *moved = false;
  if (atomic_load(&t->shared->aborted))
    return rt_error(error, RT_ABORTED, "rank %d was stopped because another rank failed", base->rank);
  for (uint64_t rest = t->sending; rest; rest &= rest - 1)
    if (advance_send(t, __builtin_ctzll(rest))) *moved = true;
  for (uint64_t rest = t->receiving; rest; rest &= rest - 1) {
    RtStatus status = advance_receive(t, __builtin_ctzll(rest), moved, error);
    if (status != RT_OK) return status;
  }
  return RT_OK;
}

static void local_sleep(Transport *base, unsigned spins, int milliseconds) {
  Local *t = (Local *)base;
  Bell *bell = &t->bells[base->rank];
  if (spins == 0) atomic_store_explicit(&bell->ringable, 0, memory_order_relaxed); /* from an unneeded sleep */
  if (!atomic_load_explicit(&bell->ringable, memory_order_relaxed)) {
    if (!t->crowded && contention_may_spin(&t->contention, &t->watch, spins == 0)) relax();
    else atomic_store(&bell->ringable, 1); /* the caller looks once more before the real sleep */
    return;
  }
  struct timespec limit = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  syscall(SYS_futex, &bell->ringable, FUTEX_WAIT, 1, &limit, NULL, 0);
  atomic_store(&bell->ringable, 0);
  contention_slept(&t->watch);
}

void transport_local_abort_all(void *memory, int world) {
  Bell *bells = bells_of(memory);
  atomic_store(&((Shared *)memory)->aborted, 1);
  for (int i = 0; i < world; i++) ring_bell(&bells[i]);
}

static void local_abort(Transport *base) { transport_local_abort_all(((Local *)base)->shared, base->world); }

static void local_close(Transport *base) { free(base); }

static const TransportOps local_ops = {
    .name = "local",
    .isend = local_isend,
    .irecv = local_irecv,
    .progress = local_progress,
    .sleep = local_sleep,
    .abort = local_abort,
    .close = local_close,
};

RtStatus transport_local_open(void *memory, int rank, int world, bool crowded, Transport **out, RtError *error) {
  if (world < 1 || world > TRANSPORT_LOCAL_MAX_WORLD || rank < 0 || rank >= world)
    return rt_error(error, RT_UNSUPPORTED, "rank %d of %d: one machine supports 1 to %d ranks", rank, world,
                    TRANSPORT_LOCAL_MAX_WORLD);
  Local *t = calloc(1, sizeof *t);
  if (!t) return rt_error(error, RT_FAILED, "out of memory");
  t->base = (Transport){&local_ops, rank, world, 0};
  t->shared = memory;
  t->bells = bells_of(memory);
  t->rings = (Ring *)(t->bells + world);
  t->bytes = (char *)memory + control_bytes(world);
  t->ring_bytes = ring_bytes(world);
  t->crowded = crowded;
  *out = &t->base;
  return RT_OK;
}
