/* tools/cmd_convert.c - apc convert IN OUT: a model to IR text or ONNX, its weights to .safetensors or .npz, tensors
 * between the two.
 *
 * IR text refers to weights in place (a model file, or how they are made); ONNX embeds them. */
#include <string.h>

#include "base/file.h"
#include "base/json_text.h"
#include "base/npz.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "frontend/onnx/export.h"
#include "frontend/onnx/sharding.h"
#include "passes/pipeline.h"
#include "tools/convert_checkpoint.h"
#include "tools/convert_trained.h"
#include "tools/execute.h"
#include "tools/outputs.h"
#include "driver/ir_file.h"
#include "driver/weights.h"

/* Warns that the result has no sharding annotations, if the model has some. */
static void warn_unannotated(const Tool *t, const Model *model) {
  const OnnxSharding *x = model->sharding;
  if (!x || !x->annotated) return;
  diag_warning(t->diags, DIAG_onnx_sharding_unused, (Loc){.file = model->path},
               "the sharding annotations of %zu node%s are not written", x->annotated, x->annotated == 1 ? "" : "s");
  diag_help(t->diags, "--weights FILE.safetensors, from .onnx to .onnx, keeps them");
}

static bool model_to_ir(Tool *t, const char *in, const char *out) {
  Model model;
  bool ok = tool_model(t, in, &model) && tool_model_known(t, &model);
  const char *text = ok ? driver_ir_file_text(t->arena, model.m, out) : "";
  if (ok) warn_unannotated(t, &model);
  model_free(&model);
  return ok && file_write(t->diags, out, 0666, text, strlen(text));
}

/* Returns the entry to write; ONNX models have only one. */
static const Func *only_entry(Tool *t, const Model *model) {
  if (model->nentries == 1) return module_func(model->m, model->entries[0]);
  diag_error(t->diags, DIAG_onnx_export, (Loc){0}, "the model has %d entries; an ONNX model has one", model->nentries);
  return NULL;
}

static bool model_to_onnx(Tool *t, const char *in, const char *out) {
  Model model;
  size_t bytes = 0;
  uint8_t *packed = NULL;
  if (tool_model(t, in, &model) && tool_model_known(t, &model) &&
      pipeline_run(model.m, "inline", &(PassOptions){.verify = true}, t->diags)) {
    const Func *f = only_entry(t, &model);
    warn_unannotated(t, &model);
    WeightReader *weights = driver_reader_open(model.m, t->diags);
    const OnnxExporting how = {
        .weight = driver_reader_read, .context = weights, .producer = "apc", .version = APC_VERSION};
    if (f) packed = onnx_export(model.m, f, &how, &bytes, t->diags);
    driver_reader_close(weights);
  }
  model_free(&model);
  return packed && file_write(t->diags, out, 0666, packed, bytes);
}

static bool model_to_weights(Tool *t, const char *in, const char *out) {
  Model model;
  bool ok = tool_model(t, in, &model) && driver_weights_to_file(model.m, out, t->diags);
  model_free(&model);
  return ok;
}

static bool npz_to_safetensors(Tool *t, const char *in, const char *out) {
  Npz *z = npz_open(t->diags, in);
  if (!z) return false;
  Tensors list = {.items = ARENA_ARRAY(t->arena, NamedTensor, z->n)};
  bool ok = true;
  for (size_t i = 0; ok && i < z->n; i++) {
    list.items[i].name = z->items[i].name;
    ok = npz_read(z, &z->items[i], &list.items[i].tensor);
    list.n += ok;
  }
  ok = ok && safetensors_write(t->diags, out, list.items, list.n, NULL, 0);
  tensors_free(&list);
  npz_close(z);
  return ok;
}

