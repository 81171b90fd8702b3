/* tests/unit/onnx_edges.c - rare cases of ONNX operators: with NaN, with pads longer than the extent, mixed types,
 * sizes of 1 that are found late, and functions whose attributes have defaults. */
#include <math.h>

#include "passes/pipeline.h"
#include "tests/onnx_run.h"

static const int32_t floats_of[] = {F32, F16, F64};

/* ---- NaN is larger and smaller than all numbers, and the first one's index is the result */

static void the_place_of_the_first_nan(void) {
  for (size_t i = 0; i < sizeof floats_of / sizeof *floats_of; i++)
    for (int last = 0; last < 2; last++)
      for (int least = 0; least < 2; least++) {
        start(13);
        given("x", floats_of[i], "4,3", "2,nan,7,nan,nan,1,nan,nan,nan,5,1,5"), out("y");
        Onnx__NodeProto *n = node(least ? "ArgMin" : "ArgMax", "x", "y");
        attr(n, "axis", INT, -1), attr(n, "keepdims", INT, last), attr(n, "select_last_index", INT, last);
        RUNS();
        GIVES("y", !last ? (least ? "1,0,0,1" : "1,0,0,0") : least ? "1,1,2,1" : "1,1,2,2");
      }
}

static void the_first_nan_is_hit(void) {
  start(13);
  given("x", F32, "3,3", "2,nan,nan,nan,9,1,1,4,4"), out("y");
  node("Hardmax", "x", "y");
  RUNS();
  GIVES("y", "0,1,0,1,0,0,0,1,0");
}

static void the_first_nan_of_a_window(void) {
  for (int columns = 0; columns < 2; columns++) {
    start(12);
    given("x", F32, "1,1,2,6", "1,nan,3,4,nan,-inf,5,nan,7,1,9,8"), out("y"), out("i");
    Onnx__NodeProto *n = node("MaxPool", "x", "y,i");
    int_list_attr(n, "kernel_shape", "2,2"), int_list_attr(n, "strides", "2,2"), attr(n, "storage_order", INT, columns);
    RUNS();
    GIVES("y", "nan,7,nan");
    GIVES("i", columns ? "2,5,8" : "1,8,4");
  }
}

/* ---- pads */

static const char *padded(const char *mode, const char *extent, const char *numbers, const char *pads) {
  start(19);
  given("x", F32, extent, numbers), out("y");
  ints("p", pads);
  string_attr(node("Pad", "x,p", "y"), "mode", mode);
  return run() ? numbers_of("y") : "refused";
}

static void pads_of_several_turns(void) {
  CHECK_STR(padded("reflect", "3", "1,2,3", "5,6"), "2,1,2,3,2,1,2,3,2,1,2,3,2,1");
  CHECK_STR(padded("reflect", "1", "4", "2,3"), "4,4,4,4,4,4");
  CHECK_STR(padded("reflect", "3", "1,2,3", "2,2"), "3,2,1,2,3,2,1");
  CHECK_STR(padded("wrap", "3", "1,2,3", "7,5"), "3,1,2,3,1,2,3,1,2,3,1,2,3,1,2");
  CHECK_STR(padded("edge", "2", "1,2", "3,3"), "1,1,1,1,2,2,2,2");
}

static void a_pad_that_cuts_more_than_there_is(void) {
  CHECK_STR(padded("constant", "3", "1,2,3", "-4,3"), "0,0");
  CHECK_STR(padded("constant", "3", "1,2,3", "4,-5"), "0,0");
  CHECK_STR(padded("constant", "3", "1,2,3", "-2,1"), "3,0");
  start(19);
  in("x", F32, "3"), out("y");
  ints("p", "-4,3");
  string_attr(node("Pad", "x,p", "y"), "mode", "edge");
  expect(DIAG_onnx_node, "mode edge repeats elements, and dimension 0 has none", "/y");
}

/* ---- types */

