/* passes/cost/cpu.c - see cpu.h. */
#include "passes/cost/cpu.h"

#include <math.h>

#include "passes/cost/kernel.h"
#include "program/epilogue.h"
#include "program/shares.h"

static double rate_in(const Target *t, int n, const CpuCache *caches, double bytes) {
  for (int i = 0; i < n; i++)
    if (bytes <= caches[i].bytes) return caches[i].bandwidth;
  return fmin(n ? caches[n - 1].bandwidth : INFINITY, t->memory_bandwidth * t->kernels.bandwidth);
}

double cost_cpu_rate(const Target *t, double footprint) {
  return rate_in(t, t->small->ncaches, t->small->caches, footprint);
}

double cost_cpu_weights_rate(const Target *t, double all) {
  return t->small->nweights ? rate_in(t, t->small->nweights, t->small->weights, all) : cost_cpu_rate(t, all);
}

double cost_cpu_shared(const Target *t, double all, bool alone) {
  const CpuCosts *x = t->small;
  if (x->threads <= 1) return all;
  return alone ? all * x->threads : fmin(all * x->threads, x->fork + all);
}

/* The library first copies the second operand of each product; threads do not share that copy. */
double cost_cpu_product(const Target *t, const DotWork *w, double arithmetic, double memory, bool panels) {
  const CpuCosts *x = t->small;
  double macs = w->batch * w->m * w->n * w->k, copied = w->k * w->n * (w->turned ? x->turned : x->pack);
  double seconds = cost_cpu_shared(t, fmax(arithmetic, memory), macs < SHARES_PRODUCT);
  return panels ? seconds : seconds + w->batch * (x->product + copied);
}

double cost_cpu_conv(const Target *t, DType type, ConvWay way, double flops, double elements, double columns,
                     double memory) {
  const CpuConv *x = &t->small->conv[way];
  double filled = ceil(columns / PROGRAM_PANEL) * PROGRAM_PANEL / fmax(1, columns);
  double all = cost_flops_seconds(t, type, flops * filled) / x->share + elements * x->element;
  return x->begin + (t->small->threads > 1 ? x->shared : 0) +
         cost_cpu_shared(t, fmax(all, memory), flops / 2 < SHARES_CONVOLUTION);
}

double cost_cpu_attention(const Target *t, double heads, double rows, double keys, double depth, double share,
                          double arithmetic, double memory) {
  const CpuCosts *x = t->small;
  double pairs = heads * rows * keys;
  double all = fmax(arithmetic, memory) + heads * x->group + heads * rows * x->row + pairs * share * x->pair;
  return cost_cpu_shared(t, all, pairs * 2 * depth < SHARES_KERNEL);
}

double cost_cpu_rows(const Target *t, OpKind kind, double elements, double work, double memory, int launches) {
  const CpuCosts *x = t->small;
  double all = memory + elements * x->element[kind];
  if (x->threads <= 1) return all;
  return elements * work < SHARES_KERNEL ? all * x->threads : fmin(all * x->threads, all + launches * x->fork);
}

double cost_cpu_fastest(const Target *t) {
  double most = fmax(1, t->kernels.attention);
  for (int i = 0; i < CONV_WAYS; i++) most = fmax(most, t->small->conv[i].share);
  return most;
}
