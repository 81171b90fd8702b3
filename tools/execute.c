/* tools/execute.c - see execute.h. */
#include "tools/execute.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/compare.h"
#include "base/fill.h"
#include "base/hash.h"
#include "base/machine.h"
#include "base/nearest.h"
#include "base/npy.h"
#include "base/npz.h"
#include "base/text.h"
#include "base/whole.h"
#include "ir/index_bound.h"

void tensors_free(Tensors *x) {
  for (size_t i = 0; i < x->n; i++) tensor_free(&x->items[i].tensor);
  *x = (Tensors){0};
}

const Tensor *tensors_find(const Tensors *x, const char *name) {
  for (size_t i = 0; i < x->n; i++)
    if (strcmp(x->items[i].name, name) == 0) return &x->items[i].tensor;
  return NULL;
}

const char *tool_tensor_type_text(Arena *a, const Tensor *x) {
  Text text = {.arena = a};
  text_printf(&text, "%s[", dtype_name(x->dtype));
  for (int d = 0; d < x->rank; d++) text_printf(&text, "%s%" PRId64, d ? "," : "", x->dims[d]);
  text_add(&text, "]");
  return text_str(&text);
}

/* ---- inputs */

typedef struct Inputs {
  Tool *t;
  const Build *b;
  const Func *f;  /* the entry */
  Tensors *list;  /* by input; dtype and data are set once a value is given */
  int64_t *sizes; /* by symbol; -1 while unknown */
} Inputs;

static const Op *input_op(const Inputs *in, const char *name) {
  for (size_t i = 0; i < in->f->ops.n; i++) {
    const Op *op = &in->f->ops.items[i];
    if (op->kind == OP_input && strcmp(op_str(op, AT_name), name) == 0) return op;
  }
  return NULL;
}

static Tensor *slot(const Inputs *in, const char *name) {
  for (size_t i = 0; i < in->list->n; i++)
    if (strcmp(in->list->items[i].name, name) == 0) return &in->list->items[i].tensor;
  diag_error(in->t->diags, DIAG_input, (Loc){0}, "the model has no input '%s'", name);
  if (module_param(in->b->model.m, name)) {
    diag_help(in->t->diags, "'%s' is a weight: the program loads it from the model file", name);
    return NULL;
  }
  Nearest near = nearest_to(name);
  for (size_t i = 0; i < in->list->n; i++) nearest_try(&near, in->list->items[i].name);
  if (near.best) diag_help(in->t->diags, "the nearest name is '%s'", near.best);
  return NULL;
}

static bool check_type(const Inputs *in, const char *name, Tensor given, DType type) {
  tensor_settle(&given, type);
  return (!given.raw && whole_may_be(given.dtype, type)) ||
         diag_error(in->t->diags, DIAG_input, (Loc){0}, "input '%s' is %s, but the tensor given is %s", name,
                    dtype_name(type), given.raw ? "raw bytes" : dtype_name(given.dtype));
}

/* Checks that a given tensor has the input's shape, and its type or numbers that fit it.  With `bind`, symbols take
 * their size from the tensor; otherwise any size matches them. */
static bool check_tensor(const Inputs *in, const char *name, const Tensor *x, bool bind) {
  const Type *type = type_of(in->f, input_op(in, name)->out);
  if (!check_type(in, name, *x, type->dtype)) return false;
  if (x->rank != type->rank)
    return diag_error(in->t->diags, DIAG_input, (Loc){0}, "input '%s' has %d dimensions, but the tensor given has %d",
                      name, type->rank, x->rank);
  for (int d = 0; d < x->rank; d++) {
    const Expr *e = type->dims[d];
    int64_t want = x->dims[d];
    if (e->kind == EX_SYM && !bind) continue;
    if (e->kind == EX_SYM && in->sizes[e->value] < 0) in->sizes[e->value] = want;
    else if (e->kind == EX_SYM) want = in->sizes[e->value];
    else if (e->kind == EX_CONST) want = e->value;
    if (want != x->dims[d])
      return diag_error(in->t->diags, DIAG_input, (Loc){0},
                        "dimension %d of input '%s' is %" PRId64 ", but the tensor given has %" PRId64, d, name, want,
                        x->dims[d]);
  }
  return true;
}