static void statistics_have_their_own_type(void) {
  for (int version = 13; version <= 17; version += 4) { /* ONNX Runtime's optimiser writes the norm at any version */
    start(version);
    given("x", F16, "2,4", "1,2,3,4,10,10,10,14"), given("s", F16, "4", "1,1,1,1"), out("y"), out("m"), out("v");
    node("LayerNormalization", "x,s", "y,m,v");
    RUNS();
    GIVES("m", "2.5,11");
    CHECK(interp_find(result.outputs, result.noutputs, "y")->dtype == DT_f16);
    CHECK(interp_find(result.outputs, result.noutputs, "m")->dtype == DT_f32);
    CHECK(interp_find(result.outputs, result.noutputs, "v")->dtype == DT_f32);
    CHECK(fabs(interp_find(result.outputs, result.noutputs, "v")->cells[1].f - 1 / sqrt(3 + 1e-5)) < 1e-6);
  }
  start(17);
  in("x", F16, "2,4"), in("s", F32, "4"), out("y");
  node("LayerNormalization", "x,s", "y");
  expect(DIAG_onnx_node, "input, scale and bias are of different types", "/y");
}

static void the_scale_says_the_type_of_an_rms_norm(void) {
  start(23);
  given("x", F16, "1,2", "3,4"), given("s", F32, "2", "5,5"), out("y");
  attr(node("RMSNormalization", "x,s", "y"), "epsilon", FLOAT, 0);
  RUNS();
  CHECK(interp_find(result.outputs, result.noutputs, "y")->dtype == DT_f32);
}

static void batch_norms_mix_types(void) {
  for (int k = 0; k < 3; k++) {
    const int32_t x = floats_of[k], c = floats_of[(k + 1) % 3], s = floats_of[(k + 2) % 3];
    start(15);
    given("x", x, "1,2,2", "1,2,3,4"), given("s", c, "2", "2,3"), given("b", c, "2", "1,-1"), given("m", s, "2", "1,2"),
        given("v", s, "2", "4,1");
    out("y");
    attr(node("BatchNormalization", "x,s,b,m,v", "y"), "epsilon", FLOAT, 0);
    RUNS();
    GIVES("y", "1,2,2,5");
    DType type;
    CHECK(onnx_dtype(x, &type) && interp_find(result.outputs, result.noutputs, "y")->dtype == type);
  }
}

/* Scores 0 and a mask of whole numbers: the weights are softmax(mask); keys beyond the mask are hidden. */
static void masks_of_whole_numbers_are_added(void) {
  static const int32_t types[] = {I32, I64, 2, F64};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    start(24);
    given("q", F32, "1,1,1,2", "0,0"), given("k", F32, "1,1,3,2", "1,2,3,4,5,6"), given("v", F32, "1,1,3,1", "1,2,8"),
        given("m", types[i], "1,2", "1,0"), out("y");
    node("Attention", "q,k,v,m", "y");
    RUNS();
    GIVES("y", "1.26894");
  }
}

/* ---- sizes of 1 */

static void out_of(const char *dims) { ARENA_PUSH(arena, &outputs, value_info("y", F32, dims)); }

static void squeezing_without_axes(void) {
  start(13);
  in("x", F32, "n,8,1,1"), out_of("8");
  node("Squeeze", "x", "y");
  IMPORTS(); /* the declared rank says that n is 1 */
  HAS(": f32[1, 8, 1, 1]");
  HAS(": f32[8]");
  start(13);
  in("x", F32, "n,8,1"), out_of("n,8");
  node("Squeeze", "x", "y");
  IMPORTS(); /* n stays, so it is not 1 */
  HAS("symbol n min 2");
  HAS(": f32[n, 8]");
  CHECK(diags->warnings == 1 && strstr(diags->items[0].message, "so n is taken to be at least 2"));
  start(13);
  in("x", F32, "n,m,1"), out_of("n");
  node("Squeeze", "x", "y");
  expect(DIAG_onnx_node, "f32[n, m, 1] becomes 1 dimensions: give it axes", "/y");
  start(13);
  in("x", F32, "n,1"), out_of(""); /* the rank was unknown: n is not 1 */
  node("Squeeze", "x", "y");
  IMPORTS();
  HAS("symbol n min 2");
  HAS(": f32[n]");
  start(13);
  in("x", F32, "3,1"), out_of(""); /* an impossible rank */
  node("Squeeze", "x", "y");
  IMPORTS();
  HAS(": f32[3]");
  start(13);
  in("x", F32, "n,m"), out("y");
  ints("axes", "0");
  node("Squeeze", "x,axes", "y");
  IMPORTS();
  HAS(": f32[m]");
}

/* ---- loops that make no round, or one */

