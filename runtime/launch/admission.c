/* runtime/launch/admission.c - see admission.h. */
#include "runtime/launch/admission.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ADMISSION_MAGIC UINT64_C(0x324b4e41524350a1)

enum { LISTENERS = 16, AT_ONCE = 32 };

typedef struct Greeting {
  uint64_t magic;
  unsigned char nonce[ADMISSION_NONCE];
} Greeting;

typedef struct Challenge {
  uint64_t magic;
  unsigned char nonce[ADMISSION_NONCE], run[ADMISSION_RUN];
} Challenge;

typedef struct Claim {
  AdmissionClaim claim;
  unsigned char mac[SECRET_BYTES];
} Claim;

typedef enum Direction { FROM_COMER, FROM_LISTENER } Direction;

/* The contents of a MAC, without padding.  `protocol` is the version of everything that ranks send to each other. */
typedef struct Statement {
  unsigned char protocol[16], label[SECRET_BYTES], run[ADMISSION_RUN], comer[ADMISSION_NONCE],
      listener[ADMISSION_NONCE];
  AdmissionClaim claim;
  uint32_t to, direction;
} Statement;
_Static_assert(sizeof(Statement) ==
                   16 + SECRET_BYTES + ADMISSION_RUN + 2 * ADMISSION_NONCE + sizeof(AdmissionClaim) + 8,
               "a statement has no padding");

static Statement state(const AdmissionKey *k, const AdmissionClaim *claim, int to) {
  Statement s = {.protocol = "apc ranks 3", .claim = *claim, .to = (uint32_t)to};
  memcpy(s.label, k->label, sizeof s.label);
  memcpy(s.run, k->run, sizeof s.run);
  return s;
}

static void sign(const AdmissionKey *k, Statement *s, Direction direction, unsigned char mac[SECRET_BYTES]) {
  s->direction = (uint32_t)direction;
  secret_mac(k->key, s, sizeof *s, mac);
}

/* ---- the rank that connects */

static bool fail(int number) {
  errno = number;
  return false;
}

/* Receives; a listener that closes the connection without an answer gives the error `gone`. */
static bool hear(int fd, void *data, size_t n, int stop, int64_t deadline, int gone) {
  if (socket_receive(fd, data, n, stop, deadline)) return true;
  return errno == ECONNRESET || errno == EPIPE ? fail(gone) : false;
}

bool admission_ask(int fd, AdmissionKey *key, bool known, const AdmissionClaim *claim, int to, int stop,
                   int64_t deadline) {
  Greeting greeting = {.magic = ADMISSION_MAGIC};
  Challenge challenge;
  Claim mine = {.claim = *claim};
  unsigned char answer[SECRET_BYTES], right[SECRET_BYTES];
  RtError why = {0};
  if (secret_random(greeting.nonce, sizeof greeting.nonce, &why)) return fail(ENOSYS);
  if (!socket_send(fd, &greeting, sizeof greeting, deadline)) return false;
  if (!hear(fd, &challenge, sizeof challenge, stop, deadline, EPROTO)) return false;
  if (challenge.magic != ADMISSION_MAGIC || (known && memcmp(challenge.run, key->run, sizeof key->run) != 0))
    return fail(EPROTO);
  memcpy(key->run, challenge.run, sizeof key->run);
  Statement s = state(key, claim, to);
  memcpy(s.comer, greeting.nonce, sizeof s.comer);
  memcpy(s.listener, challenge.nonce, sizeof s.listener);
  sign(key, &s, FROM_COMER, mine.mac);
  sign(key, &s, FROM_LISTENER, right);
  if (!socket_send(fd, &mine, sizeof mine, deadline)) return false;
  if (!hear(fd, answer, sizeof answer, stop, deadline, EACCES)) return false;
  return secret_equal(answer, right) ? true : fail(EACCES);
}

/* ---- the rank that listens */

typedef struct Comer {
  int fd;
  int64_t until;
  bool greeted;
  size_t got; /* bytes received of its next message: */
  union {
    Greeting greeting;
    Claim claim;
    unsigned char bytes[sizeof(Claim)];
  } in;
  unsigned char comer[ADMISSION_NONCE], listener[ADMISSION_NONCE];
} Comer;

struct Lobby {
  const AdmissionKey *key, *also; /* NULL: no second key */
  AdmissionRole role, also_role;
  int rank, listeners[LISTENERS], n_listeners;
  LobbyCounts counts;
  int n;
  Comer comers[LOBBY_MOST]; /* in order of arrival */
  struct pollfd polls[LOBBY_MOST + LISTENERS + 1];
};

Lobby *lobby_open(const AdmissionKey *key, AdmissionRole role, int rank, const int *listeners, int n) {
  Lobby *l = calloc(1, sizeof *l);
  if (!l) return NULL;
  l->key = key;
  l->role = role;
  l->rank = rank;
  l->n_listeners = n < LISTENERS ? n : LISTENERS;
  memcpy(l->listeners, listeners, sizeof *listeners * (size_t)l->n_listeners);
  return l;
}

void lobby_take_also(Lobby *l, const AdmissionKey *key, AdmissionRole role) {
  l->also = key;
  l->also_role = role;
}

/* Removes comer i. */
static void take_out(Lobby *l, int i) {
  memmove(&l->comers[i], &l->comers[i + 1], sizeof *l->comers * (size_t)(l->n - i - 1));
  l->n--;
}

static void turn_away(Lobby *l, int i, unsigned *count) {
  close(l->comers[i].fd);
  ++*count;
  take_out(l, i);
}

/* Too many open descriptors count as too many connections: drops the oldest. */
static bool make_room(Lobby *l) {
  if (l->n == 0) return false;
  turn_away(l, 0, &l->counts.silent);
  return true;
}

