/* runtime/comm/transport_tcp.c - see transport_tcp.h.
 *
 * A message is a 24-byte header (magic, tag, length) and its bytes, sent as far as the socket takes them.  Contiguous
 * runs move directly from and to their place.  Others go through a buffer; bytes that the socket did not take are
 * gathered again.  A lost connection is no error at once: the watch finds out what happened to the peer and reports it.
 */
#define _GNU_SOURCE
#include "runtime/comm/transport_tcp.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "runtime/comm/relax.h"
#include "runtime/net/sockets.h"

#define MESSAGE_MAGIC UINT64_C(0x31474d50435450a1)

enum { BUFFER = 64 * 1024, DIRECT_LEAST = 4096, AT_ONCE = 4 * 1024 * 1024, SPINS = 20, VERDICT_MS = 2500 };

typedef struct Header {
  uint64_t magic, tag, length;
} Header;

/* One direction of one peer. */
typedef struct Channel {
  Transfer *transfer; /* NULL: nothing in flight */
  Header header;      /* being moved */
  size_t header_moved;
} Channel;

typedef struct Tcp {
  Transport base;
  Watch *watch;
  int *fds;
  Channel *send, *receive;
  char *buffer;
  struct pollfd *polls;
  int lost; /* a peer whose connection ended, or -1 */
  int64_t lost_ms;
  RtError failure;
} Tcp;

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

static void lose(Tcp *t, int peer) {
  if (t->lost >= 0) return;
  t->lost = peer;
  t->lost_ms = sockets_now();
}

/* Returns the next bytes of a transfer as one run: in place, or `t->buffer`, which the caller fills. */
static char *next_run(Tcp *t, const Transfer *x, size_t *n) {
  size_t first = x->first + x->moved, left = x->length - x->moved;
  size_t in_row = x->block.row_bytes - first % x->block.row_bytes;
  bool flat = x->block.stride == x->block.row_bytes || x->block.rows == 1;
  if (flat || in_row >= DIRECT_LEAST) {
    *n = least(least(left, AT_ONCE), flat ? left : in_row);
    return strided_direct(&x->block, first, *n);
  }
  *n = least(left, BUFFER);
  return t->buffer;
}

/* Interprets the result of a system call on a channel: bytes moved, 0 for not now, -1 for a lost connection. */
static ssize_t outcome(Tcp *t, int peer, ssize_t n) {
  if (n > 0) return n;
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return 0;
  lose(t, peer);
  return -1;
}

static bool finish(Channel *c) {
  Transfer *x = c->transfer;
  if (x->moved < x->length) return false;
  c->transfer = NULL;
  x->done = true;
  return true;
}

static bool advance_send(Tcp *t, int peer) {
  Channel *c = &t->send[peer];
  Transfer *x = c->transfer;
  bool moved = false;
  do {
    size_t n, head = sizeof c->header - c->header_moved;
    char *run = next_run(t, x, &n);
    if (run == t->buffer) strided_gather(run, &x->block, x->first + x->moved, n);
    struct iovec parts[2] = {{(char *)&c->header + c->header_moved, head}, {run, n}};
    struct msghdr message = {.msg_iov = head ? parts : parts + 1, .msg_iovlen = head ? 2 : 1};
    ssize_t sent = outcome(t, peer, sendmsg(t->fds[peer], &message, MSG_NOSIGNAL));
    if (sent <= 0) return moved;
    moved = true;
    size_t of_head = least((size_t)sent, head);
    c->header_moved += of_head;
    x->moved += (size_t)sent - of_head;
  } while (!finish(c));
  return true;
}

static bool check_header(Tcp *t, int peer) {
  const Channel *c = &t->receive[peer];
  const Transfer *x = c->transfer;
  const Header *h = &c->header;
  if (h->magic == MESSAGE_MAGIC && h->tag == x->tag && h->length == x->length) return true;
  rt_error(&t->failure, RT_INTERNAL,
           "ranks disagree about their communication: rank %d expects from rank %d message %#llx of %llu bytes, but it "
           "sent %#llx of %llu bytes%s",
           t->base.rank, peer, (unsigned long long)x->tag, (unsigned long long)x->length, (unsigned long long)h->tag,
           (unsigned long long)h->length, h->magic == MESSAGE_MAGIC ? "" : " (not a message)");
  return false;
}

static bool receive_header(Tcp *t, int peer, bool *moved) {
  Channel *c = &t->receive[peer];
  while (c->header_moved < sizeof c->header) {
    ssize_t n = outcome(
        t, peer, recv(t->fds[peer], (char *)&c->header + c->header_moved, sizeof c->header - c->header_moved, 0));
    if (n <= 0) return false;
    *moved = true;
    c->header_moved += (size_t)n;
    if (c->header_moved == sizeof c->header && !check_header(t, peer)) return false;
  }
  return true;
}

