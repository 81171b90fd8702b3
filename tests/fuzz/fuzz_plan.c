/* tests/fuzz/fuzz_plan.c - libFuzzer target: any bytes as a plan of a small network.  A plan that is read is printed,
 * and read again to the same print; a partial plan is read for its lines. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/die.h"
#include "frontend/topo/target.h"
#include "passes/plan/plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *const model =
    "apc.ir 1\nsymbol b hint 8\n"
    "param \"w1\" : f32[8, 16] = zeros\nparam \"w2\" : f32[16, 8] = zeros\n"
    "func @main level 1 {\n"
    "  %x = input {name=\"x\"} : f32[b, 8]\n"
    "  %w1 = param {name=\"w1\"} : f32[8, 16]\n"
    "  %h = dot %x, %w1 {spec=\"bd,df->bf\"} : f32[b, 16]\n"
    "  %a = tanh %h : f32[b, 16]\n"
    "  %w2 = param {name=\"w2\"} : f32[16, 8]\n"
    "  %y = dot %a, %w2 {spec=\"bf,fd->bd\"} : f32[b, 8]\n"
    "  output \"y\" %y\n}\n";

static const char *print(Module *m, const Func *f, const Plan *p, Arena *arena) {
  Text text = {.arena = arena};
  plan_print(m, f, p, &text);
  return text_str(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  Module *m = ir_parse("model.ir", model, diags);
  const Target *t = topo_target_find(diags, arena, "cpux4");
  if (!m || !t) die("the model or target is wrong");
  const Func *f = module_func(m, "main");
  const char *given = arena_strndup(arena, (const char *)bytes, n);
  Diags *ignored = diags_new(arena);
  const PlanFile *file = plan_file_read(arena, "fuzz.plan", given, ignored);
  if (file && file->complete && !plan_said(m, f, t, file, ignored) && !ignored->errors) die("refused without a reason");
  Plan *p = plan_parse(m, f, t, "fuzz.plan", given, diags);
  if (!p && !diags->n) die("refused without a reason");
  if (p) {
    const char *text = print(m, f, p, arena);
    Plan *again = plan_parse(m, f, t, "again.plan", text, diags);
    if (!again) die("what was printed does not parse");
    if (strcmp(text, print(m, f, again, arena)) != 0) die("what was printed is printed differently");
  }
  module_free(m);
  arena_free(arena);
  return 0;
}
