/* tests/kernel_texts.h - the cases of tests/kernel_cases.h that are written as text: reductions, rows, moves,
 * attention, products, windows, indexing. */
#ifndef APC_TESTS_KERNEL_TEXTS_H
#define APC_TESTS_KERNEL_TEXTS_H

#include "tests/kernel_case.h"

/* A function body of inputs and operations; every `out` line is an output. */
static void text_case(const char *name, const char *body) {
  Arena *a = arena_new();
  const char *text =
      arena_printf(a, "symbol b hint 3\nsymbol s hint 70\nmesh [tp=1] stages 1\nfunc @r level 2 {\n%s}\n", body);
  add_case(name, interp_program(text), (uint64_t)ncases);
  arena_free(a);
}

/* One instruction per line, however the line is cut into strings. */
/* clang-format off */

#define IN(name, type) "  %" name " = input {name=\"" name "\"} : " type " @{}\n"
#define OUTF(name) "  output \"" name "\" %%" name " @{}\n" /* inside a format */
#define OUT(name) "  output \"" name "\" %" name " @{}\n"

static void reductions(void) {
  text_case("reduce rows", IN("x", "f32[b,s]") "  %a = reduce %x {axes=[1], op=sum} : f32[b]\n"
            "  %m = reduce %x {axes=[1], op=max} : f32[b]\n"
            "  %n = reduce %x {axes=[1], op=min} : f32[b]\n  %p = reduce %x {axes=[1], op=product} : f32[b]\n" OUT("a")
            OUT("m") OUT("n") OUT("p"));
  text_case("reduce columns", IN("x", "f32[s,5]") "  %a = reduce %x {axes=[0], op=sum} : f32[5]\n"
            "  %m = reduce %x {axes=[0], op=max} : f32[5]\n" OUT("a") OUT("m"));
  text_case("reduce wide columns", IN("x", "f32[b,1500,130]") "  %y = exp %x : f32[b,1500,130]\n"
            "  %a = reduce %y {axes=[1], op=sum} : f32[b,130]\n"
            "  %t = tanh %a : f32[b,130]\n" OUT("a") OUT("t"));
  text_case("reduce all", IN("x", "f32[b,s,5]") "  %a = reduce %x {axes=[0,1,2], op=sum} : f32[]\n" OUT("a"));
  text_case("reduce outer", IN("x", "f32[b,4,s,5]") "  %a = reduce %x {axes=[0,2], op=sum} : f32[4,5]\n" OUT("a"));
  text_case("reduce long", IN("x", "f32[2,5000]") "  %a = reduce %x {axes=[1], op=sum} : f32[2]\n" OUT("a"));
  text_case("reduce one row", IN("x", "f32[100000]") IN("y", "i32[70000]") "  %e = exp %x : f32[100000]\n"
            "  %a = reduce %e {axes=[0], op=sum} : f32[]\n"
            "  %m = reduce %x {axes=[0], op=max} : f32[]\n  %i = reduce %y {axes=[0], op=sum} : i32[]\n"
            "  %s = softmax %x {axis=0} : f32[100000]\n" OUT("a") OUT("m") OUT("i") OUT("s"));
  text_case("reduce no row", IN("x", "f32[0]") "  %a = reduce %x {axes=[0], op=sum} : f32[]\n" OUT("a"));
  text_case("reduce empty", IN("x", "f32[3,0]") "  %a = reduce %x {axes=[1], op=sum} : f32[3]\n"
            "  %m = reduce %x {axes=[1], op=max} : f32[3]\n" OUT("a") OUT("m"));
  text_case("reduce empty columns", IN("x", "i32[0,3]") "  %a = reduce %x {axes=[0], op=sum} : i32[3]\n"
            "  %m = reduce %x {axes=[0], op=max} : i32[3]\n" OUT("a") OUT("m"));
  text_case("reduce ones", IN("x", "f32[3,1,1]") "  %a = reduce %x {axes=[1], op=sum} : f32[3,1]\n"
            "  %e = exp %a : f32[3,1]\n" OUT("a") OUT("e"));
  text_case("reduce nothing", IN("x", "f32[3,4]") "  %a = reduce %x {axes=[], op=sum} : f32[3,4]\n" OUT("a"));
  text_case("reduce f16", IN("x", "f16[b,s,3]") "  %a = reduce %x {axes=[0,1], op=sum} : f16[3]\n" OUT("a"));
  text_case("reduce bf16", IN("x", "bf16[b,s]") "  %a = reduce %x {axes=[1], op=sum} : bf16[b]\n" OUT("a"));
  text_case("reduce f64", IN("x", "f64[b,s,3]") "  %a = reduce %x {axes=[1], op=sum} : f64[b,3]\n" OUT("a"));
  static const char *const types[] = {"i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64"};
  for (int i = 0; i < 8; i++) {
    Arena *a = arena_new();
    const char *t = types[i];
    text_case(arena_printf(a, "reduce %s", t),
              arena_printf(a, "  %%x = input {name=\"x\"} : %s[b,s] @{}\n  %%y = add %%x, %%x : %s[b,s]\n"
            "  %%a = reduce %%y {axes=[1], op=sum} : %s[b]\n  %%m = reduce %%y {axes=[0], op=max} : %s[s]\n"
                           "  %%n = reduce %%y {axes=[1], op=min} : %s[b]\n"
            "  %%p = reduce %%x {axes=[1], op=product} : %s[b]\n" OUTF("a") OUTF("m") OUTF("n")
            OUTF("p"), t, t, t, t, t, t));
    arena_free(a);
  }
  text_case("reduce bool", IN("x", "bool[b,s]") "  %a = reduce %x {axes=[1], op=or} : bool[b]\n"
            "  %m = reduce %x {axes=[0], op=and} : bool[s]\n" OUT("a") OUT("m"));
}

/* Parts of sums that begin somewhere in the whole dimension. */
static void parts(void) {
  text_case("reduce a part of rows", IN("x", "f32[b,3000]")
            "  %a = reduce %x {axes=[1], op=sum, starts=[1000]} : f32[b]\n  %q = mul %x, %x : f32[b,3000]\n"
            "  %m = reduce %q {axes=[1], op=max} : f32[b]\n"
            "  %s = reduce %q {axes=[1], op=sum, starts=[1000]} : f32[b]\n" OUT("a") OUT("m") OUT("s"));
  text_case("reduce a part of columns", IN("x", "f32[1500,21]")
            "  %a = reduce %x {axes=[0], op=sum, starts=[s + 1]} : f32[21]\n" OUT("a"));
  text_case("reduce a part of one row", IN("x", "f32[20000]")
            "  %a = reduce %x {axes=[0], op=sum, starts=[77777]} : f32[]\n" OUT("a"));
  text_case("reduce a part of one block", IN("x", "f32[b,s]")
            "  %a = reduce %x {axes=[1], op=sum, starts=[33]} : f32[b]\n  %r = broadcast %a {dims=[0]} : f32[b,s]\n"
            "  %y = div %x, %r : f32[b,s]\n" OUT("y"));
}

static void rows(void) {
  text_case("softmax", IN("x", "f32[b,4,s]") "  %y = softmax %x {axis=2} : f32[b,4,s]\n" OUT("y"));
  text_case("softmax axis 1", IN("x", "f32[b,s,3]") "  %y = softmax %x {axis=1} : f32[b,s,3]\n" OUT("y"));
  text_case("softmax long", IN("x", "f32[2,3001]") "  %y = softmax %x {axis=1} : f32[2,3001]\n" OUT("y"));
  text_case("softmax one", IN("x", "f32[b,1]") "  %y = softmax %x {axis=1} : f32[b,1]\n" OUT("y"));
  text_case("softmax empty", IN("x", "f32[b,0]") "  %y = softmax %x {axis=1} : f32[b,0]\n" OUT("y"));
  text_case("softmax bf16", IN("x", "bf16[b,s]") "  %y = softmax %x {axis=1} : bf16[b,s]\n" OUT("y"));
  text_case("softmax f64", IN("x", "f64[b,s]") "  %y = softmax %x {axis=1} : f64[b,s]\n" OUT("y"));
  text_case("layer norm", IN("x", "f32[b,s,96]")
            IN("g", "f32[96]") "  %n = norm %x {kind=\"layer\", eps=1e-05} : f32[b,s,96]\n"
            "  %h = broadcast %g {dims=[2]} : f32[b,s,96]\n  %y = mul %n, %h : f32[b,s,96]\n" OUT("y"));
  text_case("rms norm residual", IN("x", "f32[b,s,96]") IN("r", "f32[b,s,96]") "  %a = add %x, %r : f32[b,s,96]\n"
            "  %n = norm %a {kind=\"rms\", eps=1e-06} : f32[b,s,96]\n  %y = sigmoid %n : f32[b,s,96]\n" OUT("a")
            OUT("y"));
  text_case("norm f16", IN("x", "f16[b,s]") "  %y = norm %x {kind=\"layer\", eps=1e-05} : f16[b,s]\n" OUT("y"));
  text_case("norm by hand", IN("x", "f32[b,s,96]") "  %s = reduce %x {axes=[2], op=sum} : f32[b,s]\n"
            "  %c = size {expr=96} : f32[b,s]\n"
            "  %m = div %s, %c : f32[b,s]\n  %m1 = reshape %m : f32[b,s,1]\n"
            "  %mb = broadcast %m1 {dims=[0,1,2]} : f32[b,s,96]\n"
            "  %d = sub %x, %mb : f32[b,s,96]\n  %q = mul %d, %d : f32[b,s,96]\n"
            "  %v = reduce %q {axes=[2], op=sum} : f32[b,s]\n"
            "  %r = rsqrt %v : f32[b,s]\n  %rb = broadcast %r {dims=[0,1]} : f32[b,s,96]\n"
            "  %y = mul %d, %rb : f32[b,s,96]\n" OUT("y") OUT("m"));
  text_case("cross entropy", IN("x", "f32[b,s,40]") IN("l", "i64[b,s]") "  %e = exp %x : f32[b,s,40]\n"
            "  %y = cross_entropy %e, %l : f32[b,s]\n"
            "  %t = reduce %y {axes=[0,1], op=sum} : f32[]\n" OUT("y") OUT("t"));
  text_case("cross entropy of masked classes", IN("l", "i64[b]") "  %x = const {value=-1e9} : f32[b,s]\n"
            "  %y = cross_entropy %x, %l : f32[b]\n" OUT("y"));
  text_case("cross entropy narrow", IN("x", "f32[b,2]") IN("l", "i64[b]") "  %y = cross_entropy %x, %l : f32[b]\n"
            OUT("y"));
  text_case("column mean", IN("x", "f32[s,40]") "  %s = reduce %x {axes=[0], op=sum} : f32[40]\n"
            "  %m = broadcast %s {dims=[1]} : f32[s,40]\n"
            "  %y = sub %x, %m : f32[s,40]\n" OUT("y"));
}

