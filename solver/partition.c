/* solver/partition.c - see partition.h. */
#include "solver/partition.h"

#include <math.h>
#include <stddef.h>

#include "base/arena.h"

/* A run within the limits of time and memory. */
typedef struct Run {
  int from;
  double time;
} Run;

typedef struct Runs {
  const Run *items;
  const size_t *starts; /* runs that end at `to`: items[starts[to] .. starts[to + 1]), by ascending `from` */
} Runs;

typedef struct State {
  double sum, slowest;
  int from, index; /* previous position and state */
} State;

typedef struct States {
  State *items;
  size_t n, cap;
} States;

typedef struct Search {
  Arena *arena;
  const Partition *p;
  int parts;
  const Runs *all; /* by kind */
  double floor;    /* every partition has a run that takes longer */
} Search;

static int kinds_of(const Partition *p) { return p->kind ? p->nkinds : 1; }

/* Runs allowed for a part. */
static const Runs *runs_at(const Search *s, const Runs *runs, int part) {
  return &runs[s->p->kind ? s->p->kind[part] : 0];
}

static size_t at(const Partition *p, int kind, int from, int to) {
  return ((size_t)kind * (size_t)p->n + (size_t)from) * (size_t)p->n + (size_t)to;
}

static bool is_run(const Partition *p, int kind, int from, int to) {
  size_t i = at(p, kind, from, to);
  return !isinf(p->time[i]) && p->bytes[i] <= p->memory_limit;
}

/* Lists all runs of a kind within the memory limit. */
static Runs runs_of(Arena *a, const Partition *p, int kind) {
  size_t *starts = ARENA_ARRAY(a, size_t, p->n + 2), n = 0;
  for (int from = 0; from < p->n; from++)
    for (int to = from + 1; to < p->n; to++) starts[to + 1] += is_run(p, kind, from, to);
  for (int to = 0; to < p->n; to++) n += starts[to + 1], starts[to + 1] = n;
  Run *items = ARENA_ARRAY(a, Run, n + 1);
  for (int from = 0; from < p->n; from++)
    for (int to = from + 1; to < p->n; to++)
      if (is_run(p, kind, from, to)) items[starts[to]++] = (Run){from, p->time[at(p, kind, from, to)]};
  for (int to = p->n; to > 0; to--) starts[to] = starts[to - 1];
  starts[0] = 0;
  return (Runs){items, starts};
}

static Runs within(const Search *s, const Runs *all, double most) {
  size_t *starts = ARENA_ARRAY(s->arena, size_t, s->p->n + 1), n = 0;
  Run *items = ARENA_ARRAY(s->arena, Run, all->starts[s->p->n] + 1);
  for (int to = 0; to < s->p->n; to++) {
    starts[to] = n;
    for (size_t i = all->starts[to]; i < all->starts[to + 1]; i++)
      if (all->items[i].time <= most) items[n++] = all->items[i];
  }
  starts[s->p->n] = n;
  return (Runs){items, starts};
}

/* Lists the runs that take at most `most`, by kind. */
static const Runs *runs_within(const Search *s, double most) {
  Runs *runs = ARENA_ARRAY(s->arena, Runs, kinds_of(s->p));
  for (int k = 0; k < kinds_of(s->p); k++) runs[k] = within(s, &s->all[k], most);
  return runs;
}

/* [part * n + position]: least sum of the runs from that position on, after `part` runs; INFINITY if none reach the
 * end. */
static double *rests_of(const Search *s, const Runs *by_kind) {
  int n = s->p->n;
  double *rest = ARENA_ARRAY(s->arena, double, (s->parts + 1) * n);
  for (int i = 0; i < (s->parts + 1) * n; i++) rest[i] = INFINITY;
  rest[s->parts * n + n - 1] = 0;
  for (int part = s->parts; part > 0; part--) {
    const Runs *runs = runs_at(s, by_kind, part - 1);
    for (int to = 1; to < n; to++) {
      double behind = rest[part * n + to], *before = rest + (part - 1) * n;
      if (isinf(behind)) continue;
      for (size_t i = runs->starts[to]; i < runs->starts[to + 1]; i++) {
        double *least = &before[runs->items[i].from], sum = behind + runs->items[i].time;
        *least = sum < *least ? sum : *least;
      }
    }
  }
  return rest;
}

