/* runtime/comm/reduce.c - see reduce.h.
 *
 * Macros make one loop per (element type, reduction).  It accumulates blocks of elements over all members in a small
 * array, so that the destination may be a source and the result is stored once.  Every element sees the same operations
 * in the same order, wherever it is reduced and in whatever pieces.
 */
#ifndef __clang__
#pragma GCC optimize("O3")
#endif

#include "runtime/comm/reduce.h"

#include <string.h>

#include "base/die.h"

enum { BLOCK = 256 };

/* C types of the dtypes; integer sums and products wrap in the unsigned type. */
typedef float T_f32;
typedef double T_f64;
typedef int8_t T_i8;
typedef int16_t T_i16;
typedef int32_t T_i32;
typedef int64_t T_i64;
typedef uint8_t T_u8;
typedef uint16_t T_u16;
typedef uint32_t T_u32;
typedef uint64_t T_u64;

#define OP_sum(T, a, b) ((T)((a) + (b)))
#define OP_product(T, a, b) ((T)((a) * (b)))
#define OP_or(T, a, b) ((T)((a) | (b)))
#define OP_and(T, a, b) ((T)((a) & (b)))
/* A NaN stays; of equal values (also 0 and -0) the earlier one is taken. */
#define OP_max(T, a, b) ((b) > (a) || (b) != (b) ? ((a) != (a) ? (a) : (b)) : (a))
#define OP_min(T, a, b) ((b) < (a) || (b) != (b) ? ((a) != (a) ? (a) : (b)) : (a))

typedef void Reduce(void *to, const void *const *from, int n, size_t count);

/* LOAD and STORE convert between the element type E and the accumulator type A. */
#define REDUCE(name, E, A, OP, LOAD, STORE) \
  static void name(void *to, const void *const *from, int n, size_t count) { \
    A acc[BLOCK]; \
    for (size_t at = 0; at < count; at += BLOCK) { \
      size_t m = count - at < BLOCK ? count - at : BLOCK; \
      const E *first = (const E *)from[0] + at; \
      for (size_t i = 0; i < m; i++) acc[i] = LOAD(first[i]); \
      for (int k = 1; k < n; k++) { \
        const E *next = (const E *)from[k] + at; \
        for (size_t i = 0; i < m; i++) acc[i] = OP(A, acc[i], LOAD(next[i])); \
      } \
      E *result = (E *)to + at; \
      for (size_t i = 0; i < m; i++) result[i] = STORE(acc[i]); \
    } \
  }

#define SAME(x) (x)

/* The conversions of base/dtype.h without branches, so that the loops become vector code; a test compares the
 * two on every bit pattern.  The method for f16 is F. Giesen's (float->half variants, public domain). */
static inline float from_bits(uint32_t u) {
  float f;
  memcpy(&f, &u, sizeof f);
  return f;
}

static inline uint32_t to_bits(float f) {
  uint32_t u;
  memcpy(&u, &f, sizeof u);
  return u;
}

/* Returns a < b ? yes : no by masks; with branches the compiler would move work into them. a and b are below 2^31 and
 * are compared as signed numbers, which every vector unit can do. */
static inline uint32_t if_less(uint32_t a, uint32_t b, uint32_t yes, uint32_t no) {
  uint32_t mask = 0u - (uint32_t)((int32_t)a < (int32_t)b);
  return no ^ ((yes ^ no) & mask);
}

static inline float bf16_load(uint16_t h) { return from_bits((uint32_t)h << 16); }

static inline uint16_t bf16_store(float f) {
  uint32_t u = to_bits(f), nan = (u >> 16) | 0x40u, rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return (uint16_t)(if_less(0x7f800000u, u & 0x7fffffffu, nan, rounded));
}

static inline float f16_load(uint16_t h) {
  uint32_t magnitude = h & 0x7fffu, sign = (uint32_t)(h & 0x8000u) << 16;
  uint32_t normal = (magnitude << 13) + (112u << 23), special = (magnitude << 13) + (224u << 23);
  uint32_t tiny = to_bits(from_bits(0x3f000000u | magnitude) - 0.5f); /* exact: 0.5 has steps of 2^-24 */
  uint32_t u = if_less(magnitude, 0x400u, tiny, if_less(magnitude, 0x7c00u, normal, special));
  return from_bits(u | sign);
}

static inline uint16_t f16_store(float f) {
  uint32_t u = to_bits(f), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  uint32_t nan = 0x7e00u | ((magnitude >> 13) & 0x3ffu);
  uint32_t tiny = to_bits(from_bits(magnitude) + 0.5f) - 0x3f000000u; /* the addition rounds to 2^-24 */
  uint32_t normal = (magnitude - 0x38000000u + 0xfffu + ((magnitude >> 13) & 1u)) >> 13;
  uint32_t h = if_less(magnitude, 0x38800000u, tiny, normal);
  h = if_less(magnitude, 0x477ff000u, h, 0x7c00u);
  h = if_less(0x7f800000u, magnitude, nan, h);
  return (uint16_t)(h | sign);
}

