/* frontend/onnx/import_det.c - Det: the determinant by elimination with partial pivoting, written out row by row.
 *
 * In each step the row whose first element is largest in magnitude is the pivot.  Its first element multiplies the
 * determinant, negatively if the row is not the first; the first row takes its place, and the other rows, less their
 * multiple of it, are the next matrix.
 */
#include "frontend/onnx/import_private.h"

enum { MAX_ROWS = 32 };

/* Divides the first row and the first column off x, [batch, rows, rows], and multiplies *det, [batch], by the pivot.
 * Returns the next matrix; 0 after an error. */
static Val eliminate(ImportNode *n, Val x, int64_t rows, Val *det) {
  Module *m = n->m;
  Builder *b = n->b;
  const Expr *zero = ex_const(m, 0), *one = ex_const(m, 1), *rest = ex_const(m, rows - 1);
  Val column = drop_dims(n, build_slice(b, x, 2, zero, one, 1), 1u << 2);
  Val size = column ? build_unary(b, OP_abs, column) : 0;
  Attr a[] = {attr_i(AT_axis, 1), attr_i(AT_descending, 1), attr_e(AT_k, one)};
  Val top = size ? build_op(b, &(OpSpec){.kind = OP_topk, .nin = 1, .in = &size, .nattrs = 3, .attrs = a}) : 0;
  if (!top) return 0;
  const Type *t = type_of(b->f, column);
  Val at = top + 1, chosen = binary(n, OP_eq, iota_i64(n, 2, t->dims, 1), at); /* [batch, rows] */
  Val pivot = take(n, column, at, 1), negative = binary_number(n, OP_ne, at, 0);
  Val factor = pivot ? select3(n, negative, build_unary(b, OP_neg, pivot), pivot) : 0;
  *det = binary(n, OP_mul, *det, drop_dims(n, factor, 1u << 1));
  if (rows == 1 || !*det) return 0;
  Val wide = insert_dims(n, chosen, 1u << 2, 3), first = build_slice(b, x, 1, zero, one, 1);
  Val row = import_reduce_axes(n, RED_SUM, select3(n, wide, x, splat_like(n, x, 0)), 1u << 1, true);
  Val others = build_slice(b, select3(n, wide, first, x), 1, one, rest, 1);
  Val divisor = insert_dims(n, pivot, 1u << 2, 3); /* 0 only if the column is, so that nothing is subtracted */
  divisor = select3(n, binary_number(n, OP_eq, divisor, 0), splat_like(n, divisor, 1), divisor);
  Val multiple = binary(n, OP_div, build_slice(b, others, 2, zero, one, 1), divisor);
  Val less = binary(n, OP_mul, multiple, build_slice(b, row, 2, one, rest, 1));
  return binary(n, OP_sub, build_slice(b, others, 2, one, rest, 1), less);
}

bool import_det(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int64_t rows;
  if (t->rank < 2 || !equal_extents(n, t->dims[t->rank - 1], t->dims[t->rank - 2]))
    return node_error(n, "square matrices are expected, not %s", import_type_string(n->m, t));
  if (!ex_get_const(t->dims[t->rank - 1], &rows) || rows < 1 || rows > MAX_ROWS)
    return node_error(n, "matrices of 1 to %d rows are supported, not %s", MAX_ROWS, import_type_string(n->m, t));
  const Expr *batch = type_product(n->m, t, 0, t->rank - 2),
             *dims[] = {batch, ex_const(n->m, rows), ex_const(n->m, rows)};
  Val x = input(n, 0), det = build_splat(n->b, type_get(n->m, t->dtype, 1, &batch), 1);
  if (!x || !(x = build_reshape(n->b, x, 3, dims))) return false;
  for (int64_t left = rows; left > 0; left--) {
    x = eliminate(n, x, left, &det);
    if (!det || (!x && left > 1)) return false;
  }
  return import_set_output(n, 0, build_reshape(n->b, det, t->rank - 2, t->dims));
}
