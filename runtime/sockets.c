/* runtime/sockets.c - see sockets.h.  All sockets are non-blocking, without delay, and closed on exec. */
#define _GNU_SOURCE
#include "runtime/sockets.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG = 256, LOSS_MS = 1500 };

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
  size_t at = a->storage.ss_family == AF_INET6 ? offsetof(struct sockaddr_in6, sin6_port) : offsetof(struct sockaddr_in, sin_port);
  return (in_port_t *)(void *)(p + at);
}

void socket_set_port(SocketAddress *a, uint16_t port) { *port_of(a) = htons(port); }
uint16_t socket_port(const SocketAddress *a) { return ntohs(*port_of(a)); }

/* ---- connections */

static int close_with(int fd, int number) {
  close(fd);
  errno = number;
  return -1;
}

/* Whoever connects speaks first; connections that say nothing (for so many seconds) are not worth an accept and a wait. */
static int listen_on(const SocketAddress *a) {
  int fd = socket(a->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), yes = 1, no = 0, silence_s = 60;
  if (fd < 0) return -1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silence_s, sizeof silence_s);
  if (a->storage.ss_family == AF_INET6) setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  if (bind(fd, (const struct sockaddr *)&a->storage, a->bytes) == 0 && listen(fd, BACKLOG) == 0) return fd;
  return close_with(fd, errno);
}

int socket_listen(uint16_t port) {
  struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_addr = in6addr_any, .sin6_port = htons(port)};
  struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
  SocketAddress a = {.bytes = sizeof six};
  memcpy(&a.storage, &six, sizeof six);
  int fd = listen_on(&a);
  if (fd >= 0 || (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)) return fd;
  a = (SocketAddress){.bytes = sizeof four};
  memcpy(&a.storage, &four, sizeof four);
  return listen_on(&a);
}

/* Until the socket is ready or the deadline; false with errno. */
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

int socket_accept(int listener, int stop, int64_t deadline) {
  while (ready(listener, POLLIN, stop, deadline)) {
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (fd >= 0) set_up(fd);
    if (fd >= 0 || (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)) return fd;
  }
  return -1;
}

int socket_connect(const SocketAddress *to, int64_t deadline) {
  int fd = socket(to->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), number = 0;
  socklen_t size = sizeof number;
  if (fd < 0) return -1;
  set_up(fd);
  if (connect(fd, (const struct sockaddr *)&to->storage, to->bytes) == 0) return fd;
  if (errno != EINPROGRESS || !ready(fd, POLLOUT, -1, deadline)) return close_with(fd, errno);
  getsockopt(fd, SOL_SOCKET, SO_ERROR, &number, &size);
  return number ? close_with(fd, number) : fd;
}

static const struct addrinfo stream = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};

bool socket_resolves(const char *host, const char **why, bool *soon) {
  struct addrinfo *all;
  int code = getaddrinfo(host, NULL, &stream, &all);
  if (code == 0) freeaddrinfo(all);
  *why = code ? gai_strerror(code) : "";
  *soon = code == EAI_AGAIN || code == EAI_SYSTEM;
  return code == 0;
}

int socket_connect_name(const char *host, const char *port, int64_t deadline) {
  struct addrinfo *all;
  int fd = -1, number = EADDRNOTAVAIL;
  if (getaddrinfo(host, port, &stream, &all) != 0) {
    errno = number;
    return -1;
  }
  for (const struct addrinfo *i = all; i && fd < 0; i = i->ai_next) {
    SocketAddress a = {.bytes = i->ai_addrlen};
    memcpy(&a.storage, i->ai_addr, i->ai_addrlen);
    fd = socket_connect(&a, deadline);
    if (fd < 0) number = errno;
  }
  freeaddrinfo(all);
  errno = number;
  return fd;
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

bool socket_receive(int fd, void *data, size_t n, int64_t deadline) {
  char *p = data;
  while (n > 0) {
    ssize_t k = recv(fd, p, n, 0);
    if (k == 0) errno = ECONNRESET;
    if (k > 0) {
      p += k;
      n -= (size_t)k;
    } else if (k == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else if (!ready(fd, POLLIN, -1, deadline)) {
      return false;
    }
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
