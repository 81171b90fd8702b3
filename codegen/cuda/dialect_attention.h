/* codegen/cuda/dialect_attention.h - attention in the dialect.  After dialect.h; attention.c prints the calls.  The
 * operands are those of kernel_attention.h.
 *
 * Every variant keeps a running maximum and sum per query row while it iterates over the keys (Dao, "FlashAttention-2",
 * 2023), so that no score is stored.  A row's bits depend on its keys and on the variant alone, not on other rows or
 * blocks.
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */

/* The layout of the rows of a matrix of each group: group g is head g % heads of batch g / heads; rows are `step`
 * apart, and with s > 0 blocks of s rows are `repeat` apart. */
typedef struct Lines {
  int64_t heads, batch, head, s, repeat, step;
} Lines;

FN int64_t lines_of(const Lines *l, int64_t group) {
  return group / l->heads * l->batch + group % l->heads * l->head;
}
FN int64_t line_at(const Lines *l, int64_t row) {
  return l->s > 0 ? row / l->s * l->repeat + row % l->s * l->step : row * l->step;
}
/* True if all rows allow reads of 8 16-bit numbers at once, if the first does. */
FN _Bool lines_wide(const Lines *l) { return ((l->s > 0 ? l->repeat : 0) | l->step) % 8 == 0; }

typedef struct Attention {
  int64_t groups, rows, s, t, k, e;
  Lines of_query, of_keys, of_values, of_result;
  int causal;
  const int64_t *query_position, *key_position;
  int64_t length, used; /* used: keys from there on are masked */
  const void *bias;     /* 0 if none */
  int64_t heads, stride[4];
  void *max, *sum; /* of each row, [groups, rows] of float or double; 0 if not needed */
} Attention;

/* Returns the index of the row's bias for key 0; row i of group g is i + g * rows. */
FN int64_t attention_bias_row(const Attention *a, int64_t row) {
  int64_t group = row / a->rows, i = row % a->rows;
  return group / a->heads * a->stride[0] + group % a->heads * a->stride[1] + i / a->s * a->stride[2] +
      i % a->s * a->stride[3];
}

/* Returns the last position that row i of a group sees; rows after the last see none. */
FN int64_t attention_last(const Attention *a, int64_t i) {
  int64_t last = INT64_MAX - 1;
  if (i >= a->rows) return INT64_MIN;
  if (a->causal && a->query_position[i % a->s] < last) last = a->query_position[i % a->s];
  return last;
}
/* Returns the number of keys before the valid length, if their positions are first, first + 1 ... */
FN int64_t attention_used(const Attention *a, int64_t first) {
  if (a->length <= first) return 0;
  return a->length - first < a->t ? a->length - first : a->t;
}
/* The largest score of a row, as it is stored: 0 if all are -inf. */
FN float attention_max(float max) { return max == -__builtin_inff() ? 0 : max; }
/* Returns the position of a key; INT64_MAX if no row sees it. */
FN int64_t attention_where(const Attention *a, int64_t key) {
  return key < a->t && a->key_position[key] < a->length ? a->key_position[key] : INT64_MAX;
}

/* ---- a warp has one query row and up to 256 elements of its result; it reads 32 keys at a time, one per lane */