static bool copy_tensor(const Tensor *x, DType type, Tensor *out) {
  if (x->dtype != type) return whole_convert(x, type, out);
  if (!tensor_alloc(out, x->dtype, x->rank, x->dims)) return false;
  memcpy(out->data, x->data, x->bytes);
  return true;
}

/* A tensor of another type must consist of integers that the input's type can represent. */
static bool check_numbers(const Inputs *in, const char *name, const Tensor *x, DType type) {
  int64_t index[TENSOR_MAX_RANK], at = -1;
  char place[200], value[32];
  if (!check_type(in, name, *x, type)) return false;
  if (x->dtype != type) at = whole_first_other(x, type);
  if (at < 0) return true;
  tensor_index(x->rank, x->dims, at, index);
  return diag_error(in->t->diags, DIAG_input, (Loc){0},
                    "input '%s': element%s%s is %s; it takes whole numbers of type %s", name, x->rank ? " " : "",
                    tensor_index_text(x->rank, index, place, sizeof place),
                    tensor_element_text(x, at, value, sizeof value), dtype_name(type));
}

/* True for an input of another entry only, if there are several. */
static bool is_for_another(const Inputs *in, const char *name) {
  if (input_op(in, name)) return false;
  for (int k = 0; k < in->b->nentries; k++) {
    const Func *f = in->b->l1s[k];
    for (size_t i = 0; f != in->f && i < f->ops.n; i++)
      if (f->ops.items[i].kind == OP_input && strcmp(op_str(&f->ops.items[i], AT_name), name) == 0) return true;
  }
  return false;
}

/* Copies the tensor, so that its file may be closed. */
static bool give(const Inputs *in, const char *name, Tensor *x) {
  if (is_for_another(in, name)) return true;
  Tensor *to = slot(in, name);
  if (!to) return false;
  DType type = type_of(in->f, input_op(in, name)->out)->dtype;
  tensor_settle(x, type);
  if (!check_numbers(in, name, x, type)) return false;
  tensor_free(to);
  return copy_tensor(x, type, to) ||
         diag_error(in->t->diags, DIAG_no_memory, (Loc){0}, "out of memory for input '%s'", name);
}

/* Refuses a single tensor as an archive. */
static bool refuse_npy(const Inputs *in, const char *path) {
  const char *name = in->list->n == 1 ? in->list->items[0].name : "NAME";
  diag_error(in->t->diags, DIAG_usage_value, (Loc){0},
             "--inputs takes an archive of tensors (.npz), but '%s' is one tensor", path);
  diag_help(in->t->diags, "bind it to an input: --input %s=@%s", name, path);
  return false;
}

static bool read_archive(const Inputs *in, const char *path) {
  if (text_ends_with(path, ".npy")) return refuse_npy(in, path);
  Npz *z = npz_open(in->t->diags, path);
  bool ok = z != NULL;
  for (size_t i = 0; ok && i < z->n; i++) {
    Tensor x;
    const char *name = z->items[i].name;
    if (is_for_another(in, name)) continue;
    ok = slot(in, name) && npz_read_header(z, &z->items[i], &x) &&
         check_tensor(in, name, &x, false); /* before the archive is expanded */
    ok = ok && npz_read(z, &z->items[i], &x);
    if (!ok) break;
    ok = give(in, name, &x);
    tensor_free(&x);
  }
  if (z) npz_close(z);
  return ok;
}

/* Returns the '=' after the name. */
static const char *end_of_name(const Tensors *names, const char *text) {
  const char *end = NULL;
  for (size_t i = 0; i < names->n; i++) {
    const char *name = names->items[i].name;
    size_t n = strlen(name);
    if (strncmp(text, name, n) == 0 && text[n] == '=' && (!end || text + n > end)) end = text + n;
  }
  return end ? end : strchr(text, '=');
}

