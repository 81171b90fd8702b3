/* tools/emit_onnx.c - see emit_onnx.h.
 *
 * The model is read again, since the passes have rewritten that of the build.  A model that comes from ONNX keeps its
 * nodes and names; only the annotations and notes are new, and the data of other files moves inside.  Another one is
 * written as `apc convert` writes it, and its IR text is a note, so that reading the file gives the same function.
 *
 * Not done: several entries, states, and more than 2 GiB, as for `apc convert`; annotations inside loops.
 */
#include "tools/emit_onnx.h"

#include <string.h>

#include "frontend/onnx/export.h"
#include "frontend/onnx/import.h"
#include "frontend/onnx/notes.h"
#include "frontend/onnx/replace.h"
#include "tools/kept_options.h"
#include "tools/onnx_specs.h"
#include "driver/weights.h"

typedef struct Writing {
  Tool *t;
  const Build *b;
  Model model; /* read again */
  const Func *from;
  OnnxPlaces places; /* of a model from ONNX */
  WeightReader *weights;
  OnnxNotes notes;
  size_t annotated;
} Writing;

/* ---- the configuration */

/* Names the device of a rank: its kind and its number in its machine, after the machine's if there are several. */
static const char *device_name(Arena *a, const Target *t, int rank) {
  const char *part = target_of_rank(t, rank)->part;
  const int per = t->per_machine > 0 ? t->per_machine : t->ranks;
  if (t->nodes <= 1) return arena_printf(a, "%s:%d", part, rank);
  return arena_printf(a, "machine%d/%s:%d", rank / per, part, rank % per);
}

static OnnxConfiguration configuration_of(const Writing *w) {
  const Plan *p = w->b->plan;
  const char **devices = ARENA_ARRAY(w->t->arena, const char *, p->ranks + 1);
  for (int r = 0; r < p->ranks; r++) devices[r] = device_name(w->t->arena, w->b->options.target, r);
  return (OnnxConfiguration){.name = p->target, .ndevices = p->ranks, .devices = devices};
}

/* ---- additions to the message */

static bool add(Writing *w, Onnx__ModelProto *model, OnnxSpecsOf *o) {
  const OnnxConfiguration c = configuration_of(w);
  o->arena = w->t->arena, o->graph = model->graph;
  o->imported = w->model.m, o->from = w->from;
  o->m = w->b->model.m, o->planned = w->b->l1, o->plan = w->b->plan;
  const OnnxAnnotation *by_node = tool_onnx_specs(o);
  for (size_t i = 0; i < model->graph->n_node; i++) w->annotated += by_node[i].specs.n > 0;
  onnx_annotate(w->t->arena, model, &c, by_node);
  onnx_notes_put(w->t->arena, model, &w->notes);
  return true;
}

static bool add_to_file(void *context, Onnx__ModelProto *model) {
  Writing *w = context;
  OnnxSpecsOf o = {.places = w->places.nodes, .values = w->places.values};
  return add(w, model, &o);
}

static bool add_to_export(void *context, const OnnxWritten *x) {
  Writing *w = context;
  OnnxSpecsOf o = {.operations = x->operations};
  for (size_t v = w->from->values.n; v-- > 1;) /* of values with one name the first is the tensor's */
    if (x->names[v]) name_put(w->t->arena, &o.values, x->names[v], (void *)(uintptr_t)v);
  return add(w, x->model, &o);
}

/* ---- the two kinds of models */

static bool keep_value(void *context, const char *name, const OnnxData *old, Tensor *out) {
  (void)context, (void)name, (void)old, (void)out;
  return true;
}

static uint8_t *from_onnx(Writing *w, size_t *bytes) {
  const OnnxReplacing how = {.replacement = keep_value, .finish = add_to_file, .context = w};
  w->from = module_func(w->model.m, "main");
  return onnx_replace(w->model.path, &how, bytes, w->t->diags);
}

static bool read_weight(void *context, const Param *p, Tensor *out) {
  return driver_reader_read(((Writing *)context)->weights, p, out);
}

static uint8_t *from_other(Writing *w, size_t *bytes) {
  const OnnxExporting how = {
      .weight = read_weight, .finish = add_to_export, .context = w, .producer = "apc", .version = APC_VERSION};
  Module *m = w->model.m;
  if (w->model.nentries != 1) {
    diag_error(w->t->diags, DIAG_onnx_export, (Loc){0}, "the model has %d entries; an ONNX model has one",
               w->model.nentries);
    return NULL;
  }
  if (!onnx_notes_model(m, &w->notes, w->t->diags) ||
      !pipeline_run(m, "inline", &(PassOptions){.verify = true}, w->t->diags))
    return NULL;
  w->from = module_func(m, w->model.entries[0]);
  w->weights = driver_reader_open(m, w->t->diags);
  uint8_t *packed = onnx_export(m, w->from, &how, bytes, w->t->diags);
  driver_reader_close(w->weights);
  return packed;
}

/* Weights of another file would have to move into nodes that are kept. */
static bool has_own_weights(const Tool *t, const Build *b) {
  const char *from = b->options.model.weights, *path = b->model.path;
  if (b->model.kind != MODEL_ONNX || !from) return true;
  diag_error(t->diags, DIAG_usage_value, (Loc){0},
             "--emit=onnx keeps the weights of %s, so it cannot be combined with --weights %s", path, from);
  diag_help(t->diags, "first bring them into the model: apc convert %s NEW.onnx --weights %s", path, from);
  return false;
}

const uint8_t *tool_onnx(Tool *t, const Build *b, const char *file, size_t *bytes) {
  Writing w = {.t = t, .b = b};
  Text plan = {.arena = t->arena};
  uint8_t *packed = NULL;
  bool ok = has_own_weights(t, b) && tool_model_again(t, b->model.path, &w.places, &w.model);
  plan_print(b->model.m, b->l1, b->plan, &plan);
  w.notes = (OnnxNotes){.configuration = b->plan->target,
                        .target = b->plan->target,
                        .machine = tool_kept_machine(t, b->plan->target),
                        .plan = text_str(&plan),
                        .options = tool_kept_words(t, w.model.kind == MODEL_ONNX)};
  if (ok) packed = (w.model.kind == MODEL_ONNX ? from_onnx : from_other)(&w, bytes);
  if (packed) packed = onnx_notes_seal(file, packed, bytes, t->diags);
  if (packed) tool_say(t, "Annotated", "%zu nodes for %d devices of %s", w.annotated, b->plan->ranks, b->plan->target);
  model_free(&w.model);
  return packed;
}
