/* tools/html_page.h - the parts of the page of a plan (emit_html.c), as JSON for the script of tools/report.html.
 *
 * Names of the user are safe to show (text_shown), figures are rounded by the writer, equal plans give equal JSON.
 */
#ifndef APC_TOOLS_HTML_PAGE_H
#define APC_TOOLS_HTML_PAGE_H

#include "passes/cost/ledger.h"
#include "tools/build.h"
#include "tools/plan_fold.h"

typedef struct HtmlPage {
  Tool *t;
  Arena *arena;
  const Build *b;
  const Rule **rules; /* by operation */
  CostModel *cost;
  const PlanLedger *ledger; /* NULL for joint functions (ir/joint.h), which have no price per operation */
} HtmlPage;

/* html_layers.c: the operations in groups (plan_fold.h), with layouts, prices and communication. */
json_t *html_layers(const HtmlPage *p);

/* html_time.c: the calls of every place of the pipeline in the order of the schedule; null without a ledger. */
json_t *html_timeline(const HtmlPage *p);
/* html_memory.c: memory of the largest rank while one micro-batch passes through it; null without a ledger. */
json_t *html_memory(const HtmlPage *p);
/* html_choices.c: the plan and its alternatives, the plan first. */
json_t *html_choices(const HtmlPage *p);

/* html_hardware.c: the time of the plan if one figure of the target were better. */
json_t *html_hardware(const HtmlPage *p);
/* The plan for twice the batch: time, throughput, memory; null if the batch cannot change. */
json_t *html_batch(const HtmlPage *p);

/* A text of the user as JSON. */
json_t *html_text(const HtmlPage *p, const char *text);

#endif
