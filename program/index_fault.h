/* program/index_fault.h - the first index outside its table that a kernel of a program saw: between kernels for CPUs
 * (WITHIN of codegen/cpu/kernel_indexing.h, which writes the same record) and the runtime (runtime/device/cpu.c). */
#ifndef APC_PROGRAM_INDEX_FAULT_H
#define APC_PROGRAM_INDEX_FAULT_H

#include "program/program.h"

typedef struct IndexFault {
  int64_t found;                   /* 1: what follows is set */
  int64_t value, low, below;       /* it must be low ... below - 1 */
  int64_t rank;                    /* of the indices */
  int64_t place[PROGRAM_MAX_RANK]; /* in the whole tensor of them, not in this rank's part */
} IndexFault;

/* Its name in the kernels' shared object. */
#define INDEX_FAULT_SYMBOL "apc_index_fault"

_Static_assert(PROGRAM_MAX_RANK == 8, "kernels note so many places");

#endif
