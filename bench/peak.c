/* bench/peak.c - the peak of this machine, as `--profile` of compiled programs measures it.
 *
 * usage: bench_peak [THREADS]     (default 1)
 *
 * Prints the rate of f32 multiply-adds in registers (each counts 2) and of reading an array far larger than the caches,
 * on all threads at once: the best of five runs each (runtime/exec/probe.h).  Threads are not bound: use taskset.
 */
#include <stdio.h>
#include <stdlib.h>

#include "runtime/exec/probe.h"

enum { TIMES = 5, THREADS_MOST = 1024 };

int main(int argc, char **argv) {
  char *end = NULL;
  long threads = argc > 1 ? strtol(argv[1], &end, 10) : 1;
  if (argc > 2 || (end && (*end || end == argv[1])) || threads < 1 || threads > THREADS_MOST) {
    fprintf(stderr, "usage: bench_peak [THREADS]     (1 to %d)\n", THREADS_MOST);
    return 2;
  }
  double flops = 0, bytes = 0;
  for (int i = 0; i < TIMES; i++) {
    Peak peak = peak_measure((int)threads, 1, NULL);
    flops = peak.flops > flops ? peak.flops : flops;
    bytes = peak.bytes > bytes ? peak.bytes : bytes;
  }
  if (flops <= 0 || bytes <= 0) {
    fputs("bench_peak: cannot measure: no threads or no memory\n", stderr);
    return 1;
  }
  printf("%ld thread%s: %.1f GFLOP/s in f32, %.1f GB/s read\n", threads, threads == 1 ? "" : "s", flops * 1e-9,
         bytes * 1e-9);
  return 0;
}
