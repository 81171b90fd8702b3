/* tools/html_memory.c - see html_page.h.
 *
 * Time is that of the operations of the stage: of one micro-batch, then of what is done once.  There are at most MOST
 * points, each the one with the most memory of its stretch of time, so that the peak is among them.
 */
#include <math.h>
#include <string.h>

#include "tools/html_page.h"

enum { MOST = 240, LARGEST = 4 };

typedef struct Memory {
  const HtmlPage *p;
  const PlanLedger *l;
  double *end; /* by operation: seconds until it has run */
  json_t *names, *number;
} Memory;

static double sum_of(const double *bytes) {
  double sum = 0;
  for (int k = 0; k < HELD_CLASSES; k++) sum += bytes[k];
  return sum;
}

/* Fills end[] with the time at which each operation of the stage has run. */
static void find_times(Memory *x) {
  const size_t n = x->p->b->l1->ops.n;
  x->end = ARENA_ARRAY(x->p->arena, double, n + 2);
  for (size_t i = 0; i < x->l->entries.n; i++) {
    const LedgerEntry *e = &x->l->entries.items[i];
    if (e->stage == x->l->stage) x->end[e->now] += e->seconds;
  }
  for (size_t i = 1; i < n + 2; i++) x->end[i] += x->end[i - 1];
}

static int name_number(Memory *x, size_t op) {
  const char *name = text_shown(x->p->arena, x->p->b->l1->ops.items[op].name);
  json_t *known = json_object_get(x->number, text_utf8(x->p->arena, name));
  if (known) return (int)json_integer_value(known);
  const int n = (int)json_array_size(x->names);
  json_object_set_new(x->number, text_utf8(x->p->arena, name), json_integer(n));
  json_array_append_new(x->names, html_text(x->p, name));
  return n;
}

/* The largest values that are held at an operation, apart from those held throughout. */
static json_t *largest_json(Memory *x, size_t op) {
  const LedgerHeld *best[LARGEST] = {NULL};
  for (size_t i = 0; i < x->l->held.n; i++) {
    const LedgerHeld *h = &x->l->held.items[i];
    if (h->kept || h->born > op || h->dies < op) continue;
    for (int k = 0; k < LARGEST; k++) {
      if (best[k] && best[k]->bytes >= h->bytes) continue;
      memmove(&best[k + 1], &best[k], sizeof *best * (size_t)(LARGEST - 1 - k));
      best[k] = h;
      break;
    }
  }
  json_t *list = json_array();
  for (int k = 0; k < LARGEST && best[k]; k++)
    json_array_append_new(list, json_pack("[i, f]", name_number(x, best[k]->op), best[k]->bytes));
  return list;
}

static json_t *point_json(Memory *x, const LedgerPoint *point) {
  json_t *list = json_pack("[f]", point->op ? x->end[point->op - 1] : 0.0);
  for (int k = 0; k < HELD_CLASSES; k++) json_array_append_new(list, json_real(point->bytes[k]));
  json_array_append_new(list, largest_json(x, point->op));
  return list;
}

static json_t *points_json(Memory *x) {
  const double whole = x->end[x->p->b->l1->ops.n + 1];
  const size_t n = x->l->points.n;
  const LedgerPoint *points = x->l->points.items;
  json_t *list = json_array();
  for (size_t i = 0; i < n;) {
    const double begin = points[i].op ? x->end[points[i].op - 1] : 0;
    size_t largest = i, k = i + 1;
    for (; k < n && n > MOST && x->end[points[k].op - 1] < begin + whole / MOST; k++)
      if (sum_of(points[k].bytes) > sum_of(points[largest].bytes)) largest = k;
    json_array_append_new(list, point_json(x, &points[largest]));
    i = k;
  }
  return list;
}

/* The values held throughout, the largest first; those after the first twelve are left out. */
static json_t *kept_json(Memory *x) {
  enum { LISTED = 12 };
  bool *listed = ARENA_ARRAY(x->p->arena, bool, x->l->held.n + 1);
  json_t *list = json_array();
  for (int n = 0; n < LISTED; n++) {
    const LedgerHeld *best = NULL;
    for (size_t i = 0; i < x->l->held.n; i++) {
      const LedgerHeld *h = &x->l->held.items[i];
      if (h->kept && !listed[i] && (!best || h->bytes > best->bytes)) best = h;
    }
    if (!best) break;
    listed[best - x->l->held.items] = true;
    json_array_append_new(
        list, json_pack("[i, f, i, i]", name_number(x, best->op), best->bytes, best->copies, (int)best->class));
  }
  return list;
}

/* When each phase begins for the first time. */
static json_t *phases_json(const Memory *x) {
  enum { PHASES = PH_END - PH_pre };
  double begin[PHASES];
  json_t *list = json_array();
  for (int k = 0; k < PHASES; k++) begin[k] = INFINITY;
  for (size_t i = 0; i < x->l->entries.n; i++) {
    const LedgerEntry *e = &x->l->entries.items[i];
    if (e->stage == x->l->stage && e->seconds > 0)
      begin[e->phase - PH_pre] = fmin(begin[e->phase - PH_pre], e->now ? x->end[e->now - 1] : 0);
  }
  for (int k = 0; k < PHASES; k++) json_array_append_new(list, tool_json_real(begin[k]));
  return list;
}

json_t *html_memory(const HtmlPage *p) {
  if (!p->ledger) return json_null();
  Memory x = {.p = p, .l = p->ledger, .names = json_array(), .number = json_object()};
  const PlanMemory *m = &x.l->memory;
  find_times(&x);
  json_t *classes = json_array(), *points = points_json(&x), *kept = kept_json(&x);
  const char *made = m->trains ? "transient" : "activations";
  const char *const names[HELD_CLASSES] = {made, "communication", "weights gathered", "gradients", "saved"};
  for (int k = 0; k < HELD_CLASSES; k++) json_array_append_new(classes, json_pack("[s, f]", names[k], x.l->kept[k]));
  json_decref(x.number);
  return json_pack("{s:i, s:f, s:f, s:f, s:s, s:f, s:o, s:o, s:o, s:o, s:o}", "stage", x.l->stage, "seconds",
                   x.end[p->b->l1->ops.n + 1], "weights", m->params, "state", m->state, "state_is",
                   m->trains ? "optimizer" : "state", "total", m->total, "classes", classes, "phases", phases_json(&x),
                   "points", points, "kept", kept, "names", x.names);
}
