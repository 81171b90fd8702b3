/* frontend/onnx/replace.c - see replace.h.
 *
 * The file is opened as for an import, which checks it and locates the bytes of every tensor.  Then the whole
 * message is decoded again, this time with the tensors' bytes, changed and encoded. protobuf-c keeps fields that the
 * schema does not know.  Not done: more than 2 GiB, which one message cannot hold; tensors inside nodes whose data
 * is in other files.
 */
#include "frontend/onnx/replace.h"

#include <string.h>

#include "base/file.h"
#include "frontend/onnx/body.h"
#include "frontend/onnx/write.h"

typedef struct Replacing {
  OnnxFile *file;
  const OnnxReplacing *how;
  Diags *diags;
} Replacing;

static Loc place(const Replacing *r, const char *node) { return (Loc){.file = onnx_file_path(r->file), .node = node}; }

/* Stores the raw bytes and removes all other forms of the data. */
static void set_bytes(Onnx__TensorProto *t, const void *data, size_t bytes) {
  t->n_float_data = t->n_double_data = t->n_int32_data = t->n_int64_data = t->n_uint64_data = t->n_string_data = 0;
  t->n_external_data = 0, t->has_data_location = false;
  t->has_raw_data = true;
  t->raw_data = (ProtobufCBinaryData){bytes, (uint8_t *)(uintptr_t)data};
}

