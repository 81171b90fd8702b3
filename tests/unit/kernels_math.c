/* The special functions of generated kernels against libm in double: errors in units of the last place, and special
 * values.  Conversions of few bits against those of base/. */
#include <math.h>
#include <stdbool.h>

#include "base/small_float.h"
#include "tests/test.h"
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wshadow"
#include "codegen/cpu/kernel_elements.h"
#include "codegen/cpu/kernel_small.h"
#include "codegen/cpu/kernel_prelude.h"
#pragma GCC diagnostic pop

/* The error in units of the last place of `want` rounded to float. */
static double ulps(float got, double want) {
  float w = (float)want;
  if (isnan(got) && isnan(want)) return 0;
  if (got == w) return 0;
  if (isnan(got) || isnan(w) || isinf(got) || isinf(w))
    return isinf(w) && fabsf(got) >= 0x1.fffffcp127f && !isnan(got) && (got > 0) == (w > 0) ? 1 : 1e9;
  double unit = ldexp(1, (w == 0 ? -126 : ilogbf(w) < -126 ? -126 : ilogbf(w)) - 23);
  return fabs((double)got - want) / unit;
}

typedef struct Function {
  const char *name;
  float (*f)(float);
  double (*g)(double);
  float low, high;
  double bound;
} Function;

static double sigmoid_exact(double x) { return 1 / (1 + exp(-x)); }

/* clang-format would break rows of macro names. */
/* clang-format off */
#define PLAIN(name) \
  static float name##_plain(float x) { return name##_f32(x); }
PLAIN(exp)
PLAIN(exp2) PLAIN(expm1) PLAIN(log) PLAIN(log1p) PLAIN(tanh) PLAIN(erf) PLAIN(sigmoid) PLAIN(sin) PLAIN(cos)
    /* clang-format on */

    static void special_functions(void) {
  static const Function functions[] = {
      {"exp", exp_plain, exp, -105, 90, 1.5},     {"exp2", exp2_plain, exp2, -152, 130, 2},
      {"expm1", expm1_plain, expm1, -40, 90, 2},  {"log", log_plain, log, 0, 1e6f, 2},
      {"log near 1", log_plain, log, 0.5f, 2, 2}, {"log1p", log1p_plain, log1p, -1, 10, 3},
      {"tanh", tanh_plain, tanh, -12, 12, 3},     {"tanh near 0", tanh_plain, tanh, -0.01f, 0.01f, 3},
      {"erf", erf_plain, erf, -5, 5, 2},          {"sigmoid", sigmoid_plain, sigmoid_exact, -20, 20, 3},
      {"sin", sin_plain, sin, -1e5f, 1e5f, 2},    {"cos", cos_plain, cos, -1e5f, 1e5f, 2},
      {"sin near 0", sin_plain, sin, -4, 4, 2},   {"cos near 0", cos_plain, cos, -4, 4, 2}};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    const Function *f = &functions[i];
    double worst = 0;
    float where = 0;
    for (int k = 0; k <= 400000; k++) {
      float x = f->low + (f->high - f->low) * (float)k / 400000.0f;
      double u = ulps(f->f(x), f->g((double)x));
      if (u > worst) worst = u, where = x;
    }
    CHECKF(worst <= f->bound, "%s is off by %.2f ulp at %a", f->name, worst, (double)where);
  }
}

