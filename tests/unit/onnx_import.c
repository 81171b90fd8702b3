/* tests/unit/onnx_import.c - the ONNX importer: the modules that graphs become, and every way a graph can be wrong. */
#include "tests/onnx_graph.h"

/* ---- imported modules */

static void a_single_operation_has_its_nodes_name(void) {
  begin();
  in("x", F32, "batch,3"), out("y");
  node("Tanh", "x", "y");
  IMPORTS();
  HAS("%/y = tanh %x : f32[batch, 3] loc \"m.onnx\" node \"/y\"\n");
  HAS("output \"y\" %/y\n");
}

static void several_operations_are_named_below_the_node(void) {
  begin();
  in("x", F32, "4"), in("z", F32, "2,4"), out("y");
  node("Add", "x,z", "y");
  IMPORTS();
  HAS("%/y.broadcast = broadcast %x {dims=[1]} : f32[2, 4]");
  HAS("%/y = add %/y.broadcast, %z : f32[2, 4]");
}

/* Shape -> Gather -> Mul -> Unsqueeze -> Concat -> Reshape leaves one reshape. */
static void shape_arithmetic_is_folded(void) {
  begin();
  in("x", F32, "batch,seq,12"), out("y");
  ints("zero", "0"), ints("one", "1"), ints("axes", "0"), ints("heads", "3"), ints("rest", "-1");
  node("Shape", "x", "s");
  attr(node("Gather", "s,zero", "b"), "axis", INT, 0);
  node("Gather", "s,one", "q");
  node("Mul", "b,q", "bq");
  attr(node("Concat", "bq,heads,rest", "target"), "axis", INT, 0);
  node("Reshape", "x,target", "y");
  IMPORTS();
  HAS("%/y = reshape %x : f32[batch*seq, 3, 4]");
  HAS_NOT("concat");
  HAS_NOT("size");
}

/* The pattern torch writes for expand(-1, ...): ConstantOfShape, Mul by -1, Equal, Where. */
static void minus_one_of_expand_is_folded(void) {
  begin();
  in("x", F32, "batch,1"), out("y");
  ints("two", "2"), ints("minus", "-1"), ints("seven", "7");
  node("Shape", "x", "s");
  node("Slice", "s,from,to", "b");
  ints("from", "0"), ints("to", "1");
  attr(node("Concat", "minus,seven", "wanted"), "axis", INT, 0);
  Onnx__NodeProto *fill = node("ConstantOfShape", "two", "ones");
  Onnx__AttributeProto *value = attr(fill, "value", TENSOR, 0);
  value->t = initializers.items[1]; /* [-1] */
  node("Equal", "wanted,ones", "same");
  attr(node("Concat", "b,seven", "sizes"), "axis", INT, 0);
  node("Where", "same,sizes,wanted", "target");
  node("Expand", "x,target", "y");
  IMPORTS();
  HAS("%/y = broadcast %x {dims=[0, 1]} : f32[batch, 7]");
}

static void masks_are_positions_not_data(void) {
  begin();
  in("x", F32, "seq,seq"), out("y");
  Onnx__NodeProto *trilu = node("Trilu", "x", "y");
  attr(trilu, "upper", INT, 0);
  IMPORTS();
  HAS("iota {axis=0, start=0} : i64[seq, seq]");
  HAS("le %/y.iota.1, %/y.iota : bool[seq, seq]");
  HAS_NOT("param");
}

static void weights_stay_in_their_file(void) {
  begin();
  in("x", F32, "batch,4"), out("y"), out("z");
  weight("w", 4, 2);
  node("Identity", "w", "same");
  node("MatMul", "x,w", "y");
  node("MatMul", "x,same", "z");
  IMPORTS();
  HAS("param \"w\" : f32[4, 2] = blob 0 offset ");
  HAS("%/y = dot %x, %w {spec=\"mk,kn->mn\"} : f32[batch, 2]");
  HAS("%/z = dot %x, %w {");
  CHECK(module->params.n == 1 && module->params.items[0].trainable);
  const Param *p = &module->params.items[0];
  CHECK(p->strides[0] == 2 && p->strides[1] == 1 && p->offset + 32 <= module->blobs.items[p->blob].bytes);
}

