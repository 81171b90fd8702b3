/* Schedules of pipelines (ir/schedule.h): what published tables say of idle time and memory, that micro-batches ascend,
 * and that the lists of all stages, made with any times, come to their end when messages wait for each other. */
#include <math.h>

#include "base/random.h"
#include "ir/schedule.h"
#include "tests/test.h"

enum { MOST_STAGES = 8, MOST_MICRO = 40, TABLES = 3000 };

static double idle(const ScheduleTable *t, int stage) {
  double busy = 0;
  for (size_t i = 0; i < t->per_stage; i++) {
    const ScheduleCall *c = &t->calls[(size_t)stage * t->per_stage + i];
    busy += c->end - c->start;
  }
  return t->seconds - busy;
}

/* With as many micro-batches as stages, or more. */
static void check_idle(Arena *a, int stages, int m, ScheduleWork w) {
  ScheduleWork work[MOST_STAGES];
  for (int s = 0; s < stages; s++) work[s] = w;
  for (int k = 0; k < SCHEDULE_COUNT; k++) {
    ScheduleTable t = schedule_table(a, (PipelineSchedule)k, stages, m, work, 0);
    double all = (stages - 1) * (w.fwd + w.bwd + w.wgt), most = 0;
    double want = k == SCHEDULE_zbh1 ? (stages - 1) * (w.fwd + w.bwd - w.wgt) : all;
    for (int s = 0; s < stages; s++) most = fmax(most, idle(&t, s));
    CHECKF(fabs(most - want) < 1e-9, "%s, %d stages, %d micro-batches: %g idle, not %g",
           schedule_name((PipelineSchedule)k), stages, m, most, want);
  }
}

/* 1f1b keeps as many micro-batches as stages follow and its own, zbh1 on all as many as there are stages. */
static void check_live(Arena *a, int stages, int m) {
  ScheduleWork work[MOST_STAGES];
  for (int s = 0; s < stages; s++) work[s] = (ScheduleWork){1, 1, 1};
  for (int k = 0; k < SCHEDULE_COUNT; k++) {
    ScheduleTable t = schedule_table(a, (PipelineSchedule)k, stages, m, work, 0);
    for (int s = 0; s < stages; s++) {
      int want = k == SCHEDULE_gpipe ? m : k == SCHEDULE_zbh1 ? stages : stages - s;
      if (want > m) want = m;
      CHECKF(t.most_live[s] == want && schedule_most_live((PipelineSchedule)k, stages, s, m) == want,
             "%s, stage %d of %d, %d micro-batches: %d live, not %d", schedule_name((PipelineSchedule)k), s, stages, m,
             t.most_live[s], want);
    }
  }
}

/* ---- lists */

enum { COMPUTES = 3, FROM_BEFORE = 3, TO_NEXT, FROM_NEXT, TO_BEFORE }; /* parts: calls by phase, then messages */

typedef struct List {
  ScheduleRow rows[3 * MOST_MICRO + 4 * MOST_MICRO];
  size_t n, at;
  int next[COMPUTES]; /* micro-batch */
  int received[2];    /* from before, from next */
} List;

static void add_message(List *l, const ScheduleTable *t, int from, Phase p, int mb, int part) {
  const ScheduleCall *made = schedule_call(t, from, p, mb);
  l->rows[l->n++] = (ScheduleRow){made->end, false, p == PH_fwd ? 1 : 2, mb, part};
}

static void make_lists(List *lists, const ScheduleTable *t, int stages, int m) {
  for (int s = 0; s < stages; s++) {
    List *l = &lists[s];
    *l = (List){.n = 0};
    for (size_t i = 0; i < t->per_stage; i++) {
      const ScheduleCall *c = &t->calls[(size_t)s * t->per_stage + i];
      l->rows[l->n++] = (ScheduleRow){c->start, true, 0, c->micro_batch, c->phase - PH_fwd};
    }
    for (int mb = 0; mb < m; mb++) {
      if (s > 0) add_message(l, t, s - 1, PH_fwd, mb, FROM_BEFORE);
      if (s > 0) add_message(l, t, s, PH_bwd, mb, TO_BEFORE);
      if (s + 1 < stages) add_message(l, t, s, PH_fwd, mb, TO_NEXT);
      if (s + 1 < stages) add_message(l, t, s + 1, PH_bwd, mb, FROM_NEXT);
    }
    schedule_sort(l->rows, l->n);
  }
}

