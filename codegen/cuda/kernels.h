/* codegen/cuda/kernels.h - the CUDA kernels of a list of units, and their launches. */
#ifndef APC_CODEGEN_CUDA_KERNELS_H
#define APC_CODEGEN_CUDA_KERNELS_H

#include "codegen/cuda/print_cuda.h"
#include "codegen/kernel_set.h"
#include "codegen/rows/units.h"

/* The argument of a kernel is one struct of eight-byte words: unit.in, unit.out (pointers), then the scalars (int64),
 * then, if it checks indices, an IndexNote (pointer) and the number of its instruction. */
typedef struct CudaKernel {
  int kernel; /* its number in the set */
  int nscalars;
  const Expr *const *scalars;
  const char *how;     /* the schedule, for people */
  bool looks;          /* it checks indices (ProgramKernel) */
  CudaSchedule launch; /* of a template: threads, shared and blocks only */
} CudaKernel;

/* Returns the kernels of all units, by unit; adds their texts to a set. */
const CudaKernel *cuda_kernels(Module *m, const Func *l2, const UnitList *units, KernelSet *set);

/* Returns the definition of a kernel of the set; together with dialect_prelude it is complete. */
const char *cuda_text(Arena *a, const Kernel *k);

/* bundle.c: return the text of a unit with members, and of the sum of several tensors of totals (work_total.c). */
const char *cuda_bundle(Module *m, const Unit *u, CudaKernel *out);
const char *cuda_sum_all(Module *m, const Func *l2, const UnitList *units, const Unit *u, CudaKernel *out);

/* Returns the text of one kernel of an operation with a template (update, rope, attention ...). */
const char *cuda_template(Module *m, const Func *l2, const UnitList *units, const Unit *u, const char *arch,
                          CudaKernel *out);
/* Returns 90 for "sm_90" and "sm_90a"; 0 if unknown. */
int cuda_arch(const char *arch);
/* True if operations of this kind have a template. */
bool cuda_template_exists(OpKind k);

#endif
