/* runtime/comm/transport.h - moves bytes between ranks: the functions that a transport offers to the collectives.
 *
 * A transport knows ranks 0..world-1, but no groups, element types or reductions.  Each ordered pair of ranks has its
 * own channel; messages of one channel arrive complete, unchanged and in the order sent.  A rank has at most one send
 * and one receive in flight per peer (the collectives have queues of their own), and both sides of a channel cut their
 * bytes into the same messages: the n-th send to a peer and the peer's n-th receive have the same tag and length.  A
 * transport checks both, and reports a difference as RT_INTERNAL instead of delivering wrong data.
 *
 * All calls come from one thread per rank; none blocks except `sleep`, and that only for the given time.
 */
#ifndef APC_RUNTIME_COMM_TRANSPORT_H
#define APC_RUNTIME_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program/status.h"

/* `rows` rows of `row_bytes` bytes, `stride` bytes apart; the rows in order are a stream of rows * row_bytes bytes.  A
 * contiguous block is one row. */
typedef struct Strided {
  char *data; /* a send only reads it */
  size_t rows, row_bytes, stride;
} Strided;

/* Copy n bytes of the stream of `block`, from byte `first` on, to or from contiguous memory. */
void strided_gather(void *to, const Strided *block, size_t first, size_t n);
void strided_scatter(const Strided *block, size_t first, const void *from, size_t n);

/* Copies the whole stream of `from` into `to`; both have the same number of bytes.  They may be the same bytes, but
 * must not overlap otherwise. */
void strided_copy(const Strided *to, const Strided *from);

/* Returns the address of byte `first` of the stream if the next n bytes are contiguous, else NULL. */
char *strided_direct(const Strided *block, size_t first, size_t n);

/* One message: bytes [first, first + length) of the stream of `block`.  The caller fills the upper part, and keeps the
 * struct and the bytes in place until `done`. */
typedef struct Transfer {
  int peer;
  uint64_t tag;
  Strided block;
  size_t first, length;

  size_t moved; /* payload bytes copied so far (the transport's) */
  bool done;    /* set by progress */
} Transfer;

typedef struct Transport Transport;

typedef struct TransportOps {
  const char *name;

  /* Starts a message to or from transfer->peer (never the own rank; length > 0). */
  void (*isend)(Transport *t, Transfer *transfer);
  void (*irecv)(Transport *t, Transfer *transfer);

  /* Moves what can be moved now; *moved is true if any byte was.  RT_ABORTED after any rank aborted, RT_INTERNAL if the
   * two sides of a channel disagree. */
  RtStatus (*progress)(Transport *t, bool *moved, RtError *error);

  /* Called after a progress that moved nothing.  Returns when something may have changed, at the latest after
   * `milliseconds`.  `spins` counts such calls in a row, so that a transport can spin before it sleeps.  Never misses a
   * change since that progress began. */
  void (*sleep)(Transport *t, unsigned spins, int milliseconds);

  /* Makes every present and later progress and sleep of all ranks return at once. */
  void (*abort)(Transport *t);

  void (*close)(Transport *t);
} TransportOps;

/* Common start of every implementation. */
struct Transport {
  const TransportOps *ops;
  int rank, world;
  int exit_code; /* the exit code, for transports whose abort ends processes */
};

#endif
