/* tools/load.c - see load.h. */
#include "tools/load.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/nearest.h"
#include "frontend/dsl/dsl.h"
#include "frontend/onnx/import.h"
#include "ir/opaque.h"
#include "passes/rewrite/bind.h"
#include "passes/pipeline.h"
#include "program/artifact.h"
#include "tools/ir_file.h"
#include "tools/outputs.h"
#include "tools/pass_name.h"
#include "tools/weights.h"

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

/* ---- options that speak of dimensions */

typedef struct DimSize {
  const char *name;
  int64_t size;
} DimSize;

typedef struct DimSizes {
  DimSize *items;
  size_t n, cap;
} DimSizes;

/* All NAME=N of an option, whose form the option reader has checked; those of an ONNX file as they are written
 * there. */
static DimSizes dim_sizes(Tool *t, OptionId id, ModelKind kind) {
  DimSizes list = {0};
  size_t at = 0;
  for (const OptionUse *u; (u = option_next(&t->options, id, &at));) {
    for (const char *p = u->value; *p;) {
      size_t n = strcspn(p, ",");
      DimSize d;
      const char *number;
      split_size(t->arena, p, n, &d.name, &number);
      parse_whole(number, &d.size);
      if (kind == MODEL_ONNX) d.name = onnx_dim_name(t->arena, d.name);
      ARENA_PUSH(t->arena, &list, d);
      p += n + (p[n] == ',');
    }
  }
  return list;
}

static bool no_dimension(Tool *t, const Module *m, const char *option, const char *name) {
  diag_error(t->diags, DIAG_dimension, (Loc){0}, "%s: the model has no symbolic dimension '%s'", option, name);
  Nearest near = nearest_to(name);
  for (size_t i = 0; i < m->symbols.n; i++)
    if (m->symbols.items[i].axis < 0) nearest_try(&near, m->symbols.items[i].name);
  if (near.best) diag_help(t->diags, "the nearest name is '%s'", near.best);
  return false;
}

static bool bind_dims(Tool *t, Module *m) {
  DimSizes list = dim_sizes(t, OPT_dim, MODEL_NONE);
  for (size_t i = 0; i < list.n; i++) {
    int symbol = module_symbol_find(m, list.items[i].name);
    if (symbol < 0) return no_dimension(t, m, "--dim", list.items[i].name);
    if (!bind_dimension(m, symbol, list.items[i].size, t->diags)) return false;
  }
  return true;
}

/* The dimension of which `name` is a multiple, as the ONNX importer names it (frontend/onnx/assume.h): "h" is
 * 8*h_div_8.  -1: none. */
static int divided_dimension(const Module *m, const char *name, int64_t *by) {
  size_t n = strlen(name);
  for (size_t i = 0; i < m->symbols.n; i++) {
    const char *s = m->symbols.items[i].name;
    if (strncmp(s, name, n) == 0 && strncmp(s + n, "_div_", 5) == 0 && (*by = strtoll(s + n + 5, NULL, 10)) > 1)
      return (int)i;
  }
  return -1;
}

/* The dimension that a hint of this name and size is for, and its own size. */
static bool hinted_dimension(Tool *t, const Model *model, const char *name, int64_t *size, int *symbol) {
  int64_t by;
  if ((*symbol = module_symbol_find(model->m, name)) >= 0) return true;
  *symbol = model->kind == MODEL_ONNX ? divided_dimension(model->m, name, &by) : -1;
  if (*symbol < 0) return no_dimension(t, model->m, "--dim-hint", name);
  if (*size % by)
    return diag_error(t->diags, DIAG_dimension, (Loc){0},
                      "--dim-hint %s=%" PRId64 ": sizes of '%s' are multiples of %" PRId64, name, *size, name, by);
  *size /= by;
  return true;
}

static bool set_hints(Tool *t, const Model *model) {
  Module *m = model->m;
  DimSizes list = dim_sizes(t, OPT_dim_hint, model->kind);
  for (size_t i = 0; i < list.n; i++) {
    int64_t size = list.items[i].size;
    int symbol;
    if (!hinted_dimension(t, model, list.items[i].name, &size, &symbol) || !check_dimension(m, symbol, size, t->diags))
      return false;
    if (size == 0)
      return diag_error(t->diags, DIAG_dimension, (Loc){0}, "--dim-hint %s=0: plans are made for sizes of at least 1",
                        list.items[i].name);
    m->symbols.items[symbol].hint = size;
  }
  return true;
}

/* ---- --shape INPUT=1,3,224,224 */

/* The input of that name in any function: its type, or NULL. */
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

