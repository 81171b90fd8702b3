/* codegen/cuda/prelude_device.h - the names of the dialect on a GPU.  Begins every emitted CUDA text, which needs no
 * header of a toolkit: NVRTC and nvcc compile it as it is (--fmad=false keeps a * b + c in two roundings, as on CPUs).
 *
 * The dialect is C11 that is also CUDA C++, with this closed list of names: FN CALLED KERNEL IN_PLACE SHARED TABLE
 * STATE UNROLL ROLL, thread_index block_index, barrier warp_barrier, shuffle_u32 shuffle_u64, load_wide store_wide,
 * copy_async copy_wait, load_matrices load_matrices_turned, tensor_f16 tensor_bf16, pack_f16 pack_bf16, exp2_fast,
 * least_u64 count_to; dialect.h builds the others from them.  tests/dialect/prelude_host.h defines the same names on
 * CPUs and may precede a text.
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
/* kernel_elements.h uses the names of the C compiler. */
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
/* Not inlined: if a kernel inlines several of them, ptxas runs out of registers. */
#define CALLED static __device__ __noinline__
/* A kernel takes one struct `a` by value: pointers, then scalars, eight bytes each. */
#define KERNEL(name, args, threads) extern "C" __global__ void __launch_bounds__(threads) name(const args a)
/* Before the type of an argument: it is read in place, also at computed indices.  Others take fewer registers without
 * it (102 instead of 138 for a norm). */
#define IN_PLACE __grid_constant__
/* Read 16 bytes at a time, if it is that large. */
#define SHARED(type, name, count) __shared__ alignas(sizeof(type) * (count) < 64 ? sizeof(type) : 16) type name[count]
#define TABLE(type, name, count) static __device__ const type name[count]
/* Shared by all launches of a device. */
#define STATE(type, name) static __device__ type name
#define UNROLL _Pragma("unroll")
#define UNROLL_4 _Pragma("unroll 4")
#define ROLL _Pragma("unroll 1")

FN int thread_index(void) { return (int)threadIdx.x; }
FN int64_t block_index(void) { return (int64_t)blockIdx.x; }
FN void barrier(void) { __syncthreads(); }
FN void warp_barrier(void) { __syncwarp(); }
/* Returns the value of lane `from`; every lane of the warp takes part. */
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
/* Written out: NVRTC splits a copy of sixteen bytes into its elements. */
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

/* Copies 16 bytes into shared memory, where they are only valid after this thread has called copy_wait; bytes = 0:
 * writes zeros, and reads nothing.  Both addresses are aligned to 16. */
FN void copy_async(void *to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"((uint32_t)__cvta_generic_to_shared(to)),
               "l"(__cvta_generic_to_global(from)), "r"(bytes)
               : "memory");
}
FN void copy_wait(void) { asm volatile("cp.async.wait_all;" ::: "memory"); }

/* Loads four matrices of 8 x 8 16-bit numbers from shared memory: lane l passes the address of row l % 8 of matrix l /
 * 8, and gets of each matrix m two neighbours as r[m]: row l / 4, columns 2 (l % 4) and the next; turned: of the
 * transposed matrix.
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

/* d[16 x 8] += a[16 x 16] b[16 x 8] by the warp, distributed over lanes as mma.sync.m16n8k16 specifies. */
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

/* Returns 2^x, to two units in the last place. */
FN float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

/* *p = min(*p, v); returns the old value. */
FN uint64_t least_u64(uint64_t *p, uint64_t v) { return atomicMin((unsigned long long *)p, (unsigned long long)v); }
/* True for the last of n calls, which sees all earlier writes of the other blocks; *count is 0 again. */
FN _Bool count_to(uint32_t *count, uint32_t n) {
  __threadfence();
  uint32_t before = atomicInc(count, n - 1);
  __threadfence();
  return before == n - 1;
}
#endif
