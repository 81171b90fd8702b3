/* passes/search/watch.h - a long search seen from inside: how much time is left, what to show of it, and where the time
 * went. */
#ifndef APC_PASSES_SEARCH_WATCH_H
#define APC_PASSES_SEARCH_WATCH_H

#include <stdbool.h>

#include "passes/plan/plan.h"

typedef struct SearchWatch {
  double deadline;                   /* by the clock of search_watch_now; INFINITY: none */
  double most;                       /* work in all; 0: any */
  const volatile sig_atomic_t *stop; /* PlanOptions.stop */
  double began;
  bool expired;          /* one of them has passed, or it was stopped; found out by search_watch_work */
  double work, spent;    /* since the clock was last read, and before */
  PlanProgressFunc show; /* NULL: nobody looks */
  void *context;
  PlanProgress progress; /* what is shown */
} SearchWatch;

/* Seconds by the clock on the wall, and of this process on its processors. */
double search_watch_now(void);
double search_watch_processor(void);

/* Is nobody waiting for more? */
bool search_watch_stopped(const SearchWatch *w);

/* So much was done, in sums or what takes as long.  Now and then the clock is read and progress shown.  Returns whether
 * to stop. Nobody watches when w is NULL. */
bool search_watch_work(SearchWatch *w, double work);

#endif
