/* runtime/device/staged.h - collectives of devices with memory of their own, through the host's memory.
 *
 * What an operation sends is read from the device, the host's engine moves and reduces it, and what arrives is copied
 * to the device when the operation is waited for.  It works over any transport, for any number of ranks on one device,
 * and gives the bits of the host's engine.  Nothing moves while a rank waits for its device, except in comm_check;
 * speed is no aim.
 *
 * Unlike other engines it takes memory when an operation is larger than those before at its place in the ring.
 */
#ifndef APC_RUNTIME_DEVICE_STAGED_H
#define APC_RUNTIME_DEVICE_STAGED_H

#include "runtime/comm/comm.h"
#include "runtime/device/device.h"

/* `host` stays open behind it, and groups are made in it; `options`: its limit of operations. */
RtStatus staged_open(Device *device, Comm *host, const CommOptions *options, Comm **out, RtError *error);

#endif
