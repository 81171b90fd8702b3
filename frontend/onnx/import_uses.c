/* frontend/onnx/import_uses.c - the uses of every value of a graph, and the values that depend on its inputs.
 *
 * One walk over the nodes in their order.  Reads of a graph inside a node are not uses; they count as data for the
 * node's results.
 */
#include "frontend/onnx/import_graph.h"

static void add_use(Import *im, const char *name, ImportUse use) {
  ImportUses *list = name_find(&im->g->uses, name);
  if (!list) name_put(im->m->arena, &im->g->uses, name, list = ARENA_NEW(im->m->arena, ImportUses));
  ARENA_PUSH(im->m->arena, list, use);
}

/* A value of an outer graph may change with every round, so it counts as data. */
bool import_is_data(const Import *im, const char *name) {
  const ImportItem *item = import_find(im, name);
  return name_find(&im->g->data, name) || (item && !item->is_weight && !name_find(&im->g->items, name));
}

static bool depends(const Import *im, const OnnxReads *reads) {
  for (size_t k = 0; k < reads->n; k++)
    if (import_is_data(im, reads->items[k])) return true;
  return false;
}

void import_uses(Import *im) {
  ImportGraph *g = im->g;
  for (size_t i = 0; i < g->proto->n_input; i++) {
    const ImportItem *item = import_find(im, onnx_text(g->proto->input[i]->name));
    if (item && !item->is_weight) name_put(im->m->arena, &g->data, onnx_text(g->proto->input[i]->name), g);
  }
  for (size_t i = 0; i < g->norder; i++) {
    size_t at = (size_t)g->order[i];
    const Onnx__NodeProto *node = g->nodes.items[at];
    for (size_t k = 0; k < node->n_input; k++)
      if (*node->input[k]) add_use(im, node->input[k], (ImportUse){at, k});
    for (size_t k = 0; k < node->n_output && depends(im, &g->reads[at]); k++)
      name_put(im->m->arena, &g->data, node->output[k], g);
  }
}

ImportUses import_uses_of(const Import *im, const char *name) {
  const ImportUses *list = name_find(&im->g->uses, name);
  return list ? *list : (ImportUses){0};
}
