/* tools/emit_html.c - see emit_html.h.
 *
 * tools/report.html is the page, with a place for its title, for a summary in plain tables, which is all that shows
 * without scripts, and for one JSON document, from which its script draws the rest.
 */
#include "tools/emit_html.h"

#include <math.h>
#include <string.h>

#include "base/json_text.h"
#include "driver/products.h"
#include "tools/command_line.h"
#include "tools/html_page.h"
#include "tools/plan_goal.h"
#include "tools/plan_report.h"
#include "tools/plan_run.h"

extern const char report_html[], report_css[], report_js[],
    report_charts_js[]; /* tools/report.html and what it has places for */

json_t *html_text(const HtmlPage *p, const char *text) { return json_text(text_shown(p->arena, text)); }

/* ---- the summary */

static void add_escaped(Text *out, const char *text) {
  for (const char *s = text_utf8(out->arena, text_shown(out->arena, text)); *s; s++) {
    if (*s == '<') text_add(out, "&lt;");
    else if (*s == '>') text_add(out, "&gt;");
    else if (*s == '&') text_add(out, "&amp;");
    else if (*s == '"') text_add(out, "&quot;");
    else text_addn(out, s, 1);
  }
}

static void add_row(Text *out, const char *cell, int n, const char *const *texts) {
  text_add(out, "<tr>");
  for (int i = 0; i < n; i++) {
    text_printf(out, "<%s>", cell);
    add_escaped(out, texts[i]);
    text_printf(out, "</%s>", cell);
  }
  text_add(out, "</tr>\n");
}

static void add_title(Text *out, const char *text) {
  text_add(out, "<h2>");
  add_escaped(out, text);
  text_add(out, "</h2>\n");
}

static void add_shares(const HtmlPage *p, Text *out, const char *title, const Share *shares, int n, double total,
                       const char *(*show)(Arena *, double)) {
  add_title(out, title);
  text_add(out, "<table>\n");
  for (int i = 0; i < n; i++) {
    const char *part = arena_printf(p->arena, "%.0f %%", total > 0 ? 100 * shares[i].value / total : 0);
    add_row(out, "td", 3, (const char *[]){shares[i].name, show(p->arena, shares[i].value), part});
  }
  text_add(out, "</table>\n");
}

static void add_choices(const HtmlPage *p, Text *out, const json_t *choices) {
  size_t i;
  json_t *x;
  add_title(out, "Choices");
  text_add(out, "<table>\n");
  add_row(out, "th", 5, (const char *[]){"degrees", "time", "largest rank", "", "options"});
  json_array_foreach(choices, i, x) {
    const json_t *seconds = json_object_get(x, "seconds"), *bytes = json_object_get(x, "bytes");
    add_row(
        out, "td", 5,
        (const char *[]){json_string_value(json_object_get(x, "text")),
                         json_is_null(seconds) ? "" : show_seconds(p->arena, json_number_value(seconds)),
                         json_is_null(bytes) ? "" : show_bytes(p->arena, json_number_value(bytes)),
                         json_string_value(json_object_get(x, "why")), json_string_value(json_object_get(x, "flags"))});
  }
  add_row(out, "td", 5, (const char *[]){"one device", one_device_text(p->arena, p->b->plan), "", "", ""});
  text_add(out, "</table>\n");
}

static void add_hardware(const HtmlPage *p, Text *out, const json_t *hardware) {
  size_t i;
  json_t *x;
  add_title(out, "The same plan on other hardware");
  text_add(out, "<table>\n");
  json_array_foreach(hardware, i, x) {
    const double saves = json_number_value(json_object_get(x, "saves"));
    add_row(out, "td", 4,
            (const char *[]){json_string_value(json_object_get(x, "text")),
                             show_seconds(p->arena, json_number_value(json_object_get(x, "seconds"))),
                             arena_printf(p->arena, "%+.1f %%", saves > 0 ? -100 * saves : 0.0),
                             json_string_value(json_object_get(x, "what"))});
  }
  text_add(out, "</table>\n");
}

