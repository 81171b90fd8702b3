/* The reference interpreter at level 1: operations compared with numbers computed by hand, both domains, errors. */
#include <math.h>

#include "tests/interp_test.h"

#define P 2147483647.0

/* One operation on constants: no inputs, output "y". */
static void check_text(const char *body, int n, const double *want, const char *file, int line) {
  Arena *a = arena_new();
  InterpProgram p =
      interp_program(arena_printf(a, "symbol n hint 3\nfunc @main level 1 { %s output \"y\" %%y }", body));
  if (!tool_program_run(&p, "main")) {
    diags_print(p.diags, stderr, false);
    test_failed_here++;
  } else {
    check_output(&p, "y", n, want, file, line);
  }
  program_free(&p);
  arena_free(a);
}

#define YIELDS(body, ...) \
  do { \
    const double want_[] = {__VA_ARGS__}; \
    check_text(body, (int)(sizeof want_ / sizeof *want_), want_, __FILE__, __LINE__); \
  } while (0)

#define FLOATS(name, n, list) "%" name " = const {floats=[" list "]} : f32[" n "] "
#define INTS(name, type, n, list) "%" name " = const {ints=[" list "]} : " type "[" n "] "

static void elementwise(void) {
  YIELDS(FLOATS("x", "4", "-1.5, 0, 2.5, nan") "%y = relu %x : f32[4]", 0, 0, 2.5, NAN);
  YIELDS(FLOATS("x", "4", "-1.5, 0, 2.5, 3.5") "%y = round %x : f32[4]", -2, 0, 2, 4);
  YIELDS(FLOATS("x", "3", "-3, nan, 7") "%y = sign %x : f32[3]", -1, NAN, 1);
  YIELDS(FLOATS("x", "2", "4, 0.25") "%y = rsqrt %x : f32[2]", 0.5, 2);
  YIELDS(FLOATS("x", "2", "0, 1") "%y = sigmoid %x : f32[2]", 0.5, 1 / (1 + exp(-1)));
  YIELDS(FLOATS("x", "2", "1, nan") FLOATS("z", "2", "nan, 2") "%y = max %x, %z : f32[2]", NAN, NAN);
  YIELDS(FLOATS("x", "2", "7, -7") FLOATS("z", "2", "3, 3") "%y = mod %x, %z : f32[2]", 1, -1);
  YIELDS(FLOATS("x", "3", "nan, inf, 1") "%y = isnan %x : bool[3]", 1, 0, 0);
  YIELDS(FLOATS("x", "3", "nan, -inf, 1") "%y = isinf %x : bool[3]", 0, 1, 0);
  YIELDS(FLOATS("x", "3", "nan, 1, 2") FLOATS("z", "3", "nan, 1, 1") "%y = ne %x, %z : bool[3]", 1, 0, 1);
  YIELDS(INTS("c", "bool", "3", "1, 0, 1") FLOATS("x", "3", "1, 2, 3")
             FLOATS("z", "3", "4, 5, 6") "%y = select %c, %x, %z : f32[3]",
         1, 5, 3);
}

