/* tests/fuzz/fuzz_dsl.c - libFuzzer target: any bytes as a model.  A model that loads must print, and its text parse
   back. */
#include <stddef.h>
#include <stdint.h>

#include "base/die.h"
#include "frontend/dsl/dsl.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static void check_text(Module *m, Arena *arena) {
  Text text = {.arena = arena};
  module_print(m, &text);
  Module *again = ir_parse("fuzz.ir", text_str(&text), diags_new(arena));
  if (!again) die("the IR of a model does not parse");
  module_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  static const DslDefine defines[] = {{"layers", "1"}, {"d", "4"}};
  const DslOptions options = {.ndefines = n % 2 ? 2 : 0, .defines = defines, .max_steps = 4000};
  Arena *arena = arena_new();
  char *text = arena_strndup(arena, (const char *)bytes, n);
  Module *m = dsl_load("fuzz.apc", text, &options, diags_new(arena));
  if (m) check_text(m, arena);
  module_free(m);
  arena_free(arena);
  return 0;
}
