/* program/shares.h - from how much work on a CPU shares it among its threads: constants of our kernels and of the
 * runtime, which prices of measured CPUs count with (passes/cost/cpu.c). */
#ifndef APC_PROGRAM_SHARES_H
#define APC_PROGRAM_SHARES_H

/* Multiply-adds of all products of a batch: one core does 1e6 in about 10 us, and waking a thread is a system call. */
#define SHARES_PRODUCT 1e6
/* Multiply-adds of a convolution below which one thread is faster: 2 us, 8 where each channel has its own filter, which
 * is bound by memory. */
#define SHARES_CONVOLUTION 2e5
/* Vectorised additions of a kernel of ours: about 2.5 us of one core (PARALLEL_WORK, codegen/cpu/kernel_templates.h,
 * whose text programs are compiled from). */
#define SHARES_KERNEL 262144

#endif
