/* codegen/cuda/dialect_packed.h - packed_dot in the dialect.  After dialect_grouped.h; packed.c prints the calls.
 *
 * A thread has one element of the result.  It rounds x to whole multiples of a unit in each group and adds three digits
 * of 8 bits apart, as codegen/cpu/kernel_packed.h does, so the bits are the same.  It is correct and no more: every
 * thread reads and rounds the whole row.  --weights-dtype is for CPUs (docs/status.md).
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */

typedef struct Packed {
  int64_t rows, panels, groups, blocks;
} Packed;

/* A power of two of which all |x| are at most 2^22; NaN if one is not finite. */
FN float packed_unit(const float *x, int64_t size) {
  uint32_t most = 0;
  for (int64_t i = 0; i < size; i++) {
    uint32_t bits = bits_of(x[i]) & 0x7fffffff;
    most = bits > most ? bits : most;
  }
  uint32_t exponent = most >> 23;
  return exponent == 255 ? float_of(0x7fc00000) : float_of((exponent < 29 ? 7 : exponent - 21) << 23);
}

FN void packed_dot(const Packed *p, int bits, float *y, const float *x, const uint8_t *w, const uint16_t *scale) {
  int64_t i = (int64_t)block_index() * 256 + thread_index(), columns = p->panels * 16, terms = 32 / bits;
  if (i >= p->rows * columns) return;
  int64_t row = i / columns, panel = i % columns / 16, lane = i % 16;
  x += row * p->groups * p->blocks * terms;
  w += panel * p->groups * p->blocks * 64 + lane * 4;
  scale += panel * p->groups * 16 + lane;
  float total = 0;
  for (int64_t g = 0; g < p->groups; g++, scale += 16) {
    float unit = packed_unit(x, p->blocks * terms), by = unit == unit ? 1 / unit : 0;
    int32_t low = 0, middle = 0, top = 0;
    for (int64_t b = 0; b < p->blocks; b++, w += 64, x += terms)
      for (int t = 0; t < terms; t++) {
        int32_t number = bits == 8 ? (int)w[t] - 128 : (w[t % 4] >> t / 4 * 4 & 15) - 8;
        int32_t v = by == 0 ? 0 : (int32_t)round_f32(x[t] * by), a = (int8_t)v, rest = (v - a) >> 8, c = (int8_t)rest;
        low += a * number, middle += c * number, top += ((rest - c) >> 8) * number;
      }
    float part = fma_f32((float)top, 65536, fma_f32((float)middle, 256, (float)low));
    total = fma_f32(part, load_bf16(scale) * unit, total);
  }
  y[i] = total;
}
