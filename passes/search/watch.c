/* passes/search/watch.c - see watch.h. */
#include "passes/search/watch.h"

#include <math.h>
#include <stddef.h>
#include <time.h>

static double seconds_of(clockid_t clock) {
  struct timespec t;
  clock_gettime(clock, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double search_watch_now(void) { return seconds_of(CLOCK_MONOTONIC); }
double search_watch_processor(void) { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }

bool search_watch_stopped(const SearchWatch *w) { return w->stop && *w->stop; }

static double seconds_left(const SearchWatch *w) {
  double now = search_watch_now(), went = now - w->began;
  const PlanProgress *p = &w->progress;
  if (isfinite(w->deadline)) return fmax(w->deadline - now, 0);
  double left = p->done > 0 ? went * (p->candidates - p->done) / p->done : INFINITY;
  return w->most > 0 ? fmin(left, went * fmax(w->most / w->spent - 1, 0)) : left;
}

bool search_watch_work(SearchWatch *w, double work) {
  const double often = 1e5; /* sums: less than a millisecond */
  if (!w) return false;
  w->work += work;
  if (w->work < often) return w->expired;
  w->spent += w->work;
  w->work = 0;
  w->expired |= (w->most > 0 && w->spent >= w->most) || search_watch_now() >= w->deadline || search_watch_stopped(w);
  w->progress.left = seconds_left(w);
  if (w->show) w->show(w->context, &w->progress);
  return w->expired;
}
