/* codegen/cuda/dialect_packed.h - packed_dot in the dialect.  After dialect.h; packed.c prints the calls.
 *
 * A thread has one element of the result and adds its terms in order.  It is correct and no more: the weight is read a
 * byte at a time, once per row.  --weights-dtype is for CPUs (docs/status.md).
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */

typedef struct Packed {
  int64_t rows, panels, groups, blocks;
} Packed;

FN void packed_dot(const Packed *p, int bits, float *y, const float *x, const uint8_t *w, const uint16_t *scale) {
  int64_t i = (int64_t)block_index() * 256 + thread_index(), columns = p->panels * 16, terms = 32 / bits;
  if (i >= p->rows * columns) return;
  int64_t row = i / columns, panel = i % columns / 16, lane = i % 16;
  x += row * p->groups * p->blocks * terms;
  w += panel * p->groups * p->blocks * 64 + lane * 4;
  scale += panel * p->groups * 16 + lane;
  float total = 0;
  for (int64_t g = 0; g < p->groups; g++, scale += 16) {
    float sum = 0;
    for (int64_t b = 0; b < p->blocks; b++, w += 64, x += terms)
      for (int t = 0; t < terms; t++) {
        int number = bits == 8 ? (int)w[t] - 128 : (w[t % 4] >> t / 4 * 4 & 15) - 8;
        sum = fma_f32(x[t], (float)number, sum);
      }
    total = fma_f32(sum, load_bf16(scale), total);
  }
  y[i] = total;
}
