/* solver/watch.h - limits and progress of a long search: time left, when to report progress, and where the time
 * went. */
#ifndef APC_SOLVER_WATCH_H
#define APC_SOLVER_WATCH_H

#include <signal.h>
#include <stdbool.h>

typedef struct SolveWatch {
  double deadline;                   /* by the clock of solve_watch_now; INFINITY if none */
  double most;                       /* limit of work; 0 if none */
  const volatile sig_atomic_t *stop; /* the search ends once it is not 0; NULL if it cannot be stopped */
  double began;
  bool expired;                            /* a limit has passed, or the search was stopped; set by solve_watch_work */
  double work, spent;                      /* since the clock was last read, and until then */
  void (*show)(const struct SolveWatch *); /* called whenever the clock is read; NULL if no progress is reported */
  void *context;                           /* for `show` */
} SolveWatch;

/* Seconds: wall clock, and CPU time of this process. */
double solve_watch_now(void);
double solve_watch_processor(void);

/* True if the search was stopped through `stop`. */
bool solve_watch_stopped(const SolveWatch *w);

/* Counts work, in sums or operations that take as long.  Reads the clock and calls `show` now and then.  Returns true
 * if the search must stop; false if w is NULL. */
bool solve_watch_work(SolveWatch *w, double work);

#endif
