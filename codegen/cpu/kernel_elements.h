/* codegen/cpu/kernel_elements.h - element operations of generated kernels: loads and stores, arithmetic, special
 * functions, casts.
 *
 * Begins every generated text, after base/random.h, for CPUs and for GPUs: both compute the same bits (neither
 * contracts a * b + c), except in the functions of the C library.  Never included by the compiler itself.
 *
 * Every element operation is a function NAME_TYPE.  f16 and bf16 are stored as bits and computed as float.  The f32
 * special functions are polynomials without branches, so that loops over them vectorise; their error is below 3 ulp.
 * f64 and the rarer functions are libm's.  Sources: Cephes (exp, log, sin, cos), N. Juffa (erf), M. Dukhan's FP16 (f16
 * bits).
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */
#ifndef FN /* a preceding prelude may define its own */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FN static inline __attribute__((always_inline, unused))
#endif

FN uint32_t bits_of(float x) { uint32_t u; memcpy(&u, &x, 4); return u; }
FN float float_of(uint32_t u) { float x; memcpy(&x, &u, 4); return x; }

/* ---- loads and stores */

FN float load_f32(const float *p) { return *p; }
FN void store_f32(float *p, float v) { *p = v; }
FN double load_f64(const double *p) { return *p; }
FN void store_f64(double *p, double v) { *p = v; }
FN _Bool load_bool(const uint8_t *p) { return *p != 0; }
FN void store_bool(uint8_t *p, _Bool v) { *p = v; }

FN float load_bf16(const uint16_t *p) { return float_of((uint32_t)*p << 16); }
FN uint16_t bits_bf16(float v) {
  uint32_t u = bits_of(v), r = (u + 0x7fffu + (u >> 16 & 1)) >> 16;
  return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? (u >> 16 | 0x40u) : r);
}
FN void store_bf16(uint16_t *p, float v) { *p = bits_bf16(v); }

FN float float_of_f16(uint16_t h) {
  uint32_t w = (uint32_t)h << 16, sign = w & 0x80000000u, twice = w + w;
  float normal = float_of((twice >> 4) + (0xE0u << 23)) * 0x1p-112f;
  float tiny = float_of((twice >> 17) | (126u << 23)) - 0.5f;
  return float_of(sign | (twice < (1u << 27) ? bits_of(tiny) : bits_of(normal)));
}
FN float load_f16(const uint16_t *p) { return float_of_f16(*p); }
FN uint16_t bits_f16(float v) {
  float base = (__builtin_fabsf(v) * 0x1p+112f) * 0x1p-110f;
  uint32_t w = bits_of(v), shifted = w + w, sign = w & 0x80000000u, bias = shifted & 0xFF000000u;
  bias = bias < 0x71000000u ? 0x71000000u : bias;
  base = float_of((bias >> 1) + 0x07800000u) + base;
  uint32_t b = bits_of(base), rest = (b >> 13 & 0x7C00u) + (b & 0x0FFFu);
  return (uint16_t)((sign >> 16) | (shifted > 0xFF000000u ? 0x7E00u : rest));
}
FN void store_f16(uint16_t *p, float v) { *p = bits_f16(v); }

/* ---- floats */

