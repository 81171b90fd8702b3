/* tests/unit/runtime_reduce.c - the 16-bit conversions inside the reductions, on every bit pattern. */
#include <stdlib.h>

#include "runtime/comm/reduce.h"
#include "tests/test.h"

enum { ALL = 1 << 16 };

static uint16_t in[ALL], other[ALL], out[ALL];

static float load(DType t, uint16_t h) { return t == DT_f16 ? f16_to_float(h) : bf16_to_float(h); }
static uint16_t store(DType t, float f) { return t == DT_f16 ? f16_from_float(f) : bf16_from_float(f); }

/* One member: load and store only. */
static void round_trip(DType t) {
  const void *from[] = {in};
  for (int i = 0; i < ALL; i++) in[i] = (uint16_t)i;
  comm_reduce(t, COMM_RED_sum, out, from, 1, ALL);
  size_t wrong = 0;
  for (int i = 0; i < ALL; i++) wrong += out[i] != store(t, load(t, in[i]));
  CHECKF(wrong == 0, "%s: %zu wrong", dtype_name(t), wrong);
}

/* Products of two numbers meet every case of rounding: exact, tie, subnormal, underflow, overflow. */
static void products(DType t) {
  const void *from[] = {in, other};
  for (uint32_t k = 1; k < 400; k++) {
    for (uint32_t i = 0; i < ALL; i++) {
      in[i] = (uint16_t)i;
      other[i] = (uint16_t)(i * 40503u + k * 30011u);
    }
    comm_reduce(t, COMM_RED_product, out, from, 2, ALL);
    size_t wrong = 0;
    for (int i = 0; i < ALL; i++) {
      float want = load(t, in[i]) * load(t, other[i]);
      wrong += want == want ? out[i] != store(t, want) : load(t, out[i]) == load(t, out[i]);
    }
    CHECKF(wrong == 0, "%s, %u: %zu wrong", dtype_name(t), k, wrong);
  }
}

static void test_f16(void) {
  round_trip(DT_f16);
  products(DT_f16);
}
static void test_bf16(void) {
  round_trip(DT_bf16);
  products(DT_bf16);
}

/* Sums are in the members' order and round once: 2048 + 1 + 1 in f16 is 2050, not 2048. */
static void test_one_rounding(void) {
  uint16_t a = f16_from_float(2048), b = f16_from_float(1), sum = 0;
  const void *from[] = {&a, &b, &b};
  comm_reduce(DT_f16, COMM_RED_sum, &sum, from, 3, 1);
  CHECK(f16_to_float(sum) == 2050);
  float x = 1e8f, y = -1e8f, z = 1, total = 0;
  const void *in_order[] = {&x, &y, &z}, *otherwise[] = {&x, &z, &y};
  comm_reduce(DT_f32, COMM_RED_sum, &total, in_order, 3, 1);
  CHECK(total == 1);
  comm_reduce(DT_f32, COMM_RED_sum, &total, otherwise, 3, 1);
  CHECK(total == 0);
}

int main(void) {
  RUN(test_f16);
  RUN(test_bf16);
  RUN(test_one_rounding);
  return test_summary();
}
