/* tools/plan_run.c - see plan_run.h.
 *
 * A step sees as many tokens as its first integer input with two dimensions or more has elements (batch x sequence) or,
 * without such an input, as many samples as its batch has.
 */
#include "tools/plan_run.h"

#include <inttypes.h>
#include <math.h>

#include "driver/micro_batch.h"
#include "driver/products.h"
#include "ir/joint.h"
#include "tools/plan_goal.h"

/* At the planned sizes; 0 if there is no such input. */
static double tokens_in(const Func *f, const int64_t *sizes) {
  for (size_t i = 0; i < f->ops.n; i++) {
    const Op *op = &f->ops.items[i];
    const Type *type = op->kind == OP_input ? type_of(f, op->out) : NULL;
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

/* Sums over all calls of entries that are planned together. */
static double tokens_of(const Build *b, const int64_t *sizes) {
  const Joint *joint = b->l1->joint;
  double n = joint ? 0 : tokens_in(b->l1, sizes);
  for (int e = 0; joint && e < joint->n; e++) n += joint->entries[e].calls * tokens_in(joint->entries[e].f, sizes);
  return n;
}

double tool_seen_in_step(const Build *b, const char **unit) {
  const int64_t *sizes = planned_sizes(b);
  bool bound;
  double tokens = tokens_of(b, sizes);
  *unit = tokens > 0 ? "tokens" : "samples";
  return tokens > 0 ? tokens : (double)batch_size(b, sizes, &bound);
}

/* Returns --step-time in seconds; 0 if not given or no time. */
static double step_time(const Tool *t) {
  const char *text = option_text(&t->options, OPT_step_time);
  Budget b = {0};
  return text && tool_parse_budget(text, &b) ? b.seconds : 0;
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
  const bool tokens = option_given(&t->options, OPT_tokens), hours = option_given(&t->options, OPT_hours);
  if (tokens && hours)
    return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                      "--tokens and --hours cannot be combined: each determines the other");
  if (!option_given(&t->options, OPT_step_time)) return true;
  if (!(step_time(t) > 0))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--step-time takes a time like 102.4s or 80ms, not '%s'",
                      option_text(&t->options, OPT_step_time));
  return tokens || hours ||
         diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--step-time needs --tokens N or --hours H");
}

/* ---- energy */

/* Returns the energy of steps of that length; the plan predicts how devices spend them. */
static EnergyFigures energy_of(const Build *b, double step_seconds) {
  const Target *g = b->options.target;
  const PlanTime *t = &b->plan->price.time;
  EnergyFigures e = {.known = !isnan(g->power), .at_most = isnan(g->idle_power), .joules = NAN};
  const double whole = tool_step_seconds(b);
  if (!e.known || !(whole > 0)) return e;
  e.computing = fmin(t->busy / whole, 1), e.communicating = fmin(t->communicating / whole, 1 - e.computing);
  e.waiting = 1 - e.computing - e.communicating;
  double waiting = e.at_most ? 0 : e.waiting, idle = e.at_most ? 0 : g->idle_power;
  e.joules = g->ranks * step_seconds * ((1 - waiting) * g->power + waiting * idle);
  return e;
}

EnergyFigures tool_energy(const Build *b) { return energy_of(b, tool_step_seconds(b)); }

const char *tool_joules_text(Arena *a, double joules) {
  return joules < 1e3 ? arena_printf(a, "%.3g J", joules) : show_scaled(a, joules, "J");
}

/* Returns "7,231 kWh". */
static const char *kwh_text(Arena *a, double joules) {
  double kwh = joules / 3.6e6;
  return kwh < 100 ? arena_printf(a, "%.3g kWh", kwh) : arena_printf(a, "%s kWh", show_count(a, (int64_t)llround(kwh)));
}

static void show_energy(const Tool *t, const Target *g, const RunFigures *r) {
  Arena *a = t->arena;
  const EnergyFigures *e = &r->energy;
  if (!e->known) return;
  printf("  energy%s %s a step, %s in all, %s a million %s; devices are busy %.0f %% of the time (%.0f W",
         e->at_most ? " at most" : "", tool_joules_text(a, e->joules), kwh_text(a, r->joules),
         kwh_text(a, r->joules_million), r->unit, 100 * (1 - e->waiting), g->power);
  if (e->at_most) printf(" each)\n");
  else printf(" at work, %.4g W idle)\n", g->idle_power);
}