static bool safetensors_to_npz(Tool *t, const char *in, const char *out) {
  Safetensors *s = safetensors_open(t->diags, in);
  NpzWriter *w = s ? npz_writer_open(t->diags, out) : NULL;
  bool ok = w != NULL;
  for (size_t i = 0; ok && i < s->n; i++) {
    Tensor x;
    ok = safetensors_read(s, &s->items[i], &x);
    if (!ok) break;
    ok = npz_writer_add(w, s->items[i].name, &x);
    tensor_free(&x);
  }
  if (ok) ok = npz_writer_finish(w);
  else if (w) npz_writer_abandon(w);
  if (s) safetensors_close(s);
  return ok;
}

/* Checks that --weights names a file and the input is a model; if ONNX keeps its graph, it keeps its dimensions. */
static bool weights_make_sense(Tool *t, const char *in, const char *weights, bool kept) {
  static const OptionId bound[] = {OPT_dim, OPT_shape};
  if (!weights) return true;
  if (!text_ends_with(weights, ".safetensors"))
    return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                      "--weights %s: convert takes FILE.safetensors, or the folder of a checkpoint", weights);
  if (model_kind(in) == MODEL_NONE)
    return diag_error(t->diags, DIAG_usage_option, (Loc){0}, "--weights needs a model, and '%s' is none", in);
  for (size_t i = 0; i < sizeof bound / sizeof *bound; i++)
    if (kept && option_given(&t->options, bound[i]))
      return diag_error(
          t->diags, DIAG_usage_option, (Loc){0},
          "%s has no effect here: --weights replaces only the weights of an ONNX model and keeps its graph",
          i ? "--shape" : "--dim");
  return true;
}

int cmd_convert(Tool *t) {
  if (!tool_args(t, 2, 2)) return EXIT_USAGE;
  const char *in = t->options.args.items[0], *out = t->options.args.items[1],
             *weights = option_text(&t->options, OPT_weights);
  const char *trained = weights ? tool_checkpoint(t, weights) : NULL, *checkpoint = tool_checkpoint(t, in);
  if (trained) weights = trained;
  if (trained && !tool_checkpoint_whole(t, trained)) return tool_failed(t->diags);
  bool ok, kept = weights && text_ends_with(in, ".onnx") && text_ends_with(out, ".onnx");
  if (!weights_make_sense(t, in, weights, kept) || !outputs_check(t, &(FileUse){"OUT", out}, 1))
    return tool_failed(t->diags);
  if (kept) ok = tool_convert_trained(t, in, weights, out);
  else if (model_kind(in) != MODEL_NONE && text_ends_with(out, ".ir")) ok = model_to_ir(t, in, out);
  else if (model_kind(in) != MODEL_NONE && text_ends_with(out, ".onnx")) ok = model_to_onnx(t, in, out);
  else if (model_kind(in) != MODEL_NONE && (text_ends_with(out, ".safetensors") || text_ends_with(out, ".npz")))
    ok = model_to_weights(t, in, out);
  else if (checkpoint && (text_ends_with(out, ".safetensors") || text_ends_with(out, ".npz")))
    ok = tool_convert_checkpoint(t, checkpoint, out);
  else if (text_ends_with(in, ".npz") && text_ends_with(out, ".safetensors")) ok = npz_to_safetensors(t, in, out);
  else if (text_ends_with(in, ".safetensors") && text_ends_with(out, ".npz")) ok = safetensors_to_npz(t, in, out);
  else {
    diag_error(t->diags, DIAG_later_convert, (Loc){0}, "converting '%s' to '%s' is not built yet", in, out);
    diag_help(
        t->diags,
        "apc converts MODEL to .ir or .onnx; weights of a MODEL, or of the folder of a checkpoint, to .safetensors "
        "or .npz; .npz to .safetensors, .safetensors to .npz");
    return EXIT_MISSING;
  }
  if (ok && option_given(&t->options, OPT_json))
    tool_json(t, json_pack("{s:s, s:o, s:o}", "schema", "apc.convert/1", "in", json_text(in), "out", json_text(out)));
  return ok ? EXIT_OK : tool_failed(t->diags);
}
