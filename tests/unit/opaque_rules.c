/* Rules of operators (ir/opaque_rule.h): texts and their faults, extents and types, the factors that may be cut, and
 * the meaning modulo p: over all strategies, lowered operators compute what level 1 does, the proof holds, and faults
 * in them are found by both. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ir/layout/count.h"
#include "ir/opaque.h"
#include "ir/opaque_rule.h"
#include "ir/run/interp.h"
#include "passes/lower/lower.h"
#include "proof/prove.h"
#include "tests/test.h"

static Arena *arena;

/* ---- texts */

static void faults_are_placed(void) {
  static const struct {
    const char *text, *why;
    size_t at;
  } cases[] = {
      {"a b", "expected a comma or ->", 3},
      {"", "expected a dimension, or ()", 0},
      {"a ->", "expected a dimension, or ()", 4},
      {"a, -> a", "expected a dimension, or ()", 3},
      {"a.. b.. -> a..", "a second name with ..", 4},
      {"a.. -> a", "stands for one dimension", 7},
      {"a -> b", "only results have 'b'", 5},
      {"a -> b..", "only results have b..", 5},
      {"(a) -> a", "two names or more", 0},
      {"(a b.. -> a", "b.. cannot be part", 3},
      {"(a b c d e) -> a", "more than 4 names", 9},
      {"a -> a; frozen: c", "no tensor of the rule has the dimension 'c'", 16},
      {"a -> a; sum: a", "a result has 'a'", 13},
      {"a -> a; one: a", "is no clause", 8},
      {"a b c -> a; sum: b; max: c", "do not go together", 20},
      {"a b -> a; sum: b b", "has two clauses", 17},
      {"a -> a; b", "expected : or =", 9},
      {"a -> a; a..=2", "expected : or =", 9},
      {"a -> a; work=", "expected a number", 13},
      {"a -> a; work=(2", "expected )", 15},
      {"a -> a; work=1; work=2", "'work' is given twice", 16},
      {"a -> n m; n=m; m=n", "depends on itself", 5},
      {"a b -> n; n=b; sum: b", "determines an extent", 2},
      {"a a b -> b; sum: a", "cannot be reduced in parts", 0},
      {"a.. a0 -> a..", "one of the dimensions of a..", 4},
      {"1a -> a", "a name begins with a letter", 0},
      {"99999999999999999999 -> a", "too large", 0},
      {"a b c d e f g h i -> a", "more than 8 dimensions", 16},
      {"a -> a, a, a, a, a", "more than 4 results", 17},
      {"a -> a; function=9", "expected the name of a C function", 17},
      {"a -> a extra, a", "only results have 'extra'", 7},
      {"a -> a!", "expected a comma, a semicolon or the end", 6},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    OpaqueFault fault = {"accepted", 0};
    const OpaqueRule *r = opaque_rule_parse(arena, cases[i].text, &fault);
    CHECKF(!r && strstr(fault.why, cases[i].why) && fault.at == cases[i].at, "'%s': %s at %zu", cases[i].text,
           fault.why, fault.at);
  }
  char *deep = arena_alloc(arena, 400), *longest = arena_alloc(arena, OPAQUE_TEXT + 10);
  strcpy(deep, "a -> a; work=");
  memset(deep + 13, '(', 300);
  memset(longest, 'a', OPAQUE_TEXT + 5);
  OpaqueFault fault;
  CHECK(!opaque_rule_parse(arena, deep, &fault) && strstr(fault.why, "parentheses inside each other"));
  CHECK(!opaque_rule_parse(arena, longest, &fault) && strstr(fault.why, "at most"));
}

/* Names that may be cut, those with a reduction in capitals. */
static const char *cut_by(const char *text) {
  OpaqueFault fault;
  Text t = {.arena = arena};
  const OpaqueRule *r = opaque_rule_parse(arena, text, &fault);
  for (int i = 0; r && i < r->nnames; i++)
    if (!r->names[i].frozen) text_printf(&t, "%s%s", r->names[i].name, r->names[i].reduction != RED_NONE ? "+" : " ");
  return r ? text_str(&t) : fault.why;
}

