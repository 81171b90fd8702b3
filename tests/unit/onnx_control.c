/* tests/unit/onnx_control.c - If, Loop and Scan of ONNX: their results, and refusals.
 *
 * With a kind and a file name, writes a model with a Loop or an If to it instead (tests/cli/loops.sh runs them on
 * several ranks). */
#include "tests/onnx_run.h"

/* ---- If */

/* y = c ? x + w : (x * w) - x, with w from outside. */
static void build_if(void) {
  out("y");
  Onnx__NodeProto *n = node("If", "c", "y");
  Onnx__GraphProto *yes = graph_attr(n, "then_branch", "", "a"), *no = graph_attr(n, "else_branch", "", "a");
  node_in(yes, "Add", "x,w", "a");
  node_in(no, "Mul", "x,w", "b");
  node_in(no, "Sub", "b,x", "a");
}

static void a_branch_is_chosen_when_it_runs(void) {
  for (int c = 0; c < 2; c++) {
    start(17);
    given("c", BOOL, "", c ? "1" : "0"), given("x", F32, "2", "3,4"), given("w", F32, "2", "10,20");
    build_if();
    RUNS();
    GIVES("y", c ? "13,24" : "27,76");
    HAS("{trips=1}");
  }
}

static void a_known_condition_is_its_branch(void) {
  start(17);
  in("x", F32, "batch,4"), out("y");
  ints("four", "4"), ints("axis", "1");
  node("Shape", "x", "s");
  node("Gather", "s,axis", "d");
  node("Equal", "d,four", "c");
  Onnx__NodeProto *n = node("If", "c", "y");
  node_in(graph_attr(n, "then_branch", "", "y1"), "Relu", "x", "y1");
  node_in(graph_attr(n, "else_branch", "", "y2"), "NoSuchOperator", "x", "y2"); /* not examined */
  IMPORTS();
  HAS("= relu %x");
  HAS_NOT(" loop ");
}

static void a_branch_may_be_a_value_from_outside(void) {
  for (int c = 0; c < 2; c++) {
    start(17);
    given("c", BOOL, "1", c ? "1" : "0"), given("x", F32, "2", "3,4"), out("y"), out("z");
    weight("k", 1, 2);
    Onnx__NodeProto *n = node("If", "c", "y,z");
    node_in(graph_attr(n, "then_branch", "", "x,u"), "Neg", "x", "u");
    Onnx__GraphProto *no = graph_attr(n, "else_branch", "", "v,x");
    node_in(no, "Neg", "x", "v");
    RUNS();
    GIVES("y", c ? "3,4" : "-3,-4");
    GIVES("z", c ? "-3,-4" : "3,4");
  }
}

/* y and z = n == 0 ? nothing : the positive elements of x, and their number, as exporters guard a suppression of boxes;
 * both branches bind sizes, so both are computed. */
static void branches_whose_sizes_data_decide(void) {
  static const struct { const char *c, *y, *z; } cases[] = {{"0", "3,5,4", "3"}, {"1", "nothing", "7"}};
  for (int k = 0; k < 2; k++) {
    start(17);
    given("c", BOOL, "", cases[k].c), given("x", F32, "4", "3,-1,5,4"), out("y"), out("z");
    weight("none", 1, 0), initializers.items[0]->n_dims = 1, initializers.items[0]->dims[0] = 0;
    ints("seven", "7");
    floats("zero", 1, (float[]){0});
    Onnx__NodeProto *n = node("If", "c", "y,z");
    Onnx__GraphProto *yes = graph_attr(n, "then_branch", "", "a,b"), *no = graph_attr(n, "else_branch", "", "c,d");
    node_in(yes, "Identity", "none", "a"), node_in(yes, "Identity", "seven", "b");
    node_in(no, "Greater", "x,zero", "m"), node_in(no, "Compress", "x,m", "c"), node_in(no, "Shape", "c", "d");
    RUNS();
    GIVES("y", cases[k].y);
    GIVES("z", cases[k].z);
    HAS_NOT(" loop ");
  }
}

