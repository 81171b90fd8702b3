/* base/safetensors_sums.h - checksums of a safetensors file in its own metadata.
 *
 * The value of key `checksums` is 16 hexadecimal digits for the header and 16 for each tensor, ordered by name,
 * separated by spaces.  A tensor's checksum is that of base/checksum.h.  The header's is the hash (base/hash.h) of
 * all bytes before the data, with zeros for the digits.  A placeholder of zeros lets a file begin before its tensors
 * are known.
 */
#ifndef APC_BASE_SAFETENSORS_SUMS_H
#define APC_BASE_SAFETENSORS_SUMS_H

#include "base/safetensors.h"

#define SAFETENSORS_SUMS "checksums"

typedef struct SafetensorsSum {
  const char *name;
  uint64_t sum;
} SafetensorsSum;

/* The length of the value for n tensors, and its placeholder. */
size_t safetensors_sums_length(size_t n);
const char *safetensors_sums_room(Arena *a, size_t n);

/* The offset of the value in the first n bytes of a file; 0 if there is none. */
size_t safetensors_sums_place(const char *bytes, size_t n);

/* Computes the value for a header that has the placeholder.  Sorts the list by name. */
void safetensors_sums_text(const char *header, size_t n, SafetensorsSum *list, size_t tensors, char *text);

typedef enum SafetensorsChecked { SUMS_NONE, SUMS_RIGHT, SUMS_WRONG, SUMS_UNREADABLE } SafetensorsChecked;

/* Reads the whole file.  *wrong: the first tensor that does not match its checksum, "the header", or why the file
 * cannot be read.  SUMS_NONE: the file has no checksums. */
SafetensorsChecked safetensors_sums_check(const Safetensors *s, const char **wrong);

#endif
