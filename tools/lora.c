/* tools/lora.c - --lora: reads 'GLOB:rank=8,alpha=16', or a file of adapters: FILE.safetensors[:alpha=16].
 *
 * A file has, for each weight, lora_A and lora_B as `--save-lora` and PEFT name them; a prefix "base_model.model." of
 * PEFT is ignored.  The scale is alpha / rank if alpha is given, else that of the file (lora_scale).  Any other tensor
 * is an error, as without it the file would mean something else.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "driver/weight_files.h"
#include "tools/build.h"

enum { MOST_RANK = 4096 };

static bool fail(Tool *t, const char *value, const char *what) {
  return diag_error(t->diags, DIAG_usage_value, (Loc){0}, "--lora %s: %s", value, what);
}

/* Reads "rank=8,alpha=16". */
static bool settings(Tool *t, const char *value, const char *at, double *rank, double *alpha) {
  while (*at) {
    bool is_rank = strncmp(at, "rank=", 5) == 0, is_alpha = strncmp(at, "alpha=", 6) == 0;
    char *end = NULL;
    double x = is_rank || is_alpha ? strtod(strchr(at, '=') + 1, &end) : 0;
    if (!end || (*end && *end != ',') || !(x > 0) || !isfinite(x)) return fail(t, value, "expected rank=N or alpha=X");
    *(is_rank ? rank : alpha) = x;
    at = end + (*end == ',');
  }
  return true;
}

static bool add_glob(Tool *t, LoraRules *l, const char *value) {
  const char *at = strstr(value, ":rank="), *last = at;
  while (last && (last = strstr(last + 1, ":rank="))) at = last;
  double rank = 0, alpha = 0;
  if (!at || at == value) return fail(t, value, "expected GLOB:rank=N,alpha=X or FILE.safetensors");
  if (!settings(t, value, at + 1, &rank, &alpha)) return false;
  if (rank < 1 || rank != rint(rank) || rank > MOST_RANK)
    return fail(t, value, "the rank must be a whole number, 1 to 4096");
  LoraRule r = {.glob = arena_strndup(t->arena, value, (size_t)(at - value)), .rank = (int64_t)rank};
  r.scale = (alpha > 0 ? alpha : rank) / rank;
  if (!isfinite((float)r.scale)) return fail(t, value, "the scale, alpha / rank, must be finite in f32");
  ARENA_PUSH(t->arena, &l->rules, r);
  return true;
}

/* The name of the part of an adapter, with `from` in it replaced by `to`; NULL if it has no such part. */
static const char *replaced(Arena *a, const char *name, const char *from, const char *to) {
  const char *at = strstr(name, from);
  return at ? arena_printf(a, "%.*s%s%s", (int)(at - name), name, to, at + strlen(from)) : NULL;
}

/* The scale that the file has for the adapter with this lora_A; NaN if it has none. */
static double scale_of(Arena *a, const StoredFiles *f, const char *name) {
  const StoredTensor *x = driver_files_find(f, replaced(a, name, ".lora_A", ".lora_scale"));
  if (!x) return NAN;
  const FileMap *map = &f->files.items[x->file].file->map;
  return dtype_load_f(DT_f32, (const char *)map->data + x->entry->offset);
}

static bool fail_at(Tool *t, const char *value, const char *tensor, const char *what) {
  return fail(t, value, arena_printf(t->arena, "tensor '%s' %s", tensor, what));
}

/* Checks that the tensor is a part of an adapter, of the right type. */
static bool check_tensor(Tool *t, const char *value, const StoredFiles *f, const StoredTensor *x) {
  static const char *const parts[] = {".lora_A", ".lora_B", ".lora_scale"};
  enum { PARTS = (int)(sizeof parts / sizeof *parts), SCALE = 2 };
  int part = 0;
  while (part < PARTS && !strstr(x->name, parts[part])) part++;
  if (part == PARTS) return fail_at(t, value, x->name, "is no lora_A, lora_B or lora_scale");
  const char *twin = replaced(t->arena, x->name, parts[part], parts[part == 0]);
  if (!driver_files_find(f, twin))
    return fail_at(t, value, x->name, arena_printf(t->arena, "has no '%s' beside it", twin));
  if (x->entry->dtype != DT_f32)
    return fail_at(t, value, x->name,
                   arena_printf(t->arena, "is %s; adapters must be f32", dtype_name(x->entry->dtype)));
  if (part == SCALE && x->entry->rank) return fail_at(t, value, x->name, "must be one number");
  return true;
}