bool split_input(Tool *t, const Tensors *names, const char *text, const char **name, const char **value) {
  const char *equals = end_of_name(names, text);
  if (equals && text[0] != '@') {
    *name = arena_strndup(t->arena, text, (size_t)(equals - text));
    *value = equals + 1;
    return true;
  }
  *value = text;
  *name = names->n ? names->items[0].name : "";
  if (names->n == 1) return true;
  return diag_error(t->diags, DIAG_input, (Loc){0},
                    "--input %s: the model has %zu inputs, so the value needs a name: NAME=%s", text, names->n, text);
}

static bool read_file(const Inputs *in, const char *name, const char *path) {
  Tensor x;
  if (text_ends_with(path, ".npz")) {
    diag_error(in->t->diags, DIAG_usage_value, (Loc){0}, "--input takes one tensor (.npy), but '%s' is an archive",
               path);
    diag_help(in->t->diags, "--inputs %s binds inputs to the tensors of their names", path);
    return false;
  }
  if (!npy_read(in->t->diags, path, &x)) return false;
  bool ok = give(in, name, &x);
  tensor_free(&x);
  return ok;
}

static bool parse_seed(const char *text, int64_t *seed) {
  *seed = 0;
  if (strcmp(text, "random") == 0) return true;
  return strncmp(text, "random:", 7) == 0 && tool_parse_whole(text + 7, seed);
}

static bool check_how(const Inputs *in, const char *name, const char *how) {
  int64_t seed;
  if (strcmp(how, "zeros") == 0 || parse_seed(how, &seed)) return true;
  diag_error(in->t->diags, DIAG_usage_value, (Loc){0},
             "--input %s=%s: the value is @FILE.npy, random, random:SEED or zeros", name, how);
  if (access(how, R_OK) == 0) diag_help(in->t->diags, "a file's name follows '@': --input %s=@%s", name, how);
  return false;
}

/* Generated inputs stay empty until the sizes are known. */
static bool read_one(const Inputs *in, const char *text) {
  const char *name, *value;
  if (!split_input(in->t, in->list, text, &name, &value)) return false;
  if (value[0] == '@') return read_file(in, name, value + 1);
  if (is_for_another(in, name)) return true;
  Tensor *to = slot(in, name);
  if (to) tensor_free(to);
  return to && check_how(in, name, value);
}

/* Later values on the command line replace earlier ones, as in a compiled program. */
static bool read_given(const Inputs *in) {
  const Options *o = &in->t->options;
  for (size_t i = 0; i < o->uses.n; i++) {
    const OptionUse *u = &o->uses.items[i];
    if (u->option == OPT_inputs && !read_archive(in, u->value)) return false;
    if (u->option == OPT_input && !read_one(in, u->value)) return false;
  }
  return true;
}

/* Checks given tensors; also gives symbols their sizes. */
static bool check_given(const Inputs *in) {
  for (size_t i = 0; i < in->list->n; i++)
    if (in->list->items[i].tensor.data && !check_tensor(in, in->list->items[i].name, &in->list->items[i].tensor, true))
      return false;
  return true;
}

/* ---- generated inputs */

/* Refuses an input larger than the machine's memory: filling it would get the process killed. */
static bool check_room(const Inputs *in, const char *name, const Type *type, const int64_t *dims) {
  size_t bytes;
  uint64_t have = machine_memory();
  if (!tensor_size(type->dtype, type->rank, dims, &bytes))
    return diag_error(in->t->diags, DIAG_input, (Loc){0}, "input '%s' would have more than 2^63 bytes", name);
  return bytes <= have ||
         diag_error(in->t->diags, DIAG_input, (Loc){0},
                    "input '%s' would have %zu bytes; this machine has %" PRIu64 " of memory", name, bytes, have);
}