static void what_may_be_cut(void) {
  CHECK_STR(cut_by("b.. k -> b.. k"), "b k ");
  CHECK_STR(cut_by("b.. k -> b.. k; frozen: k;"), "b ");
  CHECK_STR(cut_by("m k, k n -> m n"), "m n ");
  CHECK_STR(cut_by("m k, k n -> m n; sum: k"), "m k+n ");
  CHECK_STR(cut_by("m k -> m, m k"), "m ");
  CHECK_STR(cut_by("m k -> m n; n=2*k"), "m ");
  CHECK_STR(cut_by("n n k -> n k"), "k ");
  CHECK_STR(cut_by("b (h k) -> b h; k=4"), "b h ");
  CHECK_STR(cut_by("-> f32 n; n=8"), "");
  CHECK_STR(cut_by("(), 3 k -> 3 k"), "k ");
  OpaqueFault fault;
  CHECK_STR(opaque_function(arena, "a.b/c-Op", NULL), "a_b_c_Op");
  CHECK_STR(opaque_function(arena, "1x", NULL), "_1x");
  CHECK_STR(opaque_function(arena, "my.Op", opaque_rule_parse(arena, "k -> k; function=f2", &fault)), "f2");
}

/* ---- types */

static const char *bound(const char *rule, const char *attributes, const char *types) {
  Diags *diags = diags_new(arena);
  Module *m = ir_parse(
      "t.ir", arena_printf(arena, "apc.ir 1\nsymbol s\nfunc @main level 1 {\n%s  output \"o\" %%x0\n}\n", types),
      diags);
  const Type *in[MAX_OPERANDS];
  int n = 0;
  OpaqueFault fault;
  OpaqueBound b;
  const char *why;
  Text t = {.arena = arena};
  if (!m) exit(1);
  const Func *f = module_func(m, "main");
  for (size_t i = 0; i < f->ops.n; i++) in[n++] = type_of(f, f->ops.items[i].out);
  const OpaqueRule *r = opaque_rule_parse(arena, rule, &fault);
  if (!r) return fault.why;
  bool ok = opaque_bind(m, r, n, in, attributes, false, &b, &why);
  for (int i = 0; ok && i < r->nresults; i++) {
    if (i) text_add(&t, ", ");
    type_print(m, &t, b.results[i]);
  }
  why = ok ? text_str(&t) : arena_strdup(arena, why);
  module_free(m);
  return why;
}

