/* tools/plan_run.c - see plan_run.h.
 *
 * A step sees as many tokens as its first input of integers of two dimensions or more has elements (batch x sequence),
 * or, without such an input, as many samples as its batch has.
 */
#include "tools/plan_run.h"

#include <inttypes.h>
#include <math.h>

#include "driver/micro_batch.h"

/* Of the sizes that were planned for; 0: there is no such input. */
static double tokens_of(const Build *b, const int64_t *sizes) {
  for (size_t i = 0; i < b->l1->ops.n; i++) {
    const Op *op = &b->l1->ops.items[i];
    const Type *type = op->kind == OP_input ? type_of(b->l1, op->out) : NULL;
    if (!type || type->rank < 2 || dtype_is_float(type->dtype) || type->dtype == DT_bool) continue;
    double n = 1;
    for (int d = 0; d < type->rank; d++) {
      int64_t size = 1;
      n *= ex_eval(type->dims[d], sizes, &size) ? (double)size : 1;
    }
    return n;
  }
  return 0;
}

static double seen_in_step(const Build *b, const char **unit) {
  const int64_t *sizes = planned_sizes(b);
  bool bound;
  double tokens = tokens_of(b, sizes);
  *unit = tokens > 0 ? "tokens" : "samples";
  return tokens > 0 ? tokens : (double)batch_size(b, sizes, &bound);
}

bool tool_run_check(Tool *t) {
  static const OptionId options[] = {OPT_tokens, OPT_hours};
  static const double most[] = {1e18, 1e8};
  for (int i = 0; i < 2; i++) {
    double x = option_real(&t->options, options[i], 0);
    if (option_given(&t->options, options[i]) && !(x > 0 && x <= most[i]))
      return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "%s takes a number above 0, up to %g",
                        option_rows[options[i]].flag, most[i]);
  }
  if (option_given(&t->options, OPT_tokens) && option_given(&t->options, OPT_hours))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                      "--tokens and --hours contradict each other: one follows from the other");
  return true;
}

RunFigures tool_run_figures(const Tool *t, const Build *b) {
  const double hour = 3600;
  const Target *g = b->options.target;
  const Plan *p = b->plan;
  const double seconds = p->price.time.total, tokens = option_real(&t->options, OPT_tokens, 0),
               hours = option_real(&t->options, OPT_hours, 0);
  RunFigures r = {.asked = tokens > 0 || hours > 0};
  if (!r.asked) return r;
  r.each = seen_in_step(b, &r.unit);
  r.steps = tokens > 0 ? ceil(tokens / r.each) : floor(hours * hour / seconds);
  r.seen = r.steps * r.each;
  r.hours = tokens > 0 ? r.steps * seconds / hour : hours;
  r.machines = (g->ranks + g->per_machine - 1) / g->per_machine;
  r.flops = p->flops / seconds;
  r.peak = target_flops(g, compute_storage(g->compute)) * g->ranks;
  r.usd = g->usd_per_hour * r.hours;
  r.usd_million = r.seen > 0 ? r.usd / r.seen * 1e6 : NAN;
  r.joules = g->power * g->ranks * r.hours * hour;
  return r;
}

void tool_run_show(const Tool *t, const Target *g, const RunFigures *r) {
  Arena *a = t->arena;
  if (!r->asked) return;
  if (r->steps < 1) {
    printf("\n  a step takes longer than such a run\n");
    return;
  }
  printf("\n  a run of %s %s: %s steps of %s, %.1f hours (%.1f days) on %d machine%s\n",
         show_rounded(a, llround(r->seen)), r->unit, show_count(a, (int64_t)r->steps),
         show_rounded(a, llround(r->each)), r->hours, r->hours / 24, r->machines, r->machines == 1 ? "" : "s");
  printf("  %s of %s, %.0f %%", show_scaled(a, r->flops, "FLOP/s"), show_scaled(a, r->peak, "FLOP/s"),
         100 * r->flops / r->peak);
  if (!isnan(r->usd))
    printf("; %s USD (%s, %s) for %.1f machine-hours, %.3g USD a million %s", show_count(a, (int64_t)llround(r->usd)),
           g->price_terms, g->price_date, r->hours * r->machines, r->usd_million, r->unit);
  if (!isnan(r->joules)) printf("; at most %s kWh", show_count(a, (int64_t)llround(r->joules / 3.6e6)));
  putchar('\n');
}

json_t *tool_run_json(const RunFigures *r) {
  return json_pack("{s:s, s:f, s:f, s:f, s:f, s:i, s:f, s:o, s:o, s:o, s:o, s:o}", "unit", r->unit, "per_step", r->each,
                   "seen", r->seen, "steps", r->steps, "hours", r->hours, "machines", r->machines, "flops_per_s",
                   r->flops, "peak_flops_per_s", tool_json_real(r->peak), "utilisation",
                   tool_json_real(r->flops / r->peak), "usd", tool_json_real(r->usd), "usd_per_million",
                   tool_json_real(r->usd_million), "kwh_at_most", tool_json_real(r->joules / 3.6e6));
}
