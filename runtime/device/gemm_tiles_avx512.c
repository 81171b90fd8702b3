/* runtime/device/gemm_tiles_avx512.c - see gemm_tiles.h: tiles for AVX-512.
 *
 * 12 rows by one or two panels stay in registers: 24 sums, two vectors of B, one element of A.  The last vector of a
 * row has a mask, so that the tile computes results of any width, with bias, residual and bounds.  Meanwhile B of the
 * next tile is prefetched into the second-level cache, a line per step, and its C into the first-level cache.
 */
#include "runtime/device/gemm_tiles.h"

#include <stddef.h>

#include "runtime/device/onednn.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define UNROLL _Pragma("GCC unroll 16")

enum { ROWS = 12, LANES = PROGRAM_PANEL, LINE = 16 /* floats */ };

/* R rows by V panels.  NaN passes bounds; other activations are applied to the stored tile. */
#define TILE(R, V) \
  __attribute__((target("avx512f"))) static void tile_##R##_##V(const GemmTile *t) { \
    __m512 sum[R][V]; \
    __mmask16 last = (__mmask16)((1u << (t->columns - (V - 1) * LANES)) - 1); \
    const float *a = t->a, *b = t->b, *ahead = t->ahead ? t->ahead : t->b; \
    float *c = t->c; \
    int64_t a_m = t->a_m, c_m = t->c_m, panel = t->b_panel; \
    UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) sum[r][v] = \
        t->add ? _mm512_maskz_loadu_ps(v == V - 1 ? last : 0xffff, c + r * c_m + LANES * v) : _mm512_setzero_ps(); \
    if (t->next) \
      UNROLL for (int r = 0; r < R; r++) UNROLL for (int v = 0; v < V; v++) \
          __builtin_prefetch(t->next + r * c_m + LANES * v, 1, 3); \
    for (int64_t l = t->k; l > 0; l--, b += LANES, ahead += LINE, a++) { \
      __m512 y[V]; \
      UNROLL for (int v = 0; v < V; v++) y[v] = _mm512_loadu_ps(b + v * panel); \
      __builtin_prefetch(ahead, 0, 2); \
      UNROLL for (int r = 0; r < R; r++) { \
        __m512 x = _mm512_set1_ps(a[r * a_m]); \
        UNROLL for (int v = 0; v < V; v++) sum[r][v] = _mm512_fmadd_ps(x, y[v], sum[r][v]); \
      } \
    } \
    if (t->bias) UNROLL for (int v = 0; v < V; v++) { \
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
#define TILES(R) TILE(R, 1) TILE(R, 2)
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

static void run(const GemmTile *t) {
#define BOTH(R) \
  { tile_##R##_1, tile_##R##_2 }
  static void (*const tiles[ROWS][2])(const GemmTile *) = {BOTH(1), BOTH(2), BOTH(3), BOTH(4),  BOTH(5),  BOTH(6),
                                                           BOTH(7), BOTH(8), BOTH(9), BOTH(10), BOTH(11), BOTH(12)};
  tiles[t->rows - 1][t->columns > LANES](t);
  gemm_tiles_activate(t);
}

const GemmTiles *gemm_tiles_avx512(void) {
  static const GemmTiles tiles = {ROWS, 2, run};
  return __builtin_cpu_supports("avx512f") ? &tiles : NULL;
}
#else
const GemmTiles *gemm_tiles_avx512(void) { return NULL; }
#endif
