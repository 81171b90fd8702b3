/* driver/weights.c - see weights.h. */
#include "driver/weights.h"

#include <string.h>

#include "base/fill.h"
#include "base/npz.h"
#include "base/text.h"
#include "driver/weight_files.h"
#include "passes/rewrite/stored.h"

bool driver_weight_fits(const Param *p, const SafetensorsEntry *e) {
  int64_t dims[MAX_RANK];
  if (p->type->dtype != e->dtype || p->type->rank != e->rank || !type_constant_dims(p->type, dims)) return false;
  for (int d = 0; d < e->rank; d++)
    if (dims[d] != e->dims[d]) return false;
  return true;
}

static void point_at(Param *p, int blob, const SafetensorsEntry *e) {
  p->init = INIT_BLOB;
  p->blob = blob;
  p->offset = e->offset;
  int64_t stride = 1;
  for (int d = e->rank - 1; d >= 0; d--) {
    p->strides[d] = stride;
    stride *= e->dims[d];
  }
}

typedef struct Taking {
  Module *m;
  StoredFiles *files;
  WeightMaps *maps;
  DType *stored; /* by weight: its type in the file */
  bool *taken;   /* by tensor of the files */
  size_t renamed;
  bool training, widened;
  Diags *diags;
} Taking;

/* True if the value of every float of type `from` is one of type `to` as well.  Floats of 8 bits and fewer do not
 * count: their weights come with scales, which the file has apart. */
static bool is_wider(DType to, DType from) {
  return dtype_is_float(from) && dtype_computes(from) && dtype_is_float(to) && dtype_bytes(to) > dtype_bytes(from);
}

static const char *weight_text(Arena *a, const Module *m, const Param *p) {
  Text t = {.arena = a};
  type_print(m, &t, p->type);
  return text_str(&t);
}

static const char *entry_text(Arena *a, const SafetensorsEntry *e) {
  Text t = {.arena = a};
  text_printf(&t, "%s[", dtype_name(e->dtype));
  for (int d = 0; d < e->rank; d++) text_printf(&t, "%s%lld", d ? ", " : "", (long long)e->dims[d]);
  text_add(&t, "]");
  return text_str(&t);
}

static bool take(Taking *k, size_t number) {
  Param *p = &k->m->params.items[number];
  k->stored[number] = p->type->dtype;
  const char *name = driver_maps_name(k->maps, p->name);
  const char *from = strcmp(name, p->name) == 0 ? "" : arena_printf(k->diags->arena, " (for weight '%s')", p->name);
  const StoredTensor *t = driver_files_find(k->files, name);
  if (!t && !p->trainable && driver_files_meta(k->files, "steps"))
    return true; /* a checkpoint has only trained values */
  if (!t)
    return diag_error(k->diags, DIAG_weights, (Loc){.file = k->files->path}, "the file has no tensor '%s'%s", name,
                      from);
  StoredFile *file = &k->files->files.items[t->file];
  SafetensorsEntry e = *t->entry;
  bool widened = is_wider(p->type->dtype, e.dtype) && !k->training;
  if (widened) e.dtype = p->type->dtype;
  if (!driver_weight_fits(p, &e))
    return diag_error(k->diags, DIAG_weights, (Loc){.file = file->file->path},
                      "tensor '%s'%s does not have the type and shape of the weight: it is %s, the weight is %s", name,
                      from, entry_text(k->diags->arena, t->entry), weight_text(k->diags->arena, k->m, p));
  k->taken[t - k->files->items] = true, k->renamed += *from != 0;
  if (file->blob < 0) file->blob = module_blob(k->m, file->file->path, file->file->map.size);
  if (widened) k->stored[number] = t->entry->dtype, k->widened = true;
  point_at(p, file->blob, t->entry);
  return true;
}

/* Warns of floats in the files that no weight takes: they belong to another model or have other names there.  A
 * checkpoint also has the optimizer's states, named WEIGHT:STATE. */
static void warn_of_rest(const Taking *k) {
  enum { SHOWN = 4 };
  Text t = {.arena = k->diags->arena};
  size_t left = 0;
  for (size_t i = 0; i < k->files->n; i++) {
    const StoredTensor *x = &k->files->items[i];
    bool state = driver_files_meta(k->files, "steps") && strchr(x->name, ':');
    if (!dtype_is_float(x->entry->dtype) || state || k->taken[i]) continue;
    if (left++ < SHOWN) text_printf(&t, "%s'%s'", left > 1 ? ", " : "", x->name);
  }
  if (left > SHOWN) text_printf(&t, " and %zu more", left - SHOWN);
  if (left)
    diag_warning(k->diags, DIAG_weights, (Loc){.file = k->files->path}, "%s: %s",
                 k->maps ? "no weight of the model takes this tensor" : "the model has no weight of this name",
                 text_str(&t));
}

bool driver_weights_from_file(Module *m, const char *path, WeightMaps *maps, bool training, size_t *renamed,
                              Diags *diags) {
  Taking k = {.m = m, .maps = maps, .training = training, .diags = diags};
  if (!driver_maps_check(maps, m, diags) || !(k.files = driver_files_open(diags, path))) return false;
  k.taken = ARENA_ARRAY(diags->arena, bool, k.files->n + 1);
  k.stored = ARENA_ARRAY(diags->arena, DType, m->params.n + 1);
  bool ok = true;
  for (size_t i = 0; i < m->params.n; i++)
    if (m->params.items[i].init != INIT_PREPARED) ok = take(&k, i) && ok;
    else k.stored[i] = m->params.items[i].type->dtype;
  warn_of_rest(&k);
  driver_files_close(k.files);
  *renamed = k.renamed;
  return ok && (!k.widened || rewrite_stored(m, k.stored, diags));
}

