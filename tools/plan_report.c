/* tools/plan_report.c - see plan_report.h. */
#include "tools/plan_report.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/json_text.h"
#include "driver/micro_batch.h"
#include "ir/schedule.h"
#include "driver/replicas.h"
#include "tools/plan_entries.h"
#include "tools/plan_goal.h"
#include "tools/plan_run.h"
#include "tools/target_report.h"

enum { SHOWN_ALTERNATIVES = 4, BAR = 8 };
#define NO_FASTER 1.005 /* a smaller speedup counts as none */

const char *one_device_text(Arena *a, const Plan *p) {
  return isfinite(p->one_device_seconds) ? show_seconds(a, p->one_device_seconds) : "does not fit";
}

/* ---- shares of time and memory */

void tool_time_shares(const PlanTime *x, Share out[TIME_SHARES]) {
  out[0] = (Share){"compute", x->compute};
  out[1] = (Share){"memory-bound", x->memory_bound};
  out[2] = (Share){"collectives", x->collectives};
  out[3] = (Share){"transfers", x->transfers};
  out[4] = (Share){"idle", x->idle};
}

int tool_memory_shares(const PlanMemory *x, Share out[MEMORY_SHARES]) {
  MemoryShare shares[MEMORY_SHARES];
  int n = cost_memory_shares(x, shares);
  for (int i = 0; i < n; i++) out[i] = (Share){shares[i].name, shares[i].bytes};
  return n;
}

/* Returns a bar in eighths of a character, or in whole '#' without Unicode; padded to BAR columns. */
static const char *bar(const Tool *t, double fraction) {
  static const char *const eighths[] = {"", "▏", "▎", "▍", "▌", "▋", "▊", "▉"};
  Text text = {.arena = t->arena};
  int n = (int)lround(fraction * BAR * 8), columns = 0;
  if (t->unicode) {
    for (; columns < n / 8; columns++) text_add(&text, "█");
    if (n % 8) text_add(&text, eighths[n % 8]), columns++;
  } else {
    for (; columns < (n + 4) / 8; columns++) text_add(&text, "#");
  }
  for (; columns < BAR; columns++) text_add(&text, " ");
  return text_str(&text);
}

static const char *share_line(const Tool *t, const Share *s, double total, const char *value) {
  double fraction = total > 0 ? s->value / total : 0;
  return arena_printf(t->arena, "%-13s %10s %s %3.0f %%", s->name, value, bar(t, fraction), fraction * 100);
}

static void show_shares(const Tool *t, const Plan *p, const PlanMemory *m) {
  Share time[TIME_SHARES], memory[MEMORY_SHARES];
  const double total = plan_seconds(p); /* a full pipeline waits for its busiest stage only */
  PlanTime x = p->price.time;
  if (p->steady) x.idle = fmax(0, total * (1 - 1e-9) - x.compute - x.memory_bound - x.collectives - x.transfers);
  tool_time_shares(&x, time);
  int nmemory = tool_memory_shares(m, memory);
  printf("\n  %-41s    %s\n", "where the time goes (busiest stage)", "where the memory goes (largest rank)");
  for (int i = 0; i < TIME_SHARES || i < nmemory; i++) {
    if (i < TIME_SHARES) printf("  %s", share_line(t, &time[i], total, show_seconds(t->arena, time[i].value)));
    else printf("  %41s", "");
    if (i < nmemory) printf("    %s", share_line(t, &memory[i], m->total, show_bytes(t->arena, memory[i].value)));
    putchar('\n');
  }
}

/* ---- the table of choices */

const char *tool_choice_text(Arena *a, const Plan *p, const PlanAlternative *x) {
  const char *text = tool_degrees_text(a, x->degree, x->micro_batches);
  if (p->mirrored && x->degree[DEGREE_pp] > 1 && x->micro_batches > 1)
    text = arena_printf(a, "%s, %s", text, x->schedule);
  return x->zero ? arena_printf(a, "%s, zero %d", text, x->zero) : text;
}

const char *tool_bytes_text(Arena *a, const PlanAlternative *x) {
  return x->counted ? arena_printf(a, "about %s", show_bytes(a, x->bytes)) : show_bytes(a, x->bytes);
}

