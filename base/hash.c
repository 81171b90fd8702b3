/* base/hash.c - XXH64 as its specification describes it, one shot, little-endian hosts. */
#include "base/hash.h"

#include <string.h>

static const uint64_t P1 = 0x9e3779b185ebca87u, P2 = 0xc2b2ae3d27d4eb4fu, P3 = 0x165667b19e3779f9u,
                      P4 = 0x85ebca77c2b2ae63u, P5 = 0x27d4eb2f165667c5u;

static uint64_t rotate(uint64_t v, int by) { return v << by | v >> (64 - by); }

static uint64_t read64(const uint8_t *p) {
  uint64_t v;
  memcpy(&v, p, 8);
  return v;
}

static uint64_t read32(const uint8_t *p) {
  uint32_t v;
  memcpy(&v, p, 4);
  return v;
}

static uint64_t step(uint64_t lane, uint64_t input) { return rotate(lane + input * P2, 31) * P1; }

static uint64_t merge(uint64_t h, uint64_t lane) { return (h ^ step(0, lane)) * P1 + P4; }

/* The stripes of 32 bytes: four lanes side by side, then merged into one. */
static uint64_t stripes(const uint8_t *p, size_t n, uint64_t seed) {
  uint64_t a = seed + P1 + P2, b = seed + P2, c = seed, d = seed - P1;
  for (; n >= 32; n -= 32, p += 32) {
    a = step(a, read64(p));
    b = step(b, read64(p + 8));
    c = step(c, read64(p + 16));
    d = step(d, read64(p + 24));
  }
  uint64_t h = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
  return merge(merge(merge(merge(h, a), b), c), d);
}

uint64_t hash64(const void *bytes, size_t n, uint64_t seed) {
  const uint8_t *p = bytes;
  uint64_t h = (n >= 32 ? stripes(p, n, seed) : seed + P5) + n;
  if (n >= 32) p += n & ~(size_t)31;
  n &= 31;
  for (; n >= 8; n -= 8, p += 8) h = rotate(h ^ step(0, read64(p)), 27) * P1 + P4;
  for (; n >= 4; n -= 4, p += 4) h = rotate(h ^ read32(p) * P1, 23) * P2 + P3;
  for (; n; n--, p++) h = rotate(h ^ *p * P5, 11) * P1;
  h = (h ^ h >> 33) * P2;
  h = (h ^ h >> 29) * P3;
  return h ^ h >> 32;
}