json_t *tool_energy_json(const Build *b) {
  const Target *g = b->options.target;
  const double seconds = tool_step_seconds(b), peak = target_peak(g);
  const char *unit;
  if (isnan(g->power)) return json_null();
  const EnergyFigures e = tool_energy(b);
  const double each = tool_seen_in_step(b, &unit);
  return json_pack("{s:o, s:b, s:o, s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "joules_per_step", tool_json_real(e.joules),
                   "at_most", e.at_most, "joules_per_million", tool_json_real(e.joules / each * 1e6), "unit", unit,
                   "watts", tool_json_real(g->power), "idle_watts", tool_json_real(g->idle_power), "busy",
                   tool_json_real(1 - e.waiting), "computing", tool_json_real(e.computing), "communicating",
                   tool_json_real(e.communicating), "utilisation", tool_json_real(b->plan->flops / seconds / peak));
}

/* ---- a run */

RunFigures tool_run_figures(const Tool *t, const Build *b) {
  const double hour = 3600;
  const Target *g = b->options.target;
  const Plan *p = b->plan;
  const int n = tool_replicas(b);
  const double measured = step_time(t), seconds = (measured > 0 ? measured : tool_step_seconds(b)) / n,
               tokens = option_real(&t->options, OPT_tokens, 0), hours = option_real(&t->options, OPT_hours, 0);
  RunFigures r = {.asked = tokens > 0 || hours > 0};
  if (!r.asked) return r;
  r.each = tool_seen_in_step(b, &r.unit);
  r.steps = tokens > 0 ? ceil(tokens / r.each) : floor(hours * hour / seconds);
  r.seen = r.steps * r.each;
  r.hours = tokens > 0 ? r.steps * seconds / hour : hours;
  r.machines = (n * g->ranks + g->per_machine - 1) / g->per_machine;
  r.flops = p->flops / seconds;
  r.products = driver_products(b) / seconds;
  r.peak = target_peak(g) * n;
  r.mfu = driver_model_flops(b) / seconds / r.peak;
  r.usd = tool_usd_per_hour(b) * r.hours;
  r.usd_million = r.seen > 0 ? r.usd / r.seen * 1e6 : NAN;
  r.energy = energy_of(b, seconds * n);
  r.joules = r.energy.joules / seconds * r.hours * hour;
  r.joules_million = r.energy.joules / r.each * 1e6;
  r.joules_most = g->power * g->ranks * n * r.hours * hour;
  return r;
}

static void show_utilisation(const Tool *t, const RunFigures *r) {
  Arena *a = t->arena;
  printf("  %s of %s, %.0f %%; products alone, with recompute, %s, %.0f %%; MFU %.0f %%",
         show_scaled(a, r->flops, "FLOP/s"), show_scaled(a, r->peak, "FLOP/s"), 100 * r->flops / r->peak,
         show_scaled(a, r->products, "FLOP/s"), 100 * r->products / r->peak, 100 * r->mfu);
}

void tool_run_show(const Tool *t, const Target *g, const RunFigures *r) {
  Arena *a = t->arena;
  if (!r->asked) return;
  if (r->steps < 1) {
    printf("\n  such a run is shorter than one step\n");
    return;
  }
  printf("\n  a run of %s %s: %s steps of %s, %.1f hours (%.1f days) on %d machine%s\n",
         show_rounded(a, llround(r->seen)), r->unit, show_count(a, (int64_t)r->steps),
         show_rounded(a, llround(r->each)), r->hours, r->hours / 24, r->machines, r->machines == 1 ? "" : "s");
  show_utilisation(t, r);
  if (!isnan(r->usd))
    printf("\n  %s USD (%s) for %.1f machine-hours, %.3g USD a million %s", show_count(a, (int64_t)llround(r->usd)),
           tool_price_text(a, g), r->hours * r->machines, r->usd_million, r->unit);
  putchar('\n');
  show_energy(t, g, r);
}

json_t *tool_run_json(const RunFigures *r) {
  return json_pack("{s:s, s:f, s:f, s:f, s:f, s:i, s:f, s:o, s:o, s:f, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "unit",
                   r->unit, "per_step", r->each, "seen", r->seen, "steps", r->steps, "hours", r->hours, "machines",
                   r->machines, "flops_per_s", r->flops, "peak_flops_per_s", tool_json_real(r->peak), "utilisation",
                   tool_json_real(r->flops / r->peak), "products_flops_per_s", r->products, "utilisation_of_products",
                   tool_json_real(r->products / r->peak), "mfu", tool_json_real(r->mfu), "usd", tool_json_real(r->usd),
                   "usd_per_million", tool_json_real(r->usd_million), "kwh", tool_json_real(r->joules / 3.6e6),
                   "kwh_per_million", tool_json_real(r->joules_million / 3.6e6), "kwh_at_most",
                   tool_json_real(r->joules_most / 3.6e6));
}
