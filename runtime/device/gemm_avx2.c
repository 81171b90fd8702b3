/* runtime/device/gemm_avx2.c - see gemm_avx2.h.
 *
 * The usual blocking (Goto and van de Geijn, "Anatomy of high-performance matrix multiplication", 2008): blocks of 256
 * x 256 of B are copied into panels of 16 columns; tiles of 6 x 16 of C stay in registers.  A block of the summed index
 * continues from C, which holds an f32 exactly, so that blocks do not show in the result.  A is read in place, unless
 * its rows are not contiguous.  The caller handles threads.
 */
#include "runtime/device/gemm_avx2.h"

#include <stddef.h>

#include "runtime/device/gemm_tiles.h"

#if defined(__x86_64__)
#include <immintrin.h>

enum { COLUMNS = PROGRAM_PANEL, ROWS = GEMM_AVX2_ROWS, BLOCK = 256 };
#define AVX2 __attribute__((target("avx2,fma")))
#define UNROLL _Pragma("GCC unroll 8")

bool gemm_avx2_supported(void) { return gemm_tiles_avx2() != NULL; }

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- copies */

/* Computes rows by all columns of a block, added to earlier sums. */
static void block(const GemmAvx2 *g, int64_t j, int64_t columns, int64_t l, int64_t k, const float *panels,
                  float *row_copy) {
  const GemmTiles *tiles = gemm_tiles_avx2();
  bool add = g->accumulate || l > 0;
  for (int64_t i = 0; i < g->m; i += ROWS) {
    int64_t rows = least(g->m - i, ROWS), a_m = g->a_m;
    const float *a = g->a + i * g->a_m + l * g->a_k;
    if (g->a_k != 1) {
      for (int64_t r = 0; r < rows; r++)
        for (int64_t x = 0; x < k; x++) row_copy[r * BLOCK + x] = a[r * g->a_m + x * g->a_k];
      a = row_copy, a_m = BLOCK;
    }
    for (int64_t p = 0; p < columns; p += COLUMNS)
      tiles->run(&(GemmTile){.type = DT_f32,
                             .rows = rows,
                             .columns = least(columns - p, COLUMNS),
                             .k = k,
                             .a = a,
                             .b = panels + p * k,
                             .a_m = a_m,
                             .c = g->c + i * g->c_m + j + p,
                             .c_m = g->c_m,
                             .add = add});
  }
}

/* ---- one row, or one column: y[n] += sum over l of x[l] * b[l][j], read once */

enum { VECTOR = 4096, PART = 2048 };

typedef struct Vector {
  int64_t n, k, x_step, b_k, b_n, y_step;
  const float *x, *b;
  float *y;
} Vector;

/* Columns are contiguous: adds 8 terms at a time to y, which stays in the first-level cache. */
AVX2 static inline __attribute__((always_inline)) void add_terms(const float *x, const float *b, int64_t b_k, float *y,
                                                                 int64_t n, int64_t terms) {
  int64_t j = 0;
  for (; j + 8 <= n; j += 8) {
    __m256 sum = _mm256_loadu_ps(y + j);
    UNROLL for (int64_t i = 0; i < terms; i++) sum =
        _mm256_fmadd_ps(_mm256_broadcast_ss(x + i), _mm256_loadu_ps(b + i * b_k + j), sum);
    _mm256_storeu_ps(y + j, sum);
  }
  for (; j < n; j++)
    for (int64_t i = 0; i < terms; i++) y[j] = __builtin_fmaf(x[i], b[i * b_k + j], y[j]);
}

AVX2 static void add_rows(const float *x, const float *b, int64_t b_k, float *y, int64_t n, int64_t k) {
  int64_t l = 0;
  for (; l + 8 <= k; l += 8) add_terms(x + l, b + l * b_k, b_k, y, n, 8);
  if (l < k) add_terms(x + l, b + l * b_k, b_k, y, n, k - l);
}

AVX2 static float sum_8(__m256 v) {
  float lane[8];
  _mm256_storeu_ps(lane, v);
  return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]));
}

/* The summed index is contiguous: sums 32 lanes by place, then the remaining terms. */
AVX2 static float dot(const float *x, const float *b, int64_t k) {
  __m256 sum[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  int64_t l = 0;
  for (; l + 32 <= k; l += 32)
    UNROLL for (int i = 0; i < 4; i++) sum[i] =
        _mm256_fmadd_ps(_mm256_loadu_ps(x + l + 8 * i), _mm256_loadu_ps(b + l + 8 * i), sum[i]);
  float rest = 0;
  for (; l < k; l++) rest = __builtin_fmaf(x[l], b[l], rest);
  return sum_8(_mm256_add_ps(_mm256_add_ps(sum[0], sum[1]), _mm256_add_ps(sum[2], sum[3]))) + rest;
}

static void times_vector(const Vector *v, float *room) {
  float *x = room, *y = room + VECTOR;
  for (int64_t l = 0; l < v->k; l += VECTOR) {
    int64_t k = least(v->k - l, VECTOR);
    for (int64_t i = 0; i < k; i++) x[i] = v->x[(l + i) * v->x_step];
    for (int64_t j = 0; j < v->n; j += PART) {
      int64_t n = least(v->n - j, PART);
      const float *b = v->b + l * v->b_k + j * v->b_n;
      for (int64_t i = 0; i < n; i++) y[i] = v->y[(j + i) * v->y_step];
      if (v->b_n == 1) add_rows(x, b, v->b_k, y, n, k);
      else
        for (int64_t i = 0; i < n; i++) y[i] += dot(x, b + i * v->b_n, k);
      for (int64_t i = 0; i < n; i++) v->y[(j + i) * v->y_step] = y[i];
    }
  }
}

/* Computes a product by a vector as one; false if the matrix has no unit stride. */
static bool as_vector(const GemmAvx2 *g, float *room) {
  Vector v = g->m == 1 ? (Vector){g->n, g->k, g->a_k, g->b_k, g->b_n, 1, g->a, g->b, g->c}
                       : (Vector){g->m, g->k, g->b_k, g->a_k, g->a_m, g->c_m, g->b, g->a, g->c};
  if (!g->vector || (v.b_n != 1 && v.b_k != 1)) return false;
  for (int64_t j = 0; j < v.n && !g->accumulate; j++) v.y[j * v.y_step] = 0;
  times_vector(&v, room);
  return true;
}

void gemm_avx2(const GemmAvx2 *g, float *room) {
  if (as_vector(g, room)) return;
  for (int64_t j = 0; j < g->n; j += BLOCK)
    for (int64_t l = 0; l < g->k; l += BLOCK) {
      int64_t columns = least(g->n - j, BLOCK), k = least(g->k - l, BLOCK);
      for (int64_t p = 0; p < columns; p += COLUMNS)
        gemm_tiles_pack(g->b + l * g->b_k + (j + p) * g->b_n, g->b_k, g->b_n, k, least(columns - p, COLUMNS),
                        room + p * k);
      block(g, j, columns, l, k, room, room + BLOCK * BLOCK);
    }
}

#else

bool gemm_avx2_supported(void) { return false; }
void gemm_avx2(const GemmAvx2 *g, float *room) { (void)g, (void)room; }

#endif
