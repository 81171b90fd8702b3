/* runtime/comm/transport_local.h - the transport between processes (or threads) of one machine.
 *
 * All ranks map one zero-initialised, page-aligned piece of shared memory, in which each ordered pair of ranks has a
 * ring.  Only pages of pairs that communicate are touched.
 */
#ifndef APC_RUNTIME_COMM_TRANSPORT_LOCAL_H
#define APC_RUNTIME_COMM_TRANSPORT_LOCAL_H

#include "runtime/comm/transport.h"

enum { TRANSPORT_LOCAL_MAX_WORLD = 64 };

/* Returns the bytes of shared memory for 1 <= world <= TRANSPORT_LOCAL_MAX_WORLD ranks, a multiple of 4096. */
size_t transport_local_bytes(int world);

/* Opens the transport of one rank.  `memory` has transport_local_bytes(world) bytes and outlives the transport.
 * `crowded`: there are more ranks than cores, so a waiting rank sleeps at once.  RT_UNSUPPORTED for more ranks than one
 * machine takes, RT_FAILED without memory. */
RtStatus transport_local_open(void *memory, int rank, int world, bool crowded, Transport **out, RtError *error);

/* Aborts all ranks, from the process that owns the memory and is not a rank. */
void transport_local_abort_all(void *memory, int world);

#endif
