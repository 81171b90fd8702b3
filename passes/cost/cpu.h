/* passes/cost/cpu.h - what operations take on a cpu that `apc calibrate` has measured (Target.small), without launches.
 *
 * A cpu's programs differ from what large kernels suggest: what fits into a cache moves many times as fast, little work
 * runs on one core alone, and calls of a library have a beginning.  How fast something moves follows from how much it
 * is on all ranks together, so that parts of an operation are never faster than the whole, on which the search's
 * bounds over micro-batches rest.
 */
#ifndef APC_PASSES_COST_CPU_H
#define APC_PASSES_COST_CPU_H

#include "ir/target.h"
#include "passes/cost/dot.h"

/* Bytes per second of a rank, for what moves of so many bytes of a rank. */
double cost_cpu_rate(const Target *t, double footprint);
/* The same of weights that products read, of which all together are so much. */
double cost_cpu_weights_rate(const Target *t, double all);
/* `all`: seconds on all threads of a rank; by one of them where the work is less than what is shared. */
double cost_cpu_shared(const Target *t, double all, bool alone);
/* One dot, with what it moves; `panels`: its weight lies in panels (codegen/panels.h). */
double cost_cpu_product(const Target *t, const DotWork *w, double arithmetic, double memory, bool panels);
/* A convolution of `flops` operations with `elements` of its result, of `columns` channels each. */
double cost_cpu_conv(const Target *t, DType type, ConvWay way, double flops, double elements, double columns,
                     double memory);
/* Attention of `heads` heads (of all samples) with rows queries each, and so many keys; `share` of all pairs is
 * computed. */
double cost_cpu_attention(const Target *t, double heads, double rows, double keys, double depth, double share,
                          double arithmetic, double memory);
/* A part of a kernel of rows: elements of an operation, in a kernel whose elements take `work` additions. */
double cost_cpu_rows(const Target *t, OpKind kind, double elements, double work, double memory, int launches);
/* The rate that no product, convolution or attention passes, as a multiple of the sustained one. */
double cost_cpu_fastest(const Target *t);

#endif
