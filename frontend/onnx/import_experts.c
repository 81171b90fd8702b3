/* frontend/onnx/import_experts.c - mixtures of experts of ONNX Runtime: MoE and QMoE.
 *
 * Every token goes through the `k` experts with the largest router_probs.  Their results are weighted by the softmax
 * of all router_probs, or with normalize_routing_weights by that of the chosen ones.  An expert is fc2 of an
 * activation of fc1, which is multiplied by fc3 if there is one.  The two halves of swiglu are in fc1 (swiglu_fusion
 * 1: interleaved columns, 2: one half after the other) or in fc1 and fc3. gelu uses the tanh formula.
 *
 * Weights of QMoE are those of import_bits.c.  Not done: formats of 4 and 8 bit floats, prepacked layouts, the
 * sparse mixer.
 */
#include <math.h>
#include <string.h>

#include "frontend/onnx/import_bits.h"

/* The inputs that hold the operands of a product; -1 if the operator has none. */
typedef struct ExpertProduct {
  int weights, bias, scales, zeros;
  const char *bits;
} ExpertProduct;

typedef struct Experts {
  Val rows, index, weights; /* [tokens, k, width], and twice [tokens, k] */
  ExpertProduct fc[3];
  bool quantized;
  const char *activation;
  int64_t fusion;
} Experts;

static const ExpertProduct plain[] = {{2, 3, -1, -1, NULL}, {4, 5, -1, -1, NULL}, {6, 7, -1, -1, NULL}};
static const ExpertProduct packed[] = {{2, 4, 3, 11, "fc1_expert_weight_bits"},
                                       {5, 7, 6, 12, "fc2_expert_weight_bits"},
                                       {8, 10, 9, 13, "fc3_expert_weight_bits"}};

static bool given(const ImportNode *n, int i) { return i >= 0 && has_input(n, (size_t)i); }

/* ---- routing */

static Val softmax(ImportNode *n, Val x) {
  Attr axis = attr_i(AT_axis, 1);
  return x ? build_op(n->b, &(OpSpec){.kind = OP_softmax, .nin = 1, .in = &x, .nattrs = 1, .attrs = &axis}) : 0;
}

static bool route(ImportNode *n, Experts *e) {
  const Type *t = input_type(n, 0), *tr = input_type(n, 1);
  int64_t k = node_int(n, "k", 1), experts;
  bool normal = node_int(n, "normalize_routing_weights", 0) != 0;
  if (t->rank < 2 || tr->rank != 2 || !ex_get_const(tr->dims[1], &experts) || k < 1 || k > experts)
    return node_error(n, "cannot choose %lld experts by router_probs %s for %s", (long long)k,
                      import_type_string(n->m, tr), import_type_string(n->m, t));
  Attr a[3] = {attr_i(AT_axis, 1), attr_i(AT_descending, 1), attr_e(AT_k, ex_const(n->m, k))};
  Val router = input(n, 1);
  Val top = router ? build_op(n->b, &(OpSpec){.kind = OP_topk, .nin = 1, .in = &router, .nattrs = 3, .attrs = a}) : 0;
  if (!top) return false;
  e->index = top + 1;
  if (given(n, 14) && e->quantized) {
    e->weights = take(n, input(n, 14), e->index, 1);
    if (normal) e->weights = binary(n, OP_div, e->weights, import_reduce_axes(n, RED_SUM, e->weights, 1u << 1, true));
  } else {
    e->weights = normal ? softmax(n, top) : take(n, softmax(n, router), e->index, 1);
  }
  const Expr *tokens = type_product(n->m, t, 0, t->rank - 1), *width = t->dims[t->rank - 1], *one = ex_const(n->m, 1),
             *flat[] = {tokens, one, width}, *dims[] = {tr->dims[0], ex_const(n->m, k), width};
  if (!equal_extents(n, tokens, tr->dims[0]))
    return node_error(n, "router_probs %s do not fit %s", import_type_string(n->m, tr), import_type_string(n->m, t));
  e->rows = broadcast(n, build_reshape(n->b, input(n, 0), 3, flat), 3, dims);
  return e->rows && e->weights;
}

/* ---- products */

