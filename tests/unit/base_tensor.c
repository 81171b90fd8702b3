/* Tensors: sizes, ownership.  Random numbers: published vectors, moments, independence of the split. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/fill.h"
#include "base/random.h"
#include "base/whole.h"
#include "tests/test.h"

static void sizes_are_checked(void) {
  size_t n;
  CHECK(tensor_size(DT_f32, 0, NULL, &n) && n == 4);
  CHECK(tensor_size(DT_f64, 2, (int64_t[]){3, 5}, &n) && n == 120);
  CHECK(tensor_size(DT_f32, 2, (int64_t[]){3, 0}, &n) && n == 0);
  CHECK(tensor_size(DT_u8, 1, (int64_t[]){INT64_MAX}, &n) && n == INT64_MAX);
  CHECK(!tensor_size(DT_u16, 1, (int64_t[]){INT64_MAX}, &n));
  CHECK(!tensor_size(DT_f32, 2, (int64_t[]){3, -1}, &n));
  CHECK(!tensor_size(DT_f32, 2, (int64_t[]){(int64_t)1 << 32, (int64_t)1 << 32}, &n));
  CHECK(!tensor_size(DT_f32, 3, (int64_t[]){0, (int64_t)1 << 32, (int64_t)1 << 32}, &n));
  CHECK(!tensor_size(DT_f32, 9, (int64_t[]){1, 1, 1, 1, 1, 1, 1, 1, 1}, &n));
  CHECK(!tensor_size(DT_f32, -1, NULL, &n));
}

static void memory_is_owned_or_not(void) {
  Tensor t, view;
  CHECK(tensor_alloc(&t, DT_i32, 2, (int64_t[]){2, 3}) && (uintptr_t)t.data % 64 == 0 && t.bytes == 24);
  for (int i = 0; i < 6; i++) CHECK(((int32_t *)t.data)[i] == 0);
  CHECK(tensor_elements(&t) == 6);
  view = tensor_view(DT_i32, 1, (int64_t[]){6}, t.data);
  CHECK(!tensor_same_shape(&t, &view) && tensor_same_shape(&t, &t));
  tensor_free(&view);
  tensor_free(&t);
  tensor_free(&t);
  CHECK(!tensor_alloc(&t, DT_f64, 1, (int64_t[]){INT64_MAX}) && !t.data);
  CHECK(tensor_alloc(&t, DT_f64, 1, (int64_t[]){0}) && t.data && tensor_elements(&t) == 0);
  tensor_free(&t);
  CHECK(tensor_bools_valid(&(Tensor){.dtype = DT_bool, .data = (uint8_t[]){0, 1, 1}, .bytes = 3}));
  CHECK(!tensor_bools_valid(&(Tensor){.dtype = DT_bool, .data = (uint8_t[]){0, 1, 3}, .bytes = 3}));
}

/* Random123's kat_vectors, "philox 4x32 10". */
static void philox_matches_the_published_vectors(void) {
  static const struct {
    uint32_t counter[4], key[2], want[4];
  } rows[] = {
      {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
      {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
       {0xffffffff, 0xffffffff},
       {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
      {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
       {0xa4093822, 0x299f31d0},
       {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
  };
  for (size_t i = 0; i < 3; i++) {
    uint32_t out[4];
    random_philox(rows[i].counter, rows[i].key, out);
    CHECK(memcmp(out, rows[i].want, sizeof out) == 0);
  }
  uint32_t block[4];
  random_block(0x299f31d0a4093822u, 0x0370734413198a2eu, 0x85a308d3243f6a88u, block);
  CHECK(memcmp(block, rows[2].want, sizeof block) == 0);
  CHECK(random_bits(0, 0, 0) == 0x6627e8d5 && random_bits(0, 0, 3) == 0x9b00dbd8);
}

#define SAMPLES 200000

static void uniform_is_uniform(void) {
  double sum = 0, squares = 0;
  size_t bins[16] = {0};
  for (uint64_t i = 0; i < SAMPLES; i++) {
    float u = random_uniform(42, 7, i);
    CHECK(u >= 0 && u < 1);
    sum += (double)u, squares += (double)u * (double)u;
    bins[(int)(u * 16)]++;
  }
  CHECK(fabs(sum / SAMPLES - 0.5) < 0.003 && fabs(squares / SAMPLES - 1.0 / 3) < 0.003);
  for (int i = 0; i < 16; i++) CHECK(abs((int)bins[i] - SAMPLES / 16) < 500);
  CHECK(random_uniform_of(0) == 0 && random_uniform_of(UINT32_MAX) == 1 - 0x1p-24f);
}

static void normal_is_normal(void) {
  double m1 = 0, m2 = 0, m3 = 0, m4 = 0, neighbours = 0, before = 0;
  size_t inside = 0;
  for (uint64_t i = 0; i < SAMPLES; i++) {
    double z = random_normal(1, 2, i);
    m1 += z, m2 += z * z, m3 += z * z * z, m4 += z * z * z * z;
    neighbours += z * before;
    before = z;
    inside += fabs(z) < 1;
  }
  CHECK(fabs(m1 / SAMPLES) < 0.01 && fabs(m2 / SAMPLES - 1) < 0.02);
  CHECK(fabs(m3 / SAMPLES) < 0.05 && fabs(m4 / SAMPLES - 3) < 0.15);
  CHECK(fabs(neighbours / SAMPLES) < 0.01);
  CHECK(fabs((double)inside / SAMPLES - 0.6827) < 0.005);
}

/* The high half of a product, against __int128. */
static void below_is_exact(void) {
  static const uint64_t bounds[] = {1,          2,         3, 10, 1000, UINT32_MAX, 1ull << 32, (1ull << 32) + 1,
                                    1ull << 63, UINT64_MAX};
  for (size_t k = 0; k < sizeof bounds / sizeof *bounds; k++)
    for (uint64_t i = 0; i < 2000; i++) {
      uint32_t b[4];
      random_block(3, k, i, b);
      unsigned __int128 product = (unsigned __int128)((uint64_t)b[0] << 32 | b[1]) * bounds[k];
      uint64_t v = random_below(3, k, i, bounds[k]);
      CHECK(v == (uint64_t)(product >> 64) && v < bounds[k]);
    }
  size_t counts[10] = {0};
  for (uint64_t i = 0; i < SAMPLES; i++) counts[random_below(9, 9, i, 10)]++;
  for (int i = 0; i < 10; i++) CHECK(abs((int)counts[i] - SAMPLES / 10) < 700);
}

static void streams_and_seeds_differ(void) {
  size_t equal = 0;
  for (uint64_t i = 0; i < 1000; i++) {
    equal += random_bits(1, 0, i) == random_bits(2, 0, i);
    equal += random_bits(1, 0, i) == random_bits(1, 1, i);
    equal += random_bits(1, 0, i) == random_bits(1, (uint64_t)1 << 32, i);
    equal += random_bits(1, 0, i) == random_bits((uint64_t)1 << 32 | 1, 0, i);
    equal += random_bits(1, 0, i) == random_bits(1, 0, i + ((uint64_t)1 << 34));
  }
  CHECK(equal == 0);
}

static void filling_in_pieces_gives_the_same(void) {
  enum { N = 103 };
  for (int t = 0; t < DT_COUNT; t++) {
    DType type = (DType)t;
    size_t size = dtype_bytes(type);
    uint8_t whole[3][N * 8] = {{0}}, pieces[3][N * 8] = {{0}};
    for (size_t step = N; step > 0; step = step == N ? 7 : 0)
      for (size_t at = 0; at < N; at += step) {
        size_t n = at + step < N ? step : N - at;
        uint8_t(*to)[N * 8] = step == N ? whole : pieces;
        fill_uniform(type, to[0] + at * size, 5 + at, n, 11, 22, -3, 50);
        fill_normal(type, to[1] + at * size, 5 + at, n, 11, 23, 10, 2);
        fill_below(type, to[2] + at * size, 5 + at, n, 11, 24, 100);
      }
    CHECK(memcmp(whole, pieces, sizeof whole) == 0);
  }
  float f;
  fill_uniform(DT_f32, &f, 77, 1, 1, 2, 0, 1);
  CHECK(f == random_uniform(1, 2, 77));
  double d;
  fill_normal(DT_f64, &d, 77, 1, 1, 2, 0, 1);
  CHECK(d == random_normal(1, 2, 77));
}

/* No key or stream shares numbers with another, or with those without a key. */
static void keys_differ(void) {
  enum { ELEMENTS = 64 };
  int same = 0, keyless = 0;
  for (uint64_t key = 0; key < 40; key++)
    for (uint64_t i = 0; i < ELEMENTS; i++) {
      float u = random_keyed_uniform(3, 1, key, i);
      same += u == random_keyed_uniform(3, 1, key + 1, i);
      same += u == random_keyed_uniform(3, 2, key, i);
      same += u == random_keyed_uniform(4, 1, key, i);
      keyless += u == random_uniform(3, 1, i);
      CHECK(u == random_keyed_uniform(3, 1, key, i) && u >= 0 && u < 1);
      CHECK(random_keyed_normal(3, 1, key, i) != random_keyed_normal(3, 1, key + 1, i));
    }
  CHECK(same < 4 && keyless < 4);
}

/* The index of the first item that the type does not represent; -1 if all do, which a conversion confirms. */
static int64_t first_other(DType from, DType to, int n, const double *items) {
  Tensor t, out;
  int64_t dims[] = {n};
  CHECK(tensor_alloc(&t, from, 1, dims));
  for (int i = 0; i < n; i++)
    if (dtype_is_float(from)) dtype_store_f(from, (char *)t.data + (size_t)i * dtype_bytes(from), items[i]);
    else dtype_store_i(from, (char *)t.data + (size_t)i * dtype_bytes(from), (int64_t)items[i]);
  int64_t other = whole_first_other(&t, to);
  if (other < 0) {
    CHECK(whole_convert(&t, to, &out) && out.dtype == to && out.rank == 1 && out.dims[0] == n);
    for (int i = 0; i < n; i++)
      CHECK(dtype_load_i(to, (char *)out.data + (size_t)i * dtype_bytes(to)) == (int64_t)items[i]);
    tensor_free(&out);
  }
  tensor_free(&t);
  return other;
}

#define OTHER(from, to, ...) \
  first_other(DT_##from, DT_##to, sizeof((double[]){__VA_ARGS__}) / 8, (double[]){__VA_ARGS__})

static void whole_numbers_of_other_types(void) {
  CHECK(OTHER(i32, i64, 5, -7) == -1 && OTHER(u16, i64, 65535) == -1 && OTHER(f32, i32, 16777216, -3) == -1);
  CHECK(OTHER(i64, i8, 127, -128) == -1 && OTHER(i64, i8, 1, 128) == 1 && OTHER(i64, u16, 65535, -1) == 1);
  CHECK(OTHER(f64, i64, 1, 2, 2.5) == 2 && OTHER(f64, i64, NAN) == 0 && OTHER(f64, i64, INFINITY) == 0);
  CHECK(OTHER(f64, i64, 0x1p63) == 0 && OTHER(f64, i64, -0x1p62) == -1 && OTHER(f16, u8, 256) == 0);
  CHECK(OTHER(i64, u64, -1) == 0 && OTHER(u64, i64, 3) == -1);
  uint64_t huge[] = {1, UINT64_MAX};
  Tensor t = tensor_view(DT_u64, 1, (int64_t[]){2}, huge);
  char text[32];
  CHECK(whole_first_other(&t, DT_i64) == 1 && whole_first_other(&t, DT_u64) == -1);
  CHECK_STR(tensor_element_text(&t, 1, text, sizeof text), "18446744073709551615");
  CHECK(whole_may_be(DT_f32, DT_i64) && whole_may_be(DT_f32, DT_f32) && whole_may_be(DT_bool, DT_bool));
  CHECK(!whole_may_be(DT_bool, DT_i64) && !whole_may_be(DT_f64, DT_f32) && !whole_may_be(DT_i64, DT_bool));
}

static void places_of_elements(void) {
  int64_t index[3];
  char text[64];
  tensor_index(3, (int64_t[]){2, 3, 4}, 23, index);
  CHECK_STR(tensor_index_text(3, index, text, sizeof text), "[1, 2, 3]");
  CHECK_STR(tensor_index_text(0, index, text, sizeof text), "");
}

int main(void) {
  RUN(sizes_are_checked);
  RUN(memory_is_owned_or_not);
  RUN(philox_matches_the_published_vectors);
  RUN(uniform_is_uniform);
  RUN(normal_is_normal);
  RUN(below_is_exact);
  RUN(streams_and_seeds_differ);
  RUN(keys_differ);
  RUN(whole_numbers_of_other_types);
  RUN(places_of_elements);
  RUN(filling_in_pieces_gives_the_same);
  return test_summary();
}