static void count_up(const char *trips, const char *rows) {
  start(18);
  given("x", F32, "", "2"), out("y"), out("s");
  ints("n", trips), floats("one", 1, (float[]){1}), floats("most", 1, (float[]){3});
  initializers.items[0]->n_dims = initializers.items[1]->n_dims = initializers.items[2]->n_dims = 0;
  Onnx__TensorProto *yes = ARENA_NEW(arena, Onnx__TensorProto);
  onnx__tensor_proto__init(yes);
  yes->name = arena_strdup(arena, "c"), yes->has_data_type = 1, yes->data_type = BOOL;
  yes->n_int32_data = 1, yes->int32_data = ARENA_ARRAY(arena, int32_t, 1), yes->int32_data[0] = 1;
  ARENA_PUSH(arena, &initializers, yes);
  Onnx__GraphProto *g = graph_attr(node("Loop", "n,c,x", "y,s"), "body", "i,ci,v", "co,v2,sc");
  node_in(g, "Add", "v,one", "v2"), node_in(g, "Less", "v2,most", "co"), node_in(g, "Identity", "v2", "sc");
  if (!rows) return expect(DIAG_onnx_shape, "their number depends on data", NULL);
  RUNS();
  GIVES("s", rows);
}

static void loops_of_no_round_collect_nothing(void) {
  count_up("0", "nothing");
  count_up("-3", "nothing");
  count_up("1", "3"); /* the condition for another round does not matter */
  count_up("2", NULL);
}

static void branches_with_inputs_are_refused(void) {
  begin();
  in("x", F32, "3"), in("c", BOOL, ""), out("y");
  Onnx__NodeProto *n = node("If", "c", "y");
  node_in(graph_attr(n, "then_branch", "x", "p"), "Neg", "x", "p");
  node_in(graph_attr(n, "else_branch", "", "q"), "Abs", "x", "q");
  expect(DIAG_onnx_node, "its then_branch has inputs", "/y");
}

/* ---- functions: defaults and overloads are newer than some schemas, so they are written by the overlay's */

typedef struct Packed {
  uint8_t *items;
  size_t n;
} Packed;

static Packed packed(const ProtobufCMessage *a, const ProtobufCMessage *b) {
  Packed p = {arena_alloc(arena, protobuf_c_message_get_packed_size(a) + protobuf_c_message_get_packed_size(b)), 0};
  p.n = protobuf_c_message_pack(a, p.items);
  p.n += protobuf_c_message_pack(b, p.items + p.n);
  return p;
}

/* The function of one node, with a default of an attribute and an overload. */
static Onnx__FunctionProto *function_of(Onnx__NodeProto *n, const char *overload,
                                        const Onnx__AttributeProto *otherwise) {
  Onnx__FunctionProto f = ONNX__FUNCTION_PROTO__INIT;
  OnnxOverlay__FunctionProto more = ONNX_OVERLAY__FUNCTION_PROTO__INIT;
  f.name = arena_strdup(arena, "F"), f.domain = arena_strdup(arena, "mine");
  f.input = n->input, f.n_input = n->n_input, f.output = n->output, f.n_output = n->n_output;
  f.node = &n, f.n_node = 1;
  if (overload) more.overload = arena_strdup(arena, overload);
  ProtobufCBinaryData bytes = {0};
  if (otherwise) {
    bytes.data = arena_alloc(arena, onnx__attribute_proto__get_packed_size(otherwise));
    bytes.len = onnx__attribute_proto__pack(otherwise, bytes.data);
    more.attribute_proto = &bytes, more.n_attribute_proto = 1;
  }
  Packed p = packed(&f.base, &more.base);
  return onnx__function_proto__unpack(NULL, p.n, p.items);
}

static Onnx__NodeProto *call_of(const char *overload, const char *in_names, const char *out_names) {
  Onnx__NodeProto *n = new_node("F", in_names, out_names);
  OnnxOverlay__NodeProto more = ONNX_OVERLAY__NODE_PROTO__INIT;
  n->domain = arena_strdup(arena, "mine");
  if (overload) more.overload = arena_strdup(arena, overload);
  Packed p = packed(&n->base, &more.base);
  n = onnx__node_proto__unpack(NULL, p.n, p.items);
  ARENA_PUSH(arena, &nodes, n);
  return n;
}

static void free_functions(size_t n, Onnx__FunctionProto **list, size_t calls) {
  for (size_t i = 0; i < n; i++) onnx__function_proto__free_unpacked(list[i], NULL);
  for (size_t i = 0; i < calls; i++) onnx__node_proto__free_unpacked(nodes.items[i], NULL);
}

