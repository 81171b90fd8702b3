/* tools/html_time.c - see html_page.h.
 *
 * The timeline is that of ir/schedule.h with the stages' predicted seconds.  Without a schedule (inference), a stage
 * takes each micro-batch as soon as it is free and the stage before has finished.  Work that is done once, such as the
 * update of the weights, follows at the end.
 *
 * A pipeline may have a hundred thousand calls in few patterns.  So the calls of a place are written as [repeats, call,
 * call, ...]; a call is phase + 3 * stage and, if the place waits before it, [that, time units].  A micro-batch's
 * number follows from the order: they ascend in every phase of a stage.
 */
#include <math.h>

#include "tools/html_page.h"

enum { UNITS = 1000000, LONGEST_PATTERN = 512 };

/* A call of a place, and how long the place waits before it. */
typedef struct Step {
  int call;
  long wait;
} Step;

typedef struct Timeline {
  const HtmlPage *p;
  const Mesh *mesh;
  double unit, seconds; /* of a time unit; of all calls */
} Timeline;

static bool same_step(const Step *x, const Step *y) { return x->call == y->call && x->wait == y->wait; }

/* Returns how often the first `length` of n steps are repeated. */
static size_t repeats_of(const Step *steps, size_t n, size_t length) {
  size_t same = length;
  while (same < n && same_step(&steps[same], &steps[same - length])) same++;
  return same / length;
}

static json_t *pattern_json(const Step *steps, size_t length, size_t repeats) {
  json_t *list = json_array();
  json_array_append_new(list, json_integer((json_int_t)repeats));
  for (size_t i = 0; i < length; i++)
    json_array_append_new(list, steps[i].wait ? json_pack("[i, I]", steps[i].call, (json_int_t)steps[i].wait)
                                              : json_integer(steps[i].call));
  return list;
}

/* Writes the steps as repeated patterns: at each step the one that covers the most, if it is worth it. */
static json_t *steps_json(const Step *steps, size_t n) {
  json_t *list = json_array();
  for (size_t i = 0, alone = 0; i <= n;) {
    size_t length = 1, covered = 0;
    for (size_t k = 1; k <= LONGEST_PATTERN && 2 * k <= n - i; k++) {
      const size_t all = k * repeats_of(steps + i, n - i, k);
      if (all >= 2 * k && all > covered + k) length = k, covered = all;
    }
    if (i < n && covered < 3) {
      i++;
      continue;
    }
    if (i > alone) json_array_append_new(list, pattern_json(steps + alone, i - alone, 1));
    if (i < n) json_array_append_new(list, pattern_json(steps + i, length, covered / length));
    alone = i + covered, i = i < n ? i + covered : n + 1;
  }
  return list;
}

static Step step_of(const Timeline *x, int stage, Phase phase, double wait) {
  return (Step){(int)(phase - PH_fwd) + 3 * stage, lround(wait / x->unit)};
}

/* ---- with a schedule */

static json_t *place_of_table(const Timeline *x, const ScheduleTable *t, int place) {
  Step *steps = ARENA_ARRAY(x->p->arena, Step, t->per_place + 1);
  double end = 0;
  for (size_t i = 0; i < t->per_place; i++) {
    const ScheduleCall *c = &t->calls[(size_t)place * t->per_place + i];
    steps[i] = step_of(x, c->stage, c->phase, fmax(0, c->start - end));
    end = c->end;
  }
  return steps_json(steps, t->per_place);
}

static json_t *scheduled(Timeline *x) {
  const ScheduleTable t = schedule_table(x->p->arena, x->mesh, x->p->ledger->work);
  json_t *list = json_array();
  x->seconds = t.seconds, x->unit = t.seconds / UNITS;
  for (int k = 0; k < t.places; k++) json_array_append_new(list, place_of_table(x, &t, k));
  return list;
}

/* ---- one micro-batch after another */

/* Seconds of a stage's calls for one micro-batch.  Without a table the forward pass, which is all of inference, has
 * what the stage waits for its host. */
