/* tools/size_try.c - see size.h: one try of `apc size`.
 *
 * The line is planned and its Program measured as in `apc plan`.  If only memory is limited, the first plan that fits
 * suffices, which takes little work.  If time or cost is limited, the best plan is searched for, with less work than
 * usual.  So are the answer and the nearest size that does not fit, because that search also considers plans that it
 * counts slightly above the limit and whose Programs are within it.  Both limits are of work, not of time, so that the
 * answer is the same on every machine.  Every try reads the model again, into memory of its own that is then freed; so
 * tries do not affect each other.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "tools/plan_times.h"
#include "tools/size.h"

static const double any_work = 5e8, best_work = 2e9; /* unit: elementary sums; about a second, and a few seconds */

/* ---- one plan */

/* Returns the reason of the search without parts that the table's head has: the target and the limit. */
static const char *reason(Arena *a, const Diag *error, const char *target) {
  const char *head = arena_printf(a, "no feasible plan for %s: ", target), *text = error ? error->message : "";
  if (strncmp(text, head, strlen(head)) == 0) text += strlen(head);
  const char *allowed = strstr(text, " are allowed on a rank"), *rest = strstr(text, "; ");
  return arena_strdup(a, allowed && rest && allowed < rest ? rest + 2 : text);
}

/* Checks an existing plan against the time and cost budgets. */
static void hold_against(const Sizing *s, SizeTry *x, double usd_per_hour) {
  Arena *a = s->t->arena;
  x->usd = usd_per_hour * x->seconds / 3600;
  if (s->budget.seconds > 0 && x->seconds > s->budget.seconds)
    x->why_not = arena_printf(a, "a step takes longer than %s", show_seconds(a, s->budget.seconds));
  else if (s->budget.usd > 0 && !(x->usd <= s->budget.usd))
    x->why_not = arena_printf(a, "a step costs more than %.3g USD", s->budget.usd);
  x->fits = !x->why_not;
}

static void plan_line(Sizing *s, Tool *one, bool any, SizeTry *x) {
  Build b = {0};
  const Target *target = tool_target(one);
  bool ok = target && tool_load(one, s->path, target, &b);
  if (ok) {
    s->params = b.params;
    x->limit = plan_memory_limit(target, b.options.plan.memory_limit), x->devices = target->ranks;
    b.options.sizes = true;
    b.options.plan.any = any;
    b.options.plan.work = any ? any_work : best_work;
    b.options.plan.show = s->t->quiet ? NULL : tool_times_show;
    b.options.plan.show_context = s->t;
    ok = tool_plan(one, &b);
  }
  x->planned = ok, x->resident = b.resident, x->nearest = b.nearest;
  if (ok) {
    x->seconds = b.plan->price.time.total, x->bytes = plan_memory(b.plan)->total;
    x->whole = !any && !b.plan->cut_short;
    x->micro_batches = b.plan->micro_batches;
    hold_against(s, x, target_price(target)->usd_per_hour);
  } else {
    if (b.plan) x->taken = plan_memory(b.plan)->total;
    const Diag *error = diags_first_error(one->diags);
    x->code = error ? error->code : DIAG_NONE, x->why_not = reason(s->t->arena, error, x->target);
  }
  driver_free(&b);
}

/* ---- tries */

/* Makes a Tool for one line.  It shows no stages: every try has one line of progress. */
static Tool tool_of_try(const Sizing *s, Arena *a, Options line) {
  Tool one = *s->t;
  one.arena = a, one.diags = diags_new(a), one.options = line;
  one.quiet = true, one.times = one.json = false;
  return one;
}

static SizeTry new_try(int64_t number, const char *target) {
  return (SizeTry){.number = number, .target = target, .seconds = NAN, .bytes = NAN, .usd = NAN};
}

/* True if only the limits or devices rule out a plan; false if the model or the line is wrong. */
static bool is_too_much(const Sizing *s, DiagCode code) {
  return code == DIAG_plan_infeasible || (code == DIAG_plan_options && s->vary == VARY_devices);
}

bool sizing_try(Sizing *s, int64_t number, const char *target, SizeTry **out) {
  Tool *t = s->t;
  bool first = s->tries.n == 0, timed = s->budget.seconds > 0 || s->budget.usd > 0;
  SizeTry x = new_try(number, target);
  tool_stage(t, "Trying", "%s %" PRId64 "%s%s", sizing_word(s, 2), number, s->vary == VARY_devices ? ": " : "",
             s->vary == VARY_devices ? target : "");
  Arena *a = first ? t->arena : arena_new(); /* errors of the first try are reported at the end */
  Tool one = tool_of_try(s, a, sizing_line(s, target, number));
  x.quick = !timed;
  plan_line(s, &one, x.quick, &x);
  bool wrong = first && !x.planned && !is_too_much(s, x.code);
  if (wrong) diags_append(t->diags, one.diags);
  if (!first) arena_free(a);
  ARENA_PUSH(t->arena, &s->tries, x);
  *out = &s->tries.items[s->tries.n - 1];
  return !wrong;
}

/* Searches count at most twice the memory of a Program, and more search hardly reduces the smallest Program. */
bool sizing_doubtful(const SizeTry *x) {
  const double counted = 2, taken = 1.2;
  return x->quick && x->code == DIAG_plan_infeasible && x->resident <= x->limit * x->devices &&
         x->nearest <= counted * x->limit && x->taken <= taken * x->limit;
}

bool sizing_confirm(Sizing *s, SizeTry *x) {
  Tool *t = s->t;
  tool_stage(t, "Planning", "%s %" PRId64 " on %s", sizing_word(s, 2), x->number, x->target);
  SizeTry best = new_try(x->number, x->target);
  Tool one = tool_of_try(s, t->arena, sizing_line(s, x->target, x->number));
  plan_line(s, &one, false, &best);
  if (best.fits) diags_append(t->diags, one.diags); /* warnings */
  *x = best;
  return x->fits;
}
