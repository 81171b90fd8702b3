/* solver/balance.c compared with all partitions, tried one by one: rows of random work with long and short runs, one or
 * two runs on each place as schedules of pipelines have them, memory limits. */
#include "solver/balance.h"

#include <math.h>
#include <string.h>

#include "base/random.h"
#include "tests/test.h"

enum {
  MOST_POSITIONS = 11,
  MOST_PARTS = 6,
  KINDS = 2,
  MOST_RUNS = KINDS * MOST_POSITIONS * MOST_POSITIONS,
  ROUNDS = 3000,
  SEED = 12
};

typedef struct Case {
  Balance b;
  double time[MOST_RUNS], once[MOST_RUNS], bytes[MOST_RUNS];
  int place[MOST_PARTS], kind[MOST_PARTS];
} Case;

typedef struct Random {
  uint64_t stream, drawn;
} Random;

static int below(Random *r, int n) { return (int)random_below(SEED, r->stream, r->drawn++, (uint64_t)n); }

/* A run takes the time of its pieces, of which the last may be long, plus that of passing values on. */
static void draw(Random *r, Case *c) {
  int n = 6 + below(r, MOST_POSITIONS - 5), places = 2 + below(r, 2), chunks = 1 + below(r, 2);
  double pieces[MOST_POSITIONS], later[MOST_POSITIONS];
  for (int i = 0; i < n; i++) pieces[i] = 1 + below(r, 3), later[i] = below(r, 3);
  pieces[n - 2] += below(r, 2) ? below(r, 8) : 0;
  for (int i = 0; i < n * n; i++) c->time[i] = INFINITY, c->once[i] = c->bytes[i] = 0;
  for (int from = 0; from < n; from++) {
    double sum = below(r, 2) * 0.25, once = 0;
    for (int to = from + 1; to < n; to++) {
      sum += pieces[to - 1], once += later[to - 1];
      c->time[from * n + to] = sum, c->once[from * n + to] = once, c->bytes[from * n + to] = to - from;
    }
  }
  for (int i = 0; i < n * n; i++)
    c->time[n * n + i] = 2 * c->time[i], c->once[n * n + i] = 2 * c->once[i], c->bytes[n * n + i] = c->bytes[i];
  for (int k = 0; k < places * chunks; k++) c->place[k] = k < places ? k : 2 * places - 1 - k;
  int slow = below(r, 2 * places);
  for (int k = 0; k < places * chunks; k++) c->kind[k] = c->place[k] == slow;
  c->b = (Balance){.n = n,
                   .kind = slow < places ? c->kind : NULL,
                   .time = c->time,
                   .once = c->once,
                   .bytes = c->bytes,
                   .parts = places * chunks,
                   .places = places,
                   .place = c->place,
                   .repeat = 1 + below(r, 16),
                   .ramp = below(r, 2) ? 1 : 0.25,
                   .in_step = below(r, 3) * 0.5,
                   .memory_limit = below(r, 2) ? n : n - 3};
}

static double best_from(const Balance *b, int *cuts, int part) {
  double best = INFINITY;
  if (part == b->parts) return balance_seconds(b, cuts);
  for (cuts[part] = cuts[part - 1] + 1; cuts[part] + 1 < b->n; cuts[part]++) {
    int at = cuts[part];
    best = fmin(best, best_from(b, cuts, part + 1));
    cuts[part] = at;
  }
  return best;
}

static int cases, best_found, close;

static void compare(Random *r) {
  Case c;
  int cuts[MOST_PARTS] = {0}, tried[MOST_PARTS] = {0};
  draw(r, &c);
  if (c.b.parts + 1 > c.b.n) return;
  for (int k = 0; k < c.b.parts; k++) cuts[k] = k; /* the last run takes the rest */
  double given = balance_seconds(&c.b, cuts), best = best_from(&c.b, tried, 1);
  balance_runs(&c.b, cuts);
  double got = balance_seconds(&c.b, cuts);
  CHECK(cuts[0] == 0);
  CHECKF(got <= given && got >= best * (1 - 1e-9), "given %g, got %g, best %g", given, got, best);
  if (isinf(best)) return;
  cases++, best_found += got <= best * (1 + 1e-9), close += got <= best * 1.03;
}

static void all_partitions(void) {
  for (int i = 0; i < ROUNDS; i++) compare(&(Random){.stream = (uint64_t)i});
  printf("%d of %d are best, %d within 3 %%\n", best_found, cases, close);
  CHECKF(cases > 1500 && best_found > 0.9 * cases && close > 0.97 * cases, "%d, %d, %d", cases, best_found, close);
}

int main(void) {
  RUN(all_partitions);
  return test_summary();
}
