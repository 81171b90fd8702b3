/* runtime/train/data_identity.h - identifies the files of the data, so that a resumed run notices other ones.
 *
 * An identity is the size and the hash of the bytes (base/hash.h).  Above 1 GiB, the hash covers 1,024 pieces of 1 MiB
 * at even distances, including the first and the last one.  The identity of a folder of token files covers all of them,
 * by name.
 */
#ifndef APC_RUNTIME_TRAIN_DATA_IDENTITY_H
#define APC_RUNTIME_TRAIN_DATA_IDENTITY_H

#include <stdbool.h>
#include <stdint.h>

#include "base/hash.h"

typedef struct DataIdentity {
  uint64_t bytes;
  Hash64 hash; /* so far */
} DataIdentity;

/* Begins an identity without any file. */
void data_identity_begin(DataIdentity *d);
/* Adds a file; false with errno. */
bool data_identity_add(DataIdentity *d, const char *path);
/* Writes "N bytes, hash H" into text[size]. */
void data_identity_text(const DataIdentity *d, char *text, int size);

#endif
