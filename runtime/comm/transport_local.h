/* runtime/comm/transport_local.h - the transport between processes (or threads) of one machine.
 *
 * All ranks see one piece of zero-initialised shared memory, aligned to a page, in which each ordered pair
 * of ranks has a ring.  Pages are touched only when a pair talks.
 */
#ifndef APC_RUNTIME_COMM_TRANSPORT_LOCAL_H
#define APC_RUNTIME_COMM_TRANSPORT_LOCAL_H

#include "runtime/comm/transport.h"

enum { TRANSPORT_LOCAL_MAX_WORLD = 64 };

/* Bytes of shared memory for 1 <= world <= TRANSPORT_LOCAL_MAX_WORLD ranks, a multiple of 4096. */
size_t transport_local_bytes(int world);

/* `memory` has transport_local_bytes(world) bytes and outlives the transport.  `crowded`: there are more
 * ranks than cores, so who waits sleeps at once. */
RtStatus transport_local_open(void *memory, int rank, int world, bool crowded, Transport **out, RtError *error);

/* For the process that owns the memory and is not a rank. */
void transport_local_abort_all(void *memory, int world);

#endif
