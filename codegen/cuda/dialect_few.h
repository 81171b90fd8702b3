/* codegen/cuda/dialect_few.h - products of few rows in the dialect.  After dialect_attention.h; few.c prints the calls.
 *
 * A block of 256 threads has up to 8 rows and a panel of 32 columns of one product, and reads the panel's weights once,
 * 16 bytes at a time.  Rows are staged in shared memory as f32, normalised if there is a norm, as many terms at a time
 * as 4096 numbers hold.  If the columns of a term are contiguous, four threads read a term of the panel, and 64 such
 * lines take terms in rotation; else (`turned`) a warp has four columns, and each lane reads 8 terms of them.  Partial
 * sums are added in one order: lanes by a butterfly, warps ascending.  So a result depends on its row, its column and
 * the planned rows alone, not on other rows or blocks.
 *
 * Not done: the depth is not divided among blocks, so that a product of few columns leaves processors idle; no
 * asynchronous copies of weights.
 */
/* Adjacent names of macros are no statements. */
/* clang-format off */

typedef struct Few {
  int64_t rows, depth, step; /* of the value; elements from row to row */
  int norm;                  /* FewNorm (codegen/rows/units.h) */
  float eps;
  const void *gain, *shift; /* of the norm; 0 if none */
} Few;

typedef struct FewProduct {
  const void *weights, *bias, *residual; /* 0 if none */
  void *out;
  int64_t columns, panels, step, out_step; /* step: of weights, from term to term, or turned from column to column */
  int relu;
} FewProduct;

/* The product, rows and columns of a block; row and column of the thread's element, which is inside the result or
 * not. */
typedef struct FewPlace {
  FewProduct p;
  int64_t first, panel, row, column;
  _Bool inside;
} FewPlace;

FN FewPlace few_place(const Few *v, const FewProduct *p, const int n, const int rows) {
  FewPlace at;
  int64_t tiles = (v->rows + rows - 1) / rows, panel = block_index() / tiles;
  at.p = p[0];
  UNROLL for (int i = 0; i + 1 < n; i++)
    if (panel >= p[i].panels && at.p.out == p[i].out) panel -= p[i].panels, at.p = p[i + 1];
  at.first = block_index() % tiles * rows, at.panel = panel * 32;
  at.row = at.first + thread_index() / 32, at.column = at.panel + thread_index() % 32;
  at.inside = thread_index() < 32 * rows && at.row < v->rows && at.column < at.p.columns;
  return at;
}

