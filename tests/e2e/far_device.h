/* tests/e2e/far_device.h - a second device: computes as the CPU does, in memory that the host cannot touch.
 *
 * Its addresses are those of the CPU's memory plus a number that makes them nobody's, so that an executor which reads
 * or writes there itself ends.  It records runs of calls and notes every call that it makes.  It is all in
 * far_device.c; nothing else in the tree knows of it.
 */
#ifndef APC_TESTS_FAR_DEVICE_H
#define APC_TESTS_FAR_DEVICE_H

#include "runtime/comm/comm.h"
#include "runtime/device/device.h"

extern const DeviceOps far_device;

/* One call: its instruction, and a hash of everything about it that is a number. */
typedef struct FarCall {
  uint32_t kind, instr;
  uint64_t numbers;
} FarCall;

FarCall far_call_of(const DeviceCall *c);

/* The calls of this process, in order, and how many of them were replayed. */
typedef struct FarLog {
  FarCall *items;
  size_t n, replayed;
} FarLog;
extern FarLog far_log;

/* An engine that communicates in that memory: `inner`, which it takes over, with the addresses put right.  With
 * `contiguous` it refuses parts that are not, and reductions that libraries have not
 * (DeviceTraits.contiguous_collectives). */
Comm *far_comm(Comm *inner, bool contiguous);

#endif