/* Unpacks weights to [experts, rows, columns]; scales are per row or per block of a row. */
static Val unpacked_weights(ImportNode *n, const ExpertProduct *p, const Expr *columns) {
  const Type *t = input_type(n, (size_t)p->weights), *ts = input_type(n, (size_t)p->scales);
  int64_t block = node_int(n, "block_size", 0);
  const Expr *one = ex_const(n->m, 1), *blocks = block > 0 ? ex_exact_div(n->m, columns, ex_const(n->m, block)) : one;
  int bits;
  if (!import_bits(n, p->bits, node_int(n, "expert_weight_bits", 4), &bits)) return 0;
  if (t->rank != 3 || !blocks || ex_muli(n->m, t->dims[2], 8 / bits) != columns || ts->rank != (block > 0 ? 3 : 2) ||
      (block > 0 && ts->dims[2] != blocks)) {
    node_error(n, "weights %s do not fit scales %s", import_type_string(n->m, t), import_type_string(n->m, ts));
    return 0;
  }
  const Expr *split[] = {t->dims[0], t->dims[1], blocks, block > 0 ? ex_const(n->m, block) : columns},
             *whole[] = {t->dims[0], t->dims[1], columns};
  Val numbers = import_unpacked(n, input(n, (size_t)p->weights), bits, columns), zeros = 0;
  if (given(n, p->zeros)) {
    zeros = import_unpacked(n, input(n, (size_t)p->zeros), bits, block > 0 ? blocks : t->dims[1]);
    if (!zeros) return 0;
    zeros = build_reshape(n->b, zeros, 3, split);
  }
  Val scales = build_reshape(n->b, input(n, (size_t)p->scales), 3, split);
  Val w = numbers ? import_dequantized(n, build_reshape(n->b, numbers, 4, split), scales, zeros, bits) : 0;
  return w ? build_cast(n->b, build_reshape(n->b, w, 3, whole), input_type(n, 0)->dtype) : 0;
}

/* Multiplies x [tokens, k, columns] by the transposed weights of the experts, and adds their bias. */
static Val product(ImportNode *n, const Experts *e, int i, Val x) {
  const ExpertProduct *p = &e->fc[i];
  if (!x) return 0;
  Val w = e->quantized ? unpacked_weights(n, p, type_of(n->b->f, x)->dims[2]) : input(n, (size_t)p->weights);
  if (!w) return 0;
  if (type_of(n->b->f, w)->rank != 3) return node_error(n, "weights of experts must have three dimensions"), 0;
  Val in[] = {x, e->index, build_transpose(n->b, w, (const int[]){0, 2, 1})};
  Attr start = attr_e(AT_start, ex_const(n->m, 0));
  Val y = build_op(n->b, &(OpSpec){.kind = OP_grouped_dot, .nin = 3, .in = in, .nattrs = 1, .attrs = &start});
  return given(n, p->bias) ? binary(n, OP_add, y, build_gather(n->b, input(n, (size_t)p->bias), e->index, 0)) : y;
}

/* ---- activations */

static Val swiglu(ImportNode *n, Val gate, Val linear) {
  double limit = node_float(n, "swiglu_limit", INFINITY), alpha = node_float(n, "activation_alpha", 1),
         beta = node_float(n, "activation_beta", 0);
  if (isfinite(limit)) {
    gate = binary_number(n, OP_min, gate, limit);
    linear = clamp_numbers(n, linear, -limit, limit);
  }
  Val sigmoid = build_unary(n->b, OP_sigmoid, binary_number(n, OP_mul, gate, alpha));
  return binary(n, OP_mul, binary(n, OP_mul, gate, sigmoid), binary_number(n, OP_add, linear, beta));
}

/* One half of the last dimension of x. */
static Val half(ImportNode *n, Val x, bool in_turn, bool second) {
  if (!x) return 0;
  const Expr *zero = ex_const(n->m, 0), *size = ex_exact_div(n->m, type_of(n->b->f, x)->dims[2], ex_const(n->m, 2));
  if (!size) return node_error(n, "swiglu needs an even number of columns"), 0;
  const Expr *start = !second ? zero : in_turn ? ex_const(n->m, 1) : size;
  return build_slice(n->b, x, 2, start, size, in_turn ? 2 : 1);
}