static void functions_have_defaults(void) {
  static float numbers[] = {0.5f, 0.25f};
  start(18);
  given("x", F32, "2", "-1,4"), out("y"), out("z");
  Onnx__NodeProto *n = new_node("LeakyRelu", "a", "b"), *holder = new_node("", "", "");
  attr(n, "alpha", FLOAT, 0)->ref_attr_name = arena_strdup(arena, "slope");
  Onnx__AttributeProto *slope = attr(holder, "slope", FLOAT, 0), given_slope = *slope, *with = &given_slope;
  slope->has_f = given_slope.has_f = 1, slope->f = numbers[0], given_slope.f = numbers[1];
  Onnx__FunctionProto *list[] = {function_of(n, NULL, slope)};
  model.functions = list, model.n_functions = 1;
  call_of(NULL, "x", "y");
  Onnx__NodeProto *second = call_of(NULL, "x", "z"), written = *second;
  written.attribute = &with, written.n_attribute = 1;
  nodes.items[1] = &written;
  bool ok = run();
  nodes.items[1] = second;
  free_functions(1, list, 2);
  CHECK(ok);
  GIVES("y", "-0.5,4");
  GIVES("z", "-0.25,4");
}

/* A tensor: its bytes stay in the file like those of any other. */
static void a_default_may_be_a_tensor(void) {
  start(18);
  out("y");
  Onnx__NodeProto *n = new_node("Constant", "", "b"), *holder = new_node("", "", "");
  attr(n, "value", TENSOR, 0)->ref_attr_name = arena_strdup(arena, "v");
  floats("unused", 2, (float[]){3, 5});
  Onnx__AttributeProto *v = attr(holder, "v", TENSOR, 0);
  v->t = initializers.items[0], initializers.n = 0;
  Onnx__FunctionProto *list[] = {function_of(n, NULL, v)};
  model.functions = list, model.n_functions = 1;
  call_of(NULL, "", "y");
  bool ok = run();
  free_functions(1, list, 1);
  CHECK(ok);
  GIVES("y", "3,5");
}

static void calls_name_an_overload(void) {
  start(18);
  given("x", F32, "2", "-1,4"), out("y"), out("z");
  Onnx__FunctionProto *list[] = {function_of(new_node("Neg", "a", "b"), "neg", NULL),
                                 function_of(new_node("Abs", "a", "b"), "abs", NULL)};
  model.functions = list, model.n_functions = 2;
  call_of("neg", "x", "y"), call_of("abs", "x", "z");
  bool ok = run();
  free_functions(0, NULL, 2);
  CHECK(ok);
  GIVES("y", "1,-4");
  GIVES("z", "1,4");
  nodes.n = 0, outputs.n = 1;
  call_of("sqrt", "x", "y");
  expect(DIAG_onnx_graph, "has no such overload: sqrt of F", NULL);
  free_functions(2, list, 1);
}

/* ---- Clip passes no gradient at its bounds, where max and min share it */

/* The weights after a step from w = -1, 0, 2, 6 towards outputs of 1; bounds 0 and 6, a learning rate of 1. */
static void step_through(const char *type, const char *operands, const double *want) {
  static const char *const bounds[] = {"low", "high"};
  start(13);
  out("y");
  floats("w", 4, (float[]){-1, 0, 2, 6});
  for (int i = 0; i < 2; i++) {
    floats(bounds[i], 1, (float[]){i ? 6 : 0});
    initializers.items[1 + i]->n_dims = 0;
  }
  node(type, operands, "y");
  TrainOptions train = {.loss = "mse"};
  InterpNamed weight = {"w", interp_tensor(arena, DT_f32, 1, (int64_t[]){4})};
  InterpNamed list[] = {{"labels", interp_tensor(arena, DT_f32, 1, (int64_t[]){4})},
                        {"step", interp_tensor(arena, DT_i64, 0, NULL)}};
  for (int i = 0; i < 4; i++) weight.tensor.cells[i].f = (double[]){-1, 0, 2, 6}[i], list[0].tensor.cells[i].f = 1;
  InterpOptions o = {.params = &weight, .nparams = 1};
  bool ok = import_with(&(OnnxImportOptions){.training = true, .trained = "w"}) &&
            optimizer_parse(arena, "sgd(lr=1)", &train.optimizer, diags) &&
            pipeline_run(module, "train", &(PassOptions){.train = &train, .verify = true}, diags) &&
            interp_run(module, module->funcs.items[0], &o, 2, list, arena, &result, diags);
  if (!ok) diags_print(diags, stderr, false);
  CHECK(ok && result.nstates == 1);
  for (int i = 0; ok && i < 4; i++) {
    double x = result.states[0].tensor.cells[i].f;
    CHECKF(x == want[i], "%s: weight %d becomes %g, not %g", type, i, x, want[i]);
  }
}

