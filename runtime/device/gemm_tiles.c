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

void gemm_tiles_activate(const GemmTile *t) {
  Epilogue e = {.activation = t->epilogue.activation};
  if (e.activation != ACT_none && e.activation != ACT_relu && e.activation != ACT_relu6)
    epilogue_apply(e, t->c, t->rows, t->columns, t->c_m, NULL, NULL);
}

/* ---- any processor: vectors by the compiler, and two roundings per term without fused multiply-adds */

enum { PLAIN_ROWS = 4 };

static void run_plain(const GemmTile *t) {
  for (int64_t r = 0; r < t->rows; r++) {
    float sum[PROGRAM_PANEL] = {0};
    for (int64_t j = 0; t->add && j < t->columns; j++) sum[j] = t->c[r * t->c_m + j];
    for (int64_t l = 0; l < t->k; l++)
      for (int j = 0; j < PROGRAM_PANEL; j++) sum[j] += t->a[r * t->a_m + l] * t->b[l * PROGRAM_PANEL + j];
    for (int64_t j = 0; j < t->columns; j++) t->c[r * t->c_m + j] = sum[j];
  }
  epilogue_apply(t->epilogue, t->c, t->rows, t->columns, t->c_m, t->bias, t->residual);
}

static const GemmTiles plain = {PLAIN_ROWS, 1, run_plain};

#if defined(__x86_64__)
#define UNROLL _Pragma("GCC unroll 16")

/* R rows by a panel, as two vectors.  Activations other than bounds are applied to the stored tile.  NaN passes
 * bounds. */
#define NARROW(R) \
  __attribute__((target("avx2,fma"))) static void narrow_##R(const GemmTile *t, float *c, int64_t c_m) { \
    __m256 sum[R][2]; \
    const float *a = t->a, *b = t->b; \
    int64_t a_m = t->a_m; \
    uintptr_t ahead = t->ahead ? (uintptr_t)t->ahead - (uintptr_t)b : 0; \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
        t->add ? _mm256_loadu_ps(c + r * c_m + 8 * v) : _mm256_setzero_ps(); \
    for (int64_t l = t->k; l > 0; l--, b += PROGRAM_PANEL, a++) { \
      __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8); \
      __builtin_prefetch((const void *)((uintptr_t)b + ahead), 0, 2); \
      UNROLL for (int r = 0; r < R; r++) { \
        __m256 x = _mm256_set1_ps(a[r * a_m]); \
        sum[r][0] = _mm256_fmadd_ps(x, b0, sum[r][0]); \
        sum[r][1] = _mm256_fmadd_ps(x, b1, sum[r][1]); \
      } \
    } \
    if (t->bias) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
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
NARROW(1)
NARROW(2)
NARROW(3)
NARROW(4)
NARROW(5)
NARROW(6)

enum { NARROW_ROWS = 6 };
typedef void TileFn(const GemmTile *t, float *c, int64_t c_m);
static TileFn *const narrow[] = {narrow_1, narrow_2, narrow_3, narrow_4, narrow_5, narrow_6};

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
  TileFn *run = narrow[t->rows - 1];
  if (t->columns == PROGRAM_PANEL) run_whole(t, run);
  else run_apart(t, run);
}

const GemmTiles *gemm_tiles_avx2(void) {
  static const GemmTiles tiles = {NARROW_ROWS, 1, run_narrow};
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &tiles : NULL;
}

#else

const GemmTiles *gemm_tiles_avx2(void) { return NULL; }

#endif

const GemmTiles *gemm_tiles(void) {
  const GemmTiles *avx512 = gemm_tiles_avx512(), *avx2 = gemm_tiles_avx2();
  return avx512 ? avx512 : avx2 ? avx2 : &plain;
}
