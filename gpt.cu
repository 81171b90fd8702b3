/* gpt for dgx-a100x512: 20 kernels, made by apc.  Compile with NVRTC or nvcc, --fmad=false. */

/* codegen/cuda/prelude_device.h - the names of the dialect on a GPU.  Front of every emitted CUDA text, which needs no
 * header of a toolkit: NVRTC and nvcc compile it as it is (--fmad=false keeps a * b + c in two roundings, as on CPUs).
 *
 * The dialect is C11 that is also CUDA C++, with this closed list of names: FN KERNEL SHARED TABLE STATE UNROLL ROLL,
 * thread_index block_index, barrier warp_barrier, shuffle_u32 shuffle_u64, load_wide store_wide, copy_async copy_wait,
 * load_matrices load_matrices_turned, tensor_f16 tensor_bf16, pack_f16 pack_bf16, exp2_fast, least_u64 count_to;
 * dialect.h builds the rest on them.
 * tests/dialect/prelude_host.h gives the same names a meaning on CPUs: a text behind it takes those.
 */
#ifndef KERNEL
#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef short int16_t;
typedef int int32_t;
typedef long long int64_t;
typedef unsigned char uint8_t;
typedef unsigned short uint16_t;
typedef unsigned int uint32_t;
typedef unsigned long long uint64_t;
typedef unsigned long long uintptr_t;
#define INT8_MIN (-128)
#define INT16_MIN (-32768)
#define INT32_MIN (-2147483647 - 1)
#define INT64_MIN (-9223372036854775807ll - 1)
#define INT8_MAX 127
#define INT16_MAX 32767
#define INT32_MAX 2147483647
#define INT64_MAX 9223372036854775807ll
#define UINT8_MAX 255
#define UINT16_MAX 65535
#define UINT32_MAX 4294967295u
#define UINT64_MAX 18446744073709551615ull
#define INT64_C(x) x##ll
/* kernel_elements.h is written with the names of the C compiler. */
#define __builtin_fabsf fabsf
#define __builtin_fabs fabs
#define __builtin_fmaf fmaf
#define __builtin_fmaxf fmaxf
#define __builtin_fma fma
#define __builtin_rintf rintf
#define __builtin_rint rint
#define __builtin_copysignf copysignf
#define __builtin_copysign copysign
#define __builtin_sqrtf sqrtf
#define __builtin_sqrt sqrt
#define __builtin_floorf floorf
#define __builtin_floor floor
#define __builtin_ceilf ceilf
#define __builtin_ceil ceil
#define __builtin_fmodf fmodf
#define __builtin_fmod fmod
#define __builtin_tanf tanf
#define __builtin_tan tan
#define __builtin_asinf asinf
#define __builtin_asin asin
#define __builtin_acosf acosf
#define __builtin_acos acos
#define __builtin_atanf atanf
#define __builtin_atan atan
#define __builtin_sinhf sinhf
#define __builtin_sinh sinh
#define __builtin_coshf coshf
#define __builtin_cosh cosh
#define __builtin_asinhf asinhf
#define __builtin_asinh asinh
#define __builtin_acoshf acoshf
#define __builtin_acosh acosh
#define __builtin_atanhf atanhf
#define __builtin_atanh atanh
#define __builtin_atan2f atan2f
#define __builtin_atan2 atan2
#define __builtin_exp exp
#define __builtin_exp2 exp2
#define __builtin_expm1 expm1
#define __builtin_log log
#define __builtin_log1p log1p
#define __builtin_sin sin
#define __builtin_cos cos
#define __builtin_tanh tanh
#define __builtin_erf erf
#define __builtin_pow pow
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_nanf(x) __int_as_float(0x7fc00000)
#else
#include <stdint.h>
#include <string.h>
#endif
#define _Bool bool

#define FN static __device__ __forceinline__
/* A kernel takes one struct `a` by value: pointers, then scalars, eight bytes each. */
#define KERNEL(name, args, threads) extern "C" __global__ void __launch_bounds__(threads) name(const args a)
/* Read 16 bytes at a time, when it is that large. */
#define SHARED(type, name, count) __shared__ alignas(sizeof(type) * (count) < 64 ? sizeof(type) : 16) type name[count]
#define TABLE(type, name, count) static __device__ const type name[count]
/* Of all launches of a device. */
#define STATE(type, name) static __device__ type name
#define UNROLL _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")
#define ROLL _Pragma("unroll 1")

FN int thread_index(void) { return (int)threadIdx.x; }
FN int64_t block_index(void) { return (int64_t)blockIdx.x; }
FN void barrier(void) { __syncthreads(); }
FN void warp_barrier(void) { __syncwarp(); }
/* The value of lane `from`; every lane of the warp takes part. */
FN uint32_t shuffle_u32(uint32_t v, int from) { return __shfl_sync(0xffffffffu, v, from); }
FN uint64_t shuffle_u64(uint64_t v, int from) { return __shfl_sync(0xffffffffu, v, from); }

/* Moves 2, 4, 8 or a multiple of 16 bytes; memory is aligned to that, or to 16. */
FN void load_wide(void *to, const void *from, int bytes) {
  if (bytes == 2) {
    uint16_t w = *(const uint16_t *)from;
    memcpy(to, &w, 2);
  } else if (bytes == 4) {
    uint32_t w = *(const uint32_t *)from;
    memcpy(to, &w, 4);
  } else if (bytes == 8) {
    uint2 w = *(const uint2 *)from;
    memcpy(to, &w, 8);
  } else UNROLL for (int i = 0; i < bytes / 16; i++) {
      uint4 w = ((const uint4 *)from)[i];
      memcpy((char *)to + 16 * i, &w, 16);
    }
}
/* Written out: NVRTC takes a copy of sixteen bytes apart into its elements. */
FN void store_wide(void *to, const void *from, int bytes) {
  if (bytes == 2) {
    uint16_t w;
    memcpy(&w, from, 2);
    *(uint16_t *)to = w;
  } else if (bytes == 4) {
    uint32_t w;
    memcpy(&w, from, 4);
    *(uint32_t *)to = w;
  } else if (bytes == 8) {
    uint2 w;
    memcpy(&w, from, 8);
    *(uint2 *)to = w;
  } else UNROLL for (int i = 0; i < bytes / 16; i++) {
      uint32_t w[4];
      memcpy(w, (const char *)from + 16 * i, 16);
      asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global((char *)to + 16 * i)),
                   "r"(w[0]), "r"(w[1]), "r"(w[2]), "r"(w[3])
                   : "memory");
    }
}

/* Copies 16 bytes into shared memory, which has them only when this thread has called copy_wait; bytes = 0: zeros, and
 * nothing is read.  Both places are aligned to 16. */
FN void copy_async(void *to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}
FN void copy_wait(void) { asm volatile("cp.async.wait_all;" ::: "memory"); }

/* Four matrices of 8 x 8 numbers of 16 bits from shared memory: lane l says where row l % 8 of matrix l / 8 is, and
 * gets of each matrix m two neighbours as r[m]: row l / 4, columns 2 (l % 4) and the next; turned: of the transposed.
 */
FN void load_matrices(uint32_t *r, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((uint32_t)__cvta_generic_to_shared(row))
               : "memory");
}
FN void load_matrices_turned(uint32_t *r, const void *row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"((uint32_t)__cvta_generic_to_shared(row))
               : "memory");
}

/* d[16 x 8] += a[16 x 16] b[16 x 8] by the warp, in the order that mma.sync.m16n8k16 spreads them over lanes. */
#define TENSOR(T) \
  FN void tensor_##T(float *d, const uint32_t *a, const uint32_t *b) { \
    asm("mma.sync.aligned.m16n8k16.row.col.f32." #T "." #T \
        ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]) \
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1])); \
  } \
  /* two numbers, rounded to the nearest */ \
  FN uint32_t pack_##T(float low, float high) { \
    uint32_t r; \
    asm("cvt.rn." #T "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(high), "f"(low)); \
    return r; \
  }
TENSOR(f16)
TENSOR(bf16)

/* 2^x, to two units in the last place. */
FN float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* *p becomes v where that is less; gives what it was. */
FN uint64_t least_u64(uint64_t *p, uint64_t v) { return atomicMin((unsigned long long *)p, (unsigned long long)v); }
/* Is this the last of n calls?  It sees what the others' blocks have written before, and *count is 0 again. */
FN _Bool count_to(uint32_t *count, uint32_t n) {
  __threadfence();
  uint32_t before = atomicInc(count, n - 1);
  __threadfence();
  return before == n - 1;
}
#endif
/* base/random.h - counter-based random numbers: Philox4x32-10.
 *
 * Source: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011.
 * A number is a pure function of (seed, stream, element): no state, so every layout of a tensor over
 * ranks draws the same values.  `seed` is the user's; `stream` tells one use (one dropout, one
 * parameter) from another; `element` is the row-major index in the whole, unsplit tensor.
 * The key is the seed, the counter is (block, stream), both low word first.
 * Draws of different kinds from one (seed, stream) share bits: give each use a stream of its own.
 *
 * The functions here need nothing but <stdint.h> and <math.h>, so generated C includes this header.
 */
#ifndef APC_BASE_RANDOM_H
#define APC_BASE_RANDOM_H


/* out = Philox4x32-10 of the counter under the key. */
FN void random_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]) {
  uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
  uint32_t k0 = key[0], k1 = key[1];
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = (uint64_t)0xd2511f53u * c0, p1 = (uint64_t)0xcd9e8d57u * c2;
    c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
    c1 = (uint32_t)p1;
    c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
    c3 = (uint32_t)p0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  out[0] = c0, out[1] = c1, out[2] = c2, out[3] = c3;
}

/* The 128 bits number `block` of a stream. */
FN void random_block(uint64_t seed, uint64_t stream, uint64_t block, uint32_t out[4]) {
  const uint32_t counter[4] = {(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)stream, (uint32_t)(stream >> 32)};
  const uint32_t key[2] = {(uint32_t)seed, (uint32_t)(seed >> 32)};
  random_philox(counter, key, out);
}

/* 32 bits for an element: word element % 4 of block element / 4 (a loop may draw four at once). */
FN uint32_t random_bits(uint64_t seed, uint64_t stream, uint64_t element) {
  uint32_t block[4];
  random_block(seed, stream, element / 4, block);
  uint32_t low = element & 1 ? block[1] : block[0], high = element & 1 ? block[3] : block[2];
  return element & 2 ? high : low; /* no indexing by a variable, so that a compiler may keep the block in registers */
}

/* Uniform in [0, 1), a multiple of 2^-24: exact in f32. */
FN float random_uniform_of(uint32_t bits) { return (float)(bits >> 8) * 0x1p-24f; }
FN float random_uniform(uint64_t seed, uint64_t stream, uint64_t element) {
  return random_uniform_of(random_bits(seed, stream, element));
}

/* Standard normal by Box and Muller in double: block number `element`, 53 bits for the radius, 53 for
 * the angle.  At most 8.6 in magnitude. */
FN double random_normal(uint64_t seed, uint64_t stream, uint64_t element) {
  uint32_t b[4];
  random_block(seed, stream, element, b);
  uint64_t radius = ((uint64_t)b[0] << 32 | b[1]) >> 11, angle = ((uint64_t)b[2] << 32 | b[3]) >> 11;
  double u = (double)(radius + 1) * 0x1p-53; /* in (0, 1] */
  return sqrt(-2.0 * log(u)) * cos(6.283185307179586477 * 0x1p-53 * (double)angle);
}

/* Numbers with one more key, as that of a training step: they have a seed and a stream of their own, the 128 bits of
 * block number `key`.  That block is a permutation of (key, stream): two of these that differ never share both. */
FN float random_keyed_uniform(uint64_t seed, uint64_t stream, uint64_t key, uint64_t element) {
  uint32_t b[4];
  random_block(seed, stream, key, b);
  return random_uniform((uint64_t)b[1] << 32 | b[0], (uint64_t)b[3] << 32 | b[2], element);
}
FN double random_keyed_normal(uint64_t seed, uint64_t stream, uint64_t key, uint64_t element) {
  uint32_t b[4];
  random_block(seed, stream, key, b);
  return random_normal((uint64_t)b[1] << 32 | b[0], (uint64_t)b[3] << 32 | b[2], element);
}

/* An integer in [0, bound) from 64 bits of block number `element`; bound > 0.  The bias against any
 * value is below bound / 2^64. */
FN uint64_t random_below(uint64_t seed, uint64_t stream, uint64_t element, uint64_t bound) {
  uint32_t b[4];
  random_block(seed, stream, element, b);
  uint64_t high = (uint64_t)b[0] * (bound >> 32), mid = (uint64_t)b[0] * (bound & 0xffffffffu),
           mid2 = (uint64_t)b[1] * (bound >> 32), low = (uint64_t)b[1] * (bound & 0xffffffffu);
  uint64_t carry = (low >> 32) + (mid & 0xffffffffu) + (mid2 & 0xffffffffu);
  return high + (mid >> 32) + (mid2 >> 32) + (carry >> 32);
}

#endif
/* codegen/cpu/kernel_elements.h - element operations of generated kernels: loads and stores, arithmetic, special
 * functions, casts.
 *
 * Put, behind base/random.h, in front of every generated text, for CPUs and for GPUs: both compute the same bits
 * (neither contracts a * b + c), except in the functions of the C library.  Never included by the compiler itself.
 *
 * Every element operation is a function NAME_TYPE.  f16 and bf16 are stored as bits and computed as float.  The f32
 * special functions are polynomials without branches, so that loops over them vectorise; their error is below 3 ulp.
 * f64 and the rarer functions are libm's.  Sources: Cephes (exp, log, sin, cos), N. Juffa (erf), M. Dukhan's FP16 (f16
 * bits).
 */
/* Names of macros in a row are no statements. */
/* clang-format off */
#ifndef FN /* a prelude in front may have its own */

#define FN FN __attribute__((always_inline, unused))
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

FN float exp_scaled(float p, int32_t k) { /* p * 2^k, also when 2^k is no float */
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
/* The sine (quarter 0) or cosine (quarter 1) of a double as a float: reduced in double, good for |x| < 2^40. */
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
FN float sincos_f32(float x, int quarter) { /* NaN where the reduction fails rather than a wrong number */
  float y = turned_f32((double)x, quarter);
  return __builtin_fabsf(x) < 0x1p40f ? y : __builtin_nanf("");
}
FN float sin_f32(float x) { return sincos_f32(x, 0); }
FN float cos_f32(float x) { return sincos_f32(x, 1); }

/* |x|^y in double: logarithm by the series of atanh, exponential by its series. */
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

/* ---- casts; an f16 or bf16 value is a float that such a number has exactly */

/* To float, so that a second rounding to fewer bits is as if there had been one: the last bit is set when inexact. */
FN float odd_float(double x) {
  float r = (float)x;
  uint32_t u = bits_of(r);
  _Bool inexact = (double)r != x && x == x && __builtin_fabs(x) < 0x1p127;
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
/* codegen/cuda/dialect.h - what emitted CUDA kernels are written in, behind a prelude and kernel_elements.h: lanes,
 * reductions by a warp, packets of elements.  Text of the dialect (prelude_device.h): compiled for GPUs, and run on
 * CPUs by tests.
 */
/* Names of macros in a row are no statements. */
/* clang-format off */

FN int lane_index(void) { return thread_index() % 32; }
FN int warp_index(void) { return thread_index() / 32; }

/* ---- the value of another lane */

FN float shuffle_f32(float v, int from) { return float_of(shuffle_u32(bits_of(v), from)); }
FN double shuffle_f64(double v, int from) {
  uint64_t u;
  memcpy(&u, &v, 8);
  u = shuffle_u64(u, from);
  memcpy(&v, &u, 8);
  return v;
}
#define SHUFFLE(T, type, bits) \
  FN type shuffle_##T(type v, int from) { return (type)shuffle_u##bits((uint##bits##_t)v, from); }
SHUFFLE(i8, int8_t, 32) SHUFFLE(i16, int16_t, 32) SHUFFLE(i32, int32_t, 32) SHUFFLE(i64, int64_t, 64)
SHUFFLE(u8, uint8_t, 32) SHUFFLE(u16, uint16_t, 32) SHUFFLE(bool, _Bool, 32)

/* ---- reductions by a warp: a butterfly in which the lower lane's value is always the left operand, so that every lane
 * gets the value a loop over halves of 32 lanes gives */

#define BUTTERFLY(T, type, name, op) \
  FN type warp_##name##_##T(type v) { \
    UNROLL for (int w = 16; w; w /= 2) { \
      type other = shuffle_##T(v, lane_index() ^ w); \
      v = lane_index() & w ? op##_##T(other, v) : op##_##T(v, other); \
    } \
    return v; \
  }
#define BUTTERFLIES(T, type) \
  BUTTERFLY(T, type, sum, add) BUTTERFLY(T, type, product, mul) BUTTERFLY(T, type, max, max) \
      BUTTERFLY(T, type, min, min)
BUTTERFLIES(f32, float) BUTTERFLIES(f64, double)
BUTTERFLIES(i8, int8_t) BUTTERFLIES(i16, int16_t) BUTTERFLIES(i32, int32_t) BUTTERFLIES(i64, int64_t)
BUTTERFLIES(u8, uint8_t) BUTTERFLIES(u16, uint16_t) BUTTERFLIES(u32, uint32_t) BUTTERFLIES(u64, uint64_t)
BUTTERFLY(bool, _Bool, or, or) BUTTERFLY(bool, _Bool, and, and) BUTTERFLY(bool, _Bool, max, max)
    BUTTERFLY(bool, _Bool, min, min)

/* A sum over blocks as a tree: equal subtrees are joined as they fill up, the rest from the small end.  Lane l of the
 * warp holds level l; all lanes push the same values. */
#define TREE(T, type) \
  typedef struct Tree_##T { type level; uint32_t count; } Tree_##T; \
  FN void push_##T(Tree_##T *s, type v) { \
    int l = 0; \
    for (uint32_t c = s->count++; c & 1; c >>= 1, l++) v = shuffle_##T(s->level, l) + v; \
    if (lane_index() == l) s->level = v; \
  } \
  FN type total_##T(const Tree_##T *s) { \
    type v = 0; \
    _Bool any = 0; \
    int l = 0; \
    for (uint32_t c = s->count; c; c >>= 1, l++) \
      if (c & 1) v = any ? shuffle_##T(s->level, l) + v : shuffle_##T(s->level, l), any = 1; \
    return v; \
  }
