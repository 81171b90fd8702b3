/* tests/unit/onnx_recurrent.c - LSTM, GRU and RNN compared with loops written from the ONNX specification: all
 * directions, initial states, peepholes, sequence lengths, clipping, coupled gates and both orders of the reset gate;
 * over few steps, which are unrolled, and over more or a symbolic number of them, which are a loop.
 *
 * With a kind of cell, a time dimension and a file name, writes a bidirectional layer to it instead
 * (tests/cli/recurrent.sh runs that on several ranks). */
#include <math.h>

#include "ir/run/interp.h"
#include "tests/onnx_graph.h"

enum { B = 3, I = 2, H = 4, MAX_GATES = 4 };

static int T = 5; /* steps */

typedef struct Case {
  const char *type, *direction;
  int gates, directions;
  bool bias, lengths, states, peepholes, coupled, reset_after;
  double clip;
} Case;

static InterpNamed data[8];
static int ndata;

static const InterpTensor *random_input(const char *name, int rank, const int64_t *dims) {
  InterpNamed *item = &data[ndata++];
  item->name = name;
  item->tensor = interp_tensor(arena, DT_f32, rank, dims);
  interp_fill(&item->tensor, DOMAIN_FLOAT, (uint64_t)ndata, -1, 1);
  return &item->tensor;
}

static const char *dims_text(int rank, const int64_t *dims) {
  Text t = {.arena = arena};
  for (int d = 0; d < rank; d++) text_printf(&t, "%s%d", d ? "," : "", (int)dims[d]);
  return text_str(&t);
}

/* ---- the specification */

static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double at(const char *name, int64_t i) {
  const InterpTensor *t = interp_find(data, ndata, name);
  return t ? t->cells[i].f : 0;
}
static double clip(const Case *c, double x) { return c->clip > 0 ? fmax(fmin(x, c->clip), -c->clip) : x; }

/* (W x + Wb)[g, h] of direction d at time t, batch b; and (R s)[g, h]; and the bias of the recurrence. */
static double from_input(const Case *c, int d, int g, int t, int b, int h) {
  int row = (d * c->gates + g) * H + h;
  double sum = at("bias", (d * 2 * c->gates + g) * H + h);
  for (int i = 0; i < I; i++) sum += at("w", row * I + i) * at("x", (t * B + b) * I + i);
  return sum;
}
static double from_state(const Case *c, int d, int g, const double *s, int h) {
  double sum = 0;
  for (int k = 0; k < H; k++) sum += at("r", ((d * c->gates + g) * H + h) * H + k) * s[k];
  return sum;
}
static double state_bias(const Case *c, int d, int g, int h) {
  return at("bias", ((d * 2 + 1) * c->gates + g) * H + h);
}
static double peephole(int d, int which, int h) { return at("p", (d * 3 + which) * H + h); }

static void lstm_step(const Case *c, int d, int t, int b, double *h, double *cell) {
  double out[H], kept[H];
  for (int k = 0; k < H; k++) {
    double z[4];
    for (int g = 0; g < 4; g++)
      z[g] = from_input(c, d, g, t, b, k) + from_state(c, d, g, h, k) + state_bias(c, d, g, k);
    double i = sigmoid(clip(c, z[0] + peephole(d, 0, k) * cell[k]));
    double f = c->coupled ? 1 - i : sigmoid(clip(c, z[2] + peephole(d, 2, k) * cell[k]));
    kept[k] = f * cell[k] + i * tanh(clip(c, z[3]));
    out[k] = sigmoid(clip(c, z[1] + peephole(d, 1, k) * kept[k])) * tanh(clip(c, kept[k]));
  }
  memcpy(h, out, sizeof out), memcpy(cell, kept, sizeof kept);
}

static void gru_step(const Case *c, int d, int t, int b, double *h, double *cell) {
  double z[H], r[H], gated[H], out[H];
  (void)cell;
  for (int k = 0; k < H; k++) {
    z[k] = sigmoid(clip(c, from_input(c, d, 0, t, b, k) + from_state(c, d, 0, h, k) + state_bias(c, d, 0, k)));
    r[k] = sigmoid(clip(c, from_input(c, d, 1, t, b, k) + from_state(c, d, 1, h, k) + state_bias(c, d, 1, k)));
    gated[k] = r[k] * h[k];
  }
  for (int k = 0; k < H; k++) {
    double s = c->reset_after ? r[k] * (from_state(c, d, 2, h, k) + state_bias(c, d, 2, k))
                              : from_state(c, d, 2, gated, k) + state_bias(c, d, 2, k);
    out[k] = (1 - z[k]) * tanh(clip(c, from_input(c, d, 2, t, b, k) + s)) + z[k] * h[k];
  }
  memcpy(h, out, sizeof out);
}