static void moves(void) {
  text_case("transpose", IN("x", "f32[b,s,5,4]") "  %y = transpose %x {perm=[0,2,1,3]} : f32[b,5,s,4]\n"
            "  %z = transpose %x {perm=[3,2,1,0]} : f32[4,5,s,b]\n" OUT("y") OUT("z"));
  text_case("transpose i8", IN("x", "i8[s,33]") "  %y = transpose %x {perm=[1,0]} : i8[33,s]\n" OUT("y"));
  text_case("transpose large", IN("x", "f32[300,257]") "  %y = transpose %x {perm=[1,0]} : f32[257,300]\n"
            "  %z = exp %y : f32[257,300]\n" OUT("y") OUT("z"));
  text_case("slice", IN("x", "f32[b,s,7]") "  %y = slice %x {starts=[0, 1, 2], strides=[1,2,3]} : f32[b,30,2]\n"
            "  %z = slice %x {starts=[1, 3, 0], strides=[1,1,1]} : f32[1,5,7]\n"
            "  %e = neg %y : f32[b,30,2]\n" OUT("y") OUT("z") OUT("e"));
  text_case("pad", IN("x", "f32[b,s]") "  %y = pad %x {low=[1, 0], high=[2, 3], value=7} : f32[b + 3,s + 3]\n"
            "  %e = exp %x : f32[b,s]\n"
            "  %z = pad %e {low=[0, 2], high=[0, 0], value=-1} : f32[b,s + 2]\n" OUT("y") OUT("z"));
  /* Along the row, sliced, nested, along rows; several with different borders, more than there are loops. */
  text_case("concat of many", IN("x", "f32[b,s]") IN("y", "f32[b,4]") IN("z", "f32[b,33]")
            "  %c = concat %x, %y, %z, %y {axis=1} : f32[b,s + 41]\n  %h = const {value=0.5} : f32[b,s + 41]\n"
            "  %m = mul %c, %h : f32[b,s + 41]\n"
            "  %e = slice %m {starts=[0, 3], strides=[1, 1]} : f32[b,s + 35]\n  %n = neg %e : f32[b,s + 35]\n"
            "  %o = concat %y, %e, %z {axis=1} : f32[b,s + 72]\n  %p = relu %o : f32[b,s + 72]\n"
            "  %r = concat %z, %z, %z, %z {axis=0} : f32[4*b,33]\n  %q = abs %r : f32[4*b,33]\n"
            OUT("m") OUT("n") OUT("p") OUT("q"));
  text_case("sum of concats", IN("x", "f32[b,9]") IN("y", "f32[b,14]") IN("z", "f32[b,5]") IN("w", "f32[b,7]")
            "  %a = concat %x, %x, %x, %x, %x, %x, %x {axis=1} : f32[b,63]\n"
            "  %c = concat %z, %y, %y, %y, %y, %x, %x, %z, %z, %z, %z, %z, %z, %z, %z {axis=1} : f32[b,119]\n"
            "  %d = concat %w, %w, %w, %w, %w, %w, %w, %w, %w {axis=1} : f32[b,63]\n"
            "  %e = slice %c {starts=[0, 40], strides=[1, 1]} : f32[b,63]\n  %f = add %a, %d : f32[b,63]\n"
            "  %g = add %f, %e : f32[b,63]\n"
            "  %h = slice %c {starts=[0, 0], strides=[1, 1]} : f32[b,63]\n  %i = sub %g, %h : f32[b,63]\n" OUT("i"));
  text_case("concat", IN("x", "f32[b,s]") IN("y", "f32[b,4]")
            IN("z", "f32[b,0]") "  %c = concat %x, %z, %y {axis=1} : f32[b,s + 4]\n"
            "  %d = concat %y, %y {axis=0} : f32[2*b,4]\n"
            "  %e = tanh %d : f32[2*b,4]\n" OUT("c") OUT("d") OUT("e"));
  /* Copied past the caches, in rows that begin at any address. */
  text_case("concat large", IN("x", "f32[3,349,1013]") IN("y", "f32[3,1,1013]")
            "  %c = concat %x, %y {axis=1} : f32[3,350,1013]\n" OUT("c"));
  text_case("broadcast", IN("x", "f32[5]") IN("o", "f32[1,s]") "  %y = broadcast %x {dims=[0]} : f32[5,s]\n"
            "  %z = broadcast %o {dims=[0,1]} : f32[b,s]\n  %w = broadcast %x {dims=[1]} : f32[b,5,s]\n" OUT("y")
            OUT("z") OUT("w"));
  text_case("gather", IN("t", "f32[10,7]") IN("i", "i64[b,s]")
            IN("j", "i32[4]") "  %y = gather %t, %i {axis=0, start=2} : f32[b,s,7]\n"
            "  %z = gather %t, %j {axis=1, start=0} : f32[10,4]\n" OUT("y") OUT("z"));
  text_case("gather fused", IN("t", "f32[10,7]") IN("i", "i64[s]")
            IN("p", "f32[s,7]") "  %y = gather %t, %i {axis=0, start=0} : f32[s,7]\n  %z = add %y, %p : f32[s,7]\n"
            "  %n = norm %z {kind=\"layer\", eps=1e-05} : f32[s,7]\n" OUT("n"));
  text_case("within", IN("i", "i64[b,s]") IN("j", "i32[]") IN("k", "i8[400,700]")
            "  %y = within %i {starts=[2, s], below=4} : i64[b,s]\n  %n = neg %i : i64[b,s]\n"
            "  %z = within %n {starts=[0, 0], below=s, negative=1} : i64[b,s]\n"
            "  %u = within %j {starts=[], below=4} : i32[]\n"
            "  %v = within %k {starts=[0, 0], below=4} : i8[400,700]\n" OUT("y") OUT("z") OUT("u") OUT("v"));
  text_case("update", IN("x", "f32[b,10,4]") IN("u", "f32[b,3,4]")
            IN("p", "i64[]") "  %y = update %x, %u, %p {axis=1, start=0} : f32[b,10,4]\n"
            "  %z = update %x, %u, %p {axis=1, start=2} : f32[b,10,4]\n"
            "  %w = update %x, %u, %p {axis=1, start=-8} : f32[b,10,4]\n" OUT("y") OUT("z") OUT("w"));
  text_case("iota", "  %x = iota {axis=1, start=5} : f32[b,s]\n  %y = iota {axis=0, start=0} : i64[s]\n"
            "  %z = iota {axis=0, start=250} : u8[s]\n" OUT("x") OUT("y") OUT("z"));
  text_case("const", "  %x = const {floats=[1, 2.5, -3, inf]} : f32[2,2]\n  %y = const {ints=[1, -2, 3]} : i8[3]\n"
            "  %z = const {value=3} : bf16[s]\n  %h = const {floats=[0.1, 2]} : f16[2]\n"
            "  %c = broadcast %x {dims=[0,2]} : f32[2,s,2]\n  %e = exp %c : f32[2,s,2]\n"
            "  %l = size {expr=2*b + s} : i64[]\n" OUT("x") OUT("y") OUT("z") OUT("h") OUT("e") OUT("l"));
  text_case("const.ends", "  %a = const {value=nan} : i64[s]\n  %b = const {value=-inf} : i32[s]\n"
            "  %c = const {value=inf} : u8[s]\n  %d = const {value=1e+30} : i64[s]\n"
            "  %e = const {value=inf} : u64[s]\n  %f = const {value=nan} : bool[s]\n" OUT("a") OUT("b") OUT("c")
            OUT("d") OUT("e") OUT("f"));
  text_case("random", "  %u = random {kind=\"uniform\", seed=7, starts=[1, 2], extents=[10, 100]} : f32[b,s]\n"
            "  %n = random {kind=\"normal\", seed=9, starts=[0], extents=[s]} : f32[s]\n"
            "  %h = random {kind=\"normal\", seed=9, starts=[0], extents=[s]} : bf16[s]\n" OUT("u") OUT("n") OUT("h"));
  text_case("random keyed", IN("k", "i64[]") IN("l", "u32[]") IN("x", "f32[b,s]")
            "  %u = random_keyed %k {kind=\"uniform\", seed=7, stream=3, starts=[1, 2], extents=[10, 100]} : f32[b,s]\n"
            "  %d = mul %u, %x : f32[b,s]\n"
            "  %n = random_keyed %l {kind=\"normal\", seed=-9, stream=0, starts=[0], extents=[s]} : f32[s]\n"
            "  %o = const {value=1} : i64[]\n  %m = sub %k, %o : i64[]\n"
            "  %h = random_keyed %m {kind=\"normal\", seed=9, stream=-1, starts=[0], extents=[s]} : bf16[s]\n"
            OUT("d") OUT("n") OUT("h"));
  text_case("reshape", IN("x", "f32[b,6]") "  %y = reshape %x : f32[2*b,3]\n  %e = exp %y : f32[2*b,3]\n"
            "  %z = reshape %e : f32[6*b]\n  %c = copy %z : f32[6*b]\n  %r = relu %c : f32[6*b]\n" OUT("y") OUT("c")
            OUT("r"));
  text_case("level 2 moves", IN("x", "f32[b,s]") "  %y = shard_slice %x {axis=1, start=2} : f32[b,s - 4]\n"
            "  %m = mask_partial %x {mesh_axes=[tp], op=max} : f32[b,s]\n  %e = exp %m : f32[b,s]\n"
            "  %z = tanh %y : f32[b,s - 4]\n" OUT("y") OUT("e") OUT("z"));
  text_case("rope", IN("x", "f32[b,s,3,8]") IN("p", "i64[s]") "  %q = mul %p, %p : i64[s]\n"
            "  %y = rope %x, %q {base=10000, interleaved=0} : f32[b,s,3,8]\n"
            "  %z = rope %x, %p {base=500, interleaved=1} : f32[b,s,3,8]\n" OUT("y") OUT("z"));
  text_case("rope bf16", IN("x", "bf16[s,3,64]")
            IN("p", "i64[s]") "  %y = rope %x, %p {base=10000, interleaved=0} : bf16[s,3,64]\n" OUT("y"));
}