static void extents_and_types(void) {
  static const char x[] = "  %x0 = input {name=\"a\"} : f32[s, 6, 8]\n",
                    y[] = "  %x1 = input {name=\"b\"} : i64[8, 5]\n";
  const char *both = arena_printf(arena, "%s%s", x, y);
  CHECK_STR(bound("b.. k -> b.. k", NULL, x), "f32[s, 6, 8]");
  CHECK_STR(bound("b.. k -> i64 b.., k", NULL, x), "i64[s, 6], f32[8]");
  CHECK_STR(bound("b.. k, k n -> b.. n", NULL, both), "f32[s, 6, 5]");
  CHECK_STR(bound("b s (h k) -> b (h s) k; k=2", NULL, x), "f32[s, 24, 2]");
  CHECK_STR(bound("b s (h k) -> b h n; k=size; n=(k+2)*h/3-1", "{\"size\":2}", x), "f32[s, 4, 4]");
  CHECK_STR(bound("b 6 8 -> () ", NULL, x), "f32[]");
  CHECK(strstr(bound("b.. k -> b..", NULL, both), "it has 2 operands, its rule has 1"));
  CHECK(strstr(bound("b k -> b", NULL, x), "operand 0 has 3 dimensions, its rule has 2"));
  CHECK_STR(bound("b.. c d e f -> c", NULL, x), "operand 0 has 3 dimensions, its rule has at least 4");
  CHECK(strstr(bound("b.. k, n k -> b.. n", NULL, both), "'k' of its rule is 8 in one place and 5 in another"));
  CHECK(strstr(bound("b 5 k -> b", NULL, x), "dimension 1 of operand 0 is 6, its rule says 5"));
  CHECK(strstr(bound("i64 b.. k -> b..", NULL, x), "operand 0 is f32, its rule says i64"));
  CHECK(strstr(bound("b s (h k) -> b; k=3", NULL, x), "8 is no multiple of 3"));
  CHECK(strstr(bound("b s (h k) -> b", NULL, x), "does not follow from the operands"));
  CHECK(
      strstr(bound("b.. k -> n; n=width", NULL, x), "'width', which is neither a dimension nor an integer attribute"));
  CHECK(strstr(bound("b s k -> b n; n=k/0", NULL, x), "cannot be computed"));
  CHECK_STR(bound("b s k -> b; scratch=k-100", NULL, x), "scratch is -92");
  CHECK_STR(bound("b s k -> b; scratch=k*bytes", "{\"bytes\":-1}", x), "scratch is -8");
  CHECK_STR(bound("b s k -> b; scratch=1099511627777", NULL, x),
            "scratch is 1099511627777 bytes, which is more than 2^40");
  CHECK_STR(bound("b s k -> b; scratch=1099511627776", NULL, x), "f32[s]");
  CHECK_STR(bound("b s k -> b; scratch=k*4611686018427387904", NULL, x), "scratch has no size of 64 bits");
  CHECK_STR(bound("b s k -> b; scratch=k/(s-6)", NULL, x), "scratch has no size of 64 bits");
  CHECK_STR(bound("b s k -> b; scratch=b-100", NULL, x), "f32[s]"); /* b has no number */
  CHECK(strstr(bound("a.. k, a.. -> k", NULL, both), "in one place") != NULL);
}

/* ---- sharding */

static Module *parsed(const char *text) {
  Diags *diags = diags_new(arena);
  Module *m = ir_parse("t.ir", text, diags);
  if (m && verify_module(m, diags)) return m;
  diags_print(diags, stderr, false);
  exit(1);
}

static Op *op_named(Func *f, const char *name) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (strcmp(f->ops.items[i].name, name) == 0) return &f->ops.items[i];
  return NULL;
}

static InterpResult values(Module *m, const Func *f, int n, const InterpNamed *in, bool *ok) {
  Diags *diags = diags_new(arena);
  InterpOptions o = {.domain = DOMAIN_MODP};
  InterpResult r = {0};
  *ok = interp_run(m, f, &o, n, in, arena, &r, diags);
  if (!*ok) diags_print(diags, stderr, false);
  return r;
}

/* True if both give the same numbers modulo p for random inputs of @main. */
static bool agree(Module *m, const Func *l1, const Func *l2) {
  bool one, many, same = true;
  int n;
  const InterpNamed *in =
      interp_random_inputs(m, l1, DOMAIN_MODP, interp_symbols(m, arena), 7, arena, &n, diags_new(arena));
  InterpResult a = values(m, l1, n, in, &one), b = values(m, l2, n, in, &many);
  for (int i = 0; one && many && i < a.noutputs; i++)
    same &= interp_equal(&a.outputs[i].tensor, &b.outputs[i].tensor, DOMAIN_MODP, 0, arena, NULL);
  return one && many && same;
}

#define OPERATOR(rule) \
  "apc.ir 1\nsymbol s hint 5\nmesh [a=2, b=3]\n" \
  "func @main level 1 {\n" \
  "  %x = input {name=\"x\"} : f32[s, 4, 6]\n" \
  "  %w = input {name=\"w\"} : f32[6, 3]\n" rule "  output \"y\" %y\n}\n"

