/* runtime/launch/admission.h - how two ranks show each other that they are of one run before anything else is said.
 *
 *   who comes                                   who listens
 *   Greeting: a nonce                    -->
 *                                        <--    Challenge: a nonce, the run's number
 *   Claim: role, rank, world, port, MAC  -->
 *                                        <--    MAC
 *
 * The MACs are HMAC-SHA-256, under a key that both have, over all of that, both nonces, the label of the run and the
 * direction; so a recorded greeting, another's answer and the MAC of the other direction are worth nothing.  Who comes
 * shows first.  The listener closes the connection at the first thing that is wrong, without a word: a stranger learns
 * a random number, and not even the version.
 *
 * A Lobby serves all connections of a listener together: each has COMER_MS, at most LOBBY_MOST wait, and when more come
 * the oldest goes.  Without a key of its own a run uses the key of no secret: then only what is random in the run keeps
 * others out.
 */
#ifndef APC_RUNTIME_LAUNCH_ADMISSION_H
#define APC_RUNTIME_LAUNCH_ADMISSION_H

#include "runtime/secret/secret.h"
#include "runtime/net/sockets.h"

enum { ADMISSION_NONCE = 32, ADMISSION_RUN = 16, LOBBY_MOST = 256, COMER_MS = 2000 };

/* What the connection is to be for. */
typedef enum AdmissionRole { ADMISSION_CONTROL, ADMISSION_DATA } AdmissionRole;

typedef struct AdmissionKey {
  unsigned char key[SECRET_BYTES];
  unsigned char label[SECRET_BYTES]; /* the MAC of the run's label: what its launcher calls it */
  unsigned char run[ADMISSION_RUN];  /* its number, made by rank 0 */
} AdmissionKey;

/* Who comes says it; what is in it is known to be true when it was admitted, except that `world` has to be compared. */
typedef struct AdmissionClaim {
  uint32_t role;
  int32_t rank, world;
  uint32_t port; /* CONTROL: where the rank listens */
} AdmissionClaim;

/* ---- who comes */

/* `to`: the rank that listens.  `known`: key->run is the run's number and has to be the listener's; else it becomes
 * that.  False with errno: EACCES when the other did not accept the claim, EPROTO when it is no rank of ours, others as
 * in sockets.h. */
bool admission_ask(int fd, AdmissionKey *key, bool known, const AdmissionClaim *claim, int to, int stop,
                   int64_t deadline);

/* ---- who listens */

typedef struct Lobby Lobby;

typedef struct LobbyCounts {
  unsigned came, silent, strange, refused; /* all; those that said too little; what no rank says; wrong MACs */
} LobbyCounts;

/* The key and the listeners stay the caller's.  NULL without memory. */
Lobby *lobby_open(const AdmissionKey *key, AdmissionRole role, int rank, const int *listeners, int n);

/* From here on who shows that it has this key, of the same run, is admitted for this role as well. */
void lobby_take_also(Lobby *l, const AdmissionKey *key, AdmissionRole role);

/* The next connection that was admitted, and its claim.  -1 with errno: ETIMEDOUT, ECANCELED when `stop` (-1: none)
 * became readable. */
int lobby_next(Lobby *l, int stop, int64_t deadline, AdmissionClaim *claim);

LobbyCounts lobby_counts(const Lobby *l);
int lobby_waiting(const Lobby *l); /* who is not through yet */
void lobby_close(Lobby *l);        /* NULL is allowed */

#endif
