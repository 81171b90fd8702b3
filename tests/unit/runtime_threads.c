/* tests/unit/runtime_threads.c - the threads of compiled programs (runtime/stub/threads.c): every share runs once, on
 * any thread. */
#include <time.h>
#include <unistd.h>

#include "runtime/stub/threads.c"
#include "tests/test.h"

enum { SHARES = 6, ROUNDS = 3000 };

typedef struct Region {
  _Atomic int ran[MOST];
  _Atomic int wrong, phase[SHARES];
  int n;
} Region;

static void note(void *data) {
  Region *r = data;
  int share = omp_get_thread_num();
  if (omp_get_num_threads() != r->n || !omp_in_parallel() || share < 0 || share >= r->n) atomic_fetch_add(&r->wrong, 1);
  atomic_fetch_add(&r->ran[share], 1);
}

static void check_once(Region *r, int n, int times) {
  CHECK(atomic_load(&r->wrong) == 0);
  for (int i = 0; i < n; i++)
    CHECKF(atomic_load(&r->ran[i]) == times, "share %d of %d ran %d times, not %d", i, n, atomic_load(&r->ran[i]),
           times);
}

static void every_share_once(void) {
  static const int teams[] = {2, 3, SHARES, MOST};
  for (size_t t = 0; t < sizeof teams / sizeof teams[0]; t++) {
    Region r = {.n = teams[t]};
    for (int i = 0; i < ROUNDS; i++) GOMP_parallel(note, &r, (unsigned)r.n, 0);
    check_once(&r, r.n, ROUNDS);
    CHECK(omp_get_num_threads() == 1 && omp_get_thread_num() == 0 && !omp_in_parallel());
  }
}

/* Long enough between regions that all threads sleep. */
static void after_sleep(void) {
  Region r = {.n = 3};
  for (int i = 0; i < 20; i++) {
    usleep(3000);
    GOMP_parallel(note, &r, 3, 0);
  }
  check_once(&r, 3, 20);
}

static void wanted_threads(void) {
  Region r = {.n = 2};
  int before = omp_get_max_threads();
  omp_set_num_threads(2);
  CHECK(omp_get_max_threads() == 2);
  GOMP_parallel(note, &r, 0, 0);
  check_once(&r, 2, 1);
  omp_set_num_threads(before);
}

/* All shares reach a phase before any goes on. */
static void with_barriers(void *data) {
  Region *r = data;
  int share = omp_get_thread_num();
  for (int phase = 1; phase <= 5; phase++) {
    atomic_store(&r->phase[share], phase);
    GOMP_barrier();
    for (int i = 0; i < r->n; i++)
      if (atomic_load(&r->phase[i]) != phase) atomic_fetch_add(&r->wrong, 1);
    GOMP_barrier();
  }
  atomic_fetch_add(&r->ran[share], 1);
}

static void barriers(void) {
  Region r = {.n = SHARES};
  for (int i = 0; i < 200; i++) GOMP_parallel(with_barriers, &r, SHARES, 0);
  check_once(&r, SHARES, 200);
}

static void inner(void *data) {
  Region *r = data;
  if (omp_get_num_threads() != 1 || omp_get_thread_num() != 0) atomic_fetch_add(&r->wrong, 1);
  atomic_fetch_add(&r->ran[0], 1);
}

static void outer(void *data) {
  int share = omp_get_thread_num();
  GOMP_parallel(inner, data, 4, 0);
  if (omp_get_thread_num() != share || omp_get_num_threads() != 3) atomic_fetch_add(&((Region *)data)->wrong, 1);
}

static void region_in_a_region(void) {
  Region r = {.n = 1};
  for (int i = 0; i < 100; i++) GOMP_parallel(outer, &r, 3, 0);
  check_once(&r, 1, 300);
}

static struct {
  long start, end, step, chunk;
  _Atomic int met[100];
} loop;

static void run_loop(void *data) {
  long from, to;
  (void)data;
  if (GOMP_loop_static_start(loop.start, loop.end, loop.step, loop.chunk, &from, &to)) do {
      for (long i = from; loop.step > 0 ? i < to : i > to; i += loop.step) atomic_fetch_add(&loop.met[i], 1);
    } while (GOMP_loop_static_next(&from, &to));
  GOMP_loop_end_nowait();
}

static void loops_of_old_compilers(void) {
  for (long step = -3; step <= 3; step++)
    for (long chunk = 0; chunk < 4; chunk++) {
      if (step == 0) continue;
      loop.start = step > 0 ? 5 : 90, loop.end = step > 0 ? 91 : 4, loop.step = step, loop.chunk = chunk;
      for (int i = 0; i < 100; i++) atomic_store(&loop.met[i], 0);
      GOMP_parallel_start(run_loop, NULL, 3);
      run_loop(NULL);
      GOMP_parallel_end();
      for (long i = 0; i < 100; i++) {
        bool in = step > 0 ? i >= 5 && i < 91 && (i - 5) % step == 0 : i <= 90 && i > 4 && (90 - i) % -step == 0;
        CHECKF(atomic_load(&loop.met[i]) == in, "step %ld, chunk %ld: iteration %ld %d times", step, chunk, i,
               atomic_load(&loop.met[i]));
      }
    }
}

static int64_t processor_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* Between requests no thread spins, however many regions there were. */
static void at_rest(void) {
  Region r = {.n = SHARES};
  for (int i = 0; i < 1000; i++) GOMP_parallel(note, &r, SHARES, 0);
  usleep(50000);
  int64_t before = processor_time();
  usleep(300000);
  int64_t took = processor_time() - before;
  CHECKF(took < 30000000, "%d threads took %.1f ms of processor time in 300 ms at rest", SHARES, (double)took * 1e-6);
}

int main(void) {
  RUN(every_share_once);
  RUN(after_sleep);
  RUN(at_rest);
  RUN(wanted_threads);
  RUN(barriers);
  RUN(region_in_a_region);
  RUN(loops_of_old_compilers);
  return test_summary();
}
