/* tests/unit/onnx_operators.c - the IR of single ONNX operators, and refusals.  tests/onnx/node_tests.c tests their
 * numbers. */
#include "tests/onnx_graph.h"

/* ---- picking and scattering */

static void the_k_largest_are_one_operation(void) {
  begin();
  in("x", F32, "batch,9"), out("v"), out("i");
  ints("k", "3");
  attr(node("TopK", "x,k", "v,i"), "axis", INT, 1);
  IMPORTS();
  HAS("topk %x {axis=1, descending=1, k=3} : f32[batch, 3], i64[batch, 3]");
  begin();
  in("x", F32, "batch,9"), out("i");
  ints("k", "3");
  attr(node("TopK", "x,k", ",i"), "axis", INT, 1);
  IMPORTS();
  HAS("topk %x {axis=1, descending=1, k=3} : f32[batch, 3], i64[batch, 3]");
  begin();
  in("x", F32, "2,9"), out("v"), out("i");
  ints("k", "10");
  node("TopK", "x,k", "v,i");
  expect(DIAG_onnx_node, "k is 10", "/v,i");
}

/* All, and the first 4 or all, depending on the shape of x. */
static void how_many_are_taken_may_be_a_size(void) {
  begin();
  in("x", F32, "batch,n"), out("v"), out("i");
  ints("one", "1"), ints("four", "4");
  node("Shape", "x", "s"), node("Gather", "s,one", "k");
  node("TopK", "x,k", "v,i");
  IMPORTS();
  HAS("topk %x {axis=1, descending=1, k=n} : f32[batch, n], i64[batch, n]");
  begin();
  in("x", F32, "batch,n"), out("v"), out("i");
  ints("one", "1"), ints("four", "4");
  node("Shape", "x", "s"), node("Gather", "s,one", "all"), node("Min", "all,four", "k");
  node("TopK", "x,k", "v,i");
  IMPORTS();
  HAS("k=min(4, n)} : f32[batch, min(4, n)], i64[batch, min(4, n)]");
  begin();
  in("x", F32, "batch,n"), out("v"), out("i");
  ints("zero", "0");
  node("Shape", "x", "s"), node("Gather", "s,zero", "k");
  node("TopK", "x,k", "v,i");
  expect(DIAG_onnx_node, "k is batch", "/v,i");
}

/* A convolution with 3 taps, padded automatically. */
static void padded(const char *extent, const char *stride) {
  begin();
  in("x", F32, arena_printf(arena, "1,1,%s", extent)), out("y");
  weight("w", 1, 3);
  Onnx__TensorProto *w = initializers.items[0];
  w->dims = ARENA_ARRAY(arena, int64_t, 3), w->dims[0] = 1, w->dims[1] = 1, w->dims[2] = 3, w->n_dims = 3;
  Onnx__NodeProto *conv = node("Conv", "x,w", "y");
  string_attr(conv, "auto_pad", "SAME_UPPER"), int_list_attr(conv, "strides", stride);
}

/* SAME over a free extent: with stride 1 the padding follows from the kernel, with multiples of the stride from one
 * stride. */
static void automatic_padding_of_free_extents(void) {
  padded("n", "1");
  IMPORTS();
  HAS("starts=[-1], strides=[1]");
  HAS("noW\"} : f32[1, 1, n]");
  padded("2*n", "2");
  IMPORTS();
  HAS("starts=[0], strides=[2]");
  padded("n", "2");
  expect(DIAG_onnx_shape, "auto_pad with stride 2 over a symbolic dimension", "/y");
}

static void gathering_by_element_is_a_take(void) {
  begin();
  in("x", F32, "batch,9,5"), in("i", I64, "batch,2,4"), out("y");
  attr(node("GatherElements", "x,i", "y"), "axis", INT, 1);
  IMPORTS();
  HAS("slice %x {starts=[0, 0, 0], strides=[1, 1, 1]} : f32[batch, 9, 4]");
  HAS("%/y = take %/y.slice, %/y.select {axis=1, start=0, checked=1} : f32[batch, 2, 4]");
}

static void running_sums_are_scans(void) {
  begin();
  in("x", F32, "batch,9"), out("y");
  ints("axis", "1");
  attr(node("CumSum", "x,axis", "y"), "reverse", INT, 1);
  IMPORTS();
  HAS("%/y = scan %x {axis=1, exclusive=0, reverse=1, op=sum} : f32[batch, 9]");
}

