/* codegen/cuda/grouped.c - prints the CUDA kernel of grouped_dot: sizes, then a call of dialect_grouped.h.  A
 * grouped_mlp arrives here as its products (work_grouped.c). */
#include "codegen/cuda/template.h"

enum { TILE_OF_ROWS = 32, TILE_OF_COLUMNS = 32, TILE_OF_TERMS = 8 }; /* GROUPED_ROWS ... of the text */

/* Returns the bytes of shared memory: the numbers of the rows, and tiles of both factors in the type of the sums. */
static int shared_bytes(DType t) {
  return TILE_OF_ROWS * 8 +
         TILE_OF_TERMS * (TILE_OF_ROWS + TILE_OF_COLUMNS) * (int)dtype_bytes(t == DT_f64 ? DT_f64 : DT_f32);
}

void cuda_grouped(CudaTemplate *k) {
  const Type *x = ct_in(k, 0), *w = ct_in(k, 2);
  const Expr *panels = ex_ceil_div(k->m, w->dims[2], ex_const(k->m, TILE_OF_COLUMNS));
  ct_launch(k, ex_mul(k->m, ex_addi(k->m, w->dims[0], 1), panels), 1, 256, "32 columns of a group per block");
  k->k->launch.shared = shared_bytes(x->dtype);
  text_printf(&k->body, "  Grouped g;\n  g.rows = %s, g.k = %s, g.n = %s, g.groups = %s, g.start = %s;\n",
              ct_scalar(k, type_product(k->m, x, 0, x->rank - 1)), ct_scalar(k, w->dims[1]), ct_scalar(k, w->dims[2]),
              ct_scalar(k, w->dims[0]), ct_scalar(k, op_expr(k->op, AT_start)));
  text_printf(&k->body, "  grouped_%s(&g, a.p3, a.p0, a.p1, a.p2);\n", dtype_name(x->dtype));
}
