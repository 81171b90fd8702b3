/* tests/unit/onnx_assume.c - sizes that a graph needs so that its shapes fit: they are found, reported, and checked
 * when a request binds them.
 *
 * With a file name as argument it writes the decoder of two levels there, for tests/cli/multiples.sh. */
#include "tests/onnx_graph.h"

static void warns(const char *text) {
  bool found = false;
  for (size_t i = 0; i < diags->n; i++)
    found = found || (diags->items[i].severity == SEV_WARNING && strstr(diags->items[i].message, text));
  CHECKF(found, "no warning \"%s\"", text);
}

#define SILENT() CHECK(diags->n == 0)

/* ---- dimensions that must be equal */

static void inputs_that_are_added_have_one_batch(void) {
  begin();
  in("x", F32, "s0,4"), in("y", F32, "s1,4"), out("z");
  node("Add", "x,y", "z");
  IMPORTS();
  HAS("%y = input {name=\"y\"} : f32[s0, 4]");
  warns("the dimension \"s1\" is taken to be s0");
}

static void a_mask_has_the_extent_of_its_keys(void) {
  begin();
  in("past", F32, "batch,past_len,4"), in("x", F32, "batch,seq,4"), in("mask", F32, "batch,total,1"), out("z");
  attr(node("Concat", "past,x", "keys"), "axis", INT, 1);
  node("Mul", "keys,mask", "z");
  IMPORTS();
  HAS("%mask = input {name=\"mask\"} : f32[batch, past_len + seq, 1]");
  warns("the dimension \"total\" is taken to be past_len + seq");
  OnnxDim dim = {"total", 9};
  begin();
  in("past", F32, "batch,past_len,4"), in("x", F32, "batch,seq,4"), in("mask", F32, "batch,total,1"), out("z");
  attr(node("Concat", "past,x", "keys"), "axis", INT, 1);
  node("Mul", "keys,mask", "z");
  CHECK(import_with(&(OnnxImportOptions){.dims = &dim, .ndims = 1}));
  HAS(": f32[batch, -past_len + 9, 4]"); /* seq */
}

static void a_reshape_keeps_its_leading_dimension(void) {
  begin();
  in("ids", F32, "s0,6"), in("mask", F32, "s1,s2"), out("z");
  ints("zero", "0"), ints("rest", "-1");
  node("Shape", "ids", "s"), node("Gather", "s,zero", "b");
  attr(node("Concat", "b,rest", "shape"), "axis", INT, 0);
  node("Reshape", "mask,shape", "m"), node("Neg", "m", "z");
  IMPORTS();
  HAS("%mask = input {name=\"mask\"} : f32[s0, s2]");
}

/* A size beyond the limit of dimensions is not assumed: it could not be read again. */
static void no_size_beyond_all_is_assumed(void) {
  begin();
  in("x", F32, "h,2"), out("y");
  ints("s", "4294901761,1,524544,2");
  node("Reshape", "x,s", "y");
  expect(DIAG_onnx_node, "cannot be reshaped", NULL);
}

static void a_constant_fixes_a_dimension(void) {
  begin();
  in("x", F32, "batch,seq"), out("z");
  weight("table", 3, 5);
  node("Add", "x,table", "z");
  IMPORTS();
  HAS("%x = input {name=\"x\"} : f32[3, 5]");
  warns("the dimension \"batch\" is taken to be 3");
  warns("the dimension \"seq\" is taken to be 5, since other sizes do not fit here, but for 1: --dim seq=1");
  begin();
  in("x", F32, "4"), in("y", F32, "3"), out("z");
  node("Add", "x,y", "z");
  expect(DIAG_onnx_node, "do not broadcast", "/z");
}

static void a_batch_of_one_that_was_traced(void) {
  begin();
  in("x", F32, "batch,6"), out("z");
  ints("shape", "1,2,3");
  node("Reshape", "x,shape", "z");
  IMPORTS();
  HAS("%x = input {name=\"x\"} : f32[1, 6]");
  warns("the dimension \"batch\" is taken to be 1");
}