static void show_row(const Tool *t, const Plan *p, const PlanAlternative *x, const char *head, const char *text) {
  printf("  %-8s %-28s ", head, text);
  if (!isfinite(x->seconds)) {
    printf("%s\n", x->why_not ? x->why_not : "not possible");
    return;
  }
  printf("%10s  %+5.0f %%  %10s\n", show_seconds(t->arena, x->seconds), (x->seconds / p->price.time.total - 1) * 100,
         tool_bytes_text(t->arena, x));
}

const char *one_device_name(Arena *a, const Target *g) {
  return g->ranks > 1 && strncmp(g->name, "cpux", 4) == 0 ? arena_printf(a, "one device: a rank of %s", g->name)
                                                          : "one device";
}

/* True if an alternative is faster than one device; a plan from a file may not be. */
static bool others_help(const Plan *p) {
  for (int i = 0; i < p->nalternatives; i++)
    if (p->one_device_seconds / p->alternatives[i].seconds > NO_FASTER) return true;
  return false;
}

/* Prints the plans of --compare.  A plan that is not possible appears as written. */
static void show_named(const Tool *t, const Plan *p) {
  bool first = true;
  for (int i = 0; i < p->nalternatives; i++) {
    const PlanAlternative *x = &p->alternatives[i];
    if (!x->named) continue;
    bool possible = isfinite(x->seconds);
    show_row(t, p, x, first ? "compared" : "", possible ? tool_choice_text(t->arena, p, x) : x->named);
    first = false;
  }
}

static void show_choices(const Tool *t, const Plan *p) {
  const PlanAlternative own = plan_as_alternative(t->arena, p);
  printf("\n  %-8s %-28s %10s  %7s  %10s per rank\n", "chosen", tool_choice_text(t->arena, p, &own),
         show_seconds(t->arena, p->price.time.total), "", tool_bytes_text(t->arena, &own));
  int most = t->verbose ? p->nalternatives : SHOWN_ALTERNATIVES, shown = 0, left = 0;
  for (int i = 0; i < p->nalternatives; i++) {
    const PlanAlternative *x = &p->alternatives[i];
    if (x->named) continue;
    if (shown == most) left++;
    else show_row(t, p, x, shown++ ? "" : "instead", tool_choice_text(t->arena, p, x));
  }
  if (left) printf("  %-8s and %d more (-v)\n", "", left);
  show_named(t, p);
  printf("  %-8s %-28s %10s", "", one_device_name(t->arena, p->on), one_device_text(t->arena, p));
  double ratio = p->one_device_seconds / p->price.time.total;
  if (p->ranks > 1 && isfinite(ratio))
    printf("  %s", ratio > NO_FASTER ? arena_printf(t->arena, "the plan is %.2f times as fast", ratio)
                   : others_help(p)  ? "this plan is no faster, but others are"
                                     : "more devices do not help here");
  putchar('\n');
  if (p->one_batch) printf("  one micro-batch, as %s\n", p->one_batch);
}

/* Prints the memory limit of a rank, unless it is the whole memory: "73.4 GiB per rank (74.5 GiB less 1.1 GiB
 * reserved)". */
static void show_limit(const Tool *t, const Build *b) {
  const Target *g = b->options.target;
  double asked = b->options.plan.memory_limit, limit = plan_memory_limit(g, asked);
  if (limit == g->memory_bytes) return;
  printf("  %-8s %s per rank (%s)\n", "limit", show_bytes(t->arena, limit),
         asked > 0 ? "--memory"
                   : arena_printf(t->arena, "%s less %s reserved", show_bytes(t->arena, g->memory_bytes),
                                  show_bytes(t->arena, g->reserve_bytes)));
}

/* Says which states live outside the memory of the devices, and where. */
static void show_away(const Tool *t, const Build *b) {
  const Offload away = offload_of(b->model.m);
  if (away == OFFLOAD_none) return;
  const Target *g = b->options.target;
  printf("  %-8s %s: %s per rank, %s, moved at %s/s in every step\n", "away", offload_name(away),
         show_bytes(t->arena, plan_memory(b->plan)->away),
         g->device->shared_memory ? "in a file" : "in the host's memory", show_bytes(t->arena, target_away(g)));
}