#define ATTENTION(T, stored, C, type) \
  FN void attention_row_##T(const Attention *a, stored *out, const stored *query, const stored *keys, \
      const stored *values, type scale) { \
    int64_t chunks = a->e > 256 ? (a->e + 255) / 256 : 1, job = block_index() * 4 + warp_index(); \
    if (job >= a->groups * a->rows * chunks) return; \
    int64_t row = job / chunks, first = job % chunks * 256 + lane_index(), group = row / a->rows; \
    int left = (int)(a->e - first < 256 ? a->e - first : 256); \
    int64_t last = attention_last(a, row % a->rows); \
    const stored *q = query + lines_of(&a->of_query, group) + line_at(&a->of_query, row % a->rows); \
    keys += lines_of(&a->of_keys, group), values += lines_of(&a->of_values, group) + first; \
    out += lines_of(&a->of_result, group) + line_at(&a->of_result, row % a->rows) + first; \
    type max = -__builtin_inff(), sum = 0, result[8]; \
    UNROLL for (int i = 0; i < 8; i++) result[i] = 0; \
    for (int64_t t = 0; t < a->t; t += 32) { \
      int64_t mine = t + lane_index(); \
      type score = -__builtin_inff(); \
      if (attention_where(a, mine) <= last) { \
        const stored *key = keys + line_at(&a->of_keys, mine); \
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
      ROLL for (int j = 0; j < 32 && t + j < a->t; j++) { \
        type w = shuffle_##C(weight, j); \
        const stored *value = values + line_at(&a->of_values, t + j); \
        UNROLL for (int i = 0; i < 8; i++) \
          if (32 * i < left) result[i] += w * load_##T(value + 32 * i); \
      } \
    } \
    UNROLL for (int i = 0; i < 8; i++) \
      if (32 * i < left) store_##T(out + 32 * i, sum == 0 ? 0 : result[i] / sum); \
    if (a->max && job % chunks == 0 && lane_index() == 0) \
      ((type *)a->max)[row] = max == -__builtin_inff() ? 0 : max, ((type *)a->sum)[row] = sum; \
  }
ATTENTION(f32, float, f32, float)
ATTENTION(f64, double, f64, double)
ATTENTION(f16, uint16_t, f32, float)
ATTENTION(bf16, uint16_t, f32, float)

/* ---- tiles in f32: a block of 256 threads has 64 query rows and up to 128 elements of their results, and iterates
 * over the keys, 64 at a time.  Thread (x, y) of 16 x 16 has the scores of rows 4y .. 4y + 3 with keys 4x .. 4x + 3,
 * and of the result of these rows columns 4x .. 4x + 3 and 64 + 4x .. 64 + 4x + 3.
 *
 * Shared memory holds 32 elements of 64 queries and keys, then the values; and the weights.  Both are laid out so that
 * the four rows (keys) of a thread are one access of 16 bytes, and that writes have no bank conflicts. */

enum { ATTENTION_TILE = 64, ATTENTION_DEPTH = 32, ATTENTION_HALF = 64 * 32 };

FN int tile_place(int deep, int at) { return deep * 64 + ((at / 4 ^ deep / 4 % 16) * 4 + at % 4); }

FN float fused_f32(float a, float b, float c) { return __builtin_fmaf(a, b, c); }

/* Reduce over the rows of a tile: the maximum over the 16 threads that share a row, and the sum.  Maxima ignore NaN: a
 * NaN makes its exponential NaN, and with it the sum and the result. */
FN float row_max_f32(float v) {
  UNROLL for (int w = 8; w; w /= 2) v = __builtin_fmaxf(v, shuffle_f32(v, lane_index() ^ w));
  return v;
}
FN float row_sum_f32(float v) {
  UNROLL for (int w = 8; w; w /= 2) v += shuffle_f32(v, lane_index() ^ w);
  return v;
}

/* Finds the last position that each row of the tile sees and the index of its bias, valid after the next barrier;
 * returns the highest position that any row sees: every warp computes it. */
FN int64_t attention_lasts(const Attention *a, int64_t group, int64_t first, int64_t *last, int64_t *bias) {
  int64_t one = attention_last(a, first + lane_index()), two = attention_last(a, first + 32 + lane_index());
  if (warp_index() == 0) last[lane_index()] = one, last[32 + lane_index()] = two;
  int64_t row = group * a->rows + first + thread_index();
  if (thread_index() < 64 && a->bias) bias[thread_index()] = attention_bias_row(a, row);
  return warp_max_i64(one < two ? two : one);
}
/* Returns the position up to which all rows of the tile see. */
FN int64_t attention_lowest(const Attention *a, int64_t first) {
  int64_t one = first + lane_index() < a->rows ? attention_last(a, first + lane_index()) : INT64_MAX,
          two = first + 32 + lane_index() < a->rows ? attention_last(a, first + 32 + lane_index()) : INT64_MAX;
  return warp_min_i64(one < two ? one : two);
}

#define ATTENTION_TILES(T, stored) \
  /* 64 rows of a matrix, 32 elements of each, times `scale` */ \
  FN void attention_load_##T(float *to, const stored *from, const Lines *lines, int64_t first, int64_t rows, \
      int64_t width, int64_t deep, float scale) { \
    UNROLL for (int i = 0; i < 2; i++) { \
      int row = (thread_index() + 256 * i) / 8, place = thread_index() % 8 * 4; \
      float r[4]; \
      load4_##T(r, from + line_at(lines, first + row) + deep + place, \
          first + row >= rows ? 0 : width - deep - place < 4 ? width - deep - place : 4); \
      UNROLL for (int j = 0; j < 4; j++) to[tile_place(place + j, row)] = r[j] * scale; \
    } \
  } \
  /* 4096 / columns rows of the values */ \
  FN void attention_values_##T(float *to, const stored *from, const Lines *lines, int64_t first, int64_t rows, \
      int64_t width, int64_t column, int columns) { \
    UNROLL for (int i = 0; i < 4; i++) { \
      int row = (thread_index() + 256 * i) * 4 / columns, place = (thread_index() + 256 * i) * 4 % columns; \
      int64_t left = width - column - place; \
      float r[4]; \
      load4_##T(r, from + line_at(lines, first + row) + column + place, \
          first + row >= rows ? 0 : left < 4 ? left : 4); \
      UNROLL for (int j = 0; j < 4; j++) to[row * columns + place + j] = r[j]; \
    } \
  } \
  /* `wide` is 1 when results have more than 64 columns, 0 otherwise */ \
  FN void attention_tile_##T(const Attention *a, stored *out, const stored *query, const stored *keys, \
      const stored *values, float scale, const int wide) { \
    SHARED(float, both, 2 * ATTENTION_HALF); \
    SHARED(float, weights, 64 * 64); \
    SHARED(int64_t, where, 64); \
    SHARED(int64_t, last, 64); \
    SHARED(int64_t, bias_row, 64); \
    const int columns = wide ? 128 : 64, x = thread_index() % 16, y = thread_index() / 16; \
    int64_t tiles = (a->rows + 63) / 64, panels = a->e > columns ? (a->e + columns - 1) / columns : 1; \
    int64_t job = block_index(), panel = job % panels, group = job / panels / tiles; \
    int64_t first = (tiles - 1 - job / panels % tiles) * 64; \
    int64_t highest = attention_lasts(a, group, first, last, bias_row); \
    query += lines_of(&a->of_query, group), keys += lines_of(&a->of_keys, group); \
    values += lines_of(&a->of_values, group), out += lines_of(&a->of_result, group); \
    int here = a->rows - first < 64 ? (int)(a->rows - first) : 64; \
    float max[4], sum[4], result[4][8]; \
    UNROLL for (int i = 0; i < 4; i++) { \
      max[i] = -__builtin_inff(), sum[i] = 0; \
      UNROLL for (int c = 0; c < 8; c++) result[i][c] = 0; \
    } \
    for (int64_t t = 0; t < a->t; t += 64) { \
      int64_t one = attention_where(a, t + lane_index()), two = attention_where(a, t + 32 + lane_index()); \
      if (!warp_max_i32(one <= highest || two <= highest)) continue; \
      barrier(); /* the last tile is done */ \
      if (warp_index() == 0) where[lane_index()] = one, where[32 + lane_index()] = two; \
      float score[4][4]; \
      UNROLL for (int i = 0; i < 16; i++) score[i / 4][i % 4] = 0; \
      int64_t deep = 0; \
      do { \
        if (deep) barrier(); \
        attention_load_##T(both, query, &a->of_query, first, a->rows, a->k, deep, scale); \
        attention_load_##T(both + ATTENTION_HALF, keys, &a->of_keys, t, a->t, a->k, deep, 1); \
        barrier(); \
        ROLL for (int some = 0; some < ATTENTION_DEPTH; some += 2) UNROLL for (int d = some; d < some + 2; d++) { \
          float q[4], k[4]; \
          load_wide(q, both + tile_place(some, 4 * y) + 64 * (d - some), 16); \
          load_wide(k, both + ATTENTION_HALF + tile_place(some, 4 * x) + 64 * (d - some), 16); \
          UNROLL for (int i = 0; i < 4; i++) \
            UNROLL for (int j = 0; j < 4; j++) score[i][j] = fused_f32(q[i], k[j], score[i][j]); \
        } \
        deep += ATTENTION_DEPTH; \
      } while (deep < a->k); \
      int left = a->t - t - 4 * x < 4 ? (int)(a->t - t) - 4 * x : 4; \
      UNROLL for (int i = 0; a->bias && i < 4; i++) { \
        float bias[4]; \
        load4_##T(bias, (const stored *)a->bias + bias_row[4 * y + i] + t + 4 * x, 4 * y + i < here ? left : 0); \
        UNROLL for (int j = 0; j < 4; j++) score[i][j] += bias[j]; \
      } \
      UNROLL for (int i = 0; i < 4; i++) { \
        float high = max[i], keep; \
        UNROLL for (int j = 0; j < 4; j++) { \
          _Bool seen = where[4 * x + j] <= last[4 * y + i]; \
          score[i][j] = seen ? score[i][j] : -__builtin_inff(); \
          high = __builtin_fmaxf(high, score[i][j]); \
        } \
        high = row_max_f32(high); \
        float from = high == -__builtin_inff() ? 0 : high; \
        keep = exp_f32(max[i] - from), max[i] = high, sum[i] *= keep; \
        UNROLL for (int j = 0; j < 4; j++) score[i][j] = exp_f32(score[i][j] - from), sum[i] += score[i][j]; \
        UNROLL for (int c = 0; c < 8; c++) result[i][c] *= keep; \
      } \
      UNROLL for (int j = 0; j < 4; j++) \
        UNROLL for (int i = 0; i < 4; i++) weights[tile_place(4 * x + j, 4 * y) + i] = score[i][j]; \
      ROLL for (int part = 0; part <= wide; part++) { \
        int64_t from = t + part * (4096 / columns); \
        barrier(); \
        attention_values_##T(both, values, &a->of_values, from, a->t, a->e, panel * columns, columns); \
        barrier(); \
        ROLL for (int some = 0; some < 4096 / columns; some += 2) UNROLL for (int d = some; d < some + 2; d++) { \
          float w[4], v[8]; \
          load_wide(w, weights + tile_place(part * (4096 / columns) + some, 4 * y) + 64 * (d - some), 16); \
          load_wide(v, both + d * columns + 4 * x, 16); \
          if (wide) load_wide(v + 4, both + d * columns + 64 + 4 * x, 16); \
          UNROLL for (int i = 0; i < 4; i++) \
            UNROLL for (int c = 0; c < 4 + 4 * wide; c++) result[i][c] = fused_f32(w[i], v[c], result[i][c]); \
        } \
      } \
    } \
    UNROLL for (int i = 0; i < 4; i++) { \
      float total = row_sum_f32(sum[i]); \
      float share = total == 0 ? 0 : 1 / total; \
      UNROLL for (int c = 0; c < 8; c++) result[i][c] = total == 0 ? 0 : result[i][c] * share; \
      if (4 * y + i >= here) continue; \
      int64_t row = group * a->rows + first + 4 * y + i; \
      UNROLL for (int half = 0; half <= wide; half++) { \
        int64_t column = panel * columns + 64 * half + 4 * x, left = a->e - column; \
        store4_##T(out + line_at(&a->of_result, first + 4 * y + i) + column, result[i] + 4 * half, \
            left < 4 ? left : 4); \
      } \
      if (a->max && panel == 0 && x == 0) \
        ((float *)a->max)[row] = attention_max(max[i]), ((float *)a->sum)[row] = total; \
    } \
  }
