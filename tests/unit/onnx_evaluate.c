/* tests/unit/onnx_evaluate.c - sizes that a graph computes from constants and dimensions by any operators, and the
 * messages for sizes that depend on data. */
#include <math.h>

#include "tests/onnx_graph.h"

static void cast_attr(Onnx__NodeProto *n, int64_t to) { attr(n, "to", INT, to); }

/* A scalar constant of a float. */
static void number(const char *name, float value) {
  floats(name, 1, &value);
  initializers.items[initializers.n - 1]->n_dims = 0;
}

/* ---- integers that are moved */

/* PyTorch's pads list the last dimension first, [left, right, top, bottom]; its exporter reverses them: [2, n] reversed
 * and transposed. */
static void turned_round(const char *pads) {
  ints("pairs", "-1,2"), ints("from", "-1"), ints("to", "-9223372036854775808"), ints("axis", "0"), ints("step", "-1"),
      ints("all", "-1");
  node("Reshape", arena_printf(arena, "%s,pairs", pads), "rows"), node("Slice", "rows,from,to,axis,step", "reversed");
  int_list_attr(node("Transpose", "reversed", "columns"), "perm", "1,0");
  node("Reshape", "columns,all", "list");
  cast_attr(node("Cast", "list", "pads"), I64);
  node("Pad", "x,pads", "y");
}

static void pads_are_turned_round(void) {
  begin();
  in("x", F32, "batch,3,5,7"), out("y");
  ints("torch", "1,2,3,4,0,0,0,0");
  turned_round("torch");
  IMPORTS();
  HAS("pad %x {low=[0, 0, 3, 1], high=[0, 0, 4, 2], value=0} : f32[batch, 3, 12, 10]");
}

/* Up to a multiple of 4: (4 - h % 4) % 4. */
static void pads_up_to_a_multiple(void) {
  begin();
  in("x", F32, "batch,h,8"), out("y");
  ints("four", "4"), ints("one", "1"), ints("zero", "0"), ints("zeros", "0,0");
  node("Shape", "x", "s"), node("Gather", "s,one", "h"), node("Mod", "h,four", "over"),
      node("Sub", "four,over", "missing");
  node("Mod", "missing,four", "amount");
  attr(node("Concat", "zeros,zero,amount,zeros", "torch"), "axis", INT, 0);
  turned_round("torch");
  IMPORTS();
  HAS("high=[0, -h - 4*((-h) div 4), 0], value=0} : f32[batch, -4*((-h) div 4), 8]");
}

/* A comparison that depends on sizes becomes an expression of them: where(n OP m, 2 n + 1, m), the extent of the
 * result, at all small sizes. */