static void attentions(void) {
  static const char *const types[] = {"f32", "f64", "f16", "bf16"};
  static const char *const shapes[][2] = {{"b,2,2,s", "s"}, {"1,2,4,1", "150"}, {"2,1,1,33", "0"}, {"1,1,2,40", "150"}};
  for (int i = 0; i < 4; i++)
    for (int k = 0; k < 4; k++)
      for (int causal = 0; causal < 2; causal++) {
        Arena *a = arena_new();
        const char *t = types[i], *q = shapes[k][0], *n = shapes[k][1], *s = strrchr(q, ',') + 1;
        const char *bg = arena_strndup(a, q, 3);
        text_case(arena_printf(a, "attention %s %s %d", t, q, causal),
                  arena_printf(a, "  %%q = input {name=\"q\"} : %s[%s,20] @{}\n"
            "  %%k = input {name=\"k\"} : %s[%s,%s,20] @{}\n"
                               "  %%v = input {name=\"v\"} : %s[%s,%s,40] @{}\n"
            "  %%i = iota {axis=0, start=1} : i64[%s]\n"
                               "  %%j = iota {axis=0, start=0} : i64[%s]\n  %%n = const {value=60} : i64[]\n"
                               "  %%y = attention %%q, %%k, %%v, %%i, %%j, %%n {scale=2.5, causal=%d} : %s[%s,40]\n"
            OUTF("y"),
                               t, q, t, bg, n, t, bg, n, s, n, causal, t, q));
        text_case(arena_printf(a, "attention with sums %s %s %d", t, q, causal),
                  arena_printf(a, "  %%q = input {name=\"q\"} : %s[%s,20] @{}\n"
            "  %%k = input {name=\"k\"} : %s[%s,%s,20] @{}\n"
                               "  %%v = input {name=\"v\"} : %s[%s,%s,40] @{}\n"
            "  %%i = iota {axis=0, start=-1} : i64[%s]\n"
                               "  %%j = iota {axis=0, start=0} : i64[%s]\n  %%n = const {value=60} : i64[]\n"
                               "  %%y, %%x, %%z = attention %%q, %%k, %%v, %%i, %%j, %%n {scale=2.5, causal=%d, sums=1}"
                               " : %s[%s,40], %s[%s], %s[%s]\n" OUTF("y") OUTF("x") OUTF("z"),
                               t, q, t, bg, n, t, bg, n, s, n, causal, t, q, i == 1 ? "f64" : "f32", q,
                               i == 1 ? "f64" : "f32", q));
        static const char *const biases[] = {"bgrst", "t", "bst", "grt"};
        static const int dims[][4] = {{1, 1, 1, 1}, {0, 0, 0, 0}, {1, 0, 0, 1}, {0, 1, 1, 0}}; /* of q */
        const char *bias = "";
        for (int d = 0, at = 0; d < 4; d++) {
          int length = (int)strcspn(q + at, ",");
          if (dims[k][d]) bias = arena_printf(a, "%s%.*s,", bias, length, q + at);
          at += length + 1;
        }
        text_case(arena_printf(a, "attention with bias %s %s %d", t, q, causal),
                  arena_printf(a, "  %%q = input {name=\"q\"} : %s[%s,20] @{}\n"
            "  %%k = input {name=\"k\"} : %s[%s,%s,20] @{}\n"
                               "  %%v = input {name=\"v\"} : %s[%s,%s,40] @{}\n"
            "  %%x = input {name=\"x\"} : %s[%s%s] @{}\n"
            "  %%i = iota {axis=0, start=-1} : i64[%s]\n"
                               "  %%j = iota {axis=0, start=0} : i64[%s]\n  %%n = const {value=60} : i64[]\n"
                               "  %%y, %%w, %%z = attention %%q, %%k, %%v, %%i, %%j, %%n, %%x"
                               " {scale=2.5, causal=%d, bias=\"%s\", sums=1}"
                               " : %s[%s,40], %s[%s], %s[%s]\n" OUTF("y") OUTF("w") OUTF("z"),
                               t, q, t, bg, n, t, bg, n, t, bias, n, s, n, causal, biases[k], t, q,
                               i == 1 ? "f64" : "f32", q, i == 1 ? "f64" : "f32", q));
        if (k == 1) /* products that are all -inf */
          text_case(arena_printf(a, "attention %s to -inf %d", t, causal),
                    arena_printf(a, "  %%q = const {value=-inf} : %s[1,1,1,2,20]\n"
            "  %%x = input {name=\"x\"} : %s[1,1,s,20] @{}\n  %%k = exp %%x : %s[1,1,s,20]\n"
                                 "  %%i = iota {axis=0, start=1} : i64[2]\n  %%j = iota {axis=0, start=0} : i64[s]\n"
            "  %%n = const {value=60} : i64[]\n"
                                 "  %%y = attention %%q, %%k, %%x, %%i, %%j, %%n {scale=2.5, causal=%d}"
                                 " : %s[1,1,1,2,20]\n" OUTF("y"), t, t, t, causal, t));
        arena_free(a);
      }
}

/* Whole vectors, which are read in place: three rows against three chunks of keys, of which only the last row sees the
 * third, and two panels of rows. */
static void long_attentions(void) {
  text_case("attention of chunks", IN("q", "f32[1,2,1,3,64]") IN("k", "f32[1,2,1100,64]") IN("v", "f32[1,2,1100,64]")
            "  %i = iota {axis=0, start=1022} : i64[3]\n  %j = iota {axis=0, start=0} : i64[1100]\n"
            "  %n = const {value=1090} : i64[]\n"
            "  %y, %x, %z = attention %q, %k, %v, %i, %j, %n {scale=0.5, causal=1, sums=1}"
            " : f32[1,2,1,3,64], f32[1,2,1,3], f32[1,2,1,3]\n" OUT("y") OUT("x") OUT("z"));
  text_case("attention of chunks with bias",
            IN("q", "f32[2,2,1,3,64]") IN("k", "f32[2,2,1100,64]") IN("v", "f32[2,2,1100,64]") IN("x", "f32[2,1100]")
            "  %i = iota {axis=0, start=1022} : i64[3]\n  %j = iota {axis=0, start=0} : i64[1100]\n"
            "  %n = const {value=1090} : i64[]\n"
            "  %y = attention %q, %k, %v, %i, %j, %n, %x {scale=0.5, causal=1, bias=\"bt\"} : f32[2,2,1,3,64]\n"
            OUT("y"));
  text_case("attention of panels", IN("q", "f32[1,2,1,40,64]") IN("k", "f32[1,2,150,64]") IN("v", "f32[1,2,150,64]")
            "  %i = iota {axis=0, start=100} : i64[40]\n  %j = iota {axis=0, start=0} : i64[150]\n"
            "  %n = const {value=130} : i64[]\n"
            "  %y, %x, %z = attention %q, %k, %v, %i, %j, %n {scale=0.5, causal=1, sums=1}"
            " : f32[1,2,1,40,64], f32[1,2,1,40], f32[1,2,1,40]\n" OUT("y") OUT("x") OUT("z"));
}

/* Rows of the batch with positions, lengths and counts of their own, also beside ones for all rows.  Inputs are from 0
 * to 3. */
