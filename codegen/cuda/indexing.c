/* codegen/cuda/indexing.c - prints the CUDA kernels of scatter, put, argsort, topk, scan and within: sizes, then one
 * macro of dialect_indexing.h. */
#include "codegen/cuda/template.h"
#include "codegen/rows/print_row.h"

enum { WARPS = 8 };

static void sizes(CudaTemplate *k, const Type *t, int axis) {
  text_printf(&k->body, "  const int64_t outer = %s, n = %s, inner = %s;\n",
              ct_scalar(k, type_product(k->m, t, 0, axis)), ct_scalar(k, t->dims[axis]),
              ct_scalar(k, type_product(k->m, t, axis + 1, t->rank)));
}

static void pointers(CudaTemplate *k) {
  text_printf(&k->body, "  %s *const y = a.p%d;\n  const %s *const values = a.p0;\n", rp_stored_type(ct_out(k)->dtype),
              k->u->nin, rp_stored_type(ct_in(k, 0)->dtype));
  if (k->u->nin > 1) text_printf(&k->body, "  const %s *const index = a.p1;\n", rp_stored_type(ct_in(k, 1)->dtype));
}

/* Returns "f32, float, float, f32, 0, add_f32": element, stored type, computed type and its name, identity and
 * combination of a reduction. */
static const char *reduction_arguments(const CudaTemplate *k, DType t, Reduction r) {
  DType acc = t == DT_f16 || t == DT_bf16 ? DT_f32 : t;
  return arena_printf(k->m->arena, "%s, %s, %s, %s, %s, %s_%s", dtype_name(t), rp_stored_type(t), rp_value_type(t),
                      rp_suffix(t), rp_identity(&(RowAcc){.op = r, .dtype = acc}), rp_combine_name(r), rp_suffix(t));
}

static void launch_scatter(CudaTemplate *k, const Type *y, int axis, int own) {
  Module *m = k->m;
  const Expr *parts = ex_ceil_div(m, y->dims[axis], ex_const(m, WARPS * own)),
             *chunks = ex_ceil_div(m, type_product(m, y, axis + 1, y->rank), ex_const(m, 128));
  ct_launch(k, ex_mul(m, ex_mul(m, type_product(m, y, 0, axis), parts), chunks), 1, 32 * WARPS,
            arena_printf(m->arena, "128 columns of %d rows per block", WARPS * own));
  k->k->launch.shared = 8 * 2048 + 4 * WARPS;
}

static void scatter(CudaTemplate *k, Reduction r) {
  const Type *x = ct_in(k, 0), *y = ct_out(k), *index = ct_in(k, 1);
  int axis = (int)op_int(k->op, AT_axis, 0);
  bool put = k->op->kind == OP_put;
  int own = dtype_bytes(x->dtype) == 8 ? 4 : 8; /* rows of a warp */
  if (put) ct_launch(k, type_elements(k->m, y), 256, 256, "element per thread");
  else launch_scatter(k, y, axis, own);
  sizes(k, y, axis);
  text_printf(&k->body, "  const int64_t k = %s, start = %s;\n",
              ct_scalar(k, type_product(k->m, x, axis, axis + (put ? 1 : index->rank))),
              ct_scalar(k, op_expr(k->op, AT_start)));
  text_printf(&k->body, "  %s(%s, %s%s);\n", put ? "PUT" : "SCATTER", reduction_arguments(k, x->dtype, r),
              dtype_name(index->dtype), put ? "" : arena_printf(k->m->arena, ", %d", own));
}

static void scan(CudaTemplate *k, Reduction r) {
  const Type *x = ct_in(k, 0);
  int axis = (int)op_int(k->op, AT_axis, 0);
  const Expr *inner = type_product(k->m, x, axis + 1, x->rank), *outer = type_product(k->m, x, 0, axis);
  bool by_rows = ex_is_const(inner, 1);
  if (by_rows) ct_launch(k, outer, WARPS, 32 * WARPS, "line per warp");
  else ct_launch(k, ex_mul(k->m, outer, inner), 256, 256, "line per thread");
  sizes(k, x, axis);
  text_printf(&k->body, "  const int exclusive = %d, reverse = %d;\n", op_int(k->op, AT_exclusive, 0) != 0,
              op_int(k->op, AT_reverse, 0) != 0);
  text_printf(&k->body, "  %s(%s);\n", by_rows ? "SCAN_ROWS" : "SCAN_COLUMNS", reduction_arguments(k, x->dtype, r));
}

/* Prints argsort (all in order) or topk (the first k). */
static void sorted(CudaTemplate *k) {
  const Type *x = ct_in(k, 0);
  ct_launch(k, type_elements(k->m, x), 256, 256, "element per thread");
  sizes(k, x, (int)op_int(k->op, AT_axis, 0));
  if (k->op->kind == OP_topk)
    text_printf(&k->body, "  int64_t *const z = a.p%d;\n  const int64_t k = %s;\n", k->u->nin + 1,
                ct_scalar(k, op_expr(k->op, AT_k)));
  text_printf(&k->body, "  const int descending = %d;\n  %s(%s, %s);\n", op_int(k->op, AT_descending, 0) != 0,
              k->op->kind == OP_topk ? "TOPK" : "ARGSORT", dtype_name(x->dtype), rp_value_type(x->dtype));
}

void cuda_within(CudaTemplate *k) {
  const Type *x = ct_in(k, 0);
  const Expr *const *starts = op_attr(k->op, AT_starts)->u.exprs;
  ct_launch(k, type_elements(k->m, x), 1024, 256, "4 elements per thread");
  k->k->looks = true;
  pointers(k);
  text_printf(&k->body, "  const int64_t n = %s, blocks = %s, below = %s, low = %s, rank = %d;\n  WITHIN(%s,",
              ct_scalar(k, type_elements(k->m, x)), ct_scalar(k, k->k->launch.blocks),
              ct_scalar(k, op_expr(k->op, AT_below)), op_int(k->op, AT_negative, 0) ? "-below" : "0", x->rank,
              dtype_name(x->dtype));
  for (int d = x->rank - 1; d >= 0; d--) {
    const char *extent = ct_scalar(k, x->dims[d]);
    text_printf(&k->body, "\n         place[%d] = %s + at %% %s, at /= %s;", d, ct_scalar(k, starts[d]), extent,
                extent);
  }
  text_add(&k->body, ");\n");
}

void cuda_indexing(CudaTemplate *k) {
  pointers(k);
  if (k->op->kind == OP_argsort || k->op->kind == OP_topk) sorted(k);
  else if (k->op->kind == OP_scan) scan(k, op_attr(k->op, AT_op)->u.reduction);
  else scatter(k, op_attr(k->op, AT_op)->u.reduction);
}
