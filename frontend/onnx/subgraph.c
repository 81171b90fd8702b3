/* frontend/onnx/subgraph.c - imports the graph inside a node (the body of a Loop, Scan or If) into the function
 * being built. */
#include "frontend/onnx/import_graph.h"

/* Imports initializers, names and nodes like those of the model's graph; see onnx_import. */
static bool import_contents(Import *im, const char *prefix, const bool *wanted) {
  import_value_infos(im);
  if (!import_initializers(im)) return false;
  import_name_nodes(im, prefix);
  if (!import_node_outputs(im) || !import_graph_order(im)) return false;
  import_trained(im);
  return import_graph_mark_live(im, wanted) && import_live_nodes(im);
}

static bool find_outputs(Import *im, const bool *wanted, ImportItem **out) {
  const Onnx__GraphProto *p = im->g->proto;
  for (size_t i = 0; i < p->n_output; i++) {
    if (wanted && !wanted[i]) continue;
    out[i] = import_find(im, onnx_text(p->output[i]->name));
    if (!out[i]->type) return false; /* its producer failed and reported it */
  }
  return true;
}

bool import_subgraph(ImportNode *n, const Onnx__GraphProto *proto, ImportItem *const *in, const bool *wanted,
                     ImportItem **out) {
  Import *im = n->im;
  ImportGraph g = {.outer = im->g, .proto = proto, .nodes = {proto->node, proto->n_node, proto->n_node}};
  Loc loc = im->b.loc;
  const char *prefix = im->b.prefix;
  size_t errors = im->d->errors;
  if (proto->n_sparse_initializer) return node_error(n, "its graph has sparse initializers");
  im->g = &g;
  for (size_t i = 0; i < proto->n_input; i++) {
    ImportItem *item = ARENA_NEW(im->m->arena, ImportItem);
    *item = *in[i];
    item->producer = -1; /* not defined by a node of this graph */
    import_rename(im, onnx_text(proto->input[i]->name), item);
  }
  bool ok = import_contents(im, n->name, wanted) && find_outputs(im, wanted, out) && im->d->errors == errors;
  im->g = g.outer;
  im->b.loc = loc;
  im->b.prefix = prefix;
  return ok;
}

bool import_captured(ImportNode *n, const Onnx__GraphProto *proto) {
  OnnxReads reads = import_graph_captures(n->m->arena, proto);
  for (size_t i = 0; i < reads.n; i++) {
    ImportItem *item = import_find(n->im, reads.items[i]);
    if (!item->type || !item_value(n, item)) return false; /* reported */
  }
  return true;
}
