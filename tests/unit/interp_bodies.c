/* The decompositions of composites: evaluating the body equals evaluating the composite. */
#include <math.h>
#include <string.h>

#include "base/die.h"
#include "ir/layout/body.h"
#include "tests/interp_test.h"

/* Runs @main and the body of its operation %y on the same random operands: floats of the first are multiplied by
 * `factor`, those of operand `sums` are at least 1; -1: there is none. */
static void compare_on(double factor, int sums, const char *text, double tolerance) {
  InterpProgram p = interp_program(text);
  const Func *f = module_func(p.m, "main");
  const Op *op = op_of(f, func_find(f, "y"));
  Func *body = body_of(p.m, f, op);
  CHECK(verify_func(p.m, body, p.diags));
  for (int domain = 0; domain < 2; domain++) {
    InterpResult whole, parts;
    InterpOptions o = {.domain = (InterpDomain)domain};
    int n;
    const char *why;
    InterpNamed *in = interp_random_inputs(p.m, f, o.domain, NULL, 7, p.arena, &n, p.diags);
    for (int64_t i = 0; factor != 1 && !domain && i < interp_elements(&in[0].tensor); i++)
      in[0].tensor.cells[i].f *= factor;
    for (int64_t i = 0; sums >= 0 && !domain && i < interp_elements(&in[sums].tensor); i++)
      in[sums].tensor.cells[i].f = 1 + fabs(in[sums].tensor.cells[i].f);
    bool ok = interp_run(p.m, f, &o, n, in, p.arena, &whole, p.diags) &&
              interp_run(p.m, body, &o, n, in, p.arena, &parts, p.diags);
    if (!ok) diags_print(p.diags, stderr, false);
    CHECK(ok);
    if (!ok) break;
    bool same = interp_equal(&whole.outputs[0].tensor, &parts.outputs[0].tensor, o.domain, domain ? 0 : tolerance,
                             p.arena, &why);
    CHECKF(same, "domain %d: %s\n%s", domain, why, text);
  }
  program_free(&p);
}

static void compare_times(double factor, const char *text, double tolerance) {
  compare_on(factor, -1, text, tolerance);
}
static void compare(const char *text, double tolerance) { compare_on(1, -1, text, tolerance); }

static void softmax(void) {
  compare("func @main level 1 { %0 = input {name=\"0\"} : f32[5] %y = softmax %0 {axis=0} : f32[5] output \"y\" %y }",
          1e-12);
  compare(
      "func @main level 1 { %0 = input {name=\"0\"} : f64[3,5] %y = softmax %0 {axis=0} : f64[3,5] output \"y\" %y }",
      1e-12);
  compare(
      "func @main level 1 { %0 = input {name=\"0\"} : f32[3,5,2] %y = softmax %0 {axis=1} : f32[3,5,2] output \"y\" %y "
      "}",
      1e-12);
  compare(
      "func @main level 1 { %0 = input {name=\"0\"} : bf16[3,5] %y = softmax %0 {axis=1} : bf16[3,5] output \"y\" %y }",
      4e-3);
}

static void packed_dot(void) {
  compare(
      "func @main level 1 { %0 = input {name=\"0\"} : f32[3,2,2,8] %1 = input {name=\"1\"} : u8[2,2,2,16,4] "
      "%2 = input {name=\"2\"} : bf16[2,2,16] %y = packed_dot %0, %1, %2 {bits=4} : f32[3,2,16] output \"y\" %y }",
      1e-12);
  compare(
      "func @main level 1 { %0 = input {name=\"0\"} : f32[2,3,1,3,4] %1 = input {name=\"1\"} : u8[2,1,3,16,4] "
      "%2 = input {name=\"2\"} : bf16[2,1,16] %y = packed_dot %0, %1, %2 {bits=8} : f32[2,3,2,16] output \"y\" %y }",
      1e-12);
}

static void norm(void) {
  static const char *const kinds[] = {"layer", "rms"};
  for (int k = 0; k < 2; k++)
    for (int r = 0; r < 4; r++) {
      static const char *const shapes[] = {"f32[6]", "f32[2, 6]", "f64[2, 3, 6]", "f16[2, 3, 6]"};
      char text[400];
      snprintf(text, sizeof text,
               "func @main level 1 { %%0 = input {name=\"0\"} : %s %%y = norm %%0 {kind=\"%s\", eps=0.001} : %s output "
               "\"y\" %%y }",
               shapes[r], kinds[k], shapes[r]);
      compare(text, r == 3 ? 2e-3 : 1e-12);
    }
}

