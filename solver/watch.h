/* solver/watch.h - a long search seen from inside: how much time is left, when to show how far it has come, and
 * where the time went. */
#ifndef APC_SOLVER_WATCH_H
#define APC_SOLVER_WATCH_H

#include <signal.h>
#include <stdbool.h>

typedef struct SolveWatch {
  double deadline;                   /* by the clock of solve_watch_now; INFINITY: none */
  double most;                       /* work in all; 0: any */
  const volatile sig_atomic_t *stop; /* once it is not 0 the search ends; NULL */
  double began;
  bool expired;       /* one of them has passed, or it was stopped; found out by solve_watch_work */
  double work, spent; /* since the clock was last read, and before */
  void (*show)(const struct SolveWatch *); /* called whenever the clock was read; NULL: nobody looks */
  void *context;                           /* for `show` */
} SolveWatch;

/* Seconds by the clock on the wall, and of this process on its processors. */
double solve_watch_now(void);
double solve_watch_processor(void);

/* Is nobody waiting for more? */
bool solve_watch_stopped(const SolveWatch *w);

/* So much was done, in sums or what takes as long.  Now and then the clock is read and `show` called.  Returns whether
 * to stop.  Nobody watches when w is NULL. */
bool solve_watch_work(SolveWatch *w, double work);

#endif
