/* base/tensor.c - see tensor.h. */
#include "base/tensor.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/die.h"

#define ALIGNMENT ((size_t)64)

bool tensor_size(DType dtype, int rank, const int64_t *dims, size_t *bytes) {
  if (rank < 0 || rank > TENSOR_MAX_RANK) return false;
  int64_t extent = (int64_t)dtype_bytes(dtype);
  bool none = false;
  for (int i = 0; i < rank; i++) {
    if (dims[i] < 0) return false;
    if (dims[i] == 0) none = true;
    else if (__builtin_mul_overflow(extent, dims[i], &extent)) return false;
  }
  *bytes = none ? 0 : (size_t)extent;
  return true;
}

static void release_heap(void *owner, size_t owner_bytes) {
  (void)owner_bytes;
  free(owner);
}

bool tensor_alloc(Tensor *out, DType dtype, int rank, const int64_t *dims) {
  *out = (Tensor){0};
  size_t bytes;
  void *data;
  if (!tensor_size(dtype, rank, dims, &bytes)) return false;
  if (posix_memalign(&data, ALIGNMENT, bytes ? bytes : ALIGNMENT) != 0) return false;
  memset(data, 0, bytes);
  *out = tensor_view(dtype, rank, dims, data);
  out->release = release_heap;
  out->owner = data;
  out->owner_bytes = bytes;
  return true;
}

Tensor tensor_view(DType dtype, int rank, const int64_t *dims, const void *data) {
  Tensor t = {.dtype = dtype, .rank = rank, .data = (void *)(uintptr_t)data};
  if (!tensor_size(dtype, rank, dims, &t.bytes)) die("tensor_view of an impossible shape");
  for (int i = 0; i < rank; i++) t.dims[i] = dims[i];
  return t;
}

void tensor_free(Tensor *t) {
  if (t->release) t->release(t->owner, t->owner_bytes);
  *t = (Tensor){0};
}

void tensor_settle(Tensor *t, DType type) {
  bool lacks = type == DT_bf16 || !dtype_computes(type);
  if (!t->raw || !lacks || dtype_bytes(type) != dtype_bytes(t->dtype)) return;
  t->dtype = type;
  t->raw = false;
}

int64_t tensor_elements(const Tensor *t) { return (int64_t)(t->bytes / dtype_bytes(t->dtype)); }

void tensor_index(int rank, const int64_t *dims, int64_t element, int64_t *index) {
  for (int d = rank - 1; d >= 0; element /= dims[d--]) index[d] = element % dims[d];
}

const char *tensor_index_text(int rank, const int64_t *index, char *text, size_t size) {
  size_t n = 0;
  text[0] = 0;
  for (int d = 0; d < rank && n < size; d++)
    n += (size_t)snprintf(text + n, size - n, "%s%" PRId64 "%s", d ? ", " : "[", index[d], d + 1 == rank ? "]" : "");
  return text;
}

const char *tensor_index_refused(int rank, const int64_t *place, int64_t value, int64_t low, int64_t high, char *text,
                                 size_t size) {
  char at[200];
  snprintf(text, size, "index%s%s is %" PRId64 "; it must be %" PRId64 " to %" PRId64, rank ? " " : "",
           tensor_index_text(rank, place, at, sizeof at), value, low, high);
  return text;
}

const char *tensor_element_text(const Tensor *t, int64_t element, char *text, size_t size) {
  const char *at = (const char *)t->data + (size_t)element * dtype_bytes(t->dtype);
  if (dtype_is_float(t->dtype)) snprintf(text, size, "%.9g", dtype_load_f(t->dtype, at));
  else if (t->dtype == DT_u64) snprintf(text, size, "%" PRIu64, (uint64_t)dtype_load_i(DT_u64, at));
  else snprintf(text, size, "%" PRId64, dtype_load_i(t->dtype, at));
  return text;
}

bool tensor_same_shape(const Tensor *a, const Tensor *b) {
  if (a->rank != b->rank) return false;
  for (int i = 0; i < a->rank; i++)
    if (a->dims[i] != b->dims[i]) return false;
  return true;
}

bool tensor_bools_valid(const Tensor *t) {
  if (t->dtype != DT_bool) return true;
  const uint8_t *p = t->data;
  uint8_t seen = 0;
  for (size_t i = 0; i < t->bytes; i++) seen |= p[i];
  return seen <= 1;
}
