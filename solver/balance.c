/* solver/balance.c - see balance.h. */
#include "solver/balance.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "base/arena.h"

/* Cost of imbalance beyond the slowest place: share of the standard deviation of the places' times. */
static const double uneven = 0.05;

/* With more than MANY_PARTS parts, at most MOST_TOGETHER neighbouring borders are moved together. */
enum { MANY_PARTS = 64, MOST_TOGETHER = 8 };
enum { MOST_ROUNDS = 200, MOST_SHIFT = 2 };

typedef struct Moving {
  const Balance *b;
  double *busy, *once; /* by place */
  double *slowest;     /* by index of the run on its place: the slowest over all places */
  int *trial, *runs;   /* runs: by place, counted so far */
} Moving;

/* Index of the first run of a part that begins at `from`. */
static int row_of(const Balance *b, int part, int from) { return ((b->kind ? b->kind[part] : 0) * b->n + from) * b->n; }

int balance_run(const Balance *b, const int *cuts, int part) {
  return row_of(b, part, cuts[part]) + (part + 1 < b->parts ? cuts[part + 1] : b->n - 1);
}

static double step_seconds(const Moving *m, const int *cuts) {
  const Balance *b = m->b;
  double sum = 0, most = 0, squares = 0, once = 0, in_step = 0;
  for (int p = 0; p < b->places; p++) m->busy[p] = m->once[p] = 0, m->runs[p] = 0;
  for (int k = 0; k < b->parts; k++) m->slowest[k] = 0;
  for (int k = 0; k < b->parts; k++) {
    int run = balance_run(b, cuts, k);
    if (isinf(b->time[run]) || b->bytes[run] > b->memory_limit) return INFINITY;
    m->busy[b->place[k]] += b->time[run], m->once[b->place[k]] += b->once[run];
    double *slowest = &m->slowest[m->runs[b->place[k]]++];
    in_step += fmax(0, b->time[run] - *slowest), *slowest = fmax(*slowest, b->time[run]);
  }
  for (int p = 0; p < b->places; p++) {
    sum += m->busy[p], squares += m->busy[p] * m->busy[p];
    most = fmax(most, m->busy[p]), once = fmax(once, m->once[p]);
  }
  double spread = sqrt(fmax(0, squares / b->places - (sum / b->places) * (sum / b->places)));
  double slowest = (1 - b->in_step) * most + b->in_step * in_step;
  return once + b->repeat * (slowest + uneven * spread) + b->ramp * (sum - most);
}

static Moving moving_of(Arena *a, const Balance *b) {
  return (Moving){.b = b,
                  .busy = ARENA_ARRAY(a, double, b->places),
                  .once = ARENA_ARRAY(a, double, b->places),
                  .slowest = ARENA_ARRAY(a, double, b->parts),
                  .trial = ARENA_ARRAY(a, int, b->parts),
                  .runs = ARENA_ARRAY(a, int, b->places)};
}

double balance_seconds(const Balance *b, const int *cuts) {
  Arena *a = arena_new();
  const Moving m = moving_of(a, b);
  double seconds = step_seconds(&m, cuts);
  arena_free(a);
  return seconds;
}

/* Moves the borders before parts first to last by `by` positions, if that shortens the step. */
static bool move(const Moving *m, int *cuts, int first, int last, int by, double *seconds) {
  const Balance *b = m->b;
  int before = cuts[first - 1], after = last + 1 < b->parts ? cuts[last + 1] : b->n - 1;
  if (cuts[first] + by <= before || cuts[last] + by >= after) return false;
  memcpy(m->trial, cuts, sizeof *cuts * (size_t)b->parts);
  for (int k = first; k <= last; k++) m->trial[k] += by;
  double now = step_seconds(m, m->trial);
  if (now >= *seconds * (1 - 1e-9)) return false;
  *seconds = now;
  memcpy(cuts, m->trial, sizeof *cuts * (size_t)b->parts);
  return true;
}

static double climb(const Moving *m, int *cuts) {
  double seconds = step_seconds(m, cuts);
  bool better = true;
  int together = m->b->parts > MANY_PARTS ? MOST_TOGETHER : m->b->parts;
  for (int round = 0; round < MOST_ROUNDS && better; round++) {
    better = false;
    for (int first = 1; first < m->b->parts; first++)
      for (int last = first; last < m->b->parts && last < first + together; last++)
        for (int by = -MOST_SHIFT; by <= MOST_SHIFT; by++) better |= by && move(m, cuts, first, last, by, &seconds);
  }
  return seconds;
}

/* Returns the time of the fastest run that ends at the last position. */
static double least_at_end(const Balance *b) {
  double least = INFINITY;
  for (int from = 0; from + 1 < b->n; from++) least = fmin(least, b->time[row_of(b, b->parts - 1, from) + b->n - 1]);
  return least;
}

/* Target time of each part, so that all places take equally long; the last part gets at least its fastest run. */
static double *shares_of(Arena *a, const Balance *b, double sum) {
  double *share = ARENA_ARRAY(a, double, b->parts), each = sum / b->places, last = least_at_end(b);
  int *parts = ARENA_ARRAY(a, int, b->places), final = b->parts - 1, place = b->place[final];
  for (int k = 0; k < b->parts; k++) parts[b->place[k]]++;
  for (int k = 0; k < b->parts; k++) share[k] = each / parts[b->place[k]];
  if (last <= share[final]) return share;
  for (int k = 0; k < final; k++)
    if (b->place[k] == place) share[k] = fmax(0, each - last) / (parts[place] - 1);
  share[final] = last;
  return share;
}

/* Finds the partition with the least squared difference between runs and their shares; false if there is none. */
static bool nearest_to(const Balance *b, const double *share, int *cuts) {
  Arena *a = arena_new();
  int n = b->n, *from = ARENA_ARRAY(a, int, (b->parts + 1) * n);
  double *cost = ARENA_ARRAY(a, double, (b->parts + 1) * n);
  for (int i = 0; i < (b->parts + 1) * n; i++) cost[i] = INFINITY;
  cost[0] = 0;
  for (int k = 0; k < b->parts; k++)
    for (int i = 0; i < n; i++)
      for (int to = i + 1; to < n && !isinf(cost[k * n + i]); to++) {
        int run = row_of(b, k, i) + to;
        double off = b->time[run] - share[k], sum = cost[k * n + i] + off * off;
        if (b->bytes[run] > b->memory_limit || !(sum < cost[(k + 1) * n + to])) continue;
        cost[(k + 1) * n + to] = sum, from[(k + 1) * n + to] = i;
      }
  bool found = !isinf(cost[b->parts * n + n - 1]);
  for (int k = b->parts, at = n - 1; found && k > 0; k--) cuts[k - 1] = at = from[k * n + at];
  arena_free(a);
  return found;
}

void balance_runs(const Balance *b, int *cuts) {
  Arena *a = arena_new();
  const Moving m = moving_of(a, b);
  int *other = ARENA_ARRAY(a, int, b->parts);
  double sum = 0;
  for (int k = 0; k < b->parts; k++) sum += b->time[balance_run(b, cuts, k)];
  bool found = nearest_to(b, shares_of(a, b, sum), other);
  double given = climb(&m, cuts);
  if (found && climb(&m, other) < given) memcpy(cuts, other, sizeof *cuts * (size_t)b->parts);
  arena_free(a);
}
