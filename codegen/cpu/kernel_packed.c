/* codegen/cpu/kernel_packed.c - a packed_dot on CPUs: a call of kernel_packed.h. */
#include "codegen/cpu/kernel_template.h"
#include "codegen/rows/row_work.h"

void template_packed(const Work *w, const Op *op, Text *t, Scalars *s) {
  Module *m = w->m;
  const Type *x = work_type(w, op->in[0]), *weight = work_type(w, op->in[1]);
  text_printf(t, "  const Packed p = {.rows = %s, .panels = %s, .groups = %s, .blocks = %s,\n",
              rp_scalar_text(m, s, type_product(m, x, 0, x->rank - 3)), rp_scalar_text(m, s, weight->dims[0]),
              rp_scalar_text(m, s, weight->dims[1]), rp_scalar_text(m, s, weight->dims[2]));
  text_add(t, "    .x = ptr[0], .w = ptr[1], .scale = ptr[2], .y = ptr[3]};\n");
  text_printf(t, "  packed_dot(&p, %lld);\n", (long long)op_int(op, AT_bits, 0));
}
