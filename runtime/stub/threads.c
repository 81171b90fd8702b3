/* runtime/stub/threads.c - the threads of a compiled program: the part of libgomp's interface that oneDNN and our
 * kernels use.
 *
 * The program exports these functions (runtime/stub/threads.list), so that the libraries it loads find them before
 * libgomp's.  One thread runs parallel regions at a time; the thread that meets a nested region runs it alone.
 *
 * A region has shares 1 .. n - 1 for other threads and share 0 for the thread that began it, which afterwards runs the
 * shares that no other has begun.  So a thread that sleeps, or gets no core, only costs its help.  The first thread
 * cannot finish a region with barriers before all others are in it, so this cannot lock up.
 *
 * A waiting thread spins for a while and then sleeps; how long depends on whether others want the cores
 * (comm/contention.h).  On an idle machine threads are ready when the next region begins, and sleep a millisecond after
 * the last one; on a busy machine they sleep.
 *
 * Not done: tasks, dynamic schedules, nested teams, binding to cores.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <linux/futex.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "runtime/comm/contention.h"
#include "runtime/comm/relax.h"
#include "runtime/session/session.h"

typedef void (*Body)(void *);

enum { MOST = 64 }; /* threads */

static struct {
  int wanted;  /* by omp_set_num_threads */
  int running; /* threads other than the first */
  bool busy;   /* in a region */
  Body body;
  void *data;
  int n;
  _Atomic uint64_t unbegun; /* bit i: share i */
  _Atomic uint32_t unfinished;
  _Atomic uint32_t round; /* increases with each region; workers sleep on it */
  _Atomic uint32_t sleepers;
  _Atomic uint32_t first_sleeps;
  _Atomic uint32_t arrived, barriers, barrier_sleepers;
  Contention contention;
} pool;

static _Thread_local struct {
  int share, n; /* n 0: outside of regions */
  int trip;     /* of GOMP_loop_static_next */
  long start, end, step, chunk;
  ContentionWatch watch;
} me;

static void wait_on(_Atomic uint32_t *word, uint32_t value) {
  syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}
static void wake_all(_Atomic uint32_t *word) { syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0); }

/* ---- waiting */

typedef bool (*Ready)(int share, uint32_t seen);

static bool share_there(int share, uint32_t seen) { return (void)seen, atomic_load(&pool.unbegun) >> share & 1; }
static bool all_finished(int share, uint32_t seen) {
  return (void)share, (void)seen, atomic_load(&pool.unfinished) == 0;
}
static bool barrier_open(int share, uint32_t seen) { return (void)share, atomic_load(&pool.barriers) != seen; }

/* True if it became ready during the spin. */
static bool spin(Ready ready, int share, uint32_t seen) {
  if (ready(share, seen)) return true;
  int64_t begin = contention_clock(), now = begin, before;
  do {
    for (int i = 0; i < 32; i++) {
      if (ready(share, seen)) return true;
      relax();
    }
    before = now, now = contention_clock();
    contention_hole(&me.watch, now - before);
  } while (now - begin < contention_spin(&pool.contention, &me.watch, now));
  return false;
}

/* ---- shares */

static void run_share(int share) {
  me.share = share, me.n = pool.n, me.trip = 0;
  pool.body(pool.data);
  me.share = 0, me.n = 0;
}

static void finish_share(void) {
  if (atomic_fetch_sub(&pool.unfinished, 1) == 1 && atomic_load(&pool.first_sleeps)) wake_all(&pool.unfinished);
}

/* Runs a share if no thread has begun it. */
static bool begin_share(int share) {
  uint64_t bit = UINT64_C(1) << share;
  if (!(atomic_load(&pool.unbegun) & bit) || !(atomic_fetch_and(&pool.unbegun, ~bit) & bit)) return false;
  run_share(share);
  finish_share();
  return true;
}

static void *worker(void *number) {
  int share = (int)(intptr_t)number;
  for (;;) {
    if (begin_share(share)) continue;
    uint32_t seen = atomic_load(&pool.round);
    if (share_there(share, 0) || spin(share_there, share, 0)) continue;
    atomic_fetch_add(&pool.sleepers, 1);
    if (!share_there(share, 0)) wait_on(&pool.round, seen);
    atomic_fetch_sub(&pool.sleepers, 1);
  }
  return NULL;
}

/* ---- regions */

static int from_environment(void) {
  const char *text = getenv("OMP_NUM_THREADS");
  long n = text ? strtol(text, NULL, 10) : session_threads_per_rank(1);
  return n < 1 ? 1 : n > MOST ? MOST : (int)n;
}

static int wanted(void) {
  if (!pool.wanted) pool.wanted = from_environment();
  return pool.wanted;
}

/* Starts workers, with signals left to the program's first thread.  Fewer threads than requested are enough. */
static void start_workers(int n) {
  sigset_t all, before;
  pthread_attr_t attr;
  if (pool.running >= n - 1 || pthread_attr_init(&attr) != 0) return;
  pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);
  pthread_t thread;
  while (pool.running < n - 1 && pthread_create(&thread, &attr, worker, (void *)(intptr_t)(pool.running + 1)) == 0)
    pool.running++;
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attr);
}

