/* base/hash.h - XXH64, the 64-bit content hash used for identity checks (weights files, graphs).
 *
 * Algorithm: Yann Collet's xxHash specification, "XXH64" (the value depends only on the bytes and the
 * seed).  Not cryptographic: it finds a wrong or changed file, not a forged one.
 */
#ifndef APC_BASE_HASH_H
#define APC_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* Hashes bytes[0..n). */
uint64_t hash64(const void *bytes, size_t n, uint64_t seed);

/* Adds a number, for tables in memory: the lower bits, which choose the bucket, depend on all bits of both. */
static inline uint64_t hash64_mix(uint64_t h, uint64_t v) {
  h = (h ^ (v * 0xc2b2ae3d27d4eb4fu + 1)) * 0x9e3779b97f4a7c15u;
  return h ^ (h >> 32);
}

/* The same for bytes that arrive in pieces: begin, add each, end. */
typedef struct Hash64 {
  uint64_t lanes[4], seed, total;
  uint8_t rest[32]; /* the last total % 32 bytes */
} Hash64;
/* Initialises; adds n bytes; returns the hash of all bytes added, which may be followed by more. */
void hash64_begin(Hash64 *h, uint64_t seed);
void hash64_add(Hash64 *h, const void *bytes, size_t n);
uint64_t hash64_end(const Hash64 *h);

#endif
