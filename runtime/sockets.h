/* runtime/sockets.h - TCP sockets with deadlines, for ranks on several machines. */
#ifndef APC_RUNTIME_SOCKETS_H
#define APC_RUNTIME_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

/* Milliseconds on the monotonic clock; deadlines are on it as well. */
int64_t sockets_now(void);

typedef struct SocketAddress {
  struct sockaddr_storage storage;
  socklen_t bytes;
} SocketAddress;

/* IPv4 addresses inside IPv6 ones become IPv4 ones, which every machine understands. */
void socket_unmap(SocketAddress *a);
void socket_set_port(SocketAddress *a, uint16_t port);
uint16_t socket_port(const SocketAddress *a);

/* Listens on all addresses of this machine; port 0 is a free one.  -1 with errno. */
int socket_listen(uint16_t port);
/* Waits for a connection until the deadline, or until `stop` (a descriptor or -1) becomes readable.  -1 with errno. */
int socket_accept(int listener, int stop, int64_t deadline);
/* Connects until the deadline; -1 with errno.  `socket_connect_name` looks the host up (EADDRNOTAVAIL when it has no address). */
int socket_connect(const SocketAddress *to, int64_t deadline);
int socket_connect_name(const char *host, const char *port, int64_t deadline);
/* Whether the host has an address; if not, why, and whether asking again may help. */
bool socket_resolves(const char *host, const char **why, bool *soon);

/* All bytes or false with errno. */
bool socket_send(int fd, const void *data, size_t n, int64_t deadline);
bool socket_receive(int fd, void *data, size_t n, int64_t deadline);

/* An unreachable machine ends a connection after about 1.5 s while anything is sent. */
void socket_notice_loss(int fd);

#endif
