/* tests/doubles/half.h - the 16-bit types, and TF32, to and from f32. */
#ifndef APC_TESTS_DOUBLES_HALF_H
#define APC_TESTS_DOUBLES_HALF_H

#include <stdint.h>
#include <string.h>

static inline uint32_t half_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}
static inline float half_float(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}

/* Rounds to the nearest with `drop` bits less, ties to even. */
static inline uint32_t half_round(uint32_t u, int drop) {
  if ((u & 0x7fffffff) > 0x7f800000) return u | 0x400000;
  return (u + ((1u << (drop - 1)) - 1) + (u >> drop & 1)) >> drop << drop;
}

static inline float half_from_bf16(uint16_t h) { return half_float((uint32_t)h << 16); }
static inline uint16_t half_to_bf16(float f) { return (uint16_t)(half_round(half_bits(f), 16) >> 16); }
static inline float half_to_tf32(float f) { return half_float(half_round(half_bits(f), 13)); }

static inline float half_from_f16(uint16_t h) {
  uint32_t sign = (uint32_t)(h & 0x8000) << 16, e = h >> 10 & 31, m = h & 1023;
  if (e == 31) return half_float(sign | 0x7f800000 | m << 13);
  if (e) return half_float(sign | (e + 112) << 23 | m << 13);
  float tiny = (float)m * 0x1p-24f;
  return sign ? -tiny : tiny;
}

static inline uint16_t half_to_f16(float f) {
  uint32_t u = half_bits(f), sign = u >> 16 & 0x8000, a = u & 0x7fffffff;
  if (a > 0x7f800000) return (uint16_t)(sign | 0x7e00);
  if (a >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* rounds to 65536 or more */
  if (a < 0x38800000) { /* below 2^-14: multiples of 2^-24, added up by the float adder */
    float tiny = half_float(a) + 0.5f;
    return (uint16_t)(sign | (half_bits(tiny) - 0x3f000000));
  }
  return (uint16_t)(sign | ((half_round(a, 13) - 0x38000000) >> 13));
}

#endif
