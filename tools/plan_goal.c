/* tools/plan_goal.c - see plan_goal.h.
 *
 * The figures of a plan follow from the replicas that fit the target, the time from batch to batch of each, and the
 * cost of the devices in that time.
 */
#include "tools/plan_goal.h"

#include <inttypes.h>
#include <math.h>

#include "base/json_text.h"
#include "driver/replicas.h"
#include "tools/plan_report.h"
#include "tools/plan_run.h"

static bool is_throughput(const Build *b) { return b->options.objective == OBJECTIVE_throughput; }

/* ---- figures */

/* Returns the number of replicas that fit the target of the command line. */
static int room_for(const Build *b, const Plan *p) {
  bool one = is_throughput(b) && func_has_gradients(b->l1); /* training steps depend on each other, so there is one
                                                               replica */
  return one ? 1 : b->replicas->whole->ranks / p->on->ranks;
}

int tool_replicas(const Build *b) { return b->replicas && is_throughput(b) ? room_for(b, b->plan) : 1; }

double tool_step_seconds(const Build *b) { return b->replicas ? plan_seconds(b->plan) : b->plan->price.time.total; }

double tool_usd_per_hour(const Build *b) { return target_price(b->options.target)->usd_per_hour * tool_replicas(b); }

/* Returns the throughput per second, or the USD per million. */
static double figure_of(const Build *b, const Plan *p, double each) {
  double seconds = plan_seconds(p);
  return is_throughput(b) ? room_for(b, p) * each / seconds
                          : target_price(p->on)->usd_per_hour * seconds / 3600 / each * 1e6;
}

GoalFigure tool_goal_figure(Arena *a, const Build *b) {
  const char *unit;
  double each = tool_seen_in_step(b, &unit), bound = b->replicas->bound;
  GoalFigure x = {.value = figure_of(b, b->plan, each)};
  x.unit = is_throughput(b) ? arena_printf(a, "%s/s", unit) : arena_printf(a, "USD/M %s", unit);
  /* Rounding must not make the bound better than the plan. */
  x.bound = is_throughput(b) ? fmax(each / bound, x.value) : fmin(bound / each * 1e6, x.value);
  x.gap = is_throughput(b) ? plan_gap(x.bound, x.value) : plan_gap(x.value, x.bound);
  return x;
}

const char *tool_goal_text(Arena *a, const Build *b, double value) {
  if (!is_throughput(b)) return arena_printf(a, "%.3g", value);
  return value < 1e3 ? arena_printf(a, "%.3g", value) : show_count(a, (int64_t)llround(value));
}

/* ---- text */

const char *tool_goal_replicas_text(Arena *a, const Build *b) {
  const int n = tool_replicas(b);
  return n > 1 ? arena_printf(a, ", one of %d replicas", n) : "";
}

const char *tool_goal_choice(Arena *a, const Build *b, const PlanAlternative *x, const Plan *p) {
  const char *text = tool_choice_text(a, b->plan, x);
  const int n = is_throughput(b) ? room_for(b, p) : p->on->ranks;
  return is_throughput(b) ? arena_printf(a, "%d x (%s)", n, text) : arena_printf(a, "%d: %s", n, text);
}

static void show_row(const Tool *t, const Build *b, const char *head, const PlanAlternative *x, const Plan *p) {
  const char *unit;
  double each = tool_seen_in_step(b, &unit);
  printf("  %-8s %-42s %12s %10s  %10s\n", head, tool_goal_choice(t->arena, b, x, p),
         tool_goal_text(t->arena, b, figure_of(b, p, each)), show_seconds(t->arena, p->price.time.total),
         tool_bytes_text(t->arena, x));
}

void tool_goal_show_choices(const Tool *t, const Build *b) {
  enum { SHOWN = 4 };
  const Plan *p = b->plan;
  const PlanAlternative own = plan_as_alternative(t->arena, p);
  int shown = 0, left = 0;
  printf("\n  %-8s %-42s %12s %10s  %10s\n", "", is_throughput(b) ? "replicas" : "devices",
         tool_goal_figure(t->arena, b).unit, p->mirrored ? "a step" : "a batch", "per rank");
  show_row(t, b, "chosen", &own, p);
  for (int i = 0; i < p->nalternatives; i++) {
    const PlanAlternative *x = &p->alternatives[i];
    if (!t->verbose && shown == SHOWN) left++;
    else show_row(t, b, shown++ ? "" : "instead", x, x->plan);
  }
  if (left) printf("  %-8s and %d more (-v)\n", "", left);
  printf("  %-8s %-42s %12s %10s\n", "", one_device_name(t->arena, b->replicas->whole), "",
         one_device_text(t->arena, p));
}

static const char *idle_text(Arena *a, int n) {
  return n ? arena_printf(a, ", %d %s idle", n, n == 1 ? "is" : "are") : "";
}

void tool_goal_show(const Tool *t, const Build *b) {
  Arena *a = t->arena;
  const Replicas *r = b->replicas;
  const Plan *p = b->plan;
  const char *word = p->mirrored ? "step" : "batch", *each = show_seconds(a, plan_seconds(p));
  const int n = p->on->ranks;
  if (is_throughput(b))
    printf("  %d replica%s of %d of the %d devices%s; each begins a %s every %s\n", room_for(b, p),
           room_for(b, p) == 1 ? "" : "s", n, r->whole->ranks, idle_text(a, r->idle), word, each);
  else printf("  %d of the %d devices: a %s every %s\n", n, r->whole->ranks, word, each);
  if (b->options.plan.most_seconds > 0)
    printf("  of plans that take at most %s a %s\n", show_seconds(a, b->options.plan.most_seconds), word);
}

/* ---- JSON */

json_t *tool_goal_json(const Build *b) {
  const Replicas *r = b->replicas;
  const Plan *p = b->plan;
  const char *unit;
  Arena *a = b->options.model.arena;
  const bool throughput = is_throughput(b);
  const double each = tool_seen_in_step(b, &unit), most = b->options.plan.most_seconds;
  const GoalFigure x = tool_goal_figure(a, b);
  const int n = tool_replicas(b);
  json_t *o = json_pack("{s:s, s:o, s:i, s:i, s:i, s:i, s:f, s:s, s:f, s:f}", throughput ? "maximises" : "minimises",
                        throughput ? "throughput" : "cost", "target", json_text(p->on->name), "replicas", n,
                        "devices_per_replica", p->on->ranks, "devices", n * p->on->ranks, "idle_devices",
                        throughput ? r->idle : r->whole->ranks - p->on->ranks, "period_us", plan_seconds(p) * 1e6,
                        "unit", unit, "per_step", each, "per_s", n * each / plan_seconds(p));
  json_object_set_new(o, "usd_per_million",
                      tool_json_real(target_price(p->on)->usd_per_hour * plan_seconds(p) / 3600 / each * 1e6));
  json_object_set_new(o, throughput ? "upper_bound_per_s" : "lower_bound_usd_per_million", tool_json_real(x.bound));
  json_object_set_new(o, "gap", tool_json_real(x.gap));
  json_object_set_new(o, "max_latency_us", most > 0 ? json_real(most * 1e6) : json_null());
  return o;
}

void tool_goal_add_json(const Build *b, const PlanAlternative *x, json_t *to) {
  if (!b->replicas || !x->plan) return;
  json_object_set_new(to, "devices_per_replica", json_integer(x->plan->on->ranks));
  json_object_set_new(to, "replicas", json_integer(is_throughput(b) ? room_for(b, x->plan) : 1));
  json_object_set_new(to, "period_us", json_real(plan_seconds(x->plan) * 1e6));
}
