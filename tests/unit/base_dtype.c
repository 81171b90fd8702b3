/* Element types: f16 and bf16 against a reference that rounds in double by scaling, floats of 8 and 4 bits against the
 * nearest of all their values, the rest by value. */
#include <math.h>
#include <stdint.h>

#include "base/dtype.h"
#include "base/random.h"
#include "base/small_float.h"
#include "tests/test.h"

/* `v` rounded to a binary format of `digits` significant bits, smallest normal exponent `emin`, largest
 * finite value `max`: to nearest even, by IEEE 754 clause 4.3.1. */
static double rounded(double v, int digits, int emin, double max) {
  int e;
  if (v == 0 || !isfinite(v)) return v;
  frexp(v, &e);
  if (e - 1 < emin) e = emin + 1;
  double ulp = ldexp(1, e - digits), r = nearbyint(v / ulp) * ulp;
  return fabs(r) > max ? copysign((double)INFINITY, v) : r;
}
static double to_f16(double v) { return rounded(v, 11, -14, 65504); }
static double to_bf16(double v) { return rounded(v, 8, -126, 0x1.fep127); }

/* The value of the bits of a 16-bit format with `man` fraction bits. */
static double meaning(uint16_t bits, int man, int bias) {
  int exp = (bits & 0x7fff) >> man, top = (0x7fff >> man), frac = bits & ((1 << man) - 1);
  double v = exp == top ? (frac ? (double)NAN : (double)INFINITY)
             : exp      ? ldexp(1 + ldexp(frac, -man), exp - bias)
                        : ldexp(frac, 1 - bias - man);
  return bits & 0x8000 ? -v : v;
}

static bool same(double a, double b) { return (isnan(a) && isnan(b)) || (a == b && signbit(a) == signbit(b)); }

static void every_half_decodes(void) {
  for (uint32_t b = 0; b < 0x10000; b++) {
    CHECKF(same((double)f16_to_float((uint16_t)b), meaning((uint16_t)b, 10, 15)), "f16 %04x", b);
    CHECKF(same((double)bf16_to_float((uint16_t)b), meaning((uint16_t)b, 7, 127)), "bf16 %04x", b);
  }
}

static void check_encode(float v) {
  double h = (double)f16_to_float(f16_from_float(v)), b = (double)bf16_to_float(bf16_from_float(v));
  CHECKF(same(h, to_f16((double)v)), "f16 of %a is %a", (double)v, h);
  CHECKF(same(b, to_bf16((double)v)), "bf16 of %a is %a", (double)v, b);
}

/* Every value, every midpoint between neighbours, and the floats on both sides of each. */
static void encoding_rounds_to_even(void) {
  for (uint32_t b = 0; b < 0x10000; b++) {
    float at[2] = {f16_to_float((uint16_t)b), bf16_to_float((uint16_t)b)};
    float next[2] = {f16_to_float((uint16_t)(b + 1)), bf16_to_float((uint16_t)(b + 1))};
    for (int i = 0; i < 2; i++) {
      float mid = (float)(((double)at[i] + (double)next[i]) / 2);
      if (!isfinite(mid)) continue;
      check_encode(at[i]);
      check_encode(mid);
      check_encode(nextafterf(mid, (float)INFINITY));
      check_encode(nextafterf(mid, (float)-INFINITY));
    }
  }
  for (uint64_t i = 0; i < 1000000; i++) {
    uint32_t bits = random_bits(1, 2, i);
    float v;
    memcpy(&v, &bits, 4);
    check_encode(v);
  }
}

static void nan_and_infinity_survive(void) {
  for (uint32_t payload = 1; payload < 0x800000; payload += 4097) {
    uint32_t bits = 0xff800000u | payload;
    float v;
    memcpy(&v, &bits, 4);
    CHECK(isnan(f16_to_float(f16_from_float(v))) && isnan(bf16_to_float(bf16_from_float(v))));
  }
  check_encode((float)INFINITY);
  check_encode((float)-INFINITY);
}

