/* Schedules of pipelines (ir/schedule.h): idle time and memory as in published tables, ascending micro-batches, and
 * that the lists of all stages, with any times, finish when messages wait for each other. */
#include <math.h>

#include "base/random.h"
#include "ir/schedule.h"
#include "tests/test.h"

enum { MOST_STAGES = 8, MOST_CHUNKS = 4, MOST_MICRO = 40, TABLES = 3000 };

static double idle(const ScheduleTable *t, int place) {
  double busy = 0;
  for (size_t i = 0; i < t->per_place; i++) {
    const ScheduleCall *c = &t->calls[(size_t)place * t->per_place + i];
    busy += c->end - c->start;
  }
  return t->seconds - busy;
}

static Mesh mesh_of(PipelineSchedule s, int places, int chunks, int m) {
  Mesh mesh = {.stages = places * (chunks > 1 ? chunks : 1), .schedule = s, .chunks = chunks, .naxes = 1};
  mesh.axes[0] = (MeshAxis){.name = "mb", .size = m, .temporal = true};
  return mesh;
}

static int chunks_of(PipelineSchedule s, int chunks) {
  return s == SCHEDULE_interleaved ? chunks : s == SCHEDULE_zbv ? 2 : 0;
}

static ScheduleTable table_of(Arena *a, const Mesh *mesh, ScheduleWork w) {
  ScheduleWork work[MOST_STAGES * MOST_CHUNKS];
  for (int s = 0; s < mesh->stages; s++) work[s] = w;
  return schedule_table(a, mesh, work);
}

/* With as many micro-batches as places, or more; in whole groups for `interleaved`.  `w` is of a stage. */
static double want_idle(PipelineSchedule s, int places, ScheduleWork w) {
  double all = (places - 1) * (w.fwd + w.bwd + w.wgt);
  if (s == SCHEDULE_zbh1) return (places - 1) * (w.fwd + w.bwd - w.wgt);
  return s == SCHEDULE_zbv ? (places - 1) * w.fwd : all; /* of a place: a half, or one of so many parts */
}

static void check_idle(Arena *a, int places, int m, ScheduleWork w) {
  for (int k = 0; k < SCHEDULE_COUNT; k++)
    for (int chunks = 2; chunks <= (k == SCHEDULE_interleaved ? MOST_CHUNKS : 2); chunks++) {
      PipelineSchedule s = (PipelineSchedule)k;
      Mesh mesh = mesh_of(s, places, chunks_of(s, chunks), m);
      ScheduleTable t = table_of(a, &mesh, w);
      double most = 0, want = want_idle(s, places, w);
      bool bound = s == SCHEDULE_zbv, any = (s == SCHEDULE_interleaved && m % places) || (bound && w.bwd != w.fwd);
      for (int p = 0; p < places; p++) most = fmax(most, idle(&t, p));
      CHECKF(any || (bound ? most <= want + 1e-9 : fabs(most - want) < 1e-9),
             "%s, %d places, %d micro-batches: %g idle, not %g", schedule_text(a, s, chunks), places, m, most, want);
    }
}

/* The micro-batches that a place keeps, of its stages together. */
static int kept(const ScheduleTable *t, int place) {
  bool apart =
      t->per_place % 3 == 0 && t->per_place * (size_t)t->places == 3 * (size_t)t->stages * (size_t)t->micro_batches;
  int live = 0, most = 0;
  for (size_t i = 0; i < t->per_place; i++) {
    const ScheduleCall *c = &t->calls[(size_t)place * t->per_place + i];
    live += c->phase == PH_fwd;
    most = live > most ? live : most;
    live -= c->phase == (apart ? PH_wgt : PH_bwd);
  }
  return most;
}

/* 1f1b keeps as many micro-batches as stages follow and its own, zbh1 on all as many as there are stages; interleaved
 * one more than it begins with; zbv halves of as many as there are places. */
