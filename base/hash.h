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

/* The same of bytes that come in pieces. */
typedef struct Hash64 {
  uint64_t lanes[4], seed, total;
  uint8_t rest[32]; /* total % 32 bytes that wait for more */
} Hash64;

void hash64_begin(Hash64 *h, uint64_t seed);
void hash64_add(Hash64 *h, const void *bytes, size_t n);
uint64_t hash64_end(const Hash64 *h);

#endif
