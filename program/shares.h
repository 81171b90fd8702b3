/* program/shares.h - the least work that a CPU shares among its threads: constants of our kernels and of the runtime,
 * which prices of measured CPUs use as well (passes/cost/cpu.c). */
#ifndef APC_PROGRAM_SHARES_H
#define APC_PROGRAM_SHARES_H

/* Multiply-adds of all products of a batch: one core does 1e6 in about 10 us, and waking a thread is a system call. */
#define SHARES_PRODUCT 1e6
/* Multiply-adds of a convolution below which one thread is faster: 2 us, or 8 us if each channel has its own filter,
 * which is memory-bound. */
#define SHARES_CONVOLUTION 2e5
/* Vectorised additions of a kernel of ours: about 2.5 us of one core (equal to PARALLEL_WORK of
 * codegen/cpu/kernel_templates.h, which programs are compiled from). */
#define SHARES_KERNEL 262144

#endif