/* Just past the midpoint of 1 and the next half: rounding through f32 would give the tie. */
static void doubles_round_once(void) {
  uint16_t bits;
  for (int sign = -1; sign <= 1; sign += 2)
    for (int exp = -16; exp < 15; exp++) {
      double tie = ldexp(1 + 0x1p-11, exp), up = tie + ldexp(0x1p-40, exp), down = tie - ldexp(0x1p-40, exp);
      const double values[] = {tie, up, down};
      for (int i = 0; i < 3; i++) {
        dtype_store_f(DT_f16, &bits, sign * values[i]);
        CHECKF(same(dtype_load_f(DT_f16, &bits), to_f16(sign * values[i])), "%a", sign * values[i]);
      }
      tie = ldexp(1 + 0x1p-8, exp), up = tie + ldexp(0x1p-40, exp);
      dtype_store_f(DT_bf16, &bits, sign * up);
      CHECKF(same(dtype_load_f(DT_bf16, &bits), to_bf16(sign * up)), "%a", sign * up);
    }
  dtype_store_f(DT_f16, &bits, 1e300);
  CHECK(bits == 0x7c00);
  dtype_store_f(DT_f16, &bits, -1e-300);
  CHECK(bits == 0x8000);
}

/* A format of 8 or 4 bits, from its definition: `largest`, and the elements of a positive number beyond it, of -0 and
 * of NaN. */
typedef struct Small {
  DType t;
  int width, mantissa, bias; /* bits without the sign */
  int largest, beyond, minus_zero, nan;
} Small;

static const Small smalls[] = {
    {DT_f8e4m3fn, 7, 3, 7, 0x7e, 0x7f, 0x80, 0x7f},
    {DT_f8e4m3fnuz, 7, 3, 8, 0x7f, 0x80, 0, 0x80},
    {DT_f8e5m2, 7, 2, 15, 0x7b, 0x7c, 0x80, 0x7e},
    {DT_f8e5m2fnuz, 7, 2, 16, 0x7f, 0x80, 0, 0x80},
    {DT_f4e2m1, 3, 1, 1, 7, 7, 8, 8},
};
enum { SMALLS = sizeof smalls / sizeof *smalls };

/* The positive number of an element, also of the one after the largest. */
static double small_number(const Small *s, int code) {
  int e = code >> s->mantissa, m = code & ((1 << s->mantissa) - 1);
  return e ? ldexp((1 << s->mantissa) + m, e - s->bias - s->mantissa) : ldexp(m, 1 - s->bias - s->mantissa);
}

/* The nearest element; the sums of neighbours are exact, so halves are compared exactly. */
static int small_nearest(const Small *s, double v) {
  int low = 0;
  if (isnan(v)) return s->nan;
  if (v == 0) return signbit(v) ? s->minus_zero : 0;
  while (low < s->largest && small_number(s, low + 1) <= fabs(v)) low++;
  double middle = small_number(s, low) + small_number(s, low + 1), twice = 2 * fabs(v);
  int code = twice > middle || (twice == middle && low % 2) ? low + 1 : low;
  if (isinf(v)) code = s->largest + 1;
  if (code > s->largest) code = s->beyond;
  if (!signbit(v) || code == 0x80) return code; /* there NaN has no sign */
  return code ? code | 1 << s->width : s->minus_zero;
}

static void check_small(double v) {
  for (int i = 0; i < SMALLS; i++) {
    uint8_t got = small_float_store(smalls[i].t, v);
    int want = small_nearest(&smalls[i], v);
    CHECKF(got == want || (isnan(v) && isnan(small_float_load(smalls[i].t, got))), "%s of %a is %02x, not %02x",
           dtype_name(smalls[i].t), v, got, (unsigned)want);
  }
}

