/* tools/convert_trained.c - see convert_trained.h.
 *
 * A model that is trained has its weights as its file has them (passes/train/train.c), so each trained tensor is an
 * initializer of its name.  A file of weights must have all of them; a checkpoint has those that are trained, and the
 * optimizer's moments (NAME:m), which no model has.
 */
#include "tools/convert_trained.h"

#include <string.h>

#include "base/file.h"
#include "base/safetensors.h"
#include "frontend/onnx/replace.h"
#include "tools/build.h"

typedef struct TrainedFile {
  Safetensors *file;
  Tensor *tensors; /* by entry of the file */
  bool *placed;    /* by the same: an initializer has it now */
  Diags *diags;
} TrainedFile;

static bool same_shape(const SafetensorsEntry *e, const OnnxData *d) {
  if (e->dtype != d->dtype || (size_t)e->rank != d->rank) return false;
  for (int i = 0; i < e->rank; i++)
    if (e->dims[i] != d->dims[i]) return false;
  return true;
}

static Loc place(const TrainedFile *w) { return (Loc){.file = w->file->path}; }

static bool new_values(void *context, const char *name, const OnnxData *old, Tensor *out) {
  TrainedFile *w = context;
  const SafetensorsEntry *e = safetensors_find(w->file, name);
  if (!e) return true;
  size_t at = (size_t)(e - w->file->items);
  w->placed[at] = true;
  if (!same_shape(e, old))
    return diag_error(w->diags, DIAG_weights, place(w), "tensor '%s' has not the type and shape of the initializer",
                      name);
  if (!safetensors_read(w->file, e, &w->tensors[at])) return false;
  *out = w->tensors[at];
  return true;
}

/* "NAME:m", where there is a NAME. */
static bool is_moment(const TrainedFile *w, const char *name) {
  const char *colon = strrchr(name, ':');
  return colon && safetensors_find(w->file, arena_strndup(w->diags->arena, name, (size_t)(colon - name)));
}

static bool all_placed(const TrainedFile *w, Module *m) {
  bool ok = true;
  for (size_t i = 0; i < w->file->n; i++) {
    const char *name = w->file->items[i].name;
    const Param *p = module_param(m, name);
    if (w->placed[i] || (p && !p->trainable) || is_moment(w, name)) continue;
    ok = diag_error(w->diags, DIAG_weights, place(w), "the model has no initializer '%s'", name);
  }
  if (safetensors_meta(w->file, "steps")) return ok; /* a checkpoint */
  for (size_t i = 0; i < m->params.n; i++) {
    const Param *p = &m->params.items[i];
    if (p->trainable && !safetensors_find(w->file, p->name))
      ok = diag_error(w->diags, DIAG_weights, place(w), "the file has no tensor '%s'", p->name);
  }
  return ok;
}

static bool convert(Tool *t, TrainedFile *w, Module *m, const char *in, const char *out) {
  size_t bytes = 0;
  w->tensors = ARENA_ARRAY(t->arena, Tensor, w->file->n + 1);
  w->placed = ARENA_ARRAY(t->arena, bool, w->file->n + 1);
  uint8_t *packed = onnx_replace(in, new_values, w, &bytes, t->diags);
  bool ok = packed && all_placed(w, m) && file_write(t->diags, out, 0666, packed, bytes);
  for (size_t i = 0; i < w->file->n; i++) tensor_free(&w->tensors[i]);
  return ok;
}

bool tool_convert_trained(Tool *t, const char *in, const char *weights, const char *out) {
  Model model;
  TrainedFile w = {.diags = t->diags};
  bool ok = tool_model_with_own_weights(t, in, &model) && (w.file = safetensors_open(t->diags, weights)) != NULL &&
            convert(t, &w, model.m, in, out);
  if (w.file) safetensors_close(w.file);
  model_free(&model);
  return ok;
}
