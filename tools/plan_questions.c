/* tools/plan_questions.c - see plan_questions.h. */
#include "tools/plan_questions.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/json_text.h"
#include "base/nearest.h"
#include "ir/schedule.h"
#include "tools/build.h"
#include "tools/option_values.h"

/* ---- --compare */

/* Names that --compare takes besides degrees; their values are those of the options of the same names. */
static const char *const other_names[] = {"micro-batches", "micro-batch", "zero", "recompute", "schedule"};
enum { OTHERS = sizeof other_names / sizeof *other_names };

static bool bad_value(Tool *t, const char *text, const char *name, const char *takes, const char *value) {
  return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--compare %s: %s takes %s, not '%s'", text, name, takes,
                    value);
}

static bool unknown_name(Tool *t, const char *text, const char *name) {
  Nearest near = nearest_to(name);
  Text all = {.arena = t->arena};
  for (int i = 0; i < DEGREE_COUNT; i++) {
    const char *degree = degree_names[degrees_listed[i]];
    text_printf(&all, "%s%s", i ? ", " : "", degree), nearest_try(&near, degree);
  }
  for (int i = 0; i < OTHERS; i++) text_printf(&all, ", %s", other_names[i]), nearest_try(&near, other_names[i]);
  diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--compare %s: a plan has no '%s'", text, name);
  if (near.best) diag_help(t->diags, "the nearest is '%s'", near.best);
  else diag_help(t->diags, "it has %s", text_str(&all));
  return false;
}

static bool take_count(Tool *t, const char *text, const char *name, const char *value, int64_t *out) {
  return (tool_parse_whole(value, out) && *out > 0 && *out <= INT32_MAX) ||
         bad_value(t, text, name, "a whole number from 1", value);
}

/* Applies NAME=VALUE of a named plan. */
static bool take_part(Tool *t, const char *name, const char *value, DriverNamed *x) {
  int64_t n = 0;
  PlanOptions *o = &x->forced;
  for (int d = 0; d < DEGREE_COUNT; d++)
    if (strcmp(name, degree_names[d]) == 0)
      return take_count(t, x->text, name, value, &n) && (o->degree[d] = (int)n, true);
  if (strcmp(name, "micro-batches") == 0)
    return take_count(t, x->text, name, value, &n) && (o->micro_batches = (int)n, true);
  if (strcmp(name, "micro-batch") == 0) return take_count(t, x->text, name, value, &x->micro_batch);
  if (strcmp(name, "zero") == 0) {
    bool ok = tool_parse_whole(value, &n) && n <= 3;
    return o->zero = 1 + (int)n, ok || bad_value(t, x->text, name, "0, 1, 2 or 3", value);
  }
  if (strcmp(name, "recompute") == 0)
    return recompute_parse(value, &o->recompute) ||
           bad_value(t, x->text, name, "none, selective, full, full:K or K", value);
  if (strcmp(name, "schedule") == 0) {
    PipelineSchedule given;
    bool ok = schedule_parse(value, strlen(value), &given, &o->chunks);
    if (ok) o->schedule = 1 + (int)given;
    return ok || bad_value(t, x->text, name, "gpipe, 1f1b, interleaved:V, zbh1 or zbv", value);
  }
  return unknown_name(t, x->text, name);
}

static bool no_list(Tool *t, const char *text) {
  return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--compare takes NAME=VALUE,... as in tp=8,pp=8, not '%s'",
                    text);
}

static bool is_taken(const DriverNamed *x, const char *name) {
  for (const char *p = x->text; p < name; p++)
    if (strncmp(p, name, strcspn(name, "=") + 1) == 0 && (p == x->text || p[-1] == ',')) return true;
  return false;
}

static bool read_named(Tool *t, const char *text, DriverNamed *out) {
  *out = (DriverNamed){.text = text};
  for (const char *p = text; *p;) {
    size_t n = strcspn(p, ",");
    const char *name, *value;
    if (!split_binding(t->arena, p, n, &name, &value)) return no_list(t, text);
    if (is_taken(out, p))
      return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--compare %s: %s is given twice", text, name);
    if (!take_part(t, name, value, out)) return false;
    p += n + (p[n] == ',');
    if (p[-1] == ',' && !*p) return no_list(t, text);
  }
  if (out->micro_batch && out->forced.micro_batches)
    return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                      "--compare %s: micro-batch and micro-batches cannot be combined", text);
  const PlanOptions *o = &out->forced;
  bool step = o->zero || o->schedule || o->recompute.kind != RECOMPUTE_auto;
  if (step && !option_given(&t->options, OPT_train))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--compare %s: zero, recompute and schedule need --train",
                      text);
  return true;
}

