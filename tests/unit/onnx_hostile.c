/* tests/unit/onnx_hostile.c - graphs that no exporter writes: an error that names the node, quickly.
 *
 * Most of these once overflowed an int64, read past an array or did not end; the sanitizers find the first two, the
 * time limit of the test the last.  Work that must be linear is measured by its memory, if it takes some. */
#include <inttypes.h>
#include <math.h>

#include "tests/onnx_graph.h"

#define HUGE_DIM "9223372036854775807"

/* ---- extents */

static void dimensions_are_limited(void) {
  begin();
  in("x", F32, "2,4611686018427387904"), out("y");
  node("Relu", "x", "y");
  expect(DIAG_onnx_graph, "input \"x\" is f32[2, 4611686018427387904], with a dimension that is negative or above 2^40",
         NULL);
  begin();
  in("x", F32, "2 - 5"), out("y");
  node("Relu", "x", "y");
  expect(DIAG_onnx_graph, "input \"x\" is f32[-3], with a dimension that is negative", NULL);
  begin();
  weight("w", 0, 1l << 41), out("y");
  node("Relu", "w", "y");
  expect(DIAG_onnx_tensor, "tensor \"w\" has the dimension 2199023255552, above 2^40", NULL);
  begin();
  in("x", F32, "1099511627776"), out("y");
  attr(node("Concat", "x,x", "y"), "axis", INT, 0);
  expect(DIAG_onnx_node, "output 0 would be f32[2199023255552], with a dimension that is negative or above 2^40", "/y");
}

static void made_dimensions_are_not_negative(void) {
  begin();
  in("x", F32, "1"), out("y");
  ints("shape", "-32,-2"), ints("axes", "1");
  node("ConstantOfShape", "shape", "z");
  node("ReduceSum", "z,axes", "y");
  expect(DIAG_onnx_node, "dimension 0 is negative or above 2^40", "/z");
  begin();
  in("w", F32, "1,8,5"), in("r", F32, "1,8,2"), out("y");
  ints("shape", "-2,3,5");
  node("ConstantOfShape", "shape", "x");
  attr(node("LSTM", "x,w,r", "y"), "hidden_size", INT, 2);
  expect(DIAG_onnx_node, "dimension 0 is negative", "/x");
  begin();
  in("x", F32, "3"), out("y");
  opset = 18;
  ints("sizes", "-4");
  node("Resize", "x,,,sizes", "y");
  expect(DIAG_onnx_node, "dimension 0 is negative", "/y");
  begin();
  in("x", F32, "3"), out("y");
  ints("pads", "-2,-2");
  node("Pad", "x,pads", "y");
  expect(DIAG_ir_verify, "leaves dimension 0 of extent 3", "/y");
}

static void depths_are_numbers_of_elements(void) {
  static const float none[] = {(float)NAN, (float)INFINITY, (float)-INFINITY, 1e30f, -5};
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    begin();
    in("x", I64, "4"), in("v", F32, "2"), out("y");
    floats("depth", 1, &none[i]);
    node("OneHot", "x,depth,v", "y");
    expect(DIAG_onnx_node, "a dimension would be", "/y");
  }
}

static void scaled_dimensions_are_limited(void) {
  begin();
  in("x", F32, "N"), out("y");
  floats("scales", 1, (float[]){1e-30f});
  node("Resize", "x,,scales", "y");
  expect(DIAG_onnx_shape, "a symbolic dimension scaled by 1e-30", "/y");
  begin();
  in("x", F32, "1099511627775"), out("y");
  floats("scales", 1, (float[]){4});
  node("Resize", "x,,scales", "y");
  expect(DIAG_onnx_node, "a dimension would be 4.39805e+12; at least 0 and less than 2^40 is expected", "/y");
  static const char *const shapes[] = {"0", "1"};
  for (int i = 0; i < 2; i++) { /* 4 / 0, and the same scale for both dimensions */
    begin();
    opset = 18;
    in("x", F32, i ? "1,1099511627775" : shapes[i]), out("y");
    ints("sizes", i ? "1099511627775,4" : "4");
    string_attr(node("Resize", "x,,,sizes", "y"), "keep_aspect_ratio_policy", "not_smaller");
    expect(DIAG_onnx_node, "a dimension would be", "/y");
  }
}