static bool make_tensor(const Inputs *in, const char *name, const char *how) {
  Module *m = in->b->model.m;
  const Op *op = input_op(in, name);
  const Type *type = type_of(in->f, op->out);
  int64_t dims[MAX_RANK], seed = 0, below = 2;
  for (int d = 0; d < type->rank; d++)
    if (!ex_eval(type->dims[d], in->sizes, &dims[d]) || dims[d] < 0)
      return diag_error(in->t->diags, DIAG_input, (Loc){0}, "input '%s' has no shape: dimension %d", name, d);
  parse_seed(how, &seed);
  if (!check_room(in, name, type, dims)) return false;
  Tensor *to = slot(in, name);
  if (!tensor_alloc(to, type->dtype, type->rank, dims))
    return diag_error(in->t->diags, DIAG_no_memory, (Loc){0}, "out of memory for input '%s'", name);
  if (op_store_listed(op, type->dtype, to->data) || strcmp(how, "zeros") == 0) return true;
  const Expr *bound = index_bound(m, in->f, op->out);
  if (bound && (!ex_eval(bound, in->sizes, &below) || below < 1)) below = 1;
  uint64_t stream = hash64(name, strlen(name), 0);
  size_t n = (size_t)tensor_elements(to);
  if (dtype_is_float(type->dtype)) fill_normal(type->dtype, to->data, 0, n, (uint64_t)seed, stream, 0, 1);
  else fill_below(type->dtype, to->data, 0, n, (uint64_t)seed, stream, (uint64_t)below);
  return true;
}

static const char *how_to_make(const Inputs *in, const char *name) {
  const char *how = "random";
  size_t at = 0;
  for (const OptionUse *u; (u = option_next(&in->t->options, OPT_input, &at));) {
    const char *given, *value;
    if (split_input(in->t, in->list, u->value, &given, &value) && strcmp(given, name) == 0 && value[0] != '@')
      how = value;
  }
  return how;
}

static void list_inputs(const Inputs *in) {
  const Func *f = in->f;
  in->list->items = ARENA_ARRAY(in->t->arena, NamedTensor, f->ops.n);
  for (size_t i = 0; i < f->ops.n; i++)
    if (f->ops.items[i].kind == OP_input) in->list->items[in->list->n++].name = op_str(&f->ops.items[i], AT_name);
}

static Inputs inputs_of(Tool *t, const Build *b, const Func *f, Tensors *list) {
  size_t n = b->model.m->symbols.n;
  Inputs in = {t, b, f, list, ARENA_ARRAY(t->arena, int64_t, n + 1)};
  for (size_t i = 0; i < n; i++) in.sizes[i] = -1;
  return in;
}

bool inputs_read(Tool *t, const Build *b, const Func *f, Tensors *out) {
  *out = (Tensors){0};
  Inputs in = inputs_of(t, b, f, out);
  list_inputs(&in);
  return read_given(&in) && check_given(&in);
}

bool inputs_make(Tool *t, const Build *b, const Func *f, Tensors *out) {
  const Module *m = b->model.m;
  Inputs in = inputs_of(t, b, f, out);
  if (!check_given(&in)) return false;
  for (size_t i = 0; i < m->symbols.n; i++)
    if (in.sizes[i] < 0) in.sizes[i] = m->symbols.items[i].axis < 0 ? symbol_hint(&m->symbols.items[i]) : 0;
  for (size_t i = 0; i < out->n; i++)
    if (!out->items[i].tensor.data && !make_tensor(&in, out->items[i].name, how_to_make(&in, out->items[i].name)))
      return false;
  return true;
}

/* ---- running */

int tool_program_status(Tool *t, const ApcModel *model, ApcStatus status) {
  if (status == APC_OK) return EXIT_OK;
  diag_error(t->diags, DIAG_run, (Loc){0}, "%s", model ? apc_error(model) : "out of memory");
  return (int)status;
}

ApcModel *tool_program_open(Tool *t, const char *path, const char *weights, int *code) {
  const char *limit = option_text(&t->options, OPT_timeout);
  ApcOptions options = {.weights = weights};
  if (limit) tool_parse_time(limit, &options.timeout_ms); /* its form has been checked */
  ApcModel *model;
  ApcStatus status = apc_load(path, &options, &model);
  *code = tool_program_status(t, model, status);
  if (*code == EXIT_OK) return model;
  apc_close(model);
  return NULL;
}