static void positions_of_rows(void) {
  static const struct {
    const char *type, *q, *bg, *rows, *t, *k, *from; /* from: of the queries, b times */
  } list[] = {{"f32", "b,2,4,1", "b,2", "1", "150", "20", "40"},    /* few rows; ends of blocks and beyond */
              {"f32", "b,2,2,s", "b,2", "s", "200", "64", "37"},    /* many rows */
              {"f32", "b,1,1,2", "b,1", "2", "1100", "64", "500"},  /* several chunks */
              {"bf16", "b,2,1,3", "b,2", "3", "70", "36", "1"},
              {"f64", "b,1,2,2", "b,1", "2", "70", "8", "30"}};
  text_case("update of rows", IN("x", "f32[b,2,10,4]") IN("u", "f32[b,2,3,4]") IN("p", "i64[b]") IN("n", "i64[b]")
            IN("one", "i64[]")
            "  %two = const {value=2} : i64[b]\n  %less = sub %n, %two : i64[b]\n"
            "  %y = update %x, %u, %p {axis=2, start=0} : f32[b,2,10,4]\n"
            "  %z = update %x, %u, %p, %n {axis=2, start=2} : f32[b,2,10,4]\n"
            "  %w = update %x, %u, %one, %n {axis=2, start=-8} : f32[b,2,10,4]\n"
            "  %v = update %x, %u, %p, %one {axis=2, start=0} : f32[b,2,10,4]\n"
            "  %t = update %x, %u, %one, %less {axis=2, start=0} : f32[b,2,10,4]\n"
            OUT("y") OUT("z") OUT("w") OUT("v") OUT("t"));
  text_case("rope of rows", IN("x", "f32[b,2,s,3,8]") IN("h", "bf16[b,s,3,64]")
            IN("p", "i64[b,s]") "  %q = mul %p, %p : i64[b,s]\n"
            "  %y = rope %x, %q {base=10000, interleaved=0} : f32[b,2,s,3,8]\n"
            "  %z = rope %x, %p {base=500, interleaved=1} : f32[b,2,s,3,8]\n"
            "  %w = rope %h, %q {base=10000, interleaved=0} : bf16[b,s,3,64]\n" OUT("y") OUT("z") OUT("w"));
  for (size_t i = 0; i < sizeof list / sizeof *list; i++)
    for (int own = 1; own < 8; own += i ? 3 : 1) { /* bits: queries, keys, lengths of their own */
      Arena *a = arena_new();
      const char *type = list[i].type, *q = list[i].q, *sums = strcmp(type, "f64") == 0 ? "f64" : "f32";
      Text t = {.arena = a};
      text_printf(&t, "  %%q = input {name=\"q\"} : %s[%s,%s] @{}\n  %%k = input {name=\"k\"} : %s[%s,%s,%s] @{}\n"
                  "  %%v = input {name=\"v\"} : %s[%s,%s,40] @{}\n", type, q, list[i].k, type, list[i].bg, list[i].t,
                  list[i].k, type, list[i].bg, list[i].t);
      text_printf(&t, "  %%of = iota {axis=0, start=0} : i64[b]\n  %%by = const {value=%s} : i64[b]\n"
                  "  %%at = mul %%of, %%by : i64[b]\n  %%s = iota {axis=0, start=1} : i64[%s]\n"
                  "  %%t = iota {axis=0, start=0} : i64[%s]\n", list[i].from, list[i].rows, list[i].t);
      if (own & 1)
        text_printf(&t, "  %%ats = broadcast %%at {dims=[0]} : i64[b,%s]\n"
                    "  %%ss = broadcast %%s {dims=[1]} : i64[b,%s]\n  %%i = add %%ats, %%ss : i64[b,%s]\n",
                    list[i].rows, list[i].rows, list[i].rows);
      if (own & 2)
        text_printf(&t, "  %%ofs = broadcast %%of {dims=[0]} : i64[b,%s]\n"
                    "  %%ts = broadcast %%t {dims=[1]} : i64[b,%s]\n  %%j = sub %%ts, %%ofs : i64[b,%s]\n", list[i].t,
                    list[i].t, list[i].t);
      if (own & 4) text_add(&t, "  %n = mul %at, %of : i64[b]\n");
      else text_add(&t, "  %n = const {value=60} : i64[]\n");
      text_printf(&t, "  %%y, %%m, %%z = attention %%q, %%k, %%v, %s, %s, %%n {scale=0.5, causal=%d, sums=1}"
                  " : %s[%s,40], %s[%s], %s[%s]\n" OUTF("y") OUTF("m") OUTF("z"), own & 1 ? "%i" : "%s",
                  own & 2 ? "%j" : "%t", own != 6, type, q, sums, q, sums, q);
      text_case(arena_printf(a, "attention of rows %s %s %d", type, q, own), text_str(&t));
      arena_free(a);
    }
}

/* More rows and keys than a tile of a GPU, never a multiple; rows that see no key, keys that no row sees. */
static void tiled_attentions(void) {
  static const char *const types[] = {"f32", "f16", "bf16"};
  static const struct {
    const char *bg, *rs, *t, *k, *e, *bias, *of;
    int start, causal;
  } rows[] = {{"1,2", "1,70", "200", "36", "130", "", "", -3, 1},
              {"1,1", "2,33", "129", "64", "64", "st", "33,", 100, 0},
              {"2,1", "3,40", "190", "128", "128", "brst", "2,3,40,", 60, 1},
              {"1,2", "1,130", "64", "80", "96", "t", "", -70, 1},
              {"1,1", "1,64", "70", "20", "8", "", "", 200, 0}};
  for (int i = 0; i < 15; i++) {
    Arena *a = arena_new();
    const char *t = types[i % 3], *s = strchr(rows[i / 3].rs, ',') + 1, *bg = rows[i / 3].bg, *n = rows[i / 3].t,
        *rs = rows[i / 3].rs, *k = rows[i / 3].k, *e = rows[i / 3].e, *bias = "", *of = "", *with = "";
    if (*rows[i / 3].bias) {
      bias = rows[i / 3].bias, with = ", %x";
      of = arena_printf(a, "  %%x = input {name=\"x\"} : %s[%s%s] @{}\n", t, rows[i / 3].of, n);
    }
    text_case(arena_printf(a, "attention of tiles %s %d", t, i / 3),
              arena_printf(a, "  %%q = input {name=\"q\"} : %s[%s,%s,%s] @{}\n"
            "  %%k = input {name=\"k\"} : %s[%s,%s,%s] @{}\n"
                           "  %%v = input {name=\"v\"} : %s[%s,%s,%s] @{}\n%s"
            "  %%i = iota {axis=0, start=%d} : i64[%s]\n  %%j = iota {axis=0, start=0} : i64[%s]\n"
                           "  %%n = const {value=180} : i64[]\n"
            "  %%y, %%w, %%z = attention %%q, %%k, %%v, %%i, %%j, %%n%s {scale=0.3, causal=%d, sums=1%s%s%s}"
                           " : %s[%s,%s,%s], f32[%s,%s], f32[%s,%s]\n" OUTF("y") OUTF("w") OUTF("z"),
                           t, bg, rs, k, t, bg, n, k, t, bg, n, e, of, rows[i / 3].start, s, n, with,
                           rows[i / 3].causal, *bias ? ", bias=\"" : "", bias, *bias ? "\"" : "", t, bg, rs, e, bg, rs,
                           bg, rs));
    arena_free(a);
  }
}

/* More rows and keys than panels and blocks, rows that see no key, keys that no row sees, results of more elements than
 * a warp. */
static void attention_gradients(void) {
  static const char *const types[] = {"f32", "f64", "f16", "bf16"};
  static const struct {
    const char *bg, *rs, *t, *k, *e, *bias, *of;
    int start, causal;
  } rows[] = {{"1,2", "1,40", "70", "36", "40", "", "", -3, 1},
              {"1,1", "2,17", "66", "64", "64", "st", "17,", 100, 0},
              {"2,1", "3,2", "s", "20", "300", "brst", "2,3,2,", 60, 1},
              {"b,2", "1,1", "64", "128", "16", "t", "", 70, 1},
              {"1,2", "2,5", "0", "8", "8", "", "", 0, 0},
              {"1,1", "1,34", "300", "20", "24", "", "", 250, 1},
              {"1,2", "2,75", "130", "128", "80", "st", "75,", 20, 1},
              {"1,1", "1,200", "96", "72", "120", "", "", -60, 1},
              {"1,1", "1,70", "70", "150", "30", "", "", 0, 1}};
  for (int i = 0; i < 36; i++) {
    Arena *a = arena_new();
    const char *t = types[i % 4], *s = strchr(rows[i / 4].rs, ',') + 1, *bg = rows[i / 4].bg, *n = rows[i / 4].t,
        *rs = rows[i / 4].rs, *k = rows[i / 4].k, *e = rows[i / 4].e, *x = "", *with = "",
        *sums = i % 4 == 1 ? "f64" : "f32";
    Text out = {.arena = a};
    text_printf(&out, "  %%q = input {name=\"q\"} : %s[%s,%s,%s] @{}\n", t, bg, rs, k);
    text_printf(&out, "  %%k = input {name=\"k\"} : %s[%s,%s,%s] @{}\n", t, bg, n, k);
    text_printf(&out, "  %%v = input {name=\"v\"} : %s[%s,%s,%s] @{}\n", t, bg, n, e);
    text_printf(&out, "  %%d = input {name=\"d\"} : %s[%s,%s,%s] @{}\n", t, bg, rs, e);
    if (*rows[i / 4].bias) {
      text_printf(&out, "  %%x = input {name=\"x\"} : %s[%s%s] @{}\n", t, rows[i / 4].of, n);
      x = ", %x", with = arena_printf(a, ", bias=\"%s\"", rows[i / 4].bias);
    }
    text_printf(&out, "  %%i = iota {axis=0, start=%d} : i64[%s]\n  %%j = iota {axis=0, start=0} : i64[%s]\n",
                rows[i / 4].start, s, n);
    text_printf(&out, "  %%n = const {value=68} : i64[]\n  %%o, %%m, %%l = attention %%q, %%k, %%v, %%i, %%j, %%n%s"
                " {scale=0.3, causal=%d, sums=1%s} : %s[%s,%s,%s], %s[%s,%s], %s[%s,%s]\n", x, rows[i / 4].causal,
                with, t, bg, rs, e, sums, bg, rs, sums, bg, rs);
    for (int of = 0; of < 3; of++) {
      text_printf(&out, "  %%d%c = attention_grad %%q, %%k, %%v, %%i, %%j, %%n%s, %%o, %%m, %%l, %%d"
                  " {of=\"%c\", scale=0.3, causal=%d%s} : %s[%s,%s,%s]\n", "qkv"[of], x, "qkv"[of],
                  rows[i / 4].causal, with, t, bg, of ? n : rs, of == 2 ? e : k);
      text_printf(&out, "  output \"d%c\" %%d%c @{}\n", "qkv"[of], "qkv"[of]);
    }
    text_case(arena_printf(a, "attention_grad %s %d", t, i / 4), text_str(&out));
    arena_free(a);
  }
}

/* Rows whose keys are all masked by a huge finite number, each number in some rows, beside rows that are not; and keys
 * that are masked in every row.  The scores of a masked row are equal, in f32 and in the interpreter's doubles, since
 * the scale is less than the last bit of the number.  f16 has no such numbers: beside -65504 scores lose bits that the
 * sums and the gradients of q and k show. */