static Onnx__NodeProto *conv(const char *kind, const char *x, const char *w) {
  begin();
  in("x", F32, x), in("w", F32, w), out("y");
  return node(kind, "x,w", "y");
}

static void windows_are_limited(void) {
  static const char *const kinds[] = {"Conv", "ConvTranspose"};
  for (int i = 0; i < 2; i++) {
    int_list_attr(conv(kinds[i], "1,1,10", "1,1,8589934592"), "dilations", "2147483647");
    expect(DIAG_onnx_node, "a window of more than 1048576 elements", "/y");
    string_attr(conv(kinds[i], "1,1,1099511627776", "1,1,8589934592"), "auto_pad", "SAME_UPPER");
    expect(DIAG_onnx_node, "a window of more than 1048576 elements", "/y");
    conv(kinds[i], "1,1,10", "1,1,0");
    expect(DIAG_onnx_node, "an empty window", "/y");
  }
  begin();
  in("x", F32, "1,1," HUGE_DIM), out("y");
  Onnx__NodeProto *n = node("MaxPool", "x", "y");
  int_list_attr(n, "kernel_shape", "3"), int_list_attr(n, "strides", "2147483647");
  attr(n, "ceil_mode", INT, 1);
  expect(DIAG_onnx_graph, "input \"x\" is f32[1, 1, " HUGE_DIM "]", NULL);
  begin(); /* finding the elements in the padding would take a million comparisons */
  in("x", F32, "1,1,3000000"), out("y");
  n = node("AveragePool", "x", "y");
  int_list_attr(n, "kernel_shape", "1048576"), int_list_attr(n, "pads", "1,1");
  expect(DIAG_onnx_node, "a padded window of 1048576 elements in dimension 2; apc counts at most 1024", "/y");
}

/* ---- ranks and indices */

static void indices_address_dimensions_that_exist(void) {
  begin();
  in("x", F32, "2,3"), in("i", I64, "2," HUGE_DIM), out("y");
  attr(node("GatherND", "x,i", "y"), "batch_dims", INT, 1);
  expect(DIAG_onnx_graph, "input \"i\" is i64[2, " HUGE_DIM "]", NULL);
  begin();
  in("x", F32, "2,3"), in("i", I64, "2,1099511627775"), out("y");
  attr(node("GatherND", "x,i", "y"), "batch_dims", INT, 1);
  expect(DIAG_onnx_node, "indices i64[2, 1099511627775] do not address f32[2, 3]", "/y");
}

static void lengths_are_lists(void) {
  begin();
  in("x", F32, "4,3"), in("l", I64, ""), out("y");
  Onnx__NodeProto *n = node("ReverseSequence", "x,l", "y");
  attr(n, "batch_axis", INT, 1), attr(n, "time_axis", INT, 0);
  expect(DIAG_onnx_node, "i64[] where a tensor of rank 1 is expected", "/y");
  static const char *const cells[][2] = {{"LSTM", "1,8,"}, {"GRU", "1,6,"}, {"RNN", "1,2,"}};
  for (int i = 0; i < 3; i++) {
    begin();
    in("x", F32, "4,3,5"), in("l", I64, ""), out("y");
    in("w", F32, arena_printf(arena, "%s5", cells[i][1])), in("r", F32, arena_printf(arena, "%s2", cells[i][1]));
    attr(node(cells[i][0], "x,w,r,,l", "y"), "hidden_size", INT, 2);
    expect(DIAG_onnx_node, "sequence_lens must have one dimension, not i64[]", "/y");
  }
}

static void an_implied_result_is_not_cut(void) {
  begin();
  in("a", F32, "2,2,2,2,2"), in("b", F32, "2,2,2,2,2"), out("y");
  string_attr(node("Einsum", "a,b", "y"), "equation", "abcde,fghij");
  expect(DIAG_onnx_node, "a result of more than 8 dimensions", "/y");
}