/* Says which plans the bound covers, and gives the bound without pipeline bubbles if it is lower. */
static const char *bounds_text(const Tool *t, const Plan *p) {
  const char *bound = show_seconds(t->arena, p->lower_bound);
  if (p->mirrored) bound = arena_printf(t->arena, "%s of mirrored plans", bound);
  if (p->layout) bound = arena_printf(t->arena, "%s with one mesh axis per degree", bound);
  if (p->no_gaps_bound < p->lower_bound)
    bound = arena_printf(t->arena, "%s with 1f1b, %s without gaps in pipelines", bound,
                         show_seconds(t->arena, p->no_gaps_bound));
  return arena_printf(t->arena, "lower bound %s, gap %.1f %%", bound, p->gap * 100);
}

static const char *goal_bounds_text(const Tool *t, const Build *b) {
  const GoalFigure x = tool_goal_figure(t->arena, b);
  const bool least = b->options.objective == OBJECTIVE_cost;
  return arena_printf(t->arena, "%s bound %s %s%s, gap %.1f %%", least ? "lower" : "upper",
                      tool_goal_text(t->arena, b, x.bound), x.unit, b->plan->mirrored ? " of mirrored plans" : "",
                      100 * x.gap);
}

/* Returns the target of the command line. */
static const Target *whole_target(const Build *b) { return b->replicas ? b->replicas->whole : b->options.target; }

/* Prints the comparison with the fastest plan, for a plan chosen for its memory. */
static void show_traded(const Tool *t, const Build *b) {
  const PlanTraded *x = b->plan->traded;
  Arena *a = t->arena;
  if (!x && b->options.objective == OBJECTIVE_memory)
    puts("  no memory was traded for time: the memory limit alone decides which plans are possible");
  if (!x) return;
  printf("  the least memory of plans up to %.0f %% slower than the fastest, which takes %s and about %s per rank\n",
         100 * x->slower, show_seconds(a, x->fastest), show_bytes(a, x->bytes));
  if (x->least > 0) printf("  none of them takes less than about %s\n", show_bytes(a, x->least));
}

static void show_price(const Tool *t, const Build *b) {
  const Target *g = b->options.target;
  const double usd = target_price(g)->usd_per_hour;
  if (!isnan(usd))
    printf("\n  %.2f USD an hour (%s), %.3g USD a step\n", tool_usd_per_hour(b), tool_price_text(t->arena, g),
           usd * tool_step_seconds(b) / 3600);
  else if (option_given(&t->options, OPT_price))
    printf("\n  the %s price of %s is not known: no cost\n", price_name(g->price), g->name);
}

/* Prints how much of the plan a partial plan file gives. */
static void show_said(const Tool *t, const Build *b) {
  const PlanSaid *x = b->options.plan.said;
  if (x)
    printf("  completes %s: %s of %s operations are given\n", x->source, show_count(t->arena, x->n),
           show_count(t->arena, (int64_t)b->l1->ops.n));
}

void tool_plan_show(Tool *t, const Build *b) {
  const Plan *p = b->plan;
  const char *hints = model_hints_text(t->arena, &b->model);
  const Target *g = whole_target(b);
  const char *figures = tool_target_figures(t->arena, g);
  printf("%s on %s: %s\n", b->model.path, g->name, tool_target_line(t->arena, g));
  if (figures) puts(figures);
  printf("%s parameters, %s%s%s\n", show_count(t->arena, b->params), show_scaled(t->arena, p->flops, "FLOP"),
         *hints ? " with " : "", hints);
  if (b->replicas) tool_goal_show_choices(t, b), tool_goal_show(t, b);
  else show_choices(t, p);
  tool_entries_show(t, b);
  show_said(t, b);
  show_traded(t, b);
  show_away(t, b);
  show_limit(t, b);
  show_shares(t, p, plan_memory(p));
  show_price(t, b);
  printf("\n  %s, found %s%s\n", b->replicas ? goal_bounds_text(t, b) : bounds_text(t, p),
         b->kept ? "by an earlier search (apc cache)"
                 : arena_printf(t->arena, "in %s", show_seconds(t->arena, p->search_seconds)),
         !p->cut_short                           ? ""
         : t->stopped                            ? ", cut short by a signal"
         : option_given(&t->options, OPT_effort) ? ", cut short by --effort"
                                                 : ", cut short: --effort SECONDS searches longer");
}

/* ---- JSON */

static json_t *integer_of(double v) { return json_integer((json_int_t)llround(v)); }

