/* runtime/comm/transport.h - moving bytes between ranks: what a transport must offer to the collectives.
 *
 * A transport knows ranks 0..world-1 and nothing about groups, element types or reductions.  Each
 * ordered pair of ranks has its own channel; messages of one channel arrive complete, unchanged and in
 * the order sent.  A rank keeps at most one send and one receive in flight per peer (the collectives do
 * their own queueing), and the two sides of a channel cut their bytes into the same messages: the n-th
 * send to a peer and the peer's n-th receive have the same tag and length.  A transport checks both and
 * reports a difference as RT_INTERNAL instead of delivering wrong data.
 *
 * All calls come from one thread per rank; none blocks except `sleep`, and that only for the time given.
 */
#ifndef APC_RUNTIME_COMM_TRANSPORT_H
#define APC_RUNTIME_COMM_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "program/status.h"

/* `rows` rows of `row_bytes` bytes, `stride` bytes apart; the rows in order form a stream of
 * rows * row_bytes bytes.  A contiguous block is one row. */
typedef struct Strided {
  char *data; /* a send only reads it */
  size_t rows, row_bytes, stride;
} Strided;

/* n bytes of the stream of `block`, from byte `first` on, to or from contiguous memory. */
void strided_gather(void *to, const Strided *block, size_t first, size_t n);
void strided_scatter(const Strided *block, size_t first, const void *from, size_t n);

/* Copies the whole stream of `from` into `to`; both have the same number of bytes.  The two may be the same
 * bytes, but not overlap otherwise. */
void strided_copy(const Strided *to, const Strided *from);

/* The address of byte `first` of the stream when the next n bytes are contiguous, else NULL. */
char *strided_direct(const Strided *block, size_t first, size_t n);

/* One message: bytes [first, first + length) of the stream of `block`.  The caller fills the upper part
 * and keeps the struct and the bytes in place until `done`. */
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

  /* Moves what can be moved now; *moved tells whether anything did.  RT_ABORTED after an abort by any
   * rank, RT_INTERNAL when the two sides of a channel disagree. */
  RtStatus (*progress)(Transport *t, bool *moved, RtError *error);

  /* Called after a progress that moved nothing: returns when something may have changed, at the latest
   * after `milliseconds`.  `spins` counts such calls in a row, so that a transport can spin before it
   * sleeps.  Never misses a change made since that progress began. */
  void (*sleep)(Transport *t, unsigned spins, int milliseconds);

  /* Makes every present and later progress and sleep of every rank return at once. */
  void (*abort)(Transport *t);

  void (*close)(Transport *t);
} TransportOps;

/* Every implementation starts with this. */
struct Transport {
  const TransportOps *ops;
  int rank, world;
  int exit_code; /* with which a transport whose abort ends processes ends them */
};

#endif
