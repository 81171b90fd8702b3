/* frontend/onnx/import_opaque.c - operators that apc does not support, as opaque operations: for planning and
 * inspection.
 *
 * Every used output becomes one operation with the node's inputs.  Its type is the one that the file declares for
 * the value (value_info, as shape inference writes it, or the graph's outputs).  A dimension that the file leaves
 * open, or names by a symbol that no input has, is that of the first input if the ranks agree.  A value without a
 * declared type gets the type of the first input.  Both are marked `assumed`.
 */
#include <string.h>

#include "frontend/onnx/import_private.h"

/* The first input that has a type; NULL if none. */
static const Type *first_type(const ImportNode *n) {
  for (size_t i = 0; i < n->proto->n_input; i++)
    if (has_input(n, i)) return input_type(n, i);
  return NULL;
}

/* The type that the file declares; NULL if it declares none that apc supports. */
static const Type *declared_type(ImportNode *n, const char *name, const Type *like, bool *assumed) {
  const Onnx__ValueInfoProto *v = import_value_info(n->im, name);
  const Onnx__TypeProto *t = v ? v->type : NULL;
  DType dtype;
  const Expr *dims[MAX_RANK];
  if (!t || t->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !t->tensor_type || !t->tensor_type->shape)
    return NULL;
  const Onnx__TensorShapeProto *shape = t->tensor_type->shape;
  if (!onnx_dtype(t->tensor_type->elem_type, &dtype) || shape->n_dim > MAX_RANK) return NULL;
  for (size_t k = 0; k < shape->n_dim; k++) {
    size_t symbols = n->m->symbols.n;
    dims[k] = import_dim(n->im, name, k, shape->dim[k]);
    if (n->m->symbols.n == symbols || !like || (size_t)like->rank != shape->n_dim) continue;
    dims[k] = like->dims[k];
    *assumed = true;
  }
  return type_get(n->m, dtype, (int)shape->n_dim, dims);
}

static Val opaque(ImportNode *n, size_t output, int nin, const Val *in) {
  bool assumed = false;
  const Type *like = first_type(n), *type = declared_type(n, n->out[output]->name, like, &assumed);
  if (!type) {
    type = like ? like : type_get(n->m, DT_f32, 0, NULL);
    assumed = true;
  }
  const char *domain = n->proto->domain;
  bool plain = !domain || !*domain || strcmp(domain, "ai.onnx") == 0;
  const char *kind = plain ? n->op->type : arena_printf(n->m->arena, "%s.%s", domain, n->op->type);
  Attr attrs[] = {attr_s(n->m, AT_kind, kind), attr_s(n->m, AT_name, n->name), attr_i(AT_result, (int64_t)output),
                  attr_i(AT_assumed, 1)};
  return build_op(n->b, &(OpSpec){.kind = OP_opaque,
                                  .loc = n->b->loc,
                                  .nin = nin,
                                  .in = in,
                                  .nattrs = assumed ? 4 : 3,
                                  .attrs = attrs,
                                  .type = type});
}

bool import_opaque(ImportNode *n) {
  Val in[MAX_OPERANDS];
  int nin = 0;
  for (size_t i = 0; i < n->proto->n_input; i++) {
    if (!has_input(n, i)) continue;
    if (nin == MAX_OPERANDS) return node_error(n, "an unknown operator cannot have more than %d inputs", MAX_OPERANDS);
    if (!(in[nin++] = input(n, i))) return false;
  }
  for (size_t k = 0; k < n->proto->n_output; k++)
    if (wants(n, k) && !import_set_output(n, k, opaque(n, k, nin, in))) return false;
  return true;
}