FN float exp_scaled(float p, int32_t k) { /* p * 2^k, also if 2^k is not a float */
  int32_t a = k >> 1, b = k - a;
  return p * float_of((uint32_t)(a + 127) << 23) * float_of((uint32_t)(b + 127) << 23);
}
FN float exp_reduced(float r) { /* (e^r - 1 - r) / r^2 for |r| < 0.35 */
  float p = __builtin_fmaf(1.9875691500e-4f, r, 1.3981999507e-3f);
  p = __builtin_fmaf(p, r, 8.3334519073e-3f);
  p = __builtin_fmaf(p, r, 4.1665795894e-2f);
  p = __builtin_fmaf(p, r, 1.6666665459e-1f);
  return __builtin_fmaf(p, r, 5.0000001201e-1f);
}
FN float exp_f32(float x) {
  float c = x < -104.0f ? -104.0f : x;
  c = c > 89.0f ? 89.0f : c;
  float n = __builtin_rintf(c * 1.44269504088896341f);
  float r = __builtin_fmaf(n, -0.693359375f, c);
  r = __builtin_fmaf(n, 2.12194440e-4f, r);
  float p = __builtin_fmaf(exp_reduced(r), r * r, r) + 1.0f;
  return exp_scaled(p, (int32_t)n);
}
FN float exp2_f32(float x) {
  float c = x < -151.0f ? -151.0f : x;
  c = c > 129.0f ? 129.0f : c;
  float n = __builtin_rintf(c), r = (c - n) * 0.693147180559945309f;
  float p = __builtin_fmaf(exp_reduced(r), r * r, r) + 1.0f;
  return exp_scaled(p, (int32_t)n);
}
FN float expm1_small(float x) { /* for -30 <= x <= 88 */
  float n = __builtin_rintf(x * 1.44269504088896341f);
  float r = __builtin_fmaf(n, -0.693359375f, x);
  r = __builtin_fmaf(n, 2.12194440e-4f, r);
  float q = __builtin_fmaf(exp_reduced(r), r * r, r), s = float_of((uint32_t)((int32_t)n + 127) << 23);
  return __builtin_fmaf(s, q, s - 1.0f);
}
FN float expm1_f32(float x) {
  float c = x < -30.0f ? -30.0f : x;
  float y = expm1_small(c > 88.0f ? 88.0f : c);
  return x > 88.0f ? exp_f32(x) : x == 0.0f ? x : y;
}
FN float log_f32(float x) {
  float scaled = x < 0x1p-126f ? x * 0x1p25f : x, shift = x < 0x1p-126f ? -25.0f : 0.0f;
  uint32_t u = bits_of(scaled) - 0x3f3504f3u; /* bits of sqrt(1/2) */
  float e = (float)((int32_t)u >> 23) + shift;
  float m = float_of((u & 0x007fffffu) + 0x3f3504f3u) - 1.0f, z = m * m;
  float p = __builtin_fmaf(7.0376836292e-2f, m, -1.1514610310e-1f);
  p = __builtin_fmaf(p, m, 1.1676998740e-1f);
  p = __builtin_fmaf(p, m, -1.2420140846e-1f);
  p = __builtin_fmaf(p, m, 1.4249322787e-1f);
  p = __builtin_fmaf(p, m, -1.6668057665e-1f);
  p = __builtin_fmaf(p, m, 2.0000714765e-1f);
  p = __builtin_fmaf(p, m, -2.4999993993e-1f);
  p = __builtin_fmaf(p, m, 3.3333331174e-1f);
  float y = __builtin_fmaf(e, -2.12194440e-4f, p * m * z);
  y = __builtin_fmaf(-0.5f, z, y);
  y = __builtin_fmaf(e, 0.693359375f, m + y);
  y = x == __builtin_inff() ? x : y;
  y = x == 0.0f ? -__builtin_inff() : y;
  return x < 0.0f || x != x ? __builtin_nanf("") : y;
}
FN float log1p_f32(float x) {
  float u = 1.0f + x, y = log_f32(u) * (x / (u - 1.0f));
  y = u == 1.0f ? x : y;
  return x == __builtin_inff() ? x : y;
}
FN float tanh_f32(float x) {
  float a = __builtin_fabsf(x), t = expm1_small(2.0f * (a > 10.0f ? 10.0f : a));
  return __builtin_copysignf(t / (t + 2.0f), x); /* NaN passes the comparison and every step */
}
FN float sigmoid_f32(float x) { return 1.0f / (1.0f + exp_f32(-x)); }
FN float erf_f32(float x) {
  float t = __builtin_fabsf(x), s = x * x;
  t = t > 4.0f ? 4.0f : t;
  float ts = t * t;
  float r = __builtin_fmaf(-1.72853470e-5f, t, 3.83197126e-4f), u = __builtin_fmaf(-3.88396438e-3f, t, 2.42546219e-2f);
  r = __builtin_fmaf(r, ts, u);
  r = __builtin_fmaf(r, t, -1.06777877e-1f);
  r = __builtin_fmaf(r, t, -6.34846687e-1f);
  r = __builtin_fmaf(r, t, -1.28717512e-1f);
  r = __builtin_fmaf(r, t, -t);
  float far = __builtin_copysignf(1.0f - exp_f32(r), x);
  float q = __builtin_fmaf(-5.96761703e-4f, s, 4.99119423e-3f);
  q = __builtin_fmaf(q, s, -2.67681349e-2f);
  q = __builtin_fmaf(q, s, 1.12819925e-1f);
  q = __builtin_fmaf(q, s, -3.76125336e-1f);
  q = __builtin_fmaf(q, s, 1.28379166e-1f);
  float y = t > 0.927734375f ? far : __builtin_fmaf(q, x, x);
  return x != x ? x : y;
}
/* Returns the sine (quarter 0) or cosine (quarter 1) of a double as a float: reduced in double, accurate for |x| <
 * 2^40. */
