/* runtime/launch/rendezvous.h - how ranks started by hand, torchrun or Slurm find each other and connect.
 *
 * Rank 0 listens at the common HOST:PORT and nowhere else, or writes the addresses where it listens into a file that
 * all ranks see.  The others connect there, and both sides prove that they belong to the run (admission.h).  Rank 0
 * accepts each rank once; when all have come it sends them the addresses of all ranks, and a random key for the
 * connections between them.  Then each pair connects.  Ranks that can already communicate over MPI need no meeting
 * place: rank 0 sends the others its addresses and a secret (`spread`), and only the connections of the watchdog are
 * made.
 *
 * Processes that do not belong to the run are disconnected and change nothing; a rank of another world gets the reason.
 */
#ifndef APC_RUNTIME_LAUNCH_RENDEZVOUS_H
#define APC_RUNTIME_LAUNCH_RENDEZVOUS_H

#include "runtime/launch/addresses.h"
#include "runtime/launch/admission.h"
#include "runtime/session/shared.h"

typedef struct Rendezvous {
  int rank, world;
  const char *address; /* HOST:PORT, or a file; with `spread`, the name of the place in messages */
  RtStatus (*spread)(void *context, void *data, size_t bytes,
                     RtError *error); /* from rank 0 to all; NULL: they meet at `address` */
  void *context;
  AdmissionKey key; /* rank 0 makes its run number; with `spread` also the key */
  bool network;     /* there is a secret, or the user allows networks without one: addresses need not be loopback */
  bool secret; /* the key is a secret; without one, a file gets a key of its own, and HOST:PORT only accepts processes
                * of this user */
  bool here;   /* all ranks are known to be on this machine */
  int timeout_ms;
} Rendezvous;

/* The connections, per rank, -1 if there is none: `controls` for watch.h, `data` for transport_tcp.h.  An owner that
 * takes some over calls rendezvous_give. */
enum { MEETING_REFUSED = 16 };
typedef struct Meeting {
  int world;
  int *controls, *data; /* [world] */
  int listeners[ADDRESS_LIST_MOST], n_listeners;
  SocketAddress *addresses;     /* [world]: the addresses where the other ranks listen */
  AdmissionKey first;           /* for finding rank 0 */
  AdmissionKey pairs;           /* for connections between them */
  Lobby *lobby;                 /* of rank 0: late ranks are told that their place is taken */
  bool all_came;                /* rank 0: no rank is missing */
  RtError last;                 /* rank 0: the last refusal of a process that knew the key */
  int refused[MEETING_REFUSED]; /* refused connections, which stay open for a while; -1 */
  unsigned n_refused;           /* how many there were */
  int file;                     /* rank 0: the meeting file while it waits; -1 if there is none */
} Meeting;

/* Fills `controls`; rendezvous_close frees, also after an error.  RT_LATE if a rank does not come in time; RT_USAGE for
 * an address that is invalid, is not this machine's or needs a secret, or for a rank started twice; RT_BAD_INPUT if
 * another run listens there. */
RtStatus rendezvous_meet(const Rendezvous *r, Meeting *out, RtError *error);

/* Fills `data`; RT_ABORTED if `stop`, the watch's descriptor, becomes readable. */
RtStatus rendezvous_connect(const Rendezvous *r, Meeting *m, int stop, RtError *error);

/* Forgets connections that have another owner now. */
void rendezvous_give(const Meeting *m, int *connections);

/* Closes the connections that the meeting still owns, and frees it. */
void rendezvous_close(Meeting *m);

#endif