/* All f16 and bf16, and for every element the midpoint to the next, with the doubles and floats beside it. */
static void small_floats_are_the_nearest(void) {
  for (uint32_t b = 0; b < 0x10000; b++) {
    check_small((double)f16_to_float((uint16_t)b));
    check_small((double)bf16_to_float((uint16_t)b));
  }
  for (int i = 0; i < SMALLS; i++)
    for (int code = 0; code <= smalls[i].largest; code++) {
      double here = small_number(&smalls[i], code), middle = (here + small_number(&smalls[i], code + 1)) / 2;
      const double at[] = {here,
                           middle,
                           nextafter(middle, 1e9),
                           nextafter(middle, -1e9),
                           (double)nextafterf((float)middle, 1e9f),
                           (double)nextafterf((float)middle, -1e9f)};
      for (int k = 0; k < 6; k++) check_small(at[k]), check_small(-at[k]);
    }
}

static void small_floats_decode(void) {
  for (int i = 0; i < SMALLS; i++)
    for (int bits = 0; bits < 256; bits++) {
      const Small *s = &smalls[i];
      int code = bits & ((1 << s->width) - 1), negative = bits >> s->width & 1;
      double got = small_float_load(s->t, (uint8_t)bits), want = small_number(s, code);
      if (code > s->largest) want = s->t == DT_f8e5m2 && code == s->beyond ? (double)INFINITY : (double)NAN;
      if (!s->minus_zero && bits == s->nan) want = (double)NAN;
      if (negative) want = -want;
      CHECKF(same(got, want), "%s %02x is %a, not %a", dtype_name(s->t), (unsigned)bits, got, want);
      if (s->width == 7) CHECK(small_float_store(s->t, got) == bits); /* also the bits of a NaN */
    }
}

/* Powers of two: the nearest, ties up. */
static void powers_are_the_nearest(void) {
  for (int bits = 0; bits < 256; bits++) {
    double v = bits == 255 ? (double)NAN : ldexp(1, bits - 127);
    CHECK(same(small_float_load(DT_f8e8m0, (uint8_t)bits), v) && small_float_store(DT_f8e8m0, v) == bits);
    if (bits == 255) continue;
    CHECK(small_float_store(DT_f8e8m0, 1.5 * v) == bits + 1);
    CHECK(small_float_store(DT_f8e8m0, nextafter(1.5 * v, 0)) == bits && small_float_store(DT_f8e8m0, -v) == 255);
  }
  CHECK(small_float_store(DT_f8e8m0, 0x1p-140) == 0 && small_float_store(DT_f8e8m0, 0) == 0);
  CHECK(small_float_store(DT_f8e8m0, (double)INFINITY) == 255 && small_float_store(DT_f8e8m0, 1e300) == 255);
}

static void bits_are_packed(void) {
  uint8_t from[11], packed[6] = {0}, to[11];
  for (int bits = 2; bits <= 4; bits += 2)
    for (size_t n = 0; n <= 11; n++) {
      for (size_t i = 0; i < n; i++) from[i] = (uint8_t)(i * 7 + 3); /* high bits are ignored */
      pack_bits(bits, n, from, packed);
      unpack_bits(bits, n, packed, to);
      for (size_t i = 0; i < n; i++) CHECK(to[i] == (from[i] & ((1 << bits) - 1)));
    }
  CHECK(packed_bytes(4, 11) == 6 && packed_bytes(2, 4) == 1 && packed_bytes(2, 5) == 2 && packed_bytes(4, 0) == 0);
  unpack_bits(4, 2, (const uint8_t *)"\x4f", to);
  CHECK(to[0] == 15 && to[1] == 4); /* the first in the low bits */
}

