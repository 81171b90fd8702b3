/* codegen/cuda/dialect_templates.h - hand-written kernels of the dialect: update, rope; others are in
 * dialect_attention.h, dialect_indexing.h, dialect_grouped.h.  After dialect.h; template.c prints the calls.  The
 * operands are those of kernel_templates.h.
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */

/* ---- update: y is x[outer, rows, inner] with u[outer, urows, inner] from row position - start on; in place (y == x)
 * it writes only the changed rows */

#define UPDATE(stored, size) \
  FN void update_##size(stored *y, const stored *x, const stored *u, int64_t position, int64_t start, int64_t outer, \
      int64_t rows, \
                        int64_t urows, int64_t inner, int64_t blocks) { \
    int64_t first = (int64_t)((uint64_t)position - (uint64_t)start), step = blocks * 256, at = block_index() \
        * 256 + thread_index(); \
    _Bool wraps = ((position ^ start) & (position ^ first)) < 0; \
    if (wraps || first >= rows || first <= -urows) first = rows; \
    for (int64_t i = at; y != x && i < outer * rows * inner; i += step) { \
      int64_t row = i / inner % rows; \
      if (row < first || row - first >= urows) y[i] = x[i]; \
    } \
    for (int64_t i = at; first < rows && i < outer * urows * inner; i += step) { \
      int64_t row = first + i / inner % urows; \
      if (row >= 0 && row < rows) y[(i / inner / urows * rows + row) * inner + i % inner] = u[i]; \
    } \
  }
UPDATE(uint8_t, 1) UPDATE(uint16_t, 2) UPDATE(uint32_t, 4) UPDATE(uint64_t, 8)

/* ---- rope: x[outer / inner, inner, s, h, k]; a thread rotates one pair of all heads of a position.  Dimensions of
 * size 1 have strides too: x0, x1, x2, x3 of outer / inner, inner, s, h, and those of y */

FN float rope_sine_f32(double x) { return turned_f32(x, 0); }
FN float rope_cosine_f32(double x) { return turned_f32(x, 1); }
FN double rope_sine_f64(double x) { return __builtin_sin(x); }
FN double rope_cosine_f64(double x) { return __builtin_cos(x); }

#define ROPE(T, stored, C, type) \
  FN void rope_##T(stored *y, const stored *x, const int64_t *position, int64_t outer, int64_t inner, int64_t s, \
      int64_t h, int64_t k, double base, int interleaved, int64_t x0, int64_t x1, int64_t x2, int64_t x3, \
      int64_t y0, int64_t y1, int64_t y2, int64_t y3) { \
    int64_t half = k / 2, i = block_index() * 256 + thread_index(), pair = i % half, place = i / half; \
    int64_t a = interleaved ? 2 * pair : pair, b = interleaved ? a + 1 : a + half, at = place % s; \
    if (place >= outer * s) return; \
    double angle = (double)position[at] * __builtin_pow(base, -2.0 * (double)pair / (double)k); \
    type c = rope_cosine_##C(angle), sine = rope_sine_##C(angle); \
    x += place / s / inner * x0 + place / s % inner * x1 + at * x2; \
    y += place / s / inner * y0 + place / s % inner * y1 + at * y2; \
    for (int64_t head = 0; head < h; head++) { \
      type u = load_##T(x + head * x3 + a), v = load_##T(x + head * x3 + b); \
      store_##T(y + head * y3 + a, u * c - v * sine); \
      store_##T(y + head * y3 + b, u * sine + v * c); \
    } \
  }
ROPE(f32, float, f32, float)
ROPE(f64, double, f64, double)
ROPE(f16, uint16_t, f32, float)
ROPE(bf16, uint16_t, f32, float)
