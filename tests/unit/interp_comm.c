/* The reference interpreter at level 2: every communication operation, stages, micro-batches, partial values, and
 * refusals.  The programs are written by hand, so that they do not depend on the lowering. */
#include <math.h>

#include "tests/interp_test.h"

#define LIST(...) ((const double[]){__VA_ARGS__})
#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static const double ten[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9};

/* Runs "func @main level 2" in both domains on x = 0 .. (the extents) and compares output "y". */
static void check_ranks(const char *text, int rank, const int64_t *dims, int n, const double *want, const char *file,
                        int line) {
  for (int d = 0; d < 2; d++)
    for (uint64_t seed = 0; seed < 2; seed++) {
      InterpProgram p = interp_program(text);
      p.options.domain = (InterpDomain)d;
      p.options.partial_seed = seed;
      p.options.tolerance = d ? 0 : 1e-12;
      program_numbers(&p, "x", DT_f32, rank, dims, ten);
      if (!tool_program_run(&p, "main")) {
        diags_print(p.diags, stderr, false);
        test_failed_here++;
      } else {
        check_output(&p, "y", n, want, file, line);
      }
      program_free(&p);
    }
}

#define RANKS(text, dims, ...) \
  do { \
    const double want_[] = {__VA_ARGS__}; \
    const int64_t dims_[] = {dims}; \
    check_ranks(text, (int)(sizeof dims_ / sizeof *dims_), dims_, (int)(sizeof want_ / sizeof *want_), want_, \
                __FILE__, __LINE__); \
  } while (0)
#define COMMA ,

/* Half of 5 on two ranks: 2 and 3. */
#define HALF "-(5*@a div 2) + (5*@a + 5) div 2"

