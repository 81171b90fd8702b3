/* tools/lora.c - --lora: reads 'GLOB:rank=8,alpha=16', or a file of adapters: FILE.safetensors[:alpha=16].
 *
 * A file has, for each weight, lora_A and lora_B as `--save-lora` and PEFT name them; a prefix "base_model.model." of
 * PEFT is ignored.  The scale is that of the file (lora_scale), else alpha / rank.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "driver/weight_files.h"
#include "tools/build.h"

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
  const double most = 4096;
  if (!at || at == value) return fail(t, value, "expected GLOB:rank=N,alpha=X or FILE.safetensors");
  if (!settings(t, value, at + 1, &rank, &alpha)) return false;
  if (rank != rint(rank) || rank > most) return fail(t, value, "the rank must be a whole number, at most 4096");
  LoraRule r = {.glob = arena_strndup(t->arena, value, (size_t)(at - value)), .rank = (int64_t)rank};
  r.scale = (alpha > 0 ? alpha : rank) / rank;
  ARENA_PUSH(t->arena, &l->rules, r);
  return true;
}

/* The name of the part of an adapter, with `from` in it replaced by `to`; NULL if it has no such part. */
static const char *replaced(Arena *a, const char *name, const char *from, const char *to) {
  const char *at = strstr(name, from);
  return at ? arena_printf(a, "%.*s%s%s", (int)(at - name), name, to, at + strlen(from)) : NULL;
}

static double scale_of(Arena *a, const StoredFiles *f, const char *name, double otherwise) {
  const char *own = replaced(a, name, ".lora_A", ".lora_scale");
  const StoredTensor *x = driver_files_find(f, own);
  if (!x || x->entry->dtype != DT_f32 || x->entry->rank) return otherwise;
  const FileMap *map = &f->files.items[x->file].file->map;
  return dtype_load_f(DT_f32, (const char *)map->data + x->entry->offset);
}

static bool add_stored(Tool *t, LoraRules *l, const char *value, const StoredFiles *f, const StoredTensor *a,
                       double alpha) {
  static const char prefix[] = "base_model.model.";
  const char *weight = replaced(t->arena, a->name, ".lora_A", "");
  const StoredTensor *b = driver_files_find(f, replaced(t->arena, a->name, ".lora_A", ".lora_B"));
  if (strncmp(weight, prefix, sizeof prefix - 1) == 0) weight += sizeof prefix - 1;
  if (!b || a->entry->dtype != DT_f32 || b->entry->dtype != DT_f32 || !a->entry->rank || a->file != b->file)
    return fail(t, value, arena_printf(t->arena, "'%s' and its lora_B must be f32 tensors of one file", a->name));
  LoraRule r = {.glob = weight, .rank = a->entry->dims[0], .path = f->files.items[a->file].file->path};
  r.bytes = f->files.items[a->file].file->map.size;
  r.offset[0] = a->entry->offset, r.offset[1] = b->entry->offset;
  const SafetensorsEntry *parts[] = {a->entry, b->entry};
  for (int k = 0; k < 2; k++) {
    r.ranks[k] = parts[k]->rank;
    for (int d = 0; d < parts[k]->rank && d < MAX_RANK; d++) r.dims[k][d] = parts[k]->dims[d];
  }
  r.scale = scale_of(t->arena, f, a->name, alpha > 0 ? alpha / (double)r.rank : NAN);
  if (isnan(r.scale)) return fail(t, value, "the file has no lora_scale; give it: FILE.safetensors:alpha=X");
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
  for (size_t i = 0; f && i < f->n; i++)
    if (strstr(f->items[i].name, ".lora_A")) ok = add_stored(t, l, value, f, &f->items[i], alpha) && ok;
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