ATTENTION_TILES(f32, float)
ATTENTION_TILES(f16, uint16_t)
ATTENTION_TILES(bf16, uint16_t)

/* ---- few rows, as in decoding: a block of 8 warps has up to 8 query rows that share keys, and a piece of the keys in
 * use.  The warps process 32 keys each in turn, reading 8 numbers per lane, adjacent lanes adjacent numbers; their
 * partial results are joined in order.  With several pieces these go into `found`, [pieces, groups, rows, e + 2]: the
 * mixture of the values, the maximum, the sum; the last block that is done joins the pieces of its rows.  If there are
 * more tiles of rows than counters, one block of each does all pieces.
 *
 * kl and el lanes share a key and a value: 8 kl and 8 el are at least their widths. */

enum { ATTENTION_COUNTERS = 4096 };
STATE(uint32_t, attention_done[ATTENTION_COUNTERS]);

#define ATTENTION_FEW(T, stored) \
  /* 8 numbers of a row of a matrix; zeros after its end */ \
  FN void attention_eight_##T(float *r, const stored *from, const Lines *lines, int64_t row, int64_t rows, \
      int64_t width, int at) { \
    int64_t left = row < rows ? width - at : 0; \
    load8_##T(r, from + line_at(lines, row) + at, left < 8 ? left : 8); \
  } \
  /* joins the pieces of `rows` rows from `first` on of a group */ \
  FN void attention_join_##T(const Attention *a, stored *out, int64_t group, int64_t first, const int rows, \
      const int pieces, const float *found) { \
    int64_t all = a->groups * a->rows, step = a->e + 2, columns = a->e > 0 ? a->e : 1; \
    for (int64_t i = thread_index(); i < rows * columns; i += 256) { \
      int64_t r = first + i / columns, c = i % columns, row = group * a->rows + r; \
      float top = -__builtin_inff(), total = 0, value = 0; \
      if (r >= a->rows) return; \
      for (int p = 0; p < pieces; p++) top = max_f32(top, found[(p * all + row) * step + a->e]); \
      for (int p = 0; p < pieces && top != -__builtin_inff(); p++) { \
        const float *record = found + (p * all + row) * step; \
        float keep = exp_f32(record[a->e] - top); \
        total += keep * record[a->e + 1], value += keep * record[c]; \
      } \
      if (c < a->e) store_##T(out + line_at(&a->of_result, r) + c, total == 0 ? 0 : value / total); \
      if (a->max && c == 0) ((float *)a->max)[row] = attention_max(top), ((float *)a->sum)[row] = total; \
    } \
  } \
  /* parts: 8 * rows * (8 * el + 2) numbers */ \
  FN void attention_few_##T(const Attention *a, stored *out, const stored *query, const stored *keys, \
      const stored *values, float scale, const int rows, const int kl, const int el, float *parts, \
      const int most, float *found) { \
    int64_t panels = (a->rows + rows - 1) / rows, job = block_index() % (a->groups * panels), group = job / panels; \
    int64_t first = job % panels * rows, last[8], piece = block_index() / (a->groups * panels); \
    const int pieces = most > 1 && a->groups * panels > ATTENTION_COUNTERS ? 1 : most; \
    int64_t length = (a->used + 256 * pieces - 1) / (256 * pieces) * 256, end = (piece + 1) * length; \
    if (piece >= pieces) return; \
    if (end > a->used) end = a->used; \
    const int lane = lane_index(), at = lane % kl * 8, of = lane % el * 8, columns = 8 * el, ahead = rows > 2 ? 2 : 4; \
    float q[8][8], max[8], sum[8], result[8][8], *tops = parts + 8 * rows * columns, *sums = tops + 8 * rows; \
    query += lines_of(&a->of_query, group), keys += lines_of(&a->of_keys, group); \
    values += lines_of(&a->of_values, group); \
    out += lines_of(&a->of_result, group); \
    UNROLL for (int r = 0; r < rows; r++) { \
      attention_eight_##T(q[r], query, &a->of_query, first + r, a->rows, a->k, at); \
      UNROLL for (int i = 0; i < 8; i++) q[r][i] *= scale, result[r][i] = 0; \
      last[r] = attention_last(a, first + r), max[r] = -__builtin_inff(), sum[r] = 0; \
    } \
    for (int64_t t = piece * length + 32 * warp_index(); t < end; t += 256) { \
      int64_t where = attention_where(a, t + lane); \
      float score[8]; \
      int any = 0; \
      UNROLL for (int r = 0; r < rows; r++) score[r] = 0, any |= where <= last[r]; \
      if (!warp_max_i32(any)) continue; \
      ROLL for (int some = 0; some < kl; some += ahead) UNROLL for (int j = some; j < some + ahead && j < kl; j++) { \
        float x[8]; \
        attention_eight_##T(x, keys, &a->of_keys, t + j * (32 / kl) + lane / kl, a->t, a->k, at); \
        UNROLL for (int r = 0; r < rows; r++) { \
          float dot = 0; \
          UNROLL for (int i = 0; i < 8; i++) dot = fused_f32(q[r][i], x[i], dot); \
          UNROLL for (int w = kl / 2; w; w /= 2) dot += shuffle_f32(dot, lane ^ w); \
          dot = shuffle_f32(dot, lane % (32 / kl) * kl); \
          if (lane / (32 / kl) == j) score[r] = dot; \
        } \
      } \
      UNROLL for (int r = 0; r < rows; r++) { \
        if (a->bias && t + lane < a->t && first + r < a->rows) \
          score[r] += load_##T((const stored *)a->bias + attention_bias_row(a, group * a->rows + first + r) + \
              t + lane); \
        score[r] = where <= last[r] ? score[r] : -__builtin_inff(); \
        float high = max_f32(max[r], warp_max_f32(score[r])), from = high == -__builtin_inff() ? 0 : high; \
        float keep = exp_f32(max[r] - from); \
        score[r] = exp_f32(score[r] - from), max[r] = high, sum[r] = sum[r] * keep + score[r]; \
        UNROLL for (int i = 0; i < 8; i++) result[r][i] *= keep; \
      } \
      ROLL for (int some = 0; some < el; some += ahead) UNROLL for (int j = some; j < some + ahead && j < el; j++) { \
        float x[8]; \
        int key = j * (32 / el) + lane / el; \
        attention_eight_##T(x, values, &a->of_values, t + key, a->t, a->e, of); \
        UNROLL for (int r = 0; r < rows; r++) { \
          float weight = shuffle_f32(score[r], key); \
          UNROLL for (int i = 0; i < 8; i++) result[r][i] = fused_f32(weight, x[i], result[r][i]); \
        } \
      } \
    } \
    UNROLL for (int r = 0; r < rows; r++) { \
      float *mine = parts + (warp_index() * rows + r) * columns; \
      sum[r] = warp_sum_f32(sum[r]); \
      UNROLL for (int i = 0; i < 8; i++) { \
        UNROLL for (int w = el; w < 32; w *= 2) result[r][i] += shuffle_f32(result[r][i], lane ^ w); \
        if (lane < el) mine[of + i] = result[r][i]; \
      } \
      if (lane == 0) tops[warp_index() * rows + r] = max[r], sums[warp_index() * rows + r] = sum[r]; \
    } \
    barrier(); \
    for (int i = thread_index(); i < rows * columns; i += 256) { \
      int r = i / columns, c = i % columns; \
      float top = -__builtin_inff(), total = 0, value = 0; \
      for (int w = 0; w < 8; w++) top = max_f32(top, tops[w * rows + r]); \
      for (int w = 0; w < 8 && top != -__builtin_inff(); w++) { \
        float keep = exp_f32(tops[w * rows + r] - top); \
        total += keep * sums[w * rows + r], value += keep * parts[(w * rows + r) * columns + c]; \
      } \
      int64_t row = group * a->rows + first + r; \
      if (first + r >= a->rows) continue; \
      if (pieces > 1) { \
        float *record = found + (piece * a->groups * a->rows + row) * (a->e + 2); \
        if (c < a->e) record[c] = value; \
        if (c == 0) record[a->e] = top, record[a->e + 1] = total; \
        continue; \
      } \
      if (c < a->e) store_##T(out + line_at(&a->of_result, first + r) + c, total == 0 ? 0 : value / total); \
      if (a->max && c == 0) ((float *)a->max)[row] = attention_max(top), ((float *)a->sum)[row] = total; \
    } \
    if (pieces == 1) return; \
    barrier(); \
    if (thread_index() == 0) *parts = count_to(&attention_done[job], (uint32_t)pieces); \
    barrier(); \
    if (*parts) attention_join_##T(a, out, group, first, rows, pieces, found); \
  }
