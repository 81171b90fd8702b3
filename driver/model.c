/* driver/model.c - see model.h. */
#include "driver/model.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/amount.h"
#include "base/file.h"
#include "base/nearest.h"
#include "base/safetensors.h"
#include "driver/ir_file.h"
#include "driver/operators.h"
#include "driver/packed.h"
#include "driver/weight_files.h"
#include "driver/weights.h"
#include "frontend/onnx/import.h"
#include "frontend/onnx/notes.h"
#include "ir/opaque.h"
#include "passes/rewrite/bind.h"
#include "passes/rewrite/kv_cache.h"
#include "program/artifact.h"

/* ---- names */

static const char *ending(const char *path) {
  const char *dot = strrchr(path, '.'), *slash = strrchr(path, '/');
  return dot && (!slash || dot > slash) ? dot : "";
}

ModelKind model_kind(const char *path) {
  const char *end = ending(path);
  if (strcmp(end, ".onnx") == 0) return MODEL_ONNX;
  if (strcmp(end, ".apc") == 0) return MODEL_APC;
  if (strcmp(end, ".ir") == 0) return MODEL_IR;
  return MODEL_NONE;
}

const char *model_name(Arena *a, const char *path) {
  const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
  size_t n = strlen(name) - strlen(ending(name));
  return arena_strndup(a, name, n);
}

/* ---- progress callbacks */

void driver_watch_stage(const DriverWatch *w, Arena *a, const char *verb, const char *format, ...) {
  va_list args;
  if (!w->stage) return;
  va_start(args, format);
  w->stage(w->context, verb, arena_vprintf(a, format, args));
  va_end(args);
}

void driver_watch_say(const DriverWatch *w, Arena *a, const char *verb, const char *format, ...) {
  va_list args;
  if (!w->say) return;
  va_start(args, format);
  w->say(w->context, verb, arena_vprintf(a, format, args));
  va_end(args);
}

/* ---- dimensions */

static bool no_dimension(const ModelOptions *o, const Module *m, const char *option, const char *name) {
  diag_error(o->diags, DIAG_dimension, (Loc){0}, "%s: the model has no symbolic dimension '%s'", option, name);
  Nearest near = nearest_to(name);
  for (size_t i = 0; i < m->symbols.n; i++)
    if (m->symbols.items[i].axis < 0) nearest_try(&near, m->symbols.items[i].name);
  if (near.best) diag_help(o->diags, "the nearest name is '%s'", near.best);
  return false;
}

static bool bind_dims(const ModelOptions *o, Module *m) {
  for (size_t i = 0; i < o->ndims; i++) {
    int symbol = module_symbol_find(m, o->dims[i].name);
    if (symbol < 0) return no_dimension(o, m, "--dim", o->dims[i].name);
    if (!bind_dimension(m, symbol, o->dims[i].size, o->diags)) return false;
  }
  return true;
}

/* Returns the dimension that `name` is a multiple of, as the ONNX importer names it (frontend/onnx/assume.h): "h" is
 * 8*h_div_8.  -1 if none. */
static int divided_dimension(const Module *m, const char *name, int64_t *by) {
  size_t n = strlen(name);
  for (size_t i = 0; i < m->symbols.n; i++) {
    const char *s = m->symbols.items[i].name;
    if (strncmp(s, name, n) == 0 && strncmp(s + n, "_div_", 5) == 0 && (*by = strtoll(s + n + 5, NULL, 10)) > 1)
      return (int)i;
  }
  return -1;
}

/* Finds the dimension that a hint of this name and size is for, and its own size. */
static bool hinted_dimension(const ModelOptions *o, const Model *model, const char *name, int64_t *size, int *symbol) {
  int64_t by;
  if ((*symbol = module_symbol_find(model->m, name)) >= 0) return true;
  *symbol = model->kind == MODEL_ONNX ? divided_dimension(model->m, name, &by) : -1;
  for (size_t i = 0; i < o->ndims && *symbol < 0; i++)
    if (strcmp(o->dims[i].name, name) == 0)
      return diag_error(o->diags, DIAG_dimension, (Loc){0}, "--dim-hint: --dim binds dimension '%s' to %" PRId64, name,
                        o->dims[i].size);
  if (*symbol < 0) return no_dimension(o, model->m, "--dim-hint", name);
  if (*size % by)
    return diag_error(o->diags, DIAG_dimension, (Loc){0},
                      "--dim-hint %s=%" PRId64 ": sizes of '%s' are multiples of %" PRId64, name, *size, name, by);
  *size /= by;
  return true;
}