static const char *const operators[] = {
    OPERATOR("  %y = opaque %x, %w {kind=\"O\", rule=\"b.. k, k n -> b.. n; sum: k\"} : f32[s, 4, 3]\n"),
    OPERATOR("  %y = opaque %x, %w {kind=\"O\", rule=\"b.. k, k n -> b.. n\"} : f32[s, 4, 3]\n"),
    OPERATOR("  %y = opaque %x, %w {kind=\"O\", rule=\"b s (h k), n m -> (b s) h m; k=2; max: n\"} : f32[4*s, 3, 3]\n"),
    OPERATOR(
        "  %z, %y = opaque %x, %w {kind=\"O\", rule=\"b s k, k n -> b n, k b; product: s\"} : f32[s, 3], f32[6, s]\n"),
    OPERATOR("  %y = opaque %x, %x {kind=\"O\", rule=\"b q k, b t k -> b q t; sum: k\"} : f32[s, 4, 4]\n"),
};

/* Lowers @main with one strategy for the operator; NULL if there is none of that number. */
static Func *lowered(Module *m, int number) {
  Func *f = module_func(m, "main");
  Strategy *s = ARENA_ARRAY(m->arena, Strategy, f->ops.n);
  const Strategy *all;
  for (size_t i = 0; i < f->ops.n; i++) {
    if (f->ops.items[i].kind != OP_opaque) continue;
    if (number >= strategy_enumerate(m->arena, m, rule_of(m, f, &f->ops.items[i]), true, &all)) return NULL;
    s[i] = all[number];
  }
  Diags *diags = diags_new(arena);
  Func *l2 = lower_spmd(m, f, &(LowerPlan){.strategies = s}, "rank", diags);
  CHECK(l2 && verify_func(m, l2, diags));
  return l2;
}

static void every_strategy_is_proved_and_right(void) {
  int most = 0, cut = 0;
  for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
    Module *m = parsed(operators[i]);
    int n = 0;
    for (Func *l2; (l2 = lowered(m, n)); n++) {
      CHECKF(prove(m, module_func(m, "main"), l2).verdict == PROVED, "operator %zu, strategy %d", i, n);
      CHECKF(agree(m, module_func(m, "main"), l2), "operator %zu, strategy %d", i, n);
      const Op *op = op_named(l2, "y");
      if (!op) op = op_named(l2, "z");
      cut += type_of(l2, op->in[0]) != type_of(module_func(m, "main"), op_named(module_func(m, "main"), "x")->out);
    }
    if (n > most) most = n;
    module_free(m);
  }
  printf("%d strategies of one operator, %d with cut operands\n", most, cut);
  CHECK(most > 10 && cut > 30);
}

