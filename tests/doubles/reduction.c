/* tests/doubles/reduction.c - see reduction.h. */
#include "tests/doubles/reduction.h"

#include <math.h>

#include "tests/doubles/half.h"

size_t reduction_bytes(ncclDataType_t type) {
  static const size_t bytes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};
  return (unsigned)type < sizeof bytes / sizeof *bytes ? bytes[type] : 0;
}

#define STEP(name, T, W, get, put, MAX, MIN) \
  static void step_##name(T *to, const T *from, size_t n, ncclRedOp_t op) { \
    for (size_t i = 0; i < n; i++) { \
      W x = get(to[i]), y = get(from[i]); \
      to[i] = put(op == ncclSum ? x + y : op == ncclProd ? x * y : op == ncclMax ? MAX(x, y) : MIN(x, y)); \
    } \
  }
#define SAME(x) (x)
#define LARGER(x, y) ((x) > (y) ? (x) : (y))
#define SMALLER(x, y) ((x) < (y) ? (x) : (y))
#define WHOLE(name, T, U) \
  static T narrow_##name(U x) { return (T)x; } \
  static U wide_##name(T x) { return (U)x; } \
  STEP(name, T, U, wide_##name, narrow_##name, LARGER, SMALLER)

/* Sums wrap around; comparisons are those of the type. */
WHOLE(i8, int8_t, int32_t)
WHOLE(u8, uint8_t, uint32_t)
#define WRAPPING(name, T, U) \
  static void step_##name(T *to, const T *from, size_t n, ncclRedOp_t op) { \
    for (size_t i = 0; i < n; i++) \
      to[i] = op == ncclSum    ? (T)((U)to[i] + (U)from[i]) \
              : op == ncclProd ? (T)((U)to[i] * (U)from[i]) \
              : op == ncclMax  ? LARGER(to[i], from[i]) \
                               : SMALLER(to[i], from[i]); \
  }
WRAPPING(i32, int32_t, uint32_t)
WRAPPING(u32, uint32_t, uint32_t)
WRAPPING(i64, int64_t, uint64_t)
WRAPPING(u64, uint64_t, uint64_t)
STEP(f32, float, float, SAME, SAME, fmaxf, fminf)
STEP(f64, double, double, SAME, SAME, fmax, fmin)
STEP(f16, uint16_t, float, half_from_f16, half_to_f16, fmaxf, fminf)
STEP(bf16, uint16_t, float, half_from_bf16, half_to_bf16, fmaxf, fminf)

void reduction_step(void *to, const void *from, size_t n, ncclDataType_t type, ncclRedOp_t op) {
  switch ((int)type) {
    case ncclInt8: step_i8(to, from, n, op); break;
    case ncclUint8: step_u8(to, from, n, op); break;
    case ncclInt32: step_i32(to, from, n, op); break;
    case ncclUint32: step_u32(to, from, n, op); break;
    case ncclInt64: step_i64(to, from, n, op); break;
    case ncclUint64: step_u64(to, from, n, op); break;
    case ncclFloat16: step_f16(to, from, n, op); break;
    case ncclFloat32: step_f32(to, from, n, op); break;
    case ncclFloat64: step_f64(to, from, n, op); break;
    case ncclBfloat16: step_bf16(to, from, n, op); break;
    default: double_violation("a reduction of type %d", (int)type);
  }
}
