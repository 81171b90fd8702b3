/* frontend/onnx/import_update.c - one step of an optimizer as an operator: Adagrad, Adam and Momentum of the domain
 * ai.onnx.preview.training.
 *
 * Inputs are a rate R, a count T of steps, then the tensors X, their gradients G and their one or two states; outputs
 * the new tensors and states.  Each tensor is updated by itself.
 */
#include <string.h>

#include "frontend/onnx/import_private.h"

typedef enum Rule { ADAGRAD, ADAM, MOMENTUM } Rule;

/* One tensor: its value, its gradient with the regularisation added, its states; and the rate and count in its type. */
typedef struct Update {
  Val x, g, states[2], rate, count;
} Update;

static Val plus(ImportNode *n, Val x, Val y) { return binary(n, OP_add, x, y); }
static Val times(ImportNode *n, Val x, Val y) { return binary(n, OP_mul, x, y); }
static Val scaled(ImportNode *n, Val x, double by) { return binary_number(n, OP_mul, x, by); }
static Val root(ImportNode *n, Val x) { return x ? build_unary(n->b, OP_sqrt, x) : 0; }

/* `yes` after the first step, `no` in it. */
static Val after_first(ImportNode *n, const Update *u, Val yes, Val no) {
  return select3(n, binary_number(n, OP_gt, u->count, 0), yes, no);
}

/* 1 - base ^ count */
static Val bias(ImportNode *n, const Update *u, double base) {
  Val power = u->count ? build_binary(n->b, OP_pow, splat_like(n, u->count, base), u->count) : 0;
  return binary(n, OP_sub, splat_like(n, u->count, 1), power);
}

static Val adagrad(ImportNode *n, Update *u) {
  Val slower = binary_number(n, OP_add, scaled(n, u->count, node_float(n, "decay_factor", 0)), 1);
  u->states[0] = plus(n, u->states[0], times(n, u->g, u->g));
  Val by = binary_number(n, OP_add, root(n, u->states[0]), node_float(n, "epsilon", 1e-6));
  Val step = times(n, binary(n, OP_div, u->rate, slower), u->g);
  return binary(n, OP_sub, u->x, binary(n, OP_div, step, by));
}

static Val adam(ImportNode *n, Update *u) {
  double alpha = node_float(n, "alpha", 0.9), beta = node_float(n, "beta", 0.999);
  u->states[0] = plus(n, scaled(n, u->states[0], alpha), scaled(n, u->g, 1 - alpha));
  u->states[1] = plus(n, scaled(n, u->states[1], beta), scaled(n, times(n, u->g, u->g), 1 - beta));
  Val by = binary_number(n, OP_add, root(n, u->states[1]), node_float(n, "epsilon", 1e-6));
  Val corrected = binary(n, OP_div, times(n, u->rate, root(n, bias(n, u, beta))), bias(n, u, alpha));
  Val rate = after_first(n, u, corrected, u->rate);
  Val x = binary(n, OP_sub, u->x, binary(n, OP_div, times(n, rate, u->states[0]), by));
  return scaled(n, x, 1 - node_float(n, "norm_coefficient_post", 0));
}

static Val momentum(ImportNode *n, Update *u) {
  const char *mode = node_string(n, "mode", "");
  double alpha = node_float(n, "alpha", 0);
  bool nesterov = strcmp(mode, "nesterov") == 0;
  if (!nesterov && strcmp(mode, "standard") != 0) return node_error(n, "mode \"%s\" is not supported", mode);
  Val beta = splat_like(n, u->count, node_float(n, "beta", 1));
  Val weight = after_first(n, u, beta, splat_like(n, u->count, 1));
  u->states[0] = plus(n, scaled(n, u->states[0], alpha), times(n, weight, u->g));
  Val direction = nesterov ? plus(n, u->g, scaled(n, u->states[0], alpha)) : u->states[0];
  return binary(n, OP_sub, u->x, times(n, u->rate, direction));
}

static Val scalar(ImportNode *n, size_t i, DType type) {
  Val x = input(n, i);
  return x ? build_cast(n->b, build_reshape(n->b, x, 0, NULL), type) : 0;
}

bool import_update(ImportNode *n) {
  const Rule rule = (Rule)n->op->arg;
  const size_t states = rule == ADAM ? 2 : 1, kinds = 2 + states, count = (n->proto->n_input - 2) / kinds;
  if (n->proto->n_input != 2 + count * kinds || count == 0)
    return node_error(n, "%zu inputs; a rate, a count and %zu for each tensor are required", n->proto->n_input, kinds);
  for (size_t i = 0; i < count; i++) {
    DType type = input_type(n, 2 + i)->dtype;
    Update u = {.x = input(n, 2 + i), .rate = scalar(n, 0, type), .count = scalar(n, 1, type)};
    for (size_t k = 0; k < states; k++) u.states[k] = input(n, 2 + (2 + k) * count + i);
    u.g = plus(n, scaled(n, u.x, node_float(n, "norm_coefficient", 0)), input(n, 2 + count + i));
    if (!u.x || !u.rate || !u.count || !u.g || !u.states[0]) return false;
    Val x = rule == ADAGRAD ? adagrad(n, &u) : rule == ADAM ? adam(n, &u) : momentum(n, &u);
    if (!x || !import_set_output(n, i, x)) return false;
    for (size_t k = 0; k < states; k++)
      if (!import_set_output(n, (1 + k) * count + i, u.states[k])) return false;
  }
  return true;
}
