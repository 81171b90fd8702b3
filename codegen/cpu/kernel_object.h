/* codegen/cpu/kernel_object.h - is the shared object of the kernels one that the program can load and call?
 *
 * What the loader would find out on the machine that runs the program (runtime/exec/exec.c) is found out here: the
 * object is one for this kind of machine, it defines every kernel that the Program names, and of OpenMP it needs
 * nothing but what programs bring (runtime/device/openmp.h says why).  Tables of symbols: System V ABI, ELF.
 */
#ifndef APC_CODEGEN_CPU_KERNEL_OBJECT_H
#define APC_CODEGEN_CPU_KERNEL_OBJECT_H

#include "base/file.h"
#include "program/program.h"

typedef struct KernelObject {
  const FileMap *object;
  const Program *program;
  const FileMap *stub; /* the program it becomes part of */
  const char *cc;      /* what made it */
} KernelObject;

bool kernel_object_check(Diags *d, const KernelObject *k); /* false after a diagnostic */

#endif
