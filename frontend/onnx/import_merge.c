/* frontend/onnx/import_merge.c - an If whose branches contain operators whose results have as many elements as data
 * decide, as the batched suppression of an older PyTorch exporter: no boxes if there are none, else
 * NonMaxSuppression.
 *
 * A loop cannot bind sizes (import_counted.c), so both branches are computed, outside of loops, and the condition
 * chooses between their results.  Results of one shape are selected.  Results that differ along one dimension are
 * joined along it, and those of the branch that holds are kept, as Compress does: they give the result its size.
 *
 * Not done: an If inside of a loop; results that differ along several dimensions.
 */
#include <string.h>

#include "frontend/onnx/counted.h"

static const char *const counting[] = {"NonMaxSuppression", "NonZero", "Compress", "Unique"};

static bool counts(const Onnx__NodeProto *node) {
  for (size_t i = 0; i < sizeof counting / sizeof *counting; i++)
    if (node->op_type && strcmp(node->op_type, counting[i]) == 0) return true;
  return false;
}

bool import_merges(const Onnx__GraphProto *branch) {
  for (size_t i = 0; i < branch->n_node; i++) {
    const Onnx__NodeProto *node = branch->node[i];
    if (counts(node)) return true;
    bool chooses = node->op_type && strcmp(node->op_type, "If") == 0;
    for (size_t k = 0; chooses && k < node->n_attribute; k++)
      if (node->attribute[k]->g && import_merges(node->attribute[k]->g)) return true;
  }
  return false;
}

static bool differs(ImportNode *n, size_t i, const Type *x, const Type *y) {
  return diag_error(n->b->diags, DIAG_onnx_shape, n->b->loc,
                    "%s: output %zu is %s in one branch and %s in the other, and which is taken depends on data; at "
                    "most one dimension may differ",
                    n->op->type, i, import_type_string(n->m, x), import_type_string(n->m, y));
}

/* The marks of one branch's elements along the dimension in which the branches differ. */
static Val marks_of(ImportNode *n, Val holds, const Expr *extent) { return build_bcast_to(n->b, holds, 1, &extent); }

/* Keeps of both results, joined along an axis, those of the branch that holds. */
static Val keep_one(ImportNode *n, Val holds, Val fails, Val x, Val y, int axis) {
  Val parts[] = {x, y}, marks[] = {0, 0};
  const Val taken[] = {holds, fails};
  int count = 0;
  for (int k = 0; k < 2; k++) {
    const Expr *extent = type_of(n->b->f, parts[k])->dims[axis];
    if (ex_is_const(extent, 0)) continue;
    parts[count] = parts[k];
    if (!(marks[count++] = marks_of(n, taken[k], extent))) return 0;
  }
  Val all = count == 1 ? parts[0] : build_concat(n->b, 2, parts, axis);
  Val at = counted_indices(n, count == 1 ? marks[0] : build_concat(n->b, 2, marks, 0));
  return all && at ? build_checked_gather(n->b, OP_gather, all, at, axis) : 0;
}

static Val merge(ImportNode *n, size_t i, Val holds, Val fails, Val x, Val y) {
  const Type *tx = type_of(n->b->f, x), *ty = type_of(n->b->f, y);
  int axis = -1;
  if (tx == ty) return select3(n, holds, x, y);
  bool ok = tx->dtype == ty->dtype && tx->rank == ty->rank;
  for (int d = 0; ok && d < tx->rank; d++) {
    if (tx->dims[d] == ty->dims[d]) continue;
    ok = axis < 0;
    axis = d;
  }
  if (ok) return keep_one(n, holds, fails, x, y, axis);
  differs(n, i, tx, ty);
  return 0;
}

bool import_merged(ImportNode *n, const Onnx__GraphProto *yes, const Onnx__GraphProto *no, Val holds,
                   const bool *wanted) {
  const size_t count = n->proto->n_output;
  const Onnx__GraphProto *branches[] = {yes, no};
  Val *results[2], fails = build_unary(n->b, OP_not, holds);
  if (!fails) return false;
  for (int k = 0; k < 2; k++) {
    ImportItem **out = ARENA_ARRAY(n->m->arena, ImportItem *, count);
    results[k] = ARENA_ARRAY(n->m->arena, Val, count);
    if (!import_subgraph(n, branches[k], NULL, wanted, out)) return false;
    for (size_t i = 0; i < count; i++)
      if (wanted[i] && !(results[k][i] = item_value(n, out[i]))) return false;
  }
  for (size_t i = 0; i < count; i++)
    if (wanted[i] && !import_set_output(n, i, merge(n, i, holds, fails, results[0][i], results[1][i]))) return false;
  return true;
}