static void masked_attentions(void) {
  static const char *const types[] = {"f32", "f64", "bf16", "f16"};
  static const struct {
    const char *bg, *rs, *t, *k, *e;
  } rows[] = {{"1,2", "1,4", "70", "20", "40"}, {"1,1", "2,33", "130", "64", "64"}};
  for (int i = 0; i < 8; i++) {
    Arena *a = arena_new();
    const char *t = types[i % 4], *s = strchr(rows[i / 4].rs, ',') + 1, *bg = rows[i / 4].bg, *n = rows[i / 4].t,
        *rs = rows[i / 4].rs, *k = rows[i / 4].k, *e = rows[i / 4].e, *sums = i % 4 == 1 ? "f64" : "f32",
        *scale = i % 4 == 3 ? "1e-4" : "1e-9", *low = i % 4 == 3 ? "-65504" : "-3.3e38";
    Text out = {.arena = a};
    text_printf(&out, "  %%q = input {name=\"q\"} : %s[%s,%s,%s] @{}\n", t, bg, rs, k);
    text_printf(&out, "  %%k = input {name=\"k\"} : %s[%s,%s,%s] @{}\n", t, bg, n, k);
    text_printf(&out, "  %%v = input {name=\"v\"} : %s[%s,%s,%s] @{}\n", t, bg, n, e);
    text_printf(&out, "  %%d = input {name=\"d\"} : %s[%s,%s,%s] @{}\n", t, bg, rs, e);
    text_printf(&out, "  %%i = iota {axis=0, start=0} : i64[%s]\n  %%four = const {value=4} : i64[%s]\n"
                "  %%which = mod %%i, %%four : i64[%s]\n  %%all = const {floats=[0, -1e4, %s, %s]} : %s[4]\n"
                "  %%row = gather %%all, %%which {axis=0, start=0} : %s[%s]\n"
                "  %%rows = broadcast %%row {dims=[0]} : %s[%s,%s]\n", s, s, s, i % 4 == 3 ? "-1e4" : "-1e9", low, t,
                t, s, t, s, n);
    text_printf(&out, "  %%key = iota {axis=1, start=0} : i64[%s,%s]\n  %%three = const {value=3} : i64[%s,%s]\n"
                "  %%third = mod %%key, %%three : i64[%s,%s]\n  %%one = const {value=1} : i64[%s,%s]\n"
                "  %%far = eq %%third, %%one : bool[%s,%s]\n  %%low = const {value=%s} : %s[%s,%s]\n"
                "  %%x = select %%far, %%low, %%rows : %s[%s,%s]\n", s, n, s, n, s, n, s, n, s, n, low, t, s, n, t,
                s, n);
    text_printf(&out, "  %%j = iota {axis=0, start=0} : i64[%s]\n  %%n = const {value=68} : i64[]\n"
                "  %%o, %%m, %%l = attention %%q, %%k, %%v, %%i, %%j, %%n, %%x {scale=%s, causal=0, bias=\"st\","
                " sums=1} : %s[%s,%s,%s], %s[%s,%s], %s[%s,%s]\n" OUTF("o") "%s", n, scale, t, bg, rs, e, sums,
                bg, rs, sums, bg, rs, i % 4 == 3 ? "" : "  output \"l\" %l @{}\n");
    for (int of = i % 4 == 3 ? 2 : 0; of < 3; of++) {
      text_printf(&out, "  %%d%c = attention_grad %%q, %%k, %%v, %%i, %%j, %%n, %%x, %%o, %%m, %%l, %%d"
                  " {of=\"%c\", scale=%s, causal=0, bias=\"st\"} : %s[%s,%s,%s]\n", "qkv"[of], "qkv"[of], scale, t,
                  bg, of ? n : rs, of == 2 ? e : k);
      text_printf(&out, "  output \"d%c\" %%d%c @{}\n", "qkv"[of], "qkv"[of]);
    }
    text_case(arena_printf(a, "attention of masked rows %s %d", t, i / 4), text_str(&out));
    arena_free(a);
  }
}

/* A few rows against many keys: for GPUs only, which split the keys; the last part sees no key here.  Then rows whose
 * keys are masked: all, those of some pieces, and none. */
static __attribute__((unused)) void split_attentions(void) {
  static const char *const types[] = {"f32", "f16", "bf16"};
  static const char *const rows[][4] = {
      {"1,2,1,1", "1100", "64", "64"}, {"1,1,4,1", "3000", "128", "128"}, {"2,1,3,2", "2000", "20", "40"}};
  case_device = DEVICE_cuda;
  for (int i = 0; i < 9; i++) {
    Arena *a = arena_new();
    const char *t = types[i % 3], *q = rows[i / 3][0], *n = rows[i / 3][1], *k = rows[i / 3][2], *e = rows[i / 3][3],
               *bg = arena_strndup(a, q, 3), *s = strrchr(q, ',') + 1;
    bool bias = i / 3 != 1;
    text_case(arena_printf(a, "attention in pieces %s %d", t, i / 3),
              arena_printf(a, "  %%q = input {name=\"q\"} : %s[%s,%s] @{}\n"
            "  %%k = input {name=\"k\"} : %s[%s,%s,%s] @{}\n"
                           "  %%v = input {name=\"v\"} : %s[%s,%s,%s] @{}\n  %%x = input {name=\"x\"} : %s[%s] @{}\n"
            "  %%i = iota {axis=0, start=1000} : i64[%s]\n  %%j = iota {axis=0, start=0} : i64[%s]\n"
                           "  %%n = const {value=1900} : i64[]\n"
            "  %%y, %%w, %%z = attention %%q, %%k, %%v, %%i, %%j, %%n%s {scale=0.3, causal=%d, sums=1%s}"
                           " : %s[%s,%s], f32[%s], f32[%s]\n" OUTF("y") OUTF("w") OUTF("z"),
                           t, q, k, t, bg, n, k, t, bg, n, e, t, n, s, n, bias ? ", %x" : "", i / 3 != 1,
                           bias ? ", bias=\"t\"" : "", t, q, e, q, q));
    arena_free(a);
  }
  for (int i = 0; i < 2; i++) {
    Arena *a = arena_new();
    const char *t = types[2 * i]; /* -3.3e38 is no f16 */
    text_case(arena_printf(a, "attention of masked rows in pieces %s", t),
              arena_printf(a, "  %%q = input {name=\"q\"} : %s[1,2,1,3,64] @{}\n"
            "  %%k = input {name=\"k\"} : %s[1,2,1600,64] @{}\n  %%v = input {name=\"v\"} : %s[1,2,1600,64] @{}\n"
            "  %%key = iota {axis=1, start=0} : i64[3,1600]\n  %%row = iota {axis=0, start=0} : i64[3,1600]\n"
            "  %%half = const {value=800} : i64[3,1600]\n  %%first = mul %%row, %%half : i64[3,1600]\n"
            "  %%seen = lt %%key, %%first : bool[3,1600]\n  %%zero = const {value=0} : %s[3,1600]\n"
            "  %%low = const {value=-3.3e38} : %s[3,1600]\n  %%x = select %%seen, %%zero, %%low : %s[3,1600]\n"
            "  %%i = iota {axis=0, start=0} : i64[3]\n  %%j = iota {axis=0, start=0} : i64[1600]\n"
            "  %%n = const {value=1600} : i64[]\n"
            "  %%y, %%w, %%z = attention %%q, %%k, %%v, %%i, %%j, %%n, %%x {scale=0.3, causal=0, bias=\"st\", sums=1}"
                           " : %s[1,2,1,3,64], f32[1,2,1,3], f32[1,2,1,3]\n" OUTF("y") OUTF("z"),
                           t, t, t, t, t, t, t));
    arena_free(a);
  }
  case_device = DEVICE_cpu;
}

/* Heads as one product of queries, keys and values lays them out: x is [b, s, g, r + 2, k], r heads of queries, one of
 * keys and one of values.  Only attention, its gradients and rotations compute.  Two of four add a bias per key to each
 * row of the batch, and read queries as they lie; two write the gradients side by side, as x lies. */
