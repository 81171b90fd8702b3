/* tools/cmd_inspect.c - apc inspect FILE: shows the contents of a model, plan, program, tensor file or trace.
 *
 * A program is recognised by its last bytes, other files by their extension.
 */
#include <inttypes.h>
#include <string.h>

#include "base/file.h"
#include "base/json_text.h"
#include "base/npy.h"
#include "base/npz.h"
#include "base/safetensors.h"
#include "base/text.h"
#include "tools/inspect.h"

/* ---- files of tensors */

typedef struct TensorRow {
  const char *name;
  DType dtype;
  int rank;
  const int64_t *dims;
  size_t bytes;
} TensorRow;

static const char *shape_text(Arena *a, int rank, const int64_t *dims) {
  Text t = {.arena = a};
  for (int i = 0; i < rank; i++) text_printf(&t, "%s%" PRId64, i ? "," : "", dims[i]);
  return text_str(&t);
}

/* The tensors of a file, as text or JSON, with their total. */
typedef struct TensorList {
  json_t *array;
  Text text; /* printed only if the whole file can be read */
  size_t n;
  double bytes;
} TensorList;

static void tensor_row(Tool *t, TensorList *list, const TensorRow *r) {
  list->n++;
  list->bytes += (double)r->bytes;
  if (!option_given(&t->options, OPT_json)) {
    text_printf(&list->text, "  %-32s %s[%s]  %s\n", r->name, dtype_name(r->dtype),
                shape_text(t->arena, r->rank, r->dims), show_bytes(t->arena, (double)r->bytes));
    return;
  }
  json_t *shape = json_array();
  for (int i = 0; i < r->rank; i++) json_array_append_new(shape, json_integer(r->dims[i]));
  json_array_append_new(list->array, json_pack("{s:o, s:s, s:o, s:I}", "name", json_text(r->name), "dtype",
                                               dtype_name(r->dtype), "shape", shape, "bytes", (json_int_t)r->bytes));
}

static bool npz_rows(Tool *t, const char *path, TensorList *list) {
  Npz *z = npz_open(t->diags, path);
  bool ok = z != NULL;
  for (size_t i = 0; ok && i < z->n; i++) {
    Tensor tensor;
    ok = npz_read(z, &z->items[i], &tensor);
    if (ok) tensor_row(t, list, &(TensorRow){z->items[i].name, tensor.dtype, tensor.rank, tensor.dims, tensor.bytes});
    if (ok) tensor_free(&tensor);
  }
  if (z) npz_close(z);
  return ok;
}

static bool npy_rows(Tool *t, const char *path, TensorList *list) {
  Tensor tensor;
  if (!npy_read(t->diags, path, &tensor)) return false;
  tensor_row(t, list, &(TensorRow){path, tensor.dtype, tensor.rank, tensor.dims, tensor.bytes});
  tensor_free(&tensor);
  return true;
}

static bool safetensors_rows(Tool *t, const char *path, TensorList *list) {
  Safetensors *s = safetensors_open(t->diags, path);
  if (!s) return false;
  for (size_t i = 0; i < s->n; i++) {
    const SafetensorsEntry *e = &s->items[i];
    tensor_row(t, list, &(TensorRow){e->name, e->dtype, e->rank, e->dims, e->bytes});
  }
  safetensors_close(s);
  return true;
}

typedef struct TensorFormat {
  const char *ending;
  bool (*rows)(Tool *t, const char *path, TensorList *list);
} TensorFormat;

static const TensorFormat formats[] = {{".npz", npz_rows}, {".npy", npy_rows}, {".safetensors", safetensors_rows}};

static const TensorFormat *tensor_format(const char *path) {
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (text_ends_with(path, formats[i].ending)) return &formats[i];
  return NULL;
}

static int inspect_tensors(Tool *t, const char *path, const TensorFormat *format) {
  bool json = option_given(&t->options, OPT_json);
  TensorList list = {.array = json_array(), .text = {.arena = t->arena}};
  bool ok = format->rows(t, path, &list);
  if (ok && !json)
    printf("%s\n%s  %-32s %zu tensor%s, %s\n", path, text_str(&list.text), "total", list.n, list.n == 1 ? "" : "s",
           show_bytes(t->arena, list.bytes));
  if (ok && json)
    tool_json(t, json_pack("{s:s, s:o, s:s, s:I, s:O}", "schema", "apc.inspect/1", "file", json_text(path), "kind",
                           "tensors", "bytes", (json_int_t)list.bytes, "tensors", list.array));
  json_decref(list.array);
  return ok ? EXIT_OK : EXIT_BAD_INPUT;
}

/* Guesses by the first byte of a file without a known extension; programs were recognised by their last bytes. */
static bool begins_like_json(const char *path) {
  FILE *f = fopen(path, "re");
  int c = f ? fgetc(f) : EOF;
  while (c == ' ' || c == '\n' || c == '\r' || c == '\t') c = fgetc(f);
  if (f) fclose(f);
  return c == '{' || c == '[';
}

static bool readable(Tool *t, const char *path) {
  FileMap map;
  if (!file_map(t->diags, path, &map)) return false;
  file_unmap(&map);
  return true;
}

/* Refuses options that only models have. */
static bool check_options(Tool *t, const char *path) {
  static const OptionId of_models[] = {OPT_unsupported, OPT_dim, OPT_shape, OPT_define};
  for (size_t i = 0; i < sizeof of_models / sizeof *of_models; i++)
    if (option_given(&t->options, of_models[i]))
      return diag_error(t->diags, DIAG_usage_option, (Loc){0},
                        "option '%s' needs a model (.onnx, .apc, .ir); '%s' is none", option_rows[of_models[i]].flag,
                        path);
  return true;
}

static bool is_plan(const char *path) { return text_ends_with(path, ".plan") || begins_like_plan(path); }

static int compare_plans(Tool *t, const char *path, const char *other) {
  if (!readable(t, other)) return EXIT_BAD_INPUT;
  for (int i = 0; i < 2; i++) {
    const char *one = i ? other : path;
    if (is_plan(one)) continue;
    diag_error(t->diags, DIAG_usage_argument, (Loc){0}, "only two plans can be compared; '%s' is no plan", one);
    return EXIT_USAGE;
  }
  return check_options(t, path) ? inspect_plans(t, path, other) : EXIT_USAGE;
}

int cmd_inspect(Tool *t) {
  if (!tool_args(t, 1, 2)) return EXIT_USAGE;
  const char *path = t->options.args.items[0];
  if (!readable(t, path)) return EXIT_BAD_INPUT;
  if (t->options.args.n == 2) return compare_plans(t, path, t->options.args.items[1]);
  if (model_kind(path) != MODEL_NONE) return inspect_model(t, path);
  if (!check_options(t, path)) return EXIT_USAGE;
  const TensorFormat *format = tensor_format(path);
  if (format) return inspect_tensors(t, path, format);
  if (text_ends_with(path, ".topo")) {
    diag_error(t->diags, DIAG_model_kind, (Loc){.file = path}, "this is a target: `apc targets show %s`", path);
    return EXIT_BAD_INPUT;
  }
  if (is_plan(path)) return inspect_plan(t, path);
  if (text_ends_with(path, ".json") || begins_like_json(path)) return inspect_trace(t, path);
  return inspect_program(t, path);
}
