/* tests/unit/onnx_linear.c - LinearAttention and FlexAttention compared with loops written from the ONNX
 * specification. */
#include <math.h>

#include "ir/run/interp.h"
#include "tests/onnx_graph.h"

enum { B = 2, HEADS = 2, GROUP = 2, K = 3, V = 4, MOST = 5 }; /* MOST: steps */

static InterpNamed data[6];
static int ndata;

static const double *random_input(const char *name, int rank, const int64_t *dims, double low, double high) {
  InterpNamed *item = &data[ndata++];
  Text t = {.arena = arena};
  item->name = name;
  item->tensor = interp_tensor(arena, DT_f32, rank, dims);
  interp_fill(&item->tensor, DOMAIN_FLOAT, (uint64_t)ndata, low, high);
  for (int d = 0; d < rank; d++) text_printf(&t, "%s%d", d ? "," : "", (int)dims[d]);
  in(name, F32, text_str(&t));
  return (const double *)item->tensor.cells;
}

static void compare(const char *what, const InterpTensor *want) {
  InterpResult r;
  const char *why = "absent";
  bool ran = interp_run(module, module_func(module, "main"), &(InterpOptions){.symbols = interp_symbols(module, arena)},
                        ndata, data, arena, &r, diags);
  const InterpTensor *got = ran ? interp_find(r.outputs, r.noutputs, what) : NULL;
  CHECKF(got && interp_equal(got, want, DOMAIN_FLOAT, 1e-6, arena, &why), "%s: %s", what, why);
}

/* ---- LinearAttention */

typedef struct Rule {
  const char *name;
  bool gated, delta, past, per_head; /* per_head: one decay per head, one rate for all heads */
  double scale;                      /* 0: the default */
} Rule;

/* One step of one head: decay, correction, outer product. */
static void step(const Rule *r, double s[K][V], const double *k, const double *v, const double *decay, double rate) {
  for (int i = 0; i < K; i++)
    for (int j = 0; r->gated && j < V; j++) s[i][j] *= exp(decay[r->per_head ? 0 : i]);
  double known[V] = {0};
  for (int i = 0; i < K; i++)
    for (int j = 0; r->delta && j < V; j++) known[j] += s[i][j] * k[i];
  for (int i = 0; i < K; i++)
    for (int j = 0; j < V; j++) s[i][j] += k[i] * (r->delta ? rate * (v[j] - known[j]) : v[j]);
}

static void check_rule(const Rule *r, int steps) {
  const double *past = NULL, *decay = NULL, *rate = NULL;
  begin();
  opset = 27;
  ndata = 0;
  const double *q = random_input("q", 3, (int64_t[]){B, steps, HEADS * GROUP * K}, -1, 1);
  const double *k = random_input("k", 3, (int64_t[]){B, steps, HEADS * K}, -1, 1);
  const double *v = random_input("v", 3, (int64_t[]){B, steps, HEADS * V}, -1, 1);
  if (r->past) past = random_input("past", 4, (int64_t[]){B, HEADS, K, V}, -1, 1);
  int decays = r->per_head ? 1 : K, rates = r->per_head ? 1 : HEADS;
  if (r->gated) decay = random_input("decay", 3, (int64_t[]){B, steps, HEADS * decays}, -1, 0);
  if (r->delta) rate = random_input("rate", 3, (int64_t[]){B, steps, rates}, 0, 1);
  out("y"), out("state");
  const char *operands =
      arena_printf(arena, "q,k,v,%s,%s,%s", past ? "past" : "", decay ? "decay" : "", rate ? "rate" : "");
  Onnx__NodeProto *n = node("LinearAttention", operands, "y,state");
  attr(n, "q_num_heads", INT, HEADS * GROUP), attr(n, "kv_num_heads", INT, HEADS);
  string_attr(n, "update_rule", r->name);
  if (r->scale != 0) {
    Onnx__AttributeProto *a = attr(n, "scale", FLOAT, 0);
    a->has_f = 1, a->f = (float)r->scale;
  }
  IMPORTS();
  CHECKF(!strstr(printed(), " = loop ") == (steps == 1), "%s over %d steps", r->name, steps);

  double scale = r->scale != 0 ? r->scale : 1 / sqrt(K);
  InterpTensor y = interp_tensor(arena, DT_f32, 3, (int64_t[]){B, steps, HEADS * GROUP * V});
  InterpTensor state = interp_tensor(arena, DT_f32, 4, (int64_t[]){B, HEADS, K, V});
  for (int b = 0; b < B; b++)
    for (int h = 0; h < HEADS; h++) {
      double s[K][V] = {{0}};
      int head = b * HEADS + h;
      if (past) memcpy(s, past + head * K * V, sizeof s);
      for (int t = 0; t < steps; t++) {
        int row = (b * steps + t) * HEADS + h;
        step(r, s, k + row * K, v + row * V, decay ? decay + row * decays : NULL,
             !rate         ? 0
             : r->per_head ? rate[b * steps + t]
                           : rate[row]);
        for (int g = 0; g < GROUP; g++)
          for (int j = 0; j < V; j++) {
            double sum = 0;
            for (int i = 0; i < K; i++) sum += q[(row * GROUP + g) * K + i] * s[i][j];
            y.cells[(row * GROUP + g) * V + j].f = scale * sum;
          }
      }
      for (int i = 0; i < K * V; i++) state.cells[head * K * V + i].f = s[i / V][i % V];
    }
  compare("y", &y), compare("state", &state);
}