TREE(f32, float)
TREE(f64, double)

/* ---- packets: m of N neighbouring elements, in one access when all are there and memory is aligned */

#define PACKET(T, stored, type, N) \
  FN void load##N##_##T(type *r, const stored *p, int64_t m) { \
    stored s[N]; \
    if (m == N && (uintptr_t)p % (sizeof s < 16 ? sizeof s : 16) == 0) { \
      load_wide(s, p, (int)sizeof s); \
      UNROLL for (int i = 0; i < N; i++) r[i] = load_##T(s + i); \
    } else { \
      UNROLL for (int i = 0; i < N; i++) r[i] = i < m ? load_##T(p + i) : 0; \
    } \
  } \
  FN void store##N##_##T(stored *p, const type *r, int64_t m) { \
    stored s[N]; \
    UNROLL for (int i = 0; i < N; i++) store_##T(s + i, r[i]); \
    if (m == N && (uintptr_t)p % (sizeof s < 16 ? sizeof s : 16) == 0) { \
      store_wide(p, s, (int)sizeof s); \
    } else { \
      UNROLL for (int i = 0; i < N; i++) \
        if (i < m) p[i] = s[i]; \
    } \
  }
#define PACKETS(T, stored, type) PACKET(T, stored, type, 2) PACKET(T, stored, type, 4) PACKET(T, stored, type, 8)
PACKETS(f32, float, float) PACKETS(f64, double, double) PACKETS(f16, uint16_t, float) PACKETS(bf16, uint16_t, float)
PACKETS(i8, int8_t, int8_t) PACKETS(i16, int16_t, int16_t) PACKETS(i32, int32_t, int32_t) PACKETS(i64, int64_t, int64_t)
PACKETS(u8, uint8_t, uint8_t) PACKETS(u16, uint16_t, uint16_t) PACKETS(u32, uint32_t, uint32_t)
    PACKETS(u64, uint64_t, uint64_t)
PACKETS(bool, uint8_t, _Bool)
/* codegen/cuda/dialect_templates.h - kernels of the dialect written by hand: update, rope; others are in
 * dialect_attention.h, dialect_indexing.h, dialect_grouped.h.  Behind dialect.h; template.c prints the calls.  The
 * meaning of the operands is that of kernel_templates.h.
 */
/* Names of macros in a row are no statements. */
/* clang-format off */

/* ---- update: y is x[outer, rows, inner] with u[outer, urows, inner] from row position - start on; in place (y == x)
 * only the changed rows are written */

#define UPDATE(stored, size) \
  FN void update_##size(stored *y, const stored *x, const stored *u, int64_t position, int64_t start, int64_t outer, \
      int64_t rows, \
                        int64_t urows, int64_t inner, int64_t blocks) { \
    int64_t first = (int64_t)((uint64_t)position - (uint64_t)start), step = blocks * 256, at = block_index() \
        * 256 + thread_index(); \
    _Bool wraps = ((position ^ start) & (position ^ first)) < 0; \
    if (wraps || first >= rows || first <= -urows) first = rows; \
    for (int64_t i = at; y != x && i < outer * rows * inner; i += step) { \
      int64_t row = i / inner % rows; \
      if (row < first || row - first >= urows) y[i] = x[i]; \
    } \
    for (int64_t i = at; first < rows && i < outer * urows * inner; i += step) { \
      int64_t row = first + i / inner % urows; \
      if (row >= 0 && row < rows) y[(i / inner / urows * rows + row) * inner + i % inner] = u[i]; \
    } \
  }
UPDATE(uint8_t, 1) UPDATE(uint16_t, 2) UPDATE(uint32_t, 4) UPDATE(uint64_t, 8)

/* ---- rope: x[outer, s, h, k]; a thread turns one pair of all heads of a position */

FN float rope_sine_f32(double x) { return turned_f32(x, 0); }
FN float rope_cosine_f32(double x) { return turned_f32(x, 1); }
FN double rope_sine_f64(double x) { return __builtin_sin(x); }
FN double rope_cosine_f64(double x) { return __builtin_cos(x); }

#define ROPE(T, stored, C, type) \
  FN void rope_##T(stored *y, const stored *x, const int64_t *position, int64_t outer, int64_t s, int64_t h, \
      int64_t k, double base, \
                   int interleaved) { \
    int64_t half = k / 2, i = block_index() * 256 + thread_index(), pair = i % half, place = i / half; \
    int64_t a = interleaved ? 2 * pair : pair, b = interleaved ? a + 1 : a + half; \
    if (place >= outer * s) return; \
    double angle = (double)position[place % s] * __builtin_pow(base, -2.0 * (double)pair / (double)k); \
    type c = rope_cosine_##C(angle), sine = rope_sine_##C(angle); \
    for (int64_t head = place * h; head < (place + 1) * h; head++) { \
      type u = load_##T(x + head * k + a), v = load_##T(x + head * k + b); \
      store_##T(y + head * k + a, u * c - v * sine); \
      store_##T(y + head * k + b, u * sine + v * c); \
    } \
  }
ROPE(f32, float, f32, float)
ROPE(f64, double, f64, double)
ROPE(f16, uint16_t, f32, float)
ROPE(bf16, uint16_t, f32, float)
/* codegen/cuda/dialect_attention.h - attention in the dialect.  Behind dialect.h; attention.c prints the calls.  The
 * meaning of the operands is that of kernel_templates.h.
 *
 * Every way keeps a running maximum and sum per query row while the keys pass (Dao, "FlashAttention-2", 2023), so that
 * no score is stored.  A row's bits depend on its keys and on the way alone, not on other rows or blocks.
 */
/* Names of macros in a row are no statements. */
/* clang-format off */

typedef struct Attention {
  int64_t groups, rows, s, t, k, e;
  int causal;
  const int64_t *query_position, *key_position;
  int64_t length;
  const void *bias; /* 0: there is none */
  int64_t heads, stride[4];
  void *lse; /* [groups, rows] of float or double; 0: nobody asks */
} Attention;

/* Which element of the bias is the row's for key 0; row i of group g is i + g * rows. */
FN int64_t attention_bias_row(const Attention *a, int64_t row) {
  int64_t group = row / a->rows, i = row % a->rows;
  return group / a->heads * a->stride[0] + group % a->heads * a->stride[1] + i / a->s * a->stride[2] +
      i % a->s * a->stride[3];
}

/* Row i of a group sees the keys that are not after this; no row behind the last sees any. */
FN int64_t attention_last(const Attention *a, int64_t i) {
  int64_t last = INT64_MAX - 1;
  if (i >= a->rows) return INT64_MIN;
  if (a->causal && a->query_position[i % a->s] < last) last = a->query_position[i % a->s];
  return last;
}
/* Where a key is; INT64_MAX is seen by no row. */
FN int64_t attention_where(const Attention *a, int64_t key) {
  return key < a->t && a->key_position[key] < a->length ? a->key_position[key] : INT64_MAX;
}

/* ---- a warp has one query row and up to 256 elements of its result; keys come in 32s, one per lane */

#define ATTENTION(T, stored, C, type) \
  FN void attention_row_##T(const Attention *a, stored *out, const stored *query, const stored *keys, \
      const stored *values, type scale) { \
    int64_t chunks = a->e > 256 ? (a->e + 255) / 256 : 1, job = block_index() * 4 + warp_index(); \
    if (job >= a->groups * a->rows * chunks) return; \
    int64_t row = job / chunks, first = job % chunks * 256 + lane_index(), group = row / a->rows; \
    int left = (int)(a->e - first < 256 ? a->e - first : 256); \
    int64_t last = attention_last(a, row % a->rows); \
    const stored *q = query + row * a->k; \
    type max = -__builtin_inff(), sum = 0, result[8]; \
    UNROLL for (int i = 0; i < 8; i++) result[i] = 0; \
    for (int64_t t = 0; t < a->t; t += 32) { \
      int64_t mine = t + lane_index(); \
      type score = -__builtin_inff(); \
      if (attention_where(a, mine) <= last) { \
        const stored *key = keys + (group * a->t + mine) * a->k; \
        score = 0; \
        for (int64_t i = 0; i < a->k; i++) score += load_##T(q + i) * scale * load_##T(key + i); \
        if (a->bias) score += load_##T((const stored *)a->bias + attention_bias_row(a, row) + mine); \
      } \
      type high = warp_max_##C(score); \
      if (high == -__builtin_inff()) continue; \
      high = max_##C(high, max); \
      type keep = exp_##C(max - high), weight = exp_##C(score - high); \
      max = high, sum = sum * keep + warp_sum_##C(weight); \
      UNROLL for (int i = 0; i < 8; i++) result[i] *= keep; \
      ROLL for (int j = 0; j < 32 && t + j < a->t; j++) { \
        type w = shuffle_##C(weight, j); \
        const stored *value = values + (group * a->t + t + j) * a->e + first; \
        UNROLL for (int i = 0; i < 8; i++) \
          if (32 * i < left) result[i] += w * load_##T(value + 32 * i); \
      } \
    } \
    UNROLL for (int i = 0; i < 8; i++) \
      if (32 * i < left) store_##T(out + row * a->e + first + 32 * i, sum == 0 ? 0 : result[i] / sum); \
    if (a->lse && job % chunks == 0 && lane_index() == 0) \
      ((type *)a->lse)[row] = sum == 0 ? -__builtin_inff() : max + log_##C(sum); \
  }
ATTENTION(f32, float, f32, float)
ATTENTION(f64, double, f64, double)
ATTENTION(f16, uint16_t, f32, float)
ATTENTION(bf16, uint16_t, f32, float)

/* ---- tiles in f32: a block of 256 threads has 64 query rows and up to 128 elements of their results, and goes through
 * the keys, 64 at a time.  Thread (x, y) of 16 x 16 has the scores of rows 4y .. 4y + 3 with keys 4x .. 4x + 3, and of
 * the result of these rows columns 4x .. 4x + 3 and 64 + 4x .. 64 + 4x + 3.
 *
 * Shared memory has 32 elements of 64 queries and keys, then the values; and the weights.  Both are laid out so that
 * the four rows (keys) of a thread are one access of 16 bytes, and that writing them meets no bank twice. */

enum { ATTENTION_TILE = 64, ATTENTION_DEPTH = 32, ATTENTION_HALF = 64 * 32 };

FN int tile_place(int deep, int at) { return deep * 64 + ((at / 4 ^ deep / 4 % 16) * 4 + at % 4); }

FN float fused_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

/* What is in the rows of a tile: the maximum over the 16 threads that share them, and the sum.  Maxima leave NaN out:
 * what is NaN makes its exponential NaN, and with it the sum and the result. */
FN float row_max_f32(float v) {
  UNROLL for (int w = 8; w; w /= 2) v = __builtin_fmaxf(v, shuffle_f32(v, lane_index() ^ w));
  return v;
}
FN float row_sum_f32(float v) {
  UNROLL for (int w = 8; w; w /= 2) v += shuffle_f32(v, lane_index() ^ w);
  return v;
}

/* What each row of the tile sees and where its bias is, for whoever is behind the next barrier; and the highest that a
 * row sees: every warp finds it. */
FN int64_t attention_lasts(const Attention *a, int64_t group, int64_t first, int64_t *last, int64_t *bias) {
  int64_t one = attention_last(a, first + lane_index()), two = attention_last(a, first + 32 + lane_index());
  if (warp_index() == 0) last[lane_index()] = one, last[32 + lane_index()] = two;
  int64_t row = group * a->rows + first + thread_index();
  if (thread_index() < 64 && a->bias) bias[thread_index()] = attention_bias_row(a, row);
  return warp_max_i64(one < two ? two : one);
}
/* What all rows of the tile see. */
FN int64_t attention_lowest(const Attention *a, int64_t first) {
  int64_t one = first + lane_index() < a->rows ? attention_last(a, first + lane_index()) : INT64_MAX,
          two = first + 32 + lane_index() < a->rows ? attention_last(a, first + 32 + lane_index()) : INT64_MAX;
  return warp_min_i64(one < two ? one : two);
}

