/* solver/watch.c - see watch.h. */
#include "solver/watch.h"

#include <stddef.h>
#include <time.h>

static double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double solve_watch_now(void) { return seconds_of(CLOCK_MONOTONIC); }
double solve_watch_processor(void) { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

bool solve_watch_stopped(const SolveWatch *w) { return w->stop && *w->stop; }

bool solve_watch_work(SolveWatch *w, double work) {
  const double often = 1e5; /* sums; less than a millisecond */
  if (!w) return false;
  w->work += work;
  if (w->work < often) return w->expired;
  w->spent += w->work;
  w->work = 0;
  w->expired |= (w->most > 0 && w->spent >= w->most) || solve_watch_now() >= w->deadline || solve_watch_stopped(w);
  if (w->show) w->show(w);
  return w->expired;
}