static void rope(void) {
  for (int r = 0; r < 4; r++)
    for (int interleaved = 0; interleaved < 2; interleaved++) {
      static const char *const shapes[] = {"f32[4, 3, 6]", "f32[2, 4, 3, 6]", "f32[1, 2, 4, 1, 2]", "bf16[2, 4, 3, 6]"};
      char text[400];
      snprintf(text, sizeof text,
               "func @main level 1 { %%0 = input {name=\"0\"} : %s %%1 = input {name=\"1\"} : i64[4] %%y = rope %%0, "
               "%%1 {base=10000, "
               "interleaved=%d} : %s output \"y\" %%y }",
               shapes[r], interleaved, shapes[r]);
      compare(text, r == 3 ? 8e-3 : 1e-12);
    }
}

static void attention(void) {
  for (int causal = 0; causal < 2; causal++)
    for (int k = 0; k < 3; k++) {
      static const char *const types[] = {"f32", "f64", "bf16"};
      char text[800];
      snprintf(text, sizeof text,
               "func @main level 1 { %%0 = input {name=\"0\"} : %1$s[2,2,3,4,5] %%1 = input {name=\"1\"} : "
               "%1$s[2,2,6,5] %%2 = input "
               "{name=\"2\"} : %1$s[2,2,6,7] %%3 = input {name=\"3\"} : i64[4] %%4 = input {name=\"4\"} : i64[6] %%5 = "
               "input {name=\"5\"} : "
               "i64[] %%y = attention %%0, %%1, %%2, %%3, %%4, %%5 {scale=0.3, causal=%2$d} : %1$s[2,2,3,4,7] output "
               "\"y\" %%y }",
               types[k], causal);
      compare(text, k == 2 ? 8e-3 : 1e-12);
      if (k == 2) continue;
      compare_times(1e32, text, 1e-12); /* scores below any finite stand-in for -inf */
      compare_times(INFINITY, text, 1e-12);
    }
}

/* Every choice of dimensions, and cut dimensions of the added value. */
static void added_to_scores(void) {
  static const char *const extents[] = {"2, ", "2, ", "3, ", "4, "};
  for (int set = 0; set < 16; set++) {
    char bias[6] = "", dims[32] = "", text[900];
    for (int d = 0; d < 4; d++)
      if ((set >> d) & 1) strncat(bias, &"b\0g\0r\0s"[2 * d], 1), strcat(dims, extents[d]);
    snprintf(text, sizeof text,
             "func @main level 1 { %%0 = input {name=\"0\"} : %1$s[2,2,3,4,5] %%1 = input {name=\"1\"} : "
             "%1$s[2,2,6,5] %%2 = input {name=\"2\"} : %1$s[2,2,6,7] %%3 = input {name=\"3\"} : i64[4] "
             "%%4 = input {name=\"4\"} : i64[6] %%5 = input {name=\"5\"} : i64[] "
             "%%6 = input {name=\"6\"} : %1$s[%2$s6] %%y = attention %%0, %%1, %%2, %%3, %%4, %%5, %%6 "
             "{scale=0.3, causal=%3$d, bias=\"%4$st\"} : %1$s[2,2,3,4,7] output \"y\" %%y }",
             set % 3 == 2 ? "bf16" : "f32", dims, set & 1, bias);
    compare(text, set % 3 == 2 ? 8e-3 : 1e-12);
  }
}

#define BIAS(type) "%6 = input {name=\"6\"} : " type "[4,6]"

static void attention_grad(void) {
  for (int i = 0; i < 18; i++) {
    static const char *const types[] = {"f32", "f64", "bf16"}, *const of[] = {"q", "k", "v"},
                             *const results[] = {"2,2,3,4,5", "2,2,6,5", "2,2,6,7"};
    const char *t = types[i % 3], *sums = i % 3 == 1 ? "f64" : "f32";
    bool bias = i >= 9;
    char text[1300], last[5][5];
    for (int k = 0; k < 5; k++) snprintf(last[k], sizeof last[k], "%%%d", 6 + k);
    snprintf(text, sizeof text,
             "func @main level 1 { %%0 = input {name=\"0\"} : %1$s[2,2,3,4,5] %%1 = input {name=\"1\"} : "
             "%1$s[2,2,6,5] %%2 = input {name=\"2\"} : %1$s[2,2,6,7] %%3 = input {name=\"3\"} : i64[4] "
             "%%4 = input {name=\"4\"} : i64[6] %%5 = input {name=\"5\"} : i64[] %2$s "
             "%3$s = input {name=\"%4$s\"} : %1$s[2,2,3,4,7] %5$s = input {name=\"%6$s\"} : %7$s[2,2,3,4] "
             "%15$s = input {name=\"%16$s\"} : %7$s[2,2,3,4] "
             "%8$s = input {name=\"%9$s\"} : %1$s[2,2,3,4,7] %%y = attention_grad %%0, %%1, %%2, %%3, %%4, %%5%10$s, "
             "%3$s, %5$s, %15$s, %8$s {of=\"%11$s\", scale=0.3, causal=%12$d%13$s} : %1$s[%14$s] output \"y\" %%y }",
             t,
             !bias        ? ""
             : i % 3 == 1 ? BIAS("f64")
             : i % 3      ? BIAS("bf16")
                          : BIAS("f32"),
             last[bias], last[bias] + 1, last[bias + 1], last[bias + 1] + 1, sums, last[bias + 3], last[bias + 3] + 1,
             bias ? ", %6" : "", of[i / 3 % 3], i % 2, bias ? ", bias=\"st\"" : "", results[i / 3 % 3], last[bias + 2],
             last[bias + 2] + 1);
    compare_on(1, 8 + bias, text, i % 3 == 2 ? 2e-2 : 1e-12);
  }
}

