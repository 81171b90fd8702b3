/* runtime/net/sockets.c - see sockets.h.  All sockets are non-blocking, without delay, and closed on exec. */
#define _GNU_SOURCE
#include "runtime/net/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG = 4096 /* the system has a limit of its own */, LOSS_MS = 1500, OTHER_DESCRIPTORS = 256 };

int64_t sockets_now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* ---- addresses */

void socket_unmap(SocketAddress *a) {
  struct sockaddr_in6 *six = (struct sockaddr_in6 *)(void *)&a->storage;
  if (a->storage.ss_family != AF_INET6 || !IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) return;
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = six->sin6_port};
  memcpy(&four.sin_addr, six->sin6_addr.s6_addr + 12, 4);
  memset(a, 0, sizeof *a);
  memcpy(&a->storage, &four, sizeof four);
  a->bytes = sizeof four;
}

static in_port_t *port_of(const SocketAddress *a) {
  char *p = (char *)(uintptr_t)&a->storage;
  size_t at = a->storage.ss_family == AF_INET6 ? offsetof(struct sockaddr_in6, sin6_port)
                                               : offsetof(struct sockaddr_in, sin_port);
  return (in_port_t *)(void *)(p + at);
}

void socket_set_port(SocketAddress *a, uint16_t port) { *port_of(a) = htons(port); }
uint16_t socket_port(const SocketAddress *a) { return ntohs(*port_of(a)); }

/* ---- connections */

int socket_close_with(int fd, int number) {
  close(fd);
  errno = number;
  return -1;
}

bool sockets_allow(size_t n) {
  struct rlimit limit;
  rlim_t need = (rlim_t)n + OTHER_DESCRIPTORS;
  if (getrlimit(RLIMIT_NOFILE, &limit)) return false;
  if (limit.rlim_cur == RLIM_INFINITY || limit.rlim_cur >= need) return true;
  if (limit.rlim_max != RLIM_INFINITY && limit.rlim_max < need) {
    errno = EMFILE;
    return false;
  }
  limit.rlim_cur = need;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

static bool is_any(const SocketAddress *a) {
  return a->storage.ss_family == AF_INET6 &&
         IN6_IS_ADDR_UNSPECIFIED(&((const struct sockaddr_in6 *)(const void *)&a->storage)->sin6_addr);
}

/* The unspecified IPv6 address accepts IPv4 connections as well. */
int socket_listen(const SocketAddress *at) {
  int fd = socket(at->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1, only = !is_any(at);
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (at->storage.ss_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, sizeof only);
  if (bind(fd, (const struct sockaddr *)&at->storage, at->bytes) == 0 && listen(fd, BACKLOG) == 0) return fd;
  return socket_close_with(fd, errno);
}

uint16_t socket_own_port(int listener) {
  SocketAddress a = {.bytes = sizeof a.storage};
  return getsockname(listener, (struct sockaddr *)&a.storage, &a.bytes) == 0 ? socket_port(&a) : 0;
}

/* Waits until the socket is ready, or the deadline; false with errno. */
static bool ready(int fd, short events, int stop, int64_t deadline) {
  for (;;) {
    int64_t left = deadline - sockets_now();
    struct pollfd p[2] = {{fd, events, 0}, {stop, POLLIN, 0}};
    int n = left <= 0 ? 0 : poll(p, stop >= 0 ? 2 : 1, left > 1000 ? 1000 : (int)left);
    if (n < 0 && errno != EINTR) return false;
    if (n > 0 && stop >= 0 && p[1].revents) {
      errno = ECANCELED;
      return false;
    }
    if (n > 0) return true;
    if (left <= 0) {
      errno = ETIMEDOUT;
      return false;
    }
  }
}

static void set_up(int fd) {
  int yes = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

/* Errors of a connection are not errors of the listener. */
int socket_accept_now(int listener) {
  int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
  if (fd >= 0) set_up(fd);
  else if (errno != EMFILE && errno != ENFILE && errno != ENOBUFS && errno != ENOMEM && errno != EBADF &&
           errno != EINVAL)
    errno = EAGAIN;
  return fd;
}

/* If no process listens at a port of this machine, a connection to it may get that port as its own, and then connects
 * to itself. */
static bool is_own_end(int fd) {
  SocketAddress here = {.bytes = sizeof here.storage}, there = {.bytes = sizeof there.storage};
  return getsockname(fd, (struct sockaddr *)&here.storage, &here.bytes) == 0 &&
         getpeername(fd, (struct sockaddr *)&there.storage, &there.bytes) == 0 && here.bytes == there.bytes &&
         memcmp(&here.storage, &there.storage, here.bytes) == 0;
}

int socket_connect(const SocketAddress *to, int stop, int64_t deadline) {
  int fd = socket(to->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), number = 0;
  socklen_t size = sizeof number;
  if (fd < 0) return -1;
  set_up(fd);
  if (connect(fd, (const struct sockaddr *)&to->storage, to->bytes) != 0) {
    if (errno != EINPROGRESS || !ready(fd, POLLOUT, stop, deadline)) return socket_close_with(fd, errno);
    getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size);
  }
  if (!number && is_own_end(fd)) number = ECONNREFUSED;
  return number ? socket_close_with(fd, number) : fd;
}

/* ---- whole messages */

bool socket_send(int fd, const void *data, size_t n, int64_t deadline) {
  const char *p = data;
  while (n > 0) {
    ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
    if (k > 0) {
      p += k;
      n -= (size_t)k;
    } else if (k < 0 && errno != EAGAIN && errno != EINTR) {
      return false;
    } else if (!ready(fd, POLLOUT, -1, deadline)) {
      return false;
    }
  }
  return true;
}

ssize_t socket_receive_now(int fd, void *data, size_t n) {
  for (;;) {
    ssize_t k = recv(fd, data, n, 0);
    if (k > 0) return k;
    if (k == 0) errno = ECONNRESET;
    if (k == 0 || (errno != EAGAIN && errno != EINTR)) return -1;
    if (errno == EAGAIN) return 0;
  }
}

bool socket_receive(int fd, void *data, size_t n, int stop, int64_t deadline) {
  char *p = data;
  while (n > 0) {
    ssize_t k = socket_receive_now(fd, p, n);
    if (k < 0 || (k == 0 && !ready(fd, POLLIN, stop, deadline))) return false;
    p += k;
    n -= (size_t)k;
  }
  return true;
}

void socket_notice_loss(int fd) {
  int yes = 1, seconds = 1, milliseconds = LOSS_MS;
  setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &seconds, sizeof seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &seconds, sizeof seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &seconds, sizeof seconds);
  setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}