static void scattering_reduces_into_the_data(void) {
  begin();
  opset = 18;
  in("x", F32, "4,5"), in("i", I64, "2,3"), in("u", F32, "2,3"), out("y");
  string_attr(node("ScatterElements", "x,i,u", "y"), "reduction", "add");
  IMPORTS();
  HAS("put %/y.pad.1, %/y.pad {axis=0, start=0, op=sum} : f32[4, 5]"); /* the indices padded by -1 */
  HAS("value=-1");
  HAS("%/y = add %x, %/y.put : f32[4, 5]");
  begin();
  in("x", F32, "4,batch"), in("i", I64, "7,1"), in("u", F32, "7,batch"), out("y");
  node("ScatterND", "x,i,u", "y");
  IMPORTS();
  HAS("scatter %u, "); /* one dimension is addressed: the data keeps its shape */
  HAS("{axis=0, start=0, op=max} : f32[4, batch]");
  HAS("{axis=0, start=0, op=or} : bool[4, batch]");
  begin();
  opset = 18;
  in("x", F32, "4,5"), in("i", I64, "2,5"), in("u", F32, "2,5"), out("y");
  string_attr(node("ScatterElements", "x,i,u", "y"), "reduction", "median");
  expect(DIAG_onnx_node, "reduction \"median\"", "/y");
}

static void picking_by_data_binds_a_size(void) {
  begin();
  in("x", F32, "4,5"), in("c", 9, "5"), out("y");
  attr(node("Compress", "x,c", "y"), "axis", INT, 1);
  IMPORTS();
  HAS(" most 5");
  HAS("bind %");
}

/* ---- resizing and quantised tensors */

static void resizing_gathers_along_each_axis(void) {
  begin();
  in("x", F32, "batch,3,h,8"), out("y");
  floats("scales", 4, (float[]){1, 1, 2, 0.5});
  string_attr(node("Resize", "x,,scales", "y"), "mode", "linear");
  IMPORTS();
  HAS(": f32[batch, 3, 2*h, 8]");
  HAS("{axis=2, start=0}");
  HAS("{axis=3, start=0}");
  HAS_NOT("{axis=0, start=0} : f32"); /* batch and channels are unchanged */
  HAS("%/y = add ");
}

static void resizing_that_is_not_done_is_refused(void) {
  begin();
  opset = 19;
  in("x", F32, "1,3,h,8"), out("y");
  floats("scales", 4, (float[]){1, 1, 0.5, 0.5});
  Onnx__NodeProto *n = node("Resize", "x,,scales", "y");
  attr(n, "antialias", INT, 1), string_attr(n, "mode", "linear");
  expect(DIAG_onnx_shape, "antialias over a symbolic dimension", "/y");
  begin();
  in("x", F32, "1,3,h,8"), out("y");
  floats("scales", 4, (float[]){1, 1, 0.75, 1});
  node("Resize", "x,,scales", "y");
  expect(DIAG_onnx_shape, "a symbolic dimension scaled by 0.75", "/y");
  begin();
  in("x", F32, "1,3,8,8"), in("scales", F32, "4"), out("y");
  node("Resize", "x,,scales", "y");
  expect(DIAG_onnx_shape, "the scales (input \"scales\") is computed from data", "/y");
}

static void quantised_products_are_integers(void) {
  begin();
  in("x", 2, "batch,4"), in("w", 2, "4,5"), in("z", 2, "1"), out("y");
  node("MatMulInteger", "x,w,z", "y");
  IMPORTS();
  HAS("%/y = dot %/y.sub, %/y.cast.2 {spec=\"mk,kn->mn\"} : i32[batch, 5]");
  begin();
  opset = 21;
  in("x", F32, "8,4"), in("s", F32, "2,4"), out("y");
  Onnx__NodeProto *blocked = node("QuantizeLinear", "x,s", "y");
  attr(blocked, "block_size", INT, 4), attr(blocked, "axis", INT, 0);
  IMPORTS();
  HAS("broadcast %/y.reshape {dims=[0, 1, 2]} : f32[2, 4, 4]");
  blocked->attribute[0]->i = 3;
  expect(DIAG_onnx_node, "f32[2, 4] does not fit blocks of 3 of f32[8, 4]", "/y");
}

