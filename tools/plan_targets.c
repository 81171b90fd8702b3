/* tools/plan_targets.c - see plan_targets.h.
 *
 * Each target has its own build, as rewrites of a model depend on the kind of device.  Its result is a row of the
 * table; the reason of a row without a plan is its first error.  Warnings are shown unless an earlier target had the
 * same.
 *
 * Energy is that of a step (plan_run.h), an upper bound if the power of waiting devices is unknown.
 */
#include "tools/plan_targets.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/json_text.h"
#include "driver/replicas.h"
#include "tools/plan_goal.h"
#include "tools/plan_report.h"
#include "tools/plan_run.h"

typedef struct Row {
  const char *name, *choice; /* choice is NULL if there is no plan; why_not has the reason */
  const char *why_not;
  int code;
  bool wrong;                                        /* the error is in the line, the model or the target's name: other
                                                        targets cannot succeed */
  double seconds, bytes, usd_per_hour, usd_per_step; /* NaN if unknown */
  const char *price;                                 /* its kind, such as spot */
  EnergyFigures energy;
  const char *goal; /* the value of --objective throughput or cost; NULL if none */
  bool counted;
  RunFigures run;
  json_t *document;
} Row;

/* ---- which targets */

static const char *targets_text(const Tool *t) {
  const char *text = option_text(&t->options, OPT_target);
  return text ? text : getenv("APC_TARGET");
}

bool tool_several_targets(const Tool *t) {
  const char *text = targets_text(t);
  return text && strchr(text, ',') && access(text, F_OK) != 0;
}

/* ---- one target */

static const char *goal_text(Arena *a, const Build *b) {
  const GoalFigure x = tool_goal_figure(a, b);
  return arena_printf(a, "%s %s", tool_goal_text(a, b, x.value), x.unit);
}

static Row row_of_plan(Tool *t, const Build *b) {
  const Plan *p = b->plan;
  const Target *g = b->options.target;
  const PlanAlternative own = plan_as_alternative(t->arena, p);
  return (Row){.name = b->replicas ? b->replicas->whole->name : g->name,
               .choice = b->replicas ? tool_goal_choice(t->arena, b, &own, p) : tool_choice_text(t->arena, p, &own),
               .seconds = own.seconds,
               .bytes = own.bytes,
               .counted = own.counted,
               .usd_per_hour = tool_usd_per_hour(b),
               .price = price_name(g->price),
               .usd_per_step = target_price(g)->usd_per_hour * tool_step_seconds(b) / 3600,
               .goal = b->replicas ? goal_text(t->arena, b) : NULL,
               .energy = tool_energy(b),
               .run = tool_run_figures(t, b),
               .document = t->json ? tool_plan_json(t, b) : NULL};
}

static Row plan_on(Tool *t, const char *path, const char *name) {
  Diags *all = t->diags;
  const Options given = t->options;
  Row row = {.name = name};
  Build b;
  t->diags = diags_new(t->arena);
  t->options = options_with(t->arena, &given, OPT_target, name);
  const Target *target = tool_target(t);
  bool loaded = target != NULL, ok = loaded && tool_load(t, path, target, &b) && tool_plan_shown(t, &b);
  tool_stages_end(t);
  if (ok) row = row_of_plan(t, &b);
  else row.why_not = diags_first_error(t->diags)->message, row.code = tool_failed(t->diags);
  row.wrong = !ok && row.code != EXIT_UNDECIDED && row.code != EXIT_MISSING;
  if (ok || row.wrong) diags_append(all, t->diags);
  if (loaded) driver_free(&b);
  t->diags = all, t->options = given;
  return row;
}

/* ---- all targets */

static const char *usd_text(Arena *a, double usd) { return isnan(usd) ? "-" : arena_printf(a, "%.3g", usd); }

/* Returns "  12.3 days  1,234 USD" for the run; empty without one. */
static const char *run_text(Arena *a, const RunFigures *r) {
  if (!r->asked) return "";
  const char *usd = isnan(r->usd) ? "-" : show_count(a, (int64_t)llround(r->usd));
  return arena_printf(a, " %10.1f %12s", r->hours / 24, usd);
}

