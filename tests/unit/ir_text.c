/* IR text round trip, expressions, rules and strategies. */
#include "ir/rule.h"
#include "tests/test.h"

static const char *const mlp =
    "apc.ir 1\n"
    "symbol batch min 1 hint 8\n"
    "mesh [dp=2, tp=3, mb=4 time] stages 2\n"
    "blob \"w.bin\" bytes 4096\n"
    "param \"w\" : f32[4, 6] = blob 0 offset 16 strides [6, 1]\n"
    "param \"w[1:3].0.perm1,0\" : f32[6, 2] = blob 0 offset 40 strides [1, 6] of \"w\" : f32[4, 6] first 6\n"
    "param \"b\" : f32[6] = normal 0.02 seed 3 buffer loc node \"/b\"\n"
    "state \"s\" : f32[batch, 4] = 0\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[batch, 4] loc \"m.apc\" 3:4\n"
    "  %w = param {name=\"w\"} : f32[4, 6]\n"
    "  %y = dot %x, %w {spec=\"bm,mn->bn\"} : f32[batch, 6] group \"l0\"\n"
    "  %\"odd name\" = relu %y : f32[batch, 6]\n"
    "  %r = reshape %\"odd name\" : f32[2*batch, 3]\n"
    "  %s = reduce %r {axes=[1], op=max} : f32[2*batch]\n"
    "  %n = size {expr=2*batch + 1} : f32[2*batch]\n"
    "  %d = div %s, %n : f32[2*batch]\n"
    "  write \"save\" %x {name=\"s\"}\n"
    "  output \"out\" %d\n"
    "}\n"
    "func @rank level 2 {\n"
    "  %x = input {name=\"x\"} : f32[(batch*@dp + batch) div 2 - batch*@dp div 2, 4] @{0:dp}\n"
    "  output \"out\" %x @{0:dp}\n"
    "}\n";

static void round_trip(void) {
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("mlp.ir", mlp, d);
  CHECK(m != NULL);
  if (m) {
    Text t = {.arena = a}, t2 = {.arena = a};
    module_print(m, &t);
    CHECK(verify_module(m, d));
    Module *m2 = ir_parse("again.ir", text_str(&t), d);
    CHECK(m2 != NULL);
    if (m2) {
      module_print(m2, &t2);
      CHECK_STR(text_str(&t2), text_str(&t));
    }
    module_free(m2);
  }
  diags_print(d, stderr, false);
  module_free(m);
  arena_free(a);
}

static const char *shown(Arena *a, const Module *m, const Expr *e) {
  Text t = {.arena = a};
  ex_print(m, &t, e);
  return text_str(&t);
}

static void expressions(void) {
  Arena *a = arena_new();
  Module *m = module_new();
  const Expr *b = ex_sym(m, module_symbol(m, "b")), *s = ex_sym(m, module_symbol(m, "s"));
  CHECK(ex_mul(m, b, s) == ex_mul(m, s, b));
  CHECK(ex_sub(m, ex_add(m, b, s), s) == b);
  CHECK(ex_exact_div(m, ex_mul(m, ex_addi(m, b, 1), s), s) == ex_addi(m, b, 1));
  CHECK(ex_exact_div(m, ex_mul(m, ex_addi(m, b, 1), s), ex_addi(m, b, 1)) == s);
  CHECK(ex_exact_div(m, b, s) == NULL);
  CHECK(ex_div(m, ex_addi(m, ex_muli(m, b, 6), 4), ex_const(m, 3)) == ex_addi(m, ex_muli(m, b, 2), 1));
  CHECK_STR(shown(a, m, ex_div(m, ex_addi(m, ex_muli(m, b, 4), 3), ex_const(m, 6))), "(2*b + 1) div 3");
  CHECK_STR(shown(a, m, ex_min(m, ex_addi(m, b, 2), ex_min(m, b, s))), "min(b, s)");
  CHECK_STR(shown(a, m, ex_sub(m, ex_const(m, 3), ex_mul(m, b, ex_addi(m, s, -2)))), "-b*s + 2*b + 3");
  CHECK(!m->expr_overflow);
  ex_mul(m, ex_const(m, INT64_MAX), ex_const(m, 3));
  CHECK(m->expr_overflow);
  module_free(m);
  arena_free(a);
}