static bool no_input(Tool *t, const Module *m, const char *name) {
  diag_error(t->diags, DIAG_dimension, (Loc){0}, "--shape: the model has no input '%s'", name);
  Nearest near = nearest_to(name);
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) {
      const Op *op = &m->funcs.items[k]->ops.items[i];
      if (op->kind == OP_input) nearest_try(&near, op_str(op, AT_name));
    }
  if (near.best) diag_help(t->diags, "the nearest name is '%s'", near.best);
  return false;
}

/* Binds one dimension of an input: a symbol gets the number, a multiple of one its part, a number must be it. */
static bool bind_extent(Tool *t, Module *m, const char *input, int dim, int64_t size) {
  const Expr *e = input_type(m, input)->dims[dim];
  if (e->kind == EX_SYM) return bind_dimension(m, (int)e->value, size, t->diags);
  bool scaled = e->kind == EX_MUL && e->n == 1 && e->value > 0 && e->args[0]->kind == EX_SYM;
  if (scaled && size % e->value == 0) return bind_dimension(m, (int)e->args[0]->value, size / e->value, t->diags);
  if (ex_is_const(e, size)) return true;
  Text text = {.arena = t->arena};
  ex_print(m, &text, e);
  return diag_error(t->diags, DIAG_dimension, (Loc){0}, "--shape: dimension %d of input '%s' is %s, not %" PRId64, dim,
                    input, text_str(&text), size);
}

static bool bind_shape(Tool *t, Module *m, const char *value) {
  const char *name, *dims;
  split_size(t->arena, value, strlen(value), &name, &dims);
  const Type *type = input_type(m, name);
  if (!type) return no_input(t, m, name);
  int n = 1;
  for (const char *p = dims; *p; p++) n += *p == ',' || *p == 'x';
  if (n != type->rank)
    return diag_error(t->diags, DIAG_dimension, (Loc){0}, "--shape: input '%s' has %d dimension%s, not %d", name,
                      type->rank, type->rank == 1 ? "" : "s", n);
  for (int i = 0; i < n; i++) {
    size_t length = strcspn(dims, ",x");
    int64_t size;
    parse_whole(arena_strndup(t->arena, dims, length), &size);
    if (!bind_extent(t, m, name, i, size)) return false;
    dims += length + (i + 1 < n);
  }
  return true;
}

static bool bind_shapes(Tool *t, Module *m) {
  size_t at = 0;
  for (const OptionUse *u; (u = option_next(&t->options, OPT_shape, &at));)
    if (!bind_shape(t, m, u->value)) return false;
  return true;
}

/* ---- front ends */

/* Commands that need the meaning of every operation; the others show or plan a model that has unknown ones.  `apc
 * inspect --unsupported` says what compile would. */
static bool computes(const Tool *t) {
  Command c = t->options.command;
  if (c == CMD_inspect) return option_given(&t->options, OPT_unsupported);
  return c == CMD_compile || c == CMD_run || c == CMD_verify || c == CMD_bench;
}

bool model_check_known(Tool *t, const Model *model) {
  opaque_report(model->m, computes(t), t->diags);
  return !computes(t) || !opaque_any(model->m);
}

static bool load_onnx(Tool *t, Model *model) {
  OnnxFile *file = onnx_file_open(t->diags, model->path);
  if (!file) return false;
  DimSizes dims = dim_sizes(t, OPT_dim, MODEL_ONNX);
  OnnxDim *list = ARENA_ARRAY(t->arena, OnnxDim, dims.n);
  for (size_t i = 0; i < dims.n; i++) list[i] = (OnnxDim){dims.items[i].name, dims.items[i].size};
  OnnxImportOptions options = {list, dims.n, !computes(t)};
  bool ok = onnx_import(&model->m, file, &options, t->diags);
  onnx_file_close(file);
  return ok;
}

static const DslDefine *defines(Tool *t, int *n) {
  struct {
    DslDefine *items;
    size_t n, cap;
  } list = {0};
  size_t at = 0;
  for (const OptionUse *u; (u = option_next(&t->options, OPT_define, &at));) {
    DslDefine d;
    split_binding(t->arena, u->value, strlen(u->value), &d.name, &d.value);
    ARENA_PUSH(t->arena, &list, d);
  }
  *n = (int)list.n;
  return list.items;
}

static bool load_text(Tool *t, Model *model) {
  const char *text = file_read_text(t->diags, t->arena, model->path, NULL);
  if (!text) return false;
  diag_source(t->diags, model->path, text);
  DslOptions options = {0};
  options.defines = defines(t, &options.ndefines);
  model->m = model->kind == MODEL_APC ? dsl_load(model->path, text, &options, t->diags)
                                      : ir_parse(model->path, text, t->diags);
  if (model->m && model->kind == MODEL_IR) ir_file_locate(model->m, model->path);
  return model->m != NULL;
}

