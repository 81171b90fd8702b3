/* passes/cost_kernel.c - see cost_kernel.h.
 *
 * A product is cut into tiles; each multiprocessor works on one tile at a time, so tiles come in waves, and a tile that reaches over the
 * edge or a wave that is not full costs as much as a whole one (NVIDIA, "Matrix Multiplication Background", chapter 3).  The best tile of
 * the device counts.  Where multiprocessors or tiles are not known, the sustained rate holds for all shapes.
 */
#include "passes/cost_kernel.h"

#include <math.h>

static double sustained_rate(const Target *t, DType type) {
  ComputeType c = target_compute(t, type);
  double share = t->has_kernels && !isnan(t->kernels.sustained[c]) ? t->kernels.sustained[c] : 1;
  return t->flops[c] * share;
}

static double tiled_seconds(const Target *t, const KernelTile *tile, double rate, double batch, double m, double n, double k) {
  double tiles = batch * ceil(m / tile->rows) * ceil(n / tile->columns), waves = tiles / t->sms, s = t->kernels.smoothing;
  double counted = waves <= 1 ? 1 : (1 - s) * ceil(waves) + s * waves;
  return counted * 2 * tile->rows * tile->columns * (k + t->kernels.prologue) * t->sms / (rate * tile->share);
}

double kernel_product_seconds(const Target *t, DType type, double batch, double m, double n, double k) {
  double rate = sustained_rate(t, type), best = INFINITY;
  if (!t->has_kernels || !t->kernels.ntiles || !(t->sms > 0)) return 2 * batch * m * n * k / rate;
  for (int i = 0; i < t->kernels.ntiles; i++) best = fmin(best, tiled_seconds(t, &t->kernels.tiles[i], rate, batch, m, n, k));
  return best;
}

double kernel_flops_seconds(const Target *t, DType type, double flops) { return flops / sustained_rate(t, type); }

double kernel_attention_seconds(const Target *t, DType type, double flops) {
  return flops / (sustained_rate(t, type) * (t->has_kernels ? t->kernels.attention : 1));
}

double kernel_memory_seconds(const Target *t, double bytes) {
  return t->has_kernels ? (bytes + t->kernels.ramp) / (t->memory_bandwidth * t->kernels.bandwidth) : bytes / t->memory_bandwidth;
}