/* One row: a call that has what it needs, or a message whose other end is come to. */
static bool step(List *lists, int s, int stages) {
  List *l = &lists[s];
  const ScheduleRow *r = &l->rows[l->at];
  if (l->at == l->n) return false;
  if (r->computes) {
    CHECK(r->micro_batch == l->next[r->part]++);
    if (r->part == 0 && s > 0) CHECK(l->received[0] > r->micro_batch);
    if (r->part == 1 && s + 1 < stages) CHECK(l->received[1] > r->micro_batch);
    if (r->part > 0) CHECK(l->next[r->part - 1] > r->micro_batch);
    return l->at++, true;
  }
  int other = r->part == TO_NEXT || r->part == FROM_NEXT ? s + 1 : s - 1;
  static const int ends[] = {
      [FROM_BEFORE] = TO_NEXT, [TO_NEXT] = FROM_BEFORE, [FROM_NEXT] = TO_BEFORE, [TO_BEFORE] = FROM_NEXT};
  List *o = &lists[other];
  const ScheduleRow *q = &o->rows[o->at];
  if (o->at == o->n || q->computes || q->part != ends[r->part] || q->micro_batch != r->micro_batch) return false;
  bool sends = r->part == TO_NEXT || r->part == TO_BEFORE;
  List *to = sends ? o : l;
  const List *from = sends ? l : o;
  int phase = r->part == TO_NEXT || r->part == FROM_BEFORE ? 0 : 1;
  CHECK(from->next[phase] > r->micro_batch); /* it was made */
  to->received[phase]++;
  return l->at++, o->at++, true;
}

static void run_lists(List *lists, int stages, const char *what) {
  for (bool moved = true; moved;) {
    moved = false;
    for (int s = 0; s < stages; s++)
      while (step(lists, s, stages)) moved = true;
  }
  for (int s = 0; s < stages; s++)
    CHECKF(lists[s].at == lists[s].n, "%s: stage %d stops at row %zu of %zu", what, s, lists[s].at, lists[s].n);
}

static void check_lists(uint64_t seed) {
  static List lists[MOST_STAGES];
  Arena *a = arena_new();
  uint64_t at = 0;
#define DRAW(n) ((int)random_below(seed, 0, at++, (uint64_t)(n)))
  int stages = 2 + DRAW(MOST_STAGES - 1), m = 1 + DRAW(MOST_MICRO);
  PipelineSchedule k = (PipelineSchedule)DRAW(SCHEDULE_COUNT);
  ScheduleWork work[MOST_STAGES];
  for (int s = 0; s < stages; s++) work[s] = (ScheduleWork){1 + DRAW(5), 1e-3 * (1 + DRAW(9000)), 1 + DRAW(3)};
  ScheduleTable t = schedule_table(a, k, stages, m, work, 0.25 * DRAW(3));
#undef DRAW
  make_lists(lists, &t, stages, m);
  run_lists(lists, stages,
            arena_printf(a, "seed %llu: %s, %d stages, %d micro-batches", (unsigned long long)seed, schedule_name(k),
                         stages, m));
  arena_free(a);
}

static void published(void) {
  Arena *a = arena_new();
  for (int stages = 1; stages <= MOST_STAGES; stages++)
    for (int m = 1; m <= 4 * stages + 1 && m <= MOST_MICRO; m++) {
      if (m >= stages) check_idle(a, stages, m, (ScheduleWork){1, 1, 1});
      if (m >= stages) check_idle(a, stages, m, (ScheduleWork){1, 2, 1});
      check_live(a, stages, m);
    }
  arena_free(a);
}

static void random_times(void) {
  for (uint64_t seed = 0; seed < TABLES; seed++) check_lists(seed);
}

static void names(void) {
  for (int k = 0; k < SCHEDULE_COUNT; k++) {
    const char *name = schedule_name((PipelineSchedule)k);
    CHECK((int)schedule_find(name, strlen(name)) == k);
  }
  CHECK(schedule_find("1f1", 3) == SCHEDULE_COUNT && schedule_find("1f1bb", 5) == SCHEDULE_COUNT);
}

int main(void) {
  RUN(published);
  RUN(random_times);
  RUN(names);
  return test_summary();
}