#define ATTENTION_TILES(T, stored) \
  /* 64 rows of a matrix, 32 elements of each, times `scale` */ \
  FN void attention_load_##T(float *to, const stored *from, int64_t first, int64_t rows, int64_t width, int64_t deep, \
      float scale) { \
    UNROLL for (int i = 0; i < 2; i++) { \
      int row = (thread_index() + 256 * i) / 8, place = thread_index() % 8 * 4; \
      float r[4]; \
      load4_##T(r, from + (first + row) * width + deep + place, \
          first + row >= rows ? 0 : width - deep - place < 4 ? width - deep - place : 4); \
      UNROLL for (int j = 0; j < 4; j++) to[tile_place(place + j, row)] = r[j] * scale; \
    } \
  } \
  /* 4096 / columns rows of the values */ \
  FN void attention_values_##T(float *to, const stored *from, int64_t first, int64_t rows, int64_t width, \
      int64_t column, int columns) { \
    UNROLL for (int i = 0; i < 4; i++) { \
      int row = (thread_index() + 256 * i) * 4 / columns, place = (thread_index() + 256 * i) * 4 % columns; \
      int64_t left = width - column - place; \
      float r[4]; \
      load4_##T(r, from + (first + row) * width + column + place, first + row >= rows ? 0 : left < 4 ? left : 4); \
      UNROLL for (int j = 0; j < 4; j++) to[row * columns + place + j] = r[j]; \
    } \
  } \
  /* `wide` is 1 when results have more than 64 columns, 0 otherwise */ \
  FN void attention_tile_##T(const Attention *a, stored *out, const stored *query, const stored *keys, \
      const stored *values, float scale, const int wide) { \
    SHARED(float, both, 2 * ATTENTION_HALF); \
    SHARED(float, weights, 64 * 64); \
    SHARED(int64_t, where, 64); \
    SHARED(int64_t, last, 64); \
    SHARED(int64_t, bias_row, 64); \
    const int columns = wide ? 128 : 64, x = thread_index() % 16, y = thread_index() / 16; \
    int64_t tiles = (a->rows + 63) / 64, panels = a->e > columns ? (a->e + columns - 1) / columns : 1; \
    int64_t job = block_index(), panel = job % panels, group = job / panels / tiles; \
    int64_t first = (tiles - 1 - job / panels % tiles) * 64; \
    int64_t highest = attention_lasts(a, group, first, last, bias_row); \
    query += group * a->rows * a->k, keys += group * a->t * a->k, values += group * a->t * a->e; \
    int here = a->rows - first < 64 ? (int)(a->rows - first) : 64; \
    float max[4], sum[4], result[4][8]; \
    UNROLL for (int i = 0; i < 4; i++) { \
      max[i] = -__builtin_inff(), sum[i] = 0; \
      UNROLL for (int c = 0; c < 8; c++) result[i][c] = 0; \
    } \
    for (int64_t t = 0; t < a->t; t += 64) { \
      int64_t one = attention_where(a, t + lane_index()), two = attention_where(a, t + 32 + lane_index()); \
      if (!warp_max_i32(one <= highest || two <= highest)) continue; \
      barrier(); /* the last tile is done */ \
      if (warp_index() == 0) where[lane_index()] = one, where[32 + lane_index()] = two; \
      float score[4][4]; \
      UNROLL for (int i = 0; i < 16; i++) score[i / 4][i % 4] = 0; \
      int left = a->t - t - 4 * x < 4 ? (int)(a->t - t) - 4 * x : 4; \
      UNROLL for (int i = 0; a->bias && i < 4; i++) { \
        int m = 4 * y + i < here ? left : 0; \
        load4_##T(score[i], (const stored *)a->bias + bias_row[4 * y + i] + t + 4 * x, m); \
      } \
      int64_t deep = 0; \
      do { \
        if (deep) barrier(); \
        attention_load_##T(both, query, first, a->rows, a->k, deep, scale); \
        attention_load_##T(both + ATTENTION_HALF, keys, t, a->t, a->k, deep, 1); \
        barrier(); \
        ROLL for (int some = 0; some < ATTENTION_DEPTH; some += 2) UNROLL for (int d = some; d < some + 2; d++) { \
          float q[4], k[4]; \
          load_wide(q, both + tile_place(some, 4 * y) + 64 * (d - some), 16); \
          load_wide(k, both + ATTENTION_HALF + tile_place(some, 4 * x) + 64 * (d - some), 16); \
          UNROLL for (int i = 0; i < 4; i++) \
            UNROLL for (int j = 0; j < 4; j++) score[i][j] = fused_f32(q[i], k[j], score[i][j]); \
        } \
        deep += ATTENTION_DEPTH; \
      } while (deep < a->k); \
      UNROLL for (int i = 0; i < 4; i++) { \
        float high = max[i], keep; \
        UNROLL for (int j = 0; j < 4; j++) { \
          _Bool seen = where[4 * x + j] <= last[4 * y + i]; \
          score[i][j] = seen ? score[i][j] : -__builtin_inff(); \
          high = __builtin_fmaxf(high, score[i][j]); \
        } \
        high = row_max_f32(high); \
        float from = high == -__builtin_inff() ? 0 : high; \
        keep = exp_f32(max[i] - from), max[i] = high, sum[i] *= keep; \
        UNROLL for (int j = 0; j < 4; j++) score[i][j] = exp_f32(score[i][j] - from), sum[i] += score[i][j]; \
        UNROLL for (int c = 0; c < 8; c++) result[i][c] *= keep; \
      } \
      UNROLL for (int j = 0; j < 4; j++) \
        UNROLL for (int i = 0; i < 4; i++) weights[tile_place(4 * x + j, 4 * y) + i] = score[i][j]; \
      ROLL for (int part = 0; part <= wide; part++) { \
        int64_t from = t + part * (4096 / columns); \
        barrier(); \
        attention_values_##T(both, values, from, a->t, a->e, panel * columns, columns); \
        barrier(); \
        ROLL for (int some = 0; some < 4096 / columns; some += 2) UNROLL for (int d = some; d < some + 2; d++) { \
          float w[4], v[8]; \
          load_wide(w, weights + tile_place(part * (4096 / columns) + some, 4 * y) + 64 * (d - some), 16); \
          load_wide(v, both + d * columns + 4 * x, 16); \
          if (wide) load_wide(v + 4, both + d * columns + 64 + 4 * x, 16); \
          UNROLL for (int i = 0; i < 4; i++) \
            UNROLL for (int c = 0; c < 4 + 4 * wide; c++) result[i][c] = fused_f32(w[i], v[c], result[i][c]); \
        } \
      } \
    } \
    UNROLL for (int i = 0; i < 4; i++) { \
      float total = row_sum_f32(sum[i]); \
      float share = total == 0 ? 0 : 1 / total; \
      UNROLL for (int c = 0; c < 8; c++) result[i][c] = total == 0 ? 0 : result[i][c] * share; \
      if (4 * y + i >= here) continue; \
      int64_t row = group * a->rows + first + 4 * y + i; \
      UNROLL for (int half = 0; half <= wide; half++) { \
        int64_t column = panel * columns + 64 * half + 4 * x, left = a->e - column; \
        store4_##T(out + row * a->e + column, result[i] + 4 * half, left < 4 ? left : 4); \
      } \
      if (a->lse && panel == 0 && x == 0) \
        ((float *)a->lse)[row] = total == 0 ? -__builtin_inff() : max[i] + log_f32(total); \
    } \
  }
ATTENTION_TILES(f32, float)
ATTENTION_TILES(f16, uint16_t)
ATTENTION_TILES(bf16, uint16_t)

/* ---- few rows, as in decoding: a block of 8 warps has up to 4 query rows that share keys, and a piece of the keys.
 * The warps take 32 keys each in turn, read with 8 numbers per lane, neighbours by neighbours; what they find is joined
 * in their order.  With several pieces it goes into `found`, [pieces, groups, rows, e + 2]: the mixture of the values,
 * the maximum, the sum; attention_join puts the pieces together.
 *
 * kl and el lanes share a key and a value: 8 kl and 8 el are at least their widths. */

#define ATTENTION_FEW(T, stored) \
  /* 8 numbers of a row of a matrix; behind its end zeros */ \
  FN void attention_eight_##T(float *r, const stored *from, int64_t row, int64_t rows, int64_t width, int at) { \
    int64_t left = row < rows ? width - at : 0; \
    load8_##T(r, from + row * width + at, left < 8 ? left : 8); \
  } \
  /* parts: 8 * rows * (8 * el + 2) numbers */ \
  FN void attention_few_##T(const Attention *a, stored *out, const stored *query, const stored *keys, \
      const stored *values, float scale, const int rows, const int kl, const int el, float *parts, \
      const int pieces, float *found) { \
    int64_t panels = (a->rows + rows - 1) / rows, job = block_index() % (a->groups * panels), group = job / panels; \
    int64_t first = job % panels * rows, last[4], piece = block_index() / (a->groups * panels); \
    int64_t length = (a->t + 256 * pieces - 1) / (256 * pieces) * 256, end = (piece + 1) * length; \
    if (end > a->t) end = a->t; \
    const int lane = lane_index(), at = lane % kl * 8, of = lane % el * 8, columns = 8 * el, ahead = rows > 2 ? 2 : 4; \
    float q[4][8], max[4], sum[4], result[4][8], *tops = parts + 8 * rows * columns, *sums = tops + 8 * rows; \
    query += group * a->rows * a->k, keys += group * a->t * a->k, values += group * a->t * a->e; \
    UNROLL for (int r = 0; r < rows; r++) { \
      attention_eight_##T(q[r], query, first + r, a->rows, a->k, at); \
      UNROLL for (int i = 0; i < 8; i++) q[r][i] *= scale, result[r][i] = 0; \
      last[r] = attention_last(a, first + r), max[r] = -__builtin_inff(), sum[r] = 0; \
    } \
    for (int64_t t = piece * length + 32 * warp_index(); t < end; t += 256) { \
      int64_t where = attention_where(a, t + lane); \
      float score[4]; \
      int any = 0; \
      UNROLL for (int r = 0; r < rows; r++) score[r] = 0, any |= where <= last[r]; \
      if (!warp_max_i32(any)) continue; \
      ROLL for (int some = 0; some < kl; some += ahead) UNROLL for (int j = some; j < some + ahead && j < kl; j++) { \
        float x[8]; \
        attention_eight_##T(x, keys, t + j * (32 / kl) + lane / kl, a->t, a->k, at); \
        UNROLL for (int r = 0; r < rows; r++) { \
          float dot = 0; \
          UNROLL for (int i = 0; i < 8; i++) dot = fused_f32(q[r][i], x[i], dot); \
          UNROLL for (int w = kl / 2; w; w /= 2) dot += shuffle_f32(dot, lane ^ w); \
          dot = shuffle_f32(dot, lane % (32 / kl) * kl); \
          if (lane / (32 / kl) == j) score[r] = dot; \
        } \
      } \
      UNROLL for (int r = 0; r < rows; r++) { \
        if (a->bias && t + lane < a->t && first + r < a->rows) \
          score[r] += load_##T((const stored *)a->bias + attention_bias_row(a, group * a->rows + first + r) + \
              t + lane); \
        score[r] = where <= last[r] ? score[r] : -__builtin_inff(); \
        float high = max_f32(max[r], warp_max_f32(score[r])), from = high == -__builtin_inff() ? 0 : high; \
        float keep = exp_f32(max[r] - from); \
        score[r] = exp_f32(score[r] - from), max[r] = high, sum[r] = sum[r] * keep + score[r]; \
        UNROLL for (int i = 0; i < 8; i++) result[r][i] *= keep; \
      } \
      ROLL for (int some = 0; some < el; some += ahead) UNROLL for (int j = some; j < some + ahead && j < el; j++) { \
        float x[8]; \
        int key = j * (32 / el) + lane / el; \
        attention_eight_##T(x, values, t + key, a->t, a->e, of); \
        UNROLL for (int r = 0; r < rows; r++) { \
          float weight = shuffle_f32(score[r], key); \
          UNROLL for (int i = 0; i < 8; i++) result[r][i] = fused_f32(weight, x[i], result[r][i]); \
        } \
      } \
    } \
    UNROLL for (int r = 0; r < rows; r++) { \
      float *mine = parts + (warp_index() * rows + r) * columns; \
      sum[r] = warp_sum_f32(sum[r]); \
      UNROLL for (int i = 0; i < 8; i++) { \
        UNROLL for (int w = el; w < 32; w *= 2) result[r][i] += shuffle_f32(result[r][i], lane ^ w); \
        if (lane < el) mine[of + i] = result[r][i]; \
      } \
      if (lane == 0) tops[warp_index() * rows + r] = max[r], sums[warp_index() * rows + r] = sum[r]; \
    } \
    barrier(); \
    for (int i = thread_index(); i < rows * columns; i += 256) { \
      int r = i / columns, c = i % columns; \
      float top = -__builtin_inff(), total = 0, value = 0; \
      for (int w = 0; w < 8; w++) top = max_f32(top, tops[w * rows + r]); \
      for (int w = 0; w < 8 && top != -__builtin_inff(); w++) { \
        float keep = exp_f32(tops[w * rows + r] - top); \
        total += keep * sums[w * rows + r], value += keep * parts[(w * rows + r) * columns + c]; \
      } \
      int64_t row = group * a->rows + first + r; \
      if (first + r >= a->rows) continue; \
      if (pieces > 1) { \
        float *record = found + (piece * a->groups * a->rows + row) * (a->e + 2); \
        if (c < a->e) record[c] = value; \
        if (c == 0) record[a->e] = top, record[a->e + 1] = total; \
        continue; \
      } \
      if (c < a->e) store_##T(out + row * a->e + c, total == 0 ? 0 : value / total); \
      if (a->lse && c == 0) ((float *)a->lse)[row] = total == 0 ? -__builtin_inff() : top + log_f32(total); \
    } \
  } \
  /* an element of the result per thread; lse: 0, or where it goes */ \
  FN void attention_join_##T(stored *out, float *lse, const float *found, int64_t rows, int64_t e, const int pieces) { \
    int64_t i = block_index() * 256 + thread_index(), row = i / e, c = i % e; \
    float top = -__builtin_inff(), total = 0, value = 0; \
    if (row >= rows) return; \
    for (int p = 0; p < pieces; p++) top = max_f32(top, found[(p * rows + row) * (e + 2) + e]); \
    for (int p = 0; p < pieces && top != -__builtin_inff(); p++) { \
      const float *record = found + (p * rows + row) * (e + 2); \
      float keep = exp_f32(record[e] - top); \
      total += keep * record[e + 1], value += keep * record[c]; \
    } \
    store_##T(out + i, total == 0 ? 0 : value / total); \
    if (lse && c == 0) lse[row] = total == 0 ? -__builtin_inff() : top + log_f32(total); \
  }
ATTENTION_FEW(f32, float)
ATTENTION_FEW(f16, uint16_t)
ATTENTION_FEW(bf16, uint16_t)

/* ---- tensor cores: a block of 4 warps has 64 query rows, 16 per warp, and goes through the keys, 64 at a time.  The
 * queries stay in registers, as do scores and results; keys and values pass through shared memory by asynchronous
 * copies: values while scores are made, the next keys while values are mixed.  A row in shared memory has 8 numbers
 * more than the matrix, so that 8 rows of load_matrices meet no bank twice.
 *
 * Exponentials are of base two, by the unit of the GPU; weights are rounded to 16 bits before they are multiplied with
 * the values, as everywhere where tensor cores do it, and the sum is of those that are not rounded. */

FN float quad_max(float v) {
  UNROLL for (int w = 2; w; w /= 2) v = __builtin_fmaxf(v, shuffle_f32(v, lane_index() ^ w));
  return v;
}
FN float quad_sum(float v) {
  UNROLL for (int w = 2; w; w /= 2) v += shuffle_f32(v, lane_index() ^ w);
  return v;
}

/* The first 64 keys from t on of which a row sees some; where they are, behind the next barrier.  `whole`: every row
 * sees all of them.  Every warp finds the same. */
FN int64_t attention_next(const Attention *a, int64_t t, int64_t lowest, int64_t highest, int64_t *where, int *whole) {
  *whole = 0;
  for (; t < a->t; t += 64) {
    int64_t one = attention_where(a, t + lane_index()), two = attention_where(a, t + 32 + lane_index());
    if (!warp_max_i32(one <= highest || two <= highest)) continue;
    if (warp_index() == 0) where[lane_index()] = one, where[32 + lane_index()] = two;
    *whole = !warp_max_i32(one > lowest || two > lowest);
    break;
  }
  return t;
}

/* 64 rows of a matrix with `width` columns, `rows` of which are there, as rows of 16 * steps numbers, zeros behind the
 * matrix, `stride` apart.  By copies that somebody waits for, where `wide`. */
FN void attention_copy(uint16_t *to, int stride, const uint16_t *from, int64_t rows, int64_t width, const int steps,
                       _Bool wide) {
  if (wide) {
    UNROLL for (int i = 0; i < steps; i++) {
      int piece = thread_index() + 128 * i, row = piece / (2 * steps), at = piece % (2 * steps) * 8;
      _Bool there = row < rows && at < width;
      copy_async(to + row * stride + at, there ? from + row * width + at : from, there ? 16 : 0);
    }
  } else {
    ROLL for (int i = thread_index(); i < 64 * 16 * steps; i += 128) {
      int row = i / (16 * steps), at = i % (16 * steps);
      to[row * stride + at] = row < rows && at < width ? from[row * width + at] : 0;
    }
  }
}

