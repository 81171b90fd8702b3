/* runtime/device/gemm_tiles_avx512.c - see gemm_tiles.h: tiles for AVX-512.
 *
 * 12 rows by one or two panels stay in registers: 24 sums, two vectors of B, one element of A.  The last vector of a
 * row has a mask, so that the tile computes results of any width, with bias, residual and bounds.  Meanwhile B of the
 * next tile is prefetched into the second-level cache, a line per step, and its C into the first-level cache.
 */
#include "runtime/device/gemm_tiles.h"

#include <stddef.h>
#include <string.h>

#include "runtime/device/onednn.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define UNROLL _Pragma("GCC unroll 16")

enum {
  ROWS = 12,
  LANES = PROGRAM_PANEL,
  LINE = 64 /* bytes */,
  FAR = 4096 /* bytes by which one row, which reads a panel once, prefetches 16-bit terms */
};

/* Adds the terms of one row of B, a[at] times y. */
#define ADD_TERMS(R, V, at) \
  UNROLL for (int r = 0; r < R; r++) { \
    __m512 x = _mm512_set1_ps(a[r * a_m + at]); \
    UNROLL for (int v = 0; v < V; v++) sum[r][v] = _mm512_fmadd_ps(x, y[v], sum[r][v]); \
  }

#define TERMS_f32(R, V) \
  for (int64_t l = t->k; l > 0; l--, b += LINE, ahead += LINE, a++) { \
    __m512 y[V]; \
    UNROLL for (int v = 0; v < V; v++) y[v] = _mm512_loadu_ps(b + 4 * v * panel); \
    __builtin_prefetch(ahead, 0, 2); \
    ADD_TERMS(R, V, 0) \
  }

/* Two rows side by side: the high halves of words are their f32; the low halves, shifted up, those of the row before.
 */
#define TERMS_bf16(R, V) \
  for (int64_t l = t->k; l > 0; l -= 2, b += LINE, ahead += LINE, a += 2) { \
    __m512i pair[V]; \
    __m512 y[V]; \
    UNROLL for (int v = 0; v < V; v++) pair[v] = _mm512_loadu_si512(b + 2 * v * panel); \
    UNROLL for (int v = 0; v < V; v++) y[v] = _mm512_castsi512_ps(_mm512_slli_epi32(pair[v], 16)); \
    if (R > 1) __builtin_prefetch(ahead, 0, 2); \
    else UNROLL for (int v = 0; v < V; v++) __builtin_prefetch(b + 2 * v * panel + FAR, 0, 3); \
    ADD_TERMS(R, V, 0) \
    if (l == 1) break; \
    UNROLL for (int v = 0; v < V; v++) y[v] = \
        _mm512_castsi512_ps(_mm512_and_si512(pair[v], _mm512_set1_epi32((int)0xffff0000))); \
    ADD_TERMS(R, V, 1) \
  }

#define TERMS_f16(R, V) \
  for (int64_t l = t->k; l > 0; l--, b += LINE / 2, ahead += LINE / 2, a++) { \
    __m512 y[V]; \
    UNROLL for (int v = 0; v < V; v++) y[v] = _mm512_cvtph_ps(_mm256_loadu_si256((const void *)(b + 2 * v * panel))); \
    if (R > 1) __builtin_prefetch(ahead, 0, 2); \
    else UNROLL for (int v = 0; v < V; v++) __builtin_prefetch(b + 2 * v * panel + FAR, 0, 3); \
    ADD_TERMS(R, V, 0) \
  }

/* A term of A and B is a pair of bf16. */
#define TERMS_pairs(R, V) \
  for (int64_t l = t->k; l > 0; l--, b += LINE, ahead += LINE, a++) { \
    __m512i y[V]; \
    UNROLL for (int v = 0; v < V; v++) y[v] = _mm512_loadu_si512(b + 2 * v * panel); \
    if (R > 1) __builtin_prefetch(ahead, 0, 2); \
    else UNROLL for (int v = 0; v < V; v++) __builtin_prefetch(b + 2 * v * panel + FAR, 0, 3); \
    UNROLL for (int r = 0; r < R; r++) { \
      __m512i x = _mm512_castps_si512(_mm512_set1_ps(a[r * a_m])); \
      UNROLL for (int v = 0; v < V; v++) sum[r][v] = _mm512_dpbf16_ps(sum[r][v], (__m512bh)y[v], (__m512bh)x); \
    } \
  }

#define TARGET_f32 "avx512f"
#define TARGET_f16 "avx512f"
#define TARGET_bf16 "avx512f"
#define TARGET_pairs "avx512f,avx512bf16"

