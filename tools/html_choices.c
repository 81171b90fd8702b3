/* tools/html_choices.c - see html_page.h.
 *
 * The list has the plan, its alternatives and the plans of --compare, and those that the search set aside: faster ones
 * that need more memory than there is, and slower ones.
 */
#include <math.h>
#include <string.h>

#include "base/json_text.h"
#include "tools/html_page.h"
#include "tools/plan_report.h"

/* The options that force the choice. */
static const char *flags_of(const HtmlPage *p, const PlanAlternative *x) {
  Text text = {.arena = p->arena};
  for (int i = 0; i < DEGREE_COUNT; i++) {
    const Degree d = degrees_listed[i];
    text_printf(&text, "--%s %d ", degree_names[d], x->degree[d]);
  }
  text_printf(&text, "--micro-batches %d", x->micro_batches);
  if (!p->b->plan->price.memory.trains) return text_str(&text);
  text_printf(&text, " --zero %d", x->zero);
  if (x->degree[DEGREE_pp] > 1) text_printf(&text, " --schedule %s", x->schedule);
  if (!strchr(x->recompute, ' ')) text_printf(&text, " --recompute %s", x->recompute);
  return text_str(&text);
}

static double seconds_of(const PlanTime *t, int k) {
  Share shares[TIME_SHARES];
  tool_time_shares(t, shares);
  return shares[k].value;
}

/* The class of time of which the alternative has the most more than the plan; NULL if it has no more of any. */
static const char *where_slower(const Plan *p, const Plan *x) {
  Share shares[TIME_SHARES];
  tool_time_shares(&p->price.time, shares);
  const char *name = NULL;
  double most = 0;
  for (int k = 0; k < TIME_SHARES; k++) {
    const double more = seconds_of(&x->price.time, k) - shares[k].value;
    if (more > most) most = more, name = shares[k].name;
  }
  return name;
}

/* Says why the plan was preferred. */
static const char *why_not(const HtmlPage *p, const PlanAlternative *x) {
  Arena *a = p->arena;
  const Plan *plan = p->b->plan;
  const double limit = plan_memory_limit(p->b->options.target, p->b->options.plan.memory_limit),
               seconds = plan->price.time.total;
  if (!isfinite(x->seconds)) return x->why_not ? x->why_not : "not possible";
  const char *slower = arena_printf(a, "%.3g %% slower", 100 * (x->seconds / seconds - 1));
  if (x->bytes > limit)
    return arena_printf(a, "needs %s per rank, %s more than there is", show_bytes(a, x->bytes),
                        show_bytes(a, x->bytes - limit));
  if (x->seconds < seconds) return arena_printf(a, "%.3g %% faster, but not chosen", 100 * (1 - x->seconds / seconds));
  if (x->seconds < seconds * 1.0005) return "as fast";
  const char *where = x->plan ? where_slower(plan, x->plan) : NULL;
  return where ? arena_printf(a, "%s: more %s", slower, where) : slower;
}

static json_t *shares_json(const Share *shares, int n) {
  json_t *list = json_array();
  for (int i = 0; i < n; i++) json_array_append_new(list, json_pack("[s, f]", shares[i].name, shares[i].value));
  return list;
}

static json_t *choice_json(const HtmlPage *p, const PlanAlternative *x, const Plan *of, const char *why) {
  const bool possible = isfinite(x->seconds);
  json_t *o = json_pack("{s:o, s:o, s:o, s:o, s:o, s:s}", "text",
                        html_text(p, x->named && !possible ? x->named : tool_choice_text(p->arena, p->b->plan, x)),
                        "flags", html_text(p, flags_of(p, x)), "seconds", tool_json_real(x->seconds), "bytes",
                        possible ? tool_json_real(x->bytes) : json_null(), "why", html_text(p, why), "recompute",
                        x->recompute ? x->recompute : "none");
  if (x->named) json_object_set_new(o, "compared", json_true());
  if (!of || !possible) return o;
  Share time[TIME_SHARES], memory[MEMORY_SHARES];
  tool_time_shares(&of->price.time, time);
  json_object_set_new(o, "time", shares_json(time, TIME_SHARES));
  json_object_set_new(o, "memory", shares_json(memory, tool_memory_shares(plan_memory(of), memory)));
  return o;
}

static bool is_listed(const HtmlPage *p, const json_t *list, const PlanAlternative *x) {
  const char *text = tool_choice_text(p->arena, p->b->plan, x);
  size_t i;
  json_t *other;
  json_array_foreach(list, i,
                     other) if (strcmp(json_string_value(json_object_get(other, "text")), text) == 0) return true;
  return false;
}

static void add_beside(const HtmlPage *p, json_t *list, int n, Plan *const *plans) {
  enum { LISTED = 8 };
  for (int i = 0; i < n && i < LISTED; i++) {
    const PlanAlternative x = plan_as_alternative(p->arena, plans[i]);
    if (!is_listed(p, list, &x)) json_array_append_new(list, choice_json(p, &x, plans[i], why_not(p, &x)));
  }
}

json_t *html_choices(const HtmlPage *p) {
  const Plan *plan = p->b->plan;
  const PlanAlternative own = plan_as_alternative(p->arena, plan);
  json_t *list = json_array();
  json_array_append_new(list, choice_json(p, &own, plan, "chosen"));
  for (int i = 0; i < plan->nalternatives; i++) {
    const PlanAlternative *x = &plan->alternatives[i];
    json_array_append_new(list, choice_json(p, x, x->plan, why_not(p, x)));
  }
  add_beside(p, list, plan->nnear, plan->near);
  add_beside(p, list, plan->nspare, plan->spare);
  return list;
}
