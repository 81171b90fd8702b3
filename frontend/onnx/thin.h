/* frontend/onnx/thin.h - the pre-pass over an ONNX file that leaves out tensor bytes.
 *
 * In: a protobuf message as it lies in a mapped file, and its descriptor.  Out: the same message, but each
 * TensorProto.raw_data, wherever a tensor occurs, holds the index (8 bytes, host order) of an entry of a table of
 * ranges of the file.  Packed float_data and double_data lie in the file just as raw data would and are treated alike;
 * the entry says which field it was.  The walk is guided by the descriptors that protoc-c generated, so new places for
 * tensors need no code here, and fields unknown to them are copied; but for a function's defaults of attributes, which
 * are younger than some installed schemas and have tensors in them.
 *
 * The wire format is checked on the way, with the place named: lengths, wire types, field numbers,
 * nesting.  What protobuf-c sees after this is well-formed and not nested deeper than ONNX_MAX_DEPTH
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

/* False after a diagnostic located at `file`. */
bool onnx_thin(Diags *d, const char *file, const ProtobufCMessageDescriptor *message, const uint8_t *bytes, uint64_t n,
               Arena *arena, OnnxRanges *ranges, Arena *scratch, OnnxThin *out);

#endif
