/* solver/partition.c compared with all partitions, tried one by one: random, non-additive times, as those of stages
 * are, for parts that are alike or of several kinds, and runs that do not exist, are too large, or are too slow to be
 * known. */
#include "solver/partition.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "tests/test.h"

enum { MOST_POSITIONS = 12, MOST_KINDS = 3, MOST_RUNS = MOST_KINDS * MOST_POSITIONS * MOST_POSITIONS };
enum { ROUNDS = 20000, SEED = 11 };

typedef struct Case {
  Partition p;
  double time[MOST_RUNS], bytes[MOST_RUNS];
  int kind[MOST_POSITIONS];
} Case;

typedef struct Random {
  uint64_t stream, drawn;
} Random;

static int below(Random *r, int n) { return (int)random_below(SEED, r->stream, r->drawn++, (uint64_t)n); }

static int run_at(const Partition *p, int part, int from, int to) {
  return ((p->kind ? p->kind[part] : 0) * p->n + from) * p->n + to;
}

/* The best result of a partition from part number `part` on, given the parts before; without limits except the
 * memory's. */
static double best_from(const Partition *p, int from, int part, int parts, double sum, double slowest) {
  double best = INFINITY;
  if (part == parts) return from == p->n - 1 ? sum + (p->repeat - 1) * slowest : INFINITY;
  for (int to = from + 1; to < p->n; to++) {
    int at = run_at(p, part, from, to);
    double time = p->time[at];
    if (!isinf(time) && p->bytes[at] <= p->memory_limit)
      best = fmin(best, best_from(p, to, part + 1, parts, sum + time, fmax(slowest, time)));
  }
  return best;
}

static double takes(const Partition *p, int parts, const int *cuts) {
  double sum = 0, slowest = 0;
  for (int i = 0; i < parts; i++) {
    int at = run_at(p, i, cuts[i], i + 1 < parts ? cuts[i + 1] : p->n - 1);
    CHECK(p->bytes[at] <= p->memory_limit);
    sum += p->time[at];
    slowest = fmax(slowest, p->time[at]);
  }
  return sum + (p->repeat - 1) * slowest;
}

static void draw(Random *r, Case *c) {
  c->p = (Partition){.n = 2 + below(r, MOST_POSITIONS - 1),
                     .time = c->time,
                     .bytes = c->bytes,
                     .most = INFINITY,
                     .repeat = 1 + below(r, below(r, 2) ? 3 : 20),
                     .memory_limit = below(r, 2) ? INFINITY : 20.0 + below(r, 40)};
  int n = c->p.n, holes = below(r, 4), any = below(r, 3); /* any: times are unrelated */
  double each[MOST_POSITIONS];
  for (int i = 0; i < n; i++) each[i] = 1 + below(r, 8);
  c->p.nkinds = 1 + below(r, MOST_KINDS);
  for (int i = 0; i < n; i++) c->kind[i] = below(r, c->p.nkinds);
  if (c->p.nkinds > 1 || below(r, 2)) c->p.kind = c->kind;
  for (int run = 0; run < c->p.nkinds * n * n; run++) {
    int from = run / n % n, to = run % n;
    double sum = below(r, any ? 60 : 6) / 4., slower = 1 + run / (n * n);
    for (int i = from; i < to && any < 2; i++) sum += each[i] * slower;
    c->time[run] = to <= from || below(r, 16) < holes ? INFINITY : sum;
    c->bytes[run] = 4 * sum / slower + below(r, 10);
  }
}

/* The least total of the runs of some partition. */
static double least_of(const Partition *p) {
  double least = INFINITY;
  Partition alone = *p;
  alone.repeat = 1;
  for (int parts = 1; parts < p->n; parts++) least = fmin(least, best_from(&alone, 0, 0, parts, 0, 0));
  return isinf(least) ? 0 : least;
}

static long found_ones, impossible, unknown;

static void compare(Random *r) {
  Case c, known;
  int cuts[MOST_POSITIONS];
  double needed;
  draw(r, &c);
  int n = c.p.n, parts = 1 + below(r, n - 1);
  c.p.least = least_of(&c.p) * (below(r, 2) ? 1 : 0.7);
  double best = best_from(&c.p, 0, 0, parts, 0, 0);
  bool found = partition_find(&c.p, parts, cuts, &needed);
  CHECKF(found == !isinf(best), "best %g", best);
  if (found)
    CHECKF(fabs(takes(&c.p, parts, cuts) - best) <= 1e-9 * best, "%g, best %g", takes(&c.p, parts, cuts), best);
  if (found) CHECK(cuts[0] == 0);
  impossible += !found;

  /* Times of slow runs are unknown: no better partition may be denied. */
  known = c;
  known.p.time = known.time, known.p.bytes = known.bytes;
  if (known.p.kind) known.p.kind = known.kind;
  known.p.most = 4 + below(r, 20);
  for (int i = 0; i < c.p.nkinds * n * n; i++)
    if (known.time[i] > known.p.most) known.time[i] = INFINITY;
  found = partition_find(&known.p, parts, cuts, &needed);
  double got = found ? takes(&known.p, parts, cuts) : INFINITY;
  CHECK(got >= best * (1 - 1e-9));
  if (found && needed <= known.p.most)
    CHECKF(got <= best * (1 + 1e-9), "%g, best %g, runs up to %g, known up to %g", got, best, needed, known.p.most);
  found_ones += found;
  unknown += got > best * (1 + 1e-9);
}

static void all_partitions(void) {
  for (int i = 0; i < ROUNDS; i++) compare(&(Random){.stream = (uint64_t)i});
  CHECKF(found_ones > 5000 && impossible > 1500 && unknown > 500, "%ld, %ld, %ld", found_ones, impossible, unknown);
}

int main(void) {
  RUN(all_partitions);
  return test_summary();
}
