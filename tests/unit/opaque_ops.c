/* Opaque operations: unknown operators are planned on whole operands, proved as unknown functions, and never
 * computed. */
#include <stdlib.h>
#include <string.h>

#include "ir/run/interp.h"
#include "ir/opaque.h"
#include "proof/prove.h"
#include "ir/layout/rule.h"
#include "passes/lower/lower.h"
#include "tests/test.h"

static Arena *arena;
static Diags *diags;

static Module *parsed(const char *text) {
  diags = diags_new(arena);
  Module *m = ir_parse("t.ir", text, diags);
  if (m && verify_module(m, diags)) return m;
  diags_print(diags, stderr, false);
  exit(1);
}

static const char level1[] =
    "apc.ir 1\nmesh [a=2]\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[4, 6]\n"
    "  %t = tanh %x : f32[4, 6]\n"
    "  %u = opaque %t, %x {kind=\"com.x.Foo\", name=\"n\", result=0} : f32[4, 5]\n"
    "  %v = opaque %t, %x {kind=\"com.x.Foo\", name=\"n\", result=1} : f32[4, 5]\n"
    "  %y = sub %u, %v : f32[4, 5]\n"
    "  output \"y\" %y\n}\n";

static void the_text_is_a_fixed_point(void) {
  Module *m = parsed(level1);
  Text t = {.arena = arena}, again = {.arena = arena};
  module_print(m, &t);
  Module *n = parsed(text_str(&t));
  module_print(n, &again);
  CHECK(strcmp(text_str(&t), text_str(&again)) == 0);
  module_free(m);
  module_free(n);
}

static Op *op_named(Func *f, const char *name) {
  for (size_t i = 0; i < f->ops.n; i++)
    if (strcmp(f->ops.items[i].name, name) == 0) return &f->ops.items[i];
  return NULL;
}

/* tanh and sub are cut, so that the operands have to be gathered for the operator and its results cut again. */
static Func *lowered(Module *m, Func *f) {
  Strategy *s = ARENA_ARRAY(m->arena, Strategy, f->ops.n);
  const char *why;
  for (size_t i = 0; i < f->ops.n; i++) {
    OpKind k = f->ops.items[i].kind;
    if (k == OP_tanh || k == OP_sub || k == OP_input)
      CHECK(strategy_parse(m->arena, &m->mesh, rule_of(m, f, &f->ops.items[i]), "{x0:a}", &s[i], &why));
  }
  Func *l2 = lower_spmd(m, f, &(LowerPlan){.strategies = s}, "rank", diags);
  CHECK(l2 && verify_func(m, l2, diags));
  return l2;
}

static void it_is_replicated_and_proved(void) {
  Module *m = parsed(level1);
  Func *f = module_func(m, "main"), *l2 = lowered(m, f);
  const Strategy *all;
  CHECK(strategy_enumerate(m->arena, m, rule_of(m, f, op_named(f, "u")), true, &all) == 1);
  CHECK(type_of(l2, op_named(l2, "u")->out) == type_of(f, op_named(f, "u")->out));
  CHECK(type_of(l2, op_named(l2, "y")->out) != type_of(f, op_named(f, "y")->out));
  CHECK(prove(m, f, l2).verdict == PROVED);
  module_free(m);
}

/* The other result of the node, another node, another order of operands: another function. */
static void faults_are_refuted(void) {
  static const struct {
    const char *from, *to;
  } faults[] = {
      {"result=1", "result=0"},
      {"%v = opaque %t, %x {kind=\"com.x.Foo\", name=\"n\"", "%v = opaque %t, %x {kind=\"com.x.Foo\", name=\"m\""},
      {"%v = opaque %t, %x", "%v = opaque %x, %t"},
      {"%v = opaque %t, %x {kind=\"com.x.Foo\"", "%v = opaque %t, %x {kind=\"com.x.Bar\""}};
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    const char *at = strstr(level1, faults[i].from);
    char *wrong =
        arena_printf(arena, "%.*s%s%s", (int)(at - level1), level1, faults[i].to, at + strlen(faults[i].from));
    char *func = strstr(wrong, "@main");
    memcpy(func, "@fake", 5);
    Module *m = parsed(arena_printf(arena, "%s%s", level1, func - strlen("func ")));
    Func *l2 = lowered(m, module_func(m, "fake"));
    CHECK(prove(m, module_func(m, "fake"), l2).verdict == PROVED);
    CHECK(prove(m, module_func(m, "main"), l2).verdict == REFUTED);
    module_free(m);
  }
}

/* A local part is not the operator's intended operand. */
static void cut_operands_are_refuted(void) {
  Module *m = parsed(
      "apc.ir 1\nmesh [a=2]\n"
      "func @main level 1 {\n"
      "  %x = input {name=\"x\"} : f32[4]\n"
      "  %y = opaque %x {kind=\"Foo\", name=\"n\", result=0} : f32[4]\n"
      "  output \"y\" %y\n}\n"
      "func @rank level 2 {\n"
      "  %x = input {name=\"x\"} : f32[2] @{0:a}\n"
      "  %y = opaque %x {kind=\"Foo\", name=\"n\", result=0} : f32[2]\n"
      "  output \"y\" %y @{0:a}\n}\n");
  CHECK(prove(m, module_func(m, "main"), module_func(m, "rank")).verdict == REFUTED);
  module_free(m);
}

static void it_is_not_interpreted(void) {
  Module *m = parsed(level1);
  InterpTensor x = interp_tensor(arena, DT_f32, 2, (int64_t[]){4, 6});
  InterpNamed in = {"x", x};
  InterpResult r;
  memset(x.cells, 0, sizeof *x.cells * 24);
  CHECK(!interp_run(m, module_func(m, "main"), &(InterpOptions){.domain = DOMAIN_FLOAT}, 1, &in, arena, &r, diags));
  CHECK(diags->n && strstr(diags->items[0].message, "operator com.x.Foo is unknown"));
  module_free(m);
}

static void the_user_hears_of_it_once(void) {
  Module *m = parsed(level1);
  CHECK(opaque_any(m));
  opaque_report(m, false, diags);
  CHECK(diags->errors == 0 && diags->warnings == 1);
  CHECK(strstr(diags->items[0].message, "com.x.Foo is not known (1 node)"));
  opaque_report(m, true, diags);
  CHECK(diags->errors == 1);
  module_free(m);
}

int main(void) {
  arena = arena_new();
  RUN(the_text_is_a_fixed_point);
  RUN(it_is_replicated_and_proved);
  RUN(faults_are_refuted);
  RUN(cut_operands_are_refuted);
  RUN(it_is_not_interpreted);
  RUN(the_user_hears_of_it_once);
  arena_free(arena);
  return test_summary();
}
