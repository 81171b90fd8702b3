/* ir/schedule.c - see schedule.h.
 *
 * Orders are known lists, except for zbv.  There every place repeatedly makes the call that it can begin first, with as
 * many micro-batches in flight as fit into the memory of 1f1b's first stage.  Ties are broken by preferences; the order
 * that ends first is used.  Of all preferences, these give the published idle time for 2 to 8 places with equal times
 * (unit.schedules).
 */
#include "ir/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

static const struct {
  const char *name;
  int chunks;
  bool weights_apart;
  double idle;
} schedules[] = {
#define SCHEDULE(name, chunks, weights_apart, idle, doc) {#name, chunks, weights_apart, idle},
#include "ir/schedule.def"
#undef SCHEDULE
};

enum { MOST_CHUNKS = 64 };

bool schedule_weights_apart(PipelineSchedule s) { return schedules[s].weights_apart; }

double schedule_idle(PipelineSchedule s, int places, int chunks) {
  return (places - 1) * schedules[s].idle / (schedules[s].chunks ? 1 : chunks);
}

const char *schedule_text(Arena *a, PipelineSchedule s, int chunks) {
  return schedules[s].chunks ? schedules[s].name : arena_printf(a, "%s:%d", schedules[s].name, chunks);
}

bool schedule_parse(const char *text, size_t n, PipelineSchedule *s, int *chunks) {
  for (int k = 0; k < SCHEDULE_COUNT; k++) {
    size_t name = strlen(schedules[k].name);
    if (n < name || memcmp(text, schedules[k].name, name) != 0) continue;
    *s = (PipelineSchedule)k, *chunks = schedules[k].chunks > 1 ? schedules[k].chunks : 0;
    if (schedules[k].chunks && n == name) return true;
    if (schedules[k].chunks || n < name + 2 || n > name + 3 || text[name] != ':') continue;
    for (size_t i = name + 1; i < n; i++) {
      if (text[i] < '0' || text[i] > '9') return false;
      *chunks = 10 * *chunks + text[i] - '0';
    }
    return *chunks >= 2 && *chunks <= MOST_CHUNKS;
  }
  return false;
}

int mesh_places(const Mesh *mesh) { return mesh->chunks > 1 ? mesh->stages / mesh->chunks : mesh->stages; }

int mesh_place_of(const Mesh *mesh, int stage) {
  int places = mesh_places(mesh);
  if (mesh->schedule == SCHEDULE_zbv && mesh->chunks > 1) return stage < places ? stage : mesh->stages - 1 - stage;
  return stage % places;
}

bool schedule_in_turns(const Mesh *mesh, const Func *f) {
  return mesh->stages > 1 && mesh_micro_batches(mesh) > 1 && func_has_gradients(f);
}

Phase schedule_body(const Mesh *mesh, bool in_turns, Phase p) {
  if (!phase_each(p)) return p;
  if (!in_turns) return PH_fwd;
  return p == PH_wgt && !schedule_weights_apart(mesh->schedule) ? PH_bwd : p;
}

/* ---- orders */

typedef struct Orders {
  ScheduleTable *t;
  const Mesh *mesh;
  size_t *n; /* by place: calls so far */
} Orders;

static size_t number(const ScheduleTable *t, int stage, Phase phase, int micro_batch) {
  return ((size_t)(phase - PH_fwd) * (size_t)t->stages + (size_t)stage) * (size_t)t->micro_batches +
         (size_t)micro_batch;
}

static void add(Orders *o, int stage, Phase phase, int micro_batch) {
  ScheduleTable *t = o->t;
  int place = mesh_place_of(o->mesh, stage);
  size_t at = (size_t)place * t->per_place + o->n[place]++;
  t->calls[at] = (ScheduleCall){.phase = phase, .stage = stage, .micro_batch = micro_batch};
  t->at[number(t, stage, phase, micro_batch)] = at;
}

static int least(int x, int y) { return x < y ? x : y; }

static void order_gpipe(Orders *o, int place) {
  for (int i = 0; i < o->t->micro_batches; i++) add(o, place, PH_fwd, i);
  for (int i = 0; i < o->t->micro_batches; i++) add(o, place, PH_bwd, i);
}

/* 1f1b: as many forwards as stages follow, then alternately one of each.  If gradients of weights are separate, they
 * lag by as many micro-batches as stages precede: those stages wait longer for the first backward, and have the
 * memory. */
