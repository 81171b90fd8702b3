/* tools/cmd_plan.c - apc plan MODEL: chooses the plan and shows it; writes only the files of --save-plan and --emit. */
#include <string.h>

#include "tools/command_line.h"
#include "tools/emit.h"
#include "tools/plan_questions.h"
#include "tools/plan_ranks.h"
#include "tools/plan_report.h"
#include "tools/plan_run.h"
#include "tools/plan_targets.h"
#include "tools/plan_why.h"

static bool emits_only_text(Tool *t, const EmitList *l) {
  if (!tool_emit_wants(l, EMIT_EXE)) return true;
  return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "`apc plan` makes no program; `apc compile` does");
}

static bool to_stdout(const EmitList *l) {
  for (size_t i = 0; i < l->n; i++)
    if (strcmp(l->items[i].file, "-") == 0) return true;
  return false;
}

/* Answers to --why and --what-if. */
typedef struct Answers {
  WhatIfs what_if;
  Whys whys;
  PinPrices pins;
} Answers;

static bool answer(Tool *t, Build *b, Answers *x) {
  bool searches = b->options.plan.npins || x->what_if.n;
  const double as_is = searches ? tool_seconds_as_is(t, b) : 0;
  x->pins = tool_pin_prices(t, b, as_is);
  tool_what_if(t, b, as_is, &x->what_if);
  return tool_why(t, b, &x->whys);
}

/* Ends the text with what can be done with the plan: open its page, or make it. */
static void show_next(Tool *t, const Build *b, const EmitList *l) {
  Text line = {.arena = t->arena};
  if (t->quiet) return;
  text_add(&line, "open");
  for (size_t i = 0; i < l->n; i++)
    if (l->items[i].kind == EMIT_HTML) tool_add_word(&line, l->items[i].file);
  if (!tool_emit_wants(l, EMIT_HTML)) {
    line = (Text){.arena = t->arena};
    text_add(&line, tool_command_line(t));
    tool_add_word(&line, arena_printf(t->arena, "--emit=html=%s.html", b->model.name));
  }
  printf("\nnext: %s\n", text_shown(t->arena, text_str(&line)));
}

static void show(Tool *t, const Build *b, const Answers *x, const EmitList *l) {
  const RunFigures run = tool_run_figures(t, b);
  tool_plan_show(t, b);
  tool_ranks_show(t, b);
  tool_run_show(t, b->options.target, &run);
  tool_pins_show(t, b, &x->pins);
  tool_what_if_show(t, b->plan, &x->what_if);
  tool_why_show(t, b, &x->whys);
  show_next(t, b, l);
}

static void print_json(Tool *t, const Build *b, const Answers *x) {
  json_t *document = tool_plan_json(t, b);
  if (tool_ranks_differ(b)) json_object_set_new(document, "ranks", tool_ranks_json(t, b));
  if (b->options.plan.npins) json_object_set_new(document, "pins", tool_pins_json(b, &x->pins));
  if (x->what_if.n) json_object_set_new(document, "what_if", tool_what_if_json(&x->what_if));
  if (x->whys.n) json_object_set_new(document, "why", tool_why_json(t, b, &x->whys));
  tool_json(t, document);
}

int cmd_plan(Tool *t) {
  if (!tool_args(t, 1, 1)) return EXIT_USAGE;
  const char *path = t->options.args.items[0];
  EmitList list;
  Answers x = {0};
  if (!tool_run_check(t)) return tool_failed(t->diags);
  if (tool_several_targets(t)) return tool_plan_targets(t, path);
  if (!tool_emit_list(t, model_name(t->arena, path), NULL, &list) || !emits_only_text(t, &list))
    return tool_failed(t->diags);
  const Target *target = tool_target(t);
  if (!target || !tool_emit_check_target(t, target, &list) || !tool_what_if_read(t, target, &x.what_if))
    return tool_failed(t->diags);
  Build b;
  bool ok = tool_load(t, path, target, &b) && tool_plan_shown(t, &b) &&
            (!tool_emit_needs_lowering(&list) || driver_run(&b, DRIVER_lower)) && tool_emit_write(t, &b, &list);
  ok = ok && answer(t, &b, &x);
  tool_stages_end(t);
  if (ok && option_given(&t->options, OPT_json)) print_json(t, &b, &x);
  else if (ok && !to_stdout(&list)) show(t, &b, &x, &list);
  driver_free(&b);
  return ok ? EXIT_OK : tool_failed(t->diags);
}