ATTENTION_FEW(f32, float)
ATTENTION_FEW(f16, uint16_t)
ATTENTION_FEW(bf16, uint16_t)

/* ---- tensor cores: a block of 4 warps has 64 query rows, 16 per warp, and iterates over the keys, 64 at a time.  The
 * queries stay in registers, as do scores and results; keys and values pass through shared memory by asynchronous
 * copies: values while scores are computed, the next keys while values are mixed.  A row in shared memory has 8 numbers
 * more than the matrix, so that 8 rows of load_matrices have no bank conflicts.
 *
 * Exponentials are of base two, by the GPU's special function unit.  Scores are in units of log(2), so that these take
 * no product; with a bias they are not, since one of -3.4e38 would become -inf.  Weights are rounded to 16 bits before
 * they are multiplied with the values, as usual with tensor cores, and the sum is of the unrounded weights. */

/* Scores are multiplied by the first; what is computed with them, by the second before it is an exponent of two. */
FN float attention_unit(const Attention *a) { return a->bias ? 1 : 1.44269504088896341f; }
FN float attention_exponent(const Attention *a, float x) { return a->bias ? x * 1.44269504088896341f : x; }

FN float quad_max(float v) {
  UNROLL for (int w = 2; w; w /= 2) v = __builtin_fmaxf(v, shuffle_f32(v, lane_index() ^ w));
  return v;
}
FN float quad_sum(float v) {
  UNROLL for (int w = 2; w; w /= 2) v += shuffle_f32(v, lane_index() ^ w);
  return v;
}