static void integers_wrap(void) {
  static const DType types[] = {DT_i8,  DT_i16, DT_i32, DT_i64, DT_u8, DT_u16,
                                DT_u32, DT_u64, DT_i4,  DT_u4,  DT_i2, DT_u2};
  static const int64_t values[] = {0, 1, -1, 127, 128, -129, 40000, -40000, INT32_MAX, INT64_MAX, INT64_MIN};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++)
    for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
      uint64_t cell = 0;
      dtype_store_i(types[i], &cell, values[k]);
      int shift = 64 - dtype_bits(types[i]);
      uint64_t top = (uint64_t)values[k] << shift;
      int64_t want = dtype_class(types[i]) == DTC_I ? (int64_t)top >> shift : (int64_t)(top >> shift);
      CHECKF(dtype_load_i(types[i], &cell) == want, "%s %lld", dtype_name(types[i]), (long long)values[k]);
    }
  uint8_t flag;
  dtype_store_i(DT_bool, &flag, 256);
  CHECK(flag == 1);
  uint64_t big = UINT64_MAX;
  CHECK(dtype_load_f(DT_u64, &big) == 0x1p64);
}

/* Floats out of range to integers: defined, independent of the machine. */
static void floats_to_integers_saturate(void) {
  int64_t v = 7;
  uint64_t u = 7;
  dtype_store_f(DT_i64, &v, 1e300);
  CHECK(v == INT64_MAX);
  dtype_store_f(DT_i64, &v, -1e300);
  CHECK(v == INT64_MIN);
  dtype_store_f(DT_i64, &v, (double)NAN);
  CHECK(v == 0);
  dtype_store_f(DT_u64, &u, 0x1p63 + 4096);
  CHECK(u == ((uint64_t)1 << 63) + 4096);
  dtype_store_f(DT_u64, &u, 1e300);
  CHECK(u == UINT64_MAX);
  int32_t w = 0;
  dtype_store_f(DT_i32, &w, -2.9);
  CHECK(w == -2);
  uint8_t flag = 9;
  dtype_store_f(DT_bool, &flag, 0.5);
  CHECK(flag == 1);
  dtype_store_f(DT_bool, &flag, (double)NAN);
  CHECK(flag == 1);
  double inf = (double)INFINITY;
  CHECK(dtype_load_i(DT_f64, &inf) == INT64_MAX);
}

static void constants_of_integers(void) {
  double inf = (double)INFINITY, nan = (double)NAN;
  CHECK(dtype_constant_i(DT_i64, nan) == 0 && dtype_constant_i(DT_u8, nan) == 0 && dtype_constant_i(DT_bool, nan) == 1);
  CHECK(dtype_constant_i(DT_i64, inf) == INT64_MAX && dtype_constant_i(DT_i64, -inf) == INT64_MIN);
  CHECK(dtype_constant_i(DT_i8, inf) == 127 && dtype_constant_i(DT_i8, -inf) == -128);
  CHECK(dtype_constant_i(DT_u16, inf) == 65535 && dtype_constant_i(DT_u16, -inf) == 0);
  CHECK(dtype_constant_i(DT_u64, inf) == -1 && dtype_constant_i(DT_u64, -inf) == 0);
  CHECK(dtype_constant_i(DT_i64, 1e30) == INT64_MAX && dtype_constant_i(DT_i64, -1e30) == INT64_MIN);
  CHECK(dtype_constant_i(DT_u64, 1e19) == (int64_t)10000000000000000000u && dtype_constant_i(DT_i8, 130) == -126);
  CHECK(dtype_constant_i(DT_bool, inf) == 1 && dtype_constant_i(DT_bool, 0) == 0);
}

static void names_are_found(void) {
  for (int i = 0; i < DT_COUNT; i++) {
    DType t = DT_COUNT;
    CHECK(dtype_find(dtype_name((DType)i), &t) && t == (DType)i);
  }
  DType t;
  CHECK(!dtype_find("f8", &t) && !dtype_find("", &t));
}

int main(void) {
  RUN(every_half_decodes);
  RUN(encoding_rounds_to_even);
  RUN(nan_and_infinity_survive);
  RUN(doubles_round_once);
  RUN(small_floats_are_the_nearest);
  RUN(small_floats_decode);
  RUN(powers_are_the_nearest);
  RUN(bits_are_packed);
  RUN(integers_wrap);
  RUN(floats_to_integers_saturate);
  RUN(constants_of_integers);
  RUN(names_are_found);
  return test_summary();
}
