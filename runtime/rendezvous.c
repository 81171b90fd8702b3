/* runtime/rendezvous.c - see rendezvous.h.
 *
 * The file (meeting_file.h) has one address per line, HOST PORT, all addresses of rank 0's machine; whoever reads it tries them in
 * turn.
 *
 * Not done: secrets.  Whoever can reach the port and knows the program's hash can take a rank's place; machines that share a
 * computation are supposed to share a trusted network.
 */
#define _GNU_SOURCE
#include "runtime/rendezvous.h"

#include <errno.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "runtime/meeting_file.h"
#include "runtime/sockets.h"

#define MEET_MAGIC UINT64_C(0x3154454d435450a1)

enum { MEET_VERSION = 1, RETRY_MS = 50, HELLO_MS = 2000, LOOK_MS = 200, ADDRESSES = 4096 };

typedef enum HelloKind { HELLO_CONTROL, HELLO_DATA } HelloKind;

typedef struct Hello {
  uint64_t magic;
  uint32_t version, kind;
  int32_t rank, world;
  uint64_t program[2];
  uint32_t port; /* where this rank listens */
  uint32_t reserved;
} Hello;

/* Rank 0's answer, the same to all. */
typedef struct Welcome {
  uint64_t magic;
  uint32_t status, reserved;
  char text[RT_ERROR_TEXT];
  SocketAddress addresses[SESSION_MAX_RANKS]; /* rank 0's is where it was found */
} Welcome;

typedef struct Host {
  char name[256], port[8];
} Host;

static bool is_file(const Rendezvous *r) { return !r->spread && (strchr(r->address, '/') || !strrchr(r->address, ':')); }

static bool split_address(const char *address, Host *out) {
  const char *colon = strrchr(address, ':');
  size_t n = (size_t)(colon - address);
  char *end;
  long port = strtol(colon + 1, &end, 10);
  bool brackets = n > 2 && address[0] == '[' && address[n - 1] == ']';
  if (brackets) address++, n -= 2;
  if (n == 0 || n >= sizeof out->name || *end || end == colon + 1 || port < 1 || port > 65535) return false;
  memcpy(out->name, address, n);
  out->name[n] = 0;
  snprintf(out->port, sizeof out->port, "%ld", port);
  return true;
}

static void nap(void) { nanosleep(&(struct timespec){0, RETRY_MS * 1000000L}, NULL); }

static Hello hello_of(const Rendezvous *r, HelloKind kind, uint16_t port) {
  return (Hello){MEET_MAGIC, MEET_VERSION, kind, r->rank, r->world, {r->program[0], r->program[1]}, port, 0};
}

static uint16_t own_port(int listener) {
  SocketAddress a = {.bytes = sizeof a.storage};
  return getsockname(listener, (struct sockaddr *)&a.storage, &a.bytes) == 0 ? socket_port(&a) : 0;
}

/* ---- rank 0 */

/* The addresses of this machine, the loopback last. */
static int list_addresses(uint16_t port, char *text, size_t size) {
  struct ifaddrs *all;
  int n = 0;
  if (getifaddrs(&all) != 0) return 0;
  for (int loopback = 0; loopback < 2; loopback++)
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
      char host[NI_MAXHOST];
      int family = i->ifa_addr ? i->ifa_addr->sa_family : AF_UNSPEC;
      socklen_t bytes = family == AF_INET ? sizeof(struct sockaddr_in) : sizeof(struct sockaddr_in6);
      if ((family != AF_INET && family != AF_INET6) || getnameinfo(i->ifa_addr, bytes, host, sizeof host, NULL, 0, NI_NUMERICHOST)) continue;
      bool local = strcmp(host, "::1") == 0 || strncmp(host, "127.", 4) == 0;
      if (strchr(host, '%') || local != (loopback == 1) || (size_t)n >= size - 1) continue;
      n += snprintf(text + n, size - (size_t)n, "%s %u\n", host, port);
    }
  freeifaddrs(all);
  return n;
}

/* Tells the others this machine's addresses; `text` has ADDRESSES bytes, zeroed. */
static RtStatus announce(const Rendezvous *r, uint16_t port, char *text, RtError *error) {
  int n = list_addresses(port, text, ADDRESSES);
  if (n <= 0 || n >= ADDRESSES) return rt_error(error, RT_FAILED, "this machine's addresses cannot be listed");
  RtStatus status = r->spread ? r->spread(r->context, text, ADDRESSES, error) : meeting_file_publish(r->address, text, error);
  if (status) *text = 0; /* nothing to take away */
  return status;
}