static Val activated(ImportNode *n, const Experts *e, Val x) {
  if (strcmp(e->activation, "identity") == 0) return x;
  if (strcmp(e->activation, "relu") == 0) return build_unary(n->b, OP_relu, x);
  if (strcmp(e->activation, "silu") == 0) return binary(n, OP_mul, x, build_unary(n->b, OP_sigmoid, x));
  if (strcmp(e->activation, "gelu") == 0) {
    Val cube = binary(n, OP_mul, binary(n, OP_mul, x, x), x);
    Val sum = binary(n, OP_add, x, binary_number(n, OP_mul, cube, 0.044715));
    Val inner = build_unary(n->b, OP_tanh, binary_number(n, OP_mul, sum, sqrt(2 / M_PI)));
    return binary(n, OP_mul, binary_number(n, OP_mul, x, 0.5), binary_number(n, OP_add, inner, 1));
  }
  node_error(
      n, "attribute \"activation_type\" is \"%s\"; apc takes \"relu\", \"gelu\", \"silu\", \"swiglu\", \"identity\"",
      e->activation);
  return 0;
}

static Val hidden(ImportNode *n, const Experts *e) {
  Val x = product(n, e, 0, e->rows);
  bool third = given(n, e->fc[2].weights);
  if (strcmp(e->activation, "swiglu") == 0) {
    if (e->fusion == 0 && third) return swiglu(n, x, product(n, e, 2, e->rows));
    if (third || e->fusion < 1 || e->fusion > 2)
      return node_error(n, "swiglu_fusion cannot be %lld %s fc3", (long long)e->fusion, third ? "with" : "without"), 0;
    return swiglu(n, half(n, x, e->fusion == 1, false), half(n, x, e->fusion == 1, true));
  }
  x = activated(n, e, x);
  return third ? binary(n, OP_mul, x, product(n, e, 2, e->rows)) : x;
}

static bool refused(ImportNode *n, bool quantized) {
  const char *quant = node_string(n, "quant_type", "int");
  if (node_int(n, "use_sparse_mixer", 0) != 0) return !node_error(n, "attribute \"use_sparse_mixer\" is not 0");
  if (node_int(n, "swiglu_limit_after_activation", 0) != 0)
    return !node_error(n, "attribute \"swiglu_limit_after_activation\" is not 0");
  if (!quantized) return false;
  if (strcmp(quant, "int") != 0) return !node_error(n, "attribute \"quant_type\" is \"%s\"; apc takes \"int\"", quant);
  if (node_int(n, "weights_prepacked", 0) > 0) return !node_error(n, "attribute \"weights_prepacked\" is not 0");
  if (node_int(n, "normalize_routing_weights", 0) == 0 && !given(n, 14))
    return !node_error(
        n, "attribute \"normalize_routing_weights\" is 0, on which ONNX Runtime's kernels differ; apc takes 1");
  for (int i = 15; i <= 20; i++)
    if (given(n, i)) return !node_error(n, "input %d, a scale of a format that apc does not have", i);
  for (int i = 0; i < 3; i++)
    if (given(n, packed[i].weights) && !given(n, packed[i].scales)) return !node_error(n, "weights without scales");
  if (node_int(n, "weights_prepacked", -1) != 0)
    diag_warning(n->b->diags, DIAG_onnx_node, n->b->loc,
                 "QMoE: the file does not say how its weights are laid out (weights_prepacked); apc assumes rows "
                 "of packed numbers, as ONNX Runtime has them on CPUs");
  return false;
}

bool import_experts(ImportNode *n) {
  Experts e = {.quantized = n->op->arg == 1,
               .activation = node_string(n, "activation_type", "relu"),
               .fusion = node_int(n, "swiglu_fusion", 0)};
  memcpy(e.fc, e.quantized ? packed : plain, sizeof e.fc);
  if (refused(n, e.quantized) || !route(n, &e)) return false;
  const Type *t = input_type(n, 0);
  Val y = product(n, &e, 1, hidden(n, &e));
  y = y ? binary(n, OP_mul, y, insert_dims(n, e.weights, 1u << 2, 3)) : 0;
  y = y ? import_reduce_axes(n, RED_SUM, y, 1u << 1, false) : 0;
  return import_set_output(n, 0, y ? build_reshape(n->b, y, t->rank, t->dims) : 0);
}