static bool advance_receive(Tcp *t, int peer) {
  Channel *c = &t->receive[peer];
  Transfer *x = c->transfer;
  bool moved = false;
  if (!receive_header(t, peer, &moved)) return moved;
  do {
    size_t n;
    char *run = next_run(t, x, &n);
    ssize_t got = outcome(t, peer, recv(t->fds[peer], run, n, 0));
    if (got <= 0) return moved;
    moved = true;
    if (run == t->buffer) strided_scatter(&x->block, x->first + x->moved, run, (size_t)got);
    x->moved += (size_t)got;
  } while (!finish(c));
  return true;
}

static void start(Channel *c, Transfer *x, Header header) {
  x->moved = 0;
  x->done = false;
  *c = (Channel){.transfer = x, .header = header};
}

static void tcp_isend(Transport *base, Transfer *x) {
  start(&((Tcp *)base)->send[x->peer], x, (Header){MESSAGE_MAGIC, x->tag, x->length});
}
static void tcp_irecv(Transport *base, Transfer *x) { start(&((Tcp *)base)->receive[x->peer], x, (Header){0}); }

static RtStatus tcp_progress(Transport *base, bool *moved, RtError *error) {
  Tcp *t = (Tcp *)base;
  *moved = false;
  if (t->watch && watch_failed(t->watch, &t->failure)) return rt_error(error, t->failure.status, "%s", t->failure.text);
  for (int p = 0; p < base->world && t->lost < 0 && !t->failure.status; p++) {
    if (t->send[p].transfer && advance_send(t, p)) *moved = true;
    if (t->receive[p].transfer && t->lost < 0 && advance_receive(t, p)) *moved = true;
  }
  if (t->lost >= 0 && (!t->watch || sockets_now() - t->lost_ms > VERDICT_MS))
    rt_error(&t->failure, RT_FAILED, "rank %d lost its connection to rank %d", base->rank, t->lost);
  return t->failure.status ? rt_error(error, t->failure.status, "%s", t->failure.text) : RT_OK;
}

static void tcp_sleep(Transport *base, unsigned spins, int milliseconds) {
  Tcp *t = (Tcp *)base;
  if (spins < SPINS && t->lost < 0) {
    relax(); /* never sched_yield: contention.h */
    return;
  }
  int n = 0;
  for (int p = 0; p < base->world && t->lost < 0; p++) {
    int events = (t->send[p].transfer ? POLLOUT : 0) | (t->receive[p].transfer ? POLLIN : 0);
    if (events) t->polls[n++] = (struct pollfd){t->fds[p], (short)events, 0};
  }
  if (t->watch) t->polls[n++] = (struct pollfd){watch_fd(t->watch), POLLIN, 0};
  poll(t->polls, (nfds_t)n, milliseconds);
}

/* The other ranks see their connections end. */
static void tcp_abort(Transport *base) {
  Tcp *t = (Tcp *)base;
  rt_error(&t->failure, RT_ABORTED, "rank %d was stopped because another rank failed", base->rank);
  for (int p = 0; p < base->world; p++)
    if (t->fds[p] >= 0) shutdown(t->fds[p], SHUT_RDWR);
}

static void tcp_close(Transport *base) {
  Tcp *t = (Tcp *)base;
  for (int p = 0; t->fds && p < base->world; p++)
    if (t->fds[p] >= 0) close(t->fds[p]);
  free(t->fds);
  free(t->send);
  free(t->receive);
  free(t->buffer);
  free(t->polls);
  free(t);
}

static const TransportOps tcp_ops = {
    .name = "tcp",
    .isend = tcp_isend,
    .irecv = tcp_irecv,
    .progress = tcp_progress,
    .sleep = tcp_sleep,
    .abort = tcp_abort,
    .close = tcp_close,
};

RtStatus transport_tcp_open(const int *fds, int rank, int world, Watch *watch, Transport **out, RtError *error) {
  Tcp *t = calloc(1, sizeof *t);
  size_t n = (size_t)world;
  if (!t) return rt_error(error, RT_FAILED, "out of memory");
  t->base = (Transport){&tcp_ops, rank, world, 0};
  t->watch = watch;
  t->lost = -1;
  t->fds = malloc(n * sizeof *t->fds);
  if (t->fds) memcpy(t->fds, fds, n * sizeof *t->fds);
  t->send = calloc(n, sizeof *t->send);
  t->receive = calloc(n, sizeof *t->receive);
  t->buffer = malloc(BUFFER);
  t->polls = calloc(n + 1, sizeof *t->polls);
  if (!t->fds || !t->send || !t->receive || !t->buffer || !t->polls) {
    tcp_close(&t->base);
    return rt_error(error, RT_FAILED, "out of memory");
  }
  *out = &t->base;
  return RT_OK;
}
