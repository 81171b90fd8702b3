/* passes/plan/even.c - see even.h. */
#include "passes/plan/even.h"

#include <math.h>
#include <string.h>

#include "ir/schedule.h"

/* Returns the time of a step with the cuts, from the schedule's table, with phases of equal length. */
static double table_seconds(const Balance *b, const Mesh *mesh, const int *cuts) {
  Arena *a = arena_new();
  ScheduleWork *work = ARENA_ARRAY(a, ScheduleWork, b->parts);
  double *once = ARENA_ARRAY(a, double, b->places), most = 0;
  for (int s = 0; s < b->parts; s++) {
    int run = balance_run(b, cuts, s);
    double phase = fmax(b->time[run] / 3, 1e-12);
    work[s] = (ScheduleWork){phase, phase, phase};
    once[b->place[s]] += b->once[run], most = fmax(most, once[b->place[s]]);
  }
  double seconds = schedule_table(a, mesh, work).seconds + most;
  arena_free(a);
  return seconds;
}

/* Tries several ways of evening out the cuts and keeps the one with the shortest table; tries only one if tables would
 * be long, or if each place has one stage. */
void stages_even(Balance b, const Mesh *mesh, int *cuts) {
  static const double in_step[] = {0, 0.5, 1};
  enum { WAYS = sizeof in_step / sizeof *in_step, MOST_CALLS = 1 << 16 };
  bool choose = mesh->chunks > 1 && mesh->stages * b.repeat <= MOST_CALLS;
  Arena *a = arena_new();
  size_t bytes = sizeof *cuts * (size_t)b.parts;
  int *given = memcpy(arena_alloc(a, bytes), cuts, bytes), *tried = arena_alloc(a, bytes);
  double best = INFINITY;
  for (int i = 0; i < (choose ? WAYS : 1); i++) {
    b.in_step = in_step[i];
    balance_runs(&b, memcpy(tried, given, bytes));
    double seconds = choose ? table_seconds(&b, mesh, tried) : 0;
    if (seconds >= best) continue;
    best = seconds;
    memcpy(cuts, tried, bytes);
  }
  arena_free(a);
}
