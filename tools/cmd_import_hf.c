/* tools/cmd_import_hf.c - apc import-hf DIR -o MODEL.apc: the model of a Hugging Face folder as a text file.
 *
 * If the folder has weights, the model must fit them: it is read back, and every tensor of the folder compared. */
#include <string.h>

#include "base/file.h"
#include "driver/model.h"
#include "driver/weight_files.h"
#include "driver/weights.h"
#include "frontend/hf/import.h"
#include "tools/outputs.h"
#include "tools/tool.h"

static bool has_tensor(const void *files, const char *name) { return files && driver_files_find(files, name); }

/* Opens the weights of the folder; *files is NULL if it has none.  False after a diagnostic. */
static bool open_weights(Tool *t, const char *folder, StoredFiles **files) {
  *files = NULL;
  if (!driver_files_in(t->arena, folder)) {
    tool_say(t, "Weights", "%s has none, so their names and shapes were not checked", folder);
    return true;
  }
  return (*files = driver_files_open(t->diags, folder)) != NULL;
}

/* Reads the text as a model and takes the weights of the folder. */
static bool check_model(Tool *t, const char *path, const char *text, const char *folder, bool weights) {
  Module *m = dsl_load(path, text, NULL, t->diags);
  size_t renamed;
  bool ok = m && (!weights || driver_weights_from_file(m, folder, NULL, false, &renamed, t->diags));
  if (ok) tool_say(t, "Finished", "%s with %lld parameters", path, (long long)model_parameters(m));
  if (m) module_free(m);
  return ok;
}

static bool import(Tool *t, const char *folder, const char *path) {
  const char *slash = text_ends_with(folder, "/") ? "" : "/";
  HfFolder in = {.path = arena_printf(t->arena, "%s%sconfig.json", folder, slash), .has = has_tensor};
  StoredFiles *files;
  tool_stage(t, "Reading", "%s", in.path);
  in.config = file_read_text(t->diags, t->arena, in.path, &in.length);
  if (!in.config || !open_weights(t, folder, &files)) return false;
  in.context = files;
  const char *text = hf_import(&in, t->diags);
  if (text) diag_source(t->diags, path, text);
  bool ok = text && check_model(t, path, text, folder, files != NULL);
  if (files) driver_files_close(files);
  return ok && file_write(t->diags, path, 0666, text, strlen(text));
}

int cmd_import_hf(Tool *t) {
  if (!tool_args(t, 1, 1)) return EXIT_USAGE;
  const char *path = option_text(&t->options, OPT_out);
  if (!path) {
    diag_error(t->diags, DIAG_usage_argument, (Loc){0}, "import-hf needs -o MODEL.apc");
    return EXIT_USAGE;
  }
  if (model_kind(path) != MODEL_APC) {
    diag_error(t->diags, DIAG_usage_value, (Loc){0}, "-o %s: the model needs the extension .apc", path);
    return EXIT_USAGE;
  }
  if (!outputs_check(t, &(FileUse){"-o", path}, 1)) return tool_failed(t->diags);
  return import(t, t->options.args.items[0], path) ? EXIT_OK : tool_failed(t->diags);
}
