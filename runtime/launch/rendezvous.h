/* runtime/launch/rendezvous.h - how ranks started by hand, torchrun or Slurm find each other and connect.
 *
 * Rank 0 listens where all were told, HOST:PORT and nowhere else, or writes the addresses it listens at into a file
 * that all see.  The others come there and each side shows that it is of the run (admission.h); rank 0 takes everyone
 * in once, and when all have come tells everyone where the others listen, and a random key for the connections between
 * them.  Then each pair connects.  Ranks that can talk already, over MPI, need no place: rank 0 tells the others its
 * addresses and a secret (`spread`), and only the connections of the watchdog are made.
 *
 * Whoever does not belong to the run is sent away and changes nothing; a rank of another world is told so.
 */
#ifndef APC_RUNTIME_LAUNCH_RENDEZVOUS_H
#define APC_RUNTIME_LAUNCH_RENDEZVOUS_H

#include "runtime/launch/addresses.h"
#include "runtime/launch/admission.h"
#include "runtime/session/shared.h"

typedef struct Rendezvous {
  int rank, world;
  const char *address; /* HOST:PORT, or a file; what messages call the place where `spread` is given */
  RtStatus (*spread)(void *context, void *data, size_t bytes,
                     RtError *error); /* from rank 0 to everyone; NULL: they meet at `address` */
  void *context;
  AdmissionKey key; /* its run is rank 0's to make; with `spread` the key too */
  bool network;     /* there is a secret, or the user does without: other addresses than the loopback may be used */
  bool secret; /* the key is one; without, a file gets one of its own, and at HOST:PORT only this user's processes are
                  taken */
  bool here;   /* all ranks are known to be on this machine */
  int timeout_ms;
} Rendezvous;

/* The connections, per rank, -1 where there is none: `controls` for watch.h, `data` for transport_tcp.h.  Who takes
 * some over calls rendezvous_give. */
enum { MEETING_REFUSED = 16 };
typedef struct Meeting {
  int world;
  int *controls, *data; /* [world] */
  int listeners[ADDRESS_LIST_MOST], n_listeners;
  SocketAddress *addresses;     /* [world]: where the other ranks listen */
  AdmissionKey first;           /* by which all find rank 0 */
  AdmissionKey pairs;           /* for connections between them */
  Lobby *lobby;                 /* rank 0's: who comes late hears that the rank is there already */
  bool all_came;                /* rank 0: nobody is missing */
  RtError last;                 /* rank 0: the last that it sent away although it knew the key */
  int refused[MEETING_REFUSED]; /* such connections, which stay open for a while; -1 */
  unsigned n_refused;           /* how many there were */
  int file;                     /* rank 0: the meeting file while it waits; -1 */
} Meeting;

/* Fills `controls`; rendezvous_close frees, also after an error.  RT_LATE when somebody does not come in time; RT_USAGE
 * for an address that is none, is not this machine's or may not be used without a secret, or one rank started twice;
 * RT_BAD_INPUT where another run was met. */
RtStatus rendezvous_meet(const Rendezvous *r, Meeting *out, RtError *error);

/* Fills `data`; RT_ABORTED when `stop` becomes readable, which is the watch's descriptor. */
RtStatus rendezvous_connect(const Rendezvous *r, Meeting *m, int stop, RtError *error);

/* The connections are somebody else's now. */
void rendezvous_give(const Meeting *m, int *connections);

void rendezvous_close(Meeting *m);

#endif
