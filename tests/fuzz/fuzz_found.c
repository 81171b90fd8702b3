/* tests/fuzz/fuzz_found.c - libFuzzer target: any bytes as a file about a machine.  An accepted file gives a text
 * that the target language's parser accepts; a refused one has a reason. */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/die.h"
#include "frontend/topo/found.h"
#include "frontend/topo/topo.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n);

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t n) {
  for (int xml = 0; xml < 2; xml++) {
    Arena *arena = arena_new();
    Diags *diags = diags_new(arena);
    const char *text = arena_strndup(arena, (const char *)bytes, n);
    FoundMachine *m = ARENA_NEW(arena, FoundMachine);
    *m = (FoundMachine){.arena = arena, .diags = diags, .file = "fuzz", .notes = {.arena = arena}};
    m->given = topo_found_kind("V100-SXM2-16GB");
    bool ok = xml ? topo_found_xml(m, text, strlen(text)) : topo_found_smi(m, text);
    const char *out = ok ? topo_found_print(m, "found") : NULL;
    TopoFile file = {0};
    if (!out && diags->errors == 0) die("refused without a reason");
    if (out && !(topo_parse(diags, arena, "found", out, &file) && topo_check(diags, &file))) die("%s", out);
    arena_free(arena);
  }
  return 0;
}
