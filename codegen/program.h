/* codegen/program.h - level 2 to Program: what every rank executes, as the image the runtime maps.
 *
 * In: for each entry its level-1 function (global types) and its level-2 function, both in one module with its mesh.
 * Out: a ProgramBuilder with everything but the kernels' machine code and the weights' bytes, and the C texts of the
 * kernels.
 *
 * One body per (entry, stage), called once per micro-batch.  Inside a body the units of codegen/rows/units.h become
 * instructions in their order, so all communication has the one order of the level-2 function, and its key is the
 * position there.
 */
#ifndef APC_CODEGEN_PROGRAM_H
#define APC_CODEGEN_PROGRAM_H

#include "codegen/cuda/kernels.h"
#include "ir/ir.h"
#include "program/build.h"

typedef struct ProgramEntrySpec {
  const char *name;
  const Func *l1, *l2;
} ProgramEntrySpec;

typedef struct ProgramSource {
  Module *m;
  int nentries;
  const ProgramEntrySpec *entries;
  const Func *prepare_l1,
      *prepare_l2; /* @prepare, which runs once at loading; NULL when no entry reads a prepared weight */
  bool cuda;       /* launches are of CUDA kernels: their first expression is the number of blocks */
  bool embed;      /* weights read from files are embedded; else referred to by path, size and hash */
} ProgramSource;

/* One embedded file of weights. */
typedef struct ProgramEmbedded {
  uint32_t blob; /* index in the Program */
  const char *path;
  uint64_t bytes;
} ProgramEmbedded;

/* A CUDA kernel, by its number in the Program. */
typedef struct ProgramCudaKernel {
  const char *symbol, *text; /* complete behind dialect_prelude */
  const char *how;           /* its schedule, for people */
  int threads;
} ProgramCudaKernel;

typedef struct ProgramResult {
  ProgramBuilder *b; /* free with program_builder_free */
  struct {
    const char **items;
    size_t n, cap;
  } texts; /* C translation units; compile with UNITS_CFLAGS */
  struct {
    ProgramCudaKernel *items;
    size_t n, cap;
  } cuda; /* instead of them */
  struct {
    ProgramEmbedded *items;
    size_t n, cap;
  } embedded;
  uint64_t kernel_count; /* different ones */
} ProgramResult;

/* False after diagnostics (a weights file that cannot be read). */
bool program_of(const ProgramSource *source, ProgramResult *out, Diags *diags);

#endif