static bool set_hints(const ModelOptions *o, const Model *model) {
  Module *m = model->m;
  for (size_t i = 0; i < o->nhints; i++) {
    const char *name = o->hints[i].name;
    int64_t size = o->hints[i].size;
    int symbol;
    if (model->kind == MODEL_ONNX) name = onnx_dim_name(o->arena, name);
    if (!hinted_dimension(o, model, name, &size, &symbol) || !check_dimension(m, symbol, size, o->diags)) return false;
    if (size == 0)
      return diag_error(o->diags, DIAG_dimension, (Loc){0}, "--dim-hint %s=0: the size to plan for must be at least 1",
                        name);
    m->symbols.items[symbol].hint = size;
  }
  return true;
}

/* ---- --shape INPUT=1,3,224,224 */

/* Returns the type of the input of that name in any function; NULL if none. */
static const Type *input_type(const Module *m, const char *name) {
  for (size_t k = 0; k < m->funcs.n; k++) {
    const Func *f = m->funcs.items[k];
    for (size_t i = 0; i < f->ops.n; i++) {
      const Op *op = &f->ops.items[i];
      if (op->kind == OP_input && strcmp(op_str(op, AT_name), name) == 0) return type_of(f, op->out);
    }
  }
  return NULL;
}

static bool no_input(const ModelOptions *o, const Module *m, const char *name) {
  diag_error(o->diags, DIAG_dimension, (Loc){0}, "--shape: the model has no input '%s'", name);
  Nearest near = nearest_to(name);
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) {
      const Op *op = &m->funcs.items[k]->ops.items[i];
      if (op->kind == OP_input) nearest_try(&near, op_str(op, AT_name));
    }
  if (near.best) diag_help(o->diags, "the nearest name is '%s'", near.best);
  return false;
}

/* Binds one dimension of an input: a symbol gets the size, a multiple of a symbol its quotient; a constant must equal
 * it. */
static bool bind_extent(const ModelOptions *o, Module *m, const char *input, int dim, int64_t size) {
  const Expr *e = input_type(m, input)->dims[dim];
  if (e->kind == EX_SYM) return bind_dimension(m, (int)e->value, size, o->diags);
  bool scaled = e->kind == EX_MUL && e->n == 1 && e->value > 0 && e->args[0]->kind == EX_SYM;
  if (scaled && size % e->value == 0) return bind_dimension(m, (int)e->args[0]->value, size / e->value, o->diags);
  if (ex_is_const(e, size)) return true;
  Text text = {.arena = o->arena};
  ex_print(m, &text, e);
  return diag_error(o->diags, DIAG_dimension, (Loc){0}, "--shape: dimension %d of input '%s' is %s, not %" PRId64, dim,
                    input, text_str(&text), size);
}

static bool bind_shape(const ModelOptions *o, Module *m, const InputShape *s) {
  const Type *type = input_type(m, s->name);
  if (!type) return no_input(o, m, s->name);
  if (s->rank != type->rank)
    return diag_error(o->diags, DIAG_dimension, (Loc){0}, "--shape: input '%s' has %d dimension%s, not %d", s->name,
                      type->rank, type->rank == 1 ? "" : "s", s->rank);
  for (int i = 0; i < s->rank; i++)
    if (!bind_extent(o, m, s->name, i, s->dims[i])) return false;
  return true;
}

static bool bind_shapes(const ModelOptions *o, Module *m) {
  for (size_t i = 0; i < o->nshapes; i++)
    if (!bind_shape(o, m, &o->shapes[i])) return false;
  return true;
}

/* ---- --batch N */

int model_batch_dimension(const Module *m) {
  int symbol = module_symbol_find(m, "batch");
  for (size_t k = 0; k < m->funcs.n && symbol < 0; k++) {
    const Func *f = m->funcs.items[k];
    for (size_t i = 0; i < f->ops.n && symbol < 0; i++) {
      const Op *op = &f->ops.items[i];
      const Type *t = op->kind == OP_input ? type_of(f, op->out) : NULL;
      if (t && t->rank && t->dims[0]->kind == EX_SYM) symbol = (int)t->dims[0]->value;
    }
  }
  return symbol;
}

