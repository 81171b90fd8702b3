/* ir/schedule.c - see schedule.h. */
#include "ir/schedule.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

static const struct {
  const char *name;
  bool weights_apart;
} schedules[] = {
#define SCHEDULE(name, weights_apart, doc) {#name, weights_apart},
#include "ir/schedule.def"
#undef SCHEDULE
};

const char *schedule_name(PipelineSchedule s) { return schedules[s].name; }
bool schedule_weights_apart(PipelineSchedule s) { return schedules[s].weights_apart; }

PipelineSchedule schedule_find(const char *name, size_t n) {
  int s = 0;
  while (s < SCHEDULE_COUNT && (strlen(schedules[s].name) != n || memcmp(schedules[s].name, name, n) != 0)) s++;
  return (PipelineSchedule)s;
}

/* ---- orders */

typedef struct Orders {
  ScheduleTable *t;
  int stages, micro_batches;
  size_t *n; /* by stage: calls so far */
} Orders;

static void add(Orders *o, int stage, Phase phase, int micro_batch) {
  o->t->calls[(size_t)stage * o->t->per_stage + o->n[stage]++] =
      (ScheduleCall){.phase = phase, .stage = stage, .micro_batch = micro_batch};
}

static void order_gpipe(Orders *o, int stage) {
  for (int i = 0; i < o->micro_batches; i++) add(o, stage, PH_fwd, i);
  for (int i = 0; i < o->micro_batches; i++) add(o, stage, PH_bwd, i);
}

/* As many forwards as stages follow, then one of each in turns.  Gradients of weights, where they are apart, stay as
 * many micro-batches behind as stages come before: these wait longer for the first backward, and have the room. */
static void order_in_turns(Orders *o, int stage, bool apart) {
  int m = o->micro_batches, first = o->stages - 1 - stage < m ? o->stages - 1 - stage : m, weights = 0;
  for (int i = 0; i < first; i++) add(o, stage, PH_fwd, i);
  for (int i = 0; i < m; i++) {
    if (first + i < m) add(o, stage, PH_fwd, first + i);
    add(o, stage, PH_bwd, i);
    if (apart && (i - weights >= stage || first + i + 1 >= m)) add(o, stage, PH_wgt, weights++);
  }
  while (apart && weights < m) add(o, stage, PH_wgt, weights++);
}

int schedule_most_live(PipelineSchedule s, int stages, int stage, int micro_batches) {
  int most = s == SCHEDULE_gpipe ? micro_batches : schedule_weights_apart(s) ? stages : stages - stage;
  return most < micro_batches ? most : micro_batches;
}

/* ---- times */

/* When what a call needs is there; INFINITY: not known yet. */
static double ready(const ScheduleTable *t, const ScheduleCall *c, int stages, double message, double *const ends[]) {
  size_t m = t->per_stage, at = (size_t)c->micro_batch;
  size_t own = (size_t)c->stage * m + at;
  switch (c->phase) {
    case PH_fwd: return c->stage ? ends[PH_fwd][own - m] + message : 0;
    case PH_bwd: {
      double next = c->stage + 1 < stages ? ends[PH_bwd][own + m] + message : 0;
      return fmax(ends[PH_fwd][own], next);
    }
    default: return ends[PH_bwd][own];
  }
}

static double seconds_of(const ScheduleWork *w, Phase p, bool apart) {
  return p == PH_fwd ? w->fwd : p == PH_wgt ? w->wgt : apart ? w->bwd : w->bwd + w->wgt;
}

/* Stage after stage goes as far as it can, until all are at their ends. */
static void find_times(ScheduleTable *t, Arena *a, int stages, const ScheduleWork *work, bool apart, double message) {
  double *ends[PH_END] = {NULL}, *now = ARENA_ARRAY(a, double, stages);
  size_t *at = ARENA_ARRAY(a, size_t, stages);
  for (int p = PH_fwd; p <= PH_wgt; p++) {
    ends[p] = ARENA_ARRAY(a, double, (size_t)stages * t->per_stage);
    for (size_t i = 0; i < (size_t)stages * t->per_stage; i++) ends[p][i] = INFINITY;
  }
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < stages; s++)
      for (; at[s] < t->per_stage; at[s]++) {
        ScheduleCall *c = &t->calls[(size_t)s * t->per_stage + at[s]];
        double from = ready(t, c, stages, message, ends);
        if (from == INFINITY) break;
        c->start = fmax(now[s], from);
        c->end = now[s] = c->start + seconds_of(&work[s], c->phase, apart);
        ends[c->phase][(size_t)s * t->per_stage + (size_t)c->micro_batch] = c->end;
        t->seconds = fmax(t->seconds, c->end);
        moved = true;
      }
  }
  for (int s = 0; s < stages; s++)
    if (at[s] < t->per_stage) die("the schedule of stage %d waits for ever", s);
}

static int most_live(const ScheduleTable *t, int stage, Phase last) {
  int live = 0, most = 0;
  for (size_t i = 0; i < t->per_stage; i++) {
    Phase p = t->calls[(size_t)stage * t->per_stage + i].phase;
    live += p == PH_fwd;
    most = live > most ? live : most;
    live -= p == last;
  }
  return most;
}

ScheduleTable schedule_table(Arena *a, PipelineSchedule s, int stages, int micro_batches, const ScheduleWork *work,
                             double message) {
  bool apart = schedule_weights_apart(s);
  ScheduleTable t = {.per_stage = (size_t)micro_batches * (apart ? 3 : 2), .most_live = ARENA_ARRAY(a, int, stages)};
  t.calls = ARENA_ARRAY(a, ScheduleCall, (size_t)stages * t.per_stage);
  Orders o = {&t, stages, micro_batches, ARENA_ARRAY(a, size_t, stages)};
  for (int i = 0; i < stages; i++) {
    if (s == SCHEDULE_gpipe) order_gpipe(&o, i);
    else order_in_turns(&o, i, apart);
    t.most_live[i] = most_live(&t, i, apart ? PH_wgt : PH_bwd);
  }
  find_times(&t, a, stages, work, apart, message);
  return t;
}

static int by_time(const void *x, const void *y) {
  const ScheduleRow *a = x, *b = y;
  if (a->time != b->time) return a->time < b->time ? -1 : 1;
  if (a->computes != b->computes) return a->computes - b->computes;
  if (a->order != b->order) return a->order - b->order;
  return a->micro_batch < b->micro_batch ? -1 : a->micro_batch > b->micro_batch;
}

void schedule_sort(ScheduleRow *rows, size_t n) { qsort(rows, n, sizeof *rows, by_time); }

const ScheduleCall *schedule_call(const ScheduleTable *t, int stage, Phase phase, int micro_batch) {
  for (size_t i = 0; i < t->per_stage; i++) {
    const ScheduleCall *c = &t->calls[(size_t)stage * t->per_stage + i];
    if (c->phase == phase && c->micro_batch == micro_batch) return c;
  }
  die("stage %d has no call of phase %s and micro-batch %d", stage, phase_name(phase), micro_batch);
}