static void check_kept(Arena *a, int places, int m) {
  for (int k = 0; k < SCHEDULE_COUNT; k++)
    for (int p = 0; p < places; p++) {
      PipelineSchedule s = (PipelineSchedule)k;
      const int chunks = 2;
      Mesh mesh = mesh_of(s, places, chunks_of(s, chunks), m);
      ScheduleTable t = table_of(a, &mesh, (ScheduleWork){1, 1, 1});
      int want[] = {[SCHEDULE_1f1b] = places - p,
                    [SCHEDULE_gpipe] = m,
                    [SCHEDULE_zbh1] = places,
                    [SCHEDULE_interleaved] = 2 * (places - p - 1) + (chunks - 1) * places + 1,
                    [SCHEDULE_zbv] = 2 * places};
      int all = m * (mesh.chunks > 1 ? mesh.chunks : 1), most = want[k] < all ? want[k] : all, have = kept(&t, p);
      bool any = s == SCHEDULE_interleaved && m % places; /* a group that is not full may begin with more */
      CHECKF(any || (s == SCHEDULE_zbv ? have <= most : have == most),
             "%s, place %d of %d, %d micro-batches: %d kept, not %d", schedule_text(a, s, chunks), p, places, m, have,
             most);
    }
}

/* ---- lists */

/* Parts of a place: per stage its calls by phase, then its ends of messages. */
enum { FORWARD, BACKWARD, WEIGHTS, FROM_BEFORE, TO_NEXT, FROM_NEXT, TO_BEFORE, PARTS };

typedef struct List {
  ScheduleRow rows[PARTS * MOST_MICRO * MOST_CHUNKS];
  size_t n, at;
} List;

typedef struct Lists {
  List of[MOST_STAGES]; /* by place */
  Mesh mesh;
  int done[MOST_STAGES * MOST_CHUNKS][PARTS]; /* by stage: micro-batches */
} Lists;

static bool is_local(const Mesh *m, int stage, int other) { return mesh_place_of(m, stage) == mesh_place_of(m, other); }

static void add_row(Lists *x, int stage, double time, bool computes, int order, int mb, int part) {
  List *l = &x->of[mesh_place_of(&x->mesh, stage)];
  l->rows[l->n++] = (ScheduleRow){time, computes, order, mb, stage * PARTS + part};
}

static void add_message(Lists *x, const ScheduleTable *t, int from, int to, Phase p, int mb) {
  double time = schedule_call(t, from, p, mb)->end;
  int order = 2 * from + (p == PH_bwd);
  if (is_local(&x->mesh, from, to)) return;
  add_row(x, from, time, false, order, mb, p == PH_fwd ? TO_NEXT : TO_BEFORE);
  add_row(x, to, time, false, order, mb, p == PH_fwd ? FROM_BEFORE : FROM_NEXT);
}

static void make_lists(Lists *x, const ScheduleTable *t) {
  for (int p = 0; p < t->places; p++) x->of[p].n = x->of[p].at = 0;
  memset(x->done, 0, sizeof x->done);
  for (size_t i = 0; i < t->per_place * (size_t)t->places; i++) {
    const ScheduleCall *c = &t->calls[i];
    add_row(x, c->stage, c->start, true, 0, c->micro_batch, c->phase - PH_fwd);
  }
  for (int s = 0; s + 1 < t->stages; s++)
    for (int mb = 0; mb < t->micro_batches; mb++) {
      add_message(x, t, s, s + 1, PH_fwd, mb);
      add_message(x, t, s + 1, s, PH_bwd, mb);
    }
  for (int p = 0; p < t->places; p++) schedule_sort(x->of[p].rows, x->of[p].n);
}

/* True if the inputs of a call of a stage are there. */
static bool has_all(const Lists *x, int stage, int part, int mb) {
  const int *done = x->done[stage];
  int next = stage + 1, before = stage - 1;
  if (part == WEIGHTS) return done[BACKWARD] > mb;
  if (part == FORWARD)
    return stage == 0 || (is_local(&x->mesh, stage, before) ? x->done[before][FORWARD] : done[FROM_BEFORE]) > mb;
  bool last = next == x->mesh.stages;
  return done[FORWARD] > mb &&
         (last || (is_local(&x->mesh, stage, next) ? x->done[next][BACKWARD] : done[FROM_NEXT]) > mb);
}