/* `both`: 64 * (16 * ks + 8 + 16 * es + 8) numbers; places: 192, with a bias 256. */
#define ATTENTION_TENSOR(T) \
  FN void attention_tensor_##T(const Attention *a, uint16_t *out, const uint16_t *query, const uint16_t *keys, \
      const uint16_t *values, float scale, const int ks, const int es, uint16_t *both, int64_t *places) { \
    const int kstride = 16 * ks + 8, estride = 16 * es + 8, lane = lane_index(), pair = lane % 4 * 2; \
    int64_t tiles = (a->rows + 63) / 64, group = block_index() / tiles; \
    int64_t first = (tiles - 1 - block_index() % tiles) * 64, *last = places + 128, *bias_row = places + 192; \
    uint16_t *some_keys = both, *some_values = both + 64 * kstride; \
    int here = a->rows - first < 64 ? (int)(a->rows - first) : 64, row = 16 * warp_index() + lane / 4; \
    query += (group * a->rows + first) * a->k, keys += group * a->t * a->k, values += group * a->t * a->e; \
    _Bool wide = a->k % 8 == 0 && a->e % 8 == 0 && \
        ((uintptr_t)query | (uintptr_t)keys | (uintptr_t)values | (uintptr_t)out) % 16 == 0; \
    int64_t highest = attention_lasts(a, group, first, last, bias_row), lowest = attention_lowest(a, first); \
    attention_copy(some_keys, kstride, query, here, a->k, ks, wide); \
    copy_wait(); \
    barrier(); \
    uint32_t q[8][4]; \
    UNROLL for (int s = 0; s < ks; s++) \
      load_matrices(q[s], some_keys + (16 * warp_index() + lane % 16) * kstride + 16 * s + lane / 16 * 8); \
    float max[2], sum[2], result[16][4]; \
    UNROLL for (int i = 0; i < 2; i++) max[i] = -__builtin_inff(), sum[i] = 0; \
    UNROLL for (int i = 0; i < 64; i++) result[i / 4][i % 4] = 0; \
    int whole, next_whole, slot = 0; \
    int64_t t = attention_next(a, 0, lowest, highest, places, &whole), next; \
    barrier(); /* the queries are taken */ \
    if (t < a->t) attention_copy(some_keys, kstride, keys + t * a->k, a->t - t, a->k, ks, wide); \
    for (; t < a->t; t = next, whole = next_whole, slot ^= 64) { \
      copy_wait(); \
      barrier(); /* the keys are there, the values before are done */ \
      attention_copy(some_values, estride, values + t * a->e, a->t - t, a->e, es, wide); \
      float score[8][4]; \
      UNROLL for (int i = 0; i < 32; i++) score[i / 4][i % 4] = 0; \
      UNROLL for (int s = 0; s < ks; s++) \
        UNROLL for (int p = 0; p < 4; p++) { \
          uint32_t b[4]; \
          load_matrices(b, some_keys + (16 * p + lane % 8 + lane / 16 * 8) * kstride + 16 * s + lane / 8 % 2 * 8); \
          tensor_##T(score[2 * p], q[s], b); \
          tensor_##T(score[2 * p + 1], q[s], b + 2); \
        } \
      UNROLL for (int r = 0; r < 2; r++) { \
        float high = max[r]; \
        int64_t seen = last[row + 8 * r]; \
        UNROLL for (int n = 0; n < 16; n++) { \
          float *x = &score[n / 2][2 * r + n % 2]; \
          int key = n / 2 * 8 + pair + n % 2; \
          *x *= scale * 1.44269504088896341f; \
          if (a->bias && row + 8 * r < here && t + key < a->t) \
            *x += load_##T((const uint16_t *)a->bias + bias_row[row + 8 * r] + t + key) * 1.44269504088896341f; \
          if (!whole) *x = places[slot + key] <= seen ? *x : -__builtin_inff(); \
          high = __builtin_fmaxf(high, *x); \
        } \
        high = quad_max(high); \
        float from = high == -__builtin_inff() ? 0 : high, keep = exp2_fast(max[r] - from); \
        max[r] = high, sum[r] *= keep; \
        UNROLL for (int n = 0; n < 16; n++) { \
          float *x = &score[n / 2][2 * r + n % 2]; \
          *x = exp2_fast(*x - from), sum[r] += *x; \
        } \
        UNROLL for (int n = 0; n < 2 * es; n++) result[n][2 * r] *= keep, result[n][2 * r + 1] *= keep; \
      } \
      next = attention_next(a, t + 64, lowest, highest, places + (slot ^ 64), &next_whole); \
      copy_wait(); \
      barrier(); /* the values are there, the keys are done */ \
      if (next < a->t) attention_copy(some_keys, kstride, keys + next * a->k, a->t - next, a->k, ks, wide); \
      UNROLL for (int s = 0; s < 4; s++) { \
        uint32_t w[4]; \
        UNROLL for (int i = 0; i < 4; i++) \
          w[i] = pack_##T(score[2 * s + i / 2][i % 2 * 2], score[2 * s + i / 2][i % 2 * 2 + 1]); \
        UNROLL for (int p = 0; p < es; p++) { \
          uint32_t b[4]; \
          load_matrices_turned(b, some_values + (16 * s + lane % 16) * estride + 16 * p + lane / 16 * 8); \
          tensor_##T(result[2 * p], w, b); \
          tensor_##T(result[2 * p + 1], w, b + 2); \
        } \
      } \
    } \
    barrier(); /* all are done: a warp puts its rows together where values were */ \
    UNROLL for (int r = 0; r < 2; r++) { \
      float total = quad_sum(sum[r]), share = total == 0 ? 0 : 1 / total; \
      UNROLL for (int n = 0; n < 2 * es; n++) { \
        uint32_t two = pack_##T(result[n][2 * r] * share, result[n][2 * r + 1] * share); \
        *(uint32_t *)(both + (row + 8 * r) * estride + 8 * n + pair) = two; \
      } \
      if (a->lse && pair == 0 && row + 8 * r < here) \
        ((float *)a->lse)[group * a->rows + first + row + 8 * r] = \
            total == 0 ? -__builtin_inff() : max[r] * 0.693147180559945309f + log_f32(total); \
    } \
    warp_barrier(); \
    out += (group * a->rows + first) * a->e; \
    ROLL for (int i = lane; i < 32 * es; i += 32) { \
      int of = 16 * warp_index() + i / (2 * es), at = i % (2 * es) * 8; \
      if (of >= here || at >= a->e) continue; \
      if (wide) store_wide(out + of * a->e + at, both + of * estride + at, 16); \
      else \
        for (int j = 0; j < 8 && at + j < a->e; j++) out[of * a->e + at + j] = both[of * estride + at + j]; \
    } \
  }
ATTENTION_TENSOR(f16)
ATTENTION_TENSOR(bf16)
/* codegen/cuda/dialect_attention_grad.h - the gradients of attention in the dialect.  Behind dialect_attention.h;
 * attention.c prints the calls.
 *
 * A row of the result is of a query, key or value: its own row.  What adds to it, keys or queries, are the others; what
 * they are added with, their weights, is made again from scores and the logarithms of sums (Dao, "FlashAttention-2",
 * 2023).  No score is stored and nothing is added atomically: a row's bits depend on its operands and the way alone.
 *
 * Not done: one pass for keys and values, which would make the scores once for both.
 */
/* Names of macros in a row are no statements. */
/* clang-format off */

typedef struct AttentionGrad {
  char of; /* q, k or v */
  const void *o, *lse, *d;
} AttentionGrad;

/* ---- a warp has a row of the result and up to 256 elements of it; others come in 32s, one per lane */

#define ATTENTION_GRAD(T, stored, C, type) \
  /* What query `row` of all adds the other's row with: its weight, or what its score changes. */ \
  FN type grad_pair_##T(const Attention *a, const AttentionGrad *g, const stored *query, const stored *keys, \
      const stored *values, type scale, int64_t row, int64_t key) { \
    int64_t group = row / a->rows, at = group * a->t + key; \
    type lse = ((const type *)g->lse)[row], score = 0, change = 0; \
    if (attention_where(a, key) > attention_last(a, row % a->rows) || lse == -__builtin_inff()) return 0; \
    const stored *d = (const stored *)g->d + row * a->e, *o = (const stored *)g->o + row * a->e; \
    for (int64_t i = 0; i < a->k; i++) \
      score += load_##T(query + row * a->k + i) * scale * load_##T(keys + at * a->k + i); \
    if (a->bias) score += load_##T((const stored *)a->bias + attention_bias_row(a, row) + key); \
    score = exp_##C(score - lse); \
    if (g->of == 'v') return score; \
    for (int64_t i = 0; i < a->e; i++) \
      change += load_##T(d + i) * (load_##T(values + at * a->e + i) - load_##T(o + i)); \
    return score * change * scale; \
  } \
  FN void attention_grad_row_##T(const Attention *a, const AttentionGrad *g, stored *out, const stored *query, \
      const stored *keys, const stored *values, type scale) { \
    int of_query = g->of == 'q'; \
    int64_t own = of_query ? a->rows : a->t, others = of_query ? a->t : a->rows, n = g->of == 'v' ? a->e : a->k; \
    int64_t chunks = n > 256 ? (n + 255) / 256 : 1, job = block_index() * 4 + warp_index(); \
    if (job >= a->groups * own * chunks) return; \
    int64_t mine = job / chunks, first = job % chunks * 256 + lane_index(), group = mine / own; \
    int left = (int)(n - first < 256 ? n - first : 256); \
    const stored *from = of_query ? keys : g->of == 'k' ? query : (const stored *)g->d; \
    type result[8]; \
    UNROLL for (int i = 0; i < 8; i++) result[i] = 0; \
    for (int64_t other = 0; other < others; other += 32) { \
      int64_t one = other + lane_index(); \
      type weight = 0; \
      if (one < others) \
        weight = grad_pair_##T(a, g, query, keys, values, scale, of_query ? mine : group * a->rows + one, \
            of_query ? one : mine % own); \
      ROLL for (int j = 0; j < 32 && other + j < others; j++) { \
        type w = shuffle_##C(weight, j); \
        const stored *line = from + (group * others + other + j) * n + first; \
        UNROLL for (int i = 0; i < 8; i++) \
          if (32 * i < left) result[i] += w * load_##T(line + 32 * i); \
      } \
    } \
    UNROLL for (int i = 0; i < 8; i++) \
      if (32 * i < left) store_##T(out + mine * n + first + 32 * i, result[i]); \
  }
ATTENTION_GRAD(f32, float, f32, float)
ATTENTION_GRAD(f64, double, f64, double)
ATTENTION_GRAD(f16, uint16_t, f32, float)
ATTENTION_GRAD(bf16, uint16_t, f32, float)

/* ---- tiles: 64 own rows against 64 others at a time; in f32, or on tensor cores */

/* The first 64 queries from t on one of which sees an own key, the first of which is at `lowest`, the last at
 * `highest`; what they see, behind the next barrier.  `whole`: all of them see all keys.  Every warp finds the same. */
FN int64_t attention_next_queries(const Attention *a, int64_t t, int64_t lowest, int64_t highest, int64_t *last,
                                  int *whole) {
  *whole = 0;
  for (; t < a->rows; t += 64) {
    int64_t one = attention_last(a, t + lane_index()), two = attention_last(a, t + 32 + lane_index());
    if (!warp_max_i32(one >= lowest || two >= lowest)) continue;
    if (warp_index() == 0) last[lane_index()] = one, last[32 + lane_index()] = two;
    *whole = !warp_max_i32(one < highest || two < highest);
    break;
  }
  return t;
}

/* What 64 own rows have to do with 64 others.  `of_query`: own rows are queries. */
typedef struct AttentionPairs {
  _Bool of_query;
  int64_t group, own, others, first; /* rows of the group; its first own row here */
  int64_t lowest, highest;
  int64_t *where, *last, *bias_row; /* of 64 keys, of 64 queries */
} AttentionPairs;

/* Sizes, and what is known of the own rows, behind the next barrier.  Those with most others come first. */
FN void attention_pairs(AttentionPairs *p, const Attention *a, int64_t job) {
  int64_t tiles, tile;
  p->own = p->of_query ? a->rows : a->t, p->others = p->of_query ? a->t : a->rows;
  tiles = (p->own + 63) / 64, tile = job % tiles, p->group = job / tiles;
  p->first = (p->of_query ? tiles - 1 - tile : tile) * 64;
  if (p->of_query) {
    p->highest = attention_lasts(a, p->group, p->first, p->last, p->bias_row);
    p->lowest = attention_lowest(a, p->first);
  } else {
    int64_t one = attention_where(a, p->first + lane_index()), two = attention_where(a, p->first + 32 + lane_index());
    if (warp_index() == 0) p->where[lane_index()] = one, p->where[32 + lane_index()] = two;
    p->lowest = warp_min_i64(one < two ? one : two), p->highest = warp_max_i64(one < two ? two : one);
  }
}

/* Others from t on that have to do with own rows. */
FN int64_t attention_others(const AttentionPairs *p, const Attention *a, int64_t t, int *whole) {
  if (p->of_query) return attention_next(a, t, p->lowest, p->highest, p->where, whole);
  t = attention_next_queries(a, t, p->lowest, p->highest, p->last, whole);
  int64_t row = p->group * a->rows + t + thread_index();
  if (thread_index() < 64 && a->bias) p->bias_row[thread_index()] = attention_bias_row(a, row);
  return t;
}

/* The query and key of an own row and another one, as rows of the tiles; where their bias is, -1 when one of them is
 * not there. */
FN int attention_query(const AttentionPairs *p, int own, int other) { return p->of_query ? own : other; }
FN int attention_key(const AttentionPairs *p, int own, int other) { return p->of_query ? other : own; }
FN int64_t attention_bias_at(const AttentionPairs *p, const Attention *a, int64_t t, int own, int other) {
  int64_t key = p->of_query ? t + other : p->first + own;
  if (p->first + own >= p->own || t + other >= p->others) return -1;
  return p->bias_row[attention_query(p, own, other)] + key;
}

/* The logarithm of a query's sum; infinity, so that nothing has a weight, where it has none. */
FN float attention_lse(const AttentionGrad *g, int64_t row, _Bool there) {
  float lse = there ? ((const float *)g->lse)[row] : -__builtin_inff();
  return lse == -__builtin_inff() ? __builtin_inff() : lse;
}

#define ATTENTION_GRAD_TILES(T, stored) \
  /* d times o of 64 queries, by the 256 threads; and the logarithms of their sums */ \
  FN void attention_grad_sums_##T(float *lses, float *deltas, const AttentionGrad *g, int64_t row, int64_t rows, \
      int64_t e, _Bool change) { \
    int mine = thread_index() / 4; \
    float delta = 0; \
    ROLL for (int64_t i = thread_index() % 4 * 4; change && mine < rows && i < e; i += 16) { \
      float d[4], o[4]; \
      load4_##T(d, (const stored *)g->d + (row + mine) * e + i, e - i < 4 ? e - i : 4); \
      load4_##T(o, (const stored *)g->o + (row + mine) * e + i, e - i < 4 ? e - i : 4); \
      UNROLL for (int j = 0; j < 4; j++) delta = fused_f32(d[j], o[j], delta); \
    } \
    delta = quad_sum(delta); \
    if (thread_index() % 4 == 0) \
      deltas[mine] = delta, lses[mine] = attention_lse(g, row + mine, mine < rows); \
  } \
  /* 4 x 4 products of 64 rows with 64 rows */ \
  FN void attention_products_##T(float (*r)[4], float *both, const stored *own, int64_t first, int64_t rows, \
      const stored *other, int64_t t, int64_t others, int64_t width, float scale) { \
    const int x = thread_index() % 16, y = thread_index() / 16; \
    UNROLL for (int i = 0; i < 16; i++) r[i / 4][i % 4] = 0; \
    int64_t deep = 0; \
    do { \
      barrier(); \
      attention_load_##T(both, own, first, rows, width, deep, scale); \
      attention_load_##T(both + ATTENTION_HALF, other, t, others, width, deep, 1); \
      barrier(); \
      ROLL for (int some = 0; some < ATTENTION_DEPTH; some += 2) UNROLL for (int d = some; d < some + 2; d++) { \
        float q[4], k[4]; \
        load_wide(q, both + tile_place(some, 4 * y) + 64 * (d - some), 16); \
        load_wide(k, both + ATTENTION_HALF + tile_place(some, 4 * x) + 64 * (d - some), 16); \
        UNROLL for (int i = 0; i < 4; i++) \
          UNROLL for (int j = 0; j < 4; j++) r[i][j] = fused_f32(q[i], k[j], r[i][j]); \
      } \
      deep += ATTENTION_DEPTH; \
    } while (deep < width); \
  } \
  /* a block of 256 threads per 64 own rows and 64 elements of the result of each */ \
  FN void attention_grad_tile_##T(const Attention *a, const AttentionGrad *g, stored *out, const stored *query, \
      const stored *keys, const stored *values, float scale) { \
    SHARED(float, both, 2 * ATTENTION_HALF); \
    SHARED(float, weights, 64 * 64); \
    SHARED(float, lses, 64); \
    SHARED(float, deltas, 64); \
    SHARED(int64_t, where, 64); \
    SHARED(int64_t, last, 64); \
    SHARED(int64_t, bias_row, 64); \
    AttentionPairs p; \
    p.of_query = g->of == 'q', p.where = where, p.last = last, p.bias_row = bias_row; \
    const int x = thread_index() % 16, y = thread_index() / 16; \
    int64_t n = g->of == 'v' ? a->e : a->k, panels = n > 64 ? (n + 63) / 64 : 1, panel = block_index() % panels; \
    attention_pairs(&p, a, block_index() / panels); \
    const stored *d = (const stored *)g->d + p.group * a->rows * a->e; \
    query += p.group * a->rows * a->k, keys += p.group * a->t * a->k, values += p.group * a->t * a->e; \
    const stored *own = p.of_query ? query : keys, *other = p.of_query ? keys : query; \
    const stored *from = p.of_query ? keys : g->of == 'k' ? query : d; \
    float result[4][4]; \
    UNROLL for (int i = 0; i < 16; i++) result[i / 4][i % 4] = 0; \
    if (p.of_query) \
      attention_grad_sums_##T(lses, deltas, g, p.group * a->rows + p.first, a->rows - p.first, a->e, 1); \
    for (int64_t t = 0; t < p.others; t += 64) { \
      int whole; \
      barrier(); /* the tile before is done */ \
      t = attention_others(&p, a, t, &whole); \
      if (t >= p.others) break; \
      if (!p.of_query) \
        attention_grad_sums_##T(lses, deltas, g, p.group * a->rows + t, a->rows - t, a->e, g->of == 'k'); \
      float score[4][4], change[4][4]; \
      attention_products_##T(score, both, own, p.first, p.own, other, t, p.others, a->k, scale); \
      if (g->of != 'v') \
        attention_products_##T(change, both, p.of_query ? d : values, p.first, p.own, p.of_query ? values : d, t, \
            p.others, a->e, 1); \
      UNROLL for (int j = 0; j < 4; j++) \
        UNROLL for (int i = 0; i < 4; i++) { \
          int q = attention_query(&p, 4 * y + i, 4 * x + j), k = attention_key(&p, 4 * y + i, 4 * x + j); \
          int64_t bias = a->bias ? attention_bias_at(&p, a, t, 4 * y + i, 4 * x + j) : -1; \
          float s = score[i][j] + (bias >= 0 ? load_##T((const stored *)a->bias + bias) : 0); \
          float w = exp_f32(s - lses[q]); \
          if (g->of != 'v') w *= (change[i][j] - deltas[q]) * scale; \
          weights[tile_place(4 * x + j, 4 * y) + i] = whole || where[k] <= last[q] ? w : 0; \
        } \
      barrier(); /* products are done, and weights are there */ \
      attention_values_##T(both, from, t, p.others, n, panel * 64, 64); \
      barrier(); \
      ROLL for (int some = 0; some < 64; some += 2) UNROLL for (int row = some; row < some + 2; row++) { \
        float w[4], v[4]; \
        load_wide(w, weights + tile_place(some, 4 * y) + 64 * (row - some), 16); \
        load_wide(v, both + row * 64 + 4 * x, 16); \
        UNROLL for (int i = 0; i < 4; i++) \
          UNROLL for (int c = 0; c < 4; c++) result[i][c] = fused_f32(w[i], v[c], result[i][c]); \
      } \
    } \
    UNROLL for (int i = 0; i < 4; i++) { \
      int64_t row = p.first + 4 * y + i, column = panel * 64 + 4 * x, left = n - column; \
      if (row < p.own && left > 0) \
        store4_##T(out + (p.group * p.own + row) * n + column, result[i], left < 4 ? left : 4); \
    } \
  }
