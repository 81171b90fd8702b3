/* frontend/onnx/import_loss.c - losses of classes: NegativeLogLikelihoodLoss, SoftmaxCrossEntropyLoss, decomposed as
 * in the specification.
 *
 * In: scores [batch, classes, places..], target [batch, places..], weights [classes] or none.  Places whose target
 * is `ignore_index` count neither in the sum nor in the weight that divides it. */
#include <string.h>

#include "frontend/onnx/import_private.h"

static bool check_loss(ImportNode *n, const char *reduction) {
  const Type *t = input_type(n, 0), *target = input_type(n, 1);
  bool fits = t->rank >= 2 && target->rank == t->rank - 1 && (target->dtype == DT_i32 || target->dtype == DT_i64) &&
              equal_extents(n, t->dims[0], target->dims[0]);
  for (int d = 1; fits && d < target->rank; d++) fits = equal_extents(n, t->dims[d + 1], target->dims[d]);
  if (!fits)
    return node_error(n, "targets %s do not fit scores %s", import_type_string(n->m, target),
                      import_type_string(n->m, t));
  if (has_input(n, 2) && (input_type(n, 2)->rank != 1 || input_type(n, 2)->dims[0] != t->dims[1]))
    return node_error(n, "weights %s do not fit scores %s", import_type_string(n->m, input_type(n, 2)),
                      import_type_string(n->m, t));
  return strcmp(reduction, "mean") == 0 || strcmp(reduction, "sum") == 0 || strcmp(reduction, "none") == 0 ||
         node_error(n, "reduction \"%s\" is not supported", reduction);
}

/* The weight of every target, 0 if it is ignored; 0 (no value) if all are 1. */
static Val target_weights(ImportNode *n, Val x, Val target, Val counts) {
  Val w = has_input(n, 2) ? build_gather(n->b, input(n, 2), target, 0)
          : counts        ? build_splat(n->b,
                                        type_get(n->m, type_of(n->b->f, x)->dtype, type_of(n->b->f, target)->rank,
                                                 type_of(n->b->f, target)->dims),
                                        1)
                          : 0;
  return counts && w ? select3(n, counts, w, splat_like(n, w, 0)) : w;
}

/* Computes the loss from log-probabilities. */
static Val likelihood_loss(ImportNode *n, Val x, const char *reduction) {
  Val target = input(n, 1), counts = 0;
  if (!x || !target || (has_input(n, 2) && !input(n, 2))) return 0;
  unsigned all = (1u << type_of(n->b->f, target)->rank) - 1;
  if (has_attr(n, "ignore_index")) {
    counts = binary_number(n, OP_ne, target, (double)node_int(n, "ignore_index", 0));
    target = select3(n, counts, target, splat_like(n, target, 0));
  }
  Val weights = target ? target_weights(n, x, target, counts) : 0;
  Val at = target ? insert_dims(n, target, 2, type_of(n->b->f, x)->rank) : 0;
  Val y = at ? drop_dims(n, build_checked_gather(n->b, OP_take, x, at, 1), 2) : 0;
  if (!y) return 0;
  y = build_unary(n->b, OP_neg, y);
  if (weights) y = binary(n, OP_mul, y, weights);
  if (counts) y = select3(n, counts, y, splat_like(n, y, 0)); /* avoids -inf times 0, which is NaN */
  if (!y || strcmp(reduction, "none") == 0) return y;
  if (strcmp(reduction, "mean") == 0 && !weights) return mean_axes(n, y, all, false);
  y = import_reduce_axes(n, RED_SUM, y, all, false);
  return strcmp(reduction, "mean") == 0 ? binary(n, OP_div, y, import_reduce_axes(n, RED_SUM, weights, all, false)) : y;
}

bool import_nll_loss(ImportNode *n) {
  const char *reduction = node_string(n, "reduction", "mean");
  return check_loss(n, reduction) && import_set_output(n, 0, likelihood_loss(n, input(n, 0), reduction));
}

bool import_cross_entropy_loss(ImportNode *n) {
  const char *reduction = node_string(n, "reduction", "mean");
  Val scores = input(n, 0);
  if (!scores || !check_loss(n, reduction)) return false;
  Val x = log_softmax(n, scores, 1);
  if (wants(n, 1) && !import_set_output(n, 1, x)) return false;
  return !wants(n, 0) || import_set_output(n, 0, likelihood_loss(n, x, reduction));
}
