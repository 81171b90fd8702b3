/* program/index_fault.h - the first out-of-range index that a kernel of a program saw.  Kernels and the runtime share
 * this layout.
 *
 * CPU kernels (WITHIN of codegen/cpu/kernel_indexing.h) share one IndexFault; the caller of a kernel checks it
 * afterwards (runtime/device/cpu.c).  A GPU kernel (WITHIN of codegen/cuda/dialect_indexing.h; ProgramKernel.looks)
 * takes two words after its scalars: the address of an IndexNote and the number of its instruction.  The note is
 * checked when the device has reached that point (runtime/device/cuda/looks.c).  Its reader sets `found` to 0; until
 * then no kernel writes it again. */
#ifndef APC_PROGRAM_INDEX_FAULT_H
#define APC_PROGRAM_INDEX_FAULT_H

#include "program/program.h"

typedef struct IndexFault {
  int64_t found;                   /* 1: the other fields are set */
  int64_t value, low, below;       /* valid indices are low ... below - 1 */
  int64_t rank;                    /* of the tensor of indices */
  int64_t place[PROGRAM_MAX_RANK]; /* position in that whole tensor, not in this rank's part */
} IndexFault;

typedef struct IndexNote {
  IndexFault fault;
  int64_t instr;
} IndexNote;

/* The name of the fault in the kernels' shared object. */
#define INDEX_FAULT_SYMBOL "apc_index_fault"

_Static_assert(PROGRAM_MAX_RANK == 8, "kernels note so many places");

#endif
