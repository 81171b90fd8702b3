/* codegen/cuda/dialect_templates.h - hand-written kernels of the dialect: update, rope; others are in
 * dialect_attention.h, dialect_indexing.h, dialect_grouped.h.  After dialect.h; template.c prints the calls.  The
 * operands are those of kernel_templates.h.
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */

/* ---- update: y is x[outer, rows, inner] with u[outer, urows, inner] from row position - start on; in place (y == x)
 * it writes only the changed rows */

/* Returns the first row that an update writes; `rows` if it writes none. */
FN int64_t update_first(int64_t position, int64_t start, int64_t rows, int64_t added) {
  int64_t first = (int64_t)((uint64_t)position - (uint64_t)start);
  _Bool wraps = ((position ^ start) & (position ^ first)) < 0;
  return wraps || first >= rows || first <= -added ? rows : first;
}

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

/* The same of x[batch, outer, rows, inner], of which matrix b gets the first `count` (0: all) rows of its update; its
 * position and count are b times `at` and `counted` further. */
#define UPDATE_ROWS(stored, size) \
  FN void update_rows_##size(stored *y, const stored *x, const stored *u, const int64_t *position, int64_t at, \
      const int64_t *count, int64_t counted, int64_t start, int64_t batch, int64_t outer, int64_t rows, \
      int64_t urows, int64_t inner, int64_t blocks) { \
    int64_t step = blocks * 256, job = block_index() * 256 + thread_index(), new_rows = outer * urows * inner; \
    for (int64_t i = job; y != x && i < batch * outer * rows * inner; i += step) { \
      int64_t b = i / inner / rows / outer, row = i / inner % rows; \
      int64_t first = update_first(position[b * at], start, rows, urows); \
      int64_t n = count && count[b * counted] < urows ? count[b * counted] : urows; \
      if (row < first || row - first >= n) y[i] = x[i]; \
    } \
    for (int64_t i = job; i < batch * new_rows; i += step) { \
      int64_t b = i / new_rows, from = i / inner % urows; \
      int64_t first = update_first(position[b * at], start, rows, urows), row = first + from; \
      int64_t n = count && count[b * counted] < urows ? count[b * counted] : urows; \
      if (first < rows && from < n && row >= 0 && row < rows) \
        y[(i / inner / urows * rows + row) * inner + i % inner] = u[i]; \
    } \
  }
UPDATE_ROWS(uint8_t, 1) UPDATE_ROWS(uint16_t, 2) UPDATE_ROWS(uint32_t, 4) UPDATE_ROWS(uint64_t, 8)

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

/* ---- caches: rows are moved into two caches, and rotated before if they are queries or keys.  A thread has a pair of
 * elements of `each` heads of a position */

typedef struct CacheSet {
  int64_t places, extent[5], from[4], to[4]; /* places: of positions in all matrices; strides of the first four */
  int rotated, each;
} CacheSet;

#define CACHE(T, stored, C, type) \
  /* returns the thread's job in the next set; below 0 after its own */ \
  FN int64_t cache_set_##T(const CacheSet *c, stored *y, const stored *x, const int64_t *position, double base, \
      int interleaved, int64_t first, int64_t rows, int64_t job) { \
    int64_t k = c->extent[4], half = (k + 1) / 2, pair = half ? job % half : 0, place = half ? job / half : 0; \
    int64_t jobs = c->places * half * ((c->extent[3] + c->each - 1) / c->each); \
    if (job < 0 || job >= jobs) return job < 0 ? job : job - jobs; \
    int64_t head = place / c->places * c->each, at = place % c->places % c->extent[2]; \
    int64_t matrix = place % c->places / c->extent[2], row = first + at; \
    if (row < 0 || row >= rows) return -1; \
    x += matrix / c->extent[1] * c->from[0] + matrix % c->extent[1] * c->from[1] + at * c->from[2]; \
    y += matrix / c->extent[1] * c->to[0] + matrix % c->extent[1] * c->to[1] + row * c->to[2]; \
    int64_t a = c->rotated && !interleaved ? pair : 2 * pair, b = c->rotated && !interleaved ? a + half : a + 1; \
    type cosine = 1, sine = 0; \
    if (c->rotated) { \
      double angle = (double)position[at] * __builtin_pow(base, -2.0 * (double)pair / (double)k); \
      cosine = rope_cosine_##C(angle), sine = rope_sine_##C(angle); \
    } \
    for (int64_t h = head; h < head + c->each && h < c->extent[3]; h++) { \
      const stored *from = x + h * c->from[3]; \
      stored *to = y + h * c->to[3]; \
      if (!c->rotated) { \
        to[a] = from[a]; \
        if (b < k) to[b] = from[b]; \
        continue; \
      } \
      type u = load_##T(from + a), v = load_##T(from + b); \
      store_##T(to + a, u * cosine - v * sine); \
      store_##T(to + b, u * sine + v * cosine); \
    } \
    return -1; \
  } \
  /* the rows that stay, if the result has memory of its own */ \
  FN void cache_copy_##T(stored *y, const stored *x, int64_t outer, int64_t rows, int64_t inner, int64_t first, \
      int64_t added, int64_t blocks) { \
    int64_t step = blocks * 256; \
    for (int64_t i = block_index() * 256 + thread_index(); y != x && i < outer * rows * inner; i += step) { \
      int64_t row = i / inner % rows; \
      if (row < first || row - first >= added) y[i] = x[i]; \
    } \
  }
CACHE(f32, float, f32, float)
CACHE(f64, double, f64, double)
CACHE(f16, uint16_t, f32, float)
CACHE(bf16, uint16_t, f32, float)
