/* runtime/net/sockets.h - TCP sockets with deadlines, for ranks on several machines. */
#ifndef APC_RUNTIME_NET_SOCKETS_H
#define APC_RUNTIME_NET_SOCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

/* Returns milliseconds of the monotonic clock, which deadlines refer to. */
int64_t sockets_now(void);

typedef struct SocketAddress {
  struct sockaddr_storage storage;
  socklen_t bytes;
} SocketAddress;

/* Converts IPv4 addresses inside IPv6 ones to plain IPv4, which every machine supports. */
void socket_unmap(SocketAddress *a);
/* Set and return the port of an address, in host order. */
void socket_set_port(SocketAddress *a, uint16_t port);
uint16_t socket_port(const SocketAddress *a);

/* Raises the limit of descriptors for n more than a process has at its start.  False with errno if the system's limit
 * is lower. */
bool sockets_allow(size_t n);

/* Listens at an address of this machine; port 0 is a free one. -1 with errno, as all of these functions. */
int socket_listen(const SocketAddress *at);
/* Returns the port of a listener; 0 on errors. */
uint16_t socket_own_port(int listener);
/* Accepts the next connection; EAGAIN if there is none. */
int socket_accept_now(int listener);
/* Connects until the deadline, or until `stop` (a descriptor or -1) becomes readable, which is ECANCELED. */
int socket_connect(const SocketAddress *to, int stop, int64_t deadline);
/* Closes the socket and sets errno to the number; returns -1. */
int socket_close_with(int fd, int number);

/* Send or receive all n bytes; false with errno, ETIMEDOUT after the deadline. */
bool socket_send(int fd, const void *data, size_t n, int64_t deadline);
bool socket_receive(int fd, void *data, size_t n, int stop, int64_t deadline);
/* Receives the bytes that are available: 0 if none are now, -1 with errno if none will come. */
ssize_t socket_receive_now(int fd, void *data, size_t n);

/* Makes a connection to an unreachable machine end after about 1.5 s while anything is sent. */
void socket_notice_loss(int fd);

#endif