/* ---- writing */

typedef struct Source {
  const Module *m;
  Diags *diags;
  FileMap *maps; /* by blob; data is NULL until it is opened */
} Source;

static const uint8_t *blob_bytes(Source *s, int blob) {
  const Blob *b = &s->m->blobs.items[blob];
  FileMap *map = &s->maps[blob];
  if (!map->data && !file_map(s->diags, b->path, map)) return NULL;
  if (map->size == b->bytes) return map->data;
  diag_error(s->diags, DIAG_file_read, (Loc){.file = b->path}, "the file changed while it was read");
  return NULL;
}

static void copy_strided(const Param *p, const uint8_t *from, Tensor *out) {
  int64_t index[MAX_RANK] = {0}, n = tensor_elements(out);
  size_t size = dtype_bytes(out->dtype);
  for (int64_t i = 0; i < n; i++) {
    int64_t at = 0;
    for (int d = 0; d < out->rank; d++) at += index[d] * p->strides[d];
    memcpy((char *)out->data + (size_t)i * size, from + (uint64_t)at * size, size);
    for (int d = out->rank - 1; d >= 0 && ++index[d] == out->dims[d]; d--) index[d] = 0;
  }
}

static void fill_constant(Tensor *out, double value) {
  size_t size = dtype_bytes(out->dtype);
  for (int64_t i = 0; i < tensor_elements(out); i++) {
    if (dtype_is_float(out->dtype)) dtype_store_f(out->dtype, (char *)out->data + (size_t)i * size, value);
    else dtype_store_i(out->dtype, (char *)out->data + (size_t)i * size, (int64_t)value);
  }
}

/* Makes the values of a weight, as every rank would load them; free it with tensor_free. */
static bool make_weight(Source *s, const Param *p, Tensor *out) {
  int64_t dims[MAX_RANK];
  const uint8_t *bytes = NULL;
  if (p->init == INIT_BLOB && !(bytes = blob_bytes(s, p->blob))) return false;
  if (!type_constant_dims(p->type, dims) || !tensor_alloc(out, p->type->dtype, p->type->rank, dims))
    return diag_error(s->diags, DIAG_no_memory, p->loc, "out of memory for weight '%s'", p->name);
  size_t n = (size_t)tensor_elements(out);
  if (p->init == INIT_BLOB) copy_strided(p, bytes + p->offset, out);
  else if (p->init == INIT_NORMAL) fill_normal(out->dtype, out->data, 0, n, (uint64_t)p->seed, 0, 0, p->value);
  else if (p->init == INIT_UNIFORM)
    fill_uniform(out->dtype, out->data, 0, n, (uint64_t)p->seed, 0, -p->value, p->value);
  else if (p->init == INIT_CONSTANT) fill_constant(out, p->value);
  return true;
}

static void close_blobs(Source *s) {
  for (size_t i = 0; i < s->m->blobs.n; i++)
    if (s->maps[i].data) file_unmap(&s->maps[i]);
}

static bool write_npz(Source *s, const char *path) {
  NpzWriter *w = npz_writer_open(s->diags, path);
  bool ok = w != NULL;
  for (size_t i = 0; ok && i < s->m->params.n; i++) {
    const Param *p = &s->m->params.items[i];
    Tensor x;
    if (p->init == INIT_PREPARED) continue; /* prepared from other weights */
    ok = make_weight(s, p, &x);
    if (!ok) break;
    ok = npz_writer_add(w, p->name, &x);
    tensor_free(&x);
  }
  if (ok) return npz_writer_finish(w);
  if (w) npz_writer_abandon(w);
  return false;
}

static bool write_safetensors(Source *s, const char *path) {
  size_t made = 0;
  NamedTensor *list = ARENA_ARRAY(s->diags->arena, NamedTensor, s->m->params.n + 1);
  bool ok = true;
  for (size_t i = 0; ok && i < s->m->params.n; i++) {
    const Param *p = &s->m->params.items[i];
    if (p->init == INIT_PREPARED) continue; /* prepared from other weights */
    list[made].name = p->name;
    ok = make_weight(s, p, &list[made].tensor);
    made += ok;
  }
  ok = ok && safetensors_write(s->diags, path, list, made, NULL, 0);
  for (size_t i = 0; i < made; i++) tensor_free(&list[i].tensor);
  return ok;
}

bool driver_weights_to_file(const Module *m, const char *path, Diags *diags) {
  size_t n = strlen(path);
  Source s = {m, diags, ARENA_ARRAY(diags->arena, FileMap, m->blobs.n + 1)};
  bool npz = n > 4 && strcmp(path + n - 4, ".npz") == 0;
  bool ok = npz ? write_npz(&s, path) : write_safetensors(&s, path);
  close_blobs(&s);
  return ok;
}

/* ---- reading */

struct WeightReader {
  Source source;
  Tensor *made; /* at most one per weight */
  size_t n;
};

WeightReader *driver_reader_open(const Module *m, Diags *diags) {
  WeightReader *r = ARENA_NEW(diags->arena, WeightReader);
  *r = (WeightReader){.source = {m, diags, ARENA_ARRAY(diags->arena, FileMap, m->blobs.n + 1)},
                      .made = ARENA_ARRAY(diags->arena, Tensor, m->params.n + 1)};
  return r;
}

bool driver_reader_read(void *reader, const Param *p, Tensor *out) {
  WeightReader *r = reader;
  if (!make_weight(&r->source, p, out)) return false;
  r->made[r->n++] = *out;
  return true;
}

void driver_reader_close(WeightReader *r) {
  for (size_t i = 0; i < r->n; i++) tensor_free(&r->made[i]);
  close_blobs(&r->source);
}
