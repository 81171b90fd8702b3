/* tools/cmd_size.c - apc size MODEL: finds the fewest devices for a model; with --vary, the largest batch, context,
 * number of layers or width for the target.
 *
 * In: the options of `apc plan`, and with --budget limits on the memory of a device, the time of a step or its cost.
 * Out: the sizes tried, the answer, and the `apc plan` command that shows its plan.  Device counts are tried as
 * driver/fewest.h says.  The search ends if four times the devices improve nothing: neither the missing memory nor the
 * time or cost.
 */
#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "driver/fewest.h"
#include "tools/size.h"

enum { MOST_TRIES = 32 };

/* ---- budgets */

static bool add_budget(Sizing *s, const char *text) {
  Tool *t = s->t;
  Budget b;
  tool_parse_budget(text, &b);
  Budget *all = &s->budget;
  if ((b.bytes != 0 && all->bytes != 0) || (b.seconds > 0 && all->seconds > 0) || (b.usd > 0 && all->usd > 0))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--budget %s: another budget of the same kind is given",
                      text);
  if (b.bytes != 0 && option_given(&t->options, OPT_memory))
    return diag_error(t->diags, DIAG_usage_option, (Loc){0}, "--budget %s and --memory %s both limit the memory", text,
                      option_text(&t->options, OPT_memory));
  if (b.bytes != 0) all->bytes = b.bytes, s->memory = text;
  if (b.seconds > 0) all->seconds = b.seconds;
  if (b.usd > 0) all->usd = b.usd;
  return true;
}

static bool budgets(Sizing *s) {
  size_t at = 0;
  for (const OptionUse *u; (u = option_next(&s->t->options, OPT_budget, &at));)
    if (!add_budget(s, u->value)) return false;
  if (s->budget.usd <= 0 || !isnan(target_price(s->target)->usd_per_hour)) return true;
  const char *terms = s->target->price == PRICE_on_demand ? "" : price_name(s->target->price);
  diag_error(s->t->diags, DIAG_target_price, (Loc){0}, "--budget %.6gusd: the %s%sprice of %s is not known",
             s->budget.usd, terms, *terms ? " " : "", s->target->name);
  diag_help(s->t->diags,
            "`apc targets show %s` prints a file that a line `price` can be added to (docs/guide/targets.md)",
            s->target->name);
  return false;
}

static SizeVary vary_of(const Options *o) {
  static const struct {
    const char *word;
    SizeVary vary;
  } rows[] = {{"batch", VARY_batch}, {"ctx", VARY_ctx}, {"layers", VARY_layers}, {"d", VARY_d}};
  const char *word = option_text(o, OPT_vary);
  for (size_t i = 0; word && i < sizeof rows / sizeof *rows; i++)
    if (strcmp(rows[i].word, word) == 0) return rows[i].vary;
  return VARY_devices;
}

/* As in `apc plan`: the compute type must have a known peak. */
static const Target *target_of(Tool *t) {
  Tool plan = *t;
  plan.options.command = CMD_plan;
  return tool_target(&plan);
}

/* ---- devices */

/* Returns the product of the forced degrees. */
static double least_devices(const Options *o) {
  double n = 1;
#define DEGREE(name, place, label, help) n *= (double)option_int(o, OPT_##name, 1);
#include "passes/plan/degrees.def"
#undef DEGREE
  return n;
}

/* Returns how far a plan exceeds the budgets: the largest ratio. */
static double distance(const Sizing *s, const SizeTry *x) {
  double time = s->budget.seconds > 0 ? x->seconds / s->budget.seconds : 0,
         money = s->budget.usd > 0 ? x->usd / s->budget.usd : 0;
  return fmax(time, money);
}

/* Returns the bytes that a device would need: of the nearest plan, or of the smallest Program; infinite if unknown. */
static double missing(const SizeTry *x) { return x->nearest > 0 ? x->nearest : x->taken > 0 ? x->taken : INFINITY; }

/* True if more devices may help: false once four times as many have improved nothing. */
static bool more_help(Sizing *s, const SizeTry *x) {
  const double less = 0.99, many = 4;
  double now = x->planned ? distance(s, x) : missing(x);
  bool first = s->helped_by == 0;
  if (first && isinf(now)) return true;
  if (first || s->helped_planned != x->planned || now < less * s->helped) {
    s->helped = now, s->helped_by = x->number, s->helped_planned = x->planned;
    return true;
  }
  return (double)x->number < many * (double)s->helped_by;
}

