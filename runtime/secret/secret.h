/* runtime/secret/secret.h - keyed hashes and random bytes, and the file with the secret that the ranks of a run share.
 *
 * HMAC-SHA-256 (RFC 2104) is built from the SHA-256 (FIPS 180-4) of a library that is linked into the runtime; the
 * comparison in constant time comes from that library too.
 */
#ifndef APC_RUNTIME_SECRET_H
#define APC_RUNTIME_SECRET_H

#include <stdbool.h>
#include <stddef.h>

#include "program/status.h"

enum { SECRET_BYTES = 32, SECRET_LEAST = 16, SECRET_MOST = 4096 };

#define SECRET_VARIABLE "APC_SECRET_FILE"

/* Computes the MAC of n bytes with a key. */
void secret_mac(const unsigned char key[SECRET_BYTES], const void *bytes, size_t n, unsigned char out[SECRET_BYTES]);

/* True if both are equal; takes the same time wherever they differ. */
bool secret_equal(const unsigned char a[SECRET_BYTES], const unsigned char b[SECRET_BYTES]);

/* Fills out[n] with bytes that no one can guess.  RT_FAILED if the system provides none. */
RtStatus secret_random(void *out, size_t n, RtError *error);

/* Reads the key from the file named in APC_SECRET_FILE: a regular file of this user that no other user can read, with
 * SECRET_LEAST to SECRET_MOST bytes without line ends at its end; else RT_BAD_INPUT.  *found is false, and the key that
 * of no secret, if the variable is not set. */
RtStatus secret_find(unsigned char key[SECRET_BYTES], bool *found, RtError *error);

#endif