#define REDUCE_FLOAT(name, E, A, LOAD, STORE) \
  REDUCE(name##_sum, E, A, OP_sum, LOAD, STORE) \
  REDUCE(name##_product, E, A, OP_product, LOAD, STORE) \
  REDUCE(name##_max, E, A, OP_max, LOAD, STORE) \
  REDUCE(name##_min, E, A, OP_min, LOAD, STORE)

/* U is a type in which no step overflows a signed type: the products of i8 and i16 fit an int. */
#define REDUCE_INT(name, T, U) \
  REDUCE(name##_sum, T, U, OP_sum, (U), (T)) \
  REDUCE(name##_product, T, U, OP_product, (U), (T)) \
  REDUCE(name##_max, T, T, OP_max, SAME, SAME) \
  REDUCE(name##_min, T, T, OP_min, SAME, SAME)

#define REDUCE_BITS(name, T) \
  REDUCE(name##_or, T, T, OP_or, SAME, SAME) \
  REDUCE(name##_and, T, T, OP_and, SAME, SAME)

REDUCE_FLOAT(f32, T_f32, float, SAME, SAME)
REDUCE_FLOAT(f64, T_f64, double, SAME, SAME)
REDUCE_FLOAT(f16, T_u16, float, f16_load, f16_store)
REDUCE_FLOAT(bf16, T_u16, float, bf16_load, bf16_store)
REDUCE_INT(i8, T_i8, T_i8)
REDUCE_INT(i16, T_i16, T_i16)
REDUCE_INT(i32, T_i32, uint32_t)
REDUCE_INT(i64, T_i64, uint64_t)
REDUCE_INT(u8, T_u8, uint32_t)
REDUCE_INT(u16, T_u16, uint32_t)
REDUCE_INT(u32, T_u32, uint32_t)
REDUCE_INT(u64, T_u64, uint64_t)
REDUCE_BITS(b1, T_u8)
REDUCE_BITS(b2, T_u16)
REDUCE_BITS(b4, T_u32)
REDUCE_BITS(b8, T_u64)

/* Arithmetic by dtype; bool has none. */
#define ARITHMETIC(name) \
  { name##_sum, name##_product, name##_max, name##_min }
static Reduce *const arithmetic[DT_COUNT][4] = {
    [DT_f32] = ARITHMETIC(f32), [DT_f64] = ARITHMETIC(f64), [DT_f16] = ARITHMETIC(f16), [DT_bf16] = ARITHMETIC(bf16),
    [DT_i8] = ARITHMETIC(i8),   [DT_i16] = ARITHMETIC(i16), [DT_i32] = ARITHMETIC(i32), [DT_i64] = ARITHMETIC(i64),
    [DT_u8] = ARITHMETIC(u8),   [DT_u16] = ARITHMETIC(u16), [DT_u32] = ARITHMETIC(u32), [DT_u64] = ARITHMETIC(u64),
};

static Reduce *bitwise(CommReduction reduction, size_t bytes) {
  bool and = reduction == COMM_RED_and;
  switch (bytes) {
    case 1: return and? b1_and : b1_or;
    case 2: return and? b2_and : b2_or;
    case 4: return and? b4_and : b4_or;
    case 8: return and? b8_and : b8_or;
    default: return NULL;
  }
}

static Reduce *find(DType dtype, CommReduction reduction) {
  if ((unsigned)dtype >= DT_COUNT) return NULL;
  switch (reduction) {
    case COMM_RED_sum: return arithmetic[dtype][0];
    case COMM_RED_product: return arithmetic[dtype][1];
    case COMM_RED_max: return arithmetic[dtype][2];
    case COMM_RED_min: return arithmetic[dtype][3];
    case COMM_RED_or:
    case COMM_RED_and:
      return dtype_is_float(dtype) || !dtype_computes(dtype) ? NULL : bitwise(reduction, dtype_bytes(dtype));
    case COMM_RED_one: return bitwise(reduction, dtype_bytes(dtype));
    case COMM_REDUCTION_COUNT: break;
  }
  return NULL;
}

bool comm_reduction_defined(CommReduction reduction, DType dtype) { return find(dtype, reduction) != NULL; }

void comm_reduce(DType dtype, CommReduction reduction, void *to, const void *const *from, int n, size_t count) {
  Reduce *reduce = find(dtype, reduction);
  if (!reduce) die("%s is not defined on %s", program_comm_reduction_name(reduction), dtype_name(dtype));
  reduce(to, from, n, count);
}