FN float turned_f32(double x, int quarter) {
  double n = __builtin_rint(x * 0x1.45f306dc9c883p-1);
  double wide = __builtin_fma(n, -0x1.921fb54442d18p+0, x);
  float r = (float)__builtin_fma(n, -0x1.1a62633145c07p-54, wide), z = r * r;
  double turn = n + quarter;
  float q = (float)(turn - 4.0 * __builtin_floor(turn * 0.25)); /* 0, 1, 2, 3 */
  float s = __builtin_fmaf(-1.9515295891e-4f, z, 8.3321608736e-3f);
  s = __builtin_fmaf(s, z, -1.6666654611e-1f);
  s = __builtin_fmaf(s * z, r, r);
  float c = __builtin_fmaf(2.443315711809948e-5f, z, -1.388731625493765e-3f);
  c = __builtin_fmaf(c, z, 4.166664568298827e-2f);
  c = __builtin_fmaf(c * z, z, __builtin_fmaf(-0.5f, z, 1.0f));
  float y = q == 1.0f || q == 3.0f ? c : s;
  return q >= 2.0f ? -y : y;
}
FN float sincos_f32(float x, int quarter) { /* NaN where the reduction fails, rather than a wrong number */
  float y = turned_f32((double)x, quarter);
  return __builtin_fabsf(x) < 0x1p40f ? y : __builtin_nanf("");
}
FN float sin_f32(float x) { return sincos_f32(x, 0); }
FN float cos_f32(float x) { return sincos_f32(x, 1); }

/* Returns |x|^y in double: logarithm by the series of atanh, exponential by its series. */
FN double pow_positive(double x, double y) {
  uint64_t u;
  memcpy(&u, &x, 8);
  uint64_t shifted = u - 0x3fe6a09e667f3bcdull, mantissa = (shifted & 0xfffffffffffffull) + 0x3fe6a09e667f3bcdull;
  double e = (double)((int64_t)shifted >> 52), m;
  memcpy(&m, &mantissa, 8);
  double s = (m - 1.0) / (m + 1.0), z = s * s, p = 1.0 / 17;
  p = p * z + 1.0 / 15, p = p * z + 1.0 / 13, p = p * z + 1.0 / 11, p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7, p = p * z + 1.0 / 5, p = p * z + 1.0 / 3, p = p * z + 1.0;
  double v = y * (e + 2.8853900817779268 * s * p);
  v = v < -160.0 ? -160.0 : v;
  v = v > 130.0 ? 130.0 : v;
  double n = __builtin_rint(v), r = (v - n) * 0.69314718055994531, q = 1.0 / 3628800;
  q = q * r + 1.0 / 362880, q = q * r + 1.0 / 40320, q = q * r + 1.0 / 5040, q = q * r + 1.0 / 720;
  q = q * r + 1.0 / 120, q = q * r + 1.0 / 24, q = q * r + 1.0 / 6, q = q * r + 0.5, q = q * r + 1.0, q = q * r + 1.0;
  uint64_t scale = (uint64_t)((int64_t)n + 1023) << 52;
  double two;
  memcpy(&two, &scale, 8);
  return q * two;
}
FN float pow_f32(float x, float y) {
  float a = __builtin_fabsf(x), inf = __builtin_inff();
  float whole = __builtin_floorf(y), half = __builtin_floorf(y * 0.5f);
  _Bool is_whole = whole == y, odd = is_whole && half * 2.0f != y;
  float r = (float)pow_positive((double)a, (double)y);
  r = a == 0.0f ? (y > 0.0f ? 0.0f : inf) : r;
  r = a == inf ? (y > 0.0f ? inf : 0.0f) : r;
  float flat = a == 1.0f ? 1.0f : (a > 1.0f) == (y > 0.0f) ? inf : 0.0f;
  r = __builtin_fabsf(y) == inf ? flat : r;
  r = x < 0.0f && x != -inf && !is_whole ? __builtin_nanf("") : r;
  r = odd ? __builtin_copysignf(r, x) : r;
  r = x != x || y != y ? __builtin_nanf("") : r;
  return y == 0.0f || x == 1.0f ? 1.0f : r;
}

