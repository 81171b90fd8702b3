/* frontend/onnx_file.c - opening and closing; see onnx_file.h.  Where data lies: onnx_data.c. */
#include "frontend/onnx_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "frontend/onnx_file_private.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "ONNX data is used in place, so little-endian only");

bool onnx_map_file(Diags *d, DiagCode code, const char *shown, const char *path, OnnxBlob *blob) {
  Loc loc = {.file = arena_strdup(d->arena, shown)};
  int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a FIFO must not block us */
  if (fd < 0) return diag_error(d, code, loc, "cannot open %s: %s", path, strerror(errno));
  struct stat st;
  bool ok = false;
  if (fstat(fd, &st) != 0) {
    diag_error(d, code, loc, "cannot read %s: %s", path, strerror(errno));
  } else if (!S_ISREG(st.st_mode)) {
    diag_error(d, code, loc, "%s is not a regular file", path);
  } else if (st.st_size == 0) {
    *blob = (OnnxBlob){path, NULL, 0};
    ok = true;
  } else {
    void *data = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED) {
      diag_error(d, code, loc, "cannot map %s: %s", path, strerror(errno));
    } else {
      *blob = (OnnxBlob){path, data, (uint64_t)st.st_size};
      ok = true;
    }
  }
  close(fd);
  return ok;
}

uint32_t onnx_add_blob(OnnxFile *f, OnnxBlob blob, bool mapped) {
  BlobEntry entry = {blob, mapped};
  ARENA_PUSH(f->arena, &f->blobs, entry);
  return (uint32_t)(f->blobs.n - 1);
}

/* Thins and unpacks blob 0 as a message of that kind; NULL after a diagnostic. */
static ProtobufCMessage *unpack(OnnxFile *f, Diags *d, const ProtobufCMessageDescriptor *kind) {
  const char *file = arena_strdup(d->arena, f->path);
  Arena *scratch = arena_new();
  OnnxThin thin = {0};
  OnnxBlob blob = f->blobs.items[0].blob;
  ProtobufCMessage *message = NULL;
  if (onnx_thin(d, file, kind, blob.data, blob.bytes, f->arena, &f->ranges, scratch, &thin)) {
    message = protobuf_c_message_unpack(kind, NULL, thin.n, thin.items);
    if (!message) diag_error(d, DIAG_onnx_wire, (Loc){.file = file}, "protobuf-c cannot decode this %s", kind->short_name);
  }
  arena_free(scratch);
  return message;
}

static bool decode_model(OnnxFile *f, Diags *d) {
  f->model = (Onnx__ModelProto *)unpack(f, d, &onnx__model_proto__descriptor);
  if (!f->model) return false;
  Loc loc = {.file = arena_strdup(d->arena, f->path)};
  if (!f->model->graph) return diag_error(d, DIAG_onnx_model, loc, "the model has no graph");
  if (f->model->n_opset_import == 0)
    return diag_error(d, DIAG_onnx_model, loc, "the model names no operator set (opset_import)");
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
  OnnxBlob blob;
  if (!onnx_map_file(d, DIAG_file_read, path, f->path, &blob)) {
    onnx_file_close(f);
    return NULL;
  }
  onnx_add_blob(f, blob, true);
  return finish(f, d, decode);
}

OnnxFile *onnx_file_open(Diags *d, const char *path) { return open_path(d, path, decode_model); }
OnnxFile *onnx_file_open_tensor(Diags *d, const char *path) { return open_path(d, path, decode_tensor); }

OnnxFile *onnx_file_open_bytes(Diags *d, const char *name, const void *bytes, size_t n) {
  OnnxFile *f = new_file(name);
  onnx_add_blob(f, (OnnxBlob){f->path, bytes, n}, false);
  return finish(f, d, decode_model);
}

void onnx_file_close(OnnxFile *f) {
  if (!f) return;
  if (f->model) onnx__model_proto__free_unpacked(f->model, NULL);
  if (f->tensor) onnx__tensor_proto__free_unpacked(f->tensor, NULL);
  for (size_t i = 0; i < f->blobs.n; i++) {
    const OnnxBlob *blob = &f->blobs.items[i].blob;
    if (f->blobs.items[i].mapped && blob->bytes) munmap((void *)(uintptr_t)blob->data, (size_t)blob->bytes);
  }
  arena_free(f->arena);
}

const char *onnx_file_path(const OnnxFile *f) { return f->path; }
const Onnx__ModelProto *onnx_file_model(const OnnxFile *f) { return f->model; }
const Onnx__TensorProto *onnx_file_tensor(const OnnxFile *f) { return f->tensor; }
size_t onnx_file_blob_count(const OnnxFile *f) { return f->blobs.n; }
OnnxBlob onnx_file_blob(const OnnxFile *f, uint32_t blob) { return f->blobs.items[blob].blob; }

/* Packs a message and reads it again by another schema. */
static ProtobufCMessage *reread(const ProtobufCMessage *message, const ProtobufCMessageDescriptor *as) {
  size_t n = protobuf_c_message_get_packed_size(message);
  uint8_t *bytes = malloc(n ? n : 1);
  if (!bytes) return NULL;
  protobuf_c_message_pack(message, bytes);
  ProtobufCMessage *again = protobuf_c_message_unpack(as, NULL, n, bytes);
  free(bytes);
  return again;
}

OnnxOverlay__NodeProto *onnx_node_overlay(const Onnx__NodeProto *node) {
  return (OnnxOverlay__NodeProto *)reread(&node->base, &onnx_overlay__node_proto__descriptor);
}

OnnxOverlay__ModelProto *onnx_model_overlay(const Onnx__ModelProto *model) {
  /* The graph has nothing for the overlay and is the bulk of the message. */
  Onnx__ModelProto shallow = *model;
  shallow.graph = NULL;
  return (OnnxOverlay__ModelProto *)reread(&shallow.base, &onnx_overlay__model_proto__descriptor);
}
