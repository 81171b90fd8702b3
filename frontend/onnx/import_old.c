/* frontend/onnx/import_old.c - operators as they were before operator set 7, when broadcasting was an attribute.
 *
 * With broadcast=1 the dimensions of the second operand are those of the first from `axis` on, by default its last
 * ones; other dimensions of it are 1.  Each operand is brought into the form that NumPy's rules expect, and the
 * importer of today does the rest.
 */
#include "frontend/onnx/import_private.h"

/* Replaces input 1 by itself with trailing dimensions of 1, so that its first dimension is `axis` of input 0. */
static bool place(ImportNode *n, int axis) {
  const Type *x = input_type(n, 0), *y = input_type(n, 1);
  const Expr *dims[MAX_RANK];
  if (axis + y->rank == x->rank) return true;
  for (int d = 0; d < x->rank - axis; d++) dims[d] = d < y->rank ? y->dims[d] : ex_const(n->m, 1);
  Val v = input(n, 1);
  if (!v || !(v = build_reshape(n->b, v, x->rank - axis, dims))) return false;
  n->in[1] = new_item(n, n->in[1]->name, v);
  return true;
}

bool import_old_binary(ImportNode *n) {
  const Type *x = input_type(n, 0), *y = input_type(n, 1);
  int64_t elements, axis = node_int(n, "axis", x->rank - y->rank);
  bool single = ex_get_const(type_elements(n->m, y), &elements) && elements == 1;
  if (node_int(n, "broadcast", 0) == 0) {
    if (x->rank != y->rank)
      return node_error(n, "broadcast is 0, but the operands have %d and %d dimensions", x->rank, y->rank);
  } else if (!single) {
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis + y->rank > x->rank)
      return node_error(n, "%s does not fit %s from dimension %lld on", import_type_string(n->m, y),
                        import_type_string(n->m, x), (long long)axis);
    if (!place(n, (int)axis)) return false;
  }
  return n->op->arg == OP_pow ? import_pow(n) : import_binary(n);
}

/* The slopes are per channel, the second dimension. */
bool import_old_prelu(ImportNode *n) {
  const Type *x = input_type(n, 0), *slope = input_type(n, 1);
  bool per_channel = slope->rank == 1 && !ex_is_const(slope->dims[0], 1) && x->rank > 1;
  return (!per_channel || place(n, 1)) && import_prelu(n);
}

bool import_old_batch_norm(ImportNode *n) {
  if (node_int(n, "is_test", 0) == 0)
    return node_error(n, "is_test is 0, which was training mode before operator set 7: export the model again");
  if (node_int(n, "spatial", 1) == 0 && input_type(n, 0)->rank > 2)
    return node_error(n, "statistics per element (spatial=0) are not supported");
  return import_batch_norm(n);
}