static void show_row(Tool *t, const Row *r, int width) {
  Arena *a = t->arena;
  if (!r->choice) {
    printf("  %-*s  %s\n", width, r->name, r->why_not);
    return;
  }
  const char *bytes = show_bytes(a, r->bytes), *joules = "-";
  if (r->energy.known)
    joules = arena_printf(a, "%s%s", r->energy.at_most ? "<" : "", tool_joules_text(a, r->energy.joules));
  printf("  %-*s %10s %12s %10s %10s %10s%s%s  %s\n", width, r->name, show_seconds(a, r->seconds),
         r->counted ? arena_printf(a, "~%s", bytes) : bytes,
         isnan(r->usd_per_hour) ? "-" : arena_printf(a, "%.2f", r->usd_per_hour), usd_text(a, r->usd_per_step), joules,
         run_text(a, &r->run), r->goal ? arena_printf(a, " %20s", r->goal) : "", r->choice);
}

/* Lists the targets without a price of the requested kind. */
static void show_unpriced(Arena *a, const Row *rows, size_t n) {
  Text names = {.arena = a};
  const char *kind = NULL;
  for (size_t i = 0; i < n; i++) {
    if (!rows[i].choice || !isnan(rows[i].usd_per_hour)) continue;
    text_printf(&names, "%s%s", kind ? ", " : "", rows[i].name), kind = rows[i].price;
  }
  if (kind) printf("\n  no %s price is known for %s\n", kind, text_str(&names));
}

static void show_rows(Tool *t, const char *path, const Row *rows, size_t n) {
  const bool runs = option_given(&t->options, OPT_tokens) || option_given(&t->options, OPT_hours);
  const char *goal = NULL;
  int width = (int)strlen("target");
  for (size_t i = 0; i < n; i++)
    width = (int)fmax(width, (double)strlen(rows[i].name)), goal = rows[i].goal ? rows[i].goal : goal;
  printf("%s on %zu targets\n\n", path, n);
  printf("  %-*s %10s %12s %10s %10s %10s%s%s  %s\n", width, "target", "step", "per rank", "USD/hour", "USD/step",
         "energy", runs ? arena_printf(t->arena, " %10s %12s", "days", "USD") : "",
         goal ? arena_printf(t->arena, " %20s", "objective") : "", "plan");
  for (size_t i = 0; i < n; i++) show_row(t, &rows[i], width);
  show_unpriced(t->arena, rows, n);
  printf("\n  energy: of a step; < at most, all devices at full power; ~ as the search counts\n");
}

static json_t *row_json(const Row *r) {
  if (!r->document)
    return json_pack("{s:{s:o}, s:o, s:i}", "target", "name", json_text(r->name), "why_not", json_text(r->why_not),
                     "exit_code", r->code);
  json_object_set_new(r->document, "joules_per_step", tool_json_real(r->energy.joules));
  return r->document;
}

static void show_all(Tool *t, const char *path, const Row *rows, size_t n) {
  if (!t->json) {
    show_rows(t, path, rows, n);
    return;
  }
  json_t *list = json_array();
  for (size_t i = 0; i < n; i++) json_array_append_new(list, row_json(&rows[i]));
  tool_json(t, json_pack("{s:s, s:o, s:o}", "schema", "apc.plans/1", "model", json_text(path), "targets", list));
}

/* Refuses options that write files, as each target would overwrite them. */
static bool writes_nothing(Tool *t) {
  static const OptionId writing[] = {OPT_emit,    OPT_save_plan, OPT_save_temps, OPT_asm, OPT_plan,
                                     OPT_compare, OPT_pin,       OPT_what_if,    OPT_why, OPT_step_time};
  for (size_t i = 0; i < sizeof writing / sizeof *writing; i++)
    if (option_given(&t->options, writing[i]))
      return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "%s needs one target, not several",
                        option_rows[writing[i]].flag);
  return true;
}

int tool_plan_targets(Tool *t, const char *path) {
  struct {
    Row *items;
    size_t n, cap;
  } rows = {0};
  bool any = false;
  if (!writes_nothing(t)) return tool_failed(t->diags);
  for (const char *p = targets_text(t); *p && !t->stopped;) {
    size_t n = strcspn(p, ",");
    if (!n)
      return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--target %s: a name between commas is empty",
                        targets_text(t)),
             tool_failed(t->diags);
    Row row = plan_on(t, path, arena_strndup(t->arena, p, n));
    if (row.wrong) return row.code;
    ARENA_PUSH(t->arena, &rows, row);
    any |= row.choice != NULL;
    p += n + (p[n] == ',' && p[n + 1]); /* after a trailing comma the last name is empty */
  }
  show_all(t, path, rows.items, rows.n);
  return any ? EXIT_OK : rows.items[0].code;
}
