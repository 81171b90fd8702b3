/* IR text round trip, expressions, rules and strategies. */
#include "ir/layout/rule.h"
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
    "  %y = dot %x, %w {spec=\"bm,mn->bn\"} : f32[batch, 6] group \"l0\" mirror \"x\" of 0\n"
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
  CHECK_STR(shown(a, m, ex_div(m, ex_addi(m, ex_muli(m, b, -4), 3), ex_const(m, 8))), "(-b) div 2");
  CHECK_STR(shown(a, m, ex_div_joined(m, ex_addi(m, ex_div(m, b, ex_const(m, 5)), 3), ex_const(m, 2))),
            "(b + 5) div 10 + 1");
  CHECK(ex_div_joined(m, ex_div(m, b, ex_const(m, 5)), ex_const(m, 2)) == ex_div(m, b, ex_const(m, 10)));
  CHECK(!m->expr_fault);
  module_free(m);
  arena_free(a);
}

/* An expression that cannot be computed is 0 and leaves its reason, once; trial evaluations leave none. */
static void faults(Module *m, const char *reason, const Expr *e) {
  CHECK(ex_is_const(e, 0));
  CHECKF(m->expr_fault && strcmp(m->expr_fault, reason) == 0, "%s instead of %s",
         m->expr_fault ? m->expr_fault : "no fault", reason);
  m->expr_fault = NULL;
}

static void hostile_sizes(void) {
  Module *m = module_new();
  int symbol = module_symbol(m, "n");
  const Expr *n = ex_sym(m, symbol), *least = ex_const(m, INT64_MIN), *five = ex_const(m, 5), *e;
  faults(m, "a size does not fit 64 bits", ex_mul(m, ex_const(m, INT64_MAX), ex_const(m, 3)));
  faults(m, "a size is divided by zero", ex_div(m, n, ex_const(m, 0)));
  faults(m, "a size is divided by a negative number", ex_div(m, n, ex_const(m, -2)));
  faults(m, "a size is divided by zero", ex_subst(m, ex_div(m, ex_const(m, 10), ex_sub(m, five, n)), symbol, five));

  CHECK(ex_exact_div(m, ex_mul(m, n, least), ex_muli(m, n, -1)) == NULL);
  CHECK(ex_exact_div(m, ex_mul(m, n, least), ex_addi(m, ex_muli(m, n, 2), 4)) ==
        NULL); /* its remainder is beyond 64 bits */
  CHECK(ex_div(m, ex_mul(m, n, least), ex_sub(m, five, n))->kind == EX_DIV);
  e = ex_div(m, ex_add(m, n, least), ex_const(m, 3)); /* the constant is below the least multiple of 3 */
  for (int64_t v = 0; v < 5; v++) {
    int64_t got, sum = INT64_MIN + v;
    CHECK(ex_eval(e, &v, &got) && got == sum / 3 - (sum % 3 != 0));
  }
  Module *again = ir_parse("least.ir",
                           "apc.ir 1\nsymbol n\nfunc @f level 1 {\n  %s = size {expr=n - 9223372036854775808} : i64[]\n"
                           "  %t = size {expr=-9223372036854775808*n} : i64[]\n  output \"s\" %s\n}\n",
                           diags_new(m->arena));
  Text text = {.arena = m->arena};
  CHECK(again != NULL);
  if (again) module_print(again, &text);
  CHECK(strstr(text_str(&text), "expr=n - 9223372036854775808}") &&
        strstr(text_str(&text), "expr=-9223372036854775808*n}"));
  module_free(again);
  CHECK(ex_min(m, ex_mul(m, n, least), ex_muli(m, n, 3))->kind == EX_MIN); /* their difference is beyond 64 bits */
  CHECK(!m->expr_fault);
  module_free(m);
}

/* (2*n + 1) div 3, repeated, is deep; n div 3 + n div 5 doubles its tree.  Both end at a limit, and smaller ones are
 * printed, read and walked. */