static void special_values(void) {
  const float values[] = {0.0f,       -0.0f,     INFINITY, -INFINITY, NAN,   0x1p-149f,
                          -0x1p-149f, 0x1p-130f, 1,        -1,        3e38f, -3e38f};
  for (size_t i = 0; i < sizeof values / sizeof *values; i++) {
    float x = values[i];
    double d = (double)x;
    CHECKF(ulps(exp_f32(x), exp(d)) <= 2, "exp(%g) = %g", d, (double)exp_f32(x));
    CHECKF(ulps(expm1_f32(x), expm1(d)) <= 2, "expm1(%g) = %g", d, (double)expm1_f32(x));
    CHECKF(ulps(log_f32(x), log(d)) <= 2, "log(%g) = %g", d, (double)log_f32(x));
    CHECKF(ulps(log1p_f32(x), log1p(d)) <= 2, "log1p(%g) = %g", d, (double)log1p_f32(x));
    CHECKF(ulps(tanh_f32(x), tanh(d)) <= 2, "tanh(%g) = %g", d, (double)tanh_f32(x));
    CHECKF(ulps(erf_f32(x), erf(d)) <= 2, "erf(%g) = %g", d, (double)erf_f32(x));
    CHECKF(ulps(sigmoid_f32(x), sigmoid_exact(d)) <= 2, "sigmoid(%g) = %g", d, (double)sigmoid_f32(x));
    if (fabs(d) < 1e12 || !isfinite(d)) CHECKF(ulps(sin_f32(x), sin(d)) <= 2, "sin(%g) = %g", d, (double)sin_f32(x));
  }
}

static void powers(void) {
  const float special[] = {0.0f,  -0.0f, 1,     -1,       2,         -2,  3,     -3,     0.5f,
                           -0.5f, 2.5f,  -2.5f, INFINITY, -INFINITY, NAN, 1e30f, 1e-30f, 1e9f};
  int n = sizeof special / sizeof *special;
  for (int i = 0; i < n; i++)
    for (int k = 0; k < n; k++) {
      double want = pow((double)special[i], (double)special[k]);
      CHECKF(ulps(pow_f32(special[i], special[k]), want) <= 2, "pow(%g, %g) = %g, not %g", (double)special[i],
             (double)special[k], (double)pow_f32(special[i], special[k]), want);
    }
  double worst = 0;
  for (int i = 1; i < 600; i++)
    for (int k = -300; k < 300; k++) {
      float x = (float)i * 0.37f, y = (float)k * 0.11f;
      double u = ulps(pow_f32(x, y), pow((double)x, (double)y));
      worst = u > worst ? u : worst;
    }
  CHECKF(worst <= 1, "pow is off by %.2f ulp", worst);
}

static void narrow_floats(void) {
  for (uint32_t h = 0; h < 65536; h++) {
    uint16_t x = (uint16_t)h;
    float f = float_of_f16(x);
    bool nan = (x & 0x7c00) == 0x7c00 && (x & 0x3ff);
    CHECKF(nan ? isnan(f) : bits_f16(f) == x, "f16 bits %04x", x);
    if (!nan && (x & 0x7c00) != 0x7c00) {
      double want = ((x & 0x7c00) ? ldexp(1024 + (x & 0x3ff), ((x >> 10) & 31) - 25) : ldexp(x & 0x3ff, -24)) *
                    (x >> 15 ? -1 : 1);
      CHECKF((double)f == want, "f16 %04x is %g", x, want);
    }
  }
  /* halfway cases round to even, once, also from double */
  CHECK(bits_f16(1.0f + 0x1p-11f) == 0x3c00 && bits_f16(1.0f + 3 * 0x1p-11f) == 0x3c02);
  CHECK(to_f16_f64(1.0 + 0x1p-11 + 0x1p-40) == 1.0f + 0x1p-10f);
  CHECK(to_bf16_f64(1.0 + 0x1p-8 + 0x1p-40) == 1.0f + 0x1p-7f);
  CHECK(to_bf16_f64(0x1p127 * (1.0 + 0x1p-8 + 0x1p-40)) == 0x1p127f * (1.0f + 0x1p-7f));
  CHECK(to_bf16_f64(1.0 + 0x1p-8 - 0x1p-40) == 1.0f && isinf(to_f16_f64(70000.0)) && to_f16_f64(-1e-9) == 0);
}

typedef struct Kernel {
  DType t;
  uint8_t (*bits)(float);
  float (*value)(uint8_t);
  float (*from_f64)(double);
} Kernel;

