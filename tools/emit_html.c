/* tools/emit_html.c - see emit_html.h.
 *
 * One file without scripts or references: tables as HTML, the graph as SVG beside the table of operations, one row per
 * operation in order, an arc per use of a value.  Red arcs change the layout (by communication or slicing), dashed ones
 * cross stages.
 */
#include "tools/emit_html.h"

#include <math.h>

#include "ir/layout/rule.h"
#include "tools/emit_dot.h"
#include "tools/plan_report.h"

enum { ROW = 20, ARCS = 150 }; /* pixels: height of a row, width of the graph */

typedef struct Page {
  Tool *t;
  const Build *b;
  const Rule **rules;
  Text *out;
  int *rows; /* by operation: its row; -1 if not shown */
  int nrows;
} Page;

static void escaped(Text *out, const char *text) {
  for (const char *s = text_shown(out->arena, text); *s; s++) {
    if (*s == '<') text_add(out, "&lt;");
    else if (*s == '>') text_add(out, "&gt;");
    else if (*s == '&') text_add(out, "&amp;");
    else if (*s == '"') text_add(out, "&quot;");
    else text_addn(out, s, 1);
  }
}

static void cell(Text *out, const char *s) {
  text_add(out, "<td>");
  escaped(out, s);
  text_add(out, "</td>");
}

static void head(const Page *p) {
  text_add(p->out,
           "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" "
           "content=\"width=device-width\">\n<title>");
  escaped(p->out, p->b->model.path);
  text_add(
      p->out,
      "</title>\n<style>\nbody { font: 14px/1.45 sans-serif; margin: 2em; color: #202124; background: #fff }\n"
      "table { border-collapse: collapse } td, th { text-align: left; padding: 1px 12px 1px 0; white-space: nowrap }\n"
      ".n { text-align: right } .bar { background: #1a73e8; height: 10px } .graph { display: flex; overflow-x: auto "
      "}\n");
  text_printf(p->out,
              ".graph tr { height: %dpx } .graph td { padding-top: 0; padding-bottom: 0; line-height: %dpx; font-size: "
              "12px }\n",
              ROW, ROW - 2);
  text_add(p->out, "h2 { font-size: 16px; margin-top: 2em } .odd { background: #f1f3f4 }\n</style></head><body>\n");
}

static void summary(const Page *p) {
  const Plan *plan = p->b->plan;
  Arena *a = p->t->arena;
  text_add(p->out, "<h1>");
  escaped(p->out, arena_printf(a, "%s on %s", p->b->model.path, p->b->options.target->name));
  text_add(p->out, "</h1>\n<p>");
  escaped(
      p->out,
      arena_printf(a, "%s parameters, %s%s%s; lower bound %s, gap %.1f %%", show_count(a, p->b->params),
                   show_scaled(a, plan->flops, "FLOP"), *model_hints_text(p->t->arena, &p->b->model) ? " with " : "",
                   model_hints_text(p->t->arena, &p->b->model), show_seconds(a, plan->lower_bound), plan->gap * 100));
  text_add(p->out, "</p>\n");
}

static void choice(const Page *p, const char *what, const char *degrees, const char *time, const char *bytes) {
  text_add(p->out, "<tr>");
  cell(p->out, what);
  cell(p->out, degrees);
  cell(p->out, time);
  cell(p->out, bytes);
  text_add(p->out, "</tr>\n");
}

static void choices(const Page *p) {
  const Plan *plan = p->b->plan;
  Arena *a = p->t->arena;
  text_add(p->out, "<h2>Choices</h2>\n<table><tr><th></th><th></th><th>time</th><th>largest rank</th></tr>\n");
  choice(p, "chosen", tool_degrees_text(a, plan->degree, plan->micro_batches), show_seconds(a, plan->price.time.total),
         show_bytes(a, plan_memory(plan)->total));
  for (int i = 0; i < plan->nalternatives; i++) {
    const PlanAlternative *x = &plan->alternatives[i];
    bool possible = isfinite(x->seconds);
    choice(p,
           x->named ? "compared"
           : i      ? ""
                    : "instead",
           tool_degrees_text(a, x->degree, x->micro_batches),
           possible     ? show_seconds(a, x->seconds)
           : x->why_not ? x->why_not
                        : "not possible",
           possible ? tool_bytes_text(a, x) : "");
  }
  choice(p, "", "one device", one_device_text(a, plan), "");
  text_add(p->out, "</table>\n");
}

static void bars(const Page *p, const char *title, const Share *shares, int n, double total, bool seconds) {
  text_printf(p->out, "<h2>%s</h2>\n<table>\n", title);
  for (int i = 0; i < n; i++) {
    double part = total > 0 ? shares[i].value / total : 0;
    text_printf(p->out,
                "<tr><td>%s</td><td class=\"n\">%s</td><td><div class=\"bar\" style=\"width:%.0fpx\"></div></td><td "
                "class=\"n\">%.0f %%</td></tr>\n",
                shares[i].name,
                seconds ? show_seconds(p->t->arena, shares[i].value) : show_bytes(p->t->arena, shares[i].value),
                part * 300, part * 100);
  }
  text_add(p->out, "</table>\n");
}

/* ---- the graph */

static void number_rows(Page *p) {
  const Func *f = p->b->l1;
  p->rows = ARENA_ARRAY(p->t->arena, int, f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++) p->rows[i] = tool_graph_shows(&f->ops.items[i]) ? p->nrows++ : -1;
}

