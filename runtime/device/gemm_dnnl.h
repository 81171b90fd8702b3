/* runtime/device/gemm_dnnl.h - f32 matrix products on the CPU: by oneDNN; by our own kernel where oneDNN would use AVX2
 * (gemm_avx2.h); and always by our own kernel if B lies in panels (gemm_panels.h).
 *
 * dnnl_sgemm is the same in all versions of the library (onednn.h).  Batches of small products are spread over the
 * threads of libgomp, the OpenMP run time of oneDNN and our kernels; large products are threaded inside oneDNN.  The
 * order of sums depends on oneDNN's choice for the number of threads: results are reproducible for equal shapes,
 * threads and machine, not across them.  All elements of one product are summed in one order: equal rows and equal
 * columns give equal bits.
 */
#ifndef APC_RUNTIME_DEVICE_GEMM_DNNL_H
#define APC_RUNTIME_DEVICE_GEMM_DNNL_H

#include "program/device_calls.h"

/* Opens the library.  RT_UNSUPPORTED, naming the package, if there is no oneDNN on this machine. */
RtStatus gemm_open(RtError *error);

/* Computes the products of a call.  A, B and C must each have a unit stride in one of their two dimensions (or an
 * extent of 1 there); else RT_INTERNAL.  Any extent may be 0: with k = 0 the product is 0.  Without panels, plain loops
 * apply the epilogue after the product. */
RtStatus gemm_run(const GemmCall *call, RtError *error);

/* Executes the instruction `pack` (program.def) on elements of that type. numbers[4] are rows, columns and the steps
 * from one to the next in `from`, which need not be aligned.  Panels are `panel` elements apart, which is more than
 * these rows if they are not all. */
void gemm_pack(DType type, const void *from, const int64_t *numbers, void *to, int64_t panel);

/* Calls body(data) once on each thread that computes products. */
void gemm_parallel(void (*body)(void *), void *data);

#endif