static void add_batch(Text *out, const json_t *batch) {
  if (json_is_null(batch)) return;
  const char *memory = json_string_value(json_object_get(batch, "memory"));
  add_title(out, "The same plan with a batch twice as large");
  text_add(out, "<table>\n");
  add_row(out, "td", 3,
          (const char *[]){json_string_value(json_object_get(batch, "text")),
                           json_string_value(json_object_get(batch, "why")), memory ? memory : ""});
  text_add(out, "</table>\n");
}

static const char *summary_of(const HtmlPage *p, const json_t *head, const json_t *choices, const json_t *hardware,
                              const json_t *batch) {
  const Plan *plan = p->b->plan;
  Text out = {.arena = p->arena};
  Share time[TIME_SHARES], memory[MEMORY_SHARES];
  const char *key;
  json_t *facts = json_object_get(head, "facts"), *value;
  text_add(&out, "<table>\n");
  json_object_foreach(facts, key, value) add_row(&out, "td", 2, (const char *[]){key, json_string_value(value)});
  text_add(&out, "</table>\n");
  tool_time_shares(&plan->price.time, time);
  const int n = tool_memory_shares(plan_memory(plan), memory);
  add_shares(p, &out, "Time of the busiest stage", time, TIME_SHARES, plan->price.time.total, show_seconds);
  add_shares(p, &out, "Memory of the largest rank", memory, n, plan_memory(plan)->total, show_bytes);
  add_choices(p, &out, choices);
  add_hardware(p, &out, hardware);
  add_batch(&out, batch);
  return text_str(&out);
}

/* ---- the head */

/* Facts in the order in which they are shown; those that are not known are left out. */
static json_t *facts_json(const HtmlPage *p) {
  Arena *a = p->arena;
  const Build *b = p->b;
  const Plan *plan = b->plan;
  const Target *g = b->options.target;
  const char *unit, *hints = model_hints_text(a, &b->model);
  const double seconds = tool_step_seconds(b), each = tool_seen_in_step(b, &unit), peak = target_peak(g),
               usd = tool_usd_per_hour(b);
  json_t *o = json_object();
  const PlanAlternative own = plan_as_alternative(a, plan);
  json_object_set_new(o, "model", html_text(p, b->model.path));
  json_object_set_new(o, "target", html_text(p, arena_printf(a, "%s: %s", g->name, tool_target_line(a, g))));
  json_object_set_new(o, "plan", html_text(p, tool_choice_text(a, plan, &own)));
  if (plan->price.memory.trains) {
    json_object_set_new(o, "schedule", json_string(plan_schedule_name(a, plan)));
    json_object_set_new(o, "recomputation", json_string(plan->recompute));
  }
  json_object_set_new(o, "time", json_string(show_seconds(a, plan->price.time.total)));
  json_object_set_new(o, "rate", json_string(arena_printf(a, "%s %s/s", show_scaled(a, each / seconds, ""), unit)));
  json_object_set_new(o, "model FLOP utilisation",
                      json_string(arena_printf(a, "%.1f %%", 100 * driver_model_flops(b) / seconds / peak)));
  json_object_set_new(o, "memory per rank",
                      json_string(arena_printf(a, "%s of %s", show_bytes(a, plan_memory(plan)->total),
                                               show_bytes(a, plan_memory_limit(g, b->options.plan.memory_limit)))));
  if (!isnan(usd))
    json_object_set_new(o, "cost",
                        json_string(arena_printf(a, "%.2f USD an hour, %.3g USD a million %s", usd,
                                                 usd * seconds / 3600 / each * 1e6, unit)));
  json_object_set_new(o, "parameters", json_string(show_count(a, b->params)));
  json_object_set_new(o, "arithmetic", json_string(show_scaled(a, plan->flops, "FLOP")));
  if (*hints) json_object_set_new(o, "sizes", html_text(p, hints));
  json_object_set_new(o, "one device", json_string(one_device_text(a, plan)));
  json_object_set_new(
      o, "lower bound",
      json_string(arena_printf(a, "%s, gap %.1f %%", show_seconds(a, plan->lower_bound), plan->gap * 100)));
  return o;
}