/* [seq, batch, 6] to [5, 2 batch, 3], as a traced attention splits its heads: seq is 5 for every batch. */
static void a_traced_length_between_free_dimensions(void) {
  begin();
  in("x", F32, "seq,batch,6"), out("z");
  ints("one", "1"), ints("two", "2"), ints("five", "5"), ints("three", "3");
  node("Shape", "x", "s"), node("Gather", "s,one", "b"), node("Mul", "b,two", "heads");
  attr(node("Concat", "five,heads,three", "shape"), "axis", INT, 0);
  node("Reshape", "x,shape", "z");
  IMPORTS();
  HAS("%x = input {name=\"x\"} : f32[5, batch, 6]");
  warns("the dimension \"seq\" is taken to be 5");
}

/* ---- multiples */

static Onnx__TensorProto *kernel(const char *name, int64_t out_channels, int64_t in_channels, int64_t extent) {
  weight(name, 1, out_channels * in_channels * extent);
  Onnx__TensorProto *w = initializers.items[initializers.n - 1];
  w->dims = ARENA_ARRAY(arena, int64_t, 3), w->dims[0] = out_channels, w->dims[1] = in_channels, w->dims[2] = extent,
  w->n_dims = 3;
  return w;
}

/* Down by a convolution of stride 2, `levels` times, and up again, each time joined with the image of that level: the
 * extent halves without rest. */
static void u_net(int levels, bool add) {
  begin();
  in("x0", F32, "batch,2,n"), out("y");
  kernel("w", 2, 2, 3);
  floats("scales", 3, (float[]){1, 1, 2});
  for (int i = 0; i < levels; i++) {
    Onnx__NodeProto *down = node("Conv", arena_printf(arena, "x%d,w", i), arena_printf(arena, "x%d", i + 1));
    int_list_attr(down, "strides", "2"), int_list_attr(down, "pads", "1,1");
  }
  const char *at = arena_printf(arena, "x%d", levels);
  for (int i = levels; i-- > 0;) {
    node("Resize", arena_printf(arena, "%s,,scales", at), arena_printf(arena, "u%d", i));
    if (add) node("Add", arena_printf(arena, "u%d,x%d", i, i), arena_printf(arena, "s%d", i));
    else attr(node("Concat", arena_printf(arena, "u%d,x%d", i, i), arena_printf(arena, "c%d", i)), "axis", INT, 1);
    if (!add)
      kernel(arena_printf(arena, "v%d", i), 2, 4, 1),
          node("Conv", arena_printf(arena, "c%d,v%d", i, i), arena_printf(arena, "s%d", i));
    at = arena_printf(arena, "s%d", i);
  }
  node("Neg", at, "y");
}

static void a_decoder_meets_its_encoder(void) {
  for (int add = 0; add < 2; add++) {
    u_net(1, add);
    IMPORTS();
    HAS("%x0 = input {name=\"x0\"} : f32[batch, 2, 2*n_div_2]");
    warns("the dimension \"n\" is taken to be 2*n_div_2");
    u_net(3, add);
    IMPORTS();
    HAS("%x0 = input {name=\"x0\"} : f32[batch, 2, 8*n_div_8]");
    HAS("output \"y\" %/y");
    OnnxDim odd = {"n", 12}, even = {"n", 16};
    u_net(3, add);
    CHECK(import_with(&(OnnxImportOptions){.dims = &even, .ndims = 1}));
    u_net(3, add);
    CHECK(!import_with(&(OnnxImportOptions){.dims = &odd, .ndims = 1}));
  }
}

