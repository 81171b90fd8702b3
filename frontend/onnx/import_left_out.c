/* frontend/onnx/import_left_out.c - adds a bias of zeros that the exporter left out, which import_ties.c found, to the
 * result of its node: a weight that the file does not have.
 */
#include "frontend/onnx/import_graph.h"

bool import_left_out(ImportNode *n, size_t node) {
  const Import *im = n->im;
  const char *name = im->biases && !im->g->outer ? im->biases[node] : NULL;
  if (!name || !n->out[0] || !n->out[0]->val) return true;
  Val y = n->out[0]->val;
  const Type *type = type_of(n->b->f, y);
  if (type->rank < 2 || type->dims[1]->kind != EX_CONST) return true;
  const Type *own = type_get(n->m, type->dtype, 1, &type->dims[1]);
  Param *p = module_param(n->m, name);
  if (p && p->type != own) return node_error(n, "the left-out bias \"%s\" has another type in an earlier node", name);
  if (!p) {
    p = module_param_add(n->m, name, own);
    p->loc = (Loc){.file = n->b->loc.file, .node = p->name};
  }
  Attr a = attr_ints(n->m, AT_dims, 1, (int64_t[]){1});
  Val bias = build_param(n->b, name);
  bias = build_op(n->b, &(OpSpec){.kind = OP_broadcast, .nin = 1, .in = &bias, .type = type, .nattrs = 1, .attrs = &a});
  return import_set_output(n, 0, build_binary(n->b, OP_add, y, bias));
}