static void parts_of_nothing_are_nothing(void) {
  begin();
  in("x", F32, "1"), out("y");
  ints("e", ""), ints("from", "0"), ints("to", HUGE_DIM);
  Onnx__TensorProto *e = initializers.items[0];
  e->dims = ARENA_ARRAY(arena, int64_t, 2);
  e->dims[0] = INT64_C(1) << 40, e->n_dims = 2;
  node("Slice", "e,from,to", "y");
  IMPORTS();
  HAS(": i64[1099511627776, 0]");
}

static void sizes_that_cannot_be_computed_name_their_node(void) {
  begin();
  in("x", F32, "1"), out("y");
  ints("large", HUGE_DIM);
  node("Add", "large,large", "sum"), node("Relu", "x", "before"), node("Expand", "before,sum", "y");
  expect(DIAG_onnx_node, "Expand: dimension 0 is negative or above 2^40", "/y"); /* integers wrap, as in ONNX */
  begin();
  in("x", F32, "N"), out("y");
  ints("large", HUGE_DIM), ints("one", "1");
  node("Shape", "x", "s"), node("Mul", "s,large", "p"), node("Mul", "p,large", "product"), node("Relu", "x", "before"),
      node("Expand", "before,product", "y");
  expect(DIAG_onnx_shape, "the shape (input \"product\") is computed from dimensions, but is not an expression of them",
         "/y");
  begin();
  in("x", F32, "N*N"), in("w", F32, "1099511627776*1099511627776*N"), out("y");
  node("Relu", "x", "y");
  expect(DIAG_onnx_graph, "input \"w\": a size does not fit 64 bits", NULL);
}

static void symbols_are_limited(void) {
  begin();
  for (int i = 0; i < 1000; i++) in(arena_printf(arena, "x%d", i), F32, "?,?,?,?,?");
  out("y");
  node("Relu", "x0", "y");
  expect(DIAG_onnx_graph, "more than 4096 symbolic dimensions", NULL);
}

static void axes_and_places_exist_once(void) {
  begin();
  opset = 18;
  in("x", F32, "2,3"), out("y");
  ints("sizes", "4,5");
  int_list_attr(node("Resize", "x,,,sizes", "y"), "axes", "1,-1");
  expect(DIAG_onnx_node, "axis 1 is given twice", "/y");
  begin();
  in("x", F32, "2,3"), out("y");
  ints("c", "1,0,0,1");
  initializers.items[0]->data_type = BOOL;
  initializers.items[0]->n_int32_data = 4, initializers.items[0]->n_int64_data = 0;
  initializers.items[0]->int32_data = (int32_t[]){1, 0, 0, 1};
  attr(node("Compress", "x,c", "y"), "axis", INT, 1);
  expect(DIAG_onnx_node, "the condition picks element 3 of 3", "/y");
}

/* ---- numbers that a double or an int64 does not hold */

static Onnx__NodeProto *constant_of_shape(int32_t type, int64_t value) {
  Onnx__NodeProto *n = node("ConstantOfShape", "shape", "y");
  Onnx__TensorProto *t = attr(n, "value", TENSOR, 0)->t = ARENA_NEW(arena, Onnx__TensorProto);
  onnx__tensor_proto__init(t);
  t->has_data_type = 1, t->data_type = type;
  t->dims = ARENA_ARRAY(arena, int64_t, 1), t->dims[0] = 1, t->n_dims = 1;
  int64_t *list = ARENA_ARRAY(arena, int64_t, 1);
  *list = value;
  if (type == I64) t->int64_data = list, t->n_int64_data = 1;
  else t->uint64_data = (uint64_t *)list, t->n_uint64_data = 1;
  return n;
}

static void large_integers_are_exact(void) {
  enum { U64 = 13 };
  begin();
  ints("shape", "100"), out("y");
  constant_of_shape(I64, (INT64_C(1) << 53) + 1);
  IMPORTS();
  HAS("size {expr=9007199254740993} : i64[100]");
  begin();
  ints("shape", "3"), out("y"); /* 2^64 - 1: must not be compared as -1 */
  constant_of_shape(U64, -1)->output[0] = arena_strdup(arena, "large");
  node("Shape", "large", "three"), out("greater");
  Onnx__NodeProto *small = constant_of_shape(U64, 1);
  small->output[0] = arena_strdup(arena, "small");
  node("Max", "large,small", "large2"), node("Less", "large,large2", "y"), node("Less", "small,large2", "greater");
  IMPORTS();
  HAS("const {value=0} : bool[3]");
  HAS("const {value=1} : bool[3]");
}

