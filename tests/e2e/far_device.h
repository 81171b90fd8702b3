/* tests/e2e/far_device.h - a second device: computes as the CPU does, in memory that the host cannot touch.
 *
 * Its addresses are those of the CPU's memory plus an offset that makes them invalid, so that an executor which reads
 * or writes there itself crashes.  It records runs of calls and logs every call that it makes.  All of it is in
 * far_device.c; no other code knows of it. */
#ifndef APC_TESTS_FAR_DEVICE_H
#define APC_TESTS_FAR_DEVICE_H

#include "runtime/comm/comm.h"
#include "runtime/device/device.h"

extern const DeviceOps far_device;

/* One call: its instruction, and a hash of all its numbers. */
typedef struct FarCall {
  uint32_t kind, instr;
  uint64_t numbers;
} FarCall;

FarCall far_call_of(const DeviceCall *c);

/* The calls of this process, in order, and the number of replayed ones. */
typedef struct FarLog {
  FarCall *items;
  size_t n, replayed;
} FarLog;
extern FarLog far_log;

/* An engine that communicates in that memory: translates addresses for `inner`, which it owns.  With `contiguous` it
 * refuses parts that are not, and reductions that libraries lack (DeviceTraits.contiguous_collectives). */
Comm *far_comm(Comm *inner, bool contiguous);

#endif