static FewestVerdict try_devices(FewestSearch *f, const Target *target) {
  Sizing *s = f->context;
  SizeTry *x;
  if (!sizing_try(s, target->ranks, target->name, &x)) return FEWEST_GIVE_UP;
  if (x->fits || (sizing_doubtful(x) && sizing_confirm(s, x))) return FEWEST_ENOUGH;
  bool shared = target->device->shared_memory && !s->memory && !option_given(&s->t->options, OPT_memory);
  if (!x->planned && shared) return FEWEST_GIVE_UP; /* ranks of one machine share its memory */
  if (x->resident > 0) f->least = fmax(f->least, ceil(x->resident / x->limit));
  return more_help(s, x) ? FEWEST_MORE : FEWEST_GIVE_UP;
}

static SizeTry *try_on(Sizing *s, int devices) {
  for (size_t i = 0; i < s->tries.n; i++)
    if (s->tries.items[i].number == devices) return &s->tries.items[i];
  return NULL;
}

/* A full search may find that a count that seemed enough is not; then larger ones are tried. */
static SizeTry *search_devices(Sizing *s) {
  FewestSearch f = {.arena = s->t->arena,
                    .like = s->target,
                    .least = least_devices(&s->t->options),
                    .most_tries = MOST_TRIES,
                    .try = try_devices,
                    .context = s};
  for (;;) {
    const Target *enough = driver_fewest(&f);
    if (!enough) return NULL;
    SizeTry *x = try_on(s, enough->ranks);
    if (!x->quick || sizing_confirm(s, x)) return x;
    f.least = enough->ranks + 1;
  }
}

/* ---- no answer */

static const SizeTry *nearest(const Sizing *s) {
  const SizeTry *best = NULL;
  for (size_t i = 0; i < s->tries.n; i++) {
    const SizeTry *x = &s->tries.items[i];
    if (x->planned && (!best || distance(s, x) < distance(s, best))) best = x;
  }
  return best;
}

static void refuse(const Sizing *s) {
  Diags *d = s->t->diags;
  const SizeTry *last = &s->tries.items[s->tries.n - 1], *best = nearest(s);
  const char *word = sizing_word(s, 2);
  if (s->vary == VARY_devices)
    diag_error(d, DIAG_plan_infeasible, (Loc){0}, "no device count of %s that was tried is enough; %" PRId64 ": %s",
               s->target->name, last->number, last->why_not);
  else
    diag_error(d, DIAG_plan_infeasible, (Loc){0}, "no %s that was tried fits %s; %" PRId64 ": %s", word,
               s->target->name, last->number, last->why_not);
  if (best)
    diag_help(d, "the best result, with %" PRId64 " %s: %s", best->number, sizing_word(s, best->number),
              sizing_reached(s, best));
}

/* ---- the command */

static bool counts_alike(const Sizing *s) {
  if (!s->target->nkinds) return true;
  diag_error(s->t->diags, DIAG_usage_value, (Loc){0},
             "the devices of %s differ (%s), so `apc size` cannot choose their number", s->target->name,
             s->target->part);
  diag_help(s->t->diags, "--vary batch, ctx, layers or d uses all devices; `apc plan --target A,B` compares targets");
  return false;
}

static bool search(Sizing *s, SizeTry **answer) {
  bool ok = true;
  if (s->vary == VARY_devices && !counts_alike(s)) return false;
  if (s->vary == VARY_devices) *answer = search_devices(s);
  else if (!sizing_vary_begin(s)) return false;
  else *answer = sizing_vary_search(s, &ok);
  return ok && s->t->diags->errors == 0;
}

int cmd_size(Tool *t) {
  if (!tool_args(t, 1, 1)) return EXIT_USAGE;
  Sizing s = {.t = t, .path = t->options.args.items[0], .vary = vary_of(&t->options), .target = target_of(t)};
  SizeTry *answer = NULL;
  if (!s.target || !budgets(&s) || !search(&s, &answer)) return tool_failed(t->diags);
  tool_stages_end(t);
  if (!answer) refuse(&s);
  sizing_report(&s, answer);
  return answer ? EXIT_OK : tool_failed(t->diags);
}
