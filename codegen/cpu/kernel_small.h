/* codegen/cpu/kernel_small.h - element operations of generated kernels on types of 8, 4 and 2 bits: loads and stores,
 * casts; and the bits of any element.  After kernel_elements.h, for CPUs and for GPUs.
 *
 * Floats are stored as a byte and computed as float, integers below 8 bits as the low bits of a byte and computed as
 * int8_t or uint8_t.  Conversions give the results of base/small_float.h; tests compare all bit patterns.  They have no
 * branches, so that loops over them vectorise.
 *
 * A magnitude of M mantissa bits and bias B, moved to the place of a float's exponent and mantissa, lacks 127 - B in
 * the exponent.  Below the normal numbers it is a count of steps of 2^(1 - B - M); adding 2^(24 - B - M), whose own
 * steps these are, rounds a float to them (F. Giesen, float->half variants, public domain).
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */

/* ---- floats of 8 and 4 bits */

/* W is the number of bits without the sign.  SPECIAL(u, m, bits) replaces the bits of a loaded float; OVER is the
 * magnitude of numbers beyond the largest, which is LARGEST; NOT_A is the whole element of a NaN whose float has the
 * bits u; ZERO is the sign of a zero. */
#define SMALL_FLOAT(T, W, M, B, SPECIAL, LARGEST, OVER, NOT_A, ZERO) \
  FN float value_##T(uint8_t bits) { \
    uint32_t m = bits & ((1u << W) - 1), sign = (uint32_t)(bits >> W & 1) << 31; \
    float tiny = (float)(int32_t)m * float_of((uint32_t)(128 - B - M) << 23); \
    uint32_t u = m < (1u << M) ? bits_of(tiny) : (m << (23 - M)) + ((uint32_t)(127 - B) << 23); \
    return float_of(sign | SPECIAL(u, m, bits)); \
  } \
  FN uint8_t bits_##T(float v) { \
    uint32_t u = bits_of(v) & 0x7fffffffu, sign = bits_of(v) >> 31 << W; \
    uint32_t magic = (uint32_t)(151 - B - M) << 23, tiny = bits_of(float_of(u) + float_of(magic)) - magic; \
    uint32_t near = (u - ((uint32_t)(127 - B) << 23) + ((1u << (22 - M)) - 1) + (u >> (23 - M) & 1)) >> (23 - M); \
    uint32_t m = u < ((uint32_t)(128 - B) << 23) ? tiny : near; \
    m = m > LARGEST ? OVER : m; \
    m = m == 0 ? (sign & ZERO) : sign | m; \
    return (uint8_t)(u > 0x7f800000u ? NOT_A : m); \
  }
#define KEPT(u, m, bits) (u)
#define ONE_NAN(u, m, bits) ((m) == 0x7fu ? 0x7fc00000u : (u))
#define MINUS_ZERO_NAN(u, m, bits) ((bits) == 0x80u ? 0x7fc00000u : (u))
#define IEEE_TOP(u, m, bits) ((m) >= 0x7cu ? 0x7f800000u | ((m) & 3) << 21 : (u))
SMALL_FLOAT(f8e4m3fn, 7, 3, 7, ONE_NAN, 0x7eu, 0x7fu, sign | 0x7fu, 0x80u)
SMALL_FLOAT(f8e4m3fnuz, 7, 3, 8, MINUS_ZERO_NAN, 0x7fu, 0x80u, 0x80u, 0u)
SMALL_FLOAT(f8e5m2, 7, 2, 15, IEEE_TOP, 0x7bu, 0x7cu, sign | 0x7cu | ((u >> 21 & 3) ? u >> 21 & 3 : 2), 0x80u)
SMALL_FLOAT(f8e5m2fnuz, 7, 2, 16, MINUS_ZERO_NAN, 0x7fu, 0x80u, 0x80u, 0u)
SMALL_FLOAT(f4e2m1, 3, 1, 1, KEPT, 7u, 7u, 8u, 8u)

/* Powers of two: the exponent of a float. */
FN float value_f8e8m0(uint8_t bits) {
  uint32_t u = (uint32_t)bits << 23;
  return float_of(bits == 0 ? 0x00400000u : bits == 255 ? 0x7fc00000u : u);
}
FN uint8_t bits_f8e8m0(float v) {
  uint32_t u = bits_of(v), near = (u + 0x00400000u) >> 23;
  uint32_t code = u < 0x00600000u ? 0 : u < 0x00800000u ? 1 : near;
  return (uint8_t)(u == 0x80000000u ? 0 : u >> 31 || u >= 0x7f800000u ? 255 : code);
}

/* ---- integers below 8 bits */

FN uint8_t value_u4(uint8_t bits) { return bits & 15; }
FN uint8_t value_u2(uint8_t bits) { return bits & 3; }
FN int8_t value_i4(uint8_t bits) { return (int8_t)(((bits & 15) ^ 8) - 8); }
FN int8_t value_i2(uint8_t bits) { return (int8_t)(((bits & 3) ^ 2) - 2); }
FN uint8_t bits_u4(uint8_t v) { return v & 15; }
FN uint8_t bits_u2(uint8_t v) { return v & 3; }
FN uint8_t bits_i4(int8_t v) { return (uint8_t)(v & 15); }
FN uint8_t bits_i2(int8_t v) { return (uint8_t)(v & 3); }