static void rnn_step(const Case *c, int d, int t, int b, double *h, double *cell) {
  double out[H];
  (void)cell;
  for (int k = 0; k < H; k++)
    out[k] = tanh(clip(c, from_input(c, d, 0, t, b, k) + from_state(c, d, 0, h, k) + state_bias(c, d, 0, k)));
  memcpy(h, out, sizeof out);
}

static int lengths[B] = {5, 2, 0}; /* the first is T */

static void reference(const Case *c, InterpTensor *y, InterpTensor *last, InterpTensor *last_cell) {
  for (int d = 0; d < c->directions; d++)
    for (int b = 0; b < B; b++) {
      bool backward = d == 1 || strcmp(c->direction, "reverse") == 0;
      int n = c->lengths ? lengths[b] : T;
      double h[H], cell[H];
      for (int k = 0; k < H; k++) h[k] = at("h0", (d * B + b) * H + k), cell[k] = at("c0", (d * B + b) * H + k);
      for (int s = 0; s < n; s++) {
        int t = backward ? n - 1 - s : s;
        (c->gates == 4 ? lstm_step : c->gates == 3 ? gru_step : rnn_step)(c, d, t, b, h, cell);
        for (int k = 0; k < H; k++) y->cells[((t * c->directions + d) * B + b) * H + k].f = h[k];
      }
      for (int k = 0; k < H; k++)
        last->cells[(d * B + b) * H + k].f = h[k], last_cell->cells[(d * B + b) * H + k].f = cell[k];
    }
}

/* ---- the graph */

static void input_of(const char *name, int rank, const int64_t *dims) {
  random_input(name, rank, dims);
  in(name, F32, dims_text(rank, dims));
}

static void build(const Case *c) {
  begin();
  lengths[0] = T;
  opset = 14;
  ndata = 0;
  int64_t g = c->gates, d = c->directions;
  input_of("x", 3, (int64_t[]){T, B, I});
  input_of("w", 3, (int64_t[]){d, g * H, I});
  input_of("r", 3, (int64_t[]){d, g * H, H});
  if (c->bias) input_of("bias", 2, (int64_t[]){d, 2 * g * H});
  if (c->states) input_of("h0", 3, (int64_t[]){d, B, H});
  if (c->states && g == 4) input_of("c0", 3, (int64_t[]){d, B, H});
  if (c->peepholes) input_of("p", 2, (int64_t[]){d, 3 * H});
  if (c->lengths) ints("lens", arena_printf(arena, "%d,%d,%d", lengths[0], lengths[1], lengths[2]));
  out("y"), out("last");
  if (g == 4) out("cell");
  const char *operands =
      arena_printf(arena, "x,w,r,%s,%s,%s%s%s", c->bias ? "bias" : "", c->lengths ? "lens" : "", c->states ? "h0" : "",
                   g == 4 ? c->states ? ",c0" : "," : "", g == 4 ? c->peepholes ? ",p" : "," : "");
  Onnx__NodeProto *n = node(c->type, operands, g == 4 ? "y,last,cell" : "y,last");
  attr(n, "hidden_size", INT, H);
  string_attr(n, "direction", c->direction);
  if (c->coupled) attr(n, "input_forget", INT, 1);
  if (c->reset_after) attr(n, "linear_before_reset", INT, 1);
  if (c->clip > 0) {
    Onnx__AttributeProto *a = attr(n, "clip", FLOAT, 0);
    a->has_f = 1;
    a->f = (float)c->clip;
  }
}

static void compare(const char *what, const InterpResult *r, const InterpTensor *want) {
  const InterpTensor *got = interp_find(r->outputs, r->noutputs, what);
  const char *why = "absent";
  CHECKF(got && interp_equal(got, want, DOMAIN_FLOAT, 1e-12, arena, &why), "%s: %s", what, why);
}

