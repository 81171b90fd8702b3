/* runtime/exec/probe.h - what this process's share of the machine can do at most, measured in a few tenths of a second.
 *
 * Arithmetic: f32 multiply-adds of values that stay in registers, in the widest vectors there are.  Memory: sums over
 * an array far larger than the caches.  Every thread works for the same time, and what all did in it counts.
 */
#ifndef APC_RUNTIME_EXEC_PROBE_H
#define APC_RUNTIME_EXEC_PROBE_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct Peak {
  double flops, bytes; /* per second; 0: could not be measured */
  int threads;
} Peak;

/* threads: 0: OMP_NUM_THREADS, else 1.  sharers: how many processes measure at once on this machine, which share its
 * memory.  *beats, if any, grows as a sign of life. */
Peak peak_measure(int threads, int sharers, _Atomic uint64_t *beats);

#endif
