/* runtime/secret/secret.h - keyed hashes and random bytes, and the file with the secret that the ranks of a run share.
 *
 * HMAC-SHA-256 (RFC 2104) is made of the SHA-256 (FIPS 180-4) of a library that is linked into the runtime; so is the
 * comparison in constant time.
 */
#ifndef APC_RUNTIME_SECRET_H
#define APC_RUNTIME_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "program/status.h"

enum { SECRET_BYTES = 32, SECRET_LEAST = 16, SECRET_MOST = 4096 };

#define SECRET_VARIABLE "APC_SECRET_FILE"

/* The MAC of the bytes under a key. */
void secret_mac(const unsigned char key[SECRET_BYTES], const void *bytes, size_t n, unsigned char out[SECRET_BYTES]);

/* Takes equally long wherever the two differ. */
bool secret_equal(const unsigned char a[SECRET_BYTES], const unsigned char b[SECRET_BYTES]);

/* Bytes nobody can guess. */
RtStatus secret_random(void *out, size_t n, RtError *error);

/* The key made of the file named in APC_SECRET_FILE: a regular file of this user's that nobody else can read, with
 * SECRET_LEAST to SECRET_MOST bytes, ends of lines at its end not counted.  *found is false, and the key that of no
 * secret, when the variable is not set. */
RtStatus secret_find(unsigned char key[SECRET_BYTES], bool *found, RtError *error);

#endif
