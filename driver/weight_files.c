/* driver/weight_files.c - see weight_files.h. */
#include "driver/weight_files.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/text.h"

#define BAD(d, path, ...) diag_error(d, DIAG_weights, file_loc(d, path), __VA_ARGS__)

static const char index_name[] = "model.safetensors.index.json", single_name[] = "model.safetensors",
                  checkpoint_name[] = "checkpoint.safetensors"; /* of a training program */

static bool is_folder(const char *path) {
  struct stat s;
  return stat(path, &s) == 0 && S_ISDIR(s.st_mode);
}

static bool is_index(const char *path) { return text_ends_with(path, ".index.json"); }

bool driver_files_is_path(const char *path) {
  return text_ends_with(path, ".safetensors") || is_index(path) || is_folder(path);
}

static int by_name(const void *a, const void *b) {
  return strcmp(((const StoredTensor *)a)->name, ((const StoredTensor *)b)->name);
}

/* Opens one file; false after a diagnostic. */
static bool add_file(StoredFiles *w, Diags *d, const char *name, const char *path) {
  Safetensors *s = safetensors_open(d, path);
  if (s) ARENA_PUSH(d->arena, &w->files, ((StoredFile){name, s, -1}));
  return s != NULL;
}

static bool open_single(StoredFiles *w, Diags *d) {
  if (!add_file(w, d, NULL, w->path)) return false;
  const Safetensors *s = w->files.items[0].file;
  w->items = ARENA_ARRAY(d->arena, StoredTensor, s->n + 1);
  for (; w->n < s->n; w->n++) w->items[w->n] = (StoredTensor){s->items[w->n].name, 0, &s->items[w->n]};
  return true;
}

/* Returns the number of the file of an index, which is opened at its first use; -1 after a diagnostic. */
static long file_number(StoredFiles *w, Diags *d, const char *name) {
  for (size_t i = 0; i < w->files.n; i++)
    if (strcmp(w->files.items[i].name, name) == 0) return (long)i;
  if (!text_ends_with(name, ".safetensors") || strchr(name, '/')) {
    BAD(d, w->path, "weight_map names '%s', which is not a .safetensors file beside the index", name);
    return -1;
  }
  const char *slash = strrchr(w->path, '/');
  int length = slash ? (int)(slash - w->path) + 1 : 0;
  const char *path = arena_printf(d->arena, "%.*s%s", length, w->path, name);
  return add_file(w, d, arena_strdup(d->arena, name), path) ? (long)w->files.n - 1 : -1;
}

static bool add_tensor(StoredFiles *w, Diags *d, const char *name, const json_t *file) {
  if (!json_is_string(file)) return BAD(d, w->path, "weight_map gives tensor '%s' no file", name);
  long number = file_number(w, d, json_string_value(file));
  if (number < 0) return false;
  const Safetensors *s = w->files.items[number].file;
  const SafetensorsEntry *e = safetensors_find(s, name);
  if (!e) return BAD(d, s->path, "the file has no tensor '%s', which the index says is here", name);
  w->items[w->n++] = (StoredTensor){e->name, (size_t)number, e};
  return true;
}

static bool read_index(StoredFiles *w, Diags *d, const json_t *root) {
  json_t *map = json_object_get(root, "weight_map"), *file;
  const char *name;
  bool ok = json_is_object(map) || BAD(d, w->path, "the index has no object weight_map");
  if (!ok) return false;
  w->items = ARENA_ARRAY(d->arena, StoredTensor, json_object_size(map) + 1);
  json_object_foreach(map, name, file) ok = ok && add_tensor(w, d, name, file);
  if (ok && w->n) qsort(w->items, w->n, sizeof *w->items, by_name);
  return ok;
}

static bool open_index(StoredFiles *w, Diags *d) {
  size_t n;
  const char *text = file_read_text(d, d->arena, w->path, &n);
  if (!text) return false;
  json_error_t error;
  json_t *root = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
  if (!root) return BAD(d, w->path, "line %d is not JSON: %s", error.line, error.text);
  bool ok = read_index(w, d, root);
  json_decref(root);
  return ok;
}

const char *driver_files_in(Arena *a, const char *folder) {
  const char *slash = text_ends_with(folder, "/") ? "" : "/";
  const char *path = arena_printf(a, "%s%s%s", folder, slash, single_name);
  if (access(path, F_OK) == 0) return path;
  path = arena_printf(a, "%s%s%s", folder, slash, index_name);
  if (access(path, F_OK) == 0) return path;
  path = arena_printf(a, "%s%s%s", folder, slash, checkpoint_name);
  return access(path, F_OK) == 0 ? path : NULL;
}

const char *driver_files_first(Arena *a, const char *path) {
  const char *found = is_folder(path) ? driver_files_in(a, path) : NULL;
  return found ? found : path;
}

/* Sets w->path to the index or the file of a folder; false after a diagnostic. */
static bool find_in_folder(StoredFiles *w, Diags *d, const char *folder) {
  const char *path = driver_files_in(d->arena, folder);
  if (path) return w->path = path, true;
  BAD(d, folder, "the folder has no %s and no %s", single_name, index_name);
  diag_help(d, "save_pretrained of transformers writes one of them; older .bin files are not read");
  return false;
}

StoredFiles *driver_files_open(Diags *d, const char *path) {
  StoredFiles *w = ARENA_NEW(d->arena, StoredFiles);
  *w = (StoredFiles){.path = arena_strdup(d->arena, path)};
  bool ok = !is_folder(path) || find_in_folder(w, d, path);
  ok = ok && (is_index(w->path) ? open_index(w, d) : open_single(w, d));
  if (ok) return w;
  driver_files_close(w);
  return NULL;
}

void driver_files_close(StoredFiles *w) {
  for (size_t i = 0; i < w->files.n; i++) safetensors_close(w->files.items[i].file);
}

const StoredTensor *driver_files_find(const StoredFiles *w, const char *name) {
  StoredTensor key = {.name = name};
  return w->n ? bsearch(&key, w->items, w->n, sizeof *w->items, by_name) : NULL;
}

const char *driver_files_meta(const StoredFiles *w, const char *key) {
  return w->files.n == 1 ? safetensors_meta(w->files.items[0].file, key) : NULL;
}
