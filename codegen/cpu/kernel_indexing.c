/* codegen/cpu/kernel_indexing.c - prints the kernels of scatter, put, argsort, topk, scan and within: sizes, then one
 * macro of kernel_indexing.h. */
#include "codegen/cpu/kernel_template.h"
#include "codegen/rows/print_row.h"

static const char *span(const Work *w, Scalars *s, const Type *t, int from, int to) {
  return rp_scalar_text(w->m, s, type_product(w->m, t, from, to));
}

static void print_sizes(const Work *w, const Type *t, int axis, Text *out, Scalars *s) {
  text_printf(out, "  const int64_t outer = %s, n = %s, inner = %s;\n", span(w, s, t, 0, axis),
              span(w, s, t, axis, axis + 1), span(w, s, t, axis + 1, t->rank));
}

/* Returns "f32, float, float, 0, add_f32": element, stored and computed type, identity and combination of a
 * reduction. */
static const char *reduction_arguments(const Work *w, DType t, Reduction r) {
  DType acc = t == DT_f16 || t == DT_bf16 ? DT_f32 : t;
  return arena_printf(w->m->arena, "%s, %s, %s, %s, %s_%s", dtype_name(t), rp_stored_type(t), rp_value_type(t),
                      rp_identity(&(RowAcc){.op = r, .dtype = acc}), rp_combine_name(r), rp_suffix(t));
}

static void print_scatter(const Work *w, const Op *op, Text *t, Scalars *s) {
  const Type *x = work_type(w, op->in[0]), *index = work_type(w, op->in[1]), *y = work_type(w, op->out);
  int axis = (int)op_int(op, AT_axis, 0), named = op->kind == OP_put ? 1 : index->rank;
  print_sizes(w, y, axis, t, s);
  text_printf(t, "  const int64_t k = %s, start = %s;\n", span(w, s, x, axis, axis + named),
              rp_scalar_text(w->m, s, op_expr(op, AT_start)));
  text_printf(t, "  %s *y = ptr[2];\n  const %s *a = ptr[0];\n  const %s *b = ptr[1];\n", rp_stored_type(y->dtype),
              rp_stored_type(x->dtype), rp_stored_type(index->dtype));
  text_printf(t, "  %s(%s, %s);\n", op->kind == OP_put ? "PUT" : "SCATTER",
              reduction_arguments(w, x->dtype, op_attr(op, AT_op)->u.reduction), dtype_name(index->dtype));
}

/* Returns "{4, n, 1}", with an extra element so that a scalar's list is not empty. */
static const char *list_of(const Work *w, Scalars *s, int n, const Expr *const *items) {
  Text t = {.arena = w->m->arena};
  for (int d = 0; d < n; d++) text_printf(&t, "%s, ", rp_scalar_text(w->m, s, items[d]));
  return arena_printf(w->m->arena, "{%s0}", text_str(&t));
}

void template_within(const Work *w, const Op *op, Text *t, Scalars *s) {
  const Type *x = work_type(w, op->in[0]);
  const char *stored = rp_stored_type(x->dtype);
  text_printf(t, "  const int64_t extent[] = %s, start[] = %s;\n", list_of(w, s, x->rank, x->dims),
              list_of(w, s, x->rank, op_attr(op, AT_starts)->u.exprs));
  text_printf(t, "  const int64_t n = %s, below = %s, low = %s, rank = %d;\n", span(w, s, x, 0, x->rank),
              rp_scalar_text(w->m, s, op_expr(op, AT_below)), op_int(op, AT_negative, 0) ? "-below" : "0", x->rank);
  text_printf(t, "  %s *y = ptr[1];\n  const %s *a = ptr[0];\n  WITHIN(%s);\n", stored, stored, dtype_name(x->dtype));
}

void template_indexing(const Work *w, const Op *op, Text *t, Scalars *s) {
  const Type *x = work_type(w, op->in[0]);
  int axis = (int)op_int(op, AT_axis, 0);
  if (op->kind == OP_scatter || op->kind == OP_put) {
    print_scatter(w, op, t, s);
    return;
  }
  print_sizes(w, x, axis, t, s);
  text_printf(t, "  %s *y = ptr[1];\n  const %s *a = ptr[0];\n", rp_stored_type(work_type(w, op->out)->dtype),
              rp_stored_type(x->dtype));
  if (op->kind == OP_topk) {
    text_printf(t, "  int64_t *z = ptr[2];\n  const int64_t k = %s;\n  const int descending = %d;\n  TOPK(%s, %s);\n",
                rp_scalar_text(w->m, s, op_expr(op, AT_k)), op_int(op, AT_descending, 0) != 0, dtype_name(x->dtype),
                rp_value_type(x->dtype));
    return;
  }
  if (op->kind == OP_argsort) {
    text_printf(t, "  const int descending = %d;\n  ARGSORT(%s, %s);\n", op_int(op, AT_descending, 0) != 0,
                dtype_name(x->dtype), rp_value_type(x->dtype));
    return;
  }
  text_printf(t, "  const int exclusive = %d, reverse = %d;\n", op_int(op, AT_exclusive, 0) != 0,
              op_int(op, AT_reverse, 0) != 0);
  text_printf(t, "  SCAN(%s);\n", reduction_arguments(w, x->dtype, op_attr(op, AT_op)->u.reduction));
}
