/* runtime/launch/addresses.h - the places where ranks listen and connect: HOST:PORT as text, as addresses, and the
 * addresses of this machine. */
#ifndef APC_RUNTIME_LAUNCH_ADDRESSES_H
#define APC_RUNTIME_LAUNCH_ADDRESSES_H

#include "runtime/net/sockets.h"
#include "program/status.h"

typedef struct HostPort {
  char host[256], port[8];
} HostPort;

/* Splits "HOST:PORT" or "[IPv6 address]:PORT"; an IPv6 address without a port, with or without brackets, gets
 * torchrun's.  False if the text is none of these. */
bool address_host_port_split(const char *text, HostPort *out);

/* The addresses of a host. */
enum { ADDRESS_LIST_MOST = 16 };
typedef struct AddressList {
  SocketAddress items[ADDRESS_LIST_MOST];
  int n;
} AddressList;

/* Resolves all addresses of the host, to listen at or to connect to.  False, with *why, if it has none; *soon: a later
 * try may succeed. */
bool address_resolve(const HostPort *h, AddressList *out, const char **why, bool *soon);

/* True if only this machine can reach the address: 127.0.0.0/8 and ::1. */
bool address_is_loopback(const SocketAddress *a);

/* Removes addresses that are not loopback. */
void address_keep_loopback(AddressList *l);

/* Returns addresses to listen at any address of the machine, or only at its loopback; port 0. */
AddressList address_any(bool loopback);

/* Gives the local address of a connection, with port 0, so that another socket can listen there. */
bool address_beside(int fd, SocketAddress *out);

/* Completes a link-local address from another machine: it is valid on the link that reaches `first`. */
void address_take_scope(SocketAddress *a, const SocketAddress *first);

/* Lists the addresses of this machine as lines "HOST PORT", the loopback last; returns the bytes, 0 if the system does
 * not list them. */
size_t address_list_own(uint16_t port, char *text, size_t size);

/* Formats an address: "127.0.0.1", "fe80::1%eth0". */
void address_text(const SocketAddress *a, char *text, size_t size);

#endif
