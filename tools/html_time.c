/* tools/html_time.c - see html_page.h.
 *
 * The timeline has the calls of plan_calls.h.  Work that is done once, such as the update of the weights, follows at
 * the end.
 *
 * A pipeline may have a hundred thousand calls in few patterns.  So the calls of a place are written as [repeats, call,
 * call, ...]; a call is phase + 3 * stage and, if the place waits before it, [that, time units].  A micro-batch's
 * number follows from the order: they ascend in every phase of a stage.
 */
#include <math.h>

#include "tools/html_page.h"
#include "tools/plan_calls.h"

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

/* ---- the calls of a place */

static json_t *place_json(const Timeline *x, const PlaceCalls *p) {
  Step *steps = ARENA_ARRAY(x->p->arena, Step, p->n + 1);
  double end = 0;
  for (size_t i = 0; i < p->n; i++) {
    const ScheduleCall *c = &p->items[i];
    steps[i] = step_of(x, c->stage, c->phase, fmax(0, c->start - end));
    end = c->end;
  }
  return steps_json(steps, p->n);
}

static json_t *places_json(Timeline *x) {
  const PlanCalls c = tool_plan_calls(x->p->arena, x->mesh, x->p->ledger);
  json_t *list = json_array();
  x->seconds = c.seconds, x->unit = c.seconds / UNITS;
  for (int k = 0; k < c.n; k++) json_array_append_new(list, place_json(x, &c.places[k]));
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
    const ScheduleWork w = tool_calls_work(x->mesh, l, s);
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
  json_t *places = places_json(&x);
  return json_pack("{s:f, s:f, s:b, s:i, s:o, s:o, s:o}", "unit", x.unit, "seconds", x.seconds, "apart",
                   schedule_weights_apart(x.mesh->schedule), "micro_batches", mesh_micro_batches(x.mesh), "calls",
                   calls_json(&x), "once", once_json(&x), "places", places);
}
