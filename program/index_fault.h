/* program/index_fault.h - the first index outside its table that a kernel of a program saw: between kernels and the
 * runtime, which share its layout.  Kernels for CPUs (WITHIN of codegen/cpu/kernel_indexing.h) have one IndexFault; who
 * calls one looks at it then (runtime/device/cpu.c).  A kernel for GPUs (WITHIN of codegen/cuda/dialect_indexing.h;
 * ProgramKernel.looks) gets two words behind its scalars, where an IndexNote is and the number of its instruction, and
 * it is looked at when the device has come there (runtime/device/cuda/looks.c).  Whoever reads it sets `found` to 0;
 * until then no kernel writes it again. */
#ifndef APC_PROGRAM_INDEX_FAULT_H
#define APC_PROGRAM_INDEX_FAULT_H

#include "program/program.h"

typedef struct IndexFault {
  int64_t found;                   /* 1: what follows is set */
  int64_t value, low, below;       /* it must be low ... below - 1 */
  int64_t rank;                    /* of the indices */
  int64_t place[PROGRAM_MAX_RANK]; /* in the whole tensor of them, not in this rank's part */
} IndexFault;

typedef struct IndexNote {
  IndexFault fault;
  int64_t instr;
} IndexNote;

/* Its name in the kernels' shared object. */
#define INDEX_FAULT_SYMBOL "apc_index_fault"

_Static_assert(PROGRAM_MAX_RANK == 8, "kernels note so many places");

#endif