static RtStatus open_place(const Rendezvous *r, int *listener, char *text, RtError *error) {
  Host host;
  bool given = !is_file(r) && !r->spread;
  if (given && !split_address(r->address, &host))
    return rt_error(error, RT_USAGE, "'%s' is neither HOST:PORT nor a file where ranks can meet", r->address);
  *listener = socket_listen(given ? (uint16_t)atoi(host.port) : 0);
  if (*listener < 0) return rt_error_errno(error, RT_FAILED, "rank 0 cannot listen at %s", r->address);
  return given ? RT_OK : announce(r, own_port(*listener), text, error);
}

/* Does the newcomer fit? */
static RtStatus check_hello(const Rendezvous *r, const Hello *h, const Meeting *m, RtError *error) {
  if (h->version != MEET_VERSION)
    return rt_error(error, RT_BAD_INPUT, "rank %d was built with another version of apc than rank 0", h->rank);
  if (h->program[0] != r->program[0] || h->program[1] != r->program[1])
    return rt_error(error, RT_BAD_INPUT, "rank %d runs another program than rank 0 (%016llx of %llu bytes, not %016llx of %llu): all ranks need "
                    "the same file", h->rank, (unsigned long long)h->program[0], (unsigned long long)h->program[1],
                    (unsigned long long)r->program[0], (unsigned long long)r->program[1]);
  if (h->world != r->world || h->rank < 1 || h->rank >= r->world)
    return rt_error(error, RT_USAGE, "rank %d of %d came to a world of %d ranks", h->rank, h->world, r->world);
  if (m->controls[h->rank] >= 0) return rt_error(error, RT_USAGE, "there are two processes with rank %d", h->rank);
  return RT_OK;
}

/* "1, 2 and 3 more" */
static void missing_ranks(const Rendezvous *r, const Meeting *m, char *text, size_t size) {
  int n = 0, used = 0;
  for (int i = 1; i < r->world; i++) {
    if (m->controls[i] >= 0) continue;
    if (n++ < 4) used += snprintf(text + used, size - (size_t)used, "%s%d", n > 1 ? ", " : "", i);
  }
  if (n > 4) snprintf(text + used, size - (size_t)used, " and %d more", n - 4);
}

/* Who has come says nothing more, so what can be read is the end. */
static RtStatus check_present(const Rendezvous *r, const Meeting *m, RtError *error) {
  for (int i = 1; i < r->world; i++) {
    char byte;
    if (m->controls[i] < 0) continue;
    ssize_t n = recv(m->controls[i], &byte, 1, MSG_PEEK | MSG_DONTWAIT);
    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
      return rt_error(error, RT_FAILED, "rank %d was lost while rank 0 waited for the others: its process ended", i);
  }
  return RT_OK;
}

/* The next connection, as long as those who have come are still there. */
static RtStatus next_comer(const Rendezvous *r, int listener, int64_t deadline, const Meeting *m, int *fd, RtError *error) {
  char missing[64] = "";
  for (;;) {
    int64_t soon = sockets_now() + LOOK_MS;
    *fd = socket_accept(listener, -1, soon < deadline ? soon : deadline);
    if (*fd >= 0) return RT_OK;
    if (errno != ETIMEDOUT) return rt_error_errno(error, RT_FAILED, "waiting for the other ranks at %s", r->address);
    RtStatus status = check_present(r, m, error);
    if (status) return status;
    if (sockets_now() < deadline) continue;
    missing_ranks(r, m, missing, sizeof missing);
    return rt_error(error, RT_LATE, "rank %s of %d did not come to %s within %.1f s", missing, r->world, r->address, r->timeout_ms / 1000.0);
  }
}

/* Takes the next one in; strangers that say no hello are sent away. */
static RtStatus let_in(const Rendezvous *r, int listener, int64_t deadline, Meeting *m, Welcome *w, int *came, RtError *error) {
  Hello h;
  int fd;
  RtStatus status = next_comer(r, listener, deadline, m, &fd, error);
  if (status) return status;
  int64_t soon = sockets_now() + HELLO_MS;
  if (!socket_receive(fd, &h, sizeof h, soon < deadline ? soon : deadline) || h.magic != MEET_MAGIC || h.kind != HELLO_CONTROL) {
    close(fd);
    return RT_OK;
  }
  status = check_hello(r, &h, m, error);
  if (status) {
    w->status = (uint32_t)status;
    snprintf(w->text, sizeof w->text, "%s", error->text);
    socket_send(fd, w, sizeof *w, soon);
    close(fd);
    return status;
  }
  SocketAddress *a = &w->addresses[h.rank];
  a->bytes = sizeof a->storage;
  getpeername(fd, (struct sockaddr *)&a->storage, &a->bytes);
  socket_unmap(a);
  socket_set_port(a, (uint16_t)h.port);
  m->controls[h.rank] = fd;
  ++*came;
  return RT_OK;
}

