/* tests/unit/onnx_sequence.c - sequences of tensors during import: their results, and refusals. */
#include "tests/onnx_run.h"

static void a_split_is_its_pieces(void) {
  start(17);
  given("x", F32, "7,1", "1,2,3,4,5,6,7"), out("y"), out("z"), out("u");
  ints("sizes", "2,4,1"), ints("one", "1"), ints("last", "-1");
  node("SplitToSequence", "x,sizes", "s");
  node("SequenceAt", "s,one", "y"), node("SequenceAt", "s,last", "z");
  node("SplitToSequence", "x", "t"); /* of 1 each */
  node("SequenceAt", "t,last", "u");
  RUNS();
  GIVES("y", "3,4,5,6");
  GIVES("z", "7");
  GIVES("u", "7");
}

static void pieces_of_one_size(void) {
  start(17);
  given("x", F32, "1,7", "1,2,3,4,5,6,7"), out("y"), out("n"), out("flat");
  ints("three", "3"), ints("last", "2");
  initializers.items[0]->n_dims = 0; /* a scalar: the length of all pieces but the last */
  attr(node("SplitToSequence", "x,three", "s"), "axis", INT, 1);
  node("SequenceAt", "s,last", "y"), node("SequenceLength", "s", "n");
  Onnx__NodeProto *n = node("SplitToSequence", "x", "t");
  attr(n, "axis", INT, 1), attr(n, "keepdims", INT, 0);
  node("SequenceAt", "t,last", "flat");
  RUNS();
  GIVES("y", "7");
  GIVES("n", "3");
  GIVES("flat", "3");
}

static void sequences_change_by_copies(void) {
  start(17);
  given("a", F32, "2", "1,2"), given("b", F32, "2", "3,4"), given("c", F32, "2", "5,6");
  out("y"), out("z"), out("w");
  ints("zero", "0"), ints("one", "1");
  node("SequenceConstruct", "a,b", "s");
  node("SequenceInsert", "s,c,zero", "t"); /* c a b */
  node("SequenceInsert", "s,c", "u");      /* a b c */
  node("SequenceErase", "t,one", "v");     /* c b */
  attr(node("ConcatFromSequence", "v", "y"), "axis", INT, 0);
  Onnx__NodeProto *n = node("ConcatFromSequence", "u", "z");
  attr(n, "axis", INT, -1), attr(n, "new_axis", INT, 1);
  node("SequenceEmpty", "", "e");
  node("SequenceInsert", "e,b", "f");
  attr(node("ConcatFromSequence", "f", "w"), "axis", INT, 0);
  nodes.items[nodes.n - 3]->n_input = 0;
  RUNS();
  GIVES("y", "5,6,3,4");
  GIVES("z", "1,3,5,2,4,6");
  GIVES("w", "3,4");
}

static void a_symbolic_dimension_is_cut(void) {
  start(17);
  in("x", F32, "batch,6"), out("y");
  ints("sizes", "2,4"), ints("one", "1");
  attr(node("SplitToSequence", "x,sizes", "s"), "axis", INT, 1);
  node("SequenceAt", "s,one", "y");
  IMPORTS();
  HAS(": f32[batch, 4]");
}

static void what_is_not_known_is_refused(void) {
  start(17), in("x", F32, "4,2"), in("i", I64, ""), out("y");
  node("SplitToSequence", "x", "s"), node("SequenceAt", "s,i", "y");
  expect(DIAG_onnx_shape, "the position (input \"i\") is computed from data", "/y");
  start(17), in("x", F32, "4,2"), out("y");
  ints("four", "4"), node("SplitToSequence", "x", "s"), node("SequenceAt", "s,four", "y");
  expect(DIAG_onnx_node, "position 4 is outside a sequence of 4 tensors", "/y");
  start(17), in("x", F32, "batch,2"), out("y");
  ints("zero", "0"), node("SplitToSequence", "x", "s"), node("SequenceAt", "s,zero", "y");
  expect(DIAG_onnx_node, "a dimension of unknown extent cannot be split into pieces of one size", "/s");
  start(17), in("x", F32, "4,2"), out("y");
  ints("sizes", "2,1"), ints("zero", "0"), node("SplitToSequence", "x,sizes", "s"), node("SequenceAt", "s,zero", "y");
  expect(DIAG_onnx_node, "the sizes do not add up to the dimension", "/s");
  start(17), in("x", F32, "4,2"), out("y"), node("SplitToSequence", "x", "s"), node("Relu", "s", "y");
  expect(DIAG_onnx_node, "\"s\" is a sequence of tensors", "/y");
  start(17), in("x", F32, "4,2"), out("s"), node("SplitToSequence", "x", "s");
  expect(DIAG_onnx_node, "\"s\" is a sequence of tensors", NULL);
  start(17), in("x", F32, "4,2"), out("y"), ints("zero", "0"), node("SequenceAt", "x,zero", "y");
  expect(DIAG_onnx_node, "input 0 is not a sequence", "/y");
  start(17), in("x", F32, "4,2"), in("z", F32, "3,2"), out("y");
  node("SequenceConstruct", "x,z", "s"), attr(node("ConcatFromSequence", "s", "y"), "axis", INT, 1);
  expect(DIAG_onnx_node, "tensor 1 of the sequence is f32[3, 2], the first f32[4, 2]", "/y");
}

static void optionals_are_there_or_absent(void) {
  start(18), in("x", F32, "4,2"), out("y");
  node("SplitToSequence", "x", "s"), node("Optional", "s", "o"), node("OptionalGetElement", "o", "t");
  ints("one", "1"), node("SequenceAt", "t,one", "y");
  IMPORTS();
  HAS("slice %x {starts=[1, 0]");
  for (int has = 0; has < 2; has++) {
    start(18), in("x", F32, "4,2"), out("y");
    node("OptionalHasElement", has ? "x" : "", "y");
    IMPORTS();
    HAS(has ? "const {value=1} : bool[]" : "const {value=0} : bool[]");
  }
}

int main(void) {
  RUN(a_split_is_its_pieces);
  RUN(pieces_of_one_size);
  RUN(sequences_change_by_copies);
  RUN(a_symbolic_dimension_is_cut);
  RUN(what_is_not_known_is_refused);
  RUN(optionals_are_there_or_absent);
  module_free(module);
  arena_free(arena);
  return test_summary();
}
