/* tools/cmd_targets.c - apc targets [show NAME|check FILE]. */
#include <string.h>

#include "base/json_text.h"
#include "base/nearest.h"
#include "frontend/topo/target.h"
#include "tools/target_report.h"

static int list_names(Tool *t) {
  if (option_given(&t->options, OPT_json)) {
    json_t *names = json_array();
    for (const char *const *n = topo_target_names(t->arena); *n; n++) json_array_append_new(names, json_text(*n));
    tool_json(t, json_pack("{s:s, s:o}", "schema", "apc.targets/1", "names", names));
    return EXIT_OK;
  }
  for (const char *const *n = topo_target_names(t->arena); *n; n++) puts(*n);
  return EXIT_OK;
}

static int list(Tool *t) {
  bool json = option_given(&t->options, OPT_json);
  json_t *array = json_array();
  if (!json) tool_target_table_head();
  for (const char *const *n = topo_target_names(t->arena); *n; n++) {
    const Target *g = topo_target_find(t->diags, t->arena, *n);
    if (!g) continue;
    if (json) json_array_append_new(array, tool_target_json(g));
    else tool_target_table_row(t->arena, *n, g);
  }
  if (json) tool_json(t, json_pack("{s:s, s:O}", "schema", "apc.targets/1", "targets", array));
  else
    puts(
        "\nNAMExN has N devices, on several machines if needed; cpuxN divides this machine's cores "
        "among N ranks; FILE.topo\n"
        "describes another machine (docs/guide/targets.md). '-' is unknown. Prices are of the whole machine; `apc "
        "targets "
        "show NAME` has terms and date.");
  json_decref(array);
  return EXIT_OK;
}

static int show(Tool *t, const char *name) {
  const char *text = tool_target_text(t, name);
  const Target *g = text ? tool_target_of(t, name) : NULL;
  if (!g) return tool_failed(t->diags);
  if (option_given(&t->options, OPT_json))
    tool_json(t, json_pack("{s:s, s:o}", "schema", "apc.target/1", "target", tool_target_json(g)));
  else printf("# %s: %s\n\n%s", name, tool_target_line(t->arena, g), text);
  return EXIT_OK;
}

static int check(Tool *t, const char *file) {
  if (!topo_target_is_read(t->arena, file)) {
    diag_error(t->diags, DIAG_model_kind, (Loc){.file = file},
               "`apc targets check` reads FILE.topo, FILE.xml, nvidia-smi:FILE and local");
    return EXIT_USAGE;
  }
  const Target *g = tool_target_of(t, file);
  if (!g) return tool_failed(t->diags);
  if (option_given(&t->options, OPT_json))
    tool_json(t, json_pack("{s:s, s:o}", "schema", "apc.target/1", "target", tool_target_json(g)));
  else {
    printf("%s: %s\n", file, tool_target_line(t->arena, g));
    for (int i = 0; g->notes && g->notes[i]; i++) printf("  %s\n", g->notes[i]);
  }
  return EXIT_OK;
}

int cmd_targets(Tool *t) {
  if (!tool_args(t, 0, 2)) return EXIT_USAGE;
  if (t->options.args.n == 0) return option_given(&t->options, OPT_names) ? list_names(t) : list(t);
  const char *word = t->options.args.items[0];
  bool is_show = strcmp(word, "show") == 0, is_check = strcmp(word, "check") == 0;
  if (!is_show && !is_check) {
    diag_error(t->diags, DIAG_usage_command, (Loc){0}, "`apc targets` takes show NAME or check FILE, not '%s'", word);
    Nearest near = nearest_to(word);
    nearest_try(&near, "show");
    nearest_try(&near, "check");
    if (near.best) diag_help(t->diags, "the nearest is '%s'", near.best);
    else diag_help(t->diags, "`apc targets` alone lists them");
    return EXIT_USAGE;
  }
  if (!tool_args(t, 2, 2)) return EXIT_USAGE;
  return is_show ? show(t, t->options.args.items[1]) : check(t, t->options.args.items[1]);
}
