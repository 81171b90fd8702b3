/* base/small_float.c - see small_float.h. */
#include "base/small_float.h"

#include <math.h>
#include <string.h>

/* How a format writes numbers above its largest, and NaN. */
typedef enum Extremes {
  EX_IEEE,          /* infinities and several NaN, in the highest exponent */
  EX_ONE_NAN,       /* no infinities; the highest number of each sign is NaN */
  EX_NO_MINUS_ZERO, /* no infinities; NaN is written as -0 */
  EX_NONE           /* neither */
} Extremes;

typedef struct SmallFloat {
  int exponent, mantissa, bias; /* bits, bits, number */
  Extremes extremes;
} SmallFloat;

static const SmallFloat *small_float(DType t) {
  static const SmallFloat e4m3fn = {4, 3, 7, EX_ONE_NAN}, e4m3fnuz = {4, 3, 8, EX_NO_MINUS_ZERO},
                          e5m2 = {5, 2, 15, EX_IEEE}, e5m2fnuz = {5, 2, 16, EX_NO_MINUS_ZERO},
                          e2m1 = {2, 1, 1, EX_NONE};
  switch (t) {
    case DT_f8e4m3fn: return &e4m3fn;
    case DT_f8e4m3fnuz: return &e4m3fnuz;
    case DT_f8e5m2: return &e5m2;
    case DT_f8e5m2fnuz: return &e5m2fnuz;
    case DT_f4e2m1: return &e2m1;
    default: return NULL;
  }
}

bool dtype_is_small_float(DType t) { return t == DT_f8e8m0 || small_float(t); }

/* A NaN whose payload begins with these bits of a mantissa. */
static double nan_of(bool negative, uint64_t mantissa, int bits) {
  uint64_t u = (uint64_t)negative << 63 | UINT64_C(0x7ff) << 52 | mantissa << (52 - bits);
  double v;
  memcpy(&v, &u, 8);
  return v;
}

double small_float_load(DType t, uint8_t bits) {
  if (t == DT_f8e8m0) return bits == 0xff ? (double)NAN : ldexp(1, bits - 127);
  const SmallFloat *s = small_float(t);
  int width = s->exponent + s->mantissa, magnitude = bits & ((1 << width) - 1), e = magnitude >> s->mantissa;
  int m = magnitude & ((1 << s->mantissa) - 1);
  bool negative = bits >> width & 1;
  if (s->extremes == EX_NO_MINUS_ZERO && negative && !magnitude) return (double)NAN;
  if (s->extremes == EX_ONE_NAN && magnitude == (1 << width) - 1) return nan_of(negative, 1, 1);
  if (s->extremes == EX_IEEE && e == (1 << s->exponent) - 1)
    return m ? nan_of(negative, (uint64_t)m, s->mantissa) : negative ? -INFINITY : INFINITY;
  double v = ldexp(e ? m + (1 << s->mantissa) : m, (e ? e : 1) - s->bias - s->mantissa);
  return negative ? -v : v;
}

static uint8_t e8m0_from(double v) {
  if (v == 0) return 0;
  if (!(v > 0)) return 0xff;
  if (isinf(v)) return 0xff;
  int e;
  double m = frexp(v, &e); /* 0.5 <= m < 1 */
  int code = e - 1 + (m >= 0.75) + 127;
  return (uint8_t)(code < 0 ? 0 : code > 254 ? 255 : code);
}

uint8_t small_float_store(DType t, double v) {
  if (t == DT_f8e8m0) return e8m0_from(v);
  const SmallFloat *s = small_float(t);
  int width = s->exponent + s->mantissa, steps = 1 << s->mantissa, top = (1 << width) - 1;
  uint64_t u;
  memcpy(&u, &v, 8);
  int sign = (int)(u >> 63) << width, payload = (int)(u >> (52 - s->mantissa)) & (steps - 1);
  if (isnan(v)) switch (s->extremes) {
      case EX_IEEE: return (uint8_t)(sign | (top - steps + 1) | (payload ? payload : steps / 2));
      case EX_ONE_NAN: return (uint8_t)(sign | top);
      case EX_NO_MINUS_ZERO:
      case EX_NONE: return (uint8_t)(1 << width);
    }
  int most = s->extremes == EX_IEEE ? top - steps : s->extremes == EX_ONE_NAN ? top - 1 : top, code = top + 1;
  if (fabs(v) < 0x1p40) {
    int e = v == 0 ? -2000 : ilogb(v);
    if (e < 1 - s->bias) e = 1 - s->bias;
    int q = (int)rint(ldexp(fabs(v), s->mantissa - e)); /* exact up to the rounding */
    code = q < steps ? q : (e + s->bias) * steps + q - steps;
  }
  if (code > most) {
    if (s->extremes == EX_NO_MINUS_ZERO) return (uint8_t)(1 << width);
    code = s->extremes == EX_NONE ? most : most + 1; /* the next one is the infinity, or NaN */
  }
  return (uint8_t)(code == 0 && s->extremes == EX_NO_MINUS_ZERO ? 0 : sign | code);
}

/* ---- packed numbers */

size_t packed_bytes(int bits, size_t n) {
  size_t per = 8 / (size_t)bits;
  return n / per + (n % per != 0);
}

void unpack_bits(int bits, size_t n, const uint8_t *from, uint8_t *to) {
  size_t per = 8 / (size_t)bits;
  for (size_t i = 0; i < n; i++) to[i] = (uint8_t)(from[i / per] >> (i % per * (size_t)bits) & ((1 << bits) - 1));
}

void pack_bits(int bits, size_t n, const uint8_t *from, uint8_t *to) {
  size_t per = 8 / (size_t)bits;
  memset(to, 0, packed_bytes(bits, n));
  for (size_t i = 0; i < n; i++)
    to[i / per] = (uint8_t)(to[i / per] | (from[i] & ((1 << bits) - 1)) << (i % per * (size_t)bits));
}