static void element_types_are_not_wrapped(void) {
  begin();
  in("x", F32, "2,2"), out("y");
  attr(node("EyeLike", "x", "y"), "dtype", INT, (INT64_C(1) << 32) + 1);
  expect(DIAG_onnx_node, "dtype is unknown, which is not supported", "/y");
}

/* ---- work */

/* t, t + t, ... in a loop: 2^37 paths from the last to the first. */
static void sums_of_a_round_are_followed_once(void) {
  begin();
  in("x", F32, "64"), in("h", F32, "1"), out("y");
  ints("M", "3"), ints("axis", "0"), ints("one", "1");
  initializers.items[0]->n_dims = 0;
  Onnx__GraphProto *g = graph_attr(node("Loop", "M,,h", "y"), "body", "t0,c,h0", "d,h1");
  g->node = ARENA_ARRAY(arena, Onnx__NodeProto *, 64);
  for (int i = 0; i < 37; i++)
    node_in(g, "Add", arena_printf(arena, "t%d,t%d", i, i), arena_printf(arena, "t%d", i + 1));
  node_in(g, "Unsqueeze", "t37,axis", "from"), node_in(g, "Add", "from,one", "to"),
      node_in(g, "Slice", "x,from,to", "part");
  node_in(g, "Add", "h0,part", "h1"), node_in(g, "Identity", "c", "d");
  expect(DIAG_onnx_shape, "the bounds of axis 0 are computed from data", "/y/part");
}

/* An index that is 16 times the one before, nine times over. */
static void parts_of_an_index_are_looked_at_a_limited_number_of_times(void) {
  begin();
  in("x", F32, "N"), out("y");
  ints("zero", "0"), ints("one", "1");
  initializers.items[0]->n_dims = initializers.items[1]->n_dims = 0;
  node("Shape", "x", "shape"), node("Squeeze", "shape", "n"), node("Range", "zero,n,one", "c0");
  for (int i = 0; i < 9; i++) {
    const char *c = arena_printf(arena, "c%d", i);
    Text all = {.arena = arena};
    for (int k = 0; k < 16; k++) text_printf(&all, "%s%s", k ? "," : "", c);
    attr(node("Concat", text_str(&all), arena_printf(arena, "c%d", i + 1)), "axis", INT, 0);
  }
  node("Gather", "x,c9", "y");
  IMPORTS();
  HAS("f32[68719476736*N]");
}

/* A function that calls the next one twice, 40 deep. */
static void calls_count_as_nodes(void) {
  Onnx__FunctionProto *list[40];
  begin();
  in("x", F32, "3"), out("y");
  for (int i = 0; i < 40; i++) {
    Onnx__FunctionProto *f = list[i] = ARENA_NEW(arena, Onnx__FunctionProto);
    onnx__function_proto__init(f);
    f->name = arena_printf(arena, "F%d", i);
    f->domain = arena_strdup(arena, "f");
    f->input = list_of("a", &f->n_input), f->output = list_of("b", &f->n_output);
    f->node = ARENA_ARRAY(arena, Onnx__NodeProto *, 2);
    for (int k = 0; k < 2 && i < 39; k++) {
      Onnx__NodeProto *call = f->node[f->n_node++] = new_node(arena_printf(arena, "F%d", i + 1), "a", k ? "t" : "u");
      call->domain = f->domain;
    }
  }
  node("F0", "x", "u")->domain = list[0]->domain;
  node("Relu", "x", "y");
  model.functions = list, model.n_functions = 40;
  expect(DIAG_onnx_graph, "more than a million nodes", NULL);
}

