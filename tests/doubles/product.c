/* tests/doubles/product.c - see product.h.
 *
 * Operands are converted to f32 (rounded to TF32 if requested) in panels: 16 rows of A, 6 columns of B, in blocks of
 * 256 of the summed index.  Sums are f32; for f64 operands f64, by plain loops. */
#include "tests/doubles/product.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/doubles/half.h"

enum { ROWS = 16, COLUMNS = 6, DEPTH = 256 };

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__)
#define FAST __attribute__((target_clones("avx512f", "avx2,fma", "default"), optimize("O3")))
#else
#define FAST
#endif

size_t product_bytes(int type) {
  return type == CUDA_R_64F ? 8 : type == CUDA_R_32F ? 4 : type == CUDA_R_16F || type == CUDA_R_16BF ? 2 : 0;
}

int64_t product_span(const Matrix *x) {
  return ((x->batch - 1) * (x->step < 0 ? 0 : x->step) + (x->columns - 1) * x->ld + x->rows) *
         (int64_t)product_bytes(x->type);
}

static double load(int type, const char *at, int64_t i) {
  const char *p = at + i * (int64_t)product_bytes(type);
  uint16_t h;
  float f;
  double d;
  if (type == CUDA_R_64F) return memcpy(&d, p, 8), d;
  if (type == CUDA_R_32F) return memcpy(&f, p, 4), (double)f;
  memcpy(&h, p, 2);
  return (double)(type == CUDA_R_16F ? half_from_f16(h) : half_from_bf16(h));
}

static void store(int type, char *at, int64_t i, double v) {
  char *p = at + i * (int64_t)product_bytes(type);
  float f = (float)v;
  uint16_t h = type == CUDA_R_16F ? half_to_f16(f) : half_to_bf16(f);
  if (type == CUDA_R_64F) memcpy(p, &v, 8);
  else if (type == CUDA_R_32F) memcpy(p, &f, 4);
  else memcpy(p, &h, 2);
}

/* ---- f32 sums */

/* Element (i, p) of an operand is at i * step + p * along. */
static void pack(const Product *p, int type, const char *at, int64_t step, int64_t along, int64_t first, int64_t end,
                 int64_t from, int64_t depth, int width, float *out) {
  for (int64_t x = first; x < end; x += width)
    for (int64_t k = 0; k < depth; k++)
      for (int i = 0; i < width; i++) {
        int64_t e = (x + i) * step + (from + k) * along;
        float v = x + i >= end         ? 0
                  : type == CUDA_R_32F ? ((const float *)(const void *)at)[e]
                                       : (float)load(type, at, e);
        *out++ = p->compute == CUBLAS_COMPUTE_32F_FAST_TF32 ? half_to_tf32(v) : v;
      }
}

FAST static void tile(const float *a, const float *b, int64_t depth, float *sums, int64_t ld) {
  float acc[COLUMNS][ROWS];
  for (int j = 0; j < COLUMNS; j++) memcpy(acc[j], sums + j * ld, sizeof acc[j]);
  for (int64_t k = 0; k < depth; k++, a += ROWS, b += COLUMNS)
    for (int j = 0; j < COLUMNS; j++)
      for (int i = 0; i < ROWS; i++) acc[j][i] += a[i] * b[j];
  for (int j = 0; j < COLUMNS; j++) memcpy(sums + j * ld, acc[j], sizeof acc[j]);
}

/* sums[column][row], with room for whole tiles. */
static void sum(const Product *p, const char *a, const char *b, float *sums, int64_t ld) {
  int64_t rows = (p->m + ROWS - 1) / ROWS * ROWS, columns = (p->n + COLUMNS - 1) / COLUMNS * COLUMNS;
  float *pa = malloc(sizeof *pa * (size_t)(rows * DEPTH)), *pb = malloc(sizeof *pb * (size_t)(columns * DEPTH));
  for (int64_t k = 0; k < p->k; k += DEPTH) {
    int64_t depth = p->k - k < DEPTH ? p->k - k : DEPTH;
    pack(p, p->a.type, a, p->turns_a ? p->a.ld : 1, p->turns_a ? 1 : p->a.ld, 0, p->m, k, depth, ROWS, pa);
    pack(p, p->b.type, b, p->turns_b ? 1 : p->b.ld, p->turns_b ? p->b.ld : 1, 0, p->n, k, depth, COLUMNS, pb);
    for (int64_t j = 0; j < columns; j += COLUMNS)
      for (int64_t i = 0; i < rows; i += ROWS) tile(pa + i * depth, pb + j * depth, depth, sums + j * ld + i, ld);
  }
  free(pa);
  free(pb);
}

static double sum_f64(const Product *p, const char *a, const char *b, int64_t i, int64_t j) {
  double s = 0;
  for (int64_t k = 0; k < p->k; k++)
    s += load(p->a.type, a, p->turns_a ? i * p->a.ld + k : k * p->a.ld + i) *
         load(p->b.type, b, p->turns_b ? k * p->b.ld + j : j * p->b.ld + k);
  return s;
}

/* ---- the epilogue */

static double follow(const Product *p, double v, const char *bias, int64_t i) {
  if (bias) v += load(p->r.type, bias, i);
  if (p->epilogue & CUBLASLT_EPILOGUE_RELU) return v > 0 || isnan(v) ? v : 0;
  if (p->epilogue & CUBLASLT_EPILOGUE_GELU)
    return 0.5 * v * (1 + tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
  return v;
}

void product_compute(const Product *p, const char *a, const char *b, const char *c, const char *bias, char *r) {
  int64_t ld = (p->m + ROWS - 1) / ROWS * ROWS, columns = (p->n + COLUMNS - 1) / COLUMNS * COLUMNS;
  bool wide = p->compute == CUBLAS_COMPUTE_64F;
  float *sums = wide ? NULL : calloc((size_t)(ld * columns), sizeof *sums);
  if (!wide) sum(p, a, b, sums, ld);
  for (int64_t j = 0; j < p->n; j++)
    for (int64_t i = 0; i < p->m; i++) {
      double v = p->alpha * (wide ? sum_f64(p, a, b, i, j) : (double)sums[j * ld + i]);
      if (p->beta != 0) v += p->beta * load(p->c.type, c, j * p->c.ld + i);
      store(p->r.type, r, j * p->r.ld + i, follow(p, v, bias, i));
    }
  free(sums);
}
