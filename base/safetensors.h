/* base/safetensors.h - safetensors files.
 *
 * Format: huggingface/safetensors README, "Format": 8 bytes little-endian header length, a JSON object {name:
 * {dtype, shape, data_offsets}, "__metadata__": {string: string}}, padded with spaces, then the data, which the
 * tensors cover without overlap or gaps.  All of that is checked, and that every range has the size its shape
 * requires.  fp8 types are refused (apc has no such element type).  Written: data begins at a multiple of 4096;
 * tensors are ordered by element size, largest first, then by name, so that each is aligned and the bytes depend
 * only on the tensors.
 */
#ifndef APC_BASE_SAFETENSORS_H
#define APC_BASE_SAFETENSORS_H

#include "base/diag.h"
#include "base/file.h"
#include "base/tensor.h"

typedef struct SafetensorsEntry {
  const char *name;
  DType dtype;
  int rank;
  int64_t dims[TENSOR_MAX_RANK];
  uint64_t offset; /* from the beginning of the file */
  size_t bytes;
} SafetensorsEntry;

typedef struct SafetensorsMeta {
  const char *key, *value;
} SafetensorsMeta;

typedef struct Safetensors {
  Diags *diags;
  const char *path;
  FileMap map;
  bool mapped;
  bool unfinished;         /* it is being written (`mark` of safetensors_open_header): bytes may follow the tensors */
  SafetensorsEntry *items; /* sorted by name */
  size_t n;
  SafetensorsMeta *meta; /* in the order of the file */
  size_t n_meta;
} Safetensors;

/* Opens a file and checks its header; NULL on failure.  The struct lives in the diagnostics' arena;
 * safetensors_close ends the mapping. */
Safetensors *safetensors_open(Diags *d, const char *path);
Safetensors *safetensors_open_memory(Diags *d, const char *name, const void *bytes, size_t n);
void safetensors_close(Safetensors *s);

/* Finds the tensor of that name, and the metadata value of that key; NULL if none. */
const SafetensorsEntry *safetensors_find(const Safetensors *s, const char *name);
const char *safetensors_meta(const Safetensors *s, const char *key);

/* Returns the tensor: a view of the mapping, or a copy if the file does not align it.  Free it before
 * safetensors_close. */
bool safetensors_read(Safetensors *s, const SafetensorsEntry *entry, Tensor *out);

/* For files whose tensors are read and written elsewhere: the header alone.
 *
 * open_header reads only the header.  The file's first 8 bytes were combined with `mark` by XOR (0: unchanged).  The
 * result says where tensors lie; safetensors_read may not be called on it.  `hash` (may be NULL) receives the hash
 * of the header's bytes, as they are without the mark. */
Safetensors *safetensors_open_header(Diags *d, const char *path, uint64_t mark, uint64_t *hash);

/* Makes the beginning of a file with these tensors, whose data is not read, and the size of the whole file.  The
 * caller frees `bytes`.  Names and metadata keys must be unique UTF-8; false after a diagnostic. */
typedef struct SafetensorsHeader {
  char *bytes;
  size_t n;
  uint64_t file_bytes;
} SafetensorsHeader;
bool safetensors_header(Diags *d, const char *path, const NamedTensor *tensors, size_t n, const SafetensorsMeta *meta,
                        size_t n_meta, SafetensorsHeader *out);

/* Writes a whole file atomically.  Names and metadata keys must be unique UTF-8. */
bool safetensors_write(Diags *d, const char *path, const NamedTensor *tensors, size_t n, const SafetensorsMeta *meta,
                       size_t n_meta);

#endif
