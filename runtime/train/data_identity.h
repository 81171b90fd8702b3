/* runtime/train/data_identity.h - which file data comes from, so that a run that goes on notices another one.
 *
 * Its size and the hash of its bytes (base/hash.h).  Of a file above 1 GiB the hash is of 1,024 pieces of 1 MiB at even
 * distances, the first and the last one among them.  A folder of token files is all of them, by name.
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

void data_identity_begin(DataIdentity *d);
/* One more file; false with errno. */
bool data_identity_add(DataIdentity *d, const char *path);
/* "N bytes, hash H" */
void data_identity_text(const DataIdentity *d, char *text, int size);

#endif