bool tool_compared(Tool *t, const DriverNamed **out, int *count) {
  struct {
    DriverNamed *items;
    size_t n, cap;
  } list = {0};
  size_t at = 0;
  bool ok = true;
  for (const OptionUse *u; (u = option_next(&t->options, OPT_compare, &at));) {
    DriverNamed x;
    ok &= read_named(t, u->value, &x);
    ARENA_PUSH(t->arena, &list, x);
  }
  *out = list.items, *count = (int)list.n;
  return ok;
}

/* ---- --what-if */

static bool read_figure(Tool *t, const char *text, size_t n, WhatIf *out) {
  const char *star = memchr(text, '*', n);
  size_t length = star ? (size_t)(star - text) : 0;
  *out = (WhatIf){.text = arena_strndup(t->arena, text, n), .figure = arena_strndup(t->arena, text, length)};
  const double least = 1e-3, most = 1e3;
  bool ok = length && tool_parse_real(arena_strndup(t->arena, star + 1, n - length - 1), &out->factor);
  if (ok && strcmp(out->figure, "memory") == 0 && option_given(&t->options, OPT_memory))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--what-if %s has no effect: --memory fixes the limit",
                      out->text);
  return (ok && out->factor >= least && out->factor <= most) ||
         diag_error(t->diags, DIAG_usage_value, (Loc){0},
                    "--what-if takes FIGURE*FACTOR,... as in nvlink*2,memory*1.5, with factors from 0.001 to 1000, "
                    "not '%s'",
                    out->text);
}

bool tool_what_if_read(Tool *t, const Target *g, WhatIfs *out) {
  const Target *all = g;
  Text texts = {.arena = t->arena};
  size_t at = 0;
  *out = (WhatIfs){0};
  for (const OptionUse *u; (u = option_next(&t->options, OPT_what_if, &at));)
    for (const char *p = u->value; *p;) {
      size_t n = strcspn(p, ",");
      WhatIf x;
      if (!read_figure(t, p, n, &x)) return false;
      const Target *one = driver_target_if(t->arena, g, &x, t->diags);
      if (!one) return false;
      all = driver_target_if(t->arena, all, &x, t->diags);
      ARENA_PUSH(t->arena, out, ((WhatIfPlan){.text = x.text, .target = one}));
      text_printf(&texts, "%s%s", texts.n ? "," : "", x.text);
      p += n + (p[n] == ',');
    }
  if (out->n < 2) return true;
  Target *together = ARENA_NEW(t->arena, Target);
  *together = *all, together->name = arena_printf(t->arena, "%s with %s", g->name, text_str(&texts));
  ARENA_PUSH(t->arena, out, ((WhatIfPlan){.text = text_str(&texts), .target = together}));
  return true;
}

double tool_seconds_as_is(Tool *t, Build *b) {
  const double same = 1e-9, seconds = b->plan->price.time.total;
  const char *why_not;
  tool_stage(t, "Planning", "%s again, to compare with", b->model.path);
  const Plan *p = driver_what_if(b, b->options.target, &why_not);
  return !p || fabs(p->price.time.total - seconds) <= same * seconds ? seconds : p->price.time.total;
}

void tool_what_if(Tool *t, Build *b, double as_is, WhatIfs *x) {
  x->as_is = as_is;
  for (size_t i = 0; i < x->n; i++) {
    WhatIfPlan *y = &x->items[i];
    tool_stage(t, "Planning", "%s on %s", b->model.path, y->target->name);
    y->plan = driver_what_if(b, y->target, &y->why_not);
  }
}

void tool_what_if_show(const Tool *t, const Plan *p, const WhatIfs *x) {
  if (x->n && x->as_is != p->price.time.total)
    printf("\n  compared with %s, the result of the search alone for the unchanged target",
           show_seconds(t->arena, x->as_is));
  for (size_t i = 0; i < x->n; i++) {
    const WhatIfPlan *y = &x->items[i];
    printf("%s  %-8s %-28s ", i ? "" : "\n", i ? "" : "what if", y->text);
    if (!y->plan) {
      printf("%s\n", y->why_not);
      continue;
    }
    double seconds = y->plan->price.time.total;
    printf("%10s  %+5.0f %%  %s\n", show_seconds(t->arena, seconds), (seconds / x->as_is - 1) * 100,
           tool_degrees_text(t->arena, y->plan->degree, y->plan->micro_batches));
  }
}

json_t *tool_what_if_json(const WhatIfs *x) {
  json_t *list = json_array();
  for (size_t i = 0; i < x->n; i++) {
    const WhatIfPlan *y = &x->items[i];
    double seconds = y->plan ? y->plan->price.time.total : INFINITY;
    json_t *o = json_pack("{s:o, s:o, s:o, s:s?}", "what", json_text(y->text), "time_us", tool_json_real(seconds * 1e6),
                          "saves", tool_json_real(1 - seconds / x->as_is), "why_not", y->why_not);
    for (int d = 0; y->plan && d < DEGREE_COUNT; d++)
      json_object_set_new(o, degree_names[degrees_listed[d]], json_integer(y->plan->degree[degrees_listed[d]]));
    if (y->plan) json_object_set_new(o, "micro_batches", json_integer(y->plan->micro_batches));
    json_array_append_new(list, o);
  }
  return list;
}