static void integers(void) {
  YIELDS(INTS("x", "i8", "3", "127, -128, 5") INTS("z", "i8", "3", "1, -1, -7") "%y = add %x, %z : i8[3]", -128, 127,
         -2);
  YIELDS(INTS("x", "u8", "2", "3, 200") INTS("z", "u8", "2", "5, 100") "%y = sub %x, %z : u8[2]", 254, 100);
  YIELDS(INTS("x", "i16", "2", "300, -300") INTS("z", "i16", "2", "300, 300") "%y = mul %x, %z : i16[2]", 90000 - 65536,
         65536 - 90000);
  YIELDS(INTS("x", "i32", "4", "7, -7, 7, -2147483648") INTS("z", "i32", "4", "2, 2, 0, -1") "%y = div %x, %z : i32[4]",
         3, -3, 0, -2147483648.0);
  YIELDS(INTS("x", "i32", "3", "7, -7, 7") INTS("z", "i32", "3", "3, 3, 0") "%y = mod %x, %z : i32[3]", 1, -1, 7);
  YIELDS(INTS("x", "u64", "2", "-1, 5") INTS("z", "u64", "2", "2, 2") "%y = div %x, %z : u64[2]", 9223372036854775807.0,
         2);
  YIELDS(INTS("x", "u64", "2", "-1, 5") INTS("z", "u64", "2", "2, 2") "%y = gt %x, %z : bool[2]", 1, 1);
  YIELDS(INTS("x", "i64", "2", "-1, 5") INTS("z", "i64", "2", "2, 2") "%y = gt %x, %z : bool[2]", 0, 1);
  YIELDS(INTS("x", "i8", "4", "1, 1, -64, 1") INTS("z", "i8", "4", "6, 7, 1, 8") "%y = shl %x, %z : i8[4]", 64, -128,
         -128, 0);
  YIELDS(INTS("x", "i8", "3", "-64, 64, -1") INTS("z", "i8", "3", "3, 3, -1") "%y = shr %x, %z : i8[3]", -8, 8, -1);
  YIELDS(INTS("x", "i8", "4", "-64, 64, -2, 5") INTS("z", "i8", "4", "8, 8, -128, -1") "%y = shr %x, %z : i8[4]", -1, 0,
         -1, 0);
  YIELDS(INTS("x", "i64", "2", "-3, 3") INTS("z", "i64", "2", "64, 64") "%y = shr %x, %z : i64[2]", -1, 0);
  YIELDS(INTS("x", "u8", "2", "192, 192") INTS("z", "u8", "2", "8, 255") "%y = shr %x, %z : u8[2]", 0, 0);
  YIELDS(INTS("x", "u8", "1", "192") INTS("z", "u8", "1", "3") "%y = shr %x, %z : u8[1]", 24);
  YIELDS(INTS("x", "i8", "2", "-128, 3") "%y = abs %x : i8[2]", -128, 3);
  YIELDS(INTS("x", "bool", "2", "1, 0") "%y = not %x : bool[2]", 0, 1);
  YIELDS(INTS("x", "i32", "2", "12, -1") INTS("z", "i32", "2", "10, 6") "%y = xor %x, %z : i32[2]", 6, -7);
}

static void casts(void) {
  YIELDS(FLOATS("x", "5", "1.9, -1.9, 300, -300, nan") "%y = cast %x {to=i8} : i8[5]", 1, -1, 127, -128, 0);
  YIELDS(FLOATS("x", "3", "-1, 1e30, inf") "%y = cast %x {to=u32} : u32[3]", 0, 4294967295.0, 4294967295.0);
  YIELDS(FLOATS("x", "3", "0, 0.5, nan") "%y = cast %x {to=bool} : bool[3]", 0, 1, 1);
  YIELDS(FLOATS("x", "2", "1.00390625, 3.3") "%y = cast %x {to=bf16} : bf16[2]", 1, 3.296875);
  YIELDS(FLOATS("x", "1", "0.1") "%h = cast %x {to=f16} : f16[1] %y = cast %h {to=f64} : f64[1]", 0.0999755859375);
  YIELDS(INTS("x", "i64", "2", "16777217, -1") "%y = cast %x {to=f32} : f32[2]", 16777216, -1);
  YIELDS(INTS("x", "i32", "3", "300, -1, 128") "%y = cast %x {to=i8} : i8[3]", 44, -1, -128);
  YIELDS(INTS("x", "i32", "2", "300, 0") "%y = cast %x {to=bool} : bool[2]", 1, 0);
}

