/* runtime/device/gemm_tiles.c - see gemm_tiles.h.
 *
 * A tile of C stays in registers: 6 rows of 2 vectors of 8 with AVX2; gemm_tiles_avx512.c has those for AVX-512.
 * Meanwhile B of the next tile is prefetched into the second-level cache, a line per step.
 */
#include "runtime/device/gemm_tiles.h"

#include <stddef.h>
#include <string.h>

#include "runtime/device/onednn.h"

/* ---- packing */

/* Packs elements [l, k) of columns [j, PROGRAM_PANEL) of a panel; missing columns are 0. */
static void pack_rest(const float *b, int64_t b_k, int64_t b_n, int64_t l, int64_t k, int64_t j, int64_t columns,
                      float *to) {
  for (; l < k; l++)
    for (int64_t i = j; i < PROGRAM_PANEL; i++) {
      float x = 0;
      if (i < columns) memcpy(&x, b + l * b_k + i * b_n, sizeof x); /* mapped files are not aligned */
      to[l * PROGRAM_PANEL + i] = x;
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

/* to[8][16] = the transpose of 8 rows of 8 contiguous elements. */
__attribute__((target("avx2"))) static void transpose_8(const float *from, int64_t step, float *to) {
  __m256 r[8], t[8];
  for (int i = 0; i < 8; i++) r[i] = _mm256_loadu_ps(from + i * step);
  for (int i = 0; i < 8; i += 2)
    t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]), t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
  for (int i = 0; i < 8; i += 4)
    for (int h = 0; h < 2; h++) {
      r[i + 2 * h] = _mm256_shuffle_ps(t[i + h], t[i + 2 + h], _MM_SHUFFLE(1, 0, 1, 0));
      r[i + 2 * h + 1] = _mm256_shuffle_ps(t[i + h], t[i + 2 + h], _MM_SHUFFLE(3, 2, 3, 2));
    }
  for (int i = 0; i < 4; i++) {
    _mm256_storeu_ps(to + i * PROGRAM_PANEL, _mm256_permute2f128_ps(r[i], r[i + 4], 0x20));
    _mm256_storeu_ps(to + (i + 4) * PROGRAM_PANEL, _mm256_permute2f128_ps(r[i], r[i + 4], 0x31));
  }
}

/* Packs squares of 8 if columns are contiguous; returns the number of packed columns, in k / 8 * 8 rows. */
static int64_t pack_eights(const float *b, int64_t b_k, int64_t b_n, int64_t k, int64_t columns, float *to) {
  int64_t whole = b_k == 1 && __builtin_cpu_supports("avx2") ? columns / 8 * 8 : 0;
  for (int64_t j = 0; j < whole; j += 8)
    for (int64_t l = 0; l < k / 8 * 8; l += 8) transpose_8(b + j * b_n + l, b_n, to + l * PROGRAM_PANEL + j);
  return whole;
}
#else
static int64_t pack_eights(const float *b, int64_t b_k, int64_t b_n, int64_t k, int64_t columns, float *to) {
  return (void)b, (void)b_k, (void)b_n, (void)k, (void)columns, (void)to, 0;
}
#endif

void gemm_tiles_pack(const float *b, int64_t b_k, int64_t b_n, int64_t k, int64_t columns, float *to) {
  if (b_n == 1 && columns == PROGRAM_PANEL) {
    for (int64_t l = 0; l < k; l++) memcpy(to + l * PROGRAM_PANEL, b + l * b_k, PROGRAM_PANEL * sizeof *to);
    return;
  }
  int64_t whole = pack_eights(b, b_k, b_n, k, columns, to), eights = whole ? k / 8 * 8 : 0;
  pack_rest(b, b_k, b_n, 0, eights, whole, columns, to);
  pack_rest(b, b_k, b_n, eights, k, 0, columns, to);
}

/* Columns that are contiguous in the matrix: two terms of a column are one word of a panel. */
static bool pack_words(const uint16_t *b, int64_t b_k, int64_t b_n, int64_t k, int64_t columns, uint16_t *to) {
  if (b_k != 1 || b_n % 2 || k % 2) return false;
  gemm_tiles_pack((const float *)(const void *)b, 1, b_n / 2, k / 2, columns, (float *)(void *)to);
  return true;
}

/* The matrix may be at an odd address. */
static uint16_t half_at(const uint16_t *b, int64_t at) {
  uint16_t x;
  memcpy(&x, b + at, sizeof x);
  return x;
}

static void pack_pairs(const uint16_t *b, int64_t b_k, int64_t b_n, int64_t k, int64_t columns, uint16_t *to) {
  for (int64_t l = 0; l < k; l += 2, to += 2 * PROGRAM_PANEL) {
    if (columns < PROGRAM_PANEL || l + 1 == k) memset(to, 0, 2 * PROGRAM_PANEL * sizeof *to);
    for (int64_t h = 0; h < 2 && l + h < k; h++)
      for (int64_t j = 0; j < columns; j++) to[2 * j + h] = half_at(b, (l + h) * b_k + j * b_n);
  }
}