/* Finds the first 64 keys from t on of which a row sees some; their positions are valid after the next barrier.
 * `whole`: every row sees all of them.  Every warp finds the same. */
FN int64_t attention_next(const Attention *a, int64_t t, int64_t lowest, int64_t highest, int64_t *where, int *whole) {
  *whole = 0;
  for (; t < a->t; t += 64) {
    int64_t one = attention_where(a, t + lane_index()), two = attention_where(a, t + 32 + lane_index());
    if (!warp_max_i32(one <= highest || two <= highest)) continue;
    if (warp_index() == 0) where[lane_index()] = one, where[32 + lane_index()] = two;
    *whole = !warp_max_i32(one > lowest || two > lowest);
    break;
  }
  return t;
}

/* Copies 64 rows from `first` on of a matrix with `width` columns and `rows` rows, as rows of 16 * steps numbers,
 * padded with zeros, `stride` apart.  With `wide` by asynchronous copies. */
FN void attention_copy(uint16_t *to, int stride, const uint16_t *from, const Lines *lines, int64_t first, int64_t rows,
                       int64_t width, const int steps, _Bool wide) {
  if (wide) {
    UNROLL for (int i = 0; i < steps; i++) {
      int piece = thread_index() + 128 * i, row = piece / (2 * steps), at = piece % (2 * steps) * 8;
      _Bool there = row < rows && at < width;
      copy_async(to + row * stride + at, there ? from + line_at(lines, first + row) + at : from, there ? 16 : 0);
    }
  } else {
    ROLL for (int i = thread_index(); i < 64 * 16 * steps; i += 128) {
      int row = i / (16 * steps), at = i % (16 * steps);
      to[row * stride + at] = row < rows && at < width ? from[line_at(lines, first + row) + at] : 0;
    }
  }
}