static void dimensions_are_symbols_and_sums(void) {
  begin();
  in("x", F32, "batch,past + 2*seq,?"), in("odd", F32, "a/b,a b"), out("y"), out("z");
  node("Neg", "x", "y");
  node("Neg", "odd", "z");
  IMPORTS();
  HAS("f32[batch, past + 2*seq, x_dim2]");
  HAS("f32[a_b, a_b]");
  CHECK(module->symbols.items[module_symbol_find(module, "batch")].min == 0);
}

static void dimensions_can_be_bound(void) {
  begin();
  in("x", F32, "batch,past+seq"), out("y");
  node("Neg", "x", "y");
  OnnxDim dims[] = {{"past", 3}, {"batch", 2}};
  CHECK(import_with(&(OnnxImportOptions){.dims = dims, .ndims = 2}));
  HAS("f32[2, seq + 3]");
  begin();
  in("x", F32, "batch"), out("y");
  node("Neg", "x", "y");
  CHECK(!import_with(&(OnnxImportOptions){.dims = dims, .ndims = 1}));
  CHECK(diags->n == 1 && strstr(diags->items[0].message, "no dimension \"past\"; it has: batch"));
}

static void a_table_bounds_the_size_it_is_cut_at(void) {
  begin();
  in("x", F32, "seq,8"), out("y");
  weight("table", 128, 8);
  ints("zero", "0"), ints("one", "1");
  node("Shape", "x", "s");
  node("Slice", "s,zero,one", "n");
  node("Slice", "table,zero,n", "rows");
  node("Add", "x,rows", "y");
  IMPORTS();
  HAS("symbol seq max 128");
  HAS("slice %table {starts=[0, 0], strides=[1, 1]} : f32[seq, 8]");
}

/* Positions 0, 1, ... plus two index a table of 128. */
static void count_positions(const char *extent) {
  begin();
  in("x", F32, extent), out("y");
  weight("table", 128, 8);
  ints("zero", "0"), ints("one", "1"), ints("axes", "0"), ints("two", "2");
  node("Shape", "x", "s");
  node("Slice", "s,zero,one", "n1");
  node("Squeeze", "n1,axes", "n");
  node("Squeeze", "zero,axes", "from");
  node("Squeeze", "one,axes", "step");
  node("Range", "from,n,step", "p");
  node("Add", "p,two", "p2");
  node("Gather", "table,p2", "rows");
  node("Add", "x,rows", "y");
}

static void a_table_bounds_the_positions_that_index_it(void) {
  count_positions("seq,8");
  IMPORTS();
  HAS("symbol seq max 126");
  count_positions("past+seq,8"); /* neither is bounded by itself */
  IMPORTS();
  HAS_NOT("max");
  count_positions("126,8");
  IMPORTS();
  count_positions("127,8");
  expect(DIAG_onnx_node, "129 positions index a table of 128", NULL);
}

static void indices_are_wrapped_only_when_they_may_be_negative(void) {
  begin();
  in("i", I64, "seq"), out("y"), out("z");
  weight("table", 10, 2);
  ints("zero", "0"), ints("one", "1"), ints("axes", "0");
  node("Gather", "table,i", "y");
  node("Shape", "i", "s");
  node("Squeeze", "s,axes", "n");
  node("Squeeze", "zero,axes", "from");
  node("Squeeze", "one,axes", "step");
  node("Range", "from,n,step", "p");
  node("Gather", "table,p", "z");
  IMPORTS();
  HAS("%/y = gather %table, %/y.select");
  HAS("%/z = gather %table, %/p {");
}

static void nodes_may_come_in_any_order(void) {
  begin();
  in("x", F32, "3"), out("y");
  node("Neg", "h", "y");
  node("Abs", "x", "h");
  IMPORTS();
  HAS("%/h = abs %x");
}