static __attribute__((unused)) void placed_attentions(void) {
  static const char *const types[] = {"f32", "f16", "bf16", "f64"};
  static const struct {
    const char *b, *s, *g;
    int r;
    const char *k;
  } rows[] = {
      {"b", "s", "2", 2, "20"}, {"1", "70", "2", 3, "64"}, {"2", "130", "3", 1, "72"}, {"2", "2", "1", 4, "40"}};
  case_device = DEVICE_cuda;
  for (int i = 0; i < 16; i++) {
    Arena *a = arena_new();
    const char *t = types[i % 4], *b = rows[i / 4].b, *s = rows[i / 4].s, *g = rows[i / 4].g, *k = rows[i / 4].k,
               *bsg = arena_printf(a, "%s,%s,%s", b, s, g), *bgs = arena_printf(a, "%s,%s,%s", b, g, s);
    int r = rows[i / 4].r, heads = r * (g[0] - '0');
    const char *more = i / 4 % 2 ? "" : ", %m0", *bias = i / 4 % 2 ? "" : ", bias=\"bt\"";
    Text x = {.arena = a};
    if (*more) text_printf(&x, "  %%m0 = input {name=\"m0\"} : %s[%s,%s] @{}\n", t, b, s);
    text_printf(&x, "  %%x = input {name=\"x\"} : %s[%s,%d,%s] @{}\n"
                "  %%d0 = input {name=\"d0\"} : %s[%s,%s,%d*%s] @{}\n", t, bsg, r + 2, k, t, b, s, heads, k);
    for (int m = 0; m < 3; m++)
      text_printf(&x, "  %%%c0 = slice %%x {starts=[0,0,0,%d,0], strides=[1,1,1,1,1]} : %s[%s,%d,%s]\n", "qkv"[m],
                  m ? r + m - 1 : 0, t, bsg, m ? 1 : r, k);
    text_printf(&x, "  %%i = iota {axis=0, start=1} : i64[%s]\n  %%n = const {value=60} : i64[]\n", s);
    text_printf(&x, "  %%q1 = transpose %%q0 {perm=[0,2,1,3,4]} : %s[%s,%d,%s]\n", t, bgs, r, k);
    if (!*more)
      text_printf(&x, "  %%q2 = rope %%q1, %%i {base=10000, interleaved=%d} : %s[%s,%d,%s]\n", i % 2, t, bgs, r, k);
    text_printf(&x, "  %%q = transpose %%q%d {perm=[0,1,3,2,4]} : %s[%s,%s,%d,%s,%s]\n", *more ? 1 : 2, t, b, g, r, s,
                k);
    for (int m = 1; m < 3; m++)
      text_printf(&x, "  %%%c1 = reshape %%%c0 : %s[%s,%s]\n  %%%c = transpose %%%c1 {perm=[0,2,1,3]} : %s[%s,%s]\n",
                  "qkv"[m], "qkv"[m], t, bsg, k, "qkv"[m], "qkv"[m], t, bgs, k);
    text_printf(&x, "  %%o, %%m, %%l = attention %%q, %%k, %%v, %%i, %%i, %%n%s {scale=0.3, causal=1%s, sums=1}"
                " : %s[%s,%s,%d,%s,%s], %s[%s,%s,%d,%s], %s[%s,%s,%d,%s]\n", more, bias, t, b, g, r, s, k,
                i % 4 == 3 ? "f64" : "f32", b, g, r, s, i % 4 == 3 ? "f64" : "f32", b, g, r, s);
    text_printf(&x, "  %%o1 = transpose %%o {perm=[0,3,1,2,4]} : %s[%s,%d,%s]\n"
                "  %%o2 = reshape %%o1 : %s[%s,%s,%d*%s]\n  output \"o\" %%o2 @{}\n", t, bsg, r, k, t, b, s,
                heads, k);
    if (i % 4 == 0 || i % 4 == 3) text_add(&x, "  output \"l\" %l @{}\n"); /* rotated values are rounded */
    text_printf(&x, "  %%d1 = reshape %%d0 : %s[%s,%d,%s]\n  %%d = transpose %%d1 {perm=[0,2,3,1,4]} :"
                " %s[%s,%s,%d,%s,%s]\n", t, bsg, r, k, t, b, g, r, s, k);
    for (int m = 0; m < 3; m++) {
      const char *shape = m ? arena_printf(a, "%s,%s", bgs, k) : arena_printf(a, "%s,%s,%d,%s,%s", b, g, r, s, k),
                 *turned = m ? arena_printf(a, "%s,%s", bsg, k) : arena_printf(a, "%s,%d,%s", bsg, r, k);
      text_printf(&x, "  %%d%c0 = attention_grad %%q, %%k, %%v, %%i, %%i, %%n%s, %%o, %%m, %%l, %%d {of=\"%c\","
                  " scale=0.3, causal=1%s} : %s[%s]\n  %%d%c1 = transpose %%d%c0 {perm=%s} : %s[%s]\n",
                  "qkv"[m], more, "qkv"[m], bias, t, shape, "qkv"[m], "qkv"[m], m ? "[0,2,1,3]" : "[0,3,1,2,4]", t,
                  turned);
      if (i / 4 >= 2) text_printf(&x, "  output \"d%c\" %%d%c1 @{}\n", "qkv"[m], "qkv"[m]);
      else if (m)
        text_printf(&x, "  %%d%c2 = reshape %%d%c1 : %s[%s,1,%s]\n", "qkv"[m], "qkv"[m], t, bsg, k);
    }
    if (i / 4 < 2)
      text_printf(&x, "  %%dx = concat %%dq1, %%dk2, %%dv2 {axis=3} : %s[%s,%d,%s]\n  output \"dx\" %%dx @{}\n", t, bsg,
                  r + 2, k);
    text_case(arena_printf(a, "placed attention %s %d", t, i / 4), text_str(&x));
    arena_free(a);
  }
  case_device = DEVICE_cpu;
}

static void dots(void) {
  text_case("dot of transposed operands",
            "  %x = input {name=\"x\"} : f32[b,8,3,4] @{}\n  %k = input {name=\"k\"} : f32[b,s,3,4] @{}\n"
            "  %q = transpose %x {perm=[0,2,1,3]} : f32[b,3,8,4]\n"
            "  %t = transpose %k {perm=[0,2,3,1]} : f32[b,3,4,s]\n"
            "  %y = dot %q, %t {spec=\"bhsd,bhdt->bhst\"} : f32[b,3,8,s]\n  output \"y\" %y @{}\n"
            "  %v = transpose %k {perm=[0,2,1,3]} : f32[b,3,s,4]\n"
            "  %z = dot %y, %v {spec=\"bhst,bhte->bhse\"} : f32[b,3,8,4]\n  output \"z\" %z @{}\n");
  static const char *const specs[][3] = {
      {"bm,mn->bn", "b,8", "8,5"}, {"bsm,mn->bsn", "b,s,8", "8,5"}, {"bsm,bsn->mn", "b,s,6", "b,s,5"},
      {"bhqd,bhkd->bhqk", "b,2,s,6", "b,2,9,6"},
      {"bqhd,bkhd->bhqk", "b,s,2,6", "b,9,2,6"}, {"bhqk,bkhd->bqhd", "b,2,s,9", "b,9,2,6"}, {"m,m->", "s", "s"},
      {"m,n->mn", "s", "4"},
      {"mk,k->m", "s,4", "4"}, {"k,kn->n", "4", "4,s"}, {"km,kn->nm", "7,s", "7,4"}, {"bk,bk->b", "s,6", "s,6"},
      {"bh,bh->bh", "b,s", "b,s"},
      {"abk,bak->ab", "b,4,6", "4,b,6"}, {"akb,bck->abc", "b,6,4", "4,5,6"}, {"mka,akn->nm", "s,3,4", "4,3,5"},
      {"mk,kn->mn", "s,0", "0,5"},
      {"mk,kn->mn", "0,4", "4,5"}, {"mk,kn->mn", "1,4", "4,1"}, {"mka,kn->mn", "s,4,3", "4,5"},
      {"ma,nb->mn", "s,3", "4,5"}, {",mn->mn", "", "s,4"},
      {"bmc,bnc->bmnc", "b,4,5", "b,6,5"}, {"bhsd,hde->bse", "b,3,s,4", "3,4,5"}, {"bsd,hde->bhse", "b,s,4", "3,4,5"}};
  static const char *const types[] = {"f32", "i64", "bf16", "f64", "i8"};
  for (size_t i = 0; i < sizeof specs / sizeof *specs; i++)
    for (int k = 0; k < (i % 4 ? 2 : 5); k++) {
      Arena *a = arena_new();
      Text y = {.arena = a};
      const char *spec = specs[i][0], *t = types[k];
      for (const char *l = strstr(spec, "->") + 2; *l; l++) { /* the result's extents by letter */
        const char *comma = strchr(spec, ','), *at = memchr(spec, *l, (size_t)(comma - spec));
        const char *dims = at ? specs[i][1] : specs[i][2];
        int n = (int)(at ? at - spec : strchr(comma + 1, *l) - comma - 1);
        while (n--) dims = strchr(dims, ',') + 1;
        if (y.n) text_add(&y, ",");
        text_addn(&y, dims, strcspn(dims, ","));
      }
      text_case(arena_printf(a, "dot %s %s", spec, t),
                arena_printf(a, "  %%x = input {name=\"x\"} : %s[%s] @{}\n  %%z = input {name=\"z\"} : %s[%s] @{}\n"
            "  %%y = dot %%x, %%z {spec=\"%s\"} : %s[%s]\n" OUTF("y"),
                             t, specs[i][1], t, specs[i][2], spec, t, text_str(&y)));
      arena_free(a);
    }
}

