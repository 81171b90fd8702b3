/* runtime/comm/contention.h - how long who waits for another thread or rank may spin: long while cores are free, hardly
 * while others want them.
 *
 * A spinning thread is there at once, one that sleeps some microseconds later, on some machines a hundred.  But where
 * others want the core, spinning takes it from them, perhaps from the very thread that is waited for, and the scheduler
 * no longer favours the spinner when it has work (bench/results/cpu.md).
 *
 * What is seen: the time a thread was ready to run and had no core, as part of the time it wanted one, over stretches
 * of a few milliseconds.  The system counts it per thread (schedstat: waiting for a core; preempted and woken late
 * alike); holes in a spinning thread's own time show what that does not count, a container's quota and other virtual
 * machines.  From PART of it on the cores are taken to be contended for a while, which doubles each time that they are
 * found so again right afterwards.
 */
#ifndef APC_RUNTIME_COMM_CONTENTION_H
#define APC_RUNTIME_COMM_CONTENTION_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Nanoseconds: of a wait while cores are free, and while they are not: then it is worth as much as those who work
 * together are apart when all of them have a core, and no more. */
enum { CONTENTION_SPIN = 1000000, CONTENTION_SPIN_CONTENDED = 100000 };

/* What threads that work together have found.  All zero: nothing. */
typedef struct Contention {
  _Atomic int64_t until; /* cores are contended until then */
  _Atomic int64_t pause; /* how long the last such time was */
} Contention;

/* Of one thread; all zero at first. */
typedef struct ContentionWatch {
  int file;                          /* its schedstat plus 1; -1: there is none */
  int64_t looked, cpu, delay, holes; /* when, and the sums then; holes: since then */
  int64_t waiting, seen;             /* contention_may_spin: since when, and the clock last time */
} ContentionWatch;

int64_t contention_clock(void); /* nanoseconds */

/* The calling thread was ready in the loop and saw nothing of the clock for so long. */
void contention_hole(ContentionWatch *w, int64_t ns);

/* How long to spin now; looks, when the last look is long enough ago. */
int64_t contention_spin(Contention *c, ContentionWatch *w, int64_t now);

/* For who looks for something, then asks this, and does both again: is it too early to sleep?  `first`: the wait begins
 * here.  Never sched_yield instead: it gives the rest of the time slice away, on a busy core milliseconds. */
bool contention_may_spin(Contention *c, ContentionWatch *w, bool first);
/* Who slept in such a wait and goes on looking was not kept from it. */
void contention_slept(ContentionWatch *w);

/* The judgement on a stretch that ends now: so long on a core, and so long ready without one. */
void contention_judge(Contention *c, int64_t now, int64_t ran, int64_t delayed);

#endif
