/* frontend/onnx/order.c - orders the nodes of a graph for the import, and finds the needed ones.
 *
 * The specification requires definitions before uses; not every writer complies.  A node with inner graphs (Loop,
 * Scan, If) depends on everything that these read from outside.
 */
#include "frontend/onnx/import_graph.h"

/* ---- names that inner graphs read */

typedef struct Bound {
  const struct Bound *outer;
  NameMap names;
} Bound;

static bool is_bound(const Bound *b, const char *name) {
  for (; b; b = b->outer)
    if (name_find(&b->names, name)) return true;
  return false;
}

static void read_name(Arena *a, const Bound *b, const char *name, NameMap *seen, OnnxReads *out) {
  if (!*name || is_bound(b, name) || name_find(seen, name)) return;
  name_put(a, seen, name, seen);
  ARENA_PUSH(a, out, name);
}

static void captures(Arena *a, const Onnx__GraphProto *g, const Bound *outer, NameMap *seen, OnnxReads *out) {
  Bound b = {outer, {0}};
  void *yes = out;
  for (size_t i = 0; i < g->n_input; i++) name_put(a, &b.names, onnx_text(g->input[i]->name), yes);
  for (size_t i = 0; i < g->n_initializer; i++) name_put(a, &b.names, onnx_text(g->initializer[i]->name), yes);
  for (size_t i = 0; i < g->n_node; i++)
    for (size_t k = 0; k < g->node[i]->n_output; k++) name_put(a, &b.names, g->node[i]->output[k], yes);
  for (size_t i = 0; i < g->n_node; i++) {
    const Onnx__NodeProto *node = g->node[i];
    for (size_t k = 0; k < node->n_input; k++) read_name(a, &b, node->input[k], seen, out);
    for (size_t k = 0; k < node->n_attribute; k++)
      if (node->attribute[k]->g) captures(a, node->attribute[k]->g, &b, seen, out);
  }
  for (size_t i = 0; i < g->n_output; i++) read_name(a, &b, onnx_text(g->output[i]->name), seen, out);
}

OnnxReads import_graph_captures(Arena *a, const Onnx__GraphProto *g) {
  OnnxReads out = {0};
  NameMap seen = {0};
  captures(a, g, NULL, &seen, &out);
  return out;
}

static OnnxReads reads_of(Arena *a, const Onnx__NodeProto *node) {
  OnnxReads out = {0};
  NameMap seen = {0};
  for (size_t k = 0; k < node->n_input; k++)
    if (*node->input[k]) ARENA_PUSH(a, &out, node->input[k]);
  for (size_t k = 0; k < node->n_attribute; k++)
    if (node->attribute[k]->g) captures(a, node->attribute[k]->g, NULL, &seen, &out);
  return out;
}

/* ---- order */

typedef enum Mark { UNSEEN, OPEN, DONE } Mark;

/* Visits depth-first the nodes that node `root` needs, without recursion: models have chains of many thousand nodes. */
static bool visit(Import *im, int root, Mark *mark, int *stack, size_t *next) {
  ImportGraph *g = im->g;
  size_t depth = 0;
  stack[depth++] = root;
  mark[root] = OPEN;
  while (depth) {
    int i = stack[depth - 1];
    if (next[i] == g->reads[i].n) {
      mark[i] = DONE;
      g->order[g->norder++] = i;
      depth--;
      continue;
    }
    const char *name = g->reads[i].items[next[i]++];
    const ImportItem *item = name_find(&g->items, name);
    if (!item && !import_find(im, name))
      return diag_error(im->d, DIAG_onnx_graph, onnx_node_loc(im, (size_t)i), "input \"%s\" is defined nowhere", name);
    int p = item ? item->producer : -1;
    if (p < 0 || mark[p] == DONE) continue;
    if (mark[p] == OPEN)
      return diag_error(im->d, DIAG_onnx_graph, onnx_node_loc(im, (size_t)i),
                        "the node depends on itself, through \"%s\"", name);
    mark[p] = OPEN;
    stack[depth++] = p;
  }
  return true;
}

bool import_graph_order(Import *im) {
  ImportGraph *g = im->g;
  size_t n = g->nodes.n;
  g->order = ARENA_ARRAY(im->m->arena, int, n);
  g->reads = ARENA_ARRAY(im->m->arena, OnnxReads, n);
  for (size_t i = 0; i < n; i++) g->reads[i] = reads_of(im->m->arena, g->nodes.items[i]);
  Arena *scratch = arena_new();
  Mark *mark = ARENA_ARRAY(scratch, Mark, n);
  int *stack = ARENA_ARRAY(scratch, int, n);
  size_t *next = ARENA_ARRAY(scratch, size_t, n);
  bool ok = true;
  for (size_t i = 0; ok && i < n; i++)
    if (mark[i] == UNSEEN) ok = visit(im, (int)i, mark, stack, next);
  arena_free(scratch);
  return ok;
}

/* ---- needed nodes */

bool import_graph_mark_live(Import *im, const bool *wanted) {
  ImportGraph *g = im->g;
  g->live = ARENA_ARRAY(im->m->arena, bool, g->nodes.n);
  bool ok = true;
  for (size_t i = 0; i < g->proto->n_output; i++) {
    const char *name = onnx_text(g->proto->output[i]->name);
    ImportItem *item = import_find(im, name);
    if (!item) ok = diag_error(im->d, DIAG_onnx_graph, im->b.loc, "output \"%s\" is defined nowhere", name);
    else if (!wanted || wanted[i]) item->used = true;
  }
  for (size_t k = g->norder; k-- > 0;) {
    int i = g->order[k];
    const Onnx__NodeProto *node = g->nodes.items[i];
    for (size_t o = 0; o < node->n_output; o++) {
      const ImportItem *item = *node->output[o] ? name_find(&g->items, node->output[o]) : NULL;
      g->live[i] = g->live[i] || (item && item->used);
    }
    for (size_t in = 0; g->live[i] && in < g->reads[i].n; in++) import_find(im, g->reads[i].items[in])->used = true;
  }
  return ok;
}
