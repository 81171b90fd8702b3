/* codegen/cpu/print_c.h - row programs as C text. */
#ifndef APC_CODEGEN_CPU_PRINT_C_H
#define APC_CODEGEN_CPU_PRINT_C_H

#include "codegen/rows/print_row.h"

/* Prelude and templates, which begin every text. */
extern const char kernel_prelude[];

/* Returns a C function for the program, without its name; the buffers are ptr[0], ptr[1] ... in order, without
 * tables. */
const char *print_c_kernel(Module *m, const RowProgram *p, Scalars *scalars);

#endif
