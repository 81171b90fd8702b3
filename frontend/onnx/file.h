/* frontend/onnx/file.h - opens ONNX files without reading their weights.
 *
 * The file is mapped.  A pre-pass (thin.h) copies the message without its tensor bytes, and protobuf-c unpacks that
 * small copy, so a model of many gigabytes opens in milliseconds.  The location of a tensor's bytes is computed per
 * tensor, as a range of a blob: the mapped model file, a mapped external data file, or memory of this object for
 * tensors stored element by element.
 *
 * Nodes and types are left to import.h.  Not done: the SHA-1 `checksum` of external data is not compared (it would
 * read the whole file).  A mapped file must not be truncated while it is open.
 */
#ifndef APC_FRONTEND_ONNX_FILE_H
#define APC_FRONTEND_ONNX_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/diag.h"
#include "base/dtype.h"
#include "onnx.pb-c.h"
#include "onnx_overlay.pb-c.h"

typedef struct OnnxFile OnnxFile;

/* Open a model file; a file that holds one TensorProto (the .pb files of test data); or a model in memory (`bytes`
 * must outlive the object; `name` is for messages, and its folder is that of external data).  NULL after
 * diagnostics. */
OnnxFile *onnx_file_open(Diags *d, const char *path);
OnnxFile *onnx_file_open_tensor(Diags *d, const char *path);
OnnxFile *onnx_file_open_bytes(Diags *d, const char *name, const void *bytes, size_t n);
void onnx_file_close(OnnxFile *f);

/* The path as given, and the message of either kind; NULL for the kind that was not opened. */
const char *onnx_file_path(const OnnxFile *f);
const Onnx__ModelProto *onnx_file_model(const OnnxFile *f);
const Onnx__TensorProto *onnx_file_tensor(const OnnxFile *f);

/* A source of bytes.  `path` is NULL for memory of the file object. */
typedef struct OnnxBlob {
  const char *path;
  const uint8_t *data;
  uint64_t bytes;
} OnnxBlob;

/* The number of blobs, and one of them. */
size_t onnx_file_blob_count(const OnnxFile *f);
OnnxBlob onnx_file_blob(const OnnxFile *f, uint32_t blob);

/* The location of a tensor's elements: row-major, little-endian, not necessarily aligned. */
typedef struct OnnxData {
  DType dtype;
  size_t rank;
  const int64_t *dims; /* `rank` dimensions, all >= 0; owned by the message */
  uint64_t elements;
  uint32_t blob;
  uint64_t offset, bytes;
  int packed; /* bits of an element of fewer than 8, several to a byte, the first in the low bits; else 0 */
  const uint8_t *unpacked; /* those with a byte each; NULL above ONNX_UNPACKED_MOST elements */
} OnnxData;

#define ONNX_UNPACKED_MOST (UINT64_C(1) << 16)

/* Locates the data of a tensor of this file's message.  Each call converts data in typed fields of a narrower
 * element type, so call it once per tensor.  False after a diagnostic.  onnx_file_bytes returns the elements, NULL for
 * large packed ones; onnx_file_stored returns the `bytes` bytes of the file. */
bool onnx_file_data(OnnxFile *f, Diags *d, const Onnx__TensorProto *tensor, OnnxData *out);
const uint8_t *onnx_file_bytes(const OnnxFile *f, const OnnxData *data);
const uint8_t *onnx_file_stored(const OnnxFile *f, const OnnxData *data);

/* A string of a message; "" if absent. */
static inline const char *onnx_text(const char *s) { return s ? s : ""; }

/* The DType of an ONNX TensorProto.DataType number; false if apc does not support it.  The name of any number. */
bool onnx_dtype(int32_t onnx_type, DType *out);
const char *onnx_dtype_name(int32_t onnx_type);

/* Decodes a message into the arena; NULL if protobuf-c cannot. */
ProtobufCMessage *onnx_unpack(Arena *a, const ProtobufCMessageDescriptor *as, size_t n, const uint8_t *bytes);

/* The fields of a node, function, value or model that onnx_overlay.proto adds; free them with the generated
 * onnx_overlay__..._free_unpacked.  NULL only without memory. */
OnnxOverlay__NodeProto *onnx_node_overlay(const Onnx__NodeProto *node);
OnnxOverlay__FunctionProto *onnx_function_overlay(const Onnx__FunctionProto *function);
OnnxOverlay__ValueInfoProto *onnx_value_overlay(const Onnx__ValueInfoProto *value);
OnnxOverlay__ModelProto *onnx_model_overlay(const Onnx__ModelProto *model);

#endif
