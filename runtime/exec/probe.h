/* runtime/exec/probe.h - the peak of this process's share of the machine, measured in a few tenths of a second.
 *
 * Arithmetic: f32 multiply-adds of values that stay in registers, in the widest vectors.  Memory: sums over an array
 * far larger than the caches.  Every thread works for the same time, and the work of all of them counts.
 */
#ifndef APC_RUNTIME_EXEC_PROBE_H
#define APC_RUNTIME_EXEC_PROBE_H

#include <stdatomic.h>
#include <stdint.h>

typedef struct Peak {
  double flops, bytes; /* per second; 0: could not be measured */
  int threads;
} Peak;

/* Measures the peak.  threads: 0: OMP_NUM_THREADS, else 1.  sharers: how many processes of this machine measure at the
 * same time and share its memory.  *beats, if not NULL, counts signs of life. */
Peak peak_measure(int threads, int sharers, _Atomic uint64_t *beats);

#endif
