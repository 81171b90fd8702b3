/* tests/fuzz/fuzz_greeting.c - libFuzzer target: any bytes as messages of a process that wants to be admitted
 * (runtime/launch/admission.h).
 *
 * The first byte: in how many pieces they arrive; whether the MAC is made right.  A process is admitted exactly if it
 * has a right one; others receive at most the challenge.  The same bytes are also the answer of a listener.  The file
 * under test is included for its static functions. */
#include "runtime/launch/admission.c"

#include "base/die.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const AdmissionKey key = {.key = "key", .label = "label", .run = "run"};

static void pair_of(int fds[2]) {
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) die("no sockets");
}

/* The claim with the MAC that belongs to it. */
static void sign_claim(unsigned char *claim, const unsigned char *greeting, const Challenge *c) {
  AdmissionClaim what;
  memcpy(&what, claim, sizeof what);
  Statement s = state(&key, &what, 0);
  memcpy(s.comer, greeting + offsetof(Greeting, nonce), sizeof s.comer);
  memcpy(s.listener, c->nonce, sizeof s.listener);
  sign(&key, &s, FROM_COMER, claim + offsetof(Claim, mac));
}

/* Sends `n` bytes in pieces; returns the lobby's reaction, as lobby_next does. */
static int say_in_pieces(Lobby *l, int fd, const unsigned char *bytes, size_t n, size_t pieces) {
  int said = 0;
  for (size_t i = 0; i < pieces && said == 0; i++) {
    size_t from = n * i / pieces, to = n * (i + 1) / pieces;
    if (!socket_send(fd, bytes + from, to - from, 0)) die("a lobby reads nothing");
    said = advance(l, 0);
  }
  return said;
}

static void come(const uint8_t *bytes, size_t n, size_t pieces, bool right) {
  int fds[2], none = -1, said;
  unsigned char words[sizeof(Greeting) + sizeof(Claim)] = {0}, heard[256];
  Lobby *l = lobby_open(&key, ADMISSION_CONTROL, 0, &none, 1);
  if (!l) die("no memory");
  pair_of(fds);
  if (n > sizeof words) n = sizeof words;
  memcpy(words, bytes, n);
  l->comers[l->n++] = (Comer){.fd = fds[0], .until = sockets_now() + COMER_MS};
  size_t first = n < sizeof(Greeting) ? n : sizeof(Greeting);
  said = say_in_pieces(l, fds[1], words, first, pieces);
  ssize_t got = said < 0 ? 0 : recv(fds[1], heard, sizeof heard, 0);
  if (said > 0) die("admitted without a claim");
  if (said == 0 && n > first) {
    if (right && n == sizeof words && got == (ssize_t)sizeof(Challenge))
      sign_claim(words + first, words, (const Challenge *)(const void *)heard);
    said = say_in_pieces(l, fds[1], words + first, n - first, pieces);
  }
  uint32_t role;
  memcpy(&role, words + sizeof(Greeting), sizeof role);
  if (said > 0 && (!right || n < sizeof words || role != ADMISSION_CONTROL)) die("admitted without a MAC");
  if (said <= 0 && right && n == sizeof words && role == ADMISSION_CONTROL && got == (ssize_t)sizeof(Challenge))
    die("a right claim was refused");
  got = recv(fds[1], heard, sizeof heard, 0);
  if (said <= 0 && got > 0) die("a stranger hears %zd bytes more", got);
  if (said > 0) close(fds[0]), l->n = 0; /* as lobby_next passes it on */
  lobby_close(l);
  close(fds[1]);
}

/* A listener answers with the bytes: it is no rank of ours. */
static void ask(const uint8_t *bytes, size_t n) {
  int fds[2];
  AdmissionKey mine = key;
  AdmissionClaim claim = {.role = ADMISSION_DATA, .rank = 1, .world = 2};
  pair_of(fds);
  if (!socket_send(fds[1], bytes, n < 4096 ? n : 4096, 0)) die("no room");
  shutdown(fds[1], SHUT_WR);
  if (admission_ask(fds[0], &mine, n & 1, &claim, 0, -1, sockets_now() + COMER_MS))
    die("a peer without the key is accepted");
  close(fds[0]);
  close(fds[1]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (n == 0) return 0;
  come(bytes + 1, n - 1, 1 + bytes[0] % 8, bytes[0] & 8);
  ask(bytes + 1, n - 1);
  return 0;
}
