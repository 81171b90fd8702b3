/* tools/html_hardware.c - see html_page.h.
 *
 * Prices the plan as it is for targets on which one figure is better: the changes that --what-if takes.  There is no
 * search, so a line is an upper limit for the best plan of that target.  The size of the memory is not listed, since it
 * does not change the time of a plan.
 */
#include <math.h>
#include <string.h>

#include "base/json_text.h"
#include "driver/compare.h"
#include "tools/html_page.h"

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