/* `count` nodes of one name, in a function or not: the memory of the import. */
static size_t bytes_of(int count, bool in_function) {
  begin();
  in("x", F32, "3"), out("y");
  char *name = arena_strdup(arena, "a");
  for (int i = 0; i < count; i++) {
    const char *from = i ? arena_printf(arena, "t%d", i) : "x";
    Onnx__NodeProto *n = new_node("Relu", from, i + 1 < count ? arena_printf(arena, "t%d", i + 1) : "z");
    n->name = name;
    if (in_function) ARENA_PUSH(arena, &body, n);
    else ARENA_PUSH(arena, &nodes, n);
  }
  if (in_function) {
    function.name = arena_strdup(arena, "Long"), function.domain = arena_strdup(arena, "own");
    function.input = list_of("x", &function.n_input), function.output = list_of("z", &function.n_output);
    node("Long", "x", "z")->domain = function.domain;
  }
  node("Neg", "z", "y");
  bool ok = import();
  CHECK(ok);
  if (!ok) diags_print(diags, stderr, false);
  return arena_used(module->arena);
}

static void many_nodes_of_one_name_take_linear_work(void) {
  for (int f = 0; f < 2; f++) {
    size_t few = bytes_of(4000, f), many = bytes_of(16000, f);
    CHECKF(many < 6 * few, "%zu bytes for 4000 nodes, %zu for 16000", few, many);
  }
  HAS("%/z/a.15999 = relu");
}

/* 60000 Identity nodes in a row, of which 200 pass carried values on. */
static void chains_of_identities_are_followed_once(void) {
  enum { CHAIN = 60000, CARRIED = 200 };
  begin();
  in("x", F32, "1"), out("y0");
  ints("M", "3");
  initializers.items[0]->n_dims = 0;
  Text values = {.arena = arena}, from = {.arena = arena}, to = {.arena = arena}, results = {.arena = arena};
  text_add(&values, "M,"), text_add(&from, "t,c"), text_add(&to, "d");
  for (int i = 0; i < CARRIED; i++) {
    text_add(&values, ",x"), text_printf(&from, ",i%d", i), text_printf(&to, ",h%d", CHAIN);
    text_printf(&results, "%sy%d", i ? "," : "", i);
  }
  Onnx__GraphProto *g =
      graph_attr(node("Loop", text_str(&values), text_str(&results)), "body", text_str(&from), text_str(&to));
  g->node = ARENA_ARRAY(arena, Onnx__NodeProto *, CHAIN + 2);
  for (int i = CHAIN; i > 0; i--) /* uses before definitions */
    node_in(g, "Identity", i == 1 ? "i0" : arena_printf(arena, "h%d", i - 1), arena_printf(arena, "h%d", i));
  node_in(g, "Identity", "c", "d");
  IMPORTS();
  HAS("output \"y0\" %x");
}

static void identities_in_a_circle_end(void) {
  begin();
  in("x", F32, "1"), out("y");
  ints("M", "3");
  initializers.items[0]->n_dims = 0;
  Onnx__GraphProto *g = graph_attr(node("Loop", "M,,x", "y"), "body", "t,c,h", "d,a");
  node_in(g, "Identity", "b", "a"), node_in(g, "Identity", "a", "b"), node_in(g, "Identity", "c", "d");
  expect(DIAG_onnx_graph, "the node depends on itself", NULL);
}

int main(void) {
  RUN(dimensions_are_limited);
  RUN(made_dimensions_are_not_negative);
  RUN(depths_are_numbers_of_elements);
  RUN(scaled_dimensions_are_limited);
  RUN(windows_are_limited);
  RUN(indices_address_dimensions_that_exist);
  RUN(lengths_are_lists);
  RUN(an_implied_result_is_not_cut);
  RUN(parts_of_nothing_are_nothing);
  RUN(sizes_that_cannot_be_computed_name_their_node);
  RUN(symbols_are_limited);
  RUN(axes_and_places_exist_once);
  RUN(large_integers_are_exact);
  RUN(element_types_are_not_wrapped);
  RUN(sums_of_a_round_are_followed_once);
  RUN(parts_of_an_index_are_looked_at_a_limited_number_of_times);
  RUN(calls_count_as_nodes);
  RUN(many_nodes_of_one_name_take_linear_work);
  RUN(chains_of_identities_are_followed_once);
  RUN(identities_in_a_circle_end);
  module_free(module);
  arena_free(arena);
  return test_summary();
}
