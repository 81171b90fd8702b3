/* codegen/cuda/print_cuda.h - row programs as CUDA kernels in the dialect (prelude_device.h), and how they are
 * launched. */
#ifndef APC_CODEGEN_CUDA_PRINT_CUDA_H
#define APC_CODEGEN_CUDA_PRINT_CUDA_H

#include "codegen/rows/print_row.h"

/* The beginning of every text of kernels. */
extern const char dialect_prelude[];

/* How threads share the work.  A row is one value of the outer indices. */
typedef enum CudaShape {
  CUDA_ELEMENTS,  /* a thread has `vector` neighbouring elements of a row */
  CUDA_TILES,     /* a block has a square of 32 x 32 elements, read through shared memory */
  CUDA_WARP_ROW,  /* a warp has a row */
  CUDA_BLOCK_ROW, /* a block has a row: its warps process blocks of 1024 elements in turn */
  CUDA_COLUMNS    /* a block has 16 columns, 32 threads each */
} CudaShape;

/* The schedule record of a row program for a GPU, and its launch. */
typedef struct CudaSchedule {
  CudaShape shape;
  int threads;
  int vector; /* ELEMENTS: elements of a packet */
  int warps;  /* per row: 1, or those of the block */
  int kept;   /* values per element kept in registers from one stage to a later one; 0: they are computed again */
  int steps;  /* with kept values: elements of a row per thread, a constant; else 0 */
  int shared; /* bytes of shared memory */
  const Expr *blocks;
} CudaSchedule;

/* Returns a kernel without its name, which the text writes as CUDA_NAME (kernels.h inserts it), so that equal kernels
 * have equal texts.  The argument is one struct: the buffers in order, without tables, then the scalars. */
#define CUDA_NAME "$"
const char *cuda_print_kernel(Module *m, const RowProgram *p, Scalars *scalars, CudaSchedule *out);

/* Returns the same as the body of a function that takes the arguments of one member of a bundle: operands in[at[0]],
 * in[at[1]] ..., results, scalars, and the number of its block. */
#define CUDA_PART_TAKES \
  "const void *const *const in, const uint16_t *const at, void *const *const out, const int64_t *const x, " \
  "const int64_t block"
const char *cuda_print_part(Module *m, const RowProgram *p, Scalars *scalars, CudaSchedule *out);

/* Returns "block per row, 256 threads, ...", for people. */
const char *cuda_schedule_text(Arena *a, const CudaSchedule *s);

/* Opens a kernel: its argument struct and names for its fields.  The caller closes it with "}". */
void cuda_print_head(Text *t, int threads, int nbuffers, const DType *dtypes, int noutputs, size_t nscalars,
                     bool looks);

#endif