/* ---- loads, stores and casts; a value is one that the type represents exactly */

#define SMALL_FROM(T, type, F, from, held) \
  FN type to_##T##_##F(from x) { return value_##T(bits_##T(held(x))); }
#define SMALL_CASTS(T, type, from_f32, from_f64, from_int) \
  FN type load_##T(const uint8_t *p) { return value_##T(*p); } \
  FN void store_##T(uint8_t *p, type v) { *p = bits_##T(v); } \
  SMALL_FROM(T, type, f32, float, from_f32) SMALL_FROM(T, type, f64, double, from_f64) \
  SMALL_FROM(T, type, i8, int8_t, from_int) SMALL_FROM(T, type, i16, int16_t, from_int) \
  SMALL_FROM(T, type, i32, int32_t, from_int) SMALL_FROM(T, type, i64, int64_t, from_int) \
  SMALL_FROM(T, type, u8, uint8_t, from_int) SMALL_FROM(T, type, u16, uint16_t, from_int) \
  SMALL_FROM(T, type, u32, uint32_t, from_int) SMALL_FROM(T, type, u64, uint64_t, from_int) \
  SMALL_FROM(T, type, bool, _Bool, from_int)
#define AS_ODD(x) odd_float((double)(x)) /* so that the second rounding gives the result of a single one */
#define SMALL_FLOAT_CASTS(T) SMALL_CASTS(T, float, , odd_float, AS_ODD)
SMALL_FLOAT_CASTS(f8e4m3fn) SMALL_FLOAT_CASTS(f8e4m3fnuz) SMALL_FLOAT_CASTS(f8e5m2) SMALL_FLOAT_CASTS(f8e5m2fnuz)
SMALL_FLOAT_CASTS(f8e8m0) SMALL_FLOAT_CASTS(f4e2m1)

/* A float is truncated and saturated to the limits of the type, NaN is 0; integers wrap. */
#define CLAMPED(x, low, high) ((x) != (x) ? 0 : (x) >= (high) ? (high) : (x) <= (low) ? (low) : (int8_t)(x))
#define WITHIN_I4(x) (int8_t)CLAMPED(x, -8, 7)
#define WITHIN_I2(x) (int8_t)CLAMPED(x, -2, 1)
#define WITHIN_U4(x) (uint8_t)CLAMPED(x, 0, 15)
#define WITHIN_U2(x) (uint8_t)CLAMPED(x, 0, 3)
SMALL_CASTS(i4, int8_t, WITHIN_I4, WITHIN_I4, (int8_t))
SMALL_CASTS(i2, int8_t, WITHIN_I2, WITHIN_I2, (int8_t))
SMALL_CASTS(u4, uint8_t, WITHIN_U4, WITHIN_U4, (uint8_t))
SMALL_CASTS(u2, uint8_t, WITHIN_U2, WITHIN_U2, (uint8_t))

/* ---- the bits of an element as an unsigned integer, and back */

FN uint32_t bits_f32(float v) { return bits_of(v); }
FN float from_bits_f32(uint32_t u) { return float_of(u); }
FN uint64_t bits_f64(double v) { uint64_t u; memcpy(&u, &v, 8); return u; }
FN double from_bits_f64(uint64_t u) { double v; memcpy(&v, &u, 8); return v; }
FN float from_bits_f16(uint16_t u) { return float_of_f16(u); }
FN float from_bits_bf16(uint16_t u) { return float_of((uint32_t)u << 16); }
FN uint8_t bits_bool(_Bool v) { return v; }
FN _Bool from_bits_bool(uint8_t u) { return u != 0; }
#define INT_BITS(T, type, unsigned_type) \
  FN unsigned_type bits_##T(type v) { return (unsigned_type)v; } \
  FN type from_bits_##T(unsigned_type u) { return (type)u; }
INT_BITS(i8, int8_t, uint8_t) INT_BITS(i16, int16_t, uint16_t) INT_BITS(i32, int32_t, uint32_t)
INT_BITS(i64, int64_t, uint64_t)
INT_BITS(u8, uint8_t, uint8_t) INT_BITS(u16, uint16_t, uint16_t) INT_BITS(u32, uint32_t, uint32_t)
INT_BITS(u64, uint64_t, uint64_t)
#define SMALL_BITS(T, type) FN type from_bits_##T(uint8_t u) { return value_##T(u); }
SMALL_BITS(f8e4m3fn, float) SMALL_BITS(f8e4m3fnuz, float) SMALL_BITS(f8e5m2, float) SMALL_BITS(f8e5m2fnuz, float)
SMALL_BITS(f8e8m0, float) SMALL_BITS(f4e2m1, float)
SMALL_BITS(i4, int8_t) SMALL_BITS(i2, int8_t) SMALL_BITS(u4, uint8_t) SMALL_BITS(u2, uint8_t)
