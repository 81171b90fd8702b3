/* passes/cost/cpu.h - seconds of operations on a CPU that `apc calibrate` has measured (Target.small), without
 * launches.
 *
 * Small programs on CPUs differ from large kernels: data in a cache moves many times faster, little work runs on one
 * core, and library calls have a fixed cost.  The rate of data follows from the footprint on all ranks together, so
 * that parts of an operation are never faster than the whole; the search's bounds over micro-batches rely on this.
 */
#ifndef APC_PASSES_COST_CPU_H
#define APC_PASSES_COST_CPU_H

#include "ir/target.h"
#include "passes/cost/dot.h"

/* Returns the bytes per second of a rank whose footprint is `footprint` bytes. */
double cost_cpu_rate(const Target *t, double footprint);
/* The same for weights that products read; `all`: bytes of all these weights. */
double cost_cpu_weights_rate(const Target *t, double all);
/* `all`: seconds on all threads of a rank.  Returns the seconds on one thread if there is too little work to share. */
double cost_cpu_shared(const Target *t, double all, bool alone);
/* Returns the seconds of one dot with its memory traffic; `panels`: its weight lies in panels (codegen/panels.h). */
double cost_cpu_product(const Target *t, const DotWork *w, double arithmetic, double memory, bool panels);
/* A convolution of `flops` operations and `elements` elements of the result, of `columns` channels each. */
double cost_cpu_conv(const Target *t, DType type, ConvWay way, double flops, double elements, double columns,
                     double memory);
/* Attention of `heads` heads (of all samples) with `rows` queries and `keys` keys each; `share` of all pairs is
 * computed. */
double cost_cpu_attention(const Target *t, double heads, double rows, double keys, double depth, double share,
                          double arithmetic, double memory);
/* One operation on `elements` elements in a kernel of rows that costs `work` additions per element. */
double cost_cpu_rows(const Target *t, OpKind kind, double elements, double work, double memory, int launches);
/* Returns the upper limit of the rate of products, convolutions and attention, as a multiple of the sustained rate. */
double cost_cpu_fastest(const Target *t);

#endif
