/* tests/fuzz/fuzz_welcome.c - libFuzzer target: any bytes as the answer of rank 0 to an admitted rank
 * (runtime/launch/rendezvous.c), and as the descriptions that ranks exchange (runtime/launch/same_run.h).
 *
 * The first byte: which of the two; whether there is a secret.  A refusal has a status and a reason; an accepted
 * address is valid, and without a secret one of the loopback; descriptions of ranks pass only if they are equal.  The
 * file under test is included for its static functions. */
#undef _GNU_SOURCE /* the file has its own */
#include "runtime/launch/rendezvous.c"

#include "base/die.h"
#include "runtime/launch/same_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

enum { WORLD = 4, RANKS = 3 };

static void must_say_why(RtStatus status, const RtError *error) {
  if (status && (error->status != status || !*error->text || !memchr(error->text, 0, sizeof error->text)))
    die("refused without a reason");
  if (!status && error->status) die("a reason without a refusal");
}

static void welcome(const uint8_t *bytes, size_t n, bool network) {
  static const Rendezvous place = {.rank = WORLD - 1, .world = WORLD, .address = "127.0.0.1:1", .timeout_ms = 1000};
  Rendezvous r = place;
  SocketAddress first = {.bytes = sizeof(struct sockaddr_in6)};
  struct {
    Welcome head;
    SocketAddress addresses[WORLD];
  } sent = {0};
  Welcome w;
  Meeting m;
  RtError error = {0};
  int fds[2];
  r.network = network;
  first.storage.ss_family = AF_INET6;
  memcpy(&sent, bytes, n < sizeof sent ? n : sizeof sent);
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0) die("no sockets");
  if (!socket_send(fds[1], &sent, sizeof sent, sockets_now() + 1000)) die("no room");
  if (open_meeting(&m, WORLD, &error)) die("no memory");
  m.controls[0] = fds[0];
  RtStatus status = take_welcome(&r, &m, &w, &error);
  if (!status && (sent.head.status || sent.head.magic != WELCOME_MAGIC)) die("welcome by mistake");
  if (!status) status = check_addresses(&r, &m, &first, &error);
  must_say_why(status, &error);
  for (int i = 1; i < r.rank && !status; i++) {
    const SocketAddress *a = &m.addresses[i];
    if (a->bytes > sizeof a->storage || (a->storage.ss_family != AF_INET && a->storage.ss_family != AF_INET6))
      die("an invalid address is accepted");
    if (!network && !address_is_loopback(a)) die("an address of a network is accepted without a secret");
  }
  rendezvous_close(&m);
  close(fds[1]);
}

/* The bytes overwrite the descriptions of three equal ranks. */
static void identities(const uint8_t *bytes, size_t n) {
  static uint64_t magic;
  RankIdentity all[RANKS];
  RtError error = {0};
  memset(all, 0, sizeof all);
  if (!magic) magic = rank_identity(0, RANKS).magic; /* it hashes the whole program */
  for (int i = 0; i < RANKS; i++)
    all[i] = (RankIdentity){.magic = magic,
                            .identity_bytes = sizeof *all,
                            .rank = (uint32_t)i,
                            .world = RANKS,
                            .ranks = RANKS,
                            .threads = 2};
  for (size_t i = 0; i < n; i++) ((uint8_t *)all)[i % sizeof all] ^= bytes[i];
  RtStatus status = launch_same_run_check(all, RANKS, &error);
  must_say_why(status, &error);
  if (status) return;
  int threads = launch_same_run_threads(all, RANKS);
  if (threads < 1) die("%d threads", threads);
  for (int i = 0; i < RANKS; i++) {
    if (all[i].program != all[0].program || all[i].program_bytes != all[0].program_bytes ||
        all[i].runtime != all[0].runtime || all[i].weights != all[0].weights || all[i].status ||
        (all[i].threads_chosen && all[i].threads != threads))
      die("rank %d differs", i);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  if (n == 0) return 0;
  if (bytes[0] & 1) welcome(bytes + 1, n - 1, bytes[0] & 2);
  else identities(bytes + 1, n - 1);
  return 0;
}
