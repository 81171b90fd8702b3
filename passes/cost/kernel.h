/* passes/cost/kernel.h - what one kernel costs on a device of a target, without its launch. */
#ifndef APC_PASSES_COST_KERNEL_H
#define APC_PASSES_COST_KERNEL_H

#include "ir/target.h"

/* `batch` products of m x k with k x n, of values of a type (target_compute). */
double cost_product_seconds(const Target *t, DType type, double batch, double m, double n, double k);
/* So many operations at the rate of large products: convolutions of a library. */
double cost_flops_seconds(const Target *t, DType type, double flops);
/* So many operations of a kernel of ours: at the rate of large products where the kernel uses their units
 * (ir/device.def), else at that of f32. */
double cost_kernel_seconds(const Target *t, MatrixKernel kernel, DType type, double flops);
/* Which part of all pairs of queries and keys causal attention computes, of the last queries and the first of all keys:
 * whole blocks of keys that some of 64 queries see.  The last query sees the last key; where there are more queries
 * than keys, the first see none. */
double cost_causal_share(double queries, double keys, double all_keys);
/* What products of so many operations take at least, whatever their shapes. */
double cost_least_seconds(const Target *t, DType type, double flops);
/* Bytes read and written together. */
double cost_memory_seconds(const Target *t, double bytes);

#endif
