/* runtime/device/gemm_panels.h - f32 products with weights in panels, and their epilogues.
 *
 * Panel i of B holds columns [16 i, 16 i + 16) as b[k][16]; the last one is padded with zeros.  So a tile reads B from
 * one end to the other, and nothing is copied during a product: it reaches nine tenths of a core's peak for all shapes.
 * A row-major B with rows a multiple of 4 KiB apart makes oneDNN's AVX2 kernels half as fast (bench/results/cpu.md).
 * For the bits of results see gemm_tiles.h.
 */
#ifndef APC_RUNTIME_DEVICE_GEMM_PANELS_H
#define APC_RUNTIME_DEVICE_GEMM_PANELS_H

#include "program/device_calls.h"

/* One product of the batch of `g`, with B in panels: A, B, C and the residual at `a`, `b`, `c`, `residual`. */
typedef struct PanelProduct {
  const GemmCall *g;
  const float *a, *b, *residual;
  float *c;
} PanelProduct;

/* Threads of libgomp's kind. */
typedef struct PanelThreads {
  void (*parallel)(void (*body)(void *), void *data, unsigned threads, unsigned flags); /* runs body on n threads */
  int (*number)(void);                                                                  /* number of the calling
                                                                                         * thread */
  int n;
} PanelThreads;

/* Computes the product; threads NULL: on the caller's thread alone. */
void gemm_panels(const PanelProduct *p, const PanelThreads *threads);

/* Packs a matrix of k rows and n columns into panels, `panel` elements apart.  Its elements are row_step and
 * column_step apart, and need not be aligned.  This call packs part `part` of `parts`. */
void gemm_panels_pack(const float *from, int64_t row_step, int64_t column_step, int64_t k, int64_t n, float *to,
                      int64_t panel, int64_t part, int64_t parts);

#endif