/* Returns the first input that is no scalar; NULL if none. */
static const Op *first_batched(const Module *m, const Type **type) {
  for (size_t k = 0; k < m->funcs.n; k++) {
    const Func *f = m->funcs.items[k];
    for (size_t i = 0; i < f->ops.n; i++) {
      const Op *op = &f->ops.items[i];
      if (op->kind == OP_input && (*type = type_of(f, op->out))->rank) return op;
    }
  }
  return NULL;
}

/* True if --batch equals the fixed batch size of the file, the only size that it allows. */
static bool is_own_batch(const ModelOptions *o, const Module *m) {
  const Type *t;
  const Op *op = first_batched(m, &t);
  int64_t own;
  if (!op || !ex_get_const(t->dims[0], &own))
    return diag_error(o->diags, DIAG_dimension, (Loc){0},
                      "--batch %" PRId64
                      ": the model has no dimension 'batch', and no input has a leading dimension to bind",
                      o->batch);
  return own == o->batch || diag_error(o->diags, DIAG_dimension, op->loc,
                                       "--batch %" PRId64 ": the model's file says %" PRId64
                                       ", the first dimension of its input '%s', and no other batch can be chosen",
                                       o->batch, own, op_str(op, AT_name));
}

static bool bind_batch(const ModelOptions *o, Module *m) {
  if (!o->batch) return true;
  int symbol = model_batch_dimension(m);
  if (symbol < 0) return is_own_batch(o, m);
  const Symbol *s = &m->symbols.items[symbol];
  const int64_t most = o->batch_most;
  bool smaller = most && most < o->batch && most >= s->min && (s->multiple <= 1 || most % s->multiple == 0);
  return bind_dimension(m, symbol, smaller ? most : o->batch, o->diags);
}

/* ---- front ends */

bool model_check_known(const ModelOptions *o, const Model *model) {
  opaque_report(model->m, o->computes, o->diags);
  return !o->computes || !opaque_missing(model->m);
}

static bool import_onnx(const ModelOptions *o, OnnxFile *file, bool planned, Model *model) {
  Safetensors *weights = o->weights ? safetensors_open(o->diags, driver_files_first(o->arena, o->weights)) : NULL;
  if (o->weights && !weights) return false;
  OnnxDim *list = ARENA_ARRAY(o->arena, OnnxDim, o->ndims);
  for (size_t i = 0; i < o->ndims; i++) list[i] = (OnnxDim){onnx_dim_name(o->arena, o->dims[i].name), o->dims[i].size};
  OnnxRules rules;
  if (!operators_rules(o, &rules)) return safetensors_close(weights), false;
  OnnxImportOptions options = {.dims = list,
                               .ndims = o->ndims,
                               .values = o->values,
                               .nvalues = o->nvalues,
                               .planned = planned,
                               .unknown_as_opaque = !o->computes,
                               .operators = &rules,
                               .training = o->train != NULL,
                               .weights = weights,
                               .weight_name = driver_maps_name,
                               .weight_maps = o->maps,
                               .trained = o->train ? o->train->optimizer.train : NULL,
                               .rules = o->train ? o->train->rules : NULL,
                               .facts = &model->facts,
                               .places = o->places,
                               .sharding = &model->sharding};
  bool ok = onnx_import(&model->m, file, &options, o->diags) && operators_used(o, &rules);
  safetensors_close(weights);
  return ok;
}

static bool rules_in_text(const ModelOptions *o, const Model *model) {
  return diag_error(o->diags, DIAG_usage_option, (Loc){0},
                    "--op gives rules to nodes of .onnx models; in %s the rules are in the text", model->path);
}

/* Reads the model that apc kept in the file as IR text, with the weights of the file. */
static bool load_kept(const ModelOptions *o, OnnxFile *file, const OnnxNotes *notes, Model *model) {
  model->kind = MODEL_IR;
  if (o->noperators) return rules_in_text(o, model);
  model->m = ir_parse(model->path, notes->model, o->diags);
  return model->m && onnx_notes_attach(file, model->m, o->diags) && bind_dims(o, model->m);
}