static void the_rules_do_what_the_specification_says(void) {
  static const Rule rules[] = {
      {"linear", .past = true},
      {"gated", .gated = true, .scale = 0.5},
      {"delta", .delta = true, .past = true},
      {"gated_delta", .gated = true, .delta = true},
      {"gated_delta", .gated = true, .delta = true, .past = true, .per_head = true},
  };
  for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) check_rule(&rules[i], 1), check_rule(&rules[i], MOST);
}

static void linear(const char *rule, int64_t q_heads, int64_t kv_heads) {
  begin();
  opset = 27;
  in("q", F32, "2,3,8"), in("k", F32, "2,3,4"), in("v", F32, "2,3,4"), out("y");
  Onnx__NodeProto *n = node("LinearAttention", "q,k,v", "y");
  attr(n, "q_num_heads", INT, q_heads), attr(n, "kv_num_heads", INT, kv_heads), string_attr(n, "update_rule", rule);
}

static void what_does_not_fit_is_refused(void) {
  linear("gated_linear", 4, 2), expect(DIAG_onnx_node, "update_rule \"gated_linear\" is not supported", "/y");
  linear("delta", 4, 2), expect(DIAG_onnx_node, "the update rule needs input 5", "/y");
  linear("gated", 4, 2), expect(DIAG_onnx_node, "the update rule needs input 4", "/y");
  linear("linear", 3, 2), expect(DIAG_onnx_node, "3 query heads cannot share 2 heads", "/y");
  linear("linear", 3, 3), expect(DIAG_onnx_node, "the heads do not divide keys or values", "/y");
  linear("linear", 2, 2), expect(DIAG_onnx_node, "heads of different sizes", "/y");
}

/* ---- FlexAttention */

static Onnx__NodeProto *flex(const char *changes) {
  Onnx__NodeProto *n = node("FlexAttention", "q,k,v", "y");
  n->domain = arena_strdup(arena, "ai.onnx.preview");
  node_in(graph_attr(n, "score_mod", "s", "t"), "Tanh", "s", "t");
  node_in(graph_attr(n, "prob_mod", "p", "r"), changes, "p,p", "r");
  return n;
}

/* Scores go through a hyperbolic tangent, probabilities are squared. */
static void graphs_change_scores_and_probabilities(void) {
  enum { Q = 3, T = 5 };
  begin();
  opset = 26;
  ndata = 0;
  const double *q = random_input("q", 4, (int64_t[]){B, HEADS * GROUP, Q, K}, -1, 1);
  const double *k = random_input("k", 4, (int64_t[]){B, HEADS, T, K}, -1, 1);
  const double *v = random_input("v", 4, (int64_t[]){B, HEADS, T, V}, -1, 1);
  out("y");
  flex("Mul");
  IMPORTS();
  InterpTensor y = interp_tensor(arena, DT_f32, 4, (int64_t[]){B, HEADS * GROUP, Q, V});
  for (int head = 0; head < B * HEADS * GROUP; head++)
    for (int i = 0; i < Q; i++) {
      double p[T], sum = 0;
      for (int t = 0; t < T; t++) {
        double s = 0;
        for (int c = 0; c < K; c++) s += q[(head * Q + i) * K + c] * k[(head / GROUP * T + t) * K + c];
        sum += p[t] = exp(tanh(s / sqrt(K)));
      }
      for (int j = 0; j < V; j++) {
        double *to = &y.cells[(head * Q + i) * V + j].f;
        for (int t = 0; t < T; t++) *to += p[t] / sum * (p[t] / sum) * v[(head / GROUP * T + t) * V + j];
      }
    }
  compare("y", &y);
}

static void a_graph_keeps_the_type(void) {
  begin();
  opset = 26;
  in("q", F32, "1,2,3,4"), in("k", F32, "1,2,5,4"), in("v", F32, "1,2,5,4"), out("y");
  flex("Equal");
  expect(DIAG_onnx_node, "prob_mod makes bool[1, 2, 3, 5] of f32[1, 2, 3, 5]", "/y");
}

int main(void) {
  RUN(the_rules_do_what_the_specification_says);
  RUN(what_does_not_fit_is_refused);
  RUN(graphs_change_scores_and_probabilities);
  RUN(a_graph_keeps_the_type);
  module_free(module);
  arena_free(arena);
  return test_summary();
}