static void what_no_output_needs_is_dropped(void) {
  begin();
  in("x", F32, "3"), out("y");
  node("Abs", "x", "y");
  node("NoSuchOperator", "x", "unused");
  IMPORTS();
  HAS_NOT("unused");
}

static void functions_are_expanded(void) {
  begin();
  in("x", F32, "2,3"), out("y");
  function.name = arena_strdup(arena, "Shift");
  function.domain = arena_strdup(arena, "mine");
  function.input = list_of("a", &function.n_input);
  function.output = list_of("b", &function.n_output);
  ARENA_PUSH(arena, &body, new_node("Neg", "a", "t"));
  Onnx__NodeProto *concat = new_node("Concat", "a,t", "b");
  attr(concat, "axis", INT, 0)->ref_attr_name = arena_strdup(arena, "where");
  ARENA_PUSH(arena, &body, concat);
  Onnx__NodeProto *call = node("Shift", "x", "y");
  call->domain = arena_strdup(arena, "mine");
  attr(call, "where", INT, 1);
  IMPORTS();
  HAS("%/y//t = neg %x");
  HAS("concat %x, ");
  HAS("axis=1} : f32[2, 6]");
}

static void softmax_before_13_flattens(void) {
  begin();
  opset = 11;
  in("x", F32, "2,3,4"), out("y");
  attr(node("Softmax", "x", "y"), "axis", INT, 1);
  IMPORTS();
  HAS("softmax %/y.reshape {axis=1} : f32[2, 12]");
}

/* ---- graphs that are wrong */

static void graphs_that_are_wrong(void) {
  begin();
  in("x", F32, "3"), out("y");
  node("Add", "x,z", "y");
  node("Neg", "y", "z");
  expect(DIAG_onnx_graph, "depends on itself", "/z");
  begin();
  in("x", F32, "3"), out("y");
  node("Add", "x,ghost", "y");
  expect(DIAG_onnx_graph, "\"ghost\" is defined nowhere", "/y");
  begin();
  in("x", F32, "3"), out("y");
  node("Neg", "x", "y");
  node("Abs", "x", "y");
  expect(DIAG_onnx_graph, "\"y\" is defined twice", "/y.1");
  begin();
  in("x", F32, "3"), in("x", F32, "3"), out("x");
  expect(DIAG_onnx_graph, "\"x\" is defined twice", NULL);
  begin();
  in("x", F32, "3"), out("ghost");
  expect(DIAG_onnx_graph, "output \"ghost\" is defined nowhere", NULL);
  begin();
  in("x", F32, "3"), out("y"), out("y");
  node("Neg", "x", "y");
  expect(DIAG_onnx_graph, "named twice", NULL);
  begin();
  in("x", STRING, "3"), out("x");
  expect(DIAG_onnx_graph, "STRING", NULL);
  begin();
  in("x", F32, NULL), out("x");
  expect(DIAG_onnx_graph, "no shape", NULL);
  begin();
  in("x", F32, "1,2,3,4,5,6,7,8,9"), out("x");
  expect(DIAG_onnx_graph, "9 dimensions", NULL);
  begin();
  opset = 29;
  in("x", F32, "3"), out("x");
  expect(DIAG_onnx_opset, "operator set 29", NULL);
}

static void unsupported_operators_come_all_at_once(void) {
  begin();
  in("x", F32, "3"), out("y");
  node("Alpha", "x", "a");
  node("Beta", "a", "b");
  node("Alpha", "b", "c")->domain = arena_strdup(arena, "com.example");
  node("Alpha", "c", "y");
  expect(DIAG_onnx_unsupported, "operator Alpha is not supported at operator set 17 (2 nodes)", NULL);
  expect(DIAG_onnx_unsupported, "operator Beta is not supported", NULL);
  CHECK(diags->errors >= 3);
}