static RtStatus meet_as_first(const Rendezvous *r, int listener, int64_t deadline, Meeting *m, Welcome *w, RtError *error) {
  int came = 1;
  RtStatus status = RT_OK;
  while (came < r->world && !status) status = let_in(r, listener, deadline, m, w, &came, error);
  w->status = (uint32_t)status;
  if (status) snprintf(w->text, sizeof w->text, "%s", error->text);
  for (int i = 1; i < r->world; i++)
    if (m->controls[i] >= 0) socket_send(m->controls[i], w, sizeof *w, sockets_now() + HELLO_MS);
  return status;
}

/* ---- the others */

/* To the first of the addresses that answers. */
static int connect_listed(const char *text, int64_t deadline) {
  char host[256], port[8];
  int fd = -1;
  for (int n; fd < 0 && sscanf(text, "%255s %7s%n", host, port, &n) == 2; text += n) {
    int64_t soon = sockets_now() + HELLO_MS;
    fd = socket_connect_name(host, port, soon < deadline ? soon : deadline);
  }
  return fd;
}

/* `told`: what rank 0 has announced. */
static int connect_once(const Rendezvous *r, const Host *host, char *told, int64_t deadline) {
  if (!r->spread && !is_file(r)) return socket_connect_name(host->name, host->port, deadline);
  if (!r->spread && !meeting_file_read(r->address, told, ADDRESSES)) return -1;
  return connect_listed(told, deadline);
}

/* A host that nobody knows is wrong at once; one that cannot be asked for just now only when the time is up. */
static RtStatus check_host(const Rendezvous *r, const Host *host, bool late, RtError *error) {
  const char *why;
  bool soon;
  if (!*host->name || errno != EADDRNOTAVAIL || socket_resolves(host->name, &why, &soon) || (soon && !late)) return RT_OK;
  return rt_error(error, soon ? RT_LATE : RT_USAGE, "rank %d cannot look up the host '%s', where rank 0 is to be: %s", r->rank, host->name, why);
}

/* Rank 0 may come later. */
static RtStatus reach_first(const Rendezvous *r, int64_t deadline, int *fd, RtError *error) {
  Host host = {.name = ""};
  char told[ADDRESSES] = "";
  if (!r->spread && !is_file(r) && !split_address(r->address, &host))
    return rt_error(error, RT_USAGE, "'%s' is neither HOST:PORT nor a file where ranks can meet", r->address);
  RtStatus status = r->spread ? r->spread(r->context, told, sizeof told, error) : RT_OK;
  if (status) return status;
  told[sizeof told - 1] = 0;
  for (;;) {
    *fd = connect_once(r, &host, told, deadline);
    if (*fd >= 0) return RT_OK;
    int number = errno;
    bool late = sockets_now() + RETRY_MS >= deadline;
    status = check_host(r, &host, late, error);
    if (status) return status;
    errno = number;
    if (late)
      return rt_error_errno(error, RT_LATE, "rank %d did not find rank 0 at %s within %.1f s", r->rank, r->address, r->timeout_ms / 1000.0);
    nap();
  }
}

static RtStatus take_welcome(const Rendezvous *r, int fd, Welcome *w, int64_t deadline, RtError *error) {
  if (!socket_receive(fd, w, sizeof *w, deadline))
    return errno == ETIMEDOUT ? rt_error(error, RT_LATE, "rank 0 is late: it did not answer rank %d at %s within %.1f s", r->rank, r->address, (r->timeout_ms + HELLO_MS) / 1000.0)
                              : rt_error_errno(error, RT_FAILED, "rank 0 was lost at %s", r->address);
  if (w->magic != MEET_MAGIC) return rt_error(error, RT_BAD_INPUT, "what listens at %s is not rank 0 of this program", r->address);
  w->text[RT_ERROR_TEXT - 1] = 0;
  if (w->status == RT_OK) return RT_OK;
  return rt_error(error, w->status < RT_STATUS_COUNT ? (RtStatus)w->status : RT_FAILED, "%s", w->text);
}