ATTENTION_GRAD_TILES(f32, float)
ATTENTION_GRAD_TILES(f16, uint16_t)
ATTENTION_GRAD_TILES(bf16, uint16_t)

/* Tensor cores: a block of 4 warps has 64 own rows, 16 per warp, which stay in registers as the results do.  Others
 * pass through shared memory, 64 at a time, laid out as in attention_tensor, and are met 32 at a time.  Weights are
 * rounded to 16 bits before they are multiplied.
 *
 * `both`: 64 * (16 * ks + 8 + 16 * es + 8) numbers; numbers: 128; places: 192. */
#define ATTENTION_GRAD_TENSOR(T) \
  /* d, which is in shared memory, times o of 64 queries, by the 128 threads; and the logarithms of their sums */ \
  FN void attention_grad_tensor_sums_##T(float *numbers, const AttentionGrad *g, int64_t row, int64_t rows, \
      const uint16_t *d, const int stride, int64_t e, _Bool change) { \
    int mine = thread_index() / 2; \
    float delta = 0; \
    ROLL for (int64_t i = thread_index() % 2 * 8; change && mine < rows && i < e; i += 16) { \
      float o[8]; \
      load8_##T(o, (const uint16_t *)g->o + (row + mine) * e + i, e - i < 8 ? e - i : 8); \
      UNROLL for (int j = 0; j < 8; j++) delta = fused_f32(load_##T(d + mine * stride + i + j), o[j], delta); \
    } \
    delta += shuffle_f32(delta, lane_index() ^ 1); \
    if (thread_index() % 2 == 0) \
      numbers[mine] = attention_lse(g, row + mine, mine < rows) * 1.44269504088896341f, numbers[64 + mine] = delta; \
  } \
  FN void attention_grad_tensor_##T(const Attention *a, const AttentionGrad *g, uint16_t *out, const uint16_t *query, \
      const uint16_t *keys, const uint16_t *values, float scale, const int of, const int ks, const int es, \
      uint16_t *both, float *numbers, int64_t *places) { \
    const int kstride = 16 * ks + 8, estride = 16 * es + 8, lane = lane_index(), pair = lane % 4 * 2; \
    const int ns = of == 'v' ? es : ks, nstride = 16 * ns + 8, row = 16 * warp_index() + lane / 4; \
    uint16_t *first_tile = both, *second_tile = both + 64 * kstride; \
    AttentionPairs p; \
    p.of_query = of == 'q', p.where = places, p.last = places + 64, p.bias_row = places + 128; \
    attention_pairs(&p, a, block_index()); \
    int64_t n = of == 'v' ? a->e : a->k; \
    int here = p.own - p.first < 64 ? (int)(p.own - p.first) : 64; \
    const uint16_t *d = (const uint16_t *)g->d + p.group * a->rows * a->e; \
    query += p.group * a->rows * a->k, keys += p.group * a->t * a->k, values += p.group * a->t * a->e; \
    out += (p.group * p.own + p.first) * n; \
    _Bool wide = a->k % 8 == 0 && a->e % 8 == 0 && \
        ((uintptr_t)query | (uintptr_t)keys | (uintptr_t)values | (uintptr_t)d | (uintptr_t)out) % 16 == 0; \
    const uint16_t *own = p.of_query ? query : keys, *other = p.of_query ? keys : query; \
    const uint16_t *own_values = p.of_query ? d : values, *other_values = p.of_query ? values : d; \
    attention_copy(first_tile, kstride, own + p.first * a->k, here, a->k, ks, wide); \
    if (of != 'v') attention_copy(second_tile, estride, own_values + p.first * a->e, here, a->e, es, wide); \
    copy_wait(); \
    barrier(); \
    uint32_t mine[8][4], mine_values[8][4]; \
    UNROLL for (int s = 0; s < ks; s++) \
      load_matrices(mine[s], first_tile + (16 * warp_index() + lane % 16) * kstride + 16 * s + lane / 16 * 8); \
    UNROLL for (int s = 0; of != 'v' && s < es; s++) \
      load_matrices(mine_values[s], second_tile + (16 * warp_index() + lane % 16) * estride + 16 * s + lane / 16 * 8); \
    if (of == 'q') \
      attention_grad_tensor_sums_##T(numbers, g, p.group * a->rows + p.first, here, second_tile, estride, a->e, 1); \
    float result[16][4]; \
    UNROLL for (int i = 0; i < 64; i++) result[i / 4][i % 4] = 0; \
    for (int64_t t = 0; t < p.others; t += 64) { \
      int whole; \
      barrier(); /* the tile before is done */ \
      t = attention_others(&p, a, t, &whole); \
      if (t >= p.others) break; \
      attention_copy(first_tile, kstride, other + t * a->k, p.others - t, a->k, ks, wide); \
      attention_copy(second_tile, estride, other_values + t * a->e, p.others - t, a->e, es, wide); \
      copy_wait(); \
      barrier(); \
      if (of != 'q') { \
        int64_t there = a->rows - t < 64 ? a->rows - t : 64; \
        attention_grad_tensor_sums_##T(numbers, g, p.group * a->rows + t, there, second_tile, estride, a->e, \
            of == 'k'); \
        barrier(); \
      } \
      ROLL for (int part = 0; part < 64; part += 32) { \
        float score[4][4], change[4][4]; \
        UNROLL for (int i = 0; i < 16; i++) score[i / 4][i % 4] = change[i / 4][i % 4] = 0; \
        const int line = part + lane % 8 + lane / 16 * 8, at = lane / 8 % 2 * 8; \
        UNROLL for (int s = 0; s < ks; s++) \
          UNROLL for (int i = 0; i < 2; i++) { \
            uint32_t b[4]; \
            load_matrices(b, first_tile + (16 * i + line) * kstride + 16 * s + at); \
            tensor_##T(score[2 * i], mine[s], b); \
            tensor_##T(score[2 * i + 1], mine[s], b + 2); \
          } \
        UNROLL for (int s = 0; of != 'v' && s < es; s++) \
          UNROLL for (int i = 0; i < 2; i++) { \
            uint32_t b[4]; \
            load_matrices(b, second_tile + (16 * i + line) * estride + 16 * s + at); \
            tensor_##T(change[2 * i], mine_values[s], b); \
            tensor_##T(change[2 * i + 1], mine_values[s], b + 2); \
          } \
        UNROLL for (int i = 0; i < 16; i++) { \
          int own_row = row + i / 2 % 2 * 8, other_row = part + i / 4 * 8 + pair + i % 2; \
          int q = attention_query(&p, own_row, other_row), k = attention_key(&p, own_row, other_row); \
          int64_t bias = a->bias ? attention_bias_at(&p, a, t, own_row, other_row) : -1; \
          float *x = &score[i / 4][i % 4]; \
          *x *= scale * 1.44269504088896341f; \
          if (bias >= 0) *x += load_##T((const uint16_t *)a->bias + bias) * 1.44269504088896341f; \
          *x = exp2_fast(*x - numbers[q]); \
          if (of != 'v') *x *= (change[i / 4][i % 4] - numbers[64 + q]) * scale; \
          if (!whole) *x = p.where[k] <= p.last[q] ? *x : 0; \
        } \
        UNROLL for (int s = 0; s < 2; s++) { \
          uint32_t w[4]; \
          UNROLL for (int i = 0; i < 4; i++) \
            w[i] = pack_##T(score[2 * s + i / 2][i % 2 * 2], score[2 * s + i / 2][i % 2 * 2 + 1]); \
          UNROLL for (int i = 0; i < ns; i++) { \
            uint32_t b[4]; \
            load_matrices_turned(b, (of == 'v' ? second_tile : first_tile) + (part + 16 * s + lane % 16) * nstride + \
                16 * i + lane / 16 * 8); \
            tensor_##T(result[2 * i], w, b); \
            tensor_##T(result[2 * i + 1], w, b + 2); \
          } \
        } \
      } \
    } \
    barrier(); /* all are done: a warp puts its rows together where others were */ \
    UNROLL for (int r = 0; r < 2; r++) \
      UNROLL for (int i = 0; i < 2 * ns; i++) \
        *(uint32_t *)(both + (row + 8 * r) * nstride + 8 * i + pair) = \
            pack_##T(result[i][2 * r], result[i][2 * r + 1]); \
    warp_barrier(); \
    ROLL for (int i = lane; i < 32 * ns; i += 32) { \
      int line = 16 * warp_index() + i / (2 * ns), at = i % (2 * ns) * 8; \
      if (line >= here || at >= n) continue; \
      if (wide) store_wide(out + line * n + at, both + line * nstride + at, 16); \
      else \
        for (int j = 0; j < 8 && at + j < n; j++) out[line * n + at + j] = both[line * nstride + at + j]; \
    } \
  }
ATTENTION_GRAD_TENSOR(f16)
ATTENTION_GRAD_TENSOR(bf16)
/* codegen/cuda/dialect_conv.h - convolutions in the dialect, as one product of matrices (implicit GEMM; Chetlur et al.,
 * "cuDNN", 2014).  Behind dialect_attention.h; conv.c prints the calls.
 *
 * A row is a place of the result in all images, a column an output channel, and what is summed are the channels of each
 * element of the window.  Rows of the image's matrix are never stored: a block of 256 threads picks 16 terms of its
 * rows and of its columns at a time into shared memory, the next while it multiplies.  Thread (x, y) of `across` x 256
 * / across has `rq` times four rows by `cq` times four columns of the result.  Every sum is one chain of fused
 * multiply-adds in the order of the window, then of the channel: neither the tile nor other rows change a bit.
 *
 * Where the columns of a term lie side by side, a thread reads four of them; else four terms of a column, as it does of
 * a row: filters of cuDNN's order (runtime/device/cuda/conv.c) have the channels side by side.
 *
 * Place u of the result and element k of the window meet place (first + u * step + k * reach) / divisor of the operand,
 * if that is one: so transposed convolutions are the same.  Strides are in elements.
 *
 * Not done: the summed terms are not cut among blocks, no tensor cores (16-bit types are summed in f32).
 */
/* Names of macros in a row are no statements. */
/* clang-format off */

typedef struct Conv {
  int dims; /* how many of the three are there: the last ones */
  int64_t rows, channels, columns; /* channels of a group: of the operand, of the result */
  int64_t from[3], to[3], window[3];
  int64_t first[3], step[3], reach[3], divisor[3];
  int64_t x_image, x_group, x_channel, x_place[3];
  int64_t w_group, w_channel, w_column, w_place[3];
  int64_t y_image, y_group, y_column, y_place[3];
  const void *bias, *residual; /* 0: there is none; as the channels of all groups, as the result */
  int relu;
} Conv;

/* A summed term: the element of the window and the channel.  Behind the last k[0] is no element. */
typedef struct ConvTerm {
  int64_t k[3], channel;
} ConvTerm;

FN void conv_step(const Conv *v, ConvTerm *t, int n) {
  t->channel += n;
  while (t->channel >= v->channels) {
    t->channel -= v->channels;
    if (++t->k[2] < v->window[2]) continue;
    t->k[2] = 0;
    if (++t->k[1] < v->window[1]) continue;
    t->k[1] = 0, t->k[0]++;
  }
}

enum { CONV_DEPTH = 16 };

/* Of row `row` of the matrix as row `at` of a tile with `rows`: where its image begins, where it is in that for the
 * first element of the window (behind the last row: nowhere), where its result is (-1: there is none). */
FN void conv_row(const Conv *v, int64_t row, int64_t *places, int rows, int at) {
  int64_t rest = row, y = 0;
  UNROLL for (int d = 2; d >= 0; d--) {
    if (d < 3 - v->dims) continue;
    int64_t u = rest % v->to[d];
    rest /= v->to[d];
    y += u * v->y_place[d];
    places[(1 + d) * rows + at] = row < v->rows ? v->first[d] + u * v->step[d] : -(INT64_C(1) << 62);
  }
  places[at] = rest * v->x_image;
  places[4 * rows + at] = row < v->rows ? y + rest * v->y_image : -1;
}

/* Which element of the operand a row meets in a term; -1: none. */
FN int64_t conv_place(const Conv *v, const ConvTerm *t, const int64_t *places, int rows, int at) {
  int64_t x = places[at] + t->channel * v->x_channel;
  _Bool there = t->k[0] < v->window[0];
  UNROLL for (int d = 0; d < 3; d++) {
    if (d < 3 - v->dims) continue;
    int64_t p = places[(1 + d) * rows + at] + t->k[d] * v->reach[d];
    there = there && p >= 0 && p % v->divisor[d] == 0 && p / v->divisor[d] < v->from[d];
    x += p / v->divisor[d] * v->x_place[d];
  }
  return there ? x : -1;
}

/* Where the weight of a term and column is. */
FN int64_t conv_weight(const Conv *v, const ConvTerm *t, int64_t column) {
  int64_t at = t->channel * v->w_channel + column * v->w_column;
  UNROLL for (int d = 0; d < 3; d++) at += t->k[d] * v->w_place[d];
  return at;
}