/* ---- --pin */

static bool read_axis(const char *word, int *degree) {
  *degree = PIN_NO_DEGREE;
  if (strcmp(word, "none") == 0) return true;
  for (int d = DEGREE_FIRST_AXIS; d < DEGREE_COUNT; d++)
    if (strcmp(word, degree_names[d]) == 0) return *degree = d, true;
  return false;
}

/* Names may contain colons and equals signs. */
static bool read_pin(Tool *t, const char *text, PlanPin *out) {
  const char *equals = strrchr(text, '='), *colon = equals;
  while (colon && colon > text && *colon != ':') colon--;
  bool ok = equals && colon > text && *colon == ':';
  const char *number = ok ? arena_strndup(t->arena, colon + 1, (size_t)(equals - colon - 1)) : "";
  int64_t dim = 0;
  const bool behind = *number == '-';
  ok = ok && tool_parse_whole(number + behind, &dim) && dim < MAX_RANK && (!behind || dim > 0);
  *out = (PlanPin){.text = text, .dim = behind ? -(int)dim : (int)dim};
  if (!ok)
    return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                      "--pin takes 'GLOB:dim=axis' as in 'layers.*.mlp.fc:2=tp', with dim from 0 (or -1, the last), "
                      "not '%s'",
                      text);
  out->glob = arena_strndup(t->arena, text, (size_t)(colon - text));
  return read_axis(equals + 1, &out->degree) ||
         diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--pin '%s': an axis is tp, dp, ep, cp or none, not '%s'",
                    text, equals + 1);
}

bool tool_pins(Tool *t, const PlanPin **out, int *count) {
  struct {
    PlanPin *items;
    size_t n, cap;
  } list = {0};
  size_t at = 0;
  bool ok = true;
  for (const OptionUse *u; (u = option_next(&t->options, OPT_pin, &at));) {
    PlanPin x;
    ok &= read_pin(t, u->value, &x);
    ARENA_PUSH(t->arena, &list, x);
  }
  if (list.n && option_given(&t->options, OPT_plan))
    ok = diag_error(t->diags, DIAG_usage_value, (Loc){0},
                    "--pin and --plan cannot be combined: change the lines of the file instead");
  if (list.n > MOST_PINS)
    ok = diag_error(t->diags, DIAG_usage_value, (Loc){0}, "there are at most %d pins, not %zu", MOST_PINS, list.n);
  *out = list.items, *count = (int)list.n;
  return ok;
}

PinPrices tool_pin_prices(Tool *t, Build *b, double as_is) {
  const PlanPin *all = b->options.plan.pins;
  const int n = b->options.plan.npins;
  double *out = ARENA_ARRAY(t->arena, double, n + 1);
  PlanPin *others = ARENA_ARRAY(t->arena, PlanPin, n + 1);
  for (int i = 0; i < n; i++) {
    int kept = 0;
    const char *why_not;
    for (int k = 0; k < n; k++)
      if (k != i) others[kept++] = all[k];
    tool_stage(t, "Planning", "%s without --pin '%s'", b->model.path, all[i].text);
    b->options.plan.pins = others, b->options.plan.npins = kept;
    const Plan *p = driver_what_if(b, b->options.target, &why_not);
    out[i] = p ? p->price.time.total : INFINITY;
  }
  b->options.plan.pins = all, b->options.plan.npins = n;
  return (PinPrices){as_is, out};
}

void tool_pins_show(const Tool *t, const Build *b, const PinPrices *x) {
  for (int i = 0; i < b->options.plan.npins; i++) {
    const double more = x->with - x->without[i];
    printf("%s  %-8s %-28s ", i ? "" : "\n", i ? "" : "pinned", b->options.plan.pins[i].text);
    if (!isfinite(x->without[i])) puts("there is no plan without it");
    else
      printf("costs %s%s, %+.1f %%\n", more < 0 ? "-" : "", show_seconds(t->arena, fabs(more)),
             100 * more / x->without[i]);
  }
}

json_t *tool_pins_json(const Build *b, const PinPrices *x) {
  json_t *list = json_array();
  for (int i = 0; i < b->options.plan.npins; i++)
    json_array_append_new(list, json_pack("{s:o, s:f, s:o}", "pin", json_text(b->options.plan.pins[i].text), "with_us",
                                          x->with * 1e6, "without_us", tool_json_real(x->without[i] * 1e6)));
  return list;
}
