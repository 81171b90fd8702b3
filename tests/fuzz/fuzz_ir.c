/* tests/fuzz/fuzz_ir.c - libFuzzer target: any bytes as IR text.  If it parses it is verified; its print parses again
 * to the same print, with the same verdict; sizes that cannot be computed (V3) are only refused. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/die.h"
#include "ir/ir.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

static const char *print(Module *m, Arena *arena) {
  Text text = {.arena = arena};
  module_print(m, &text);
  return text_str(&text);
}

static void check_again(Module *m, bool valid, Arena *arena) {
  const char *text = print(m, arena);
  Module *again = ir_parse("fuzz.ir", text, diags_new(arena));
  if (!again) die("what was printed does not parse");
  if (strcmp(text, print(again, arena)) != 0) die("what was printed is printed differently");
  if (verify_module(again, diags_new(arena)) != valid) die("what was printed is judged differently");
  module_free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  Arena *arena = arena_new();
  Diags *diags = diags_new(arena);
  Module *m = ir_parse("fuzz.ir", arena_strndup(arena, (const char *)bytes, n), diags);
  if (!m && diags->n == 0) die("refused without a reason");
  if (m) {
    size_t before = diags->n;
    bool valid = verify_module(m, diags);
    if (valid != (diags->n == before)) die("the verdict and the diagnostics differ");
    if (m->expr_fault && valid) die("a size that cannot be computed passed");
    if (!m->expr_fault) check_again(m, valid, arena);
  }
  module_free(m);
  arena_free(arena);
  return 0;
}
