/* frontend/onnx/import_batch.c - batch normalisation: by stored statistics, or by those of the batch.
 *
 * In inference mean and variance are tensors of the file, and the node is a product and a sum.  In training
 * (import_mode.c decides) they are those of the batch, whole: all rows of all ranks.  The stored ones are then states,
 * and move to momentum * stored + (1 - momentum) * batch.  ONNX takes the biased variance for that; PyTorch takes the
 * unbiased one, also where its exporter writes this operator, so files of PyTorch do.
 *
 * A file in training mode that is not trained computes what the standard says, with a warning.
 *
 * Before operator set 14 further outputs mean training.  Not done: is_test=0 of operator set 6 and earlier; statistics
 * per element (spatial=0).
 */
#include <math.h>

#include "frontend/onnx/import_private.h"
#include "frontend/onnx/interpolate.h"

/* The param that a value is, in whatever type it is read; NULL if it is none. */
static Param *param_of(const ImportNode *n, Val v) {
  const Op *op = v ? op_of(n->b->f, v) : NULL;
  while (op && (op->kind == OP_cast || op->kind == OP_copy)) op = op_of(n->b->f, op->in[0]);
  return op && op->kind == OP_param ? module_param(n->m, op_str(op, AT_name)) : NULL;
}

/* Marks a value that training measures and does not learn. */
static void is_buffer(const ImportNode *n, Val v) {
  Param *p = param_of(n, v);
  if (p) p->trainable = false;
}

/* True if the file computes the input from others, and does not store it. */
static bool is_computed(ImportNode *n, size_t i) {
  return !param_of(n, input(n, i)) && input_fact(n, i)->kind != FACT_CONSTANT;
}

/* An input of a batch normalisation, cast to the type of the computation. */
static Val operand(ImportNode *n, size_t i, DType type) {
  Val v = input(n, i);
  return v ? build_cast(n->b, v, type) : 0;
}

/* Moves the stored statistic `i` towards that of the batch, and returns it. */
static Val moved(ImportNode *n, size_t i, Val of_batch, DType type) {
  double momentum = node_float(n, "momentum", 0.9f);
  if (!isfinite(momentum)) return node_error(n, "momentum is %g", momentum), 0;
  Val stored = import_statistic(n, input(n, i)), old = stored ? build_cast(n->b, stored, type) : 0;
  if (!old || !of_batch) return 0;
  return binary(n, OP_add, binary_number(n, OP_mul, old, momentum), binary_number(n, OP_mul, of_batch, 1 - momentum));
}

/* The variance that the stored one moves towards. */
static Val towards(ImportNode *n, Val x, Val variance) {
  if (!import_trains(n->im) || !import_is_unbiased(n->im)) return variance;
  const Type *t = type_of(n->b->f, x);
  const Expr *count = ex_mul(n->m, t->dims[0], type_product(n->m, t, 2, t->rank));
  Val of = build_cast(n->b, import_scalar_i64(n, count), type_of(n->b->f, x)->dtype);
  if (!of) return 0;
  Val less = binary_number(n, OP_max, binary_number(n, OP_add, of, -1), 1);
  return binary(n, OP_mul, variance, binary(n, OP_div, of, less));
}

/* Updates a stored statistic and sets the outputs that are it. */
static bool update(ImportNode *n, size_t i, Val x, Val of_batch, DType type) {
  const DType own = input_type(n, i)->dtype;
  size_t out = i - 2;
  bool trains = import_trains(n->im);
  if (!trains && !wants(n, out)) return true;
  Val next = moved(n, i, i == 4 ? towards(n, x, of_batch) : of_batch, type);
  if (!next || !(next = build_cast(n->b, next, own))) return false;
  if (trains && !import_set_statistic(n, input(n, i), next)) return false;
  return !wants(n, out) || import_set_output(n, out, next);
}

/* Normalises by mean and variance of the batch. */
static bool by_batch(ImportNode *n, Val x, Val scale, Val bias, DType type) {
  const int rank = input_type(n, 0)->rank;
  const DType to = input_type(n, 0)->dtype;
  unsigned axes = ((1u << rank) - 1) & ~2u;
  Val mean = mean_axes(n, x, axes, false);
  Val apart = mean ? binary(n, OP_sub, x, per_channel(n, mean, rank)) : 0;
  Val variance = apart ? mean_axes(n, build_binary(n->b, OP_mul, apart, apart), axes, false) : 0;
  if (!variance) return false;
  Val factor = binary(n, OP_mul, scale,
                      build_unary(n->b, OP_rsqrt, binary_number(n, OP_add, variance, node_float(n, "epsilon", 1e-5f))));
  Val y = scale_and_shift(n, apart, per_channel(n, factor, rank), per_channel(n, bias, rank));
  if (!y || !update(n, 3, x, mean, type) || !update(n, 4, x, variance, type)) return false;
  for (size_t i = 3; i < 5; i++) /* before operator set 14: the statistics of the batch */
    if (wants(n, i) && !import_set_output(n, i, build_cast(n->b, i == 3 ? mean : variance, input_type(n, i)->dtype)))
      return false;
  return import_set_output(n, 0, build_cast(n->b, y, to));
}

static bool by_stored(ImportNode *n, Val x, Val scale, Val bias, DType type) {
  const int rank = input_type(n, 0)->rank;
  Val mean = operand(n, 3, type), variance = operand(n, 4, type);
  if (!mean || !variance) return false;
  Val factor = binary(n, OP_mul, scale,
                      build_unary(n->b, OP_rsqrt, binary_number(n, OP_add, variance, node_float(n, "epsilon", 1e-5f))));
  Val shift = binary(n, OP_sub, bias, binary(n, OP_mul, mean, factor));
  Val y = scale_and_shift(n, x, per_channel(n, factor, rank), per_channel(n, shift, rank));
  for (size_t i = 1; i < n->proto->n_output; i++) {
    if (!wants(n, i)) continue;
    if (!import_trains(n->im)) return node_error(n, "output %zu only exists in training", i);
    if (!import_set_output(n, i, input(n, i < 3 ? i + 2 : i))) return false; /* in evaluation: what is stored stays */
  }
  return y && import_set_output(n, 0, build_cast(n->b, y, input_type(n, 0)->dtype));
}

bool import_batch_norm(ImportNode *n) {
  if (!channels_fit(n)) return false;
  DType type = input_type(n, 0)->dtype;
  for (size_t i = 1; i < 5; i++) type = wider(type, input_type(n, i)->dtype);
  is_buffer(n, input(n, 3)), is_buffer(n, input(n, 4));
  bool says = n->opset < 14 ? import_says_training(n->proto, n->opset) : node_int(n, "training_mode", 0) != 0;
  bool told = import_says_training(n->proto, n->opset), measures = says;
  const bool itself = !told && is_computed(n, 3) && is_computed(n, 4);
  if (import_trains(n->im) && itself) import_measures_itself(n);
  else if (import_trains(n->im)) measures = import_in_training(n, told);
  if (measures && !import_trains(n->im)) import_measures_untrained(n);
  Val x = operand(n, 0, type), scale = operand(n, 1, type), bias = operand(n, 2, type);
  if (!x || !scale || !bias) return false;
  return measures ? by_batch(n, x, scale, bias, type) : by_stored(n, x, scale, bias, type);
}
