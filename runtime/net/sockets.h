/* runtime/net/sockets.h - TCP sockets with deadlines, for ranks on several machines. */
#ifndef APC_RUNTIME_NET_SOCKETS_H
#define APC_RUNTIME_NET_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

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

/* Room for n descriptors more than any process has at its start.  False with errno when the system's limit is below. */
bool sockets_allow(size_t n);

/* Listens at an address of this machine; port 0 is a free one.  -1 with errno, as in all of these. */
int socket_listen(const SocketAddress *at);
uint16_t socket_own_port(int listener);
/* The next connection; EAGAIN when there is none. */
int socket_accept_now(int listener);
/* Connects until the deadline, or until `stop` (a descriptor or -1) becomes readable, which is ECANCELED. */
int socket_connect(const SocketAddress *to, int stop, int64_t deadline);
/* Closes, and leaves the number in errno; -1. */
int socket_close_with(int fd, int number);

/* All bytes or false with errno. */
bool socket_send(int fd, const void *data, size_t n, int64_t deadline);
bool socket_receive(int fd, void *data, size_t n, int stop, int64_t deadline);
/* What is there: 0 for nothing now, -1 with errno when nothing comes any more. */
ssize_t socket_receive_now(int fd, void *data, size_t n);

/* An unreachable machine ends a connection after about 1.5 s while anything is sent. */
void socket_notice_loss(int fd);

#endif
