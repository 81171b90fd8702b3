/* runtime/train/documents.c - see documents.h.  A mask of booleans is true where attention is allowed; a mask of floats
 * is added to the scores: 0 there, else the lowest finite number, as transformers' masks are. */
#include "runtime/train/documents.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name;
  int rank;
  const char *meaning;
} kinds[] = {
#define KIND(name, rank, meaning) {#name, rank, meaning},
#include "runtime/train/documents.def"
};

DocumentKind document_kind(const char *name) {
  int i = 0;
  while (i < DOCUMENT_KINDS && strcmp(name, kinds[i].name) != 0) i++;
  return (DocumentKind)i;
}

void document_names(char *text, size_t size) {
  size_t n = 0;
  for (int i = 0; i < DOCUMENT_KINDS && n < size; i++)
    n += (size_t)snprintf(text + n, size - n, "%s%s", i ? ", " : "", kinds[i].name);
}

const char *document_fits(DocumentKind kind, const ApcTensorInfo *x, int64_t length) {
  const bool integer = x->type == APC_I64 || x->type == APC_I32;
  if (kinds[kind].rank == 1) {
    const bool fits = x->rank == 2 && x->dims[1] == length && integer;
    return fits ? NULL : "it needs an input of integers, a row of which is as long as the window";
  }
  const int r = x->rank;
  const bool fits = (r == 3 || (r == 4 && x->dims[1] == 1)) && x->dims[r - 1] == length && x->dims[r - 2] == length;
  if (!fits) return "it needs an input [batch, T, T] or [batch, 1, T, T], with T the length of the window";
  return x->type == APC_BOOL || x->type == APC_F32 || x->type == APC_F16 || x->type == APC_BF16 || x->type == APC_F64
             ? NULL
             : "a mask is an input of booleans or floats";
}

static double lowest(DType type) {
  switch (type) {
    case DT_f16: return -65504;
    case DT_bf16: return -3.3895313892515355e38;
    case DT_f64: return -1.7976931348623157e308;
    default: return -3.4028234663852886e38;
  }
}

static void write_mask(bool causal, DType type, const DocumentRow *row, char *to) {
  const size_t size = dtype_bytes(type);
  const int64_t n = row->length;
  for (int64_t i = 0, begin = 0, end = 0; i < n; i++) {
    if (i == end) /* a new document */
      for (begin = i, end = i + 1; end < n && !row->starts[end];) end++;
    for (int64_t j = 0; j < n; j++, to += size) {
      const bool allowed = j >= begin && j < end && (!causal || j <= i);
      if (dtype_is_float(type)) dtype_store_f(type, to, allowed ? 0 : lowest(type));
      else dtype_store_i(type, to, allowed);
    }
  }
}

void document_write(DocumentKind kind, DType type, const DocumentRow *row, char *to) {
  const size_t size = dtype_bytes(type);
  int64_t begin = 0, segment = 0;
  if (kinds[kind].rank == 2) {
    write_mask(kind == DOCUMENT_causal_mask, type, row, to);
    return;
  }
  for (int64_t i = 0; i < row->length; i++, to += size) {
    if (i && row->starts[i]) begin = i, segment++;
    const int64_t next = row->starts[i + 1] ? row->ignored : row->tokens[i + 1];
    dtype_store_i(type, to, kind == DOCUMENT_positions ? i - begin : kind == DOCUMENT_segments ? segment : next);
  }
}
