/* codegen/cpu/kernel_object.h - checks that the program can load and call the shared object of the kernels.
 *
 * The loader would find such errors only on the machine that runs the program (runtime/exec/exec.c); this check finds
 * them at compile time: the object is for this kind of machine, it defines every kernel that the Program names, and of
 * OpenMP it needs only functions that programs provide (runtime/device/openmp.h says why).  Tables of symbols: System V
 * ABI, ELF.
 */
#ifndef APC_CODEGEN_CPU_KERNEL_OBJECT_H
#define APC_CODEGEN_CPU_KERNEL_OBJECT_H

#include "base/file.h"
#include "program/program.h"

typedef struct KernelObject {
  const FileMap *object;
  const Program *program;
  const FileMap *stub; /* the runtime it becomes part of */
  const char *cc;      /* the compiler that made it */
} KernelObject;

bool kernel_object_check(Diags *d, const KernelObject *k); /* false after a diagnostic */

#endif