#define FLOAT_OPS(T, type, f) \
  FN type neg_##T(type x) { return -x; } \
  FN type abs_##T(type x) { return __builtin_fabs##f(x); } \
  FN type sqrt_##T(type x) { return __builtin_sqrt##f(x); } \
  FN type rsqrt_##T(type x) { return (type)1 / __builtin_sqrt##f(x); } \
  FN type recip_##T(type x) { return (type)1 / x; } \
  FN type tan_##T(type x) { return __builtin_tan##f(x); } \
  FN type asin_##T(type x) { return __builtin_asin##f(x); } \
  FN type acos_##T(type x) { return __builtin_acos##f(x); } \
  FN type atan_##T(type x) { return __builtin_atan##f(x); } \
  FN type sinh_##T(type x) { return __builtin_sinh##f(x); } \
  FN type cosh_##T(type x) { return __builtin_cosh##f(x); } \
  FN type asinh_##T(type x) { return __builtin_asinh##f(x); } \
  FN type acosh_##T(type x) { return __builtin_acosh##f(x); } \
  FN type atanh_##T(type x) { return __builtin_atanh##f(x); } \
  FN type floor_##T(type x) { return __builtin_floor##f(x); } \
  FN type ceil_##T(type x) { return __builtin_ceil##f(x); } \
  FN type round_##T(type x) { return __builtin_rint##f(x); } \
  FN type sign_##T(type x) { return x > 0 ? (type)1 : x < 0 ? (type)-1 : x; } \
  FN type relu_##T(type x) { return x < 0 ? (type)0 : x; } \
  FN _Bool isnan_##T(type x) { return x != x; } \
  FN _Bool isinf_##T(type x) { return __builtin_fabs##f(x) == (type)__builtin_inf(); } \
  FN type add_##T(type x, type y) { return x + y; } \
  FN type sub_##T(type x, type y) { return x - y; } \
  FN type mul_##T(type x, type y) { return x * y; } \
  FN type div_##T(type x, type y) { return x / y; } \
  FN type mod_##T(type x, type y) { return __builtin_fmod##f(x, y); } \
  FN type max_##T(type x, type y) { return x > y || x != x ? x : y; } \
  FN type min_##T(type x, type y) { return x < y || x != x ? x : y; } \
  FN type atan2_##T(type x, type y) { return __builtin_atan2##f(x, y); }
FLOAT_OPS(f32, float, f)
FLOAT_OPS(f64, double, )

#define LIBM(name) FN double name##_f64(double x) { return __builtin_##name(x); }
LIBM(exp) LIBM(exp2) LIBM(expm1) LIBM(log) LIBM(log1p) LIBM(sin) LIBM(cos) LIBM(tanh) LIBM(erf)
FN double sigmoid_f64(double x) { return 1.0 / (1.0 + __builtin_exp(-x)); }
FN double pow_f64(double x, double y) { return __builtin_pow(x, y); }