/* Upper bound of the best partition whose runs take at most `most`; INFINITY if there is none. */
static double takes_within(const Search *s, double most) {
  Search trial = *s;
  trial.arena = arena_new();
  double sum = rests_of(&trial, runs_within(&trial, most))[0];
  arena_free(trial.arena);
  return sum + (s->p->repeat - 1) * most;
}

static double slowest_run(const Partition *p) {
  double most = 0;
  for (int i = 0; i < kinds_of(p) * p->n * p->n; i++)
    if (!isinf(p->time[i])) most = fmax(most, p->time[i]);
  return most;
}

/* Upper bound of the best partition.  Tries limits of the slowest run: a bisection for the smallest feasible one, then
 * some between that one and the limit above which no partition can be better. */
static double some_partition(Search *s) {
  enum { STEPS = 12 };
  double high = slowest_run(s->p), low = fmin(high, s->p->least / s->parts), best = takes_within(s, high);
  for (int i = 0; i < STEPS; i++) {
    double middle = (low + high) / 2, takes = takes_within(s, middle);
    best = fmin(best, takes);
    if (isinf(takes)) s->floor = low = middle;
    else high = middle;
  }
  double most = s->p->repeat > 1 && !isinf(best) ? (best - s->p->least) / (s->p->repeat - 1) : low;
  for (int i = 1; i <= STEPS && most > low; i++)
    best = fmin(best, takes_within(s, low + (most - low) * i / (STEPS + 1)));
  return best;
}

/* Adds a state unless another beats it in sum and slowest run; removes the states that it beats. */
static void add_state(const Search *s, States *l, State x) {
  size_t kept = 0;
  for (size_t i = 0; i < l->n; i++)
    if (l->items[i].sum <= x.sum && l->items[i].slowest <= x.slowest) return;
  for (size_t i = 0; i < l->n; i++)
    if (!(x.sum <= l->items[i].sum && x.slowest <= l->items[i].slowest)) l->items[kept++] = l->items[i];
  l->n = kept;
  ARENA_PUSH(s->arena, l, x);
}

/* Lower bound of all partitions that continue a state; `rest`: least sum of the `runs` remaining runs. */
static double takes_at_least(const Search *s, const State *x, double rest, int runs) {
  double slowest = x->slowest > s->floor ? x->slowest : s->floor, mean = runs ? rest / runs : 0;
  return x->sum + rest + (s->p->repeat - 1) * (slowest > mean ? slowest : mean);
}

/* Lists all states that may lead to a partition within `best`. */
static States *states_within(const Search *s, const Runs *by_kind, double best) {
  int n = s->p->n;
  const double *rest = rests_of(s, by_kind);
  States *states = ARENA_ARRAY(s->arena, States, (s->parts + 1) * n);
  add_state(s, &states[0], (State){0, 0, -1, -1});
  for (int part = 1; part <= s->parts; part++) {
    const Runs *runs = runs_at(s, by_kind, part - 1);
    for (int to = 1; to < n; to++)
      for (size_t k = runs->starts[to]; k < runs->starts[to + 1] && !isinf(rest[part * n + to]); k++) {
        const Run *run = &runs->items[k];
        const States *before = &states[(part - 1) * n + run->from];
        for (size_t i = 0; i < before->n; i++) {
          State x = {before->items[i].sum + run->time, fmax(before->items[i].slowest, run->time), run->from, (int)i};
          if (takes_at_least(s, &x, rest[part * n + to], s->parts - part) <= best)
            add_state(s, &states[part * n + to], x);
        }
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
  Search s = {.arena = arena_new(), .p = p, .parts = parts};
  Runs *all = ARENA_ARRAY(s.arena, Runs, kinds_of(p));
  for (int k = 0; k < kinds_of(p); k++) all[k] = runs_of(s.arena, p, k);
  s.all = all;
  double best = some_partition(&s) * (1 + 1e-9); /* allows for another order of sums */
  *needed = isinf(best) || p->repeat <= 1 ? INFINITY : (best - p->least) / (p->repeat - 1);
  const Runs *runs = runs_within(&s, fmin(p->most, *needed));
  bool found = !isinf(best) && trace(&s, states_within(&s, runs, best), cuts);
  arena_free(s.arena);
  return found;
}
