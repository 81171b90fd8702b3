/* runtime/device/gemm_avx2.h - f32 matrix products on processors with AVX2 and without AVX-512.
 *
 * oneDNN's kernels for these processors add the terms of an edge tile in another order than those of a whole tile, so
 * that equal columns of a product differ.  Here every element is one chain of fused multiply-adds in the order of the
 * summed index, for any place, tile and number of threads: equal rows and equal columns give equal bits.
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

/* True if this processor has the instructions that the kernel needs. */
bool gemm_avx2_supported(void);

/* C[m][n] = A B, or C += A B with `accumulate`.  A and B have any strides, B with a unit stride in one dimension; C has
 * rows of contiguous columns. */
typedef struct GemmAvx2 {
  int64_t m, n, k, a_m, a_k, b_k, b_n, c_m;
  bool accumulate;
  bool vector; /* a product of one row or one column, or a part of it: its matrix is read once, and summed in an order
                * of its own */
  const float *a, *b;
  float *c;
} GemmAvx2;
/* Computes the product on the caller's thread; room[GEMM_AVX2_ROOM] is scratch memory. */
void gemm_avx2(const GemmAvx2 *g, float *room);

#endif
