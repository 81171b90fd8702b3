/* tools/plan_entries.c - see plan_entries.h. */
#include "tools/plan_entries.h"

#include <math.h>
#include <string.h>

#include "base/json_text.h"
#include "ir/joint.h"
#include "passes/plan/entries.h"
#include "tools/build.h"
#include "tools/option_values.h"

/* ---- --optimize */

static bool bad_weights(Tool *t, const char *text, const char *why) {
  return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                    "--optimize takes ENTRY=WEIGHT,... as in prefill=1,decode=100, with weights from 0; '%s' %s", text,
                    why);
}

static bool read_calls(Tool *t, const char *text, const DriverCalls *before, size_t n, DriverCalls *out) {
  const double most = 1e18;
  const char *number;
  if (!split_binding(t->arena, text, strcspn(text, ","), &out->entry, &number)) return bad_weights(t, text, "has none");
  if (!tool_parse_real(number, &out->times) || out->times > most)
    return bad_weights(t, text, arena_printf(t->arena, "has '%s'", number));
  for (size_t i = 0; i < n; i++)
    if (strcmp(before[i].entry, out->entry) == 0) return bad_weights(t, out->entry, "is given twice");
  return true;
}

/* An entry with weight 0 is planned along; but not all weights may be 0. */
static bool all_zero(const DriverCalls *calls, size_t n) {
  bool any = n == 0;
  for (size_t i = 0; i < n; i++) any |= calls[i].times > 0;
  return !any;
}

bool tool_calls(Tool *t, const DriverCalls **out, int *count) {
  struct {
    DriverCalls *items;
    size_t n, cap;
  } list = {0};
  size_t at = 0;
  for (const OptionUse *u; (u = option_next(&t->options, OPT_optimize, &at));)
    for (const char *p = u->value; p;) {
      DriverCalls x;
      if (!read_calls(t, p, list.items, list.n, &x)) return false;
      ARENA_PUSH(t->arena, &list, x);
      p = strchr(p, ',');
      p = p ? p + 1 : NULL;
    }
  if (list.n && option_given(&t->options, OPT_train))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                      "--optimize cannot be combined with --train, which builds a single step");
  if (all_zero(list.items, list.n)) return bad_weights(t, option_text(&t->options, OPT_optimize), "has only zeros");
  *out = list.items, *count = (int)list.n;
  return true;
}

/* ---- the plan's entries */

/* Returns "prefill=1,decode=100": the first entry runs once, the others once per token after a prompt. */
static const char *example_of(const Tool *t, const Build *b) {
  Text text = {.arena = t->arena};
  for (int e = 0; e < b->nentries; e++)
    text_printf(&text, "%s%s=%d", e ? "," : "", b->l1s[e]->name, e && b->model.m->states.n ? 100 : 1);
  return text_str(&text);
}

/* Alone: of the first entry, which is planned, or of another one, which takes over its choices. */
double tool_entry_seconds(const Build *b, int entry) {
  Module *m = b->model.m;
  const Plan *p = b->plan;
  const Target *t = b->options.target;
  if (b->l1->joint) return plan_entries(m, b->l1, t, p)[entry].price.time.total;
  return entry ? plan_carried_seconds(m, b->l1, t, p, b->l1s[entry]) : p->price.time.total;
}

/* Prints "planned for prefill alone, with which decode takes 12.6 ms; --optimize ... plans both". */
static void show_alone(const Tool *t, const Build *b) {
  Text others = {.arena = t->arena};
  for (int e = 1; e < b->nentries; e++) {
    const double seconds = tool_entry_seconds(b, e);
    if (isfinite(seconds))
      text_printf(&others, "%s %s takes %s", others.n ? "," : ", with which", b->l1s[e]->name,
                  show_seconds(t->arena, seconds));
  }
  printf("  planned for %s alone%s; --optimize %s plans %s\n", b->l1->name, text_str(&others), example_of(t, b),
         b->nentries == 2 ? "both" : "all");
}

bool tool_has_entries(const Build *b) { return b->l1->joint || (b->nentries > 1 && !b->options.model.train); }

void tool_entries_show(const Tool *t, const Build *b) {
  if (!tool_has_entries(b)) return;
  if (!b->l1->joint) {
    show_alone(t, b);
    return;
  }
  const Plan *p = b->plan;
  const PlanEntry *entries = plan_entries(b->model.m, b->l1, b->options.target, p);
  for (int e = 0; e < b->nentries; e++) {
    const PlanEntry *x = &entries[e];
    const char *text =
        arena_printf(t->arena, "%s x %g: %s", x->name, x->calls, tool_degrees_text(t->arena, x->degree, 1));
    printf("  %-8s %-28s %10s\n", e ? "" : "entries", text, show_seconds(t->arena, x->price.time.total));
  }
  if (p->micro_batches > 1) printf("  entries have one number of micro-batches: %d\n", p->micro_batches);
}

static json_t *entry_json(const char *name, double weight, double seconds) {
  return json_pack("{s:o, s:f, s:o}", "name", json_text(name), "weight", weight, "time_us",
                   tool_json_real(seconds * 1e6));
}

json_t *tool_entries_json(const Build *b) {
  json_t *list = json_array();
  const PlanEntry *entries = b->l1->joint ? plan_entries(b->model.m, b->l1, b->options.target, b->plan) : NULL;
  for (int e = 0; e < b->nentries; e++) {
    const PlanEntry *x = entries ? &entries[e] : NULL;
    json_t *o = x ? entry_json(x->name, x->calls, x->price.time.total)
                  : entry_json(b->l1s[e]->name, e == 0, tool_entry_seconds(b, e));
    for (int d = 0; x && d < DEGREE_COUNT; d++)
      json_object_set_new(o, degree_names[degrees_listed[d]], json_integer(x->degree[degrees_listed[d]]));
    json_array_append_new(list, o);
  }
  return list;
}
