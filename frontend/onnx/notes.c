/* frontend/onnx/notes.c - see notes.h. */
#include "frontend/onnx/notes.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/text.h"
#include "frontend/onnx/names.h"

static const char prefix[] = "apc.", graph_key[] = "apc.graph";

static const struct {
  const char *key;
  size_t field;
} entries[] = {
    {"apc.configuration", offsetof(OnnxNotes, configuration)},
    {"apc.target", offsetof(OnnxNotes, target)},
    {"apc.machine", offsetof(OnnxNotes, machine)},
    {"apc.plan", offsetof(OnnxNotes, plan)},
    {"apc.options", offsetof(OnnxNotes, options)},
    {"apc.model", offsetof(OnnxNotes, model)},
    {"apc.weights", offsetof(OnnxNotes, weights)},
};
enum { ENTRIES = (int)(sizeof entries / sizeof *entries) };

static const char **field_of(OnnxNotes *n, int i) { return (const char **)(void *)((char *)n + entries[i].field); }

static bool is_ours(const Onnx__StringStringEntryProto *e) {
  return strncmp(onnx_text(e->key), prefix, sizeof prefix - 1) == 0;
}

/* ---- the hash of the graph */

/* The names of a list with one per line. */
static NameMap names_of(Arena *a, const char *list) {
  NameMap map = {0};
  for (const char *p = list; p && *p;) {
    size_t n = strcspn(p, "\n");
    name_put(a, &map, arena_strndup(a, p, n), a);
    p += n + (p[n] == '\n');
  }
  return map;
}

static void hash_text(Hash64 *h, const char *text) { hash64_add(h, text, strlen(text) + 1); }

static bool hash_initializers(OnnxFile *f, const char *weights, Hash64 *h, Diags *d) {
  const Onnx__GraphProto *g = onnx_file_model(f)->graph;
  const NameMap free = names_of(d->arena, weights);
  for (size_t i = 0; i < g->n_initializer; i++) {
    const Onnx__TensorProto *t = g->initializer[i];
    OnnxData data;
    if (name_find(&free, onnx_text(t->name))) continue;
    if (!onnx_file_data(f, d, t, &data)) return false;
    hash_text(h, onnx_text(t->name));
    hash64_add(h, data.dims, data.rank * sizeof *data.dims);
    hash64_add(h, onnx_file_stored(f, &data), (size_t)data.bytes);
  }
  return true;
}

/* Tensors in nodes count by their types: the file was opened without their elements. */
static bool graph_hash(OnnxFile *f, const OnnxNotes *n, uint64_t *hash, Diags *d) {
  Onnx__GraphProto g = *onnx_file_model(f)->graph;
  Hash64 h;
  g.n_initializer = 0;
  size_t bytes = onnx__graph_proto__get_packed_size(&g);
  uint8_t *packed = arena_alloc(d->arena, bytes + 1);
  onnx__graph_proto__pack(&g, packed);
  hash64_begin(&h, 0);
  hash64_add(&h, packed, bytes);
  hash_text(&h, onnx_text(n->model));
  hash_text(&h, onnx_text(n->weights));
  if (n->model && !hash_initializers(f, n->weights, &h, d)) return false;
  *hash = hash64_end(&h);
  return true;
}

/* ---- reading */

/* The entries, and the hash as it is written; NULL if there is none. */
static const char *read_entries(const OnnxFile *f, OnnxNotes *out, Arena *a) {
  const Onnx__ModelProto *m = onnx_file_model(f);
  const char *hash = NULL;
  *out = (OnnxNotes){0};
  for (size_t k = 0; k < m->n_metadata_props; k++) {
    const Onnx__StringStringEntryProto *e = m->metadata_props[k];
    if (!is_ours(e)) continue;
    const char *value = arena_strdup(a, onnx_text(e->value));
    if (strcmp(e->key, graph_key) == 0) hash = value;
    for (int i = 0; i < ENTRIES; i++)
      if (strcmp(e->key, entries[i].key) == 0) *field_of(out, i) = value;
  }
  return hash;
}

static const char *hash_text_of(Arena *a, uint64_t hash) { return arena_printf(a, "%016" PRIx64, hash); }

OnnxNoted onnx_notes_read(OnnxFile *f, OnnxNotes *out, Diags *d) {
  const char *written = read_entries(f, out, d->arena);
  uint64_t hash;
  if (!written || !out->plan) return *out = (OnnxNotes){0}, ONNX_NOTED_NOTHING;
  if (graph_hash(f, out, &hash, diags_new(d->arena)) && strcmp(hash_text_of(d->arena, hash), written) == 0)
    return ONNX_NOTED;
  return *out = (OnnxNotes){0}, ONNX_NOTED_ANOTHER;
}

/* ---- writing */

static Onnx__StringStringEntryProto *entry(Arena *a, const char *key, const char *value) {
  Onnx__StringStringEntryProto *e = ARENA_NEW(a, Onnx__StringStringEntryProto);
  onnx__string_string_entry_proto__init(e);
  e->key = arena_strdup(a, key), e->value = arena_strdup(a, value);
  return e;
}