/* ---- integers: arithmetic wraps, division by 0 gives 0, remainder by 0 gives the dividend */

#define INT_OPS(T, type, wide) \
  FN type load_##T(const type *p) { return *p; } \
  FN void store_##T(type *p, type v) { *p = v; } \
  FN type neg_##T(type x) { return (type)(0 - (wide)x); } \
  FN type abs_##T(type x) { return x < 0 ? (type)(0 - (wide)x) : x; } \
  FN type sign_##T(type x) { return (type)((x > 0) - (x < 0)); } \
  FN type relu_##T(type x) { return x < 0 ? (type)0 : x; } \
  FN type add_##T(type x, type y) { return (type)((wide)x + (wide)y); } \
  FN type sub_##T(type x, type y) { return (type)((wide)x - (wide)y); } \
  FN type mul_##T(type x, type y) { return (type)((wide)x * (wide)y); } \
  FN type div_##T(type x, type y) { \
    return y == 0 ? (type)0 : y == (type)-1 && (type)-1 < 0 ? (type)(0 - (wide)x) : (type)(x / y); \
  } \
  FN type mod_##T(type x, type y) { return y == 0 ? x : y == (type)-1 && (type)-1 < 0 ? (type)0 : (type)(x % y); } \
  FN type max_##T(type x, type y) { return x > y ? x : y; } \
  FN type min_##T(type x, type y) { return x < y ? x : y; } \
  FN type and_##T(type x, type y) { return (type)(x & y); } \
  FN type or_##T(type x, type y) { return (type)(x | y); } \
  FN type xor_##T(type x, type y) { return (type)(x ^ y); } \
  FN type shl_##T(type x, type y) { \
    return y < 0 || (uint64_t)y >= 8 * sizeof(type) ? (type)0 : (type)((wide)x << y); \
  } \
  FN type shr_##T(type x, type y) { \
    return (type)(y < 0 || (uint64_t)y >= 8 * sizeof(type) ? (x < 0 ? -1 : 0) : x >> y); \
  }
INT_OPS(i8, int8_t, uint32_t)
INT_OPS(i16, int16_t, uint32_t)
INT_OPS(i32, int32_t, uint32_t)
INT_OPS(i64, int64_t, uint64_t)
INT_OPS(u8, uint8_t, uint32_t)
INT_OPS(u16, uint16_t, uint32_t)
INT_OPS(u32, uint32_t, uint32_t)
INT_OPS(u64, uint64_t, uint64_t)

FN _Bool not_bool(_Bool x) { return !x; }
FN _Bool and_bool(_Bool x, _Bool y) { return x & y; }
FN _Bool or_bool(_Bool x, _Bool y) { return x | y; }
FN _Bool xor_bool(_Bool x, _Bool y) { return x ^ y; }
FN _Bool max_bool(_Bool x, _Bool y) { return x | y; }
FN _Bool min_bool(_Bool x, _Bool y) { return x & y; }

#define COMPARE_OPS(T, type) \
  FN _Bool eq_##T(type x, type y) { return x == y; } \
  FN _Bool ne_##T(type x, type y) { return x != y; } \
  FN _Bool lt_##T(type x, type y) { return x < y; } \
  FN _Bool le_##T(type x, type y) { return x <= y; } \
  FN _Bool gt_##T(type x, type y) { return x > y; } \
  FN _Bool ge_##T(type x, type y) { return x >= y; }
COMPARE_OPS(f32, float) COMPARE_OPS(f64, double) COMPARE_OPS(bool, _Bool)
COMPARE_OPS(i8, int8_t) COMPARE_OPS(i16, int16_t) COMPARE_OPS(i32, int32_t) COMPARE_OPS(i64, int64_t)
COMPARE_OPS(u8, uint8_t) COMPARE_OPS(u16, uint16_t) COMPARE_OPS(u32, uint32_t) COMPARE_OPS(u64, uint64_t)

/* ---- casts; an f16 or bf16 value is a float that the type represents exactly */

