/* runtime/comm/transport_tcp.h - the transport between machines: a TCP connection per pair of ranks. */
#ifndef APC_RUNTIME_COMM_TRANSPORT_TCP_H
#define APC_RUNTIME_COMM_TRANSPORT_TCP_H

#include "runtime/comm/transport.h"
#include "runtime/net/watch.h"

/* Opens the transport and takes ownership of the connections: fds[p] leads to rank p (its own: -1).  The watch outlives
 * the transport and explains why a peer is gone; it may be NULL.  RT_FAILED without memory. */
RtStatus transport_tcp_open(const int *fds, int rank, int world, Watch *watch, Transport **out, RtError *error);

#endif
