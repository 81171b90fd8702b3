/* frontend/onnx/thin.h - a pre-pass over an ONNX file that removes tensor bytes.
 *
 * In: a protobuf message in a mapped file, and its descriptor.  Out: the same message, except that each
 * TensorProto.raw_data, wherever a tensor occurs, holds the index (8 bytes, host order) of an entry in a table of
 * ranges of the file.  Packed float_data and double_data are stored in the file like raw data and treated alike; the
 * entry says which field it was.  The descriptors that protoc-c generated guide the walk, so new fields with tensors
 * need no code here, and unknown fields are copied.  The exception is a function's defaults of attributes, which
 * contain tensors and which some installed schemas lack.
 *
 * The pre-pass also checks the wire format and reports where it is wrong: lengths, wire types, field numbers,
 * nesting.  The message that protobuf-c receives is well-formed and not nested deeper than ONNX_MAX_DEPTH
 * (protobuf-c itself recurses without bound).
 */
#ifndef APC_FRONTEND_ONNX_THIN_H
#define APC_FRONTEND_ONNX_THIN_H

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/diag.h"

#define ONNX_MAX_DEPTH 100

typedef struct OnnxRange {
  uint64_t offset, bytes;
  uint32_t field; /* TensorProto's number of raw_data, float_data or double_data */
} OnnxRange;

enum { ONNX_FLOAT_DATA = 4, ONNX_RAW_DATA = 9, ONNX_DOUBLE_DATA = 10 };

typedef struct OnnxRanges {
  OnnxRange *items;
  size_t n, cap;
} OnnxRanges;

/* The thin message; bytes in `scratch`, table in `arena`. */
typedef struct OnnxThin {
  uint8_t *items;
  size_t n, cap;
} OnnxThin;

/* Copies the message without tensor bytes; false after a diagnostic located at `file`. */
bool onnx_thin(Diags *d, const char *file, const ProtobufCMessageDescriptor *message, const uint8_t *bytes, uint64_t n,
               Arena *arena, OnnxRanges *ranges, Arena *scratch, OnnxThin *out);

#endif