/* Accepts at most AT_ONCE connections; later ones wait for the next round, so that the present ones are served.  False
 * with errno. */
static bool take_in(Lobby *l, int listener) {
  for (int i = 0; i < AT_ONCE; i++) {
    int fd = socket_accept_now(listener);
    if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)) {
      if (!make_room(l)) return false;
      continue;
    }
    if (fd < 0) return errno == EAGAIN;
    if (l->n == LOBBY_MOST) make_room(l);
    l->counts.came++;
    l->comers[l->n++] = (Comer){.fd = fd, .until = sockets_now() + COMER_MS};
  }
  return true;
}

/* Small messages fit into the buffer of a new connection; a peer that fills it is no rank. */
static bool say(int fd, const void *data, size_t n) { return socket_send(fd, data, n, 0); }

static bool challenge(Lobby *l, Comer *c) {
  Challenge out = {.magic = ADMISSION_MAGIC};
  RtError why = {0};
  if (c->in.greeting.magic != ADMISSION_MAGIC || secret_random(out.nonce, sizeof out.nonce, &why)) return false;
  memcpy(out.run, l->key->run, sizeof out.run);
  memcpy(c->comer, c->in.greeting.nonce, sizeof c->comer);
  memcpy(c->listener, out.nonce, sizeof c->listener);
  c->greeted = true;
  c->got = 0;
  return say(c->fd, &out, sizeof out);
}

/* If the comer has proved that it knows the key, proves that this rank does. */
static bool admit_with(const Lobby *l, const AdmissionKey *key, AdmissionRole role, const Comer *c) {
  unsigned char mac[SECRET_BYTES];
  Statement s = state(key, &c->in.claim.claim, l->rank);
  memcpy(s.comer, c->comer, sizeof s.comer);
  memcpy(s.listener, c->listener, sizeof s.listener);
  sign(key, &s, FROM_COMER, mac);
  if (!secret_equal(mac, c->in.claim.mac) || c->in.claim.claim.role != (uint32_t)role) return false;
  sign(key, &s, FROM_LISTENER, mac);
  return say(c->fd, mac, sizeof mac);
}

static bool admit(const Lobby *l, const Comer *c) {
  return admit_with(l, l->key, l->role, c) || (l->also && admit_with(l, l->also, l->also_role, c));
}

/* Reads from comer i.  1: it is admitted; 0: its messages are not complete; -1: it was disconnected. */
static int advance(Lobby *l, int i) {
  Comer *c = &l->comers[i];
  for (;;) {
    size_t whole = c->greeted ? sizeof c->in.claim : sizeof c->in.greeting;
    ssize_t n = socket_receive_now(c->fd, c->in.bytes + c->got, whole - c->got);
    if (n == 0) return 0;
    if (n < 0) {
      turn_away(l, i, &l->counts.silent);
      return -1;
    }
    c->got += (size_t)n;
    if (c->got < whole) continue;
    bool claimed = c->greeted;
    if (claimed ? !admit(l, c) : !challenge(l, c)) {
      turn_away(l, i, claimed ? &l->counts.refused : &l->counts.strange);
      return -1;
    }
    if (claimed) return 1;
  }
}

static int none(int number) {
  errno = number;
  return -1;
}

static void send_late_away(Lobby *l) {
  int64_t now = sockets_now();
  while (l->n > 0 && l->comers[0].until <= now) turn_away(l, 0, &l->counts.silent);
}

/* Waits until a comer sends something, connects, or has waited too long. */
static bool wait_for_any(Lobby *l, int stop, int64_t deadline) {
  int n = 0;
  int64_t until = l->n > 0 && l->comers[0].until < deadline ? l->comers[0].until : deadline,
          left = until - sockets_now();
  for (int i = 0; i < l->n; i++) l->polls[n++] = (struct pollfd){l->comers[i].fd, POLLIN, 0};
  for (int i = 0; i < l->n_listeners; i++) l->polls[n++] = (struct pollfd){l->listeners[i], POLLIN, 0};
  l->polls[n++] = (struct pollfd){stop, POLLIN, 0};
  return poll(l->polls, (nfds_t)n, left < 0 ? 0 : left > 1000 ? 1000 : (int)left + 1) >= 0 || errno == EINTR;
}

/* Returns the connection of the first admitted comer; -1 if there is none. */
static int serve(Lobby *l, AdmissionClaim *claim) {
  for (int i = 0, at = 0, all = l->n; i < all; i++) {
    int said = l->polls[i].revents ? advance(l, at) : 0;
    if (said > 0) {
      int fd = l->comers[at].fd;
      *claim = l->comers[at].in.claim.claim;
      take_out(l, at);
      return fd;
    }
    at += said == 0;
  }
  return -1;
}

int lobby_next(Lobby *l, int stop, int64_t deadline, AdmissionClaim *claim) {
  for (;;) {
    send_late_away(l);
    int here = l->n;
    if (!wait_for_any(l, stop, deadline)) return -1;
    const struct pollfd *listeners = l->polls + here, *stopped = listeners + l->n_listeners;
    if (stopped->revents) return none(ECANCELED);
    int fd = serve(l, claim);
    if (fd >= 0) return fd;
    for (int i = 0; i < l->n_listeners; i++)
      if (listeners[i].revents && !take_in(l, l->listeners[i])) return -1;
    if (sockets_now() >= deadline) return none(ETIMEDOUT);
  }
}

LobbyCounts lobby_counts(const Lobby *l) { return l->counts; }
int lobby_waiting(const Lobby *l) { return l->n; }

void lobby_close(Lobby *l) {
  if (!l) return;
  for (int i = 0; i < l->n; i++) close(l->comers[i].fd);
  free(l);
}
