/* codegen/cuda/packed.c - prints the CUDA kernel of packed_dot: sizes, then a call of dialect_packed.h. */
#include "codegen/cuda/template.h"

void cuda_packed(CudaTemplate *k) {
  const Type *x = ct_in(k, 0), *w = ct_in(k, 1);
  const Expr *rows = type_product(k->m, x, 0, x->rank - 3);
  ct_launch(k, ex_mul(k->m, rows, ex_muli(k->m, w->dims[0], 16)), 256, 256, "element of the result per thread");
  text_printf(&k->body, "  Packed p;\n  p.rows = %s, p.panels = %s, p.groups = %s, p.blocks = %s;\n",
              ct_scalar(k, rows), ct_scalar(k, w->dims[0]), ct_scalar(k, w->dims[1]), ct_scalar(k, w->dims[2]));
  text_printf(&k->body, "  packed_dot(&p, %lld, a.p3, a.p0, a.p1, a.p2);\n", (long long)op_int(k->op, AT_bits, 0));
}