static void no_gradient_at_the_bounds(void) {
  step_through("Clip", "w,low,high", (double[]){-1, 0, 1.5, 6});
  step_through("Max", "w,low", (double[]){-1, 0.25, 1.5, 3.5});
}

/* ---- types of few bits */

enum { UINT4 = 21, UINT2 = 25 };

/* The file packs four elements to a byte, 0 to 3, and a constant of more than 65536 is unpacked as a whole. */
static void a_large_packed_constant(void) {
  enum { BYTES = 16385 };
  start(25);
  ints("w", "0");
  Onnx__TensorProto *w = initializers.items[0];
  w->data_type = UINT2, w->n_int64_data = 0, w->dims[0] = 4 * BYTES;
  w->int32_data = ARENA_ARRAY(arena, int32_t, BYTES), w->n_int32_data = BYTES;
  for (int i = 0; i < BYTES; i++) w->int32_data[i] = 0xe4;
  out("y");
  attr(node("Cast", "w", "y"), "to", INT, F32);
  RUNS();
  const InterpTensor *y = interp_find(result.outputs, result.noutputs, "y");
  CHECK(interp_elements(y) == 4 * BYTES);
  for (int64_t i = 0; i < 4 * BYTES; i++)
    if (y->cells[i].f != (double)(i % 4)) CHECKF(false, "element %lld is %g", (long long)i, y->cells[i].f);
}

/* 18 is 2 in u4, so it is no size. */
static void a_size_that_wraps_in_few_bits(void) {
  for (int fits = 0; fits < 2; fits++) {
    start(21);
    in("x", F32, "n"), in("z", F32, "1"), out("y");
    ints("many", fits ? "3" : "18"), ints("one", "1"), ints("two", "2");
    node("Shape", "x", "s");
    attr(node("Concat", "s,many", "c"), "axis", INT, 0);
    attr(node("Cast", "c", "narrow"), "to", INT, UINT4);
    attr(node("Cast", "narrow", "wide"), "to", INT, I64);
    node("Slice", "wide,one,two", "e");
    node("Expand", "z,e", "y");
    if (fits) IMPORTS();
    else expect(DIAG_onnx_shape, "is computed from dimensions, but is not an expression of them", "/y");
  }
}

/* 102400 is no f16, but a quarter of it is. */
static void products_of_scales_are_rounded_once(void) {
  start(23);
  given("x", I32, "2", "102400,-131072"), given("s", F16, "1", "0.25"), out("y");
  node("DequantizeLinear", "x,s", "y");
  RUNS();
  GIVES("y", "25600,-32768");
  CHECK(interp_find(result.outputs, result.noutputs, "y")->dtype == DT_f16);
}

static void one_block_has_one_scale(void) {
  start(21);
  given("x", F32, "1,4", "1,2,3,4"), given("s", F32, "1,1", "0.5"), out("y");
  attr(node("QuantizeLinear", "x,s", "y"), "block_size", INT, 4);
  RUNS();
  GIVES("y", "2,4,6,8");
}

int main(void) {
  RUN(the_place_of_the_first_nan);
  RUN(the_first_nan_is_hit);
  RUN(the_first_nan_of_a_window);
  RUN(pads_of_several_turns);
  RUN(a_pad_that_cuts_more_than_there_is);
  RUN(statistics_have_their_own_type);
  RUN(the_scale_says_the_type_of_an_rms_norm);
  RUN(batch_norms_mix_types);
  RUN(masks_of_whole_numbers_are_added);
  RUN(squeezing_without_axes);
  RUN(loops_of_no_round_collect_nothing);
  RUN(branches_with_inputs_are_refused);
  RUN(functions_have_defaults);
  RUN(a_default_may_be_a_tensor);
  RUN(calls_name_an_overload);
  RUN(no_gradient_at_the_bounds);
  RUN(a_large_packed_constant);
  RUN(a_size_that_wraps_in_few_bits);
  RUN(products_of_scales_are_rounded_once);
  RUN(one_block_has_one_scale);
  module_free(module);
  arena_free(arena);
  return test_summary();
}
