/* frontend/onnx/import_bits.c - weights of 2, 4 or 8 bits of ONNX Runtime: MatMulNBits, GatherBlockQuantized.
 *
 * Several numbers share a byte, the first in its low bits.  They are unpacked, and their scales and zero points (the
 * middle of the range if absent) are applied in the type of the scales; products are computed in floats.  That is at
 * least as exact as any accuracy_level.
 *
 * Not done: 3, 5, 6 and 7 bits; layouts that a library has prepared; the deprecated order of groups (g_idx).
 */
#include "frontend/onnx/import_bits.h"

bool import_bits(ImportNode *n, const char *name, int64_t otherwise, int *bits) {
  int64_t is = node_int(n, name, otherwise);
  *bits = (int)is;
  return is == 2 || is == 4 || is == 8 ||
         node_error(n, "attribute \"%s\" is %lld; apc takes 2, 4, 8", name, (long long)is);
}

Val import_unpacked(ImportNode *n, Val bytes, int bits, const Expr *count) {
  const Type *t = bytes ? type_of(n->b->f, bytes) : NULL;
  if (!t) return 0;
  int last = t->rank - 1;
  if (t->dtype != DT_u8 || last < 0 || t->rank == MAX_RANK) {
    node_error(n, "packed numbers must be u8, not %s", import_type_string(n->m, t));
    return 0;
  }
  const Expr *per = ex_const(n->m, 8 / bits), *dims[MAX_RANK];
  for (int d = 0; d < t->rank; d++) dims[d] = d == last ? ex_muli(n->m, t->dims[d], 8 / bits) : t->dims[d];
  if (bits < 8) {
    Val shift = build_cast(n->b, binary_number(n, OP_mul, iota_i64(n, 1, &per, 0), bits), DT_u8);
    Val shifted = binary(n, OP_shr, insert_dims(n, bytes, 1u << t->rank, t->rank + 1), shift);
    bytes = build_reshape(n->b, binary_number(n, OP_and, shifted, (1 << bits) - 1), t->rank, dims);
  }
  return dims[last] == count ? bytes : build_slice(n->b, bytes, last, ex_const(n->m, 0), count, 1);
}

Val import_dequantized(ImportNode *n, Val numbers, Val scales, Val zeros, int bits) {
  if (!numbers || !scales) return 0;
  const Type *t = type_of(n->b->f, numbers), *ts = type_of(n->b->f, scales);
  Val x = build_cast(n->b, numbers, ts->dtype), scale = insert_dims(n, scales, 1u << (t->rank - 1), t->rank);
  x = zeros ? binary(n, OP_sub, x, insert_dims(n, build_cast(n->b, zeros, ts->dtype), 1u << (t->rank - 1), t->rank))
            : binary_number(n, OP_sub, x, 1 << (bits - 1));
  return binary(n, OP_mul, x, scale);
}

/* Reshapes a list or matrix to [rows, columns]. */
static Val as_matrix(ImportNode *n, Val x, const Expr *rows, const Expr *columns) {
  const Expr *dims[] = {rows, columns};
  const Type *t = x ? type_of(n->b->f, x) : NULL;
  if (!t) return 0;
  if (t->rank == 2 && t->dims[0] == rows && t->dims[1] == columns) return x;
  if (t->rank > 2 || type_elements(n->m, t) != ex_mul(n->m, rows, columns)) {
    node_error(n, "scales or zero points do not fit in %s", import_type_string(n->m, t));
    return 0;
  }
  return build_reshape(n->b, x, 2, dims);
}

/* ---- MatMulNBits */

/* The zero points of the blocks of each row, packed or not. */
static Val zero_points(ImportNode *n, const Expr *rows, const Expr *blocks, int bits) {
  Val x = input(n, 3);
  if (!x || input_type(n, 3)->dtype != DT_u8) return as_matrix(n, x, rows, blocks);
  const Expr *bytes = ex_ceil_div(n->m, ex_muli(n->m, blocks, bits), ex_const(n->m, 8));
  return import_unpacked(n, as_matrix(n, x, rows, bytes), bits, blocks);
}

