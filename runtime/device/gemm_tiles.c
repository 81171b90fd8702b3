/* runtime/device/gemm_tiles.c - see gemm_tiles.h.
 *
 * A tile of C stays in registers: 6 rows of 2 vectors of 8 with AVX2, 12 of 2 of 16 with AVX-512.  On a core that does
 * 117 GFLOP/s both reach 105 to 116 (bench/results/cpu.md).
 */
#include "runtime/device/gemm_tiles.h"

#include <stddef.h>
#include <string.h>

#include "runtime/device/onednn.h"

/* ---- packing */

/* Elements [l, k) of columns [j, PROGRAM_PANEL) of a panel; columns that do not exist are 0. */
static void pack_rest(const float *b, int64_t b_k, int64_t b_n, int64_t l, int64_t k, int64_t j, int64_t columns,
                      float *to) {
  for (; l < k; l++)
    for (int64_t i = j; i < PROGRAM_PANEL; i++) {
      float x = 0;
      if (i < columns) memcpy(&x, b + l * b_k + i * b_n, sizeof x); /* files align nothing */
      to[l * PROGRAM_PANEL + i] = x;
    }
}

#if defined(__x86_64__)
#include <immintrin.h>

/* to[8][16] = the transposed of 8 rows of 8 contiguous elements. */
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

/* By squares of 8, where columns are contiguous: how many columns are done, of k / 8 * 8 rows. */
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
  epilogue_apply(t->epilogue, t->c, t->rows, t->columns, t->c_m, t->bias, t->residual);
}

static const GemmTiles plain = {PLAIN_ROWS, 1, run_plain};

#if defined(__x86_64__)
#define UNROLL _Pragma("GCC unroll 16")

/* R rows by two vectors of B, `second` elements apart in B, side by side in C.  Of what follows, activations that are
 * no bounds are done with what was stored.  NaN passes bounds. */
#define TILE(name, R, isa, vector, mm, lanes, second) \
  __attribute__((target(isa))) static void name##_##R(const GemmTile *t, float *c, int64_t c_m) { \
    vector sum[R][2]; \
    const float *a = t->a, *b = t->b; \
    int64_t a_m = t->a_m, step = second; \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
        t->add ? mm##_loadu_ps(c + r * c_m + lanes * v) : mm##_setzero_ps(); \
    for (int64_t l = t->k; l > 0; l--, b += PROGRAM_PANEL, a++) { \
      vector b0 = mm##_loadu_ps(b), b1 = mm##_loadu_ps(b + step); \
      UNROLL for (int r = 0; r < R; r++) { \
        vector x = mm##_set1_ps(a[r * a_m]); \
        sum[r][0] = mm##_fmadd_ps(x, b0, sum[r][0]); \
        sum[r][1] = mm##_fmadd_ps(x, b1, sum[r][1]); \
      } \
    } \
    if (t->bias) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
          mm##_add_ps(sum[r][v], mm##_loadu_ps(t->bias + lanes * v)); \
    if (t->residual) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
          mm##_add_ps(sum[r][v], mm##_loadu_ps(t->residual + r * c_m + lanes * v)); \
    if (t->epilogue.activation == ACT_relu || t->epilogue.activation == ACT_relu6) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
          mm##_max_ps(mm##_setzero_ps(), sum[r][v]); \
    if (t->epilogue.activation == ACT_relu6) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) sum[r][v] = \
          mm##_min_ps(mm##_set1_ps(6), sum[r][v]); \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < 2; v++) \
        mm##_storeu_ps(c + r * c_m + lanes * v, sum[r][v]); \
  }
/* AVX2: 6 rows, one panel.  AVX-512: 12 rows, two panels. */
#define NARROW(R) TILE(narrow, R, "avx2,fma", __m256, _mm256, 8, 8)
#define WIDER(R) TILE(wide, R, "avx512f", __m512, _mm512, 16, t->b_panel)
NARROW(1)
NARROW(2)
NARROW(3)
NARROW(4)
NARROW(5)
NARROW(6)
WIDER(1)
WIDER(2)
WIDER(3)
WIDER(4)
WIDER(5)
WIDER(6)
WIDER(7)
WIDER(8)
WIDER(9)
WIDER(10)
WIDER(11)
WIDER(12)

typedef void TileFn(const GemmTile *t, float *c, int64_t c_m);
static TileFn *const narrow[] = {narrow_1, narrow_2, narrow_3, narrow_4, narrow_5, narrow_6};
static TileFn *const wide[] = {wide_1, wide_2, wide_3, wide_4,  wide_5,  wide_6,
                               wide_7, wide_8, wide_9, wide_10, wide_11, wide_12};

enum { NARROW_ROWS = 6, WIDE_ROWS = 12, WIDE = 2 * PROGRAM_PANEL };

/* A whole tile: bias, residual and bounds are done in it. */
static void run_whole(const GemmTile *t, TileFn *run) {
  Epilogue e = {.activation = t->epilogue.activation};
  run(t, t->c, t->c_m);
  if (e.activation != ACT_none && e.activation != ACT_relu && e.activation != ACT_relu6)
    epilogue_apply(e, t->c, t->rows, t->columns, t->c_m, NULL, NULL);
}

/* A tile of fewer columns is computed apart; `columns` are those of a whole one. */
static void run_apart(const GemmTile *t, TileFn *run, int64_t columns) {
  GemmTile sums = *t;
  float apart[WIDE_ROWS * WIDE] = {0};
  sums.epilogue = (Epilogue){0}, sums.bias = NULL, sums.residual = NULL;
  for (int64_t r = 0; t->add && r < t->rows; r++)
    for (int64_t j = 0; j < t->columns; j++) apart[r * columns + j] = t->c[r * t->c_m + j];
  run(&sums, apart, columns);
  for (int64_t r = 0; r < t->rows; r++)
    for (int64_t j = 0; j < t->columns; j++) t->c[r * t->c_m + j] = apart[r * columns + j];
  epilogue_apply(t->epilogue, t->c, t->rows, t->columns, t->c_m, t->bias, t->residual);
}

static void run_narrow(const GemmTile *t) {
  TileFn *run = narrow[t->rows - 1];
  if (t->columns == PROGRAM_PANEL) run_whole(t, run);
  else run_apart(t, run, PROGRAM_PANEL);
}

/* The last panel may be alone: then its rows go in two parts through the narrow tiles. */
static void run_wide(const GemmTile *t) {
  TileFn *run = wide[t->rows - 1];
  if (t->columns == WIDE) {
    run_whole(t, run);
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
    if (t->residual) part.residual = t->residual + row * t->c_m;
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
