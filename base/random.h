/* base/random.h - counter-based random numbers: Philox4x32-10.
 *
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
 * A number is a pure function of (seed, stream, element): no state, so every layout of a tensor over
 * ranks draws the same values.  `seed` is the user's; `stream` tells one use (one dropout, one
 * parameter) from another; `element` is the row-major index in the whole, unsplit tensor.
 * The key is the seed, the counter is (block, stream), both low word first.
 * Draws of different kinds from one (seed, stream) share bits: give each use a stream of its own.
 *
 * The functions here need nothing but <stdint.h> and <math.h>, so generated C includes this header.
 */
#ifndef APC_BASE_RANDOM_H
#define APC_BASE_RANDOM_H

#include <math.h>
#include <stdint.h>

/* out = Philox4x32-10 of the counter under the key. */
static inline void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* The 128 bits number `block` of a stream. */
static inline void random_block(uint64_t seed, uint64_t stream, uint64_t block, uint32_t out[4]) {
  const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  random_philox(counter, key, out);
}

/* 32 bits for an element: word element % 4 of block element / 4 (a loop may draw four at once). */
static inline uint32_t random_bits(uint64_t seed, uint64_t stream, uint64_t element) {
  uint32_t block[4];
  random_block(seed, stream, element / 4, block);
  uint32_t low = element & 1 ? block[1] : block[0], high = element & 1 ? block[3] : block[2];
  return element & 2 ? high : low; /* no indexing by a variable, so that a compiler may keep the block in registers */
}

/* Uniform in [0, 1), a multiple of 2^-24: exact in f32. */
static inline float random_uniform_of(uint32_t bits) { return (float)(bits >> 8) * 0x1p-24f; }
static inline float random_uniform(uint64_t seed, uint64_t stream, uint64_t element) {
  return random_uniform_of(random_bits(seed, stream, element));
}

/* Standard normal by Box and Muller in double: block number `element`, 53 bits for the radius, 53 for
 * the angle.  At most 8.6 in magnitude. */
static inline double random_normal(uint64_t seed, uint64_t stream, uint64_t element) {
  uint32_t b[4];
  random_block(seed, stream, element, b);
  uint64_t radius = ((uint64_t)b[0] << 32 | b[1]) >> 11, angle = ((uint64_t)b[2] << 32 | b[3]) >> 11;
  double u = (double)(radius + 1) * 0x1p-53; /* in (0, 1] */
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586477 * 0x1p-53 * (double)angle);
}

/* Numbers with one more key, as that of a training step: they have a seed and a stream of their own, the 128 bits of
 * block number `key`.  That block is a permutation of (key, stream): two of these that differ never share both. */
static inline float random_keyed_uniform(uint64_t seed, uint64_t stream, uint64_t key, uint64_t element) {
  uint32_t b[4];
  random_block(seed, stream, key, b);
  return random_uniform((uint64_t)b[1] << 32 | b[0], (uint64_t)b[3] << 32 | b[2], element);
}
static inline double random_keyed_normal(uint64_t seed, uint64_t stream, uint64_t key, uint64_t element) {
  uint32_t b[4];
  random_block(seed, stream, key, b);
  return random_normal((uint64_t)b[1] << 32 | b[0], (uint64_t)b[3] << 32 | b[2], element);
}

/* An integer in [0, bound) from 64 bits of block number `element`; bound > 0.  The bias against any
 * value is below bound / 2^64. */
static inline uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t element, uint64_t bound) {
  uint32_t b[4];
  random_block(seed, stream, element, b);
  uint64_t high = (uint64_t)b[0] * (bound >> 32), mid = (uint64_t)b[0] * (bound & 0xffffffffu),
           mid2 = (uint64_t)b[1] * (bound >> 32), low = (uint64_t)b[1] * (bound & 0xffffffffu);
  uint64_t carry = (low >> 32) + (mid & 0xffffffffu) + (mid2 & 0xffffffffu);
  return high + (mid >> 32) + (mid2 >> 32) + (carry >> 32);
}

#endif
