/* frontend/onnx/file_private.h - the members of an OnnxFile, shared by file.c and data.c. */
#ifndef APC_FRONTEND_ONNX_FILE_PRIVATE_H
#define APC_FRONTEND_ONNX_FILE_PRIVATE_H

#include "base/file.h"
#include "frontend/onnx/file.h"
#include "frontend/onnx/thin.h"

typedef struct BlobEntry {
  OnnxBlob blob;
  FileMap map; /* unmapped at close if `mapped` */
  bool mapped;
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
  struct {
    const char **items; /* locations of external data that cannot be used, reported for their first tensor */
    size_t n, cap;
  } refused;
};

uint32_t onnx_add_blob(OnnxFile *f, OnnxBlob blob);                          /* for memory that outlives the file */
bool onnx_map_blob(OnnxFile *f, Diags *d, const char *path, uint32_t *blob); /* false after a diagnostic */

#endif