static void cross_entropy(void) {
  compare(
      "func @main level 1 { %0 = input {name=\"0\"} : f32[4] %1 = input {name=\"1\"} : i64[] %y = cross_entropy %0, %1 "
      ": f32[] output "
      "\"y\" %y }",
      1e-12);
  compare(
      "func @main level 1 { %0 = input {name=\"0\"} : f32[3,2,3] %1 = input {name=\"1\"} : i64[3,2] %y = cross_entropy "
      "%0, %1 : f32[3,2] "
      "output \"y\" %y }",
      1e-12); /* labels go to 3: one outside */
  compare(
      "func @main level 1 { %0 = input {name=\"0\"} : bf16[3,4] %1 = input {name=\"1\"} : i64[3] %y = cross_entropy "
      "%0, %1 : bf16[3] "
      "output \"y\" %y }",
      8e-3);
}

/* Extents that are equal by chance, symbolic extents and extents of 1 keep their factors distinct. */
static void strategies(void) {
  InterpProgram p = interp_program(
      "mesh [a=2, b=3]\nsymbol n hint 4\n"
      "func @main level 1 { %0 = input {name=\"0\"} : f32[n,n,4,n,4] %1 = input {name=\"1\"} : f32[n,n,n,4] %2 = input "
      "{name=\"2\"} : f32[n,n,n,4] %3 = input {name=\"3\"} : i64[n] %4 = input {name=\"4\"} : i64[n] %5 = input "
      "{name=\"5\"} : "
      "i64[] %y = attention %0, %1, %2, %3, %4, %5 {scale=0.5, causal=1} : f32[n,n,4,n,4] output \"y\" %y }");
  const Func *f = module_func(p.m, "main");
  const Op *op = op_of(f, func_find(f, "y"));
  Func *body = body_of(p.m, f, op);
  Strategy s, *out = ARENA_ARRAY(p.m->arena, Strategy, body->ops.n);
  const char *why;
  const Rule *r = rule_of(p.m, f, op);
  CHECK(strategy_parse(p.m->arena, &p.m->mesh, r, "{t:b, g:a}", &s, &why));
  body_strategies(p.m, f, op, &s, body, out);
  static const struct {
    const char *name, *strategy;
  } want[] = {{"dot", "{g:a, t:b}"},   {"max", "{x1:a, r4:b}"}, {"valid", "{x1:b}"}, {"seen", "{x1:a, x4:b}"},
              {"mixed", "{g:a, t:b}"}, {"divisors", "{x1:a}"},  {"y", "{x1:a}"},     {"maxs", "{x1:a, x4:b}"}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    const Op *o = op_of(body, func_find(body, want[i].name));
    Text t = {.arena = p.arena};
    strategy_print(&p.m->mesh, &t, rule_of(p.m, body, o), &out[o - body->ops.items]);
    CHECK_STR(text_str(&t), want[i].strategy);
  }
  /* v may arrive as a partial sum: it stays one through the dot and the division. */
  CHECK(strategy_parse(p.m->arena, &p.m->mesh, r, "{L2:a}", &s, &why));
  body_strategies(p.m, f, op, &s, body, out);
  const Op *y = op_of(body, func_find(body, "y"));
  Text t = {.arena = p.arena};
  strategy_print(&p.m->mesh, &t, rule_of(p.m, body, y), &out[y - body->ops.items]);
  CHECK_STR(text_str(&t), "{L0:a}");
  program_free(&p);
}

int main(void) {
  RUN(softmax);
  RUN(packed_dot);
  RUN(norm);
  RUN(rope);
  RUN(attention);
  RUN(added_to_scores);
  RUN(attention_grad);
  RUN(cross_entropy);
  RUN(strategies);
  return test_summary();
}
