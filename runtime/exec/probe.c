/* runtime/exec/probe.c - see probe.h. */
#define _GNU_SOURCE
#include "runtime/exec/probe.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { THREADS_MOST = 1024, SLICES = 8, ARITHMETIC_MS = 8, MEMORY_MS = 12, ROUNDS = 2000, PIECE = 1 << 20 };

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The results are stored, so that the compiler keeps the computation. */
static _Thread_local volatile float kept_float;
static _Thread_local volatile uint64_t kept_sum;

/* ---- arithmetic: enough sums to hide the latency of a multiply-add */

#define MULTIPLY_ADD(name, width, sums, attribute) \
  attribute static double name(float start) { \
    typedef float V __attribute__((vector_size(4 * (width)))); \
    V x[sums], f = (V){0} + 0.999f; \
    for (int i = 0; i < (sums); i++) x[i] = (V){0} + (start + (float)i); \
    for (int r = 0; r < ROUNDS; r++) { \
      _Pragma("GCC unroll 16") for (int i = 0; i < (sums); i++) x[i] = x[i] * f + f; \
    } \
    V all = x[0]; \
    for (int i = 1; i < (sums); i++) all += x[i]; \
    kept_float = all[0]; \
    return 2.0 * (width) * (sums)*ROUNDS; \
  }
#if defined(__x86_64__)
MULTIPLY_ADD(with_avx512, 16, 16, __attribute__((target("avx512f"))))
MULTIPLY_ADD(with_avx2, 8, 12, __attribute__((target("avx2,fma"))))
#endif
MULTIPLY_ADD(with_any, 4, 12, )

typedef double MultiplyAdd(float start);

static MultiplyAdd *widest(void) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) return with_avx512;
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return with_avx2;
#endif
  return with_any;
}

/* ---- memory: a sum over a piece of the array */

static uint64_t sum_piece(const uint64_t *at) {
  typedef uint64_t V __attribute__((vector_size(32)));
  const V *v = (const V *)at;
  V a = {0}, b = {0}, c = {0}, d = {0};
  for (size_t i = 0; i < PIECE / sizeof *v; i += 4) { a += v[i], b += v[i + 1], c += v[i + 2], d += v[i + 3]; }
  a += b + c + d;
  return a[0] + a[1] + a[2] + a[3];
}

/* ---- threads */

typedef struct Probe {
  MultiplyAdd *arithmetic; /* NULL: measure memory */
  double seconds;          /* of a slice */
  _Atomic int ready, go;   /* ready threads; 1: all begin, 2: all end */
} Probe;

typedef struct Worker {
  Probe *probe;
  char *part; /* of the array */
  size_t pieces;
  double rate; /* per second */
  pthread_t thread;
} Worker;

/* Does some work; returns its amount. */
static double step(const Worker *w, size_t i) {
  if (w->probe->arithmetic) return w->probe->arithmetic((float)i);
  kept_sum += sum_piece((const uint64_t *)(const void *)(w->part + i % w->pieces * PIECE));
  return PIECE;
}

/* Takes the best of several slices: other processes may use the core for a while. */
static void *work(void *argument) {
  Worker *w = argument;
  size_t i = 0;
  for (size_t k = 0; !w->probe->arithmetic && k < w->pieces * PIECE; k += 4096) w->part[k] = 1; /* clears the pages */
  atomic_fetch_add(&w->probe->ready, 1);
  while (atomic_load(&w->probe->go) == 0) sched_yield();
  if (atomic_load(&w->probe->go) == 2) return NULL;
  for (int slice = 0; slice < SLICES; slice++) {
    double done = 0, begin = now(), end;
    do done += step(w, i++);
    while ((end = now()) < begin + w->probe->seconds);
    if (done / (end - begin) > w->rate) w->rate = done / (end - begin);
  }
  return NULL;
}

/* Returns the sum of all threads' rates; 0 if they cannot be started.  The caller's thread only waits. */
static double measure(Probe *p, Worker *workers, int n) {
  int started = 0;
  double sum = 0;
  while (started < n && pthread_create(&workers[started].thread, NULL, work, &workers[started]) == 0) started++;
  while (atomic_load(&p->ready) < started) nanosleep(&(struct timespec){0, 1000000}, NULL);
  atomic_store(&p->go, started == n ? 1 : 2);
  for (int i = 0; i < started; i++) {
    pthread_join(workers[i].thread, NULL);
    sum += workers[i].rate;
  }
  return sum;
}

/* Returns a size far beyond the last-level cache, divided by the processes that share it; a multiple of the pieces of n
 * threads. */
static size_t array_bytes(int sharers, int n) {
  long cache = sysconf(_SC_LEVEL3_CACHE_SIZE);
  size_t all = (size_t)256 << 20, unit = (size_t)n * PIECE;
  if (cache > 0 && 8 * (size_t)cache > all) all = 8 * (size_t)cache;
  size_t mine = all / (size_t)(sharers > 0 ? sharers : 1);
  if (mine > (size_t)512 << 20) mine = (size_t)512 << 20;
  return mine < unit ? unit : mine / unit * unit;
}

static void beat(_Atomic uint64_t *beats) {
  if (beats) atomic_fetch_add(beats, 1);
}

static double measure_memory(Worker *workers, int n, int sharers) {
  Probe p = {.seconds = MEMORY_MS * 1e-3};
  size_t bytes = array_bytes(sharers, n);
  char *array = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (array == MAP_FAILED) return 0;
  madvise(array, bytes, MADV_HUGEPAGE);
  for (int i = 0; i < n; i++)
    workers[i] =
        (Worker){.probe = &p, .part = array + bytes / (size_t)n * (size_t)i, .pieces = bytes / (size_t)n / PIECE};
  double rate = measure(&p, workers, n);
  munmap(array, bytes);
  return rate;
}

Peak peak_measure(int threads, int sharers, _Atomic uint64_t *beats) {
  const char *text = getenv("OMP_NUM_THREADS");
  Peak peak = {.threads = threads > 0 ? threads : text ? atoi(text) : 1};
  if (peak.threads < 1) peak.threads = 1;
  if (peak.threads > THREADS_MOST) peak.threads = THREADS_MOST;
  Worker *workers = calloc((size_t)peak.threads, sizeof *workers);
  if (!workers) return peak;
  Probe arithmetic = {.arithmetic = widest(), .seconds = ARITHMETIC_MS * 1e-3};
  for (int i = 0; i < peak.threads; i++) workers[i].probe = &arithmetic;
  beat(beats);
  peak.flops = measure(&arithmetic, workers, peak.threads);
  beat(beats);
  peak.bytes = measure_memory(workers, peak.threads, sharers);
  beat(beats);
  free(workers);
  return peak;
}