static void order_in_turns(Orders *o, int place, bool apart) {
  int m = o->t->micro_batches, first = least(o->t->places - 1 - place, m), weights = 0;
  for (int i = 0; i < first; i++) add(o, place, PH_fwd, i);
  for (int i = 0; i < m; i++) {
    if (first + i < m) add(o, place, PH_fwd, first + i);
    add(o, place, PH_bwd, i);
    if (apart && (i - weights >= place || first + i + 1 >= m)) add(o, place, PH_wgt, weights++);
  }
  while (apart && weights < m) add(o, place, PH_wgt, weights++);
}

/* Adds call number i of a phase: groups of as many micro-batches as places pass through the chunks in turn. */
static void add_interleaved(Orders *o, int place, Phase phase, int i) {
  int p = o->t->places, v = o->mesh->chunks, m = o->t->micro_batches, begin = i / (p * v) * p, n = least(p, m - begin);
  int chunk = (i - begin * v) / n, micro_batch = begin + (i - begin * v) % n;
  if (phase == PH_bwd) chunk = v - 1 - chunk;
  add(o, chunk * p + place, phase, micro_batch);
}

/* more: extra forwards before the first backward, needed if the last group is not full. */
static void order_interleaved(Orders *o, int place, int more) {
  int p = o->t->places, v = o->mesh->chunks, all = o->t->micro_batches * v;
  int first = least(2 * (p - place - 1) + (v - 1) * p + more, all);
  for (int i = 0; i < first; i++) add_interleaved(o, place, PH_fwd, i);
  for (int i = 0; i < all; i++) {
    if (first + i < all) add_interleaved(o, place, PH_fwd, first + i);
    add_interleaved(o, place, PH_bwd, i);
  }
}

/* ---- times */

static double seconds_of(const ScheduleWork *w, Phase p, bool apart) {
  return p == PH_fwd ? w->fwd : p == PH_wgt ? w->wgt : apart ? w->bwd : w->bwd + w->wgt;
}

static double end_of(const ScheduleTable *t, int stage, Phase phase, int micro_batch) {
  size_t at = t->at[number(t, stage, phase, micro_batch)];
  return at == SIZE_MAX ? INFINITY : t->calls[at].end;
}

/* Time at which a call's inputs are available; INFINITY if not known yet. */
static double ready(const ScheduleTable *t, int stage, Phase phase, int mb) {
  double own;
  switch (phase) {
    case PH_fwd: return stage ? end_of(t, stage - 1, PH_fwd, mb) : 0;
    case PH_bwd:
      own = end_of(t, stage, PH_fwd, mb);
      return stage + 1 < t->stages ? fmax(own, end_of(t, stage + 1, PH_bwd, mb)) : own;
    default: return end_of(t, stage, PH_bwd, mb);
  }
}

/* Advances each place as far as possible; false if some calls never become ready. */
static bool find_times(ScheduleTable *t, Arena *a, const ScheduleWork *work, bool apart) {
  double *now = ARENA_ARRAY(a, double, t->places);
  size_t *at = ARENA_ARRAY(a, size_t, t->places);
  for (size_t i = 0; i < (size_t)t->places * t->per_place; i++) t->calls[i].end = INFINITY;
  for (bool moved = true; moved;) {
    moved = false;
    for (int p = 0; p < t->places; p++)
      for (; at[p] < t->per_place; at[p]++) {
        ScheduleCall *c = &t->calls[(size_t)p * t->per_place + at[p]];
        double from = ready(t, c->stage, c->phase, c->micro_batch);
        if (from == INFINITY) break;
        c->start = fmax(now[p], from);
        c->end = now[p] = c->start + seconds_of(&work[c->stage], c->phase, apart);
        t->seconds = fmax(t->seconds, c->end);
        moved = true;
      }
  }
  for (int p = 0; p < t->places; p++)
    if (at[p] < t->per_place) return false;
  return true;
}

/* ---- zbv: the call that can begin first */

/* Ranks of forward, backward and gradients of weights, for a place's first and second stage. */
enum { PREFERENCES = 8 };
static const int preferences[PREFERENCES][3][2] = {
    {{3, 0}, {4, 1}, {2, 5}}, {{4, 0}, {2, 1}, {5, 3}}, {{4, 3}, {0, 1}, {2, 5}}, {{3, 0}, {2, 4}, {5, 1}},
    {{5, 4}, {2, 1}, {3, 0}}, {{2, 0}, {3, 4}, {5, 1}}, {{3, 1}, {0, 4}, {5, 2}}, {{2, 1}, {4, 3}, {0, 5}}};

