/* frontend/onnx/import_shape.c - ONNX operators that rearrange the elements of one tensor. */
#include <string.h>

#include "frontend/onnx/import_private.h"

bool import_identity(ImportNode *n) {
  import_set_alias(n, 0, n->in[0]);
  return true;
}

/* True if both shapes have equally many elements.  If each shape has one extent that the other lacks, or has more
 * often, these must be equal. */
static bool equal_elements(ImportNode *n, const Type *x, const Type *y) {
  const Expr *left[2] = {NULL, NULL};
  int count[2] = {0, 0};
  for (int side = 0; side < 2; side++) {
    const Type *a = side ? y : x, *b = side ? x : y;
    unsigned met = 0;
    for (int d = 0; d < a->rank; d++) {
      bool other = ex_is_const(a->dims[d], 1);
      for (int k = 0; k < b->rank && !other; k++)
        if (!(met >> k & 1) && a->dims[d] == b->dims[k]) other = true, met |= 1u << k;
      if (!other) left[side] = a->dims[d], count[side]++;
    }
  }
  if (type_elements(n->m, x) == type_elements(n->m, y)) return true;
  return count[0] == 1 && count[1] == 1 ? equal_extents(n, left[0], left[1])
                                        : equal_extents(n, type_elements(n->m, x), type_elements(n->m, y));
}

/* Reshapes input 0, keeping the order of its elements. */
static bool reshaped(ImportNode *n, int rank, const Expr *const *dims) {
  const Type *type = type_get(n->m, input_type(n, 0)->dtype, rank, dims);
  if (type == input_type(n, 0)) return import_identity(n);
  if (!equal_elements(n, type, input_type(n, 0)))
    return node_error(n, "%s cannot be reshaped to %s", import_type_string(n->m, input_type(n, 0)),
                      import_type_string(n->m, type));
  return import_set_output(n, 0, build_reshape(n->b, input(n, 0), rank, dims));
}

bool import_reshape(ImportNode *n) {
  const Type *t = input_type(n, 0);
  ImportKnown shape;
  const Expr *dims[MAX_RANK], *all = ex_const(n->m, 1), *rest = all;
  int open = -1;
  unsigned empty = 0; /* dimensions that are 0 in both shapes and do not determine the one of -1 */
  bool zero_is_zero = node_int(n, "allowzero", 0) != 0;
  if (!input_exprs(n, 1, "the shape", &shape)) return false;
  if (shape.n > MAX_RANK) return node_error(n, "a result of %d dimensions", shape.n);
  for (int d = 0; d < shape.n; d++) {
    dims[d] = shape.items[d];
    if (ex_is_const(dims[d], -1)) {
      if (open >= 0) return node_error(n, "two dimensions are -1");
      open = d;
      continue;
    }
    if (ex_is_const(dims[d], 0) && !zero_is_zero) {
      if (d >= t->rank) return node_error(n, "dimension %d is 0 (copied), but the input has rank %d", d, t->rank);
      dims[d] = t->dims[d];
    }
    if (known_bounds(n->m, dims[d]).high < 0) return node_error(n, "dimension %d is negative", d);
    if (d < t->rank && ex_is_const(dims[d], 0) && dims[d] == t->dims[d]) empty |= 1u << d;
    else rest = ex_mul(n->m, rest, dims[d]);
  }
  if (open >= 0) {
    for (int d = 0; d < t->rank; d++)
      if (!(empty >> d & 1)) all = ex_mul(n->m, all, t->dims[d]);
    dims[open] = ex_is_const(rest, 0) ? NULL : ex_exact_div(n->m, all, rest);
    if (!dims[open]) {
      dims[open] = ex_const(n->m, -1);
      bool kept = true; /* true if its leading extents are kept */
      for (int d = 0; d < open && d < t->rank && kept; d++) kept = equal_extents(n, dims[d], t->dims[d]);
      if (kept && !ex_is_const(rest, 0)) exact_extent(n, all, rest);
      return node_error(n, "%s cannot be reshaped to %s", import_type_string(n->m, t),
                        import_type_string(n->m, type_get(n->m, t->dtype, shape.n, dims)));
    }
  }
  return reshaped(n, shape.n, dims);
}

bool import_flatten(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int64_t axis = node_int(n, "axis", 1);
  if (axis < -t->rank || axis > t->rank)
    return node_error(n, "axis %lld is outside a tensor of rank %d", (long long)axis, t->rank);
  int at = (int)(axis < 0 ? axis + t->rank : axis);
  const Expr *dims[] = {type_product(n->m, t, 0, at), type_product(n->m, t, at, t->rank)};
  return reshaped(n, 2, dims);
}

/* The rank that the graph declares for the output; -1 if none.  A declaration without dimensions counts as none,
 * since exporters also write it for values of unknown rank. */
