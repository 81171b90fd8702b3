/* runtime/device/gemm_dnnl.h - f32 matrix products on the CPU, by oneDNN, where its kernels are those for AVX2 by our
 * own (gemm_avx2.h); with B in panels by our own everywhere (gemm_panels.h).
 *
 * dnnl_sgemm is the same in all versions of the library (onednn.h).  Batches of small products are spread over the
 * threads of libgomp, the OpenMP run time that oneDNN and our kernels use; large products are threaded inside oneDNN.
 * The sum order of a product depends on oneDNN's choice for the number of threads: results are reproducible for equal
 * shapes, threads and machine, not across them.  All elements of one product are summed in one order: equal rows and
 * equal columns give equal bits.
 */
#ifndef APC_RUNTIME_DEVICE_GEMM_DNNL_H
#define APC_RUNTIME_DEVICE_GEMM_DNNL_H

#include "program/device_calls.h"

/* RT_UNSUPPORTED, naming the package, when there is no oneDNN on this machine. */
RtStatus gemm_open(RtError *error);

/* A, B and C must each have a unit stride in one of their two dimensions (or an extent of 1 there); RT_INTERNAL
 * otherwise.  Any extent may be 0: with k = 0 the product is 0.  What follows the product is done behind it, in plain
 * loops. */
RtStatus gemm_run(const GemmCall *call, RtError *error);

/* Instruction `pack` (program.def): numbers[4] are rows, columns and the steps from one to the next in `from`, whose
 * elements may lie at any address; panels are `panel` elements apart, which are more where these rows are not all. */
void gemm_pack(const float *from, const int64_t *numbers, float *to, int64_t panel);

/* Calls body(data) once on each of the threads that products are computed with. */
void gemm_parallel(void (*body)(void *), void *data);

#endif
