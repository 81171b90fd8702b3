/* passes/cost/kernel.c - see kernel.h.
 *
 * A product is cut into tiles.  Each multiprocessor works on one tile at a time, so tiles come in waves; a tile beyond
 * the edge or a partial wave costs as much as a full one (NVIDIA, "Matrix Multiplication Background", chapter 3).  The
 * model takes the best tile of the device, with the depth whole or split into 2, 4, ... parts (split-K) whose sums are
 * added later.  A product of few rows may also run without tiles, row by row as its matrix streams in (GEMV).  If
 * multiprocessors or tiles are unknown, the sustained rate holds for all shapes.  The model guarantees that n parts of
 * a product are never faster than the whole; the search's bounds over micro-batches rely on it.
 */
#include "passes/cost/kernel.h"

#include <math.h>

#include "passes/cost/cpu.h"

enum { MOST_PARTS = 64, LEAST_DEPTH = 64, VECTOR_ROWS = 8 };

static double sustained_rate_in(const Target *t, ComputeType c) {
  double share = t->has_kernels && !isnan(t->kernels.sustained[c]) ? t->kernels.sustained[c] : 1;
  return t->flops[c] * share;
}

static double sustained_rate(const Target *t, DType type) { return sustained_rate_in(t, target_compute(t, type)); }

/* Returns bytes per second; on a measured CPU those of its last cache, where most data is (cost_cpu_rate is more
 * exact). */
static double bandwidth(const Target *t) {
  if (t->small && t->small->ncaches) return t->small->caches[t->small->ncaches - 1].bandwidth;
  return t->memory_bandwidth * (t->has_kernels ? t->kernels.bandwidth : 1);
}

/* The rate of products of a type, and the depth that costs as much as a tile's start and end. */
typedef struct Rate {
  double flops, prologue;
} Rate;

/* Products in fp8 have 16-bit results, so the ends of their tiles take as long as in bf16. */
static Rate product_rate(const Target *t, DType type) {
  ComputeType c = target_compute(t, type);
  double flops = sustained_rate_in(t, c);
  bool longer = c == CT_fp8 && t->flops[CT_bf16] > 0;
  return (Rate){flops, t->kernels.prologue * (longer ? flops / sustained_rate_in(t, CT_bf16) : 1)};
}

/* Split-K: the depth is split into `parts`, with that many times more tiles, and f32 partial sums that are written and
 * read again. */
static double split_seconds(const Target *t, const KernelTile *tile, Rate rate, double parts, double batch, double m,
                            double n, double k) {
  double tiles = parts * batch * ceil(m / tile->rows) * ceil(n / tile->columns), waves = tiles / t->sms,
         s = t->kernels.smoothing;
  double counted = waves <= 1 ? 1 : (1 - s) * ceil(waves) + s * waves,
         sums = parts > 1 ? 2 * parts * batch * m * n * 4 : 0;
  return counted * 2 * tile->rows * tile->columns * (ceil(k / parts) + rate.prologue) * t->sms /
             (rate.flops * tile->share) +
         sums / bandwidth(t);
}

static double tiled_seconds(const Target *t, const KernelTile *tile, Rate rate, double batch, double m, double n,
                            double k) {
  double best = split_seconds(t, tile, rate, 1, batch, m, n, k);
  for (double parts = 2; parts <= MOST_PARTS && k / parts >= LEAST_DEPTH; parts *= 2)
    best = fmin(best, split_seconds(t, tile, rate, parts, batch, m, n, k));
  return best;
}

/* Few rows or columns: without tiles, in f32 or f64, at the rate at which the matrix streams in, once for every
 * VECTOR_ROWS of them.  Either operand may be the matrix. */
static double vector_seconds(const Target *t, DType type, double batch, double m, double n, double k) {
  ComputeType c = target_compute(t, type), single = c == CT_f64 ? CT_f64 : CT_f32;
  double streamed = fmin(ceil(m / VECTOR_ROWS) * n, ceil(n / VECTOR_ROWS) * m) * batch * k * (double)dtype_bytes(type);
  if (!(t->flops[single] > 0)) return INFINITY;
  return fmax(2 * batch * m * n * k / sustained_rate_in(t, single), streamed / bandwidth(t));
}

double cost_few_seconds(const Target *t, DType type, double m, double n, double k) {
  double flops = t->flops[CT_f32];
  if (!(flops > 0)) return cost_product_seconds(t, type, 1, m, n, k);
  return fmax(2 * m * n * k / sustained_rate_in(t, CT_f32),
              ceil(m / VECTOR_ROWS) * n * k * (double)dtype_bytes(type) / bandwidth(t));
}

double cost_product_seconds(const Target *t, DType type, double batch, double m, double n, double k) {
  double best = INFINITY;
  if (!t->has_kernels || !t->kernels.ntiles || !(t->sms > 0)) return 2 * batch * m * n * k / sustained_rate(t, type);
  Rate rate = product_rate(t, type);
  for (int i = 0; i < t->kernels.ntiles; i++)
    best = fmin(best, tiled_seconds(t, &t->kernels.tiles[i], rate, batch, m, n, k));
  return fmin(best, vector_seconds(t, type, batch, m, n, k));
}

double cost_flops_seconds(const Target *t, DType type, double flops) { return flops / sustained_rate(t, type); }

static double plain_seconds(const Target *t, DType type, double flops) {
  ComputeType c = target_compute(t, type) == CT_f64 ? CT_f64 : CT_f32;
  return t->flops[c] > 0 ? flops / sustained_rate_in(t, c) : cost_flops_seconds(t, type, flops);
}

double cost_kernel_seconds(const Target *t, MatrixKernel kernel, DType type, double flops) {
  bool units = t->device->kernels & kernel && dtype_bytes(type) == 2;
  double seconds = units ? cost_flops_seconds(t, type, flops) : plain_seconds(t, type, flops);
  bool attention = kernel == KERNEL_ATTENTION || kernel == KERNEL_ATTENTION_GRAD;
  if (!attention || !t->has_kernels) return seconds;
  return seconds / (units ? t->kernels.attention_half : t->kernels.attention);
}

double cost_causal_share(double queries, double keys, double all_keys) {
  enum { BLOCK = 64 };
  if (!(queries >= 1 && keys >= 1)) return 1;
  /* A key d places after the first query is hidden from d queries. */
  double first = all_keys - queries, behind = fmax(0, keys - 1 - first);
  double hidden = first >= 0 ? behind * (behind + 1) / 2 : keys * (keys - 1) / 2 - first * keys;
  double share = 1 - hidden / (queries * keys);
  return fmin(1, fmax(0, share) + (BLOCK - 1) / 2. / keys);
}

double cost_least_seconds(const Target *t, DType type, double flops) {
  double rate = fmax(target_flops(t, type), sustained_rate(t, type)), share = 1;
  for (int i = 0; t->has_kernels && i < t->kernels.ntiles; i++) share = fmax(share, t->kernels.tiles[i].share);
  if (t->has_kernels && t->flops[CT_f32] > 0) rate = fmax(rate, sustained_rate_in(t, CT_f32));
  if (t->small) rate *= cost_cpu_fastest(t);
  return flops / (rate * share);
}

double cost_memory_seconds(const Target *t, double bytes) {
  return (bytes + (t->has_kernels ? t->kernels.ramp : 0)) / bandwidth(t);
}