typedef struct Greedy {
  Orders *o;
  const int (*rank)[2];
  const ScheduleWork *work;
  double *now;         /* by place */
  double *left;        /* by place: seconds of its remaining calls */
  int (*done)[PH_END]; /* by stage and phase: number of micro-batches */
} Greedy;

typedef struct Choice {
  double start;
  int rank; /* among calls that begin at the same time: the lowest is chosen */
  int stage;
  Phase phase;
} Choice;

/* Number of micro-batches in flight on a place, over both its stages. */
static int under_way(const Greedy *g, int place) {
  int other = g->o->mesh->stages - 1 - place;
  return g->done[place][PH_fwd] - g->done[place][PH_wgt] + g->done[other][PH_fwd] - g->done[other][PH_wgt];
}

static void consider(const Greedy *g, int place, int stage, Phase phase, Choice *best) {
  const ScheduleTable *t = g->o->t;
  bool second = stage >= t->places;
  /* a first stage leaves room for one micro-batch of the second */
  int mb = g->done[stage][phase], room = second ? 2 * t->places : 2 * t->places - 1;
  if (mb == t->micro_batches || (phase == PH_fwd && under_way(g, place) >= room)) return;
  double from = ready(t, stage, phase, mb);
  if (from == INFINITY) return;
  Choice c = {fmax(g->now[place], from), g->rank[phase - PH_fwd][second], stage, phase};
  if (c.start < best->start || (c.start == best->start && c.rank < best->rank)) *best = c;
}

/* Returns the call that a place can begin first. */
static Choice first_of(const Greedy *g, int place) {
  Choice best = {.start = INFINITY};
  for (int k = PH_fwd; k <= PH_wgt; k++) {
    consider(g, place, place, (Phase)k, &best);
    consider(g, place, g->o->t->stages - 1 - place, (Phase)k, &best);
  }
  return best;
}

static Choice first_of_all(const ScheduleTable *t, const Choice *of_place) {
  Choice best = {.start = INFINITY};
  for (int p = 0; p < t->places; p++) {
    const Choice *c = &of_place[p];
    if (c->start < best.start || (c->start == best.start && c->rank < best.rank)) best = *c;
  }
  return best;
}

static void make_call(const Greedy *g, const Choice *x) {
  Orders *o = g->o;
  ScheduleTable *t = o->t;
  int place = mesh_place_of(o->mesh, x->stage), mb = g->done[x->stage][x->phase]++;
  double seconds = seconds_of(&g->work[x->stage], x->phase, true);
  add(o, x->stage, x->phase, mb);
  ScheduleCall *c = &t->calls[t->at[number(t, x->stage, x->phase, mb)]];
  c->start = x->start;
  c->end = g->now[place] = c->start + seconds;
  g->left[place] -= seconds;
  t->seconds = fmax(t->seconds, c->end);
}

/* Builds the order by one preference.  A call only affects its own place and those of the neighbouring stages.  False
 * once the table is known to take longer than `most`. */
static bool order_greedily(Orders *o, Arena *a, const ScheduleWork *work, int preference, double most) {
  ScheduleTable *t = o->t;
  Greedy g = {o,
              preferences[preference],
              work,
              ARENA_ARRAY(a, double, t->places),
              ARENA_ARRAY(a, double, t->places),
              arena_alloc(a, sizeof *g.done * (size_t)t->stages)};
  Choice *first = ARENA_ARRAY(a, Choice, t->places);
  memset(g.done, 0, sizeof *g.done * (size_t)t->stages);
  for (int s = 0; s < t->stages; s++)
    g.left[mesh_place_of(o->mesh, s)] += t->micro_batches * (work[s].fwd + work[s].bwd + work[s].wgt);
  for (int p = 0; p < t->places; p++) first[p] = first_of(&g, p);
  for (size_t n = 0; n < (size_t)t->places * t->per_place; n++) {
    Choice best = first_of_all(t, first);
    if (best.start == INFINITY) die("zbv: no call can be begun");
    make_call(&g, &best);
    int place = mesh_place_of(o->mesh, best.stage);
    if (g.now[place] + g.left[place] > most) return false;
    for (int s = best.stage - 1; s <= best.stage + 1; s++)
      if (s >= 0 && s < t->stages) place = mesh_place_of(o->mesh, s), first[place] = first_of(&g, place);
  }
  return true;
}

/* ---- tables */