static bool is_external(const Onnx__TensorProto *t) {
  return t->has_data_location && t->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

/* `known`: the same initializer in the file that locates its bytes. */
static bool replace(const Replacing *r, const Onnx__TensorProto *known, Onnx__TensorProto *t) {
  OnnxData old;
  Tensor new = {0};
  DType dtype;
  if (!onnx_dtype(t->data_type, &dtype)) return true; /* apc has no weights of this type */
  if (!onnx_file_data(r->file, r->diags, known, &old) ||
      !r->how->replacement(r->how->context, onnx_text(t->name), &old, &new))
    return false;
  if (new.data) set_bytes(t, new.data, new.bytes);
  else if (is_external(t)) set_bytes(t, onnx_file_stored(r->file, &old), old.bytes);
  return true;
}

static bool attribute_inside(const Replacing *r, const char *node, const Onnx__AttributeProto *a);

static bool nodes_inside(const Replacing *r, const Onnx__GraphProto *g) {
  bool ok = true;
  for (size_t i = 0; i < g->n_node; i++)
    for (size_t k = 0; k < g->node[i]->n_attribute; k++)
      ok = attribute_inside(r, onnx_text(g->node[i]->name), g->node[i]->attribute[k]) && ok;
  return ok;
}

/* Checks that no tensor of a node has its data in another file; in inner graphs, no initializer either. */
static bool attribute_inside(const Replacing *r, const char *node, const Onnx__AttributeProto *a) {
  bool ok = !a->t || !is_external(a->t);
  for (size_t i = 0; i < a->n_tensors; i++) ok = ok && !is_external(a->tensors[i]);
  for (size_t i = 0; a->g && i < a->g->n_initializer; i++) ok = ok && !is_external(a->g->initializer[i]);
  if (!ok)
    return diag_error(
        r->diags, DIAG_onnx_export, place(r, node),
        "the data of a tensor of this node is in another file, and it is not an initializer of the model");
  return !a->g || nodes_inside(r, a->g);
}

/* ---- weights that the file does not store separately */

static bool has_initializer(const Onnx__GraphProto *g, const char *name) {
  for (size_t i = 0; i < g->n_initializer; i++)
    if (strcmp(onnx_text(g->initializer[i]->name), name) == 0) return true;
  return false;
}

static bool add_initializer(const Replacing *r, Onnx__GraphProto *g, const char *name) {
  Arena *a = r->diags->arena;
  Onnx__TensorProto **list = ARENA_ARRAY(a, Onnx__TensorProto *, g->n_initializer + 1),
                    *t = ARENA_NEW(a, Onnx__TensorProto);
  Tensor x = {0};
  if (!r->how->addition(r->how->context, name, &x)) return false;
  onnx__tensor_proto__init(t);
  t->name = arena_strdup(a, name);
  t->has_data_type = true, t->data_type = onnx_type_of(x.dtype);
  t->dims = ARENA_ARRAY(a, int64_t, (size_t)x.rank + 1), t->n_dims = (size_t)x.rank;
  for (int d = 0; d < x.rank; d++) t->dims[d] = x.dims[d];
  set_bytes(t, x.data, x.bytes);
  memcpy(list, g->initializer, g->n_initializer * sizeof *list);
  list[g->n_initializer++] = t;
  g->initializer = list;
  return true;
}

static void set_input(Arena *a, Onnx__NodeProto *node, size_t operand, const char *name) {
  size_t n = operand < node->n_input ? node->n_input : operand + 1;
  char **input = ARENA_ARRAY(a, char *, n);
  for (size_t k = 0; k < n; k++) input[k] = k < node->n_input ? node->input[k] : arena_strdup(a, "");
  input[operand] = arena_strdup(a, name);
  node->input = input, node->n_input = n;
}

/* Removes nodes whose result has become an initializer. */
static void drop_named(Onnx__GraphProto *g) {
  size_t n = 0;
  for (size_t i = 0; i < g->n_node; i++) {
    const Onnx__NodeProto *node = g->node[i];
    bool goes =
        strcmp(onnx_text(node->op_type), "Identity") == 0 && node->n_output && has_initializer(g, node->output[0]);
    if (!goes) g->node[n++] = g->node[i];
  }
  g->n_node = n;
}

static bool is_expanded(const Onnx__ModelProto *model) {
  bool some = model->n_functions > 0;
  for (size_t i = 0; i < model->graph->n_node; i++)
    some |= onnx_body_find(model->graph->node[i]->domain, model->graph->node[i]->op_type) != NULL;
  return some;
}

static bool add_all(const Replacing *r, Onnx__ModelProto *model) {
  const TrainingReads *reads = r->how->reads;
  Onnx__GraphProto *g = model->graph;
  if (reads->n && is_expanded(model)) /* node numbers are those with functions expanded */
    return diag_error(
        r->diags, DIAG_onnx_export, place(r, NULL),
        "the file of weights has separate weights where the model's file has one for several nodes, which is "
        "not built yet for models with functions or operators of ONNX Runtime");
  for (size_t i = 0; i < reads->n; i++) {
    const TrainingRead *read = &reads->items[i];
    if (!has_initializer(g, read->name) && !add_initializer(r, g, read->name)) return false;
    set_input(r->diags->arena, g->node[read->node], read->operand, read->name);
  }
  if (reads->n) drop_named(g);
  return true;
}

static bool replace_all(const Replacing *r, Onnx__ModelProto *model) {
  const Onnx__GraphProto *known = onnx_file_model(r->file)->graph;
  Onnx__GraphProto *g = model->graph;
  bool ok = nodes_inside(r, g);
  for (size_t i = 0; i < g->n_initializer; i++) ok = replace(r, known->initializer[i], g->initializer[i]) && ok;
  return ok && (!r->how->reads || add_all(r, model));
}

static uint8_t *replace_in(const Replacing *r, const FileMap *map, size_t *bytes) {
  Onnx__ModelProto *model = (void *)onnx_unpack(r->diags->arena, &onnx__model_proto__descriptor, map->size, map->data);
  if (!model || !model->graph) {
    diag_error(r->diags, DIAG_onnx_wire, place(r, NULL), "protobuf-c cannot decode this model");
    return NULL;
  }
  if (!replace_all(r, model) || (r->how->finish && !r->how->finish(r->how->context, model))) return NULL;
  return onnx_pack(model, place(r, NULL), bytes, r->diags);
}

uint8_t *onnx_replace(const char *path, const OnnxReplacing *how, size_t *bytes, Diags *diags) {
  FileMap map = {0};
  uint8_t *packed = NULL;
  Replacing r = {onnx_file_open(diags, path), how, diags};
  if (r.file && file_map(diags, path, &map)) {
    packed = replace_in(&r, &map, bytes);
    file_unmap(&map);
  }
  if (r.file) onnx_file_close(r.file);
  return packed;
}