static void shapes(void) {
  const char *x = "%x = const {floats=[1, 2, 3, 4, 5, 6]} : f32[2, 3] ";
  char text[400];
#define ON_X(op) (snprintf(text, sizeof text, "%s%%y = %s", x, op), text)
  YIELDS(ON_X("transpose %x {perm=[1, 0]} : f32[3, 2]"), 1, 4, 2, 5, 3, 6);
  YIELDS(ON_X("reshape %x : f32[3, 2]"), 1, 2, 3, 4, 5, 6);
  YIELDS(ON_X("slice %x {starts=[1, 0], strides=[1, 2]} : f32[1, 2]"), 4, 6);
  YIELDS(ON_X("pad %x {low=[0, 1], high=[1, 0], value=9} : f32[3, 4]"), 9, 1, 2, 3, 9, 4, 5, 6, 9, 9, 9, 9);
  YIELDS(ON_X("concat %x, %x {axis=1} : f32[2, 6]"), 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6);
  YIELDS(ON_X("reduce %x {op=sum, axes=[0]} : f32[3]"), 5, 7, 9);
  YIELDS(ON_X("reduce %x {op=product, axes=[1]} : f32[2]"), 6, 120);
  YIELDS(ON_X("reduce %x {op=max, axes=[0, 1]} : f32[]"), 6);
  YIELDS("%x = const {floats=[7, 8]} : f32[2] %y = broadcast %x {dims=[1]} : f32[3, 2]", 7, 8, 7, 8, 7, 8);
  YIELDS("%x = const {floats=[7, 8]} : f32[2, 1] %y = broadcast %x {dims=[0, 1]} : f32[2, 2]", 7, 7, 8, 8);
  YIELDS("%y = iota {axis=1, start=0} : i32[2, n]", 0, 1, 2, 0, 1, 2);
  YIELDS("%y = size {expr=2*n + 1} : f32[2]", 7, 7);
  YIELDS("%x = const {value=1} : f32[0, 2] %y = reduce %x {op=max, axes=[0]} : f32[2]", -INFINITY, -INFINITY);
  YIELDS("%x = const {value=1} : i8[0] %y = reduce %x {op=min, axes=[0]} : i8[]", 127);
  YIELDS("%x = const {value=1} : bool[0] %y = reduce %x {op=and, axes=[0]} : bool[]", 1);
}

static void contractions(void) {
  const char *ab =
      "%a = const {floats=[1, 2, 3, 4, 5, 6]} : f32[2, 3] %b = const {floats=[1, 0, 2, 1, 0, 3]} : f32[3, 2] ";
  char text[400];
#define ON_AB(op) (snprintf(text, sizeof text, "%s%%y = %s", ab, op), text)
  YIELDS(ON_AB("dot %a, %b {spec=\"mk,kn->mn\"} : f32[2, 2]"), 5, 11, 14, 23);
  YIELDS(ON_AB("dot %a, %b {spec=\"mk,kn->nm\"} : f32[2, 2]"), 5, 14, 11, 23);
  YIELDS(ON_AB("dot %a, %b {spec=\"mk,km->m\"} : f32[2]"), 5, 23);
  YIELDS(ON_AB("dot %a, %b {spec=\"mk,kn->k\"} : f32[3]"), 5, 21, 27);
  YIELDS("%a = const {ints=[100, 100]} : i8[2] %y = dot %a, %a {spec=\"k,k->\"} : i8[]", 20000 - 78 * 256);
  YIELDS(
      "%t = const {floats=[1, 2, 3, 4, 5, 6]} : f32[3, 2] %i = const {ints=[2, -1, 0, 3]} : i64[4] %y = gather %t, %i "
      "{axis=0, start=0} : f32[4, 2]",
      5, 6, 0, 0, 1, 2, 0, 0);
  YIELDS(
      "%t = const {floats=[1, 2, 3, 4, 5, 6]} : f32[2, 3] %i = const {ints=[1, 1]} : i32[2] %y = gather %t, %i "
      "{axis=1, start=0} : f32[2, 2]",
      2, 2, 5, 5);
  YIELDS(
      "%t = const {floats=[1, 2, 3, 4]} : f32[4] %u = const {floats=[8, 9]} : f32[2] %p = const {value=3} : i64[] "
      "%y = update %t, %u, %p {axis=0, start=0} : f32[4]",
      1, 2, 3, 8);
  YIELDS(
      "%t = const {floats=[1, 2, 3, 4]} : f32[4] %u = const {floats=[8, 9]} : f32[2] %p = const {value=-1} : i64[] "
      "%y = update %t, %u, %p {axis=0, start=0} : f32[4]",
      9, 2, 3, 4);
  YIELDS(
      "%t = const {floats=[1, 2, 3, 4]} : f32[4] %u = const {floats=[8, 9]} : f32[2] %p = const {value=0} : i64[] "
      "%n = const {value=-1} : i64[] %y = update %t, %u, %p, %n {axis=0, start=0} : f32[4]",
      1, 2, 3, 4);
}

