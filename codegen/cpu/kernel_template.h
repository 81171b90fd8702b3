/* codegen/cpu/kernel_template.h - hand-written kernels of the prelude: update, rope, attention, grouped_dot, windows,
 * indexing. */
#ifndef APC_CODEGEN_CPU_KERNEL_TEMPLATE_H
#define APC_CODEGEN_CPU_KERNEL_TEMPLATE_H

#include "codegen/cpu/print_c.h"

/* Returns a function, without its name, that calls the template for a WC_TEMPLATE operation. */
const char *template_print(const Work *w, const Op *op, Scalars *scalars);

bool template_exists(OpKind k);

/* The functions by family (codegen/rows/templates.def): kernel_window.c prints the description and the loops of a
 * convolution or pool, kernel_grouped.c, kernel_packed.c and kernel_indexing.c (within, too) theirs, kernel_template.c
 * the others. */
typedef void TemplateFn(const Work *w, const Op *op, Text *t, Scalars *s);
#define TEMPLATE(op, family) TemplateFn template_##family;
#include "codegen/rows/templates.def"

/* kernel_operator.c: true if the kernel's text calls the function of an operator library, for which its translation
 * unit needs kernel_operators. */
bool template_is_operator(const char *text);
extern const char kernel_operators[];

#endif