static void open_comparisons_are_expressions(void) {
  static const struct {
    const char *op;
    int when[3];
  } cases[] = {
      /* n < m, n == m, n > m */
      {"Equal", {0, 1, 0}},   {"Less", {1, 0, 0}},           {"LessOrEqual", {1, 1, 0}},
      {"Greater", {0, 0, 1}}, {"GreaterOrEqual", {0, 1, 1}},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    for (int mixed = 0; mixed < 3; mixed++) { /* alone; also n not 0; or n sign 1 */
      begin();
      in("x", F32, "n,m"), out("y");
      ints("zero", "0"), ints("one", "1"), ints("two", "2");
      number("c", 5);
      node("Shape", "x", "s"), node("Gather", "s,zero", "n"), node("Gather", "s,one", "m"),
          node(cases[k].op, "n,m", "open"), node("Equal", "n,zero", "empty");
      node("Not", "empty", "some"), node("Sign", "n", "sign"), node("Equal", "sign,one", "above");
      node(mixed == 2 ? "Or" : "And", mixed == 0 ? "open,open" : mixed == 1 ? "open,some" : "open,above", "condition");
      node("Mul", "n,two", "twice"), node("Add", "twice,one", "more"), node("Where", "condition,more,m", "extent"),
          node("Expand", "c,extent", "y");
      IMPORTS();
      const Type *t = module_func(module, "main")->outputs.items[0].value
                          ? type_of(module_func(module, "main"), module_func(module, "main")->outputs.items[0].value)
                          : NULL;
      int64_t *symbols = ARENA_ARRAY(arena, int64_t, module->symbols.n + 1), extent;
      for (int64_t n = 0; n < 4; n++)
        for (int64_t m = 0; m < 4; m++) {
          symbols[module_symbol_find(module, "n")] = n, symbols[module_symbol_find(module, "m")] = m;
          bool yes = cases[k].when[n < m ? 0 : n == m ? 1 : 2];
          yes = mixed == 1 ? yes && n : mixed == 2 ? yes || n : yes;
          bool evaluated = t && t->rank == 1 && ex_eval(t->dims[0], symbols, &extent);
          CHECKF(evaluated && extent == (yes ? 2 * n + 1 : m), "%s, %d of %lld and %lld", cases[k].op, mixed,
                 (long long)n, (long long)m);
        }
    }
}

/* The rest after two halvings in a decoder of images: h div 2 - 2 * (h div 4), 0 or 1. */
static void pads_of_an_odd_half(void) {
  begin();
  in("x", F32, "batch,h"), out("y");
  ints("one", "1"), ints("two", "2"), ints("four", "4"), ints("zero", "0");
  node("Shape", "x", "s"), node("Gather", "s,one", "h"), node("Div", "h,two", "half"), node("Div", "h,four", "quarter");
  node("Mul", "quarter,two", "even"), node("Sub", "half,even", "odd");
  attr(node("Concat", "zero,zero,zero,odd", "pads"), "axis", INT, 0);
  node("Pad", "x,pads", "y");
  IMPORTS();
  HAS("high=[0, h div 2 - 2*(h div 4)]");
}

/* ---- floats */

static void resize_to(const char *factor, const char *rounding) {
  ints("two", "2"), ints("nc", "0,1"), ints("hw", "2,3");
  node("Shape", "x", "s"), node("Gather", "s,hw", "hw_size"), cast_attr(node("Cast", "hw_size", "hw_f"), F32);
  node("Mul", arena_printf(arena, "hw_f,%s", factor), "scaled"), node(rounding, "scaled", "whole"),
      cast_attr(node("Cast", "whole", "hw_new"), I64);
  node("Gather", "s,nc", "nc_size");
  attr(node("Concat", "nc_size,hw_new", "sizes"), "axis", INT, 0);
  node("Resize", "x,,,sizes", "y");
}

static void sizes_are_scaled_in_floats(void) {
  begin();
  in("x", F32, "batch,3,10,6"), out("y");
  number("factor", 0.7F); /* 10 * 0.7f is 7 in f32, and below 7 in f64 */
  resize_to("factor", "Floor");
  IMPORTS();
  HAS("f32[batch, 3, 7, 4]");
  begin();
  in("x", F32, "batch,3,h,w"), out("y");
  number("factor", 1.5F);
  resize_to("factor", "Floor");
  IMPORTS();
  HAS("f32[batch, 3, (3*h) div 2, (3*w) div 2]");
  begin();
  in("x", F32, "batch,3,h,9"), out("y");
  number("three", 3), node("Reciprocal", "three", "factor");
  resize_to("factor", "Ceil"); /* h * 0.33333334f is not h / 3: rounded up it may be one more */
  expect(DIAG_onnx_shape, "is computed from dimensions, but is not an expression of them", "/y");
  begin();
  in("x", F32, "batch,3,h,w"), out("y");
  ints("three", "3"), ints("nc", "0,1"), ints("hw", "2,3");
  node("Shape", "x", "s"), node("Gather", "s,hw", "hw_size"), cast_attr(node("Cast", "hw_size", "hw_f"), F32),
      cast_attr(node("Cast", "three", "three_f"), F32);
  node("Div", "hw_f,three_f", "scaled"), node("Ceil", "scaled", "whole"),
      cast_attr(node("Cast", "whole", "hw_new"), I64), node("Gather", "s,nc", "nc_size");
  attr(node("Concat", "nc_size,hw_new", "sizes"), "axis", INT, 0);
  node("Resize", "x,,,sizes", "y");
  IMPORTS();
  HAS("f32[batch, 3, (h + 2) div 3, (w + 2) div 3]");
}

/* As a detector fits an image: 8 / max(h, w), but at most 4 / min(h, w). */
static void scales_are_computed(void) {
  begin();
  in("x", F32, "3,20,10"), out("y");
  ints("hw", "1,2"), number("small", 4), number("large", 8);
  number("one", 1);
  node("Shape", "x", "s"), node("Gather", "s,hw", "hw_size"), cast_attr(node("Cast", "hw_size", "hw_f"), F32);
  node("ReduceMin", "hw_f", "least"), node("ReduceMax", "hw_f", "most");
  attr(nodes.items[nodes.n - 2], "keepdims", INT, 0), attr(nodes.items[nodes.n - 1], "keepdims", INT, 0);
  node("Div", "small,least", "a"), node("Reciprocal", "most", "r"), node("Mul", "large,r", "b"),
      node("Min", "a,b", "scale");
  ints("axes", "0"), node("Unsqueeze", "scale,axes", "scale1"), node("Unsqueeze", "one,axes", "one1");
  attr(node("Concat", "one1,scale1,scale1", "scales"), "axis", INT, 0);
  node("Resize", "x,,scales", "y");
  IMPORTS();
  HAS("f32[3, 8, 4]");
}

/* ---- others */

static void one_hot_repeats(void) {
  begin();
  in("x", F32, "2,3"), out("y");
  ints("at", "1"), ints("depth", "2"), ints("values", "1,4"), ints("flat", "-1");
  node("OneHot", "at,depth,values", "hot"), node("Reshape", "hot,flat", "repeats"), node("Tile", "x,repeats", "y");
  IMPORTS();
  HAS("reshape %/y.broadcast : f32[2, 12]");
}

static void constants_larger_than_a_shape(void) {
  begin();
  in("x", F32, "4"), out("y");
  ints("zero", "0"), ints("thousand", "1000"), ints("one", "1"), ints("shape", "-1");
  for (int i = 0; i < 3; i++) initializers.items[i]->n_dims = 0;
  node("Range", "zero,thousand,one", "r"), attr(node("ReduceMax", "r", "most"), "keepdims", INT, 1); /* 999 */
  node("Div", "most,thousand", "none"), node("Add", "none,one", "all"), node("Reshape", "all,shape", "repeats"),
      node("Tile", "x,repeats", "y");
  IMPORTS();
  HAS("output \"y\" %x");
}

/* One element that depends on data does not affect the others. */
static void known_elements_beside_data(void) {
  begin();
  in("x", F32, "batch,3"), in("n", I64, "1"), out("y");
  ints("one", "1"), ints("rest", "-1");
  node("Shape", "x", "s");
  attr(node("Concat", "n,s", "mixed"), "axis", INT, 0);
  node("Gather", "mixed,one", "batch");
  attr(node("Concat", "batch,rest", "shape"), "axis", INT, 0);
  node("Reshape", "x,shape", "y");
  IMPORTS();
  HAS("output \"y\" %x");
}

/* ---- data */

static void note_has(const char *text) {
  bool found = false;
  for (size_t i = 0; i < diags->n; i++)
    found = found || (diags->items[i].severity == SEV_NOTE && strstr(diags->items[i].message, text));
  CHECKF(found, "no note \"%s\"", text);
  if (!found) diags_print(diags, stderr, false);
}

static void data_is_traced_to_its_input(void) {
  begin();
  in("x", F32, "4"), in("n", I64, "1"), out("y");
  ints("two", "2");
  node("Mul", "n,two", "twice"), node("Abs", "twice", "positive"), node("Shape", "x", "s"),
      node("Add", "positive,s", "sum"), node("Tile", "x,sum", "y");
  expect(DIAG_onnx_shape, "Tile: the repeats (input \"sum\") is computed from data", "/y");
  note_has("it comes from the input \"n\" -> Mul \"/twice\" -> Abs \"/positive\" -> Add \"/sum\" -> Tile \"/y\"");
  begin();
  in("x", F32, "4"), in("n", I64, "1"), out("y");
  node("Neg", "n", "v0");
  for (int i = 0; i < 40; i++) node("Neg", arena_printf(arena, "v%d", i), arena_printf(arena, "v%d", i + 1));
  node("Tile", "x,v40", "y");
  expect(DIAG_onnx_shape, "is computed from data", "/y");
  note_has("\"/v4\" -> ... 31 more -> Neg \"/v36\"");
}

static void dimensions_that_are_no_expression(void) {
  begin();
  in("x", F32, "batch,4"), out("y");
  ints("zero", "0");
  node("Shape", "x", "s"), node("Gather", "s,zero", "b"), cast_attr(node("Cast", "b", "f"), F32),
      node("Sqrt", "f", "root");
  cast_attr(node("Cast", "root", "i"), I64);
  attr(node("Concat", "i,i", "repeats"), "axis", INT, 0);
  node("Tile", "x,repeats", "y");
  expect(DIAG_onnx_shape, "is computed from dimensions, but is not an expression of them", "/y");
  note_has("it comes from dimensions -> Sqrt \"/root\" -> Cast \"/i\" -> Concat \"/repeats\" -> Tile \"/y\"");
  OnnxDim dim = {"batch", 9};
  begin();
  in("x", F32, "batch,4"), out("y");
  ints("zero", "0");
  node("Shape", "x", "s"), node("Gather", "s,zero", "b"), cast_attr(node("Cast", "b", "f"), F32),
      node("Sqrt", "f", "root");
  cast_attr(node("Cast", "root", "i"), I64);
  attr(node("Concat", "i,i", "repeats"), "axis", INT, 0);
  node("Tile", "x,repeats", "y");
  CHECK(import_with(&(OnnxImportOptions){.dims = &dim, .ndims = 1}));
  HAS("f32[27, 12]");
}

static void places_that_depend_on_data(void) {
  begin();
  in("x", F32, "4,4"), in("m", I64, "2"), out("y");
  node("Abs", "m", "r"), node("Tile", "x,r", "y");
  expect(DIAG_onnx_shape, "is computed from data", "/y");
  note_has("it comes from the input \"m\" -> Abs \"/r\" -> Tile \"/y\"");
  begin();
  in("x", F32, "4,100"), out("y");
  ints("shape", "1,100"), ints("zero", "0"), ints("axis", "1");
  node("ConstantOfShape", "shape", "f"), node("Not", "b", "keep"), attr(node("Cast", "f", "b"), "to", INT, BOOL),
      node("NonZero", "keep", "at"), node("Split", "at", "row,column");
  ints("flat", "-1"), node("Reshape", "column,flat", "index"), attr(node("Gather", "x,index", "y"), "axis", INT, 1);
  IMPORTS();
}

/* ---- work */

/* t0 = 1 .. 65536, then sums of it: each is evaluated once, and all together within the budget. */
static void evaluation_is_bounded(void) {
  begin();
  in("x", F32, "4"), out("y");
  ints("shape", "65536"), ints("axis", "0");
  node("ConstantOfShape", "shape", "t0");
  for (int i = 0; i < 400; i++) node("Exp", arena_printf(arena, "t%d", i), arena_printf(arena, "t%d", i + 1));
  node("ReduceMax", "t400", "m"), attr(nodes.items[nodes.n - 1], "keepdims", INT, 1),
      cast_attr(node("Cast", "m", "n"), I64), node("Tile", "x,n", "y");
  expect(DIAG_onnx_shape, "is computed from more constants than apc evaluates", "/y");
  begin();
  in("x", F32, "4"), out("y");
  ints("shape", "256,256"), ints("axis", "0");
  node("ConstantOfShape", "shape", "t0");
  for (int i = 0; i < 10; i++)
    node("MatMul", arena_printf(arena, "t%d,t%d", i, i), arena_printf(arena, "t%d", i + 1)); /* 2^24 products each */
  node("ReduceMax", "t10", "m"), node("Reshape", "m,axis1", "m1"), ints("axis1", "1"),
      cast_attr(node("Cast", "m1", "n"), I64), node("Tile", "x,n", "y");
  expect(DIAG_onnx_shape, "is computed from more constants than apc evaluates", "/y");
}

/* A chain of a hundred thousand nodes needs no recursion. */
static void long_chains_are_evaluated(void) {
  begin();
  in("x", F32, "4"), out("y");
  floats("v0", 1, (float[]){1});
  for (int i = 0; i < 100000; i++) node("Floor", arena_printf(arena, "v%d", i), arena_printf(arena, "v%d", i + 1));
  cast_attr(node("Cast", "v100000", "n"), I64), node("Tile", "x,n", "y");
  IMPORTS();
}

int main(void) {
  RUN(pads_are_turned_round);
  RUN(pads_up_to_a_multiple);
  RUN(open_comparisons_are_expressions);
  RUN(pads_of_an_odd_half);
  RUN(sizes_are_scaled_in_floats);
  RUN(scales_are_computed);
  RUN(one_hot_repeats);
  RUN(constants_larger_than_a_shape);
  RUN(known_elements_beside_data);
  RUN(data_is_traced_to_its_input);
  RUN(dimensions_that_are_no_expression);
  RUN(places_that_depend_on_data);
  RUN(evaluation_is_bounded);
  RUN(long_chains_are_evaluated);
  return test_summary();
}