#define CONV(T, stored) \
  /* four terms of a row */ \
  FN void conv_image_##T(float *r, const Conv *v, const stored *x, const ConvTerm *t, const int64_t *places, int rows, \
      int at) { \
    if (v->x_channel == 1 && v->channels % 4 == 0) { \
      int64_t p = conv_place(v, t, places, rows, at); \
      load4_##T(r, p < 0 ? x : x + p, p < 0 ? 0 : 4); \
    } else { \
      ConvTerm u = *t; \
      UNROLL for (int i = 0; i < 4; i++) { \
        int64_t p = conv_place(v, &u, places, rows, at); \
        r[i] = p < 0 ? 0 : load_##T(x + p); \
        conv_step(v, &u, 1); \
      } \
    } \
  } \
  /* four columns of a term, which lie side by side */ \
  FN void conv_weights_##T(float *r, const Conv *v, const stored *w, const ConvTerm *t, int64_t column) { \
    int64_t left = t->k[0] < v->window[0] ? v->columns - column : 0; \
    load4_##T(r, w + (left > 0 ? conv_weight(v, t, column) : 0), left < 4 ? left : 4); \
  } \
  /* four terms of a column */ \
  FN void conv_filter_##T(float *r, const Conv *v, const stored *w, const ConvTerm *t, int64_t column) { \
    _Bool there = column < v->columns; \
    if (v->w_channel == 1 && v->channels % 4 == 0) { \
      there = there && t->k[0] < v->window[0]; \
      load4_##T(r, w + (there ? conv_weight(v, t, column) : 0), there ? 4 : 0); \
    } else { \
      ConvTerm u = *t; \
      UNROLL for (int i = 0; i < 4; i++) { \
        r[i] = there && u.k[0] < v->window[0] ? load_##T(w + conv_weight(v, &u, column)) : 0; \
        conv_step(v, &u, 1); \
      } \
    } \
  } \
  /* four columns of a row: what joins the sums, and storing them */ \
  FN void conv_store_##T(const Conv *v, stored *y, float *r, int64_t group, int64_t column, int64_t at) { \
    int64_t left = v->columns - column < 4 ? v->columns - column : 4; \
    float more[4]; \
    at += group * v->y_group + column * v->y_column; \
    if (v->bias) { \
      load4_##T(more, (const stored *)v->bias + group * v->columns + column, left); \
      UNROLL for (int i = 0; i < 4; i++) r[i] += more[i]; \
    } \
    if (v->residual) { \
      load4_##T(more, (const stored *)v->residual + at, left); \
      UNROLL for (int i = 0; i < 4; i++) r[i] += more[i]; \
    } \
    UNROLL for (int i = 0; i < 4; i++) r[i] = v->relu ? relu_f32(r[i]) : r[i]; \
    if (v->y_column == 1) { \
      store4_##T(y + at, r, left); \
    } else { \
      UNROLL for (int i = 0; i < 4; i++) \
        if (i < left) store_##T(y + at + i * v->y_column, r[i]); \
    } \
  } \
  /* parts: 2 * CONV_DEPTH * (rows + columns) numbers; places: 5 * rows */ \
  FN void conv_tile_##T(const Conv *v, stored *y, const stored *x, const stored *w, const int across, const int rq, \
      const int cq, float *parts, int64_t *places) { \
    const int down = 256 / across, rows = 4 * rq * down, columns = 4 * cq * across; \
    const int half = CONV_DEPTH * (rows + columns); \
    const _Bool filters = v->w_column != 1; \
    int left = thread_index() % across, top = thread_index() / across, deep = thread_index() % 4 * 4; \
    int64_t panels = (v->columns + columns - 1) / columns, tiles = (v->rows + rows - 1) / rows, job = block_index(); \
    int64_t column = job % panels * columns, first = job / panels % tiles * rows, group = job / panels / tiles; \
    int64_t steps = (v->channels * v->window[0] * v->window[1] * v->window[2] + CONV_DEPTH - 1) / CONV_DEPTH; \
    x += group * v->x_group, w += group * v->w_group; \
    if (thread_index() < rows) conv_row(v, first + thread_index(), places, rows, thread_index()); \
    float sum[8][8], image[4][4], weights[2][4]; \
    UNROLL for (int i = 0; i < 64; i++) sum[i / 8][i % 8] = 0; \
    ConvTerm of_image = {{0, 0, 0}, 0}, of_weights = {{0, 0, 0}, 0}; \
    if (steps) conv_step(v, &of_image, deep), conv_step(v, &of_weights, top); \
    barrier(); \
    ROLL for (int64_t s = 0; s <= steps; s++) { /* part s is read while part s - 1 is multiplied */ \
      float *part = parts + (s & 1) * half, *ready = parts + (~s & 1) * half; \
      if (s < steps) { \
        UNROLL for (int i = 0; i < rows / 64; i++) \
          conv_image_##T(image[i], v, x, &of_image, places, rows, thread_index() / 4 + 64 * i); \
        UNROLL for (int q = 0; q < cq; q++) { \
          if (filters) { \
            int64_t of = thread_index() / 4 + 64 * q; \
            conv_filter_##T(weights[q], v, w, &of_image, of < columns ? column + of : v->columns); \
          } else if (top < CONV_DEPTH) { \
            conv_weights_##T(weights[q], v, w, &of_weights, column + 4 * (left + across * q)); \
          } \
        } \
        conv_step(v, &of_image, CONV_DEPTH), conv_step(v, &of_weights, CONV_DEPTH); \
      } \
      if (s > 0) ROLL for (int some = 0; some < CONV_DEPTH; some += 4) UNROLL for (int k = some; k < some + 4; k++) { \
        float a[8], b[8]; \
        UNROLL for (int i = 0; i < rq; i++) \
          load_wide(a + 4 * i, ready + k * rows + (4 * (top + down * i) ^ 2 * some), 16); \
        UNROLL for (int i = 0; i < cq; i++) \
          load_wide(b + 4 * i, ready + CONV_DEPTH * rows + k * columns + \
                    (4 * (left + across * i) ^ (filters ? 2 * some : 0)), 16); \
        UNROLL for (int i = 0; i < 4 * rq; i++) \
          UNROLL for (int j = 0; j < 4 * cq; j++) sum[i][j] = fused_f32(a[i], b[j], sum[i][j]); \
      } \
      if (s < steps) { /* rows lie so that writing four terms of eight rows meets no bank twice; columns too */ \
        UNROLL for (int i = 0; i < rows / 64; i++) \
          UNROLL for (int j = 0; j < 4; j++) \
              part[(deep + j) * rows + (thread_index() / 4 + 64 * i ^ 2 * deep)] = image[i][j]; \
        UNROLL for (int q = 0; q < cq; q++) { \
          int of = thread_index() / 4 + 64 * q; \
          UNROLL for (int j = 0; j < 4; j++) { \
            if (filters && of < columns) \
              part[CONV_DEPTH * rows + (deep + j) * columns + (of ^ 2 * deep)] = weights[q][j]; \
            if (!filters && top < CONV_DEPTH) \
              part[CONV_DEPTH * rows + top * columns + 4 * (left + across * q) + j] = weights[q][j]; \
          } \
        } \
      } \
      barrier(); \
    } \
    UNROLL for (int i = 0; i < 4 * rq; i++) { \
      int64_t at = places[4 * rows + 4 * (top + down * (i / 4)) + i % 4]; \
      UNROLL for (int q = 0; q < cq; q++) \
        if (at >= 0 && column + 4 * (left + across * q) < v->columns) \
            conv_store_##T(v, y, sum[i] + 4 * q, group, column + 4 * (left + across * q), at); \
    } \
  }
CONV(f32, float)
CONV(f16, uint16_t)
CONV(bf16, uint16_t)
/* codegen/cuda/dialect_indexing.h - bodies of the kernels of scatter, put, argsort, topk, scan and within in the
 * dialect.  Behind dialect.h; indexing.c prints the sizes and expands one macro per kernel.  Shapes are [outer, n,
 * inner] along the axis; values and index are the operands, y the result.
 *
 * Every element of a result has one owner, who combines its terms in the order of the operand: no atomic additions, and
 * the bits of the CPU kernels.  Put, argsort and topk look at the whole line for each element: their work is quadratic
 * in its length. */
/* Names of macros in a row are no statements. */
/* clang-format off */

/* x[outer, k, inner] into y[outer, n, inner] by index[k]: a warp has 128 columns of one row and looks at 32 names at a
 * time; the 8 warps of a block fetch 256 names at a time for all of them. */
#define SCATTER(T, stored, type, S, IDENTITY, COMBINE, I) do { \
    SHARED(int64_t, names, 256); \
    int64_t chunks = (inner + 127) / 128, job = block_index() * 8 + warp_index(); \
    int64_t c = job % chunks * 128 + lane_index(), row = job / chunks % n, o = job / chunks / n; \
    type acc[4]; \
    UNROLL for (int u = 0; u < 4; u++) acc[u] = IDENTITY; \
    for (int64_t i = 0; i < k; i += 256) { \
      int64_t at = i + thread_index(); \
      barrier(); \
      names[thread_index()] = at < k ? (int64_t)load_##I(index + at) - start : -1; \
      barrier(); \
      for (int some = 0; o < outer && some < 256; some += 32) { \
        _Bool named = names[some + lane_index()] == row; \
        if (!warp_or_bool(named)) continue; \
        for (int j = 0; j < 32; j++) { \
          if (!shuffle_bool(named, j)) continue; \
          const stored *from = values + (o * k + i + some + j) * inner + c; \
          UNROLL for (int u = 0; u < 4; u++) \
            if (c + 32 * u < inner) acc[u] = COMBINE(acc[u], load_##T(from + 32 * u)); \
        } \
      } \
    } \
    UNROLL for (int u = 0; u < 4; u++) \
      if (o < outer && c + 32 * u < inner) store_##T(y + (o * n + row) * inner + c + 32 * u, acc[u]); \
  } while (0)

/* The same with index[outer, k, inner]: a thread has one element of y. */
#define PUT(T, stored, type, S, IDENTITY, COMBINE, I) do { \
    int64_t i = block_index() * 256 + thread_index(), c = i % inner, row = i / inner % n, o = i / inner / n; \
    if (i >= outer * n * inner) return; \
    type acc = IDENTITY; \
    for (int64_t j = 0; j < k; j++) { \
      int64_t at = (o * k + j) * inner + c; \
      if ((int64_t)load_##I(index + at) == start + row) acc = COMBINE(acc, load_##T(values + at)); \
    } \
    store_##T(y + i, acc); \
  } while (0)

/* A thread has a line: neighbours have neighbouring columns. */
#define SCAN_COLUMNS(T, stored, type, S, IDENTITY, COMBINE) do { \
    int64_t line = block_index() * 256 + thread_index(), first = line / inner * n * inner + line % inner; \
    if (line >= outer * inner) return; \
    type acc = IDENTITY; \
    for (int64_t i = 0; i < n; i++) { \
      int64_t at = first + (reverse ? n - 1 - i : i) * inner; \
      type before = acc; \
      acc = COMBINE(before, load_##T(values + at)); \
      store_##T(y + at, exclusive ? before : acc); \
    } \
  } while (0)

/* inner is 1: a warp loads and stores 32 elements of its line at once and combines them one after another. */
#define SCAN_ROWS(T, stored, type, S, IDENTITY, COMBINE) do { \
    int64_t line = block_index() * 8 + warp_index(); \
    if (line >= outer) return; \
    type acc = IDENTITY; \
    for (int64_t i = 0; i < n; i += 32) { \
      int64_t mine = i + lane_index(), at = line * n + (reverse ? n - 1 - mine : mine); \
      type v = mine < n ? load_##T(values + at) : IDENTITY, result = IDENTITY; \
      UNROLL for (int j = 0; j < 32; j++) { \
        type before = acc; \
        acc = COMBINE(before, shuffle_##S(v, j)); \
        if (lane_index() == j) result = exclusive ? before : acc; \
      } \
      if (mine < n) store_##T(y + at, result); \
    } \
  } while (0)

/* A thread has an element; its place is the number of elements that come before it.  Equal ones keep their order, NaN
 * is the largest. */
#define COMES_BEFORE(p, q) (descending ? (q != q ? 0 : p != p || p > q) : (p != p ? 0 : q != q || p < q))
#define BY_PLACE(T, type, ...) do { \
    int64_t i = block_index() * 256 + thread_index(); \
    if (i >= outer * n * inner) return; \
    int64_t own = i / inner % n, first = i - own * inner, place = 0; \
    const type key = load_##T(values + i); \
    for (int64_t q = 0; q < own; q++) { \
      const type other = load_##T(values + first + q * inner); \
      place += !COMES_BEFORE(key, other); \
    } \
    for (int64_t q = own + 1; q < n; q++) { \
      const type other = load_##T(values + first + q * inner); \
      place += COMES_BEFORE(other, key); \
    } \
    __VA_ARGS__ \
  } while (0)
#define ARGSORT(T, type) BY_PLACE(T, type, y[first + place * inner] = own;)
/* Into y[outer, k, inner] and z. */
#define TOPK(T, type) BY_PLACE(T, type, { \
    int64_t at = i / inner / n * k * inner + i % inner + place * inner; \
    if (place < k) store_##T(y + at, key), z[at] = own; \
  })

/* program/index_fault.h */
typedef struct IndexNote { int64_t found, value, low, below, rank, place[8], instr; } IndexNote;

/* Of the launch that is under way: its first element outside, and how many blocks are done.  Between launches both are
 * as they are here. */
enum { NONE_OUTSIDE = -1 };
typedef struct IndexLook { uint64_t first; uint32_t done; } IndexLook;
STATE(IndexLook, index_look) = {(uint64_t)NONE_OUTSIDE, 0};

/* Copies indices values[n] into y; all must be in [low, below).  A thread has 4 elements.  The block that is done last
 * knows the first one outside, whatever the order of blocks, and notes it for the host, unless a launch before has
 * noted one.  Where nothing is outside, all that is written beside y is the count, and not even that by a block alone.
 * What follows makes place[] of element `at`. */
#define WITHIN(T, ...) do { \
    int64_t from = block_index() * 1024 + thread_index(); \
    uint64_t mine = (uint64_t)NONE_OUTSIDE; \
    UNROLL for (int u = 3; u >= 0; u--) { \
      int64_t i = from + 256 * u, v = i < n ? (int64_t)load_##T(values + i) : low; \
      if (i < n) y[i] = values[i]; \
      if (i < n && (v < low || v >= below)) mine = (uint64_t)i; \
    } \
    if (mine != (uint64_t)NONE_OUTSIDE) least_u64(&index_look.first, mine); \
    barrier(); \
    if (thread_index() || (blocks > 1 && !count_to(&index_look.done, (uint32_t)blocks))) return; \
    int64_t at = (int64_t)least_u64(&index_look.first, (uint64_t)NONE_OUTSIDE), *place = a.note->place; \
    if (at == NONE_OUTSIDE) return; \
    index_look.first = (uint64_t)NONE_OUTSIDE; \
    if (a.note->found) return; \
    a.note->value = (int64_t)load_##T(values + at); \
    a.note->low = low, a.note->below = below, a.note->rank = rank, a.note->instr = a.instr; \
    __VA_ARGS__ \
    a.note->found = 1; \
  } while (0)
/* codegen/cuda/dialect_grouped.h - grouped_dot in the dialect.  Behind dialect.h; grouped.c prints the calls.
 *
 * A block of 256 threads has 32 columns of one group's matrix, or of the rows of no group, which become zeros.  It
 * picks its rows out of all, 32 at a time in ascending order, and multiplies them through shared memory, 8 terms at a
 * time.  Every sum runs in the order of k with one rounding per term, as on CPUs.  No tensor cores, and the blocks of a
 * group with many rows work longer than others.
 */
/* Names of macros in a row are no statements. */
/* clang-format off */

typedef struct Grouped {
  int64_t rows, k, n, groups, start;
} Grouped;

FN int64_t grouped_group(const Grouped *g, int64_t index) {
  int64_t group = (int64_t)((uint64_t)index - (uint64_t)g->start);
  _Bool wraps = ((index ^ g->start) & (index ^ group)) < 0;
  return wraps || group < 0 || group >= g->groups ? g->groups : group;
}

FN float fma_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
FN double fma_f64(double a, double b, double c) { return __builtin_fma(a, b, c); }

/* The sum over the lanes before this one. */
FN int lanes_before(int v) {
  int sum = v;
  UNROLL for (int w = 1; w < 32; w *= 2) {
    int other = shuffle_i32(sum, (lane_index() - w) & 31);
    if (lane_index() >= w) sum += other;
  }
  return sum - v;
}

/* 256 threads: one element of each factor is loaded by each */
enum { GROUPED_ROWS = 32, GROUPED_COLUMNS = 32, GROUPED_DEPTH = 8 };

#define GROUPED(T, stored, C, type) \
  FN void grouped_##T(const Grouped *g, stored *y, const stored *x, const int64_t *index, const stored *w) { \
    SHARED(int64_t, row, GROUPED_ROWS); \
    SHARED(type, a, GROUPED_DEPTH * GROUPED_ROWS); \
    SHARED(type, b, GROUPED_DEPTH * GROUPED_COLUMNS); \
    int64_t panels = (g->n + GROUPED_COLUMNS - 1) / GROUPED_COLUMNS, group = block_index() / panels, \
        column = block_index() % panels * GROUPED_COLUMNS; \
    int64_t terms = group < g->groups ? g->k : 0; \
    int across = thread_index() % 8, down = thread_index() / 8; \
    w += (group < g->groups ? group : 0) * g->k * g->n; \
    for (int64_t next = 0; next < g->rows;) { \
      int count = 0; \
      while (next < g->rows && count < GROUPED_ROWS) { /* every warp finds the same rows */ \
        int64_t mine = next + lane_index(); \
        int own = mine < g->rows && grouped_group(g, index[mine]) == group, place = count + lanes_before(own), \
            taken = place + own <= GROUPED_ROWS; \
        if (own && taken && warp_index() == 0) row[place] = mine; \
        count += warp_sum_i32(taken ? own : 0); \
        next += warp_sum_i32(taken); \
      } \
      barrier(); \
      type sum[4]; \
      UNROLL for (int c = 0; c < 4; c++) sum[c] = 0; \
      for (int64_t p = 0; p < terms && count; p += GROUPED_DEPTH) { \
        int deep = thread_index() % GROUPED_DEPTH, r = thread_index() / GROUPED_DEPTH; \
        a[deep * GROUPED_ROWS + r] = r < count && p + deep < terms ? load_##T(x + row[r] * g->k + p + deep) : 0; \
        int64_t d = p + thread_index() / GROUPED_COLUMNS, c = column + thread_index() % GROUPED_COLUMNS; \
        b[thread_index()] = d < terms && c < g->n ? load_##T(w + d * g->n + c) : 0; \
        barrier(); \
        UNROLL for (int i = 0; i < GROUPED_DEPTH; i++) \
          UNROLL for (int j = 0; j < 4; j++) \
              sum[j] = fma_##C(a[i * GROUPED_ROWS + down], b[i * GROUPED_COLUMNS + across + 8 * j], sum[j]); \
        barrier(); \
      } \
      UNROLL for (int j = 0; j < 4; j++) \
        if (down < count && column + across + 8 * j < g->n) \
            store_##T(y + row[down] * g->n + column + across + 8 * j, sum[j]); \
      barrier(); \
    } \
  }