void gemm_tiles_pack_16(DType type, const uint16_t *b, int64_t b_k, int64_t b_n, int64_t k, int64_t columns,
                        uint16_t *to) {
  if (type == DT_bf16) {
    if (!pack_words(b, b_k, b_n, k, columns, to)) pack_pairs(b, b_k, b_n, k, columns, to);
    return;
  }
  for (int64_t l = 0; l < k; l++, to += PROGRAM_PANEL) {
    if (b_n == 1) memcpy(to, b + l * b_k, (size_t)columns * sizeof *to);
    else
      for (int64_t j = 0; j < columns; j++) to[j] = half_at(b, l * b_k + j * b_n);
    memset(to + columns, 0, (size_t)(PROGRAM_PANEL - columns) * sizeof *to);
  }
}

void gemm_tiles_activate(const GemmTile *t) {
  Epilogue e = {.activation = t->epilogue.activation};
  if (e.activation != ACT_none && e.activation != ACT_relu && e.activation != ACT_relu6)
    epilogue_apply(e, t->c, t->rows, t->columns, t->c_m, NULL, NULL);
}

/* ---- any processor: vectors by the compiler, and two roundings per term without fused multiply-adds */

enum { PLAIN_ROWS = 4 };

/* Returns row l of a panel as f32, in `wide` unless it is f32. */
static const float *row_of(const GemmTile *t, int64_t l, float *wide) {
  if (t->type == DT_f32) return (const float *)t->b + l * PROGRAM_PANEL;
  for (int64_t j = 0; j < PROGRAM_PANEL; j++) {
    const int64_t pair = l / 2 * 2 * PROGRAM_PANEL + 2 * j + l % 2;
    const uint16_t *x = (const uint16_t *)t->b + (t->type == DT_bf16 ? pair : l * PROGRAM_PANEL + j);
    wide[j] = (float)dtype_load_f(t->type, x);
  }
  return wide;
}

static void run_plain(const GemmTile *t) {
  float wide[PROGRAM_PANEL];
  for (int64_t r = 0; r < t->rows; r++) {
    float sum[PROGRAM_PANEL] = {0};
    for (int64_t j = 0; t->add && j < t->columns; j++) sum[j] = t->c[r * t->c_m + j];
    for (int64_t l = 0; l < t->k; l++) {
      const float *b = row_of(t, l, wide);
      for (int j = 0; j < PROGRAM_PANEL; j++) sum[j] += t->a[r * t->a_m + l] * b[j];
    }
    for (int64_t j = 0; j < t->columns; j++) t->c[r * t->c_m + j] = sum[j];
  }
  epilogue_apply(t->epilogue, t->c, t->rows, t->columns, t->c_m, t->bias, t->residual);
}

static const GemmTiles plain = {PLAIN_ROWS, 1, run_plain, NULL};

#if defined(__x86_64__)
enum { LINE = 64 /* bytes */ };
#define UNROLL _Pragma("GCC unroll 16")

#define ADD_TERMS(R, at) \
  UNROLL for (int r = 0; r < R; r++) { \
    __m256 x = _mm256_set1_ps(a[r * a_m + at]); \
    sum[r][0] = _mm256_fmadd_ps(x, b0, sum[r][0]); \
    sum[r][1] = _mm256_fmadd_ps(x, b1, sum[r][1]); \
  }

#define TERMS_f32(R) \
  for (int64_t l = t->k; l > 0; l--, b += LINE, a++) { \
    __m256 b0 = _mm256_loadu_ps((const float *)(const void *)b), \
           b1 = _mm256_loadu_ps((const float *)(const void *)(b + 32)); \
    __builtin_prefetch((const void *)((uintptr_t)b + ahead), 0, 2); \
    ADD_TERMS(R, 0) \
  }

/* Two rows side by side: the high halves of words are their f32; the low halves, shifted up, those of the row before.
 */
#define TERMS_bf16(R) \
  for (int64_t l = t->k; l > 0; l -= 2, b += LINE, a += 2) { \
    const __m256i p0 = _mm256_loadu_si256((const void *)b), p1 = _mm256_loadu_si256((const void *)(b + 32)), \
                  high = _mm256_set1_epi32((int)0xffff0000); \
    __m256 b0 = _mm256_castsi256_ps(_mm256_slli_epi32(p0, 16)), b1 = _mm256_castsi256_ps(_mm256_slli_epi32(p1, 16)); \
    __builtin_prefetch((const void *)((uintptr_t)b + ahead), 0, 2); \
    ADD_TERMS(R, 0) \
    if (l == 1) break; \
    b0 = _mm256_castsi256_ps(_mm256_and_si256(p0, high)), b1 = _mm256_castsi256_ps(_mm256_and_si256(p1, high)); \
    ADD_TERMS(R, 1) \
  }