/* One row: a call whose inputs are there, or a message whose other end is reached. */
static bool step(Lists *x, int place) {
  static const int ends[PARTS] = {
      [FROM_BEFORE] = TO_NEXT, [TO_NEXT] = FROM_BEFORE, [FROM_NEXT] = TO_BEFORE, [TO_BEFORE] = FROM_NEXT};
  List *l = &x->of[place];
  const ScheduleRow *r = &l->rows[l->at];
  if (l->at == l->n) return false;
  int stage = r->part / PARTS, part = r->part % PARTS;
  if (r->computes) {
    CHECK(has_all(x, stage, part, r->micro_batch) && r->micro_batch == x->done[stage][part]);
    x->done[stage][part]++;
    return l->at++, true;
  }
  int other = part == TO_NEXT || part == FROM_NEXT ? stage + 1 : stage - 1;
  List *o = &x->of[mesh_place_of(&x->mesh, other)];
  const ScheduleRow *q = &o->rows[o->at];
  bool meets =
      o->at < o->n && !q->computes && q->part == other * PARTS + ends[part] && q->micro_batch == r->micro_batch;
  if (!meets) return false;
  int from = part == TO_NEXT || part == TO_BEFORE ? stage : other;
  CHECK(x->done[from][part == TO_NEXT || part == FROM_BEFORE ? FORWARD : BACKWARD] > r->micro_batch); /* computed */
  x->done[stage][part]++, x->done[other][ends[part]]++;
  return l->at++, o->at++, true;
}

static void run_lists(Lists *x, const char *what) {
  int places = mesh_places(&x->mesh);
  for (bool moved = true; moved;) {
    moved = false;
    for (int p = 0; p < places; p++)
      while (step(x, p)) moved = true;
  }
  for (int p = 0; p < places; p++)
    CHECKF(x->of[p].at == x->of[p].n, "%s: place %d stops at row %zu of %zu", what, p, x->of[p].at, x->of[p].n);
}

static void check_lists(uint64_t seed) {
  static Lists lists;
  Arena *a = arena_new();
  uint64_t at = 0;
#define DRAW(n) ((int)random_below(seed, 0, at++, (uint64_t)(n)))
  int places = 2 + DRAW(MOST_STAGES - 1), m = 1 + DRAW(MOST_MICRO);
  PipelineSchedule s = (PipelineSchedule)DRAW(SCHEDULE_COUNT);
  lists.mesh = mesh_of(s, places, chunks_of(s, 2 + DRAW(MOST_CHUNKS - 1)), m);
  ScheduleWork work[MOST_STAGES * MOST_CHUNKS];
  for (int i = 0; i < lists.mesh.stages; i++) {
    work[i].fwd = 1 + DRAW(5);
    work[i].bwd = 1e-3 * (1 + DRAW(9000));
    work[i].wgt = 1 + DRAW(3);
  }
#undef DRAW
  ScheduleTable t = schedule_table(a, &lists.mesh, work);
  make_lists(&lists, &t);
  run_lists(&lists, arena_printf(a, "seed %llu: %s, %d places, %d micro-batches", (unsigned long long)seed,
                                 schedule_text(a, s, lists.mesh.chunks), places, m));
  arena_free(a);
}

static void published(void) {
  Arena *a = arena_new();
  for (int stages = 1; stages <= MOST_STAGES; stages++)
    for (int m = 1; m <= 4 * stages + 1 && m <= MOST_MICRO; m++) {
      if (m >= stages) check_idle(a, stages, m, (ScheduleWork){1, 1, 1});
      if (m >= stages) check_idle(a, stages, m, (ScheduleWork){1, 2, 1});
      check_kept(a, stages, m);
    }
  arena_free(a);
}

static void random_times(void) {
  for (uint64_t seed = 0; seed < TABLES; seed++) check_lists(seed);
}

static void names(void) {
  Arena *a = arena_new();
  PipelineSchedule s;
  int chunks;
  for (int k = 0; k < SCHEDULE_COUNT; k++) {
    const char *name = schedule_text(a, (PipelineSchedule)k, 3);
    CHECK(schedule_parse(name, strlen(name), &s, &chunks) && (int)s == k);
    CHECK(chunks == chunks_of(s, 3));
  }
  static const char *const bad[] = {"1f1",           "1f1bb",         "1f1b:2",          "interleaved",
                                    "interleaved:1", "interleaved:x", "interleaved:100", "zbv:2"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) CHECK(!schedule_parse(bad[i], strlen(bad[i]), &s, &chunks));
  arena_free(a);
}

int main(void) {
  RUN(published);
  RUN(random_times);
  RUN(names);
  return test_summary();
}