/* ---- the same bits */

static void bits_are_the_same(void) {
  begin();
  opset = 26;
  in("x", ONNX__TENSOR_PROTO__DATA_TYPE__INT8, "4"), out("y");
  attr(node("BitCast", "x", "y"), "to", INT, ONNX__TENSOR_PROTO__DATA_TYPE__UINT8);
  IMPORTS();
  HAS("cast %x {to=u8} : u8[4]");
  begin();
  opset = 26;
  in("x", F32, "4"), out("y");
  attr(node("BitCast", "x", "y"), "to", INT, I32);
  IMPORTS();
  HAS("bitcast %x {to=i32} : i32[4]");
}

/* ---- other domains */

static void operators_for_features_are_a_few_nodes(void) {
  begin();
  in("x", F32, "3,4"), in("i", I64, "1,2"), out("y"), out("z");
  node("Binarizer", "x", "y")->domain = arena_strdup(arena, "ai.onnx.ml");
  node("ArrayFeatureExtractor", "x,i", "z")->domain = arena_strdup(arena, "ai.onnx.ml");
  IMPORTS();
  HAS("gt %x, ");
  HAS(" : f32[3, 2]");
}

static void counts_of_ngrams_need_what_fits(void) {
  begin();
  in("x", I64, "12"), out("y");
  Onnx__NodeProto *n = node("TfIdfVectorizer", "x", "y");
  attr(n, "max_gram_length", INT, 2), attr(n, "min_gram_length", INT, 2), attr(n, "max_skip_count", INT, 0);
  string_attr(n, "mode", "TF");
  int_list_attr(n, "ngram_counts", "0,1"), int_list_attr(n, "ngram_indexes", "0,1");
  int_list_attr(n, "pool_int64s", "5,6,7,8");
  expect(DIAG_onnx_node, "ngram_counts does not divide pool_int64s", "/y");
}

static void determinants_are_of_square_matrices(void) {
  begin();
  in("x", F32, "batch,2,2"), out("y"), node("Det", "x", "y");
  IMPORTS();
  HAS(" : f32[batch]");
  begin();
  in("x", F32, "2,3"), out("y"), node("Det", "x", "y");
  expect(DIAG_onnx_node, "square matrices are expected", "/y");
  begin();
  in("x", F32, "40,40"), out("y"), node("Det", "x", "y");
  expect(DIAG_onnx_node, "matrices of 1 to 32 rows", "/y");
}

/* ---- before operator set 7 */

static void old_broadcasting_has_an_axis(void) {
  begin();
  opset = 6;
  in("x", F32, "2,3,4,5"), in("b", F32, "3,4"), out("y");
  Onnx__NodeProto *n = node("Sub", "x,b", "y");
  attr(n, "broadcast", INT, 1), attr(n, "axis", INT, 1);
  IMPORTS();
  HAS("reshape %b : f32[3, 4, 1]");
  begin();
  opset = 6;
  in("x", F32, "2,3"), in("b", F32, "3"), out("y"), node("Sub", "x,b", "y");
  expect(DIAG_onnx_node, "broadcast is 0", "/y");
  begin();
  opset = 6;
  in("x", F32, "2,3"), in("s", F32, "3"), out("y"), node("BatchNormalization", "x,s,s,s,s", "y");
  expect(DIAG_onnx_node, "is_test is 0", "/y");
}

int main(void) {
  RUN(old_broadcasting_has_an_axis);
  RUN(bits_are_the_same);
  RUN(operators_for_features_are_a_few_nodes);
  RUN(counts_of_ngrams_need_what_fits);
  RUN(determinants_are_of_square_matrices);
  RUN(the_k_largest_are_one_operation);
  RUN(how_many_are_taken_may_be_a_size);
  RUN(automatic_padding_of_free_extents);
  RUN(gathering_by_element_is_a_take);
  RUN(running_sums_are_scans);
  RUN(scattering_reduces_into_the_data);
  RUN(picking_by_data_binds_a_size);
  RUN(resizing_gathers_along_each_axis);
  RUN(resizing_that_is_not_done_is_refused);
  RUN(quantised_products_are_integers);
  module_free(module);
  arena_free(arena);
  return test_summary();
}