/* Division simplifies without changing the value: checked on a grid. */
static void division_is_exact(void) {
  Module *m = module_new();
  const Expr *b = ex_sym(m, module_symbol(m, "b")), *s = ex_sym(m, module_symbol(m, "s"));
  for (int64_t p = -4; p <= 4; p++)
    for (int64_t q = -3; q <= 6; q++)
      for (int64_t r = -5; r <= 5; r++)
        for (int64_t n = 1; n <= 6; n++) {
          const Expr *e = ex_div(m, ex_addi(m, ex_add(m, ex_muli(m, b, p), ex_muli(m, s, q)), r), ex_const(m, n));
          for (int64_t i = 0; i < 4; i++) {
            int64_t v[2] = {i * 3 - 2, 5 - i}, got, num = p * v[0] + q * v[1] + r;
            int64_t want = num / n - (num % n != 0 && num < 0);
            CHECK(ex_eval(e, v, &got) && got == want);
          }
        }
  module_free(m);
}

static const char *rule_text(Arena *a, Module *m, const Func *f, const char *name) {
  Text t = {.arena = a};
  rule_print(m, &t, rule_of(m, f, op_of(f, func_find(f, name))));
  return text_str(&t);
}

static void rules(void) {
  static const char *const text =
      "apc.ir 1\nsymbol b\nmesh [x=2, y=3]\n"
      "func @f level 1 {\n"
      "  %q = input {name=\"q\"} : f32[b, 6, 24]\n"
      "  %w = input {name=\"w\"} : f32[24, 5]\n"
      "  %d = dot %q, %w {spec=\"bsk,kn->bsn\"} : f32[b, 6, 5]\n"
      "  %h = reshape %q : f32[6*b, 4, 6]\n"
      "  %k = reshape %w : f32[10, 12]\n"
      "  %m = softmax %d {axis=2} : f32[b, 6, 5]\n"
      "  %s = slice %d {starts=[0, 1, 0], strides=[1, 2, 1]} : f32[b, 3, 5]\n"
      "  output \"o\" %s\n}\n";
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("rules.ir", text, d);
  diags_print(d, stderr, false);
  CHECK(m != NULL);
  if (!m) return;
  Func *f = module_func(m, "f");
  CHECK_STR(rule_text(a, m, f, "d"), "b s k, k n -> b s n  k=reduce(sum)  L0=linear(sum)  L1=linear(sum)");
  CHECK_STR(rule_text(a, m, f, "h"), "x0 x1 (x2 x3) -> (x0 x1) x2 x3  L0=linear(sum)");
  CHECK_STR(rule_text(a, m, f, "k"), "(x0 f1) f4 -> (x0 f2) f3  f1=frozen  f2=frozen  f3=frozen  f4=frozen  L0=linear(sum)");
  CHECK_STR(rule_text(a, m, f, "m"), "x0 x1 x2 -> x0 x1 x2  x2=body");
  CHECK_STR(rule_text(a, m, f, "s"), "x0 x1 x2 -> x0 x1 x2  x1=halo  L0=linear(sum)");
  const Rule *r = rule_of(m, f, op_of(f, func_find(f, "d")));
  const Strategy *list;
  CHECK(strategy_enumerate(m, r, false, &list) > 10);
  Strategy s;
  const char *why;
  CHECK(strategy_parse(m, r, "{k: x, n: y}", &s, &why));
  Text t = {.arena = a};
  strategy_print(m, &t, r, &s);
  text_add(&t, " ");
  layout_print(m, &t, strategy_operand(m, r, &s, 0));
  layout_print(m, &t, strategy_operand(m, r, &s, 1));
  layout_print(m, &t, strategy_result(m, r, &s));
  CHECK_STR(text_str(&t), "{k:x, n:y} {2:x}{0:x, 1:y}{2:y, sum:x}");
  r = rule_of(m, f, op_of(f, func_find(f, "h")));
  CHECK(strategy_parse(m, r, "{x2:x}", &s, &why)); /* unit 6 is invisible: 4 over 2 is even */
  t = (Text){.arena = a};
  layout_print(m, &t, strategy_operand(m, r, &s, 0));
  CHECK_STR(text_str(&t), "{2:x}");
  CHECK(strategy_parse(m, r, "{x2:y}", &s, &why));
  t = (Text){.arena = a};
  layout_print(m, &t, strategy_operand(m, r, &s, 0));
  CHECK_STR(text_str(&t), "{2:y/(6)}");
  CHECK(!strategy_parse(m, r, "{x3:x}", &s, &why));
  CHECK(!strategy_parse(m, r, "{zz:x}", &s, &why));
  module_free(m);
  arena_free(a);
}

int main(void) {
  RUN(round_trip);
  RUN(expressions);
  RUN(division_is_exact);
  RUN(rules);
  return test_summary();
}
