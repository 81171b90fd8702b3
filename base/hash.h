/* base/hash.h - XXH64, the 64-bit content hash used for identity checks (weights files, graphs).
 *
 * Algorithm: Yann Collet's xxHash specification, "XXH64" (the value depends only on the bytes and the
 * seed).  Not cryptographic: it finds a wrong or changed file, not a forged one.
 */
#ifndef APC_BASE_HASH_H
#define APC_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

uint64_t hash64(const void *bytes, size_t n, uint64_t seed);

#endif
