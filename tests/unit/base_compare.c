/* Comparisons: numbers, integers, distances; and the interpreter's comparison of tensors, which the guards rely on. */
#include <math.h>

#include "base/compare.h"
#include "ir/run/interp.h"
#include "tests/test.h"

static const double inf = INFINITY;

static void numbers(void) {
  static const double some[] = {0, -0.0, 1, -1, 1e300, -1e300, 5e-324, INFINITY, -INFINITY};
  enum { SOME = sizeof some / sizeof *some };
  for (int i = 0; i < SOME; i++) {
    double v = some[i];
    CHECK(number_gap(v, v) == 0 && number_close(v, v, 0) && number_close(v, v, 1e-6));
    CHECK(number_gap(NAN, v) == inf && number_gap(v, NAN) == inf && !number_close(v, NAN, 0) &&
          !number_close(NAN, v, 0));
    for (double tolerance = 1e-9; tolerance <= 1e9; tolerance *= 1e9) {
      CHECK(!number_close(v, NAN, tolerance) && !number_close(NAN, v, tolerance));
      if (v != inf)
        CHECKF(!number_close(v, inf, tolerance) && !number_close(inf, v, tolerance), "%g and inf, tolerance %g", v,
               tolerance);
      if (v != -inf)
        CHECKF(!number_close(v, -inf, tolerance) && !number_close(-inf, v, tolerance), "%g and -inf, tolerance %g", v,
               tolerance);
    }
  }
  CHECK(number_gap(NAN, -NAN) == 0 && number_close(NAN, -NAN, 0) && number_close(NAN, -NAN, 1));
  CHECK(number_gap(0.0, -0.0) == 0 && number_close(0.0, -0.0, 1e-9) && !number_close(0.0, -0.0, 0));
  CHECK(number_close(1.0 + 1e-9, 1, 1e-9) && !number_close(1.0 + 3e-9, 1, 1e-9) &&
        !number_close(nextafter(1, 2), 1, 0));
  CHECK(number_gap(1e308, -1e308) == inf && !number_close(1e308, -1e308, 1));
  CHECK(number_gap(3, 5) == 2);
}

static void integers(void) {
  CHECK(integer_gap(DT_i64, 3, -4) == 7 && integer_gap(DT_bool, 1, 0) == 1 && integer_gap(DT_i8, -128, 127) == 255);
  CHECK(integer_gap(DT_i64, (int64_t)1 << 60, ((int64_t)1 << 60) + 1) == 1);
  CHECK(integer_gap(DT_i64, INT64_MIN, INT64_MAX) == 0x1p64);
  CHECK(integer_gap(DT_u64, -1, 0) == 0x1p64 && integer_gap(DT_u64, INT64_MIN, INT64_MAX) == 1);
}

static double distance(int n, const double *got, const double *want) {
  Distance d = {0};
  for (int i = 0; i < n; i++) distance_add(&d, got[i], want[i]);
  return distance_relative(&d);
}

#define DISTANCE(n, got, want) distance(n, (const double[]){got}, (const double[]){want})
#define LIST(...) __VA_ARGS__

