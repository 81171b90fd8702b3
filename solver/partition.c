/* solver/partition.c - see partition.h. */
#include "solver/partition.h"

#include <math.h>
#include <stddef.h>

#include "base/arena.h"

/* A run that is not too long and not too large. */
typedef struct Run {
  int from;
  double time;
} Run;

typedef struct Runs {
  const Run *items;
  const size_t *starts; /* of position `to`: items[starts[to] .. starts[to + 1]), by ascending `from` */
} Runs;

typedef struct State {
  double sum, slowest;
  int from, index; /* position and state before */
} State;

typedef struct States {
  State *items;
  size_t n, cap;
} States;

typedef struct Search {
  Arena *arena;
  const Partition *p;
  int parts;
} Search;

static Runs runs_within(const Search *s, double most) {
  const Partition *p = s->p;
  size_t *starts = ARENA_ARRAY(s->arena, size_t, p->n + 1), n = 0;
  for (int pass = 0; pass < 2; pass++) {
    Run *items = pass ? ARENA_ARRAY(s->arena, Run, n + 1) : NULL;
    n = 0;
    for (int to = 0; to < p->n; to++) {
      starts[to] = n;
      for (int from = 0; from < to; from++) {
        double time = p->time[from * p->n + to];
        if (isinf(time) || time > most || p->bytes[from * p->n + to] > p->memory_limit) continue;
        if (pass) items[n] = (Run){from, time};
        n++;
      }
    }
    starts[p->n] = n;
    if (pass) return (Runs){items, starts};
  }
  return (Runs){0};
}

/* [part * n + position]: the least sum of the runs behind the first `part` ones, from that position on; INFINITY: they
 * do not get to the end. */
static double *rests_of(const Search *s, const Runs *runs) {
  int n = s->p->n;
  double *rest = ARENA_ARRAY(s->arena, double, (s->parts + 1) * n);
  for (int i = 0; i < (s->parts + 1) * n; i++) rest[i] = INFINITY;
  rest[s->parts * n + n - 1] = 0;
  for (int part = s->parts; part > 0; part--)
    for (int to = 1; to < n; to++) {
      double behind = rest[part * n + to], *before = rest + (part - 1) * n;
      if (isinf(behind)) continue;
      for (size_t i = runs->starts[to]; i < runs->starts[to + 1]; i++)
        before[runs->items[i].from] = fmin(before[runs->items[i].from], behind + runs->items[i].time);
    }
  return rest;
}

/* What a partition of runs up to `most` takes at most; INFINITY: there is none. */
static double takes_within(const Search *s, double most) {
  Search trial = *s;
  trial.arena = arena_new();
  const Runs runs = runs_within(&trial, most);
  double sum = rests_of(&trial, &runs)[0];
  arena_free(trial.arena);
  return sum + (s->p->repeat - 1) * most;
}

static double slowest_run(const Partition *p) {
  double most = 0;
  for (int i = 0; i < p->n * p->n; i++)
    if (!isinf(p->time[i])) most = fmax(most, p->time[i]);
  return most;
}

/* What the best of some partitions takes at most: of the limits of the slowest run that are between all and none. */
static double some_partition(const Search *s) {
  double high = slowest_run(s->p), low = fmin(high, s->p->least / s->parts), best = takes_within(s, high);
  for (int i = 0; i < 12; i++) {
    double middle = (low + high) / 2, takes = takes_within(s, middle);
    best = fmin(best, takes);
    if (isinf(takes)) low = middle;
    else high = middle;
  }
  return best;
}

/* Keeps states that none beats in both numbers. */
static void add_state(const Search *s, States *l, State x) {
  size_t kept = 0;
  for (size_t i = 0; i < l->n; i++)
    if (l->items[i].sum <= x.sum && l->items[i].slowest <= x.slowest) return;
  for (size_t i = 0; i < l->n; i++)
    if (!(x.sum <= l->items[i].sum && x.slowest <= l->items[i].slowest)) l->items[kept++] = l->items[i];
  l->n = kept;
  ARENA_PUSH(s->arena, l, x);
}

/* All states that may lead to what takes no more than `best`. */
static States *states_within(const Search *s, const Runs *runs, double best) {
  int n = s->p->n;
  const double *rest = rests_of(s, runs);
  States *states = ARENA_ARRAY(s->arena, States, (s->parts + 1) * n);
  add_state(s, &states[0], (State){0, 0, -1, -1});
  for (int part = 1; part <= s->parts; part++)
    for (int to = 1; to < n; to++)
      for (size_t k = runs->starts[to]; k < runs->starts[to + 1] && !isinf(rest[part * n + to]); k++) {
        const Run *run = &runs->items[k];
        const States *before = &states[(part - 1) * n + run->from];
        for (size_t i = 0; i < before->n; i++) {
          State x = {before->items[i].sum + run->time, fmax(before->items[i].slowest, run->time), run->from, (int)i};
          if (x.sum + rest[part * n + to] + (s->p->repeat - 1) * x.slowest <= best)
            add_state(s, &states[part * n + to], x);
        }
      }
  return states;
}

static double takes(const Partition *p, const State *s) { return s->sum + (p->repeat - 1) * s->slowest; }

static bool trace(const Search *s, const States *states, int *cuts) {
  int n = s->p->n;
  const States *end = &states[s->parts * n + n - 1];
  const State *best = NULL;
  for (size_t i = 0; i < end->n; i++)
    if (!best || takes(s->p, &end->items[i]) < takes(s->p, best)) best = &end->items[i];
  for (int part = s->parts; best && part > 0; part--) {
    cuts[part - 1] = best->from;
    best = part > 1 ? &states[(part - 1) * n + best->from].items[best->index] : best;
  }
  return best != NULL;
}

bool partition_find(const Partition *p, int parts, int *cuts, double *needed) {
  Search s = {arena_new(), p, parts};
  double best = some_partition(&s) * (1 + 1e-9); /* sums have another order */
  *needed = isinf(best) || p->repeat <= 1 ? INFINITY : (best - p->least) / (p->repeat - 1);
  const Runs runs = runs_within(&s, fmin(p->most, *needed));
  bool found = !isinf(best) && trace(&s, states_within(&s, &runs, best), cuts);
  arena_free(s.arena);
  return found;
}