static void composites(void) {
  double e1 = exp(-1), s = 1 + e1;
  YIELDS("%x = const {floats=[1, 2]} : f32[2] %y = softmax %x {axis=0} : f32[2]", e1 / s, 1 / s);
  YIELDS("%x = const {floats=[1, 3]} : f32[2] %y = norm %x {kind=\"layer\", eps=3} : f32[2]", -0.5, 0.5);
  YIELDS("%x = const {floats=[1, 7]} : f32[2] %y = norm %x {kind=\"rms\", eps=0} : f32[2]", 0.2, 1.4);
  YIELDS("%x = const {floats=[0, 0]} : f32[1, 2] %l = const {ints=[1]} : i64[1] %y = cross_entropy %x, %l : f32[1]",
         log(2));
  YIELDS(
      "%x = const {floats=[1, 0, 0, 1]} : f32[2, 1, 2] %p = const {ints=[0, 2]} : i64[2] %y = rope %x, %p {base=10, "
      "interleaved=0} : f32[2, 1, 2]",
      1, 0, -sin(2), cos(2));
  YIELDS(
      "%x = const {floats=[1, 2, 3, 4]} : f32[1, 1, 4] %p = const {ints=[3]} : i64[1] %y = rope %x, %p {base=100, "
      "interleaved=1} : f32[1, 1, 4]",
      cos(3) - 2 * sin(3), sin(3) + 2 * cos(3), 3 * cos(0.3) - 4 * sin(0.3), 3 * sin(0.3) + 4 * cos(0.3));
  /* Two queries at positions 0 and 1, keys at 0, 1, 2 of which two are valid: weights 1; then 1 : e. */
  YIELDS(
      "%q = const {floats=[1, 1]} : f32[1, 1, 1, 2, 1] %k = const {floats=[0, 2, 9]} : f32[1, 1, 3, 1] %v = const "
      "{floats=[1, 3, 100]} : "
      "f32[1, 1, 3, 1] %s = const {ints=[0, 1]} : i64[2] %t = const {ints=[0, 1, 2]} : i64[3] %n = const {value=2} : "
      "i64[] "
      "%y = attention %q, %k, %v, %s, %t, %n {scale=0.5, causal=1} : f32[1, 1, 1, 2, 1]",
      1, (1 + 3 * exp(1)) / (1 + exp(1)));
  YIELDS(
      "%q = const {value=1} : f32[1, 1, 1, 1, 1] %k = const {value=1} : f32[1, 1, 3, 1] %s = const {value=0} : i64[1] "
      "%t = const {ints=[0, 1, 2]} : "
      "i64[3] %n = const {value=0} : i64[] %y = attention %q, %k, %k, %s, %t, %n {scale=1, causal=0} : f32[1, 1, 1, 1, "
      "1]",
      0);
  YIELDS(
      "%q = const {floats=[1, -inf]} : f32[1, 1, 1, 2, 1] %k = const {value=1} : f32[1, 1, 3, 1] %s = const {value=0} "
      ": i64[2] %t = const {ints=[0, 1, 2]} : "
      "i64[3] %n = const {value=3} : i64[] %y = attention %q, %k, %k, %s, %t, %n {scale=1, causal=0} : f32[1, 1, 1, 2, "
      "1]",
      1, 0);
  YIELDS(
      "%q = const {value=1} : f32[1, 1, 1, 2, 1] %k = const {value=1} : f32[1, 1, 0, 1] %s = const {value=0} : i64[2] "
      "%t = const {value=0} : i64[0] "
      "%n = const {value=0} : i64[] %y = attention %q, %k, %k, %s, %t, %n {scale=1, causal=1} : f32[1, 1, 1, 2, 1]",
      0, 0);
}

/* ---- modulo p */