static RtStatus meet_as_other(const Rendezvous *r, int listener, int64_t deadline, Meeting *m, Welcome *w, RtError *error) {
  int fd = -1;
  RtStatus status = reach_first(r, deadline, &fd, error);
  if (status) return status;
  m->controls[0] = fd;
  Hello h = hello_of(r, HELLO_CONTROL, own_port(listener));
  SocketAddress first = {.bytes = sizeof first.storage};
  getpeername(fd, (struct sockaddr *)&first.storage, &first.bytes);
  /* Rank 0 waits for others as long as we waited for it, and a little more so that its reason arrives. */
  if (!socket_send(fd, &h, sizeof h, deadline)) return rt_error_errno(error, RT_FAILED, "rank 0 was lost at %s", r->address);
  status = take_welcome(r, fd, w, sockets_now() + r->timeout_ms + HELLO_MS, error);
  w->addresses[0] = first;
  return status;
}

/* ---- pairs */

static RtStatus lost_pair(const Rendezvous *r, int peer, RtError *error) {
  if (errno == ECANCELED) return rt_error(error, RT_ABORTED, "rank %d was stopped because another rank failed", r->rank);
  return rt_error_errno(error, errno == ETIMEDOUT ? RT_LATE : RT_FAILED, "rank %d cannot connect to rank %d", r->rank, peer);
}

static int next_missing(const Rendezvous *r, const Meeting *m) {
  int i = r->rank + 1;
  while (i < r->world && m->data[i] >= 0) i++;
  return i;
}

/* The lower ranks listen already; the higher ones come to this one. */
RtStatus rendezvous_connect(const Rendezvous *r, Meeting *m, int stop, RtError *error) {
  int64_t deadline = sockets_now() + r->timeout_ms;
  Hello h = hello_of(r, HELLO_DATA, 0);
  for (int i = 0; i < r->rank; i++) {
    m->data[i] = socket_connect(&m->addresses[i], deadline);
    if (m->data[i] < 0 || !socket_send(m->data[i], &h, sizeof h, deadline)) return lost_pair(r, i, error);
  }
  while (next_missing(r, m) < r->world) {
    int fd = socket_accept(m->listener, stop, deadline);
    if (fd < 0) return lost_pair(r, next_missing(r, m), error);
    bool fits = socket_receive(fd, &h, sizeof h, sockets_now() + HELLO_MS) && h.magic == MEET_MAGIC && h.kind == HELLO_DATA &&
                h.rank > r->rank && h.rank < r->world && h.program[0] == r->program[0] && m->data[h.rank] < 0;
    if (fits) m->data[h.rank] = fd;
    else close(fd);
  }
  return RT_OK;
}

void rendezvous_close(Meeting *m) {
  for (int i = 0; i < SESSION_MAX_RANKS; i++) {
    if (m->controls[i] >= 0) close(m->controls[i]);
    if (m->data[i] >= 0) close(m->data[i]);
    m->controls[i] = m->data[i] = -1;
  }
  if (m->listener >= 0) close(m->listener);
  m->listener = -1;
}

RtStatus rendezvous_meet(const Rendezvous *r, Meeting *m, RtError *error) {
  int64_t deadline = sockets_now() + r->timeout_ms;
  memset(m, 0, sizeof *m);
  memset(m->controls, -1, sizeof m->controls);
  memset(m->data, -1, sizeof m->data);
  m->listener = -1;
  Welcome *w = calloc(1, sizeof *w);
  char text[ADDRESSES] = "";
  if (!w) return rt_error(error, RT_FAILED, "out of memory");
  w->magic = MEET_MAGIC;
  RtStatus status = RT_OK;
  if (r->rank == 0) status = open_place(r, &m->listener, text, error);
  else if ((m->listener = socket_listen(0)) < 0) status = rt_error_errno(error, RT_FAILED, "rank %d cannot listen", r->rank);
  if (!status) status = r->rank == 0 ? meet_as_first(r, m->listener, deadline, m, w, error) : meet_as_other(r, m->listener, deadline, m, w, error);
  if (r->rank == 0 && is_file(r) && *text) meeting_file_withdraw(r->address, text);
  for (int i = 0; i < r->world; i++)
    if (m->controls[i] >= 0) socket_notice_loss(m->controls[i]);
  memcpy(m->addresses, w->addresses, sizeof m->addresses);
  free(w);
  return status;
}
