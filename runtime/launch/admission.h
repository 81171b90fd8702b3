/* runtime/launch/admission.h - two ranks prove to each other that they belong to one run, before they exchange anything
 * else.
 *
 *   the rank that connects                      the rank that listens
 *   Greeting: a nonce                    -->
 *                                        <--    Challenge: a nonce, the run's number
 *   Claim: role, rank, world, port, MAC  -->
 *                                        <--    MAC
 *
 * The MACs are HMAC-SHA-256, with a key that both have, over all of these, both nonces, the label of the run and the
 * direction.  So a recorded greeting, another rank's answer and the MAC of the other direction are worthless.  The rank
 * that connects proves first.  The listener silently closes the connection at the first error: a stranger learns a
 * random number, and not even the version.
 *
 * A Lobby serves all connections of a listener together: each has COMER_MS, at most LOBBY_MOST wait, and when more come
 * the oldest is closed.  A run without a secret uses the key of no secret: then only the random numbers of the run keep
 * others out.
 */
#ifndef APC_RUNTIME_LAUNCH_ADMISSION_H
#define APC_RUNTIME_LAUNCH_ADMISSION_H

#include "runtime/secret/secret.h"
#include "runtime/net/sockets.h"

enum { ADMISSION_NONCE = 32, ADMISSION_RUN = 16, LOBBY_MOST = 256, COMER_MS = 2000 };

/* The purpose of the connection. */
typedef enum AdmissionRole { ADMISSION_CONTROL, ADMISSION_DATA } AdmissionRole;

typedef struct AdmissionKey {
  unsigned char key[SECRET_BYTES];
  unsigned char label[SECRET_BYTES]; /* the MAC of the run's label: the name that its launcher gives it */
  unsigned char run[ADMISSION_RUN];  /* its number, made by rank 0 */
} AdmissionKey;

/* The statement of a rank that connects.  It is proved true by the admission, except that `world` has to be
 * compared. */
typedef struct AdmissionClaim {
  uint32_t role;
  int32_t rank, world;
  uint32_t port; /* CONTROL: the port where the rank listens */
} AdmissionClaim;

/* ---- the rank that connects */

/* Asks for admission by rank `to`.  `known`: key->run must be the listener's run number; else key->run is set to it.
 * False with errno: EACCES if the listener refused the claim, EPROTO if it is not a rank of this run, others as in
 * sockets.h. */
bool admission_ask(int fd, AdmissionKey *key, bool known, const AdmissionClaim *claim, int to, int stop,
                   int64_t deadline);

/* ---- the rank that listens */

typedef struct Lobby Lobby;

typedef struct LobbyCounts {
  unsigned came, silent, strange, refused; /* all; too little sent; not the protocol; wrong MACs */
} LobbyCounts;

/* Opens a lobby; the caller keeps the key and the listeners.  NULL without memory. */
Lobby *lobby_open(const AdmissionKey *key, AdmissionRole role, int rank, const int *listeners, int n);

/* From here on also admits ranks that prove this key, of the same run, for this role. */
void lobby_take_also(Lobby *l, const AdmissionKey *key, AdmissionRole role);

/* Returns the next admitted connection and its claim. -1 with errno: ETIMEDOUT, or ECANCELED if `stop` (-1: none)
 * became readable. */
int lobby_next(Lobby *l, int stop, int64_t deadline, AdmissionClaim *claim);

/* Returns how many connections came, and why they were refused. */
LobbyCounts lobby_counts(const Lobby *l);
int lobby_waiting(const Lobby *l); /* Returns the number of connections that are not admitted yet */
void lobby_close(Lobby *l);        /* Closes the connections that were not admitted; NULL is allowed */

#endif