static void large_sizes(void) {
  Arena *a = arena_new();
  Module *m = module_new();
  const Expr *n = ex_sym(m, module_symbol(m, "n")), *deep = n, *wide = n;
  for (int i = 0; !m->expr_fault && i < MAX_EXPR_DEPTH; i++)
    deep = ex_div(m, ex_addi(m, ex_muli(m, deep, 2), 1), ex_const(m, 3));
  faults(m, "a size is nested too deeply", deep);
  for (int i = 0; !m->expr_fault && i < 60; i++)
    wide = ex_add(m, ex_div(m, wide, ex_const(m, 3)), ex_div(m, wide, ex_const(m, 5)));
  CHECK(m->expr_fault && strcmp(m->expr_fault, "a size has too many terms") == 0);
  m->expr_fault = NULL;

  Diags *d = diags_new(a);
  deep = wide = n;
  while (deep->depth + 2 <= MAX_EXPR_DEPTH) deep = ex_div(m, ex_addi(m, ex_muli(m, deep, 2), 1), ex_const(m, 3));
  while (2 * wide->size + 5 <= MAX_EXPR_SIZE)
    wide = ex_add(m, ex_div(m, wide, ex_const(m, 3)), ex_div(m, wide, ex_const(m, 5)));
  CHECK(deep->depth >= MAX_EXPR_DEPTH - 1 && wide->size > MAX_EXPR_SIZE / 4 && !m->expr_fault);
  const char *text = arena_printf(
      a, "apc.ir 1\nsymbol n\nfunc @f level 1 {\n  %%x = input {name=\"x\"} : f32[%s]\n  output \"x\" %%x\n}\n",
      shown(a, m, ex_max(m, deep, wide)));
  Module *again = ir_parse("large.ir", text, d);
  CHECK(again && again->expr_fault == NULL);
  if (again) {
    Text printed = {.arena = a};
    module_print(again, &printed);
    CHECK(strstr(text_str(&printed), shown(a, m, ex_max(m, deep, wide))) != NULL);
  }
  diags_print(d, stderr, false);
  module_free(again);
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

/* Text cannot have a cycle of calls, but a pass may make one. */
static void calls_form_no_cycle(void) {
  static const char *const text =
      "apc.ir 1\n"
      "func @g level 1 {\n  %x = input {name=\"x\"} : f32[4]\n  output \"y\" %x\n}\n"
      "func @f level 1 {\n  %x = input {name=\"x\"} : f32[4]\n  %y = call %x {name=\"g\"} : f32[4]\n  output \"y\" "
      "%y\n}\n";
  Arena *a = arena_new();
  Diags *d = diags_new(a);
  Module *m = ir_parse("calls.ir", text, d);
  CHECK(m && verify_module(m, d));
  Builder b = builder_new(m, module_func(m, "g"), d);
  Val x = 1;
  build_op(&b, &(OpSpec){.kind = OP_call, .nin = 1, .in = &x, .nattrs = 1, .attrs = (Attr[]){attr_s(m, AT_name, "f")}});
  CHECK(!verify_module(m, d) && d->errors == 2);
  for (size_t i = 0; i < d->n; i++) CHECKF(strstr(d->items[i].message, "forms a cycle"), "%s", d->items[i].message);
  module_free(m);
  arena_free(a);
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
  CHECK_STR(rule_text(a, m, f, "k"),
            "(x0 f1) f4 -> (x0 f2) f3  f1=frozen  f2=frozen  f3=frozen  f4=frozen  L0=linear(sum)");
  CHECK_STR(rule_text(a, m, f, "m"), "x0 x1 x2 -> x0 x1 x2  x2=body");
  CHECK_STR(rule_text(a, m, f, "s"), "x0 x1 x2 -> x0 x1 x2  x1=halo  L0=linear(sum)");
  const Rule *r = rule_of(m, f, op_of(f, func_find(f, "d")));
  const Strategy *list;
  CHECK(strategy_enumerate(m->arena, m, r, false, &list) > 10);
  Strategy s;
  const char *why;
  CHECK(strategy_parse(m->arena, &m->mesh, r, "{k: x, n: y}", &s, &why));
  Text t = {.arena = a};
  strategy_print(&m->mesh, &t, r, &s);
  text_add(&t, " ");
  layout_print(m, &t, strategy_operand(m, r, &s, 0));
  layout_print(m, &t, strategy_operand(m, r, &s, 1));
  layout_print(m, &t, strategy_result(m, r, &s, 0));
  CHECK_STR(text_str(&t), "{k:x, n:y} {2:x}{0:x, 1:y}{2:y, sum:x}");
  r = rule_of(m, f, op_of(f, func_find(f, "h")));
  CHECK(strategy_parse(m->arena, &m->mesh, r, "{x2:x}", &s, &why)); /* unit 6 is invisible: 4 over 2 is even */
  t = (Text){.arena = a};
  layout_print(m, &t, strategy_operand(m, r, &s, 0));
  CHECK_STR(text_str(&t), "{2:x}");
  CHECK(strategy_parse(m->arena, &m->mesh, r, "{x2:y}", &s, &why));
  t = (Text){.arena = a};
  layout_print(m, &t, strategy_operand(m, r, &s, 0));
  CHECK_STR(text_str(&t), "{2:y/(6)}");
  CHECK(!strategy_parse(m->arena, &m->mesh, r, "{x3:x}", &s, &why));
  CHECK(!strategy_parse(m->arena, &m->mesh, r, "{zz:x}", &s, &why));
  module_free(m);
  arena_free(a);
}

int main(void) {
  RUN(round_trip);
  RUN(expressions);
  RUN(hostile_sizes);
  RUN(large_sizes);
  RUN(division_is_exact);
  RUN(calls_form_no_cycle);
  RUN(rules);
  return test_summary();
}
