/* runtime/launch/addresses.h - where ranks listen and whom they may reach: HOST:PORT as text, as addresses, and the
 * addresses of this machine. */
#ifndef APC_RUNTIME_LAUNCH_ADDRESSES_H
#define APC_RUNTIME_LAUNCH_ADDRESSES_H

#include "runtime/net/sockets.h"
#include "program/status.h"

typedef struct HostPort {
  char host[256], port[8];
} HostPort;

/* "HOST:PORT" or "[IPv6 address]:PORT"; the address without a port, with or without brackets, has torchrun's.  False
 * when it is none of these. */
bool address_host_port_split(const char *text, HostPort *out);

/* What a host has. */
enum { ADDRESS_LIST_MOST = 16 };
typedef struct AddressList {
  SocketAddress items[ADDRESS_LIST_MOST];
  int n;
} AddressList;

/* All addresses of the host, to listen at or to connect to.  False, with *why, when it has none; *soon: asking again
 * may help. */
bool address_resolve(const HostPort *h, AddressList *out, const char **why, bool *soon);

/* Of this machine and nobody else: 127.0.0.0/8 and ::1. */
bool address_is_loopback(const SocketAddress *a);

/* Takes out what is not loopback. */
void address_keep_loopback(AddressList *l);

/* Any address of the machine (at a free port), or only its loopback. */
AddressList address_any(bool loopback);

/* Where the descriptor's own end is; with port 0, so that another socket can listen there. */
bool address_beside(int fd, SocketAddress *out);

/* Link-local addresses that another machine told hold on the link by which `first` is reached. */
void address_take_scope(SocketAddress *a, const SocketAddress *first);

/* The addresses of this machine as lines "HOST PORT", the loopback last; 0 when they cannot be told. */
size_t address_list_own(uint16_t port, char *text, size_t size);

/* "127.0.0.1", "fe80::1%eth0". */
void address_text(const SocketAddress *a, char *text, size_t size);

#endif
