/* runtime/device/gemm_panels.h - f32 products with weights that lie in panels, and what follows them.
 *
 * In memory panel i of B is columns [16 i, 16 i + 16) as b[k][16]; the last one is filled with zeros.  So a tile reads
 * B from one end to the other, and nothing is copied when a product is computed: it reaches nine tenths of what a core
 * can do for all shapes, where a row-major B with rows a multiple of 4 KiB apart makes oneDNN's kernels for AVX2 half
 * as fast (bench/results/cpu.md).  Bits: gemm_tiles.h.
 */
#ifndef APC_RUNTIME_DEVICE_GEMM_PANELS_H
#define APC_RUNTIME_DEVICE_GEMM_PANELS_H

#include "program/device_calls.h"

/* One product of the batch of `g`, whose B lies in panels: A, B, C and the residual at `a`, `b`, `c`, `residual`. */
typedef struct PanelProduct {
  const GemmCall *g;
  const float *a, *b, *residual;
  float *c;
} PanelProduct;

/* Threads of libgomp's kind. */
typedef struct PanelThreads {
  void (*parallel)(void (*body)(void *), void *data, unsigned threads, unsigned flags); /* runs body on n threads */
  int (*number)(void);                                                                  /* of the running thread */
  int n;
} PanelThreads;

/* NULL: by the caller's thread alone. */
void gemm_panels(const PanelProduct *p, const PanelThreads *threads);

/* The panels, `panel` elements apart, of a matrix of k rows and n columns; elements are row_step and column_step apart,
 * at any address.  `part` of `parts`, all panels together. */
void gemm_panels_pack(const float *from, int64_t row_step, int64_t column_step, int64_t k, int64_t n, float *to,
                      int64_t panel, int64_t part, int64_t parts);

#endif