GROUPED(f32, float, f32, float)
GROUPED(f64, double, f64, double)
GROUPED(f16, uint16_t, f32, float)
GROUPED(bf16, uint16_t, f32, float)

/* block per row, 384 threads, 1 value x 32 steps in registers, 96 bytes shared */
typedef struct k0_add_args {
  const int64_t *p0;
  const uint16_t *p1;
  const uint16_t *p2;
  const uint16_t *p3;
  const uint16_t *p4;
  uint16_t *p5;
  uint16_t *p6;
} k0_add_args;
KERNEL(k0_add, k0_add_args, 384) {
  const int64_t *const p0 = a.p0;
  const uint16_t *const p1 = a.p1;
  const uint16_t *const p2 = a.p2;
  const uint16_t *const p3 = a.p3;
  const uint16_t *const p4 = a.p4;
  uint16_t *const p5 = a.p5;
  uint16_t *const p6 = a.p6;
  const int64_t n = INT64_C(12288), rows = INT64_C(1) * INT64_C(512);
  const int lane = lane_index();
  const int64_t row = block_index();
  SHARED(float, part0, 12);
  SHARED(float, part1, 12);
  if (row >= rows) return;
  int64_t rest = row;
  const int64_t i0 = rest;
  float k0[32];
  const int64_t v0 = load_i64(p0 + (i0));
  const int64_t v1 = (int64_t)50257ll;
  const _Bool v2 = lt_i64(v0, v1);
  const int64_t v3 = (int64_t)0ll;
  const _Bool v4 = ge_i64(v0, v3);
  const _Bool v5 = and_bool(v4, v2);
  const int64_t v6 = (int64_t)12288ll;
  const int64_t v7 = mul_i64(v0, v6);
  const float v9 = (0x0p+0f);
  const float v14 = to_f32_i64(v6);
  const float v21 = (0x1.4f8b58p-17f);
  Tree_f32 s0 = {0, 0};
  for (int64_t base = 0; base < 1; base++) {
    const int64_t block = base + 1024 * warp_index();
    float t0 = 0;
    if (block < n) {
      UNROLL for (int t = 0; t < 32; t++) {
        const int64_t i1 = block + 32 * t + lane;
        const float v8 = v5 ? load_bf16(p1 + (i1 + v7)) : 0;
        const float v10 = v5 ? v8 : v9;
        const float v11 = load_bf16(p2 + (i0 * INT64_C(12288) + i1));
        const float v12 = add_f32(v10, v11);
        const float v13 = to_f32_f32(v12);
        k0[t] = v13;
        store_bf16(p5 + (i0 * INT64_C(12288) + i1), v12);
        t0 = add_f32(t0, v13);
      }
    }
    t0 = warp_sum_f32(t0);
    if (lane == 0) part0[warp_index()] = t0;
    barrier();
    for (int w = 0; w < 12 && base + 1024 * w < n; w++) {
      push_f32(&s0, part0[w]);
    }
    barrier();
  }
  const float a0 = total_f32(&s0);
  const float v15 = a0;
  const float v16 = div_f32(v15, v14);
  Tree_f32 s1 = {0, 0};
  for (int64_t base = 0; base < 1; base++) {
    const int64_t block = base + 1024 * warp_index();
    float t1 = 0;
    if (block < n) {
      UNROLL for (int t = 0; t < 32; t++) {
        const int64_t i1 = block + 32 * t + lane;
        const float v13 = k0[t];
        const float v17 = sub_f32(v13, v16);
        const float v18 = mul_f32(v17, v17);
        t1 = add_f32(t1, v18);
      }
    }
    t1 = warp_sum_f32(t1);
    if (lane == 0) part1[warp_index()] = t1;
    barrier();
    for (int w = 0; w < 12 && base + 1024 * w < n; w++) {
      push_f32(&s1, part1[w]);
    }
    barrier();
  }
  const float a1 = total_f32(&s1);
  const float v19 = a1;
  const float v20 = div_f32(v19, v14);
  const float v22 = add_f32(v20, v21);
  const float v23 = rsqrt_f32(v22);
   {
    const int64_t block = 1024 * warp_index();
    if (block < n) {
      UNROLL for (int t = 0; t < 32; t++) {
        const int64_t i1 = block + 32 * t + lane;
        const float v13 = k0[t];
        const float v17 = sub_f32(v13, v16);
        const float v24 = mul_f32(v17, v23);
        const float v25 = load_bf16(p3 + (i1));
        const float v26 = mul_f32(v24, v25);
        const float v27 = load_bf16(p4 + (i1));
        const float v28 = add_f32(v26, v27);
        store_bf16(p6 + (i0 * INT64_C(12288) + i1), v28);
      }
    }
  }
}

/* elements, 256 threads, packets of 8 */
typedef struct k1_add_args {
  const uint16_t *p0;
  const uint16_t *p1;
  uint16_t *p2;
} k1_add_args;
KERNEL(k1_add, k1_add_args, 256) {
  const uint16_t *const p0 = a.p0;
  const uint16_t *const p1 = a.p1;
  uint16_t *const p2 = a.p2;
  const int64_t n = INT64_C(128), rows = INT64_C(1) * INT64_C(6) * INT64_C(512), pieces = (n + 7) / 8;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 8, i2 = first;
  const int64_t m = n - first < 8 ? n - first : 8;
  int64_t rest = row;
  const int64_t i1 = rest % INT64_C(512); rest /= INT64_C(512);
  const int64_t i0 = rest;
  float r0[8];
  load8_bf16(r0, p0 + (i0 * INT64_C(65536) + i1 * INT64_C(128) + i2), m);
  float r1[8];
  load8_bf16(r1, p1 + (i0 * INT64_C(128) + i2), m);
  float w0[8];
  UNROLL for (int e = 0; e < 8; e++) {
    const int64_t i2 = first + e;
    if (e < m) {
      const float v0 = r0[e];
      const float v1 = r1[e];
      const float v2 = add_f32(v0, v1);
      w0[e] = v2;
    }
  }
  store8_bf16(p2 + (i0 * INT64_C(65536) + i1 * INT64_C(128) + i2), w0, m);
}

/* elements, 256 threads, packets of 8 */
typedef struct k2_all_gather_args {
  const uint16_t *p0;
  uint16_t *p1;
} k2_all_gather_args;
KERNEL(k2_all_gather, k2_all_gather_args, 256) {
  const uint16_t *const p0 = a.p0;
  uint16_t *const p1 = a.p1;
  const int64_t n = INT64_C(128), rows = INT64_C(1) * INT64_C(512) * INT64_C(6), pieces = (n + 7) / 8;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 8, i2 = first;
  const int64_t m = n - first < 8 ? n - first : 8;
  int64_t rest = row;
  const int64_t i1 = rest % INT64_C(6); rest /= INT64_C(6);
  const int64_t i0 = rest;
  float r0[8];
  load8_bf16(r0, p0 + (i0 * INT64_C(128) + i1 * INT64_C(65536) + i2), m);
  float w0[8];
  UNROLL for (int e = 0; e < 8; e++) {
    const int64_t i2 = first + e;
    if (e < m) {
      const float v0 = r0[e];
      w0[e] = v0;
    }
  }
  store8_bf16(p1 + (i0 * INT64_C(768) + i1 * INT64_C(128) + i2), w0, m);
}

/* elements, 256 threads, packets of 8 */
typedef struct k3_all_gather_args {
  const uint16_t *p0;
  uint16_t *p1;
} k3_all_gather_args;
KERNEL(k3_all_gather, k3_all_gather_args, 256) {
  const uint16_t *const p0 = a.p0;
  uint16_t *const p1 = a.p1;
  const int64_t n = INT64_C(128), rows = INT64_C(1) * INT64_C(6) * INT64_C(2048), pieces = (n + 7) / 8;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 8, i2 = first;
  const int64_t m = n - first < 8 ? n - first : 8;
  int64_t rest = row;
  const int64_t i1 = rest % INT64_C(2048); rest /= INT64_C(2048);
  const int64_t i0 = rest;
  float r0[8];
  load8_bf16(r0, p0 + (i0 * INT64_C(128) + i1 * INT64_C(768) + i2), m);
  float w0[8];
  UNROLL for (int e = 0; e < 8; e++) {
    const int64_t i2 = first + e;
    if (e < m) {
      const float v0 = r0[e];
      w0[e] = v0;
    }
  }
  store8_bf16(p1 + (i0 * INT64_C(262144) + i1 * INT64_C(128) + i2), w0, m);
}

/* elements, 256 threads, packets of 2 */
typedef struct k4_iota_args {
  int64_t *p0;
  int64_t x[1];
} k4_iota_args;
KERNEL(k4_iota, k4_iota_args, 256) {
  const int64_t *const x = a.x;
  int64_t *const p0 = a.p0;
  const int64_t n = INT64_C(512), rows = INT64_C(1), pieces = (n + 1) / 2;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 2, i0 = first;
  const int64_t m = n - first < 2 ? n - first : 2;
  int64_t w0[2];
  UNROLL for (int e = 0; e < 2; e++) {
    const int64_t i0 = first + e;
    if (e < m) {
      const int64_t v0 = i0 + x[0];
      w0[e] = v0;
    }
  }
  store2_i64(p0 + (i0), w0, m);
}

/* elements, 256 threads, packets of 2 */
typedef struct k5_iota_args {
  int64_t *p0;
} k5_iota_args;
KERNEL(k5_iota, k5_iota_args, 256) {
  int64_t *const p0 = a.p0;
  const int64_t n = INT64_C(2048), rows = INT64_C(1), pieces = (n + 1) / 2;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 2, i0 = first;
  const int64_t m = n - first < 2 ? n - first : 2;
  int64_t w0[2];
  UNROLL for (int e = 0; e < 2; e++) {
    const int64_t i0 = first + e;
    if (e < m) {
      const int64_t v0 = i0;
      w0[e] = v0;
    }
  }
  store2_i64(p0 + (i0), w0, m);
}

/* elements, 256 threads */
typedef struct k6_size_args {
  int64_t *p0;
} k6_size_args;
KERNEL(k6_size, k6_size_args, 256) {
  int64_t *const p0 = a.p0;
  const int64_t n = INT64_C(1), rows = INT64_C(1), pieces = (n + 0) / 1;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 1, i0 = first;
  const int64_t v0 = (int64_t)2048ll;
  store_i64(p0 + (INT64_C(0)), v0);
}

/* 64 query rows per block, tensor cores, 128 threads */
typedef struct k7_attention_args {
  const uint16_t *p0;
  const uint16_t *p1;
  const uint16_t *p2;
  const int64_t *p3;
  const int64_t *p4;
  const int64_t *p5;
  uint16_t *p6;
} k7_attention_args;
KERNEL(k7_attention, k7_attention_args, 128) {
  SHARED(uint16_t, both, 17408);
  SHARED(int64_t, places, 192);
  Attention b;
  b.groups = INT64_C(6), b.rows = INT64_C(512), b.s = INT64_C(512), b.t = INT64_C(2048), b.k = INT64_C(128), b.e = INT64_C(128);
  b.causal = 1, b.query_position = a.p3, b.key_position = a.p4, b.length = *a.p5;
  b.bias = 0;
  b.lse = 0;
  attention_tensor_bf16(&b, a.p6, a.p0, a.p1, a.p2, 0x1.6a09e667f3bccp-4, 8, 8, both, places);
}

/* block per row, 384 threads, 1 value x 32 steps in registers, 96 bytes shared */
typedef struct k8_add_args {
  const uint16_t *p0;
  const uint16_t *p1;
  const uint16_t *p2;
  const uint16_t *p3;
  const uint16_t *p4;
  uint16_t *p5;
  uint16_t *p6;
  int64_t x[1];
} k8_add_args;
KERNEL(k8_add, k8_add_args, 384) {
  const int64_t *const x = a.x;
  const uint16_t *const p0 = a.p0;
  const uint16_t *const p1 = a.p1;
  const uint16_t *const p2 = a.p2;
  const uint16_t *const p3 = a.p3;
  const uint16_t *const p4 = a.p4;
  uint16_t *const p5 = a.p5;
  uint16_t *const p6 = a.p6;
  const int64_t n = INT64_C(12288), rows = INT64_C(1) * INT64_C(32);
  const int lane = lane_index();
  const int64_t row = block_index();
  SHARED(float, part0, 12);
  SHARED(float, part1, 12);
  if (row >= rows) return;
  int64_t rest = row;
  const int64_t i0 = rest;
  float k0[32];
  const int64_t v6 = (int64_t)12288ll;
  const float v7 = to_f32_i64(v6);
  const float v14 = (0x1.4f8b58p-17f);
  Tree_f32 s0 = {0, 0};
  for (int64_t base = 0; base < 1; base++) {
    const int64_t block = base + 1024 * warp_index();
    float t0 = 0;
    if (block < n) {
      UNROLL for (int t = 0; t < 32; t++) {
        const int64_t i1 = block + 32 * t + lane;
        const float v0 = load_bf16(p0 + (i0 * INT64_C(12288) + i1 + x[0]));
        const float v1 = load_bf16(p1 + (i0 * INT64_C(12288) + i1));
        const float v2 = load_bf16(p2 + (i1));
        const float v3 = add_f32(v1, v2);
        const float v4 = add_f32(v0, v3);
        const float v5 = to_f32_f32(v4);
        k0[t] = v5;
        store_bf16(p5 + (i0 * INT64_C(12288) + i1), v4);
        t0 = add_f32(t0, v5);
      }
    }
    t0 = warp_sum_f32(t0);
    if (lane == 0) part0[warp_index()] = t0;
    barrier();
    for (int w = 0; w < 12 && base + 1024 * w < n; w++) {
      push_f32(&s0, part0[w]);
    }
    barrier();
  }
  const float a0 = total_f32(&s0);
  const float v8 = a0;
  const float v9 = div_f32(v8, v7);
  Tree_f32 s1 = {0, 0};
  for (int64_t base = 0; base < 1; base++) {
    const int64_t block = base + 1024 * warp_index();
    float t1 = 0;
    if (block < n) {
      UNROLL for (int t = 0; t < 32; t++) {
        const int64_t i1 = block + 32 * t + lane;
        const float v5 = k0[t];
        const float v10 = sub_f32(v5, v9);
        const float v11 = mul_f32(v10, v10);
        t1 = add_f32(t1, v11);
      }
    }
    t1 = warp_sum_f32(t1);
    if (lane == 0) part1[warp_index()] = t1;
    barrier();
    for (int w = 0; w < 12 && base + 1024 * w < n; w++) {
      push_f32(&s1, part1[w]);
    }
    barrier();
  }
  const float a1 = total_f32(&s1);
  const float v12 = a1;
  const float v13 = div_f32(v12, v7);
  const float v15 = add_f32(v13, v14);
  const float v16 = rsqrt_f32(v15);
   {
    const int64_t block = 1024 * warp_index();
    if (block < n) {
      UNROLL for (int t = 0; t < 32; t++) {
        const int64_t i1 = block + 32 * t + lane;
        const float v5 = k0[t];
        const float v10 = sub_f32(v5, v9);
        const float v17 = mul_f32(v10, v16);
        const float v18 = load_bf16(p3 + (i1));
        const float v19 = mul_f32(v17, v18);
        const float v20 = load_bf16(p4 + (i1));
        const float v21 = add_f32(v19, v20);
        store_bf16(p6 + (i0 * INT64_C(12288) + i1), v21);
      }
    }
  }
}