static void arc(const Page *p, const GraphEdge *e) {
  int from = p->rows[e->from] * ROW + ROW / 2, to = p->rows[e->to] * ROW + ROW / 2,
      span = p->rows[e->to] - p->rows[e->from];
  double width = 12 * sqrt(span > 0 ? span : 1);
  if (width > ARCS - 20) width = ARCS - 20;
  text_printf(p->out, "<path d=\"M%d %d C%.0f %d %.0f %d %d %d\" fill=\"none\" stroke=\"%s\"%s><title>", ARCS - 6, from,
              ARCS - width, from, ARCS - width, to, ARCS - 6, to, e->changes ? "#c5221f" : "#9aa0a6",
              e->crosses ? " stroke-dasharray=\"4 3\"" : "");
  escaped(p->out, p->b->l1->ops.items[e->from].name);
  text_add(p->out, " to ");
  escaped(p->out, p->b->l1->ops.items[e->to].name);
  if (e->changes) {
    Text layouts = {.arena = p->t->arena};
    text_add(&layouts, ": ");
    layout_print(p->b->model.m, &layouts, e->made);
    text_add(&layouts, " to ");
    layout_print(p->b->model.m, &layouts, e->wanted);
    escaped(p->out, text_str(&layouts));
  }
  text_add(p->out, "</title></path>\n");
}

static void arcs(const Page *p) {
  const Func *f = p->b->l1;
  GraphEdge e;
  text_printf(p->out, "<svg width=\"%d\" height=\"%d\" style=\"margin-top:%dpx; flex:none\">\n", ARCS, p->nrows * ROW,
              ROW);
  for (size_t i = 0; i < f->ops.n; i++)
    for (int k = 0; p->rows[i] >= 0 && k < f->ops.items[i].nin; k++)
      if (tool_graph_edge(p->b->model.m, f, p->b->plan, p->rules, i, k, &e)) arc(p, &e);
  for (size_t i = 0; i < f->ops.n; i++)
    if (p->rows[i] >= 0)
      text_printf(p->out, "<circle cx=\"%d\" cy=\"%d\" r=\"3\" fill=\"#1a73e8\"/>\n", ARCS - 6,
                  p->rows[i] * ROW + ROW / 2);
  text_add(p->out, "</svg>\n");
}

static void operation(const Page *p, size_t i) {
  Module *m = p->b->model.m;
  const Op *op = &p->b->l1->ops.items[i];
  const Strategy *s = &p->b->plan->strategies[i];
  Text type = {.arena = p->t->arena}, strategy = {.arena = p->t->arena}, layout = {.arena = p->t->arena};
  for (int k = 0; k < op->nout; k++) {
    if (k) text_add(&type, ", "), text_add(&layout, ", ");
    type_print(m, &type, type_of(p->b->l1, op->out + (Val)k));
    layout_print(m, &layout, strategy_result(m, p->rules[i], s, k));
  }
  if (s->n) strategy_print(&m->mesh, &strategy, p->rules[i], s);
  text_printf(p->out, "<tr%s>", p->b->plan->stages[i] % 2 ? " class=\"odd\"" : "");
  cell(p->out, op->name);
  cell(p->out, op_name(op->kind));
  cell(p->out, text_str(&type));
  cell(p->out, arena_printf(p->t->arena, "%d", p->b->plan->stages[i]));
  cell(p->out, text_str(&strategy));
  cell(p->out, text_str(&layout));
  text_add(p->out, "</tr>\n");
}

static void graph(const Page *p) {
  text_printf(p->out, "<h2>Graph: %d operations in %d stage%s</h2>\n", p->nrows, p->b->plan->mesh.stages,
              p->b->plan->mesh.stages == 1 ? "" : "s");
  text_add(p->out,
           "<p>Red: the layout changes, by communication or by slicing. Dashed: to another stage. Constants and sizes "
           "are left out.</p>\n<div class=\"graph\">\n");
  arcs(p);
  text_add(
      p->out,
      "<table><tr><th>operation</th><th>kind</th><th>type</th><th>stage</th><th>strategy</th><th>layout</th></tr>\n");
  for (size_t i = 0; i < p->b->l1->ops.n; i++)
    if (p->rows[i] >= 0) operation(p, i);
  text_add(p->out, "</table>\n</div>\n");
}

void html_print(Tool *t, const Build *b, Text *out) {
  Page p = {t, b, ARENA_ARRAY(t->arena, const Rule *, b->l1->ops.n), out, NULL, 0};
  Share time[TIME_SHARES], memory[MEMORY_SHARES];
  for (size_t i = 0; i < b->l1->ops.n; i++) p.rules[i] = rule_of(b->model.m, b->l1, &b->l1->ops.items[i]);
  number_rows(&p);
  tool_time_shares(&b->plan->price.time, time);
  int nmemory = tool_memory_shares(plan_memory(b->plan), memory);
  head(&p);
  summary(&p);
  choices(&p);
  bars(&p, "Time (busiest stage)", time, TIME_SHARES, b->plan->price.time.total, true);
  bars(&p, "Memory (largest rank)", memory, nmemory, plan_memory(b->plan)->total, false);
  graph(&p);
  text_add(out, "</body></html>\n");
}
