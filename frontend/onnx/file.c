/* frontend/onnx/file.c - opens and closes files; see file.h.  data.c locates the data. */
#include "frontend/onnx/file.h"

#include <stdlib.h>

#include "base/die.h"
#include "frontend/onnx/file_private.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ONNX data is used in place, so little-endian only");

static void *allocate(void *unused, size_t n) {
  (void)unused;
  return must_have(malloc(n), "decoding an ONNX model");
}

static void release(void *unused, void *p) {
  (void)unused;
  free(p);
}

static ProtobufCAllocator allocator = {allocate, release, NULL}; /* never modified */

static void *allocate_in(void *arena, size_t n) { return arena_alloc(arena, n ? n : 1); }
static void keep(void *arena, void *p) { (void)arena, (void)p; }

ProtobufCMessage *onnx_unpack(Arena *a, const ProtobufCMessageDescriptor *as, size_t n, const uint8_t *bytes) {
  ProtobufCAllocator in_arena = {allocate_in, keep, a};
  return protobuf_c_message_unpack(as, &in_arena, n, bytes);
}

uint32_t onnx_add_blob(OnnxFile *f, OnnxBlob blob) {
  BlobEntry entry = {.blob = blob};
  ARENA_PUSH(f->arena, &f->blobs, entry);
  return (uint32_t)(f->blobs.n - 1);
}

bool onnx_map_blob(OnnxFile *f, Diags *d, const char *path, uint32_t *blob) {
  BlobEntry entry = {.mapped = true};
  if (!file_map(d, path, &entry.map)) return false;
  entry.blob = (OnnxBlob){path, entry.map.data, entry.map.size};
  ARENA_PUSH(f->arena, &f->blobs, entry);
  *blob = (uint32_t)(f->blobs.n - 1);
  return true;
}

/* Thins blob 0 and unpacks it as a message of that kind; NULL after a diagnostic. */
static ProtobufCMessage *unpack(OnnxFile *f, Diags *d, const ProtobufCMessageDescriptor *kind) {
  const char *file = arena_strdup(d->arena, f->path);
  Arena *scratch = arena_new();
  OnnxThin thin = {0};
  OnnxBlob blob = f->blobs.items[0].blob;
  ProtobufCMessage *message = NULL;
  if (onnx_thin(d, file, kind, blob.data, blob.bytes, f->arena, &f->ranges, scratch, &thin)) {
    message = protobuf_c_message_unpack(kind, &allocator, thin.n, thin.items);
    if (!message)
      diag_error(d, DIAG_onnx_wire, (Loc){.file = file}, "protobuf-c cannot decode this %s", kind->short_name);
  }
  arena_free(scratch);
  return message;
}

static bool decode_model(OnnxFile *f, Diags *d) {
  f->model = (Onnx__ModelProto *)unpack(f, d, &onnx__model_proto__descriptor);
  if (!f->model) return false;
  Loc loc = {.file = arena_strdup(d->arena, f->path)};
  unsigned long long bytes = f->blobs.items[0].blob.bytes;
  if (bytes == 0) return diag_error(d, DIAG_onnx_model, loc, "the file is empty: the model has no graph");
  if (!f->model->graph)
    return diag_error(d, DIAG_onnx_model, loc, "the model has no graph, or the file is truncated: it has %llu bytes",
                      bytes);
  if (f->model->n_opset_import == 0)
    return diag_error(d, DIAG_onnx_model, loc,
                      "the model names no operator set (opset_import), or the file is truncated: it has %llu bytes",
                      bytes);
  return true;
}

static bool decode_tensor(OnnxFile *f, Diags *d) {
  f->tensor = (Onnx__TensorProto *)unpack(f, d, &onnx__tensor_proto__descriptor);
  return f->tensor != NULL;
}

static OnnxFile *new_file(const char *path) {
  Arena *arena = arena_new();
  OnnxFile *f = ARENA_NEW(arena, OnnxFile);
  f->arena = arena;
  f->path = arena_strdup(arena, path);
  return f;
}

static OnnxFile *finish(OnnxFile *f, Diags *d, bool (*decode)(OnnxFile *, Diags *)) {
  if (decode(f, d)) return f;
  onnx_file_close(f);
  return NULL;
}

static OnnxFile *open_path(Diags *d, const char *path, bool (*decode)(OnnxFile *, Diags *)) {
  OnnxFile *f = new_file(path);
  uint32_t blob;
  if (!onnx_map_blob(f, d, f->path, &blob)) {
    onnx_file_close(f);
    return NULL;
  }
  return finish(f, d, decode);
}

OnnxFile *onnx_file_open(Diags *d, const char *path) { return open_path(d, path, decode_model); }
OnnxFile *onnx_file_open_tensor(Diags *d, const char *path) { return open_path(d, path, decode_tensor); }

OnnxFile *onnx_file_open_bytes(Diags *d, const char *name, const void *bytes, size_t n) {
  OnnxFile *f = new_file(name);
  onnx_add_blob(f, (OnnxBlob){f->path, bytes, n});
  return finish(f, d, decode_model);
}

void onnx_file_close(OnnxFile *f) {
  if (!f) return;
  if (f->model) onnx__model_proto__free_unpacked(f->model, NULL);
  if (f->tensor) onnx__tensor_proto__free_unpacked(f->tensor, NULL);
  for (size_t i = 0; i < f->blobs.n; i++)
    if (f->blobs.items[i].mapped) file_unmap(&f->blobs.items[i].map);
  arena_free(f->arena);
}

const char *onnx_file_path(const OnnxFile *f) { return f->path; }
const Onnx__ModelProto *onnx_file_model(const OnnxFile *f) { return f->model; }
const Onnx__TensorProto *onnx_file_tensor(const OnnxFile *f) { return f->tensor; }
size_t onnx_file_blob_count(const OnnxFile *f) { return f->blobs.n; }
OnnxBlob onnx_file_blob(const OnnxFile *f, uint32_t blob) { return f->blobs.items[blob].blob; }

/* Packs a message and unpacks it with another schema. */
static ProtobufCMessage *reread(const ProtobufCMessage *message, const ProtobufCMessageDescriptor *as) {
  size_t n = protobuf_c_message_get_packed_size(message);
  uint8_t *bytes = allocate(NULL, n ? n : 1);
  protobuf_c_message_pack(message, bytes);
  ProtobufCMessage *again = protobuf_c_message_unpack(as, &allocator, n, bytes);
  free(bytes);
  return again;
}

OnnxOverlay__NodeProto *onnx_node_overlay(const Onnx__NodeProto *node) {
  return (OnnxOverlay__NodeProto *)reread(&node->base, &onnx_overlay__node_proto__descriptor);
}

OnnxOverlay__FunctionProto *onnx_function_overlay(const Onnx__FunctionProto *function) {
  Onnx__FunctionProto shallow = *function; /* its nodes contain no overlay fields */
  shallow.n_node = 0;
  return (OnnxOverlay__FunctionProto *)reread(&shallow.base, &onnx_overlay__function_proto__descriptor);
}

OnnxOverlay__ValueInfoProto *onnx_value_overlay(const Onnx__ValueInfoProto *value) {
  return (OnnxOverlay__ValueInfoProto *)reread(&value->base, &onnx_overlay__value_info_proto__descriptor);
}

OnnxOverlay__ModelProto *onnx_model_overlay(const Onnx__ModelProto *model) {
  /* The graph contains no overlay fields and is most of the message. */
  Onnx__ModelProto shallow = *model;
  shallow.graph = NULL;
  return (OnnxOverlay__ModelProto *)reread(&shallow.base, &onnx_overlay__model_proto__descriptor);
}