/* Operators that ONNX Runtime fused, and apc lacks, are named, with advice. */
static void optimised_models_are_refused_with_help(void) {
  begin();
  in("x", F32, "3"), out("y");
  node("BeamSearch", "x,x", "y")->domain = arena_strdup(arena, "com.microsoft");
  expect(DIAG_onnx_unsupported, "operator com.microsoft.BeamSearch is not supported", NULL);
  bool helped = false;
  for (size_t i = 0; i < diags->n; i++)
    helped = helped || strstr(diags->items[i].message, "give apc the model before optimisation");
  CHECK(helped);
}

/* Declared types are used; undeclared ones come from the first input. */
static void unknown_operators_can_be_opaque(void) {
  begin();
  in("x", F32, "batch,3");
  ARENA_PUSH(arena, &outputs, value_info("y", I64, "batch,5,?"));
  node("Alpha", "x", "a");
  node("Beta", "a,,x", "y,,unused")->domain = arena_strdup(arena, "com.example");
  CHECK(import_with(&(OnnxImportOptions){.unknown_as_opaque = true}));
  CHECK(diags->n == 0);
  HAS("opaque %x {kind=\"Alpha\", name=\"/a\", result=0, assumed=1} : f32[batch, 3]");
  HAS("{kind=\"com.example.Beta\", name=\"/y,,unused\", result=0} : i64[batch, 5, y_dim2]");
  begin();
  in("x", F32, "batch,3");
  ARENA_PUSH(arena, &outputs, value_info("y", F32, "unk__1,5"));
  node("Alpha", "x", "y");
  CHECK(import_with(&(OnnxImportOptions){.unknown_as_opaque = true}));
  HAS("result=0, assumed=1} : f32[batch, 5]");
}

static void nodes_that_are_wrong(void) {
  begin();
  in("x", F32, "3"), out("y");
  node("Add", "x", "y");
  expect(DIAG_onnx_node, "Add: 1 inputs", "/y");
  begin();
  in("x", F32, "3"), out("y");
  node("Add", "x,", "y");
  expect(DIAG_onnx_node, "input 1 is missing", "/y");
  begin();
  in("x", F32, "3"), out("y");
  node("Neg", "x,x", "y");
  expect(DIAG_onnx_node, "2 inputs", "/y");
  begin();
  in("x", F32, "3"), out("y");
  attr(node("Neg", "x", "y"), "axis", INT, 0);
  expect(DIAG_onnx_node, "has no attribute \"axis\"", "/y");
  begin();
  in("x", F32, "3"), out("y");
  attr(node("Softmax", "x", "y"), "axis", INTS, 0);
  expect(DIAG_onnx_node, "attribute \"axis\" has the wrong type", "/y");
  begin();
  in("x", F32, "3"), out("y");
  attr(node("Softmax", "x", "y"), "axis", INT, 1);
  expect(DIAG_onnx_node, "axis 1 is outside a tensor of rank 1", "/y");
  begin();
  in("x", F32, "3"), out("y");
  Onnx__NodeProto *twice = node("Softmax", "x", "y");
  attr(twice, "axis", INT, 0), attr(twice, "axis", INT, 0);
  expect(DIAG_onnx_node, "given twice", "/y");
  begin();
  in("x", F32, "2,3"), in("z", F32, "4"), out("y");
  node("Add", "x,z", "y");
  expect(DIAG_onnx_node, "do not broadcast", "/y");
  begin();
  in("x", F32, "2,3"), in("z", F32, "4,5"), out("y");
  node("MatMul", "x,z", "y");
  expect(DIAG_onnx_node, "cannot be multiplied", "/y");
  begin();
  in("x", F32, "2,3"), out("y");
  ints("s", "4,-1");
  node("Reshape", "x,s", "y");
  expect(DIAG_onnx_node, "cannot be reshaped", "/y");
  begin();
  in("x", F32, "2,3"), in("i", I64, "2,3"), out("y");
  node("Add", "x,i", "y");
  expect(DIAG_ir_verify, "operands differ", "/y");
  begin();
  in("x", F32, "2"), out("y");
  ints("s", "5");
  attr(node("Gather", "x,s", "y"), "axis", INT, 0);
  expect(DIAG_onnx_node, "index [0] is 5; it must be -2 to 1", "/y");
  begin();
  in("x", F32, "2,3"), out("y");
  node("Einsum", "x,x", "y");
  expect(DIAG_onnx_node, "Einsum", "/y");
}