/* [batch, n, 3] to [batch, -1, 12]; windows of 4 places with counts that were rounded down; blocks of pixels. */
static void reshapes_leave_no_rest(void) {
  begin();
  in("x", F32, "batch,n,3"), out("z");
  ints("shape", "0,-1,12");
  node("Reshape", "x,shape", "z");
  IMPORTS();
  HAS("%x = input {name=\"x\"} : f32[batch, 4*n_div_4, 3]");
  begin();
  in("x", F32, "h,w"), out("z");
  ints("zero", "0"), ints("one", "1"), ints("four", "4"), ints("six", "6");
  node("Shape", "x", "s"), node("Gather", "s,zero", "h"), node("Gather", "s,one", "w"), node("Div", "h,four", "rows"),
      node("Div", "w,six", "columns");
  attr(node("Concat", "rows,four,columns,six", "shape"), "axis", INT, 0);
  node("Reshape", "x,shape", "z");
  IMPORTS();
  HAS("%x = input {name=\"x\"} : f32[4*h_div_4, 6*w_div_6]");
  begin();
  in("x", F32, "1,1,h,6"), out("z");
  attr(node("SpaceToDepth", "x", "z"), "blocksize", INT, 3);
  IMPORTS();
  HAS("%x = input {name=\"x\"} : f32[1, 1, 3*h_div_3, 6]");
}

/* [batch, seq, 4] to [batch, seq div 4, 4, 4]: the width 4 occurs twice in the shape, and once in the input. */
static void a_width_is_matched_once(void) {
  begin();
  in("x", F32, "batch,seq,4"), out("z");
  ints("zero", "0"), ints("one", "1"), ints("four", "4");
  node("Shape", "x", "s"), node("Gather", "s,zero", "b"), node("Gather", "s,one", "n"), node("Div", "n,four", "q");
  attr(node("Concat", "b,q,four,four", "shape"), "axis", INT, 0);
  node("Reshape", "x,shape", "z");
  IMPORTS();
  HAS("%x = input {name=\"x\"} : f32[batch, 4*seq_div_4, 4]");
}

/* x[:, :-1] and x[:, 1:], each padded to the length of x: max(seq, 1) is seq for all lengths but 0, and 1 for one. */
static void neighbours_beside_each_element(void) {
  begin();
  in("x", F32, "batch,seq,4"), out("y");
  ints("zero", "0"), ints("one", "1"), ints("last", "-1"), ints("end", "9223372036854775807");
  ints("before", "0,1,0,0,0,0"), ints("after", "0,0,0,0,1,0");
  node("Slice", "x,zero,last,one", "a"), node("Pad", "a,before", "b"), node("Slice", "x,one,end,one", "c"),
      node("Pad", "c,after", "d");
  attr(node("Concat", "d,x,b", "y"), "axis", INT, 2);
  IMPORTS();
  HAS("symbol seq min 1\n");
  HAS("%x = input {name=\"x\"} : f32[batch, seq, 4]");
  SILENT();
}

/* table[:, max(1 - seq, 0):] of one row, as slopes of positions are cut: one row for all lengths but 0. */
static void a_row_that_only_no_length_lacks(void) {
  begin();
  in("x", F32, "batch,seq,4"), out("y");
  weight("table", 1, 4);
  Onnx__TensorProto *t = initializers.items[0];
  t->dims = ARENA_ARRAY(arena, int64_t, 3), t->dims[0] = 1, t->dims[1] = 1, t->dims[2] = 4, t->n_dims = 3;
  ints("zero", "0"), ints("one", "1"), ints("end", "9223372036854775807");
  node("Shape", "x", "s"), node("Gather", "s,one", "n"), node("Sub", "one,n", "d"), node("Max", "d,zero", "from"),
      node("Slice", "table,from,end,one", "row"), node("Add", "x,row", "y");
  IMPORTS();
  HAS("symbol seq min 1\n");
  SILENT();
}

/* x[:1] joined with a batch. */
static void the_first_row_is_there(void) {
  begin();
  in("x", F32, "n,3"), in("y", F32, "m,3"), out("z");
  ints("zero", "0"), ints("one", "1");
  node("Slice", "x,zero,one,zero", "first"), node("Add", "first,y", "z");
  IMPORTS();
  HAS("symbol n min 1");
  HAS("%/z = add ");
  HAS_NOT("min(");
}