#define KERNEL(T) \
  static uint8_t T##_bits(float v) { return bits_##T(v); } \
  static float T##_value(uint8_t b) { return value_##T(b); } \
  static float T##_from(double v) { return to_##T##_f64(v); }
KERNEL(f8e4m3fn)
KERNEL(f8e4m3fnuz)
KERNEL(f8e5m2)
KERNEL(f8e5m2fnuz)
KERNEL(f8e8m0)
KERNEL(f4e2m1)

static void check_small(const Kernel *k, float v) {
  uint8_t got = k->bits(v), want = small_float_store(k->t, (double)v);
  CHECKF(got == want || (isnan(v) && isnan(k->value(got))), "%s of %a is %02x, not %02x", dtype_name(k->t), (double)v,
         got, want);
}

/* All f16 and bf16, and for every element the midpoints to the next, with the numbers beside them. */
static void small_floats(void) {
#define ROW(T) \
  { DT_##T, T##_bits, T##_value, T##_from }
  static const Kernel kernels[] = {ROW(f8e4m3fn),   ROW(f8e4m3fnuz), ROW(f8e5m2),
                                   ROW(f8e5m2fnuz), ROW(f8e8m0),     ROW(f4e2m1)};
  for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
    const Kernel *k = &kernels[i];
    for (uint32_t b = 0; b < 0x10000; b++) {
      check_small(k, float_of_f16((uint16_t)b));
      check_small(k, float_of(b << 16));
    }
    for (int b = 0; b < 256; b++) {
      double here = small_float_load(k->t, (uint8_t)b), middle = (here + small_float_load(k->t, (uint8_t)(b + 1))) / 2;
      float got = k->value((uint8_t)b), at = (float)middle;
      CHECKF(((double)got == here && !signbit(got) == !signbit(here)) || (isnan(got) && isnan(here)), "%s %02x is %a",
             dtype_name(k->t), (unsigned)b, (double)got);
      if (k->t != DT_f4e2m1) CHECK(k->bits(got) == b || (isnan(got) && k->t == DT_f8e8m0));
      const double beside[] = {middle, nextafter(middle, 1e300), nextafter(middle, -1e300)};
      for (int j = 0; j < 3; j++) {
        double want = small_float_load(k->t, small_float_store(k->t, beside[j])), is = (double)k->from_f64(beside[j]);
        CHECKF(is == want || (isnan(is) && isnan(want)), "%s of %a is %a", dtype_name(k->t), beside[j], is);
      }
      check_small(k, at);
      check_small(k, nextafterf(at, INFINITY));
      check_small(k, nextafterf(at, -INFINITY));
    }
  }
}

/* Integers of 4 and 2 bits: all 16-bit numbers wrap as in base/, floats are saturated. */
static void small_integers(void) {
#define INT(T) \
  do { \
    uint8_t cell, low = 0; \
    for (int v = -32768; v < 32768; v++) { \
      dtype_store_i(DT_##T, &cell, v); \
      CHECK(to_##T##_i16((int16_t)v) == dtype_load_i(DT_##T, &cell) && \
            load_##T(&cell) == dtype_load_i(DT_##T, &cell)); \
      store_##T(&low, to_##T##_i16((int16_t)v)); \
      CHECK(low == cell); \
      double f = v * 0.25, most = (double)dtype_constant_i(DT_##T, (double)INFINITY), \
             least = (double)dtype_constant_i(DT_##T, -(double)INFINITY); \
      CHECK((double)to_##T##_f32((float)f) == fmax(fmin(trunc(f), most), least)); \
    } \
    CHECK(to_##T##_f64((double)NAN) == 0 && to_##T##_f32(INFINITY) > 0); \
  } while (0)
  INT(i4);
  INT(u4);
  INT(i2);
  INT(u2);
}

int main(void) {
  RUN(small_floats);
  RUN(small_integers);
  RUN(special_functions);
  RUN(special_values);
  RUN(powers);
  RUN(narrow_floats);
  return test_summary();
}
