/* codegen/cpu/kernel_grouped.c - a grouped_dot on CPUs: a call of kernel_grouped.h. */
#include "codegen/cpu/kernel_template.h"
#include "codegen/rows/row_work.h"

void template_grouped(const Work *w, const Op *op, Text *t, Scalars *s) {
  Module *m = w->m;
  const Type *x = work_type(w, op->in[0]), *matrices = work_type(w, op->in[2]);
  const Expr *rows = type_elements(m, work_type(w, op->in[1])), *k = matrices->dims[1], *n = matrices->dims[2];
  text_printf(t, "  const Grouped g = {.rows = %s, .k = %s, .n = %s, .groups = %s, .start = %s};\n",
              rp_scalar_text(m, s, rows), rp_scalar_text(m, s, k), rp_scalar_text(m, s, n),
              rp_scalar_text(m, s, matrices->dims[0]), rp_scalar_text(m, s, op_expr(op, AT_start)));
  text_printf(t, "  grouped_%s(ptr[3], ptr[0], ptr[1], ptr[2], &g);\n", dtype_name(x->dtype));
}
