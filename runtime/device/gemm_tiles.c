/* runtime/device/gemm_tiles.c - see gemm_tiles.h.
 *
 * A tile of C stays in registers: 6 rows of 2 vectors of 8 with AVX2, 12 of 2 of 16 with AVX-512.  On a core that does
 * 117 GFLOP/s both reach 105 to 116 (bench/results/cpu.md).
 */
#include "runtime/device/gemm_tiles.h"

#include <stddef.h>

/* ---- any processor: the compiler's vectors, and two roundings per term where it has no fused multiply-add */

enum { PLAIN_ROWS = 4 };

static void run_plain(const GemmTile *t) {
  for (int64_t r = 0; r < t->rows; r++) {
    float sum[PROGRAM_PANEL] = {0};
    for (int64_t j = 0; t->add && j < t->columns; j++) sum[j] = t->c[r * t->c_m + j];
    for (int64_t l = 0; l < t->k; l++)
      for (int j = 0; j < PROGRAM_PANEL; j++) sum[j] += t->a[r * t->a_m + l] * t->b[l * PROGRAM_PANEL + j];
    for (int64_t j = 0; j < t->columns; j++) t->c[r * t->c_m + j] = sum[j];
  }
}

static const GemmTiles plain = {PLAIN_ROWS, 1, run_plain};

#if defined(__x86_64__)
#include <immintrin.h>

#define UNROLL _Pragma("GCC unroll 16")

/* ---- AVX2: 6 rows, one panel */

#define TILE(R) \
  __attribute__((target("avx2,fma"))) static void narrow_##R(const GemmTile *t, float *c, int64_t c_m) { \
    __m256 sum[R][2]; \
    const float *a = t->a, *b = t->b; \
    int64_t a_m = t->a_m; \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
        t->add ? _mm256_loadu_ps(c + r * c_m + 8 * v) : _mm256_setzero_ps(); \
    for (int64_t l = t->k; l > 0; l--, b += PROGRAM_PANEL, a++) { \
      __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8); \
      UNROLL for (int r = 0; r < R; r++) { \
        __m256 x = _mm256_broadcast_ss(a + r * a_m); \
        sum[r][0] = _mm256_fmadd_ps(x, b0, sum[r][0]); \
        sum[r][1] = _mm256_fmadd_ps(x, b1, sum[r][1]); \
      } \
    } \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) \
        _mm256_storeu_ps(c + r * c_m + 8 * v, sum[r][v]); \
  }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
#undef TILE

/* ---- AVX-512: 12 rows, two panels */

#define TILE(R) \
  __attribute__((target("avx512f"))) static void wide_##R(const GemmTile *t, float *c, int64_t c_m) { \
    __m512 sum[R][2]; \
    const float *a = t->a, *b = t->b; \
    int64_t a_m = t->a_m, b_panel = t->b_panel; \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
        t->add ? _mm512_loadu_ps(c + r * c_m + 16 * v) : _mm512_setzero_ps(); \
    for (int64_t l = t->k; l > 0; l--, b += PROGRAM_PANEL, a++) { \
      __m512 b0 = _mm512_loadu_ps(b), b1 = _mm512_loadu_ps(b + b_panel); \
      UNROLL for (int r = 0; r < R; r++) { \
        __m512 x = _mm512_set1_ps(a[r * a_m]); \
        sum[r][0] = _mm512_fmadd_ps(x, b0, sum[r][0]); \
        sum[r][1] = _mm512_fmadd_ps(x, b1, sum[r][1]); \
      } \
    } \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) \
        _mm512_storeu_ps(c + r * c_m + 16 * v, sum[r][v]); \
  }
TILE(1)
TILE(2)
TILE(3)
TILE(4)
TILE(5)
TILE(6)
TILE(7)
TILE(8)
TILE(9)
TILE(10)
TILE(11)
TILE(12)
#undef TILE

typedef void TileFn(const GemmTile *t, float *c, int64_t c_m);
static TileFn *const narrow[] = {narrow_1, narrow_2, narrow_3, narrow_4, narrow_5, narrow_6};
static TileFn *const wide[] = {wide_1, wide_2, wide_3, wide_4,  wide_5,  wide_6,
                               wide_7, wide_8, wide_9, wide_10, wide_11, wide_12};

enum { NARROW_ROWS = 6, WIDE_ROWS = 12, WIDE = 2 * PROGRAM_PANEL };

/* A tile of fewer columns is computed apart; `columns` are those of a whole one. */
static void run_apart(const GemmTile *t, TileFn *run, int64_t columns) {
  float apart[WIDE_ROWS * WIDE] = {0};
  for (int64_t r = 0; t->add && r < t->rows; r++)
    for (int64_t j = 0; j < t->columns; j++) apart[r * columns + j] = t->c[r * t->c_m + j];
  run(t, apart, columns);
  for (int64_t r = 0; r < t->rows; r++)
    for (int64_t j = 0; j < t->columns; j++) t->c[r * t->c_m + j] = apart[r * columns + j];
}

static void run_narrow(const GemmTile *t) {
  TileFn *run = narrow[t->rows - 1];
  if (t->columns == PROGRAM_PANEL) run(t, t->c, t->c_m);
  else run_apart(t, run, PROGRAM_PANEL);
}

/* The last panel may be alone: then its rows go in two parts through the narrow tiles. */
static void run_wide(const GemmTile *t) {
  TileFn *run = wide[t->rows - 1];
  if (t->columns == WIDE) {
    run(t, t->c, t->c_m);
    return;
  }
  if (t->columns > PROGRAM_PANEL) {
    run_apart(t, run, WIDE);
    return;
  }
  GemmTile part = *t;
  for (int64_t row = 0; row < t->rows; row += NARROW_ROWS) {
    part.rows = t->rows - row < NARROW_ROWS ? t->rows - row : NARROW_ROWS;
    part.a = t->a + row * t->a_m, part.c = t->c + row * t->c_m;
    run_narrow(&part);
  }
}

const GemmTiles *gemm_tiles_avx2(void) {
  static const GemmTiles tiles = {NARROW_ROWS, 1, run_narrow};
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? &tiles : NULL;
}

const GemmTiles *gemm_tiles(void) {
  static const GemmTiles tiles = {WIDE_ROWS, 2, run_wide};
  const GemmTiles *avx2 = gemm_tiles_avx2();
  if (!avx2) return &plain;
  return __builtin_cpu_supports("avx512f") ? &tiles : avx2;
}

#else

const GemmTiles *gemm_tiles_avx2(void) { return NULL; }
const GemmTiles *gemm_tiles(void) { return &plain; }

#endif
