/* tools/convert_checkpoint.c - see convert_checkpoint.h.  A checkpoint has the trained weights by their names, and the
 * optimizer's states as WEIGHT:STATE (passes/train/update.c). */
#include "tools/convert_checkpoint.h"

#include <string.h>
#include <sys/stat.h>

#include "base/npz.h"
#include "base/safetensors_sums.h"
#include "base/text.h"
#include "tools/execute.h"

static const char *in_folder(Tool *t, const char *path) {
  struct stat st;
  if (stat(path, &st) != 0 || !S_ISDIR(st.st_mode)) return path;
  return arena_printf(t->arena, "%s%scheckpoint.safetensors", path, text_ends_with(path, "/") ? "" : "/");
}

const char *tool_checkpoint(Tool *t, const char *path) {
  const char *file = in_folder(t, path);
  struct stat st;
  if (!text_ends_with(file, ".safetensors") || stat(file, &st) != 0) return NULL;
  Safetensors *s = safetensors_open_header(diags_new(t->arena), file, 0, NULL);
  const bool is = s && safetensors_meta(s, "steps") && safetensors_meta(s, "checkpoint");
  if (s) safetensors_close(s);
  return is ? file : NULL;
}

bool tool_checkpoint_whole(Tool *t, const char *path) {
  const char *wrong = NULL;
  Safetensors *s = safetensors_open_header(t->diags, path, 0, NULL);
  if (!s) return false;
  const SafetensorsChecked found = safetensors_sums_check(s, &wrong);
  safetensors_close(s);
  if (found == SUMS_UNREADABLE) return diag_error(t->diags, DIAG_weights, (Loc){.file = path}, "%s", wrong);
  return found != SUMS_WRONG || diag_error(t->diags, DIAG_weights, (Loc){.file = path},
                                           "the checkpoint is damaged: '%s' does not match its checksum", wrong);
}

/* True for WEIGHT:STATE if there is such a weight. */
static bool is_state(Tool *t, const Safetensors *s, const char *name) {
  const char *colon = strrchr(name, ':');
  return colon && safetensors_find(s, arena_strndup(t->arena, name, (size_t)(colon - name)));
}

static bool write_npz(Tool *t, const char *out, const Tensors *list) {
  NpzWriter *w = npz_writer_open(t->diags, out);
  bool ok = w != NULL;
  for (size_t i = 0; ok && i < list->n; i++) ok = npz_writer_add(w, list->items[i].name, &list->items[i].tensor);
  if (ok) return npz_writer_finish(w);
  if (w) npz_writer_abandon(w);
  return false;
}

bool tool_convert_checkpoint(Tool *t, const char *in, const char *out) {
  Safetensors *s = tool_checkpoint_whole(t, in) ? safetensors_open(t->diags, in) : NULL;
  if (!s) return false;
  Tensors list = {.items = ARENA_ARRAY(t->arena, NamedTensor, s->n + 1)};
  bool ok = true;
  for (size_t i = 0; i < s->n && ok; i++) {
    if (is_state(t, s, s->items[i].name)) continue;
    list.items[list.n].name = s->items[i].name;
    ok = safetensors_read(s, &s->items[i], &list.items[list.n].tensor);
    list.n += ok;
  }
  if (ok && text_ends_with(out, ".npz")) ok = write_npz(t, out, &list);
  else ok = ok && safetensors_write(t->diags, out, list.items, list.n, NULL, 0);
  tensors_free(&list);
  safetensors_close(s);
  return ok;
}