static void residues(void) {
  CHECK(interp_residue(0) == 0 && interp_residue(1) == 1 && interp_residue(-1) == INTERP_P - 1);
  CHECK(interp_residue(P) == 0 && interp_residue(P * 5 + 3) == 3);
  CHECK(interp_residue(0.5) * 2 % INTERP_P == 1 && interp_residue(-0.375) * 8 % INTERP_P == INTERP_P - 3);
  CHECK(interp_residue(0x1p-1074) != 0 && interp_residue(0x1p31) == 1 && interp_residue(0x1p-31) == 1);
  CHECK(interp_residue(-INFINITY) == 0 && interp_residue(INFINITY) == INTERP_P - 1);
  /* 0.1 is the nearest double, exactly: ten times it is 1 + 2^-54. */
  CHECK(interp_residue(0.1) * 10 % INTERP_P != 1 && interp_residue(0.1) * 10 % INTERP_P == 1 + interp_residue(0x1p-54));
}

static void modp(void) {
  InterpProgram p = interp_program(
      "func @main level 1 {\n"
      "  %x = input {name=\"x\"} : f32[3]  %z = input {name=\"z\"} : f32[3]\n"
      "  %add = add %x, %z : f32[3]  %div = div %x, %z : f32[3]  %back = mul %div, %z : f32[3]\n"
      "  %dot = dot %x, %z {spec=\"k,k->\"} : f32[]  %max = reduce %x {op=max, axes=[0]} : f32[]\n"
      "  %exp = exp %x : f32[3]  %same = exp %x : f32[3]  %eq = eq %exp, %same : bool[3]  %ne = eq %exp, %add : "
      "bool[3]\n"
      "  %i = cast %x {to=i32} : i32[3]  %f = cast %i {to=f32} : f32[3]\n"
      "  output \"add\" %add output \"back\" %back output \"dot\" %dot output \"max\" %max output \"eq\" %eq output "
      "\"ne\" %ne\n"
      "  output \"f\" %f output \"i\" %i\n}");
  p.options.domain = DOMAIN_MODP;
  program_numbers(&p, "x", DT_f32, 1, (int64_t[]){3}, (double[]){3, -2, 0.5});
  program_numbers(&p, "z", DT_f32, 1, (int64_t[]){3}, (double[]){7, 11, 0});
  CHECK(tool_program_run(&p, "main"));
  CHECK_OUTPUT(&p, "add", 10, 9, 0.5);
  CHECK_OUTPUT(&p, "back", 3, -2, 0); /* dividing by 0 gives 0 */
  CHECK_OUTPUT(&p, "dot", -1);
  CHECK_OUTPUT(&p, "max", -2); /* the largest residue */
  CHECK_OUTPUT(&p, "eq", 1, 1, 1);
  CHECK_OUTPUT(&p, "ne", 0, 0, 0);
  CHECK(program_output(&p, "i")->cells[0].i == 3 && program_output(&p, "i")->cells[1].i == -2);
  CHECK_OUTPUT(&p, "f", 3, -2,
               (double)(int32_t)(int64_t)(interp_residue(0.5) > INTERP_P / 2 ? (int64_t)interp_residue(0.5) - INTERP_P
                                                                             : (int64_t)interp_residue(0.5)));
  program_free(&p);
}

/* ---- weights, state, calls */

static bool two_by_index(void *context, const Module *m, const Param *p, InterpTensor *out, Diags *diags) {
  (void)m, (void)p, (void)diags;
  for (int64_t i = 0; i < interp_elements(out); i++) out->cells[i].f = *(double *)context * (double)i;
  return true;
}

