/* base/safetensors.h - safetensors files.
 *
 * Format: huggingface/safetensors README, "Format": 8 bytes little-endian header length, a JSON object
 * {name: {dtype, shape, data_offsets}, "__metadata__": {string: string}}, padded with spaces, then the
 * data, which the tensors cover without overlap and without holes.  All of that is checked, as is that
 * every range has the size its shape asks for.  fp8 types are refused (apc has no such element type).
 * Written: data begins at a multiple of 4096; tensors ordered by element size, largest first, then by
 * name, so that each is aligned and the bytes depend only on the tensors.
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

/* The tensor of that name, or NULL.  The metadata value of that key, or NULL. */
const SafetensorsEntry *safetensors_find(const Safetensors *s, const char *name);
const char *safetensors_meta(const Safetensors *s, const char *key);

/* The tensor: a view of the mapping, or a copy when the file does not align it.  Free it before
 * safetensors_close. */
bool safetensors_read(Safetensors *s, const SafetensorsEntry *entry, Tensor *out);

/* For files whose tensors are read and written elsewhere: the header alone.
 *
 * open_header reads no more of the file, whose first 8 bytes were combined with `mark` by XOR (0: as they are); what it
 * gives tells where tensors lie, and safetensors_read may not be called.  `hash` (may be NULL): of the header's bytes,
 * whatever the mark. */
Safetensors *safetensors_open_header(Diags *d, const char *path, uint64_t mark, uint64_t *hash);

/* The beginning of a file with such tensors, whose data is not looked at, and the bytes of the whole file.
 * free(bytes).  Names and metadata keys must be unique UTF-8; false after a diagnostic. */
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