static void begin_orders(Orders *o) {
  ScheduleTable *t = o->t;
  t->seconds = 0;
  memset(o->n, 0, sizeof *o->n * (size_t)t->places);
  memset(t->at, 0xff, sizeof *t->at * 3 * (size_t)t->stages * (size_t)t->micro_batches);
}

static void order_all(Orders *o, int more) {
  PipelineSchedule s = o->mesh->schedule;
  begin_orders(o);
  for (int p = 0; p < o->t->places; p++) {
    if (s == SCHEDULE_gpipe) order_gpipe(o, p);
    else if (o->mesh->chunks > 1) order_interleaved(o, p, more);
    else order_in_turns(o, p, schedule_weights_apart(s));
  }
}

/* Tries the preferences and keeps the best; for long tables only the first one. */
static void order_best(Orders *o, Arena *a, const ScheduleWork *work) {
  const double most = 3e6;
  double looked_at = (double)o->t->per_place * o->t->places * o->t->places, seconds = INFINITY;
  bool made = false; /* the last order is the best */
  int tries = looked_at > most ? 1 : PREFERENCES, best = 0;
  for (int i = 0; i < tries; i++) {
    begin_orders(o);
    made = order_greedily(o, a, work, i, seconds * (1 + 1e-9)) && o->t->seconds < seconds;
    if (made) seconds = o->t->seconds, best = i;
  }
  if (made) return;
  begin_orders(o);
  order_greedily(o, a, work, best, INFINITY);
}

static const ScheduleWork *equal_work(Arena *a, int stages) {
  ScheduleWork *work = ARENA_ARRAY(a, ScheduleWork, stages);
  for (int s = 0; s < stages; s++) work[s] = (ScheduleWork){1, 1, 1};
  return work;
}

ScheduleTable schedule_table(Arena *a, const Mesh *mesh, const ScheduleWork *work) {
  if (!work) work = equal_work(a, mesh->stages);
  bool apart = schedule_weights_apart(mesh->schedule);
  ScheduleTable t = {.places = mesh_places(mesh), .stages = mesh->stages, .micro_batches = mesh_micro_batches(mesh)};
  size_t all = (size_t)t.stages * (size_t)t.micro_batches * (apart ? 3 : 2);
  t.per_place = all / (size_t)t.places;
  t.calls = ARENA_ARRAY(a, ScheduleCall, all);
  t.at = ARENA_ARRAY(a, size_t, 3 * (size_t)t.stages * (size_t)t.micro_batches);
  Orders o = {&t, mesh, ARENA_ARRAY(a, size_t, t.places)};
  if (mesh->schedule == SCHEDULE_zbv && mesh->chunks > 1) {
    order_best(&o, a, work);
    return t;
  }
  int more = 0, most = t.micro_batches * t.stages;
  do order_all(&o, more), more = 2 * more + 1;
  while (!find_times(&t, a, work, apart) && more < 2 * most);
  if (more > 2 * most) die("the schedule %s waits for ever", schedules[mesh->schedule].name);
  return t;
}

const ScheduleCall *schedule_call(const ScheduleTable *t, int stage, Phase phase, int micro_batch) {
  return &t->calls[t->at[number(t, stage, phase, micro_batch)]];
}

ScheduleLive schedule_most_live(const ScheduleTable *t, int stage) {
  ScheduleLive most = {0};
  int begun[SCHEDULE_PHASES] = {0}, over[SCHEDULE_PHASES] = {0};
  size_t begin = t->at[number(t, stage, PH_fwd, 0)] / t->per_place * t->per_place;
  for (size_t i = begin; i < begin + t->per_place; i++) {
    const ScheduleCall *c = &t->calls[i];
    if (c->stage != stage) continue;
    int now = c->phase - PH_fwd;
    begun[now]++;
    for (int to = now; to < SCHEDULE_PHASES; to++) {
      int *of = &most.of[now][to], live = begun[now] - over[to];
      *of = live > *of ? live : *of;
    }
    over[now]++;
  }
  return most;
}

/* ---- lists */

static int by_time(const void *x, const void *y) {
  const ScheduleRow *a = x, *b = y;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  if (a->computes != b->computes) return a->computes - b->computes;
  if (a->order != b->order) return a->order - b->order;
  return a->micro_batch < b->micro_batch ? -1 : a->micro_batch > b->micro_batch;
}

void schedule_sort(ScheduleRow *rows, size_t n) { qsort(rows, n, sizeof *rows, by_time); }
