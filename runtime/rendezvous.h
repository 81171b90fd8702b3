/* runtime/rendezvous.h - how ranks started by hand, torchrun or Slurm find each other and connect.
 *
 * Rank 0 listens where all were told, HOST:PORT, or writes the addresses it listens at into a file that all see.  The others
 * introduce themselves there; rank 0 looks whether they fit, and when all have come tells everyone where the others listen.
 * Then each pair connects.  Ranks that can talk already, over MPI, need no place: rank 0 tells the others its addresses (`spread`), and
 * only the connections of the watchdog are made.  Who does not fit is told why and refused, and so is everyone else.
 */
#ifndef APC_RUNTIME_RENDEZVOUS_H
#define APC_RUNTIME_RENDEZVOUS_H

#include "runtime/session_shared.h"
#include "runtime/sockets.h"

typedef struct Rendezvous {
  int rank, world;
  const char *address; /* HOST:PORT, or a file; what messages call the place where `spread` is given */
  RtStatus (*spread)(void *context, void *data, size_t bytes, RtError *error); /* from rank 0 to everyone; NULL: they meet at `address` */
  void *context;
  uint64_t program[2]; /* the same on all ranks that run the same program */
  int timeout_ms;
} Rendezvous;

/* The connections, per rank, -1 where there is none: `controls` for watch.h, `data` for transport_tcp.h.  Who takes some over sets them
 * to -1. */
typedef struct Meeting {
  int controls[SESSION_MAX_RANKS], data[SESSION_MAX_RANKS];
  int listener;
  SocketAddress addresses[SESSION_MAX_RANKS]; /* where the other ranks listen */
} Meeting;

/* Fills `controls`.  RT_LATE when somebody does not come in time, RT_BAD_INPUT for another program, RT_USAGE for an address that is none, or one rank
 * started twice. */
RtStatus rendezvous_meet(const Rendezvous *r, Meeting *out, RtError *error);

/* Fills `data`; RT_ABORTED when `stop` becomes readable, which is the watch's descriptor. */
RtStatus rendezvous_connect(const Rendezvous *r, Meeting *m, int stop, RtError *error);

void rendezvous_close(Meeting *m);

#endif