/* The branches' results differ in their first dimension: 1 row, or as many as data say. */
static void branches_with_rows_of_both(void) {
  for (int c = 0; c < 2; c++) {
    start(17);
    given("c", BOOL, "", c ? "1" : "0"), given("x", F32, "3,2", "1,2,3,4,5,6"), given("m", BOOL, "3", "1,0,1");
    given("w", F32, "1,2", "8,9"), out("y");
    Onnx__NodeProto *n = node("If", "c", "y");
    node_in(graph_attr(n, "then_branch", "", "a"), "Neg", "w", "a");
    Onnx__GraphProto *no = graph_attr(n, "else_branch", "", "b");
    attr(node_in(no, "Compress", "x,m", "b"), "axis", INT, 0);
    RUNS();
    GIVES("y", c ? "-8,-9" : "1,2,5,6");
  }
  start(17);
  in("c", BOOL, ""), in("x", F32, "3"), in("w", F32, "1,3"), out("y");
  Onnx__NodeProto *n = node("If", "c", "y");
  node_in(graph_attr(n, "then_branch", "", "a"), "Neg", "w", "a");
  node_in(graph_attr(n, "else_branch", "", "b"), "NonZero", "x", "at");
  node_in(n->attribute[1]->g, "Transpose", "at", "b");
  expect(DIAG_onnx_shape, "at most one dimension may differ", "/y");
}

/* ---- Loop */

/* h = h * h - t, stops after the round in which h > limit; rows collects h. */
static Onnx__GraphProto *square_loop(const char *operands, const char *results) {
  Onnx__NodeProto *n = node("Loop", operands, results);
  Onnx__GraphProto *g = graph_attr(n, "body", "t,more,h", "go,h2,row");
  node_in(g, "Mul", "h,h", "square");
  Onnx__NodeProto *to_float = node_in(g, "Cast", "t", "tf");
  attr(to_float, "to", INT, F32);
  node_in(g, "Sub", "square,tf", "h2");
  node_in(g, "Identity", "h2", "row");
  return g;
}

static void a_loop_collects_its_rounds(void) {
  start(17);
  given("x", F32, "2", "2,1"), out("y"), out("rows");
  ints("three", "3");
  Onnx__GraphProto *g = square_loop("three,,x", "y,rows");
  node_in(g, "Identity", "more", "go");
  RUNS();
  GIVES("y", "223,-2"); /* 2: 4, 15, 223; 1: 1, 0, -2 */
  GIVES("rows", "4,1,15,0,223,-2");
  HAS("{trips=3}");
  HAS("= update");
}

static void a_loop_ends_by_its_condition(void) {
  static const char *const limits[] = {"100", "10", "-1"}, *const ends[] = {"223", "15", "2"};
  for (int i = 0; i < 3; i++) {
    start(17);
    given("x", F32, "1", "2"), given("limit", F32, "1", limits[i]), given("first", BOOL, "", i == 2 ? "0" : "1"),
        out("y");
    ints("most", "9223372036854775807");
    Onnx__GraphProto *g = square_loop("most,first,x", "y,");
    node_in(g, "LessOrEqual", "h2,limit", "go");
    RUNS();
    GIVES("y", ends[i]);
  }
}

static void the_number_of_rounds_may_be_computed(void) {
  for (int rounds = 0; rounds < 3; rounds++) {
    start(17);
    given("n", I64, "", arena_printf(arena, "%d", rounds)), given("x", F32, "1", "3"), out("y");
    Onnx__GraphProto *g = square_loop("n,,x", "y,");
    node_in(g, "Identity", "more", "go");
    RUNS();
    GIVES("y", rounds == 0 ? "3" : rounds == 1 ? "9" : "80");
  }
}

/* A value that is only passed on is visible as it is: its size determines shapes in the body. */
static void what_is_handed_on_is_no_carry(void) {
  start(17);
  given("x", F32, "1", "1"), given("w", F32, "3", "1,2,3"), out("y"), out("same");
  ints("two", "2"), ints("axes", "0");
  Onnx__NodeProto *n = node("Loop", "two,,x,shape,w", "y,,same");
  node("Shape", "w", "shape");
  Onnx__GraphProto *g = graph_attr(n, "body", "t,more,h,s,v", "more,h2,s2,v");
  node_in(g, "Identity", "s", "s2");
  node_in(g, "Expand", "h,s", "wide");
  node_in(g, "Mul", "wide,v", "product");
  Onnx__NodeProto *sum = node_in(g, "ReduceSum", "product,axes", "h2");
  attr(sum, "keepdims", INT, 1);
  RUNS();
  GIVES("y", "36");
  GIVES("same", "1,2,3");
}