static void many_operands_are_multiplied_in_the_cheapest_order(void) {
  begin();
  in("x", F32, "b,8,2"), in("y", F32, "b,2,9"), in("z", F32, "1,9,1"), out("u");
  string_attr(node("Einsum", "x,y,z", "u"), "equation", "...ij,...jk,...kl->...il");
  IMPORTS();
  HAS("{spec=\"Zjk,kl->Zjl\"} : f32[b, 2, 1]"); /* y z first: 18 multiplications, not 144 */
  HAS("{spec=\"Zij,Zjl->Zil\"} : f32[b, 8, 1]");
}

/* All letters may be used, capitals too; an ellipsis gets other letters. */
static void letters_of_an_equation(void) {
  begin();
  in("x", F32, "b,h,8,2"), in("y", F32, "c,h,2,9"), out("u");
  string_attr(node("Einsum", "x,y", "u"), "equation", "...ZY,...YX->...ZX");
  IMPORTS();
  HAS("%y = input {name=\"y\"} : f32[b, h, 2, 9]"); /* extents of equal letters are equal */
  HAS("{spec=\"VWZY,VWYX->VWZX\"} : f32[b, h, 8, 9]");
  begin();
  in("x", F32, "3,4"), in("y", F32, "4,5"), out("u");
  string_attr(node("Einsum", "x,y", "u"), "equation", "SZ,Za"); /* capitals first */
  IMPORTS();
  HAS(" : f32[3, 5]");
  begin();
  in("x", F32, "3,4"), in("y", F32, "5,6"), out("u");
  string_attr(node("Einsum", "x,y", "u"), "equation", "ab,bc->ac");
  expect(DIAG_onnx_node, "'b' has two extents", "/u");
}

static void shapes_from_data_are_refused(void) {
  begin();
  in("x", F32, "6"), in("s", I64, "2"), out("y");
  node("Reshape", "x,s", "y");
  expect(DIAG_onnx_shape, "the shape (input \"s\") is computed from data", "/y");
}

/* Operators of one condition have one computed size, so that their results fit each other. */
static void sizes_from_data_are_bound(void) {
  begin();
  in("x", F32, "n"), in("m", BOOL, "n"), out("y");
  node("NonZero", "m", "a"), node("NonZero", "m", "b"), node("Compress", "x,m", "c"), node("Add", "a,b", "s");
  node("Cast", "s", "f"), attr(nodes.items[nodes.n - 1], "to", INT, 1), node("Add", "f,c", "y");
  IMPORTS();
  HAS("symbol a_size most n");
  HAS("f32[1, a_size]");
  HAS_NOT("b_size]");
  begin();
  in("x", F32, "3,5"), in("k", I64, "1"), out("y"), out("i");
  node("TopK", "x,k", "y,i");
  IMPORTS();
  HAS("most 5");
}

static void functions_that_call_themselves_are_refused(void) {
  begin();
  in("x", F32, "3"), out("y");
  function.name = arena_strdup(arena, "Again");
  function.input = list_of("a", &function.n_input);
  function.output = list_of("b", &function.n_output);
  ARENA_PUSH(arena, &body, new_node("Again", "a", "b"));
  node("Again", "x", "y");
  expect(DIAG_onnx_graph, "call each other too deeply", NULL);
}

static bool is_weight(const char *name) {
  const Param *p = module_param(module, name);
  return p && p->trainable;
}