static void distances(void) {
  CHECK(distance(0, NULL, NULL) == 0);
  CHECK(DISTANCE(2, LIST(0, 0), LIST(0, -0.0)) == 0);
  CHECK(fabs(DISTANCE(2, LIST(3, 4.5), LIST(3, 4)) - 0.1) < 1e-15);
  CHECK(DISTANCE(2, LIST(1, 0), LIST(0, 0)) == inf);
  /* equal infinities and NaN add nothing; any other one is too far */
  CHECK(fabs(DISTANCE(4, LIST(3, 4.5, inf, NAN), LIST(3, 4, inf, NAN)) - 0.1) < 1e-15);
  CHECK(DISTANCE(2, LIST(1, inf), LIST(1, 5)) == inf && DISTANCE(2, LIST(1, 5), LIST(1, inf)) == inf);
  CHECK(DISTANCE(2, LIST(1, NAN), LIST(1, 5)) == inf && DISTANCE(2, LIST(1, 5), LIST(1, NAN)) == inf);
  CHECK(DISTANCE(2, LIST(1, inf), LIST(1, -inf)) == inf && DISTANCE(1, NAN, inf) == inf);
  /* squares that would underflow or overflow */
  CHECK(fabs(DISTANCE(2, LIST(3e-200, 4.5e-200), LIST(3e-200, 4e-200)) - 0.1) < 1e-15);
  CHECK(fabs(DISTANCE(2, LIST(3e200, 4.5e200), LIST(3e200, 4e200)) - 0.1) < 1e-15);
  CHECK(DISTANCE(1, 1e308, -1e308) == inf);
  CHECK(fabs(DISTANCE(3, LIST(1e-160, 0, 1e200), LIST(0, 1e-170, 2e200)) - 0.5) < 1e-15);
}

static InterpTensor vector(Arena *a, DType t, int64_t n, const double *v) {
  InterpTensor x = interp_tensor(a, t, 1, &n);
  for (int64_t i = 0; i < n; i++) {
    if (dtype_is_float(t)) x.cells[i].f = v[i];
    else x.cells[i].i = (int64_t)v[i];
  }
  return x;
}

static void tensors(void) {
  Arena *a = arena_new();
  const double one[] = {1, 2, 3}, other[] = {1, 7, 3}, infinite[] = {1, inf, 3}, hidden[] = {1, -inf, 3};
  InterpTensor x = vector(a, DT_f32, 3, one), y = vector(a, DT_f32, 3, other), i = vector(a, DT_f32, 3, infinite),
               h = vector(a, DT_f32, 3, hidden);
  InterpTensor n = vector(a, DT_i64, 3, one), m = vector(a, DT_i64, 3, other), shorter = vector(a, DT_f32, 2, one),
               none = vector(a, DT_f32, 0, NULL);
  const char *why = NULL;
  CHECK(interp_equal(&x, &x, DOMAIN_FLOAT, 0, a, &why) && interp_equal(&i, &i, DOMAIN_FLOAT, 1e-9, a, &why) &&
        interp_equal(&none, &none, DOMAIN_FLOAT, 0, a, &why));
  for (int k = 0; k < 2; k++) {
    double tolerance = k ? 1e-9 : 0;
    CHECK(!interp_equal(&i, &x, DOMAIN_FLOAT, tolerance, a, &why) &&
          !interp_equal(&x, &i, DOMAIN_FLOAT, tolerance, a, &why));
    CHECK(!interp_equal(&i, &h, DOMAIN_FLOAT, tolerance, a, &why) &&
          !interp_equal(&h, &x, DOMAIN_FLOAT, tolerance, a, &why));
    CHECK(!interp_equal(&x, &y, DOMAIN_FLOAT, tolerance, a, &why) &&
          !interp_equal(&n, &m, DOMAIN_FLOAT, tolerance, a, &why));
  }
  CHECK_STR(why, "element [1] is 2 and 7");
  CHECK(!interp_equal(&x, &n, DOMAIN_FLOAT, 1, a, &why) && !interp_equal(&x, &shorter, DOMAIN_FLOAT, 1, a, &why));
  CHECK(interp_distance(&x, &x) == 0 && interp_distance(&none, &none) == 0 && interp_distance(&i, &i) == 0);
  CHECK(interp_distance(&x, &i) == inf && interp_distance(&i, &x) == inf && interp_distance(&i, &h) == inf);
  CHECK(interp_distance(&x, &n) == inf && interp_distance(&x, &shorter) == inf && interp_distance(&shorter, &x) == inf);
  CHECK(interp_distance(&n, &n) == 0 && fabs(interp_distance(&n, &m) - 1.0 / 3) < 1e-15);
  arena_free(a);
}

int main(void) {
  RUN(numbers);
  RUN(integers);
  RUN(distances);
  RUN(tensors);
  return test_summary();
}