static void carried_values_may_be_swapped_and_loops_nested(void) {
  start(17);
  given("a", F32, "", "1"), given("b", F32, "", "10"), out("p"), out("q");
  ints("three", "3");
  Onnx__NodeProto *n = node("Loop", "three,,a,b", "p,q");
  Onnx__GraphProto *g = graph_attr(n, "body", "t,more,x,y", "more,y,z");
  Onnx__NodeProto *inner = node_in(g, "Loop", "t,,x", "z");
  Onnx__GraphProto *h = graph_attr(inner, "body", "u,again,v", "again,v2");
  node_in(h, "Add", "v,y", "v2");
  RUNS();
  GIVES("p", "11"); /* (1, 10), (10, 1), (1, 11), (11, 23): z = x + t * y */
  GIVES("q", "23");
}

static void a_slice_moves_with_the_round(void) {
  start(17);
  given("x", F32, "6", "1,2,3,4,5,6"), given("h", F32, "2", "0,0"), out("y");
  ints("three", "3"), ints("two", "2"), ints("axes", "0");
  Onnx__NodeProto *n = node("Loop", "three,,h", "y");
  Onnx__GraphProto *g = graph_attr(n, "body", "t,more,s", "more,s2");
  node_in(g, "Mul", "t,two", "from");
  node_in(g, "Add", "from,two", "to");
  node_in(g, "Slice", "x,from,to,axes", "part");
  node_in(g, "Add", "s,part", "s2");
  RUNS();
  GIVES("y", "9,12");
}

/* ---- Scan */

static void scans_run_along_any_axis_in_both_directions(void) {
  start(17);
  given("h", F32, "2", "0,0"), given("x", F32, "2,3", "1,2,3,4,5,6"), given("w", F32, "3,2", "1,1,10,10,100,100"),
      out("last"), out("rows"), out("back");
  Onnx__NodeProto *n = node("Scan", "h,x,w", "last,rows,back");
  attr(n, "num_scan_inputs", INT, 2);
  int_list_attr(n, "scan_input_axes", "1,-2");
  int_list_attr(n, "scan_input_directions", "0,1");
  int_list_attr(n, "scan_output_axes", "-1,0");
  int_list_attr(n, "scan_output_directions", "0,1");
  Onnx__GraphProto *g = graph_attr(n, "body", "s,a,b", "s2,s3,s2");
  node_in(g, "Mul", "a,b", "ab");
  node_in(g, "Add", "s,ab", "s2");
  node_in(g, "Neg", "s2", "s3");
  RUNS();
  GIVES("last", "123,456"); /* columns of x from the left, rows of w from below */
  GIVES("rows", "-100,-120,-123,-400,-450,-456");
  GIVES("back", "123,456,120,450,100,400");
}

static void scans_of_operator_set_8_have_a_batch(void) {
  start(8);
  given("lengths", I64, "2", "3,1"), given("h", F32, "2,1", "0,100"), given("x", F32, "2,3,1", "1,2,3,4,5,6"),
      out("last"), out("rows");
  Onnx__NodeProto *n = node("Scan", "lengths,h,x", "last,rows");
  attr(n, "num_scan_inputs", INT, 1);
  node_in(graph_attr(n, "body", "s,a", "s2,s2"), "Add", "s,a", "s2");
  RUNS();
  GIVES("last", "6,104");
  GIVES("rows", "1,3,6,104,0,0");
}

static void a_scan_of_symbolic_length_imports(void) {
  start(17);
  in("h", F32, "batch,4"), in("x", F32, "seq,batch,4"), out("rows");
  Onnx__NodeProto *n = node("Scan", "h,x", ",rows");
  attr(n, "num_scan_inputs", INT, 1);
  node_in(graph_attr(n, "body", "s,a", "s2,s2"), "Add", "s,a", "s2");
  IMPORTS();
  HAS("{trips=seq}");
  HAS(": f32[seq, batch, 4]");
}