/* Rounds to float so that a second rounding to fewer bits gives the result of a single one: the last bit is set if
 * inexact. */
FN float odd_float(double x) {
  float r = (float)x;
  uint32_t u = bits_of(r);
  _Bool inexact = (double)r != x && x == x && __builtin_fabs(x) <= 0x1.fffffep127;
  _Bool away = inexact && __builtin_fabs((double)r) > __builtin_fabs(x);
  return inexact ? float_of((u - away) | 1u) : r;
}
FN float to_f32_f32(float x) { return x; }
FN float to_f32_f64(double x) { return (float)x; }
FN double to_f64_f32(float x) { return (double)x; }
FN double to_f64_f64(double x) { return x; }
FN float round_to_f16(float x) { return float_of_f16(bits_f16(x)); }
FN float round_to_bf16(float x) { return float_of((uint32_t)bits_bf16(x) << 16); }
FN float to_f16_f32(float x) { return round_to_f16(x); }
FN float to_bf16_f32(float x) { return round_to_bf16(x); }
FN float to_f16_f64(double x) { return round_to_f16(odd_float(x)); }
FN float to_bf16_f64(double x) { return round_to_bf16(odd_float(x)); }

#define INT_FROM(T, type, F, from) FN type to_##T##_##F(from x) { return (type)x; }
#define INT_FROM_FLOAT(T, type, low, high, first, last) \
  FN type to_##T##_f32(float x) { return x != x ? (type)0 : x >= high##f ? last : x <= low##f ? first : (type)x; } \
  FN type to_##T##_f64(double x) { return x != x ? (type)0 : x >= high ? last : x <= low ? first : (type)x; }
#define INT_CASTS(T, type, low, high, first, last) \
  INT_FROM_FLOAT(T, type, low, high, first, last) \
  INT_FROM(T, type, i8, int8_t) INT_FROM(T, type, i16, int16_t) INT_FROM(T, type, i32, int32_t) \
      INT_FROM(T, type, i64, int64_t) \
  INT_FROM(T, type, u8, uint8_t) INT_FROM(T, type, u16, uint16_t) INT_FROM(T, type, u32, uint32_t) \
      INT_FROM(T, type, u64, uint64_t) \
  INT_FROM(T, type, bool, _Bool) \
  FN float to_f32_##T(type x) { return (float)x; } \
  FN double to_f64_##T(type x) { return (double)x; } \
  FN float to_f16_##T(type x) { return to_f16_f64((double)x); } \
  FN float to_bf16_##T(type x) { return to_bf16_f64((double)x); } \
  FN _Bool to_bool_##T(type x) { return x != 0; }
INT_CASTS(i8, int8_t, -0x1p7, 0x1p7, INT8_MIN, INT8_MAX)
INT_CASTS(i16, int16_t, -0x1p15, 0x1p15, INT16_MIN, INT16_MAX)
INT_CASTS(i32, int32_t, -0x1p31, 0x1p31, INT32_MIN, INT32_MAX)
INT_CASTS(i64, int64_t, -0x1p63, 0x1p63, INT64_MIN, INT64_MAX)
INT_CASTS(u8, uint8_t, 0x0p0, 0x1p8, 0, UINT8_MAX)
INT_CASTS(u16, uint16_t, 0x0p0, 0x1p16, 0, UINT16_MAX)
INT_CASTS(u32, uint32_t, 0x0p0, 0x1p32, 0, UINT32_MAX)
INT_CASTS(u64, uint64_t, 0x0p0, 0x1p64, 0, UINT64_MAX)
FN _Bool to_bool_f32(float x) { return x != 0; }
FN _Bool to_bool_f64(double x) { return x != 0; }
FN _Bool to_bool_bool(_Bool x) { return x; }
FN float to_f32_bool(_Bool x) { return (float)x; }
FN double to_f64_bool(_Bool x) { return (double)x; }
FN float to_f16_bool(_Bool x) { return (float)x; }
FN float to_bf16_bool(_Bool x) { return (float)x; }
