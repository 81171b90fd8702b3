/* base/npy.h - NumPy .npy files.
 *
 * Format: numpy/lib/format.py (versions 1.0, 2.0, 3.0).  Read: little-endian numbers and bool, C or
 * Fortran order (transposed on reading).  Refused with a clear error: big-endian data, objects, strings,
 * complex and structured types, more than TENSOR_MAX_RANK dimensions, bytes behind the data.
 * Written: version 1.0, data aligned to 64 bytes.  bf16 has no numpy name and is refused on writing.
 * Every file is treated as hostile; nothing is allocated before its size was checked against the file's.
 */
#ifndef APC_BASE_NPY_H
#define APC_BASE_NPY_H

#include "base/diag.h"
#include "base/tensor.h"

/* Reads or maps a file (file_take); the tensor borrows its bytes where the layout allows. */
bool npy_read(Diags *d, const char *path, Tensor *out);

/* Reads bytes[0..n).  The tensor is a view of them where order and alignment allow, else an owned copy.
 * `name` is what diagnostics call it. */
bool npy_read_memory(Diags *d, const char *name, const void *bytes, size_t n, Tensor *out);

/* As much as a header of version 1 takes. */
enum { NPY_HEADER_ROOM = 65535 + 12 };

/* Type and shape, and how many bytes the whole file has, from its beginning, of which bytes[0..n) are there; false also
 * when the header goes on behind them.  *out has no data. */
bool npy_read_header(Diags *d, const char *name, const void *bytes, size_t n, Tensor *out, uint64_t *whole);

/* The same of a file, which has as many bytes as its header asks for. */
bool npy_read_file_header(Diags *d, const char *path, Tensor *out);

bool npy_write(Diags *d, const char *path, const Tensor *t);

/* The header for a tensor whose file part begins at `offset`, padded so that the data begins at a
 * multiple of 64; its length.  False for a type numpy has no name for. */
#define NPY_HEADER_MAX 384
bool npy_header(const Tensor *t, uint64_t offset, char header[NPY_HEADER_MAX], size_t *n);

#endif
