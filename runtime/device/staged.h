/* runtime/device/staged.h - collectives through host memory, for devices with memory of their own.
 *
 * Sent blocks are read from the device, the host's engine moves and reduces them, and received blocks are copied to the
 * device when the operation is waited for.  It works over any transport and for any number of ranks on one device, and
 * gives the bits of the host's engine.  While a rank waits for its device, bytes move only in comm_check; speed is no
 * goal.
 *
 * Unlike other engines it allocates memory when an operation is larger than earlier ones at its place in the ring.
 */
#ifndef APC_RUNTIME_DEVICE_STAGED_H
#define APC_RUNTIME_DEVICE_STAGED_H

#include "runtime/comm/comm.h"
#include "runtime/device/device.h"

/* Opens the engine.  `host` outlives it, and groups are made in it; of `options` only the limit of operations is used.
 * RT_FAILED without memory. */
RtStatus staged_open(Device *device, Comm *host, const CommOptions *options, Comm **out, RtError *error);

#endif
