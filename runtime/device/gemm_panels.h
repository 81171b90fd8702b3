/* runtime/device/gemm_panels.h - f32 products with weights of 32 or 16 bits in panels, and their epilogues.
 *
 * Panel i of B holds columns [16 i, 16 i + 16) as b[k][16]; the last one is padded with zeros.  So a tile reads B from
 * one end to the other, and nothing is copied during a product: it reaches nine tenths of a core's peak for all shapes.
 * A row-major B with rows a multiple of 4 KiB apart makes oneDNN's AVX2 kernels half as fast (bench/results/cpu.md).
 * Weights of 16 bits are widened in registers.  For the bits of results see gemm_tiles.h.
 */
#ifndef APC_RUNTIME_DEVICE_GEMM_PANELS_H
#define APC_RUNTIME_DEVICE_GEMM_PANELS_H

#include "program/device_calls.h"

/* One product of the batch of `g`, with B in panels: A, B, C and the residual at `a`, `b`, `c`, `residual`. */
typedef struct PanelProduct {
  const GemmCall *g;
  const float *a;
  const void *b; /* of type g->panels */
  const float *residual;
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

/* Packs a matrix into panels, `panel` elements apart. numbers[4]: rows, columns, and the elements from one to the next;
 * the matrix need not be aligned.  This call packs part `part` of `parts`. */
void gemm_panels_pack(DType type, const void *from, const int64_t *numbers, void *to, int64_t panel, int64_t part,
                      int64_t parts);

#endif