/* elements, 256 threads, packets of 8 */
typedef struct k9_mul_args {
  const uint16_t *p0;
  uint16_t *p1;
} k9_mul_args;
KERNEL(k9_mul, k9_mul_args, 256) {
  const uint16_t *const p0 = a.p0;
  uint16_t *const p1 = a.p1;
  const int64_t n = INT64_C(1572864), rows = INT64_C(1), pieces = (n + 7) / 8;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 8, i0 = first;
  const int64_t m = n - first < 8 ? n - first : 8;
  const float v0 = (0x1p-1f);
  const float v3 = (0x1p+0f);
  const float v4 = (0x1.98p-1f);
  const float v5 = (0x1.6ep-5f);
  float r1[8];
  load8_bf16(r1, p0 + (i0), m);
  float w0[8];
  UNROLL for (int e = 0; e < 8; e++) {
    const int64_t i0 = first + e;
    if (e < m) {
      const float v1 = r1[e];
      const float v2 = mul_f32(v0, v1);
      const float v6 = mul_f32(v5, v1);
      const float v7 = mul_f32(v6, v1);
      const float v8 = mul_f32(v7, v1);
      const float v9 = add_f32(v1, v8);
      const float v10 = mul_f32(v4, v9);
      const float v11 = tanh_f32(v10);
      const float v12 = add_f32(v3, v11);
      const float v13 = mul_f32(v2, v12);
      w0[e] = v13;
    }
  }
  store8_bf16(p1 + (i0), w0, m);
}

/* block per row, 384 threads, 1 value x 32 steps in registers, 96 bytes shared */
typedef struct k10_add_args {
  const uint16_t *p0;
  const uint16_t *p1;
  const uint16_t *p2;
  const uint16_t *p3;
  const uint16_t *p4;
  uint16_t *p5;
  uint16_t *p6;
} k10_add_args;
KERNEL(k10_add, k10_add_args, 384) {
  const uint16_t *const p0 = a.p0;
  const uint16_t *const p1 = a.p1;
  const uint16_t *const p2 = a.p2;
  const uint16_t *const p3 = a.p3;
  const uint16_t *const p4 = a.p4;
  uint16_t *const p5 = a.p5;
  uint16_t *const p6 = a.p6;
  const int64_t n = INT64_C(12288), rows = INT64_C(1) * INT64_C(32);
  const int lane = lane_index();
  const int64_t row = block_index();
  SHARED(float, part0, 12);
  SHARED(float, part1, 12);
  if (row >= rows) return;
  int64_t rest = row;
  const int64_t i0 = rest;
  float k0[32];
  const int64_t v6 = (int64_t)12288ll;
  const float v7 = to_f32_i64(v6);
  const float v14 = (0x1.4f8b58p-17f);
  Tree_f32 s0 = {0, 0};
  for (int64_t base = 0; base < 1; base++) {
    const int64_t block = base + 1024 * warp_index();
    float t0 = 0;
    if (block < n) {
      UNROLL for (int t = 0; t < 32; t++) {
        const int64_t i1 = block + 32 * t + lane;
        const float v0 = load_bf16(p0 + (i0 * INT64_C(12288) + i1));
        const float v1 = load_bf16(p1 + (i0 * INT64_C(12288) + i1));
        const float v2 = load_bf16(p2 + (i1));
        const float v3 = add_f32(v1, v2);
        const float v4 = add_f32(v0, v3);
        const float v5 = to_f32_f32(v4);
        k0[t] = v5;
        store_bf16(p5 + (i0 * INT64_C(12288) + i1), v4);
        t0 = add_f32(t0, v5);
      }
    }
    t0 = warp_sum_f32(t0);
    if (lane == 0) part0[warp_index()] = t0;
    barrier();
    for (int w = 0; w < 12 && base + 1024 * w < n; w++) {
      push_f32(&s0, part0[w]);
    }
    barrier();
  }
  const float a0 = total_f32(&s0);
  const float v8 = a0;
  const float v9 = div_f32(v8, v7);
  Tree_f32 s1 = {0, 0};
  for (int64_t base = 0; base < 1; base++) {
    const int64_t block = base + 1024 * warp_index();
    float t1 = 0;
    if (block < n) {
      UNROLL for (int t = 0; t < 32; t++) {
        const int64_t i1 = block + 32 * t + lane;
        const float v5 = k0[t];
        const float v10 = sub_f32(v5, v9);
        const float v11 = mul_f32(v10, v10);
        t1 = add_f32(t1, v11);
      }
    }
    t1 = warp_sum_f32(t1);
    if (lane == 0) part1[warp_index()] = t1;
    barrier();
    for (int w = 0; w < 12 && base + 1024 * w < n; w++) {
      push_f32(&s1, part1[w]);
    }
    barrier();
  }
  const float a1 = total_f32(&s1);
  const float v12 = a1;
  const float v13 = div_f32(v12, v7);
  const float v15 = add_f32(v13, v14);
  const float v16 = rsqrt_f32(v15);
   {
    const int64_t block = 1024 * warp_index();
    if (block < n) {
      UNROLL for (int t = 0; t < 32; t++) {
        const int64_t i1 = block + 32 * t + lane;
        const float v5 = k0[t];
        const float v10 = sub_f32(v5, v9);
        const float v17 = mul_f32(v10, v16);
        const float v18 = load_bf16(p3 + (i1));
        const float v19 = mul_f32(v17, v18);
        const float v20 = load_bf16(p4 + (i1));
        const float v21 = add_f32(v19, v20);
        store_bf16(p6 + (i0 * INT64_C(12288) + i1), v21);
      }
    }
  }
}

/* block per row, 384 threads, 1 value x 32 steps in registers, 96 bytes shared */
typedef struct k11_add_args {
  const uint16_t *p0;
  const uint16_t *p1;
  const uint16_t *p2;
  const uint16_t *p3;
  const uint16_t *p4;
  uint16_t *p5;
} k11_add_args;
KERNEL(k11_add, k11_add_args, 384) {
  const uint16_t *const p0 = a.p0;
  const uint16_t *const p1 = a.p1;
  const uint16_t *const p2 = a.p2;
  const uint16_t *const p3 = a.p3;
  const uint16_t *const p4 = a.p4;
  uint16_t *const p5 = a.p5;
  const int64_t n = INT64_C(12288), rows = INT64_C(1) * INT64_C(32);
  const int lane = lane_index();
  const int64_t row = block_index();
  SHARED(float, part0, 12);
  SHARED(float, part1, 12);
  if (row >= rows) return;
  int64_t rest = row;
  const int64_t i0 = rest;
  float k0[32];
  const int64_t v6 = (int64_t)12288ll;
  const float v7 = to_f32_i64(v6);
  const float v14 = (0x1.4f8b58p-17f);
  Tree_f32 s0 = {0, 0};
  for (int64_t base = 0; base < 1; base++) {
    const int64_t block = base + 1024 * warp_index();
    float t0 = 0;
    if (block < n) {
      UNROLL for (int t = 0; t < 32; t++) {
        const int64_t i1 = block + 32 * t + lane;
        const float v0 = load_bf16(p0 + (i0 * INT64_C(12288) + i1));
        const float v1 = load_bf16(p1 + (i0 * INT64_C(12288) + i1));
        const float v2 = load_bf16(p2 + (i1));
        const float v3 = add_f32(v1, v2);
        const float v4 = add_f32(v0, v3);
        const float v5 = to_f32_f32(v4);
        k0[t] = v5;
        t0 = add_f32(t0, v5);
      }
    }
    t0 = warp_sum_f32(t0);
    if (lane == 0) part0[warp_index()] = t0;
    barrier();
    for (int w = 0; w < 12 && base + 1024 * w < n; w++) {
      push_f32(&s0, part0[w]);
    }
    barrier();
  }
  const float a0 = total_f32(&s0);
  const float v8 = a0;
  const float v9 = div_f32(v8, v7);
  Tree_f32 s1 = {0, 0};
  for (int64_t base = 0; base < 1; base++) {
    const int64_t block = base + 1024 * warp_index();
    float t1 = 0;
    if (block < n) {
      UNROLL for (int t = 0; t < 32; t++) {
        const int64_t i1 = block + 32 * t + lane;
        const float v5 = k0[t];
        const float v10 = sub_f32(v5, v9);
        const float v11 = mul_f32(v10, v10);
        t1 = add_f32(t1, v11);
      }
    }
    t1 = warp_sum_f32(t1);
    if (lane == 0) part1[warp_index()] = t1;
    barrier();
    for (int w = 0; w < 12 && base + 1024 * w < n; w++) {
      push_f32(&s1, part1[w]);
    }
    barrier();
  }
  const float a1 = total_f32(&s1);
  const float v12 = a1;
  const float v13 = div_f32(v12, v7);
  const float v15 = add_f32(v13, v14);
  const float v16 = rsqrt_f32(v15);
   {
    const int64_t block = 1024 * warp_index();
    if (block < n) {
      UNROLL for (int t = 0; t < 32; t++) {
        const int64_t i1 = block + 32 * t + lane;
        const float v5 = k0[t];
        const float v10 = sub_f32(v5, v9);
        const float v17 = mul_f32(v10, v16);
        const float v18 = load_bf16(p3 + (i1));
        const float v19 = mul_f32(v17, v18);
        const float v20 = load_bf16(p4 + (i1));
        const float v21 = add_f32(v19, v20);
        store_bf16(p5 + (i0 * INT64_C(12288) + i1), v21);
      }
    }
  }
}

/* elements, 256 threads, packets of 8 */
typedef struct k12_cast_args {
  const uint16_t *p0;
  float *p1;
  int64_t x[1];
} k12_cast_args;
KERNEL(k12_cast, k12_cast_args, 256) {
  const int64_t *const x = a.x;
  const uint16_t *const p0 = a.p0;
  float *const p1 = a.p1;
  const int64_t n = x[0], rows = INT64_C(1), pieces = (n + 7) / 8;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 8, i0 = first;
  const int64_t m = n - first < 8 ? n - first : 8;
  float r0[8];
  load8_bf16(r0, p0 + (i0), m);
  float w0[8];
  UNROLL for (int e = 0; e < 8; e++) {
    const int64_t i0 = first + e;
    if (e < m) {
      const float v0 = r0[e];
      const float v1 = to_f32_f32(v0);
      w0[e] = v1;
    }
  }
  store8_f32(p1 + (i0), w0, m);
}

/* elements, 256 threads, packets of 8 */
typedef struct k13_cast_args {
  const float *p0;
  uint16_t *p1;
} k13_cast_args;
KERNEL(k13_cast, k13_cast_args, 256) {
  const float *const p0 = a.p0;
  uint16_t *const p1 = a.p1;
  const int64_t n = INT64_C(617558016), rows = INT64_C(1), pieces = (n + 7) / 8;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 8, i0 = first;
  const int64_t m = n - first < 8 ? n - first : 8;
  float r0[8];
  load8_f32(r0, p0 + (i0), m);
  float w0[8];
  UNROLL for (int e = 0; e < 8; e++) {
    const int64_t i0 = first + e;
    if (e < m) {
      const float v0 = r0[e];
      const float v1 = to_bf16_f32(v0);
      w0[e] = v1;
    }
  }
  store8_bf16(p1 + (i0), w0, m);
}

/* elements, 256 threads, packets of 8 */
typedef struct k14_cast_args {
  const float *p0;
  uint16_t *p1;
} k14_cast_args;
KERNEL(k14_cast, k14_cast_args, 256) {
  const float *const p0 = a.p0;
  uint16_t *const p1 = a.p1;
  const int64_t n = INT64_C(6291456), rows = INT64_C(1), pieces = (n + 7) / 8;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 8, i0 = first;
  const int64_t m = n - first < 8 ? n - first : 8;
  float r0[8];
  load8_f32(r0, p0 + (i0), m);
  float w0[8];
  UNROLL for (int e = 0; e < 8; e++) {
    const int64_t i0 = first + e;
    if (e < m) {
      const float v0 = r0[e];
      const float v1 = to_bf16_f32(v0);
      w0[e] = v1;
    }
  }
  store8_bf16(p1 + (i0), w0, m);
}

/* elements, 256 threads, packets of 8 */
typedef struct k15_cast_args {
  const float *p0;
  uint16_t *p1;
} k15_cast_args;
KERNEL(k15_cast, k15_cast_args, 256) {
  const float *const p0 = a.p0;
  uint16_t *const p1 = a.p1;
  const int64_t n = INT64_C(12288), rows = INT64_C(1), pieces = (n + 7) / 8;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 8, i0 = first;
  const int64_t m = n - first < 8 ? n - first : 8;
  float r0[8];
  load8_f32(r0, p0 + (i0), m);
  float w0[8];
  UNROLL for (int e = 0; e < 8; e++) {
    const int64_t i0 = first + e;
    if (e < m) {
      const float v0 = r0[e];
      const float v1 = to_bf16_f32(v0);
      w0[e] = v1;
    }
  }
  store8_bf16(p1 + (i0), w0, m);
}

/* elements, 256 threads, packets of 8 */
typedef struct k16_cast_args {
  const float *p0;
  uint16_t *p1;
} k16_cast_args;
KERNEL(k16_cast, k16_cast_args, 256) {
  const float *const p0 = a.p0;
  uint16_t *const p1 = a.p1;
  const int64_t n = INT64_C(9437184), rows = INT64_C(1), pieces = (n + 7) / 8;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 8, i0 = first;
  const int64_t m = n - first < 8 ? n - first : 8;
  float r0[8];
  load8_f32(r0, p0 + (i0), m);
  float w0[8];
  UNROLL for (int e = 0; e < 8; e++) {
    const int64_t i0 = first + e;
    if (e < m) {
      const float v0 = r0[e];
      const float v1 = to_bf16_f32(v0);
      w0[e] = v1;
    }
  }
  store8_bf16(p1 + (i0), w0, m);
}

/* elements, 256 threads, packets of 8 */
typedef struct k17_cast_args {
  const float *p0;
  uint16_t *p1;
} k17_cast_args;
KERNEL(k17_cast, k17_cast_args, 256) {
  const float *const p0 = a.p0;
  uint16_t *const p1 = a.p1;
  const int64_t n = INT64_C(768), rows = INT64_C(1), pieces = (n + 7) / 8;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 8, i0 = first;
  const int64_t m = n - first < 8 ? n - first : 8;
  float r0[8];
  load8_f32(r0, p0 + (i0), m);
  float w0[8];
  UNROLL for (int e = 0; e < 8; e++) {
    const int64_t i0 = first + e;
    if (e < m) {
      const float v0 = r0[e];
      const float v1 = to_bf16_f32(v0);
      w0[e] = v1;
    }
  }
  store8_bf16(p1 + (i0), w0, m);
}

/* elements, 256 threads, packets of 8 */
typedef struct k18_cast_args {
  const float *p0;
  uint16_t *p1;
} k18_cast_args;
KERNEL(k18_cast, k18_cast_args, 256) {
  const float *const p0 = a.p0;
  uint16_t *const p1 = a.p1;
  const int64_t n = INT64_C(37748736), rows = INT64_C(1), pieces = (n + 7) / 8;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 8, i0 = first;
  const int64_t m = n - first < 8 ? n - first : 8;
  float r0[8];
  load8_f32(r0, p0 + (i0), m);
  float w0[8];
  UNROLL for (int e = 0; e < 8; e++) {
    const int64_t i0 = first + e;
    if (e < m) {
      const float v0 = r0[e];
      const float v1 = to_bf16_f32(v0);
      w0[e] = v1;
    }
  }
  store8_bf16(p1 + (i0), w0, m);
}

/* elements, 256 threads, packets of 8 */
typedef struct k19_cast_args {
  const float *p0;
  uint16_t *p1;
} k19_cast_args;
KERNEL(k19_cast, k19_cast_args, 256) {
  const float *const p0 = a.p0;
  uint16_t *const p1 = a.p1;
  const int64_t n = INT64_C(3072), rows = INT64_C(1), pieces = (n + 7) / 8;
  const int64_t piece = block_index() * 256 + thread_index();
  if (piece >= rows * pieces) return;
  const int64_t row = piece / pieces, first = piece % pieces * 8, i0 = first;
  const int64_t m = n - first < 8 ? n - first : 8;
  float r0[8];
  load8_f32(r0, p0 + (i0), m);
  float w0[8];
  UNROLL for (int e = 0; e < 8; e++) {
    const int64_t i0 = first + e;
    if (e < m) {
      const float v0 = r0[e];
      const float v1 = to_bf16_f32(v0);
      w0[e] = v1;
    }
  }
  store8_bf16(p1 + (i0), w0, m);
}