static bool is_program(const char *path) {
  Artifact artifact;
  RtError error = {0};
  bool is = artifact_open(path, path, &artifact, &error) == RT_OK;
  if (is) artifact_close(&artifact);
  return is;
}

static bool load_file(Tool *t, Model *model) {
  if (model->kind == MODEL_NONE) {
    diag_error(t->diags, DIAG_model_kind, (Loc){.file = model->path},
               "the ending does not say what kind of model this is");
    diag_help(t->diags, "models end in .onnx, .apc or .ir");
    if (is_program(model->path))
      diag_help(t->diags, "this is a compiled program, which runs by itself: %s%s --help",
                strchr(model->path, '/') ? "" : "./", model->path);
    return false;
  }
  if (model->kind != MODEL_APC && option_given(&t->options, OPT_define))
    return diag_error(t->diags, DIAG_usage_option, (Loc){0}, "-D sets parameters of .apc models; %s has none",
                      model->path);
  if (model->kind == MODEL_ONNX) return load_onnx(t, model);
  return load_text(t, model) && bind_dims(t, model->m);
}

/* ---- what was loaded */

static bool is_called(const Module *m, const char *name) {
  for (size_t k = 0; k < m->funcs.n; k++)
    for (size_t i = 0; i < m->funcs.items[k]->ops.n; i++) {
      const Op *op = &m->funcs.items[k]->ops.items[i];
      if (op->kind == OP_call && strcmp(op_str(op, AT_name), name) == 0) return true;
    }
  return false;
}

static bool find_entries(Tool *t, Model *model) {
  const Module *m = model->m;
  model->entries = ARENA_ARRAY(t->arena, const char *, m->funcs.n);
  for (size_t k = 0; k < m->funcs.n; k++) {
    const Func *f = m->funcs.items[k];
    if (f->level != 1)
      return diag_error(t->diags, DIAG_model_kind, (Loc){.file = model->path},
                        "function @%s is level %d; a model is level 1", f->name, f->level);
    if (f->outputs.n && !is_called(m, f->name) && strcmp(f->name, "prepare") != 0)
      model->entries[model->nentries++] = f->name;
  }
  return model->nentries > 0 ||
         diag_error(t->diags, DIAG_model_kind, (Loc){.file = model->path}, "the model has no function with outputs");
}

/* --seed gives every random weight another stream of numbers; 0 is the model's own. */
static void seed_weights(const Tool *t, Module *m) {
  int64_t seed = option_int(&t->options, OPT_seed, 0);
  for (size_t i = 0; i < m->params.n; i++) {
    Param *p = &m->params.items[i];
    if (p->init == INIT_NORMAL || p->init == INIT_UNIFORM)
      p->seed = (int64_t)(((uint64_t)p->seed + (uint64_t)seed * 0x9e3779b97f4a7c15u) >> 1);
  }
}

static bool replace_weights(Tool *t, Module *m) {
  const char *from = option_text(&t->options, OPT_weights);
  if (!from || strcmp(from, "ref") == 0 || strcmp(from, "embed") == 0) return true;
  if (strcmp(ending(from), ".safetensors") == 0) return weights_from_file(m, from, t->diags);
  return diag_error(t->diags, DIAG_usage_value, (Loc){0},
                    "option '--weights' takes ref, embed or FILE.safetensors, not '%s'", from);
}

bool model_load(Tool *t, const char *path, Model *model) {
  *model = (Model){.path = path, .name = model_name(t->arena, path), .kind = model_kind(path)};
  if (!print_after_check(t->diags, option_text(&t->options, OPT_print_after), NULL)) return false;
  tool_stage(t, "Reading", "%s", path);
  bool ok = load_file(t, model) && outputs_check_weights(t, model->m) && replace_weights(t, model->m) &&
            bind_shapes(t, model->m) && set_hints(t, model) && verify_module(model->m, t->diags) &&
            find_entries(t, model);
  if (ok && option_given(&t->options, OPT_seed)) seed_weights(t, model->m);
  return ok;
}

void model_free(Model *model) {
  if (model->m) module_free(model->m);
  model->m = NULL;
}

bool model_passes(Tool *t, Model *model, const char *device) {
  tool_stage(t, "Simplifying", "%s", model->path);
  PassOptions options = {.device = device,
                         .print_after = option_text(&t->options, OPT_print_after),
                         .verify = true,
                         .times = t->times,
                         .dump = stderr,
                         .checks = t->checks};
  return pipeline_run(model->m, NULL, &options, t->diags);
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

int model_dimensions(Tool *t, const Model *model, const int **symbols) {
  int *list = ARENA_ARRAY(t->arena, int, model->m->symbols.n), n = 0;
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
  return rounded >= s->min && rounded > 0 ? rounded : (v + s->multiple - 1) / s->multiple * s->multiple;
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