/* Strides, dilations, padding on both sides, groups, channels last, one to three dimensions. */
static void windows(void) {
  static const char *const types[] = {"f32", "f64", "f16", "bf16"};
  static const char *const rows[][5] = {
      {"conv", "b,3,s", "4,3,5", "spec=\"ncH,ocH->noH\", starts=[-2], strides=[1], dilations=[1]", "b,4,s"},
      {"conv", "b,3,9,s", "4,3,3,2", "spec=\"ncHW,ocHW->noHW\", starts=[-1, -3], strides=[2, 1], dilations=[1, 2]",
       "b,4,5,s + 4"},
      {"conv", "2,7,s,6", "3,3,6,5", "spec=\"nHWc,HWco->nHWo\", starts=[0, -1], strides=[3, 2], dilations=[2, 1]",
       "2,1,(s + 1) div 2,5"},
      {"conv", "b,2,3,5,4,s", "2,3,3,2,2,3",
       "spec=\"ngcDHW,gocDHW->ngoDHW\", starts=[-1, 0, -1], strides=[2, 1, 1], dilations=[1, 1, 1]", "b,2,3,2,3,s"},
      /* channels last: tiles with all their tails */
      {"conv", "b,7,s,5", "3,3,5,53", "spec=\"nHWc,HWco->nHWo\", starts=[-1, -1], strides=[1, 1], dilations=[1, 1]",
       "b,7,s,53"},
      {"conv", "b,s,9,3,2", "2,3,3,2,17",
       "spec=\"nHWgc,HWgco->nHWgo\", starts=[0, -2], strides=[2, 1], dilations=[1, 2]", "b,s div 2,9,3,17"},
      {"conv", "b,6,s,21,1", "3,3,21,1,1",
       "spec=\"nHWgc,HWgco->nHWgo\", starts=[-1, -1], strides=[1, 2], dilations=[1, 1]", "b,6,(s + 1) div 2,21,1"},
      {"conv", "b,s,9,37,1", "3,3,37,1,2",
       "spec=\"nHWgc,HWgco->nHWgo\", starts=[-1, -1], strides=[1, 1], dilations=[1, 1]", "b,s,9,37,2"},
      {"conv", "b,s,5,5,1", "2,3,5,1,3",
       "spec=\"nHWgc,HWgco->nHWgo\", starts=[0, -2], strides=[2, 1], dilations=[1, 2]", "b,s div 2,5,5,3"},
      {"conv", "b,12,s,83,1", "3,2,83,1,1",
       "spec=\"nHWgc,HWgco->nHWgo\", starts=[-1, 0], strides=[1, 1], dilations=[2, 1]", "b,10,s - 1,83,1"},
      {"conv_transpose", "b,4,s,20,1", "3,2,20,1,2",
       "spec=\"nHWgo,HWgoc->nHWgc\", starts=[-1, 0], strides=[1, 3], dilations=[2, 1]", "b,6,3*s,20,2"},
      {"conv", "b,s,4", "3,4,1", "spec=\"nHc,Hco->nHo\", starts=[-2], strides=[1], dilations=[2]", "b,s,1"},
      {"conv", "b,5,s,4", "3,3,2,4,32",
       "spec=\"nHWc,pHWcq->nHWpq\", starts=[-1, -1], strides=[1, 1], dilations=[1, 1]", "b,5,s + 1,3,32"},
      {"conv", "b,s,3", "2,1,3,16", "spec=\"nHc,pHcq->nHpq\", starts=[0], strides=[2], dilations=[1]",
       "b,(s + 1) div 2,2,16"},
      {"conv_transpose", "b,5,s,6", "3,2,6,19",
       "spec=\"nHWo,HWoc->nHWc\", starts=[-1, 0], strides=[2, 2], dilations=[1, 1]", "b,9,2*s,19"},
      {"conv_transpose", "b,4,s,18,1", "3,2,18,1,1",
       "spec=\"nHWgo,HWgoc->nHWgc\", starts=[-1, 0], strides=[1, 3], dilations=[2, 1]", "b,6,3*s,18,1"},
      {"conv_transpose", "b,3,s", "3,4,5", "spec=\"noH,ocH->ncH\", starts=[-2], strides=[2], dilations=[1]", "b,4,2*s"},
      {"conv_transpose", "b,4,5,s", "4,3,3,2",
       "spec=\"noHW,ocHW->ncHW\", starts=[-1, 0], strides=[1, 3], dilations=[2, 1]", "b,3,6,3*s"},
      {"conv_filter", "b,3,s", "b,2,s", "spec=\"ncH,noH->ocH\", starts=[-1], strides=[1], dilations=[2]", "2,3,2"},
      {"conv_filter", "b,3,9,s", "b,2,4,s",
       "spec=\"ncHW,noHW->ocHW\", starts=[-1, -1], strides=[2, 1], dilations=[1, 1]", "2,3,3,3"},
      /* several tiles of a GPU in both directions, all of them incomplete, of each shape */
      {"conv", "b,7,s,12", "3,3,12,70", "spec=\"nHWc,HWco->nHWo\", starts=[-1, -1], strides=[1, 1], dilations=[1, 2]",
       "b,7,s,70"},
      {"conv", "b,50,57,3", "1,1,3,130", "spec=\"nHWc,HWco->nHWo\", starts=[0, 0], strides=[1, 1], dilations=[1, 1]",
       "b,50,57,130"},
      {"conv_transpose", "b,5,s,9", "3,2,9,37",
       "spec=\"nHWo,HWoc->nHWc\", starts=[-1, 0], strides=[2, 2], dilations=[1, 1]", "b,9,2*s,37"},
      {"conv", "b,43,44,2", "2,1,2,130", "spec=\"nHWc,HWco->nHWo\", starts=[0, 0], strides=[1, 1], dilations=[1, 1]",
       "b,43,44,130"},
      {"conv", "b,2,12,7,s", "2,40,12,3,3",
       "spec=\"ngcHW,gocHW->ngoHW\", starts=[-1, 0], strides=[2, 1], dilations=[1, 1]", "b,2,40,4,s"},
      /* weights as filters, as for GPUs */
      {"conv", "b,7,s,12", "70,3,3,12", "spec=\"nHWc,oHWc->nHWo\", starts=[-1, -1], strides=[1, 1], dilations=[1, 2]",
       "b,7,s,70"},
      {"conv", "b,7,s,3", "130,3,3,3", "spec=\"nHWc,oHWc->nHWo\", starts=[-1, -1], strides=[1, 1], dilations=[1, 1]",
       "b,7,s,130"},
      {"conv", "b,s,9,3,6", "3,17,3,2,6",
       "spec=\"nHWgc,goHWc->nHWgo\", starts=[0, -2], strides=[2, 1], dilations=[1, 2]", "b,s div 2,9,3,17"},
      {"conv_transpose", "b,5,s,8", "37,3,2,8",
       "spec=\"nHWo,cHWo->nHWc\", starts=[-1, 0], strides=[2, 2], dilations=[1, 1]", "b,9,2*s,37"},
      {"conv", "b,50,57,4", "130,1,1,4", "spec=\"nHWc,oHWc->nHWo\", starts=[0, 0], strides=[1, 1], dilations=[1, 1]",
       "b,50,57,130"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int k = 0; k < (i % 2 ? 1 : 4); k++) {
      Arena *a = arena_new();
      const char *t = types[k], *const *r = rows[i];
      text_case(arena_printf(a, "%s %zu %s", r[0], i, t),
                arena_printf(a, "  %%x = input {name=\"x\"} : %s[%s] @{}\n  %%w = input {name=\"w\"} : %s[%s] @{}\n"
            "  %%y = %s %%x, %%w {%s} : %s[%s]\n" OUTF("y"),
                             t, r[1], t, r[2], r[0], r[3], t, r[4]));
      arena_free(a);
    }
  text_case("pool max", IN("x", "f32[b,3,7,s]")
            "  %y = pool %x {op=max, axes=[2, 3], window=[3, 2], starts=[-1, 0],"
            " strides=[2, 1], dilations=[1, 2]} : f32[b,3,4,s - 2]\n" OUT("y"));
  text_case("pool sum last", IN("x", "f32[b,s,6,5]")
            "  %y = pool %x {op=sum, axes=[1, 2], window=[2, 3], starts=[0, -2],"
            " strides=[1, 3], dilations=[1, 1]} : f32[b,s,3,5]\n" OUT("y"));
  text_case("pool apart", IN("x", "i16[6,b,s,2]")
            "  %y = pool %x {op=min, axes=[0, 2], window=[3, 3], starts=[-1, -1],"
            " strides=[1, 2], dilations=[1, 1]} : i16[6,b,(s + 1) div 2,2]\n" OUT("y"));
  text_case("pool beyond", IN("x", "bf16[b,s]")
            "  %y = pool %x {op=max, axes=[1], window=[2], starts=[-4],"
            " strides=[1], dilations=[1]} : bf16[b,s + 8]\n" OUT("y"));
  text_case("pool_grad first", IN("x", "f32[b,3,7,s]") IN("z", "f32[b,3,4,s - 2]")
            "  %y = pool_grad %x, %z {axes=[2, 3], window=[3, 2], starts=[-1, 0],"
            " strides=[2, 1], dilations=[1, 2]} : f32[b,3,7,s]\n" OUT("y"));
  text_case("pool_grad last", IN("x", "f32[b,s,6,37]") IN("z", "f32[b,s,3,37]")
            "  %y = pool_grad %x, %z {axes=[1, 2], window=[2, 3], starts=[0, -2],"
            " strides=[1, 3], dilations=[1, 1]} : f32[b,s,6,37]\n" OUT("y"));
  text_case("pool_grad ties", IN("x", "f32[b,s,9]") IN("z", "f32[b,(s + 1) div 2,9]")
            "  %r = round %x : f32[b,s,9]\n"
            "  %y = pool_grad %r, %z {axes=[1], window=[5], starts=[-2],"
            " strides=[2], dilations=[1]} : f32[b,s,9]\n" OUT("y"));
  text_case("pool_grad apart", IN("x", "f64[6,b,s,2]") IN("z", "f64[6,b,(s + 1) div 2,2]")
            "  %y = pool_grad %x, %z {axes=[0, 2], window=[3, 3], starts=[-1, -1],"
            " strides=[1, 2], dilations=[1, 1]} : f64[6,b,s,2]\n" OUT("y"));
  text_case("pool_grad bf16", IN("x", "bf16[b,s]") IN("z", "bf16[b,s + 8]")
            "  %y = pool_grad %x, %z {axes=[1], window=[2], starts=[-4],"
            " strides=[1], dilations=[1]} : bf16[b,s]\n" OUT("y"));
  text_case("pool product", IN("x", "u8[s]")
            "  %y = pool %x {op=product, axes=[0], window=[2], starts=[0],"
            " strides=[2], dilations=[1]} : u8[s div 2]\n" OUT("y"));
}

/* With joined followers: for GPUs only, whose kernels support them. */
static __attribute__((unused)) void joined_convolutions(void) {
  static const struct {
    const char *x, *w, *spec, *y, *flat; /* flat: y with its channels in one dimension */
    int bias, residual, relu;
  } rows[] = {{"b,7,s,12", "70,3,3,12", "nHWc,oHWc->nHWo", "b,7,s,70", "b,7,s,70", 1, 1, 1},
              {"b,7,s,5", "3,3,5,33", "nHWc,HWco->nHWo", "b,7,s,33", "b,7,s,33", 1, 0, 0},
              {"b,7,s,2,6", "2,40,3,3,6", "nHWgc,goHWc->nHWgo", "b,7,s,2,40", "b,7,s,80", 1, 1, 0},
              {"b,7,s,3", "3,3,3,5", "nHWc,HWco->nHWo", "b,7,s,5", "b,7,s,5", 0, 1, 1},
              {"b,7,s,21,1", "3,3,21,1,2", "nHWgc,HWgco->nHWgo", "b,7,s,21,2", "b,7,s,42", 1, 1, 1}};
  case_device = DEVICE_cuda;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    Arena *a = arena_new();
    const char *y = rows[i].flat, *channels = strrchr(y, ',') + 1, *now = "f";
    Text t = {.arena = a};
    text_printf(&t, "symbol b hint 3\nsymbol s hint 70\nmesh [tp=1] stages 1\nparam \"w\" : f32[%s] = zeros\n"
                "func @r level 2 {\n  %%x = input {name=\"x\"} : f32[%s] @{}\n"
                "  %%w = param {name=\"w\"} : f32[%s] @{}\n"
                "  %%v = input {name=\"v\"} : f32[%s] @{}\n  %%z = input {name=\"z\"} : f32[%s] @{}\n"
                "  %%c = conv %%x, %%w {spec=\"%s\", starts=[-1, -1], strides=[1, 1], dilations=[1, 1]} : f32[%s]\n"
                "  %%f = reshape %%c : f32[%s]\n  %%p = broadcast %%v {dims=[3]} : f32[%s]\n",
                rows[i].w, rows[i].x, rows[i].w, channels, y, rows[i].spec, rows[i].y, y, y);
    if (rows[i].bias) text_printf(&t, "  %%a = add %%%s, %%p : f32[%s]\n", now, y), now = "a";
    if (rows[i].residual) text_printf(&t, "  %%d = add %%z, %%%s : f32[%s]\n", now, y), now = "d";
    if (rows[i].relu) text_printf(&t, "  %%r = relu %%%s : f32[%s]\n", now, y), now = "r";
    text_printf(&t, "  output \"y\" %%%s @{}\n}\n", now);
    add_case(arena_printf(a, "joined convolution %zu", i), interp_program(text_str(&t)), (uint64_t)ncases);
    arena_free(a);
  }
  case_device = DEVICE_cpu;
}