int tool_program_run(Tool *t, ApcModel *model, const char *entry, const Tensors *inputs) {
  ApcStatus status = apc_select(model, entry);
  for (size_t i = 0; status == APC_OK && i < inputs->n; i++) {
    const Tensor *x = &inputs->items[i].tensor;
    status = apc_bind_input(model, inputs->items[i].name, (ApcType)x->dtype, x->rank, x->dims, x->data);
  }
  if (status == APC_OK) status = apc_run(model, NULL);
  return tool_program_status(t, model, status);
}

static ApcStatus read_output(Tool *t, ApcModel *model, int index, NamedTensor *out) {
  ApcTensorInfo info;
  int rank;
  int64_t dims[APC_MAX_RANK];
  size_t bytes;
  ApcStatus status = apc_output_info(model, index, &info);
  if (status == APC_OK) status = apc_output_shape(model, info.name, &rank, dims, &bytes);
  if (status != APC_OK) return status;
  out->name = arena_strdup(t->arena, info.name);
  if (!tensor_alloc(&out->tensor, (DType)info.type, rank, dims)) return APC_FAILED;
  return apc_read_output(model, info.name, out->tensor.data, out->tensor.bytes);
}

bool outputs_read(Tool *t, ApcModel *model, Tensors *out, int *code) {
  *out = (Tensors){.items = ARENA_ARRAY(t->arena, NamedTensor, apc_outputs(model))};
  ApcStatus status = APC_OK;
  for (int i = 0; status == APC_OK && i < apc_outputs(model); i++)
    status = read_output(t, model, i, &out->items[out->n++]);
  *code = tool_program_status(t, model, status);
  return status == APC_OK;
}

/* ---- comparing */

static Difference compare_floats(const Tensor *x, const Tensor *y) {
  size_t n = (size_t)tensor_elements(x), step = dtype_bytes(x->dtype), other = dtype_bytes(y->dtype);
  Distance d = {0};
  for (size_t i = 0; i < n; i++)
    distance_add(&d, dtype_load_f(x->dtype, (const char *)x->data + i * step),
                 dtype_load_f(y->dtype, (const char *)y->data + i * other));
  return (Difference){.rel_l2 = distance_relative(&d), .max_abs = d.most};
}

static Difference compare_integers(const Tensor *x, const Tensor *y) {
  size_t n = (size_t)tensor_elements(x), step = dtype_bytes(x->dtype), wrong = 0;
  double most = 0;
  for (size_t i = 0; i < n; i++) {
    int64_t a = dtype_load_i(x->dtype, (const char *)x->data + i * step),
            b = dtype_load_i(y->dtype, (const char *)y->data + i * step);
    wrong += a != b;
    most = fmax(most, integer_gap(x->dtype, a, b));
  }
  return (Difference){.rel_l2 = n ? (double)wrong / (double)n : 0, .max_abs = most};
}

/* Twice the distance from 1 to the next number, or the error of f32 sums if that is larger. */
double default_rtol(DType t) {
  const double f16_step = 0x1p-10, bf16_step = 0x1p-7;
  return t == DT_f16 ? 2 * f16_step : t == DT_bf16 ? 2 * bf16_step : 1e-4;
}

/* The coarser tolerance of both types and of the compute type; tf32 has as many digits as f16. */
static double rtol_of(const Tool *t, const Tensor *x, const Tensor *y) {
  ComputeType type = tool_compute(t);
  double computed = default_rtol(type == CT_tf32 ? DT_f16 : compute_storage(type));
  return option_real(&t->options, OPT_rtol, fmax(computed, fmax(default_rtol(x->dtype), default_rtol(y->dtype))));
}

Difference compare(const Tool *t, const Tensor *x, const Tensor *y) {
  bool floats = dtype_is_float(x->dtype);
  bool alike = floats ? dtype_is_float(y->dtype) : x->dtype == y->dtype; /* states may be kept in fewer bits */
  if (!alike || !tensor_same_shape(x, y)) return (Difference){INFINITY, INFINITY, false};
  Difference d = floats ? compare_floats(x, y) : compare_integers(x, y);
  d.ok = d.rel_l2 <= (floats ? rtol_of(t, x, y) : 0);
  if (option_given(&t->options, OPT_atol)) d.ok = d.ok || d.max_abs <= option_real(&t->options, OPT_atol, 0);
  return d;
}
