/* base/tensor.h - a tensor in host memory: element type, shape, row-major little-endian data.
 *
 * A tensor owns its memory, or borrows it from a larger block (a mapped file) that lives until the
 * tensor is freed, or is a view of memory somebody else keeps.  tensor_free does the right thing for
 * all three.  Data that readers hand out may be mapped read-only; it is always aligned to the element
 * size.  Bool data holds only 0 and 1.
 */
#ifndef APC_BASE_TENSOR_H
#define APC_BASE_TENSOR_H

#include "base/dtype.h"

#define TENSOR_MAX_RANK 8

typedef struct Tensor {
  DType dtype;
  int rank; /* 0 is a scalar of one element */
  int64_t dims[TENSOR_MAX_RANK];
  void *data;                                       /* never NULL in a valid tensor, also for 0 bytes */
  size_t bytes;                                     /* elements x dtype_bytes */
  void (*release)(void *owner, size_t owner_bytes); /* NULL: a view, nothing to release */
  void *owner;
  size_t owner_bytes;
} Tensor;

typedef struct NamedTensor {
  const char *name;
  Tensor tensor;
} NamedTensor;

/* The bytes of a shape; false when a dimension is negative, the rank is over TENSOR_MAX_RANK, or the
 * byte count (a zero dimension counted as one) does not fit 63 bits. */
bool tensor_size(DType dtype, int rank, const int64_t *dims, size_t *bytes);

/* Owned, zeroed, aligned to 64 bytes; false (with *out zeroed) when tensor_size fails or there is no
 * memory. */
bool tensor_alloc(Tensor *out, DType dtype, int rank, const int64_t *dims);

/* A view of `data`, which must hold tensor_size bytes; the shape must be one tensor_size accepts. */
Tensor tensor_view(DType dtype, int rank, const int64_t *dims, const void *data);

/* Releases the memory and zeroes the struct; also fine on a zeroed one. */
void tensor_free(Tensor *t);

int64_t tensor_elements(const Tensor *t);

/* Where a row-major element is. */
void tensor_index(int rank, const int64_t *dims, int64_t element, int64_t *index);
/* "[3, 17]"; "" of a scalar.  Returns text. */
const char *tensor_index_text(int rank, const int64_t *index, char *text, size_t size);

/* "index [3, 17] is 9; it must be -8 to 7": why an element of that place cannot index.  Returns text. */
const char *tensor_index_refused(int rank, const int64_t *place, int64_t value, int64_t low, int64_t high, char *text,
                                 size_t size);

/* One element as people read it. */
const char *tensor_element_text(const Tensor *t, int64_t element, char *text, size_t size);

bool tensor_same_shape(const Tensor *a, const Tensor *b);

/* For readers: is every byte of a bool tensor 0 or 1?  (True for other types.) */
bool tensor_bools_valid(const Tensor *t);

#endif