static int declared_rank(ImportNode *n) {
  const Onnx__ValueInfoProto *v = n->proto->n_output ? import_value_info(n->im, n->proto->output[0]) : NULL;
  const Onnx__TypeProto *t = v ? v->type : NULL;
  bool tensor = t && t->value_case == ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE && t->tensor_type && t->tensor_type->shape;
  return tensor && t->tensor_type->shape->n_dim ? (int)t->tensor_type->shape->n_dim : -1;
}

/* If the dimension were 1, the result would have another rank.  So a dimension of unknown size is assumed to be at
 * least 2, which is reported. */
static void assume_stays(ImportNode *n, const Type *t, int d) {
  Text size = {.arena = n->m->arena};
  ex_print(n->m, &size, t->dims[d]);
  assume_extent(n->m, ex_addi(n->m, t->dims[d], -2));
  diag_warning(n->b->diags, DIAG_onnx_assumed, n->b->loc,
               "Squeeze without axes would drop a dimension of 1, so %s is taken to be at least 2", text_str(&size));
  diag_help(n->b->diags, "if it is 1, compile the model with --dim or --shape for that size");
}

/* Without axes every dimension of 1 is dropped and the others stay.  A dimension of unknown size is 1 if the
 * declared rank of the result requires it, else at least 2.  An impossible rank, as some files declare, is ignored. */
static bool ones_without_axes(ImportNode *n, const Type *t, unsigned *axes) {
  int open = 0, ones = 0, rank = declared_rank(n), gone = rank < 0 ? 0 : t->rank - rank;
  for (int d = 0; d < t->rank; d++) {
    Bounds b = known_bounds(n->m, t->dims[d]);
    ones += ex_is_const(t->dims[d], 1), open += b.low <= 1 && b.high >= 1;
  }
  bool all = gone == open;
  if (ones < gone && gone < open)
    return node_error(n, "%s becomes %d dimensions: give it axes", import_type_string(n->m, t), rank);
  for (int d = 0; d < t->rank; d++) {
    Bounds b = known_bounds(n->m, t->dims[d]);
    if (b.low > 1 || b.high < 1) continue;
    if (all || ex_is_const(t->dims[d], 1)) *axes |= 1u << d;
    else assume_stays(n, t, d);
    if (!(*axes >> d & 1) && known_bounds(n->m, t->dims[d]).low < 2)
      return node_error(n, "cannot tell whether dimension %d of %s is 1", d, import_type_string(n->m, t));
  }
  return true;
}

bool import_squeeze(ImportNode *n) {
  const Type *t = input_type(n, 0);
  unsigned axes;
  bool given;
  const Expr *dims[MAX_RANK];
  int rank = 0;
  if (!node_axes(n, 13, t->rank, &axes, &given) || (!given && !ones_without_axes(n, t, &axes))) return false;
  for (int d = 0; d < t->rank; d++) {
    bool drop = axes >> d & 1;
    if (drop && !equal_extents(n, t->dims[d], ex_const(n->m, 1)))
      return node_error(n, "dimension %d of %s is not 1", d, import_type_string(n->m, t));
    if (!drop) dims[rank++] = t->dims[d];
  }
  return reshaped(n, rank, dims);
}

bool import_unsqueeze(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int64_t list[KNOWN_MAX];
  int count;
  const int64_t *axes_list = list;
  if (n->opset < 13) axes_list = node_ints(n, "axes", &count);
  else if (!input_ints(n, 1, "axes", list, &count)) return false;
  if (count < 0) return node_error(n, "has no axes");
  if (t->rank + count > MAX_RANK) return node_error(n, "a result of %d dimensions", t->rank + count);
  unsigned axes = 0;
  for (int i = 0; i < count; i++) {
    int axis = 0;
    if (!node_axis(n, axes_list[i], t->rank + count, &axis)) return false;
    if (axes >> axis & 1) return node_error(n, "axis %d is given twice", axis);
    axes |= 1u << axis;
  }
  const Expr *dims[MAX_RANK];
  for (int d = 0, from = 0; d < t->rank + count; d++) dims[d] = axes >> d & 1 ? ex_const(n->m, 1) : t->dims[from++];
  return reshaped(n, t->rank + count, dims);
}

bool import_transpose(ImportNode *n) {
  const Type *t = input_type(n, 0);
  int count, perm[MAX_RANK];
  unsigned seen = 0;
  const int64_t *list = node_ints(n, "perm", &count);
  if (count >= 0 && count != t->rank) return node_error(n, "perm has %d entries for rank %d", count, t->rank);
  for (int d = 0; d < t->rank; d++) {
    if (!node_axis(n, count >= 0 ? list[d] : t->rank - 1 - d, t->rank, &perm[d])) return false;
    if (seen >> perm[d] & 1) return node_error(n, "perm names dimension %d twice", perm[d]);
    seen |= 1u << perm[d];
  }
  if (t->rank < 2) return import_identity(n);
  return import_set_output(n, 0, build_transpose(n->b, input(n, 0), perm));
}

