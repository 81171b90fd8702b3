/* base/npy.h - NumPy .npy files.
 *
 * Format: numpy/lib/format.py (versions 1.0, 2.0, 3.0).  Read: little-endian numbers and bool, in C or Fortran order
 * (transposed on reading).  Refused: big-endian data, objects, strings, complex and structured types, more than
 * TENSOR_MAX_RANK dimensions, bytes after the data.  Written: version 1.0, data aligned to 64 bytes.  Types for which
 * numpy has no name, bf16 and those of 8, 4 and 2 bits, are raw bytes (V2, V1), as np.save writes arrays of ml_dtypes;
 * of what np.load gives, x.view(ml_dtypes.bfloat16) makes numbers.  Such a tensor is raw (base/tensor.h), and its user
 * knows the type.  The names of ml_dtypes are read too (np.load knows them once ml_dtypes is imported).  Every file is
 * treated as hostile: sizes are checked against the file before anything is allocated.
 */
#ifndef APC_BASE_NPY_H
#define APC_BASE_NPY_H

#include "base/diag.h"
#include "base/tensor.h"

/* Reads or maps a file (file_take); the tensor borrows its bytes if the layout allows. */
bool npy_read(Diags *d, const char *path, Tensor *out);

/* Reads bytes[0..n).  The tensor is a view of them if order and alignment allow, else an owned copy.  Diagnostics
 * call the bytes `name`. */
bool npy_read_memory(Diags *d, const char *name, const void *bytes, size_t n, Tensor *out);

/* The longest header of version 1. */
enum { NPY_HEADER_ROOM = 65535 + 12 };

/* Reads type and shape from the first n bytes of a file; *whole is the size that the file must have.  False also if
 * the header needs more than n bytes.  *out has no data. */
bool npy_read_header(Diags *d, const char *name, const void *bytes, size_t n, Tensor *out, uint64_t *whole);

/* The same for a file; an error if its size is not what its header requires. */
bool npy_read_file_header(Diags *d, const char *path, Tensor *out);

/* Writes a file atomically. */
bool npy_write(Diags *d, const char *path, const Tensor *t);

/* Makes the header of a tensor whose file begins at `offset`, padded so that the data begins at a multiple of 64; *n
 * is its length. */
#define NPY_HEADER_MAX 384
void npy_header(const Tensor *t, uint64_t offset, char header[NPY_HEADER_MAX], size_t *n);

#endif
