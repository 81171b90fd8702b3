/* codegen/cuda/kernels.h - the CUDA kernels of a list of units, and their launches. */
#ifndef APC_CODEGEN_CUDA_KERNELS_H
#define APC_CODEGEN_CUDA_KERNELS_H

#include "codegen/cuda/print_cuda.h"
#include "codegen/kernel_set.h"
#include "codegen/rows/units.h"

/* The argument of a kernel is one struct of eight-byte words: unit.in, unit.out (pointers), then the scalars
 * (int64), then, of one that looks at indices, an IndexNote (pointer) and a number. */
typedef struct CudaKernel {
  int kernel; /* its number in the set */
  int nscalars;
  const Expr *const *scalars;
  const char *how;     /* the schedule, for people */
  bool looks;          /* at indices (ProgramKernel) */
  CudaSchedule launch; /* of a template: threads, shared and blocks only */
} CudaKernel;

/* The kernels of all units, by unit; their texts are added to a set. */
const CudaKernel *cuda_kernels(Module *m, const Func *l2, const UnitList *units, KernelSet *set);

/* The definition of a kernel of the set; behind dialect_prelude it is complete. */
const char *cuda_text(Arena *a, const Kernel *k);

/* bundle.c: of a unit with members; of the sum of several tensors of totals (work_total.c). */
const char *cuda_bundle(Module *m, const Unit *u, CudaKernel *out);
const char *cuda_sum_all(Module *m, const Func *l2, const UnitList *units, const Unit *u, CudaKernel *out);

/* update, rope, attention: the text of one kernel. */
/* arch: as KernelSet has it. */
const char *cuda_template(Module *m, const Func *l2, const UnitList *units, const Unit *u, const char *arch,
                          CudaKernel *out);
/* 90 for "sm_90" and "sm_90a"; 0: it is not known. */
int cuda_arch(const char *arch);
bool cuda_template_exists(OpKind k);

#endif
