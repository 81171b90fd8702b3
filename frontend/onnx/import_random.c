/* frontend/onnx/import_random.c - random numbers: RandomUniform, RandomNormal and their forms Like, Bernoulli; Dropout.
 *
 * An element is a number of base/random.h at its row-major index in the whole tensor, so every plan draws the same. Its
 * seed follows from the node's name and the node's attribute seed.  In a training step the numbers differ from step to
 * step (passes/train); elsewhere every run draws the same.
 *
 * Dropout in training makes a share of the elements 0 and scales the others; it does nothing in inference.  Not done: a
 * file in training mode that is not trained, since its masks would be the same in every run.
 */
#include <string.h>

#include "base/hash.h"
#include "frontend/onnx/import_private.h"

/* Each round of a loop would draw the same numbers. */
static Val refuse_in_loop(ImportNode *n) {
  diag_error(n->b->diags, DIAG_later_drawn, n->b->loc, "%s: random numbers in a loop or branch are not built yet",
             n->op->type);
  return 0;
}

Val import_random_values(ImportNode *n, const char *kind, const Type *type, int64_t seed) {
  const Expr *zeros[MAX_RANK];
  if (import_in_loop(n)) return refuse_in_loop(n);
  int64_t own = (int64_t)(hash64(n->name, strlen(n->name), (uint64_t)seed) >> 1);
  for (int d = 0; d < type->rank; d++) zeros[d] = ex_const(n->m, 0);
  Attr attrs[] = {attr_s(n->m, AT_kind, kind), attr_i(AT_seed, own), attr_exprs(n->m, AT_starts, type->rank, zeros),
                  attr_exprs(n->m, AT_extents, type->rank, type->dims)};
  return build_op(n->b, &(OpSpec){.kind = OP_random, .type = type, .nattrs = 4, .attrs = attrs});
}

/* The attribute seed, a float; without one 0. */
static int64_t seed_of(ImportNode *n) {
  double seed = node_float(n, "seed", 0);
  return seed >= -0x1p62 && seed <= 0x1p62 ? (int64_t)seed : 0;
}

/* The extents and the type of the result. */
static bool result_type(ImportNode *n, bool like, const Type **out) {
  DType type = DT_f32;
  const Expr *dims[MAX_RANK];
  int rank;
  if (has_attr(n, "dtype")) {
    if (!node_dtype(n, "dtype", &type)) return false;
  } else if (like) {
    type = input_type(n, 0)->dtype;
  }
  if (!dtype_is_float(type)) return node_error(n, "random numbers of type %s", dtype_name(type));
  if (like) {
    *out = type_with_dtype(n->m, input_type(n, 0), type);
    return true;
  }
  const int64_t *shape = node_ints(n, "shape", &rank);
  if (rank < 0 || rank > MAX_RANK) return node_error(n, "the shape has %d dimensions", rank);
  for (int d = 0; d < rank; d++) dims[d] = ex_const(n->m, shape[d]);
  if (!known_extents(n->m, rank, dims))
    return node_error(n, "the shape has a dimension that is negative or above 2^40");
  *out = type_get(n->m, type, rank, dims);
  return true;
}

/* arg 1: a form Like.  Uniform numbers lie in [low, high); normal ones have a mean and a scale. */
static bool import_random(ImportNode *n, const char *kind, double scale, double first) {
  const Type *type = NULL;
  if (!result_type(n, n->op->arg == 1, &type)) return false;
  import_draws(n);
  Val x = import_random_values(n, kind, type_with_dtype(n->m, type, DT_f32), seed_of(n));
  if (x && scale != 1) x = binary_number(n, OP_mul, x, scale);
  if (x && first != 0) x = binary_number(n, OP_add, x, first);
  return x && import_set_output(n, 0, build_cast(n->b, x, type->dtype));
}

bool import_random_uniform(ImportNode *n) {
  double low = node_float(n, "low", 0), high = node_float(n, "high", 1);
  return import_random(n, "uniform", high - low, low);
}

bool import_random_normal(ImportNode *n) {
  return import_random(n, "normal", node_float(n, "scale", 1), node_float(n, "mean", 0));
}

/* 1 with the probability that the input's element is, else 0. */
bool import_bernoulli(ImportNode *n) {
  const Type *t = input_type(n, 0);
  DType to = t->dtype;
  if (has_attr(n, "dtype") && !node_dtype(n, "dtype", &to)) return false;
  import_draws(n);
  Val x = import_random_values(n, "uniform", type_with_dtype(n->m, t, DT_f32), seed_of(n)), p = input(n, 0);
  if (!x || !p) return false;
  return import_set_output(n, 0, build_cast(n->b, binary(n, OP_lt, x, build_cast(n->b, p, DT_f32)), to));
}

/* ---- dropout */

static bool set_mask(ImportNode *n, Val kept) {
  if (!wants(n, 1)) return true;
  DType type = n->opset < 10 ? input_type(n, 0)->dtype : DT_bool;
  return import_set_output(n, 1, build_cast(n->b, kept, type));
}

/* Nothing is dropped. */
static bool keep_all(ImportNode *n) {
  import_set_alias(n, 0, n->in[0]);
  return !wants(n, 1) || set_mask(n, build_splat(n->b, type_with_dtype(n->m, input_type(n, 0), DT_bool), 1));
}

static bool drop(ImportNode *n, double ratio) {
  const Type *t = input_type(n, 0);
  if (!(ratio >= 0 && ratio <= 1)) return node_error(n, "the ratio is %g, which is not in [0, 1]", ratio);
  if (ratio == 0) return keep_all(n);
  Val x = input(n, 0);
  Val drawn = import_random_values(n, "uniform", type_with_dtype(n->m, t, DT_f32), node_int(n, "seed", 0));
  Val kept = drawn ? binary_number(n, OP_ge, drawn, ratio) : 0;
  if (!x || !kept) return false;
  Val y = select3(n, kept, binary_number(n, OP_mul, x, ratio < 1 ? 1 / (1 - ratio) : 0), splat_like(n, x, 0));
  return import_set_output(n, 0, y) && set_mask(n, kept);
}

/* The ratio is an attribute before operator set 12. */
static bool ratio_of(ImportNode *n, double *out) {
  *out = node_float(n, "ratio", 0.5);
  return n->opset < 12 || !has_input(n, 1) || input_number(n, 1, out) || input_refused(n, 1, "the ratio");
}

bool import_dropout(ImportNode *n) {
  ImportKnown training = input_known(n, 2);
  bool says = has_input(n, 2) && !(training.n == 1 && ex_is_const(training.items[0], 0));
  double ratio;
  if (says && !training.items) return input_refused(n, 2, "training_mode");
  if (import_trains(n->im)) {
    bool known = n->opset < 12 || !has_input(n, 1) || input_number(n, 1, &ratio);
    if (known && ratio_of(n, &ratio) && ratio == 0) return keep_all(n);
    return import_in_training(n, says) ? ratio_of(n, &ratio) && drop(n, ratio) : keep_all(n);
  }
  if (!says) return keep_all(n);
  if (!ratio_of(n, &ratio)) return false;
  return ratio == 0
             ? keep_all(n)
             : node_error(n, "training_mode is true: --train drops values; to run it, export the model for inference");
}