/* Equal lines of a product give equal bits, whatever their place in a tile: %d is false. */
#define SAME_AS_FIRST(extents, ones, starts, strides, dims) \
  "  %f = slice %y {starts=[" starts "], strides=[" strides "]} : f32[" ones "]\n" \
  "  %g = broadcast %f {dims=[" dims "]} : f32[" extents "]\n  %d = ne %y, %g : bool[" extents "]\n" OUT("d")
static void equal_lines(void) {
  text_case("equal queries", IN("x", "f32[20]") IN("k", "f32[1,1,90,20]")
            IN("v", "f32[1,1,90,40]") "  %q = broadcast %x {dims=[4]} : f32[1,1,1,67,20]\n"
            "  %i = iota {axis=0, start=0} : i64[67]\n  %j = iota {axis=0, start=0} : i64[90]\n"
            "  %n = const {value=90} : i64[]\n"
            "  %y = attention %q, %k, %v, %i, %j, %n {scale=1.5, causal=0} : f32[1,1,1,67,40]\n"
            SAME_AS_FIRST("1,1,1,67,40", "1,1,1,1,40", "0, 0, 0, 0, 0", "1, 1, 1, 1, 1", "0, 1, 2, 3, 4"));
  text_case("equal pixels and channels", IN("x", "f32[700]")
            IN("z", "f32[700]") "  %a = broadcast %x {dims=[3]} : f32[1,5,7,700]\n"
            "  %w = broadcast %z {dims=[2]} : f32[1,1,700,43]\n"
            "  %y = conv %a, %w {spec=\"nHWc,HWco->nHWo\", starts=[0, 0], strides=[1, 1], dilations=[1, 1]}"
            " : f32[1,5,7,43]\n"
            SAME_AS_FIRST("1,5,7,43", "1,1,1,1", "0, 0, 0, 0", "1, 1, 1, 1", "0, 1, 2, 3"));
  text_case("equal rows and columns of groups", IN("x", "f32[700]")
            IN("z", "f32[700]") "  %a = broadcast %x {dims=[1]} : f32[13,700]\n"
            "  %w = broadcast %z {dims=[1]} : f32[2,700,77]\n"
            "  %i = const {value=1} : i64[13]\n  %y = grouped_dot %a, %i, %w {start=0} : f32[13,77]\n"
            SAME_AS_FIRST("13,77", "1,1", "0, 0", "1, 1", "0, 1"));
}

static void indexing(void) {
  static const char *const types[] = {"f32", "f64", "bf16", "i8", "u64"};
  for (int i = 0; i < 5; i++) {
    Arena *a = arena_new();
    const char *t = types[i];
    text_case(arena_printf(a, "order %s", t),
              arena_printf(a, "  %%x = input {name=\"x\"} : %s[b,s,3] @{}\n"
            "  %%p = argsort %%x {axis=1, descending=0} : i64[b,s,3]\n"
            "  %%q = argsort %%x {axis=2, descending=1} : i64[b,s,3]\n"
                           "  %%y = take %%x, %%p {axis=1, start=0} : %s[b,s,3]\n"
            "  %%c = scan %%x {op=sum, axis=1, exclusive=0, reverse=0} : %s[b,s,3]\n"
                           "  %%m = scan %%x {op=max, axis=0, exclusive=1, reverse=1} : %s[b,s,3]\n" OUTF("p")
            OUTF("q") OUTF("y") OUTF("c") OUTF("m"), t, t, t, t));
    text_case(arena_printf(a, "first %s", t), /* one result of which is used alone; as many as there are; many */
              arena_printf(a, "  %%x = input {name=\"x\"} : %s[b,s,3] @{}\n  %%z = input {name=\"z\"} : %s[200,b] @{}\n"
            "  %%v, %%i = topk %%x {axis=2, descending=1, k=2} : %s[b,s,2], i64[b,s,2]\n"
            "  %%u, %%j = topk %%x {axis=2, descending=0, k=1} : %s[b,s,1], i64[b,s,1]\n"
            "  %%w, %%k = topk %%x {axis=1, descending=0, k=s} : %s[b,s,3], i64[b,s,3]\n"
            "  %%p, %%q = topk %%z {axis=0, descending=1, k=150} : %s[150,b], i64[150,b]\n"
            "  %%e, %%f = topk %%z {axis=0, descending=1, k=0} : %s[0,b], i64[0,b]\n"
            OUTF("v") OUTF("i") OUTF("j") OUTF("w") OUTF("p") OUTF("q") OUTF("e"), t, t, t, t, t, t, t));
    text_case(arena_printf(a, "scatter %s", t),
              arena_printf(a, "  %%x = input {name=\"x\"} : %s[b,s,70] @{}\n  %%i = iota {axis=0, start=0} : i64[s]\n"
            "  %%three = const {value=3} : i64[s]\n  %%m = mod %%i, %%three : i64[s]\n"
                           "  %%y = scatter %%x, %%m {op=sum, axis=1, start=1} : %s[b,4,70]\n"
            "  %%j = broadcast %%m {dims=[1]} : i64[b,s,70]\n"
                           "  %%z = put %%x, %%j {op=max, axis=1, start=0} : %s[b,2,70]\n" OUTF("y")
            OUTF("z"), t, t, t));
    arena_free(a);
  }
  for (int i = 0; i < 4; i++) { /* every place in a tile and in a panel; rows of no group among them; b and s groups */
    Arena *a = arena_new();
    const char *t = (const char *const[]){"f32", "f64", "f16", "bf16"}[i];
    text_case(arena_printf(a, "grouped %s", t),
              arena_printf(a, "  %%x = input {name=\"x\"} : %s[b,s,21] @{}\n"
            "  %%w = input {name=\"w\"} : %s[s,21,131] @{}\n  %%n = iota {axis=1, start=0} : i64[b,s]\n"
                           "  %%m = iota {axis=0, start=0} : i64[b,s]\n  %%i = mul %%n, %%m : i64[b,s]\n"
            "  %%y = grouped_dot %%x, %%i, %%w {start=1} : %s[b,s,131]\n"
                           "  %%v = input {name=\"v\"} : %s[3,21,64] @{}\n  %%j = input {name=\"j\"} : i64[b,s] @{}\n"
            "  %%k = const {value=4} : i64[b,s]\n  %%l = mod %%j, %%k : i64[b,s]\n"
                           "  %%z = grouped_dot %%x, %%l, %%v {start=0} : %s[b,s,64]\n"
                           "  %%g = input {name=\"g\"} : %s[3,21,5] @{}\n  %%u = input {name=\"u\"} : %s[3,21,5] @{}\n"
            "  %%d = input {name=\"d\"} : %s[3,5,21] @{}\n"
                           "  %%q = grouped_mlp %%x, %%l, %%g, %%u, %%d {kind=\"%s\", start=0} : %s[b,s,21]\n"
            OUTF("y") OUTF("z") OUTF("q"),
                           t, t, t, t, t, t, t, t, i ? "relu" : "silu", t));
    arena_free(a);
  }
  for (int i = 0; i < 2; i++) { /* tiles of 4, 2 and 1 rows, of 2 panels and 1 */
    Arena *a = arena_new();
    const int bits = i ? 8 : 4, terms = 32 / bits;
    text_case(arena_printf(a, "packed %d", bits),
              arena_printf(a, "  %%x = input {name=\"x\"} : f32[b,s,3,4,%d] @{}\n"
            "  %%q = input {name=\"q\"} : u8[3,3,4,16,4] @{}\n  %%t = input {name=\"t\"} : bf16[3,3,16] @{}\n"
                           "  %%y = packed_dot %%x, %%q, %%t {bits=%d} : f32[b,s,3,16]\n" OUTF("y"), terms, bits));
    arena_free(a);
  }
  text_case("grouped wide", IN("x", "f32[2,3]") IN("w", "f32[2,3,1100]") "  %i = iota {axis=0, start=0} : i64[2]\n"
            "  %y = grouped_dot %x, %i, %w {start=0} : f32[2,1100]\n" OUT("y"));
  for (int i = 0; i < 2; i++) { /* rows of several blocks, indices of several lists, many of one row */
    Arena *a = arena_new();
    const char *t = i ? "f64" : "f32";
    text_case(arena_printf(a, "scatter long %s", t),
              arena_printf(a, "  %%x = input {name=\"x\"} : %s[b,2500,33] @{}\n"
            "  %%i = iota {axis=0, start=0} : i64[2500]\n  %%s = mul %%i, %%i : i64[2500]\n"
            "  %%n = const {value=149} : i64[2500]\n  %%m = mod %%s, %%n : i64[2500]\n"
            "  %%y = scatter %%x, %%m {op=sum, axis=1, start=0} : %s[b,141,33]\n"
            "  %%z = scatter %%x, %%m {op=max, axis=1, start=3} : %s[b,7,33]\n" OUTF("y")
            OUTF("z"), t, t, t));
    arena_free(a);
  }
  text_case("take", IN("x", "f32[b,5,s]") IN("i", "i32[b,9,s]") "  %k = const {value=7} : i32[b,9,s]\n"
            "  %m = mod %i, %k : i32[b,9,s]\n  %y = take %x, %m {axis=1, start=1} : f32[b,9,s]\n"
            "  %e = exp %y : f32[b,9,s]\n" OUT("y") OUT("e"));
}

#endif
