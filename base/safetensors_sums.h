/* base/safetensors_sums.h - checksums of a safetensors file in its own metadata.
 *
 * The value of key `checksums` is 16 hexadecimal digits for the header and as many for each tensor, in the order of
 * their names, with spaces between.  A tensor's is that of base/checksum.h; the header's is the hash of all bytes in
 * front of the data (base/hash.h), with zeros for the digits.  Room for them is zeros, so a file can be begun before
 * its tensors are known.
 */
#ifndef APC_BASE_SAFETENSORS_SUMS_H
#define APC_BASE_SAFETENSORS_SUMS_H

#include "base/safetensors.h"

#define SAFETENSORS_SUMS "checksums"

typedef struct SafetensorsSum {
  const char *name;
  uint64_t sum;
} SafetensorsSum;

/* Characters of the value for n tensors, and the value with nothing in it. */
size_t safetensors_sums_length(size_t n);
const char *safetensors_sums_room(Arena *a, size_t n);

/* Where the value stands among the first n bytes of a file; 0: there is none. */
size_t safetensors_sums_place(const char *bytes, size_t n);

/* The value for a header that has room for it.  Sorts the list by name. */
void safetensors_sums_text(const char *header, size_t n, SafetensorsSum *list, size_t tensors, char *text);

typedef enum SafetensorsChecked { SUMS_NONE, SUMS_RIGHT, SUMS_WRONG, SUMS_UNREADABLE } SafetensorsChecked;

/* Reads the whole file.  *wrong: the first tensor that is not what its checksum says, "the header", or why the file
 * cannot be read.  SUMS_NONE: the file has no checksums. */
SafetensorsChecked safetensors_sums_check(const Safetensors *s, const char **wrong);

#endif