static bool load_onnx(const ModelOptions *o, Model *model) {
  OnnxFile *file = onnx_file_open(o->diags, model->path);
  OnnxNotes notes;
  if (!file) return false;
  const OnnxNoted noted = onnx_notes_read(file, &notes, o->diags);
  if (noted == ONNX_NOTED_ANOTHER)
    diag_warning(o->diags, DIAG_onnx_noted, (Loc){.file = model->path},
                 "the graph is not the one for which apc wrote a plan into this file; the plan is not used");
  const bool noted_plan = noted == ONNX_NOTED && !o->graph;
  bool ok = noted_plan && notes.model ? load_kept(o, file, &notes, model) : import_onnx(o, file, noted_plan, model);
  onnx_file_close(file);
  return ok;
}

static bool load_text(const ModelOptions *o, Model *model) {
  const char *text = file_read_text(o->diags, o->arena, model->path, NULL);
  if (!text) return false;
  diag_source(o->diags, model->path, text);
  DslOptions options = {
      .ndefines = o->ndefines, .defines = o->defines, .training = o->train != NULL, .parameters = o->parameters};
  model->m = model->kind == MODEL_APC ? dsl_load(model->path, text, &options, o->diags)
                                      : ir_parse(model->path, text, o->diags);
  if (model->m && model->kind == MODEL_IR) driver_ir_file_locate(model->m, model->path);
  return model->m != NULL;
}

static bool is_program(const char *path) {
  Artifact artifact;
  RtError error = {0};
  bool is = artifact_open(path, path, &artifact, &error) == RT_OK;
  if (is) artifact_close(&artifact);
  return is;
}

static bool load_file(const ModelOptions *o, Model *model) {
  if (model->kind == MODEL_NONE) {
    diag_error(o->diags, DIAG_model_kind, (Loc){.file = model->path},
               "unknown kind of model: the extension is not known");
    diag_help(o->diags, "models have the extension .onnx, .apc or .ir");
    if (is_program(model->path))
      diag_help(o->diags, "this is a compiled program, which runs by itself: %s%s --help",
                strchr(model->path, '/') ? "" : "./", model->path);
    return false;
  }
  if (model->kind != MODEL_APC && o->ndefines)
    return diag_error(o->diags, DIAG_usage_option, (Loc){0}, "-D sets parameters of .apc models; %s has none",
                      model->path);
  if (model->kind == MODEL_ONNX) return load_onnx(o, model);
  if (o->noperators) return rules_in_text(o, model);
  if (o->train && o->train->rules && o->train->rules->untied.n)
    return diag_error(
        o->diags, DIAG_usage_option, (Loc){0},
        "--untie needs an .onnx model, whose exporter writes equal tensors once; %s has a weight for each",
        model->path);
  if (o->train && o->train->rules && o->train->rules->modes.n)
    return diag_error(o->diags, DIAG_usage_option, (Loc){0},
                      "--train-mode needs an .onnx model; %s says itself what differs in training", model->path);
  return load_text(o, model) && bind_dims(o, model->m);
}

/* ---- the loaded model */

/* Weights with a name of --map are trained apart, also if several start as one tensor. */
static void set_apart(const ModelOptions *o, Model *model) {
  for (size_t i = 0; i < model->m->params.n; i++) {
    const char *name = model->m->params.items[i].name;
    if (strcmp(driver_maps_name(o->maps, name), name) != 0) ARENA_PUSH(model->m->arena, &model->facts.apart, name);
  }
}

/* Points the weights at those of --weights, and says what names do not. */
static bool take_weights(const ModelOptions *o, Model *model) {
  size_t renamed = 0;
  if (!o->weights || o->weights_named) return true;
  if (!driver_weights_from_file(model->m, o->weights, o->maps, o->train != NULL, &renamed, o->diags)) return false;
  if (o->maps) set_apart(o, model);
  if (o->maps)
    driver_watch_say(&o->watch, o->arena, "Weights", "%zu of %zu from tensors of other names (--map)%s", renamed,
                     model->m->params.n, o->train ? "; moments and averages start anew" : "");
  return true;
}

static bool is_called(const Module *m, const char *name) {
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) {
      const Op *op = &m->funcs.items[k]->ops.items[i];
      if (op->kind == OP_call && strcmp(op_str(op, AT_name), name) == 0) return true;
    }
  return false;
}