/* ---- functions of the model */

static void graphs_inside_functions_are_renamed(void) {
  start(17);
  given("c", BOOL, "", "1"), given("x", F32, "1", "3"), out("y");
  node("Pick", "c,x", "y");
  function.name = arena_strdup(arena, "Pick");
  function.input = list_of("p,v", &function.n_input);
  function.output = list_of("r", &function.n_output);
  Onnx__NodeProto *twice = new_node("Add", "v,v", "x"), *n = new_node("If", "p", "r"); /* x is not the caller's x */
  node_in(graph_attr(n, "then_branch", "", "u"), "Mul", "x,v", "u");
  node_in(graph_attr(n, "else_branch", "", "u"), "Neg", "x", "u");
  ARENA_PUSH(arena, &body, twice);
  ARENA_PUSH(arena, &body, n);
  RUNS();
  GIVES("y", "18");
}

/* ---- refusals */

static void sizes_that_depend_on_data_are_refused(void) {
  start(17);
  in("c", BOOL, ""), in("x", F32, "2"), in("z", F32, "3"), out("y");
  Onnx__NodeProto *n = node("If", "c", "y");
  node_in(graph_attr(n, "then_branch", "", "a"), "Neg", "x", "a");
  node_in(graph_attr(n, "else_branch", "", "a"), "Neg", "z", "a");
  expect(DIAG_onnx_shape, "output 0 is f32[2] in one branch and f32[3] in the other", "/y");

  start(17);
  in("n", I64, ""), in("x", F32, "1"), out("y"), out("rows");
  node_in(square_loop("n,,x", "y,rows"), "Identity", "more", "go");
  expect(DIAG_onnx_shape, "their number depends on data", "/y,rows");

  start(17);
  in("x", F32, "1"), in("first", BOOL, ""), out("y"), out("rows");
  ints("three", "3");
  node_in(square_loop("three,first,x", "y,rows"), "Greater", "h2,x", "go");
  expect(DIAG_onnx_shape, "their number depends on data", "/y,rows");

  start(17);
  in("x", F32, "2"), out("y");
  ints("three", "3");
  n = node("Loop", "three,,x", "y");
  Onnx__GraphProto *g = graph_attr(n, "body", "t,more,h", "more,h2");
  attr(node_in(g, "Concat", "h,x", "h2"), "axis", INT, 0);
  expect(DIAG_onnx_shape, "\"h2\" is f32[2] before a round and f32[4] after it", "/y");

  start(17);
  in("x", F32, "5"), in("h", F32, "1"), out("y");
  ints("six", "6"), ints("one", "1"), ints("axes", "0");
  n = node("Loop", "six,,h", "y");
  g = graph_attr(n, "body", "t,more,s", "more,part");
  node_in(g, "Add", "t,one", "to");
  node_in(g, "Reshape", "t,one", "from");
  node_in(g, "Slice", "x,from,to,axes", "part");
  expect(DIAG_onnx_shape, "cannot tell whether the slice exceeds axis 0 of f32[5]", "/y/part");
}

/* The graph of a choice between Neg and that operator. */
static void choice_with(const char *type) {
  graph.n_node = nodes.n = inputs.n = outputs.n = 0;
  start(17);
  in("c", BOOL, ""), in("x", F32, "2"), out("y");
  Onnx__NodeProto *n = node("If", "c", "y");
  node_in(graph_attr(n, "then_branch", "", "a"), "Neg", "x", "a");
  node_in(graph_attr(n, "else_branch", "", "a"), type, "x", "a");
}