static void check(const Case *c, int steps, bool symbolic) {
  T = steps;
  build(c);
  if (symbolic) inputs.items[0] = value_info("x", F32, "steps,3,2");
  IMPORTS();
  int64_t *symbols = interp_symbols(module, arena);
  if (symbolic) symbols[module_symbol_find(module, "steps")] = steps;
  CHECKF(!strstr(printed(), " = loop ") == (steps <= 8 && !symbolic), "%s over %d steps", c->type, steps);
  InterpResult r;
  bool ran = interp_run(module, module_func(module, "main"), &(InterpOptions){.symbols = symbols}, ndata, data, arena,
                        &r, diags);
  CHECK(ran);
  if (!ran) return;
  InterpTensor y = interp_tensor(arena, DT_f32, 4, (int64_t[]){T, c->directions, B, H});
  InterpTensor last = interp_tensor(arena, DT_f32, 3, (int64_t[]){c->directions, B, H});
  InterpTensor cell = interp_tensor(arena, DT_f32, 3, (int64_t[]){c->directions, B, H});
  reference(c, &y, &last, &cell);
  compare("y", &r, &y), compare("last", &r, &last);
  if (c->gates == 4) compare("cell", &r, &cell);
}

static void the_layers_do_what_the_specification_says(void) {
  static const Case cases[] = {
      {"LSTM", "forward", 4, 1, .bias = false},
      {"LSTM", "reverse", 4, 1, .bias = true, .states = true},
      {"LSTM", "bidirectional", 4, 2, .bias = true, .states = true, .lengths = true, .peepholes = true},
      {"LSTM", "bidirectional", 4, 2, .bias = true, .coupled = true, .clip = 0.5},
      {"GRU", "forward", 3, 1, .bias = true},
      {"GRU", "bidirectional", 3, 2, .bias = true, .states = true, .lengths = true, .clip = 0.375},
      {"GRU", "reverse", 3, 1, .bias = true, .states = true, .reset_after = true},
      {"RNN", "bidirectional", 1, 2, .bias = true, .states = true, .lengths = true},
      {"RNN", "reverse", 1, 1, .clip = 0.25},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    check(&cases[i], 5, false);
    check(&cases[i], 11, false);
    check(&cases[i], 6, true);
    if (cases[i].lengths) continue; /* the lengths do not fit zero steps */
    check(&cases[i], 0, false);
    check(&cases[i], 0, true);
  }
  T = 5;
}

static void the_input_is_multiplied_once_for_all_steps(void) {
  for (int loop = 0; loop < 2; loop++) {
    build(&(Case){"LSTM", "forward", 4, 1, .bias = false});
    if (loop) inputs.items[0] = value_info("x", F32, "steps,3,2");
    IMPORTS();
    HAS(loop ? "{spec=\"tbi,ghi->tgbh\"} : f32[steps, 4, 3, 4]" : "{spec=\"tbi,ghi->tgbh\"} : f32[5, 4, 3, 4]");
    int dots = 0;
    for (const char *p = printed(); (p = strstr(p, " = dot ")); p++) dots++;
    CHECKF(dots == 1 + (loop ? 1 : T), "%d dots", dots);
  }
}

/* Values that are the same in all rounds are computed before the loop. */
static void a_body_slices_no_weights(void) {
  build(&(Case){"GRU", "forward", 3, 1, .bias = true});
  inputs.items[0] = value_info("x", F32, "steps,3,2");
  IMPORTS();
  const char *loop = strstr(printed(), " = loop "), *end = loop ? strstr(loop, "repeat ") : NULL;
  CHECK(loop && end);
  for (const char *p = loop; p && (p = strstr(p, " = slice ")) && p < end; p++) {
    const char *line = arena_strndup(arena, p, strcspn(p, "\n"));
    CHECKF(strstr(line, "f32[1, 3, 4]"), "%s", line); /* of the gates */
  }
}

static void what_is_not_done_is_refused(void) {
  build(&(Case){"RNN", "sideways", 1, 1, .bias = false});
  expect(DIAG_onnx_node, "direction \"sideways\"", NULL);
  build(&(Case){"RNN", "forward", 3, 1, .bias = false});
  expect(DIAG_onnx_node, "do not fit", NULL);
}

static bool write_model(const char *type, const char *steps, const char *path) {
  build(&(Case){type, "bidirectional",
                strcmp(type, "LSTM") == 0  ? 4
                : strcmp(type, "GRU") == 0 ? 3
                                           : 1,
                2, .bias = true});
  inputs.items[0] = value_info("x", F32, arena_printf(arena, "%s,batch,2", steps));
  if (!import()) return false; /* completes the model */
  return write_graph(path);
}

int main(int argc, char **argv) {
  if (argc == 4) return write_model(argv[1], argv[2], argv[3]) ? 0 : 1;
  RUN(the_layers_do_what_the_specification_says);
  RUN(the_input_is_multiplied_once_for_all_steps);
  RUN(a_body_slices_no_weights);
  RUN(what_is_not_done_is_refused);
  module_free(module);
  arena_free(arena);
  return test_summary();
}
