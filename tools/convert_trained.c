/* tools/convert_trained.c - see convert_trained.h.
 *
 * Training keeps the weights of the model's file (passes/train/train.c), so each trained tensor is an initializer of
 * its name.  A file of weights must have all of them; a checkpoint has the trained ones and the optimizer's moments
 * (NAME:m), which the model does not have.
 */
#include "tools/convert_trained.h"

#include <string.h>

#include "base/file.h"
#include "base/safetensors.h"
#include "driver/weights.h"
#include "frontend/onnx/replace.h"
#include "tools/build.h"

typedef struct TrainedFile {
  Safetensors *file;
  Module *m;
  WeightReader *own; /* the values in the model's file */
  const TrainingFacts *facts;
  struct {
    Tensor *items;
    size_t n, cap;
  } made;       /* values of initializers */
  bool *placed; /* by tensor of the file: an initializer takes it */
  Diags *diags;
} TrainedFile;

static Loc place(const TrainedFile *w) { return (Loc){.file = w->file->path}; }

/* True if the tensor has the packed elements of the initializer, which apc holds as bytes. */
static bool is_packed(const SafetensorsEntry *e, const OnnxData *d) {
  return d->packed && e->dtype == DT_u8 && e->bytes == d->bytes;
}

/* True if the initializer has the extents of the tensor, transposed if so asked, or repeats one slice of it along
 * `repeats`. */
static bool fits(const SafetensorsEntry *e, const OnnxData *d, bool transposed, unsigned repeats) {
  if (e->dtype != d->dtype || (size_t)e->rank != d->rank || (transposed && d->rank != 2)) return false;
  for (int i = 0; i < e->rank; i++)
    if (e->dims[i] != d->dims[transposed ? 1 - i : i] && (transposed || e->dims[i] != 1 || !(repeats >> i & 1u)))
      return false;
  return true;
}

static unsigned repeats_of(const TrainedFile *w, const char *name) {
  for (size_t i = 0; i < w->facts->repeats.n; i++)
    if (strcmp(w->facts->repeats.items[i].name, name) == 0) return w->facts->repeats.items[i].dims;
  return 0;
}

/* Fills the initializer from the tensor, repeating elements along dimensions of extent 1. */
static void spread(const Tensor *x, bool transposed, Tensor *out) {
  size_t size = dtype_bytes(out->dtype);
  for (int64_t i = 0, n = tensor_elements(out); i < n; i++) {
    int64_t rest = i, at = 0, stride[MAX_RANK], all = 1;
    for (int d = x->rank - 1; d >= 0; d--) stride[d] = x->dims[d] == 1 ? 0 : all, all *= x->dims[d];
    for (int d = out->rank - 1; d >= 0; d--) {
      at += rest % out->dims[d] * stride[transposed ? 1 - d : d];
      rest /= out->dims[d];
    }
    memcpy((char *)out->data + (size_t)i * size, (const char *)x->data + (size_t)at * size, size);
  }
}

static bool keep(TrainedFile *w, Tensor x, Tensor *out) {
  ARENA_PUSH(w->diags->arena, &w->made, x);
  *out = x;
  return true;
}

static bool read_entry(TrainedFile *w, const SafetensorsEntry *e, Tensor *out) {
  Tensor x;
  w->placed[e - w->file->items] = true;
  return safetensors_read(w->file, e, &x) && keep(w, x, out);
}

/* Returns the tensor with the initializer's values: of its name, the part that it repeats, or its transpose. */
static const SafetensorsEntry *entry_of(const TrainedFile *w, const char *name, bool *transposed) {
  const SafetensorsEntry *e = safetensors_find(w->file, name);
  *transposed = false;
  if (!e) e = safetensors_find(w->file, arena_printf(w->diags->arena, "%s:part", name));
  for (size_t i = 0; i < w->facts->ties.n && !e; i++)
    if (strcmp(w->facts->ties.items[i].tied, name) == 0) {
      e = entry_of(w, w->facts->ties.items[i].kept, transposed);
      *transposed ^= w->facts->ties.items[i].transposed;
    }
  return e;
}

static bool new_values(void *context, const char *name, const OnnxData *old, Tensor *out) {
  TrainedFile *w = context;
  bool transposed;
  const SafetensorsEntry *e = entry_of(w, name, &transposed);
  Tensor x, whole;
  if (!e) return true;
  bool packed = is_packed(e, old) && !transposed;
  if (!packed && !fits(e, old, transposed, repeats_of(w, name)))
    return diag_error(w->diags, DIAG_weights, place(w),
                      "tensor '%s' does not have the type and shape of the initializer", name);
  if (!read_entry(w, e, &x)) return false;
  if (packed || ((uint64_t)tensor_elements(&x) == old->elements && !transposed)) return *out = x, true;
  if (!tensor_alloc(&whole, old->dtype, (int)old->rank, old->dims))
    return diag_error(w->diags, DIAG_no_memory, place(w), "out of memory for weight '%s'", name);
  spread(&x, transposed, &whole);
  return keep(w, whole, out);
}

/* A checkpoint has no statistics of norms; the model's values stay. */
static bool added_values(void *context, const char *name, Tensor *out) {
  TrainedFile *w = context;
  const SafetensorsEntry *e = safetensors_find(w->file, name);
  const Param *p = module_param(w->m, name);
  if (!e && p && !p->trainable) return driver_reader_read(w->own, p, out);
  if (!e || !p) return diag_error(w->diags, DIAG_weights, place(w), "the file has no tensor '%s'", name);
  if (!driver_weight_fits(p, e))
    return diag_error(w->diags, DIAG_weights, place(w), "tensor '%s' does not have the type and shape of the weight",
                      name);
  return read_entry(w, e, out);
}

/* True for "NAME:m" if the file has NAME. */
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
  w->placed = ARENA_ARRAY(t->arena, bool, w->file->n + 1);
  w->m = m, w->own = driver_reader_open(m, t->diags);
  const OnnxReplacing how = {
      .replacement = new_values, .addition = added_values, .reads = &w->facts->reads, .context = w};
  uint8_t *packed = onnx_replace(in, &how, &bytes, t->diags);
  bool ok = packed && all_placed(w, m) && file_write(t->diags, out, 0666, packed, bytes);
  driver_reader_close(w->own);
  for (size_t i = 0; i < w->made.n; i++) tensor_free(&w->made.items[i]);
  return ok;
}

bool tool_convert_trained(Tool *t, const char *in, const char *weights, const char *out) {
  Model model;
  TrainedFile w = {.facts = &model.facts, .diags = t->diags};
  bool ok = tool_model_with_own_weights(t, in, &model) && (w.file = safetensors_open(t->diags, weights)) != NULL &&
            convert(t, &w, model.m, in, out);
  if (w.file) safetensors_close(w.file);
  model_free(&model);
  return ok;
}