static int team_of(unsigned asked) {
  int n = asked ? (asked > MOST ? MOST : (int)asked) : wanted();
  if (n == 1 || me.n || pool.busy) return 1;
  start_workers(n);
  return n < pool.running + 1 ? n : pool.running + 1;
}

static void begin_region(Body body, void *data, int n) {
  pool.busy = true;
  pool.body = body, pool.data = data, pool.n = n;
  atomic_store(&pool.arrived, 0);
  atomic_store(&pool.unfinished, (uint32_t)n - 1);
  atomic_store(&pool.unbegun, (n == MOST ? 0 : UINT64_C(1) << n) - 2);
  atomic_fetch_add(&pool.round, 1);
  if (atomic_load(&pool.sleepers)) wake_all(&pool.round);
}

static void end_region(void) {
  for (int share = 1; share < pool.n; share++) begin_share(share);
  while (!all_finished(0, 0) && !spin(all_finished, 0, 0)) {
    uint32_t left = atomic_load(&pool.unfinished);
    atomic_store(&pool.first_sleeps, 1);
    if (left && atomic_load(&pool.unfinished) == left) wait_on(&pool.unfinished, left);
    atomic_store(&pool.first_sleeps, 0);
  }
  pool.busy = false;
}

/* ---- libgomp's interface */

void GOMP_parallel(Body body, void *data, unsigned threads, unsigned flags);
void GOMP_parallel_start(Body body, void *data, unsigned threads);
void GOMP_parallel_end(void);
void GOMP_barrier(void);
bool GOMP_loop_static_start(long start, long end, long step, long chunk, long *from, long *to);
bool GOMP_loop_static_next(long *from, long *to);
void GOMP_loop_end_nowait(void);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
int omp_get_max_threads(void);
int omp_in_parallel(void);
void omp_set_num_threads(int n);

int omp_get_thread_num(void) { return me.share; }
int omp_get_num_threads(void) { return me.n ? me.n : 1; }
int omp_get_max_threads(void) { return wanted(); }
int omp_in_parallel(void) { return me.n > 1; }
void omp_set_num_threads(int n) { pool.wanted = n < 1 ? 1 : n > MOST ? MOST : n; }

/* Runs a team of one inside another, with numbers of its own. */
static void alone(Body body, void *data) {
  int share = me.share, n = me.n;
  me.share = 0, me.n = 1;
  body(data);
  me.share = share, me.n = n;
}

void GOMP_parallel(Body body, void *data, unsigned threads, unsigned flags) {
  (void)flags;
  int n = team_of(threads);
  if (n == 1) {
    alone(body, data);
    return;
  }
  begin_region(body, data, n);
  run_share(0);
  end_region();
}

/* Code of old compilers: the caller runs share 0 between the two calls.  A team of one keeps no state. */
void GOMP_parallel_start(Body body, void *data, unsigned threads) {
  int n = team_of(threads);
  if (n > 1) begin_region(body, data, n);
  else if (me.n) abort(); /* nested: the outer numbers would be lost */
  me.share = 0, me.n = n, me.trip = 0;
}

void GOMP_parallel_end(void) {
  int n = me.n;
  me.share = 0, me.n = 0;
  if (n > 1) end_region();
}

void GOMP_barrier(void) {
  if (me.n <= 1) return;
  uint32_t seen = atomic_load(&pool.barriers);
  if (atomic_fetch_add(&pool.arrived, 1) + 1 == (uint32_t)me.n) {
    atomic_store(&pool.arrived, 0);
    atomic_fetch_add(&pool.barriers, 1);
    if (atomic_load(&pool.barrier_sleepers)) wake_all(&pool.barriers);
    return;
  }
  while (!barrier_open(0, seen) && !spin(barrier_open, 0, seen)) {
    atomic_fetch_add(&pool.barrier_sleepers, 1);
    if (!barrier_open(0, seen)) wait_on(&pool.barriers, seen);
    atomic_fetch_sub(&pool.barrier_sleepers, 1);
  }
}

/* Iterations in blocks of `chunk`, dealt round robin; chunk 0: one block each. */
bool GOMP_loop_static_start(long start, long end, long step, long chunk, long *from, long *to) {
  me.start = start, me.end = end, me.step = step, me.chunk = chunk, me.trip = 0;
  return GOMP_loop_static_next(from, to);
}

bool GOMP_loop_static_next(long *from, long *to) {
  long n = omp_get_num_threads(),
       total = me.step > 0 ? (me.end - me.start + me.step - 1) / me.step : (me.end - me.start + me.step + 1) / me.step;
  long chunk = me.chunk ? me.chunk : (total + n - 1) / n, first = (me.trip * n + me.share) * chunk,
       last = first + chunk < total ? first + chunk : total;
  if ((me.chunk == 0 && me.trip) || first >= last) return false;
  me.trip++;
  *from = me.start + first * me.step, *to = me.start + last * me.step;
  return true;
}

void GOMP_loop_end_nowait(void) {}
