/* codegen/cuda/choose.h - shared by print_cuda.c and choose.c: a row program being printed for a GPU. */
#ifndef APC_CODEGEN_CUDA_CHOOSE_H
#define APC_CODEGEN_CUDA_CHOOSE_H

#include "codegen/cuda/print_cuda.h"

enum {
  BLOCK = 1024,       /* of a canonical sum */
  ROWS_PER_BLOCK = 4, /* warp per row */
  COLUMNS_PER_BLOCK = 16,
  TILE = 32,
  TILE_ROWS = 8,
  MAX_TILE_BYTES = 40 << 10
};

typedef struct Cuda {
  RowPrinter r;
  CudaSchedule *s;
  const char *block; /* expression for the number of the block among those of this kernel */
} Cuda;

/* Sets the schedule record, and the values that the row printer keeps. */
void cuda_choose(Cuda *k);

/* True if a load or store moves whole packets: neighbours in the inner dimension, without guard or computed
 * index. */
bool cuda_load_in_packets(const RowPrinter *c, int node);
bool cuda_store_in_packets(const RowPrinter *c, const RowStore *s);

#endif
