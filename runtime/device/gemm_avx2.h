/* runtime/device/gemm_avx2.h - f32 matrix products on processors with AVX2 and without AVX-512.
 *
 * oneDNN's kernels for these add the terms of a tile at the edge in another order than those of a whole one, so that
 * equal columns of a product differ.  Here every element is one chain of fused multiply-adds in the order of the summed
 * index, whatever its place, the tile and the threads: equal rows and equal columns give equal bits.
 */
#ifndef APC_RUNTIME_DEVICE_GEMM_AVX2_H
#define APC_RUNTIME_DEVICE_GEMM_AVX2_H

#include <stdbool.h>
#include <stdint.h>

enum {
  GEMM_AVX2_COLUMNS = 16,
  GEMM_AVX2_ROWS = 6,
  GEMM_AVX2_ROOM = 256 * (256 + GEMM_AVX2_ROWS)
}; /* of a tile; floats of scratch memory */

/* Does this processor have what the kernel needs? */
bool gemm_avx2_supported(void);

/* C[m][n] = A B, or C += A B with `accumulate`; A and B by any strides, B with a unit stride in one dimension, C by
 * rows of contiguous columns. */
typedef struct GemmAvx2 {
  int64_t m, n, k, a_m, a_k, b_k, b_n, c_m;
  bool accumulate;
  bool vector; /* this is, or is part of, a product of one row or one column: it is read once, and summed in an order of
                  its own */
  const float *a, *b;
  float *c;
} GemmAvx2;
void gemm_avx2(const GemmAvx2 *g, float *room);

#endif
