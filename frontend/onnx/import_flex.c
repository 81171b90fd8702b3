/* frontend/onnx/import_flex.c - FlexAttention (ai.onnx.preview): attention whose scores and probabilities graphs of the
 * node change.
 *
 * Scores are in the type of the softmax: f32, f64 for f64 inputs, or softmax_precision.  Several query heads may share
 * one head of keys and values.
 */
#include <math.h>

#include "frontend/onnx/import_private.h"

typedef struct Flex {
  const Expr *batch, *heads, *group, *queries, *keys, *width, *value_width; /* group: query heads per head */
  DType type;                                                               /* of the softmax */
  double scale;
} Flex;

static bool read_flex(ImportNode *n, Flex *f) {
  const Type *q = input_type(n, 0), *k = input_type(n, 1), *v = input_type(n, 2);
  int64_t width;
  for (size_t i = 0; i < 3; i++)
    if (input_type(n, i)->rank != 4)
      return node_error(n, "input %zu must have four dimensions, not %s", i,
                        import_type_string(n->m, input_type(n, i)));
  f->batch = q->dims[0], f->heads = k->dims[1], f->queries = q->dims[2];
  f->keys = k->dims[2], f->width = q->dims[3], f->value_width = v->dims[3];
  f->group = exact_extent(n, q->dims[1], f->heads);
  if (!f->group) return node_error(n, "the heads of keys do not divide those of queries");
  if (!equal_extents(n, f->width, k->dims[3]) || !equal_extents(n, f->keys, v->dims[2]) ||
      !equal_extents(n, f->heads, v->dims[1]))
    return node_error(n, "queries, keys and values do not fit each other");
  f->type = q->dtype == DT_f64 ? DT_f64 : DT_f32;
  if (has_attr(n, "softmax_precision") && !node_dtype(n, "softmax_precision", &f->type)) return false;
  if (!has_attr(n, "scale") && (!ex_get_const(f->width, &width) || width < 1))
    return node_error(n, "the size of a head is not a constant, so its scale is not known");
  f->scale = has_attr(n, "scale") ? node_float(n, "scale", 1) : 1 / sqrt((double)width);
  return true;
}

/* Applies the graph of that attribute, if there is one, to x, [batch, query heads, queries, keys]. */
static Val changed(ImportNode *n, const char *graph, Val x) {
  if (!x || !has_attr(n, graph)) return x;
  const Onnx__GraphProto *proto = node_graph(n, graph);
  ImportItem *in = new_item(n, n->name, x), *out = NULL;
  if (!proto) return 0;
  if (proto->n_input != 1 || proto->n_output != 1)
    return node_error(n, "%s has %zu inputs and %zu outputs, not one of each", graph, proto->n_input, proto->n_output);
  if (!import_subgraph(n, proto, &in, NULL, &out)) return 0;
  Val y = item_value(n, out);
  if (y && type_of(n->b->f, y) != type_of(n->b->f, x))
    return node_error(n, "%s makes %s of %s", graph, import_type_string(n->m, type_of(n->b->f, y)),
                      import_type_string(n->m, type_of(n->b->f, x)));
  return y;
}

bool import_flex_attention(ImportNode *n) {
  Flex f;
  if (!read_flex(n, &f)) return false;
  Module *m = n->m;
  Builder *b = n->b;
  const Expr *heads = ex_mul(m, f.heads, f.group);
  const Expr *grouped_q[] = {f.batch, f.heads, f.group, f.queries, f.width};
  const Expr *grouped[] = {f.batch, f.heads, f.group, f.queries, f.keys}, *flat[] = {f.batch, heads, f.queries, f.keys};
  const Expr *result[] = {f.batch, heads, f.queries, f.value_width};
  Val q = input(n, 0), k = input(n, 1), v = input(n, 2);
  if (!q || !k || !v) return false;
  q = build_reshape(b, binary_number(n, OP_mul, q, f.scale), 5, grouped_q);
  Val x = build_cast(b, build_reshape(b, build_dot(b, q, k, "bgrsk,bgtk->bgrst"), 4, flat), f.type);
  x = changed(n, "score_mod", x);
  Attr axis = attr_i(AT_axis, 3);
  x = x ? build_op(b, &(OpSpec){.kind = OP_softmax, .nin = 1, .in = &x, .nattrs = 1, .attrs = &axis}) : 0;
  x = changed(n, "prob_mod", x);
  if (!x) return false;
  Val y = build_dot(b, build_reshape(b, x, 5, grouped), build_cast(b, v, f.type), "bgrst,bgte->bgrse");
  return import_set_output(n, 0, build_cast(b, build_reshape(b, y, 4, result), input_type(n, 0)->dtype));
}