void onnx_notes_put(Arena *a, Onnx__ModelProto *model, const OnnxNotes *notes) {
  Onnx__StringStringEntryProto **list =
      ARENA_ARRAY(a, Onnx__StringStringEntryProto *, model->n_metadata_props + ENTRIES);
  OnnxNotes copy = *notes;
  size_t n = 0;
  for (size_t i = 0; i < model->n_metadata_props; i++)
    if (!is_ours(model->metadata_props[i])) list[n++] = model->metadata_props[i];
  for (int i = 0; i < ENTRIES; i++)
    if (*field_of(&copy, i)) list[n++] = entry(a, entries[i].key, *field_of(&copy, i));
  model->metadata_props = list, model->n_metadata_props = n;
}

/* Two messages one after the other are one message with the fields of both. */
uint8_t *onnx_notes_seal(const char *name, const uint8_t *packed, size_t *bytes, Diags *d) {
  Onnx__ModelProto more;
  OnnxNotes notes;
  uint64_t hash = 0;
  OnnxFile *f = onnx_file_open_bytes(d, name, packed, *bytes);
  if (!f) return NULL;
  read_entries(f, &notes, d->arena);
  bool ok = graph_hash(f, &notes, &hash, d);
  onnx_file_close(f);
  if (!ok) return NULL;
  onnx__model_proto__init(&more);
  Onnx__StringStringEntryProto *e = entry(d->arena, graph_key, hash_text_of(d->arena, hash));
  more.metadata_props = &e, more.n_metadata_props = 1;
  size_t n = onnx__model_proto__get_packed_size(&more);
  uint8_t *sealed = arena_alloc(d->arena, *bytes + n);
  memcpy(sealed, packed, *bytes);
  onnx__model_proto__pack(&more, sealed + *bytes);
  *bytes += n;
  return sealed;
}

/* ---- weights of apc.model */

static const char file_itself[] = "initializers"; /* stands for the path of their blob in the text */

bool onnx_notes_model(const Module *m, OnnxNotes *out, Diags *d) {
  Text names = {.arena = d->arena}, text = {.arena = d->arena};
  Module copy = *m;
  copy.arena = d->arena, copy.blobs.items = NULL, copy.blobs.n = copy.blobs.cap = 0;
  copy.params.items = ARENA_ARRAY(d->arena, Param, m->params.n + 1);
  for (size_t i = 0; i < m->params.n; i++) {
    Param *p = &copy.params.items[i];
    int64_t dims[MAX_RANK], stride = 1;
    *p = m->params.items[i];
    if (p->init != INIT_BLOB) continue;
    if (strchr(p->name, '\n'))
      return diag_error(d, DIAG_onnx_export, (Loc){0}, "the name of the weight '%s' has several lines", p->name);
    p->blob = module_blob(&copy, file_itself, INT64_MAX), p->offset = 0, p->origin = (ParamOrigin){0};
    type_constant_dims(p->type, dims);
    for (int k = p->type->rank - 1; k >= 0; k--) p->strides[k] = stride, stride *= dims[k] ? dims[k] : 1;
    text_printf(&names, "%s\n", p->name);
  }
  module_print(&copy, &text);
  out->model = text_str(&text), out->weights = text_str(&names);
  return true;
}

static bool fits(const Param *p, const OnnxData *data) {
  int64_t dims[MAX_RANK], bytes = 1;
  bool same = type_constant_dims(p->type, dims);
  if (data->packed) { /* whose weight is the bytes */
    for (int d = 0; same && d < p->type->rank; d++) bytes *= dims[d];
    return same && p->type->dtype == DT_u8 && bytes == (int64_t)data->bytes;
  }
  same = same && p->type->dtype == data->dtype && p->type->rank == (int)data->rank;
  for (int d = 0; same && d < p->type->rank; d++) same = dims[d] == data->dims[d];
  return same;
}

bool onnx_notes_attach(OnnxFile *f, Module *m, Diags *d) {
  const Onnx__GraphProto *g = onnx_file_model(f)->graph;
  NameMap initializers = {0};
  for (size_t i = g->n_initializer; i-- > 0;) /* of one name the first counts */
    name_put(m->arena, &initializers, onnx_text(g->initializer[i]->name), g->initializer[i]);
  m->blobs.n = 0; /* only the weights below have one */
  for (size_t i = 0; i < m->params.n; i++) {
    Param *p = &m->params.items[i];
    OnnxData data;
    if (p->init != INIT_BLOB) continue;
    const Onnx__TensorProto *t = name_find(&initializers, p->name);
    if (t && !onnx_file_data(f, d, t, &data)) return false;
    if (!t || !fits(p, &data))
      return diag_error(d, DIAG_onnx_tensor, (Loc){.file = module_string(m, onnx_file_path(f))},
                        "the file has no initializer \"%s\" of the type and shape of the weight", p->name);
    const OnnxBlob blob = onnx_file_blob(f, data.blob);
    p->blob = module_blob(m, blob.path, blob.bytes), p->offset = data.offset;
  }
  return true;
}