static bool find_entries(const ModelOptions *o, Model *model) {
  const Module *m = model->m;
  model->nentries = 0;
  model->entries = ARENA_ARRAY(o->arena, const char *, m->funcs.n);
  for (size_t k = 0; k < m->funcs.n; k++) {
    const Func *f = m->funcs.items[k];
    if (f->level != 1)
      return diag_error(o->diags, DIAG_model_kind, (Loc){.file = model->path},
                        "function @%s is level %d; a model is level 1", f->name, f->level);
    if (f->outputs.n && !is_called(m, f->name) && strcmp(f->name, "prepare") != 0)
      model->entries[model->nentries++] = f->name;
  }
  return model->nentries > 0 ||
         diag_error(o->diags, DIAG_model_kind, (Loc){.file = model->path}, "the model has no function with outputs");
}

/* Gives every random weight another random stream for each --seed; 0 keeps the model's own. */
static void seed_weights(const ModelOptions *o, Module *m) {
  for (size_t i = 0; i < m->params.n; i++) {
    Param *p = &m->params.items[i];
    if (p->init == INIT_NORMAL || p->init == INIT_UNIFORM)
      p->seed = (int64_t)(((uint64_t)p->seed + (uint64_t)o->seed * 0x9e3779b97f4a7c15u) >> 1);
  }
}

/* --kv-cache: caches that the model takes and returns become states of the program. */
static bool keep_caches(const ModelOptions *o, Module *m) {
  KvCaches kept;
  if (!o->kv_cache) return true;
  if (!kv_caches_keep(m, o->kv_cache, &kept, o->diags)) return false;
  const char *from = kept.input ? arena_printf(o->arena, "input '%s' (i64)", kept.input) : "shapes of inputs";
  driver_watch_say(&o->watch, o->arena, "Caches", "%zu of %" PRId64 " positions stay in the program; %s: those in use",
                   kept.n, o->kv_cache, from);
  return true;
}

bool model_load(const ModelOptions *o, Model *model) {
  *model = (Model){.path = o->path, .name = model_name(o->arena, o->path), .kind = model_kind(o->path)};
  driver_watch_stage(&o->watch, o->arena, "Reading", "%s", o->path);
  bool ok = load_file(o, model) && (!o->watch.loaded || o->watch.loaded(o->watch.context, model->m)) &&
            take_weights(o, model) && bind_shapes(o, model->m) && bind_batch(o, model->m) && keep_caches(o, model->m) &&
            set_hints(o, model) && verify_module(model->m, o->diags) && operators_kernels(o, model->m) &&
            find_entries(o, model);
  if (ok && o->seeded) seed_weights(o, model->m);
  return ok && driver_pack_weights(o, model) && (!o->packed || find_entries(o, model));
}

void model_free(Model *model) {
  if (model->m) module_free(model->m);
  model->m = NULL;
  temporary_close(&model->packed);
}

/* The options of --train, with what the model's reader found. */
static TrainOptions train_options(const ModelOptions *o, Model *model) {
  TrainOptions train = {0};
  if (o->train) train = *o->train;
  train.facts = &model->facts, train.lora = o->lora;
  return train;
}

bool model_train(const ModelOptions *o, Model *model) {
  if (!o->train && !o->lora) return true;
  TrainOptions train = train_options(o, model);
  PassOptions options = {.train = o->train ? &train : NULL, .lora = o->lora, .verify = true};
  model->nentries = 0;
  return pipeline_run(model->m, "inline,lora,train", &options, o->diags) && find_entries(o, model);
}

/* Reports the weights that could be trained and are not, by reason. */
static void say_left(const ModelOptions *o, const TrainReport *r) {
  enum { SHOWN = 4 };
  for (size_t i = 0; i < r->left.n; i++) {
    const char *why = r->left.items[i].why;
    Text names = {.arena = o->arena};
    size_t n = 0;
    bool first = true;
    for (size_t k = 0; k < i; k++) first &= strcmp(r->left.items[k].why, why) != 0;
    for (size_t k = i; first && k < r->left.n; k++)
      if (strcmp(r->left.items[k].why, why) == 0 && n++ < SHOWN)
        text_printf(&names, "%s\"%s\"", n > 1 ? ", " : "", r->left.items[k].name);
    if (n > SHOWN) text_printf(&names, " and %zu more", n - SHOWN);
    if (first) driver_watch_say(&o->watch, o->arena, "Training", "not trained: %s; %s", text_str(&names), why);
  }
}

