/* frontend/onnx/import_activation.c - activation functions, decomposed as the ONNX specification defines them. */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import_private.h"

static Val unary(ImportNode *n, OpKind k, Val x) { return build_unary(n->b, k, x); }

/* x < 0 ? negative : x; max(x, 0) would lose NaN payloads and -0. */
static Val where_negative(ImportNode *n, Val x, Val negative, Val otherwise) {
  return select3(n, binary_number(n, OP_lt, x, 0), negative, otherwise);
}

bool import_leaky_relu(ImportNode *n) {
  Val x = input(n, 0);
  return import_set_output(n, 0, where_negative(n, x, binary_number(n, OP_mul, x, node_float(n, "alpha", 0.01f)), x));
}

bool import_prelu(ImportNode *n) {
  Val x = input(n, 0);
  return import_set_output(n, 0, where_negative(n, x, binary(n, OP_mul, x, input(n, 1)), x));
}

bool import_elu(ImportNode *n) {
  Val x = input(n, 0);
  return import_set_output(
      n, 0, where_negative(n, x, binary_number(n, OP_mul, unary(n, OP_expm1, x), node_float(n, "alpha", 1)), x));
}

bool import_celu(ImportNode *n) {
  Val x = input(n, 0);
  double alpha = node_float(n, "alpha", 1);
  Val scaled = unary(n, OP_expm1, binary_number(n, OP_div, x, alpha));
  return import_set_output(n, 0, where_negative(n, x, binary_number(n, OP_mul, scaled, alpha), x));
}

bool import_selu(ImportNode *n) {
  Val x = input(n, 0);
  double alpha = node_float(n, "alpha", 1.67326319217681884765625),
         gamma = node_float(n, "gamma", 1.05070102214813232421875);
  Val negative = binary_number(n, OP_mul, unary(n, OP_expm1, x), alpha);
  return import_set_output(n, 0, binary_number(n, OP_mul, where_negative(n, x, negative, x), gamma));
}

bool import_thresholded_relu(ImportNode *n) {
  Val x = input(n, 0);
  return import_set_output(n, 0,
                           select3(n, binary_number(n, OP_gt, x, node_float(n, "alpha", 1)), x, splat_like(n, x, 0)));
}

bool import_shrink(ImportNode *n) {
  Val x = input(n, 0);
  double bias = node_float(n, "bias", 0), lambda = node_float(n, "lambd", 0.5);
  Val low = binary_number(n, OP_add, x, bias), high = binary_number(n, OP_sub, x, bias);
  Val inner = select3(n, binary_number(n, OP_gt, x, lambda), high, splat_like(n, x, 0));
  return import_set_output(n, 0, select3(n, binary_number(n, OP_lt, x, -lambda), low, inner));
}

static Val hard_sigmoid(ImportNode *n, Val x, double alpha, double beta) {
  Val line = binary_number(n, OP_add, binary_number(n, OP_mul, x, alpha), beta);
  return clamp_numbers(n, line, 0, 1);
}

bool import_hard_sigmoid(ImportNode *n) {
  return import_set_output(n, 0,
                           hard_sigmoid(n, input(n, 0), node_float(n, "alpha", 0.2f), node_float(n, "beta", 0.5)));
}

bool import_hard_swish(ImportNode *n) {
  Val x = input(n, 0);
  return import_set_output(n, 0, binary(n, OP_mul, x, hard_sigmoid(n, x, 1.0 / 6, 0.5)));
}

/* log(1 + exp(x)) = max(x, 0) + log1p(exp(-|x|)), which does not overflow. */
static Val softplus(ImportNode *n, Val x) {
  Val tail = unary(n, OP_log1p, unary(n, OP_exp, unary(n, OP_neg, unary(n, OP_abs, x))));
  return binary(n, OP_add, binary_number(n, OP_max, x, 0), tail);
}

bool import_softplus(ImportNode *n) { return import_set_output(n, 0, softplus(n, input(n, 0))); }

bool import_softsign(ImportNode *n) {
  Val x = input(n, 0);
  return import_set_output(n, 0, binary(n, OP_div, x, binary_number(n, OP_add, unary(n, OP_abs, x), 1)));
}

bool import_mish(ImportNode *n) {
  Val x = input(n, 0);
  return import_set_output(n, 0, binary(n, OP_mul, x, unary(n, OP_tanh, softplus(n, x))));
}

static Val swish(ImportNode *n, Val x) {
  double alpha = node_float(n, "alpha", 1);
  return binary(n, OP_mul, x, unary(n, OP_sigmoid, alpha == 1 ? x : binary_number(n, OP_mul, x, alpha)));
}

bool import_swish(ImportNode *n) { return import_set_output(n, 0, swish(n, input(n, 0))); }

bool import_swiglu(ImportNode *n) {
  if (input_type(n, 0) != input_type(n, 1))
    return node_error(n, "a gate %s for %s", import_type_string(n->m, input_type(n, 0)),
                      import_type_string(n->m, input_type(n, 1)));
  return import_set_output(n, 0, binary(n, OP_mul, swish(n, input(n, 0)), input(n, 1)));
}

bool import_gelu(ImportNode *n) {
  Val x = input(n, 0), inner;
  const char *approximate = node_string(n, "approximate", "none");
  if (strcmp(approximate, "tanh") == 0) {
    Val cube = binary(n, OP_mul, binary(n, OP_mul, x, x), x);
    Val sum = binary(n, OP_add, x, binary_number(n, OP_mul, cube, 0.044715));
    inner = unary(n, OP_tanh, binary_number(n, OP_mul, sum, sqrt(2 / M_PI)));
  } else if (strcmp(approximate, "none") == 0) {
    inner = unary(n, OP_erf, binary_number(n, OP_mul, x, sqrt(0.5)));
  } else {
    return node_error(n, "approximate is \"%s\", not none or tanh", approximate);
  }
  return import_set_output(n, 0,
                           binary(n, OP_mul, binary_number(n, OP_mul, x, 0.5), binary_number(n, OP_add, inner, 1)));
}