static ScheduleWork work_of(const Timeline *x, int stage) {
  const StageCost *s = &x->p->ledger->sums[stage];
  ScheduleWork w = x->p->ledger->tabled ? x->p->ledger->work[stage] : s->phases;
  if (!x->p->ledger->tabled) w.fwd = s->each - s->phases.bwd - s->phases.wgt;
  if (!schedule_weights_apart(x->mesh->schedule)) w.bwd += w.wgt, w.wgt = 0;
  return w;
}

/* Adds the calls of a micro-batch on a stage; returns how many there are. */
static int add_calls(const Timeline *x, int stage, double wait, Step *out) {
  const ScheduleWork w = work_of(x, stage);
  int n = 0;
  out[n++] = step_of(x, stage, PH_fwd, wait);
  if (w.bwd > 0) out[n++] = step_of(x, stage, PH_bwd, 0);
  if (w.wgt > 0) out[n++] = step_of(x, stage, PH_wgt, 0);
  return n;
}

static json_t *in_order(Timeline *x) {
  const int n = mesh_micro_batches(x->mesh), stages = x->mesh->stages;
  Arena *a = x->p->arena;
  double *before = ARENA_ARRAY(a, double, n), slowest = 0;
  json_t *list = json_array();
  for (int s = 0; s < stages; s++) {
    const double each = x->p->ledger->sums[s].each;
    x->seconds += each, slowest = fmax(slowest, each);
  }
  x->seconds += (n - 1) * slowest, x->unit = x->seconds / UNITS;
  for (int s = 0; s < stages; s++) {
    Step *steps = ARENA_ARRAY(a, Step, 3 * n);
    size_t made = 0;
    double end = 0;
    for (int i = 0; i < n; i++) {
      const double start = fmax(end, before[i]);
      made += (size_t)add_calls(x, s, start - end, steps + made);
      before[i] = end = start + x->p->ledger->sums[s].each;
    }
    json_array_append_new(list, steps_json(steps, made));
  }
  return list;
}

/* ---- the document */

/* By stage: seconds of a call of each phase, of its messages and of its collectives. */
static json_t *calls_json(const Timeline *x) {
  const PlanLedger *l = x->p->ledger;
  json_t *list = json_array();
  for (int s = 0; s < x->mesh->stages; s++) {
    double sends[3] = {0}, collectives[3] = {0}, bytes[3] = {0};
    for (size_t i = 0; i < l->entries.n; i++) {
      const LedgerEntry *e = &l->entries.items[i];
      if (e->stage != s || e->phase < PH_fwd || e->phase > PH_wgt || e->kind < LEDGER_collective) continue;
      const int k = (int)(schedule_body(x->mesh, true, e->phase) - PH_fwd);
      (e->kind == LEDGER_send ? sends : collectives)[k] += e->seconds;
      if (e->kind == LEDGER_send) bytes[k] += e->bytes;
    }
    const ScheduleWork w = work_of(x, s);
    json_array_append_new(
        list, json_pack("[[f, f, f], [f, f, f], [f, f, f], [f, f, f]]", w.fwd, w.bwd, w.wgt, sends[0], sends[1],
                        sends[2], collectives[0], collectives[1], collectives[2], bytes[0], bytes[1], bytes[2]));
  }
  return list;
}

static json_t *once_json(const Timeline *x) {
  json_t *list = json_array();
  for (int k = 0; k < mesh_places(x->mesh); k++) {
    double once = 0;
    for (int s = 0; s < x->mesh->stages; s++)
      if (mesh_place_of(x->mesh, s) == k) once += x->p->ledger->sums[s].once;
    json_array_append_new(list, json_real(once));
  }
  return list;
}

json_t *html_timeline(const HtmlPage *p) {
  if (!p->ledger) return json_null();
  Timeline x = {.p = p, .mesh = &p->b->plan->mesh};
  json_t *places = p->ledger->tabled ? scheduled(&x) : in_order(&x);
  return json_pack("{s:f, s:f, s:b, s:i, s:o, s:o, s:o}", "unit", x.unit, "seconds", x.seconds, "apart",
                   schedule_weights_apart(x.mesh->schedule), "micro_batches", mesh_micro_batches(x.mesh), "calls",
                   calls_json(&x), "once", once_json(&x), "places", places);
}