/* Returns the batch size of a micro-batch on one data-parallel rank. */
static int64_t micro_batch_size(const Build *b) {
  bool bound;
  int64_t batch = batch_size(b, planned_sizes(b), &bound);
  int64_t parts = (int64_t)b->plan->degree[DEGREE_dp] * b->plan->micro_batches;
  return batch / parts + (batch % parts != 0);
}

/* Returns the degrees by name, followed by the fields of `rest`; frees `rest`. */
static json_t *with_degrees(const int degree[DEGREE_COUNT], json_t *rest) {
  json_t *o = json_object();
  for (int i = 0; i < DEGREE_COUNT; i++) {
    Degree d = degrees_listed[i];
    json_object_set_new(o, degree_names[d], json_integer(degree[d]));
  }
  json_object_update(o, rest);
  json_decref(rest);
  return o;
}

static json_t *chosen_json(const Build *b) {
  const Plan *p = b->plan;
  return with_degrees(p->degree, json_pack("{s:i, s:I, s:i, s:s, s:s, s:s}", "zero", p->zero, "micro_batch",
                                           (json_int_t)micro_batch_size(b), "micro_batches", p->micro_batches,
                                           "schedule", plan_schedule_name(b->model.m->arena, p), "recompute",
                                           p->recompute, "offload", offload_name(offload_of(b->model.m))));
}

/* Memory by the class names shown to users. */
static json_t *classes_json(const PlanMemory *m) {
  MemoryShare shares[MEMORY_SHARES];
  json_t *o = json_object();
  for (int i = 0, n = cost_memory_shares(m, shares); i < n; i++)
    json_object_set_new(o, shares[i].name, integer_of(shares[i].bytes));
  return o;
}

/* In a training step `activations` are saved for gradients, `workspace` is transient. */
static json_t *memory_json(const PlanMemory *m) {
  return json_pack("{s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:o}", "params", integer_of(m->params + m->gathered), "grads",
                   integer_of(m->gradients), "optimizer", integer_of(m->trains ? m->state : 0), "activations",
                   integer_of(m->trains ? m->saved : m->activations), "state", integer_of(m->trains ? 0 : m->state),
                   "workspace", integer_of(m->trains ? m->activations : 0), "comm", integer_of(m->communication),
                   "away", integer_of(m->away));
}

/* Returns the memory of the largest rank of the program; null if unknown. */
static json_t *allocated_json(const Build *b) {
  const PlanMemory *m = b->plan->allocated;
  if (!m) return json_null();
  json_t *o = json_pack("{s:o, s:o, s:o, s:o, s:o}", "total", integer_of(m->total), "params", integer_of(m->params),
                        "state", integer_of(m->state), "activations",
                        integer_of(cost_memory_made(m) - m->communication), "comm", integer_of(m->communication));
  if (m->trains) json_object_set_new(o, "classes", classes_json(m));
  return o;
}

static json_t *alternatives_json(const Build *b) {
  const Plan *p = b->plan;
  json_t *array = json_array();
  for (int i = 0; i < p->nalternatives; i++) {
    const PlanAlternative *x = &p->alternatives[i];
    json_t *rest = json_pack(
        "{s:i, s:i, s:s, s:s, s:o, s:o, s:b, s:s?}", "zero", x->zero, "micro_batches", x->micro_batches, "schedule",
        x->schedule, "recompute", x->recompute, "time_us", tool_json_real(x->seconds * 1e6), "bytes_per_device",
        isfinite(x->seconds) ? integer_of(x->bytes) : json_null(), "estimate", x->counted, "why_not", x->why_not);
    if (x->named) json_object_set_new(rest, "compared", json_text(x->named));
    tool_goal_add_json(b, x, rest);
    json_array_append_new(array, with_degrees(x->degree, rest));
  }
  return array;
}

static json_t *dims_json(Tool *t, const Build *b) {
  json_t *o = json_object();
  const int *symbols;
  int n = model_dimensions(t->arena, &b->model, &symbols);
  for (int i = 0; i < n; i++) {
    const Symbol *s = &b->model.m->symbols.items[symbols[i]];
    json_set_text(o, s->name, json_integer(symbol_hint(s)));
  }
  return o;
}

