/* codegen/cpu/kernel_template.h - kernels written by hand in the prelude: update, rope, attention, grouped_dot,
 * windows, indexing. */
#ifndef APC_CODEGEN_CPU_KERNEL_TEMPLATE_H
#define APC_CODEGEN_CPU_KERNEL_TEMPLATE_H

#include "codegen/cpu/print_c.h"

/* A function, without its name, that calls the template for a WC_TEMPLATE operation.  Sets the operand whose memory the
 * result may share (-1: none) and the arithmetic operations. */
const char *template_print(Work *w, const Op *op, Scalars *scalars, int *alias, const Expr **flops);

/* kernel_window.c: the description and the loops of a convolution or pool; returns its arithmetic operations. */
const Expr *window_print(Work *w, const Op *op, Text *t, Scalars *s);

/* kernel_grouped.c: grouped_dot. */
const Expr *grouped_print(Work *w, const Op *op, Text *t, Scalars *s);

/* kernel_indexing.c: scatter, put, argsort, scan. */
const Expr *indexing_print(Work *w, const Op *op, Text *t, Scalars *s);

#endif
