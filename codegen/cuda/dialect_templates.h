/* codegen/cuda/dialect_templates.h - kernels of the dialect written by hand: update, rope, attention; indexing is in
 * dialect_indexing.h.  Behind dialect.h; template.c prints the calls.  The meaning of the operands is that of
 * kernel_templates.h.
 */
/* Names of macros in a row are no statements. */
/* clang-format off */

/* ---- update: y is x[outer, rows, inner] with u[outer, urows, inner] from row position - start on; in place (y == x)
 * only the changed rows are written */

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

/* ---- rope: x[outer, s, h, k]; a thread turns one pair of all heads of a position */

FN float rope_sine_f32(double x) { return turned_f32(x, 0); }
FN float rope_cosine_f32(double x) { return turned_f32(x, 1); }
FN double rope_sine_f64(double x) { return __builtin_sin(x); }
FN double rope_cosine_f64(double x) { return __builtin_cos(x); }

#define ROPE(T, stored, C, type) \
  FN void rope_##T(stored *y, const stored *x, const int64_t *position, int64_t outer, int64_t s, int64_t h, \
      int64_t k, double base, \
                   int interleaved) { \
    int64_t half = k / 2, i = block_index() * 256 + thread_index(), pair = i % half, place = i / half; \
    int64_t a = interleaved ? 2 * pair : pair, b = interleaved ? a + 1 : a + half; \
    if (place >= outer * s) return; \
    double angle = (double)position[place % s] * __builtin_pow(base, -2.0 * (double)pair / (double)k); \
    type c = rope_cosine_##C(angle), sine = rope_sine_##C(angle); \
    for (int64_t head = place * h; head < (place + 1) * h; head++) { \
      type u = load_##T(x + head * k + a), v = load_##T(x + head * k + b); \
      store_##T(y + head * k + a, u * c - v * sine); \
      store_##T(y + head * k + b, u * sine + v * c); \
    } \
  }
ROPE(f32, float, f32, float)
ROPE(f64, double, f64, double)
ROPE(f16, uint16_t, f32, float)
ROPE(bf16, uint16_t, f32, float)

/* ---- attention: a warp has one query row and up to 256 elements of its result; keys come in 32s, one per lane, with a
 * running maximum and sum (Dao, "FlashAttention-2", 2023).  No tensor cores: right everywhere, fast nowhere. */

typedef struct Attention {
  int64_t groups, rows, s, t, k, e;
  int causal;
  const int64_t *query_position, *key_position;
  int64_t length;
  const void *bias; /* 0: there is none */
  int64_t heads, stride[4];
  void *lse; /* [groups, rows] of float or double; 0: nobody asks */
} Attention;

/* Which element of the bias is the row's for key 0; row i of group g is i + g * rows. */
FN int64_t attention_bias_row(const Attention *a, int64_t row) {
  int64_t group = row / a->rows, i = row % a->rows;
  return group / a->heads * a->stride[0] + group % a->heads * a->stride[1] + i / a->s * a->stride[2] +
      i % a->s * a->stride[3];
}

#define ATTENTION(T, stored, C, type) \
  FN void attention_##T(const Attention *a, stored *out, const stored *query, const stored *keys, \
      const stored *values, type scale) { \
    int64_t chunks = a->e > 256 ? (a->e + 255) / 256 : 1, job = block_index() * 4 + warp_index(); \
    if (job >= a->groups * a->rows * chunks) return; \
    int64_t row = job / chunks, first = job % chunks * 256 + lane_index(), group = row / a->rows; \
    int left = (int)(a->e - first < 256 ? a->e - first : 256); \
    int64_t last = a->causal ? a->query_position[row % a->rows % a->s] : INT64_MAX; \
    const stored *q = query + row * a->k; \
    type max = -__builtin_inff(), sum = 0, result[8]; \
    UNROLL for (int i = 0; i < 8; i++) result[i] = 0; \
    for (int64_t t = 0; t < a->t; t += 32) { \
      int64_t mine = t + lane_index(); \
      type score = -__builtin_inff(); \
      if (mine < a->t && a->key_position[mine] < a->length && a->key_position[mine] <= last) { \
        const stored *key = keys + (group * a->t + mine) * a->k; \
        score = 0; \
        for (int64_t i = 0; i < a->k; i++) score += load_##T(q + i) * scale * load_##T(key + i); \
        if (a->bias) score += load_##T((const stored *)a->bias + attention_bias_row(a, row) + mine); \
      } \
      type high = warp_max_##C(score); \
      if (high == -__builtin_inff()) continue; \
      high = max_##C(high, max); \
      type keep = exp_##C(max - high), weight = exp_##C(score - high); \
      max = high, sum = sum * keep + warp_sum_##C(weight); \
      UNROLL for (int i = 0; i < 8; i++) result[i] *= keep; \
      for (int j = 0; j < 32 && t + j < a->t; j++) { \
        type w = shuffle_##C(weight, j); \
        const stored *value = values + (group * a->t + t + j) * a->e + first; \
        UNROLL for (int i = 0; i < 8; i++) \
          if (32 * i < left) result[i] += w * load_##T(value + 32 * i); \
      } \
    } \
    UNROLL for (int i = 0; i < 8; i++) \
      if (32 * i < left) store_##T(out + row * a->e + first + 32 * i, sum == 0 ? 0 : result[i] / sum); \
    if (a->lse && job % chunks == 0 && lane_index() == 0) \
      ((type *)a->lse)[row] = sum == 0 ? -__builtin_inff() : max + log_##C(sum); \
  }
ATTENTION(f32, float, f32, float)
ATTENTION(f64, double, f64, double)
ATTENTION(f16, uint16_t, f32, float)
ATTENTION(bf16, uint16_t, f32, float)