static const char *const with_weights =
    "blob \"w.bin\" bytes 64\n"
    "param \"w\" : f32[2, 3] = blob 0 offset 0 strides [3, 1]\n"
    "param \"c\" : f32[2] = constant 1.5\n"
    "param \"u\" : f32[4] = uniform 0.5 seed 1\n"
    "param \"made\" : f32[3, 2] = prepared\n"
    "state \"s\" : i64[] = 40\n"
    "func @prepare level 1 { %w = param {name=\"w\"} : f32[2, 3] %t = transpose %w {perm=[1, 0]} : f32[3, 2] output "
    "\"made\" %t }\n"
    "func @double level 1 { %a = input {name=\"a\"} : f32[3, 2] %y = add %a, %a : f32[3, 2] output \"y\" %y }\n"
    "func @main level 1 { %m = param {name=\"made\"} : f32[3, 2] %y = call %m {name=\"double\"} : f32[3, 2] %z = call "
    "%y {name=\"double\"} : f32[3, 2]\n"
    "  %s = read {name=\"s\"} : i64[] %two = const {value=2} : i64[] %n = add %s, %two : i64[] write \"w\" %n "
    "{name=\"s\"}\n"
    "  %c = param {name=\"c\"} : f32[2] %u = param {name=\"u\"} : f32[4]\n"
    "  output \"z\" %z output \"old\" %s output \"c\" %c output \"u\" %u }";

static void weights_state_calls(void) {
  double step = 2;
  InterpProgram p = interp_program(with_weights);
  CHECK(!tool_program_run(&p, "main"));
  CHECKF(strstr(program_error(&p), "\"w\" is in a file"), "%s", program_error(&p));
  p.options.blob = two_by_index;
  p.options.context = &step;
  CHECK(tool_program_run(&p, "main"));
  CHECK_OUTPUT(&p, "z", 0, 24, 8, 32, 16, 40);
  CHECK_OUTPUT(&p, "c", 1.5, 1.5);
  CHECK_OUTPUT(&p, "old", 40);
  CHECK_OUTPUT(&p, "s", 42);
  const InterpTensor *u = program_output(&p, "u");
  CHECK(u && u->cells[0].f != u->cells[1].f && fabs(u->cells[2].f) <= 0.5);
  p.options.states = p.result.states; /* the next step starts where this one ended */
  p.options.nstates = p.result.nstates;
  CHECK(tool_program_run(&p, "main"));
  CHECK_OUTPUT(&p, "s", 44);
  program_free(&p);
}

/* ---- errors */

static void refuse(const char *text, const char *message, int ninputs, int64_t extent) {
  InterpProgram p = interp_program(text);
  if (ninputs) program_input(&p, "x", DT_f32, 1, &extent);
  CHECK(!tool_program_run(&p, "main"));
  CHECKF(strstr(program_error(&p), message), "\"%s\" does not say \"%s\"", program_error(&p), message);
  program_free(&p);
}

static void errors(void) {
  const char *one = "func @main level 1 { %x = input {name=\"x\"} : f32[4] %y = neg %x : f32[4] output \"y\" %y }";
  refuse(one, "the input \"x\" is not given", 0, 0);
  refuse(one, "dimension 0 of extent 5 gives this rank 5, its type says 4", 1, 5);
  refuse("func @main level 1 { %x = const {value=1} : f32[1000000, 1000000] output \"y\" %x }", "too many to interpret",
         0, 0);
  refuse("func @main level 1 { %x = const {value=1} : f32[4000000000, 4000000000, 4000000000] output \"y\" %x }", "", 0,
         0);
  refuse(
      "param \"w\" : f32[100000, 100000] = zeros\nfunc @main level 1 { %x = param {name=\"w\"} : f32[100000, 100000] "
      "output \"y\" %x }",
      "too many", 0, 0);
  refuse("symbol n min 2 hint 1\nfunc @main level 1 { %x = const {value=1} : f32[n] output \"y\" %x }",
         "1 is not a legal value of the dimension n", 0, 0);
  refuse(
      "symbol n hint 4\nsymbol k hint 3\nfunc @main level 1 { %x = const {value=1} : f32[n] %y = slice %x {starts=[k], "
      "strides=[1]} : f32[3] output \"y\" %y }",
      "reads 3 .. 5 of dimension 0 of extent 4", 0, 0);
}

int main(void) {
  RUN(elementwise);
  RUN(integers);
  RUN(casts);
  RUN(shapes);
  RUN(contractions);
  RUN(composites);
  RUN(residues);
  RUN(modp);
  RUN(weights_state_calls);
  RUN(errors);
  return test_summary();
}