static void say_trained(const ModelOptions *o, const Model *model, const TrainReport *r) {
  for (size_t i = 0; i < model->facts.said.n; i++)
    driver_watch_say(&o->watch, o->arena, "Training", "%s", model->facts.said.items[i]);
  for (size_t i = 0; i < r->dropped.n; i++)
    driver_watch_say(&o->watch, o->arena, "Training", "%s", r->dropped.items[i]);
  say_left(o, r);
  driver_watch_say(&o->watch, o->arena, "Training", "trains %" PRId64 " of %" PRId64 " weights, %s of %s", r->weights,
                   r->all, show_rounded(o->arena, r->elements), show_rounded(o->arena, r->all_elements));
}

/* Runs these passes (NULL: all) as the options of the model say. */
static bool run_passes(const ModelOptions *o, Model *model, const DeviceTraits *device, const char *passes,
                       TrainReport *report) {
  TrainOptions train = train_options(o, model);
  train.report = report;
  PassOptions options = {.device = device,
                         .train = o->train ? &train : NULL,
                         .lora = o->lora,
                         .floats = o->floats,
                         .print_after = o->print_after,
                         .verify = o->checks != NULL,
                         .verify_last = true,
                         .times = o->times,
                         .dump = stderr,
                         .checks = o->checks};
  return pipeline_run(model->m, passes, &options, o->diags);
}

bool model_passes_until(const ModelOptions *o, Model *model, const DeviceTraits *device, const char *last) {
  Text list = {.arena = o->arena};
  const char *const *names = pipeline_names();
  for (bool found = false; *names && !found; names++) {
    text_printf(&list, "%s%s", list.n ? "," : "", *names);
    found = strcmp(*names, last) == 0;
  }
  ModelOptions quiet = *o;
  quiet.print_after = NULL, quiet.times = NULL, quiet.checks = NULL; /* what the passes of the program said */
  TrainReport report = {0};
  return run_passes(&quiet, model, device, text_str(&list), &report);
}

bool model_passes(const ModelOptions *o, Model *model, const DeviceTraits *device) {
  driver_watch_stage(&o->watch, o->arena, "Simplifying", "%s", model->path);
  TrainReport report = {0};
  model->nentries = 0; /* training adds an entry */
  bool ok = run_passes(o, model, device, NULL, &report) && find_entries(o, model);
  if (ok && o->train) say_trained(o, model, &report);
  return ok;
}

static bool input_mentions(const Module *m, int symbol) {
  for (size_t k = 0; k < m->funcs.n; k++) {
    const Func *f = m->funcs.items[k];
    for (size_t i = 0; i < f->ops.n; i++) {
      const Op *op = &f->ops.items[i];
      if (op->kind != OP_input) continue;
      const Type *type = type_of(f, op->out);
      for (int d = 0; d < type->rank; d++)
        if (ex_uses(type->dims[d], symbol)) return true;
    }
  }
  return false;
}

int model_dimensions(Arena *a, const Model *model, const int **symbols) {
  int *list = ARENA_ARRAY(a, int, model->m->symbols.n), n = 0;
  for (size_t i = 0; i < model->m->symbols.n; i++)
    if (model->m->symbols.items[i].axis < 0 && input_mentions(model->m, (int)i)) list[n++] = (int)i;
  *symbols = list;
  return n;
}

int64_t symbol_hint(const Symbol *s) {
  int64_t v = s->hint ? s->hint : strcmp(s->name, "batch") == 0 ? 8 : 128;
  if (s->max && v > s->max) v = s->max;
  if (v < s->min) v = s->min;
  int64_t rounded = v / s->multiple * s->multiple;
  return rounded >= s->min && rounded > 0 ? rounded : module_symbol_from(s, v);
}

const char *model_hints_text(Arena *a, const Model *model) {
  const int *symbols;
  int n = model_dimensions(a, model, &symbols);
  Text text = {.arena = a};
  for (int i = 0; i < n; i++) {
    const Symbol *s = &model->m->symbols.items[symbols[i]];
    text_printf(&text, "%s%s %" PRId64, i ? ", " : "", s->name, symbol_hint(s));
  }
  return text_str(&text);
}

int64_t model_parameters(const Module *m) {
  int64_t sum = 0;
  for (size_t i = 0; i < m->params.n; i++) {
    const Param *p = &m->params.items[i];
    int64_t n = 1, dims[MAX_RANK];
    if (!p->trainable || p->init == INIT_PREPARED || !type_constant_dims(p->type, dims)) continue;
    for (int d = 0; d < p->type->rank; d++) n *= dims[d];
    sum += n;
  }
  return sum;
}