static json_t *chips_json(const HtmlPage *p) {
  const Plan *plan = p->b->plan;
  json_t *list = json_array();
  for (int i = 0; i < DEGREE_COUNT; i++) {
    const Degree d = degrees_listed[i];
    json_array_append_new(list, json_pack("[s, i]", degree_names[d], plan->degree[d]));
  }
  return list;
}

/* The path without its folders; facts and command have it whole. */
static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static json_t *head_json(const HtmlPage *p) {
  const Plan *plan = p->b->plan;
  const Target *g = p->b->options.target;
  Share time[TIME_SHARES], memory[MEMORY_SHARES];
  json_t *times = json_array(), *memories = json_array();
  tool_time_shares(&plan->price.time, time);
  const int n = tool_memory_shares(plan_memory(plan), memory);
  for (int i = 0; i < TIME_SHARES; i++) json_array_append_new(times, json_pack("[s, f]", time[i].name, time[i].value));
  for (int i = 0; i < n; i++) json_array_append_new(memories, json_pack("[s, f]", memory[i].name, memory[i].value));
  return json_pack("{s:o, s:o, s:o, s:o, s:i, s:i, s:i, s:b, s:f, s:f, s:f, s:f, s:o, s:o}", "title",
                   html_text(p, arena_printf(p->arena, "%s on %s", file_name(p->b->model.path), g->name)), "command",
                   html_text(p, tool_command_line(p->t)), "facts", facts_json(p), "degrees", chips_json(p), "zero",
                   plan->zero, "micro_batches", plan->micro_batches, "stages", plan->mesh.stages, "trains",
                   plan->price.memory.trains, "seconds", plan->price.time.total, "limit",
                   plan_memory_limit(g, p->b->options.plan.memory_limit), "capacity", g->memory_bytes, "bytes",
                   plan_memory(plan)->total, "time", times, "memory", memories);
}

/* ---- the page */

/* Adds the document in one line.  "<" does not occur in it, so that no text in it ends the script's element. */
static void add_json(Text *out, json_t *document) {
  char *text = json_dumps(document, JSON_COMPACT | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(5));
  for (const char *s = text; *s;) {
    const size_t n = strcspn(s, "<");
    text_addn(out, s, n);
    s += n;
    if (*s) text_add(out, "\\u003c"), s++;
  }
  free(text);
}

static void add_page(Text *out, const char *title, const char *summary, json_t *document) {
  for (const char *s = report_html; *s;) {
    const char *place = strstr(s, "{{");
    text_addn(out, s, place ? (size_t)(place - s) : strlen(s));
    if (!place) return;
    s = strstr(place, "}}") + 2;
    if (strncmp(place, "{{title", 7) == 0) add_escaped(out, title);
    else if (strncmp(place, "{{summary", 9) == 0) text_add(out, summary);
    else if (strncmp(place, "{{data", 6) == 0) add_json(out, document);
    else if (strncmp(place, "{{style", 7) == 0) text_add(out, report_css);
    else if (strncmp(place, "{{script", 8) == 0) text_add(out, report_js);
    else if (strncmp(place, "{{charts", 8) == 0) text_add(out, report_charts_js);
  }
}

void html_print(Tool *t, const Build *b, Text *out) {
  Module *m = b->model.m;
  HtmlPage p = {t, t->arena, b, rules_of(m, b->l1), cost_model_new(m, b->options.target), NULL};
  PlanLedger ledger;
  if (!b->l1->joint) {
    ledger = cost_plan_ledger(t->arena, p.cost, m, b->l1, p.rules, b->plan->strategies, b->plan->stages);
    p.ledger = &ledger;
  }
  json_t *head = head_json(&p), *choices = html_choices(&p), *hardware = html_hardware(&p), *batch = html_batch(&p);
  const char *summary = summary_of(&p, head, choices, hardware, batch),
             *title = json_string_value(json_object_get(head, "title"));
  json_t *document = json_pack("{s:s, s:O, s:o, s:o, s:o, s:o, s:o, s:o}", "schema", "apc.report/1", "head", head,
                               "choices", choices, "hardware", hardware, "batch", batch, "timeline", html_timeline(&p),
                               "memory", html_memory(&p), "layers", html_layers(&p));
  add_page(out, title, summary, document);
  json_decref(head);
  json_decref(document);
  cost_model_free(p.cost);
}