static bool add_stored(Tool *t, LoraRules *l, const char *value, const StoredFiles *f, const StoredTensor *a,
                       double alpha, size_t first) {
  static const char prefix[] = "base_model.model.";
  const char *weight = replaced(t->arena, a->name, ".lora_A", "");
  const StoredTensor *b = driver_files_find(f, replaced(t->arena, a->name, ".lora_A", ".lora_B"));
  if (strncmp(weight, prefix, sizeof prefix - 1) == 0) weight += sizeof prefix - 1;
  if (a->file != b->file) return fail_at(t, value, a->name, "and its lora_B must be in one file");
  if (!a->entry->rank || a->entry->dims[0] < 1 || a->entry->dims[0] > MOST_RANK)
    return fail_at(t, value, a->name, "must have a rank of 1 to 4096 as its first dimension");
  LoraRule r = {.glob = weight, .rank = a->entry->dims[0], .path = f->files.items[a->file].file->path};
  for (size_t i = first; i < l->rules.n; i++)
    if (strcmp(l->rules.items[i].glob, weight) == 0)
      return fail_at(t, value, a->name, "is a second adapter of a weight");
  r.bytes = f->files.items[a->file].file->map.size;
  r.offset[0] = a->entry->offset, r.offset[1] = b->entry->offset;
  const SafetensorsEntry *parts[] = {a->entry, b->entry};
  for (int k = 0; k < 2; k++) {
    r.ranks[k] = parts[k]->rank;
    for (int d = 0; d < parts[k]->rank && d < MAX_RANK; d++) r.dims[k][d] = parts[k]->dims[d];
  }
  r.scale = alpha > 0 ? alpha / (double)r.rank : scale_of(t->arena, f, a->name);
  if (!(alpha > 0) && !driver_files_find(f, replaced(t->arena, a->name, ".lora_A", ".lora_scale")))
    return fail(t, value, "the file has no lora_scale; give it: FILE.safetensors:alpha=X");
  if (!isfinite((float)r.scale)) return fail_at(t, value, a->name, "has a scale that is not finite in f32");
  ARENA_PUSH(t->arena, &l->rules, r);
  return true;
}

static bool add_file(Tool *t, LoraRules *l, const char *value) {
  const char *colon = strstr(value, ".safetensors:");
  const char *path = colon ? arena_strndup(t->arena, value, (size_t)(colon + 12 - value)) : value;
  double rank = 0, alpha = 0;
  if (colon && (!settings(t, value, colon + 13, &rank, &alpha) || rank > 0))
    return rank > 0 ? fail(t, value, "the rank is that of the file") : false;
  StoredFiles *f = driver_files_open(t->diags, path);
  bool ok = f != NULL;
  size_t before = l->rules.n;
  for (size_t i = 0; f && i < f->n; i++) ok = check_tensor(t, value, f, &f->items[i]) && ok;
  for (size_t i = 0; ok && i < f->n; i++)
    if (strstr(f->items[i].name, ".lora_A")) ok = add_stored(t, l, value, f, &f->items[i], alpha, before) && ok;
  if (f) driver_files_close(f);
  return ok && (l->rules.n > before || fail(t, value, "the file has no lora_A"));
}

bool tool_lora(Tool *t, ModelOptions *o) {
  LoraRules *l = ARENA_NEW(t->arena, LoraRules);
  bool ok = true;
  for (size_t i = 0; i < t->options.uses.n; i++) {
    const OptionUse *u = &t->options.uses.items[i];
    if (u->option != OPT_lora) continue;
    bool file = text_ends_with(u->value, ".safetensors") || strstr(u->value, ".safetensors:");
    ok = (file ? add_file : add_glob)(t, l, u->value) && ok;
  }
  if (l->rules.n) o->lora = l;
  return ok;
}