/* mask[:, past:] joined with the new rows: as positions are taken from a mask of all seen tokens. */
static void what_a_mask_has_behind_the_past(void) {
  begin();
  in("mask", F32, "batch,total"), in("x", F32, "batch,seq"), in("cache", F32, "batch,past"), out("z"), out("y");
  ints("one", "1"), ints("end", "9223372036854775807");
  node("Shape", "cache", "s"), node("Gather", "s,one", "past"), node("Slice", "mask,past,end,one", "new"),
      node("Add", "x,new", "z");
  node("Neg", "cache", "y");
  IMPORTS();
  HAS("%mask = input {name=\"mask\"} : f32[batch, past + seq]");
  HAS("%cache = input {name=\"cache\"} : f32[batch, past]");
  HAS_NOT("min(");
  warns("the dimension \"total\" is taken to be past + seq");
}

/* ---- ranges */

/* table[:, :seq] of 64 positions, as a causal mask is cut. */
static void a_table_bounds_a_dimension(void) {
  begin();
  in("x", F32, "batch,seq"), out("z");
  weight("table", 1, 64);
  ints("most", "64"), ints("from", "0"), ints("axis", "1"), ints("one", "1");
  node("Shape", "x", "s"), node("Gather", "s,one", "seq"), node("Min", "seq,most", "end"),
      node("Slice", "table,from,end,axis", "part");
  node("Add", "x,part", "z");
  IMPORTS();
  HAS("symbol seq max 64");
  HAS("%/z = add %x, ");
  HAS_NOT("min(");
  SILENT(); /* seq is still free */
}

/* A range of (n - 3) div 4 + 1 places joined with a convolution's output of that extent: it is not negative. */
static void extents_are_not_negative(void) {
  begin();
  in("x", F32, "1,1,n"), out("z");
  weight("w", 1, 15);
  Onnx__TensorProto *w = initializers.items[0];
  w->dims = ARENA_ARRAY(arena, int64_t, 3), w->dims[0] = 1, w->dims[1] = 1, w->dims[2] = 15, w->n_dims = 3;
  ints("zero", "0"), ints("two", "2"), ints("one", "1"), ints("scalar", "1");
  for (int i = 1; i < 4; i++) initializers.items[i]->n_dims = 0;
  int_list_attr(node("Conv", "x,w", "c"), "strides", "4");
  node("Shape", "c", "s"), node("Gather", "s,two", "m"), node("Range", "zero,m,one", "r"),
      attr(node("Cast", "r", "f"), "to", INT, F32), node("Mul", "c,f", "z");
  IMPORTS();
  HAS("symbol n min 15"); /* below, there is no window */
  HAS_NOT("max(");
}

int main(int argc, char **argv) {
  if (argc == 2) {
    u_net(2, false);
    return import() && write_graph(argv[1]) ? 0 : 1;
  }
  RUN(inputs_that_are_added_have_one_batch);
  RUN(a_mask_has_the_extent_of_its_keys);
  RUN(a_reshape_keeps_its_leading_dimension);
  RUN(a_constant_fixes_a_dimension);
  RUN(no_size_beyond_all_is_assumed);
  RUN(a_batch_of_one_that_was_traced);
  RUN(a_traced_length_between_free_dimensions);
  RUN(a_decoder_meets_its_encoder);
  RUN(reshapes_leave_no_rest);
  RUN(a_width_is_matched_once);
  RUN(neighbours_beside_each_element);
  RUN(a_row_that_only_no_length_lacks);
  RUN(the_first_row_is_there);
  RUN(what_a_mask_has_behind_the_past);
  RUN(a_table_bounds_a_dimension);
  RUN(extents_are_not_negative);
  return test_summary();
}
