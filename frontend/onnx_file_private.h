/* frontend/onnx_file_private.h - the inside of an OnnxFile, shared by onnx_file.c and onnx_data.c. */
#ifndef APC_FRONTEND_ONNX_FILE_PRIVATE_H
#define APC_FRONTEND_ONNX_FILE_PRIVATE_H

#include "frontend/onnx_file.h"
#include "frontend/onnx_thin.h"

typedef struct BlobEntry {
  OnnxBlob blob;
  bool mapped; /* by us: unmap at close */
} BlobEntry;

struct OnnxFile {
  Arena *arena;
  const char *path;
  Onnx__ModelProto *model;
  Onnx__TensorProto *tensor;
  struct {
    BlobEntry *items; /* 0 is the model file itself */
    size_t n, cap;
  } blobs;
  OnnxRanges ranges; /* of raw_data in blob 0 */
};

/* Maps a regular file; true with *blob set, else false after a diagnostic of that code. */
bool onnx_map_file(Diags *d, DiagCode code, const char *shown, const char *path, OnnxBlob *blob);

uint32_t onnx_add_blob(OnnxFile *f, OnnxBlob blob, bool mapped);

#endif