/* R rows by V panels of type T.  NaN passes bounds; other activations are applied to the stored tile. */
#define TILE(T, R, V) \
  __attribute__((target(TARGET_##T))) static void T##_##R##_##V(const GemmTile *t) { \
    __m512 sum[R][V]; \
    __mmask16 last = (__mmask16)((1u << (t->columns - (V - 1) * LANES)) - 1); \
    const float *a = t->a; \
    const char *b = t->b, *ahead = t->ahead ? t->ahead : t->b; \
    float *c = t->c; \
    int64_t a_m = t->a_m, c_m = t->c_m, panel = t->b_panel; \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] = \
        t->add ? _mm512_maskz_loadu_ps(v == V - 1 ? last : 0xffff, c + r * c_m + LANES * v) : _mm512_setzero_ps(); \
    if (t->next) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) \
          __builtin_prefetch(t->next + r * c_m + LANES * v, 1, 3); \
    TERMS_##T(R, V) if (t->bias) UNROLL for (int v = 0; v < V; v++) { \
      __m512 x = _mm512_maskz_loadu_ps(v == V - 1 ? last : 0xffff, t->bias + LANES * v); \
      UNROLL for (int r = 0; r < R; r++) sum[r][v] = _mm512_add_ps(sum[r][v], x); \
    } \
    if (t->residual) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] = _mm512_add_ps( \
          sum[r][v], _mm512_maskz_loadu_ps(v == V - 1 ? last : 0xffff, t->residual + r * c_m + LANES * v)); \
    if (t->epilogue.activation == ACT_relu || t->epilogue.activation == ACT_relu6) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] = \
          _mm512_max_ps(_mm512_setzero_ps(), sum[r][v]); \
    if (t->epilogue.activation == ACT_relu6) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] = \
          _mm512_min_ps(_mm512_set1_ps(6), sum[r][v]); \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) \
        _mm512_mask_storeu_ps(c + r * c_m + LANES * v, v == V - 1 ? last : 0xffff, sum[r][v]); \
  }
#define TILES(R) \
  TILE(f32, R, 1) \
  TILE(f32, R, 2) TILE(bf16, R, 1) TILE(bf16, R, 2) TILE(f16, R, 1) TILE(f16, R, 2) TILE(pairs, R, 1) TILE(pairs, R, 2)
TILES(1)
TILES(2)
TILES(3)
TILES(4)
TILES(5)
TILES(6)
TILES(7)
TILES(8)
TILES(9)
TILES(10)
TILES(11)
TILES(12)

#define BOTH(T, R) \
  { T##_##R##_1, T##_##R##_2 }
#define ALL(T) \
  { \
    BOTH(T, 1), BOTH(T, 2), BOTH(T, 3), BOTH(T, 4), BOTH(T, 5), BOTH(T, 6), BOTH(T, 7), BOTH(T, 8), BOTH(T, 9), \
        BOTH(T, 10), BOTH(T, 11), BOTH(T, 12) \
  }

typedef void TileFn(const GemmTile *t);
static TileFn *const of_f32[ROWS][2] = ALL(f32);
static TileFn *const of_bf16[ROWS][2] = ALL(bf16);
static TileFn *const of_f16[ROWS][2] = ALL(f16);
static TileFn *const of_pairs[ROWS][2] = ALL(pairs);

static void run(const GemmTile *t) {
  TileFn *const(*tiles)[2] = t->type == DT_bf16 ? of_bf16 : t->type == DT_f16 ? of_f16 : of_f32;
  if (t->pairs) tiles = of_pairs;
  tiles[t->rows - 1][t->columns > LANES](t);
  gemm_tiles_activate(t);
}

/* Ties go to even; numbers below 2^-126 become 0, as in products of pairs. */
__attribute__((target(TARGET_pairs))) static void pairs_of(const float *row, int64_t step, int64_t k, uint16_t *to) {
  for (int64_t l = 0; l < k; l += LANES) {
    const int64_t n = k - l < LANES ? k - l : LANES;
    float apart[LANES] = {0};
    for (int64_t i = 0; i < n && (n < LANES || step != 1); i++) apart[i] = row[(l + i) * step];
    const __m512 x = _mm512_loadu_ps(n == LANES && step == 1 ? row + l : apart);
    uint16_t narrow[LANES];
    const __m256bh rounded = _mm512_cvtneps_pbh(x);
    memcpy(narrow, &rounded, sizeof narrow);
    memcpy(to + l, narrow, (size_t)((n + 1) / 2 * 2) * sizeof *to);
  }
}

const GemmTiles *gemm_tiles_avx512(void) {
  static const GemmTiles tiles = {ROWS, 2, run, NULL}, with_pairs = {ROWS, 2, run, pairs_of};
  if (!__builtin_cpu_supports("avx512f")) return NULL;
  return __builtin_cpu_supports("avx512bf16") ? &with_pairs : &tiles;
}
#else
const GemmTiles *gemm_tiles_avx512(void) { return NULL; }
#endif