/* `both`: 64 * (16 * ks + 8 + 16 * es + 8) numbers; places: 192, with a bias 256. */
#define ATTENTION_TENSOR(T) \
  FN void attention_tensor_##T(const Attention *a, uint16_t *out, const uint16_t *query, const uint16_t *keys, \
      const uint16_t *values, float scale, const int ks, const int es, uint16_t *both, int64_t *places) { \
    const int kstride = 16 * ks + 8, estride = 16 * es + 8, lane = lane_index(), pair = lane % 4 * 2; \
    int64_t tiles = (a->rows + 63) / 64, group = block_index() / tiles; \
    int64_t first = (tiles - 1 - block_index() % tiles) * 64, *last = places + 128, *bias_row = places + 192; \
    uint16_t *some_keys = both, *some_values = both + 64 * kstride; \
    int here = a->rows - first < 64 ? (int)(a->rows - first) : 64, row = 16 * warp_index() + lane / 4; \
    query += lines_of(&a->of_query, group), keys += lines_of(&a->of_keys, group); \
    values += lines_of(&a->of_values, group), out += lines_of(&a->of_result, group); \
    _Bool wide = a->k % 8 == 0 && a->e % 8 == 0 && lines_wide(&a->of_query) && lines_wide(&a->of_keys) && \
        lines_wide(&a->of_values) && lines_wide(&a->of_result) && \
        ((uintptr_t)query | (uintptr_t)keys | (uintptr_t)values | (uintptr_t)out) % 16 == 0; \
    int64_t highest = attention_lasts(a, group, first, last, bias_row), lowest = attention_lowest(a, first); \
    attention_copy(some_keys, kstride, query, &a->of_query, first, here, a->k, ks, wide); \
    copy_wait(); \
    barrier(); \
    uint32_t q[8][4]; \
    UNROLL for (int s = 0; s < ks; s++) \
      load_matrices(q[s], some_keys + (16 * warp_index() + lane % 16) * kstride + 16 * s + lane / 16 * 8); \
    float max[2], sum[2], result[16][4]; \
    UNROLL for (int i = 0; i < 2; i++) max[i] = -__builtin_inff(), sum[i] = 0; \
    UNROLL for (int i = 0; i < 64; i++) result[i / 4][i % 4] = 0; \
    int whole, next_whole, slot = 0; \
    int64_t t = attention_next(a, 0, lowest, highest, places, &whole), next; \
    barrier(); /* the queries are read */ \
    if (t < a->t) attention_copy(some_keys, kstride, keys, &a->of_keys, t, a->t - t, a->k, ks, wide); \
    for (; t < a->t; t = next, whole = next_whole, slot ^= 64) { \
      copy_wait(); \
      barrier(); /* the keys have arrived, the previous values are used up */ \
      attention_copy(some_values, estride, values, &a->of_values, t, a->t - t, a->e, es, wide); \
      float score[8][4]; \
      UNROLL for (int i = 0; i < 32; i++) score[i / 4][i % 4] = 0; \
      UNROLL for (int s = 0; s < ks; s++) \
        UNROLL for (int p = 0; p < 4; p++) { \
          uint32_t b[4]; \
          load_matrices(b, some_keys + (16 * p + lane % 8 + lane / 16 * 8) * kstride + 16 * s + lane / 8 % 2 * 8); \
          tensor_##T(score[2 * p], q[s], b); \
          tensor_##T(score[2 * p + 1], q[s], b + 2); \
        } \
      UNROLL for (int r = 0; r < 2; r++) { \
        float high = max[r]; \
        int64_t seen = last[row + 8 * r]; \
        UNROLL for (int n = 0; n < 16; n++) { \
          float *x = &score[n / 2][2 * r + n % 2]; \
          int key = n / 2 * 8 + pair + n % 2; \
          *x *= scale * attention_unit(a); \
          if (a->bias && row + 8 * r < here && t + key < a->t) \
            *x += load_##T((const uint16_t *)a->bias + bias_row[row + 8 * r] + t + key); \
          if (!whole) *x = places[slot + key] <= seen ? *x : -__builtin_inff(); \
          high = __builtin_fmaxf(high, *x); \
        } \
        high = quad_max(high); \
        float from = attention_max(high), keep = exp2_fast(attention_exponent(a, max[r] - from)); \
        max[r] = high, sum[r] *= keep; \
        UNROLL for (int n = 0; n < 16; n++) { \
          float *x = &score[n / 2][2 * r + n % 2]; \
          *x = exp2_fast(attention_exponent(a, *x - from)), sum[r] += *x; \
        } \
        UNROLL for (int n = 0; n < 2 * es; n++) result[n][2 * r] *= keep, result[n][2 * r + 1] *= keep; \
      } \
      next = attention_next(a, t + 64, lowest, highest, places + (slot ^ 64), &next_whole); \
      copy_wait(); \
      barrier(); /* the values have arrived, the keys are used up */ \
      if (next < a->t) \
        attention_copy(some_keys, kstride, keys, &a->of_keys, next, a->t - next, a->k, ks, wide); \
      UNROLL for (int s = 0; s < 4; s++) { \
        uint32_t w[4]; \
        UNROLL for (int i = 0; i < 4; i++) \
          w[i] = pack_##T(score[2 * s + i / 2][i % 2 * 2], score[2 * s + i / 2][i % 2 * 2 + 1]); \
        UNROLL for (int p = 0; p < es; p++) { \
          uint32_t b[4]; \
          load_matrices_turned(b, some_values + (16 * s + lane % 16) * estride + 16 * p + lane / 16 * 8); \
          tensor_##T(result[2 * p], w, b); \
          tensor_##T(result[2 * p + 1], w, b + 2); \
        } \
      } \
    } \
    barrier(); /* all warps are done: each gathers its rows in the memory of the values */ \
    UNROLL for (int r = 0; r < 2; r++) { \
      float total = quad_sum(sum[r]), share = total == 0 ? 0 : 1 / total; \
      UNROLL for (int n = 0; n < 2 * es; n++) { \
        uint32_t two = pack_##T(result[n][2 * r] * share, result[n][2 * r + 1] * share); \
        *(uint32_t *)(both + (row + 8 * r) * estride + 8 * n + pair) = two; \
      } \
      if (a->max && pair == 0 && row + 8 * r < here) { \
        int64_t at = group * a->rows + first + row + 8 * r; \
        ((float *)a->max)[at] = attention_max(max[r]) * (a->bias ? 1 : 0.693147180559945309f); \
        ((float *)a->sum)[at] = total; \
      } \
    } \
    warp_barrier(); \
    ROLL for (int i = lane; i < 32 * es; i += 32) { \
      int of = 16 * warp_index() + i / (2 * es), at = i % (2 * es) * 8; \
      if (of >= here || at >= a->e) continue; \
      uint16_t *to = out + line_at(&a->of_result, first + of) + at; \
      if (wide) store_wide(to, both + of * estride + at, 16); \
      else \
        for (int j = 0; j < 8 && at + j < a->e; j++) to[j] = both[of * estride + at + j]; \
    } \
  }
ATTENTION_TENSOR(f16)
ATTENTION_TENSOR(bf16)
