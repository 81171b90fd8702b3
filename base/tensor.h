/* base/tensor.h - a tensor in host memory: element type, shape, row-major little-endian data.
 *
 * A tensor owns its memory, or borrows it from a larger block (a mapped file) that lives until the tensor is freed,
 * or is a view of memory with another owner.  tensor_free handles all three.  Readers may return data that is mapped
 * read-only; it is always aligned to the element size.  Bool data holds only 0 and 1.
 */
#ifndef APC_BASE_TENSOR_H
#define APC_BASE_TENSOR_H

#include "base/dtype.h"

#define TENSOR_MAX_RANK 8

typedef struct Tensor {
  DType dtype;
  bool raw; /* its file gives only the bytes of an element, as NumPy does for types that it lacks; dtype is a guess */
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

/* Computes the bytes of a shape; false if a dimension is negative, the rank is over TENSOR_MAX_RANK, or the byte
 * count (a zero dimension counted as one) does not fit 63 bits. */
bool tensor_size(DType dtype, int rank, const int64_t *dims, size_t *bytes);

/* Allocates an owned, zeroed tensor, aligned to 64 bytes; false (with *out zeroed) if tensor_size fails or there is
 * no memory. */
bool tensor_alloc(Tensor *out, DType dtype, int rank, const int64_t *dims);

/* Returns a view of `data`, which must hold tensor_size bytes; the shape must be one that tensor_size accepts. */
Tensor tensor_view(DType dtype, int rank, const int64_t *dims, const void *data);

/* Releases the memory and zeroes the struct; a zeroed struct is allowed. */
void tensor_free(Tensor *t);

/* The number of elements, 1 for a scalar. */
int64_t tensor_elements(const Tensor *t);

/* Gives a raw tensor this type if NumPy lacks it and its elements have as many bytes. */
void tensor_settle(Tensor *t, DType type);

/* Computes the index of a row-major element. */
void tensor_index(int rank, const int64_t *dims, int64_t element, int64_t *index);
/* Formats "[3, 17]", or "" for a scalar.  Returns text. */
const char *tensor_index_text(int rank, const int64_t *index, char *text, size_t size);

/* Formats "index [3, 17] is 9; it must be -8 to 7", why an element cannot be used as an index.  Returns text. */
const char *tensor_index_refused(int rank, const int64_t *place, int64_t value, int64_t low, int64_t high, char *text,
                                 size_t size);

/* Formats one element for people. */
const char *tensor_element_text(const Tensor *t, int64_t element, char *text, size_t size);

/* True if rank and dimensions are equal; types are not compared. */
bool tensor_same_shape(const Tensor *a, const Tensor *b);

/* True if every byte of a bool tensor is 0 or 1, or the type is another one.  For readers. */
bool tensor_bools_valid(const Tensor *t);

#endif