static void what_does_not_fit_is_refused(void) {
  start(17);
  in("c", BOOL, "2"), in("x", F32, "2"), in("w", F32, "2");
  build_if();
  expect(DIAG_onnx_node, "the condition is bool[2]", "/y");
  start(17);
  in("x", F32, "2"), out("y");
  ints("three", "3");
  graph_attr(node("Loop", "three,,x,x", "y"), "body", "t,more,h", "more,h");
  expect(DIAG_onnx_node, "2 values are carried", "/y");
  start(17);
  in("x", F32, "2"), out("y");
  node("Loop", ",,x", "y");
  expect(DIAG_onnx_node, "has no graph \"body\"", "/y");
  start(17);
  in("x", F32, "2,3"), in("z", F32, "4,3"), out("y");
  Onnx__NodeProto *n = node("Scan", "x,z", "y");
  attr(n, "num_scan_inputs", INT, 2);
  node_in(graph_attr(n, "body", "a,b", "c"), "Add", "a,b", "c");
  expect(DIAG_onnx_node, "are not scanned together", "/y");
  start(17);
  in("c", BOOL, ""), in("x", F32, "2"), out("y");
  n = node("If", "c", "y");
  node_in(graph_attr(n, "then_branch", "", "a"), "Neg", "nowhere", "a");
  node_in(graph_attr(n, "else_branch", "", "a"), "Multinomial", "x", "a");
  expect(DIAG_onnx_graph, "\"nowhere\" is defined nowhere", "/y");
  start(17);
  in("k", I64, ""), in("x", F32, "2"), out("y");
  n = node("Loop", "k,,x", "y");
  Onnx__GraphProto *rounds = graph_attr(n, "body", "i,c,v", "c,u");
  node_in(rounds, "Unique", "v", "u");
  expect(DIAG_onnx_shape, "Unique: the size of its result depends on data, in a loop or branch", NULL);
  choice_with("Unknown");
  expect(DIAG_onnx_unsupported, "Unknown", NULL);
}

/* ---- models for the command line */

/* A layer applied `n` times, or until the sum of its result is large; both decided by an input. */
static void build_model(bool loop) {
  start(17);
  in("x", F32, "batch,6"), in(loop ? "n" : "c", loop ? I64 : BOOL, ""), out("y");
  weight("w", 6, 6), weight("v", 6, 6);
  for (int k = 0; k < 2; k++)
    for (int i = 0; i < 36; i++)
      ((float *)(void *)initializers.items[k]->raw_data.data)[i] = (float)((i * 7 + k * 3) % 11 - 5) / 16;
  if (!loop) {
    Onnx__NodeProto *n = node("If", "c", "y");
    Onnx__GraphProto *yes = graph_attr(n, "then_branch", "", "a"), *no = graph_attr(n, "else_branch", "", "a");
    node_in(yes, "MatMul", "x,w", "m"), node_in(yes, "Relu", "m", "a");
    node_in(no, "MatMul", "x,v", "m"), node_in(no, "Tanh", "m", "a");
    return;
  }
  Onnx__GraphProto *g = graph_attr(node("Loop", "n,,x", "y"), "body", "t,more,h", "more,h2");
  node_in(g, "MatMul", "h,w", "m"), node_in(g, "Tanh", "m", "a"), node_in(g, "Add", "a,x", "h2");
}

static bool write_model(const char *kind, const char *path) {
  build_model(strcmp(kind, "loop") == 0);
  if (!import()) {
    diags_print(diags, stderr, false);
    return false;
  }
  return write_graph(path);
}

int main(int argc, char **argv) {
  if (argc == 3) return write_model(argv[1], argv[2]) ? 0 : 1;
  RUN(a_branch_is_chosen_when_it_runs);
  RUN(a_known_condition_is_its_branch);
  RUN(a_branch_may_be_a_value_from_outside);
  RUN(branches_whose_sizes_data_decide);
  RUN(branches_with_rows_of_both);
  RUN(a_loop_collects_its_rounds);
  RUN(a_loop_ends_by_its_condition);
  RUN(the_number_of_rounds_may_be_computed);
  RUN(what_is_handed_on_is_no_carry);
  RUN(carried_values_may_be_swapped_and_loops_nested);
  RUN(a_slice_moves_with_the_round);
  RUN(scans_run_along_any_axis_in_both_directions);
  RUN(scans_of_operator_set_8_have_a_batch);
  RUN(a_scan_of_symbolic_length_imports);
  RUN(graphs_inside_functions_are_renamed);
  RUN(sizes_that_depend_on_data_are_refused);
  RUN(what_does_not_fit_is_refused);
  module_free(module);
  arena_free(arena);
  return test_summary();
}
