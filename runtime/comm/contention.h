/* runtime/comm/contention.h - how long a thread that waits for another thread or rank may spin: long while cores are
 * free, hardly at all while others want them.
 *
 * A spinning thread reacts at once; a sleeping one needs some microseconds, on some machines a hundred.  But if others
 * want the core, spinning takes it from them, perhaps from the very thread that it waits for, and then the scheduler no
 * longer favours the spinner when it has work (bench/results/cpu.md).
 *
 * The measure is the time a thread was ready without a core, as a fraction of the time it wanted one, over stretches of
 * a few milliseconds.  The system counts it per thread (schedstat: it waited for a core, was preempted, or woke late).
 * Holes in a spinning thread's own time reveal the rest: the quota of a container, and other virtual machines.  From
 * 1/PART on, cores count as contended for a pause; the pause doubles each time that cores are contended again right
 * after it.
 */
#ifndef APC_RUNTIME_COMM_CONTENTION_H
#define APC_RUNTIME_COMM_CONTENTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds to spin while cores are free, and while they are contended.  The second is about as long as cooperating
 * threads are apart when all have a core; longer is not worth it. */
enum { CONTENTION_SPIN = 1000000, CONTENTION_SPIN_CONTENDED = 100000 };

/* Findings shared by threads that work together; all zero at first. */
typedef struct Contention {
  _Atomic int64_t until; /* cores are contended until then */
  _Atomic int64_t pause; /* length of the last pause */
} Contention;

/* State of one thread; all zero at first. */
typedef struct ContentionWatch {
  int file;                          /* its schedstat plus 1; -1 if there is none */
  int64_t looked, cpu, delay, holes; /* time of the last look, and its sums; holes: since then */
  int64_t waiting, seen;             /* contention_may_spin: start of the wait, and the clock at the last call */
} ContentionWatch;

int64_t contention_clock(void); /* nanoseconds */

/* Records that the calling thread, always ready, saw no clock tick for `ns` nanoseconds. */
void contention_hole(ContentionWatch *w, int64_t ns);

/* Returns the nanoseconds to spin now; measures again if the last look is long enough ago. */
int64_t contention_spin(Contention *c, ContentionWatch *w, int64_t now);

/* True if a waiting thread should look again instead of sleeping; call it between two looks.  `first`: the wait begins
 * here.  Do not use sched_yield instead: it gives up the rest of the time slice, milliseconds on a busy core. */
bool contention_may_spin(Contention *c, ContentionWatch *w, bool first);
/* Call it after sleeping in such a wait, so that the sleep does not count as a hole. */
void contention_slept(ContentionWatch *w);

/* Judges a stretch that ends at `now`: nanoseconds on a core, and nanoseconds ready without one. */
void contention_judge(Contention *c, int64_t now, int64_t ran, int64_t delayed);

#endif
