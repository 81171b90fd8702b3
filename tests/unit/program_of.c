/* Programs of several entries: shared kernels, and states on which they must agree. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "codegen/program.h"
#include "ir/ir.h"
#include "tests/test.h"

typedef struct Made {
  Arena *arena;
  Diags *diags;
  Module *m;
  ProgramResult result;
  bool ok;
} Made;

/* Two entries, each of a level-1 function and its level-2 function: a1, a2, b1, b2. */
static Made make(const char *text) {
  Made x = {.arena = arena_new()};
  x.diags = diags_new(x.arena);
  x.m = ir_parse("test", text, x.diags);
  if (!x.m || !verify_module(x.m, x.diags)) {
    diags_print(x.diags, stderr, false);
    exit(1);
  }
  ProgramEntrySpec entries[2] = {{"a", module_func(x.m, "a1"), module_func(x.m, "a2")},
                                 {"b", module_func(x.m, "b1"), module_func(x.m, "b2")}};
  ProgramSource source = {.m = x.m, .nentries = 2, .entries = entries, .device = target_device_traits(DEVICE_cpu)};
  Legal *legal = legalise(&source);
  kernels_print(legal);
  x.ok = codegen_program_of(legal, &x.result, x.diags);
  return x;
}

static void done(Made *x) {
  if (x->ok) program_builder_free(x->result.b);
  module_free(x->m);
  arena_free(x->arena);
}

#define HEAD "apc.ir 1\nsymbol b hint 4\nmesh [tp=2] stages 1\nstate \"st\" : f32[4,8] = 0\n"

/* A function of one input: `twice` softmaxes one after the other. */
#define SOFTMAX(name, level, layout, rows) \
  "func @" name " level " level " {\n  %x = input {name=\"x\"} : f32[" rows ",8]" layout \
  "\n  %s = softmax %x {axis=1} : f32[" rows \
  ",8]\n" \
  "  %t = softmax %s {axis=1} : f32[" rows ",8]\n  output \"t\" %t" layout "\n}\n"

static void equal_kernels_are_one(void) {
  /* Entry a has the two softmaxes in one kernel, and so has b, with other extents: one kernel, launched twice. */
  Made x = make(HEAD SOFTMAX("a1", "1", "", "b") SOFTMAX("a2", "2", " @{}", "b") SOFTMAX("b1", "1", "", "2*b")
                    SOFTMAX("b2", "2", " @{}", "2*b"));
  uint32_t launches = 0;
  CHECK(x.ok);
  CHECK(x.result.kernels.n == 1 && program_count_kernels(x.result.b) == 1);
  for (uint32_t i = 0; i < program_count_instrs(x.result.b); i++)
    launches += program_at_instrs(x.result.b, i)->kind == PI_launch;
  CHECK(launches == 2);
  done(&x);
}

#define READ(name, level, dims, layout) \
  "func @" name " level " level " {\n  %r = read {name=\"st\"} : f32[" dims "]" layout "\n  %e = exp %r : f32[" dims \
  "]\n" \
  "  output \"e\" %e" layout "\n}\n"
#define L1 READ("a1", "1", "4,8", "") READ("b1", "1", "4,8", "")

static void entries_agree_on_states(void) {
  Made same = make(HEAD L1 READ("a2", "2", "4,4", " @{1:tp}") READ("b2", "2", "4,4", " @{1:tp}"));
  CHECK(same.ok && program_count_states(same.result.b) == 1);
  done(&same);
  Made differ = make(HEAD L1 READ("a2", "2", "4,4", " @{1:tp}") READ("b2", "2", "2,8", " @{0:tp}"));
  CHECK(!differ.ok);
  char *said = NULL;
  size_t n = 0;
  FILE *f = open_memstream(&said, &n);
  diags_print(differ.diags, f, false);
  fclose(f);
  CHECK(strstr(said, "APC0407") && strstr(said, "{1:tp}") && strstr(said, "{0:tp}"));
  free(said);
  done(&differ);
}

int main(void) {
  RUN(equal_kernels_are_one);
  RUN(entries_agree_on_states);
  return test_summary();
}