bool import_matmul_bits(ImportNode *n) {
  int64_t k = node_int(n, "K", 0), columns = node_int(n, "N", 0), block = node_int(n, "block_size", 0);
  int bits, rank = input_type(n, 0)->rank;
  if (!import_bits(n, "bits", 4, &bits)) return false;
  if (node_int(n, "weight_prepacked", 0) != 0) return node_error(n, "attribute \"weight_prepacked\" is not 0");
  if (has_input(n, 4)) return node_error(n, "input 4 (g_idx) is not supported");
  if (k < 1 || columns < 1 || block < 1 || k > INT32_MAX || block > INT32_MAX)
    return node_error(n, "a matrix cannot have %lld rows and %lld columns in blocks of %lld", (long long)k,
                      (long long)columns, (long long)block);
  const Expr *rows = ex_const(n->m, columns), *blocks = ex_const(n->m, (k + block - 1) / block),
             *wide[] = {rows, ex_const(n->m, (k + block - 1) / block * block)};
  const Type *t = type_of_ints(n->m, DT_u8, 3, (int64_t[]){columns, (k + block - 1) / block, block * bits / 8});
  if (input_type(n, 1) != t)
    return node_error(n, "the packed weights are %s instead of %s", import_type_string(n->m, input_type(n, 1)),
                      import_type_string(n->m, t));
  Val numbers = import_unpacked(n, input(n, 1), bits, ex_const(n->m, block));
  Val zeros = has_input(n, 3) ? zero_points(n, rows, blocks, bits) : 0;
  if (has_input(n, 3) && !zeros) return false;
  Val w = import_dequantized(n, numbers, as_matrix(n, input(n, 2), rows, blocks), zeros, bits);
  w = w ? build_slice(n->b, build_reshape(n->b, w, 2, wide), 1, ex_const(n->m, 0), ex_const(n->m, k), 1) : 0;
  if (!w || rank < 1) return false;
  if (!equal_extents(n, input_type(n, 0)->dims[rank - 1], ex_const(n->m, k)))
    return node_error(n, "%s does not have %lld columns", import_type_string(n->m, input_type(n, 0)), (long long)k);
  const char *letters = arena_strndup(n->m->arena, "abcdefgh", (size_t)rank - 1);
  Val y = build_dot(n->b, build_cast(n->b, input(n, 0), type_of(n->b->f, w)->dtype), w,
                    arena_printf(n->m->arena, "%sk,nk->%sn", letters, letters));
  y = y ? build_cast(n->b, y, input_type(n, 0)->dtype) : 0;
  return import_set_output(n, 0, has_input(n, 5) ? binary(n, OP_add, y, input(n, 5)) : y);
}

/* ---- GatherBlockQuantized */

/* Gathers rows of a table whose blocks lie along the last dimension; an index outside gives zeros. */
bool import_gather_blocks(ImportNode *n) {
  const Type *t = input_type(n, 0), *ti = input_type(n, 1), *ts = input_type(n, 2);
  int64_t block = node_int(n, "block_size", 128);
  int bits, axis = 0, last = t->rank - 1;
  if (!import_bits(n, "bits", 4, &bits)) return false;
  if (!node_axis(n, node_int(n, "quantize_axis", 1), t->rank, &axis)) return false;
  if (t->rank != 2 || axis != last || node_int(n, "gather_axis", 0) != 0 || ts->rank != 2 || block < 1)
    return node_error(
        n,
        "a table %s in blocks of %lld along dimension %d is not supported; apc takes matrices whose rows are gathered",
        import_type_string(n->m, t), (long long)block, axis);
  const Expr *count = ex_muli(n->m, t->dims[last], 8 / bits), *blocks = ts->dims[1];
  if (count != ex_muli(n->m, blocks, block))
    return node_error(n, "scales %s do not fit blocks of %lld of %s", import_type_string(n->m, ts), (long long)block,
                      import_type_string(n->m, t));
  Val index = wrap_index(n, build_cast(n->b, input(n, 1), DT_i64), t->dims[0]);
  if (!index) return false;
  Val rows = build_gather(n->b, input(n, 0), index, 0), scales = build_gather(n->b, input(n, 2), index, 0);
  Val zeros = has_input(n, 3) ? build_gather(n->b, input(n, 3), index, 0) : 0;
  const Expr *dims[MAX_RANK];
  for (int d = 0; d < ti->rank; d++) dims[d] = ti->dims[d];
  dims[ti->rank] = blocks, dims[ti->rank + 1] = ex_const(n->m, block);
  Val numbers = import_unpacked(n, rows, bits, count);
  if (!numbers) return false;
  if (zeros) zeros = import_unpacked(n, zeros, bits, blocks);
  if (has_input(n, 3) && !zeros) return false;
  numbers = build_reshape(n->b, numbers, ti->rank + 2, dims);
  Val y = import_dequantized(n, numbers, scales, zeros, bits);
  dims[ti->rank] = count;
  return import_set_output(n, 0, y ? build_reshape(n->b, y, ti->rank + 1, dims) : 0);
}