#define FEW(T, stored) \
  /* 8 terms of a row from `term` on; zeros outside */ \
  FN void few_terms_##T(float *r, const Few *v, const stored *x, int64_t row, int64_t term) { \
    int64_t left = row < v->rows ? v->depth - term : 0; \
    load8_##T(r, x + (left > 0 ? row * v->step + term : 0), left < 0 ? 0 : left < 8 ? left : 8); \
  } \
  /* stats[r] = the sum over the block of each row's sum */ \
  FN void few_total_##T(float *sum, const int rows, float *parts, float *stats) { \
    UNROLL for (int r = 0; r < rows; r++) { \
      sum[r] = warp_sum_f32(sum[r]); \
      if (lane_index() == 0) parts[warp_index() * rows + r] = sum[r]; \
    } \
    barrier(); \
    if (thread_index() < rows) { \
      float total = 0; \
      for (int w = 0; w < 8; w++) total += parts[w * rows + thread_index()]; \
      stats[thread_index()] = total; \
    } \
    barrier(); \
  } \
  /* stats: the mean of each row (0 for rms), then the factor of each row */ \
  FN void few_norm_##T(const Few *v, const stored *x, int64_t first, const int rows, float *parts, float *stats) { \
    float sum[8], r8[8], n = (float)v->depth; \
    if (!v->norm) return; \
    UNROLL for (int r = 0; r < rows; r++) sum[r] = 0; \
    if (v->norm == 2) { \
      for (int64_t i = 8 * thread_index(); i < v->depth; i += 2048) UNROLL for (int r = 0; r < rows; r++) { \
        few_terms_##T(r8, v, x, first + r, i); \
        UNROLL for (int j = 0; j < 8; j++) sum[r] += r8[j]; \
      } \
      few_total_##T(sum, rows, parts, stats); \
    } \
    UNROLL for (int r = 0; r < rows; r++) { \
      float mean = v->norm == 2 ? stats[r] / n : 0; \
      sum[r] = 0; \
      for (int64_t i = 8 * thread_index(); i < v->depth; i += 2048) { \
        few_terms_##T(r8, v, x, first + r, i); \
        UNROLL for (int j = 0; j < 8; j++) \
          if (i + j < v->depth) sum[r] = fused_f32(r8[j] - mean, r8[j] - mean, sum[r]); \
      } \
    } \
    few_total_##T(sum, rows, parts, stats + 8); \
    if (thread_index() < rows) { \
      int r = thread_index(); \
      stats[r] = v->norm == 2 ? stats[r] / n : 0, stats[8 + r] = rsqrt_f32(stats[8 + r] / n + v->eps); \
    } \
    barrier(); \
  } \
  /* `many` terms of each row from `term` on, normalised; zeros after the last */ \
  FN void few_stage_##T(const Few *v, const stored *x, int64_t first, int64_t term, const int rows, const int many, \
      float *staged, const float *stats) { \
    float r8[8], gain[8], shift[8]; \
    for (int j = 8 * thread_index(); j < many; j += 2048) { \
      int64_t left = v->depth - term - j, m = left < 0 ? 0 : left < 8 ? left : 8; \
      UNROLL for (int i = 0; i < 8; i++) gain[i] = 1, shift[i] = 0; \
      if (v->gain) load8_##T(gain, (const stored *)v->gain + (m ? term + j : 0), m); \
      if (v->shift) load8_##T(shift, (const stored *)v->shift + (m ? term + j : 0), m); \
      UNROLL for (int r = 0; r < rows; r++) { \
        few_terms_##T(r8, v, x, first + r, term + j); \
        UNROLL for (int i = 0; i < 8; i++) { \
          if (v->norm) r8[i] = (r8[i] - stats[r]) * stats[8 + r] * gain[i] + shift[i]; \
          staged[r * many + j + i] = i < m && first + r < v->rows ? r8[i] : 0; \
        } \
      } \
    } \
  } \
  /* the element of the thread: row thread / 32 of the tile, column thread % 32 of the panel */ \
  FN float few_##T(const Few *v, const FewProduct *p, const FewPlace *at, const stored *x, const int rows, \
      const _Bool turned, float *staged, float *parts, const float *stats) { \
    const int many = 4096 / rows, lane = turned ? lane_index() : thread_index() % 4, line = thread_index() / 4; \
    const stored *w = (const stored *)p->weights; \
    float sum[8][8], r8[8]; \
    int64_t column = at->panel + (turned ? 4 * warp_index() : 8 * lane); \
    int64_t left = p->columns - column < 8 ? p->columns - column : 8; \
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int i = 0; i < 8; i++) sum[r][i] = 0; \
    ROLL for (int64_t term = 0; term < v->depth; term += many) { \
      int end = v->depth - term < many ? (int)(v->depth - term) : many; \
      barrier(); \
      few_stage_##T(v, x, at->first, term, rows, many, staged, stats); \
      barrier(); \
      if (!turned) UNROLL_4 for (int j = line; j < end; j += 64) { \
        load8_##T(r8, w + (left > 0 ? (term + j) * p->step + column : 0), left > 0 ? left : 0); \
        UNROLL for (int r = 0; r < rows; r++) { \
          float u = staged[r * many + j]; \
          UNROLL for (int i = 0; i < 8; i++) sum[r][i] = fused_f32(u, r8[i], sum[r][i]); \
        } \
      } \
      if (turned) for (int j = 8 * lane; j < end; j += 256) { \
        float w8[4][8]; \
        UNROLL for (int c = 0; c < 4; c++) { \
          int64_t m = column + c >= p->columns ? 0 : end - j < 8 ? end - j : 8; \
          load8_##T(w8[c], w + (m ? (column + c) * p->step + term + j : 0), m); \
        } \
        UNROLL for (int r = 0; r < rows; r++) { \
          UNROLL for (int i = 0; i < 8; i++) r8[i] = staged[r * many + j + i]; \
          UNROLL for (int c = 0; c < 4; c++) \
            UNROLL for (int i = 0; i < 8; i++) sum[r][c] = fused_f32(r8[i], w8[c][i], sum[r][c]); \
        } \
      } \
    } \
    barrier(); \
    UNROLL for (int r = 0; r < rows; r++) UNROLL for (int i = 0; i < 8; i++) { \
      if (turned && i >= 4) continue; \
      UNROLL for (int other = turned ? 1 : 4; other < 32; other *= 2) \
        sum[r][i] += shuffle_f32(sum[r][i], lane_index() ^ other); \
      if (turned && lane == 0) parts[r * 32 + 4 * warp_index() + i] = sum[r][i]; \
      if (!turned && lane_index() < 4) parts[(warp_index() * rows + r) * 32 + 8 * lane + i] = sum[r][i]; \
    } \
    barrier(); \
    float y = 0; \
    if (thread_index() < 32 * rows) { \
      y = parts[thread_index()]; \
      for (int other = 1; other < 8 && !turned; other++) y += parts[other * 32 * rows + thread_index()]; \
    } \
    barrier(); \
    return y; \
  } \
  /* what joined a product */ \
  FN float few_end_##T(const FewProduct *p, const FewPlace *at, float y) { \
    if (p->bias) y += load_##T((const stored *)p->bias + at->column); \
    if (p->residual) y += load_##T((const stored *)p->residual + at->row * p->out_step + at->column); \
    return p->relu ? relu_f32(y) : y; \
  } \
  FN void few_store_##T(const FewPlace *at, float y) { \
    store_##T((stored *)at->p.out + at->row * at->p.out_step + at->column, y); \
  }
FEW(f16, uint16_t)
FEW(bf16, uint16_t)