static void collectives(void) {
  RANKS(
      "mesh [a=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[3] @{sum:a} %y = all_reduce %x {mesh_axes=[a], "
      "op=sum} : f32[3] output \"y\" %y @{} }",
      3, 0, 1, 2);
  RANKS(
      "mesh [a=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[3] @{} %y = all_reduce %x {mesh_axes=[a], "
      "op=sum} : f32[3] output \"y\" %y @{} }",
      3, 0, 2, 4);
  RANKS(
      "mesh [a=2, b=3]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[3] @{max:a.b} %y = all_reduce %x "
      "{mesh_axes=[b, a], op=max} : f32[3] output \"y\" %y @{} }",
      3, 0, 1, 2);
  RANKS(
      "mesh [a=2, b=3]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[3] @{one:b} %y = all_reduce %x "
      "{mesh_axes=[b], op=one} : f32[3] output \"y\" %y @{} }",
      3, 0, 1, 2);
  RANKS("mesh [a=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[" HALF
        ", 2] @{0:a} %y = all_gather %x {mesh_axis=a, axis=0} : f32[5, 2] output \"y\" %y @{} }",
        5 COMMA 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
  RANKS(
      "mesh [a=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[2, 5] @{sum:a} %y = reduce_scatter %x "
      "{mesh_axis=a, axis=1, op=sum} : f32[2, " HALF "] output \"y\" %y @{1:a} }",
      2 COMMA 5, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
  RANKS("mesh [a=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[" HALF
        ", 2] @{0:a} %y = all_to_all %x {mesh_axis=a, split=1, concat=0} : f32[5, 1] output \"y\" %y @{1:a} }",
        5 COMMA 2, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9);
  RANKS(
      "mesh [a=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[5] @{} %s = shard_slice %x {axis=0, start=5*@a "
      "div 2} : f32[" HALF "] %y = neg %s : f32[" HALF "] output \"y\" %y @{0:a} }",
      5, 0, -1, -2, -3, -4);
  RANKS(
      "mesh [a=2, b=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[3] @{} %m = mask_partial %x {mesh_axes=[a, "
      "b], op=sum} : f32[3] "
      "%y = all_reduce %m {mesh_axes=[a, b], op=sum} : f32[3] output \"y\" %y @{} }",
      3, 0, 1, 2);
  RANKS(
      "mesh [a=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[3] @{} %m = mask_partial %x {mesh_axes=[a], "
      "op=max} : f32[3] %y = all_reduce %m {mesh_axes=[a], op=max} : f32[3] output \"y\" %y @{} }",
      3, 0, 1, 2);
}

static void exchanges(void) {
  /* A window of one more on both sides, filled with 7 outside. */
  RANKS(
      "mesh [a=3]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[2] @{0:a}\n"
      "  %w = exchange %x {mesh_axes=[a], axis=0, source=[2*@a, 2*@a + 2], target=[2*@a - 1, 2*@a + 3], value=7} : "
      "f32[4]\n"
      "  %l = slice %w {starts=[0], strides=[1]} : f32[2] %r = slice %w {starts=[2], strides=[1]} : f32[2] %y = sub "
      "%r, %l : f32[2] output \"y\" %y @{0:a} }",
      6, 1 - 7, 2, 2, 2, 2, 7 - 4);
  /* Uneven: 2 and 3 become 4 and 1, through the reversed order of ranks. */
  RANKS("mesh [a=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[" HALF
        "] @{0:a}\n"
        "  %w = exchange %x {mesh_axes=[a], axis=0, source=[5*@a div 2, (5*@a + 5) div 2], target=[4 - 4*@a, 5 - @a]} "
        ": f32[3*@a + 1]\n"
        "  %n = reduce %w {axes=[0], op=sum} : f32[] %b = broadcast %n {dims=[]} : f32[1] output \"y\" %b @{0:a} }",
        5, 4, 0 + 1 + 2 + 3);
  /* Several ranks hold an index: the first in group order wins. */
  RANKS(
      "mesh [a=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[3] @{} %i = iota {axis=0, start=10*@a} : f32[3]\n"
      "  %y = exchange %i {mesh_axes=[a], axis=0, source=[0, 3], target=[0, 3]} : f32[3] output \"y\" %y @{} }",
      3, 0, 1, 2);
}

/* Two layers, the first cut by columns, the second by rows: one all-reduce (Megatron). */
static void tensor_parallel(void) {
  InterpProgram p = interp_program(
      "mesh [dp=2, tp=3]\nparam \"w\" : f32[4, 7] = normal 0.5 seed 1\nparam \"v\" : f32[7, 5] = normal 0.5 seed 2\n"
      "func @main level 1 { %x = input {name=\"x\"} : f32[6, 4] %w = param {name=\"w\"} : f32[4, 7] %v = param "
      "{name=\"v\"} : f32[7, 5]\n"
      "  %h = dot %x, %w {spec=\"bm,mn->bn\"} : f32[6, 7] %g = tanh %h : f32[6, 7] %y = dot %g, %v "
      "{spec=\"bn,nk->bk\"} : f32[6, 5] output \"y\" %y }\n"
      "func @rank level 2 { %x = input {name=\"x\"} : f32[3, 4] @{0:dp} %w = param {name=\"w\"} : f32[4, -(7*@tp div "
      "3) + (7*@tp + 7) div 3] @{1:tp}\n"
      "  %v = param {name=\"v\"} : f32[-(7*@tp div 3) + (7*@tp + 7) div 3, 5] @{0:tp}\n"
      "  %h = dot %x, %w {spec=\"bm,mn->bn\"} : f32[3, -(7*@tp div 3) + (7*@tp + 7) div 3] %g = tanh %h : f32[3, "
      "-(7*@tp div 3) + (7*@tp + 7) div 3]\n"
      "  %p = dot %g, %v {spec=\"bn,nk->bk\"} : f32[3, 5] %y = all_reduce %p {mesh_axes=[tp], op=sum} : f32[3, 5] "
      "output \"y\" %y @{0:dp} }");
  for (int d = 0; d < 2; d++) {
    InterpOptions o = {.domain = (InterpDomain)d};
    InterpResult whole, ranks;
    int n;
    const char *why;
    const Func *f = module_func(p.m, "main");
    InterpNamed *in = interp_random_inputs(p.m, f, o.domain, NULL, 3, p.arena, &n, p.diags);
    CHECK(interp_run(p.m, f, &o, n, in, p.arena, &whole, p.diags));
    CHECK(interp_run(p.m, module_func(p.m, "rank"), &o, n, in, p.arena, &ranks, p.diags));
    CHECK(interp_equal(&whole.outputs[0].tensor, &ranks.outputs[0].tensor, o.domain, d ? 0 : 1e-12, p.arena, &why));
  }
  program_free(&p);
}

/* Two stages with a transfer, micro-batches as an axis, state cut over them and the ranks of its stage. */
static void pipeline(void) {
  const char *text =
      "mesh [a=2, mb=2 time] stages 2\nstate \"s\" : f32[8] = 100\n"
      "func @main level 2 { %x = input {name=\"x\"} : f32[2] @{0:mb.a}\n"
      "  %n = neg %x : f32[2] %t = transfer %n {to_stage=1} : f32[2]\n"
      "  %one = const {value=1} : f32[2] stage 1 %y = add %t, %one : f32[2] stage 1 output \"y\" %y @{0:mb.a}\n"
      "  %s = read {name=\"s\"} : f32[2] @{0:mb.a} stage 1 %d = size {expr=2} : f32[2] stage 1 %q = div %s, %d : "
      "f32[2] stage 1 write \"w\" %q {name=\"s\"} stage 1 }";
  InterpProgram p = interp_program(text);
  program_numbers(&p, "x", DT_f32, 1, DIMS(8), ten);
  CHECK(tool_program_run(&p, "main"));
  CHECK_OUTPUT(&p, "y", 1, 0, -1, -2, -3, -4, -5, -6);
  CHECK_OUTPUT(&p, "s", 50, 50, 50, 50, 50, 50, 50, 50);
  program_free(&p);
}

/* A call at level 2 runs on all ranks together. */
static void calls(void) {
  RANKS(
      "mesh [a=2]\nfunc @sum level 2 { %v = input {name=\"v\"} : f32[3] @{} %r = all_reduce %v {mesh_axes=[a], op=sum} "
      ": f32[3] output \"r\" %r @{} }\n"
      "func @main level 2 { %x = input {name=\"x\"} : f32[3] @{sum:a} %y = call %x {name=\"sum\"} : f32[3] output "
      "\"y\" %y @{} }",
      3, 0, 1, 2);
}

/* Owned elements move as bits: -0.0 and NaN survive, as they would not in a sum. */
static void bits(void) {
  InterpProgram p = interp_program(
      "mesh [a=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[2] @{one:a} %y = all_reduce %x {mesh_axes=[a], "
      "op=one} : f32[2] output \"y\" %y @{} }");
  program_numbers(&p, "x", DT_f32, 1, DIMS(2), LIST(-0.0, NAN));
  CHECK(tool_program_run(&p, "main"));
  const InterpTensor *y = program_output(&p, "y");
  CHECK(y && signbit(y->cells[0].f) && y->cells[0].f == 0 && isnan(y->cells[1].f));
  program_free(&p);
}

/* ---- refused */

static void refuse(const char *text, const char *message) {
  InterpProgram p = interp_program(text);
  program_numbers(&p, "x", DT_f32, 1, DIMS(3), LIST(0, 1, 2));
  CHECKF(!tool_program_run(&p, "main"), "%s", text);
  CHECKF(strstr(program_error(&p), message), "\"%s\" does not say \"%s\"", program_error(&p), message);
  program_free(&p);
}

static void errors(void) {
#define MAIN(text) "mesh [a=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[3] @{} " text " }"
  refuse(MAIN("%i = iota {axis=0, start=@a} : f32[3] output \"y\" %i @{}"),
         "output \"y\": the copy on rank (a=1) differs from the first one: element [0] is 1 and 0");
  refuse("mesh [a=2]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[3] @{sum:a} output \"y\" %x @{} }",
         "the copy on rank (a=1) differs");
  refuse(MAIN("%y = all_gather %x {mesh_axis=a, axis=0} : f32[5] output \"y\" %y @{}"), "member 1's part does not fit");
  refuse(MAIN("%y = all_gather %x {mesh_axis=a, axis=0} : f32[7] output \"y\" %y @{}"),
         "the members hold 6 of extent 7");
  refuse(MAIN("%y = reduce_scatter %x {mesh_axis=a, axis=0, op=sum} : f32[2] output \"y\" %y @{0:a}"),
         "add up to 4 of 3");
  refuse(MAIN("%y = all_reduce %x {mesh_axes=[a], op=one} : f32[3] output \"y\" %y @{}"), "2 members own element 1");
  refuse(MAIN("%y = shard_slice %x {axis=0, start=2*@a} : f32[2] output \"y\" %y @{0:a}"),
         "shard_slice %y on rank (a=1): [2, 4) is outside dimension 0 of extent 3");
  refuse(MAIN("%y = exchange %x {mesh_axes=[a], axis=0, source=[0, 3], target=[0, 4]} : f32[4] output \"y\" %y @{}"),
         "no member holds index 3");
  refuse(MAIN("%y = exchange %x {mesh_axes=[a], axis=0, source=[0, 2], target=[0, 2]} : f32[2] output \"y\" %y @{}"),
         "declares [0, 2) and holds 3");
  refuse(MAIN("%y = exchange %x {mesh_axes=[a], axis=0, source=[0, 3], target=[0, 2]} : f32[3] output \"y\" %y @{}"),
         "is not the result's 3");
  refuse(MAIN("%z = const {value=0} : f32[2 - @a] %y = all_reduce %z {mesh_axes=[a], op=sum} : f32[2 - @a] output "
              "\"y\" %y @{0:a}"),
         "differ in shape");
  refuse(MAIN("%z = const {value=0} : f32[2*@a - 1] output \"y\" %z @{0:a}"), "the result has no extents");
  refuse(MAIN("%s = shard_slice %x {axis=0, start=@a} : f32[2 - @a] output \"y\" %s @{0:a}"),
         "output \"y\" on rank (a=0): holds 2 of dimension 0, its layout gives it [0, 1)");
  refuse("mesh [a=40, b=40]\nfunc @main level 2 { %x = input {name=\"x\"} : f32[3] @{} output \"y\" %x @{} }",
         "1600 ranks are too many");
}

int main(void) {
  RUN(collectives);
  RUN(exchanges);
  RUN(tensor_parallel);
  RUN(pipeline);
  RUN(calls);
  RUN(bits);
  RUN(errors);
  return test_summary();
}
