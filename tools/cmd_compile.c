/* tools/cmd_compile.c - apc [compile] MODEL: writes the forms that --emit asks for, by default the program. */
#include <string.h>

#include "base/json_text.h"
#include "tools/plan_goal.h"
#include "tools/emit.h"
#include "tools/plan_report.h"

static const char *written(Tool *t, const EmitList *l) {
  Text text = {.arena = t->arena};
  for (size_t i = 0; i < l->n; i++)
    text_printf(&text, "%s%s", i ? ", " : "",
                strcmp(l->items[i].file, "-") == 0 ? "standard output" : l->items[i].file);
  return text_str(&text);
}

static void finished(Tool *t, const Build *b, const EmitList *l) {
  tool_stages_end(t);
  const Plan *p = b->plan;
  if (!p) {
    tool_say(t, "Finished", "%s", written(t, l));
    return;
  }
  const char *plan = tool_degrees_text(t->arena, p->degree, p->micro_batches);
  tool_say(t, "Finished", "%s in %.1f s: %s%s, predicted %s%s (one device: %s), %s per rank", written(t, l),
           (tool_now_ms() - t->start_ms) / 1e3, plan, tool_goal_replicas_text(t->arena, b),
           show_seconds(t->arena, p->price.time.total), b->l1->joint ? " for all calls" : "",
           one_device_text(t->arena, p), show_bytes(t->arena, plan_memory(b->plan)->total));
}

/* The JSON document if no form needs a plan. */
static json_t *written_json(const char *path, const EmitList *l) {
  json_t *files = json_array();
  for (size_t i = 0; i < l->n; i++) json_array_append_new(files, json_text(l->items[i].file));
  return json_pack("{s:s, s:o, s:o}", "schema", "apc.compile/1", "model", json_text(path), "files", files);
}

int cmd_compile(Tool *t) {
  static const EmitKind exe = EMIT_EXE;
  if (!tool_args(t, 1, 1)) return EXIT_USAGE;
  const char *path = t->options.args.items[0];
  EmitList list;
  if (!tool_emit_list(t, model_name(t->arena, path), &exe, &list)) return tool_failed(t->diags);
  const Target *target = tool_target(t);
  if (!target || !tool_emit_check_target(t, target, &list)) return tool_failed(t->diags);
  Build b;
  bool shown = option_given(&t->options, OPT_json) || tool_emit_wants(&list, EMIT_HTML);
  bool ok = tool_load(t, path, target, &b) &&
            (!tool_emit_wants(&list, EMIT_EXE) || tool_can_compile(t, target->device)) &&
            (!tool_emit_needs_plan(&list) || (shown ? tool_plan_shown : tool_plan)(t, &b)) &&
            (!tool_emit_needs_lowering(&list) || driver_run(&b, DRIVER_lower)) && tool_emit_write(t, &b, &list);
  if (ok) finished(t, &b, &list);
  if (ok && option_given(&t->options, OPT_json))
    tool_json(t, b.plan ? tool_plan_json(t, &b) : written_json(path, &list));
  driver_free(&b);
  return ok ? EXIT_OK : tool_failed(t->diags);
}