bool import_expand(ImportNode *n) {
  ImportKnown shape;
  const Expr *dims[MAX_RANK];
  int rank;
  if (!input_shape(n, 1, "the shape", &shape)) return false;
  const Type *t = input_type(n, 0), *target = type_get(n->m, t->dtype, shape.n, shape.items);
  if (!broadcast_extents(n, t, target, &rank, dims))
    return node_error(n, "%s cannot be expanded to %s", import_type_string(n->m, t), import_type_string(n->m, target));
  return import_set_output(n, 0, broadcast(n, input(n, 0), rank, dims));
}

/* [a, b] repeated [r, s] times: [1, a, 1, b] -> [r, a, s, b] -> [r*a, s*b]; only repeated dimensions are split. */
bool import_tile(ImportNode *n) {
  const Type *t = input_type(n, 0);
  ImportKnown repeats;
  const Expr *narrow[2 * MAX_RANK], *wide[2 * MAX_RANK], *dims[MAX_RANK];
  int rank = 0;
  if (!input_exprs(n, 1, "the repeats", &repeats)) return false;
  if (repeats.n != t->rank) return node_error(n, "%d repeats for rank %d", repeats.n, t->rank);
  for (int d = 0; d < t->rank; d++) {
    const Expr *r = repeats.items[d];
    if (known_bounds(n->m, r).high < 0) return node_error(n, "dimension %d is repeated a negative number of times", d);
    if (!ex_is_const(r, 1)) narrow[rank] = ex_const(n->m, 1), wide[rank++] = r;
    narrow[rank] = wide[rank] = t->dims[d];
    rank++;
    dims[d] = ex_mul(n->m, t->dims[d], r);
  }
  if (rank > MAX_RANK) return node_error(n, "it repeats too many dimensions at once");
  Val x = broadcast(n, build_reshape(n->b, input(n, 0), rank, narrow), rank, wide);
  return import_set_output(n, 0, build_reshape(n->b, x, t->rank, dims));
}

/* ---- blocks of pixels to channels and back, on [N, C, H, W] */

static bool block_size(ImportNode *n, int64_t *block) {
  const Type *t = input_type(n, 0);
  *block = node_int(n, "blocksize", 0);
  if (t->rank != 4) return node_error(n, "needs four dimensions, not %s", import_type_string(n->m, t));
  if (*block < 1 || *block > 1 << 15) return node_error(n, "blocksize is %lld", (long long)*block);
  return true;
}

static bool quotient(ImportNode *n, int d, int64_t by, const Expr **out) {
  *out = exact_extent(n, input_type(n, 0)->dims[d], ex_const(n->m, by));
  return *out || node_error(n, "dimension %d of %s is not a multiple of %lld", d,
                            import_type_string(n->m, input_type(n, 0)), (long long)by);
}

bool import_depth_to_space(ImportNode *n) {
  int64_t block;
  const Type *t = input_type(n, 0);
  const char *mode = node_string(n, "mode", "DCR");
  bool crd = strcmp(mode, "CRD") == 0;
  const Expr *c;
  if (!crd && strcmp(mode, "DCR") != 0) return node_error(n, "mode is \"%s\", not DCR or CRD", mode);
  if (!block_size(n, &block) || !quotient(n, 1, block * block, &c)) return false;
  const Expr *b = ex_const(n->m, block);
  const Expr *dcr_dims[] = {t->dims[0], b, b, c, t->dims[2], t->dims[3]},
             *crd_dims[] = {t->dims[0], c, b, b, t->dims[2], t->dims[3]};
  const int dcr_perm[] = {0, 3, 4, 1, 5, 2}, crd_perm[] = {0, 1, 4, 2, 5, 3};
  Val x = build_reshape(n->b, input(n, 0), 6, crd ? crd_dims : dcr_dims);
  const Expr *out[] = {t->dims[0], c, ex_mul(n->m, t->dims[2], b), ex_mul(n->m, t->dims[3], b)};
  return import_set_output(n, 0, build_reshape(n->b, build_transpose(n->b, x, crd ? crd_perm : dcr_perm), 4, out));
}

bool import_space_to_depth(ImportNode *n) {
  int64_t block;
  const Type *t = input_type(n, 0);
  const Expr *h, *w;
  const char *mode = node_string(n, "mode", "DCR");
  bool crd = strcmp(mode, "CRD") == 0;
  if (!crd && strcmp(mode, "DCR") != 0) return node_error(n, "mode is \"%s\", not DCR or CRD", mode);
  if (!block_size(n, &block) || !quotient(n, 2, block, &h) || !quotient(n, 3, block, &w)) return false;
  const Expr *b = ex_const(n->m, block), *dims[] = {t->dims[0], t->dims[1], h, b, w, b};
  const int *perm = crd ? (const int[]){0, 1, 3, 5, 2, 4} : (const int[]){0, 3, 5, 1, 2, 4};
  Val x = build_transpose(n->b, build_reshape(n->b, input(n, 0), 6, dims), perm);
  const Expr *out[] = {t->dims[0], ex_mul(n->m, t->dims[1], ex_const(n->m, block * block)), h, w};
  return import_set_output(n, 0, build_reshape(n->b, x, 4, out));
}
