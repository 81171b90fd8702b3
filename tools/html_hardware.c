/* tools/html_hardware.c - see html_page.h.
 *
 * Prices the plan as it is for targets on which one figure is better: the changes that --what-if takes.  There is no
 * search, so a line is an upper limit for the best plan of that target.  The size of the memory is not listed, since it
 * does not change the time of a plan.  The same plan is also priced for twice the batch.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json_text.h"
#include "driver/batch.h"
#include "driver/compare.h"
#include "tools/html_page.h"
#include "tools/plan_goal.h"
#include "tools/plan_run.h"

enum { MOST_LINKS = 3 };

static double seconds_on(const HtmlPage *p, const Target *g) {
  CostModel *c = cost_model_for(p->cost, g);
  const Plan *plan = p->b->plan;
  const PlanPrice price = cost_plan(c, p->b->model.m, p->b->l1, p->rules, plan->strategies, plan->stages);
  cost_model_free(c);
  return price.time.total;
}

static void add_line(const HtmlPage *p, json_t *list, const char *figure, double factor, const char *text) {
  const char *what = arena_printf(p->arena, "%s*%g", figure, factor);
  const Target *g =
      driver_target_if(p->arena, p->b->options.target, &(WhatIf){what, figure, factor}, diags_new(p->arena));
  if (!g) return;
  const double seconds = seconds_on(p, g), own = p->b->plan->price.time.total;
  json_array_append_new(
      list, json_pack("{s:o, s:o, s:o, s:o}", "what", html_text(p, what), "text", html_text(p, text), "seconds",
                      tool_json_real(seconds), "saves", tool_json_real(1 - seconds / own)));
}

static bool is_repeated(const Target *g, int tier) {
  for (int i = 0; i < tier; i++)
    if (strcmp(g->tiers[i].name, g->tiers[tier].name) == 0) return true;
  return false;
}

/* Returns "1.52 s a step, 119 k tokens/s: 1.94 times the throughput". */
static const char *batch_text(const HtmlPage *p, const BatchPrice *x, double rate, double more, const char *unit) {
  return arena_printf(p->arena, "%s a %s, %s %s/s: %.2f times the throughput", show_seconds(p->arena, x->seconds),
                      p->b->plan->price.memory.trains ? "step" : "batch", show_scaled(p->arena, rate, ""), unit, more);
}

json_t *html_batch(const HtmlPage *p) {
  enum { TIMES = 2 };
  Arena *a = p->arena;
  const Plan *plan = p->b->plan;
  const char *unit;
  BatchPrice x;
  if (!driver_batch_price(p->b, TIMES, &x)) return json_null();
  const double limit = plan_memory_limit(p->b->options.target, p->b->options.plan.memory_limit),
               own = tool_seen_in_step(p->b, &unit) / tool_step_seconds(p->b),
               more = x.why_not ? 0 : TIMES * plan->price.time.total / x.seconds;
  const char *memory = NULL;
  if (!x.why_not)
    memory = arena_printf(a, "%s on the largest rank, %s%s", show_bytes(a, x.bytes),
                          x.fits ? "of " : "which does not fit: a rank has ", show_bytes(a, limit));
  return json_pack("{s:o, s:I, s:I, s:o, s:s?, s:s?, s:o, s:b}", "text",
                   html_text(p, arena_printf(a, "batch of %" PRId64 " instead of %" PRId64, x.larger, x.batch)),
                   "batch", (json_int_t)x.batch, "larger", (json_int_t)x.larger, "seconds",
                   x.why_not ? json_null() : tool_json_real(x.seconds), "why",
                   x.why_not ? x.why_not : batch_text(p, &x, own * more, more, unit), "memory", memory, "bytes",
                   x.why_not ? json_null() : tool_json_real(x.bytes), "fits", x.fits && !x.why_not);
}

json_t *html_hardware(const HtmlPage *p) {
  const Target *g = p->b->options.target;
  json_t *list = json_array();
  add_line(p, list, "compute", 2, "arithmetic twice as fast");
  add_line(p, list, "bandwidth", 2, "memory twice as fast");
  add_line(p, list, "launch", 0.5, "kernels start in half the time");
  for (int i = 0, links = 0; i < g->ntiers && links < MOST_LINKS; i++)
    if (!is_repeated(g, i))
      links++, add_line(p, list, g->tiers[i].name, 2, arena_printf(p->arena, "%s twice as fast", g->tiers[i].name));
  return list;
}