#define TERMS_f16(R) \
  for (int64_t l = t->k; l > 0; l--, b += LINE / 2, a++) { \
    __m256 b0 = _mm256_cvtph_ps(_mm_loadu_si128((const void *)b)), \
           b1 = _mm256_cvtph_ps(_mm_loadu_si128((const void *)(b + 16))); \
    __builtin_prefetch((const void *)((uintptr_t)b + ahead), 0, 2); \
    ADD_TERMS(R, 0) \
  }

/* R rows by a panel of type T, as two vectors.  Activations other than bounds are applied to the stored tile.  NaN
 * passes bounds. */
#define NARROW(T, R) \
  __attribute__((target("avx2,fma,f16c"))) static void T##_##R(const GemmTile *t, float *c, int64_t c_m) { \
    __m256 sum[R][2]; \
    const float *a = t->a; \
    const char *b = t->b; \
    int64_t a_m = t->a_m; \
    uintptr_t ahead = t->ahead ? (uintptr_t)t->ahead - (uintptr_t)b : 0; \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
        t->add ? _mm256_loadu_ps(c + r * c_m + 8 * v) : _mm256_setzero_ps(); \
    TERMS_##T(R) if (t->bias) UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
        _mm256_add_ps(sum[r][v], _mm256_loadu_ps(t->bias + 8 * v)); \
    if (t->residual) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
          _mm256_add_ps(sum[r][v], _mm256_loadu_ps(t->residual + r * c_m + 8 * v)); \
    if (t->epilogue.activation == ACT_relu || t->epilogue.activation == ACT_relu6) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
          _mm256_max_ps(_mm256_setzero_ps(), sum[r][v]); \
    if (t->epilogue.activation == ACT_relu6) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
          _mm256_min_ps(_mm256_set1_ps(6), sum[r][v]); \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) \
        _mm256_storeu_ps(c + r * c_m + 8 * v, sum[r][v]); \
  }
#define NARROWS(T) NARROW(T, 1) NARROW(T, 2) NARROW(T, 3) NARROW(T, 4) NARROW(T, 5) NARROW(T, 6)
NARROWS(f32)
NARROWS(bf16)
NARROWS(f16)

enum { NARROW_ROWS = 6 };
typedef void TileFn(const GemmTile *t, float *c, int64_t c_m);
static TileFn *const of_f32[] = {f32_1, f32_2, f32_3, f32_4, f32_5, f32_6};
static TileFn *const of_bf16[] = {bf16_1, bf16_2, bf16_3, bf16_4, bf16_5, bf16_6};
static TileFn *const of_f16[] = {f16_1, f16_2, f16_3, f16_4, f16_5, f16_6};

/* Runs a whole tile, which applies bias, residual and bounds itself. */
static void run_whole(const GemmTile *t, TileFn *run) {
  run(t, t->c, t->c_m);
  gemm_tiles_activate(t);
}

/* Computes a tile of fewer columns in a buffer. */
static void run_apart(const GemmTile *t, TileFn *run) {
  GemmTile sums = *t;
  float apart[NARROW_ROWS * PROGRAM_PANEL] = {0};
  sums.epilogue = (Epilogue){0}, sums.bias = NULL, sums.residual = NULL;
  for (int64_t r = 0; t->add && r < t->rows; r++)
    for (int64_t j = 0; j < t->columns; j++) apart[r * PROGRAM_PANEL + j] = t->c[r * t->c_m + j];
  run(&sums, apart, PROGRAM_PANEL);
  for (int64_t r = 0; r < t->rows; r++)
    for (int64_t j = 0; j < t->columns; j++) t->c[r * t->c_m + j] = apart[r * PROGRAM_PANEL + j];
  epilogue_apply(t->epilogue, t->c, t->rows, t->columns, t->c_m, t->bias, t->residual);
}

static void run_narrow(const GemmTile *t) {
  TileFn *const *all = t->type == DT_bf16 ? of_bf16 : t->type == DT_f16 ? of_f16 : of_f32, *run = all[t->rows - 1];
  if (t->columns == PROGRAM_PANEL) run_whole(t, run);
  else run_apart(t, run);
}

/* Every processor with AVX2 also has F16C. */
const GemmTiles *gemm_tiles_avx2(void) {
  static const GemmTiles tiles = {NARROW_ROWS, 1, run_narrow, NULL};
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &tiles : NULL;
}

#else

const GemmTiles *gemm_tiles_avx2(void) { return NULL; }

#endif

const GemmTiles *gemm_tiles(void) {
  const GemmTiles *avx512 = gemm_tiles_avx512(), *avx2 = gemm_tiles_avx2();
  return avx512 ? avx512 : avx2 ? avx2 : &plain;
}
