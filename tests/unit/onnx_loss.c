/* tests/unit/onnx_loss.c - losses of classes, gated and stateful operators, compared with loops written from the
 * specification. */
#include "tests/onnx_numbers.h"

enum { N = 3, C = 5, D = 2 };

static const char *const reductions[] = {"none", "sum", "mean"};

/* [N, C, D] and targets [N, D], one of which is -7 if that is ignored. */
static void lose(bool entropy, int reduction, bool weights, bool ignore) {
  begin();
  in("x", F32, "3,5,2"), in("t", I64, "3,2"), in("w", F32, "5"), out("y");
  if (entropy) out("p");
  Onnx__NodeProto *loss = node(entropy ? "SoftmaxCrossEntropyLoss" : "NegativeLogLikelihoodLoss",
                               weights ? "x,t,w" : "x,t", entropy ? "y,p" : "y");
  string_attr(loss, "reduction", reductions[reduction]);
  if (ignore) attr(loss, "ignore_index", INT, -7);
  InterpNamed list[] = {filled("x", 3, (int64_t[]){N, C, D}, -2, 1, NULL),
                        {"t", interp_tensor(arena, DT_i64, 2, (int64_t[]){N, D})},
                        filled("w", 1, (int64_t[]){C}, 0.2, 2, NULL)};
  for (int64_t i = 0; i < N * D; i++) list[1].tensor.cells[i].i = ignore && i == 3 ? -7 : i * 3 % C;
  double want[N * D], logs[N * C * D], sum = 0, weight = 0;
  for (int64_t i = 0; i < N * D; i++) {
    const Cell *x = list[0].tensor.cells + i / D * C * D + i % D;
    double total = 0;
    for (int64_t c = 0; c < C; c++) total += exp(x[c * D].f);
    for (int64_t c = 0; c < C; c++) logs[i / D * C * D + c * D + i % D] = x[c * D].f - (entropy ? log(total) : 0);
    int64_t t = list[1].tensor.cells[i].i;
    double w = t == -7 ? 0 : weights ? list[2].tensor.cells[t].f : 1;
    want[i] = t == -7 ? 0 : -w * logs[i / D * C * D + t * D + i % D];
    sum += want[i], weight += w;
  }
  if (reduction) want[0] = reduction == 1 ? sum : sum / weight;
  near(arena_printf(arena, "%s %s", loss->op_type, reductions[reduction]), run(3, list, "y"), reduction ? 1 : N * D,
       want);
  if (entropy) near("logarithms", run(3, list, "p"), N * C * D, logs);
}

static void classes_lose_as_the_specification_says(void) {
  for (int entropy = 0; entropy < 2; entropy++)
    for (int reduction = 0; reduction < 3; reduction++)
      for (int k = 0; k < 4; k++) lose(entropy, reduction, k & 1, k & 2);
}

static void a_gate_is_multiplied(void) {
  begin();
  opset = 28;
  in("a", F32, "2,3"), in("b", F32, "2,3"), out("y");
  node("SwiGLU", "a,b", "y");
  InterpNamed list[] = {filled("a", 2, (int64_t[]){2, 3}, -2, 2, NULL), filled("b", 2, (int64_t[]){2, 3}, -1, 1, NULL)};
  double want[6];
  for (int i = 0; i < 6; i++)
    want[i] = list[0].tensor.cells[i].f / (1 + exp(-list[0].tensor.cells[i].f)) * list[1].tensor.cells[i].f;
  near("SwiGLU", run(2, list, "y"), 6, want);
}

/* 3 taps over 4 places after a state of 2, or zeros; fewer places than the state holds. */
static void a_causal_convolution_keeps_its_state(void) {
  for (int k = 0; k < 8; k++) {
    const bool state = k & 1, silu = k & 2;
    const int64_t length = k & 4 ? 1 : 4;
    begin();
    opset = 27;
    in("x", F32, length == 1 ? "2,2,1" : "2,2,4"), in("w", F32, "2,1,3"), in("b", F32, "2"), in("s", F32, "2,2,2"),
        out("y"), out("p");
    Onnx__NodeProto *conv = node("CausalConvWithState", state ? "x,w,b,s" : "x,w,b", "y,p");
    if (silu) string_attr(conv, "activation", "silu");
    InterpNamed list[] = {
        filled("x", 3, (int64_t[]){2, 2, length}, -1, 1, NULL), filled("w", 3, (int64_t[]){2, 1, 3}, -1, 1, NULL),
        filled("b", 1, (int64_t[]){2}, -1, 1, NULL), filled("s", 3, (int64_t[]){2, 2, 2}, -1, 1, NULL)};
    double want[16], past[8], all[6];
    for (int64_t row = 0; row < 4; row++) {
      for (int64_t i = 0; i < length + 2; i++)
        all[i] = i >= 2  ? list[0].tensor.cells[row * length + i - 2].f
                 : state ? list[3].tensor.cells[row * 2 + i].f
                         : 0;
      for (int64_t i = 0; i < length; i++) {
        double sum = list[2].tensor.cells[row % 2].f;
        for (int64_t t = 0; t < 3; t++) sum += all[i + t] * list[1].tensor.cells[row % 2 * 3 + t].f;
        want[row * length + i] = silu ? sum / (1 + exp(-sum)) : sum;
      }
      past[row * 2] = all[length], past[row * 2 + 1] = all[length + 1];
    }
    near("CausalConvWithState", run(4, list, "y"), 4 * length, want);
    near("its state", run(4, list, "p"), 8, past);
  }
}

int main(void) {
  RUN(classes_lose_as_the_specification_says);
  RUN(a_gate_is_multiplied);
  RUN(a_causal_convolution_keeps_its_state);
  module_free(module);
  arena_free(arena);
  return test_summary();
}