/* Returns the cost of the ranks used; null without a price. */
static json_t *cost_json(const Build *b) {
  const Target *g = b->options.target;
  const TargetPrice *p = target_price(g);
  return json_pack("{s:o, s:o, s:s, s:o, s:o}", "usd_per_hour", tool_json_real(tool_usd_per_hour(b)), "usd_per_step",
                   tool_json_real(p->usd_per_hour * tool_step_seconds(b) / 3600), "price", price_name(g->price),
                   "terms", json_text(p->terms), "date", json_text(p->date));
}

static json_t *traded_json(const PlanTraded *x) {
  return json_pack("{s:s, s:f, s:f, s:o, s:o}", "minimises", "memory", "slower", x->slower, "fastest_us",
                   x->fastest * 1e6, "fastest_bytes", integer_of(x->bytes), "lower_bound_bytes",
                   x->least > 0 ? integer_of(x->least) : json_null());
}

json_t *tool_plan_json(Tool *t, const Build *b) {
  const Plan *p = b->plan;
  const Target *g = whole_target(b);
  const PlanTime *x = &p->price.time;
  const PlanMemory *y = plan_memory(p);
  json_t *breakdown =
      json_pack("{s:f, s:f, s:f, s:f, s:f, s:f}", "compute", x->compute * 1e6, "memory_bound",
                (x->memory_bound - x->optimizer) * 1e6, "collectives", x->collectives * 1e6, "pipeline_idle",
                x->idle * 1e6, "optimizer", x->optimizer * 1e6, "other", x->transfers * 1e6);
  json_t *memory = memory_json(y);
  json_t *o =
      json_pack("{s:s, s:o, s:{s:o, s:i, s:i}, s:o}", "schema", "apc.plan/1", "model", json_text(b->model.path),
                "target", "name", json_text(g->name), "gpus", g->ranks, "nodes", g->nodes, "chosen", chosen_json(b));
  json_object_set_new(o, "figures", tool_target_figures_json(g));
  json_object_set_new(o, "dims", dims_json(t, b));
  json_object_set_new(o, "time_us", json_real(x->total * 1e6));
  json_object_set_new(o, "time_one_device_us", tool_json_real(p->one_device_seconds * 1e6));
  json_object_set_new(o, "bytes_per_device", integer_of(y->total));
  json_object_set_new(o, "breakdown_us", breakdown);
  json_object_set_new(o, "memory_bytes", memory);
  json_object_set_new(o, "allocated_bytes", allocated_json(b));
  if (p->layout) json_object_set_new(o, "bound_of", json_string("one mesh axis per degree"));
  if (b->options.target->assumes) json_object_set_new(o, "assumed_kernels", json_true());
  json_object_set_new(o, "limit_bytes", integer_of(plan_memory_limit(b->options.target, b->options.plan.memory_limit)));
  json_object_set_new(o, "counted_bytes", integer_of(p->price.memory.total));
  json_object_set_new(o, "flops", integer_of(p->flops));
  json_object_set_new(o, "params", json_integer(b->params));
  json_object_set_new(o, "lower_bound_us", tool_json_real(p->lower_bound * 1e6));
  json_object_set_new(o, "gap", tool_json_real(p->gap));
  json_object_set_new(o, "lower_bound_without_gaps_us", tool_json_real(p->no_gaps_bound * 1e6));
  json_object_set_new(o, "searches", json_integer(b->searches));
  json_object_set_new(o, "search_ms", json_real(p->search_seconds * 1e3));
  if (b->kept) json_object_set_new(o, "kept", json_true());
  if (tool_has_entries(b)) json_object_set_new(o, "entries", tool_entries_json(b));
  const PlanSaid *said = b->options.plan.said;
  if (said)
    json_object_set_new(o, "completes",
                        json_pack("{s:o, s:i, s:I}", said->file ? "file" : "annotations", json_text(said->source),
                                  "said", said->n, "operations", (json_int_t)b->l1->ops.n));
  if (p->traded) json_object_set_new(o, "objective", traded_json(p->traded));
  if (b->replicas) json_object_set_new(o, "objective", tool_goal_json(b));
  json_object_set_new(o, "alternatives", alternatives_json(b));
  json_object_set_new(o, "cost", cost_json(b));
  json_object_set_new(o, "energy", tool_energy_json(b));
  const RunFigures run = tool_run_figures(t, b);
  if (run.asked) json_object_set_new(o, "run", tool_run_json(&run));
  return o;
}