/* A rank's program that cuts what the rule keeps whole, or takes parts for the whole. */
static void faults_are_found(void) {
  static const char head[] = "apc.ir 1\nmesh [a=2]\nfunc @main level 1 {\n  %x = input {name=\"x\"} : f32[4, 6]\n";
  static const struct {
    const char *level1, *level2;
  } cases[] = {
      {"  %y = opaque %x {kind=\"O\", rule=\"b k -> b k; frozen: k\"} : f32[4, 6]\n",
       "  %x = input {name=\"x\"} : f32[4, 3] @{1:a}\n"
       "  %y = opaque %x {kind=\"O\", rule=\"b k -> b k; frozen: k\"} : f32[4, 3]\n  output \"y\" %y @{1:a}\n"},
      {"  %y = opaque %x {kind=\"O\", rule=\"b k -> b; sum: k\"} : f32[4]\n",
       "  %x = input {name=\"x\"} : f32[4, 3] @{1:a}\n"
       "  %p = opaque %x {kind=\"O\", rule=\"b k -> b; sum: k\"} : f32[4]\n"
       "  %y = all_reduce %p {op=max, mesh_axes=[a]} : f32[4]\n  output \"y\" %y @{}\n"},
      {"  %y = opaque %x {kind=\"O\", rule=\"b k -> b k\"} : f32[4, 6]\n",
       "  %x = input {name=\"x\"} : f32[2, 6] @{0:a}\n"
       "  %p = opaque %x {kind=\"P\", rule=\"b k -> b k\"} : f32[2, 6]\n  output \"y\" %p @{0:a}\n"},
      {"  %y = opaque %x {kind=\"O\", rule=\"b k -> b k\", attributes=\"{\\\"n\\\":1}\"} : f32[4, 6]\n",
       "  %x = input {name=\"x\"} : f32[2, 6] @{0:a}\n"
       "  %p = opaque %x {kind=\"O\", rule=\"b k -> b k\", attributes=\"{\\\"n\\\":2}\"} : f32[2, 6]\n  output \"y\" "
       "%p @{0:a}\n"},
      {"  %y = opaque %x {kind=\"O\", rule=\"b k -> b k; frozen: k\"} : f32[4, 6]\n",
       "  %x = input {name=\"x\"} : f32[2, 6] @{0:a}\n"
       "  %p = opaque %x {kind=\"O\", rule=\"b k -> b k\"} : f32[2, 6]\n  output \"y\" %p @{0:a}\n"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Module *m = parsed(arena_printf(arena, "%s%s  output \"y\" %%y\n}\nfunc @rank level 2 {\n%s}\n", head,
                                    cases[i].level1, cases[i].level2));
    CHECKF(prove(m, module_func(m, "main"), module_func(m, "rank")).verdict == REFUTED, "fault %zu", i);
    if (i < 3) CHECKF(!agree(m, module_func(m, "main"), module_func(m, "rank")), "fault %zu", i);
    module_free(m);
  }
}

/* Texts that break V2. */
static void verified(void) {
  static const struct {
    const char *op, *why;
  } cases[] = {
      {"%y = opaque %x {kind=\"O\", rule=\"b k ->\"} : f32[4]", "rule, character 7: expected a dimension"},
      {"%y = opaque %x {kind=\"O\", rule=\"b k -> b\"} : f32[6]", "the result is f32[4], written as f32[6]"},
      {"%y = opaque %x {kind=\"O\", rule=\"b -> b\"} : f32[4]", "operand 0 has 2 dimensions"},
      {"%y = opaque %x {kind=\"O\", rule=\"b k -> b\", name=\"n\"} : f32[4]", "for operators without a rule"},
      {"%y = opaque %x {kind=\"O\", attributes=\"{}\"} : f32[4]", "attributes without a rule"},
      {"%y = opaque %x {kind=\"O\"} : f32[4]", "needs attribute name"},
      {"%y = opaque %x {kind=\"O\", rule=\"b k -> bool b; sum: k\"} : bool[4]", "result 0 is bool, which has no sum"},
      {"%y, %z = opaque %x {kind=\"O\", rule=\"b k -> b\"} : f32[4], f32[4]", "has 1 results here, not 2"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    Diags *diags = diags_new(arena);
    Module *m = ir_parse(
        "t.ir",
        arena_printf(
            arena,
            "apc.ir 1\nfunc @main level 1 {\n  %%x = input {name=\"x\"} : f32[4, 6]\n  %s\n  output \"y\" %%y\n}\n",
            cases[i].op),
        diags);
    bool said = diags->n && strstr(diags->items[0].message, cases[i].why);
    CHECKF(!m && said, "%s: %s", cases[i].op, diags->n ? diags->items[0].message : "accepted");
    if (m) module_free(m);
  }
}

/* work= is counted on a rank's part. */
static void work_is_counted(void) {
  Module *m = parsed(OPERATOR(
      "  %y = opaque %x, %w {kind=\"O\", rule=\"b.. k, k n -> b.. n; sum: k; work=2*b*k*n\"} : f32[s, 4, 3]\n"));
  Func *f = module_func(m, "main");
  const Op *op = op_named(f, "y");
  OpPart p = {.op = op, .rule = rule_of(m, f, op)};
  for (int i = 0; i < p.rule->nfactors; i++) p.size[i] = 2;
  CHECK(op_flops(&p) == 2 * 4 * 2 * 2);
  module_free(m);
}

int main(void) {
  arena = arena_new();
  RUN(faults_are_placed);
  RUN(what_may_be_cut);
  RUN(extents_and_types);
  RUN(every_strategy_is_proved_and_right);
  RUN(faults_are_found);
  RUN(verified);
  RUN(work_is_counted);
  arena_free(arena);
  return test_summary();
}
