/* frontend/hf/import.c - see import.h. */
#include "frontend/hf/import.h"

#include <string.h>

#include "frontend/hf/template.h"

/* Returns the architecture that config.json names; NULL after a diagnostic. */
static const char *architecture(HfConfig *c) {
  hf_config_declare(c, "architectures");
  const json_t *list = hf_config_get(c, "architectures");
  const char *name = json_string_value(json_array_get(list, 0));
  if (name && json_array_size(list) == 1) return arena_strdup(c->diags->arena, name);
  hf_config_fail(c, "field 'architectures' is %s, not a list of one name", hf_config_text(c->diags->arena, list));
  return NULL;
}

static bool write_model(HfConfig *c, const HfFolder *folder, Text *out) {
  const char *name = architecture(c);
  if (!name) return false;
  HfRun families = {.config = c, .folder = folder, .out = out, .architecture = name};
  bool ok = hf_template_run(&families, "families");
  if (!families.model) {
    hf_config_fail(c, "the architecture '%s' is not known", text_shown(c->diags->arena, name));
    diag_help(c->diags, "apc imports %s", families.names);
    return false;
  }
  hf_config_set(c, "own.architecture", json_string(name));
  HfRun model = {.config = c, .folder = folder, .out = out};
  return ok && hf_template_run(&model, families.model) && hf_config_all_declared(c);
}

const char *hf_import(const HfFolder *folder, Diags *diags) {
  HfConfig c;
  Text out = {.arena = diags->arena};
  bool ok = hf_config_read(&c, folder->path, folder->config, folder->length, diags) && write_model(&c, folder, &out);
  hf_config_free(&c);
  return ok ? text_str(&out) : NULL;
}