/* Initializers of one element: a bias of every kind, a slope after a reshape, a scale, a bound. */
static void numbers_of_layers(void) {
  static const float half = 0.5f;
  static const char *const names[] = {"bias", "added", "conv.bias", "slope", "one", "scale", "low"};
  begin();
  in("x", F32, "4,3"), in("image", F32, "1,1,4,4"), out("y"), out("z");
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) floats(names[i], 1, &half);
  initializers.items[4]->n_dims = 2; /* [1, 1] */
  initializers.items[4]->dims = ARENA_ARRAY(arena, int64_t, 2);
  initializers.items[4]->dims[0] = initializers.items[4]->dims[1] = 1;
  initializers.items[6]->n_dims = 0;
  weight("w", 3, 1), weight("k", 9, 1);
  initializers.items[8]->n_dims = 4;
  initializers.items[8]->dims = ARENA_ARRAY(arena, int64_t, 4);
  for (int i = 0; i < 4; i++) initializers.items[8]->dims[i] = i < 2 ? 1 : 3;
  ints("shape", "1,1");
  node("Gemm", "x,w,bias", "a");
  node("MatMul", "a,one", "b");
  node("Add", "added,b", "c");
  node("Reshape", "slope,shape", "s");
  node("PRelu", "c,s", "d");
  node("Mul", "d,scale", "e");
  node("Clip", "e,low", "y");
  node("Conv", "image,k,conv.bias", "z");
  IMPORTS();
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) CHECKF(!module_param(module, names[i]), "%s", names[i]);
  CHECK(import_with(&(OnnxImportOptions){.training = true}));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) CHECKF(is_weight(names[i]) == (i < 5), "%s", names[i]);
  CHECK(import_with(&(OnnxImportOptions){.training = true, .trained = "s*"}));
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    CHECKF(is_weight(names[i]) == (names[i][0] == 's'), "%s", names[i]);
}

/* Weights without bytes of their own in the file, such as f16 in a list of i32, cannot be trained, which is
   reported. */
static void numbers_one_by_one(void) {
  begin();
  in("x", F16, "4,2"), out("y");
  weight("w", 2, 1);
  Onnx__TensorProto *t = initializers.items[0];
  t->has_raw_data = 0;
  t->data_type = F16;
  t->n_int32_data = 2;
  t->int32_data = ARENA_ARRAY(arena, int32_t, 2);
  node("MatMul", "x,w", "y");
  IMPORTS();
  CHECK(diags->n == 0);
  CHECK(import_with(&(OnnxImportOptions){.training = true}));
  CHECK(diags->n == 1 && !diags->errors && strstr(diags->items[0].message, "\"w\" is stored number by number"));
}

int main(void) {
  RUN(numbers_of_layers);
  RUN(numbers_one_by_one);
  RUN(a_single_operation_has_its_nodes_name);
  RUN(several_operations_are_named_below_the_node);
  RUN(shape_arithmetic_is_folded);
  RUN(minus_one_of_expand_is_folded);
  RUN(masks_are_positions_not_data);
  RUN(weights_stay_in_their_file);
  RUN(dimensions_are_symbols_and_sums);
  RUN(dimensions_can_be_bound);
  RUN(a_table_bounds_the_size_it_is_cut_at);
  RUN(a_table_bounds_the_positions_that_index_it);
  RUN(indices_are_wrapped_only_when_they_may_be_negative);
  RUN(nodes_may_come_in_any_order);
  RUN(what_no_output_needs_is_dropped);
  RUN(functions_are_expanded);
  RUN(softmax_before_13_flattens);
  RUN(graphs_that_are_wrong);
  RUN(unsupported_operators_come_all_at_once);
  RUN(optimised_models_are_refused_with_help);
  RUN(unknown_operators_can_be_opaque);
  RUN(nodes_that_are_wrong);
  RUN(letters_of_an_equation);
  RUN(many_operands_are_multiplied_in_the_cheapest_order);
  RUN(shapes_from_data_are_refused);
  RUN(sizes_from_data_are_bound);
  RUN(functions_that_call_themselves_are_refused);
  module_free(module);
  arena_free(arena);
  return test_summary();
}
