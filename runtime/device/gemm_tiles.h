/* runtime/device/gemm_tiles.h - the innermost kernel of our f32 matrix products: a few rows of A times panels of B.
 *
 * A panel is PROGRAM_PANEL columns of B, row by row: b[k][PROGRAM_PANEL].  Every element of C is one chain of fused
 * multiply-adds in the order of the summed index, for any place, tile and number of threads: equal rows and equal
 * columns give equal bits, the same with AVX2 and with AVX-512 (without either, terms are rounded before they are
 * added).  The epilogue is applied to the tile before it is stored.
 *
 * A panel of f16 is b[k][PROGRAM_PANEL] too; one of bf16 has the terms of two rows side by side,
 * b[k / 2][PROGRAM_PANEL][2], so that a vector of it becomes two vectors of f32 by a shift and a mask.  If k is odd,
 * the last of them is 0.  Widened numbers are exact: results have the bits of a product with the same numbers in f32.
 * If A is bf16 as well, and the processor has an instruction for it (AVX512_BF16), an element is a chain of sums of two
 * products, with the same promises, but other bits.
 */
#ifndef APC_RUNTIME_DEVICE_GEMM_TILES_H
#define APC_RUNTIME_DEVICE_GEMM_TILES_H

#include <stdbool.h>
#include <stdint.h>

#include "program/epilogue.h"

/* C[rows][columns] = A B or, with `add`, C + A B.  A's rows are a_m apart, their elements contiguous; panel i of B
 * begins at element i * b_panel of b. */
typedef struct GemmTile {
  DType type; /* of B: f32, f16 or bf16 */
  bool pairs; /* B is bf16, and so is A: two terms in the place of a float, and a_m and k count such pairs */
  int64_t rows, columns, k;
  const float *a;
  const void *b;
  int64_t a_m, b_panel;
  float *c;
  int64_t c_m;
  bool add;
  Epilogue epilogue;            /* of the whole sum, not of a part of k that others follow */
  const float *bias, *residual; /* NULL if the epilogue has none; the residual has the layout of C */
  const void *ahead, *next;     /* NULL, or addresses to prefetch: a panel's lines, and the next tile of C */
} GemmTile;

typedef struct GemmTiles {
  int rows;                       /* rows of a whole tile; t->rows is at most that */
  int panels;                     /* panels per tile: whole tiles have PROGRAM_PANEL times as many columns */
  void (*run)(const GemmTile *t); /* columns: at most those of a whole tile */
  /* Rounds k elements of a row of A to bf16, for tiles of pairs; of an odd k the last pair's second element is 0.  NULL
   * if the processor has no product of pairs. */
  void (*pairs)(const float *row, int64_t step, int64_t k, uint16_t *to);
} GemmTiles;

/* Packs one panel of at most PROGRAM_PANEL columns, from elements b_k and b_n apart; missing columns are 0. */
void gemm_tiles_pack(const float *b, int64_t b_k, int64_t b_n, int64_t k, int64_t columns, float *to);

/* The same for f16 and bf16, with an even number of rows for bf16. */
void gemm_tiles_pack_16(DType type, const uint16_t *b, int64_t b_k, int64_t b_n, int64_t k, int64_t columns,
                        uint16_t *to);

/* Applies the activations that tiles do not apply themselves, those that are no bounds, to the stored tile. */
void gemm_tiles_activate(const GemmTile *t);

/* Returns the tiles for this processor. */
const GemmTiles *gemm_tiles(void);
/* Return the tiles for AVX2, which a processor with AVX-512 has as well, and for AVX-512; NULL if the processor lacks
 * them. */
const GemmTiles *gemm_tiles_avx2(void);
const GemmTiles *gemm_tiles_avx512(void);

#endif
