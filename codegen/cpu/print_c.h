/* codegen/cpu/print_c.h - row programs as C text. */
#ifndef APC_CODEGEN_CPU_PRINT_C_H
#define APC_CODEGEN_CPU_PRINT_C_H

#include "codegen/rows/row.h"

/* Prelude and templates: the front of every text. */
extern const char kernel_prelude[];

/* The expressions a kernel takes as x[0], x[1] ..., without doubles. */
typedef struct Scalars {
  const Expr **items;
  size_t n, cap;
} Scalars;

/* C for the value of an expression: a literal, or x[i]. */
const char *scalar_text(Module *m, Scalars *s, const Expr *e);

/* A function for the program, without its name; the buffers are ptr[0], ptr[1] ... in order, tables apart. */
const char *print_c_kernel(Module *m, const RowProgram *p, Scalars *scalars);

/* "float", "uint16_t" ...: the C type a tensor element is stored in. */
const char *c_stored_type(DType t);

#endif
