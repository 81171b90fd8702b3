/* passes/cost/kernel.h - seconds of one kernel on a device of a target, without its launch. */
#ifndef APC_PASSES_COST_KERNEL_H
#define APC_PASSES_COST_KERNEL_H

#include "ir/target.h"

/* `batch` products of m x k by k x n, with values of the given type (target_compute). */
double cost_product_seconds(const Target *t, DType type, double batch, double m, double n, double k);
/* m x k by k x n with a weight of a 16-bit type, by the kernel for few rows (codegen/rows/work_few.c): it computes in
 * f32 and reads the weight once for every 8 rows. */
double cost_few_seconds(const Target *t, DType type, double m, double n, double k);
/* `flops` operations at the rate of large products: convolutions of a library. */
double cost_flops_seconds(const Target *t, DType type, double flops);
/* `flops` operations in one of our own kernels: at the rate of large products if the kernel uses their units
 * (ir/device.def), else at that of f32. */
double cost_kernel_seconds(const Target *t, MatrixKernel kernel, DType type, double flops);
/* Returns the share of all pairs of queries and keys that causal attention computes, for the last queries and the first
 * of all keys: whole blocks of keys that any of 64 queries sees.  The last query sees the last key; if there are more
 * queries than keys, the first queries see none. */
double cost_causal_share(double queries, double keys, double all_keys);
/* Returns a lower bound for products of `flops` operations of any shapes. */
double cost_least_seconds(const Target *t, DType type, double flops);
/* `bytes`: read and written together. */
double cost_memory_seconds(const Target *t, double bytes);

#endif
