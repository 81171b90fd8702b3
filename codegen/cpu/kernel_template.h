/* codegen/cpu/kernel_template.h - kernels written by hand in the prelude: update, rope, attention, grouped_dot,
 * windows, indexing. */
#ifndef APC_CODEGEN_CPU_KERNEL_TEMPLATE_H
#define APC_CODEGEN_CPU_KERNEL_TEMPLATE_H

#include "codegen/cpu/print_c.h"

/* A function, without its name, that calls the template for a WC_TEMPLATE operation. */
const char *template_print(const Work *w, const Op *op, Scalars *scalars);

/* kernel_window.c: the description and the loops of a convolution or pool. */
void window_print(const Work *w, const Op *op, Text *t, Scalars *s);

/* kernel_grouped.c: grouped_dot. */
void grouped_print(const Work *w, const Op *op, Text *t, Scalars *s);

/* kernel_indexing.c: scatter, put, argsort, scan. */
void indexing_print(const Work *w, const Op *op, Text *t, Scalars *s);

#endif
